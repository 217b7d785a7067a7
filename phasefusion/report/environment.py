"""What a run was made with, and what that was in another run."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from phasefusion._wording import counted
from phasefusion.records import ItemInfo, different_values
from phasefusion.records.told import count_others
from phasefusion.report.sections import UNDEFINED, Section, percent

#: Parts of run.json in which two runs are compared.
_PARTS = ("settings", "versions", "model", "host")
#: What only a run of several that are not the same has.
_OF_MERGED = ("conflicts", "same_scorer")
#: What of a scorer says which model it is and what runs it.
_SCORER = ("model", "sha256", "revision", "source", "dtype", "device", "score")
#: Hexadecimal digits of a fingerprint that are enough to tell runs apart.
_DIGITS = 12
#: Differences that are printed; the JSON report has all.
_PRINTED = 20
_MEASURES = {
    "accuracy": "accuracy over all orders",
    "mean_accuracy": "mean accuracy over configurations",
    "fpc": "FPC",
    "ooc": "OOC",
    "phase_flips": "phase flips, two phases",
    "order_flips": "order flips, all orders",
}


def environment(run: Mapping[str, Any]) -> dict[str, Any]:
    """Fingerprint what a run was made with.

    Parameters
    ----------
    run : mapping
        ``run.json``.

    Returns
    -------
    dict
        "id" is a hash of settings and versions: runs that share it were asked the same
        questions in the same way with the same software, wherever that was. "host" is
        not in it, but what a merged run was put together from against contradictions.

    Examples
    --------
    >>> one = environment({"settings": {"seed": 0}, "host": {"machine": "x86_64"}})
    >>> two = environment({"settings": {"seed": 0}, "host": {"machine": "aarch64"}})
    >>> one["id"] == two["id"], one["host"] == two["host"]
    (True, False)
    """
    settings = run.get("settings", {})
    scorer = settings.get("scorer", {})
    return {
        "id": _hash(
            {name: run.get(name, {}) for name in ("settings", "versions")}
            | {name: run[name] for name in _OF_MERGED if name in run}
        ),
        "settings": _hash(settings),
        "questions_sha256": settings.get("questions_sha256"),
        "versions": dict(run.get("versions", {})),
        "scorer": {name: scorer[name] for name in _SCORER if name in scorer}
        | {name: value for name, value in scorer.items() if name in _LIBRARIES},
        "host": dict(run.get("host", {})),
    }


_LIBRARIES = ("transformers", "torch", "tokenizers", "torchvision", "cuda", "gpu")


def _hash(value: Any) -> str:
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:_DIGITS]


def section(found: Mapping[str, Any]) -> Section:
    """Lay a fingerprint out."""
    rows = [("fingerprint", found["id"]), ("settings", found["settings"])]
    if found["questions_sha256"]:
        rows.append(("questions", str(found["questions_sha256"])[:_DIGITS]))
    for part in ("scorer", "versions", "host"):
        rows += [(name, text) for name, text in _plain(found[part])]
    return Section(
        "Environment",
        ("", "value"),
        tuple(rows),
        "The fingerprint is a hash of all settings, the scorer and the questions "
        "included, and of the versions; the machine is not in it. What differs from "
        "another run: phasefusion report RUN --against OTHER.",
    )


def _plain(part: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values of a part, those of one level down on one line."""
    for name, value in part.items():
        if value is None:
            continue
        if isinstance(value, Mapping):
            value = ", ".join(f"{one} {text}" for one, text in value.items())
        yield name, str(value)


def against(
    run: Mapping[str, Any],
    other: Mapping[str, Any],
    numbers: Mapping[str, Any],
    others: Mapping[str, Any],
    videos: tuple[Sequence[ItemInfo], Sequence[ItemInfo]],
) -> dict[str, Any]:
    """Compare what two runs were made with, and their main numbers.

    Parameters
    ----------
    run, other : mapping
        ``run.json`` of both.
    numbers, others : mapping
        Their reports.
    videos : tuple of sequence of ItemInfo
        Their items, which know which files their videos were.

    Returns
    -------
    dict
        "ids" (of the other run and of this one), "differences" (a list of "what",
        "other", "this"), "questions" (how many are "same", "changed", "only_other",
        "only_this"; None where a run does not say), "videos" (of how many questions the
        video is an "other" file, of those of which "both" runs say which it was),
        "scored" (how many questions have passes) and "measures".
    """
    n_others, n_both = count_others(*map(_files, videos))
    return {
        "ids": [environment(one)["id"] for one in (other, run)],
        "differences": [
            {"what": what, "other": old, "this": new}
            for part in _PARTS
            for what, old, new in different_values(
                other.get(part, {}), run.get(part, {}), part
            )
        ],
        "questions": _questions(run, other),
        "videos": {"other": n_others, "both": n_both},
        "scored": [one["items"]["with_passes"] for one in (others, numbers)],
        "measures": [
            {"measure": text, "other": _measure(others, name), "this": value}
            for name, text in _MEASURES.items()
            for value in [_measure(numbers, name)]
        ],
    }


def _files(items: Sequence[ItemInfo]) -> dict[tuple[str, str], str | None]:
    return {(one.benchmark, one.question_id): one.video_digest for one in items}


def _questions(
    run: Mapping[str, Any], other: Mapping[str, Any]
) -> dict[str, int] | None:
    """Count questions by whether both runs have them, and say the same in them."""
    here, there = (_hashes(one) for one in (run, other))
    if here is None or there is None:
        return None
    both = here.keys() & there.keys()
    same = sum(here[key] == there[key] for key in both)
    return {
        "same": same,
        "changed": len(both) - same,
        "only_other": len(there) - len(both),
        "only_this": len(here) - len(both),
    }


def _hashes(run: Mapping[str, Any]) -> dict[tuple[str, str], str] | None:
    items = run.get("questions", {}).get("items")
    if not isinstance(items, Mapping):
        return None
    return {
        (benchmark, name): value
        for benchmark, of_benchmark in items.items()
        for name, value in of_benchmark.items()
    }


def _measure(numbers: Mapping[str, Any], name: str) -> float:
    """One of the main numbers; NaN where it was not measured."""
    if name == "accuracy":
        arms = numbers["accuracy"]
        arm = next((one for one in ("fusion", "vote", "single") if one in arms), None)
        if arm is None:
            return math.nan
        return float(arms[arm]["order_averaged"]["value"])
    consistency = numbers["consistency"]
    if name == "mean_accuracy":
        return float(consistency["mean_accuracy"])
    if name in ("fpc", "ooc"):
        return float(consistency[name]["pairwise"]["value"])
    flips = numbers[name]
    if flips is None:
        return math.nan
    if name == "phase_flips":
        return float(flips["consensus"]["pairwise"]["value"])
    return float(flips["arms"][flips["by_options_of"]]["any"]["value"])


def against_sections(found: Mapping[str, Any] | None) -> list[Section]:
    """Lay a comparison out: nothing without one."""
    if found is None:
        return []
    differences: Sequence[Mapping[str, str]] = found["differences"]
    rows = [(one["what"], one["other"], one["this"]) for one in differences[:_PRINTED]]
    n_more = len(differences) - len(rows)
    more = f" {n_more} more are in the JSON report." if n_more else ""
    other, this = found["ids"]
    files = _other_files(found["videos"])
    rows = [("videos", UNDEFINED, files)] * bool(files) + rows
    rows = rows or [("nothing", UNDEFINED, UNDEFINED)]
    return [
        Section(
            "Changed against the other run",
            ("what", "other", "this"),
            tuple(rows),
            f"Fingerprints {other} and {this}. {_said(found['questions'])}{more}",
        ),
        Section(
            "Numbers against the other run",
            ("", "other, %", "this, %", "points"),
            tuple(
                (
                    one["measure"],
                    percent(one["other"]),
                    percent(one["this"]),
                    _points(one["this"] - one["other"]),
                )
                for one in found["measures"]
            ),
            _judged(found),
        ),
    ]


def _points(difference: float) -> str:
    return UNDEFINED if math.isnan(difference) else f"{100 * difference:+.1f}"


def _other_files(videos: Mapping[str, int]) -> str:
    """Say how many videos were other files; nothing if none was."""
    n, both = videos["other"], videos["both"]
    return f"other files for {n} of {counted(both, 'question')}" if n else ""


def _said(questions: Mapping[str, int] | None) -> str:
    """Say what became of the questions."""
    if questions is None:
        return "A run does not list its questions, so they were not compared."
    parts = [f"{counted(questions['same'], 'question')} the same"]
    for name, text in (
        ("changed", "with another text, options, answer or span"),
        ("only_other", "only in the other run"),
        ("only_this", "only in this one"),
    ):
        if questions[name]:
            parts.append(f"{questions[name]} {text}")
    return f"{', '.join(parts)}."


def _judged(found: Mapping[str, Any]) -> str:
    """Say how far the numbers can be compared, and warn of a gain that is none."""
    questions = found["questions"]
    if questions is not None and not questions["same"]:
        return (
            "No question is the same in both runs, so the numbers say nothing about a "
            "change."
        )
    notes = []
    by_name = {one["measure"]: one["this"] - one["other"] for one in found["measures"]}
    gain = by_name[_MEASURES["accuracy"]]
    lost = [name for name in ("FPC", "OOC") if by_name[name] < 0]
    if gain > 0 and lost:
        notes.append(
            f"Accuracy rose and {' and '.join(lost)} fell: the gain may be one on "
            "these frames and orders alone."
        )
    if questions is None or set(questions.values()) != {questions["same"], 0}:
        notes.append("These are not the same questions throughout.")
    files = _other_files(found["videos"])
    if files:
        notes.append(f"The videos are {files}: differences may be those of the files.")
    other, this = found["scored"]
    if other != this:
        notes.append(f"The other run scored {other} questions, this one {this}.")
    notes.append(
        "Differences without intervals: phasefusion compare has paired tests, "
        "phasefusion gate decides."
    )
    return " ".join(notes)
