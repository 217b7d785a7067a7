"""Runs with a question file and frames, for the tests of the page."""

import json
import random

from made_runs import made_run

#: What would run, or break out of its element, if anything took it for markup.
HOSTILE = (
    '</script><script>window.hacked = 1</script><img src=x onerror="window.hacked=2">'
    "<!--<script> & \u2028 \"' </style> {{ 7 * 7 }}"
)


def run_with_questions(folder, *, clip=None, n_items=14, hostile=(0,), **options):
    """Write a run and ``questions.jsonl`` beside it; return the path of the latter."""
    passes = made_run(folder, n_items=n_items, **options)
    first = {}
    for row in passes:
        first.setdefault(row["question_id"], row)
        if row["arm"] == "phase" and not row["shifted"]:
            row["frame_indices"] = [3 * i + row["phase_index"] for i in range(4)]
            row["frame_times_s"] = [i / 30 for i in row["frame_indices"]]
    lines = []
    for i, row in enumerate(first.values()):
        text = HOSTILE if i in hostile else f"What happens in number {i}?"
        options_of = [f"thing {k} of {i}" for k in range(row["n_options"])]
        if i in hostile:
            options_of[0] = HOSTILE + " option"
        video = str(clip) if clip is not None and i != 1 else f"gone-{i}.mp4"
        lines.append(
            {
                "question_id": row["question_id"],
                "benchmark": row["benchmark"],
                "video": video,
                "question": text,
                "options": options_of,
                "answer": row["gold"],
            }
        )
    (folder / "passes.jsonl").write_text("".join(json.dumps(p) + "\n" for p in passes))
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = json.loads((folder / "run.json").read_text())
    run["questions"]["file"] = str(path)
    (folder / "run.json").write_text(json.dumps(run))
    return path


def add_saliency(folder, *, kinds=("occlusion",), n_frames=4):
    """Write ``saliency.jsonl`` for the first questions of a run; return its rows."""
    rows, seen = [], {}
    for line in (folder / "passes.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["arm"] == "phase" and not row["shifted"]:
            seen.setdefault(row["question_id"], {}).setdefault(row["phase_index"], row)
    rng = random.Random(5)
    for question_id, by_phase in list(seen.items())[:6]:
        one = by_phase[0]
        line = {
            "benchmark": one["benchmark"],
            "question_id": question_id,
            "order": one["order"],
            "unit": "nats",
            "shared_frames": 2,
            "note": "",
        }

        def values(n):
            return [[rng.gauss(0, 1) for _ in range(n_frames)] for _ in range(n)]

        for method in kinds:
            replace = "neighbour" if method == "occlusion" else None
            for s, row in by_phase.items():
                rows.append(
                    line
                    | {"kind": "phase", "method": method, "replace": replace}
                    | {"phases": [s], "options": [row["answer"]], "base": [-0.25]}
                    | {"frame_indices": [row["frame_indices"]], "values": values(1)}
                )
        exchanged = [by_phase[0]["frame_indices"], by_phase[2]["frame_indices"]]
        rows.append(
            line
            | {"kind": "flip", "method": "occlusion", "replace": "exchange"}
            | {"phases": [0, 2], "options": [0, 1], "base": [1.5, -0.5]}
            | {"frame_indices": exchanged, "values": values(2)}
        )
    rows[0]["values"][0][:2] = [None, -3.5]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "saliency.jsonl").write_text(text)
    return rows
