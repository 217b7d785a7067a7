"""Merging runs: every pass once, every contradiction named."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import made_run
from pass_files import text
from sample_passes import make_pass

from phasefusion.compare import compare
from phasefusion.errors import RecordError, RecordWarning
from phasefusion.records import check, export_anonymous, iter_passes, merge, read_run
from phasefusion.report import report
from phasefusion.report.headline import headline


def file(folder, name, *rows):
    path = folder / f"{name}.jsonl"
    path.write_text(text(*rows))
    return path


@settings(max_examples=50, deadline=None)
@given(
    numbers=st.lists(st.lists(st.integers(0, 9), unique=True), min_size=2, max_size=4)
)
def test_every_pass_once_in_the_order_of_appearance(tmp_path_factory, numbers):
    folder = tmp_path_factory.mktemp("m")
    paths = [
        file(folder, f"f{i}", *(make_pass(n, seconds=float(i)) for n in part))
        for i, part in enumerate(numbers)
    ]
    made = merge(paths, folder / "out.jsonl")
    wanted = list(dict.fromkeys(n for part in numbers for n in part))
    found = [row["question_id"] for row in iter_passes(folder / "out.jsonl")]
    assert found == [f"q{n}" for n in wanted]
    assert made.n_passes == len(wanted)
    assert made.n_identical == sum(map(len, numbers)) - len(wanted)
    assert made.n_conflicts == 0


ONE, OTHER = "0" * 16, "f" * 16


@pytest.mark.parametrize("keep", [None, "first", "last"])
def test_a_question_about_two_files_is_none(tmp_path, keep):
    a = file(tmp_path, "a", make_pass(1, video_digest=ONE))
    later = {"phase_index": 1, "phase": [1, 2], "video_digest": OTHER}
    b = file(tmp_path, "b", make_pass(1, **later))
    made = merge([a, b], tmp_path / "c.jsonl", keep=keep)
    assert made.written is None
    (conflict,) = made.conflicts
    assert (conflict.kind, conflict.first) == ("item", f"{a}, line 1")
    assert conflict.fields == (f"video_digest {ONE!r} -> {OTHER!r}",)
    b = file(tmp_path, "b", make_pass(1, **later | {"video_digest": None}))
    assert merge([a, b], tmp_path / "c.jsonl").n_passes == 2


def test_a_video_of_two_files_is_said(tmp_path):
    a = file(tmp_path, "a", make_pass(1, video_digest=ONE))
    b = file(tmp_path, "b", make_pass(2, video_digest=OTHER))
    said = r"c\.jsonl: 1 video is of two files or more: set/clip;"
    with pytest.warns(RecordWarning, match=said):
        made = merge([a, b], tmp_path / "c.jsonl")
    assert made.n_passes == 2
    both = [make_pass(1, video_digest=ONE), make_pass(2, video_digest=OTHER)]
    a = file(tmp_path, "a", *both)  # of which one source alone has both
    for i, third in enumerate([None, ONE, OTHER]):
        b = file(tmp_path, "b", make_pass(3, video_digest=third))
        with pytest.warns(RecordWarning, match="of two files or more"):
            merge([a, b], tmp_path / f"c{i}.jsonl")
    a = file(tmp_path, "a", make_pass(1, video_digest=ONE))
    b = file(tmp_path, "b", make_pass(2, video_digest=ONE))
    merge([a, b], tmp_path / "d.jsonl")


@pytest.mark.parametrize("keep", [None, "first", "last"])
@pytest.mark.parametrize("digests", [*itertools.product([None, ONE], repeat=3)])
def test_the_line_that_says_which_file_it_was_is_kept(tmp_path, digests, keep):
    """One that does not say it contradicts nothing."""
    paths = [
        file(tmp_path, f"f{i}", make_pass(1, video_digest=digest, seconds=float(i)))
        for i, digest in enumerate(digests)
    ]
    made = merge(paths, tmp_path / "out.jsonl", keep=keep)
    assert (made.n_passes, made.n_identical, made.n_conflicts) == (1, 2, 0)
    (row,) = iter_passes(tmp_path / "out.jsonl")
    first = next((i for i, digest in enumerate(digests) if digest), 0)
    assert (row["video_digest"], row["seconds"]) == (digests[first], first)


def planned_part(folder, rows, planned, **parts):
    """Write a part of a run whose run.json says what it was to have."""
    folder.mkdir()
    (folder / "passes.jsonl").write_text(text(*rows))
    ids = parts.pop("ids", ["q0", "q1", "q2"])
    run = {
        "format": 1,
        "settings": {"seed": parts.pop("seed", 0)},
        "versions": {},
        "questions": {"items": {"made": dict.fromkeys(ids, "x")}},
        **({"planned": planned} if planned else {}),
    }
    (folder / "run.json").write_text(json.dumps(run | parts))
    return folder


def plan(passes, questions=3, stages_left=0):
    return {"passes": passes, "stages_left": stages_left, "questions": questions}


@pytest.mark.parametrize(
    ("plans", "parts", "wanted"),
    [
        # a run, and a copy of it that went on
        ([plan(900), plan(900)], [{}, {}], plan(900)),
        ([plan(300, stages_left=1), plan(900)], [{}, {}], plan(900)),
        ([plan(300, 1), plan(900)], [{}, {}], plan(900)),
        ([plan(40, 1), plan(100)], [{}, {}], plan(100)),
        # parts of a benchmark, and shards
        (
            [plan(300, 1), plan(600, 2)],
            [{"ids": ["q0"]}, {"ids": ["q1", "q2"]}],
            plan(900),
        ),
        (
            [plan(300, 1), plan(600, 2)],
            [{"shard": {"index": i, "of": 2}} for i in (1, 2)],
            plan(900),
        ),
        # nobody knows
        ([plan(900), None], [{}, {}], None),
        ([plan(600, 2), plan(600, 2)], [{"ids": ["q0", "q1"]}, {"ids": ["q1"]}], None),
        ([plan(600), plan(900)], [{"shard": {"index": 1, "of": 2}}, {}], None),
        ([plan(900), plan(900)], [{"seed": 0}, {"seed": 1}], None),
    ],
)
def test_a_merged_run_has_what_its_parts_have_planned(tmp_path, plans, parts, wanted):
    rows = made_run(tmp_path / "whole", n_items=3)
    half = len(rows) // 2
    sources = [
        planned_part(tmp_path / name, some, planned, **part)
        for name, some, planned, part in zip(
            "ab", (rows[:half], rows[half:]), plans, parts, strict=True
        )
    ]
    made = merge(sources, tmp_path / "out", keep="last")
    assert read_run(made.written).get("planned") == wanted
    said = report(made.written).to_markdown()
    assert len(rows) == 100
    assert ("none of them missing" in said) == (wanted == plan(100))
    assert ("Unfinished" in said) == (wanted == plan(900))


@pytest.mark.parametrize(("keep", "answer"), [(None, None), ("first", 2), ("last", 0)])
def test_conflicts_name_both_lines(tmp_path, keep, answer):
    a = file(tmp_path, "a", make_pass(1), make_pass(2))
    changed = make_pass(2, answer=0, logprobs=[-2.5, -0.5, -1.5], seconds=1.0)
    b = file(tmp_path, "b", make_pass(3), changed, make_pass(1, text=None))
    out = tmp_path / "c.jsonl"
    made = merge([a, b], out, keep=keep)
    assert made.n_conflicts == 1
    assert made.n_identical == 1
    (conflict,) = made.conflicts
    assert conflict.kind == "pass"
    assert conflict.first == f"{a}, line 2"
    assert conflict.second == f"{b}, line 2"
    assert "answer: 2 -> 0" in conflict.fields
    assert not any("seconds" in field for field in conflict.fields)
    if keep is None:
        assert made.written is None
        assert not out.exists()
        return
    assert made.written == out
    found = {row["question_id"]: row["answer"] for row in iter_passes(out)}
    assert found == {"q1": 2, "q2": answer, "q3": 2}


@pytest.mark.parametrize("keep", [None, "first", "last"])
def test_items_that_disagree_are_never_merged(tmp_path, keep):
    a = file(tmp_path, "a", make_pass(1))
    b = file(tmp_path, "b", make_pass(1, phase_index=1, phase=[1, 2], gold=1))
    made = merge([a, b], tmp_path / "c.jsonl", keep=keep)
    assert made.written is None
    (conflict,) = made.conflicts
    assert (conflict.kind, conflict.fields) == ("item", ("gold 0 -> 1",))
    assert "line 1" in str(conflict)


def test_parts_of_a_run_make_the_run(tmp_path):
    rows = made_run(tmp_path / "whole", n_items=6)
    described = json.loads((tmp_path / "whole" / "run.json").read_text())
    for part in range(2):
        folder = tmp_path / f"part{part}"
        folder.mkdir()
        described["settings"]["questions_sha256"] = str(part)
        (folder / "run.json").write_text(json.dumps(described))
        chosen = [row for row in rows if int(row["question_id"][1:]) % 2 == part]
        (folder / "passes.jsonl").write_text(text(*chosen))
    made = merge([tmp_path / "part0", tmp_path / "part1"], tmp_path / "both")
    assert made.written == tmp_path / "both"
    assert [m["run"] for m in read_run(tmp_path / "both")["merged_from"]] == [
        "part0",
        "part1",
    ]
    numbers = report(tmp_path / "both").to_dict()
    wanted = report(tmp_path / "whole").to_dict()
    for name in ("consistency", "order_flips", "phase_flips", "accuracy"):
        assert numbers[name] == wanted[name]


def test_a_merge_without_run_json_says_so(tmp_path):
    made_run(tmp_path / "a", n_items=2)
    bare = file(tmp_path, "b", make_pass(1))
    made = merge([tmp_path / "a", bare], tmp_path / "c")
    assert made.without_run == (bare,)
    assert not (tmp_path / "c" / "run.json").exists()
    made_run(tmp_path / "d", n_items=3)
    assert merge([tmp_path / "a", tmp_path / "d"], tmp_path / "e").without_run == ()


@pytest.mark.parametrize("keep", [None, "first", "last"])
def test_runs_of_other_settings_are_a_conflict(tmp_path, keep):
    made_run(tmp_path / "a", n_items=2)
    made_run(tmp_path / "b", n_items=2)
    path = tmp_path / "b" / "run.json"
    run = json.loads(path.read_text())
    run["settings"]["seed"] = 5
    path.write_text(json.dumps(run))
    made = merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c", keep=keep)
    (conflict,) = made.conflicts
    assert (conflict.kind, conflict.fields) == ("settings", ("seed: 0 -> 5",))
    if keep is None:
        assert not (tmp_path / "c").exists()
    else:
        seed = read_run(tmp_path / "c")["settings"]["seed"]
        assert seed == (0 if keep == "first" else 5)


@pytest.mark.parametrize("keep", ["first", "last"])
def test_what_was_kept_against_contradictions_is_said(tmp_path, keep):
    for name, seed in (("a", 0), ("b", 1)):
        made_run(tmp_path / name, n_items=2, seed=seed, no_gold=0)
        path = tmp_path / name / "run.json"
        run = json.loads(path.read_text())
        run["settings"]["scorer"]["model"] = f"/models/{name}"
        path.write_text(json.dumps(run))
    a, b, both = tmp_path / "a", tmp_path / "b", tmp_path / "both"
    rows = [json.loads(line) for line in (b / "passes.jsonl").read_text().splitlines()]
    gold = {row["question_id"]: row["gold"] for row in iter_passes(a)}
    for row in rows:
        row["gold"] = gold[row["question_id"]]
    (b / "passes.jsonl").write_text(text(*rows))
    made = merge([a, b], both, keep=keep)
    setting = "scorer.model: '/models/a' -> '/models/b'"
    n = len(rows)
    assert read_run(both)["conflicts"] == {
        "keep": keep,
        "settings": [setting],
        "passes": n,
    }
    assert made.n_conflicts == n + 1
    said = (
        f"merged of runs made with other settings ({setting}), and of which {n} passes "
        f"differed, the {keep} of each being kept"
    )
    found = report(both)
    assert any(said in line for line in headline(found.numbers))
    assert said in found.numbers["card"]["text"]
    alone = report(a if keep == "first" else b).numbers
    assert found.numbers["environment"]["id"] != alone["environment"]["id"]
    assert not any("merged" in line for line in headline(alone))
    (finding,) = check(both).findings
    assert (finding.kind, finding.field) == ("run file", "conflicts")
    assert said in str(finding)
    assert any(
        f"A is no run of one making: it was {said}" in one
        for one in compare(both, a).notices
    )
    again = merge([a, both], tmp_path / "again", keep=keep).written
    assert read_run(again)["conflicts"]["settings"] == [setting]
    export_anonymous(both, tmp_path / "anonymous")
    part = read_run(tmp_path / "anonymous")["conflicts"]
    assert part == {"keep": keep, "settings": ["scorer.model"], "passes": n}


def test_what_cannot_be_merged(tmp_path):
    a, b = file(tmp_path, "a", make_pass(1)), file(tmp_path, "b", make_pass(2))
    with pytest.raises(RecordError, match="two or more"):
        merge([a], tmp_path / "c.jsonl")
    with pytest.raises(RecordError, match="is there already"):
        merge([a, b], b)
    with pytest.raises(FileNotFoundError):
        merge([a, tmp_path / "nothing.jsonl"], tmp_path / "c.jsonl")
    b.write_text("{\n" + text(make_pass(2)))
    with pytest.raises(RecordError, match=r"b\.jsonl, line 1: not JSON"):
        merge([a, b], tmp_path / "c.jsonl")
    assert not (tmp_path / "c.jsonl").exists()
