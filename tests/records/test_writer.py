"""The run writer: append, resume, crash, second writer, full disk."""

import errno
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from sample_passes import RUN, make_pass

from phasefusion.errors import RecordError, RecordWarning
from phasefusion.records import (
    LOCK_FILE,
    PASSES_FILE,
    RUN_FILE,
    RunWriter,
    appending,
    differences,
    iter_passes,
    pass_key,
    read_run,
)
from phasefusion.records.appending import locked_run


def test_round_trip_keeps_unknown_fields(tmp_path):
    passes = [make_pass(i, text="two\nlines \u2028 ü") for i in range(5)]
    with RunWriter(tmp_path / "deep" / "run", RUN) as writer:
        writer.append(passes[:2])
        writer.append(passes[2:])
    assert list(iter_passes(tmp_path / "deep" / "run")) == passes
    assert read_run(tmp_path / "deep" / "run")["command"] == ["phasefusion", "run"]


def test_resume_knows_what_is_done_and_changes_nothing(tmp_path):
    with RunWriter(tmp_path, RUN) as writer:
        writer.append([make_pass(1), make_pass(2)])
    files = [tmp_path / RUN_FILE, tmp_path / PASSES_FILE]
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in files]
    with RunWriter(tmp_path, RUN | {"command": ["another"]}) as writer:
        assert writer.done == {pass_key(make_pass(1)), pass_key(make_pass(2))}
        with pytest.raises(RecordError, match="recorded already"):
            writer.append([make_pass(2)])
    assert before == [(path.read_bytes(), path.stat().st_mtime_ns) for path in files]


def test_order_shift_and_phase_make_other_passes(tmp_path):
    passes = [
        make_pass(1),
        make_pass(1, order=[0, 1, 2]),
        make_pass(1, shifted=True),
        make_pass(1, phase_index=1),
        make_pass(1, arm="union"),
        make_pass(1, benchmark="other"),
    ]
    with RunWriter(tmp_path, RUN) as writer:
        writer.append(passes)
        assert len(writer.done) == len(passes)


def test_other_settings_are_refused_with_every_difference(tmp_path):
    RunWriter(tmp_path, RUN).close()
    other = {
        "settings": {"budget": 16, "orders": {"kind": "latin"}, "seed": 1},
        "versions": {"phasefusion": "0.2.0"},
    }
    with pytest.raises(RecordError) as info:
        RunWriter(tmp_path, other)
    for line in (
        "budget: 8 -> 16",
        "orders.kind: 'shared' -> 'latin'",
        "orders.n: 10 -> (absent)",
        "seed: (absent) -> 1",
        "phasefusion: '0.1.0' -> '0.2.0'",
    ):
        assert f"\n  {line}" in str(info.value)
    RunWriter(tmp_path, RUN).close()  # the refusal has let the lock go


def test_other_versions_alone_say_what_still_can_be_done(tmp_path):
    RunWriter(tmp_path, RUN).close()
    still = "or in another folder (no merge is of several)"
    newer = RUN | {"versions": {"phasefusion": "0.2.0"}}
    with pytest.raises(RecordError) as info:
        RunWriter(tmp_path, newer)
    assert str(info.value).endswith(still)
    with pytest.raises(RecordError) as info:
        RunWriter(tmp_path, newer | {"settings": {"budget": 16}})
    assert still not in str(info.value)


def test_long_values_are_cut_where_they_differ():
    same = "same " * 40
    (line,) = differences({"text": f"{same}old {same}"}, {"text": f"{same}new {same}"})
    assert "old" in line
    assert "new" in line
    assert len(line) <= len("text:  -> ") + 2 * 60
    assert line.count("...") == 4
    (line,) = differences({"text": "a" * 200}, {})
    assert line == f"text: '{'a' * 53}... -> (absent)"


def test_differences_sees_type_and_depth():
    assert differences({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}) == [
        "a.b: [1, 2] -> [1, 3]"
    ]
    assert differences({"a": None}, {}) == ["a: None -> (absent)"]
    assert differences([1], [1]) == []


@pytest.mark.parametrize(
    "tail", [b"", b"\0", b"\0" * 50 + b"\n", b'{"half": \n', b'{"half": \n{"mo']
)
def test_tail_of_a_power_failure(tmp_path, tail):
    with RunWriter(tmp_path, RUN) as writer:
        writer.append([make_pass(1)])
    path = tmp_path / PASSES_FILE
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    if not tail:
        RunWriter(tmp_path, RUN).close()
        return
    with pytest.warns(RecordWarning, match="is left out"):
        assert len(list(iter_passes(tmp_path))) == 1
    with pytest.warns(RecordWarning, match="is made again"):
        RunWriter(tmp_path, RUN).close()
    assert path.read_bytes() == whole


def test_a_line_cut_at_any_byte_is_made_again(tmp_path):
    passes = [make_pass(1), make_pass(2)]
    with RunWriter(tmp_path, RUN) as writer:
        writer.append(passes)
    path = tmp_path / PASSES_FILE
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for cut in range(first + 1, len(whole)):
        path.write_bytes(whole[:cut])
        with pytest.warns(RecordWarning):
            writer = RunWriter(tmp_path, RUN)
        assert writer.done == {pass_key(passes[0])}
        writer.append(passes[1:])
        writer.close()
        assert path.read_bytes() == whole


def test_a_bad_line_in_the_middle_is_named_not_skipped(tmp_path):
    with RunWriter(tmp_path, RUN) as writer:
        writer.append([make_pass(1), make_pass(2)])
    path = tmp_path / PASSES_FILE
    first, second, _ = path.read_bytes().split(b"\n")
    for middle, message in [
        (b'{"broken', "line 2: not JSON"),
        (b"3", "line 2: a pass is a JSON object, not int"),
        (b"{},{}", "line 2: not JSON"),
    ]:
        path.write_bytes(b"\n".join([first, middle, second, b""]))
        with pytest.raises(RecordError, match=message):
            list(iter_passes(tmp_path))
        with pytest.raises(RecordError, match=message):
            RunWriter(tmp_path, RUN)
    path.write_bytes(first + b"\n{}\n" + second + b"\n")
    with pytest.raises(RecordError, match=r"line 2: not a pass: KeyError\('benchmark'"):
        RunWriter(tmp_path, RUN)


def test_passes_without_run_file_are_not_adopted(tmp_path):
    (tmp_path / PASSES_FILE).write_text("")
    with pytest.raises(RecordError, match=r"has passes\.jsonl but no run\.json"):
        RunWriter(tmp_path, RUN)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "not JSON"), ("{}", "has format None"), ('{"format": 99}', "format 99")],
)
def test_bad_run_file(tmp_path, text, message):
    (tmp_path / RUN_FILE).write_text(text)
    with pytest.raises(RecordError, match=message):
        RunWriter(tmp_path, RUN)


def test_no_run(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no run\.json"):
        read_run(tmp_path)
    with pytest.raises(FileNotFoundError):
        list(iter_passes(tmp_path))


def test_second_writer_is_refused_naming_the_first(tmp_path):
    with (
        RunWriter(tmp_path, RUN),
        pytest.raises(RecordError, match=rf"process {os.getpid()} is writing"),
    ):
        RunWriter(tmp_path, RUN)
    RunWriter(tmp_path, RUN).close()


CHILD = textwrap.dedent(
    """
    import json, sys
    from phasefusion.errors import RecordError
    from phasefusion.records import RunWriter
    folder, run = sys.argv[1], json.loads(sys.argv[2])
    {body}
    """
)


def child(body, folder, **options):
    code = CHILD.format(body=textwrap.dedent(body))
    command = [sys.executable, "-c", code, str(folder), json.dumps(RUN)]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, **options)


def test_second_process_is_refused_and_a_killed_one_leaves_no_lock(tmp_path):
    body = """
    writer = RunWriter(folder, run)
    print("open", flush=True)
    sys.stdin.read()
    """
    first = child(body, tmp_path, stdin=subprocess.PIPE)
    try:
        assert first.stdout.readline() == "open\n"
        with pytest.raises(RecordError, match=f"process {first.pid} is writing"):
            RunWriter(tmp_path, RUN)
    finally:
        first.kill()
        first.communicate()
    RunWriter(tmp_path, RUN).close()
    assert (tmp_path / LOCK_FILE).exists()


def test_full_disk_loses_nothing_and_says_what_to_do(tmp_path):
    """A file size limit stands in for the disk: the kernel cuts the write short."""
    body = """
    import resource
    from sample_passes import make_pass
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
    with RunWriter(folder, run) as writer:
        n = 0
        try:
            while True:
                writer.append([make_pass(n)])
                n += 1
        except RecordError as error:
            print(n, str(error))
    """
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    process = child(body, tmp_path, env=os.environ | {"PYTHONPATH": path})
    out, _ = process.communicate()
    assert process.returncode == 0
    n, message = out.split(" ", 1)
    size = (tmp_path / PASSES_FILE).stat().st_size
    assert 3 < int(n) < 10
    assert 2000 - 500 < size <= 2000
    assert f"What is in it ({n} passes) is whole. Make room" in message
    assert [row["question_id"] for row in iter_passes(tmp_path)] == [
        f"q{i}" for i in range(int(n))
    ]
    with RunWriter(tmp_path, RUN) as writer:  # no warning: no torn line was left
        writer.append([make_pass(int(n))])


def test_short_write_then_error_is_taken_back(tmp_path, monkeypatch):
    real = os.write
    calls = []

    def write(fd, data):
        calls.append(len(data))
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        return real(fd, data[:7] if len(calls) == 2 else data)

    with RunWriter(tmp_path, RUN) as writer:
        monkeypatch.setattr(appending.os, "write", write)
        writer.append([make_pass(1)])
        with pytest.raises(RecordError, match="No space left on device"):
            writer.append([make_pass(2), make_pass(3)])
        monkeypatch.undo()
        assert writer.done == {pass_key(make_pass(1))}
        writer.append([make_pass(2)])
    assert [row["question_id"] for row in iter_passes(tmp_path)] == ["q1", "q2"]


def test_one_write_a_line(tmp_path, monkeypatch):
    real = os.write
    written = []

    def write(fd, data):
        written.append(data)
        return real(fd, data)

    with RunWriter(tmp_path, RUN) as writer:
        monkeypatch.setattr(appending.os, "write", write)
        writer.append([make_pass(i) for i in range(4)])
    assert [data.count(b"\n") for data in written] == [1] * 4


def test_failing_fsync_is_reported(tmp_path, monkeypatch):
    def fsync(fd):
        raise OSError(5, "Input/output error")

    with RunWriter(tmp_path, RUN, fsync_every_s=0) as writer:
        monkeypatch.setattr(appending.os, "fsync", fsync)
        with pytest.raises(RecordError, match="Input/output error"):
            writer.append([make_pass(1)])


def test_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot be written"):
        RunWriter(tmp_path / "file" / "run", RUN)


def test_value_that_json_cannot_hold(tmp_path):
    with RunWriter(tmp_path, RUN) as writer:
        with pytest.raises(RecordError, match="as JSON"):
            writer.append([make_pass(1, text=object())])
        assert not writer.done


def test_other_files_of_a_folder_are_named(tmp_path):
    for name in ("thesis.tex", "b.txt", "c.txt", "d.txt", ".hidden"):
        (tmp_path / name).write_text("")
    message = r"holds 4 other files \(b\.txt, c\.txt, d\.txt, \.\.\.\); the run is"
    with pytest.warns(RecordWarning, match=message):
        RunWriter(tmp_path, {"settings": {}, "versions": {}}).close()
    RunWriter(tmp_path, {"settings": {}, "versions": {}}).close()  # it goes on


def test_a_refused_writer_leaves_nothing_that_was_not_there(tmp_path):
    (tmp_path / PASSES_FILE).write_text("")
    with pytest.raises(RecordError, match="settings are unknown"):
        RunWriter(tmp_path, {})
    assert os.listdir(tmp_path) == [PASSES_FILE]


def stopped(folder, *names):
    """Lock a run, write files there, and stop with an error."""
    with locked_run(folder):
        assert (folder / LOCK_FILE).exists()
        for name in names:
            (folder / name).touch()
        raise ZeroDivisionError


def test_taking_a_lock_back_removes_what_was_made_and_no_more(tmp_path):
    folder = tmp_path / "a" / "b"
    with pytest.raises(ZeroDivisionError):
        stopped(folder)
    assert os.listdir(tmp_path) == []
    with pytest.raises(ZeroDivisionError):
        stopped(folder, "kept")
    assert os.listdir(folder) == ["kept"]
    with locked_run(folder):
        pass
    with pytest.raises(ZeroDivisionError):
        stopped(folder)
    assert sorted(os.listdir(folder)) == ["kept", LOCK_FILE]


def test_a_lock_that_was_taken_back_meanwhile_is_taken_anew(tmp_path, monkeypatch):
    """Who opened the file before it went would hold what nobody else can find."""
    lock, times = appending.lock, []

    def late(fd):
        times.append(fd)
        if len(times) == 1:
            (tmp_path / LOCK_FILE).unlink()
        return lock(fd)

    monkeypatch.setattr(appending, "lock", late)
    with (
        locked_run(tmp_path),
        pytest.raises(RecordError, match="is writing this run"),
        locked_run(tmp_path),
    ):
        pass
    assert len(times) == 3


@pytest.mark.parametrize(
    ("module", "name"),
    [(os, "open"), (os, "ftruncate"), (os, "pwrite"), (appending, "lock")],
)
def test_a_lock_that_cannot_be_written_is_let_go(tmp_path, monkeypatch, module, name):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    folder = tmp_path / "a" / "b"
    with monkeypatch.context() as patch:
        patch.setattr(module, name, full)
        with pytest.raises(RecordError, match="No space left on device"):
            RunWriter(folder, RUN)
    assert os.listdir(tmp_path) == []
    folder.mkdir(parents=True)
    (folder / LOCK_FILE).touch()
    with monkeypatch.context() as patch:
        patch.setattr(module, name, full)
        with pytest.raises(RecordError, match="No space left on device"):
            RunWriter(folder, RUN)
    RunWriter(folder, RUN).close()  # this process has not kept it locked
