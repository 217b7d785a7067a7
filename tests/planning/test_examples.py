"""The examples in the docstrings run."""

import doctest
import importlib
import pkgutil

import pytest

import phasefusion.planning

MODULES = [
    f"phasefusion.planning.{module.name}"
    for module in pkgutil.iter_modules(phasefusion.planning.__path__)
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_every_public_function_has_an_example():
    for name in phasefusion.planning.__all__:
        value = getattr(phasefusion.planning, name)
        if not isinstance(value, type) and name != "pilot":  # it needs a run
            assert ">>>" in value.__doc__, name
