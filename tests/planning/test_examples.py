"""Every function shows how it is called."""

import phasefusion.planning


def test_every_public_function_has_an_example():
    for name in phasefusion.planning.__all__:
        value = getattr(phasefusion.planning, name)
        if not isinstance(value, type) and name != "pilot":  # it needs a run
            assert ">>>" in value.__doc__, name
