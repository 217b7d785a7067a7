"""Runs with a question file and frames, for the tests of the page."""

import json

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
