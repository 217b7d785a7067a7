"""The validator: every kind of finding, and agreement with the JSON Schema."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import made_run
from pass_files import JSON_VALUES, text, write
from sample_passes import make_pass

from phasefusion.records import check, checking, lines, pass_schema, rules


def test_a_made_run_has_nothing(tmp_path):
    made_run(tmp_path / "run", drop={(1, "dense", False, 0, 0)})
    found = check(tmp_path / "run")
    assert found.is_right
    assert found.findings == ()
    assert (
        found.n_passes
        == len((tmp_path / "run/passes.jsonl").read_text().split("\n")) - 1
    )


GOOD = make_pass(2)
OF_ONE = [
    ({"order": [0, 1, 1]}, "order", "order", "not a permutation"),
    ({"order": [0, 1]}, "order", "order", "another length"),
    ({"answer": 3}, "answer", "answer", "not one of the options"),
    ({"answer": 0}, "answer", "answer", "answer is 0, and the most probable .* is 2"),
    ({"answer": None}, "answer", "answer", "null though there are log-prob"),
    ({"answer": "2"}, "type", "answer", "answer is '2'"),
    ({"answer": True}, "type", "answer", "answer is True"),
    ({"gold": 4}, "gold", "gold", "gold is not one of the options"),
    ({"logprobs": [-1.0]}, "logprobs", "logprobs", "another length"),
    ({"logprobs": [math.nan, -1, -1]}, "not finite", "logprobs", "NaN"),
    ({"logprobs": [-math.inf, -1, -1]}, "not finite", "logprobs", "-Infinity"),
    ({"logprobs": [None, None, None]}, "logprobs", "logprobs", "no option has any"),
    ({"logprobs": [0.5, -1, -1]}, "logprobs", "logprobs", "must be <= 0"),
    ({"question_id": ""}, "type", "question_id", "not a text that is not empty"),
    ({"arm": ""}, "type", "arm", "not a text that is not empty"),
    (
        {"n_options": 1, "order": [0], "logprobs": [-1], "answer": 0, "gold": 0},
        "options",
        "n_options",
        "nothing to choose",
    ),
    ({"logprobs": None}, "answer", "logprobs", "null though there is an answer"),
    ({"invalid": "video: gone"}, "answer", "invalid", "though there is an answer"),
    ({"phase_index": 3}, "phase", "phase_index", "with n_phases 3"),
    ({"phase": [1, 2]}, "phase", "phase", "outside of part 0 of 3"),
    ({"phase": [1, 6], "origin": [0, 1]}, "phase", "phase", r"not .* = 0"),
    ({"phase": [1, 3], "origin": [1, 1]}, "phase", "origin", "not below 1"),
    ({"frame_indices": [0, 1]}, "frames", "frame_indices", "2 frames with budget 8"),
    (
        {"budget": 2, "frame_indices": [3, 1]},
        "frames",
        "frame_indices",
        "does not ascend",
    ),
    (
        {"budget": 2, "frame_indices": [3, 10], "n_frames": 10},
        "frames",
        "frame_indices",
        "goes to 10 of 10",
    ),
    (
        {"budget": 1, "frame_indices": [3], "frame_times_s": [0.1, 0.2]},
        "frames",
        "frame_times_s",
        "2 times for 1 frames",
    ),
    (
        {"budget": 1, "frame_indices": [3], "damaged_frames": [4]},
        "frames",
        "damaged_frames",
        "names frames",
    ),
    ({"same_options": [0, 0, 1]}, "same_options", "same_options", "first option"),
    ({"video_digest": "ABCDEF0123456789"}, "type", "video_digest", "16 hexadecimal"),
    ({"video_digest": "1" * 15}, "type", "video_digest", "16 hexadecimal"),
    ({"path": "guess"}, "type", "path", "logit or generate"),
    ({"budget": -1}, "type", "budget", "integer >= 0"),
    ({"shifted": 1}, "type", "shifted", "true or false"),
]


@pytest.mark.parametrize(("changes", "kind", "field", "message"), OF_ONE)
def test_a_finding_about_one_record(tmp_path, changes, kind, field, message):
    path = write(tmp_path, text(make_pass(1), GOOD | changes, make_pass(3)))
    found = check(path)
    assert found.counts == {kind: 1}, found.findings
    (finding,) = found.findings
    assert (finding.file, finding.line, finding.field) == (str(path), 2, field)
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(str(finding))
    assert str(finding).startswith(f"{path}, line 2: ")


def test_the_path_of_a_run_file_is_said_once(tmp_path):
    run = tmp_path / "run"
    made_run(run)
    (run / "run.json").write_text('{"format": 99}')
    (finding,) = check(run).findings
    assert str(finding).count("run.json") == 1
    assert str(finding).startswith(f"{run / 'run.json'}: has format 99")
    (run / "run.json").write_text("{")
    (finding,) = check(run).findings
    assert str(finding).count("run.json") == 1


def test_ties_and_generated_answers_are_no_findings(tmp_path):
    rows = [
        make_pass(1, logprobs=[-1.0, -1.0, -2.0], answer=0),
        make_pass(2, path="generate", answer=0),
        make_pass(3, path="generate", logprobs=None, phase=None, budget=None),
        make_pass(4, logprobs=None, answer=None, invalid="video: gone"),
        make_pass(5, n_options=3.0, order=[2.0, 0, 1]),
        make_pass(6, arm="16f", source={"format": "csv"}, epoch=3),
    ]
    assert check(write(tmp_path, text(*rows))).counts == {}


def test_findings_about_several_records(tmp_path):
    rows = [
        make_pass(1),
        make_pass(1, phase_index=1, phase=[1, 2], gold=1),
        make_pass(1, phase_index=2, phase=[5, 6], video_id="another"),
        make_pass(1),
        make_pass(1, benchmark="other", gold=2),
    ]
    found = check(write(tmp_path, text(*rows)))
    assert found.counts == {"item": 2, "repeated pass": 1}
    assert [(f.line, f.field) for f in found.findings] == [
        (2, "gold"),
        (3, "video_id"),
        (4, None),
    ]
    assert "gold is 1, and 0 in line 1" in found.findings[0].message
    assert "the same pass as line 1" in found.findings[2].message


ONE, OTHER = "0" * 16, "f" * 16


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        # a video under one id, in another question
        (
            [{"video_digest": ONE}, {"video_digest": OTHER}, {"video_digest": OTHER}],
            [(2, "video_digest", "video 'clip': the video is two files")],
        ),
        # a question, whatever its video is called
        (
            [
                {"question_id": "q", "video_digest": digest, "phase_index": s}
                for s, digest in enumerate([None, ONE, OTHER])
            ],
            [(3, "video_digest", "question 'q': the video is two files")],
        ),
        # a question of one file that was decoded in two ways, whoever does not say so
        (
            [
                {"question_id": "q", "phase_index": s, "n_phases": 9, **facts}
                for s, facts in enumerate(
                    [
                        {"video_digest": ONE},
                        {"n_frames": 100, "video_digest": ONE},
                        {"n_frames": 99, "video_digest": ONE},
                        {"n_frames": 99},
                    ]
                )
            ],
            [(3, "n_frames", "question 'q': one file by video_digest, which was")],
        ),
        # without digests numbers of frames tell
        (
            [{"n_frames": 100}, {"n_frames": 10}],
            [(2, "n_frames", "video 'clip': frames may be of two files")],
        ),
        (
            [{"n_frames": 100}, {"n_frames": 10, "video_digest": ONE}],
            [(2, "n_frames", "video 'clip'")],
        ),
        # parts of one file
        (
            [
                {"n_frames": 100, "video_digest": ONE},
                {"n_frames": 10, "video_digest": ONE},
            ],
            [],
        ),
        (
            [
                {"n_frames": 100, "video_digest": ONE},
                {"n_frames": 100},
                {"n_frames": 10, "video_digest": ONE},
            ],
            [],
        ),
        # others
        ([{"video_digest": ONE}, {"video_digest": OTHER, "benchmark": "b"}], []),
        ([{"video_digest": ONE}, {"video_digest": OTHER, "video_id": "v"}], []),
        ([{"n_frames": 9, "video_id": None}, {"n_frames": 8, "video_id": None}], []),
        ([{"video_digest": ONE, "n_frames": 100}, {"n_frames": None}, {}], []),
    ],
)
def test_a_video_is_one_file(tmp_path, rows, wanted):
    made = [make_pass(i, **{"phase": None} | row) for i, row in enumerate(rows)]
    found = check(write(tmp_path, text(*made)))
    assert [(f.line, f.field) for f in found.findings] == [w[:2] for w in wanted]
    assert found.counts == ({"video": len(wanted)} if wanted else {})
    for finding, (*_, owner) in zip(found.findings, wanted, strict=True):
        assert f"of the same {owner}" in finding.message


def test_findings_about_lines(tmp_path):
    good = json.dumps(make_pass(1))
    twice = json.dumps(make_pass(2))[:-1] + ', "text": "\\": 1", "answer" : 2}'
    nested = json.dumps(make_pass(3))[:-1] + ', "x": [{"a": 1, "a": 1}]}'
    quotes = json.dumps(make_pass(4, text='"a": 1, "a": 2'))
    lines_ = [good, "{", "[]", "", twice, nested, quotes, '{"question_id": "q']
    found = check(write(tmp_path, "\n".join(lines_)))
    assert found.counts == {"not JSON": 2, "repeated key": 2, "torn": 1}
    assert [(f.line, f.field) for f in found.findings] == [
        (2, None),
        (3, None),
        (5, "answer"),
        (6, "a"),
        (8, None),
    ]
    assert found.n_passes == 4


def test_a_line_too_long_ends_the_check(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 2_000_000)
    path = write(tmp_path, text(make_pass(1)) + "x" * 3_000_000 + "\n{\n")
    found = check(path)
    assert found.counts == {"too long": 1}
    assert found.findings[0].line == 2


def test_findings_about_a_run(tmp_path):
    run = tmp_path / "run"
    made_run(run, n_items=2)
    described = json.loads((run / "run.json").read_text())
    for arm in described["settings"]["arms"]:
        if arm["arm"] == "union":
            arm["budget"] = 3
        if arm["arm"] == "dense":
            arm["origin"] = [1, 3]
    (run / "run.json").write_text(json.dumps(described))
    found = check(run)
    assert set(found.counts) == {"grid"}
    assert {f.field for f in found.findings} == {"budget", "origin"}
    (run / "run.json").write_text("{")
    assert check(run).counts == {"run file": 1}
    (run / "run.json").unlink()
    assert check(run).counts == {"run file": 1}
    (run / "passes.jsonl").unlink()
    assert check(run).counts == {"file": 1, "run file": 1}
    with pytest.raises(FileNotFoundError):
        check(tmp_path / "nothing")


def test_only_so_many_are_kept_and_all_are_counted(tmp_path):
    path = write(tmp_path, "{\n" * 50 + text(make_pass(1)))
    found = check(path, path, limit=7)
    assert len(found.findings) == 7
    assert found.counts == {"not JSON": 100}
    assert found.to_dict()["findings"] == 100
    assert json.loads(json.dumps(found.to_dict()))["first"][6]["line"] == 7


NUMBERS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 5),
    st.sampled_from([0.0, 1.0, 2.5, -1.0]),
    st.text(max_size=2),
)
LISTS = st.lists(NUMBERS, max_size=4)


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_the_schema_says_what_the_rules_say(data):
    jsonschema = pytest.importorskip("jsonschema")
    row = make_pass(1)
    for name in data.draw(st.sets(st.sampled_from(list(rules.FIELDS)), max_size=2)):
        row[name] = data.draw(st.one_of(NUMBERS, LISTS, JSON_VALUES))
    for name in data.draw(st.sets(st.sampled_from(list(row)), max_size=1)):
        del row[name]
    validator = jsonschema.Draft202012Validator(pass_schema())
    by_schema = {
        error.path[0] if error.path else error.message.split("'")[1]
        for error in validator.iter_errors(row)
    }
    by_rules = {name for _, name, _ in rules.structure(row)}
    assert by_rules == by_schema


def test_the_schema_is_a_schema_and_names_every_field():
    jsonschema = pytest.importorskip("jsonschema")
    schema = pass_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert set(schema["properties"]) == set(rules.FIELDS)
    assert set(schema["required"]) == set(rules.REQUIRED)


def test_how_far_it_is_can_be_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(checking, "_MB", 100)
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 1000)
    made_run(tmp_path / "a")
    made_run(tmp_path / "b")
    said = []
    found = check(
        tmp_path / "a", tmp_path / "b", progress=lambda *step: said.append(step)
    )
    assert found.is_right
    sizes = [(tmp_path / n / "passes.jsonl").stat().st_size // 100 for n in "ab"]
    assert {total for _, total, _ in said} == {sum(sizes)}
    done = [n for n, _, _ in said]
    assert done == sorted(set(done))
    assert len(done) > 4
    assert done[-1] == sum(sizes)
    assert {label for _, _, label in said} == {"a", "b"}
