"""Every verdict, on arithmetic, on runs and on files."""

import json

import pytest

from phasefusion.audit import audit

HEAD = """\
title: made
figures:
  whole: {value: "200", unit: count}
  share: "41.3"
  half: "20.6"
  pairs: "68.9"
  p: ".016"
claims:
"""


def verdicts(claims_file, text, runs=None, head=HEAD):
    made = audit(claims_file(head + text), runs)
    return {one.claim.id: one for one in made.results}


def test_agrees_as_printed(claims_file):
    found = verdicts(
        claims_file, "- {id: a, text: t, published: share, compute: 2 * 20.66}"
    )["a"]
    assert (found.verdict, found.computed) == ("agrees", pytest.approx(41.32))
    assert found.figures[0].interval == (41.25, 41.35)
    assert "41.3" in found.reason


def test_agrees_within_the_rounding_of_what_it_is_made_of(claims_file):
    found = verdicts(
        claims_file,
        "- {id: a, text: t, published: '41.4', compute: 2 * half}\n"
        "- {id: b, text: t, published: '41.2', compute: 2 * half}\n"
        "- {id: c, text: t, published: '41.5', compute: 2 * half}\n",
    )
    # 2 * 20.6 is 41.1 .. 41.3 before it is rounded
    assert [one.verdict for one in found.values()] == [
        "inconsistent",
        "agrees",
        "inconsistent",
    ]
    near = verdicts(
        claims_file, "- {id: a, text: t, published: '41.3', compute: 2 * half}"
    )["a"]
    assert near.verdict == "agrees"
    assert "rounding" in near.reason


def test_tolerance(claims_file):
    text = "- {{id: a, text: t, published: '30', tolerance: {}, compute: '29.4'}}"
    for tolerance, expected in (("0.5", "inconsistent"), ("0.7", "agrees")):
        found = verdicts(claims_file, text.format(tolerance))["a"]
        assert found.verdict == expected
    assert verdicts(claims_file, text.format("digits"))["a"].verdict == "inconsistent"


def test_inconsistent(claims_file):
    found = verdicts(
        claims_file,
        "- {id: a, text: t, holds: pairs <= 100 - share, expect: inconsistent}\n"
        "- {id: b, text: t, published: whole, compute: 3 * 66}\n",
    )
    assert [one.verdict for one in found.values()] == ["inconsistent"] * 2
    assert [one.as_expected for one in found.values()] == [True, False]
    assert found["a"].reason == "pairs <= 100 - share does not hold"
    assert found["b"].reason == "198 is not 200"


def test_relations_hold_within_the_printed_digits(claims_file):
    found = verdicts(
        claims_file,
        "- {id: a, text: t, holds: 2 * half >= share}\n"
        "- {id: b, text: t, holds: 2 * half >= share + 0.2}\n",
    )
    assert found["a"].verdict == "agrees"
    assert "within the printed digits" in found["a"].reason
    assert found["b"].verdict == "inconsistent"


INSIDE = """\
figures:
  one: "1.0"
  third: "0.3"
  unit: "1"
  two: "2.0"
claims:
"""


def test_relations_may_hold_between_the_ends_of_the_figures(claims_file):
    text = """\
- {id: product, text: t, holds: abs(third * 3 - unit) < 0.01}
- {id: equal, text: t, holds: third * third == 0.1}
- {id: inner, text: t, holds: (one - 0.99) ** 2 <= 0.00001}
- {id: never, text: t, holds: abs(third * 3 - unit) > 0.8}
- {id: unequal, text: t, holds: third * third == 0.2}
- {id: never_less, text: t, holds: (one - 1) ** 2 < 0}
- {id: either, text: t, holds: one > two or not one < two}
- {id: jump, text: t, holds: floor(10 * third) == 3.5}
- {id: value, text: t, compute: third * 3 - unit, holds: abs(value) < 0.01}
- {id: values, text: t, compute: ["third * 3", "unit"], holds: "value[0] == value[1]"}
- {id: reached, text: t, compute: (one - 1.02) ** 2, published: "0.0000"}
- {id: beyond, text: t, compute: (one - 1.02) ** 2, published: "0.0100"}
- {id: black_box, text: t, holds: normal_cdf(third) > 0.9}
- {id: undefined, text: t, holds: third / (one - 1) == 1000000}
"""
    found = verdicts(claims_file, text, head=INSIDE)
    agrees = ("product", "equal", "inner", "value", "values", "reached")
    wrong = ("never", "unequal", "never_less", "either", "jump", "beyond")
    assert {name: one.verdict for name, one in found.items()} == (
        dict.fromkeys(agrees, "agrees")
        | dict.fromkeys(wrong, "inconsistent")
        | dict.fromkeys(("black_box", "undefined"), "cannot be computed")
    )
    assert "normal_cdf()" in found["black_box"].reason


def test_figures_that_a_function_takes_are_not_rounded_twice(claims_file):
    # 41.3 % of 200 does not exist; 41.5 would, half a unit above it is still not 41.5
    text = (
        "- {id: a, text: t, holds: 'size(counts(share, 200)) > 0'}\n"
        "- {id: b, text: t, holds: 'high(share) > 41.36'}\n"
    )
    found = verdicts(claims_file, text)
    assert [one.verdict for one in found.values()] == ["inconsistent"] * 2


def test_ambiguous(claims_file):
    text = """\
- id: some
  text: t
  readings:
    - name: exact
      compute: "discordant_totals(18, p, 'exact', 593)"
      holds: size(value) > 0
    - name: chi2
      compute: "discordant_totals(18, p, 'chi2', 593)"
      holds: size(value) > 0
- id: all_but_other_values
  text: t
  published: share
  readings:
    - {name: a, compute: "41.3"}
    - {name: b, compute: "41.34"}
- id: all
  text: t
  published: share
  readings:
    - {name: a, compute: "41.3"}
    - {name: b, compute: "82.6 / 2"}
- id: none
  text: t
  published: share
  readings:
    - {name: a, compute: "42"}
    - {name: b, compute: "43"}
- id: unknown
  text: t
  readings:
    - {name: a, holds: 1 / 0 > 2}
    - {name: b, holds: 2 / 0 > 2}
"""
    found = verdicts(claims_file, text)
    assert {name: one.verdict for name, one in found.items()} == {
        "some": "ambiguous",
        "all_but_other_values": "ambiguous",
        "all": "agrees",
        "none": "inconsistent",
        "unknown": "cannot be computed",
    }
    some = found["some"]
    assert [one.verdict for one in some.readings] == ["inconsistent", "agrees"]
    assert some.readings[1].computed == [56]
    assert some.reason == "exact: does not hold; chi2: holds ([56])"


def test_what_is_recorded_must_come_out(claims_file):
    text = (
        "- {id: a, text: t, compute: 'share / 2', recorded: 20.65}\n"
        "- {id: b, text: t, compute: 'share / 2', recorded: 20.6}\n"
        "- {id: c, text: t, compute: {x: ['1']}, recorded: {x: [1]}}\n"
        "- {id: d, text: t, compute: {x: ['1']}, recorded: {y: [1]}}\n"
        "- {id: e, text: t, published: '1', compute: '2', recorded: 2}\n"
    )
    found = verdicts(claims_file, text)
    assert [one.verdict for one in found.values()] == [
        "agrees",
        "differs",
        "agrees",
        "differs",
        "inconsistent",
    ]
    assert "derived" in found["a"].reason
    assert found["b"].reason == "the file records 20.6"


def test_cannot_be_computed(claims_file):
    text = """\
- {id: zero, text: t, published: share, compute: 1 / 0}
- {id: run, text: t, published: share, compute: "report(main, 'x')"}
- {id: shape, text: t, published: ["1", "2"], compute: ["1"]}
- {id: keys, text: t, published: {a: "1"}, compute: {b: "1"}}
- {id: text, text: t, published: share, compute: "'x'"}
- {id: truth, text: t, holds: "1"}
- {id: result, text: t, published: share, compute: "mcnemar(1, 2)"}
- {id: undefined, text: t, published: share, compute: "proportion_ci(0, 0).value"}
"""
    found = verdicts(claims_file, text, head="runs: [main]\n" + HEAD)
    assert {one.verdict for one in found.values()} == {"cannot be computed"}
    assert "main=PATH" in found["run"].reason
    assert "name one of its fields" in found["result"].reason
    assert "NaN" in found["undefined"].reason
    made = audit(claims_file("runs: [main]\n" + HEAD + text))
    assert [one.claim.id for one in made.unknown] == ["run"]
    assert len(made.surprises) == 7  # nothing was missing, so the file is at fault


def test_differs_is_for_evidence(claims_file, tmp_path):
    (tmp_path / "r.json").write_text(json.dumps({"acc": 0.41, "text": "N/A"}))
    text = """\
- {id: a, text: t, published: share, compute: "100 * json(main, 'acc')"}
- {id: b, text: t, published: "41", compute: "100 * json(main, 'acc')"}
- {id: c, text: t, holds: "json(main, 'acc') > 0.5"}
- {id: d, text: t, published: "41", compute: "100 * json(main, 'text')"}
- {id: e, text: t, published: "41", compute: "100 * json(main, 'ac')"}
"""
    found = verdicts(
        claims_file, text, {"main": tmp_path / "r.json"}, "runs: [main]\n" + HEAD
    )
    assert [one.verdict for one in found.values()] == [
        "differs",
        "agrees",
        "differs",
        "cannot be computed",
        "cannot be computed",
    ]
    assert "did you mean 'acc'" in found["e"].reason


def test_what_an_audit_prints(claims_file):
    text = (
        "- {id: a, text: A claim | with a bar, published: share, compute: '41.3'}\n"
        "- {id: b, text: t, published: share, compute: '42', note: Why so.}\n"
        "- {id: c, text: t, published: '< 0.1', compute: '0.05'}\n"
    )
    made = audit(claims_file(HEAD + text))
    assert made.counts == {"agrees": 2, "inconsistent": 1}
    assert repr(made).endswith("2 agrees, 1 inconsistent)")
    said = str(made)
    assert "A claim | with a bar" in said
    assert "41.25" not in said
    assert "3 claims: 2 agrees, 1 inconsistent. 1 not as the file expects." in said
    markdown = made.to_markdown()
    assert (
        "| a | A claim \\| with a bar | 41.3 (41.25..41.35) | 41.3 | agrees" in markdown
    )
    assert "| inconsistent (expected: agrees) | 42 is not 41.3. Why so. |" in markdown
    html = made._repr_html_()
    assert html.count("<tr>") == 4
    assert "&lt; 0.1" in html
    numbers = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert numbers["surprises"] == ["b"]
    assert numbers["claims"][0]["published"][0]["compatible"] == [41.25, 41.35]
    assert numbers["claims"][2]["published"][0]["compatible"] == [None, 0.1]
    assert numbers["claims"][1]["line"] == 10
