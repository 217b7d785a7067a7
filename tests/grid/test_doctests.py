"""The examples in the docstrings of this stage."""

from __future__ import annotations

import doctest

import pytest

from phasefusion import grid, samplers


@pytest.mark.parametrize("module", [grid, samplers], ids=lambda m: m.__name__)
def test_examples(module) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
