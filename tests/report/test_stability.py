"""The tables of the StableEval protocol against a plain recomputation."""

import itertools
import json
import math
from statistics import mean

import numpy as np
import pytest
from made_runs import made_run

from phasefusion.records import read_passes
from phasefusion.report import report
from phasefusion.report.figures import stability, strata
from phasefusion.report.figures.defects import parts_of_variance
from phasefusion.report.figures.study import Study
from phasefusion.report.sections import sections

N = 40
SURE = {"q30", "q31", "q33"}


def plain(passes):
    """Measures of every question from its passes, by the book."""
    questions = {}
    for p in passes:
        cells = questions.setdefault(p["question_id"], {})
        cells[p["phase_index"], tuple(p["order"])] = p
    found = {}
    for name, cells in questions.items():
        phases = sorted({s for s, _ in cells})
        orders = list(dict.fromkeys(o for _, o in cells))
        answers = {key: p["answer"] for key, p in cells.items()}
        if None in answers.values():
            continue
        gold = next(iter(cells.values()))["gold"]
        posteriors, views = [], {}
        for (s, order), p in cells.items():
            content = [p["logprobs"][order.index(c)] for c in range(len(order))]
            weights = [math.exp(x) for x in content]
            posteriors.append([w / sum(weights) for w in weights])
            views[s, orders.index(order)] = {
                "entropy": -sum(x * math.log(x) for x in posteriors[-1]),
                "k": len(order),
                "logprobs": content,
                "right": None if gold is None else p["answer"] == gold,
            }
        found[name] = {
            "fpc": mean(agree([answers[s, o] for s in phases]) for o in orders),
            "ooc": mean(agree([answers[s, o] for o in orders]) for s in phases),
            "right": (
                math.nan if gold is None else mean(a == gold for a in answers.values())
            ),
            "cells": views,
            "entropy": mean(one["entropy"] for one in views.values()),
            "top": max(
                mean(p[c] for p in posteriors) for c in range(len(posteriors[0]))
            ),
        }
    return found


def agree(answers):
    return mean(a == b for a, b in itertools.combinations(answers, 2))


def defect(one):
    fpc, ooc = one["fpc"], one["ooc"]
    if fpc < 0.85:
        return "cross" if ooc < 0.85 else "video" if ooc > 0.9 else "between"
    if ooc < 0.85:
        return "language" if fpc > 0.9 else "between"
    return "stable" if min(fpc, ooc) > 0.9 else "between"


@pytest.fixture(scope="module", params=[(), {(3, "phase", False, 1, 1)}])
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    passes = made_run(
        folder, n_items=N, protocol="stableeval", drop=request.param, no_gold=5
    )
    for p in passes:
        if p["question_id"] in SURE:
            make_sure(p)
    write(folder, passes)
    return plain(passes), report(folder)


def make_sure(p):
    """Let a question be answered alike in every pass, wrongly if it can be."""
    order, k = p["order"], p["n_options"]
    p["answer"] = (p["gold"] + (p["question_id"] != "q30")) % k
    p["logprobs"] = [-0.02 if c == p["answer"] else -6.0 for c in order]


def write(folder, passes):
    lines = "".join(json.dumps(p) + "\n" for p in passes)
    (folder / "passes.jsonl").write_text(lines)


def table(made, title):
    return next(
        one
        for one in made.numbers["figure"]["tables"]
        if one["title"].startswith(title)
    )


def test_the_three_numbers(made):
    expected, found = made
    rows = table(found, "StableEval")["rows"]
    for row, name in zip(rows, ("right", "fpc", "ooc"), strict=True):
        values = [one[name] for one in expected.values() if one[name] == one[name]]
        assert row["questions"]["value"] == pytest.approx(mean(values))
        assert row["n"] == len(values)
        assert row["questions"]["low"] <= mean(values) <= row["questions"]["high"]
    general = found.numbers["consistency"]
    assert rows[1]["questions"]["value"] == pytest.approx(
        general["fpc"]["pairwise"]["value"]
    )
    assert rows[2]["questions"]["value"] == pytest.approx(
        general["ooc"]["pairwise"]["value"]
    )


def test_every_question_is_attributed(made):
    expected, found = made
    rows = table(found, "Where questions are unstable")["rows"]
    kinds = [defect(one) for one in expected.values()]
    assert len(set(kinds)) >= 3, "the made run must have several defects"
    for row in rows:
        kind = next(
            k
            for k in ("video", "language", "cross", "stable", "between")
            if row["defect"].startswith(k)
        )
        chosen = [one for one in expected.values() if defect(one) == kind]
        assert row["n"] == len(chosen)
        assert row["questions"]["value"] == pytest.approx(len(chosen) / len(expected))
        if chosen:
            entropy = mean(one["entropy"] for one in chosen)
            assert row["entropy"] == pytest.approx(entropy)
    assert sum(row["n"] for row in rows) == len(expected)


def test_the_lists_are_of_the_right_questions(made):
    expected, found = made
    drop = {f"made/{name}" for name, one in expected.items() if one["fpc"] < 0.8}
    listed = table(found, "Questions to drop")
    assert {row["question"] for row in listed["rows"]} == drop
    assert listed["title"] == f"Questions to drop ({len(drop)})"
    fpcs = [row["FPC"] for row in listed["rows"]]
    assert fpcs == sorted(fpcs)
    for row in listed["rows"]:
        one = expected[row["question"].removeprefix("made/")]
        assert row["FPC"] == pytest.approx(one["fpc"])
        assert ("orders disagree too" in row["reason"]) == (one["ooc"] < 0.85)
        assert ("no clear favourite" in row["reason"]) == (one["top"] < 0.55)
    gaps = {
        f"made/{name}"
        for name, one in expected.items()
        if min(one["fpc"], one["ooc"]) > 0.9 and one["right"] < 0.5
    }
    assert gaps == {"made/q31", "made/q33"}
    rows = table(found, "Wrong and stable")["rows"]
    assert {row["question"] for row in rows} == gaps
    assert all(row["answer"] != row["right one"] for row in rows)
    bank = {row["questions"]: row["n"] for row in table(found, "The question")["rows"]}
    assert bank == {
        "all judged": len(expected),
        "to keep": len(expected) - len(drop),
        "to drop": len(drop),
        "wrong and stable": len(gaps),
    }


def test_long_lists_are_cut_in_print_alone(made, monkeypatch, tmp_path):
    _, found = made
    listed = table(found, "Questions to drop")
    assert len(listed["rows"]) > 3
    listed["printed"] = 3
    section = next(
        one for one in sections(found.numbers) if one.title == listed["title"]
    )
    assert len(section.rows) == 3
    assert f"{len(listed['rows']) - 3} more are in the JSON report." in section.note
    assert len(table(found, "Questions to drop")["rows"]) > 3
    listed["printed"] = stability.PRINTED


def test_variance_adds_up():
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(3, 5, 4))
    parts = parts_of_variance(scores)
    assert sum(parts) == pytest.approx(scores.var(axis=(0, 1)).mean())
    order_alone = np.broadcast_to(rng.normal(size=(1, 5, 4)), (3, 5, 4))
    assert parts_of_variance(order_alone)[1] == pytest.approx(
        order_alone.var(axis=1).mean()
    )
    assert parts_of_variance(order_alone)[::2] == pytest.approx((0, 0))


def test_variance_of_a_run(made):
    _, found = made
    rows = table(found, "What moves the scores")["rows"]
    assert sum(row["of it"] for row in rows) == pytest.approx(1)
    assert all(row["variance"] > 0 for row in rows[:-1])


def test_what_moves_a_question_most(made):
    """The greatest part of the variance of each question, recomputed by the cells."""
    expected, found = made
    most = []
    for one in expected.values():
        phases, orders = (
            sorted({key[axis] for key in one["cells"]}) for axis in (0, 1)
        )
        z = {
            key: [x - mean(cell["logprobs"]) for x in cell["logprobs"]]
            for key, cell in one["cells"].items()
        }
        parts = np.zeros(3)
        for c in range(one["cells"][0, 0]["k"]):
            whole = mean(values[c] for values in z.values())
            by_phase = {s: mean(z[s, m][c] for m in orders) - whole for s in phases}
            by_order = {m: mean(z[s, m][c] for s in phases) - whole for m in orders}
            parts += (
                mean(x**2 for x in by_phase.values()),
                mean(x**2 for x in by_order.values()),
                mean(
                    (z[s, m][c] - whole - by_phase[s] - by_order[m]) ** 2 for s, m in z
                ),
            )
        most.append(int(parts.argmax()) if parts.max() > 1e-20 else 3)
    rows = table(found, "What moves the scores")["rows"]
    shares = [row["most, questions"] for row in rows]
    assert shares == pytest.approx([most.count(j) / len(most) for j in range(4)])
    assert len(set(most)) > 2


def test_a_preference_for_the_first_letter_is_seen(made):
    # made runs give every option 0.4 nats less a place further on
    _, found = made
    rows = table(found, "Scores by place")["rows"]
    by_letter = {row["letter"]: row["score"] for row in rows}
    assert by_letter["A of 4"] > by_letter["D of 4"] + 0.8
    assert sum(by_letter[f"{a} of 4"] for a in "ABCD") == pytest.approx(0, abs=1e-9)


def test_every_view_has_its_entropy(made):
    expected, found = made
    rows = table(found, "Views")["rows"]
    phases = [row for row in rows if row["view"].startswith("phase")]
    assert len(phases) == 3
    for row in rows:
        kind, number = row["view"].split()
        entropies, shares, spreads, right = [], [], [], []
        for one in expected.values():
            for (s, m), cell in one["cells"].items():
                if (s if kind == "phase" else m) == int(number):
                    entropies.append(cell["entropy"])
                    shares.append(cell["entropy"] / math.log(cell["k"]))
                    spreads.append(np.var(cell["logprobs"]))
                    right += [cell["right"]] * (cell["right"] is not None)
        assert row["passes"] == len(entropies)
        assert row["entropy"] == pytest.approx(mean(entropies))
        assert row["of greatest"] == pytest.approx(mean(shares))
        assert row["logit variance"] == pytest.approx(mean(spreads))
        assert row["right"] == pytest.approx(mean(right))


def test_breakdowns_have_every_question_once(made):
    expected, found = made
    for title in ("duration", "type", "length of a step"):
        name = {"duration": "Stability by duration", "type": "Stability by type"}
        one = table(found, name.get(title, "Stability by length"))
        assert sum(row["n"] for row in one["rows"]) == len(expected)


def test_a_step_is_the_duration_over_the_frames(tmp_path):
    passes = made_run(tmp_path, n_items=8, protocol="stableeval")
    lengths = (0.4, 1.0, 3.0, 10.0)  # of 4 frames each: steps of 0.1 s to 2.5 s
    for p in passes:
        p["duration_s"] = lengths[int(p["question_id"][1:]) % 4]
    write(tmp_path, passes)
    expected, found = plain(passes), report(tmp_path)
    rows = table(found, "Stability by length of a step")["rows"]
    groups = {"up to 0.25": (0, 1), "0.5 to 1": (2,), "2 to 4": (3,)}
    assert [row["step, s"] for row in rows] == list(groups)
    for row in rows:
        chosen = [
            one
            for name, one in expected.items()
            if int(name[1:]) % 4 in groups[row["step, s"]]
        ]
        assert row["n"] == len(chosen)
        for column, key in (("accuracy", "right"), ("FPC", "fpc"), ("OOC", "ooc")):
            values = [one[key] for one in chosen]
            assert row[column]["value"] == pytest.approx(mean(values))


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ((100, 1500, 1501, 1502, 1503, 3600), ["1500", "1502", "1503"]),
        ((100.1, 100.2, 100.3, 100.4, 100.5), ["100.2", "100.3", "100.4"]),
        ((0.001, 12000, 34567, 123456), ["9000", "23300", "56800"]),
    ],
)
def test_bounds_of_groups_are_told_apart(values, names):
    """Hours have no exponent, and what differs in the fifth digit shows it."""
    lengths = np.array(values, float)
    found = dict(strata._quarters(lengths))
    first, second, third = names
    assert list(found) == [
        f"up to {first}",
        f"{first} to {second}",
        f"{second} to {third}",
        f"above {third}",
        "not recorded",
    ]
    assert sum(chosen.sum() for chosen in found.values()) == len(values)


def test_units_a_question_are_of_those_whose_frames_are_known(tmp_path):
    passes = made_run(tmp_path, n_items=4, protocol="stableeval")
    for p in passes:
        if p["question_id"] in ("q1", "q2"):
            p["budget"] = None
    write(tmp_path, passes)
    made = table(report(tmp_path), "Cost")
    known = [p for p in passes if p["budget"]]
    whole = made["rows"][-1]
    assert whole["units"] == 16 * len(known)
    assert whole["units a question"] == pytest.approx(16 * len(known) / 2)
    assert made["rows"][0]["units a question"] == 16
    assert whole["times one pass"] == pytest.approx(len(known) / 2)
    assert "2 questions with passes of unknown frames are left out" in made["note"]


def test_costs_of_unknown_frames_are_not_defined(tmp_path):
    passes = made_run(tmp_path, n_items=4, protocol="stableeval")
    write(tmp_path, [p | {"budget": None} for p in passes])
    made = report(tmp_path)
    one, whole = table(made, "Cost")["rows"]
    assert (one["passes"], whole["passes"]) == (4, len(passes))
    for row in (one, whole):
        assert row["frames a pass"] == "–"
        assert row["frames shown"] is row["units"] is None
        assert math.isnan(row["units a question"])
    assert "nan" not in made.to_markdown().split("## Sampling")[0]


def test_costs_are_frames_squared(tmp_path):
    passes = made_run(tmp_path, n_items=8, budget=4, protocol="stableeval")
    for p in passes:
        p["budget"] = 4 if p["question_id"] != "q2" else 2  # a clip of two frames
    write(tmp_path, passes)
    one, whole = table(report(tmp_path), "Cost")["rows"]
    units = sum(p["budget"] ** 2 for p in passes)
    assert whole["passes"] == len(passes)
    assert whole["frames a pass"] == "2 to 4"
    assert whole["frames shown"] == sum(p["budget"] for p in passes)
    assert whole["units"] == units
    assert whole["units a question"] == pytest.approx(units / 8)
    assert (one["passes"], one["units"]) == (8, 7 * 16 + 4)
    assert whole["times one pass"] == pytest.approx(units / (7 * 16 + 4))
    assert "unknown" not in table(report(tmp_path), "Cost")["note"]


def test_pooled_posteriors_are_of_questions_with_every_pass(tmp_path):
    """One that lacks a pass is not judged, so it has none either."""
    lost = {(3, "phase", False, 1, 1)}
    passes = made_run(tmp_path, n_items=8, protocol="stableeval", drop=lost)
    settings = json.loads((tmp_path / "run.json").read_text())["settings"]
    study = Study(read_passes(tmp_path), settings)
    top = stability.stability_of(study).pooled_top
    expected = plain(passes)
    assert set(study.ids) - set(expected) == {"q3"}
    wanted = [expected[name]["top"] if name != "q3" else np.nan for name in study.ids]
    np.testing.assert_allclose(top, wanted)


def test_what_questions_lack_is_said(tmp_path):
    passes = made_run(tmp_path, n_items=8, protocol="stableeval")
    for p in passes:
        p |= {"type": None, "duration_s": None}
    write(tmp_path, passes)
    found = report(tmp_path)
    for title, lacks in (
        ("Stability by duration", "durations"),
        ("Stability by type", "types of question"),
        ("Stability by length", "durations"),
    ):
        one = table(found, title)
        assert [row[one["columns"][0]["name"]] for row in one["rows"]] == [
            "not recorded"
        ]
        assert one["note"].startswith(f"The questions carry no {lacks}")


def test_short_clips_with_fewer_phases_are_judged_by_those(tmp_path):
    """With short="unique" a clip has as many phases as its frames allow."""
    passes = made_run(tmp_path, n_items=12, protocol="stableeval")
    short = {"q3", "q4"}
    kept = [
        p | ({"n_phases": 2, "phase": None} if p["question_id"] in short else {})
        for p in passes
        if p["question_id"] not in short or p["phase_index"] < 2
    ]
    write(tmp_path, kept)
    expected, found = plain(kept), report(tmp_path)
    assert set(expected) >= short
    for name, key in (("Mean Acc", "right"), ("OOC", "ooc"), ("FPC", "fpc")):
        (row,) = [r for r in table(found, "StableEval")["rows"] if name in str(r)]
        values = [one[key] for one in expected.values() if not math.isnan(one[key])]
        assert row["n"] == len(values)
        assert row["questions"]["value"] == pytest.approx(mean(values))
    assert "not judged" not in table(found, "The question bank")["note"]


def test_scores_that_nothing_moves_are_of_no_part(tmp_path):
    passes = made_run(tmp_path, n_items=6, protocol="stableeval")
    for p in passes:
        if p["question_id"] != "q5":
            content = [-1.0 - c for c in range(p["n_options"])]
            p["logprobs"] = [content[c] for c in p["order"]]
            p["answer"] = 0
    write(tmp_path, passes)
    rows = table(report(tmp_path), "What moves the scores")["rows"]
    shares = [row["most, questions"] for row in rows]
    assert sum(shares) == pytest.approx(1)
    assert shares[-1] == pytest.approx(5 / 6)


def test_the_headline_says_it(made):
    expected, found = made
    text = found.to_markdown()
    drop = sum(one["fpc"] < 0.8 for one in expected.values())
    gaps = len(table(found, "Wrong and stable")["rows"])
    assert drop > 0
    said = f"- {drop} questions of {len(expected)} are to drop from the bank"
    assert said in text
    assert f"; {gaps} {'is' if gaps == 1 else 'are'} wrong and stable" in text
    assert "- StableEval: Mean Acc " in text
    assert "to drop from the bank" in text
    assert text.index("## StableEval") < text.index("## Accuracy")


def test_generated_answers_have_no_scores_to_show(tmp_path):
    passes = made_run(tmp_path, n_items=8, protocol="stableeval")
    for p in passes:
        p |= {"logprobs": None, "path": "generate", "option_mass": None}
        p["text"] = "ABCDEFG"[p["order"].index(p["answer"])]
    write(tmp_path, passes)
    found = report(tmp_path)
    titles = [one["title"] for one in found.numbers["figure"]["tables"]]
    assert "What moves the scores of an option" not in titles
    assert all(math.isnan(row["entropy"]) for row in table(found, "Views")["rows"])
    assert table(found, "The question bank")["rows"][0]["n"] == 8
    assert str(found)
