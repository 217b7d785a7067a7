"""Anonymous exports and datasheets."""

import json
import re

import numpy as np
import pytest
from made_runs import made_run
from pass_files import assert_equal, text
from sample_passes import make_pass

from phasefusion.errors import RecordError
from phasefusion.records import (
    check,
    describe,
    export_anonymous,
    iter_passes,
    read_passes,
    read_run,
)
from phasefusion.report import report

SECRET = "SECRET"


@pytest.fixture
def run(tmp_path):
    """A run with something secret in every place where a text may stand."""
    rows = made_run(tmp_path / "run", n_items=4, drop={(0, "phase", False, 0, 1)})
    rows = [
        row
        | {
            "text": f"{SECRET} text",
            "type": f"{SECRET} type",
            "video_digest": "0123456789abcdef",
            "source": {"file": f"/{SECRET}/a.csv"},
            "question": f"{SECRET} question",
            "invalid": row["invalid"] and f"video: /{SECRET}/clip.mp4: gone",
        }
        for row in rows
    ]
    (tmp_path / "run" / "passes.jsonl").write_text(text(*rows))
    path = tmp_path / "run" / "run.json"
    described = json.loads(path.read_text())
    described["settings"]["scorer"] |= {"path": SECRET, "prompt": {"text": SECRET}}
    described["settings"]["note"] = SECRET
    described |= {"command": [SECRET], "host": SECRET, "model": {"path": SECRET}}
    described["questions"] |= {"file": SECRET, "items": {"made": {"q0": SECRET}}}
    path.write_text(json.dumps(described))
    return tmp_path / "run"


def test_nothing_but_ids_and_numbers_is_left(run, tmp_path):
    made = export_anonymous(run, tmp_path / "out")
    for path in (tmp_path / "out").iterdir():
        assert SECRET not in path.read_text()
    assert set(made.left_out) == {"question", "source", "text", "type"}
    assert made.n_passes == len(list(iter_passes(run)))
    assert check(tmp_path / "out").is_right
    ours, theirs = read_passes(run), read_passes(tmp_path / "out")
    for name in ("item", "arm", "order", "logprobs", "answer", "phase", "seconds"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert {reason for reason in theirs.invalid if reason} == {"video"}
    assert [info.question_id for info in theirs.items] == ["q0", "q1", "q2", "q3"]
    described = read_run(tmp_path / "out")
    assert described["settings"]["grid"] == read_run(run)["settings"]["grid"]
    assert described["settings"]["scorer"] == {"class": "made"}


def test_an_export_says_how_many_passes_there_were_to_be(run, tmp_path):
    described = json.loads((run / "run.json").read_text())
    planned = {"passes": 10**6, "stages_left": 0, "questions": 4}
    described["planned"] = planned | {"note": SECRET, "file": 5}
    (run / "run.json").write_text(json.dumps(described))
    export_anonymous(run, tmp_path / "out")
    assert json.loads((tmp_path / "out/run.json").read_text())["planned"] == planned
    described["planned"] = planned | {"passes": SECRET}
    (run / "run.json").write_text(json.dumps(described))
    export_anonymous(run, tmp_path / "more")
    assert SECRET not in (tmp_path / "more/run.json").read_text()
    report(tmp_path / "more")


def test_arms_that_an_importer_named_are_numbered(tmp_path):
    names = ["single", f"/home/{SECRET}/a", f"{SECRET}/b 16f", "dense"]
    rows = [
        make_pass(n, arm=name, n_phases=1, phase=[1, 2])
        for name in names
        for n in range(2)
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "passes.jsonl").write_text(text(*rows))
    arms = [{"arm": f"{SECRET}/b 16f", "budget": 16}]
    run = {"format": 1, "settings": {"arms": arms}}
    (tmp_path / "in" / "run.json").write_text(json.dumps(run))
    made = export_anonymous(tmp_path / "in", tmp_path / "out")
    for path in (tmp_path / "out").iterdir():
        assert SECRET not in path.read_text()
    found = read_passes(tmp_path / "out")
    assert list(dict.fromkeys(found.arm)) == ["single", "run 1", "run 2", "dense"]
    assert made.arms == {names[1]: "run 1", names[2]: "run 2"}
    described = read_run(tmp_path / "out")
    assert described["settings"]["arms"] == [{"arm": "run 2", "budget": 16}]


def test_arms_that_a_protocol_named_stay(tmp_path):
    (tmp_path / "in").mkdir()
    rows = [make_pass(0, arm=name, n_phases=1) for name in ("phase", "16 frames")]
    (tmp_path / "in" / "passes.jsonl").write_text(text(*rows))
    arms = [{"arm": "phase", "budget": 8}, {"arm": "16 frames", "budget": 16}]
    run = {"format": 1, "settings": {"protocol": "budget-sweep", "arms": arms}}
    (tmp_path / "in" / "run.json").write_text(json.dumps(run))
    assert export_anonymous(tmp_path / "in", tmp_path / "out").arms == {}
    assert list(read_passes(tmp_path / "out").arm) == ["phase", "16 frames"]
    assert read_run(tmp_path / "out")["settings"]["arms"] == arms


def test_types_stay_when_they_are_asked_for(run, tmp_path):
    export_anonymous(run, tmp_path / "out.jsonl", types=True)
    assert {row["type"] for row in iter_passes(tmp_path / "out.jsonl")} == {
        f"{SECRET} type"
    }


def test_hashed_ids_depend_on_the_salt_alone(run, tmp_path):
    for name, salt in (("a", "s"), ("b", "s"), ("c", "t"), ("d", None), ("e", None)):
        export_anonymous(run, tmp_path / name, hash_ids=True, salt=salt)
    found = {name: read_passes(tmp_path / name) for name in "abcde"}
    assert_equal(found["a"], found["b"])
    ids = {
        name: [i.question_id for i in passes.items] for name, passes in found.items()
    }
    assert len({tuple(part) for part in ids.values()}) == 4
    for part in ids.values():
        assert len(set(part)) == 4
        assert all(re.fullmatch("[0-9a-f]{16}", one) for one in part)
    videos = [info.video_id for info in found["a"].items]
    assert videos[0] == videos[1] != videos[2]
    assert videos[0] != ids["a"][0]
    digests = [info.video_digest for info in found["a"].items]
    (then,) = {info.video_digest for info in read_passes(run).items}
    assert then == "0123456789abcdef"
    assert set(digests) == {found["b"].items[0].video_digest}
    assert then not in (digests[0], found["c"].items[0].video_digest)
    np.testing.assert_array_equal(found["a"].logprobs, read_passes(run).logprobs)


def test_what_cannot_be_exported(run, tmp_path):
    with pytest.raises(RecordError, match="unless ids are hashed"):
        export_anonymous(run, tmp_path / "out", salt="s")
    with pytest.raises(RecordError, match="is there already"):
        export_anonymous(run, run)
    with pytest.raises(FileNotFoundError):
        export_anonymous(tmp_path / "nothing", tmp_path / "out")


def test_a_datasheet_counts_what_is_there(tmp_path):
    drop = {(1, "phase", False, 2, 1)}
    rows = made_run(tmp_path / "run", n_items=6, n_options=4, drop=drop)
    kept = [row for i, row in enumerate(rows) if i % 17]
    (tmp_path / "run" / "passes.jsonl").write_text(text(*kept))
    sheet = describe(tmp_path / "run")
    (run,) = sheet.numbers["runs"]
    assert run["passes"] == len(kept)
    assert run["items"] == 6
    assert run["videos"] == 3
    missing = [row for row in kept if row["answer"] is None]
    assert run["missing_passes"] == len(missing) > 0
    assert run["missing_reasons"] == [{"reason": "made missing", "n": len(missing)}]
    assert run["absent_passes"]["absent"] == len(rows) - len(kept)
    assert run["absent_passes"]["expected"] == len(rows)
    by_arm = {(e["arm"], e["shifted"]): e["passes"] for e in run["by_arm"]}
    for key, n in by_arm.items():
        assert n == sum((r["arm"], r["shifted"]) == key for r in kept)
    assert sum(by_arm.values()) == len(kept)
    for entry in run["by_phase"]:
        of_phase = [
            row
            for row in kept
            if (row["arm"], row["shifted"], row["phase_index"], row["phase"])
            == (entry["arm"], entry["shifted"], entry["phase_index"], entry["phase"])
        ]
        assert entry["passes"] == len(of_phase)
        assert entry["items"] == len({row["question_id"] for row in of_phase})
    for entry in run["by_order"]:
        assert entry["passes"] == sum(row["order"] == entry["order"] for row in kept)
    assert sum(entry["passes"] for entry in run["by_order"]) == len(kept)
    fields = {entry["field"]: entry for entry in run["fields"]}
    assert fields["text"] == {
        "field": "text",
        "of_the_schema": True,
        "passes": len(kept),
        "not_null": 0,
    }
    assert run["made"]["settings"]["protocol"] == "phasefusion"
    assert json.loads(json.dumps(sheet.to_dict())) == sheet.numbers


def test_a_short_clip_with_fewer_phases_lacks_nothing(tmp_path):
    rows = [
        make_pass(i, n_phases=s, phase_index=j, phase=None, order=order)
        for i, s in ((1, 3), (2, 2))
        for j in range(s)
        for order in ([0, 1, 2], [2, 1, 0])
    ]
    path = tmp_path / "passes.jsonl"
    path.write_text(text(*rows))
    (run,) = describe(path).numbers["runs"]
    assert run["absent_passes"]["absent"] == 0
    assert run["made"] is None


def test_a_datasheet_is_markdown_without_markup_of_its_contents(tmp_path):
    path = tmp_path / "passes.jsonl"
    path.write_text(text(make_pass(1, benchmark="a|b<script>`")))
    sheet = describe(path, path)
    content = sheet.to_markdown()
    assert content.count("\n## ") == 2
    assert "a\\|b&lt;script>\\`" in content
    for row in re.findall(r"^\|.*\|$", content, re.MULTILINE):
        assert len(re.findall(r"(?<!\\)\|", row)) > 2
    sheet.save(tmp_path / "sheet.md")
    sheet.save(tmp_path / "sheet.json")
    assert (tmp_path / "sheet.md").read_text() == content
    assert json.loads((tmp_path / "sheet.json").read_text()) == sheet.numbers
    with pytest.raises(RecordError, match="cannot be written"):
        sheet.save(tmp_path)


TOLD = [
    {"score": "text", "prompt": {"text": "{question}", "option": ""}},
    {"score": "text", "shows_options": False},
    {"score": "text", "prompt": {"text": "{question}{options}", "option": "{option}"}},
    {"prior": "blind", "timestamps": "frozen"},
    {"constrain": "letters", "answers": "generated", "letter_variants": "sum"},
]


@pytest.mark.parametrize("scorer", TOLD)
def test_a_report_says_the_same_of_scores_after_the_export(tmp_path, scorer):
    run = tmp_path / "run"
    made_run(run, n_items=4)
    path = run / "run.json"
    described = json.loads(path.read_text())
    described["settings"]["scorer"] = {"class": "made"} | scorer
    path.write_text(json.dumps(described))
    export_anonymous(run, tmp_path / "out")
    before, after = (report(one).numbers for one in (run, tmp_path / "out"))
    for name in ("scored", "shows_options"):
        assert before["card"][name] == after["card"][name]
    assert (before["order_flips"] is None) == (after["order_flips"] is None)
    sheet = describe(run).to_markdown()
    kept = read_run(tmp_path / "out")["settings"]["scorer"]
    for name in {"prior", "timestamps", "constrain", "shows_options"} & kept.keys():
        assert f"scorer: {name}" in sheet.replace("\\", "")


def test_other_words_of_a_scorer_are_not_published(run, tmp_path):
    path = run / "run.json"
    described = json.loads(path.read_text())
    for name in ("prior", "timestamps", "constrain", "letter_variants", "answers"):
        described["settings"]["scorer"][name] = {"of": SECRET}
    path.write_text(json.dumps(described))
    export_anonymous(run, tmp_path / "out")
    assert SECRET not in (tmp_path / "out" / "run.json").read_text()
    assert read_run(tmp_path / "out")["settings"]["scorer"]["prior"] == "other"
