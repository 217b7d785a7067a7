"""Printed figures: digits, intervals, and what is no figure."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasefusion.audit import parse_figure
from phasefusion.audit.arithmetic import printed_as
from phasefusion.errors import AuditError


@pytest.mark.parametrize(
    ("text", "value", "half"),
    [
        ("18.2", "18.2", "0.05"),
        ("18.20", "18.2", "0.005"),
        ("-0.27", "-0.27", "0.005"),
        ("−0.27", "-0.27", "0.005"),
        ("+2.73", "2.73", "0.005"),
        (".016", "0.016", "0.0005"),
        ("9e-4", "0.0009", "0.00005"),
        ("9 × 10−4", "0.0009", "0.00005"),
        ("1.5E3", "1500", "50"),
        ("1,132", "1132", "0.5"),
        ("1,132.5", "1132.5", "0.05"),
        ("7", "7", "0.5"),
        ("7.", "7", "0.5"),
        ("3/16", "0.1875", "0"),
    ],
)
def test_values_and_digits(text, value, half):
    figure = parse_figure(text)
    assert (figure.value, figure.half_unit) == (Fraction(value), Fraction(half))


def test_bounds_and_counts():
    assert parse_figure("< 0.0001").interval == (-math.inf, 0.0001)
    assert parse_figure("≥ 2").interval == (2.0, math.inf)
    assert parse_figure("<= 3").interval == (-math.inf, 3.0)
    assert parse_figure("1,132", unit="count").interval == (1132.0, 1132.0)
    assert parse_figure("2.5", exact=True).interval == (2.5, 2.5)
    assert not parse_figure("< 1").rounded
    assert str(parse_figure("18.2", unit="%")) == "18.2 %"
    assert str(parse_figure("3", unit="count")) == "3"


@pytest.mark.parametrize(
    "text",
    ["", ".", "+", "abc", "1,13", "1.2.3", "18.2 %", "1e", "nan", "inf", "1e999"],
)
def test_what_is_no_figure(text):
    with pytest.raises(AuditError):
        parse_figure(text)


@pytest.mark.parametrize(
    "text", ["1/0", "9" * 41, "1 2", "0x10", "--1", "1e1000000000"]
)
def test_what_is_no_figure_either(text):
    with pytest.raises(AuditError):
        parse_figure(text)


@given(
    st.integers(-(10**6), 10**6),
    st.integers(0, 4),
    st.floats(-0.499, 0.499),
    st.floats(0.5001, 3),
)
def test_what_prints_as_a_figure_is_what_rounds_to_it(k, digits, inside, outside):
    figure = parse_figure(f"{k / 10**digits:.{digits}f}")
    unit = 10.0**-digits
    assert printed_as(float(figure.value) + inside * unit, figure)
    assert not printed_as(float(figure.value) + outside * unit, figure)
    assert not printed_as(float(figure.value) - outside * unit, figure)


def test_halves_count_either_way():
    assert printed_as(0.25, parse_figure("0.2"))
    assert printed_as(0.25, parse_figure("0.3"))
    assert not printed_as(0.2500001, parse_figure("0.2"))


def test_small_numbers_are_not_lost_in_slack():
    tiny = parse_figure("1e-7")
    assert printed_as(1.2e-7, tiny)
    assert not printed_as(1.6e-7, tiny)
    assert not printed_as(3e-12, parse_figure("1e-12"))
