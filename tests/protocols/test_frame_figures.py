"""Figures about frames and their allocation against effects put into the scorer."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from protocol_truth import (
    K,
    RuleScorer,
    always_gold,
    gold_of,
    run,
    spread,
    table,
    write_questions,
)

from phasefusion.datasets import load_questions
from phasefusion.protocols.arms import drawn_shift
from phasefusion.records import iter_passes


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    """Eight questions of four options on clips of 60 frames."""
    return write_questions(tmp_path_factory.mktemp("eight"), 8)


def test_reruns(eight, tmp_path):
    """Phase 0 differs in six questions; the second run differs in two of them."""
    seen = set()

    def rule(view, question, order):
        q = int(question)
        key = (q, view.s, order)
        again = key in seen
        seen.add(key)
        wrong = (view.s == 0 and q < 6) != (again and q < 2 and view.s == 1)
        return spread((gold_of(q) + wrong) % K, K)

    made = run(eight, tmp_path, RuleScorer(rule), "reruns", n_orders=3)
    assert made.n_passes == 2 * 8 * 3 * 3
    report = made.report()
    rows = table(report, 0)
    assert rows["two phases differ"]["of questions"]["value"] == pytest.approx(
        6 / 8 * 2 / 3
    )
    assert rows["any phase differs"]["of questions"]["value"] == 6 / 8
    floor = 2 / 8 / 3  # one phase of three
    assert rows["a repeated run differs"]["of questions"]["value"] == pytest.approx(
        floor
    )
    (ratio,) = table(report, 1).values()
    assert ratio["ratio"] == pytest.approx(0.5 / floor)
    assert ratio["low"] <= ratio["ratio"] <= ratio["high"]
    # Clopper-Pearson, one-sided: the p at which 2 or fewer of 8 have probability 0.05.
    p = ratio["floor below"]
    tail = sum(math.comb(8, i) * p**i * (1 - p) ** (8 - i) for i in range(3))
    assert tail == pytest.approx(0.05, rel=1e-6)
    assert {(p["arm"], p.get("run", 0)) for p in iter_passes(tmp_path)} == {
        ("phase", 0),
        ("run 1", 1),
    }


def test_a_floor_of_nothing_gives_a_limit(eight, tmp_path):
    def rule(view, question, order):
        return spread(view.s if int(question) < 4 else 0, K)

    report = run(eight, tmp_path, RuleScorer(rule), "reruns", n_orders=2).report()
    (ratio,) = table(report, 1).values()
    assert ratio["ratio"] == math.inf
    assert math.isnan(ratio["low"])
    limit = 1 - 0.05 ** (1 / 8)
    assert ratio["floor below"] == pytest.approx(limit)
    assert ratio["ratio above"] == pytest.approx(0.5 / limit)
    assert "∞" in str(report)
    assert report.to_dict()["figure"] is not None


def test_random_draws(eight, tmp_path):
    """The answer tells the first frame's part of its step; worked out in fractions."""
    n_frames, budget = 60, 4

    def answer(first, question):
        return (first * (2 + int(question))) // 15 % K

    def rule(view, question, order):
        share = 0.5 + view.indices[0] / 60  # so that the pool is no plain vote
        return spread(answer(view.indices[0], question), K, share)

    made = run(eight, tmp_path, RuleScorer(rule), "random-draws", values=[3])
    items = load_questions(eight)
    single, fused = [], []
    for item in items:
        of_draw = []
        for draw in range(3):
            shift = drawn_shift(item.video_id, draw, 0)
            step = Fraction(n_frames, budget)
            alone = math.floor(shift * step)
            views = [math.floor((shift + Fraction(s, 3)) % 1 * step) for s in range(3)]
            pooled = np.exp([rule(Fake(i), item.question, None) for i in views])
            of_draw.append(
                (answer(alone, item.question), int(pooled.mean(axis=0).argmax()))
            )
        pairs = list(itertools.combinations(of_draw, 2))
        single.append(np.mean([a[0] != b[0] for a, b in pairs]))
        fused.append(np.mean([a[1] != b[1] for a, b in pairs]))
    assert 0 < np.mean(fused) < 1
    assert 0 < np.mean(single) < 1
    rows = table(made.report(), 0)
    assert rows["one grid"]["answers differ"]["value"] == pytest.approx(np.mean(single))
    assert rows["fusion of 3"]["answers differ"]["value"] == pytest.approx(
        np.mean(fused)
    )
    numbers = made.report().numbers
    assert "single" not in numbers["accuracy"]  # no view is at one phase
    by_video = {}
    for p in iter_passes(tmp_path):
        by_video.setdefault((p["video_id"], p["draw"]), set()).add(tuple(p["origin"]))
    assert all(len(origins) == 1 for origins in by_video.values())
    assert len({o for origins in by_video.values() for o in origins}) == 12


class Fake:
    def __init__(self, first):
        self.indices = [first]


def test_draws_are_uniform_and_independent():
    drawn = np.array(
        [[float(drawn_shift(f"v{i}", d, 7)) for d in range(2)] for i in range(2000)]
    )
    assert drawn.min() >= 0
    assert drawn.max() < 1
    for d in range(2):
        counts = np.histogram(drawn[:, d], bins=10, range=(0, 1))[0]
        assert ((counts - 200) ** 2 / 200).sum() < 27.9  # chi-squared, 9 df, p 0.001
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 4 / math.sqrt(2000)


def test_phase_sweep(eight, tmp_path):
    """Question q answers 1 in its first q phases of 13, and 0 in the others."""

    def rule(view, question, order):
        return spread(int(view.s < int(question)), K)

    made = run(eight, tmp_path, RuleScorer(rule), "phase-sweep", n_orders=2)
    rows = table(made.report(), 0)
    pairs = [q * (13 - q) / math.comb(13, 2) for q in range(8)]
    three = [
        1 - (math.comb(q, 3) + math.comb(13 - q, 3)) / math.comb(13, 3)
        for q in range(8)
    ]
    assert rows["two phases"]["questions"]["value"] == pytest.approx(np.mean(pairs))
    assert rows["three phases"]["questions"]["value"] == pytest.approx(np.mean(three))
    assert rows["all 13 phases"]["questions"]["value"] == 7 / 8
    by_phase = table(made.report(), 1)
    assert len(by_phase) == 13
    first = by_phase["1/26"]["consensus right"]["value"]
    gold = [q % K for q in range(8)]
    assert first == np.mean([(q > 0) == gold[q] for q in range(8)])


def test_budget_sweep(eight, tmp_path):
    """Phase 1 is wrong in all questions with 2 frames, in three with 4, in none later.

    Fusion and vote are right everywhere.
    """

    def rule(view, question, order):
        wrong = {2: 8, 4: 3}.get(view.budget, 0) > int(question)
        return spread((gold_of(question) + (wrong and view.s == 1)) % K, K)

    made = run(
        eight,
        tmp_path,
        RuleScorer(rule),
        "budget-sweep",
        values=(2, 4, 8),
        n_orders=2,
    )
    rows = table(made.report(), 0)
    assert list(rows) == ["2", "4", "8"]
    shares = {"2": 1.0, "4": 3 / 8, "8": 0.0}
    for frames, share in shares.items():
        row = rows[frames]
        assert row["any phase differs"]["value"] == share
        assert row["two phases differ"]["value"] == pytest.approx(share * 2 / 3)
        assert row["one pass right"]["value"] == pytest.approx(1 - share / 3)
        assert row["fusion right"] == 1
        assert row["units a pass"] == int(frames) ** 2
    arms = {p["arm"]: len(p["frame_indices"]) for p in iter_passes(tmp_path)}
    assert arms == {"phase": 4, "2 frames": 2, "8 frames": 8}


def test_sampler_sweep(eight, tmp_path):
    """Every other question answers by the family that its frames give away."""

    def family(indices):
        if indices[-1] == 59:
            return 2
        return 0 if indices[0] == 0 else 1

    def rule(view, question, order):
        return spread(family(view.indices) if int(question) % 2 else 3, K)

    made = run(
        eight,
        tmp_path,
        RuleScorer(rule),
        "sampler-sweep",
        values=("left", "midpoint", "endpoint-trunc", "interior", "llava-video"),
        n_orders=2,
    )
    frames = {}
    for p in iter_passes(tmp_path):
        frames[p["arm"]] = p["frame_indices"]
        if p["arm"] != "single":
            assert p["arm"] == f"sampler {p['sampler']}"
            assert (p["phase"], p["origin"]) == (None, None)
    assert frames == {
        "single": [7, 22, 37, 52],
        "sampler left": [0, 15, 30, 45],
        "sampler midpoint": [7, 22, 37, 52],
        "sampler endpoint-trunc": [0, 19, 39, 59],
        "sampler interior": [12, 24, 36, 48],
        # ten frames a second, one wanted: six frames, more than the four asked for
        "sampler llava-video": [0, 19, 39, 59],
    }
    rows = table(made.report(), 0)
    assert {name: row["differs from the grid"] for name, row in rows.items()} == {
        "(exact grid)": 0,
        "left": 0.5,
        "midpoint": 0,
        "endpoint-trunc": 0.5,
        "interior": 0,
        "llava-video": 0.5,
    }
    pairs = table(made.report(), 1)
    assert pairs["left - endpoint-trunc"]["questions"]["value"] == 0.5
    assert pairs["midpoint - interior"]["questions"]["value"] == 0
    assert pairs["any two of them"]["questions"]["value"] == 0.5


def test_a_sampler_that_refuses_loses_its_own_passes_alone(tmp_path):
    path = write_questions(tmp_path, 2, n_frames=17)
    made = run(
        path,
        tmp_path / "run",
        RuleScorer(always_gold),
        "sampler-sweep",
        budget=14,
        values=("left", "hf-qwen2-vl", "vlmeval-fps"),
        n_orders=2,
    )
    missing = {p["arm"]: p["invalid"] for p in iter_passes(made.path)}
    assert missing == {
        "single": None,
        "sampler left": None,
        "sampler hf-qwen2-vl": "frames: sampler hf-qwen2-vl asks for frame 17 of a "
        "clip of 17 frames",
        "sampler vlmeval-fps": None,
    }
    budgets = {p["arm"]: p["budget"] for p in iter_passes(made.path)}
    assert budgets["sampler vlmeval-fps"] == 1  # 1.7 s at one frame a second
    again = run(
        path,
        made.path,
        RuleScorer(always_gold),
        "sampler-sweep",
        budget=14,
        values=("left", "hf-qwen2-vl", "vlmeval-fps"),
        n_orders=2,
    )
    assert again.n_new == 0


def test_phase_counts(eight, tmp_path):
    """In five questions the first third of the step misleads, with more certainty.

    One view of two then outweighs the other; one of three and two of six do not.
    """

    def rule(view, question, order):
        misled = int(question) < 5 and view.phase < Fraction(1, 3)
        wrong = (gold_of(question) + 1) % K
        return spread(wrong, K, 0.7) if misled else spread(gold_of(question), K, 0.6)

    made = run(eight, tmp_path, RuleScorer(rule), "phase-counts", n_orders=2)
    rows = table(made.report(), 0)
    assert [rows[s]["right"] for s in "236"] == [3 / 8, 1, 1]
    assert [rows[s]["views differ"] for s in "236"] == [5, 5, 5]
    assert [rows[s]["right there"] for s in "236"] == [0, 1, 1]
    assert rows["2"]["views there"] == pytest.approx(1 / 2)
    assert rows["3"]["views there"] == pytest.approx(2 / 3)
    assert rows["6"]["best view there"] == 1
    assert rows["6"]["units"] == 6 * 16
    compared = table(made.report(), 1)
    assert compared["3 over 2"]["points"] == pytest.approx(100 * 5 / 8)
    z = 5 / math.sqrt(2**2 + 2**2 + 1)  # two videos gain two questions, one gains one
    assert compared["3 over 2"]["p"] == pytest.approx(math.erfc(z / math.sqrt(2)))
    assert compared["6 over 3"]["answers differ"] == 0


def test_margin(tmp_path):
    """Sixteen questions; the four least certain are wrong with 4 frames, right with 8.

    Of twelve frames for a share of 1/3 three of them get there at the cost of 8 for
    all; 8 frames for all repair one and spoil another.
    """
    path = write_questions(tmp_path, 16, per_clip=4)

    def rule(view, question, order):
        q, gold = int(question), gold_of(question)
        wrong = (gold + 1) % K
        if view.budget == 4:
            return spread(wrong if q < 4 else gold, K, 0.3 + 0.04 * q)
        if view.budget == 8:
            return spread(wrong if q in (1, 2, 3, 9) else gold, K)
        return spread(wrong if q == 3 else gold, K)

    made = run(path, tmp_path / "run", RuleScorer(rule), "margin", dense=12)
    # (64 - 16) / 144 = 1/3 of 16 questions is 5
    dense = {p["question_id"] for p in iter_passes(made.path) if p["budget"] == 12}
    assert dense == {f"q{q}" for q in range(5)}
    rows = table(made.report(), 0)
    assert rows["4 frames for all"]["right"]["value"] == 12 / 16
    assert rows["8 frames for all"]["right"]["value"] == 12 / 16
    mixed = rows["4 frames, 12 more for the lowest margins"]
    assert mixed["right"]["value"] == 15 / 16
    assert mixed["units"] == pytest.approx(16 + 5 / 16 * 144)
    assert mixed["units"] <= rows["8 frames for all"]["units"] == 64
    gains = table(made.report(), 1)
    over = gains["reallocated over twice the frames"]
    assert (over["gained"], over["lost"], over["n"]) == (3, 0, 16)
    assert gains["the same, lowest margins alone"]["points"] == pytest.approx(60)


def test_margin_goes_on_with_more_questions(tmp_path):
    path = write_questions(tmp_path, 16, per_clip=4)

    def rule(view, question, order):
        return spread(gold_of(question), K, 0.9 - 0.02 * int(question))

    settings = {"protocol": "margin", "dense": 12}
    part = run(path, tmp_path / "part", RuleScorer(rule), limit=8, **settings)
    whole = run(path, tmp_path / "part", RuleScorer(rule), **settings)
    once = run(path, tmp_path / "once", RuleScorer(rule), **settings)
    dense = [
        {p["question_id"] for p in iter_passes(one.path) if p["arm"] == "reallocated"}
        for one in (whole, once)
    ]
    assert dense[1] == {f"q{q}" for q in range(11, 16)}
    assert dense[0] == dense[1] | {"q6", "q7"}  # lowest among the first eight
    assert part.n_passes == 8 * 2 + 2
    grown, fresh = (one.report().numbers["figure"]["tables"] for one in (whole, once))
    said = (
        " 2 questions were among the lowest before the run was made longer and are no "
        "more: dense passes of such are recorded, and left out of every figure here, "
        "their cost too."
    )
    last = " 95 % intervals clustered by video (CR1, t)."
    note = fresh[0].pop("note")
    assert grown[0].pop("note") == note.removesuffix(last) + said + last
    assert grown == fresh


def test_oracle(tmp_path):
    """Against every assignment of budgets to six questions."""
    path = write_questions(tmp_path, 6)
    right = {2: "000110", 4: "011100", 8: "110101"}

    def rule(view, question, order):
        q = int(question)
        good = right[view.budget][q] == "1"
        return spread(gold_of(q) if good else (gold_of(q) + 1) % K, K)

    made = run(
        path, tmp_path / "run", RuleScorer(rule), "oracle", values=(2, 4, 8), n_orders=2
    )
    rows = table(made.report(), 1)
    best, best_cost = 8, 64
    most = 0
    for chosen in itertools.product((2, 4, 8), repeat=6):
        if sum(b * b for b in chosen) <= 6 * best_cost:
            most = max(most, sum(right[b][q] == "1" for q, b in enumerate(chosen)))
    for name in ("first order", "consensus"):
        row = rows[name]
        assert row["best for all"] == best
        assert row["right"] == 4 / 6
        assert row["oracle right"] == most / 6
        assert row["headroom"] == pytest.approx(100 * (most - 4) / 6)
    by_budget = table(made.report(), 0)
    assert [by_budget[b]["consensus"] for b in "248"] == [2 / 6, 3 / 6, 4 / 6]
