"""Gates of whole runs: verdicts, what is refused, and what is written."""

import json
import random
import re
import shutil
from xml.etree import ElementTree

import pytest
from compare_runs import answer, write_run
from made_runs import made_run

import phasefusion
from phasefusion._measures import measure_run
from phasefusion.compare import compare
from phasefusion.errors import RecordError, UsageError
from phasefusion.gate import Check, GateResult, MeasureRule, Rules, gate
from phasefusion.report import report
from phasefusion.simulate import Effects, corpus

DESIGN = {"n_videos": 120, "orders": "cyclic", "seed": 3}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of one corpus: as it was, again, better, and better on one phase."""
    folder = tmp_path_factory.mktemp("runs")
    old, again = corpus(**DESIGN).write(folder / "a", reruns=1, frames=False)
    better = Effects(ability=1.8)
    fitted = Effects(ability=2.4, phase_sd=1.1)
    return {
        "old": old,
        "again": again,
        "better": corpus(better, **DESIGN).write(folder / "b", frames=False)[0],
        "fitted": corpus(fitted, **DESIGN).write(folder / "c", frames=False)[0],
    }


def test_a_rerun_passes(runs):
    made = gate(runs["old"], runs["again"])
    assert (made.verdict, made.exit_status) == ("pass", 0)
    assert [check.state for check in made.checks] == ["held"] * 3
    assert made.settings == ("settings.scorer.rerun: 0 -> 1",)


def test_only_what_differs_is_listed_as_differing(runs, tmp_path):
    """Another effect of the model is another scorer, and asks the same questions."""
    made = gate(runs["old"], runs["better"])
    assert [entry.split(":")[0] for entry in made.settings] == [
        "settings.scorer.simulation_sha256"
    ]
    assert compare(runs["old"], runs["better"]).settings == made.settings
    (other,) = corpus(**(DESIGN | {"seed": 99})).write(tmp_path / "b", frames=False)
    settings = compare(runs["old"], other).settings
    (questions,) = [one for one in settings if one.startswith("questions: ")]
    assert re.match(r"questions: \d+ changed, first: q\d+", questions)


def test_questions_that_differ_in_order_alone(runs, tmp_path):
    shutil.copytree(runs["old"], tmp_path / "run")
    file = tmp_path / "run" / "run.json"
    described = json.loads(file.read_text())
    for name, hashes in described["questions"]["items"].items():
        described["questions"]["items"][name] = dict(reversed(hashes.items()))
    described["settings"]["questions_sha256"] = "f" * 64
    file.write_text(json.dumps(described))
    made = gate(runs["old"], tmp_path / "run")
    assert made.settings == ("questions: the same ones in another order",)
    assert "| questions | the same ones in another order |" in made.to_markdown()


def test_a_better_candidate_passes(runs):
    made = gate(runs["old"], runs["better"])
    assert made.verdict == "pass"
    assert made.checks[0].low > 0.02


def test_accuracy_that_rises_while_fpc_falls_is_rolled_back(runs):
    made = gate(runs["old"], runs["fitted"])
    assert (made.verdict, made.exit_status) == ("roll back", 1)
    accuracy, fpc, _ = made.checks
    assert (accuracy.state, fpc.state) == ("held", "fell")
    assert accuracy.low > 0.0
    assert fpc.high < -fpc.margin
    assert "the gain holds for one way of sampling" in made.reasons[-1]


def test_a_small_sample_cannot_tell(tmp_path):
    made = corpus(n_videos=6, orders="cyclic", seed=1)
    found = gate(*made.write(tmp_path, reruns=1, frames=False))
    assert (found.verdict, found.exit_status) == ("cannot tell", 3)
    unsure = [check for check in found.checks if check.state == "open"]
    for check, reason in zip(unsure, found.reasons, strict=True):
        assert f"{check.needed.n} items in {check.needed.n_clusters} cl" in reason
        assert check.needed.n > check.n


def test_a_run_against_itself(runs):
    made = gate(runs["old"], runs["old"], rules=Rules(cluster="question"))
    assert made.verdict == "pass"
    assert made.notices == ("both are the same run",)
    assert all(check.difference == 0.0 for check in made.checks)
    # of 120 clusters without a change one in forty may still fall
    assert gate(runs["old"], runs["old"]).verdict == "cannot tell"


def test_numbers_are_those_of_the_report(runs):
    made = gate(runs["old"], runs["fitted"])
    for side, run in (("baseline", "old"), ("candidate", "fitted")):
        numbers = report(runs[run]).numbers["consistency"]
        accuracy, fpc, ooc = (getattr(check, side) for check in made.checks)
        assert fpc == pytest.approx(numbers["fpc"]["pairwise"]["value"])
        assert ooc == pytest.approx(numbers["ooc"]["pairwise"]["value"])
        assert 0.0 < accuracy < 1.0


def test_accuracy_is_the_mean_over_phases_and_orders(tmp_path):
    one = made_run(tmp_path / "a", protocol="stableeval", n_options=4)
    made_run(tmp_path / "b", protocol="stableeval", n_options=4, seed=0)
    made = gate(tmp_path / "a", tmp_path / "b", rules=Rules(cluster="question"))
    right = [row["answer"] == row["gold"] for row in one]
    assert made.checks[0].candidate == pytest.approx(sum(right) / len(right))


def test_does_not_depend_on_the_order_of_the_passes(runs, tmp_path):
    shuffled = tmp_path / "shuffled"
    shutil.copytree(runs["fitted"], shuffled)
    lines = (shuffled / "passes.jsonl").read_text().splitlines()
    random.Random(0).shuffle(lines)
    (shuffled / "passes.jsonl").write_text("\n".join(lines) + "\n")
    one, other = gate(runs["old"], runs["fitted"]), gate(runs["old"], shuffled)
    assert one.verdict == other.verdict
    for a, b in zip(one.checks, other.checks, strict=True):
        assert (a.low, a.high, a.n) == pytest.approx((b.low, b.high, b.n), abs=1e-12)


SMALL = {"n_videos": 20, "orders": "cyclic", "seed": 1}


@pytest.mark.parametrize(
    ("changes", "topic", "said"),
    [
        ({"budget": 4}, "sampling", "grid.budget: 8 -> 4"),
        ({"phases": 2}, "sampling", "grid.phases: 3 -> 2"),
        ({"origin": "left"}, "sampling", "grid.origin: [1, 2] -> [0, 1]"),
        ({"orders": "all"}, "orders", "options were shown in other orders"),
    ],
)
def test_another_way_of_measuring_is_refused_or_noted(tmp_path, changes, topic, said):
    (one,) = corpus(**SMALL).write(tmp_path / "a", frames=False)
    (other,) = corpus(**(SMALL | changes)).write(tmp_path / "b", frames=False)
    with pytest.raises(RecordError, match=f'allow = ."{topic}".') as caught:
        gate(one, other)
    assert said in str(caught.value)
    made = gate(one, other, rules=Rules(allow=(topic,)))
    assert any(said in notice for notice in made.notices)


def test_other_video_files_are_refused_or_noted(tmp_path):
    (one,) = corpus(**SMALL).write(tmp_path / "a", frames=False)
    (other,) = corpus(**SMALL).write(tmp_path / "b", frames=False)
    for run, digit in ((one, "0"), (other, "f")):
        path = run / "passes.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        known = set()
        for row in rows:  # the first pass of a question does not say it
            digest = ("0" if row["video_id"] == "v00000" else digit) * 16
            row["video_digest"] = digest if row["question_id"] in known else None
            known.add(row["question_id"])
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    n = len({row["question_id"] for row in rows})
    n_same = len({r["question_id"] for r in rows if r["video_id"] == "v00000"})
    said = f"the videos of {n - n_same} of {n} are other files"
    with pytest.raises(RecordError, match=said):
        gate(one, other)
    made = gate(one, other, rules=Rules(allow=("questions",)))
    assert any(said in notice for notice in made.notices)


@pytest.fixture
def small(tmp_path):
    made_run(tmp_path / "a", protocol="stableeval", n_items=20)
    return tmp_path


def test_half_of_the_items(small):
    passes = made_run(small / "b", protocol="stableeval", n_items=20)
    kept = list(dict.fromkeys(row["question_id"] for row in passes))[:10]
    text = "".join(json.dumps(r) + "\n" for r in passes if r["question_id"] in kept)
    (small / "b" / "passes.jsonl").write_text(text)
    with pytest.raises(RecordError, match="10 shared of 20 and 10"):
        gate(small / "a", small / "b")
    made = gate(small / "a", small / "b", rules=Rules(allow=("questions",)))
    assert made.left_out == {"only in the baseline": 10}
    assert made.n_shared == 10


def test_other_items_are_refused(small):
    made_run(small / "b", protocol="stableeval", n_items=20)
    path = small / "b" / "passes.jsonl"
    path.write_text(path.read_text().replace('"question_id": "', '"question_id": "x'))
    with pytest.raises(RecordError, match="share no item"):
        gate(small / "a", small / "b")


def test_another_gold_under_the_same_id_is_left_out(small):
    passes = made_run(small / "b", protocol="stableeval", n_items=20)
    wanted = passes[0]["question_id"]
    for row in passes:
        if row["question_id"] == wanted:
            row["gold"] = (row["gold"] + 1) % row["n_options"]
    text = "".join(json.dumps(row) + "\n" for row in passes)
    (small / "b" / "passes.jsonl").write_text(text)
    made = gate(small / "a", small / "b")
    assert made.left_out == {"another question or gold under the same id": 1}
    assert made.n_shared == 19


def test_missing_passes_are_said_and_cannot_pass(tmp_path):
    made = corpus(Effects(missing=0.05), **DESIGN)
    found = gate(*made.write(tmp_path, reruns=1, frames=False))
    assert found.verdict == "cannot tell"
    assert "finish the runs" in found.reasons[-1]
    assert found.left_out["a pass is missing, or no gold"] > 30
    relaxed = gate(
        tmp_path / "model-0",
        tmp_path / "model-0-rerun-1",
        rules=Rules(min_complete=0.1),
    )
    assert relaxed.verdict != "roll back"
    assert not any("finish the runs" in reason for reason in relaxed.reasons)
    assert ElementTree.fromstring(found.to_junit()).get("errors") != "0"


def test_one_phase_has_no_fpc(tmp_path):
    for name in "ab":
        made_run(tmp_path / name, protocol="quick", n_items=20)
    with pytest.raises(RecordError, match=r"fpc.judged = false"):
        gate(tmp_path / "a", tmp_path / "b")
    path = tmp_path / "gate.toml"
    path.write_text("[fpc]\njudged = false\n[ooc]\njudged = false\n")
    assert [
        c.measure for c in gate(tmp_path / "a", tmp_path / "b", rules=path).checks
    ] == ["accuracy"]


def test_a_text_that_names_no_option_is_not_right(tmp_path):
    """A candidate must not gain by refusing what it would get wrong."""
    old = [answer(f"q{i}", int(i < 60)) for i in range(300)]
    new = [answer(f"q{i}", None if i < 60 else 0) for i in range(300)]
    runs = [write_run(tmp_path / name, rows) for name, rows in (("a", old), ("b", new))]
    rules = Rules(fpc=MeasureRule(judged=False), ooc=MeasureRule(judged=False))
    (check,) = gate(*runs, rules=rules).checks
    assert (check.n, check.baseline, check.candidate) == (300, 0.8, 0.8)
    assert measure_run(runs[1]).n_incomplete == 60


def test_no_run(tmp_path):
    with pytest.raises(FileNotFoundError):
        gate(tmp_path / "a", tmp_path / "b")


RULES = """
alpha = 0.1
power = 0.9
cluster = "question"
min_shared_percent = 50
allow = ["orders"]
[accuracy]
margin_points = 1.5
[fpc]
floor_percent = 85
[ooc]
judged = false
"""


def test_rules_from_toml(tmp_path):
    path = tmp_path / "gate.toml"
    path.write_text(RULES)
    rules = Rules.read(path)
    assert (rules.alpha, rules.power, rules.cluster) == (0.1, 0.9, "question")
    assert (rules.min_shared, rules.min_complete) == (0.5, 0.9)
    assert rules.accuracy.margin == 0.015
    assert (rules.fpc.margin, rules.fpc.floor) == (0.02, 0.85)
    assert not rules.ooc.judged
    assert rules.allow == ("orders",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("margin = 1", "'margin' is not a rule"),
        ("[fpc]\nmargin = 1", "fpc.margin is not a rule"),
        ("[fpc]\nfloor_percent = 0.85", "looks like a share; in percent that is 85"),
        ("min_shared_percent = 0.9", "looks like a share; in percent that is 90"),
        ("[ooc]\nmargin_points = 0.02", "looks like a share; in percent that is 2"),
        ("[fpc]\nmargin_points = 'two'", "must be a number"),
        ("[fpc]\nmargin_points = 0", "above 0 and at most 100"),
        ("[fpc]\nfloor_percent = 100", r"floor must be in \(0, 1\)"),
        ("fpc = 2", "must be a table"),
        ("alpha = true", "must be a number"),
        ("alpha = 0.7", r"alpha must be in \(0, 0.5\)"),
        ("cluster = 'item'", "cluster must be one of"),
        ("allow = ['all']", "'all' is not one of"),
        ("allow = 'orders'", "must be a list"),
        ("[fpc]\njudged = 0", "must be true or false"),
        ("[fpc", "is not TOML"),
        (
            "[accuracy]\njudged=false\n[fpc]\njudged=false\n[ooc]\njudged=false",
            "judge one at least",
        ),
    ],
)
def test_wrong_rules(tmp_path, text, said):
    path = tmp_path / "gate.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=said) as caught:
        Rules.read(path)
    assert str(path) in str(caught.value)


def test_rules_that_are_not_there(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        Rules.read(tmp_path / "none.toml")


def test_junit(runs):
    root = ElementTree.fromstring(gate(runs["old"], runs["fitted"]).to_junit())
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == (
        "3",
        "1",
        "0",
    )
    cases = root.findall("./testsuite/testcase")
    assert [case.get("name") for case in cases] == ["mean accuracy", "FPC", "OOC"]
    assert [case.find("failure") is not None for case in cases] == [False, True, False]


def test_junit_holds_only_what_xml_can(runs, tmp_path):
    odd = tmp_path / "a\x01<b>"
    shutil.copytree(runs["again"], odd)
    root = ElementTree.fromstring(gate(runs["old"], odd).to_junit())
    assert "a�<b>" in root.find("./testsuite/system-out").text


def test_markdown_and_html(runs):
    made = gate(runs["old"], runs["fitted"])
    text = made.to_markdown()
    assert text.startswith("# phasefusion gate: roll back\n")
    assert "| FPC | fell |" in text
    assert "<td" in made._repr_html_()
    assert repr(made).startswith("GateResult(roll back: accuracy held, fpc fell")
    assert "roll back" in str(made)


def test_json_has_no_number_that_is_none(runs):
    made = gate(runs["old"], runs["again"])
    fields = made.to_dict()
    assert json.loads(json.dumps(fields, allow_nan=False)) == fields
    assert fields["checks"][0]["state"] == "held"
    assert fields["exit_status"] == 0
    assert fields["rules"]["fpc"]["margin"] == 0.02


def test_is_reached_from_the_package():
    assert phasefusion.gate is gate
    assert phasefusion.GateResult is GateResult
    assert Check.__module__ == "phasefusion.gate._judging"
