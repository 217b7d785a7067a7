"""Times of frames as models are told them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import family_models as made
import numpy as np
import pytest

from phasefusion.errors import ScoringError
from phasefusion.grid import PhaseGrid
from phasefusion.scoring.families.smolvlm import in_words
from phasefusion.scoring.times import FrameTimes, frame_times


def about(clip, **changes):
    info = SimpleNamespace(**{**vars(clip.info), **changes})
    return replace(clip, info=info)


def test_times_are_frame_numbers_over_the_rate():
    clip = made.build_clip((8, 8), n_phases=3, n_frames=300, rate=30)
    rounded = replace(clip, times_s=np.round(clip.times_s, 3))  # as Matroska does
    rounded = about(rounded, time_base=Fraction(1, 1000))
    for s in range(3):
        times = frame_times(rounded, s)
        np.testing.assert_array_equal(times.seconds, clip.indices[s] / 30)
        assert times.spacing_s == 1 / (4 / 300 * 30)  # of the grid, for every phase
        assert times.duration_s == 10.0
        assert times.metadata() == {
            "total_num_frames": 300,
            "fps": 30.0,
            "frames_indices": clip.indices[s].tolist(),
            "duration": 10.0,
        }


@pytest.mark.parametrize(
    "change", [{"vfr": True}, {"fps": None}, {"fps": Fraction(29)}]
)
def test_times_are_those_of_the_file_where_numbers_do_not_give_them(change):
    clip = about(made.build_clip((8, 8), n_frames=300), **change)
    times = frame_times(clip, 1)
    np.testing.assert_allclose(times.seconds, clip.times_s[1] - 0.4, rtol=0)
    expected = np.diff(clip.times_s[1]).mean()
    assert times.spacing_s == pytest.approx(expected, rel=1e-12)
    assert times.rate is None
    assert times.metadata()["fps"] == 1000.0
    milliseconds = np.rint(1000 * times.seconds).astype(int).tolist()
    assert times.metadata()["frames_indices"] == milliseconds


def test_a_part_of_a_video_has_its_own_spacing():
    clip = made.build_clip((8, 8), n_phases=2, n_frames=40)
    moved = replace(
        clip,
        indices=clip.indices + 100,
        times_s=clip.times_s + 10,
        span=(100, 140),
        span_s=(10.4, 4.0),
    )
    moved = about(moved, n_frames=400, duration_s=40.0)
    for s in range(2):
        times = frame_times(moved, s)
        np.testing.assert_allclose(times.seconds, moved.indices[s] / 10)
        assert times.spacing_s == pytest.approx(1.0)
    frozen = frame_times(moved, 1, "frozen")
    np.testing.assert_allclose(frozen.seconds, [10.5, 11.5, 12.5, 13.5])
    assert frozen.spacing_s == pytest.approx(1.0)


def test_frozen_times_are_the_middles_of_equal_parts():
    clip = made.build_clip((8, 8), n_phases=3, n_frames=300)
    for s in range(3):
        times = frame_times(clip, s, "frozen")
        np.testing.assert_allclose(times.seconds, [3.75, 11.25, 18.75, 26.25])
        assert times.spacing_s == 7.5


def test_grids_in_time_are_spaced_by_time():
    clip = about(made.build_clip((8, 8), n_frames=300), vfr=True)
    clip = replace(clip, grid=PhaseGrid(4, 2, by="time"))
    assert [frame_times(clip, s).spacing_s for s in range(2)] == [7.5, 7.5]


def test_a_clip_of_no_file_has_the_times_it_gives():
    clip = replace(made.build_clip((8, 8)), info=None)
    np.testing.assert_array_equal(frame_times(clip, 1).seconds, clip.times_s[1])
    frozen = frame_times(clip, 1, "frozen")
    np.testing.assert_array_equal(frozen.seconds, clip.times_s[0])
    single = replace(clip, times_s=clip.times_s[:, :1])
    assert frame_times(single, 0).spacing_s == 1.0
    backwards = replace(clip, times_s=clip.times_s[:, ::-1])
    with pytest.raises(ScoringError, match="do not ascend"):
        frame_times(backwards, 0)


def test_metadata_gives_processors_the_spacing():
    times = FrameTimes(np.array([0.25, 1.0, 1.75]), 0.75, 3.0)
    found = times.metadata()
    rate = 3 / found["total_num_frames"] * found["fps"]
    assert 1 / rate == pytest.approx(0.75)


def test_numbers_in_words_are_those_of_num2words():
    num2words = pytest.importorskip("num2words").num2words
    numbers = [*range(1300), 1999, 9001, 12_345, 20_000, 100_001, 999_999]
    assert [in_words(n) for n in numbers] == [num2words(n) for n in numbers]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, "one"),
        (13, "thirteen"),
        (40, "forty"),
        (99, "ninety-nine"),
        (100, "one hundred"),
        (101, "one hundred and one"),
        (768, "seven hundred and sixty-eight"),
        (2048, "two thousand and forty-eight"),
        (12_345, "twelve thousand, three hundred and forty-five"),
    ],
)
def test_numbers_in_words(number, words):
    assert in_words(number) == words
