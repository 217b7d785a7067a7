"""The comparison with a sequential decode: right, wrong, and what it costs."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import phasefusion.video as video_module
from phasefusion import frame_check
from phasefusion.errors import UsageError
from phasefusion.frame_check import check_frames
from phasefusion.video import Video

NAMES = [
    "h264.mp4",
    "h264_open.mp4",
    "h264_open_short.mkv",
    "h264_deep.mp4",
    "hevc_layers.mp4",
    "vp9.webm",
    "av1.mkv",
    "mpeg2.ts",
    "edit_list.mp4",
    "equal_times.mp4",
    "sizes.ts",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore::phasefusion.errors.FrameCountWarning")
def test_the_test_clips_are_right(name, clip):
    found = check_frames(clip(name), every=1)
    with Video(clip(name)) as video:
        assert found.n_compared == found.n_frames == len(video)
        assert (found.counted is None) == (video.info.counted is None)
    assert found.is_right
    assert found.first_difference is None
    assert found.n_unsound == 0
    assert found.to_dict()["right"] is True


@pytest.mark.parametrize("name", ["h264_open.mp4", "h264_open_short.mkv"])
def test_sound_frames_of_open_groups_need_no_second_decode(name, clip):
    """Not even one of them alone, whatever the decoder says about what it lacks."""
    with Video(clip(name)) as video:
        wanted = np.arange(len(video))
        true = video._reader.digest(wanted, 1, True)[0]
        for i in wanted:
            digest, state, damaged = video._reader.digest(wanted[i : i + 1], 1, False)
            assert (digest[0], state[0], damaged) == (true[i], 0, False), i


def test_digests_are_of_the_pixels(clip):
    """Twin of the C hash: equal for equal pixels, for any way to get them."""

    def digest(pixels):
        mask = 2**64 - 1

        def mix(state, word):
            state = (state ^ word) * 0x9E3779B97F4A7C15 & mask
            return state ^ state >> 29

        data = pixels.tobytes()
        state = mix(0x243F6A8885A308D3, len(data))
        for at in range(0, len(data), 8):
            state = mix(state, int.from_bytes(data[at : at + 8], "little"))
        state = (state ^ state >> 32) * 0xD6E8FEB86659FD93 & mask
        return state ^ state >> 32

    for name in ("three.mp4", "odd.webm"):
        with Video(clip(name)) as video:
            wanted = np.array([2, 0, 1, 2])
            digests, state, damaged = video._reader.digest(wanted, 2, False)
            assert digests.tolist() == [digest(f) for f in video.read(wanted)]
            assert not state.any()
            assert not damaged
            assert np.array_equal(video._reader.digest(wanted, 1, True)[0], digests)
            assert video._reader.digest(np.array([], np.int64), 1, True)[0].size == 0
            with pytest.raises(ValueError, match="out of range"):
                video._reader.digest(np.array([-1]), 1, False)


class Wrong:
    """A reader whose quick way takes the next frame for one of them."""

    def __init__(self, reader, at, threads, moved=False):
        self._reader, self._at, self._threads = reader, at, threads
        self._moved = moved

    def __getattr__(self, name):
        return getattr(self._reader, name)

    def digest(self, indices, threads, sequential):
        indices = indices.copy()
        if not sequential and threads == self._threads:
            indices[indices == self._at] += 1
        return self._reader.digest(indices, threads, sequential)

    def recount(self):
        return self._reader.recount() or self._moved


@pytest.fixture
def open_wrong(monkeypatch):
    real = video_module._open_reader

    def install(*args, **kwargs):
        def open_reader(*given):
            return Wrong(real(*given), *args, **kwargs)

        monkeypatch.setattr(video_module, "_open_reader", open_reader)

    return install


@pytest.mark.parametrize("threads", [1, 2])
def test_one_wrong_frame_is_found_and_named(threads, clip, open_wrong):
    open_wrong(37, threads)
    found = check_frames(clip("h264.mp4"), every=1)
    assert not found.is_right
    assert found.n_different == 1
    first = found.first_difference
    assert (first.frame, first.threads, first.other_frame) == (37, threads, 38)
    text = "\n".join(found.lines())
    assert text.startswith("WRONG: all frames, 60 of 60")
    assert f"frame 37, which with {threads} threads shows frame 38" in text
    assert check_frames(clip("h264.mp4"), every=10).is_right  # 37 was not compared


def test_a_count_that_finds_another_order_is_wrong(clip, monkeypatch):
    real = video_module._open_reader

    class Moving:
        def __init__(self, reader, other):
            self._reader, self._other = reader, other

        def __getattr__(self, name):
            return getattr(self._reader, name)

        def recount(self):
            self._reader = self._other
            return True

    def open_moving(path, stream, limits):
        other = real(clip("h264_no_b.mp4"), stream, limits)
        return Moving(real(path, stream, limits), other)

    monkeypatch.setattr(video_module, "_open_reader", open_moving)
    found = check_frames(clip("h264.mp4"), every=1)
    assert found.n_moved == 60
    assert not found.is_right
    assert "60 places of the packets' order hold other frames" in list(found.lines())


def test_memory_does_not_grow_with_the_frames(clip):
    """115 MB of frames are compared in a process that never holds a quarter of them."""
    code = (
        "import sys\n"
        "from phasefusion.frame_check import check_frames\n"
        "from phasefusion.video import Video\n"
        "Video(sys.argv[1]).read([0])\n"
        "def most_kib():\n"  # not ru_maxrss, which begins at the parent's
        "    text = open('/proc/self/status').read()\n"
        "    return int(text.split('VmHWM:')[1].split()[0])\n"
        "before = most_kib()\n"
        "assert check_frames(sys.argv[1], every=5).n_compared == 100\n"
        "print(most_kib() - before)\n"
    )
    command = [sys.executable, "-c", code, clip("long.mp4")]
    kib = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(kib) < 28 * 2**10


def test_damage_is_no_difference(clip, quiet_video, recwarn):
    found = check_frames(clip("corrupted.mp4"), every=1)
    assert found.is_right
    assert found.n_unsound > 0
    assert any("do not decode soundly" in line for line in found.lines())


def test_options_are_checked(clip):
    for every in (0, -1, 1.5, True):
        with pytest.raises(UsageError, match="every="):
            check_frames(clip("h264.mp4"), every=every)
    assert check_frames(clip("h264.mp4"), every=59).n_compared == 2
    assert check_frames(clip("one.mp4")).n_compared == 1
    assert frame_check.check_frames(clip("three.mp4").read_bytes()).path == "<bytes>"


def command(*words):
    code = "import sys; from phasefusion.cli import main; sys.argv[0] = 'p'; main()"
    made = [sys.executable, "-c", code, "frames", *map(str, words)]
    return subprocess.run(made, capture_output=True, text=True)


def test_the_command_exits_1_on_a_difference(clip, open_wrong, monkeypatch, capsys):
    from phasefusion import cli

    open_wrong(30, 2)
    words = ["p", "frames", str(clip("h264.mp4")), "--check"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 1
    assert "WRONG: all frames" in capsys.readouterr().out


def test_the_command_prints_the_verdict(clip):
    done = command(clip("h264.mp4"), "--check", "--every", "3")
    assert (done.returncode, done.stderr) == (0, "")
    first, *rest = done.stdout.splitlines()
    assert first.startswith("h264.mp4: right: every 3. frame, 20 of 60, ")
    assert rest == [
        "the order was found from the packets",
        "the header says 60 frames, which is right",
    ]
    done = command(clip("header_lies.avi"), "--check", "--json")
    found = json.loads(done.stdout)
    assert (found["n_frames"], found["n_frames_header"]) == (60, 777)
    assert found["right"]
    assert found["counted"]
    assert "the header says 777 frames" in done.stderr
    done = command(clip("text.mp4"), "--check")
    assert done.returncode == 2
    done = command(clip("h264.mp4"), "--every", "3")
    assert done.returncode == 2
    assert "--every goes with --check" in done.stderr
    assert command(clip("h264.mp4"), "--check", "--every", "0").returncode == 2
