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
        "benchmark", "video", "questions" and "reason", by benchmark and video.
    """
    found: dict[tuple[str, str], tuple[str, set[str]]] = {}
    for one in rows_with(folder, "video_problem"):
        if one.get("video_problem"):
            name = str(one.get("video_id") or one["question_id"])
            key = str(one["benchmark"]), name
            _, questions = found.setdefault(key, (one["video_problem"], set()))
            questions.add(one["question_id"])
    return [
        {
            "benchmark": benchmark,
            "video": name,
            "questions": len(questions),
            "reason": reason,
        }
        for (benchmark, name), (reason, questions) in sorted(found.items())
    ]
