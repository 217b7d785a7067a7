"""Figures about prompts and option orders against effects put into the scorer."""

import itertools
import math

import numpy as np
import pytest
from protocol_truth import (
    K,
    RuleScorer,
    always_first,
    always_gold,
    gold_of,
    run,
    spread,
    table,
    write_questions,
)

from phasefusion import orders
from phasefusion.records import iter_passes, read_run
from phasefusion.stats import tie_priority


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    """Eight questions of four options on clips of 60 frames."""
    return write_questions(tmp_path_factory.mktemp("eight"), 8)


def test_unlabelled(eight, tmp_path):
    """With letters every other question gets letter A, without letters the gold."""

    def lettered(view, question, order):
        rule = always_first if int(question) % 2 else always_gold
        return rule(view, question, order)

    scorer = RuleScorer(lettered, {"unlabelled": always_gold})
    made = run(eight, tmp_path, scorer, "unlabelled", n_orders=6)
    rows = table(made.report(), 0)
    shown = orders.shared(K, 6)
    first = [np.mean(shown[:, 0] == gold_of(q)) for q in range(8)]
    right = [first[q] if q % 2 else 1.0 for q in range(8)]
    with_letters, without = rows["with letters"], rows["without letters"]
    assert with_letters["any order differs"]["value"] == 0.5
    assert without["any order differs"]["value"] == 0
    assert with_letters["right, all orders"]["value"] == pytest.approx(np.mean(right))
    assert without["right, all orders"]["value"] == 1
    counts = [shown[:, 0].tolist().count(c) for c in range(K)]
    same = sum(n * (n - 1) for n in counts) / (6 * 5)
    assert with_letters["two orders differ"]["value"] == pytest.approx((1 - same) / 2)
    changes = table(made.report(), 1)["changes under some order"]
    assert (changes["with letters alone"], changes["without letters alone"]) == (4, 0)
    # one question of every video: z = 4 / sqrt(4)
    assert changes["p"] == pytest.approx(math.erfc(2 / math.sqrt(2)))
    passes = list(iter_passes(tmp_path))
    assert {p["arm"]: p.get("prompt") for p in passes} == {
        "single": None,
        "unlabelled": "unlabelled",
    }
    assert "unlabelled" in read_run(tmp_path)["settings"]["prompts"]


def test_blind(eight, tmp_path):
    scorer = RuleScorer(always_gold, {"blind": always_first})
    made = run(eight, tmp_path, scorer, "blind", n_orders=6)
    rows = table(made.report(), 0)
    first = [np.mean(orders.shared(K, 6)[:, 0] == gold_of(q)) for q in range(8)]
    assert rows["with video"]["right, all orders"]["value"] == 1
    assert rows["with video"]["any order differs"]["value"] == 0
    found = rows["without video"]
    assert found["right, all orders"]["value"] == pytest.approx(np.mean(first))
    assert found["any order differs"]["value"] == 1
    blind = [p for p in iter_passes(tmp_path) if p["arm"] == "blind"]
    assert len(blind) == 8 * 6
    for p in blind:
        assert p["prompt"] == "blind"
        assert (p["budget"], p["phase"], p["frame_indices"]) == (0, None, [])


def test_blind_needs_no_video(tmp_path):
    path = write_questions(tmp_path, 2)
    (tmp_path / "clip0.mp4").write_text("no video")
    scorer = RuleScorer(always_gold, {"blind": always_first})
    made = run(path, tmp_path / "run", scorer, "blind", n_orders=2)
    answered = {p["arm"]: p["answer"] is not None for p in iter_passes(made.path)}
    assert answered == {"single": False, "blind": True}


def test_pride_finds_a_prior_that_multiplies(tmp_path):
    """Letters weigh 8 : 4 : 2 : 1, the right content 3 : 1; dividing is exact."""
    path = write_questions(tmp_path, 12)
    prior = np.array([8, 4, 2, 1]) / 15

    def rule(view, question, order):
        p = np.empty(K)
        for place, content in enumerate(order):
            p[content] = prior[place] * (3 if content == gold_of(question) else 1)
        return np.log(p / p.sum())

    made = run(path, tmp_path / "run", RuleScorer(rule), "pride")
    rows = table(made.report(), 0)
    # As given, content c has weight prior[c]: gold 0 and gold 1 (12 : 8) win.
    assert rows["given order"]["right"]["value"] == 0.5
    assert rows["PriDe"]["right"]["value"] == 1
    assert rows["PriDe"]["over given"] == 50
    assert rows["PriDe"]["passes"] == pytest.approx(1 + 0.05 * 3)
    assert rows["average of rotations"]["right"]["value"] == 1
    found = table(made.report(), 1)["4"]
    assert [found[letter] for letter in "ABCD"] == pytest.approx(prior, abs=1e-6)


def test_permutations(eight, tmp_path):
    """Half of the mass goes to letter A, half to the contents, 40 % of that to gold."""

    def rule(view, question, order):
        p = np.full(K, 0.5 * 0.6 / 3)
        p[gold_of(question)] = 0.5 * 0.4
        p[order[0]] += 0.5
        return np.log(p)

    made = run(eight, tmp_path, RuleScorer(rule), "permutations")
    assert made.n_passes == 8 * 24
    rows = table(made.report(), 0)
    assert rows["one order, mean"]["right"]["value"] == pytest.approx(1 / K)
    assert rows["given order"]["right"]["value"] == 2 / 8  # gold is content 0
    assert rows["average of all orders"]["right"]["value"] == 1
    assert rows["right in all orders"]["right"]["value"] == 0
    shown = orders.shared(K, 10)
    ten = 0
    for q in range(8):
        mean = np.exp([rule(None, str(q), tuple(o)) for o in shown]).mean(axis=0)
        ten += mean.argmax() == gold_of(q)
    assert rows["average of 10 orders"]["right"]["value"] == ten / 8
    fixed = table(made.report(), 1)["4"]
    assert fixed["letter"] == 1
    assert fixed["content"] == pytest.approx(1 / K)
    by_letter = [0.5 + 0.5 * (0.4 + 3 * 0.2) / 4]
    assert fixed["mass at a position"] == pytest.approx(by_letter[0])


def test_four_votes(tmp_path):
    """Against all pairs of disjoint sets of four, counted one by one."""
    path = write_questions(tmp_path, 6, n_options=(4, 3))
    said = np.random.default_rng(5).integers(0, 3, (6, 10))
    places = {tuple(o): m for m, o in enumerate(orders.shared(4, 10).tolist())}

    def rule(view, question, order):
        k = len(order)
        return spread(said[int(question), places.get(order, 0)] if k == 4 else 0, k)

    made = run(path, tmp_path / "run", RuleScorer(rule), "four-votes")

    def vote(q, chosen):
        counts = np.bincount(said[q, list(chosen)], minlength=4)
        best = np.flatnonzero(counts == counts.max())
        return next(k for k in tie_priority(f"q{q}", 4) if k in best)

    rates = []
    for q in (0, 2, 4):
        differ = total = 0
        for a in itertools.combinations(range(10), 4):
            rest = [m for m in range(10) if m not in a]
            va = vote(q, a)
            for b in itertools.combinations(rest, 4):
                differ += va != vote(q, b)
                total += 1
        rates.append(differ / total)
    rows = table(made.report(), 0)
    assert 0 < np.mean(rates) < 1
    assert rows["4"]["votes differ"]["value"] == pytest.approx(np.mean(rates))
    assert (rows["3"]["too few orders"], rows["3"]["n"]) == (3, 0)
    assert rows["all"]["n"] == 3


def test_phasefusion(tmp_path):
    """Four questions answer by phase, four are right; margins tell who changes.

    In the first two the option order changes the answer too, with the least certainty.
    """
    path = write_questions(tmp_path, 8, n_frames=80)

    def rule(view, question, order):
        q, gold = int(question), gold_of(question)
        said = gold if q >= 4 else (gold + view.s) % K
        if q < 2 and order[0] == 1:
            said = (said + 1) % K
        return spread(said, K, 0.4 + 0.05 * q)

    made = run(
        path, tmp_path / "run", RuleScorer(rule), "phasefusion", dense=10, n_orders=6
    )
    figure = made.report().numbers["figure"]
    assert figure["is_further"]
    matched, equal, by_margin = (table(made.report(), i) for i in range(3))
    shown = orders.shared(K, 6)
    first = shown[:, 0] == 1
    halves = [set(c) for c in itertools.combinations(range(6), 3)]
    within, across = [], []
    for q in range(8):
        priority = tie_priority(f"q{q}", K).tolist()

        def vote(half, s, q=q, priority=priority):
            said = [gold_of(q) if q >= 4 else (gold_of(q) + s) % K] * 3
            if q < 2:
                said = [
                    (one + int(first[m])) % K
                    for one, m in zip(said, sorted(half), strict=True)
                ]
            counts = [said.count(c) for c in range(K)]
            return next(c for c in priority if counts[c] == max(counts))

        pairs = [(half, set(range(6)) - half) for half in halves]
        within += [
            np.mean([vote(a, s) != vote(b, s) for a, b in pairs for s in range(3)])
        ]
        across += [
            np.mean(
                [
                    vote(a, s) != vote(b, t)
                    for a, b in pairs
                    for s in range(3)
                    for t in range(3)
                    if s != t
                ]
            )
        ]
    assert matched["within a phase"]["questions"]["value"] == pytest.approx(
        np.mean(within)
    )
    assert matched["across phases"]["questions"]["value"] == pytest.approx(
        np.mean(across)
    )
    assert matched["due to the phase"]["questions"]["value"] == pytest.approx(
        np.mean(across) - np.mean(within)
    )
    # union and dense are a single view of phase 0, right but for the order
    assert set(equal) == {"union", "dense"}
    assert equal["dense"]["verdict"] in ("not shown equivalent", "not certifiable")
    assert by_margin["single"]["AUROC"] == 1
    assert by_margin["single"]["lowest fifth flips"]["value"] == 1
    assert by_margin["single"]["others flip"]["value"] == 0
    assert by_margin["single"]["flips caught"] == 1
    text = str(made.report())
    assert text.index("Accuracy") < text.index("Votes of two halves")
