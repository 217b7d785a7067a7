"""The examples in the docstrings of every module, and of the pages, run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import phasefusion

MODULES = [
    module.name
    for module in pkgutil.walk_packages(phasefusion.__path__, "phasefusion.")
    if not module.name.rpartition(".")[2].startswith("__")
]

ROOT = Path(__file__).parents[1]
PAGES = [page for page in sorted(ROOT.glob("docs/*.md")) if ">>> " in page.read_text()]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_pages(page):
    found = doctest.testfile(str(page), module_relative=False)
    assert found.failed == 0
    assert found.attempted > 0


def test_no_example_is_left_out():
    parser = doctest.DocTestFinder()
    for name in MODULES:
        for found in parser.find(importlib.import_module(name)):
            for example in found.examples:
                assert doctest.SKIP not in example.options, found.name


@pytest.mark.parametrize("name", ["frames", "grid", "orders", "fusion", "stats"])
def test_every_public_function_has_an_example(name):
    module = importlib.import_module(f"phasefusion.{name}")
    for public in module.__all__:
        value = getattr(module, public)
        if inspect.isroutine(value):
            assert ">>>" in value.__doc__, public
