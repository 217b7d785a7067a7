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
        By name of the video.
    """
    found: dict[str, tuple[str, set[tuple[str, str]]]] = {}
    for one in rows_with(folder, "video_problem"):
        if one.get("video_problem"):
            name = str(one.get("video_id") or one["question_id"])
            _, questions = found.setdefault(name, (one["video_problem"], set()))
            questions.add((one["benchmark"], one["question_id"]))
    return [
        {"video": name, "questions": len(questions), "reason": reason}
        for name, (reason, questions) in sorted(found.items())
    ]
