"""Protocols that ask step by step, ensembles of orders and the stress test."""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from protocol_truth import K, RuleScorer, gold_of, run, spread, table, write_questions

import phasefusion as pf
from phasefusion import stats
from phasefusion.engine.shards import merge_shards
from phasefusion.errors import DatasetError, FrameError, GridError
from phasefusion.protocols import make_plan
from phasefusion.protocols.plans import _check_views
from phasefusion.protocols.stages import step_posteriors
from phasefusion.records import check, describe, iter_passes, read_passes


@pytest.fixture(scope="module")
def twelve(tmp_path_factory):
    """Twelve questions of four options on clips of 60 frames."""
    return write_questions(tmp_path_factory.mktemp("twelve"), 12)


def by_phase(view, question, order):
    """Surer of some questions than of others, and sometimes of something else."""
    q, part = int(question), int(view.phase * 12)
    wrong = (part * (q + 1)) % 5 == 1
    return spread((gold_of(q) + wrong) % K, K, 0.35 + ((q * 5 + part) % 7) / 11)


def counting(rule):
    asked = []

    def wrapped(view, question, order):
        asked.append((int(question), view.phase, order))
        return rule(view, question, order)

    return wrapped, asked


@pytest.mark.parametrize("phases", [2, 3, 6])
@pytest.mark.parametrize("threshold", [0.0, 0.9, 2.0, math.inf])
def test_adaptive_asks_what_the_statistic_would(twelve, tmp_path, phases, threshold):
    """The run that stops and the run of all phases, stopped afterwards, are one."""
    rule, asked = counting(by_phase)
    made = run(
        twelve,
        tmp_path / "steps",
        RuleScorer(rule),
        "adaptive",
        phases=phases,
        threshold=threshold,
    )
    grid = pf.PhaseGrid(4, phases)
    views = [Part(grid.phase(s)) for s in range(phases)]
    p = np.exp([[by_phase(v, str(q), None) for v in views] for q in range(12)])
    ids = [f"q{q}" for q in range(12)]
    whole = stats.adaptive_phases(p, threshold, item_ids=ids)
    assert len(asked) == made.n_passes == whole.n_phases.sum()
    order = stats.phase_order(phases)
    wanted = {
        (q, grid.phase(int(s))) for q in range(12) for s in order[: whole.n_phases[q]]
    }
    assert {(q, phase) for q, phase, _ in asked} == wanted
    if threshold in (0.9, 2.0):
        assert 12 < made.n_passes < 12 * phases
    rows = table(made.report(), 0)
    row = rows[f"adaptive, at most {phases}"]
    gold = np.arange(12) % K
    assert row["phases"] == pytest.approx(whole.mean_phases)
    assert row["passes made"] == pytest.approx(made.n_passes / 12)
    assert row["right"]["value"] == pytest.approx((whole.answers == gold).mean())
    first = p[:, order[0]].argmax(axis=1)
    assert rows["one phase"]["right"]["value"] == pytest.approx((first == gold).mean())
    assert row["differ from one"] == pytest.approx((whole.answers != first).mean())
    counts = [row["questions"] for row in table(made.report(), 1).values()]
    assert counts == np.bincount(whole.n_phases, minlength=phases + 1)[1:].tolist()


class Part:
    def __init__(self, phase):
        self.phase = Fraction(phase)


def test_phases_that_were_not_asked_are_not_missing(twelve, tmp_path):
    made = run(twelve, tmp_path, RuleScorer(by_phase), "adaptive", threshold=1.0)
    numbers = made.report().numbers
    assert numbers["items"]["missing_passes"] == 0
    assert numbers["items"]["dropped"] == []
    assert numbers["accuracy"]["single"]["consensus"]["n"] == 12
    assert check(tmp_path).is_right
    absent = describe(tmp_path).numbers["runs"][0]["absent_passes"]
    assert (absent["absent"], absent["there"]) == (0, made.n_passes)
    assert made.n_passes < 36
    origins = {
        (p["arm"], tuple(p["origin"]), p["n_phases"]) for p in iter_passes(tmp_path)
    }
    assert origins == {
        ("single", (1, 2), 1),
        ("phase 2 of 3", (1, 6), 1),
        ("phase 3 of 3", (5, 6), 1),
    }


def test_a_missing_pass_ends_a_question(twelve, tmp_path):
    """What cannot be answered is asked no more, and is counted."""

    class Stumbles(RuleScorer):
        def score(self, clip, question, options, *, orders=None):
            if question == "3" and clip.grid.phase_fractions[0] == Fraction(1, 6):
                raise FrameError("dark")
            return super().score(clip, question, options, orders=orders)

    made = run(twelve, tmp_path, Stumbles(by_phase), "adaptive", threshold=math.inf)
    assert made.n_passes == 11 * 3 + 2
    found = made.report().numbers["figure"]["tables"]
    assert "without an answer (1)" in found[0]["note"]
    (row,) = [r for r in found[0]["rows"] if r["answers"].startswith("adaptive")]
    assert row["right"]["n"] == 11
    assert row["passes made"] == pytest.approx(35 / 12)


def test_shards_ask_as_the_whole_does(twelve, tmp_path):
    options = {"threshold": 1.0, "phases": 3}
    whole = run(twelve, tmp_path / "a", RuleScorer(by_phase), "adaptive", **options)
    parts = [
        run(
            twelve,
            tmp_path / "b",
            RuleScorer(by_phase),
            "adaptive",
            shard=f"{i}/2",
            **options,
        )
        for i in (1, 2)
    ]
    assert sum(part.n_passes for part in parts) == whole.n_passes
    merge_shards([part.path for part in parts], tmp_path / "b")
    first, second = (
        sorted((p["question_id"], p["arm"], p["answer"]) for p in iter_passes(path))
        for path in (whole.path, tmp_path / "b")
    )
    assert first == second


def test_orders_are_pooled_before_a_question_is_decided(twelve, tmp_path):
    def rule(view, question, order):
        """The letter A draws; over all rotations that cancels."""
        q = int(question)
        p = np.exp(spread(gold_of(q), K, 0.4)) + 0.5 * (np.arange(K) == order[0])
        return np.log(p / p.sum())

    made = run(
        twelve,
        tmp_path,
        RuleScorer(rule),
        "adaptive",
        orders="latin",
        threshold=0.1,
    )
    assert made.n_passes == 12 * K  # one phase, all orders
    rows = table(made.report(), 0)
    assert rows["one phase"]["right"]["value"] == 1.0
    assert rows["one phase"]["passes made"] == K


def test_a_question_that_was_cut_off_between_orders_has_no_posterior(twelve, tmp_path):
    """Three of its four orders are on disk: their mean is that of another question."""
    made = run(
        twelve, tmp_path, RuleScorer(by_phase), "adaptive", orders="latin", phases=2
    )
    cut_off(made.path, lambda p: p["question_id"] == "q4" and p["order"][0] == 2)
    passes = read_passes(made.path)
    table = step_posteriors(passes, ["single"])
    lost = [
        one.question_id
        for one, row in zip(passes.items, table, strict=True)
        if np.isnan(row).any()
    ]
    assert lost == ["q4"]
    np.testing.assert_allclose(np.delete(table[:, 0], 4, 0).sum(axis=1), 1)


def cut_off(folder, is_lost):
    """Take passes out of a run, as if it had been stopped before them."""
    path = folder / "passes.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    kept = [line for line in lines if not is_lost(json.loads(line))]
    assert len(kept) < len(lines)
    path.write_text("".join(kept))


def test_a_run_keeps_its_threshold(twelve, tmp_path):
    run(twelve, tmp_path, RuleScorer(by_phase), "adaptive", threshold=1.0)
    with pytest.raises(pf.errors.RecordError, match="threshold"):
        run(twelve, tmp_path, RuleScorer(by_phase), "adaptive", threshold=2.0)


# ------------------------------------------------------------ confidence-guided


def by_order(view, question, order):
    """q % 3: 0 is sure at once, 1 agrees in the second view, 2 needs the third."""
    q = int(question)
    if q % 3 == 0:
        return spread(gold_of(q), K, 0.9)
    if q % 3 == 1:
        return spread(gold_of(q), K, 0.6)
    return spread((gold_of(q) + (order == (0, 1, 2, 3))) % K, K, 0.6)


def test_confidence_guided(twelve, tmp_path):
    rule, asked = counting(by_order)
    made = run(twelve, tmp_path, RuleScorer(rule), "confidence-guided")
    assert made.n_passes == len(asked) == 4 * 1 + 4 * 2 + 4 * 3
    by_question = {}
    for q, _, order in asked:
        by_question.setdefault(q % 3, set()).add(order)
    given, pairs, halves = (0, 1, 2, 3), (1, 0, 3, 2), (2, 3, 0, 1)
    assert by_question == {0: {given}, 1: {given, pairs}, 2: {given, pairs, halves}}
    rows = table(made.report(), 0)
    assert rows["first view"]["right"]["value"] == pytest.approx(8 / 12)
    assert rows["confidence-guided"]["right"]["value"] == 1.0
    assert rows["confidence-guided"]["passes, expected"] == 2.0
    assert rows["confidence-guided"]["passes, made"] == 2.0
    assert rows["confidence-guided"]["differ from first"] == pytest.approx(4 / 12)
    counts = [row["questions"] for row in table(made.report(), 1).values()]
    assert counts == [4, 4, 4]
    numbers = made.report().numbers
    assert numbers["items"]["missing_passes"] == 0
    assert numbers["items"]["dropped"] == []
    assert check(tmp_path).is_right


def test_two_options_have_two_views(tmp_path):
    path = write_questions(tmp_path, 6, n_options=2, gold=0)

    def rule(view, question, order):
        share = 0.6 if order == (0, 1) else 0.7  # the second view is surer
        return spread(int(order[0]), 2, share)

    made = run(path, tmp_path / "run", RuleScorer(rule), "confidence-guided")
    assert made.n_passes == 12
    rows = table(made.report(), 0)
    assert rows["first view"]["right"]["value"] == 1.0
    assert rows["confidence-guided"]["right"]["value"] == 0.0
    assert rows["confidence-guided"]["passes, expected"] == 2.0


# --------------------------------------------------------------------- ensembles


def first_letter(pull):
    def rule(view, question, order):
        """Right but for a pull towards what comes first."""
        z = 1.0 * (np.arange(K) == gold_of(int(question)))
        z[order[0]] += pull
        return z - math.log(np.exp(z).sum())

    return rule


def test_latin_ensembles(twelve, tmp_path):
    """A pull to the first letter is cancelled by balanced orders."""
    made = run(twelve, tmp_path, RuleScorer(first_letter(1.5)), "latin")
    assert made.n_passes == 12 * K
    report = made.report()
    rows = table(report, 0)
    assert rows["any one order, mean"]["right"]["value"] == pytest.approx(1 / K)
    assert rows["given order"]["right"]["value"] == pytest.approx(1 / K)
    for name in ("mean posterior", "logits, letters weighted 0.85"):
        assert rows[name]["right"]["value"] == 1.0
        assert rows[name]["passes"] == K
        assert rows[name]["over given"] == pytest.approx(75.0)
    (balance,) = table(report, -1).values()
    assert balance == {
        "options": "4",
        "orders": 4,
        "letters": "balanced",
        "fewest": 1,
        "most": 1,
        "n": 12,
    }


def test_weights_are_those_of_the_function(twelve, tmp_path):
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(12, K, K))  # by question and first letter

    def rule(view, question, order):
        z = logits[int(question), order[0]]
        return z - math.log(np.exp(z).sum()) - 0.3 * order[0]

    made = run(twelve, tmp_path, RuleScorer(rule), "latin", alpha=0.5, budget=2)
    rows = table(made.report(), 0)
    order = pf.orders.latin(K)
    for name, mode in (
        ("logits, letters weighted 0.5", "centered"),
        ("raw logits, letters weighted 0.5", "raw"),
    ):
        right = []
        for q in range(12):
            content = np.array([rule(None, str(q), tuple(o)) for o in order])
            letters = pf.orders.to_letters(content, order)
            total = np.zeros(K)
            for v, p in itertools.product(range(K), range(K)):
                z = letters[v, p] - (letters[v].mean() if mode == "centered" else 0.0)
                total[order[v, p]] += 0.5**p * z
            right.append(total.argmax() == gold_of(q))
        assert rows[name]["right"]["value"] == pytest.approx(np.mean(right))


def test_rows_of_ensembles_are_of_the_same_questions(twelve, tmp_path):
    """Logits need some probability of every option; where one is 0, no row counts."""

    def rule(view, question, order):
        if question == "5" and order[0] == 1:
            with np.errstate(divide="ignore"):
                return np.log([0.4, 0.3, 0.3, 0.0])
        return spread(gold_of(question), K)

    report = run(twelve, tmp_path, RuleScorer(rule), "latin").report()
    rows = table(report, 0)
    assert {row["right"]["n"] for row in rows.values()} == {11}
    note = report.numbers["figure"]["tables"][0]["note"]
    assert note.startswith("11 questions with all their orders.")
    assert sum(row["questions"] for row in table(report, 1).values()) == 12


def test_questions_at_risk(twelve, tmp_path):
    def rule(view, question, order):
        share = (0.9, 0.6, 0.5, 0.45)[int(question) % 4]
        return spread(gold_of(question), K, share)

    report = run(twelve, tmp_path, RuleScorer(rule), "latin").report()
    counts = {name: row["questions"] for name, row in table(report, 1).items()}
    assert counts == {"robust, above 0.75": 3, "between": 3, "at risk, below 0.55": 6}
    risky = table(report, 2)
    assert list(risky) == [f"questions/q{q}" for q in (3, 7, 11, 2, 6, 10)]
    assert risky["questions/q7"]["posterior"] == pytest.approx(0.45)


def test_unbalanced_orders_are_marked_or_refused(twelve, tmp_path):
    with pytest.raises(DatasetError, match="multiple of 4"):
        run(twelve, tmp_path / "a", RuleScorer(by_order), "latin", views=6)
    assert not (tmp_path / "a" / "run.json").exists()
    with pytest.raises(pf.errors.OptionError, match=r"1\.\.24"):
        run(twelve, tmp_path / "a", RuleScorer(by_order), "latin", views=25)
    with pytest.raises(DatasetError, match="views=3"):
        run(twelve, tmp_path / "a", RuleScorer(by_order), "quick", views=3)
    made = run(twelve, tmp_path / "b", RuleScorer(by_order), "latin", views=8)
    (balance,) = table(made.report(), -1).values()
    assert (balance["letters"], balance["orders"]) == ("balanced", 8)
    made = run(
        twelve,
        tmp_path / "c",
        RuleScorer(by_order),
        "fast-ensemble",
        orders="latin",
        views=6,
    )
    report = made.report()
    (balance,) = table(report, -1).values()
    assert (balance["letters"], balance["fewest"], balance["most"]) == (
        "unbalanced",
        1,
        2,
    )
    assert "6 latin orders, unbalanced for" in report.numbers["card"]["text"]


@pytest.mark.parametrize(
    ("n_options", "views", "said"),
    [
        ((3, 4, 5), 6, "3 options have 6 orders, and a multiple of 60 .* leave views"),
        ((3, 4, 5), 8, "questions of 3, 4 and 5 options: .* leave views out"),
        ((3, 6), 4, "a multiple of 6 is balanced for all; take 6$"),
        ((4, 5), 21, "a multiple of 20 is balanced for all; take 20$"),
        ((4, 8), 12, "take 8 or 16 or 24$"),
    ],
)
def test_views_of_mixed_questions(tmp_path, n_options, views, said):
    """What is advised can be done."""
    path = write_questions(tmp_path, len(n_options), n_options=n_options)

    def rule(view, question, order):
        return spread(0, len(order))

    with pytest.raises(DatasetError, match=said) as refused:
        run(path, tmp_path / "run", RuleScorer(rule), "latin", views=views)
    text = str(refused.value)
    advised = None if "leave views out" in text else int(text.split()[-1])
    made = run(path, tmp_path / "run", RuleScorer(rule), "latin", views=advised)
    assert made.n_passes == sum(advised or k for k in n_options)


def test_views_that_some_questions_do_not_have(tmp_path):
    path = write_questions(tmp_path, 2, n_options=(3, 4))

    def rule(view, question, order):
        return spread(0, len(order))

    for views, said in ((8, "3 options have 6 orders; take 1 to 6"), (5, None)):
        where = {"orders": "latin", "views": views}
        if said is None:
            run(path, tmp_path / "run", RuleScorer(rule), "quick", **where)
            continue
        with pytest.raises(DatasetError, match=said):
            run(path, tmp_path / "run", RuleScorer(rule), "quick", **where)


def test_fast_ensemble(twelve, tmp_path):
    rule, asked = counting(first_letter(1.5))
    made = run(twelve, tmp_path, RuleScorer(rule), "fast-ensemble")
    assert made.n_passes == 24
    assert {order for _, _, order in asked} == {(0, 1, 2, 3), (3, 1, 2, 0)}
    rows = table(made.report(), 0)
    assert rows["mean posterior"]["passes"] == 2.0
    assert "logits, letters weighted 0.9" in rows
    assert "first and the last exchanged" in made.report().numbers["card"]["text"]


# ------------------------------------------------------------------- stress test


def test_stress(tmp_path):
    """Question 0 follows the shift, 1 the order, 2 both, 3 none; three options."""
    path = write_questions(tmp_path, 4, n_options=3, gold=0)
    base = pf.PhaseGrid(4).indices(60)[0]

    def answer(q, moved, first):
        return ((moved > 0), first, (moved + 3 + first) % 3, 0)[q]

    def rule(view, question, order):
        moved = view.indices[0] - int(base[0])
        assert view.indices == [int(i) + moved for i in base]
        return spread(int(answer(int(question), moved, order[0])), 3)

    made = run(path, tmp_path / "run", RuleScorer(rule), "stress")
    shifts, orders = range(-3, 4), list(itertools.permutations(range(3)))
    assert made.n_passes == 4 * 7 * 6
    assert {p.get("moved_frames", 0) for p in iter_passes(tmp_path / "run")} == set(
        shifts
    )
    assert check(tmp_path / "run").is_right
    report = made.report()
    right = np.array(
        [[[answer(q, d, o[0]) == 0 for o in orders] for d in shifts] for q in range(4)]
    )
    (row,) = table(report, 0).values()
    by_view = right.mean(axis=0)
    assert row["configurations"] == 42
    assert row["lowest"] == pytest.approx(by_view.min())
    assert row["highest"] == pytest.approx(by_view.max())
    assert row["mean"] == pytest.approx(by_view.mean())
    assert row["sd, points"] == pytest.approx(100 * by_view.std(ddof=1))
    assert row["right in all"]["value"] == pytest.approx(1 / 4)
    assert row["right in some"] == 1.0
    flips = table(report, 1)
    both = [[answer(q, d, o[0]) for d in shifts for o in orders] for q in range(4)]
    differ = [np.mean([a != b for a, b in itertools.combinations(r, 2)]) for r in both]
    assert flips["both"]["two differ"]["value"] == pytest.approx(np.mean(differ))
    assert flips["both"]["any differs"]["value"] == pytest.approx(3 / 4)
    assert flips["never changes"]["two differ"]["value"] == pytest.approx(1 / 4)
    moved = 2 * 3 * 4 / (7 * 6)  # of question 0: 3 shifts against 4
    third = 1 - (3 + 1 + 1) / 21  # of question 2: residues 3, 2, 2 times
    expected = (moved + 0 + third + 0) / 4
    assert flips["the grid moved, one order"]["two differ"]["value"] == pytest.approx(
        expected
    )
    ordered = 12 / 15 * 2 / 4  # of questions 1 and 2: three first options, twice each
    assert flips["the options ordered, one grid"]["two differ"][
        "value"
    ] == pytest.approx(ordered)
    by_shift = table(report, 2)
    assert list(by_shift) == ["-3", "-2", "-1", "0", "+1", "+2", "+3"]
    assert by_shift["0"]["answers differ from 0"] == 0.0
    changed = [
        answer(q, 1, o[0]) != answer(q, 0, o[0]) for q in range(4) for o in orders
    ]
    assert by_shift["+1"]["answers differ from 0"] == pytest.approx(np.mean(changed))


def test_stress_is_of_questions_with_all_orders(tmp_path):
    """Of a run that was stopped no question of two options has its second order."""
    path = write_questions(tmp_path, 4, n_options=(3, 3, 3, 2), gold=0)

    def rule(view, question, order):
        return spread(int(question == "3"), len(order))

    made = run(path, tmp_path / "run", RuleScorer(rule), "stress", values=[1])
    whole = made.report()
    assert [row["n"] for row in table(whole, 0).values()] == [1, 3]
    assert table(whole, 2)["0"]["right, all orders"]["value"] == pytest.approx(3 / 4)
    cut_off(made.path, lambda p: p["order"] == [1, 0])
    report = made.report()
    assert list(table(report, 0)) == ["3"]
    assert report.numbers["figure"]["tables"][1]["note"].startswith("3 questions.")
    assert table(report, 2)["0"]["right, all orders"]["n"] == 3
    assert table(report, 2)["0"]["right, all orders"]["value"] == 1.0


def test_grids_that_leave_the_clip_are_missing(tmp_path):
    """Of 8 frames 4 apart: 1, 3, 5, 7; only by 0 and -1 they stay inside."""
    path = write_questions(tmp_path, 2, n_frames=8)
    made = run(
        path, tmp_path / "run", RuleScorer(by_order), "stress", values=[-2, -1, 1]
    )
    why = {
        p["arm"]: p["invalid"]
        for p in iter_passes(tmp_path / "run")
        if p["invalid"] is not None
    }
    assert set(why) == {"moved -2", "moved +1"}
    assert "outside of a clip of 8" in why["moved +1"]
    assert made.report().numbers["accuracy"]["single"]["consensus"]["n"] == 2
    with pytest.raises(GridError, match="outside"):
        run(
            path,
            tmp_path / "strict",
            RuleScorer(by_order),
            "stress",
            values=[1],
            on_error="raise",
        )


def test_what_cannot_be_planned():
    for options, error, what in [
        ({"protocol": "stress", "by": "time"}, GridError, "whole frames"),
        ({"protocol": "stress", "values": ["left"]}, DatasetError, "numbers of frames"),
        ({"protocol": "quick", "threshold": 1.0}, DatasetError, "no threshold"),
        ({"protocol": "adaptive", "threshold": -1.0}, DatasetError, "nats"),
        ({"protocol": "adaptive", "threshold": math.nan}, DatasetError, "nats"),
        ({"protocol": "confidence-guided", "threshold": 1.0}, DatasetError, r"\(0, 1"),
        ({"protocol": "latin", "alpha": 0.0}, DatasetError, "alpha"),
        ({"protocol": "adaptive", "alpha": 0.5}, DatasetError, "no alpha"),
        ({"protocol": "confidence-guided", "orders": "all"}, DatasetError, "itself"),
    ]:
        with pytest.raises(error, match=what):
            make_plan(**options)
    plan = make_plan("stress", values=[0, 2])
    assert [arm.name for arm in plan.arms] == ["single", "moved +2"]


def test_cost_of_steps():
    cost = make_plan("adaptive", phases=6).cost([4, 4, 3])
    assert (cost.least_passes, cost.passes) == (3, 18)
    assert cost.to_dict()["least_passes"] == 3
    stress = make_plan("stress").cost([4])
    assert stress.passes == stress.least_passes == 7 * 24


@pytest.mark.parametrize(
    ("n_options", "said"),
    [((9, 10), "take a multiple of 90 up to 362880$"), ((4, 6), "take 12 or 24$")],
)
def test_many_numbers_of_views_are_not_listed(n_options, said):
    with pytest.raises(DatasetError, match=said):
        _check_views(7, n_options, balanced=True)
