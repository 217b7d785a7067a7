"""Numbers of a comparison against plain recomputation and the report."""

import itertools
import json
import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from compare_runs import answer, write_run
from made_runs import made_run

from phasefusion.compare import compare
from phasefusion.errors import RecordError, StatisticsError
from phasefusion.report import report
from phasefusion.stats import (
    clustered_mcnemar,
    clustered_mean,
    mcnemar,
    proportion_ci,
    tost,
)


@pytest.fixture
def pair(tmp_path):
    """Two runs of 60 questions, three a video; all have gold."""
    rng = random.Random(1)

    def chosen(i):
        right = rng.random() < (0.5 if i // 3 % 2 else 0.8)
        return 0 if right else rng.randrange(1, 4)

    runs = []
    for name in "ab":
        passes = [
            answer(
                f"q{i}",
                0
                if rng.random() < (0.5 if i // 3 % 2 else 0.8)
                else rng.randrange(1, 4),
                video_id=f"v{i // 3}",
            )
            for i in range(60)
        ]
        runs.append((write_run(tmp_path / name, passes), [p["answer"] for p in passes]))
    return runs


@pytest.mark.parametrize("cluster", ["question", "video"])
def test_every_number_is_that_of_the_statistics(pair, cluster):
    (a, one), (b, other) = pair
    made = compare(a, b, cluster=cluster, margin=0.1)
    values = np.array([(x == 0) - (y == 0) for x, y in zip(one, other, strict=True)])
    labels = np.arange(60) // (3 if cluster == "video" else 1)
    outcome = made.outcome
    assert (made.n_common, outcome.n) == (60, 60)
    assert made.a.accuracy == proportion_ci(one.count(0), 60)
    assert made.b.accuracy == proportion_ci(other.count(0), 60)
    assert outcome.difference == clustered_mean(values, labels, limits=(-1, 1))
    assert outcome.tost == tost(values, labels, margin=0.1, limits=(-1, 1))
    only_a, only_b = int((values == 1).sum()), int((values == -1).sum())
    assert outcome.mcnemar == mcnemar(only_a, only_b)
    assert outcome.clustered.z == clustered_mcnemar(values, labels).z
    assert outcome.difference.n_clusters == (20 if cluster == "video" else 60)
    changed = sum(x != y for x, y in zip(one, other, strict=True))
    assert made.differ == proportion_ci(changed, 60)
    assert len(made.items) == changed
    assert made.causes == {"answer": changed}
    assert (outcome.only_a, outcome.only_b) == (only_a, only_b)
    pairs = list(zip(one, other, strict=True))
    assert outcome.both == pairs.count((0, 0))
    wrong = [(x, y) for x, y in pairs if x and y]
    assert outcome.neither_same == sum(x == y for x, y in wrong)
    assert outcome.neither_different == sum(x != y for x, y in wrong)


def test_exact_numbers_are_margins_and_levels(pair):
    (a, _), (b, _) = pair
    wanted = compare(a, b, margin=0.025, alpha=0.05)
    for kind in (Fraction, Decimal):
        made = compare(a, b, margin=kind("0.025"), alpha=kind("0.05"))
        assert made.to_dict() == wanted.to_dict()
        assert type(made.margin) is float


def test_swapping_the_runs_swaps_the_signs(pair):
    (a, _), (b, _) = pair
    one, other = compare(a, b), compare(b, a)
    assert one.outcome.difference.mean == -other.outcome.difference.mean
    assert one.outcome.mcnemar.pvalue == other.outcome.mcnemar.pvalue
    assert one.outcome.tost.pvalue == pytest.approx(other.outcome.tost.pvalue)
    assert one.differ == other.differ
    assert [i.answer_a for i in one.items] == [i.answer_b for i in other.items]


def test_the_order_of_the_passes_decides_nothing(pair):
    (a, _), (b, _) = pair
    before = compare(a, b, cluster="video").to_dict()
    lines = (b / "passes.jsonl").read_text().splitlines(keepends=True)
    random.Random(2).shuffle(lines)
    (b / "passes.jsonl").write_text("".join(lines))
    assert compare(a, b, cluster="video").to_dict() == before


@pytest.mark.parametrize("against", ["single", "union", "dense", "vote"])
def test_arms_of_one_run_compare_as_in_its_report(tmp_path, against):
    made_run(tmp_path, n_items=30)
    numbers = report(tmp_path).numbers
    entry = next(e for e in numbers["comparisons"] if e["against"] == against)
    for answers, name in (("consensus", "consensus"), ("first", "first_order")):
        made = compare(tmp_path, tmp_path, against=against, answer=answers)
        assert (made.a.arm, made.b.arm) == ("fusion", against)
        outcome, expected = made.outcome, entry[name]
        assert outcome.n == entry["n"]
        assert (outcome.only_a, outcome.only_b) == (
            expected["only_arm"],
            expected["only_against"],
        )
        assert 100 * outcome.difference.mean == pytest.approx(expected["points"])
        assert outcome.mcnemar.pvalue == expected["p"]
        accuracies = numbers["accuracy"]
        assert made.a.accuracy.value == accuracies["fusion"][name]["value"]
        assert made.b.accuracy.value == accuracies[against][name]["value"]


def test_the_fused_answer_is_the_default_where_it_is(tmp_path):
    made_run(tmp_path / "fused", n_items=8)
    made_run(tmp_path / "quick", protocol="quick", n_items=8)
    made = compare(tmp_path / "fused", tmp_path / "quick")
    assert (made.a.arm, made.b.arm) == ("fusion", "single")
    assert made.notices[0] == "different arms: fusion of A and single of B"
    made = compare(tmp_path / "quick", tmp_path / "fused")
    assert (made.a.arm, made.b.arm) == ("single", "single")
    made = compare(tmp_path / "fused", tmp_path / "fused", arm="fused")
    assert made.a.arm == "fusion"
    made = compare(
        tmp_path / "fused", tmp_path / "fused", arm="phase 1", against="dense"
    )
    assert (made.a.arm, made.b.arm) == ("phase 1", "dense")


def test_arms_from_outside(tmp_path):
    rows = [
        answer("q1", 0, arm="16f", budget=16),
        answer("q1", 1, arm="32f", budget=32),
        answer("q2", 2, arm="16f", budget=16),
        answer("q2", 2, arm="32f", budget=32),
    ]
    run = write_run(tmp_path, rows)
    made = compare(run, run, arm="16f", against="32f")
    assert (made.outcome.only_a, made.outcome.only_b) == (1, 0)
    assert made.differ.value == 0.5
    # another number of frames is not another phase
    assert "A have 16 frames, those of B 32: changes are not those of a phase" in (
        " ".join(made.notices)
    )
    assert not report(run).numbers["phase_flips"]
    with pytest.raises(RecordError, match="choose the arm of A; it has 16f, 32f"):
        compare(run, run)
    with pytest.raises(RecordError, match="has no arm 'fused'; it has 16f, 32f"):
        compare(run, run, arm="fused")


def test_the_only_arm_needs_no_name(tmp_path):
    run = write_run(tmp_path, [answer("q1", 0, arm="16f")])
    assert compare(run, run).a.arm == "16f"


@pytest.mark.parametrize(("policy", "n", "right"), [("wrong", 4, 2), ("drop", 3, 2)])
def test_texts_without_an_option(tmp_path, policy, n, right):
    a = write_run(
        tmp_path / "a", [answer(f"q{i}", k) for i, k in enumerate([0, 0, 1, None])]
    )
    b = write_run(
        tmp_path / "b", [answer(f"q{i}", k) for i, k in enumerate([0, 1, 1, 0])]
    )
    made = compare(a, b, unparsed=policy)
    assert made.outcome.n == n
    assert (made.a.accuracy.k, made.a.accuracy.n) == (right, n)
    assert made.a.n_unparsed == 1
    assert made.differ == proportion_ci(1, 3, n_dropped=1)
    said = "counted as wrong" if policy == "wrong" else "left out"
    assert f"1 text names no option in A, {said}" in made.notices
    left_out = {part.reason: part.items for part in made.left_out}
    if policy == "drop":
        assert left_out == {"no option named in A": (("quiz", "q3"),)}
    else:
        assert left_out == {}
    assert made.items[-1].cause == "parse"


def test_runs_of_which_one_knows_the_gold(tmp_path):
    a = write_run(
        tmp_path / "a", [answer("q1", 0, gold=None), answer("q2", 1, gold=None)]
    )
    b = write_run(tmp_path / "b", [answer("q1", 1), answer("q2", 0, gold=None)])
    made = compare(a, b)
    assert made.outcome.n == 1
    assert made.outcome.only_a == 1
    assert "the gold of 1 item is known in one run only" in " ".join(made.notices)
    assert made.left_out[0].reason == "gold is not known"


def test_without_gold_answers_are_compared_all_the_same(tmp_path):
    passes = [answer("q1", 0, gold=None), answer("q2", 1, gold=None)]
    a = write_run(tmp_path / "a", passes)
    b = write_run(tmp_path / "b", [passes[0], answer("q2", 2, gold=None)])
    made = compare(a, b)
    assert made.outcome is None
    assert made.a.accuracy is None
    assert made.differ.value == 0.5
    assert "0 of 2 items" in repr(made)
    assert "No item with gold is left to compare." in str(made)
    json.dumps(made.to_dict(), allow_nan=False)


def test_one_item_has_no_interval(tmp_path):
    a = write_run(tmp_path / "a", [answer("q1", 0)])
    b = write_run(tmp_path / "b", [answer("q1", 1)])
    made = compare(a, b)
    assert np.isnan(made.outcome.difference.se)
    assert not made.outcome.tost.equivalent
    assert "–" in str(made)
    assert made.to_dict()["outcome"]["difference"]["se"] is None


def test_a_margin_that_cannot_be_certified_is_said(pair):
    (a, _), (b, _) = pair
    made = compare(a, b, margin=0.025)
    text = " ".join(made.notices)
    assert "equivalence within 2.50 points is not certifiable at this size" in text
    low, high = made.outcome.tost.mean.low, made.outcome.tost.mean.high
    assert f"+-{50 * (high - low):.2f} points" in text
    assert "not certifiable" not in " ".join(compare(a, b, margin=0.4).notices)


def test_an_interval_that_is_cut_off_is_not_taken_for_a_short_one(tmp_path):
    """Of three items A has two that B has not: t reaches beyond 100 points."""
    a = write_run(tmp_path / "a", [answer(f"q{i}", 0) for i in range(3)])
    b = write_run(tmp_path / "b", [answer(f"q{i}", int(i > 0)) for i in range(3)])
    made = compare(a, b, margin=0.8)
    mean = made.outcome.tost.mean
    assert mean.high == made.outcome.difference.high == 1.0
    assert mean.high - mean.low < 2 * 0.8 < 2 * mean.half_width
    assert "equivalence within 80.00 points is not certifiable" in " ".join(
        made.notices
    )


def test_published_sample_is_not_certifiable(tmp_path):
    """446 pairs, 5 more right in A, 13.9 % discordant: +1.12 points."""
    outcomes = [(0, 1)] * 34 + [(1, 0)] * 29 + [(0, 0)] * 250 + [(1, 1)] * 133
    runs = [
        write_run(
            tmp_path / name,
            [answer(f"q{i}", pair[side]) for i, pair in enumerate(outcomes)],
        )
        for side, name in enumerate("ab")
    ]
    made = compare(*runs)
    assert made.outcome.n == 446
    assert 100 * made.outcome.difference.mean == pytest.approx(1.12, abs=0.005)
    assert not made.outcome.tost.equivalent
    assert "not certifiable at this size" in " ".join(made.notices)
    assert "more than 6" in " ".join(made.notices)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": 2.5}, "margin must be in"),
        ({"margin": "0.1"}, "margin must be numbers"),
        ({"margin": [0.1, 0.2]}, r"margin must be one number, its shape is \(2,\)"),
        ({"alpha": 0.5}, "alpha must be in"),
        ({"cluster": "benchmark"}, "cluster must be one of"),
        ({"answer": "last"}, "answer must be one of"),
        ({"unparsed": "guess"}, "unparsed must be one of"),
    ],
)
def test_arguments_out_of_range(pair, options, message):
    (a, _), (b, _) = pair
    with pytest.raises(StatisticsError, match=message):
        compare(a, b, **options)


def test_runs_that_share_nothing(tmp_path):
    a = write_run(tmp_path / "a", [answer("q1", 0)])
    b = write_run(tmp_path / "b", [answer("q1", 0, benchmark="other")])
    c = write_run(tmp_path / "c", [answer("0", 0)])
    with pytest.raises(RecordError, match=r"ids are others; .*SIDECAR/docs\.jsonl"):
        compare(a, c)
    with pytest.raises(RecordError, match=r"share no item; .* quiz/q1 and other/q1"):
        compare(a, b)
    with pytest.raises(FileNotFoundError):
        compare(a, tmp_path / "none")
    empty = write_run(tmp_path / "empty", [])
    with pytest.raises(RecordError, match="holds no passes yet"):
        compare(a, empty)


def test_consensus_and_first_order(tmp_path):
    orders = list(itertools.islice(itertools.permutations(range(4)), 3))
    passes = [
        answer("q1", chosen, order=list(order))
        for order, chosen in zip(orders, [1, 0, 0], strict=True)
    ]
    a = write_run(tmp_path / "a", passes)
    b = write_run(tmp_path / "b", [answer("q1", 1)])
    made = compare(a, b)
    assert (made.items[0].answer_a, made.items[0].answer_b) == (0, 1)
    assert made.items[0].cause == "options"
    assert made.items[0].detail == "3 and 1 orders, 1 of them shared"
    assert "1 item was shown in other option orders" in " ".join(made.notices)
    assert compare(a, b, answer="first").items == ()
