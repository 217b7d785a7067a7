"""The examples in the docstrings run."""

import doctest
import importlib
import pkgutil

import pytest

import phasefusion.audit

MODULES = ["phasefusion.audit"]
MODULES += [
    f"phasefusion.audit.{one.name}"
    for one in pkgutil.iter_modules(phasefusion.audit.__path__)
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
