"""The comparison with a sequential decode: right, wrong, and what it costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import phasefusion.video as video_module
from phasefusion import frame_check
from phasefusion.errors import UsageError
from phasefusion.frame_check import FrameCheck, check_frames
from phasefusion.grid import PhaseGrid
from phasefusion.video import Video, read_clip

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
    assert found.n_differ == 1
    first = found.first_difference
    assert (first.frame, first.threads, first.other_frame) == (37, threads, 38)
    text = "\n".join(found.lines())
    assert text.startswith(
        "WRONG: 1 of 60 frames differs from a sequential decode; compared: all 60"
    )
    with_threads = "1 thread" if threads == 1 else "2 threads"
    assert f"frame 37, which with {with_threads} shows frame 38" in text
    assert check_frames(clip("h264.mp4"), every=10).is_right  # 37 was not compared


@pytest.fixture
def open_counted_as(clip, monkeypatch):
    """Readers that a count turns into those of another clip, without any damage."""
    real = video_module._open_reader

    class Moving:
        def __init__(self, reader, other):
            self._reader, self._other = reader, other

        def __getattr__(self, name):
            return getattr(self._reader, name)

        def recount(self):
            self._reader = self._other
            return True

    def install(name):
        def open_moving(path, stream, limits):
            other = real(clip(name), stream, limits)
            return Moving(real(path, stream, limits), other)

        monkeypatch.setattr(video_module, "_open_reader", open_moving)

    return install


def test_a_count_that_finds_another_order_is_wrong(clip, open_counted_as):
    open_counted_as("h264_no_b.mp4")
    found = check_frames(clip("h264.mp4"), every=1)
    assert found.n_moved == 60
    assert not found.is_right
    assert found.n_differ == 60
    lines = list(found.lines())
    assert lines[0].startswith("WRONG: 60 of 60 frames differ from a sequential decode")
    assert "60 frames moved by the packets' order" in lines


@pytest.mark.parametrize(("other", "n_decode"), [("mjpeg.avi", 30), ("long.mp4", 500)])
def test_a_count_that_finds_another_number_is_wrong(
    other, n_decode, clip, open_counted_as
):
    open_counted_as(other)
    found = check_frames(clip("h264.mp4"), every=1)
    assert not found.is_right
    assert (found.n_frames_packets, found.n_frames) == (60, n_decode)
    assert found.n_differ == 60
    text = "\n".join(found.lines())
    assert f"the packets promise 60 frames, {n_decode} decode" in text


@pytest.mark.skipif(
    "PHASEFUSION_UNDER_ASAN" in os.environ, reason="ASan keeps freed memory back"
)
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
    n, m = found.n_unsound, found.n_frames
    assert next(found.lines()).startswith(
        f"right, but {n} of {m} frames are damaged: no frame differs from a sequential "
        f"decode; compared: all {m} frames, read with 1 and 2 threads"
    )


@pytest.fixture(scope="module")
def holed(clip, tmp_path_factory):
    """30 JPEGs of which the 8th and the 21st hold nothing to decode."""
    data = bytearray(clip("mjpeg.avi").read_bytes())
    at = data.index(b"movi")
    for number in range(30):
        at = data.index(b"00dc", at) + 8
        n_bytes = int.from_bytes(data[at - 4 : at], "little")
        if number in (7, 20):
            data[at : at + n_bytes] = bytes(n_bytes)
        at += n_bytes
    path = tmp_path_factory.mktemp("holed") / "holed.avi"
    path.write_bytes(data)
    return path


@pytest.mark.filterwarnings("ignore::phasefusion.errors.FrameCountWarning")
@pytest.mark.parametrize("every", [None, 1, 4])
def test_damage_that_moves_frames_is_counted_as_read_clip_does(every, holed, clip):
    found = check_frames(holed, every=every)
    grid_clip = read_clip(holed, PhaseGrid(28))
    kept = np.delete(np.arange(30), (7, 20))
    with Video(clip("mjpeg.avi")) as video:
        assert np.array_equal(grid_clip.frames[0], video.read(kept))
    assert found.is_right
    assert found.n_frames == grid_clip.info.n_frames == 28
    assert found.n_frames_packets == found.n_frames_header == 30
    assert found.n_compared == len(range(0, 28, every or 1))
    assert (found.n_moved, found.n_unsound) == (0, 0)
    lines = list(found.lines())
    assert lines[0].startswith("right: no frame differs")
    assert "the header says 30 frames, 28 decode" in lines
    assert any("by decoding everything: damage" in line for line in lines)


def test_damage_that_is_not_met_is_told(holed):
    """Frames between the damaged ones come by the packets' order, also in a clip."""
    found = check_frames(holed, every=3)
    grid_clip = read_clip(holed, PhaseGrid(10, origin="left"))
    assert grid_clip.indices[0].tolist() == list(range(0, 30, 3))
    assert grid_clip.info.n_frames == found.n_frames_packets == 30
    assert (found.n_compared, found.n_differ, found.n_moved) == (10, 7, 7)
    lines = list(found.lines())
    assert lines[0].startswith("WRONG: 7 of 10 frames differ")
    assert "every 3rd frame, 10 of 30" in lines[0]
    assert "the header says 30 frames, 28 decode" in lines
    assert any(line.endswith("the damage divides 30") for line in lines)


@pytest.mark.filterwarnings("ignore::phasefusion.errors.FrameCountWarning")
def test_a_difference_after_damage_moved_frames_is_found(holed, open_wrong):
    open_wrong(11, 1)
    found = check_frames(holed)
    assert (found.n_differ, found.n_compared) == (1, 28)
    assert found.first_difference.frame == 11


def made(**facts):
    plain = {"path": "x", "n_frames": 60, "n_frames_packets": 60, "counted": None}
    plain |= {"n_frames_header": None, "n_moved": 0, "every": 1, "n_compared": 60}
    plain |= {"threads": (1, 2), "n_differ": 0, "first_difference": None}
    return FrameCheck(**(plain | {"n_unsound": 0} | facts))


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({"n_differ": 9}, "WRONG: 9 of 60 frames differ from"),
        ({"n_compared": 1, "n_differ": 1}, "WRONG: 1 of 1 frame differs from"),
        ({"n_unsound": 1}, "right, but 1 of 60 frames is damaged: no frame differs"),
        ({"n_unsound": 2}, "right, but 2 of 60 frames are damaged: no frame differs"),
        ({"n_frames": 61}, "WRONG: the number of frames differs from"),
        ({"every": 2, "n_compared": 30}, "compared: every 2nd frame, 30 of 60, read"),
        ({"every": 11}, "every 11th frame"),
        ({"every": 13}, "every 13th frame"),
        ({"every": 21}, "every 21st frame"),
        ({"every": 33}, "every 33rd frame"),
        ({"every": 62}, "every 62nd frame"),
        ({"every": 112}, "every 112th frame"),
        ({"n_compared": 1, "every": 99}, "compared: the first frame of 60, read"),
        ({"n_frames_header": 1}, "the header says 1 frame, 60 decode"),
        ({"n_frames_header": 60}, "the header says 60 frames, which is right"),
        ({"n_moved": 1}, "1 frame moved"),
        ({"n_differ": 3, "n_unsound": 1}, "1 of 60 frames is damaged"),
    ],
)
def test_sentences(facts, line):
    found = made(**facts)
    text = "\n".join(found.lines())
    assert line in text
    assert found.is_right == text.startswith("right")


def test_how_many_are_compared_by_default():
    for n, step in [(1, 1), (239, 1), (240, 1), (241, 2), (480, 2), (481, 3)]:
        wanted = frame_check._wanted(n, None)
        assert wanted.tolist() == list(range(0, n, step))
        assert len(wanted) <= 240


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
    assert "WRONG: 1 of 60 frames differs" in capsys.readouterr().out


def test_the_command_prints_the_verdict(clip):
    done = command(clip("h264.mp4"), "--check", "--every", "3")
    assert (done.returncode, done.stderr) == (0, "")
    first, *rest = done.stdout.splitlines()
    assert first == (
        "h264.mp4: right: no frame differs from a sequential decode; compared: every "
        "3rd frame, 20 of 60, read with 1 and 2 threads"
    )
    assert rest == [
        "the order was found from the packets",
        "the header says 60 frames, which is right",
    ]
    done = command(clip("header_lies.avi"), "--check", "--json")
    found = json.loads(done.stdout)
    assert (found["n_frames"], found["n_frames_header"]) == (60, 777)
    assert found["right"]
    assert found["counted"]
    assert (found["n_differ"], found["n_unsound"]) == (0, 0)
    assert "the header says 777 frames" in done.stderr
    done = command(clip("text.mp4"), "--check")
    assert done.returncode == 2
    done = command(clip("h264.mp4"), "--every", "3")
    assert done.returncode == 2
    assert "--every goes with --check" in done.stderr
    assert command(clip("h264.mp4"), "--check", "--every", "0").returncode == 2


@pytest.mark.parametrize(
    "words",
    [
        ["--budget", "8"],
        ["-b", "4"],
        ["--phases", "3"],
        ["--origin", "left"],
        ["--by", "time"],
        ["--out", "x.png"],
        ["--width", "160"],
    ],
)
def test_options_of_the_grid_do_not_go_with_check(words, clip):
    done = command(clip("three.mp4"), "--check", *words)
    assert (done.returncode, done.stdout) == (2, "")
    name = "--budget" if words[0] == "-b" else words[0]
    assert f"{name} does not go with --check" in done.stderr


def test_json_names_the_file_as_given(clip, monkeypatch, tmp_path):
    monkeypatch.chdir(clip("three.mp4").parent)
    plain = command("three.mp4", "--json", "-b", "1", "-o", tmp_path / "sheet")
    checked = command("three.mp4", "--check", "--json")
    assert json.loads(plain.stdout)["path"] == "three.mp4"
    assert json.loads(checked.stdout)["path"] == "three.mp4"


def test_how_far_it_is_can_be_followed(clip):
    said = []
    check_frames(clip("h264.mp4"), progress=lambda *step: said.append(step))
    assert [done for done, _, _ in said] == list(range(1, 10))
    assert {total for _, total, _ in said} == {9}
    labels = [label for _, _, label in said]
    assert labels == [
        *["read with 1 thread"] * 4,
        *["read with 2 threads"] * 4,
        "decoded from the start",
    ]
