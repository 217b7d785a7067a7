"""When frames were shown, as a model is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from phasefusion.errors import QuestionError

if TYPE_CHECKING:
    from phasefusion.video import Clip

Timestamps = Literal["true", "frozen"]


@dataclass(frozen=True, slots=True, eq=False)
class FrameTimes:
    """The times of the frames of one phase, in seconds from the start of the video.

    Parameters
    ----------
    seconds : ndarray, shape (b,), float64
    spacing_s : float
        Time from one frame to the next, the same for every phase of a clip.
    duration_s : float or None
        Of the whole video, where it is known.
    rate : float or None
        Frames a second, where `numbers` over it are the times.
    numbers : ndarray, shape (b,), int64, or None
    """

    seconds: NDArray[np.float64]
    spacing_s: float
    duration_s: float | None = None
    rate: float | None = None
    numbers: NDArray[np.int64] | None = None

    def metadata(self) -> dict[str, Any]:
        """Return the times as transformers' VideoMetadata has them.

        That are frame numbers and a rate; where there are none, a thousand frames a
        second. The total makes the processors' time between frames `spacing_s`.

        Examples
        --------
        >>> FrameTimes(np.array([0.5, 1.5]), 1.0).metadata()["frames_indices"]
        [500, 1500]
        """
        rate, numbers = self.rate, self.numbers
        if rate is None or numbers is None:
            rate, numbers = 1000.0, np.rint(1000 * self.seconds).astype(np.int64)
        return {
            "total_num_frames": max(1, round(len(numbers) * self.spacing_s * rate)),
            "fps": rate,
            "frames_indices": numbers.tolist(),
            "duration": self.duration_s,
        }


def frame_times(clip: Clip, s: int, timestamps: Timestamps = "true") -> FrameTimes:
    """Return the times of the frames of phase `s`.

    Parameters
    ----------
    clip : Clip
    s : int
    timestamps : {"true", "frozen"}, default "true"
        "frozen" gives every phase the middles of `b` equal parts of the video, so that
        what a model reads does not change with the phase. They do not depend on which
        phases the clip holds; without `Clip.info` they are the times of its first.

    Raises
    ------
    QuestionError
        If times do not ascend.

    Notes
    -----
    Of a constant frame rate, a frame's time is its number over the rate, as
    transformers computes it, where that agrees with the timestamps of the file (which
    some containers round to a millisecond); the time between frames is that of the
    grid, where the mean over the chosen frames would change with the phase by the
    rounding to whole frames.
    """
    info = clip.info
    times = np.asarray(clip.times_s[s], dtype=np.float64)
    if info is None:
        shown = clip.times_s[0] if timestamps == "frozen" else times
        return FrameTimes(np.asarray(shown, np.float64), _mean_spacing_s(shown))
    times = times - info.start_s
    n_frames = len(times)
    spacing_s = _mean_spacing_s(times)
    start_s, span_s = _span(clip)
    if timestamps == "frozen":
        step_s = span_s / n_frames
        middles = start_s + (np.arange(n_frames, dtype=np.float64) + 0.5) * step_s
        return FrameTimes(middles, step_s, info.duration_s)
    if clip.grid.by == "time":
        spacing_s = span_s / n_frames
    elif not info.vfr and info.fps:
        rate, numbers = float(info.fps), clip.indices[s]
        by_number = numbers / rate
        if np.allclose(by_number, times, rtol=0, atol=2 * float(info.time_base)):
            first, end = clip.span or (0, info.n_frames)
            spacing_s = 1 / (n_frames / (end - first) * rate)
            return FrameTimes(by_number, spacing_s, info.duration_s, rate, numbers)
    return FrameTimes(times, spacing_s, info.duration_s)


def _span(clip: Clip) -> tuple[float, float]:
    """Return start and length, in seconds, of the part that the grid divides."""
    info = clip.info
    if clip.span_s is None:
        return 0.0, info.duration_s
    start_s, length_s = clip.span_s
    return start_s - info.start_s, length_s


def _mean_spacing_s(times_s: NDArray[np.float64]) -> float:
    """Mean time between frames, in seconds; 1 for a single frame."""
    if len(times_s) < 2:
        return 1.0
    spacing = float(times_s[-1] - times_s[0]) / (len(times_s) - 1)
    if not (np.isfinite(spacing) and spacing >= 0):
        raise QuestionError(
            f"frame times {np.asarray(times_s).tolist()} s do not ascend; they set "
            "the model's positions in time"
        )
    return spacing
