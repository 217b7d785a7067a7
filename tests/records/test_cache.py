"""The Parquet cache of columns: equal to the parse, never stale, never in the way."""

import os
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from made_runs import made_run
from pass_files import assert_equal, pass_files, text, write
from sample_passes import make_pass

from phasefusion.records import cache as cache_module
from phasefusion.records import columns, read_passes

pytest.importorskip("pyarrow")


@pytest.fixture
def parses(monkeypatch):
    """Count how often a file is parsed."""
    made = []
    real = columns.parse

    def parse(path, reader="auto"):
        made.append(path)
        return real(path, reader)

    monkeypatch.setattr(columns, "parse", parse)
    return made


def age(path, seconds=10):
    """Make a file look as if nobody had touched it for some time."""
    then = path.stat().st_mtime_ns - int(seconds * 1e9)
    os.utime(path, ns=(then, then))


@settings(max_examples=40, deadline=None)
@given(made=pass_files())
def test_what_the_cache_returns_is_what_was_parsed(tmp_path_factory, made):
    folder = tmp_path_factory.mktemp("c")
    path = write(folder, made[1])
    parsed = read_passes(path, cache=False)
    assert_equal(read_passes(path, cache=folder / "cache"), parsed)
    (place,) = (folder / "cache").iterdir()
    before = place.read_bytes()
    found = read_passes(path, cache=folder / "cache")
    assert_equal(found, parsed)
    assert place.read_bytes() == before
    assert found.logprobs.flags.writeable


def test_a_run_is_parsed_once(tmp_path, parses):
    made_run(tmp_path / "run", n_items=5)
    found = [read_passes(tmp_path / "run", cache=tmp_path / "c") for _ in range(3)]
    assert len(parses) == 1
    assert_equal(found[0], found[2])


def test_no_passes_are_not_kept(tmp_path):
    path = write(tmp_path, b"")
    assert len(read_passes(path, cache=tmp_path / "c")) == 0
    assert not (tmp_path / "c").exists()


def test_small_files_get_no_cache_and_large_ones_get_it_beside_them(
    tmp_path, monkeypatch
):
    path = write(tmp_path, text(make_pass(1)))
    read_passes(path)
    assert list(tmp_path.iterdir()) == [path]
    monkeypatch.setattr(columns, "_CACHE_BYTES", 10)
    read_passes(path)
    assert {p.name for p in tmp_path.iterdir()} == {
        "passes.jsonl",
        "passes.jsonl.cache.parquet",
    }


@pytest.mark.parametrize("keep_time", [False, True])
def test_a_changed_file_is_parsed_again(tmp_path, parses, keep_time):
    path = write(tmp_path, text(make_pass(1, answer=2, logprobs=None, path="generate")))
    age(path)
    stat = path.stat()
    assert read_passes(path, cache=tmp_path / "c").answer.tolist() == [2]
    path.write_text(path.read_text().replace('"answer": 2', '"answer": 1'))
    assert path.stat().st_size == stat.st_size
    if keep_time:  # as "cp -p" of another file leaves it
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    for _ in range(2):
        assert read_passes(path, cache=tmp_path / "c").answer.tolist() == [1]
    assert len(parses) == 2


def test_a_file_that_was_only_touched_or_copied_is_known_by_its_hash(
    tmp_path, parses, monkeypatch
):
    hashed = []
    real = cache_module.file_sha256
    monkeypatch.setattr(
        cache_module, "file_sha256", lambda p: hashed.append(p) or real(p)
    )
    monkeypatch.setattr(columns, "_CACHE_BYTES", 10)
    path = write(tmp_path, text(make_pass(1)))
    read_passes(path)
    age(path)
    read_passes(path)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("passes.jsonl", "passes.jsonl.cache.parquet"):
        (moved / name).write_bytes((tmp_path / name).read_bytes())
    read_passes(moved)
    assert len(parses) == 1
    assert len(hashed) == 3


def test_a_file_left_alone_is_not_hashed_again(tmp_path, parses, monkeypatch):
    path = write(tmp_path, text(make_pass(1)))
    monkeypatch.setattr(cache_module, "_TICK_NS", 0)
    time.sleep(0.02)
    read_passes(path, cache=tmp_path / "c")
    monkeypatch.setattr(cache_module, "file_sha256", None)
    read_passes(path, cache=tmp_path / "c")
    assert len(parses) == 1


def test_damage_is_ignored_and_written_over(tmp_path, parses):
    path = write(tmp_path, text(*(make_pass(i) for i in range(9))))
    wanted = read_passes(path, cache=tmp_path / "c")
    (place,) = (tmp_path / "c").iterdir()
    whole = place.read_bytes()
    damaged = [b"", b"PAR1", whole[: len(whole) // 2], whole[:-1], b"x" * len(whole)]
    damaged += [whole[:i] + b"\xff" * 40 + whole[i + 40 :] for i in range(4, 600, 97)]
    for n, data in enumerate(damaged, 1):
        place.write_bytes(data)
        assert_equal(read_passes(path, cache=tmp_path / "c"), wanted)
        assert len(parses) <= 1 + n
    assert len(parses) > 5
    assert_equal(read_passes(path, cache=tmp_path / "c"), wanted)


def test_another_format_is_ignored(tmp_path, parses, monkeypatch):
    path = write(tmp_path, text(make_pass(1)))
    read_passes(path, cache=tmp_path / "c")
    monkeypatch.setattr(cache_module, "FORMAT", cache_module.FORMAT + 1)
    for _ in range(2):
        read_passes(path, cache=tmp_path / "c")
    assert len(parses) == 2


@pytest.mark.parametrize("name", ["grid", "order", "item", "invalid"])
def test_numbers_of_nothing_are_damage(tmp_path, parses, name):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = write(tmp_path, text(make_pass(1), make_pass(2)))
    wanted = read_passes(path, cache=tmp_path / "c")
    (place,) = (tmp_path / "c").iterdir()
    file = pq.ParquetFile(place)
    table, head = file.read(), file.metadata.metadata[cache_module._KEY]
    at = table.column_names.index(name)
    field = table.schema.field(name)
    table = table.set_column(at, field, pa.array([0, 99], field.type))
    with pq.ParquetWriter(place, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({cache_module._KEY: head})
    assert_equal(read_passes(path, cache=tmp_path / "c"), wanted)
    assert len(parses) == 2


def test_where_nothing_can_be_written_nothing_is(tmp_path, parses, monkeypatch):
    monkeypatch.setattr(columns, "_CACHE_BYTES", 10)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    path = write(tmp_path, text(make_pass(1)))
    real = open

    def refuse(name, *rest, **more):
        if ".tmp" in str(name) and str(name).startswith(str(path)):
            raise PermissionError(13, "Permission denied", str(name))
        return real(name, *rest, **more)

    monkeypatch.setattr(cache_module, "open", refuse, raising=False)
    for _ in range(2):  # the folder of the file may only be read
        assert len(read_passes(path)) == 1
    assert len(parses) == 1
    assert len(list((tmp_path / "home" / "phasefusion" / "passes").iterdir())) == 1
    (tmp_path / "home").rename(tmp_path / "gone")
    (tmp_path / "home").write_text("no folder")
    assert len(read_passes(path)) == 1
    assert len(parses) == 2


def test_without_pyarrow_there_is_no_cache(tmp_path, parses, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = write(tmp_path, text(make_pass(1)))
    for _ in range(2):
        assert len(read_passes(path, cache=tmp_path / "c")) == 1
    assert len(parses) == 2


def test_processes_that_write_at_once_leave_one_whole_cache(tmp_path, parses):
    path = write(tmp_path, text(*(make_pass(i) for i in range(500))))
    code = (
        "import sys; from phasefusion.records import read_passes\n"
        "for _ in range(5):\n"
        "    assert len(read_passes(sys.argv[1], cache=sys.argv[2])) == 500\n"
    )
    command = [sys.executable, "-c", code, str(path), str(tmp_path / "c")]
    running = [
        subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        )
        for _ in range(3)
    ]
    assert [process.wait() for process in running] == [0, 0, 0]
    (place,) = (tmp_path / "c").iterdir()
    assert place.name.endswith(".cache.parquet")
    read_passes(path, cache=tmp_path / "c")
    assert not parses
