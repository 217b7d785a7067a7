"""Curves over the frames of a clip: how much moves, how much the colours change."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasefusion import _frames
from phasefusion._install import remedy
from phasefusion._results import Result
from phasefusion.errors import BackendUnavailableError, UsageError, VideoError
from phasefusion.video import Video

__all__ = ["Curve", "colour_change", "flow_motion", "vector_motion"]

Measure: TypeAlias = Literal["vectors", "flow", "histogram"]

_UNITS = {"vectors": "pixels a frame", "flow": "pixels a frame", "histogram": "of 1"}
#: Pictures looked at before a whole video is decoded for vectors that it has not.
_PROBED = 50
_INTRA, _PREDICTED = 1, 2
#: Optical flow of pictures of this size at most is as good for finding a peak.
_FLOW_PX = 160
#: Small pictures held at a time, in bytes.
_BATCH_BYTES = 2**27


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Curve(Result):
    """A value for every frame of a clip, about the step from the frame before it.

    Attributes
    ----------
    kind : {"vectors", "flow", "histogram"}
    values : ndarray, shape (N,), float64
        Mean displacement in pixels of the video, or Bhattacharyya distance in [0, 1];
        0 where nothing was measured.
    measured : ndarray, shape (N,), bool
        False for the first frame, for frames that do not decode soundly, and for
        pictures without motion vectors.
    """

    kind: Measure
    values: NDArray[np.float64]
    measured: NDArray[np.bool_]

    def __repr__(self) -> str:
        return (
            f"<Curve {self.kind}: {self.measured.sum()} of {len(self.values)} frames, "
            f"up to {self.values.max(initial=0.0):.4g} {_UNITS[self.kind]}>"
        )

    def smoothed(self, radius: int) -> NDArray[np.float64]:
        """Mean of the measured values within `radius` frames, 0 without any.

        Examples
        --------
        >>> measured = np.array([False, True, False, True])
        >>> curve = Curve("flow", np.array([0.0, 3.0, 0.0, 6.0]), measured)
        >>> curve.smoothed(1)
        array([3. , 3. , 4.5, 6. ])
        """
        ones = np.ones(2 * radius + 1)
        middle = slice(radius, radius + len(self.values))
        n = np.convolve(self.measured, ones)[middle]
        total = np.convolve(np.where(self.measured, self.values, 0.0), ones)[middle]
        mean: NDArray[np.float64] = np.zeros(len(total))
        np.divide(total, n, out=mean, where=n > 0)
        return mean

    def peak(self, radius: int = 0) -> tuple[int, float, float]:
        """Highest value, the first of equals.

        Parameters
        ----------
        radius : int, default 0
            Values are means over so many frames to either side.

        Returns
        -------
        frame : int
            Which measured frame it is.
        value : float
            The mean there.
        over_mean : float
            That value over the mean of the curve, 1 for a flat one.

        Raises
        ------
        VideoError
            If nothing was measured.
        """
        if radius < 0:
            raise UsageError(f"radius={radius} must be 0 or more")
        if not self.measured.any():
            raise VideoError(f"the curve of {self.kind} has no frame that was measured")
        smooth = np.where(self.measured, self.smoothed(radius), -1.0)
        frame = int(smooth.argmax())
        mean = float(self.values[self.measured].mean())
        value = float(smooth[frame])
        return frame, value, value / mean if mean > 0.0 else 1.0


def _settled(video: Video, measure: Any, indices: NDArray[np.int64]) -> Any:
    """Measure frames; again if damage turns out to have moved them."""
    found = measure(indices, video._threads)
    if found[-1] and len(indices) == len(video) and video._reader.recount():
        video._refresh()
        found = measure(np.arange(len(video), dtype=np.int64), video._threads)
    return found


def vector_motion(video: Video) -> Curve:
    """Motion by the vectors with which the codec predicts pictures from others.

    Nothing is estimated and no pixel is finished, so it is the fast way; it sees what
    an encoder made of motion, which in flat or repetitive pictures is not motion.
    Vectors are divided by the distance to the nearest reference that was decoded
    before, counted in pictures.

    Parameters
    ----------
    video : Video
        H.264, MPEG-1, MPEG-2, MPEG-4 part 2 and their relatives; FFmpeg exports no
        vectors of HEVC, VP8, VP9 and AV1.

    Returns
    -------
    curve : Curve
        Mean displacement over the picture, pixels a frame.

    Raises
    ------
    VideoError
        If no picture has motion vectors; the message says why.

    Examples
    --------
    >>> from phasefusion.tinyvlm import questions_path
    >>> with Video(questions_path().parent / "clip-000.mp4") as video:
    ...     vector_motion(video)
    <Curve vectors: 350 of 358 frames, up to 2.564 pixels a frame>
    """
    from phasefusion import _video

    first = np.arange(min(len(video), _PROBED), dtype=np.int64)
    _, facts, _, _ = video._reader.motion(first, video._threads)
    if not facts[:, 2].any() and (facts[:, 4] >= _PREDICTED).any():
        raise VideoError(f"the decoder of {video.info.codec} exports no motion vectors")
    every = np.arange(len(video), dtype=np.int64)
    sums, facts, state, _ = _settled(video, video._reader.motion, every)
    info = video.info
    values, measured = _video.motion_energy(sums, facts, info.width * info.height)
    measured &= state == 0
    if not measured.any():
        n = len(state)
        raise VideoError(
            f"no picture of {n} is predicted from another ({info.codec})"
            if not (facts[:, 4] >= _PREDICTED).any()
            else f"no sound picture of {n} has motion vectors ({info.codec})"
        )
    return Curve("vectors", np.where(measured, values, 0.0), measured)


def colour_change(video: Video) -> Curve:
    """Change of the colour histogram from frame to frame.

    It does not see motion, only that other colours are there: cuts, slides, things
    that appear. 32 bins a channel; `histogram_change` in C holds the formula.

    Parameters
    ----------
    video : Video

    Returns
    -------
    curve : Curve
        Bhattacharyya distance, sqrt(1 - sum sqrt(p q)), in [0, 1].

    Examples
    --------
    >>> from phasefusion.tinyvlm import questions_path
    >>> with Video(questions_path().parent / "clip-000.mp4") as video:
    ...     colour_change(video)
    <Curve histogram: 357 of 358 frames, up to 0.3695 of 1>
    """
    every = np.arange(len(video), dtype=np.int64)
    counts, state, _ = _settled(video, video._reader.histograms, every)
    return _between("histogram", _frames.histogram_change(_filled(counts)), state == 0)


def _filled(counts: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Histograms of frames that did not come, which hold nothing, as if black."""
    empty = ~counts.any(axis=(1, 2))
    counts[empty, :, 0] = 1
    return counts


def _between(
    kind: Measure, values: NDArray[np.float64], sound: NDArray[np.bool_]
) -> Curve:
    """Make a curve of steps between two sound frames."""
    measured = sound.copy()
    measured[1:] &= sound[:-1]
    measured[:1] = False
    return Curve(kind, np.where(measured, values, 0.0), measured)


def flow_motion(video: Video) -> Curve:
    """Motion by Farnebäck's dense optical flow, of small grey pictures.

    It needs OpenCV and no motion vectors, sees what moves rather than what an encoder
    made of it, and takes many times as long.

    Parameters
    ----------
    video : Video

    Returns
    -------
    curve : Curve
        Mean length of the flow over the picture, in pixels of the video, a frame.

    Raises
    ------
    BackendUnavailableError
        If OpenCV is not installed.

    References
    ----------
    .. [1] Farnebäck, Two-Frame Motion Estimation Based on Polynomial Expansion, SCIA
       2003.
    """
    try:
        cv2: Any = import_module("cv2")
    except ImportError as error:
        raise BackendUnavailableError(
            f"optical flow needs OpenCV ({error}); {remedy('opencv-python-headless')}"
        ) from error
    info = video.info
    scale = min(1.0, _FLOW_PX / max(info.width, info.height))
    size = max(1, round(info.height * scale)), max(1, round(info.width * scale))
    batch = max(1, _BATCH_BYTES // (3 * size[0] * size[1]))
    values = np.zeros(len(video))
    sound = np.zeros(len(video), np.bool_)
    before = None
    for first in range(0, len(video), batch):
        part = np.arange(first, min(first + batch, len(video)), dtype=np.int64)
        frames, state = _small(video, part, size)
        sound[part] = state == 0
        for k, frame in zip(part, frames, strict=True):
            grey = cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY)
            if before is not None:
                flow = cv2.calcOpticalFlowFarneback(
                    before, grey, None, 0.5, 3, 15, 3, 5, 1.2, 0
                )
                flow *= np.array([info.width / size[1], info.height / size[0]])
                values[k] = np.hypot(flow[..., 0], flow[..., 1]).mean()
            before = grey
    return _between("flow", values, sound)


def _small(
    video: Video, indices: NDArray[np.int64], size: tuple[int, int]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Frames and the state of each, whether sound or not."""
    from phasefusion._video_fit import Fit

    fit = Fit(size)
    frames = fit.empty(len(indices), (*size, 3), video._threads)
    state, _ = fit.read(video._reader, indices, [frames], video._threads)
    return frames, state
