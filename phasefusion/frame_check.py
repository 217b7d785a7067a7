"""Whether the quick way to frames gives what a sequential decode gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, Unpack

import numpy as np
from numpy.typing import NDArray

from phasefusion._video_checks import positive
from phasefusion.video import Video

if TYPE_CHECKING:
    from phasefusion._video_source import VideoLimits, VideoSource

__all__ = ["Difference", "FrameCheck", "check_frames"]

#: Frames compared when the caller does not say how many.
_COMPARED = 240
#: The frames compared are asked for in so many calls, every so-manieth in each: between
#: them lie pictures that the quick way does not decode.
_CALLS = 4
_THREADS = (1, 2)


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
class FrameCheck:
    """What `check_frames` found.

    Attributes
    ----------
    path : str
    n_frames : int
        Frames that are there.
    n_frames_header : int or None
        Frames by the container's header.
    counted : str or None
        Why the order was found by decoding everything; None when the packets gave it.
    n_moved : int
        Places of the packets' order that a sequential decode fills with another frame,
        or that one of the two does not have; 0 when the order was counted.
    every : int
        Every so-manieth frame was compared, from the first on.
    n_compared : int
    threads : tuple of int
        Threads of the quick decodes that were compared.
    n_different : int
        Frames of which a quick decode gave other pixels than the sequential one.
    first_difference : Difference or None
    n_unsound : int
        Frames compared that do not decode soundly, by any way.
    """

    path: str
    n_frames: int
    n_frames_header: int | None
    counted: str | None
    n_moved: int
    every: int
    n_compared: int
    threads: tuple[int, ...]
    n_different: int
    first_difference: Difference | None
    n_unsound: int

    @property
    def is_right(self) -> bool:
        """Whether every frame compared is the one of a sequential decode."""
        return self.n_different == 0 and self.n_moved == 0

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {"right": self.is_right, **asdict(self), "threads": list(self.threads)}

    def lines(self) -> Iterator[str]:
        """Sentences for people, the verdict first."""
        which = "all frames" if self.every == 1 else f"every {self.every}. frame"
        threads = " and ".join(str(n) for n in self.threads)
        yield (
            f"{'right' if self.is_right else 'WRONG'}: {which}, "
            f"{self.n_compared} of {self.n_frames}, decoded with {threads} threads, "
            "against a sequential decode"
        )
        if self.first_difference is not None:
            at = self.first_difference
            shows = (
                "another picture"
                if at.other_frame is None
                else f"frame {at.other_frame}"
            )
            yield (
                f"{self.n_different} differ; the first is frame {at.frame}, which "
                f"with {at.threads} threads shows {shows}"
            )
        if self.n_moved:
            yield f"{self.n_moved} places of the packets' order hold other frames"
        if self.counted is None:
            yield "the order was found from the packets"
        else:
            yield f"the order was found by decoding everything: {self.counted}"
        if self.n_frames_header is None:
            yield f"the header does not say how many frames there are ({self.n_frames})"
        elif self.n_frames_header != self.n_frames:
            yield f"the header says {self.n_frames_header} frames, not {self.n_frames}"
        else:
            yield f"the header says {self.n_frames} frames, which is right"
        if self.n_unsound:
            yield f"{self.n_unsound} of those compared do not decode soundly"


def _quick(video: Video, wanted: NDArray[np.int64], threads: int) -> NDArray[np.uint64]:
    """Digests of frames as `Video.read` gets them, with gaps between them."""
    digests = np.zeros(len(wanted), np.uint64)
    for k in range(min(_CALLS, len(wanted))):
        digests[k::_CALLS] = video._reader.digest(wanted[k::_CALLS], threads, False)[0]
    return digests


def _difference(
    wanted: NDArray[np.int64],
    true: NDArray[np.uint64],
    quick: dict[int, NDArray[np.uint64]],
) -> tuple[int, Difference | None]:
    """How many frames differ, and the first of them."""
    wrong = np.any([digests != true for digests in quick.values()], axis=0)
    if not wrong.any():
        return 0, None
    at = int(np.argmax(wrong))
    threads = next(n for n, digests in quick.items() if digests[at] != true[at])
    same = wanted[true == quick[threads][at]]
    other = int(same[0]) if len(same) else None
    return int(np.count_nonzero(wrong)), Difference(int(wanted[at]), threads, other)


def _moved(video: Video, before: NDArray[np.uint64], wanted: NDArray[np.int64]) -> int:
    """Places among those compared that a count by decoding fills with other frames."""
    n_before = len(video)
    if not video._reader.recount():
        return 0
    n_after = int(video._reader.info()["n_frames"])
    both = wanted[wanted < n_after]
    after = video._reader.digest(both, 1, True)[0]
    return int(np.count_nonzero(before[: len(both)] != after)) + abs(n_after - n_before)


def check_frames(
    path: VideoSource,
    *,
    every: SupportsIndex | None = None,
    stream: Literal["best"] | SupportsIndex = "best",
    **limits: Unpack[VideoLimits],
) -> FrameCheck:
    """Compare frames as `Video.read` gives them with a sequential decode of everything.

    Frames are compared by a hash of their pixels, so no more than one a thread is held.

    Parameters
    ----------
    path : str or path-like, bytes-like, or binary file object
    every : int, optional
        Compare every so-manieth frame, 1 for all; by default about 240 in all.
    stream, **limits
        As for `Video`.

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
    with Video(path, stream=stream, **limits) as video:
        info = video.info
        step = every or max(1, len(video) // _COMPARED)
        wanted = np.arange(0, len(video), step, dtype=np.int64)
        true, state, _ = video._reader.digest(wanted, 1, True)
        quick = {threads: _quick(video, wanted, threads) for threads in _THREADS}
        n_different, first = _difference(wanted, true, quick)
        n_moved = 0 if info.counted else _moved(video, true, wanted)
    return FrameCheck(
        path=info.path,
        n_frames=info.n_frames,
        n_frames_header=info.n_frames_header,
        counted=info.counted,
        n_moved=n_moved,
        every=step,
        n_compared=len(wanted),
        threads=_THREADS,
        n_different=n_different,
        first_difference=first,
        n_unsound=int(np.count_nonzero(state)),
    )
