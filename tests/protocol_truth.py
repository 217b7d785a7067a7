"""Scorers whose answers follow from a rule that the tests can work out by hand."""

import json

import numpy as np
from pixel_scorer import make_clip

from phasefusion.evaluate import evaluate

SURE = 0.9
K = 4


def spread(chosen, n_options, share=SURE):
    """Log-probabilities with `share` on one option and the rest on the others."""
    p = np.full(n_options, (1 - share) / (n_options - 1))
    p[chosen] = share
    return np.log(p)


class RuleScorer:
    """Log-probabilities by content from ``rule(view, question, order)``.

    A view has the frames' indices, their number, the phase in steps and the clip.
    """

    def __init__(self, rule, variants=None):
        self.rule = rule
        self.variants = variants or {}

    def describe(self):
        return {"model": "rule"}

    def variant(self, name):
        return RuleScorer(self.variants[name])

    def score(self, clip, question, options, *, orders=None):
        views = [None] if clip is None else views_of(clip)
        content = [
            [self.rule(view, question, tuple(order)) for order in np.asarray(orders)]
            for view in views
        ]
        return np.array(content, dtype=float)


def views_of(clip):
    phases = clip.grid.phase_fractions
    for s, indices in enumerate(clip.indices):
        yield View(indices.tolist(), phases[s], s, len(phases))


class View:
    def __init__(self, indices, phase, s, n_phases):
        self.indices, self.phase, self.s, self.n_phases = indices, phase, s, n_phases
        self.budget = len(indices)


def write_questions(folder, n, *, n_options=4, n_frames=60, per_clip=2, gold=None):
    """Questions "0", "1", ... about clips of `n_frames` frames; gold is q % K."""
    rows = []
    for q in range(n):
        clip = f"clip{q // per_clip}.mp4"
        if not (folder / clip).exists():
            make_clip(folder / clip, n_frames, seed=q // per_clip)
        k = n_options if isinstance(n_options, int) else n_options[q % len(n_options)]
        rows.append(
            {
                "question_id": f"q{q}",
                "video": clip,
                "question": str(q),
                "options": [f"text {c} of {q}" for c in range(k)],
                "answer": q % k if gold is None else gold,
            }
        )
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def table(report, number):
    """Rows of a table of the figure, by their first column."""
    found = report.numbers["figure"]["tables"][number]
    name = found["columns"][0]["name"]
    return {row[name]: row for row in found["rows"]}


def run(questions, out, scorer, protocol, **options):
    options = {"budget": 4, "progress": False} | options
    return evaluate(questions, scorer, out=out, protocol=protocol, **options)


def gold_of(question):
    return int(question) % K


def always_gold(view, question, order):
    return spread(gold_of(question), K)


def always_first(view, question, order):
    return spread(order[0], K)
