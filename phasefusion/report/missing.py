"""How many passes are missing or still to come, and why, by kind of reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from phasefusion._wording import by_number, counted, item_name

#: Longest reason in a sentence.
_MAX_REASON = 160
#: A path, between colons, with the extension of a file.
_FILE = re.compile(r"(?:^|(?<=: ))[^:]*\.[A-Za-z0-9]{2,5}(?=:)")
_LIST = re.compile(r"\[[^\]]*\]")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def kind_of(reason: str) -> str:
    """Return what reasons have in common that name other files, frames or numbers.

    Examples
    --------
    >>> kind_of("video: a/b.mp4: frames [3, 4] do not decode")
    'video: FILE: frames N do not decode'
    >>> kind_of("frame 10 is out of range")
    'frame N is out of range'
    """
    found = _LIST.sub("N", _FILE.sub("FILE", " ".join(reason.split())))
    return _NUMBER.sub("N", found)


def kinds_of(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Group reasons by kind.

    Parameters
    ----------
    counts : mapping from str to int
        Missing passes by reason.

    Returns
    -------
    list of dict
        ``reason``, the most frequent one of the kind, ``n``, passes of the kind, and
        ``reasons``, how many there are; the most frequent kind first.

    Examples
    --------
    >>> kinds_of({"frames [1] do not decode": 2, "frames [2] do not decode": 1})
    [{'reason': 'frames [1] do not decode', 'n': 3, 'reasons': 2}]
    """
    passes: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    for reason, n in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        kind = kind_of(reason)
        passes[kind] += n
        examples.setdefault(kind, []).append(reason)
    return [
        {"reason": examples[kind][0], "n": n, "reasons": len(examples[kind])}
        for kind, n in sorted(passes.items(), key=lambda pair: (-pair[1], pair[0]))
    ]


def unfinished_sentence(items: Mapping[str, Any]) -> str:
    """Say that passes of the plan are still to be made; empty where none are."""
    if not items["unfinished"]:
        return ""
    n, of = items["passes"], items["planned_passes"]
    so_far = f"{n} of {counted(of, 'pass', 'passes')}"
    if n >= of:
        so_far = f"{counted(n, 'pass', 'passes')}, and a further stage is to come"
    return (
        f"Unfinished: {so_far}; the same phasefusion run (or call of evaluate) goes on."
    )


def missing_sentence(items: Mapping[str, Any]) -> str:
    """Say how many passes are missing and the two kinds of reasons that most have.

    It is empty where none is missing.
    """
    if not items["missing_passes"]:
        return ""
    first, *others = items["missing_kinds"]
    said = _reason(first)
    if others and first["n"] == 1:
        said = f"for {1 + len(others)} different reasons, such as {said}"
    elif others:
        said = f"most often ({first['n']} times) {said}; then "
        said += f"({counted(others[0]['n'], 'time')}) {_reason(others[0])}"
    if others[1:] and first["n"] > 1:
        said += f"; and for {counted(len(others) - 1, 'other reason')}"
    n = items["missing_passes"]
    return (
        f"{n} of {counted(items['passes'], 'pass', 'passes')} "
        f"{by_number(n, 'is', 'are')} missing: {said}"
    )


def _reason(one: Mapping[str, Any]) -> str:
    reason = " ".join(one["reason"].split())
    if len(reason) > _MAX_REASON:
        reason = reason[: _MAX_REASON - 3] + "..."
    if one["reasons"] > 1:
        reason += f" (and {one['reasons'] - 1} more like it)"
    return reason


def incomplete_sentence(items: Mapping[str, Any]) -> str:
    """Say that video files lack frames, which their passes then did not see."""
    found = items.get("incomplete_videos")
    if not found:
        return ""
    n = sum(one["questions"] for one in found)
    answered = sum(one["answered"] for one in found)
    saw = "and saw what is left"
    if not answered:
        saw = f"and {by_number(n, 'it has', 'they have')} no answer"
    elif answered < n:
        saw = f"and {answered} of them saw what is left"
    return (
        f"{counted(n, 'question')} {by_number(n, 'is', 'are')} about "
        f"{counted(len(found), 'video')} of which a part is lost, {saw}: "
        f"{item_name(found[0]['benchmark'], found[0]['video'])}: "
        f"{found[0]['reason']}."
    )
