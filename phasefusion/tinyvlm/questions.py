"""Multiple-choice questions about scenes, with many wordings of questions and options.

Answers are *concepts* (``red``, ``left``, ``two`` ...); each concept can be written in
several styles ("red", "the red one" ...), and a question usually writes all its options
in one style.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from phasefusion.tinyvlm.world import COLOURS, MOVES, SHAPES, Scene

__all__ = [
    "CONCEPTS",
    "DEFAULT_SUFFIX",
    "KINDS",
    "LETTERS",
    "LETTER_SUFFIXES",
    "TEXT_SUFFIX",
    "Question",
    "all_texts",
    "ask",
    "key_word",
    "kinds_for",
    "look_up",
    "prompt_text",
]

LETTERS = "ABCDE"
DEFAULT_SUFFIX = "Answer with the option's letter from the given choices directly."
LETTER_SUFFIXES = (
    DEFAULT_SUFFIX,
    "Answer with the letter.",
    "Please respond with only the letter of the correct answer.",
    "Respond with only the letter (A, B, C, D or E) of the right option.",
    "Only give the best option.",
    "The best answer is:",
)
TEXT_SUFFIX = "Answer with the text of the right option."

_NUMBERS = ("one", "two", "three", "four", "five")
_MOMENTS = ("early", "midway", "late", "never")

#: Concept -> its ways of writing; position i is style i of its family.
_COLOUR_STYLES = ("{0}", "the {0} one", "{1}", "{0} colour", "a {0} one", "it is {0}")
_SHAPE_STYLES = ("{0}", "the {0}", "{1}", "a {0}", "it is a {0}", "a {0} shape")
_WRITTEN: dict[str, tuple[str, ...]] = {
    **{c: tuple(s.format(c, c.title()) for s in _COLOUR_STYLES) for c in COLOURS},
    **{c: tuple(s.format(c, c.title()) for s in _SHAPE_STYLES) for c in SHAPES},
    "left": ("left", "to the left", "Left", "leftwards", "it moves left"),
    "right": ("right", "to the right", "Right", "rightwards", "it moves right"),
    "up": ("up", "to the top", "Up", "upwards", "it moves up"),
    "down": ("down", "to the bottom", "Down", "downwards", "it moves down"),
    "nowhere": ("nowhere", "to no side", "Nowhere", "nowhere", "it stays still"),
    "one": ("one", "once", "One", "1", "one time", "just one"),
    "two": ("two", "twice", "Two", "2", "two times", "just two"),
    "three": ("three", "three times", "Three", "3", "three times", "just three"),
    "four": ("four", "four times", "Four", "4", "four times", "just four"),
    "five": ("five", "five times", "Five", "5", "five times", "just five"),
    "early": ("early", "near the start", "Early", "in the first third"),
    "midway": ("midway", "near the middle", "Midway", "in the second third"),
    "late": ("late", "near the end", "Late", "in the last third"),
    "never": ("never", "at no time", "Never", "in no part of it"),
}
CONCEPTS = tuple(_WRITTEN)
#: The word of each text that carries its meaning, when it is not the concept itself.
_KEY_WORDS = frozenset(
    "top bottom leftwards rightwards upwards downwards no stays once twice "
    "start middle end first second last 1 2 3 4 5".split()
)

_POOLS: dict[str, tuple[str, ...]] = {
    "direction": tuple(MOVES),
    "shape": SHAPES,
    "colour": tuple(COLOURS),
    "flash": tuple(COLOURS),
    "order": tuple(COLOURS),
    "count": _NUMBERS,
    "when": _MOMENTS,
}
KINDS = tuple(_POOLS)
_WORDINGS: dict[str, tuple[str, ...]] = {
    "direction": (
        "Which way does the shape move?",
        "In which direction does the large shape go?",
        "Where does the main shape move to?",
        "What is the direction of the movement in the video?",
    ),
    "shape": (
        "Which shape is moving?",
        "What is the form of the large shape?",
        "What does the main object look like?",
        "Which of these shapes is the main one in the video?",
    ),
    "colour": (
        "What colour is the moving shape?",
        "Which colour does the large shape have?",
        "What is the colour of the main object?",
        "In the video, the main shape has which colour?",
    ),
    "flash": (
        "Which colour does the border flash?",
        "What colour lights up around the picture?",
        "Which of these colours does the frame's edge show for a moment?",
        "What is the colour of the flash at the border?",
    ),
    "order first": (
        "Which colour does the border flash first?",
        "What is the colour of the first flash?",
        "Several colours light up around the picture. Which comes first?",
        "Which of these colours does the border show before the others?",
    ),
    "order last": (
        "Which colour does the border flash last?",
        "What is the colour of the last flash?",
        "Several colours light up around the picture. Which comes last?",
        "Which of these colours does the border show after the others?",
    ),
    "count": (
        "How many times does the border flash?",
        "How often does the edge light up in the video?",
        "What is the number of flashes around the picture?",
        "Count the flashes of the border. How many are there?",
    ),
    "when": (
        "When does the border flash?",
        "In which part of the video does the edge light up?",
        "At what moment is there a flash around the picture?",
        "When is the flash of the border seen, if at all?",
    ),
}
_LOOK_UPS = (
    "Which option is {}?",
    "Which option means {}?",
    "Pick the option that says {}.",
)


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its options in list order; `answer` indexes them."""

    kind: str
    text: str
    options: tuple[str, ...]
    concepts: tuple[str, ...]
    answer: int


def kinds_for(scene: Scene) -> tuple[str, ...]:
    """Kinds of questions that have one right answer for a scene."""
    kinds = ["direction", "shape", "colour"]
    colours = [f.colour for f in scene.flashes]
    if colours:
        kinds += ["count", "flash"]
    if len(colours) > 1 and len(set(colours)) == len(colours):
        kinds.append("order")
    if len(colours) < 2:
        kinds.append("when")
    return tuple(kinds)


def _moment(scene: Scene) -> str:
    if not scene.flashes:
        return "never"
    middle = (scene.flashes[0].begin + scene.flashes[0].end) / 2
    return _MOMENTS[min(2, int(middle * 3))]


def _near(concept: str, pool: tuple[str, ...], rng: np.random.Generator) -> list[str]:
    """Order the rest of a pool, often the concepts next to the answer first."""
    others = [pool[i] for i in rng.permutation(len(pool)) if pool[i] != concept]
    if rng.random() < 0.5:
        home = pool.index(concept)
        others.sort(key=lambda c: abs(pool.index(c) - home))
    return others


def _write(concepts: list[str], rng: np.random.Generator) -> tuple[str, ...]:
    """Write concepts in one style, or seldom each in its own."""
    n_style = min(len(_WRITTEN[c]) for c in concepts)
    weight = np.array([3.0] + [1.0] * (n_style - 1))
    style = rng.choice(n_style, size=len(concepts), p=weight / weight.sum())
    if rng.random() < 0.85:
        style[:] = style[0]
    return tuple(_WRITTEN[c][s] for c, s in zip(concepts, style, strict=True))


def _choose(
    kind: str,
    text: str,
    answer: str,
    ranked: list[str],
    n: int,
    rng: np.random.Generator,
) -> Question:
    """Build a question from the answer and the ranked wrong concepts."""
    chosen = [answer, *ranked[: n - 1]]
    concepts = [chosen[i] for i in rng.permutation(len(chosen))]
    options = _write(concepts, rng)
    return Question(kind, text, options, tuple(concepts), concepts.index(answer))


def ask(
    scene: Scene, kind: str, rng: np.random.Generator, *, n_option: int = 4
) -> Question:
    """Ask one question about a scene.

    Parameters
    ----------
    scene : Scene
    kind : str
        One of ``kinds_for(scene)``.
    rng : Generator
        Chooses wording, wrong options and their order.
    n_option : int, default 4
        Number of options, 3 to 5; a pool of four ("when") gives at most 4.

    Returns
    -------
    question : Question
    """
    flashes, pool, wording = [f.colour for f in scene.flashes], _POOLS[kind], kind
    if kind == "order":
        wording = ("order first", "order last")[rng.integers(2)]
    answers = {
        "direction": lambda: scene.move,
        "shape": lambda: scene.shape,
        "colour": lambda: scene.colour,
        "flash": lambda: flashes[rng.integers(len(flashes))],
        "order": lambda: flashes[0 if wording == "order first" else -1],
        "count": lambda: _NUMBERS[len(flashes) - 1],
        "when": lambda: _moment(scene),
    }
    answer = answers[kind]()
    ranked = _near(answer, pool, rng)
    if kind == "flash":
        ranked = [c for c in ranked if c not in flashes]
    if kind == "order":
        ranked.sort(key=lambda c: c not in flashes)
    text = _WORDINGS[wording][rng.integers(len(_WORDINGS[wording]))]
    return _choose(kind, text, answer, ranked, n_option, rng)


def look_up(rng: np.random.Generator, *, n_option: int = 4) -> Question:
    """Make a question that its own text answers; it teaches to bind letters."""
    answer = CONCEPTS[rng.integers(len(CONCEPTS))]
    home = next(p for p in _POOLS.values() if answer in p)
    pool = home if rng.random() < 0.6 else CONCEPTS
    ranked = [pool[i] for i in rng.permutation(len(pool)) if pool[i] != answer]
    style = rng.integers(len(_WRITTEN[answer])) if rng.random() < 0.4 else 0
    text = _LOOK_UPS[rng.integers(len(_LOOK_UPS))].format(_WRITTEN[answer][style])
    return _choose("look-up", text, answer, ranked, n_option, rng)


def prompt_text(question: str, options: tuple[str, ...], suffix: str) -> str:
    """Text of the user's turn: question, one line an option, suffix."""
    lines = [question]
    lines += [f"{letter}. {o}" for letter, o in zip(LETTERS, options, strict=False)]
    return "\n".join([*lines, suffix])


@lru_cache(maxsize=1024)
def key_word(option: str, concept: str) -> str:
    """Give the word of an option's text that carries its meaning."""
    words = option.split()
    exact = [w for w in words if w.lower() == concept]
    return (exact or [w for w in words if w in _KEY_WORDS])[0]


def all_texts() -> list[str]:
    """Every sentence that questions are made of, for training a tokenizer."""
    texts = [w for group in _WORDINGS.values() for w in group]
    texts += [*LETTER_SUFFIXES, TEXT_SUFFIX]
    texts += [t for written in _WRITTEN.values() for t in written]
    return texts + [t.format("it") for t in _LOOK_UPS]
