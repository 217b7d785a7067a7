"""How anchors are found and windows laid for many questions, as a run records it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from phasefusion import _checks
from phasefusion.anchors.finding import (
    METHODS,
    Method,
    SubtitlesToRead,
    check_methods,
    check_phrase,
    find_anchor,
    seconds_of,
)
from phasefusion.anchors.records import Anchor, Attempt
from phasefusion.anchors.windows import (
    Align,
    AtEnd,
    Share,
    WindowGrid,
    anchor_window,
    window_length,
)
from phasefusion.errors import DatasetError, UsageError, VideoError
from phasefusion.grid import PhaseGrid

if TYPE_CHECKING:
    from phasefusion.video import Video

__all__ = ["AnchorRule", "AnchoredGrid", "Placed"]

#: What one question asks of its video; questions that share it share the window.
Request: TypeAlias = "tuple[str | None, Any, tuple[Any, ...]]"


class Question(Protocol):
    """A question, as `phasefusion.datasets.Item`."""

    @property
    def question_id(self) -> str:
        """Its id."""

    @property
    def extra(self) -> Mapping[str, Any]:
        """Fields of the question file that have no meaning of their own."""

    @property
    def subtitles(self) -> SubtitlesToRead | None:
        """Subtitles that the question file names."""


@dataclass(frozen=True, slots=True)
class Placed:
    """An anchor, and the window there.

    Attributes
    ----------
    anchor : Anchor
    first, end : int
        Frames of the window, ``first <= i < end``, counted from the start of the clip.
    """

    anchor: Anchor
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class AnchorRule:
    """Where the windows of a run are.

    Parameters
    ----------
    methods : sequence of str
        As for `find_anchor`; without "centre", videos in which none of them finds
        anything have no anchored passes.
    phrase : str, optional
        What to look for in the subtitles of every question.
    phrase_field : str, optional
        Field of the question file that holds the phrase of its question.
    times_s : float, str or tuple of them, optional
        Times of every question.
    times_field : str, optional
        Field that holds the time of its question, or a list of them.
    at, least_peak
        As for `find_anchor`.
    window, window_s, align, at_end
        As for `anchor_grid`.

    Raises
    ------
    UsageError, GridError
        If an argument cannot be.

    Examples
    --------
    >>> AnchorRule(phrase="the border").to_dict()["methods"]
    ['subtitle', 'timestamp', 'motion', 'histogram', 'centre']
    """

    methods: tuple[Method, ...] = METHODS
    phrase: str | None = None
    phrase_field: str | None = None
    times_s: float | str | tuple[float | str, ...] | None = None
    times_field: str | None = None
    at: Literal["start", "middle", "end"] = "start"
    least_peak: float = 2.0
    window: Share | None = None
    window_s: float | Fraction | None = None
    align: Align | None = None
    at_end: AtEnd = "shift"

    def __post_init__(self) -> None:
        if isinstance(self.times_s, list):
            object.__setattr__(self, "times_s", tuple(self.times_s))
        kinds = check_methods(self.methods)
        object.__setattr__(self, "methods", tuple(self.methods))
        for one, other in (("phrase", "phrase_field"), ("times_s", "times_field")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise UsageError(f"{one} and {other} exclude each other")
        for kind, names in (
            ("subtitle", ("phrase", "phrase_field")),
            ("timestamp", ("times_s", "times_field")),
        ):
            given = [name for name in names if getattr(self, name) is not None]
            if given and kind not in kinds:
                raise UsageError(
                    f"{given[0]}={getattr(self, given[0])!r} was given, and {kind!r} "
                    f"is not among methods={list(self.methods)!r}"
                )
        check_phrase(self.phrase)
        _times(self.times_s)
        _checks.one_of("at", self.at, ("start", "middle", "end"))
        _checks.one_of("at_end", self.at_end, ("shift", "cut"))
        if self.align is not None:
            _checks.one_of("align", self.align, ("start", "centre"))
        if not self.least_peak >= 1.0:
            raise UsageError(f"least_peak={self.least_peak!r} must be 1 or more")
        if self.window is not None or self.window_s is not None:
            window_length(self.window, self.window_s, Fraction(1), Fraction(1))

    def to_dict(self) -> dict[str, Any]:
        """Return what was set as JSON values, for run.json."""
        found: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Fraction):
                value = str(value)
            found[field.name] = list(value) if isinstance(value, tuple) else value
        return found

    def request(self, item: Question) -> Request:
        """Return what a question asks for: a phrase, its subtitles, and times.

        Raises
        ------
        DatasetError
            If a field of it holds no text, or no time.
        """
        phrase, times = self.phrase, self.times_s
        where = f"question {item.question_id!r}"
        if self.phrase_field is not None:
            phrase = item.extra.get(self.phrase_field)
            if phrase is not None and not isinstance(phrase, str):
                raise DatasetError(
                    f"{where}: {self.phrase_field}={phrase!r} must be a text, the "
                    "phrase to look for"
                )
            phrase = phrase.strip() or None if phrase is not None else None
        if self.times_field is not None:
            times = item.extra.get(self.times_field)
            if isinstance(times, str) and not times.strip():
                times = None
            times = tuple(times) if isinstance(times, list) else times
        try:
            found = _times(times)
        except UsageError as error:
            raise DatasetError(f"{where}: {self.times_field}: {error}") from None
        return phrase, item.subtitles if phrase is not None else None, found

    def check(self, items: Sequence[Question]) -> None:
        """Refuse questions that do not have what the rule goes by.

        Raises
        ------
        DatasetError
            If none of them has a field that is named, or as `request`.
        """
        for field in (self.phrase_field, self.times_field):
            if field is not None and not any(field in item.extra for item in items):
                known = sorted({name for item in items for name in item.extra})
                raise DatasetError(
                    f"no question has a field {field!r} to find its anchor by; further "
                    f"fields are {', '.join(known) or 'none'}"
                )
        for item in items:
            self.request(item)

    def place(
        self,
        video: Video,
        *,
        phrase: str | None = None,
        subtitles: SubtitlesToRead | None = None,
        times_s: Any = None,
        frames: tuple[int, int] | None = None,
    ) -> Placed:
        """Find the anchor and the window of one question.

        Subtitles that cannot be opened are an attempt that failed, like those without
        the phrase.

        Parameters
        ----------
        video : Video
        phrase, subtitles, times_s
            What `request` gave.
        frames : (int, int), optional
            The part that is asked about.

        Raises
        ------
        UsageError, GridError, VideoError
            As `find_anchor` and `anchor_grid`.

        Warns
        -----
        FallbackWarning
            As `find_anchor`.
        """
        methods: Sequence[Method] = self.methods
        failed: tuple[Attempt, ...] = ()
        said: dict[str, Any] = {"phrase": phrase, "subtitles": subtitles}
        if phrase is not None and subtitles is not None:
            try:
                said["subtitles"] = subtitles.read()
            except (OSError, DatasetError, VideoError) as error:
                failed = (Attempt("subtitle", "failed", str(error)),)
                methods = [one for one in methods if one != "subtitle"]
                said = {}
                if not methods:  # as where no method finds anything
                    raise VideoError(f"{video.info.path}: no anchor: {error}") from None
        anchor = find_anchor(
            video,
            **said,
            times_s=None if isinstance(times_s, tuple) and not times_s else times_s,
            at=self.at,
            methods=methods,
            least_peak=self.least_peak,
            frames=frames,
        )
        here = f"{video.info.path}: "  # a record knows its video
        tried = tuple(
            replace(one, why=one.why.removeprefix(here))
            for one in (*failed, *anchor.tried)
        )
        anchor = replace(anchor, tried=tried)
        first, end = anchor_window(
            video,
            anchor,
            window=self.window,
            window_s=self.window_s,
            align=self.align,
            at_end=self.at_end,
            frames=frames,
        )
        return Placed(anchor, first, end)


def _times(value: Any) -> tuple[Any, ...]:
    """Check times, and return them as a tuple."""
    if value is None:
        return ()
    times = value if isinstance(value, tuple) else (value,)
    for time in times:
        seconds_of(time)
    return times


@dataclass(frozen=True, slots=True, init=False, repr=False)
class AnchoredGrid(WindowGrid):
    """A `WindowGrid` that knows why it is there.

    Parameters
    ----------
    grid : PhaseGrid
        Over a whole clip.
    placed : Placed
    offset : int, default 0
        Frame of the clip that the grid calls 0: the first of the part asked about.
    """

    placed: Placed

    def __init__(self, grid: PhaseGrid, placed: Placed, offset: int = 0) -> None:
        WindowGrid.__init__(
            self,
            placed.first - offset,
            placed.end - offset,
            grid.budget,
            grid.phases,
            grid.origin,
            by=grid.by,
            short=grid.short,
        )
        object.__setattr__(self, "placed", placed)

    def record(self, *, whole: bool) -> Mapping[str, Any]:
        """Return what a pass records of its anchor, all that was tried if `whole`."""
        anchor = self.placed.anchor
        found = {"kind": anchor.kind, "frame": anchor.frame}
        if whole:
            found = anchor.to_dict()
        return {**found, "window": [self.placed.first, self.placed.end]}
