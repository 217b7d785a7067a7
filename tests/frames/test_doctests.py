"""The examples in the docstrings of this stage."""

import doctest

from phasefusion import frames


def test_examples():
    result = doctest.testmod(frames)
    assert result.attempted > 0
    assert result.failed == 0
