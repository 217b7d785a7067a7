"""Videos of a run of which a part is lost, from what its passes say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from phasefusion.report._rows import rows_with


def incomplete_videos(folder: Path) -> list[dict[str, Any]]:
    """Return every video whose file lacks frames, with its questions and the reason.

    Parameters
    ----------
    folder : Path
        The run folder, or its pass file.

    Returns
    -------
    list of dict
        "benchmark", "video", "questions", "answered" (questions with an answer in some
        pass) and "reason", by benchmark and video.
    """
    found: dict[tuple[str, str], tuple[str, dict[str, bool]]] = {}
    for one in rows_with(folder, "video_problem"):
        if one.get("video_problem"):
            name = str(one.get("video_id") or one["question_id"])
            key = str(one["benchmark"]), name
            _, questions = found.setdefault(key, (one["video_problem"], {}))
            name = one["question_id"]
            is_answered = one.get("answer") is not None
            questions[name] = questions.get(name, False) or is_answered
    return [
        {
            "benchmark": benchmark,
            "video": name,
            "questions": len(questions),
            "answered": sum(questions.values()),
            "reason": reason,
        }
        for (benchmark, name), (reason, questions) in sorted(found.items())
    ]
