"""A scorer of which every answer depends on the frames that were really decoded."""

import hashlib
import os
import subprocess
import time

import numpy as np

from phasefusion.scoring import OptionScores

# Words that make a run of the command short.
QUICK = ["--budget", "4", "--dense", "10", "--n-orders", "3", "--quiet"]


class PixelScorer:
    """Score options from frame contents, their number and the option order alone.

    Means over blocks of every frame are hashed together with the question and the
    option, so that another frame, or another order of frames, gives other scores; a
    preference for early letters makes order matter.
    """

    def __init__(self, *, delay_s=0.0, letter=0.4):
        self.delay_s = delay_s
        self.letter = letter
        self.calls = []

    def describe(self):
        return {"model": "pixels", "letter": self.letter, "prompt": {"text": "none"}}

    def score(self, clip, question, options, *, orders=None):
        k = len(options)
        orders = np.arange(k)[None] if orders is None else np.asarray(orders)
        self.calls.append((clip.frames.shape[:2], len(orders), question))
        if self.delay_s:
            time.sleep(self.delay_s)
        content = np.empty((len(clip.frames), len(orders), k))
        for s, frames in enumerate(clip.frames):
            blocks = frames[:, ::16, ::16].astype(np.int64).mean(axis=(1, 2, 3))
            seen = np.round(blocks).astype(np.int64).tobytes()
            for c, option in enumerate(options):
                text = f"{question}\0{option}\0".encode()
                base = hashlib.sha256(text).digest()[0] / 255
                noise = hashlib.sha256(text + seen).digest()[0] / 255
                for m, order in enumerate(orders):
                    place = list(order).index(c)
                    content[s, m, c] = 1.5 * base + noise - self.letter * place
        content -= np.log(np.exp(content).sum(axis=-1, keepdims=True)) + 0.05
        return OptionScores(content, np.exp(content).sum(axis=-1), orders)


def make():
    """Scorer for the command line; its speed is set by the environment."""
    return PixelScorer(delay_s=float(os.environ.get("PIXEL_SCORER_DELAY_S", "0")))


def make_clip(path, n_frames, *, rate=10, size="64x48", seed=0):
    """Write a clip of moving bars with ffmpeg's command."""
    source = f"testsrc2=size={size}:rate={rate}"
    command = ["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", source]
    command += ["-vf", f"hue=h={40 * seed}:b={seed % 3 - 1}"]
    command += ["-frames:v", str(n_frames), "-pix_fmt", "yuv420p", "-g", "12"]
    subprocess.run([*command, "-threads", "1", str(path)], check=True)


def make_questions(folder, *, n_clips=3, per_clip=4):
    """Write clips and a question file; return the file's path."""
    import json

    rows = []
    for v in range(n_clips):
        make_clip(folder / f"clip{v}.mp4", 40 + 17 * v, seed=v)
        for q in range(per_clip):
            k = 2 + (v + q) % 4
            rows.append(
                {
                    "question_id": f"{v}-{q}",
                    "video": f"clip{v}.mp4",
                    "question": f"What is in part {q}?",
                    "options": [f"thing {c} of {v}" for c in range(k)],
                    "answer": (v * q) % k,
                    "type": ("what", "where")[q % 2],
                }
            )
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def short_run(questions, out, scorer=None, **options):
    """Run a protocol with few frames and orders, in silence."""
    from phasefusion.evaluate import evaluate

    scorer = scorer or PixelScorer()
    is_shared = options.get("orders", "shared") == "shared"
    shared = {"n_orders": 5} if is_shared else {}
    options = {"budget": 4, "dense": 10, "progress": False} | shared | options
    return evaluate(questions, scorer, out=out, **options)
