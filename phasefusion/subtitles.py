"""Subtitles of a media file or of a file of their own, as cues of plain text.

What is read: the text streams of any container (SubRip, ASS, WebVTT, MP4's timed text
and whatever else FFmpeg decodes to text), files of those formats, and the JSON of
Whisper and its relatives. Every cue has a start, an end and text without markup; the
text is found by phrase or regular expression with `Subtitles.find`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from phasefusion._install import FFMPEG
from phasefusion._languages import equivalent_codes, primary_code
from phasefusion._results import Result
from phasefusion._subtitle_json import RawCue, looks_like_json, read_json
from phasefusion._subtitle_search import compile_pattern, matches
from phasefusion._video_checks import positive, stream_number
from phasefusion._video_source import VideoSource, resolve
from phasefusion.errors import BackendUnavailableError, UsageError, VideoError

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["Cue", "SubtitleMatch", "SubtitleStream", "Subtitles", "read_subtitles"]

#: A cue whose end is not stated lasts until the next one starts, but no longer.
_MOST_CUE_US = 10_000_000
_SNIFF_BYTES = 256


@dataclass(frozen=True, slots=True)
class Cue:
    r"""What is said, or shown as text, for a stretch of time.

    Attributes
    ----------
    start_us, end_us : int
        Microseconds, ``start_us < end_us``. They may lie outside the video.
    text : str
        Without markup, lines separated by ``\n``, never empty.
    end_stated : bool, default True
        False when the file gives no end, or one that is not after the start: the cue
        then ends when the next later one starts, or 10 s after its start if that is
        sooner.
    place : int, default 0
        Place in the file, from 0, with the cues that were left out.

    Examples
    --------
    >>> cue = Cue(8_350_000, 12_470_000, "at NASA's Goddard Space Flight Center")
    >>> cue.start_s, cue.middle_s
    (8.35, 10.41)
    """

    start_us: int
    end_us: int
    text: str
    end_stated: bool = True
    place: int = 0

    @property
    def start_s(self) -> float:
        """Start in seconds."""
        return self.start_us / 1_000_000

    @property
    def end_s(self) -> float:
        """End in seconds."""
        return self.end_us / 1_000_000

    @property
    def middle_s(self) -> float:
        """Middle between start and end in seconds."""
        return (self.start_us + self.end_us) / 2_000_000


@dataclass(frozen=True, slots=True)
class SubtitleStream:
    """One subtitle stream, as its container describes it.

    Attributes
    ----------
    index : int
        Number of the stream in the container.
    codec : str
        FFmpeg's name: "subrip", "ass", "webvtt", "mov_text", ...
    language, title : str or None
        As tagged; None without a tag.
    n_cues : int or None
        Cues that were found; None where the stream was not read.
    is_default, is_forced : bool
        The container's marks; "forced" streams hold only what a viewer of the original
        needs.
    is_text : bool
        False for pictures of text, and for kinds that FFmpeg does not know.
    """

    index: int
    codec: str
    language: str | None
    title: str | None
    n_cues: int | None
    is_default: bool
    is_forced: bool
    is_text: bool


@dataclass(frozen=True, slots=True)
class SubtitleMatch(Result):
    """A place where a pattern was found.

    Attributes
    ----------
    first, last : int
        Indices of the first and the last cue, in `Subtitles.cues`; equal, or one apart
        for a phrase that runs over two cues.
    start_us, end_us : int
        From the start of the first cue to the end of the last, in microseconds. Where
        in a cue its words are said is not known.
    text : str
        What matched, in the form in which it was compared.
    """

    first: int
    last: int
    start_us: int
    end_us: int
    text: str

    @property
    def start_s(self) -> float:
        """Start in seconds."""
        return self.start_us / 1_000_000

    @property
    def end_s(self) -> float:
        """End in seconds."""
        return self.end_us / 1_000_000

    @property
    def middle_s(self) -> float:
        """Middle between start and end in seconds."""
        return (self.start_us + self.end_us) / 2_000_000


@dataclass(frozen=True, slots=True, repr=False)
class Subtitles(Result):
    """The cues of one subtitle stream or file.

    Attributes
    ----------
    path : str
    container : str
        FFmpeg's name of the file's format; "json" for a transcript.
    codec : str
        FFmpeg's name of the stream's format; "json" for a transcript.
    stream_index : int
        Number of the stream that was read.
    language : str or None
        As tagged or stated; None without.
    embedded : bool
        Whether they come from a media file, so that their times are those of
        `Video.times_s`. The times of a file of their own count from the start of the
        video, which is `VideoInfo.start_s`.
    cues : tuple of Cue
        By start; those that start together in the order of the file. They may overlap.
    streams : tuple of SubtitleStream
        All subtitle streams of the file.
    n_invalid : int
        Pieces that were no text in the file's encoding, each now one U+FFFD. Many of
        them mean that the encoding must be given.
    n_unreadable : int
        Cues left out because their time or their text cannot be read.
    n_empty, n_duplicate : int
        Cues left out because they show no text, or are the same as another in start,
        end and text.
    """

    path: str
    container: str
    codec: str
    stream_index: int
    language: str | None
    embedded: bool
    cues: tuple[Cue, ...]
    streams: tuple[SubtitleStream, ...]
    n_invalid: int = 0
    n_unreadable: int = 0
    n_empty: int = 0
    n_duplicate: int = 0

    def __len__(self) -> int:
        return len(self.cues)

    def __iter__(self) -> Iterator[Cue]:
        return iter(self.cues)

    def __getitem__(self, index: SupportsIndex) -> Cue:
        return self.cues[index]

    def __repr__(self) -> str:
        language = f", {self.language}" if self.language else ""
        return f"<Subtitles {self.path!r}: {len(self)} cues, {self.codec}{language}>"

    def find(
        self, pattern: str, *, regex: bool = False, ignore_case: bool = True
    ) -> tuple[SubtitleMatch, ...]:
        r"""Cues that say something, in the order of their start.

        Text and phrase are compared after Unicode's NFKC (and case folding), with
        quotation marks, apostrophes and dashes in one form (' " -), without invisible
        characters, and with white space as one space; scripts that set no space between
        words (Chinese, Japanese, Thai, Lao, Burmese, Khmer) are compared without.

        A phrase may begin in one cue and end in the next one if that starts within
        three seconds. A cue matches at most once, two neighbours together only if
        neither does alone.

        Parameters
        ----------
        pattern : str
            A phrase, found anywhere, also inside words.
        regex : bool, default False
            Whether it is a regular expression of `re`. It sees the text as described,
            in its own case: write ``'`` and ``-`` for all their kinds, one space for
            line ends. ``\b`` bounds words. What matches no character is no match.
        ignore_case : bool, default True

        Returns
        -------
        matches : tuple of SubtitleMatch
            Empty when it is never said.

        Raises
        ------
        VideoError
            If the phrase is empty or the expression is none.

        Examples
        --------
        >>> said = (Cue(0, 4_000_000, "one of the largest"),
        ...         Cue(4_000_000, 8_000_000, "cleanrooms in the WORLD"))
        >>> subtitles = Subtitles("a.srt", "srt", "subrip", 0, None, False, said, ())
        >>> [match.start_s for match in subtitles.find("world")]
        [4.0]
        >>> subtitles.find("Largest Cleanrooms")[0].last
        1
        >>> subtitles.find(r"\bclean\b", regex=True)
        ()
        """
        find = compile_pattern(pattern, regex, ignore_case)
        cues = self.cues
        return tuple(
            SubtitleMatch(first, last, cues[first].start_us, cues[last].end_us, text)
            for first, last, text in matches(cues, find, ignore_case)
        )


def _backend() -> ModuleType:
    try:
        from phasefusion import _video
    except ImportError as error:
        raise BackendUnavailableError(
            f"subtitles cannot be read: {error}; {FFMPEG}"
        ) from error
    return _video


def _languages(language: str | None) -> str | None:
    """Codes to look for, with commas between them."""
    if language is None:
        return None
    if isinstance(language, str):
        codes = equivalent_codes(language)
        if all(code.isascii() and code.isalnum() for code in codes):
            return ",".join(codes)
    raise VideoError(
        f'language={language!r} must be None or a code such as "en", "eng" or "pt-BR"'
    )


def _check_encoding(encoding: str | None) -> None:
    if encoding is None:
        return
    try:
        "".encode(encoding)  # refuses what is no text encoding, too
    except (LookupError, TypeError, ValueError):
        raise UsageError(
            f"encoding={encoding!r} must be None or a text encoding that Python knows"
        ) from None


def _read_file(path: str | os.PathLike[str] | os.PathLike[bytes], most: int) -> bytes:
    with open(path, "rb") as file:
        data = file.read(most + 1)
    return data


def _all_bytes(name: Any, data: Any, max_text_bytes: int) -> bytes:
    """All bytes of a subtitle file, within the limit."""
    whole = _read_file(name, max_text_bytes) if data is None else bytes(data)
    if len(whole) > max_text_bytes:
        raise VideoError(
            f"{os.fsdecode(name)}: it has more bytes of text than "
            f"max_text_bytes={max_text_bytes} allows; pass a higher max_text_bytes to "
            "read it"
        )
    return whole


def _start_of(name: Any, data: Any) -> bytes:
    """Return the first bytes; none for what is no regular file, which C refuses."""
    if data is not None:
        return bytes(data[:_SNIFF_BYTES])
    if not os.path.isfile(name):
        return b""
    with open(name, "rb") as file:
        return file.read(_SNIFF_BYTES)


def _recoded(data: bytes, encoding: str) -> tuple[bytes, int]:
    """Text as UTF-8, and how many pieces of it were none."""
    text = data.decode(encoding, "replace")
    return text.encode("utf-8", "replace"), text.count("\ufffd")


def _finished(raw: list[RawCue]) -> tuple[tuple[Cue, ...], int, int]:
    """Cues in order, and how many were empty and duplicates; see Cue and Subtitles."""
    seen = set()
    kept: list[tuple[int, int | None, str, int]] = []
    n_empty = n_duplicate = 0
    for place, (start_us, given_us, text) in enumerate(raw):
        lines = [line for line in map(str.strip, text.splitlines()) if line]
        end_us = given_us if given_us is not None and given_us > start_us else None
        content = (start_us, end_us, "\n".join(lines))
        if not lines:
            n_empty += 1
        elif content in seen:
            n_duplicate += 1
        else:
            seen.add(content)
            kept.append((*content, place))
    kept.sort(key=lambda cue: (cue[0], cue[3]))
    cues: list[Cue] = []
    later_us = start_below = None
    for start_us, end, text, place in reversed(kept):
        if start_below is not None and start_below > start_us:
            later_us = start_below
        start_below = start_us
        end_us = start_us + _MOST_CUE_US
        if later_us is not None:
            end_us = min(end_us, later_us)
        cues.append(
            Cue(start_us, end_us if end is None else end, text, end is not None, place)
        )
    return tuple(reversed(cues)), n_empty, n_duplicate


def _without_surrogates(text: str) -> str:
    """Replace the halves of surrogate pairs that JSON can write and no text holds."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _from_json(
    name: str, data: bytes, stream: int, language: str | None, max_cues: int
) -> Subtitles:
    raw, stated = read_json(name, data, max_cues)
    if stream > 0:
        raise VideoError(f"{name}: it has no subtitle stream of that index ({stream})")
    wanted = equivalent_codes(language) if language is not None else ()
    # Whisper states "en" or "english"; only codes can be told apart.
    code = primary_code(stated) if stated is not None else ""
    if wanted and 2 <= len(code) <= 3 and code not in wanted:
        raise VideoError(
            f"{name}: it has no subtitles in that language (language={language!r}, "
            f"it states {stated!r})"
        )
    clean = [(start, end, _without_surrogates(text)) for start, end, text in raw]
    n_invalid = sum(
        text.count("\ufffd") - before[2].count("\ufffd")
        for before, (_, _, text) in zip(raw, clean, strict=True)
    )
    cues, n_empty, n_duplicate = _finished(clean)
    about = SubtitleStream(0, "json", stated, None, len(cues), False, False, True)
    return Subtitles(
        path=name,
        container="json",
        codec="json",
        stream_index=0,
        language=stated,
        embedded=False,
        cues=cues,
        streams=(about,),
        n_invalid=n_invalid,
        n_empty=n_empty,
        n_duplicate=n_duplicate,
    )


def read_subtitles(
    source: VideoSource,
    *,
    stream: Literal["best"] | SupportsIndex = "best",
    language: str | None = None,
    encoding: str | None = None,
    max_cues: SupportsIndex = 2**20,
    max_text_bytes: SupportsIndex = 2**26,
) -> Subtitles:
    r"""Read the subtitles of a media file, or a subtitle file.

    SubRip and WebVTT files are read as they are found: with times like ``0:5`` or
    ``00:00:00,1`` (a decimal fraction: 0.1 s), without numbers, unsorted, with blank
    lines inside a cue, UTF-8 or UTF-16 with or without byte order mark. Everything else
    goes through FFmpeg. Markup is taken out (tags, ASS overrides and drawings), and
    entities become characters.

    JSON is read in the forms of Whisper, WhisperX and faster-whisper (``segments``, or
    a list of segments), whisper.cpp (``transcription``), transformers' speech pipeline
    (``chunks``) and LongVideoBench.

    Parameters
    ----------
    source : str or path-like, bytes-like, or binary file object
        As for `Video`.
    stream : "best" or int, default "best"
        Stream to read, as numbered by the container. "best" is a stream of text with
        any cue, not forced, marked default, with the most cues, of the lowest index;
        what comes first decides.
    language : str or None, default None
        Only streams in this language: "en", "eng" and "en-US" are the same. A file of
        its own that states no language is taken for one that fits.
    encoding : str or None, default None
        Encoding of a subtitle file that is neither UTF-8 nor UTF-16, such as "cp1251".
    max_cues : int, default 2**20
        Refuse files with more cues.
    max_text_bytes : int, default 2**26
        Refuse files with more bytes of text.

    Returns
    -------
    subtitles : Subtitles

    Raises
    ------
    FileNotFoundError, PermissionError
        If the file cannot be opened.
    VideoError
        If it holds no such subtitles, only pictures of text, is damaged beyond reading,
        or is beyond a limit.
    BackendUnavailableError
        If phasefusion was built without FFmpeg.

    Examples
    --------
    >>> srt = b"1\n00:00:08,350 --> 00:00:12,470\n<i>at NASA&#8217;s Goddard</i>\n"
    >>> subtitles = read_subtitles(srt)
    >>> subtitles[0].text, subtitles[0].start_s
    ('at NASA’s Goddard', 8.35)
    >>> len(subtitles.find("nasa's"))
    1
    """
    number = stream_number(stream)
    languages = _languages(language)
    _check_encoding(encoding)
    most_cues = positive("max_cues", max_cues, 2**31 - 1)
    most_bytes = positive("max_text_bytes", max_text_bytes, 2**40)
    name, data = resolve(source, 2**53)
    text_name = os.fsdecode(name)
    n_invalid = 0
    if encoding is not None:
        text, n_invalid = _recoded(_all_bytes(name, data, most_bytes), encoding)
        data = memoryview(text)
    if looks_like_json(_start_of(name, data)):
        whole = _all_bytes(name, data, most_bytes)
        return _from_json(text_name, whole, number, language, most_cues)
    raw: dict[str, Any] = _backend().read_subtitles(
        name, data, number, languages, most_cues, most_bytes
    )
    streams = tuple(SubtitleStream(*row) for row in raw["streams"])
    about = streams[raw["chosen"]]
    return Subtitles(
        path=text_name,
        container=raw["container"],
        codec=about.codec,
        stream_index=about.index,
        language=about.language,
        embedded=raw["embedded"],
        cues=tuple(Cue(*row) for row in raw["cues"]),
        streams=streams,
        n_invalid=raw["n_invalid"] + n_invalid,
        n_unreadable=raw["n_unreadable"],
        n_empty=raw["n_empty"],
        n_duplicate=raw["n_duplicate"],
    )
