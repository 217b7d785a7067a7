"""What is written anew is the old file or the new one, whatever happens between."""

import errno
import os
import stat
import threading

import pytest
from sample_passes import RUN

import phasefusion._whole as whole
from phasefusion._whole import replace_file
from phasefusion.errors import RecordError
from phasefusion.records import RunWriter


def fail(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture(params=["fsync", "replace"])
def full_disk(request, monkeypatch):
    monkeypatch.setattr(whole.os, request.param, fail)


def test_a_file_is_made_and_replaced(tmp_path):
    path = tmp_path / "a"
    replace_file(path, b"old and long")
    replace_file(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.usefixtures("full_disk")
def test_a_run_that_finds_the_disk_full_leaves_no_part_of_its_description(tmp_path):
    with pytest.raises(RecordError, match="cannot be written"):
        RunWriter(tmp_path, RUN)
    assert os.listdir(tmp_path) == []


def test_a_link_and_a_mode_stay(tmp_path):
    path, link = tmp_path / "a", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to("a")
    replace_file(link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_pipe_is_written_to(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    got = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    replace_file(path, b"new")
    reader.join()
    assert got == [b"new"]
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_an_open_file_stays_the_file_it_is(tmp_path):
    with open(tmp_path / "a", "w+b") as file:
        replace_file(f"/dev/fd/{file.fileno()}", b"new")
        assert file.read() == b"new"


def test_a_folder_is_none(tmp_path):
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path, b"new")


def test_a_name_may_be_as_long_as_names_may_be(tmp_path):
    path = tmp_path / ("x" * 255)
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_folder_that_takes_no_others_still_has_its_file_written(
    tmp_path, monkeypatch
):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def refused(name, mode):
        raise PermissionError(errno.EACCES, "Permission denied", name)

    monkeypatch.setattr(whole, "open", refused, raising=False)
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    with pytest.raises(PermissionError):
        replace_file(tmp_path / "b", b"new")
