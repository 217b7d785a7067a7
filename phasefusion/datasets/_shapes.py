"""From the nesting of a file to rows, and from the first row to the benchmark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from phasefusion._sources.shapes import (
    UUID,
    benchmark_of,
    is_tempcompass,
    tempcompass_id,
    tempcompass_kind,
    tempcompass_rows,
)
from phasefusion.datasets._drafts import Row
from phasefusion.datasets._forms import CLIP, is_videomme_v2
from phasefusion.datasets._sources import Source, objects
from phasefusion.errors import DatasetError

#: Fields of rows of these, of which one at least is there.
_VIDEOMME = {"videoID", "task_type", "url", "group_type"}
_PERCEPTION = {"answer_id", "area", "reasoning", "tag"}


def rows_of(source: Source, name: str, task: str | None) -> Iterator[Row]:
    """Yield the questions of a file of a benchmark.

    Parameters
    ----------
    source : Source
    name : str
        The benchmark.
    task : str or None
        Task of all questions, where the file does not name it.

    Raises
    ------
    DatasetError
        Naming the place that is not of the form.
    """
    if name == "tempcompass":
        yield from _tempcompass(source)
        return
    if name == "perceptiontest" and isinstance(source.value, Mapping):
        yield from _perception(source, source.value)
        return
    if name == "mvbench" and isinstance(source.value, Mapping):
        for inner, value in source.value.items():
            part = replace(source, where=f"{source.where}, {inner}", value=value)
            yield from _listed(part, inner)
        return
    value = source.value
    if isinstance(value, Mapping):  # {"questions": [...]}, {"data": [...]}
        lists = [one for one in value.values() if isinstance(one, list)]
        if len(lists) != 1:
            raise DatasetError(f"{source.where}: must be a list of questions")
        source = replace(source, value=lists[0])
    if name == "mvbench" and source.file is None and task is None:
        task = _tasks_inside(source)
    for row in _listed(source, task or source.name):
        inside = row.fields.get("questions")
        if name.startswith("videomme") and isinstance(inside, list):
            video = {k: v for k, v in row.fields.items() if k != "questions"}
            for i, one in enumerate(objects(inside, row.where)):
                yield Row(f"{row.where}, question {i}", {**video, **one}, row.task, i)
        else:
            yield row


def _listed(source: Source, task: str) -> Iterator[Row]:
    """Rows of a list; they count within the tasks that they name."""
    places: Counter[str] = Counter()
    for i, fields in enumerate(objects(source.value, source.where)):
        own = fields.get("task")
        key = own if isinstance(own, str) and own else task
        yield Row(source.place(i), fields, key, places[key])
        places[key] += 1


def _tasks_inside(source: Source) -> str | None:
    """Refuse rows of MVBench of which nothing says the task: they have no other id."""
    for fields in objects(source.value, source.where):
        if not any(isinstance(fields.get(n), str) for n in ("task", "task_type")):
            raise DatasetError(
                f"{source.where}: rows of MVBench do not say their task, which is part "
                'of their id; pass task="action_sequence", or {task: rows}'
            )
    return None


def _perception(source: Source, videos: Mapping[str, Any]) -> Iterator[Row]:
    for video, about in videos.items():
        where = f"{source.where}, video {video!r}"
        if not isinstance(about, Mapping):
            raise DatasetError(f"{where}: must be an object with mc_question")
        shared = {"video_id": video, "metadata": about.get("metadata")}
        for i, one in enumerate(objects(about.get("mc_question", []), where)):
            yield Row(f"{where}, question {i}", {**one, **shared}, source.name, i)


def _tempcompass(source: Source) -> Iterator[Row]:
    """Rows with their ids as task: video, dimension, kind of task and place.

    The place is that in the list of the file; flat rows count by all the other parts.
    """
    places: Counter[tuple[str, str, str]] = Counter()
    for where, video, dimension, place, fields in _tempcompass_rows(source):
        kind = tempcompass_kind(fields)
        if place is None:
            place = places[video, dimension, kind]
            places[video, dimension, kind] += 1
        own = {**fields, "video_id": video, "dim": dimension}
        yield Row(where, own, tempcompass_id(video, dimension, kind, place), place)


def _tempcompass_rows(
    source: Source,
) -> Iterator[tuple[str, str, str, int | None, Mapping[str, Any]]]:
    if isinstance(source.value, Mapping):
        yield from tempcompass_rows(source.where, source.value)
        return
    for i, fields in enumerate(objects(source.value, source.where)):
        video, dimension = map(_plain_name, map(fields.get, ("video_id", "dim")))
        yield source.place(i), video, dimension, None, fields


def _plain_name(value: object) -> str:
    known = isinstance(value, str | int) and not isinstance(value, bool)
    return str(value) if known else ""


def detect(source: Source) -> str | None:
    """Tell the benchmark of a file by its nesting and its first row.

    Returns
    -------
    str or None
        "plain" for the project's own form; None for nothing known.
    """
    value = source.value
    if isinstance(value, Mapping):
        one = next(iter(value.values()), None)
        if isinstance(one, Mapping):
            if isinstance(one.get("mc_question"), list):
                return "perceptiontest"
            return "tempcompass" if is_tempcompass(value) else None
        lists = [inner for inner in value.values() if isinstance(inner, list)]
        value = lists[0] if len(lists) == 1 else None
    if not isinstance(value, list) or not value or not isinstance(value[0], Mapping):
        return None
    return _of_row(value[0], source)


def _of_row(row: Mapping[str, Any], source: Source) -> str | None:
    names = set(row)
    known = benchmark_of(row)
    if known == "videomme":
        return known
    if {"question_id", "video", "question"} <= names and _own_options(names):
        return "plain"
    if known == "egoschema" or "video_idx" in names:
        return "egoschema"
    if {"correct_choice", "starting_timestamp_for_subtitles"} & names:
        return "longvideobench"
    if known is not None:
        return known
    if {"video_id", "dim", "question"} <= names:
        return "tempcompass"
    if {"question_id", "choices", "question"} <= names and _numbered_choices(row):
        return "star"
    if {"video_name", "a0", "question"} <= names:
        return _of_table(row)
    if {"question_id", "question", "options"} <= names:
        if "video_id" in names and _VIDEOMME & names:
            return "videomme-v2" if is_videomme_v2(Row("", row)) else "videomme"
        if "video_name" in names and _PERCEPTION & names:
            return "perceptiontest"
    return _of_candidates(names)


def _numbered_choices(row: Mapping[str, Any]) -> bool:
    choices = row.get("choices")
    return isinstance(choices, list) and all(
        isinstance(one, Mapping) and "choice" in one for one in choices
    )


def _own_options(names: set[str]) -> bool:
    return "options" in names or bool({"A", "a0", "option_0", "option_1"} & names)


def _of_candidates(names: set[str]) -> str | None:
    if "candidates" in names and {"id", "video_path"} <= names:
        return "longvideobench"
    if "candidates" in names and {"question_type", "duration"} & names:
        return "mlvu"
    if {"video_name", "task_type", "question"} <= names:
        return "mlvu"
    if {"video", "candidates", "question"} <= names and "question_id" not in names:
        return "mvbench"
    return None


def _of_table(row: Mapping[str, Any]) -> str | None:
    """Tell apart the tables that others made of three benchmarks in one form."""
    video = str(row.get("video_name"))
    if UUID.fullmatch(video):
        return "egoschema"
    if CLIP.fullmatch(video):
        return "star"
    number = str(row.get("question_id")).removeprefix(video).lstrip("_")
    return "nextqa" if number.isdecimal() else None
