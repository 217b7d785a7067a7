"""Frame i is frame i: every clip, every kind of request, against the ffmpeg program."""

from __future__ import annotations

import barcode
import make
import numpy as np
import pytest

from phasefusion.errors import DamagedFrameWarning, VideoError

BAD = {"empty.mp4", "text.mp4", "sound.mp4", "headless.mp4"}
DAMAGED = {"corrupted.mp4", "corrupted.mkv"}
GOOD = [name for name in make.CLIPS if name not in BAD]
TURNED = [name for name in make.CLIPS if name.startswith("turned")]

# True numbers where they follow from how the clip was made.
NUMBERS = {
    "edit_list.mp4": range(27, 60),
    "vfr.mp4": [*range(20), *range(35, 70), *range(85, 100)],
    "one.mp4": range(1),
    "three.mp4": range(3),
    "h264_deep.mp4": range(17),
    "sizes.ts": range(60),
    "vp9_sizes.ivf": range(30),
    "cut.ts": range(20, 60),
}
for _name in ("h264.mp4", "h264_open.mp4", "hevc_open.mkv", "hevc_layers.mp4"):
    NUMBERS[_name] = range(60)
for _name in ("asp.avi", "asp.mp4", "mpeg2.mpg", "mpeg2.ts", "live.webm", "h264.h264"):
    NUMBERS[_name] = range(60)
for _name in (
    "equal_times.mp4",
    "coarse_times.mkv",
    "header_lies.avi",
    "two_streams.mp4",
):
    NUMBERS[_name] = range(60)


def read_all(video, sequential=False, threads=1):
    """Every frame, the decoder's state of each, and whether it met an error."""
    n, info = len(video), video.info
    frames = np.empty((n, info.height, info.width, 3), np.uint8)
    indices = np.arange(n, dtype=np.int64)
    state, damaged = video._reader.read(indices, (frames,), threads, sequential)
    return frames, state, damaged


def upright(frame, info):
    if info.mirrored:
        frame = frame[:, ::-1]
    return np.rot90(frame, info.rotation // 90)


@pytest.mark.parametrize("name", GOOD)
def test_numbers_are_those_of_a_plain_decode(name, clip, quiet_video, ffmpeg_frames):
    path = clip(name)
    with quiet_video(path) as video:
        info = video.info
        frames, state, damaged = read_all(video)
        true = ffmpeg_frames(path, info, "gray").reshape(-1, info.height, info.width)
        assert len(video) == len(true)
        got = [barcode.read(upright(frame, info)) for frame in frames]
        want = [barcode.read(upright(frame, info)) for frame in true]
        assert got == want
        assert damaged == (name in DAMAGED or name == "truncated.mp4")
        assert (state == 0).all() or name in DAMAGED
        if name not in DAMAGED:
            assert None not in got


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_those_that_were_drawn(name, clip, quiet_video):
    with quiet_video(clip(name)) as video:
        frames = video.read(range(len(video)))
        got = [barcode.read(upright(frame, video.info)) for frame in frames]
        assert got == list(NUMBERS[name])


@pytest.mark.parametrize("name", GOOD)
def test_any_request_gives_the_pixels_of_a_sequential_decode(name, clip, quiet_video):
    rng = np.random.default_rng(3)
    with quiet_video(clip(name)) as video:
        true, true_state, damaged = read_all(video, sequential=True)
        n, info = len(video), video.info
        requests = [rng.integers(0, n, rng.integers(1, 6)) for _ in range(6)]
        requests += [
            np.arange(n)[::-1],
            np.arange(0, n, 2),
            np.array([n - 1, n - 1, 0]),
        ]
        requests += [np.sort(rng.permutation(n)[: n // 3 + 1])]
        for indices in requests:
            for threads in (1, 4):
                frames = np.empty((len(indices), info.height, info.width, 3), np.uint8)
                wanted = np.ascontiguousarray(indices)
                state, again = video._reader.read(wanted, (frames,), threads, False)
                assert np.array_equal(frames, true[indices])
                assert not again or damaged  # sound streams are decoded once
                assert ((state != 0) <= (true_state[indices] != 0)).all()


@pytest.mark.parametrize("name", TURNED)
def test_orientation_is_that_of_the_ffmpeg_program(
    name, clip, quiet_video, ffmpeg_frames
):
    path = clip(name)
    with quiet_video(path) as video:
        info = video.info
        degrees = int(name.removesuffix(".mp4").split("_")[1])
        assert info.rotation % 180 == degrees % 180
        assert (info.width, info.height) == ((160, 96), (96, 160))[degrees // 90 % 2]
        frame = video.read([7])[0]
        true = ffmpeg_frames(path, info, "rgb24").reshape(-1, *frame.shape)[7]
        assert np.abs(frame.astype(int) - true).max() <= 4
        assert barcode.read(upright(frame, info)) == 7


@pytest.mark.parametrize(
    "name", ["h264_open.mp4", "hevc_open.mkv", "mpeg2.ts", "av1.mkv"]
)
def test_a_file_beyond_the_cache_gives_the_same_frames(name, clip, quiet_video):
    wanted = [3, 40, 12, 13, 59, 0, 25]
    with (
        quiet_video(clip(name)) as held,
        quiet_video(clip(name), cache_bytes=1) as read,
    ):
        assert len(held) == len(read)
        assert np.array_equal(held.read(wanted), read.read(wanted))
        assert np.array_equal(held.read(wanted[::-1]), read.read(wanted[::-1]))


def test_a_change_of_size_is_scaled_to_the_first(clip, quiet_video):
    with quiet_video(clip("sizes.ts")) as video:
        assert video.info.size_changes
        assert video.read([59]).shape == (1, 96, 160, 3)


def test_streams_are_chosen_by_size_or_by_index(clip, quiet_video):
    path = clip("two_streams.mp4")
    with quiet_video(path) as best, quiet_video(path, stream=0) as first:
        assert best.info.stream_index == 1
        assert (best.info.width, first.info.width) == (160, 96)
        assert barcode.read(best.read([5])[0]) == 5
        assert barcode.read(first.read([5])[0]) == 1005
        assert [s.codec for s in best.info.streams] == ["h264", "h264"]


def test_a_cover_picture_is_never_the_video(clip, quiet_video):
    with quiet_video(clip("cover.mp4")) as video:
        assert video.info.codec == "h264"
        kinds = [(s.kind, s.is_picture) for s in video.info.streams]
        assert ("video", True) in kinds
        cover = kinds.index(("video", True))
    with pytest.raises(VideoError, match="no video stream of that index"):
        quiet_video(clip("cover.mp4"), stream=cover)


@pytest.mark.parametrize("name", sorted(DAMAGED))
def test_damage_raises_or_is_marked(name, clip, quiet_video):
    with quiet_video(clip(name)) as video:
        frames, state, _ = read_all(video)
        bad = np.flatnonzero(state)
        good = np.flatnonzero(state == 0)
        assert len(bad) >= 4
        assert len(good) >= 10
        assert np.array_equal(video.read(good[:20]), frames[good[:20]])
        with pytest.raises(VideoError, match=rf"frames \[{bad[0]}\]") as caught:
            video.read([0, int(bad[0])])
        assert str(clip(name)) in str(caught.value)
        with pytest.warns(DamagedFrameWarning, match=rf"frames \[{bad[0]}\]"):
            marked = video.read([int(bad[0])], on_error="mark")
        assert np.array_equal(marked[0], frames[bad[0]])
        # What is called sound shows its own number, in rising order.
        numbers = [barcode.read(frame) for frame in frames[good]]
        assert None not in numbers
        assert numbers == sorted(set(numbers))
