"""Converting passes: nothing is lost on the way to a table and back."""

import csv
import json
import math
import os

import pytest
from hypothesis import given, settings
from made_runs import made_run
from pass_files import pass_files, text, write
from sample_passes import RUN, make_pass

from phasefusion.errors import BackendUnavailableError, RecordError
from phasefusion.records import (
    RunWriter,
    convert,
    iter_passes,
    read_run,
    rules,
    tables,
)


def as_written(row):
    """A pass as every table holds it; null and absent are one."""
    row = dict(row)
    values = row.get("logprobs")
    if values is not None:
        bad = [v for v in values if v is not None and not v < math.inf]
        row["logprobs"] = [None if v == -math.inf else v for v in values]
        if bad:
            reason = "scores: NaN" if any(map(math.isnan, bad)) else "scores: +inf"
            row |= {"logprobs": None, "answer": None}
            row["invalid"] = row.get("invalid") or reason
    return {k: v for k, v in row.items() if v is not None}


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
@settings(max_examples=50, deadline=None)
@given(made=pass_files())
def test_there_and_back(tmp_path_factory, ending, made):
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("t")
    rows, content = made
    path = write(folder, content)
    assert convert(path, folder / f"a{ending}") == len(rows)
    assert convert(folder / f"a{ending}", folder / "b.jsonl") == len(rows)
    back = list(iter_passes(folder / "b.jsonl"))
    assert [as_written(row) for row in back] == [as_written(row) for row in rows]
    for row in back:
        assert set(rules.REQUIRED) <= set(row)


@settings(max_examples=50, deadline=None)
@given(made=pass_files())
def test_csv_holds_every_field(tmp_path_factory, made):
    folder = tmp_path_factory.mktemp("t")
    rows, content = made
    convert(write(folder, content), folder / "a.csv")
    with open(folder / "a.csv", newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    texts = {"question_id", "benchmark", "video_id", "type", "arm", "invalid"}
    texts |= {"path", "text", "video_digest"}
    one_type = {type(row["another"]) for row in rows if row["another"] is not None}
    if one_type == {str}:
        texts.add("another")
    for row, cells in zip(rows, found, strict=True):
        for name, value in as_written(row).items():
            cell = cells[name]
            assert (cell if name in texts else json.loads(cell)) == value
        for name in cells.keys() - as_written(row).keys():
            assert cells[name] == ""


def test_a_run_keeps_its_description(tmp_path):
    pytest.importorskip("pyarrow")
    made_run(tmp_path / "run", n_items=2)
    convert(tmp_path / "run", tmp_path / "a.parquet")
    _, run = tables.source_blocks(tmp_path / "a.parquet")
    assert run == read_run(tmp_path / "run")


def test_what_the_writer_wrote_stays_as_it_is(tmp_path):
    with RunWriter(tmp_path / "run", RUN) as writer:
        writer.append([make_pass(i, text="\u00e9\u2028") for i in range(3)])
    convert(tmp_path / "run", tmp_path / "a.jsonl")
    before = (tmp_path / "run" / "passes.jsonl").read_bytes()
    assert (tmp_path / "a.jsonl").read_bytes() == before


def test_columns_have_the_types_of_their_values(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rows = [
        make_pass(1, epoch=3, share=0.5, note="a", seen=True, mixed=1, big=2**70),
        make_pass(2, epoch=4, share=1.5, note="b", seen=False, mixed="x", big=1),
    ]
    convert(write(tmp_path, text(*rows)), tmp_path / "a.parquet")
    schema = pq.read_schema(tmp_path / "a.parquet")
    for name, kind in (
        ("epoch", pa.int64()),
        ("share", pa.float64()),
        ("note", pa.string()),
        ("seen", pa.bool_()),
        ("mixed", pa.string()),
        ("big", pa.string()),
        ("order", pa.list_(pa.int64())),
        ("logprobs", pa.list_(pa.float64())),
        ("shifted", pa.bool_()),
        ("n_options", pa.int64()),
    ):
        assert schema.field(name).type == kind, name
    convert(tmp_path / "a.parquet", tmp_path / "b.jsonl")
    assert [row["mixed"] for row in iter_passes(tmp_path / "b.jsonl")] == [1, "x"]


def test_bad_input_writes_nothing(tmp_path):
    path = write(tmp_path, text(make_pass(1), make_pass(2, answer=9)))
    for name in ("a.csv", "a.jsonl"):
        with pytest.raises(
            RecordError, match=r"line 2: answer is not one .* records check"
        ):
            convert(path, tmp_path / name)
    assert os.listdir(tmp_path) == ["passes.jsonl"]


def test_names_that_cannot_be(tmp_path):
    path = write(tmp_path, text(make_pass(1)))
    with pytest.raises(RecordError, match=r"end its name in one of \.parquet"):
        convert(path, tmp_path / "a.xlsx")
    with pytest.raises(RecordError, match="is what is converted"):
        convert(path, path)
    with pytest.raises(FileNotFoundError):
        convert(tmp_path / "nothing.jsonl", tmp_path / "a.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no run\.json"):
        convert(tmp_path / "empty", tmp_path / "a.csv")
    with pytest.raises(
        RecordError, match=r"import reads other tables.* not convert back"
    ):
        convert(tmp_path / "a.csv", tmp_path / "b.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(RecordError, match="cannot be written"):
        convert(path, tmp_path / "folder.csv")


def test_tables_that_are_none(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    for ending in ("parquet", "arrow"):
        path = tmp_path / f"a.{ending}"
        path.write_bytes(b"no table")
        with pytest.raises(RecordError, match=f"a.{ending}: no {ending} file"):
            convert(path, tmp_path / "b.jsonl")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(RecordError, match="has no column 'question_id'"):
        convert(tmp_path / "a.parquet", tmp_path / "b.jsonl")


def test_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    path = write(tmp_path, text(make_pass(1)))
    with pytest.raises(BackendUnavailableError, match="pip install pyarrow"):
        convert(path, tmp_path / "a.parquet")
    assert convert(path, tmp_path / "a.csv") == 1
