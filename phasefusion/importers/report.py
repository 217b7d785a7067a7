"""What an import has to say: counts, outcomes, and findings with examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from phasefusion._results import Result
from phasefusion._sources.findings import Finding
from phasefusion._wording import counted
from phasefusion.answers import OUTCOMES


@dataclass(frozen=True, slots=True)
class ArmCounts:
    """Passes of one run of the files.

    Attributes
    ----------
    name : str
    budget : int or None
        Frames, where the files say so.
    passes : int
    outcomes : dict of str to int
        "parsed", "invalid", "refused", "unparsed", "missing".
    letters : dict of str to int
        How often every letter was answered, as shown.
    right, with_gold : int
        Right answers, and passes whose gold is known; no answer is not right.
    """

    name: str
    budget: int | None
    passes: int
    outcomes: Mapping[str, int]
    letters: Mapping[str, int]
    right: int
    with_gold: int


@dataclass(frozen=True, slots=True, repr=False)
class ImportReport(Result):
    """What was read, what was left out and why, and what cannot be computed from it.

    Attributes
    ----------
    format : str
    files : tuple of dict
        Path, SHA-256 and role of every file.
    benchmarks : tuple of str
    questions, passes : int
        That were written.
    without_gold : int
        Questions that were written without gold.
    arms : tuple of ArmCounts
    findings : tuple of Finding
    harness : dict
        By score of the harness: n, mean, and, of one that says which answers are
        right, how many disagree with the answer parsed here (``differs``).
    results : dict
        What the harness wrote about the whole run; None where it has no number.
    cannot : tuple of str
        Statistics that the files cannot give, each with the reason.
    """

    format: str
    files: tuple[Mapping[str, Any], ...]
    benchmarks: tuple[str, ...]
    questions: int
    passes: int
    without_gold: int
    arms: tuple[ArmCounts, ...]
    findings: tuple[Finding, ...]
    harness: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    results: Mapping[str, float | None] = field(default_factory=dict)
    cannot: tuple[str, ...] = ()

    def finding(self, kind: str) -> Finding | None:
        """Return the finding of a kind, None when there is none."""
        return next((one for one in self.findings if one.kind == kind), None)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "format": self.format,
            "files": [dict(one) for one in self.files],
            "benchmarks": list(self.benchmarks),
            "questions": self.questions,
            "passes": self.passes,
            "without_gold": self.without_gold,
            "arms": [
                {
                    "name": arm.name,
                    "budget": arm.budget,
                    "passes": arm.passes,
                    "outcomes": dict(arm.outcomes),
                    "letters": dict(arm.letters),
                    "right": arm.right,
                    "with_gold": arm.with_gold,
                }
                for arm in self.arms
            ],
            "findings": [
                {
                    "kind": one.kind,
                    "text": one.text,
                    "n": one.n,
                    "examples": list(one.examples),
                }
                for one in self.findings
            ],
            "harness": {name: dict(one) for name, one in self.harness.items()},
            "results": dict(self.results),
            "cannot": list(self.cannot),
        }

    def lines(self) -> Iterator[str]:
        """Say it in lines of text."""
        yield (
            f"{self.passes} passes of {self.questions} questions "
            f"({', '.join(self.benchmarks)}), read as {self.format}"
        )
        for arm in self.arms:
            yield f"  {_arm_line(arm)}"
        for name, score in self.harness.items():
            compared = "not compared: not known to be 1 for right and 0 for wrong"
            if "differs" in score:
                compared = (
                    "compared with the answers parsed here, from which it differs "
                    f"{counted(int(score['differs']), 'time')}"
                )
            yield (
                f"  harness score {name}: mean {score['mean']:.6f} over "
                f"{int(score['n'])}; {compared}"
            )
        for one in self.findings:
            yield f"  {one}"
        for text in self.cannot:
            yield f"  cannot be computed: {text}"

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _arm_line(arm: ArmCounts) -> str:
    outcomes = ", ".join(
        f"{arm.outcomes[name]} {name}"
        for name in OUTCOMES
        if arm.outcomes.get(name) or name == "parsed"
    )
    letters = " ".join(f"{letter} {n}" for letter, n in arm.letters.items())
    frames = "" if arm.budget is None else f" ({arm.budget} frames)"
    right = (
        f"; right {arm.right}/{arm.with_gold} = {arm.right / arm.with_gold:.6f}"
        if arm.with_gold
        else "; no gold"
    )
    return f"{arm.name}{frames}: {outcomes}; letters {letters or '-'}{right}"
