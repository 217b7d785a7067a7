"""Motion vectors of the codecs that have them, against known motion and twins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import make
import numpy as np
import oracle_anchors as oracle
import pytest
from numpy.typing import NDArray

from phasefusion import _video
from phasefusion.video import Video

STEP_PX = (3, 1)  # right and down a frame
LENGTH_PX = float(np.hypot(*STEP_PX))
ENCODERS = {
    "ahead.mp4": make.x264("keyint=48:bframes=0"),
    "pyramid.mp4": make.x264("keyint=24:bframes=3:b-pyramid=normal"),
    "both.mp4": make.x264("keyint=24:bframes=2:b-pyramid=none"),
    "open.mkv": make.x264("keyint=12:min-keyint=12:bframes=3:open-gop=1"),
    "part2.avi": [*make.MPEG4, "-bf", "2"],
    "part2.mp4": make.MPEG4,
    "two.mpg": make.MPEG2,
    "flash.flv": ["-c:v", "flv1", "-q:v", "4"],
}


def smooth_noise() -> NDArray[np.uint8]:
    noise = np.random.default_rng(0).uniform(0, 255, (200, 400, 3))
    for axis in (0, 1):
        for _ in range(3):
            noise = sum(np.roll(noise, k, axis) for k in range(-3, 4)) / 7
    low, high = noise.min(), noise.max()
    return ((noise - low) / (high - low) * 255).astype(np.uint8)


def shifting(n: int, height: int = 96, width: int = 160) -> NDArray[np.uint8]:
    """A view that moves over one picture at an even pace."""
    picture = smooth_noise()
    dx, dy = STEP_PX
    return np.stack(
        [picture[dy * i : dy * i + height, dx * i : dx * i + width] for i in range(n)]
    )


def measure(path: Path, threads: int = 1) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    with Video(path) as video:
        sums, facts, state, damaged = video._reader.motion(
            np.arange(len(video)), threads
        )
        area = video.info.width * video.info.height
    assert not damaged
    assert not state.any()
    return sums, facts, *_video.motion_energy(sums, facts, area)


@pytest.fixture
def moving(tmp_path: Path) -> Callable[[str], Path]:
    def build(name: str) -> Path:
        path = tmp_path / name
        try:
            make.encode(path, shifting(48), ENCODERS[name])
        except make.MissingEncoder as missing:
            pytest.skip(f"this ffmpeg has no {missing}")
        return path

    return build


@pytest.mark.parametrize("name", ENCODERS)
def test_an_even_pace_is_found_whatever_pictures_refer_to(name, moving):
    _sums, facts, energy, measured = measure(moving(name))
    assert measured.sum() >= (14 if name == "part2.avi" else 40)
    found = energy[measured]
    assert np.median(found) == pytest.approx(LENGTH_PX, rel=0.03)
    assert np.percentile(found, 10) > 0.8 * LENGTH_PX
    assert found.max() < 1.2 * LENGTH_PX
    assert not energy[~measured].any()
    # Pictures that are predicted from nothing have no vectors.
    assert not facts[facts[:, 4] == 1, 2].any()
    assert facts[0, 4] == 1


def test_the_energy_is_that_of_the_twin(moving):
    rng = np.random.default_rng(3)
    sums, facts, _energy, _measured = measure(moving("pyramid.mp4"))
    for area in (1, 160 * 96, 10**9):
        ours = _video.motion_energy(sums, facts, area)
        twin = oracle.motion_energy(sums, facts, area)
        np.testing.assert_allclose(ours[0], twin[0], rtol=1e-12)
        np.testing.assert_array_equal(ours[1], twin[1])
    for n in (0, 1, 2, 37, 101):
        sums = rng.uniform(0, 1e6, (n, 2))
        facts = rng.integers(0, 99, (n, 6))
        facts[:, 5] = rng.random(n) < 0.1
        ours = _video.motion_energy(sums, facts, 1000)
        twin = oracle.motion_energy(sums, facts, 1000)
        np.testing.assert_allclose(ours[0], twin[0], rtol=1e-12)
        np.testing.assert_array_equal(ours[1], twin[1])


@pytest.mark.parametrize("name", ["h264_open.mp4", "mpeg2.mpg", "h264_deep.mp4"])
def test_threads_and_repeats_change_nothing(name, clip):
    with Video(clip(name)) as video:
        every = np.arange(len(video))
        one = video._reader.motion(every, 1)
        three = video._reader.motion(every, 3)
        some = np.array([7, 3, 3, len(video) - 1])
        few = video._reader.motion(some, 2)
    for a, b, c in zip(one[:3], three[:3], few[:3], strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a[some], c)


@pytest.mark.parametrize(
    "name", ["hevc.mp4", "vp8.webm", "vp9.webm", "av1.mp4", "animation.gif"]
)
def test_decoders_without_vectors_give_none(name, clip):
    _sums, facts, energy, measured = measure(clip(name))
    assert not measured.any()
    assert not energy.any()
    assert (facts[:, 4] >= 2).any()  # pictures that are predicted, all the same


@pytest.mark.parametrize(
    "name", ["mjpeg.avi", "prores.mov", "grey.mkv", "h264_intra.mp4", "one.mp4"]
)
def test_pictures_predicted_from_nothing_have_none(name, clip):
    sums, facts, _energy, measured = measure(clip(name))
    assert not measured.any()
    assert not (facts[:, 4] >= 2).any()
    assert not sums.any()


@pytest.mark.filterwarnings("ignore:.*an edit list cuts")
def test_vectors_across_an_edit_are_left_out(clip):
    """Cut pictures are no frames, so the distance to them is not known."""
    *_, energy, measured = measure(clip("edit_list.mp4"))
    assert energy.max() < 4.0
    assert measured.sum() >= len(energy) - 3


def test_a_change_of_resolution(clip):
    *_, energy, measured = measure(clip("sizes.ts"))
    assert measured[1:].sum() >= 50
    assert np.isfinite(energy).all()


def test_damage_is_said_and_frames_that_are_not_there_have_no_motion(clip, quiet_video):
    with quiet_video(clip("corrupted.mkv")) as video:
        every = np.arange(len(video))
        sums, facts, state, damaged = video._reader.motion(every, 1)
        _, read_state = video._reader.histograms(every, 1)[:2]
    assert damaged
    assert state.any()
    np.testing.assert_array_equal(state == 2, read_state == 2)
    assert not facts[state == 2].any()
    assert not sums[state == 2].any()


def test_vectors_are_those_of_another_reader(moving):
    av = pytest.importorskip("av")
    for name in ("pyramid.mp4", "two.mpg", "flash.flv"):
        path = moving(name)
        sums, facts, _, _ = measure(path)
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            stream.codec_context.flags2 |= av.codec.context.Flags2.export_mvs
            theirs = [
                frame.side_data.get("MOTION_VECTORS")
                for frame in container.decode(stream)
            ]
            for k, side in enumerate(theirs):
                rows = [] if side is None else side.to_ndarray()
                names = ("source", "w", "h", "motion_x", "motion_y", "motion_scale")
                px3, px2, n = oracle.motion_sums(
                    [tuple(int(row[x]) for x in names) for row in rows]
                )
                assert facts[k, 2] == n
                assert facts[k, :2].tolist() == px2
                np.testing.assert_allclose(sums[k], px3, rtol=1e-12)
        assert len(theirs) == len(sums)


def test_histograms_are_those_of_the_frames(clip):
    for name in ("h264.mp4", "grey.mkv", "sizes.ts", "still.png", "turned_90.mp4"):
        with Video(clip(name)) as video:
            some = np.arange(0, len(video), 7)[::-1].copy()
            frames = video.read(some)
            counts, state, _damaged = video._reader.histograms(some, 2)
        assert not state.any()
        flat = frames.reshape(len(some), -1, 3)
        np.testing.assert_array_equal(counts, oracle.histograms(flat))


@pytest.mark.parametrize(
    ("sums", "facts", "area", "message"),
    [
        (np.zeros((2, 2)), np.zeros((3, 6), np.int64), 9, r"\(n, 2\) and facts"),
        (np.zeros((2, 3)), np.zeros((2, 6), np.int64), 9, r"\(n, 2\) and facts"),
        (np.zeros((2, 2)), np.zeros((2, 6), np.int64), 0, "picture_px2"),
        (np.full((2, 2), np.nan), np.zeros((2, 6), np.int64), 9, "NaN"),
    ],
)
def test_what_is_no_motion_is_refused(sums, facts, area, message):
    with pytest.raises(ValueError, match=message):
        _video.motion_energy(sums, facts, area)
