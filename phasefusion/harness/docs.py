"""What a harness's document says of its question: options, right answer, id, video."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from phasefusion._sources.model import GoldKind
from phasefusion._sources.options import resolve_gold
from phasefusion.errors import OptionError

__all__ = ["Facts", "read_doc", "resolved_gold"]

Doc: TypeAlias = Mapping[str, Any]
Adapter: TypeAlias = Callable[[Doc], "Facts"]

_OPTION_LISTS = ("options", "candidates", "option", "choices", "mc_options")
_GOLDS = ("answer", "answer_id", "correct_choice", "gold", "label", "mc_answer")
_IDS = ("question_id", "q_uid", "qid", "id", "question_idx", "index")
_VIDEOS = ("videoID", "video_id", "video_idx", "video_name", "video", "video_path")
_TYPES = ("task_type", "type", "question_category", "dim", "question_type", "area")
_FILLERS = ("", "N/A", "nan")


@dataclass(frozen=True, slots=True)
class Facts:
    """A document as far as it says something.

    Attributes
    ----------
    question_id : str
        Empty where there is none.
    options : tuple of str or None
        As they stand there, labels included; None when they are in the prompt alone.
    gold : object
        In the form of the task; None when there is none.
    gold_kind : {"auto", "index", "letter", "text"}
        What form that is, where only one is possible.
    video_id, type : str
        Empty where there is none.
    """

    question_id: str = ""
    options: tuple[str, ...] | None = None
    gold: object = None
    gold_kind: GoldKind = "auto"
    video_id: str = ""
    type: str = ""


def read_doc(task: str, doc: Doc) -> Facts:
    """Read the document of a task: by its own rules where there are some.

    Parameters
    ----------
    task : str
        Name of the task; what it begins with chooses the rules.
    doc : mapping

    Returns
    -------
    Facts

    Examples
    --------
    >>> read_doc("videomme", {"question_id": "001-1", "options": ["A. x", "B. y"],
    ...     "answer": "B", "videoID": "abc"}).options
    ('A. x', 'B. y')
    >>> read_doc("nextqa_mc_test", {"video": 7, "qid": 3, "a0": "x", "a1": "y",
    ...     "answer": 1}).question_id
    '7_3'
    """
    name = task.lower()
    for prefix, adapter in _ADAPTERS.items():
        if name.startswith(prefix):
            return adapter(doc)
    return _generic(doc)


def resolved_gold(
    gold: object, options: Sequence[str], kind: GoldKind = "auto"
) -> tuple[int | None, str]:
    """Return the content index of the right option, and what is wrong with the gold.

    Examples
    --------
    >>> resolved_gold("B. red", ["blue", "red"])
    (1, '')
    """
    found = resolve_gold(gold, options, len(options), kind)
    if found.indices:
        return found.indices[0], ""
    return None, "" if found.kind == "gold missing" else found.reason


def _generic(doc: Doc) -> Facts:
    return Facts(
        question_id=_first(doc, _IDS),
        options=_options(doc),
        gold=_gold(doc),
        video_id=_video(doc),
        type=_first(doc, _TYPES),
    )


def _with_video(doc: Doc) -> Facts:
    """Ids are unique inside a video only (NExT-QA, Perception Test)."""
    facts = _generic(doc)
    name = f"{facts.video_id}_{facts.question_id}" if facts.question_id else ""
    return replace(facts, question_id=name)


def _egoschema(doc: Doc) -> Facts:
    """Take the video for the id, and an answer written as a text for a number."""
    facts = _numbered(_generic(doc))
    return replace(facts, question_id=facts.video_id or facts.question_id)


def _without_id(doc: Doc) -> Facts:
    """Position in the task is the only id (MLVU dev, TempCompass)."""
    return replace(_generic(doc), question_id="")


def _mvbench(doc: Doc) -> Facts:
    """Nor is there an id here, and the answer "0" is a text, not an index."""
    return replace(_generic(doc), question_id="", gold_kind="text")


def _perceptiontest(doc: Doc) -> Facts:
    return _numbered(_with_video(doc))


def _numbered(facts: Facts) -> Facts:
    """Take an answer that is an index written as a text for the index."""
    gold = facts.gold
    if isinstance(gold, str) and gold.strip().isdigit():
        gold = int(gold)
    return replace(facts, gold=gold, gold_kind="index")


_ADAPTERS: dict[str, Adapter] = {
    "egoschema": _egoschema,
    "mlvu_dev": _without_id,
    "mvbench": _mvbench,
    "nextqa": _with_video,
    "perceptiontest": _perceptiontest,
    "tempcompass": _without_id,
}


def _first(doc: Doc, names: Sequence[str]) -> str:
    for name in names:
        value = doc.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool):
            if str(value).strip():
                return str(value).strip()
    return ""


def _video(doc: Doc) -> str:
    found = _first(doc, _VIDEOS)
    return Path(found).stem if found else ""


def _gold(doc: Doc) -> object:
    for name in _GOLDS:
        if doc.get(name) is not None:
            value = doc[name]
            return value[0] if isinstance(value, list) and len(value) == 1 else value
    return None


def _options(doc: Doc) -> tuple[str, ...] | None:
    """Options in a list, or in columns a0, a1, ... or option0, ... or A, B, ..."""
    for name in _OPTION_LISTS:
        value = doc.get(name)
        if isinstance(value, list | tuple) and len(value) >= 2:
            return tuple(_text(name, part) for part in value)
    for columns in (
        [f"a{k}" for k in range(26)],
        [f"option{k}" for k in range(26)],
        [f"option_{k}" for k in range(26)],
        [f"option {k}" for k in range(26)],
        [chr(ord("A") + k) for k in range(26)],
    ):
        cells = [
            str(doc[name]).strip() for name in columns if doc.get(name) is not None
        ]
        while cells and cells[-1] in _FILLERS:
            cells.pop()
        if len(cells) >= 2:
            return tuple(cells)
    return None


def _text(name: str, part: object) -> str:
    if isinstance(part, Mapping):
        for key in ("choice", "text", "option", "content"):
            if isinstance(part.get(key), str):
                return str(part[key]).strip()
    if isinstance(part, str | int | float) and not isinstance(part, bool):
        return str(part).strip()
    raise OptionError(f"an option in {name!r} is {part!r}; it must be a text")
