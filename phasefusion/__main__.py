"""``python -m phasefusion``, and what launchers start by the name of a module."""

from phasefusion.cli import main

if __name__ == "__main__":
    main()
