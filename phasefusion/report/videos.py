"""Videos of a run of which a part is lost, from what its passes say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from phasefusion.records.files import passes_path

_FIELD = b'"video_problem"'


def incomplete_videos(folder: Path) -> list[dict[str, Any]]:
    """Return every video whose file lacks frames, with its questions and the reason.

    Parameters
    ----------
    folder : Path
        The run folder, or its pass file.

    Returns
    -------
    list of dict
        By name of the video.
    """
    found: dict[str, tuple[str, set[tuple[str, str]]]] = {}
    with passes_path(folder).open("rb") as lines:
        for line in lines:
            if _FIELD not in line:
                continue
            try:
                one = orjson.loads(line)
            except orjson.JSONDecodeError:  # a line that is being written
                continue
            if one.get("video_problem"):
                name = str(one.get("video_id") or one["question_id"])
                _, questions = found.setdefault(name, (one["video_problem"], set()))
                questions.add((one["benchmark"], one["question_id"]))
    return [
        {"video": name, "questions": len(questions), "reason": reason}
        for name, (reason, questions) in sorted(found.items())
    ]
