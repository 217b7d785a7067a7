"""The chain of methods that find an anchor.

Its order is that of the StableEval protocol: what is said or written at the moment,
then motion, then colours, then the middle.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    SupportsIndex,
    TypeAlias,
    Unpack,
)

import numpy as np

from phasefusion._checks import warn
from phasefusion._subtitle_search import compile_pattern
from phasefusion._video_source import VideoLimits, VideoSource
from phasefusion._wording import Argument, by_number
from phasefusion.anchors.curves import (
    Curve,
    colour_change,
    flow_motion,
    vector_motion,
)
from phasefusion.anchors.records import Anchor, Attempt, Kind
from phasefusion.anchors.windows import frame_at, opened, part_of
from phasefusion.errors import (
    BackendUnavailableError,
    FallbackWarning,
    UsageError,
    VideoError,
)
from phasefusion.subtitles import Subtitles, read_subtitles
from phasefusion.video import Video

if TYPE_CHECKING:
    from phasefusion.subtitles import SubtitleMatch

__all__ = ["METHODS", "Method", "find_anchor"]

Method: TypeAlias = Literal[
    "subtitle", "timestamp", "motion", "vectors", "flow", "histogram", "centre"
]
METHODS: tuple[Method, ...] = ("subtitle", "timestamp", "motion", "histogram", "centre")
_EXPANDED: dict[str, tuple[Kind, ...]] = {
    "subtitle": ("subtitle",),
    "timestamp": ("timestamp",),
    "motion": ("vectors", "flow"),
    "vectors": ("vectors",),
    "flow": ("flow",),
    "histogram": ("histogram",),
    "centre": ("centre",),
}

#: Frames to either side over which motion is averaged: a single picture's vectors may
#: be an encoder's whim, while a cut is one step.
_RADIUS = {"vectors": 2, "flow": 2, "histogram": 0}
#: Peaks below these are noise of the coding: a hundredth of a pixel, a fiftieth of the
#: way to other colours.
_LEAST = {"vectors": 0.01, "flow": 0.01, "histogram": 0.02}
_CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d+(?:[.,]\d+)?)")


class SubtitlesToRead(Protocol):
    """Subtitles that know where they are, as `phasefusion.datasets.SubtitleSource`."""

    @property
    def offset_s(self) -> float:
        """Time of the subtitles at which the video begins."""

    def read(self, *, language: str | None = None) -> Subtitles:
        """Read the cues, on the time axis of the video."""


class _Missed(Exception):
    """A method found nothing; the text says why."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the caller asked for."""

    source: Any
    phrase: str | None
    pattern: str | None
    subtitles: Any
    language: str | None
    match: int
    at: Literal["start", "middle", "end"]
    times: tuple[Fraction, ...]
    least_peak: float
    frames: tuple[int, int] | None


#: Frame, its or the exact time in seconds from the first one, score, why.
_Found: TypeAlias = "tuple[int, Fraction, float, str]"


def find_anchor(
    source: Video | VideoSource,
    *,
    phrase: str | None = None,
    pattern: str | None = None,
    subtitles: Subtitles | SubtitlesToRead | VideoSource | None = None,
    language: str | None = None,
    match: SupportsIndex = 0,
    at: Literal["start", "middle", "end"] = "start",
    times_s: float | str | Iterable[float | str] | None = None,
    methods: Sequence[Method] = METHODS,
    least_peak: float = 2.0,
    frames: tuple[int, int] | None = None,
    threads: SupportsIndex = 1,
    **limits: Unpack[VideoLimits],
) -> Anchor:
    r"""Find a moment of a clip by the first method that gives one.

    Parameters
    ----------
    source : Video, or as for `Video`
        The clip; a `Video` stays open.
    phrase, pattern : str, optional
        What is said at the moment, as a phrase or a regular expression; see
        `Subtitles.find`, which knows scripts without spaces. Without either, subtitles
        are not asked.
    subtitles : Subtitles, SubtitleSource, or as for `read_subtitles`, optional
        Subtitles of their own file, whose times count from the start of the video; by
        default the streams of the video.
    language : str, optional
        As for `read_subtitles`.
    match : int, default 0
        Which of the matches inside the clip; negative ones count from the last.
    at : {"start", "middle", "end"}, default "start"
        Which moment of the cue, of what of it lies inside the clip.
    times_s : float, str, or several, optional
        Times from metadata in seconds from the first frame, or as "1:02:03.5"; the
        first one that lies inside the clip counts.
    methods : sequence of str
        In order: "subtitle", "timestamp", "vectors" (`vector_motion`), "flow"
        (`flow_motion`), "motion" (vectors, then flow), "histogram" (`colour_change`),
        "centre". The last one never fails.
    least_peak : float, default 2.0
        Peaks of a curve that are less than so many times its mean are none.
    frames : (int, int), optional
        Look among the frames ``first <= i < end`` alone; times still count from the
        first frame of the clip.
    threads, **limits
        As for `Video`, where `source` is none.

    Returns
    -------
    anchor : Anchor
        With every method that was tried, and why it gave nothing.

    Raises
    ------
    FileNotFoundError, PermissionError
        If the video, or the file given as `subtitles`, cannot be opened.
    UsageError
        If an argument cannot be.
    VideoError
        If the clip is none, the pattern is no expression, or no method gives anything
        and "centre" is not among them.

    Warns
    -----
    FallbackWarning
        If a phrase, a pattern or times were given and another method had to do.

    Examples
    --------
    >>> from phasefusion.tinyvlm import questions_path
    >>> path = questions_path().parent / "clip-000.mp4"
    >>> srt = b"1\n00:00:03,500 --> 00:00:05,000\nNow look at the circle.\n"
    >>> anchor = find_anchor(path, phrase="look at", subtitles=srt)
    >>> anchor.kind, anchor.time_s, anchor.frame
    ('subtitle', 3.5, 105)
    >>> anchor = find_anchor(path, methods=["histogram", "centre"])
    >>> [(attempt.kind, attempt.outcome) for attempt in anchor.tried]
    [('histogram', 'found')]
    """
    wanted = _checked(
        source,
        phrase,
        pattern,
        subtitles,
        language,
        match,
        at,
        times_s,
        least_peak,
        frames,
    )
    kinds = check_methods(methods)
    for kind, given in {"subtitle": phrase or pattern, "timestamp": times_s}.items():
        if given is not None and kind not in kinds:
            raise UsageError(
                f"{given!r} was given to look for, and {kind!r} is not among "
                f"methods={list(methods)!r}"
            )
    with opened(source, threads, limits) as video:
        part_of(video, frames)
        tried: list[Attempt] = []
        for kind in kinds:
            if not _is_asked(kind, wanted):
                needs = "phrase or pattern" if kind == "subtitle" else "times_s"
                tried.append(Attempt(kind, "not asked", f"no {needs} was given"))
                continue
            try:
                frame, time_s, score, why = _FINDERS[kind](video, wanted)
            except (_Missed, VideoError, BackendUnavailableError) as missed:
                tried.append(Attempt(kind, "failed", str(missed)))
                continue
            tried.append(Attempt(kind, "found", why))
            _warn_of_fallback(video, kind, tried)
            return Anchor(
                kind=kind,
                time_s=float(time_s),
                frame=frame,
                score=score,
                why=why,
                tried=tuple(tried),
            )
        reasons = "; ".join(f"{attempt.kind}: {attempt.why}" for attempt in tried)
        raise VideoError(f"{video.info.path}: no anchor was found ({reasons})")


# ---------------------------------------------------------------------- arguments


def _checked(
    source: Any,
    phrase: str | None,
    pattern: str | None,
    subtitles: Any,
    language: str | None,
    match: SupportsIndex,
    at: Literal["start", "middle", "end"],
    times_s: float | str | Iterable[float | str] | None,
    least_peak: float,
    frames: tuple[int, int] | None,
) -> _Wanted:
    if phrase is not None and pattern is not None:
        raise UsageError("phrase and pattern exclude each other; give one of them")
    text = phrase if phrase is not None else pattern
    if text is not None:
        compile_pattern(text, phrase is None, True)
    elif subtitles is not None:
        raise UsageError("subtitles without a phrase or a pattern say no moment")
    if at not in ("start", "middle", "end"):
        raise UsageError(Argument.of("at", at), " must be start, middle or end")
    if not least_peak >= 1.0:
        raise UsageError(f"least_peak={least_peak!r} must be 1 or more")
    single = times_s is None or isinstance(times_s, (str, int, float, Fraction))
    given = [times_s] if single else list(times_s)  # type: ignore[arg-type]
    times = tuple(seconds_of(time) for time in given if time is not None)
    number = match.__index__()
    return _Wanted(
        source,
        phrase,
        pattern,
        subtitles,
        language,
        number,
        at,
        times,
        least_peak,
        frames,
    )


def seconds_of(value: Any) -> Fraction:
    """Seconds of a number or of "h:mm:ss.f"; see `find_anchor`."""
    if isinstance(value, str):
        clock = _CLOCK.fullmatch(value.strip())
        if clock:
            hours, minutes, seconds = clock.groups()
            exact = Fraction(seconds.replace(",", "."))
            return 3600 * int(hours or 0) + 60 * int(minutes) + exact
    try:
        return Fraction(str(float(value)))
    except (TypeError, ValueError, OverflowError):
        raise UsageError(
            f'times_s={value!r} must be seconds, or a text such as "1:02:03.5"'
        ) from None


def check_methods(methods: Sequence[str]) -> list[Kind]:
    """Return the kinds of anchors that methods may find; a UsageError for unknown."""
    if isinstance(methods, str) or not methods:
        raise UsageError(f"methods={methods!r} must be a list of methods, not empty")
    unknown = [method for method in methods if method not in _EXPANDED]
    if unknown:
        raise UsageError(f"method {unknown[0]!r} is not one of {', '.join(_EXPANDED)}")
    every = [kind for method in methods for kind in _EXPANDED[method]]
    return list(dict.fromkeys(every))


def _is_asked(kind: Kind, wanted: _Wanted) -> bool:
    if kind == "subtitle":
        return wanted.phrase is not None or wanted.pattern is not None
    return kind != "timestamp" or bool(wanted.times)


def _warn_of_fallback(video: Video, kind: Kind, tried: Sequence[Attempt]) -> None:
    failed = [attempt for attempt in tried if attempt.outcome == "failed"]
    asked = [a for a in failed if a.kind in ("subtitle", "timestamp")]
    if asked:
        warn(
            f"{video.info.path}: {asked[0].why}; the anchor is by {kind} instead: "
            f"{tried[-1].why}",
            FallbackWarning,
        )


# ---------------------------------------------------------------------- methods


def _span(video: Video, wanted: _Wanted) -> tuple[Fraction, Fraction]:
    """Start and end of what is looked at, in seconds from the first frame."""
    start = int(video.pts[0])
    low, high = (pts - start for pts in part_of(video, wanted.frames)[1])
    return low * video.info.time_base, high * video.info.time_base


def _outside(video: Video, wanted: _Wanted) -> str:
    low, high = _span(video, wanted)
    if wanted.frames is None:
        return f"outside the clip, which lasts {float(high):.3f} s"
    return f"outside the part asked about, {float(low):.3f} to {float(high):.3f} s"


def _by_subtitle(video: Video, wanted: _Wanted) -> _Found:
    subtitles = _subtitles(video, wanted)
    text = wanted.phrase if wanted.phrase is not None else wanted.pattern
    assert text is not None
    found = subtitles.find(text, regex=wanted.phrase is None)
    where = f"the {len(subtitles)} cues of {subtitles.path} ({subtitles.codec})"
    if not found:
        raise _Missed(f"{text!r} is not in {where}{_undecoded(subtitles)}")
    start = int(video.pts[0]) * video.info.time_base if subtitles.embedded else 0
    begin, end = _span(video, wanted)
    inside = []
    for one in found:
        low = Fraction(one.start_us, 10**6) - start
        high = Fraction(one.end_us, 10**6) - start
        if low < end and high > begin:
            inside.append((max(low, begin), min(high, end), one))
    if not inside:
        raise _Missed(
            f"{text!r} is in {where} at {found[0].start_s - float(start):.3f} s, "
            f"{_outside(video, wanted)}"
        )
    if not -len(inside) <= wanted.match < len(inside):
        raise _Missed(
            f"{text!r} is {len(inside)} times in {where} within the clip; there is no "
            f"match {wanted.match}"
        )
    low, high, one = inside[wanted.match]
    time = {"start": low, "middle": (low + high) / 2, "end": high}[wanted.at]
    why = (
        f"{one.text!r} is in {where}, {_cues(one)}, {float(low):.3f} to "
        f"{float(high):.3f} s"
    )
    if high - low < Fraction(one.end_us - one.start_us, 10**6):
        why += ", the part inside the clip"
    return frame_at(video, time), time, 1 / len(inside), why


def _undecoded(subtitles: Subtitles) -> str:
    """Say that a phrase may be missing because its text could not be decoded."""
    n = subtitles.n_invalid
    if not n:
        return ""
    return (
        f"; {n} {by_number(n, 'piece is', 'pieces are')} no text in its encoding: "
        "convert the file to UTF-8"
    )


def _cues(one: SubtitleMatch) -> str:
    if one.first == one.last:
        return f"cue {one.first}"
    return f"cues {one.first} and {one.last}"


def _subtitles(video: Video, wanted: _Wanted) -> Subtitles:
    given = wanted.subtitles
    if isinstance(given, Subtitles):
        return given
    if hasattr(given, "read") and hasattr(given, "offset_s"):  # a SubtitleSource
        read: Subtitles = given.read(language=wanted.language)
        return read
    if given is not None:
        return read_subtitles(given, language=wanted.language)
    source = wanted.source
    if isinstance(source, Video):
        source = video.info.path
        if not os.path.isfile(source):
            raise _Missed(f"{source}: no subtitles were given, and it is no file")
    return read_subtitles(source, language=wanted.language)


def _by_timestamp(video: Video, wanted: _Wanted) -> _Found:
    begin, end = _span(video, wanted)
    for time in wanted.times:
        if begin <= time < end:
            return frame_at(video, time), time, 1.0, f"{float(time):.3f} s was given"
    listed = ", ".join(f"{float(time):.3f}" for time in wanted.times[:5])
    raise _Missed(f"the time given ({listed} s) is {_outside(video, wanted)}")


def _by_curve(video: Video, measure: Callable[[Video], Curve], wanted: Any) -> _Found:
    first, end = part_of(video, wanted.frames)[0]
    if end - first < 2:
        what = "clip has" if wanted.frames is None else "part asked about has"
        raise _Missed(f"the {what} one frame")
    curve = measure(video)
    if wanted.frames is not None:  # the step into the part is not one of it
        at = np.arange(len(curve.measured))
        inside = (at > first) & (at < end)
        curve = replace(curve, measured=curve.measured & inside)
    if not curve.measured.any():
        raise _Missed("no two sound frames follow each other")
    frame, value, over_mean = curve.peak(_RADIUS[curve.kind])
    what = (
        f"colours change by {value:.3f} of 1"
        if curve.kind == "histogram"
        else f"{value:.2f} pixels a frame"
    )
    time = (int(video.pts[frame]) - int(video.pts[0])) * video.info.time_base
    where = f"at {float(time):.3f} s (frame {frame})"
    if value < _LEAST[curve.kind]:
        raise _Missed(f"nothing stands out: {what} at most, {where}")
    if over_mean < wanted.least_peak:
        raise _Missed(
            f"nothing stands out: {what} at most, {where}, {over_mean:.2f} times the "
            "mean"
        )
    return frame, time, over_mean, f"{what} {where}, {over_mean:.1f} times the mean"


def _by_centre(video: Video, wanted: _Wanted) -> _Found:
    begin, end = _span(video, wanted)
    time = (begin + end) / 2
    what = "clip" if wanted.frames is None else "part asked about"
    why = f"the middle of the {what}, {float(time):.3f} s"
    return frame_at(video, time), time, 0.0, why


_FINDERS: dict[Kind, Callable[[Video, _Wanted], _Found]] = {
    "subtitle": _by_subtitle,
    "timestamp": _by_timestamp,
    "vectors": lambda video, wanted: _by_curve(video, vector_motion, wanted),
    "flow": lambda video, wanted: _by_curve(video, flow_motion, wanted),
    "histogram": lambda video, wanted: _by_curve(video, colour_change, wanted),
    "centre": _by_centre,
}
