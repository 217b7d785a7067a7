"""One multiple-choice question about one video, checked, with its subtitles."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

from phasefusion._results import Result
from phasefusion._wording import counted
from phasefusion.answers import LETTERS
from phasefusion.errors import DatasetError
from phasefusion.orders import MAX_LETTERS
from phasefusion.scoring.letters import first_equal, misplaced, strip_letters

if TYPE_CHECKING:
    from phasefusion.subtitles import Cue, Subtitles

_WORD_TIMES = {"start_time": "start", "end_time": "end"}


@dataclass(frozen=True, slots=True)
class SubtitleSource:
    """Where the subtitles of a question are; they are read when they are wanted.

    Attributes
    ----------
    path : str or None
        Absolute path of a subtitle file.
    text : str or None
        The subtitles themselves, where the question file has them.
    offset_s : float, default 0.0
        Time of the subtitles at which the video begins: subtitles of a longer video
        that this one was cut from.

    Examples
    --------
    >>> said = '[{"start": "00:00:12", "end": "00:00:14", "line": "hello"}]'
    >>> SubtitleSource(text=said, offset_s=10).read()[0].start_s
    2.0
    """

    path: str | None = None
    text: str | None = None
    offset_s: float = 0.0

    def read(self, *, language: str | None = None) -> Subtitles:
        """Read the cues, on the time axis of the video.

        Cues of what was cut off lie before 0 or after the end.

        Parameters
        ----------
        language : str, optional
            As in `phasefusion.subtitles.read_subtitles`.

        Returns
        -------
        Subtitles

        Raises
        ------
        VideoError, FileNotFoundError, BackendUnavailableError
            As `phasefusion.subtitles.read_subtitles` does.
        DatasetError
            If there is neither a path nor a text, or a line of words is no JSON.
        """
        from phasefusion.subtitles import read_subtitles

        source: str | bytes
        if self.path is not None:
            source = self.path
            if self.path.lower().endswith(".jsonl"):
                source = _words(Path(self.path))
        elif self.text is not None:
            source = self.text.encode("utf-8", "replace")
        else:
            raise DatasetError("a SubtitleSource needs a path or a text")
        found = read_subtitles(source, language=language)
        shift_us = round(self.offset_s * 1_000_000)
        cues = tuple(_shifted(cue, shift_us) for cue in found.cues)
        return replace(found, path=self.path or found.path, cues=cues)


def _shifted(cue: Cue, shift_us: int) -> Cue:
    return replace(cue, start_us=cue.start_us - shift_us, end_us=cue.end_us - shift_us)


def _words(path: Path) -> bytes:
    """Turn lines of one word each, with start_time and end_time, into cues."""
    cues = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            word = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DatasetError(f"{path}, line {number}: not JSON: {error}") from None
        if not isinstance(word, dict):
            raise DatasetError(f"{path}, line {number}: must be a JSON object")
        cues.append({_WORD_TIMES.get(name, name): word[name] for name in word})
    return json.dumps(cues).encode()


@dataclass(frozen=True, slots=True)
class Item(Result):
    """One multiple-choice question about one video.

    Attributes
    ----------
    question_id : str
        Unique within `benchmark`.
    benchmark : str
        Where the question comes from; the name of the question file by default. A
        version is part of it, as in "Video-MME@v2".
    video : str
        Absolute path of the video file.
    video_id : str
        Name of the video; questions about one video form a cluster. It is that of the
        file without its ending, or, where several files of a benchmark would have the
        same one, the path below the folder of the videos.
    question : str
        The question alone, without options or instructions.
    options : tuple of str
        2 to 26 option texts in content order; letters in front that run A, B, C, ...
        are taken off.
    gold : int or None
        Content index of the right option, 0-based; None when it is not known.
    type : str or None
        Kind of question, for breakdowns.
    start, end : float or None
        Bounds of the part of the video that is asked about, in seconds.
    extra : dict
        Fields of the question file that have no meaning here, kept as they were.
    strata : dict of str to str
        Further properties for breakdowns, such as "duration" or "domain".
    subtitles : SubtitleSource or None
        Where the subtitles are; None without.

    Raises
    ------
    DatasetError
        Naming the question, if its options cannot be lettered and told apart, or the
        gold is none of them.
    """

    question_id: str
    benchmark: str
    video: str
    video_id: str
    question: str
    options: tuple[str, ...]
    gold: int | None = None
    type: str | None = None
    start: float | None = None
    end: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    strata: Mapping[str, str] = field(default_factory=dict)
    subtitles: SubtitleSource | None = None

    def __post_init__(self) -> None:
        where = f"question {self.question_id!r}"
        options = checked_options(self.options, where)
        object.__setattr__(self, "options", options)
        if self.gold is None:
            return
        known = isinstance(self.gold, SupportsIndex) and not isinstance(self.gold, bool)
        if not known or int(self.gold) not in range(len(options)):
            raise DatasetError(
                f"{where}: gold {self.gold!r} is none of its {len(options)} options; "
                f"it must be 0..{len(options) - 1}, or None where it is not known"
            )
        object.__setattr__(self, "gold", int(self.gold))

    @property
    def same_options(self) -> tuple[int, ...]:
        """First option of equal text for each option; ``range(K)`` as a rule."""
        return first_equal(self.options)

    @property
    def golds(self) -> tuple[int, ...]:
        """Every option that is right: several where the right text is repeated.

        Examples
        --------
        >>> options = ("six", "three", "three", "eight")
        >>> Item("q", "b", "v.mp4", "v", "How many?", options, gold=2).golds
        (1, 2)
        """
        if self.gold is None:
            return ()
        same = self.same_options
        return tuple(k for k, first in enumerate(same) if first == same[self.gold])


def bounds(row: Mapping[str, Any], where: str) -> tuple[float | None, float | None]:
    """Start and end of the part that is asked about, in seconds.

    They are ``start`` and ``end``, or ``start_frame`` and ``end_frame`` (the first one
    that does not belong to it) with ``fps``.

    Raises
    ------
    DatasetError
        If they are no times, or the start is not before the end.

    Examples
    --------
    >>> bounds({"start_frame": 50, "end_frame": 75, "fps": 25}, "row 1")
    (2.0, 3.0)
    """
    found = []
    for name in ("start", "end"):
        value = _number(row, name, "seconds", where)
        if value is None:
            frame = _number(row, f"{name}_frame", "a frame number", where)
            if frame is not None:
                fps = _number(row, "fps", "frames a second", where)
                if not fps:
                    raise DatasetError(
                        f"{where}: {name}_frame needs fps to become seconds"
                    )
                value = frame / fps
        found.append(value)
    start, end = found
    if start is not None and end is not None and not start < end:
        raise DatasetError(f"{where}: start {start} s is not before end {end} s")
    return start, end


def _number(row: Mapping[str, Any], name: str, what: str, where: str) -> float | None:
    value = row.get(name)
    if value in (None, ""):
        return None
    try:
        number = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if not 0 <= number < float("inf"):
        raise DatasetError(f"{where}: {name} must be {what} >= 0, not {value!r}")
    return number


def checked_options(given: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the option texts without letters in front, or say what is wrong."""
    if isinstance(given, str) or not all(isinstance(text, str) for text in given):
        raise DatasetError(f"{where}: options must be a list of texts, not {given!r}")
    if not 2 <= len(given) <= MAX_LETTERS:
        raise DatasetError(
            f"{where}: has {counted(len(given), 'option')}; 2 to {MAX_LETTERS} can be "
            "lettered"
        )
    ambiguous = misplaced(given)
    if ambiguous:
        raise DatasetError(f"{where}: {ambiguous}")
    options, _ = strip_letters([text.strip() for text in given])
    for k, text in enumerate(options):
        if not text:
            raise DatasetError(f"{where}: option {k} is empty")
    if set(first_equal(options)) == {0}:
        raise DatasetError(f"{where}: all options read {options[0]!r}")
    return options


def lettered(options: Iterable[str]) -> tuple[str, ...]:
    """Put the letters in front that `Item` takes off, and nothing that looks like them.

    Examples
    --------
    >>> Item("q", "b", "v.mp4", "v", "What?", lettered(["A. x", "B. y"])).options
    ('A. x', 'B. y')
    """
    return tuple(f"{LETTERS[k]}. {text}" for k, text in enumerate(options))


def item_hash(item: Item) -> str:
    """Return a short hash of a question, as run.json has it."""
    facts = asdict(item) | {"video": Path(item.video).name}
    if item.subtitles is not None and item.subtitles.path is not None:
        facts["subtitles"]["path"] = Path(item.subtitles.path).name
    text = json.dumps(facts, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
