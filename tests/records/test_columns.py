"""Reading passes into columns, against plain Python on the same lines."""

import math

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_passes import make_pass

from phasefusion.errors import RecordError
from phasefusion.records import read_passes


def write(path, rows):
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


@st.composite
def pass_lists(draw):
    rows = []
    for i in range(draw(st.integers(1, 4))):
        k = draw(st.integers(2, 6))
        gold = draw(st.one_of(st.none(), st.integers(0, k - 1)))
        for m in range(draw(st.integers(1, 3))):
            order = draw(st.permutations(range(k)))
            missing = draw(st.booleans())
            values = draw(
                st.lists(st.one_of(st.none(), st.floats(-9, 0)), min_size=k, max_size=k)
            )
            rows.append(
                make_pass(
                    i,
                    n_options=k,
                    gold=gold,
                    phase_index=m,
                    order=order,
                    logprobs=None if missing else values,
                    answer=None if missing else draw(st.integers(0, k - 1)),
                    invalid="because" if missing else None,
                    option_mass=None if missing else 0.5,
                )
            )
    return draw(st.permutations(rows))


@settings(max_examples=60, deadline=None)
@given(rows=pass_lists())
def test_columns_equal_the_lines(tmp_path_factory, rows):
    path = write(tmp_path_factory.mktemp("p") / "passes.jsonl", rows)
    passes = read_passes(path)
    content = passes.content_logprobs()
    width = max(row["n_options"] for row in rows)
    assert len(passes) == len(rows)
    for p, row in enumerate(rows):
        info = passes.items[passes.item[p]]
        k = row["n_options"]
        assert (info.question_id, info.n_options, info.gold) == (
            row["question_id"],
            k,
            row["gold"],
        )
        assert passes.order[p].tolist() == [*row["order"], *[-1] * (width - k)]
        nothing = row["logprobs"] is not None and set(row["logprobs"]) == {None}
        if nothing:
            assert passes.invalid[p] == "scores: no option has any probability"
        else:
            assert passes.invalid[p] == row["invalid"]
        missing = nothing or row["answer"] is None
        assert passes.answer[p] == (-1 if missing else row["answer"])
        assert tuple(passes.phase[p]) == tuple(row["phase"])
        for pos, c in enumerate(row["order"]):
            if missing:
                assert math.isnan(content[p, c])
            else:
                value = row["logprobs"][pos]
                assert content[p, c] == (-math.inf if value is None else value)
        assert np.all(content[p, k:] == -np.inf)
        assert np.isnan(passes.option_mass[p]) == (row["option_mass"] is None)
        assert np.isnan(passes.seconds[p])


@st.composite
def told_in_part(draw):
    """Passes that know more or less of their question each."""
    rows = [
        {
            "question_id": draw(st.sampled_from("ab")),
            "benchmark": draw(st.sampled_from("xy")),
            "order": [0, 1, 2],
            "phase_index": i,
            "n_phases": 9,
            **{name: draw(st.sampled_from([None, *values])) for name, values in FACTS},
        }
        for i in range(draw(st.integers(1, 9)))
    ]
    made = [make_pass(i) | row for i, row in enumerate(rows)]
    for row in made:
        for name, _ in FACTS:
            if row[name] is None and draw(st.booleans()):
                del row[name]
    return made


FACTS = [
    ("video_id", ["v", "w"]),
    ("type", ["when", "why"]),
    ("n_frames", [0, 7]),
    ("duration_s", [0.0, 2.5]),
    ("video_digest", ["0" * 16, "f" * 16]),
    ("same_options", [[0, 1, 2], [0, 0, 2]]),
]


@pytest.mark.parametrize("reader", ["json", "duckdb"])
@settings(max_examples=60, deadline=None)
@given(rows=told_in_part())
def test_a_fact_is_that_of_the_first_pass_that_has_it(tmp_path_factory, reader, rows):
    if reader == "duckdb":
        pytest.importorskip("duckdb")
    path = write(tmp_path_factory.mktemp("p") / "passes.jsonl", rows)
    for info in read_passes(path, reader=reader).items:
        own = [
            row
            for row in rows
            if (row["benchmark"], row["question_id"])
            == (info.benchmark, info.question_id)
        ]
        for name, _ in FACTS:
            said = [row[name] for row in own if row.get(name) is not None]
            value = getattr(info, name)
            assert (list(value) if type(value) is tuple else value) == next(
                iter(said), None
            )


@pytest.mark.parametrize("reader", ["json", "duckdb"])
def test_a_fact_may_come_in_a_later_batch(tmp_path, monkeypatch, reader):
    if reader == "duckdb":
        pytest.importorskip("duckdb")
        monkeypatch.setattr("phasefusion.records.duck._BATCH_ROWS", 2048)
    rows = [make_pass(i, n_frames=i) for i in range(9000)]
    for i, facts in {
        0: {},
        3000: {"n_frames": 7},
        6000: {"n_frames": 8, "video_digest": "0" * 16},
        8999: {"duration_s": 2.0, "video_digest": "f" * 16},
    }.items():
        rows[i] = make_pass("", phase_index=i, n_phases=9000, phase=None, **facts)
    info, *others = read_passes(
        write(tmp_path / "passes.jsonl", rows), reader=reader
    ).items
    assert (info.n_frames, info.duration_s, info.video_digest) == (7, 2.0, "0" * 16)
    assert all(other.question_id == f"q{other.n_frames}" for other in others)


def test_no_passes(tmp_path):
    passes = read_passes(write(tmp_path / "passes.jsonl", []))
    assert len(passes) == 0
    assert passes.items == ()
    assert passes.content_logprobs().shape == (0, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"order": [0, 1, 1]}, "line 2: order is not a permutation"),
        ({"order": [0, 1, 3]}, "line 2: order is not a permutation"),
        ({"order": [0, 1]}, "line 2: order has another length"),
        ({"logprobs": [-1.0, -2.0]}, "line 2: logprobs has another length"),
        ({"answer": 3}, "line 2: answer is not one of the options"),
        ({"answer": -2}, "line 2: answer is -2, not an integer >= 0 or null"),
        ({"n_options": 0}, "line 2: n_options is 0"),
        ({"question_id": "q1", "gold": 1}, "line 2: .*differ from those of its first"),
        ({"question_id": "q1"}, "line 2: the same pass as line 1"),
    ],
)
def test_a_bad_pass_is_named(tmp_path, changes, message):
    path = write(tmp_path / "passes.jsonl", [make_pass(1), make_pass(2) | changes])
    with pytest.raises(RecordError, match=message):
        read_passes(path)


ODD = [
    ("answer", True, "an integer >= 0 or null"),
    ("answer", "1", "an integer >= 0 or null"),
    ("answer", -1, "an integer >= 0 or null"),
    ("gold", -1, "an integer >= 0 or null"),
    ("gold", "0", "an integer >= 0 or null"),
    ("budget", -1, "an integer >= 0 or null"),
    ("budget", False, "an integer >= 0 or null"),
    ("n_options", "3", "an integer >= 1"),
    ("n_phases", True, "an integer from 1 to 65536"),
    ("phase_index", "0", "an integer >= 0"),
    ("phase_index", False, "an integer >= 0"),
    ("shifted", 1, "true or false"),
    ("shifted", "true", "true or false"),
    ("option_mass", -0.5, "a number >= 0 or null"),
    ("seconds", -1, "a number >= 0 or null"),
]
#: DuckDB reads texts as the numbers that they say there; `records check` does not.
ODD_LINE_BY_LINE = [
    ("logprobs", ["-1", "-2", "-3"], "numbers or nulls, or null"),
    ("logprobs", [-1, True, -3], "numbers or nulls, or null"),
    ("option_mass", "0.5", "a number >= 0 or null"),
    ("seconds", True, "a number >= 0 or null"),
]


@pytest.mark.parametrize(
    ("name", "value", "says", "reader"),
    [(*one, reader) for one in ODD for reader in ("json", "duckdb")]
    + [(*one, "json") for one in ODD_LINE_BY_LINE],
)
def test_a_reader_refuses_what_the_schema_refuses(tmp_path, name, value, says, reader):
    if reader == "duckdb":
        pytest.importorskip("duckdb")
    # null elsewhere in the column does not make -1 a null
    rows = [
        make_pass(1, gold=None, budget=None, answer=None, invalid="x", logprobs=None)
    ]
    rows += [make_pass(2), make_pass(3) | {name: value}]
    path = write(tmp_path / "passes.jsonl", rows)
    with pytest.raises(RecordError, match=f"line 3: {name} is .*, not {says}"):
        read_passes(path, reader=reader)


@pytest.mark.parametrize(
    "name", ["order", "n_options", "question_id", "benchmark", "arm", "phase_index"]
)
def test_a_missing_field_is_named(tmp_path, name):
    row = make_pass(2)
    del row[name]
    path = write(tmp_path / "passes.jsonl", [make_pass(1), row])
    with pytest.raises(RecordError, match=f"line 2: has no '{name}'"):
        read_passes(path)
