"""Frames from the cache are those of the file, or they are decoded again."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from cache_hammer import assert_entry, hammer, some

import phasefusion.video as video_module
from phasefusion import FrameCache, PhaseGrid
from phasefusion import _cached_clips as cached_clips
from phasefusion import cache as cache_module
from phasefusion.cache import Entry, content_hash
from phasefusion.errors import (
    DuplicateFrameWarning,
    FallbackWarning,
    FrameCountWarning,
    FrameError,
    GridError,
    UsageError,
    VideoError,
)
from phasefusion.video import read_clip, read_clips

GRIDS = [PhaseGrid(4, 3), PhaseGrid(5, by="time"), PhaseGrid(2, 1, "left")]


@pytest.fixture
def cache(tmp_path):
    return FrameCache(tmp_path / "cache")


@pytest.fixture
def opened(monkeypatch):
    """A list that grows with every video that is opened."""
    seen = []
    real = video_module._open_reader

    def open_reader(*args):
        seen.append(args[0])
        return real(*args)

    monkeypatch.setattr(video_module, "_open_reader", open_reader)
    return seen


def entries(cache):
    return sorted(Path(cache.folder).iterdir())


def assert_same(one, other):
    for name in ("frames", "indices", "times_s", "missing", "damaged"):
        left, right = getattr(one, name), getattr(other, name)
        assert left.dtype == right.dtype
        assert np.array_equal(left, right), name
    assert one.grid == other.grid
    for field in fields(one.info):
        assert getattr(one.info, field.name) == getattr(other.info, field.name)


# ------------------------------------------------------------------- through clips


@pytest.mark.parametrize("name", ["h264.mp4", "asp.avi", "vfr.mp4", "offset.ts"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"size": (24, 40)},
        {"size": (24, 40), "mean": [0.5] * 3, "std": [0.2, 0.3, 0.4]},
        {"size": lambda height, width, n: (height // n, width // n)},
    ],
    ids=["plain", "size", "normalised", "rule"],
)
def test_a_hit_is_what_a_decode_gives(name, options, clip, cache, opened):
    true = read_clips(clip(name), GRIDS, **options)
    first = read_clips(clip(name), GRIDS, cache=cache, **options)
    n_opened = len(opened)
    second = read_clips(clip(name), GRIDS, cache=cache.folder, **options)
    assert len(opened) == n_opened == 2
    for one, two, three in zip(true, first, second, strict=True):
        assert_same(one, two)
        assert_same(one, three)
        assert three.frames.flags.writeable
        assert three.frames.flags.c_contiguous


def test_only_what_is_unknown_is_decoded(clip, cache, monkeypatch):
    asked = []
    real = video_module.Video._read_grids

    def read_grids(self, grids, fit, on_error):
        asked.append(list(grids))
        return real(self, grids, fit, on_error)

    monkeypatch.setattr(video_module.Video, "_read_grids", read_grids)
    true = read_clips(clip("h264.mp4"), GRIDS)
    read_clips(clip("h264.mp4"), GRIDS[:1], cache=cache)
    read_clips(clip("h264.mp4"), GRIDS[2:], cache=cache)
    got = read_clips(clip("h264.mp4"), GRIDS, cache=cache)
    assert asked == [GRIDS, GRIDS[:1], GRIDS[2:], GRIDS[1:2]]
    for one, other in zip(true, got, strict=True):
        assert_same(one, other)


def test_everything_that_decides_the_pixels_is_in_the_key(clip, cache, opened):
    ways = [
        {},
        {"size": (20, 20)},
        {"size": (20, 21)},
        {"size": (20, 20), "filter": "bilinear"},
        {"size": (20, 20), "mean": [0.5] * 3, "std": [0.5] * 3},
        {"size": (20, 20), "mean": [0.5] * 3, "std": [0.5, 0.5, 0.25]},
        {"stream": 1},
        {"stream": 0},
    ]
    grid = PhaseGrid(3)
    true = [read_clip(clip("two_streams.mp4"), grid, **way) for way in ways]
    n_opened = len(opened)
    for way in ways:
        read_clip(clip("two_streams.mp4"), grid, cache=cache, **way)
    for one, way in zip(true, ways, strict=True):
        assert_same(one, read_clip(clip("two_streams.mp4"), grid, cache=cache, **way))
    # a "best" stream is another question than stream 1, with the same frames
    assert len(opened) == n_opened + len(ways)


def test_the_build_of_the_decoder_is_in_the_key(clip, cache, opened, monkeypatch):
    decoder = cached_clips._decoder()
    assert {"built", "ffmpeg", "machine", "phasefusion", "facts"} == set(decoder)
    changes = [
        {},
        {"built": "x"},
        {"ffmpeg": {"libavcodec": "1"}},
        {"phasefusion": "0.0"},
        {"facts": decoder["facts"][:-1]},
    ]
    for k, changed in enumerate(changes):
        monkeypatch.setattr(cached_clips, "_decoder", lambda c=changed: decoder | c)
        for _ in range(2):
            read_clip(clip("h264.mp4"), PhaseGrid(2), cache=cache)
            assert len(opened) == k + 1


def test_the_same_content_is_known_under_any_name(clip, cache, tmp_path, opened):
    true = read_clip(clip("h264.mp4"), PhaseGrid(2), cache=cache)
    copy = tmp_path / "copy.bin"
    copy.write_bytes(clip("h264.mp4").read_bytes())
    n_opened = len(opened)
    for source, name in [
        (copy, str(copy)),
        (copy.read_bytes(), "<bytes>"),
        (io.BytesIO(copy.read_bytes()), "<BytesIO>"),
    ]:
        got = read_clip(source, PhaseGrid(2), cache=cache)
        assert np.array_equal(got.frames, true.frames)
        assert got.info.path == name
    assert len(opened) == n_opened
    cache = FrameCache(tmp_path / "other")
    got = read_clip(io.BytesIO(copy.read_bytes()), PhaseGrid(2), cache=cache)
    assert got.info.path == "<BytesIO>"


@pytest.mark.parametrize("keep_times", [False, True])
def test_a_file_that_changes_is_another(keep_times, clip, cache, tmp_path):
    """Also when its size and, by force, its time stay."""
    path = tmp_path / "clip.avi"
    one, two = clip("asp.avi").read_bytes(), bytearray(clip("asp.avi").read_bytes())
    at = two.index(b"movi") + len(two) // 2
    two[at : at + 40] = bytes(40)
    for data in (one, bytes(two), one):
        path.write_bytes(data)
        if keep_times:
            os.utime(path, ns=(0, time.time_ns()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = read_clip(path, PhaseGrid(6, 4), cache=cache, on_error="mark")
            true = read_clip(path, PhaseGrid(6, 4), on_error="mark")
        assert_same(got, true)


def test_a_file_that_changes_while_it_is_decoded_is_not_kept(
    clip, cache, tmp_path, monkeypatch
):
    path = tmp_path / "clip.mp4"
    path.write_bytes(clip("h264.mp4").read_bytes())
    real = video_module._open_reader

    def change_and_open(*args):
        other = clip("h264_no_b.mp4").read_bytes()
        stat = path.stat()
        path.write_bytes(other.ljust(stat.st_size, b"\0")[: stat.st_size])
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        return real(*args)

    monkeypatch.setattr(video_module, "_open_reader", change_and_open)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read_clip(path, PhaseGrid(2), cache=cache, on_error="mark")
        except VideoError:
            pass
    assert not Path(cache.folder).exists() or entries(cache) == []


def test_warnings_and_errors_are_those_of_a_decode(clip, cache):
    def outcome(path, grid, **options):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                read_clip(path, grid, **options)
                error = None
            except (VideoError, GridError, FrameError, OSError) as raised:
                error = (type(raised), str(raised))
        return [(w.category, str(w.message)) for w in caught], error

    seen = set()
    for name, grid in [
        ("header_lies.avi", PhaseGrid(4)),
        ("three.mp4", PhaseGrid(8)),
        ("three.mp4", PhaseGrid(8, short="error")),
        ("text.mp4", PhaseGrid(2)),
        ("empty.mp4", PhaseGrid(2)),
        ("corrupted.mp4", PhaseGrid(20)),
    ]:
        path = clip(name)
        for options in ({}, {"on_error": "mark"}, {"size": (0, 3)}, {"max_pixels": 9}):
            true = outcome(path, grid, **options)
            assert outcome(path, grid, cache=cache, **options) == true
            assert outcome(path, grid, cache=cache, **options) == true
            seen |= {category for category, _ in true[0]} | {true[1] and true[1][0]}
    wanted = {FrameCountWarning, DuplicateFrameWarning, GridError, VideoError}
    assert wanted | {FrameError} <= seen
    path = clip("h264.mp4").parent / "nothing.mp4"
    with pytest.raises(FileNotFoundError):
        read_clip(path, PhaseGrid(2), cache=cache)
    with pytest.raises((UsageError, VideoError), match="directory"):
        read_clip(path.parent, PhaseGrid(2), cache=cache)
    with pytest.raises((UsageError, VideoError), match="threads=0"):
        read_clip(clip("h264.mp4"), PhaseGrid(2), cache=cache, threads=0)
    with pytest.raises((UsageError, VideoError), match="must be a folder of frames"):
        read_clip(clip("h264.mp4"), PhaseGrid(2), cache="")


def test_a_hit_does_not_pass_a_limit(clip, cache):
    read_clip(clip("h264.mp4"), PhaseGrid(2), cache=cache)
    for limit in (
        {"max_frames": 59},
        {"max_pixels": 9},
        {"max_seconds": 1},
        {"max_bytes": 9},
    ):
        with pytest.raises(VideoError, match=next(iter(limit))):
            read_clip(clip("h264.mp4"), PhaseGrid(2), cache=cache, **limit)


def test_damaged_frames_are_not_kept(clip, cache, opened):
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = read_clip(
                clip("corrupted.mp4"), PhaseGrid(20), cache=cache, on_error="mark"
            )
        assert got.missing.any()
    assert len(opened) == 2


def test_known_frames_that_damage_has_moved_are_decoded_again(clip, cache, monkeypatch):
    """A first grid misses the damage; a second one meets it and moves the frames."""
    one, two = PhaseGrid(2), PhaseGrid(3)
    path = clip("h264.mp4")
    read_clip(path, one, cache=cache)
    real = video_module.Video._read_grids

    def move(self, grids, fit, on_error):
        clips = real(self, grids, fit, on_error)
        self._pts = self._pts + 1
        return clips

    asked = []

    def count(self, grids, fit, on_error):
        asked.append(len(grids))
        return move(self, grids, fit, on_error)

    monkeypatch.setattr(video_module.Video, "_read_grids", count)
    read_clips(path, [one, two], cache=cache)
    assert asked == [1, 2]


# ---------------------------------------------------------------------- the folder


def test_what_is_put_is_got(cache):
    assert cache.get("a") is None
    cache.put("a", some(1))
    cache.put("b", some(2))
    assert_entry(cache.get("a"), some(1))
    assert_entry(cache.get("b"), some(2))
    cache.put("a", some(3))
    assert_entry(cache.get("a"), some(3))
    assert cache.get("c") is None
    assert len(entries(cache)) == 2
    strided = np.arange(24, dtype="<i4").reshape(4, 6)[::2, ::3]
    cache.put("s", Entry({"x": strided}))
    assert np.array_equal(cache.get("s").arrays["x"], strided)


def test_every_damage_is_noticed_and_removed(cache):
    cache.put("a", some(1, 50))
    (path,) = entries(cache)
    whole = path.read_bytes()
    rng = random.Random(5)
    damaged = [whole[:n] for n in range(0, len(whole), 7)]
    damaged += [whole + b"x", b"", b"x" * len(whole), bytes(len(whole))]
    for at in range(len(whole)):
        damaged.append(
            whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]
        )
    for data in damaged:
        path.write_bytes(data)
        assert cache.get("a") is None
        assert not path.exists()
    cache.put("a", some(1, 50))
    assert_entry(cache.get("a"), some(1, 50))


def test_an_entry_under_another_name_is_no_hit(cache):
    cache.put("a", some(1))
    (path,) = entries(cache)
    os.rename(path, cache._path("b"))
    assert cache.get("b") is None


def test_the_folder_stays_within_its_size_and_keeps_what_was_used_last(tmp_path):
    cache = FrameCache(tmp_path / "c", max_bytes=20_000)
    n_kept = []
    for k in range(60):
        cache.put(f"{k}", some(k))
        if k >= 3:
            assert_entry(cache.get("0"), some(0))  # in use all the time
        total = sum(path.stat().st_size for path in entries(cache))
        n_kept.append(len(entries(cache)))
        assert total <= 20_000
        time.sleep(0.002)
    assert min(n_kept[20:]) > 10
    assert cache.get("1") is None
    assert_entry(cache.get("59"), some(59))
    cache.put("big", some(1, 30_000))
    assert cache.get("big") is None
    assert_entry(cache.get("59"), some(59))


def test_what_other_writers_left_is_counted_too(tmp_path):
    one = FrameCache(tmp_path / "c", max_bytes=20_000)
    two = FrameCache(tmp_path / "c", max_bytes=20_000)
    for k in range(40):
        (one, two)[k % 2].put(f"{k}", some(k))
    total = sum(path.stat().st_size for path in entries(one))
    assert total <= 20_000 * 1.2


def test_parts_of_killed_writers_go_and_live_ones_stay(tmp_path):
    cache = FrameCache(tmp_path / "c", max_bytes=10_000)
    cache.put("a", some(1))
    old = Path(cache.folder) / "x.frames.1-2.part"
    new = Path(cache.folder) / "y.frames.3-4.part"
    other = Path(cache.folder) / "README"
    for path in (old, new, other):
        path.write_bytes(b"x" * 100)
    os.utime(old, (0, 0))
    os.utime(other, (0, 0))
    FrameCache(cache.folder, max_bytes=10_000).put("b", some(2))
    assert not old.exists()
    assert new.exists()
    assert other.exists()


def test_parts_go_though_the_clock_was_set_back(tmp_path):
    cache = FrameCache(tmp_path, max_bytes=100_000)
    for name, ahead_s in (("dead", 2 * 3600), ("live", 600)):
        path = tmp_path / f"{name}.frames.1-0.part"
        path.write_bytes(b"x")
        os.utime(path, (time.time() + ahead_s,) * 2)
    cache.put("a", some(1))
    assert {path.name for path in tmp_path.glob("*.part")} == {"live.frames.1-0.part"}


def test_a_folder_that_cannot_be_written_only_warns(clip, tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    cache = FrameCache(file)
    true = read_clip(clip("h264.mp4"), PhaseGrid(2))
    with pytest.warns(FallbackWarning, match="frames are not cached: "):
        got = read_clip(clip("h264.mp4"), PhaseGrid(2), cache=cache)
    assert_same(true, got)
    assert file.read_text() == "x"


def test_a_full_disk_leaves_nothing_behind(cache, monkeypatch):
    cache.put("a", some(1))

    def write(file, part):
        file.write(bytes(part)[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_module, "_write", write)
    with pytest.warns(FallbackWarning, match="No space left"):
        cache.put("b", some(2))
    assert len(entries(cache)) == 1
    assert_entry(cache.get("a"), some(1))


def test_several_processes_share_a_folder(tmp_path):
    folder = str(tmp_path / "c")
    code = "import sys, cache_hammer; sys.exit(not cache_hammer.main(sys.argv[1:]))"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    users = [
        subprocess.Popen([sys.executable, "-c", code, folder, str(seed)], env=env)
        for seed in range(3)
    ]
    assert [user.wait(timeout=300) for user in users] == [0, 0, 0]
    left = os.listdir(folder)
    assert not [name for name in left if name.endswith(".part")]
    total = sum(os.path.getsize(os.path.join(folder, name)) for name in left)
    assert total <= 30_000 * 1.25


def test_several_threads_share_a_cache(tmp_path):
    hits = []
    users = [
        threading.Thread(
            target=lambda s=seed: hits.append(hammer(str(tmp_path / "c"), s, 200))
        )
        for seed in range(4)
    ]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert len(hits) == 4


def test_content_is_hashed_once_and_again_when_it_changes(tmp_path, monkeypatch):
    path = tmp_path / "data"
    path.write_bytes(b"one" * 1000)
    n_hashed = []
    real = cache_module._hash

    def count(data):
        n_hashed.append(1)
        return real(data)

    monkeypatch.setattr(cache_module, "_hash", count)
    fresh = content_hash(path)
    assert content_hash(path) == fresh
    assert len(n_hashed) == 2  # too fresh to be trusted
    real_ns = time.time_ns
    monkeypatch.setattr(cache_module.time, "time_ns", lambda: real_ns() + 10**10)
    os.utime(path, ns=(0, 10**18))
    assert [content_hash(path) for _ in range(3)] == [fresh] * 3
    assert len(n_hashed) == 3
    time.sleep(0.05)  # the file system's clock is that coarse
    path.write_bytes(b"two" * 1000)
    os.utime(path, ns=(0, 10**18))  # as copying tools set times back
    assert content_hash(path) != fresh
    assert content_hash(bytearray(b"two" * 1000)) == content_hash(path)


@pytest.mark.parametrize("max_bytes", [0, -1, 1.5, "1"])
def test_options_are_checked(max_bytes, tmp_path):
    with pytest.raises(UsageError, match="max_bytes="):
        FrameCache(tmp_path, max_bytes=max_bytes)
    with pytest.raises(UsageError, match=r"cache is .., a str"):
        FrameCache("")
    assert "FrameCache(" in repr(FrameCache(tmp_path))


def test_a_large_file_is_hashed_once_for_all_processes(tmp_path, monkeypatch):
    """The hash is found again by what tells the file from itself after a change."""
    monkeypatch.setattr(cache_module, "_LARGE_BYTES", 1000)
    path, small = tmp_path / "data", tmp_path / "small"
    path.write_bytes(b"one" * 1000)
    small.write_bytes(b"one")
    cache = FrameCache(tmp_path / "cache")
    real_ns, read = time.time_ns, []
    real_hash = cache_module.content_hash

    def hashed(source):
        read.append(source)
        return real_hash(source)

    monkeypatch.setattr(cache_module, "content_hash", hashed)
    true = real_hash(bytearray(path.read_bytes()))
    assert [cache.content_hash(path) for _ in range(2)] == [true] * 2
    assert read == [path] * 2  # too fresh to be trusted
    monkeypatch.setattr(cache_module.time, "time_ns", lambda: real_ns() + 10**10)
    for n in (3, 3):
        cache_module._known.clear()  # as in another process
        assert cache.content_hash(path) == true
        assert len(read) == n
    cache_module._known.clear()
    cache.content_hash(small)
    assert read[3:] == [small]
    assert len(os.listdir(cache.folder)) == 1
    time.sleep(0.05)  # the file system's clock is that coarse
    path.write_bytes(b"two" * 1000)
    cache_module._known.clear()
    assert cache.content_hash(path) == real_hash(bytearray(b"two" * 1000))
    for damaged in (tmp_path / "cache").iterdir():
        damaged.write_bytes(b"no entry")
    cache_module._known.clear()
    assert cache.content_hash(path) == real_hash(bytearray(b"two" * 1000))
