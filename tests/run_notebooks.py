"""Execute notebooks in place; leave out, with a reason, what misses its packages.

Usage: python tests/run_notebooks.py notebooks/*.ipynb
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path


def missing_packages(path):
    """Return what a notebook says that it needs and that cannot be imported here."""
    metadata = json.loads(Path(path).read_text())["metadata"]
    needs = metadata.get("phasefusion", {}).get("needs", [])
    return [name for name in needs if importlib.util.find_spec(name) is None]


def drop_warnings(path):
    """Take out what went to standard error: bars, and folders of this machine."""
    path = Path(path)
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        cell.get("metadata", {}).pop("execution", None)
        if "outputs" in cell:
            kept = (o for o in cell["outputs"] if o.get("name") != "stderr")
            cell["outputs"] = list(kept)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def main(paths):
    for path in paths:
        missing = missing_packages(path)
        if missing:
            print(f"== {path}: left out, needs {', '.join(missing)}")
            continue
        print(f"== {path}")
        command = [sys.executable, "-m", "nbconvert", "--to", "notebook"]
        subprocess.run([*command, "--execute", "--inplace", path], check=True)
        drop_warnings(path)


if __name__ == "__main__":
    main(sys.argv[1:])
