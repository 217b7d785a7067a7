"""Every number of a report against a plain recomputation from the pass lines."""

import functools
import itertools
import json
import math
from collections import Counter, defaultdict
from fractions import Fraction
from math import comb
from statistics import mean

import numpy as np
import pytest
from made_runs import made_run
from scipy.stats import t as t_law

from phasefusion.errors import RecordError
from phasefusion.report import report
from phasefusion.stats import tie_priority

ARMS = ("single", "fusion", "vote", "union", "dense")


class Plain:
    """The run as nested dicts, with every arm by the book."""

    def __init__(self, passes, phases=3):
        self.phases = phases
        self.gold = {p["question_id"]: p["gold"] for p in passes}
        self.k = {p["question_id"]: p["n_options"] for p in passes}
        self.type = {p["question_id"]: p["type"] for p in passes}
        self.video = {p["question_id"]: p["video_id"] for p in passes}
        self.orders = defaultdict(list)
        self.content = {}
        for p in passes:
            q, order = p["question_id"], tuple(p["order"])
            if order not in self.orders[q]:
                self.orders[q].append(order)
            if p["logprobs"] is not None:
                content = [p["logprobs"][order.index(c)] for c in range(p["n_options"])]
                key = (q, p["arm"], p["shifted"], p["phase_index"], order)
                self.content[key] = content

    def posterior(self, q, arm, shifted, s, order):
        content = self.content.get((q, arm, shifted, s, order))
        if content is None:
            return None
        weights = [math.exp(x) for x in content]
        return [w / sum(weights) for w in weights]

    @functools.cache  # noqa: B019
    def arm_posterior(self, q, arm, shifted, order):
        """Posterior of an arm in one order; None when a pass of it is missing."""
        if arm.startswith("phase "):
            return self.posterior(q, "phase", shifted, int(arm[6:]), order)
        if arm in ("fusion", "vote"):
            views = [
                self.posterior(q, "phase", shifted, s, order)
                for s in range(self.phases)
            ]
            if None in views:
                return None
            return [mean(view[c] for view in views) for c in range(self.k[q])]
        if arm == "single" and self.phases % 2:
            middle = 0 if shifted else self.phases // 2
            return self.posterior(q, "phase", shifted, middle, order)
        return self.posterior(q, arm, shifted, 0, order)

    @functools.cache  # noqa: B019
    def answer(self, q, arm, shifted, order):
        posterior = self.arm_posterior(q, arm, shifted, order)
        if posterior is None:
            return None
        if arm == "vote":
            views = [
                self.posterior(q, "phase", shifted, s, order)
                for s in range(self.phases)
            ]
            votes = Counter(view.index(max(view)) for view in views)
            return self._plurality(q, votes, None)
        return posterior.index(max(posterior))

    def _plurality(self, q, votes, posterior):
        most = max(votes.values())
        tied = [c for c, n in votes.items() if n == most]
        if posterior is not None:
            return max(tied, key=lambda c: posterior[c])
        preference = tie_priority(q, self.k[q]).tolist()
        return min(tied, key=preference.index)

    def answers(self, q, arm, shifted=False):
        """Answer in every order, or None unless all are there."""
        found = [self.answer(q, arm, shifted, o) for o in self.orders[q]]
        return None if None in found else found

    @functools.cache  # noqa: B019
    def consensus(self, q, arm, shifted=False):
        answers = self.answers(q, arm, shifted)
        if answers is None:
            return None
        posterior = None
        if arm != "vote":
            every = [
                self.arm_posterior(q, arm, shifted, order) for order in self.orders[q]
            ]
            posterior = [mean(p[c] for p in every) for c in range(self.k[q])]
        return self._plurality(q, Counter(answers), posterior)

    def items(self, arms, *, shifted=(False,), gold=False):
        return [
            q
            for q in self.gold
            if (not gold or self.gold[q] is not None)
            and all(self.answers(q, a, s) is not None for a in arms for s in shifted)
        ]

    def names(self):
        return ("single", *(f"phase {s}" for s in range(self.phases)), *ARMS[1:])


def pairwise(answers):
    pairs = list(itertools.combinations(answers, 2))
    return mean(a != b for a, b in pairs)


def any_flip(answers):
    return float(len(set(answers)) > 1)


def wilson(p, n, z=1.959963984540054):
    """The roots of (p - x)^2 = z^2 x (1 - x) / n."""
    roots = np.roots([1 + z * z / n, -(2 * p + z * z / n), p * p])
    return sorted(roots.real)


def clustered(values, videos):
    """Mean plus and minus t times CR1; over the videos where none of them differs."""
    n, p = len(values), mean(values)
    sums = defaultdict(float)
    for value, video in zip(values, videos, strict=True):
        sums[video] += value - p
    g, squares = len(sums), sum(x * x for x in sums.values())
    if g < 2 or squares < 1e-20:
        return wilson(p, g)
    half = t_law.ppf(0.975, g - 1) * math.sqrt(g / (g - 1) * squares) / n
    return max(0.0, p - half), min(1.0, p + half)


def clustered_mcnemar(differences, videos):
    sums = Counter()
    for one, video in zip(differences, videos, strict=True):
        sums[video] += one
    squares = sum(x * x for x in sums.values())
    z = sum(sums.values()) / math.sqrt(squares) if squares else 0.0
    return math.erfc(abs(z) / math.sqrt(2))


def check_rate(plain, rate, items, values):
    videos, values = plain.video, list(values)
    assert rate["n"] == len(values)
    if not values:
        assert math.isnan(rate["value"])
        return
    assert rate["value"] == pytest.approx(mean(values), abs=1e-12)
    if len(set(videos.values())) < len(videos):
        low, high = clustered(values, [videos[q] for q in items])
    else:
        low, high = wilson(mean(values), len(values))
    assert rate["low"] == pytest.approx(low, abs=1e-9)
    assert rate["high"] == pytest.approx(high, abs=1e-9)


def exact_mcnemar(b, c):
    n = b + c
    return min(1.0, 2 * sum(comb(n, i) for i in range(min(b, c) + 1)) / 2**n)


DROP = {(3, "phase", False, 1, 2), (5, "dense", True, 0, 0), (6, "union", False, 0, 1)}


@pytest.fixture(
    params=[
        {},
        {"seed": 1, "drop": DROP, "no_gold": 8},
        {"seed": 2, "phases": 2},
        {"seed": 3, "phases": 5, "drop": DROP},
        {"seed": 4, "phases": 3, "origin": Fraction(0)},
        {"seed": 5, "per_video": 1},
    ],
    ids=["complete", "missing", "two phases", "five phases", "left", "own videos"],
)
def made(request, tmp_path):
    passes = made_run(tmp_path, **request.param)
    plain = Plain(passes, request.param.get("phases", 3))
    if request.param.get("origin") == 0:  # the single pass is view 0, shifted view 1
        original = plain.posterior

        def arm_posterior(q, arm, shifted, order, given=plain.arm_posterior):
            if arm == "single":
                return original(q, "phase", shifted, 1 if shifted else 0, order)
            return given(q, arm, shifted, order)

        plain.arm_posterior = arm_posterior
    return plain, report(tmp_path).numbers


def test_accuracy(made):
    plain, numbers = made
    items = plain.items(plain.names(), gold=True)
    assert list(numbers["accuracy"]) == list(plain.names())
    for arm, rates in numbers["accuracy"].items():
        right = {q: [a == plain.gold[q] for a in plain.answers(q, arm)] for q in items}
        check_rate(
            plain, rates["order_averaged"], items, (mean(right[q]) for q in items)
        )
        check_rate(
            plain, rates["first_order"], items, (float(right[q][0]) for q in items)
        )
        check_rate(
            plain,
            rates["consensus"],
            items,
            (float(plain.consensus(q, arm) == plain.gold[q]) for q in items),
        )


def test_comparisons(made):
    plain, numbers = made
    items = plain.items(plain.names(), gold=True)
    assert [entry["against"] for entry in numbers["comparisons"]] == [
        "single",
        "union",
        "dense",
        "vote",
    ]
    for entry in numbers["comparisons"]:
        arm = entry["against"]
        assert entry["n"] == len(items)
        for key, answer in (
            ("consensus", plain.consensus),
            ("first_order", lambda q, a: plain.answers(q, a)[0]),
        ):
            ours = [answer(q, "fusion") == plain.gold[q] for q in items]
            theirs = [answer(q, arm) == plain.gold[q] for q in items]
            b = sum(x and not y for x, y in zip(ours, theirs, strict=True))
            c = sum(y and not x for x, y in zip(ours, theirs, strict=True))
            assert (entry[key]["only_arm"], entry[key]["only_against"]) == (b, c)
            assert entry[key]["points"] == pytest.approx(100 * (b - c) / len(items))
            assert entry[key]["p"] == pytest.approx(exact_mcnemar(b, c))
            ahead = [x - y for x, y in zip(ours, theirs, strict=True)]
            assert entry[key]["p_clustered"] == pytest.approx(
                clustered_mcnemar(ahead, [plain.video[q] for q in items])
            )
        change = [
            mean(a == plain.gold[q] for a in plain.answers(q, "fusion"))
            - mean(a == plain.gold[q] for a in plain.answers(q, arm))
            for q in items
        ]
        assert entry["order_averaged_points"] == pytest.approx(
            100 * mean(change), abs=1e-9
        )


def test_phase_flips(made):
    plain, numbers = made
    views = [f"phase {s}" for s in range(plain.phases)]
    items = plain.items(views)
    flips = numbers["phase_flips"]
    consensus = {q: [plain.consensus(q, view) for view in views] for q in items}
    check_rate(
        plain,
        flips["consensus"]["pairwise"],
        items,
        (pairwise(consensus[q]) for q in items),
    )
    check_rate(
        plain, flips["consensus"]["any"], items, (any_flip(consensus[q]) for q in items)
    )
    by_order = {
        q: list(zip(*(plain.answers(q, view) for view in views), strict=True))
        for q in items
    }
    for name, flip in (("pairwise", pairwise), ("any", any_flip)):
        check_rate(
            plain,
            flips["passes"][name],
            items,
            (mean(map(flip, by_order[q])) for q in items),
        )
    assert [tuple(p["phases"]) for p in flips["pairs"]] == list(
        itertools.combinations(range(plain.phases), 2)
    )
    for pair in flips["pairs"]:
        s, t = pair["phases"]
        differs = (float(consensus[q][s] != consensus[q][t]) for q in items)
        check_rate(plain, pair, items, differs)


def test_order_flips(made):
    plain, numbers = made
    flips = numbers["order_flips"]
    assert set(flips["arms"]) == {*plain.names(), "phases"}
    for arm in plain.names():
        items = plain.items([arm])
        for name, flip in (("pairwise", pairwise), ("any", any_flip)):
            check_rate(
                plain,
                flips["arms"][arm][name],
                items,
                (flip(plain.answers(q, arm)) for q in items),
            )
    views = [f"phase {s}" for s in range(plain.phases)]
    items = plain.items(views)

    def over_phases(q, flip):
        return mean(flip(plain.answers(q, view)) for view in views)

    check_rate(
        plain,
        flips["arms"]["phases"]["any"],
        items,
        (over_phases(q, any_flip) for q in items),
    )
    for k, rates in flips["by_options"].items():
        chosen = [q for q in items if plain.k[q] == int(k)]
        check_rate(
            plain, rates["pairwise"], chosen, (over_phases(q, pairwise) for q in chosen)
        )
        assert rates["orders"] == min(4, math.factorial(int(k)))
        assert rates["orders_possible"] == math.factorial(int(k))


def test_half_step(made):
    plain, numbers = made
    items = plain.items(ARMS, shifted=(False, True))
    half = numbers["half_step"]
    assert list(half["arms"]) == list(ARMS)
    changed = {}
    for arm, rates in half["arms"].items():
        changed[arm] = [
            plain.consensus(q, arm) != plain.consensus(q, arm, True) for q in items
        ]
        check_rate(plain, rates["consensus"], items, map(float, changed[arm]))
        check_rate(
            plain,
            rates["passes"],
            items,
            (
                mean(
                    a != b
                    for a, b in zip(
                        plain.answers(q, arm), plain.answers(q, arm, True), strict=True
                    )
                )
                for q in items
            ),
        )
    steps = Fraction(1, 2) if plain.phases % 2 else Fraction(1, 4)
    wanted = {"single": (Fraction(1, 2), 4), "fusion": (steps, 4)}
    wanted |= {"union": (Fraction(1, 2), 4 * plain.phases), "vote": (steps, 4)}
    wanted |= {"dense": (Fraction(1, 2), 10)}
    for arm, (shift, frames) in wanted.items():
        assert half["arms"][arm]["shift"] == {
            "steps": str(shift),
            "frames": pytest.approx(120 * float(shift) / frames),
            "seconds": pytest.approx(4 * float(shift) / frames),
        }
    for arm, test in half["fusion_against"].items():
        b = sum(
            x and not y for x, y in zip(changed["fusion"], changed[arm], strict=True)
        )
        c = sum(
            y and not x for x, y in zip(changed["fusion"], changed[arm], strict=True)
        )
        assert (test["only_arm"], test["only_against"]) == (b, c)
        assert test["p"] == pytest.approx(exact_mcnemar(b, c))


def test_consistency(made):
    plain, numbers = made
    shared = len(set(plain.video.values())) < len(plain.video)
    assert numbers["items"]["cluster"] == ("video" if shared else "question")
    assert numbers["items"]["videos"] == len(set(plain.video.values()))
    views = [f"phase {s}" for s in range(plain.phases)]
    items = plain.items(views)
    flips, orders = numbers["phase_flips"]["passes"], numbers["order_flips"]["arms"]
    values = numbers["consistency"]
    for kind, name in (("pairwise", "pairwise"), ("unanimous", "any")):
        fpc = values["fpc"][kind]
        assert fpc["value"] == pytest.approx(1 - flips[name]["value"])
        assert fpc["low"] == pytest.approx(1 - flips[name]["high"], abs=1e-9)
        assert fpc["high"] == pytest.approx(1 - flips[name]["low"], abs=1e-9)
        assert values["ooc"][kind]["value"] == pytest.approx(
            1 - orders["phases"][name]["value"]
        )
    fpc, ooc = (values[key]["pairwise"]["value"] for key in ("fpc", "ooc"))
    low, high = sorted((fpc, ooc))
    rating = (
        "high" if low >= 0.85 and high >= 0.9 else "low" if low < 0.75 else "medium"
    )
    assert values["rating"] == rating
    tops = []
    for q in items:
        every = [
            plain.arm_posterior(q, view, False, order)
            for view in views
            for order in plain.orders[q]
        ]
        tops.append(max(mean(p[c] for p in every) for c in range(plain.k[q])))
    assert values["robust"] == pytest.approx(mean(top > 0.75 for top in tops))
    assert values["fragile"] == pytest.approx(mean(top < 0.55 for top in tops))
    assert 0 < values["robust"] + values["fragile"]
    scored = [q for q in items if plain.gold[q] is not None]
    n_orders = min(len(plain.orders[q]) for q in scored)
    accuracies = [
        mean(plain.answers(q, view)[m] == plain.gold[q] for q in scored)
        for view in views
        for m in range(n_orders)
    ]
    assert values["configurations"] == len(accuracies)
    assert values["mean_accuracy"] == pytest.approx(mean(accuracies))
    assert values["accuracy_sd"] == pytest.approx(np.std(accuracies, ddof=1))


def test_margins_letters_types_and_cost(made):
    plain, numbers = made
    for arm, margins in numbers["margins_nats"].items():
        values = []
        for q in plain.gold:
            posterior = plain.arm_posterior(q, arm, False, plain.orders[q][0])
            if posterior is not None:
                first, second = sorted(posterior)[:-3:-1]
                values.append(math.log(first / second))
        assert margins["n"] == len(values)
        for key, quantile in (("q25", 0.25), ("median", 0.5), ("q75", 0.75)):
            assert margins[key] == pytest.approx(np.quantile(values, quantile))
    counts = defaultdict(Counter)
    for (q, *_, order), content in plain.content.items():
        counts[str(plain.k[q])][order.index(content.index(max(content)))] += 1
    for k, letters in numbers["letters"].items():
        total = sum(counts[k].values())
        assert letters["n"] == total
        assert letters["shares"] == pytest.approx(
            [counts[k][pos] / total for pos in range(int(k))]
        )
    for kind, values in numbers["by_type"].items():
        of_kind = [q for q in plain.gold if plain.type[q] == kind]
        items = [q for q in plain.items(plain.names(), gold=True) if q in of_kind]
        check_rate(
            plain,
            values["accuracy"]["fusion"],
            items,
            (
                mean(a == plain.gold[q] for a in plain.answers(q, "fusion"))
                for q in items
            ),
        )
        assert values["n"] == len(of_kind)
    s = plain.phases
    assert numbers["cost"]["fusion"]["attention_units"] == s * 16
    assert numbers["cost"]["union"]["attention_units"] == (4 * s) ** 2
    assert numbers["cost"]["dense"]["attention_units"] == 100
    assert numbers["cost"]["single"] == {
        "passes": 1,
        "frames": 4,
        "attention_units": 16,
    }


def test_identities(made):
    """|acc_s - acc_t| <= F[s,t], pairwise <= any, unanimous <= pairwise, b + c."""
    plain, numbers = made
    views = [f"phase {s}" for s in range(plain.phases)]
    items = [q for q in plain.items(views) if plain.gold[q] is not None]
    for s, t in itertools.combinations(views, 2):
        acc = [
            mean(plain.consensus(q, v) == plain.gold[q] for q in items) for v in (s, t)
        ]
        flips = mean(plain.consensus(q, s) != plain.consensus(q, t) for q in items)
        assert abs(acc[0] - acc[1]) <= flips + 1e-12
    flips = numbers["phase_flips"]["consensus"]
    pairs = [pair["value"] for pair in numbers["phase_flips"]["pairs"]]
    assert mean(pairs) == pytest.approx(flips["pairwise"]["value"])
    assert max(pairs) <= flips["any"]["value"] + 1e-12
    m = plain.phases
    assert flips["any"]["value"] * 2 / m <= flips["pairwise"]["value"] + 1e-12
    for rates in numbers["order_flips"]["arms"].values():
        assert rates["pairwise"]["value"] <= rates["any"]["value"] + 1e-12
    for values in (numbers["consistency"][key] for key in ("fpc", "ooc")):
        assert values["unanimous"]["value"] <= values["pairwise"]["value"] + 1e-12
    for entry in numbers["comparisons"]:
        test = entry["consensus"]
        assert abs(test["only_arm"] - test["only_against"]) * 100 / entry[
            "n"
        ] == pytest.approx(abs(test["points"]))


def test_dropped_items_are_named_with_reasons(tmp_path):
    passes = made_run(tmp_path, drop=DROP, no_gold=8)
    lines = (tmp_path / "passes.jsonl").read_text().splitlines(keepends=True)
    kept = [
        line
        for line, row in zip(lines, passes, strict=True)
        if (row["question_id"], row["arm"]) != ("q13", "dense")
    ]
    (tmp_path / "passes.jsonl").write_text("".join(kept))
    items = report(tmp_path).numbers["items"]
    assert items["missing_passes"] == 3
    assert items["without_gold"] == 1
    assert [
        (d["question_id"], d["missing_passes"], d["reason"]) for d in items["dropped"]
    ] == [
        ("q13", 0, "not every arm has been scored yet"),
        ("q3", 1, "made missing"),
        ("q5", 1, "made missing"),
        ("q6", 1, "made missing"),
    ]


def test_quick_has_no_flips_not_zero_flips(tmp_path):
    made_run(tmp_path, protocol="quick")
    made = report(tmp_path)
    numbers = made.numbers
    assert list(numbers["accuracy"]) == ["single"]
    assert numbers["phase_flips"] is None
    assert numbers["order_flips"] is None
    assert numbers["half_step"] is None
    assert math.isnan(made.fpc)
    assert math.isnan(made.ooc)
    assert numbers["consistency"]["rating"] is None
    assert made.to_dict()["consistency"]["fpc"]["pairwise"] == {
        "value": None,
        "low": None,
        "high": None,
        "n": 0,
    }
    text = str(made)
    assert "–" in text
    assert "nan" not in text + made.to_markdown() + made._repr_html_()


def test_stableeval(tmp_path):
    passes = made_run(tmp_path, protocol="stableeval")
    numbers = report(tmp_path).numbers
    plain = Plain(passes)
    assert set(numbers["accuracy"]) == {*plain.names()} - {"union", "dense"}
    assert numbers["half_step"] is None
    assert numbers["consistency"]["rating"] in ("high", "medium", "low")
    assert numbers["order_flips"]["by_options"]["4"]["orders"] == 4


def test_answers_without_logprobs_count(tmp_path):
    passes = made_run(tmp_path)
    with_logprobs = report(tmp_path).numbers
    for row in passes:
        row["logprobs"] = None
    lines = [json.dumps(row) + "\n" for row in passes]
    (tmp_path / "passes.jsonl").write_text("".join(lines))
    numbers = report(tmp_path).numbers
    assert (
        numbers["order_flips"]["arms"]["phases"]
        == with_logprobs["order_flips"]["arms"]["phases"]
    )
    assert numbers["phase_flips"]["passes"] == with_logprobs["phase_flips"]["passes"]
    assert "fusion" not in numbers["accuracy"]
    for arm in ("single", "vote", "union"):
        n_items = numbers["items"]["with_passes"]
        assert numbers["accuracy"][arm]["consensus"]["n"] == n_items
    assert {row["arm"] for row in numbers["comparisons"]} == {"vote"}


def test_merged_repeats_and_a_run_without_passes(tmp_path):
    made_run(tmp_path)
    (tmp_path / "passes.jsonl").write_text("")
    with pytest.raises(RecordError, match="holds no passes yet"):
        report(tmp_path)
    with pytest.raises(FileNotFoundError):
        report(tmp_path / "nowhere")


def test_an_item_with_some_of_its_orders_is_no_complete_item(tmp_path):
    made_run(tmp_path / "whole", protocol="stableeval", n_items=12)
    whole = report(tmp_path / "whole").numbers
    path = tmp_path / "whole" / "passes.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    last = [line for line in lines if json.loads(line)["question_id"] == "q11"]
    assert len(last) == 3 * 5
    path.write_text("".join(lines[: -len(last) + 2]))  # killed in the first phase
    part = report(tmp_path / "whole").numbers
    for arm in ("phase 0", "phases"):
        flips = part["order_flips"]["arms"][arm]["pairwise"]
        assert flips["n"] == whole["order_flips"]["arms"][arm]["pairwise"]["n"] - 1
    assert part["items"]["dropped"] == [
        {
            "benchmark": "made",
            "question_id": "q11",
            "missing_passes": 0,
            "reason": "not every arm has been scored yet",
        }
    ]
