"""Reading passes: both parsers agree, and odd bytes are read right or refused."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from pass_files import assert_equal, pass_files, text, write
from sample_passes import make_pass

from phasefusion.errors import BackendUnavailableError, RecordError, RecordWarning
from phasefusion.records import _json, check, duck, iter_passes, lines, read_passes
from phasefusion.records import columns as columns_module

READERS = ["json", "duckdb"]


@pytest.fixture(params=READERS)
def reader(request):
    if request.param == "duckdb":
        pytest.importorskip("duckdb")
        pytest.importorskip("pyarrow")
    return request.param


@settings(max_examples=80, deadline=None)
@given(made=pass_files())
def test_parsers_agree_with_each_other_and_with_plain_python(tmp_path_factory, made):
    pytest.importorskip("duckdb")
    rows, content = made
    path = write(tmp_path_factory.mktemp("p"), content)
    found = read_passes(path, reader="json")
    assert_equal(found, read_passes(path, reader="duckdb"))
    assert [row["another"] for row in iter_passes(path)] == [r["another"] for r in rows]
    for p, row in enumerate(rows):
        info = found.items[found.item[p]]
        values = row["logprobs"]
        as_read = (
            None if values is None else [-math.inf if v is None else v for v in values]
        )
        bad = as_read is not None and (
            any(math.isnan(v) or v == math.inf for v in as_read)
            or all(v == -math.inf for v in as_read)
        )
        k = row["n_options"]
        assert (info.question_id, info.benchmark) == (
            row["question_id"],
            row["benchmark"],
        )
        assert (info.video_id, info.gold, info.n_frames) == (
            row["video_id"],
            row["gold"],
            row.get("n_frames"),
        )
        assert found.arm[p] == row["arm"]
        assert found.order[p].tolist()[:k] == row["order"]
        assert found.phase[p].tolist() == (row["phase"] or [-1, 1])
        assert found.budget[p] == (-1 if row["budget"] is None else row["budget"])
        expected = -1 if bad or row["answer"] is None else row["answer"]
        assert found.answer[p] == expected
        if bad:
            assert found.invalid[p] == (row["invalid"] or found.invalid[p])
            assert found.invalid[p] is not None
        else:
            assert found.invalid[p] == row.get("invalid")
        if bad or values is None:
            assert np.isnan(found.logprobs[p, :k]).all()
        else:
            assert found.logprobs[p, :k].tolist() == as_read
        assert np.all(found.logprobs[p, k:] == -np.inf)
        np.testing.assert_equal(
            found.option_mass[p],
            math.nan if row.get("option_mass") is None else row["option_mass"],
        )


def test_passes_as_importers_write_them(tmp_path, reader):
    row = make_pass(
        1,
        arm="16f",
        phase=None,
        n_phases=1,
        order=[0, 1, 2],
        logprobs=None,
        answer=2,
        path="generate",
        budget=None,
        frame_indices=None,
        source={"format": "csv", "file": "a.csv", "line": 2},
    )
    del row["video_id"]
    found = read_passes(write(tmp_path, text(row)), reader=reader)
    assert found.arm.tolist() == ["16f"]
    assert found.phase.tolist() == [[-1, 1]]
    assert found.budget.tolist() == [-1]
    assert found.answer.tolist() == [2]
    assert np.isnan(found.logprobs).all()
    assert found.invalid == (None,)
    assert found.items[0].video_id is None


def test_a_field_that_may_be_null_may_be_absent(tmp_path, reader):
    row = make_pass(1)
    other = make_pass(2)
    for name in ("gold", "logprobs", "phase", "budget", "answer"):
        del other[name]
    found = read_passes(write(tmp_path, text(row, other)), reader=reader)
    assert found.answer.tolist() == [2, -1]
    assert found.items[1].gold is None
    assert found.budget.tolist() == [8, -1]


def test_answers_under_another_name_are_not_all_missing(tmp_path, reader):
    row = make_pass(1)
    row["prediction"] = row.pop("answer")
    path = write(tmp_path, text(row))
    with pytest.raises(RecordError, match="no pass has an answer, or a reason"):
        read_passes(path, reader=reader)


ODD = {
    "byte order mark": "\ufeff{a}\n{b}\n",
    "CRLF": "{a}\r\n{b}\r\n",
    "blank lines": "\n\n{a}\n \t\n{b}\n\n",
    "no last line end": "{a}\n{b}",
    "blank end": "{a}\n{b}\n   ",
    "spaces": "  {a}  \n\t{b}\n",
}


@pytest.mark.parametrize("form", ODD.values(), ids=ODD)
def test_white_space_is_passed_over(tmp_path, reader, form):
    a, b = json.dumps(make_pass(1)), json.dumps(make_pass(2))
    path = write(tmp_path, form.replace("{a}", a).replace("{b}", b))
    assert list(iter_passes(path)) == [make_pass(1), make_pass(2)]
    assert len(read_passes(path, reader=reader)) == 2


def test_keys_and_values_may_be_escaped_and_in_any_order(tmp_path, reader):
    row = make_pass(1, question_id='q "\\/\n\u2028\U0001f600', an_answer=7)
    escaped = json.dumps(dict(reversed(row.items())))
    escaped = escaped.replace('"answer"', r'"\u0061nswer"')
    found = read_passes(write(tmp_path, escaped + "\n"), reader=reader)
    assert found.items[0].question_id == row["question_id"]
    assert found.answer.tolist() == [2]


def test_of_keys_that_are_there_twice_the_last_counts(tmp_path, reader):
    line = json.dumps(make_pass(1))[:-1] + ', "answer": 0}\n'
    assert read_passes(write(tmp_path, line), reader=reader).answer.tolist() == [0]


def test_nan_and_infinity_are_numbers_that_mean_nothing(tmp_path, reader):
    rows = [
        make_pass(1, logprobs=[math.nan, -1.0, -2.0]),
        make_pass(2, logprobs=[math.inf, -1.0, -2.0]),
        make_pass(3, logprobs=[-math.inf, -1.0, -2.0], answer=0),
        make_pass(4, logprobs=[-math.inf, None, None]),
        make_pass(5, logprobs=[-1.0, -1.0, -2.0], option_mass=math.nan),
    ]
    path = write(tmp_path, text(*rows))
    assert "NaN" in path.read_text()
    found = read_passes(path, reader=reader)
    assert found.answer.tolist() == [-1, -1, 0, -1, 2]
    assert found.invalid == (
        "scores: NaN",
        "scores: +inf",
        None,
        "scores: no option has any probability",
        None,
    )
    assert np.isnan(found.logprobs).all(axis=1).tolist() == [1, 1, 0, 1, 0]
    assert found.logprobs[2].tolist() == [-math.inf, -1.0, -2.0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"text": "\xff"}', "not JSON"),
        (b'{"text": "\\ud800"}', "not JSON"),
        (b'{"text": "a\tb"}', "not JSON"),
        (b"[" * 100_000 + b"]" * 100_000, "not JSON"),
        (b'{"a": ' * 5000 + b"1" + b"}" * 5000, "not JSON"),
        (b"{} {}", "not JSON"),
        (b"null", "a pass is a JSON object, not NoneType"),
        (b"[1, 2]", "a pass is a JSON object, not list"),
        (b"{'a': 1}", "not JSON"),
        (b'{"a": 01}', "not JSON"),
        ("{}".encode("utf-16"), "not JSON"),
        (b'{"a": NaN, "text": "\\udfff"}', "not JSON"),
    ],
)
def test_what_is_not_json_is_refused_by_its_line(tmp_path, reader, line, message):
    good = json.dumps(make_pass(1)).encode()
    path = write(tmp_path, good + b"\n" + line + b"\n" + good + b"\n")
    with pytest.raises(RecordError, match=f"passes.jsonl, line 2: {message}"):
        list(iter_passes(path))
    with pytest.raises(RecordError, match=f"passes.jsonl, line 2: {message}"):
        read_passes(path, reader=reader)


@pytest.mark.parametrize("tail", ['{"question_id": "q', '{"half": \n', "\0\0\n", "\0"])
def test_a_torn_end_is_reported_and_left_out(tmp_path, reader, tail):
    path = write(tmp_path, text(make_pass(1), make_pass(2)) + tail)
    with pytest.warns(RecordWarning, match=r"the last line \(\d+ bytes\) was cut"):
        found = read_passes(path, reader=reader)
    assert len(found) == 2


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_too_long_is_refused_before_it_is_parsed(
    tmp_path, monkeypatch, reader, end
):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 3_000_000)
    long = b'{"text": "' + b"x" * 20_000_000 + b'"}'
    path = write(tmp_path, text(make_pass(1)).encode() + long + end)

    def loads(line):
        assert len(line) < 3_000_000
        return json.loads(line)

    monkeypatch.setattr(_json, "loads", loads)
    with pytest.raises(RecordError, match="line 2: longer than 3000000 bytes"):
        read_passes(path, reader=reader)


def test_a_line_may_be_longer_than_what_is_read_at_once(tmp_path, reader):
    rows = [make_pass(i, text="x" * (i * 900_000)) for i in range(4)]
    found = read_passes(write(tmp_path, text(*rows)), reader=reader)
    assert [info.question_id for info in found.items] == ["q0", "q1", "q2", "q3"]


def test_line_numbers_count_over_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 700)
    rows = [make_pass(i) for i in range(40)]
    rows[33]["order"] = [0, 0, 1]
    path = write(tmp_path, "\n" + text(*rows))
    with pytest.raises(RecordError, match="line 35: order is not a permutation"):
        read_passes(path, reader="json")


@pytest.mark.parametrize("name", ["a[1].jsonl", "b*.jsonl", "c?.jsonl", "d'e.jsonl"])
def test_names_that_are_patterns_or_quotes(tmp_path, reader, name):
    path = tmp_path / name
    path.write_text(text(make_pass(1)))
    (tmp_path / "b2.jsonl").write_text(text(make_pass(2)))
    found = read_passes(path, reader=reader)
    assert [info.question_id for info in found.items] == ["q1"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_options": 2.5}, "n_options is 2.5, not an integer >= 1"),
        ({"n_options": 2**31}, "order has another length than n_options: 3, not 214"),
        ({"n_phases": 2**31}, "n_phases is 2147483648, not an integer from 1 to 65536"),
        ({"type": ["when"]}, r"type is \['when'\], not a text or null"),
        ({"video_id": {"a": 1}}, r"video_id is \{'a': 1\}, not a text or null"),
        ({"answer": 1.5}, "answer is 1.5, not an integer"),
        ({"gold": 3}, "gold is not one of the options: 3 of 3"),
        ({"phase": [1]}, r"phase is \[1\], not \[numerator, denominator\]"),
        ({"phase": [1, 0]}, r"phase is \[1, 0\], not"),
        ({"phase": "1/6"}, "phase is '1/6', not"),
        ({"phase_index": 3}, "phase_index is 3 with n_phases 3"),
        ({"phase_index": -1}, "phase_index is -1"),
        ({"order": None}, "order is None"),
        ({"order": "012"}, "order is '012'"),
        ({"order": [0, 1.5, 2]}, "order is"),
        ({"logprobs": -1.0}, "logprobs is -1.0"),
        ({"logprobs": [[-1.0], [-1.0], [-1.0]]}, "logprobs is"),
        ({"arm": None}, "arm is None"),
        ({"arm": ""}, "arm is '', not a text that is not empty"),
        ({"question_id": ""}, "question_id is '', not a text that is not empty"),
        ({"logprobs": [0.5, -1.0, -2.0]}, "a log-probability is 0.5; it must be <= 0"),
        ({"logprobs": [math.nan, 3.0, -2.0]}, "a log-probability is 3; it must be"),
        (
            {"logprobs": [None, 2e-6, -2.0], "path": "generate"},
            "a log-probability is 2e-06; it must be <= 0",
        ),
        ({"same_options": [0, 1]}, "same_options has another length"),
        ({"duration_s": -1}, "duration_s is -1"),
    ],
)
def test_what_cannot_be_is_named(tmp_path, reader, changes, message):
    path = write(tmp_path, text(make_pass(1), make_pass(2) | changes))
    with pytest.raises(RecordError, match=f"line 2: {message}"):
        read_passes(path, reader=reader)


def test_what_a_float32_softmax_is_off_is_taken(tmp_path, reader):
    path = write(tmp_path, text(make_pass(1, logprobs=[9e-7, -9.0, -9.0])))
    assert read_passes(path, reader=reader).answer.tolist() == [2]
    assert check(path).is_right


def test_ids_that_are_numbers_are_taken_as_written(tmp_path, reader):
    rows = [make_pass(i, question_id=i, video_id=17) for i in range(2)]
    found = read_passes(write(tmp_path, text(*rows)), reader=reader)
    assert [info.question_id for info in found.items] == ["0", "1"]
    assert found.items[0].video_id == "17"


def test_many_benchmarks_and_wide_orders(tmp_path, reader):
    rng = np.random.default_rng(0)
    rows = [
        make_pass(
            i % 40,
            benchmark=f"b{i}",
            n_options=k,
            order=rng.permutation(k).tolist(),
            logprobs=[-1.0] * k,
            answer=0,
        )
        for i, k in enumerate(rng.integers(1, 30, 300).tolist())
    ]
    path = write(tmp_path, text(*rows, *(row | {"arm": "dense"} for row in rows[::-1])))
    found = read_passes(path, reader=reader)
    assert found.item.tolist() == [*range(300), *range(299, -1, -1)]
    assert [info.benchmark for info in found.items] == [f"b{i}" for i in range(300)]
    for p in (0, 7, 299):
        assert found.order[p][found.order[p] >= 0].tolist() == rows[p]["order"]


def test_duckdb_is_used_for_large_files_alone(tmp_path, monkeypatch):
    pytest.importorskip("duckdb")
    used = []
    real = duck.read
    monkeypatch.setattr(duck, "read", lambda path: used.append(path) or real(path))
    path = write(tmp_path, text(make_pass(1)))
    read_passes(path)
    assert not used
    monkeypatch.setattr(columns_module, "_DUCKDB_BYTES", 10)
    read_passes(path)
    assert used == [path]


def test_without_duckdb(tmp_path, monkeypatch):
    monkeypatch.setattr(duck, "is_installed", lambda: False)
    monkeypatch.setattr(columns_module, "_DUCKDB_BYTES", 10)
    path = write(tmp_path, text(make_pass(1)))
    assert len(read_passes(path)) == 1
    with pytest.raises(BackendUnavailableError, match="pip install duckdb pyarrow"):
        read_passes(path, reader="duckdb")
    with pytest.raises(RecordError, match="reader must be"):
        read_passes(path, reader="csv")


def test_what_is_written_is_json():
    value = {"a": np.arange(3), "b": [math.nan, np.float64(0.1)], "c": (None, "\u00e9")}
    wanted = {"a": [0, 1, 2], "b": [None, 0.1], "c": [None, "\u00e9"]}
    assert json.loads(_json.dumps(value)) == wanted
    with pytest.raises(RecordError, match="cannot be written as JSON"):
        _json.dumps({"a": object()})


def test_a_line_that_is_just_being_written_was_not_cut_by_a_crash(
    tmp_path, monkeypatch
):
    """The reader has seen half of it; the writer lives, and writes the other half."""
    whole = text(make_pass(1), make_pass(2)).encode()
    path = write(tmp_path, whole[:-100])

    def goes_on(seconds):
        path.write_bytes(whole)

    monkeypatch.setattr(lines.time, "sleep", goes_on)
    assert [row["question_id"] for row in iter_passes(tmp_path)] == ["q1"]
    assert len(list(iter_passes(tmp_path))) == 2
