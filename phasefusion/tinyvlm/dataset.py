"""Write clips as H.264 files with a question file beside them.

``python -m phasefusion.tinyvlm.dataset FOLDER`` rewrites the shipped set; another seed
gives another set of the same kind.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

import numpy as np

from phasefusion.tinyvlm.clips import bank_scene, encode_clip
from phasefusion.tinyvlm.questions import KINDS, ask, kinds_for

__all__ = ["HELD_OUT_SEED", "SHIPPED_SEED", "main", "write_dataset"]

SHIPPED_SEED = 9303
HELD_OUT_SEED = 8404
_N_OPTION = (4, 3, 4, 5)


def write_dataset(folder: Path, *, n_clip: int, n_question: int, seed: int) -> None:
    """Write clips and questions.

    Parameters
    ----------
    folder : Path
        Gets ``clip-000.mp4`` ... and ``questions.jsonl``.
    n_clip, n_question : int
        Questions are spread evenly over clips and, where scenes allow, over types.
    seed : int
        Scene ``i`` is ``bank_scene(seed, i)``, so sets of unlike seeds share nothing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    used: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
    rng = np.random.default_rng([seed, 1 << 20])
    lines: list[str] = []
    for number in range(n_clip):
        scene = bank_scene(seed, number)
        video_id = f"clip-{number:03d}"
        gop = (50, 75, 100)[number % 3]
        encode_clip(scene, folder / f"{video_id}.mp4", gop=gop)
        share = (number + 1) * n_question // n_clip - number * n_question // n_clip
        kinds = sorted(kinds_for(scene), key=lambda k: (used[k], KINDS.index(k)))
        for kind in kinds[:share]:
            n_option = _N_OPTION[(used[kind] + KINDS.index(kind)) % len(_N_OPTION)]
            question = ask(scene, kind, rng, n_option=n_option)
            used[kind] += 1
            line = {
                "question_id": f"tinyvlm-{len(lines):04d}",
                "benchmark": "tinyvlm",
                "video": f"{video_id}.mp4",
                "video_id": video_id,
                "question": question.text,
                "options": list(question.options),
                "answer": question.answer,
                "type": kind,
                "duration_s": round(scene.duration_s, 6),
            }
            lines.append(json.dumps(line))
    (folder / "questions.jsonl").write_text("\n".join(lines) + "\n")


def main(argv: list[str] | None = None) -> None:
    """Write a set from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clips", type=int, default=60)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=SHIPPED_SEED)
    args = parser.parse_args(argv)
    write_dataset(
        args.folder, n_clip=args.clips, n_question=args.questions, seed=args.seed
    )


if __name__ == "__main__":
    main()
