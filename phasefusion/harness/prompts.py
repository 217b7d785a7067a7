"""The option lines inside a prompt that a harness has made, to be shown otherwise."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from phasefusion.errors import OptionError
from phasefusion.scoring.letters import LETTERS, PromptTemplate

__all__ = [
    "AsShown",
    "ShownOptions",
    "find_options",
    "prompt_source",
    "takes_prompt",
    "with_prompt",
]

#: A label at the beginning of a line: "A. ", "A) ", "A: ", "(A) ", "[A] ".
_LABEL = re.compile(
    r"[ \t]*(?:\((?P<round>[A-Za-z])\)|\[(?P<square>[A-Za-z])\]|"
    r"(?P<bare>[A-Za-z])(?:[.):]|、))(?:[ \t]+|(?=\S))"
)


@dataclass(frozen=True, slots=True)
class ShownOptions:
    """A prompt cut into what stands around its options, their labels and their texts.

    Attributes
    ----------
    head : str
        Everything before the first label, the question in it.
    labels : tuple of str
        Such as ``"A. "``, white space included.
    texts : tuple of str
        The options as shown, without labels.
    gaps : tuple of str
        What stands between two options: line ends, as a rule.
    tail : str
        Everything after the last option.
    """

    head: str
    labels: tuple[str, ...]
    texts: tuple[str, ...]
    gaps: tuple[str, ...]
    tail: str

    def render(self, order: Sequence[int] | None = None) -> str:
        r"""Return the prompt with option ``order[pos]`` at position ``pos``.

        Everything else stays, to the character.

        Examples
        --------
        >>> found = find_options("Which?\nA. red\nB. blue\nAnswer:")
        >>> print(found.render([1, 0]))
        Which?
        A. blue
        B. red
        Answer:
        """
        chosen = range(len(self.texts)) if order is None else order
        parts = [self.head]
        for pos, k in enumerate(chosen):
            parts += [self.labels[pos], self.texts[k]]
            if pos < len(self.gaps):
                parts.append(self.gaps[pos])
        return "".join([*parts, self.tail])


def find_options(prompt: str, options: Sequence[str] | None = None) -> ShownOptions:
    r"""Find the lettered options of a prompt.

    Parameters
    ----------
    prompt : str
    options : sequence of str, optional
        The option texts, where they are known from elsewhere; labels of their own are
        allowed. Without them the last run of lines labelled A, B, C, ... is taken, and
        the last option ends with its line.

    Returns
    -------
    ShownOptions

    Raises
    ------
    OptionError
        If there is no such run, or it does not show `options` in that order.

    Examples
    --------
    >>> found = find_options("Which?\nA. red\nB. blue\nAnswer with the letter.")
    >>> found.texts, found.tail
    (('red', 'blue'), '\nAnswer with the letter.')
    """
    if options is not None:
        return _known(prompt, [option.strip() for option in options])
    starts = [0, *(match.end() for match in re.finditer("\n", prompt))]
    labels = [(at, _LABEL.match(prompt, at)) for at in starts]
    lines = [(at, match) for at, match in labels if match is not None]
    for first in range(len(lines) - 1, -1, -1):
        if _place(lines[first][1]) != 0:
            continue
        run = [lines[first]]
        for line in lines[first + 1 :]:
            if _place(line[1]) == len(run):
                run.append(line)
        if len(run) >= 2:
            return _cut(prompt, run)
    raise OptionError(
        f"no lines labelled A, B, ... are in the prompt: {prompt[-300:]!r}"
    )


def _place(match: re.Match[str]) -> int:
    letter = match["round"] or match["square"] or match["bare"]
    return ord(letter.upper()) - ord("A")


def _cut(prompt: str, run: Sequence[tuple[int, re.Match[str]]]) -> ShownOptions:
    """Cut at the labels; the last option is one line."""
    texts, gaps = [], []
    for k, (_, match) in enumerate(run):
        last = k == len(run) - 1
        end = prompt.find("\n", match.end()) if last else run[k + 1][0]
        end = len(prompt) if end < 0 else end
        whole = prompt[match.end() : end]
        text = whole.rstrip()
        texts.append(text)
        gaps.append(whole[len(text) :])
    head, tail = prompt[: run[0][0]], gaps.pop() + prompt[end:]
    if not all(texts):
        raise OptionError(f"an option of the prompt is empty: {texts}")
    return ShownOptions(
        head, tuple(match[0] for _, match in run), tuple(texts), tuple(gaps), tail
    )


def _known(prompt: str, options: Sequence[str]) -> ShownOptions:
    """Find options by their texts, from the end, each behind a label of its letter."""
    bare = _without_labels(options)
    spans: list[tuple[int, int, int]] = []
    limit = len(prompt)
    for k in range(len(bare) - 1, -1, -1):
        found = _last_labelled(prompt, bare[k], k, limit)
        if found is None:
            raise OptionError(
                f"option {k}, {bare[k]!r}, is not behind a label of its letter "
                f"{LETTERS[k]} in the prompt: {prompt[-300:]!r}"
            )
        spans.append(found)
        limit = found[0]
    spans.reverse()
    labels = tuple(prompt[begin:text] for begin, text, _ in spans)
    gaps = tuple(prompt[spans[k][2] : spans[k + 1][0]] for k in range(len(spans) - 1))
    return ShownOptions(
        prompt[: spans[0][0]], labels, tuple(bare), gaps, prompt[spans[-1][2] :]
    )


def _last_labelled(
    prompt: str, text: str, k: int, limit: int
) -> tuple[int, int, int] | None:
    """Last place before `limit` with the label of letter k and then the text."""
    end = limit
    while (at := prompt.rfind(text, 0, end)) >= 0:
        line = prompt.rfind("\n", 0, at) + 1
        for begin in (line, *_after_spaces(prompt, line, at)):
            match = _LABEL.match(prompt, begin)
            if match and match.end() == at and _place(match) == k:
                return begin, at, at + len(text)
        end = at + len(text) - 1
    return None


def _after_spaces(prompt: str, line: int, end: int) -> list[int]:
    """Places inside a line where a label may begin: several options on one line."""
    found = [match.end() for match in re.finditer(r"[\s,;]", prompt[line:end])]
    return [line + place for place in found if line + place < end]


def _without_labels(options: Sequence[str]) -> list[str]:
    """Take labels off when they run A, B, C, ...; once."""
    matches = [_LABEL.match(option) for option in options]
    if all(m is not None and _place(m) == k for k, m in enumerate(matches)):
        bare = [
            option[match.end() :].strip()
            for option, match in zip(options, matches, strict=True)
            if match is not None
        ]
        if all(bare):
            return bare
    return list(options)


class AsShown(PromptTemplate):
    r"""A task's own prompt, in which option texts are put at the places of its own.

    Examples
    --------
    >>> prompt = AsShown(find_options("Which?\n(A) red (B) blue\n", ["red", "blue"]))
    >>> prompt.render("", ["blue", "red"])
    'Which?\n(A) blue (B) red\n'
    """

    def __init__(self, shown: ShownOptions, system: str | None = None) -> None:
        super().__init__(system=system)
        object.__setattr__(self, "_shown", shown)

    @property
    def lists_options(self) -> bool:
        """Yes."""
        return True

    @property
    def lists_letters(self) -> bool:
        """Yes."""
        return True

    def render(self, question: str, options: Sequence[str]) -> str:
        """Return the prompt with other options; the question is part of it."""
        shown: ShownOptions = self._shown  # type: ignore[attr-defined]
        return ShownOptions(
            shown.head, shown.labels, tuple(options), shown.gaps, shown.tail
        ).render()


def takes_prompt(scorer: object) -> bool:
    """Whether a scorer can be given another prompt; see `Scorer`."""
    return callable(getattr(scorer, "with_prompt", None))


def with_prompt(scorer: Any, prompt: PromptTemplate) -> Any:
    """Return a scorer of the same model with another prompt.

    A scorer without a method ``with_prompt`` is returned as it is: it is given the
    question and the options, and shows them its own way.
    """
    return scorer.with_prompt(prompt) if takes_prompt(scorer) else scorer


def prompt_source(scorer: object, described: Mapping[str, Any]) -> dict[str, Any]:
    """Return what run.json says of the prompt: the harness's, or the scorer's own."""
    if takes_prompt(scorer):
        return {"text": "as the data set makes it"}
    return {
        "text": "the scorer's own, of the data set's question and options",
        "own": described.get("prompt"),
    }
