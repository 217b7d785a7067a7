"""Requests of lmms-eval, read: the question of each, and how its task shows it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phasefusion._sources.options import order_of
from phasefusion.datasets import Item
from phasefusion.errors import (
    DatasetError,
    OptionError,
    PhaseFusionError,
    ScoringError,
)
from phasefusion.harness.docs import Facts, read_doc, resolved_gold
from phasefusion.harness.prompts import AsShown, ShownOptions, find_options
from phasefusion.scoring.letters import strip_letters

__all__ = ["Asked", "one_turn", "read_request", "repeated_ids"]

#: In front of the number of a document that has no id of its own; no id of a document
#: that begins so is taken.
_POSITION = "#"
#: Columns that no id is read from, and that are slow to read.
_SLOW = ("Image", "Audio")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: its question, and how the task shows it.

    Attributes
    ----------
    item : Item
    arguments : tuple
        As the harness gave them.
    messages : tuple of mapping
        As the task makes them.
    shown : ShownOptions
        The text of the messages that has the options.
    problem : str
        What is wrong with the gold; empty when nothing is.
    """

    item: Item
    arguments: tuple[Any, ...]
    messages: tuple[Mapping[str, Any], ...]
    shown: ShownOptions
    problem: str = ""


def read_request(
    arguments: tuple[Any, ...],
    doc: Mapping[str, Any],
    repeated: Collection[str],
    prompt_key: str = "",
) -> Asked:
    """Read a request of a chat model.

    Parameters
    ----------
    arguments : tuple
        Context, messages of a document, generation settings, number of the document,
        task and split.
    doc : mapping
        The document.
    repeated : collection of str
        Ids that name several documents of the task, see `repeated_ids`. Such a
        document, and one without an id, is called ``#`` and its number.
    prompt_key : str
        Whose prompt the task shall make, if it has one.

    Raises
    ------
    OptionError
        If no lettered options are in its prompt.
    DatasetError
        If it is not about one video, or its options cannot be told apart.
    """
    _, to_messages, _, doc_id, task, _ = arguments
    with _prompt_of(to_messages, prompt_key):
        messages = tuple(to_messages(doc))
    facts = read_doc(task, doc)
    shown = _shown(messages, facts)
    video, start, end = _video(messages)
    gold, problem = _gold(facts, shown)
    name = facts.question_id
    if not name or name in repeated or name.startswith(_POSITION):
        name = f"{_POSITION}{doc_id}"
    item = Item(
        question_id=name,
        benchmark=task,
        video=video,
        video_id=facts.video_id or Path(video).stem,
        question=shown.head.strip() or "?",
        options=shown.texts,
        gold=gold,
        type=facts.type or None,
        start=start,
        end=end,
    )
    return Asked(item, arguments, messages, shown, problem)


def _gold(facts: Facts, shown: ShownOptions) -> tuple[int | None, str]:
    """Return the right option as the prompt shows it.

    The gold counts in the document's own order, which a prompt may change.
    """
    if facts.options is None:
        return resolved_gold(facts.gold, shown.texts, facts.gold_kind)
    own, _ = strip_letters(facts.options)
    index, problem = resolved_gold(facts.gold, own, facts.gold_kind)
    if index is None:
        return None, problem
    if len(own) != len(shown.texts):
        return None, f"the prompt shows {len(shown.texts)} options of {len(own)}"
    try:
        return order_of(shown.texts, own).index(index), problem
    except OptionError:  # shortened texts, in their own order
        return index, problem


def one_turn(
    messages: Sequence[Mapping[str, Any]], shown: ShownOptions, system: str
) -> AsShown:
    """Return the prompt of messages of the one form that our own scorer writes."""
    rest = list(messages)
    if rest and rest[0]["role"] == "system":
        first = rest.pop(0)["content"]
        system = first if isinstance(first, str) else "".join(p["text"] for p in first)
    kinds = [part.get("type") for part in rest[0]["content"]] if len(rest) == 1 else []
    if len(rest) != 1 or rest[0]["role"] != "user" or kinds != ["video", "text"]:
        raise ScoringError(
            "the task's messages are not one turn of the user with the video and then "
            f"one text ({[m['role'] for m in messages]}, {kinds}); phasefusion_wrap "
            "takes them as they are"
        )
    return AsShown(shown, system or None)


def _shown(messages: Sequence[Mapping[str, Any]], facts: Facts) -> ShownOptions:
    """Find the options in the texts of the messages, by the document's where it can."""
    texts = [
        part["text"]
        for message in messages
        if message["role"] == "user" and not isinstance(message["content"], str)
        for part in message["content"]
        if part.get("type") == "text"
    ]
    problem = OptionError("the task's messages have no text")
    for text in reversed(texts):
        for options in (facts.options, None) if facts.options else (None,):
            try:
                return find_options(text, options)
            except OptionError as error:
                problem = error
    raise problem


def _video(
    messages: Sequence[Mapping[str, Any]],
) -> tuple[str, float | None, float | None]:
    """Path, start and end of the one video of the messages."""
    videos = [
        part
        for message in messages
        if not isinstance(message["content"], str)
        for part in message["content"]
        if part.get("type") in ("video", "image", "audio")
    ]
    if len(videos) != 1 or videos[0]["type"] != "video":
        kinds = [part["type"] for part in videos]
        raise DatasetError(f"the prompt needs one video and nothing else, has {kinds}")
    url, part = videos[0]["url"], videos[0]
    start, end = part.get("start_time"), part.get("end_time")
    if isinstance(url, Mapping):
        start = url.get("video_start", start)
        end = url.get("video_end", end)
        url = url.get("url") or url.get("path") or url.get("video")
    if not isinstance(url, str):
        raise DatasetError(f"the video is {type(url).__name__}; it must be a path")
    return (
        url,
        None if start is None else float(start),
        None if end is None else float(end),
    )


@contextlib.contextmanager
def _prompt_of(to_messages: Callable[..., Any], key: str) -> Iterator[None]:
    """Let the task make the prompt that it has for another model, if it has one."""
    task = getattr(to_messages, "__self__", None)
    given = getattr(getattr(task, "config", None), "lmms_eval_specific_kwargs", None)
    if not key or task is None or not isinstance(given, dict) or key not in given:
        yield
        return
    before = task.lmms_eval_specific_kwargs
    task.lmms_eval_specific_kwargs = given[key]
    try:
        yield
    finally:
        task.lmms_eval_specific_kwargs = before


def repeated_ids(task: str, docs: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Ids that name several documents of a task, so that they name none.

    Parameters
    ----------
    task : str
    docs : iterable of mapping
        All documents of its split, so that a document is called the same whichever of
        them a process is asked.

    Examples
    --------
    >>> sorted(repeated_ids("t", [{"id": "a"}, {"id": "b"}, {"id": "a"}, {}]))
    ['a']
    """
    seen: set[str] = set()
    found: set[str] = set()
    for doc in _readable(docs):
        try:
            name = read_doc(task, doc).question_id
        except PhaseFusionError:
            continue
        if name in seen:
            found.add(name)
        seen.add(name)
    return frozenset(found - {""})


def _readable(docs: Any) -> Iterable[Mapping[str, Any]]:
    """Leave out the columns of a data set that would be decoded for nothing."""
    features = getattr(docs, "features", None) or {}
    slow = [name for name, kind in features.items() if type(kind).__name__ in _SLOW]
    if slow:
        docs = docs.remove_columns(slow)
    return docs.values() if isinstance(docs, Mapping) else docs
