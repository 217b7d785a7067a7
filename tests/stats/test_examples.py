"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import phasefusion.stats

MODULES = ["phasefusion._random", "phasefusion.orders", "phasefusion.fusion"]
MODULES += [
    f"phasefusion.stats.{module.name}"
    for module in pkgutil.iter_modules(phasefusion.stats.__path__)
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("name", ["orders", "fusion", "stats"])
def test_every_public_function_has_an_example(name):
    module = importlib.import_module(f"phasefusion.{name}")
    for public in module.__all__:
        value = getattr(module, public)
        if not isinstance(value, type):
            assert ">>>" in value.__doc__, public
