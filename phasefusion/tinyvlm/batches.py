"""Seeded training batches: clips, questions, and targets of the probes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phasefusion.tinyvlm.clips import BANK_GRID, bank_scene, grid_indices
from phasefusion.tinyvlm.network import (
    INPUT_SIDE_PX,
    PAIR_TOKENS,
    patch_layout,
    second_per_grid,
)
from phasefusion.tinyvlm.questions import (
    CONCEPTS,
    DEFAULT_SUFFIX,
    KINDS,
    LETTER_SUFFIXES,
    TEXT_SUFFIX,
    Question,
    ask,
    key_word,
    kinds_for,
    look_up,
    prompt_text,
)
from phasefusion.tinyvlm.tokens import Encoder
from phasefusion.tinyvlm.world import (
    COLOURS,
    MOVES,
    SHAPES,
    Scene,
    border_colour,
    mover_centre,
    render,
    sample_scene,
)

__all__ = ["SEE_CLASSES", "Bank", "Batches", "Example", "Stage", "collate", "schedule"]

_N_BIN = 6
#: Classes of the content probe's fields, a pair of frames: colour, shape, column, row,
#: and motion of the main shape, then the border's colour in both frames.
SEE_CLASSES = (len(COLOURS), len(SHAPES), _N_BIN, _N_BIN, len(MOVES), 9, 9)
_CLIPS_A_BATCH = {2: 64, 8: 48, 16: 28, 24: 20, 32: 15}
_END_WEIGHT = 0.1


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a training run.

    `budgets` gives the probability of each number of frames, `look_up` the share of
    questions that their own text answers, `real` the share of clips from H.264 files.
    """

    n_step: int
    budgets: dict[int, float]
    look_up: float
    real: float


_MIXED = {8: 0.6, 16: 0.08, 24: 0.2, 32: 0.12}


def schedule(n_step: int) -> tuple[Stage, ...]:
    """Divide a run: see and bind first, then everything, at last on real video."""
    share = [round(n_step * s) for s in (0.25, 0.08, 0.14, 0.25)]
    return (
        Stage(share[0], {8: 1.0}, 0.35, 0.0),
        Stage(share[1], {2: 1.0}, 1.0, 0.0),
        Stage(share[2], {8: 1.0}, 0.2, 0.0),
        Stage(share[3], _MIXED, 0.08, 0.5),
        Stage(n_step - sum(share), _MIXED, 0.08, 1.0),
    )


class Bank:
    """Decoded and resized frames of a bank of H.264 clips."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.n_clip = len(list(folder.glob("?????.npy")))

    def load(self, number: int) -> tuple[Scene, NDArray[np.uint8]]:
        """Scene and frames, shape (96, side, side, 3), of one clip."""
        frames = np.load(self.folder / f"{number:05d}.npy", mmap_mode="r")
        return bank_scene(self.seed, number), frames


@dataclass(frozen=True, slots=True)
class Example:
    """One training item before it is laid out."""

    scene: Scene
    indices: NDArray[np.int64]
    frames: NDArray[np.uint8]
    question: Question
    suffix: str


def _contents(scene: Scene, indices: NDArray[np.int64]) -> list[tuple[int, ...]]:
    """Targets of the content probe, one row a pair of frames."""
    border = [None, *COLOURS]
    rows: list[tuple[int, ...]] = []
    for first, second in zip(indices[::2], indices[1::2], strict=True):
        centre = np.add(mover_centre(scene, first), mover_centre(scene, second)) / 2
        column, row = np.clip((centre - 0.2) / 0.1, 0, _N_BIN - 1).astype(int)
        rows.append(
            (
                list(COLOURS).index(scene.colour),
                SHAPES.index(scene.shape),
                int(column),
                int(row),
                list(MOVES).index(scene.move),
                border.index(border_colour(scene, first)),
                border.index(border_colour(scene, second)),
            )
        )
    return rows


def _option_keys(encoder: Encoder, question: Question) -> list[int]:
    """Offset of each option's meaning-bearing token from the start of the text."""
    at, keys = len(encoder.text(question.text + "\n")), []
    pairs = zip("ABCDE", question.options, question.concepts, strict=False)
    for letter, option, concept in pairs:
        line = encoder.line(f"{letter}. {option}\n")
        token = encoder.line(" " + key_word(option, concept))[0]
        keys.append(at + line.index(token))
        at += len(line)
    return keys


def _answer_targets(
    encoder: Encoder, question: Question, suffix: str
) -> tuple[list[int], list[float]]:
    """Tokens of the answer with their loss weights; the end token is one of them."""
    if suffix == TEXT_SUFFIX:
        answer = list(encoder.line(question.options[question.answer]))
        return [*answer, encoder.ids["end"]], [1 / len(answer)] * len(answer) + [0.1]
    return [encoder.letters[question.answer], encoder.ids["end"]], [1.0, _END_WEIGHT]


def collate(encoder: Encoder, examples: list[Example]) -> dict[str, Tensor]:
    """Lay out examples with equal numbers of frames as one batch.

    Returns
    -------
    batch : dict of Tensor
        ``ids``, ``patches`` and ``seconds`` for the network; ``target`` rows of (row,
        position, token) with ``weight``; ``letter`` marks rows answered by a letter and
        ``gold`` is their answer; ``see``, ``say`` with ``say_at``, and ``option`` rows
        of (row, position, letter, fits, concept) for the probes; ``looked_up`` marks
        rows whose text alone gives the answer.
    """
    ids, target, weight, option, say_at = [], [], [], [], []
    for row, e in enumerate(examples):
        q = e.question
        n_video = len(e.indices) // 2 * PAIR_TOKENS
        prompt = encoder.prompt(prompt_text(q.text, q.options, e.suffix), n_video)
        start = len(encoder.head) + n_video + 1
        answer, weights = _answer_targets(encoder, q, e.suffix)
        target += [(row, len(prompt) - 1 + i, t) for i, t in enumerate(answer)]
        weight += weights
        say_at.append(start + len(encoder.text(q.text + "\n")) - 1)
        for k, offset in enumerate(_option_keys(encoder, q)):
            concept = CONCEPTS.index(q.concepts[k])
            option.append((row, start + offset, k, int(k == q.answer), concept))
        ids.append(prompt + answer[:-1])
    longest = max(map(len, ids))
    pad = encoder.ids["pad"]
    questions = [e.question for e in examples]
    columns: dict[str, Any] = {
        "ids": [i + [pad] * (longest - len(i)) for i in ids],
        "target": target,
        "option": option,
        "say_at": say_at,
        "say": [CONCEPTS.index(q.concepts[q.answer]) for q in questions],
        "see": [_contents(e.scene, e.indices) for e in examples],
        "gold": [q.answer for q in questions],
        "letter": [e.suffix != TEXT_SUFFIX for e in examples],
        "looked_up": [q.kind == "look-up" for q in questions],
    }
    batch = {k: torch.tensor(v) for k, v in columns.items()}
    seconds = [second_per_grid(e.indices / e.scene.fps) for e in examples]
    patches = np.concatenate([patch_layout(e.frames) for e in examples])
    return batch | {
        "weight": torch.tensor(weight),
        "seconds": torch.tensor(seconds),
        "patches": torch.from_numpy(patches),
    }


class Batches(torch.utils.data.IterableDataset[dict[str, Tensor]]):
    """The batches of a training run, stage by stage.

    Parameters
    ----------
    encoder : Encoder
    bank : Bank or None
        Real video; rendered frames alone when None.
    stages : sequence of Stage
    seed : int
    first_step : int, default 0
        Batches to leave out at the beginning; the rest stay the same.
    scale : float, default 1.0
        Factor on the number of clips a batch.
    """

    def __init__(
        self,
        encoder: Encoder,
        bank: Bank | None,
        stages: Sequence[Stage],
        seed: int,
        *,
        first_step: int = 0,
        scale: float = 1.0,
    ) -> None:
        self.encoder, self.bank, self.stages = encoder, bank, tuple(stages)
        self.seed, self.first_step, self.scale = seed, first_step, scale

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        """Yield one batch a step."""
        torch.set_num_threads(1)
        steps = [stage for stage in self.stages for _ in range(stage.n_step)]
        for step in range(self.first_step, len(steps)):
            stage, rng = steps[step], np.random.default_rng([self.seed, step])
            budgets, shares = list(stage.budgets), list(stage.budgets.values())
            budget = int(rng.choice(budgets, p=shares))
            n_clip = max(2, round(_CLIPS_A_BATCH[budget] * self.scale))
            examples = [self._example(rng, stage, budget) for _ in range(n_clip)]
            yield collate(self.encoder, examples)

    def _example(self, rng: np.random.Generator, stage: Stage, budget: int) -> Example:
        if self.bank is not None and rng.random() < stage.real:
            scene, indices, frames, kind = self._from_bank(rng, budget)
        else:
            scene, indices, frames, kind = self._rendered(rng, budget)
        n_option = int(rng.choice([3, 4, 4, 4, 5, 5]))
        if rng.random() < stage.look_up:
            question = look_up(rng, n_option=n_option)
        else:
            question = ask(scene, kind, rng, n_option=n_option)
        return Example(scene, indices, frames, question, _suffix(rng))

    def _rendered(
        self, rng: np.random.Generator, budget: int
    ) -> tuple[Scene, NDArray[np.int64], NDArray[np.uint8], str]:
        kind = KINDS[rng.integers(len(KINDS))]
        n_flash = {
            "flash": lambda: int(rng.integers(1, 3)),
            "order": lambda: int(rng.integers(2, 4)),
            "count": lambda: int(rng.integers(1, 6)),
            "when": lambda: int(rng.random() < 0.8),
        }.get(kind, lambda: None)
        scene = sample_scene(rng, n_flash=n_flash())
        while kind not in kinds_for(scene):
            scene = sample_scene(rng, n_flash=n_flash())
        indices = grid_indices(scene.n_frames, budget, (int(rng.integers(60)), 60))
        return scene, indices, render(scene, indices, side_px=INPUT_SIDE_PX), kind

    def _from_bank(
        self, rng: np.random.Generator, budget: int
    ) -> tuple[Scene, NDArray[np.int64], NDArray[np.uint8], str]:
        assert self.bank is not None
        scene, frames = self.bank.load(int(rng.integers(self.bank.n_clip)))
        step = BANK_GRID // budget
        at = np.arange(budget) * step + rng.integers(step)
        kinds = kinds_for(scene)
        weight = np.array([1.0 if k in ("shape", "colour") else 1.5 for k in kinds])
        kind = str(rng.choice(kinds, p=weight / weight.sum()))
        return scene, grid_indices(scene.n_frames, BANK_GRID)[at], frames[at], kind


def _suffix(rng: np.random.Generator) -> str:
    """Draw the last sentence of a prompt, mostly the default one."""
    draw = rng.random()
    if draw < 0.6:
        return DEFAULT_SUFFIX
    if draw < 0.7:
        return TEXT_SUFFIX
    return LETTER_SUFFIXES[rng.integers(len(LETTER_SUFFIXES))]
