"""What cannot be read says so: the type of the error, the file, the reason."""

from __future__ import annotations

import builtins
import dataclasses
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from phasefusion import PhaseGrid, _video_checks
from phasefusion.errors import (
    BackendUnavailableError,
    FrameCountWarning,
    GridError,
    UsageError,
    VideoError,
)
from phasefusion.video import Video, read_clip, read_clips


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("empty.mp4", "the file is empty"),
        ("text.mp4", "not a video file that FFmpeg can read"),
        ("sound.mp4", "it has no video stream"),
        ("headless.mp4", r"that FFmpeg can read \(FFmpeg: moov atom not found\)"),
    ],
)
def test_what_is_no_video_is_refused_by_name_and_reason(name, reason, clip):
    path = clip(name)
    with pytest.raises(VideoError, match=f"{re.escape(str(path))}: .*{reason}"):
        Video(path)
    with pytest.raises(VideoError, match=reason):
        read_clip(path, PhaseGrid(8))


def test_a_missing_file_is_file_not_found(tmp_path):
    path = tmp_path / "nothing.mp4"
    with pytest.raises(FileNotFoundError) as caught:
        Video(path)
    assert caught.value.filename == path
    with pytest.raises(FileNotFoundError):
        read_clip(str(path), PhaseGrid(8))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_file_is_a_permission_error(tmp_path):
    path = tmp_path / "secret.mp4"
    path.write_bytes(b"x")
    path.chmod(0)
    with pytest.raises(PermissionError):
        Video(path)


def test_directories_and_pipes_are_refused(tmp_path):
    with pytest.raises(VideoError, match="it is a directory"):
        Video(tmp_path)
    pipe = tmp_path / "pipe.mp4"
    os.mkfifo(pipe)
    with pytest.raises(VideoError, match="not a regular file"):
        Video(pipe)


def test_a_playlist_cannot_open_other_files(clip, tmp_path):
    inner = clip("h264.ts")
    for name, text in [
        ("list.m3u8", f"#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\n{inner}\n"),
        ("list.txt", f"ffconcat version 1.0\nfile '{inner}'\n"),
    ]:
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(VideoError, match=re.escape(str(path))):
            Video(path)


def test_addresses_are_file_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for address in ("http://127.0.0.1:9/a.mp4", "concat:a.mp4|b.mp4", "pipe:0"):
        with pytest.raises(FileNotFoundError):
            Video(address)


def test_paths_may_be_unusual(clip, tmp_path):
    for name in ("a b:c%d'é.mp4", "file:x.mp4"):
        path = tmp_path / name
        path.write_bytes(clip("three.mp4").read_bytes())
        with Video(path) as one, Video(str(path)) as two:
            assert len(one) == len(two) == 3
            assert one.info.path == two.info.path == str(path)


@pytest.mark.parametrize("index", [-1, 60, 10**12, -(2**62)])
def test_an_index_out_of_range_is_named_with_n(index, clip):
    with Video(clip("h264.mp4")) as video:
        with pytest.raises(IndexError, match=rf"frame {index} is out of .* 60 frames"):
            video.read([0, index])
        assert video.read([]).shape == (0, 96, 160, 3)


@pytest.mark.parametrize("indices", [[0.5], [[0, 1]], ["a"], 3, [None], [True]])
def test_what_is_no_list_of_integers_is_refused(indices, clip):
    with Video(clip("h264.mp4")) as video, pytest.raises(UsageError, match="indices"):
        video.read(indices)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"threads": 0}, "threads=0"),
        ({"threads": 65}, "threads=65"),
        ({"threads": 1.5}, r"threads=1\.5"),
        ({"stream": -1}, "stream=-1"),
        ({"stream": "worst"}, "stream='worst'"),
        ({"stream": True}, "stream=True"),
        ({"stream": 7}, "no video stream of that index"),
        ({"max_frames": 59}, "more packets than max_frames"),
        ({"max_pixels": 160 * 96 - 1}, "more pixels than max_pixels"),
        ({"cache_bytes": 0}, "cache_bytes=0"),
    ],
)
def test_options_out_of_range_are_refused(option, message, clip):
    with pytest.raises((UsageError, VideoError), match=message):
        Video(clip("h264.mp4"), **option)


def test_limits_are_inclusive(clip):
    with Video(clip("h264.mp4"), max_frames=60, max_pixels=160 * 96) as video:
        assert len(video) == 60


def test_on_error_is_checked_first(clip):
    with Video(clip("h264.mp4")) as video:
        with pytest.raises(UsageError, match="on_error='skip'"):
            video.read([0], on_error="skip")
        with pytest.raises(UsageError, match="on_error='skip'"):
            read_clip(clip("h264.mp4"), PhaseGrid(8), on_error="skip")


def test_no_grids_and_grids_that_refuse(clip):
    with pytest.raises(UsageError, match="grids is empty"):
        read_clips(clip("h264.mp4"), [])
    with pytest.raises(GridError):
        read_clip(clip("three.mp4"), PhaseGrid(8, short="error"))


def test_a_closed_video_says_so(clip):
    video = Video(clip("h264.mp4"))
    with video:
        pass
    with pytest.raises(VideoError, match="closed"):
        video.read([0])


def test_a_file_that_changes_is_noticed(clip, tmp_path):
    path = tmp_path / "changing.mkv"
    path.write_bytes(clip("h264.mkv").read_bytes())
    with Video(path, cache_bytes=1) as video:
        path.write_bytes(path.read_bytes()[:5000])
        with pytest.raises(VideoError, match="changed since it was opened"):
            video.read([59])


def test_without_ffmpeg_the_remedy_is_named(monkeypatch):
    real = builtins.__import__

    def refuse(name, globals=None, locals=None, fromlist=(), level=0):
        if "_video" in (fromlist or ()):
            raise ImportError("libavformat.so.59: cannot open shared object file")
        return real(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(
        BackendUnavailableError, match="apt-get install pkg-config libavformat-dev"
    ):
        Video("any.mp4")


def test_nothing_is_printed(clip):
    code = (
        "import sys, warnings; warnings.simplefilter('ignore')\n"
        "from phasefusion.video import Video\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n"
        "        video = Video(path)\n"
        "        video.read(range(len(video)), on_error='mark')\n"
        "    except Exception:\n"
        "        pass\n"
    )
    names = ["corrupted.mp4", "corrupted.mkv", "truncated.mp4", "text.mp4", "cut.ts"]
    command = [sys.executable, "-c", code, *(str(clip(name)) for name in names)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.filterwarnings("ignore")
def test_random_bytes_and_random_damage_are_survived(clip, tmp_path):
    rng = np.random.default_rng(11)
    path = tmp_path / "noise.bin"
    sources = ["h264.mp4", "h264.ts", "vp9.webm", "asp.avi", "hevc.mp4", "av1.mkv"]
    n_opened = 0
    messages = []
    for k in range(60):
        data = bytearray(clip(sources[k % len(sources)]).read_bytes())
        if k % 10 == 9:
            data = bytearray(rng.bytes(4000))
        for at in rng.integers(0, len(data), 40):
            data[at] = rng.integers(0, 256)
        path.write_bytes(data[: rng.integers(len(data) // 2, len(data) + 1)])
        try:
            with Video(path) as video:
                n = min(len(video), 60)
                n_opened += len(video.read(np.arange(n), on_error="mark")) == n
        except VideoError as error:
            messages.append(str(error))
    assert all(text.startswith(f"{path}: ") for text in messages)
    assert n_opened >= 10
    assert n_opened + len(messages) == 60


def test_the_limit_on_pixels_holds_for_pictures_that_grow_later(clip):
    path = clip("sizes.ts")
    with Video(path) as video:
        assert video.info.size_changes
        first_px = video.info.width * video.info.height
    with pytest.raises(VideoError, match="more pixels than max_pixels"):
        Video(path, max_pixels=first_px)


@pytest.mark.parametrize("name", ["h264.mkv", "vp9.webm"])
def test_a_hole_in_the_middle_is_told(name, clip, tmp_path):
    data = clip(name).read_bytes()
    path = tmp_path / name
    path.write_bytes(data[: len(data) * 3 // 10] + data[len(data) * 55 // 100 :])
    with pytest.warns(FrameCountWarning, match="it is damaged: .* others may be lost"):
        video = Video(path)
    assert video.info.damaged
    assert video.info.counted == "the container is damaged"
    assert len(video) < 60


def test_times_that_last_much_longer_than_the_header_says_are_told(clip):
    info = Video(clip("h264.mkv")).info
    wrong = dataclasses.replace(info, duration_s=1e5, end_pts=10**8)
    assert _video_checks.cut_short(info) == ""
    assert "timestamps seem to be damaged" in _video_checks.cut_short(wrong)


@pytest.mark.parametrize("grids", [8, None, [8], [None], "8"])
def test_what_is_no_grid_is_refused(grids, clip):
    with pytest.raises(UsageError, match="PhaseGrid"):
        read_clips(clip("h264.mp4"), grids)


def test_grids_may_come_one_by_one(clip):
    path = clip("h264.mp4")
    clips = read_clips(path, (PhaseGrid(n) for n in (3, 5)))
    assert [len(c.indices[0]) for c in clips] == [3, 5]
