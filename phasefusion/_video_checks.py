"""Checks of what is asked of a video, and sums over what a scan found."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._checks import warn
from phasefusion._wording import Argument, by_number, counted
from phasefusion.errors import FrameCountWarning, UsageError, VideoError

if TYPE_CHECKING:
    from phasefusion._video_records import VideoInfo
    from phasefusion.grid import PhaseGrid

#: States of a frame that does not decode soundly.
DAMAGED, MISSING = 1, 2

_MAX_THREADS = 64
#: What to give where frames that do not decode are no error.
MARK = Argument("on_error", '"mark"', "mark")
_MAX_BYTES = 2**36


def fraction(pair: tuple[int, int]) -> Fraction | None:
    num, den = pair
    return Fraction(num, den) if num > 0 and den > 0 else None


def varies(pts: NDArray[np.int64]) -> bool:
    if len(pts) < 3:
        return False
    steps = np.diff(pts)
    # Rounding to ticks makes steps differ by one; 2 % is below any real change.
    spread = int(steps.max() - steps.min())
    return spread > max(1, int(np.median(steps)) // 50)


def stream_number(stream: object) -> int:
    if isinstance(stream, str):
        if stream == "best":
            return -1
    elif isinstance(stream, SupportsIndex) and not isinstance(stream, bool):
        number = stream.__index__()
        if 0 <= number < 2**31:
            return number
    raise UsageError(
        f'stream={stream!r} must be "best" or the index of a stream, 0 or more'
    )


def positive(name: str, value: SupportsIndex, highest: int = 2**62) -> int:
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        number = value.__index__()
        if 1 <= number <= highest:
            return number
    limit = f"from 1 to {highest}" if highest < 2**62 else "of 1 or more"
    raise UsageError(Argument.of(name, value), f" must be an integer {limit}")


def check_threads(threads: SupportsIndex) -> int:
    """Return a number of decoding threads as an int, or say what it may be."""
    return positive("threads", threads, _MAX_THREADS)


def check_on_error(on_error: object) -> None:
    if on_error not in ("raise", "mark"):
        raise UsageError(
            Argument.of("on_error", on_error), ' must be "raise" or "mark"'
        )


def check_indices(path: str, n_frames: int, indices: ArrayLike) -> NDArray[np.int64]:
    """Return frames by index as an array, or say which are none."""
    array = np.asarray(indices)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise UsageError(
            f"indices must be a list of integers, got shape {array.shape} of "
            f"{array.dtype}"
        )
    bad = np.flatnonzero((array < 0) | (array >= n_frames))
    if len(bad):
        raise IndexError(
            f"{path}: frame {array[bad[0]]} is out of range; the video has {n_frames} "
            f"frames, 0 to {n_frames - 1}"
        )
    return np.ascontiguousarray(array, dtype=np.int64)


def unsound(path: str, wanted: NDArray[np.int64], state: NDArray[np.uint8]) -> str:
    """Describe the frames that did not decode soundly; "" when there are none."""
    missing = np.unique(wanted[state == MISSING])
    damaged = np.unique(wanted[state == DAMAGED])
    parts = []
    if len(missing):
        parts.append(f"{len(missing)} do not decode: frames {listed(missing)}")
    if len(damaged):
        parts.append(f"{len(damaged)} are damaged: frames {listed(damaged)}")
    if not parts:
        return ""
    n_wanted = len(np.unique(wanted))
    return f"{path}: of {n_wanted} wanted frames {' and '.join(parts)}"


def check_grids(grids: Iterable[PhaseGrid]) -> list[PhaseGrid]:
    """Return the grids as a list, or say what is none."""
    from phasefusion.grid import PhaseGrid

    if isinstance(grids, PhaseGrid) or not isinstance(grids, Iterable):
        raise UsageError(f"grids={grids!r} must be a list of PhaseGrid")
    found = list(grids)
    for grid in found:
        if not isinstance(grid, PhaseGrid):
            raise UsageError(f"{grid!r} is not a PhaseGrid; PhaseGrid(budget=8) is one")
    if not found:
        raise UsageError("grids is empty; give at least one PhaseGrid")
    return found


def cut_short(info: VideoInfo) -> str:
    """Say that the file ends long before its header says, or long after; else empty.

    Both readings of a stated duration, from time 0 or from the first frame, must be
    longer than what is there by two frames and by 2 %.
    """
    stated_s = info.duration_s_header
    if stated_s is None or info.n_cut:
        return ""
    lasts_s = max(info.duration_s, info.start_s + info.duration_s)
    slack_s = max(2 * info.duration_s / max(info.n_frames, 1), 0.02 * stated_s)
    if info.duration_s > 2 * stated_s + 1:
        return (
            f"the header says {stated_s:.3f} s, the {info.n_frames} frames that are "
            f"there last {info.duration_s:.3f} s; timestamps seem to be damaged"
        )
    if stated_s - lasts_s <= slack_s:
        return ""
    return (
        f"the header says {stated_s:.3f} s, the {info.n_frames} frames that are there "
        f"end at {lasts_s:.3f} s; the file seems to be cut short"
    )


def lost_frames(info: VideoInfo) -> str:
    """Say that frames of the video are lost, by its damage or its header; else empty.

    A header that is wrong by two frames or 2 % is taken for an estimate, if nothing
    else is wrong. So is one that is wrong by more where the frames last as long as it
    says: AVI counts the empty chunks that stand for a longer frame, too.
    """
    header = info.n_frames_header
    if header is None:
        text = cut_short(info)
        if not text and info.damaged:
            text = f"the file is damaged: {info.n_frames} frames can be read"
        return text
    there = info.n_frames + info.n_cut
    if header <= there or not (info.damaged or header - there > max(2, 0.02 * header)):
        return ""
    has_duration = info.duration_s_header is not None and not info.n_cut
    if has_duration and not info.damaged and not cut_short(info):
        return ""
    return f"the header says {header} frames, {there} decode"


def warn_count(info: VideoInfo) -> None:
    """Warn of a header that promises other frames than there are."""
    header = info.n_frames_header
    if header is None:
        text = cut_short(info)
        if not text and info.damaged:
            text = (
                f"it is damaged: {info.n_frames} frames can be read, others may be lost"
            )
    elif header == info.n_frames:
        text = ""
    else:
        what = "decode; the file is damaged" if info.damaged else "are there"
        text = f"the header says {header} frames, {info.n_frames} {what}"
        if info.n_cut:
            text += f"; an edit list cuts {info.n_cut} of them"
    if text:
        warn(
            f"{info.path}: {text}; grids use {info.n_frames}",
            FrameCountWarning,
        )


def listed(indices: NDArray[np.int64]) -> str:
    some = ", ".join(str(i) for i in indices[:20])
    return f"[{some}{', ...' if len(indices) > 20 else ''}]"


def room_bytes() -> int:
    """Most bytes of pixels that one call may return: half the memory, 64 GiB at most.

    Whoever asks for more has mistaken a budget; the system would end the process.
    """
    try:
        memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return _MAX_BYTES
    return min(memory_bytes // 2, _MAX_BYTES)


def most_frames(grid: PhaseGrid, n_frames: int) -> int:
    """Frames that a grid takes of a clip, at most; the grid itself is not computed."""
    n_wanted = grid.budget * grid.phases
    return n_wanted if grid.short == "repeat" else min(n_wanted, n_frames)


def check_room(
    path: str,
    parts: Sequence[tuple[int, tuple[int, int, int]]],
    dtype: type[np.uint8] | type[np.float32],
) -> None:
    """Refuse more pixels than `room_bytes` before any memory is taken.

    Parts are numbers of frames and the shape of each in the result.
    """
    need_bytes = sum(n * math.prod(shape) for n, shape in parts)
    need_bytes *= np.dtype(dtype).itemsize
    most_bytes = room_bytes()
    if need_bytes > most_bytes:
        n_frames = sum(n for n, _ in parts)
        _, shape = max(parts, key=lambda part: math.prod(part[1]))
        height, width = shape[:2] if dtype is np.uint8 else shape[1:]
        raise VideoError(
            f"{path}: {counted(n_frames, 'frame')} of {width}x{height} "
            f"{by_number(n_frames, 'takes', 'take')} "
            f"{need_bytes / 2**30:.1f} GiB; the limit is "
            f"{most_bytes / 2**30:.1f} GiB (half the memory, at most 64 GiB). "
            "Take fewer frames or phases at a time, or a smaller size"
        )
