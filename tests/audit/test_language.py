"""The expression language: what it parses, what it refuses, what it comes to."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasefusion.audit import language, parse_figure
from phasefusion.audit.evaluation import Evaluator, check, known_functions
from phasefusion.audit.values import Uncomputable
from phasefusion.errors import AuditError

FIGURES = {
    name: parse_figure(text, name)
    for name, text in {
        "a": "18.2",
        "b": "10.1",
        "n": "587",
        "z": "0",
        "p": "9e-4",
        "net": "-0.27",
    }.items()
}


def run(text, figures=FIGURES, value=None):
    term = language.parse(text)
    check(term, figures, {"main"})
    return Evaluator(figures, {}).value(term, value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("-2 ** 2", -4),
        ("2 ** -1", 0.5),
        ("(2 ** 3) ** 2", 64),
        ("10 - 3 - 2", 5),
        ("12 / 3 / 2", 2),
        ("--1", 1),
        ("1e3", 1000.0),
        (".5 + 0.25", 0.75),
        ("a / b", 18.2 / 10.1),
        ("[1, 2, [3]]", [1, 2, [3]]),
        ("[1, 2][1]", 2),
        ("[1, 2][-1]", 2),
        ("[1] + [2]", [1, 2]),
        ("1 < 2 <= 2 < 3", True),
        ("1 < 2 < 2", False),
        ("0.1 + 0.2 == 0.3", True),
        ("0.1 + 0.2 <= 0.3", True),
        ("0.1 + 0.2 > 0.3", False),
        ("[1, 2.0] == [1, 2]", True),
        ("'x' == 'x' and 'x' != 'y'", True),
        ("not true or 1 == 1", True),
        ("not not true", True),
        ("false and 1 / 0 == 1", False),
        ("true or 1 / 0 == 1", True),
        ("max([a, b, 3])", 18.2),
        ("round(12.345, 2)", 12.35),
        ("round(-0.5)", -1.0),
        ("round(1250, -2)", 1300.0),
        ("floor(2.7) + ceil(2.1)", 5),
        ("abs(-3) + sqrt(16) + total([1, 2]) + mean([1, 3])", 12.0),
        ("ascending([1, 1, 2])", True),
        ("size([])", 0),
        ("value + 1", 5),
    ],
)
def test_values(text, expected):
    found = run(text, value=4)
    assert isinstance(found, bool) == isinstance(expected, bool)
    assert found == (
        pytest.approx(expected) if isinstance(expected, float) else expected
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a value is missing"),
        ("1 +", "a value is missing"),
        ("(1", "')' is missing"),
        ("[1", "']' is missing"),
        ("f(1", "')' is missing"),
        ("1 2", "not expected"),
        ("a b", "not expected"),
        ("1 = 2", "not expected"),
        ("and", "no value"),
        ("lambda: 1", "cannot be read"),
        ("a.__class__", "cannot be read"),
        ("__import__('os')", "cannot be read"),
        ("a._x", "cannot be read"),
        ("1_000", "cannot be read"),
        ("'x", "cannot be read"),
        ("a;b", "cannot be read"),
        ("{1}", "cannot be read"),
        ("max(x=1, x=2)", "given twice"),
        ("round(digits=1, 2)", "come first"),
        ("(" * 31 + "1" + ")" * 31, "nested more than 30"),
        ("[" * 31 + "]" * 31, "nested more than 30"),
        ("+".join(["1"] * 200), "more than 80 terms"),
        ("1" + "+1" * 1000, "at most 2000"),
        ("a" + "[0]" * 100, "more than 80 terms"),
        ("c + 1", "no figure or run 'c'"),
        ("nett + 1", "did you mean 'net'"),
        ("eval('1')", "no function 'eval'"),
        ("macnemar(1, 2)", "did you mean 'mcnemar'"),
        ("round()", "missing a required argument"),
        ("round(1, digit=2)", "unexpected keyword"),
        ("max(1, 2)", "too many"),
        ("span(a, b)", "one expression"),
    ],
)
def test_what_is_refused_when_the_file_is_read(text, says):
    with pytest.raises(AuditError) as caught:
        run(text)
    assert says in str(caught.value)


def test_errors_show_the_place():
    with pytest.raises(AuditError, match=r"at character 8: a \+ \(b >>>c"):
        language.parse("a + (b c)")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 / z", "divided by zero"),
        ("10 ** 60", "beyond"),
        ("9 ** 64", "beyond"),
        ("1e14 * 1e14", "beyond"),
        ("2 ** 1000", "beyond what is computed"),
        ("(-1) ** 0.5", "no real number"),
        ("0 ** -1", "beyond what is computed"),
        ("sqrt(-1)", "does not exist"),
        ("min([])", "no number"),
        ("[1][1]", "no item 1"),
        ("[1][0.5]", "whole numbers"),
        ("(1)[0]", "only lists"),
        ("'a' + 1", "a number is wanted"),
        ("true + 1", "a number is wanted"),
        ("not 1", "true or false"),
        ("1 and true", "true or false"),
        ("a.value", "only results of statistics"),
        ("mcnemar(1, 2).pvalu", "did you mean 'pvalue'"),
        ("mcnemar(1, 2) + 1", "a number is wanted"),
        ("mcnemar(-1, 2).pvalue", "must be >= 0"),
        ("mcnemar(1.5, 2).pvalue", "must be an int"),
        ("mcnemar(1e12, 2).pvalue", "at most"),
        ("main + 1", "nothing was given as 'main'"),
        ("low(1)", "a printed figure is wanted"),
        ("counts(a, 0)", "a share of nothing"),
        ("counts(a, 10 ** 9)", "at most 10000000"),
        ("counts(a, 10000000)", "too few digits"),
        ("denominators(a, 1, 1000000)", "1 to 10000 sizes"),
        ("discordant_totals(1, p, 'exakt')", "known are exact"),
        ("discordant_totals(1, p, most=10000000)", "at most 20000"),
        ("expected_modal_share(100, 4)", "at most 26"),
        ("round(1, 400)", "digits must be"),
        ("tost_p(1, 0, 2)", "must be above 0"),
        ("binomial_cdf(1, 2, 3)", "a probability"),
        ("'a' < 'b'", "a number is wanted"),
        ("common(3)", "a list of figures"),
    ],
)
def test_what_cannot_be_computed(text, says):
    with pytest.raises(Uncomputable) as caught:
        run(text)
    assert says in str(caught.value)


def test_span_is_over_all_roundings():
    low, high = run("span(a / b)")
    assert low == pytest.approx(18.15 / 10.15)
    assert high == pytest.approx(18.25 / 10.05)
    many = {f"f{i}": parse_figure("1.0", f"f{i}") for i in range(9)}
    with pytest.raises(Uncomputable, match="9 rounded figures"):
        run(f"span({'+'.join(many)})", many)


def test_span_is_also_over_what_lies_between_the_ends():
    names = {"x": parse_figure("1.0", "x"), "y": parse_figure("0.5", "y")}
    assert run("span((x - 1) ** 2)", names) == pytest.approx([0.0, 0.0025])
    # 1/4 at y = 1/2, though y stands twice in it
    least, most = run("span(y * (1 - y))", names)
    assert (least, most) == pytest.approx((0.2475, 0.25), abs=1e-4)
    assert least <= 0.2475 < 0.25 <= most
    assert run("span(abs(x - 1))", names) == pytest.approx([0.0, 0.05])
    assert run("span(max([x, 2 * y]) - min([x, 1]))", names)[1] == pytest.approx(0.15)
    assert run("span(x / y)", names) == pytest.approx([0.95 / 0.55, 1.05 / 0.45])
    with pytest.raises(Uncomputable, match="bounds"):
        run("span(1 / (x - 1.01))", names)
    with pytest.raises(Uncomputable, match="not followed"):
        run("span(normal_cdf(x))", names)


@given(st.integers(0, 10**6))
def test_spans_hold_what_every_rounding_gives(seed):
    rng = random.Random(seed)
    text = rng.choice(
        [
            "a * b - a",
            "(a - b) ** 2 - a",
            "a / b - b / a",
            "abs(a - 2 * b) + sqrt(a)",
            "mean([a, b, a * b]) ** 3",
            "floor(10 * a) - ceil(a / b)",
        ]
    )
    names = {
        name: parse_figure(f"{rng.uniform(1.0, 3.0):.1f}", name) for name in ("a", "b")
    }
    least, most = run(f"span({text})", names)
    slack = 1e-9 * max(1.0, abs(least), abs(most))
    for _ in range(20):
        moved = {
            name: parse_figure(repr(rng.uniform(*one.interval)), name)
            for name, one in names.items()
        }
        assert least - slack <= run(text, moved) <= most + slack


def test_nested_spans_stop():
    many = {f"f{i}": parse_figure("1.0", f"f{i}") for i in range(8)}
    inner = "+".join(many)
    text = f"span(span(span({inner})[0] + {inner})[0] + {inner})"
    with pytest.raises(Uncomputable, match="steps"):
        run(text, many)


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused(text):
    try:
        language.parse(text)
    except AuditError:
        pass


@given(
    st.lists(
        st.sampled_from([*"abnz123.,()[]+-*/<>=' ", "max(", " and ", "span(", "**"]),
        max_size=30,
    )
)
def test_any_expression_has_a_value_or_a_reason(parts):
    try:
        run("".join(parts))
    except (AuditError, Uncomputable):
        pass


def test_every_function_is_documented():
    from phasefusion.audit.arithmetic import FUNCTIONS

    assert len(known_functions()) == len(set(known_functions()))
    for one in FUNCTIONS.values():
        assert one.sentence.endswith("."), one.name


# ------------------------------------------------------------------ single functions


def brute_counts(figure, n):
    low, high = figure.interval
    return [k for k in range(-n, n + 1) if low - 1e-12 <= 100 * k / n <= high + 1e-12]


@given(st.integers(1, 400), st.integers(-1000, 1000))
def test_counts(n, tenths):
    figure = parse_figure(f"{tenths / 10:.1f}", "f")
    assert run(f"counts(f, {n})", {"f": figure}) == brute_counts(figure, n)


def test_counts_of_several_sizes():
    figures = {"f": parse_figure("-0.2", "f")}
    assert run("counts(f, [449, 450])", figures) == [-1]


def test_denominators():
    figures = {"f": parse_figure("33.3", "f"), "g": parse_figure("50.0", "g")}
    expected = [n for n in range(590, 601) if brute_counts(figures["f"], n)]
    assert run("denominators(f, 590, 600)", figures) == expected
    both = [n for n in expected if brute_counts(figures["g"], n)]
    assert run("denominators([f, g], 590, 600)", figures) == both


@pytest.mark.parametrize(
    ("test", "field"),
    [
        ("exact", "pvalue"),
        ("midp", "midp"),
        ("chi2", "p_chi2"),
        ("corrected", "p_chi2_corrected"),
    ],
)
@pytest.mark.parametrize("printed", ["0.05", "1.0"])
@pytest.mark.parametrize("net", [0, 1, -4, 18])
def test_discordant_totals_are_those_of_mcnemar(test, field, net, printed):
    from phasefusion import stats

    figures = {"f": parse_figure(printed, "f")}
    least, most = figures["f"].interval
    found = run(f"discordant_totals({net}, f, '{test}', 200)", figures)
    expected = []
    for total in range(abs(net), 201):
        if (total - abs(net)) % 2 == 0:
            made = stats.mcnemar((total + net) // 2, (total - net) // 2)
            if least <= getattr(made, field) <= most:
                expected.append(total)
    assert found == expected


def test_samples_for_p():
    figures = {"g": parse_figure("+3.0", "g"), "q": parse_figure(".016", "q")}
    sizes = run("samples_for_p(g, q, 590, 640)", figures)
    assert 593 not in sizes
    assert sizes
    for n in sizes[:3]:
        assert any(
            run(f"discordant_totals({k}, q, 'exact', {n})", figures)
            for k in brute_counts(figures["g"], n)
        )


def test_interval_totals_are_those_of_the_library():
    from phasefusion import stats

    figures = {"l": parse_figure("-2.09", "l"), "h": parse_figure("1.56", "h")}
    assert run("interval_totals(-3, 1132, l, h, 0.9)", figures) == [157]
    values = [1] * 77 + [-1] * 80 + [0] * (1132 - 157)
    made = stats.clustered_mean(values, confidence_level=0.9)
    assert round(100 * made.low, 2) == -2.09
    assert round(100 * made.high, 2) == 1.56


def test_distributions():
    assert run("binomial_cdf(2, 10, 0.5)") == pytest.approx(56 / 1024)
    assert run("binomial_cdf(-1, 10, 0.5)") == 0
    assert run("binomial_pmf(3, 10, 0.5)") == pytest.approx(120 / 1024)
    assert run("binomial_pmf(11, 10, 0.5)") == 0
    assert run("binomial_pmf(0, 3, 0)") == run("binomial_pmf(3, 3, 1)") == 1
    assert run("binomial_pmf(1, 3, 0)") == run("binomial_pmf(2, 3, 1)") == 0
    n = 5 * 10**6  # the chance of n heads in 2 n throws, by Stirling's series
    middle = math.exp(-1 / (8 * n)) / math.sqrt(math.pi * n)
    found = run(f"binomial_pmf({n}, {2 * n}, 0.5)")
    assert found == pytest.approx(middle, rel=1e-10)
    cdf = run(f"binomial_cdf({n}, {2 * n}, 0.5)")
    assert cdf == pytest.approx(0.5 + middle / 2, rel=1e-11)
    assert run("normal_cdf(normal_quantile(0.95))") == pytest.approx(0.95)
    assert run("t_quantile(0.95, 580)") == pytest.approx(1.825 / 1.1077490560051162)
    assert run("correlation_p(0.125, 1797)") == pytest.approx(1.0604126e-07)
    assert run("tost_p(-0.1, 1, 2)") == pytest.approx(0.5 * math.erfc(1.9 / 2**0.5))
    assert run("largest_passing(25, 0.2, 0.1)") == 2
    assert run("largest_passing(10, 0.2, 0.1)") == -1
    assert run("most_pairwise(13, 4)") == pytest.approx(63 / 78)
    assert run("paired_half_width(446, 0.139, 0.9)") == pytest.approx(2.9038, abs=1e-4)


def test_common():
    figures = {"f": parse_figure("20.1", "f"), "g": parse_figure("20.2", "g")}
    assert run("common([f, [20.1, 20.5]])", figures) == pytest.approx([20.1, 20.15])
    assert run("common([f, [20.3, 20.5]])", figures) == []
    assert run("prints(20.14, f) and not prints(20.16, f)", figures) is True
    assert run("[low(f), high(f), value_of(f)]", figures) == [20.05, 20.15, 20.1]
