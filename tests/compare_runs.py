"""Run folders of plain answers, as importers write them, for the comparison tests."""

import json


def answer(question_id, chosen, **changes):
    """Make a generated pass; `chosen` is a content index, or None with its text."""
    order = changes.pop("order", [0, 1, 2, 3])
    letter = "?" if chosen is None else "ABCDEFGH"[order.index(chosen)]
    return {
        "question_id": question_id,
        "benchmark": "quiz",
        "video_id": None,
        "n_options": len(order),
        "gold": 0,
        "arm": "single",
        "budget": 8,
        "n_phases": 1,
        "phase": [1, 2],
        "phase_index": 0,
        "frame_indices": None,
        "frame_times_s": None,
        "order": order,
        "logprobs": None,
        "answer": chosen,
        "path": "generate",
        "text": f"{letter}.",
        "option_mass": None,
        "seconds": None,
        "invalid": None if chosen is not None else "unparsed: names no option",
        "source": {"format": "made", "file": "log.jsonl", "line": 1},
    } | changes


def write_run(folder, passes, *, settings=None, hashes=None):
    """Write a run folder; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    run = {
        "format": 1,
        "settings": {"protocol": "imported", "seed": 0} | (settings or {}),
        "versions": {"phasefusion": "0"},
        "questions": {"n": len(passes)} | ({"items": hashes} if hashes else {}),
    }
    (folder / "run.json").write_text(json.dumps(run))
    lines = [json.dumps(row) + "\n" for row in passes]
    (folder / "passes.jsonl").write_text("".join(lines))
    return folder
