"""Readers of one row of every benchmark, in each form that it is published in."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from phasefusion._sources.files import number
from phasefusion._sources.model import GoldKind, RawQuestion
from phasefusion._sources.rows import GOLDS, first
from phasefusion._sources.shapes import UUID, embedded, find_options, tempcompass_asked
from phasefusion.datasets._drafts import (
    Draft,
    Row,
    index_and_text,
    index_gold,
    misspelt,
    text_gold,
    without_filler,
)
from phasefusion.errors import DatasetError

#: A clip that is named after its video, its start and its end in seconds.
CLIP = re.compile(r"(?P<video>.+)_(?P<start>\d+(?:\.\d+)?)_(?P<end>\d+(?:\.\d+)?)")
_YOUTUBE = re.compile(r"(?:v=|youtu\.be/|/embed/|/shorts/)([\w-]{11})")

#: Folders of MVBench's videos, by task: names recur from folder to folder.
_MVBENCH_FOLDERS = {
    "action_sequence": "star/",
    "action_prediction": "star/",
    "action_antonym": "ssv2_video/",
    "fine_grained_action": "Moments_in_Time_Raw/",
    "unexpected_action": "FunQA_test/",
    "object_existence": "clevrer/",
    "object_interaction": "star/",
    "object_shuffle": "perception/",
    "moving_direction": "clevrer/",
    "action_localization": "sta/",
    "scene_transition": "scene_qa/",
    "action_count": "perception/",
    "moving_count": "clevrer/",
    "moving_attribute": "clevrer/",
    "state_change": "perception/",
    "fine_grained_pose": "nturgbd/",
    "character_order": "perception/",
    "egocentric_navigation": "vlnqa/",
    "episodic_reasoning": "tvqa/",
    "counterfactual_inference": "clevrer/",
}


def egoschema(row: Row) -> Draft:
    """Read a question of EgoSchema: questions.json, hub tables, and tables of others.

    The id is the uuid, which names the video too, wherever it stands: a column
    question_id can hold something else.
    """
    names = ("q_uid", "uid", "video_uid", "video_name", "video_idx", "video", "id")
    values = [row.fields.get(name) for name in names]
    uuids = [v for v in values if isinstance(v, str) and UUID.fullmatch(v)]
    video = uuids[0] if uuids else row.file(*names)
    uid = video.strip()
    gold = first(row.fields, GOLDS)
    question = RawQuestion(
        where=row.where,
        question_id=uid,
        benchmark="EgoSchema",
        question=row.text("question"),
        options=find_options(row.fields),
        gold=gold,
        gold_kind=index_gold(gold),
        video_id=uid,
    )
    return Draft(question, (video,), bounds=row.fields, extra=row.extra())


def mvbench(row: Row) -> Draft:
    """Read a question of MVBench; it has no id but its task and place."""
    task = row.maybe("task", "task_type") or row.task
    video = row.file("video", "video_path", "video_name")
    options = find_options(row.fields)
    gold = row.fields.get("answer")
    question = RawQuestion(
        where=row.where,
        question_id=f"{task}/{row.place}",
        benchmark="MVBench",
        question=row.text("question"),
        options=options,
        gold=gold,
        gold_kind="text" if isinstance(gold, str) else "auto",
        video_id=stem(video),
        type=task,
    )
    return Draft(
        question,
        (video,),
        hint=_MVBENCH_FOLDERS.get(task.lower().replace(" ", "_").replace("-", "_"), ""),
        bounds=row.fields,
        extra=row.extra("video"),
    )


def videomme(row: Row) -> Draft:
    """Read a question of Video-MME; its videos are named by their YouTube ids."""
    return _videomme(row, "Video-MME")


def videomme_v2(row: Row) -> Draft:
    """Read a question of Video-MME v2, whose ids are also those of v1."""
    return _videomme(row, "Video-MME@v2")


def is_videomme_v2(row: Row) -> bool:
    """Whether a row is of the second version: groups of questions, eight options."""
    options = find_options(row.fields)
    return "group_type" in row.fields or (options is not None and len(options) > 4)


def _videomme(row: Row, benchmark: str) -> Draft:
    question_id = row.name("question_id")
    video_id = row.name("video_id", "videoID")
    if is_videomme_v2(row) != benchmark.endswith("@v2"):
        other = "videomme" if benchmark.endswith("@v2") else "videomme-v2"
        raise DatasetError(
            f"{row.where}: is of the other version of Video-MME, whose ids are the "
            f"same; read it as {other!r}"
        )
    on_youtube = _YOUTUBE.search(row.text("url") or "")
    last = row.file("video_id", "videoID")
    names = (row.maybe("videoID"), on_youtube[1] if on_youtube else None, last)
    videos = tuple(dict.fromkeys(name for name in names if name))
    question = RawQuestion(
        where=row.where,
        question_id=question_id,
        benchmark=benchmark,
        question=row.text("question"),
        options=find_options(row.fields),
        gold=row.fields.get("answer"),
        gold_kind="auto",
        video_id=video_id,
        type=row.maybe("task_type", "third_head"),
        strata=row.strata(
            "duration",
            "domain",
            "sub_category",
            "task_type",
            "level",
            "group_type",
            "second_head",
            "third_head",
        ),
    )
    return Draft(
        question,
        videos,
        subtitles=videos,
        inline=first(row.fields, ("subtitles", "subtitle")),
        extra=row.extra("questions", "question_id", "video_id"),
    )


def nextqa(row: Row) -> Draft:
    """Read a question of NExT-QA; ``qid`` is unique within a video only."""
    video = row.file("video", "video_name", "video_id")
    options = find_options(row.fields)
    if "qid" in row.fields:
        number = row.name("qid")
        gold: object = row.fields.get("answer")
        kind: GoldKind = index_gold(gold)
    else:  # a table that writes video and qid together
        number = row.name("question_id").removeprefix(video.strip()).lstrip("_")
        if not number.isdecimal():
            raise DatasetError(
                f"{row.where}: question_id must be video and qid, not {number!r}"
            )
        gold, kind = index_and_text(row, options)
    question = RawQuestion(
        where=row.where,
        question_id=f"{video.strip()}_{number}",
        benchmark="NExT-QA",
        question=row.text("question"),
        options=options,
        gold=gold,
        gold_kind=kind,
        video_id=stem(video),
        type=row.maybe("type", "question_type"),
    )
    return Draft(question, (video,), extra=row.extra("video", "qid", "type"))


def longvideobench(row: Row) -> Draft:
    """Read a question of LongVideoBench; "N/A" fills the option columns of tables."""
    options = find_options(row.fields)
    gold = first(row.fields, ("correct_choice", "answer"))
    notes: list[tuple[str, str, str]] = []
    question_id = row.name("id", "question_id")
    if options is not None and not isinstance(row.fields.get("candidates"), list):
        options, gold, n_dropped = without_filler(options, gold, "N/A")
        if n_dropped:
            text = "columns that hold N/A are no options and were left out"
            notes.append(("filler options", text, f"{question_id}: {n_dropped}"))
    video = row.file("video_path", "video_id", "video")
    question = RawQuestion(
        where=row.where,
        question_id=question_id,
        benchmark="LongVideoBench",
        question=row.text("question"),
        options=options,
        gold=gold,
        gold_kind=index_gold(gold),
        video_id=row.maybe("video_id") or stem(video),
        type=row.maybe("question_category"),
        strata=row.strata("duration_group", "topic_category", "level"),
    )
    return Draft(
        question,
        tuple(dict.fromkeys((video, row.maybe("video_id") or video))),
        inline=first(row.fields, ("subtitles", "subtitle", "subtitle_path")),
        offset_s=row.fields.get("starting_timestamp_for_subtitles"),
        extra=row.extra("id", "video_path", "video_id", "subtitle_path"),
        notes=tuple(notes),
    )


def mlvu(row: Row) -> Draft:
    """Read a question of MLVU; copies of it have the options in the question."""
    text, options = embedded(row.text("question"), find_options(row.fields))
    gold = first(row.fields, ("answer", *GOLDS))
    name = first(row.fields, ("source", "question_id", "id"))
    video = row.file("video", "video_name", "video_id")
    question = RawQuestion(
        where=row.where,
        question_id=(
            f"{row.task}#{row.place}"
            if name is None
            else row.name("source", "question_id", "id")
        ),
        benchmark="MLVU",
        question=text,
        options=options,
        gold=gold,
        gold_kind=text_gold(gold, options),
        video_id=stem(video),
        type=row.maybe("question_type", "task_type"),
    )
    extra = row.extra("video", "video_name", "question_type", "task_type", "source")
    return Draft(question, (video,), hint=f"{row.task}/", extra=extra)


def tempcompass(row: Row) -> Draft:
    """Read a question of TempCompass, whose options stand inside the question.

    The id is made of video, dimension and place, as `row.task` has them; questions of
    the tasks other than multi-choice say which one.
    """
    if "mc_question" in row.fields:
        raise DatasetError(f"{row.where}: asks for a caption, and has no options")
    video = row.file("video_id")
    dimension = row.maybe("dim") or row.maybe("dimension") or ""
    text, options, gold, group = tempcompass_asked(row.fields, video, dimension)
    question = RawQuestion(
        where=row.where,
        question_id=row.task.strip(),
        benchmark="TempCompass",
        question=text,
        options=options,
        gold=gold,
        gold_kind="auto",
        video_id=video,
        type=dimension or None,
        group=group,
    )
    extra = row.extra("video_id", "dim", "dimension", "gt-answer")
    return Draft(question, (video,), extra=extra)


def perceptiontest(row: Row) -> Draft:
    """Read a question of the Perception Test; its id is unique within a video only."""
    video = row.file("video_id", "video_name", "video")
    gold = first(row.fields, ("answer_id", "answer"))
    question = RawQuestion(
        where=row.where,
        question_id=f"{video.strip()}_{row.name('id', 'question_id')}",
        benchmark="Perception Test",
        question=row.text("question"),
        options=find_options(row.fields),
        gold=gold,
        gold_kind=index_gold(gold),
        video_id=stem(video),
        type=row.maybe("area"),
        strata=row.strata("area", "reasoning"),
    )
    extra = row.extra("id", "question_id", "video_id", "video_name")
    return Draft(question, (video,), extra=extra)


def star(row: Row) -> Draft:
    """Read a question of STAR about a part of a Charades video.

    Choices count by their choice_id, in whatever order they are listed. Tables of
    others write start and end into the name of the video.
    """
    options = find_options(row.fields)
    name = row.file("video_id", "video_name", "video")
    clip = CLIP.fullmatch(name) if "start" not in row.fields else None
    gold: object = row.fields.get("answer")
    kind: GoldKind = text_gold(gold, options)
    if "answer_number" in row.fields:
        gold, kind = index_and_text(row, options)
    fields = {"start": clip["start"], "end": clip["end"]} if clip else row.fields
    video = clip["video"] if clip else name
    question_id = row.name("question_id")
    question = RawQuestion(
        where=row.where,
        question_id=question_id,
        benchmark="STAR",
        question=row.text("question"),
        options=options,
        gold=gold,
        gold_kind=kind,
        video_id=video,
        type=question_id.partition("_")[0],
        strata=row.strata("question_type", "question_template_id"),
    )
    cuts = (f"{video}_{_short(fields, 'start')}_{_short(fields, 'end')}",)
    return Draft(
        question,
        (video,),
        cuts=cuts,
        bounds=fields,
        extra=row.extra("question_id", "video_id", "video_name", "situations"),
    )


def plain(row: Row) -> Draft:
    """Read a question of the project's own form; see `load_questions`."""
    video = row.file("video")
    given = row.fields.get("strata")
    strata = {
        name: str(value)
        for name, value in (given.items() if isinstance(given, dict) else ())
        if isinstance(value, str | int | float)
    }
    question = RawQuestion(
        where=row.where,
        question_id=row.name("question_id"),
        benchmark=row.maybe("benchmark") or row.task,
        question=row.text("question"),
        options=find_options(row.fields),
        gold=row.fields.get("answer"),
        video_id=row.maybe("video_id") or stem(video),
        type=row.maybe("type"),
        strata=strata,
    )
    extra = row.extra("question_id", "video", "benchmark", "video_id", "type", "strata")
    return Draft(
        question,
        (video,),
        bounds=row.fields,
        inline=row.fields.get("subtitles"),
        extra=extra,
        notes=tuple(
            ("field not used", "kept as it is", f"{name}; {meant}?")
            for name, meant in misspelt(row.fields)
        ),
    )


def _short(fields: object, name: str) -> str:
    value = fields.get(name) if hasattr(fields, "get") else None
    if isinstance(value, str):
        return value
    found = number(value)
    return "" if found is None else f"{found:g}"


def stem(name: str) -> str:
    """Name of a video without folders and ending.

    >>> stem("part/abc.mp4"), stem("6H78U_11.1_19.6")
    ('abc', '6H78U_11.1_19.6')
    """
    base = name.rstrip("/").rpartition("/")[2] or name
    return re.sub(r"\.(?:[A-Za-z][A-Za-z0-9]{1,4}|3gp)$", "", base) or base


@dataclass(frozen=True, slots=True)
class Form:
    """A benchmark that can be read.

    Attributes
    ----------
    benchmark : str
        Name that its questions are recorded under.
    about : str
        What files are read, for the help.
    read : callable
        Makes a `Draft` of a `Row`.
    """

    benchmark: str
    about: str
    read: Callable[[Row], Draft]


FORMS: dict[str, Form] = {
    "egoschema": Form(
        "EgoSchema", "questions.json (gold: subset_answers.json), tables", egoschema
    ),
    "longvideobench": Form(
        "LongVideoBench", "lvb_val.json, lvb_test_wo_gt.json, tables", longvideobench
    ),
    "mlvu": Form("MLVU", "a JSON file a task, or the folder of them, tables", mlvu),
    "mvbench": Form("MVBench", "a JSON file a task, or the folder of them", mvbench),
    "nextqa": Form("NExT-QA", "val.csv, test.csv and tables of others", nextqa),
    "perceptiontest": Form(
        "Perception Test", "mc_question_*.json, tables", perceptiontest
    ),
    "plain": Form("", "the project's own JSON, JSONL, CSV or TSV", plain),
    "star": Form("STAR", "STAR_*.json, tables of others", star),
    "tempcompass": Form(
        "TempCompass", "multi-choice, yes_no, caption_matching.json", tempcompass
    ),
    "videomme": Form("Video-MME", "the nested JSON, the flat table", videomme),
    "videomme-v2": Form("Video-MME@v2", "the table of version 2", videomme_v2),
}
