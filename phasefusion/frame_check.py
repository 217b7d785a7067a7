"""Whether the quick way to frames gives what a sequential decode gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, Unpack

import numpy as np
from numpy.typing import NDArray

from phasefusion._results import Result
from phasefusion._video_checks import positive
from phasefusion._wording import by_number, counted
from phasefusion.errors import VideoError
from phasefusion.progress import Advance, Listener, follow
from phasefusion.video import Video

if TYPE_CHECKING:
    from phasefusion._video_source import VideoLimits, VideoSource

__all__ = ["Difference", "FrameCheck", "check_frames"]

#: Most frames compared when the caller does not say how many.
_COMPARED = 240
#: The frames compared are asked for in so many calls, every so-manieth in each: between
#: them lie pictures that the quick way does not decode.
_CALLS = 4
_THREADS = (1, 2)
_MOVED_BY_DAMAGE = "damage took frames away or moved them"


@dataclass(frozen=True, slots=True)
class Difference:
    """A frame that came out otherwise.

    Attributes
    ----------
    frame : int
    threads : int
        Of the quick decode.
    other_frame : int or None
        Which of the frames compared it shows instead; None when it shows none of them.
    """

    frame: int
    threads: int
    other_frame: int | None


@dataclass(frozen=True, slots=True)
class FrameCheck(Result):
    """What `check_frames` found.

    Attributes
    ----------
    path : str
    n_frames : int
        Frames that decode, one after the other from the start.
    n_frames_packets : int
        Frames by the packets, before damage was met; `n_frames` where opening the video
        has counted them already.
    n_frames_header : int or None
        Frames by the container's header.
    counted : str or None
        Why the order was found by decoding everything; None when the packets gave it.
    n_moved : int
        Frames compared that the packets' order has in another place than a sequential
        decode; 0 when the order was counted.
    every : int
        Every so-manieth frame was compared, from the first on.
    n_compared : int
    threads : tuple of int
        Threads of the quick decodes that were compared.
    n_differ : int
        Frames compared for which one has other pixels than the sequential decode has in
        their place.
    first_difference : Difference or None
    n_unsound : int
        Frames compared that are damaged or do not decode, by any way.
    """

    path: str
    n_frames: int
    n_frames_packets: int
    n_frames_header: int | None
    counted: str | None
    n_moved: int
    every: int
    n_compared: int
    threads: tuple[int, ...]
    n_differ: int
    first_difference: Difference | None
    n_unsound: int

    @property
    def is_right(self) -> bool:
        """Whether every frame compared is the one of a sequential decode."""
        return self.n_differ == 0 and self._n_read == self.n_frames

    @property
    def _n_read(self) -> int:
        """Frames that were there to be read."""
        return self.n_frames_packets if self.counted is None else self.n_frames

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {"right": self.is_right, **asdict(self), "threads": list(self.threads)}

    def lines(self) -> Iterator[str]:
        """Sentences for people, the verdict first."""
        threads = " and ".join(map(str, self.threads))
        yield (
            f"{self._verdict()} from a sequential decode; compared: "
            f"{self._compared()}, read with {threads} threads"
        )
        if self.first_difference is not None:
            at = self.first_difference
            shows = (
                "another picture"
                if at.other_frame is None
                else f"frame {at.other_frame}"
            )
            yield (
                f"the first that differs is frame {at.frame}, which with "
                f"{counted(at.threads, 'thread')} shows {shows}"
            )
        if self.n_moved:
            yield f"{counted(self.n_moved, 'frame')} moved by the packets' order"
        if self.n_frames_packets != self.n_frames:
            packets = counted(self.n_frames_packets, "frame")
            yield (
                f"the packets promise {packets}, {self.n_frames} decode; a grid that "
                f"does not meet the damage divides {self.n_frames_packets}"
            )
        if self.counted is None:
            yield "the order was found from the packets"
        else:
            yield f"the order was found by decoding everything: {self.counted}"
        if self.n_frames_header is None:
            yield f"the header does not say how many frames there are ({self.n_frames})"
        elif self.n_frames_header != self.n_frames:
            header = counted(self.n_frames_header, "frame")
            yield f"the header says {header}, {self.n_frames} decode"
        else:
            yield f"the header says {counted(self.n_frames, 'frame')}, which is right"
        if self.n_unsound and not self.is_right:
            yield self._unsound()

    def _verdict(self) -> str:
        if self.n_differ:
            verb = by_number(self.n_differ, "differs", "differ")
            return f"WRONG: {self.n_differ} of {self._all_compared()} {verb}"
        if not self.is_right:
            return "WRONG: the number of frames differs"
        damaged = f", but {self._unsound()}" if self.n_unsound else ""
        return f"right{damaged}: no frame differs"

    def _unsound(self) -> str:
        verb = by_number(self.n_unsound, "is", "are")
        return f"{self.n_unsound} of {self._all_compared()} {verb} damaged"

    def _all_compared(self) -> str:
        return counted(self.n_compared, "frame")

    def _compared(self) -> str:
        if self.n_compared == 1:
            return f"the first frame of {self._n_read}"
        if self.every == 1:
            return f"all {self.n_compared} frames"
        some = f"{self.n_compared} of {self._n_read}"
        return f"every {_ordinal(self.every)} frame, {some}"


def _ordinal(n: int) -> str:
    if n % 100 in (11, 12, 13):
        return f"{n}th"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def _quick(
    video: Video, wanted: NDArray[np.int64], advance: Advance
) -> tuple[dict[int, NDArray[np.uint64]], bool]:
    """Digests of frames as they are read, by threads, and whether damage was met.

    There are gaps between the frames of a call.
    """
    quick = {threads: np.zeros(len(wanted), np.uint64) for threads in _THREADS}
    any_damage = False
    for threads, digests in quick.items():
        for k in range(min(_CALLS, len(wanted))):
            part = wanted[k::_CALLS]
            digests[k::_CALLS], _, damaged = video._reader.digest(part, threads, False)
            any_damage = any_damage or damaged
            advance(1, f"read with {counted(threads, 'thread')}")
    return quick, any_damage


def _silent(n_parts: int, label: str) -> None:
    """Say nothing."""


def _difference(
    wanted: NDArray[np.int64],
    true: NDArray[np.uint64],
    quick: dict[int, NDArray[np.uint64]],
) -> tuple[int, Difference | None]:
    """How many frames differ, and the first of them.

    There may be fewer true ones; what is read beyond them differs.
    """
    there = np.arange(len(wanted)) < len(true)
    true = np.concatenate([true, np.zeros(len(wanted) - len(true), np.uint64)])
    wrong = np.any([digests != true for digests in quick.values()], axis=0) | ~there
    if not wrong.any():
        return 0, None
    at = int(np.argmax(wrong))
    threads = next(
        n for n, digests in quick.items() if digests[at] != true[at] or not there[at]
    )
    same = wanted[there & (true == quick[threads][at])]
    other = int(same[0]) if len(same) else None
    return int(np.count_nonzero(wrong)), Difference(int(wanted[at]), threads, other)


def _recounted(video: Video) -> bool:
    """Find the order by decoding everything; whether it is another one now."""
    if not video._reader.recount():
        return False
    video._refresh()
    if not len(video):
        raise VideoError(f"{video.info.path}: not one frame of it can be decoded")
    return True


def _step(n_frames: int, every: int | None) -> int:
    return every or -(-n_frames // _COMPARED)


def _wanted(n_frames: int, every: int | None) -> NDArray[np.int64]:
    return np.arange(0, n_frames, _step(n_frames, every), dtype=np.int64)


def check_frames(
    path: VideoSource,
    *,
    every: SupportsIndex | None = None,
    stream: Literal["best"] | SupportsIndex = "best",
    progress: bool | Listener | None = False,
    **limits: Unpack[VideoLimits],
) -> FrameCheck:
    """Compare frames as `read_clip` gives them with a sequential decode of everything.

    Where a decode meets damage and the frames that are there are not those the packets
    promise, they are counted by decoding everything, as `read_clip` does, and the
    frames compared are those of that count. The comparison is by a hash of the pixels,
    so no more than one frame a thread is held.

    Parameters
    ----------
    path : str or path-like, bytes-like, or binary file object
    every : int, optional
        Compare every so-manieth frame from the first on, 1 for all. By default all
        frames of up to 240, and beyond that every n-th, for the smallest n that makes
        it no more than 240.
    stream, **limits
        As for `Video`.
    progress : bool, callable or None, default False
        None shows how far it is on a terminal, and elsewhere a line on stderr every
        half minute; a callable gets parts done, parts in all, and what was done.

    Returns
    -------
    check : FrameCheck

    Raises
    ------
    FileNotFoundError, VideoError, BackendUnavailableError
        As `Video`.
    """
    if every is not None:
        every = positive("every", every)
    n_parts = _CALLS * len(_THREADS) + 1
    with (
        Video(path, stream=stream, **limits) as video,
        follow(n_parts, 0, progress, unit="parts") as advance,
    ):
        n_packets = n_read = len(video)
        wanted = _wanted(n_read, every)
        quick, damaged = _quick(video, wanted, advance)
        counted = video.info.counted
        if damaged and not counted and _recounted(video):  # as read_clip does
            n_read = len(video)
            wanted = _wanted(n_read, every)
            quick, _ = _quick(video, wanted, _silent)
            counted = _MOVED_BY_DAMAGE
        true, state, _ = video._reader.digest(wanted, 1, True)
        advance(1, "decoded from the start")
        n_moved = 0
        if not counted and not damaged and _recounted(video):
            by_packets = true
            wanted_there = wanted[wanted < len(video)]
            true, state, _ = video._reader.digest(wanted_there, 1, True)
            n_same = int(np.count_nonzero(by_packets[: len(true)] == true))
            n_moved = len(wanted) - n_same
        n_differ, first = _difference(wanted, true, quick)
        info = video.info
    return FrameCheck(
        path=info.path,
        n_frames=info.n_frames,
        n_frames_packets=n_packets,
        n_frames_header=info.n_frames_header,
        counted=counted,
        n_moved=n_moved,
        every=_step(n_read, every),
        n_compared=len(wanted),
        threads=_THREADS,
        n_differ=n_differ,
        first_difference=first,
        n_unsound=int(np.count_nonzero(state)),
    )
