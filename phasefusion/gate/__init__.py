"""A candidate against a baseline: pass, roll back, or cannot tell.

Accuracy that rises while answers follow the phase or the order of the options more than
before is accuracy on one way of sampling. A gate therefore asks three things of a
candidate, item by item: that mean accuracy, FPC and OOC did not fall by more than is
tolerated, by interval and not by point.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from phasefusion._comparable import (
    Obstacle,
    enforce,
    orders_differ,
    sampling_differs,
    videos_differ,
)
from phasefusion._measures import LABELS, MEASURES, Key, RunMeasures, measure_run
from phasefusion._results import plain_text
from phasefusion._whole import replace_text
from phasefusion._wording import unwritten
from phasefusion.errors import RecordError
from phasefusion.gate._judging import Check, Needed, change, decide, floor
from phasefusion.gate._rules import MeasureRule, Rules
from phasefusion.records import _json, run_differences

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = [
    "EXIT_STATUS",
    "Check",
    "GateResult",
    "MeasureRule",
    "Needed",
    "Rules",
    "Verdict",
    "gate",
]

Verdict: TypeAlias = Literal["pass", "roll back", "cannot tell"]
#: Exit status of the command; 2 is bad use or bad input, as everywhere.
EXIT_STATUS: Mapping[Verdict, int] = {"pass": 0, "roll back": 1, "cannot tell": 3}
_SETTINGS = ("settings", "versions", "model")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GateResult:
    """What a gate found.

    It prints as tables in a terminal (``print``, ``rich.print``) and in a notebook.

    Attributes
    ----------
    verdict : {'pass', 'roll back', 'cannot tell'}
        *roll back*: some check fell. *pass*: all held. *cannot tell*: the rest.
    reasons : tuple of str
        Of the verdict, a sentence each.
    checks : tuple of Check
    baseline, candidate : str
        Run folders.
    n_shared : int
        Items that both runs have and that ask the same.
    left_out : dict of str to int
        Items that no check could use, by reason.
    notices : tuple of str
        What to know before the verdict is used.
    settings : tuple of str
        What was set differently, as "key: baseline -> candidate".
    rules : Rules
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    checks: tuple[Check, ...]
    baseline: str
    candidate: str
    n_shared: int
    left_out: Mapping[str, int]
    notices: tuple[str, ...]
    settings: tuple[str, ...]
    rules: Rules

    @property
    def exit_status(self) -> int:
        """Of the command: 0 to pass, 1 to roll back, 3 where it cannot tell."""
        return EXIT_STATUS[self.verdict]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values; what is not defined is None."""
        return _json.fields_of(self, exit_status=self.exit_status)

    def to_markdown(self) -> str:
        """Return a summary as Markdown, for a pull request."""
        from phasefusion.gate._rendering import markdown

        return markdown(self)

    def to_junit(self) -> str:
        """Return the checks as JUnit XML, a test case each.

        What fell is a failure, what cannot be told an error, so that neither is green.
        """
        from phasefusion.gate._rendering import junit

        return junit(self)

    def write(
        self,
        *,
        markdown: str | Path | None = None,
        junit: str | Path | None = None,
    ) -> None:
        """Write the summary and the test report.

        Parameters
        ----------
        markdown, junit : str or Path, optional
            Files to write.

        Raises
        ------
        RecordError
            If one cannot be written.
        """
        made = ((markdown, self.to_markdown), (junit, self.to_junit))
        for path, text in made:
            if path is None:
                continue
            try:
                replace_text(path, text())
            except OSError as error:
                raise RecordError(unwritten(path, error)) from error

    def __rich__(self) -> RenderableType:
        from phasefusion.gate._rendering import rich

        return rich(self)

    def __str__(self) -> str:
        return plain_text(self)

    def __repr__(self) -> str:
        states = ", ".join(
            f"{check.measure}{'' if check.kind == 'change' else ' floor'} {check.state}"
            for check in self.checks
        )
        return f"GateResult({self.verdict}: {states}; {self.n_shared} items shared)"

    def _repr_html_(self) -> str:
        from phasefusion.gate._rendering import html

        return html(self)


def gate(
    baseline: Any, candidate: Any, *, rules: Rules | str | Path | None = None
) -> GateResult:
    """Judge a candidate run against a baseline run on the same questions.

    Mean accuracy is the mean over all phases and orders; FPC is the chance that two
    phases agree at a fixed order, OOC that two orders agree at a fixed phase. Every
    measure is compared item by item, with standard errors that know the clusters. It
    *held* if the one-sided lower bound of the difference lies above minus the margin,
    and *fell* if it did not hold and a fall is shown. A candidate passes if everything
    held and is to be rolled back if anything fell; otherwise the sample cannot tell,
    and the result says how many items would.

    Parameters
    ----------
    baseline, candidate : Run, str or Path
        Run folders, made here or imported. Items are the same when benchmark and
        question id are.
    rules : Rules, str or Path, optional
        Or the TOML file that they are in.

    Returns
    -------
    GateResult
        Up to rounding the same for every order of the passes.

    Raises
    ------
    FileNotFoundError
        If there is no run.
    RecordError
        If files are damaged, a measure is not there (one phase, no gold), the runs
        share no item, or were not measured in the same way and the rules do not allow
        it.
    UsageError
        If the rules are not what they must be, or `baseline` or `candidate` is neither
        a run nor a path.

    Examples
    --------
    >>> import tempfile
    >>> from phasefusion.simulate import corpus
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = corpus(n_videos=12, orders="cyclic", seed=3)
    ...     old, new = made.write(folder, reruns=1, frames=False)
    ...     found = gate(old, new)
    >>> found.verdict
    'cannot tell'
    >>> found.checks[1].needed.n > 36
    True
    """
    if rules is None:
        rules = Rules()
    elif not isinstance(rules, Rules):
        rules = Rules.read(rules)
    old = measure_run(baseline, cluster=rules.cluster, name="baseline")
    new = measure_run(candidate, cluster=rules.cluster, name="candidate")
    _measured(old, new, rules)
    shared, left_out, notices = _shared(old, new, rules)
    checks, n_complete = _checks(old, new, shared, rules)
    incomplete = len(shared) - n_complete
    if incomplete:
        left_out = {**left_out, "a pass is missing, or no gold": incomplete}
    verdict, reasons = _verdict(checks, n_complete, len(shared), rules)
    if old.path.resolve() == new.path.resolve():
        notices = ("both are the same run", *notices)
    return GateResult(
        verdict=verdict,
        reasons=reasons,
        checks=checks,
        baseline=str(old.path),
        candidate=str(new.path),
        n_shared=len(shared),
        left_out=left_out,
        notices=notices,
        settings=_settings(old, new),
        rules=rules,
    )


def _measured(old: RunMeasures, new: RunMeasures, rules: Rules) -> None:
    """Refuse runs that cannot show what is judged."""
    remedy = {
        "accuracy": "has no item with gold and all its passes",
        "fpc": "has no item with two phases, all passes made, which FPC compares; run "
        "it with --protocol stableeval",
        "ooc": "has no item in two option orders, all passes made, which OOC compares; "
        "run it with --protocol stableeval",
    }
    for run in (old, new):
        for measure in MEASURES:
            if rules.of(measure).judged and np.isnan(run.values[measure]).all():
                raise RecordError(
                    f"{run.path}: {remedy[measure]}, or set {measure}.judged = false "
                    "in the rules"
                )


def _shared(
    old: RunMeasures, new: RunMeasures, rules: Rules
) -> tuple[list[Key], dict[str, int], tuple[str, ...]]:
    """Items that both runs have and that ask the same, and what is wrong with it."""
    there = set(new.keys)
    common = [key for key in old.keys if key in there]
    if not common:
        raise RecordError(
            f"{old.path} and {new.path} share no item; the first of each is "
            f"{'/'.join(old.keys[0])} and {'/'.join(new.keys[0])}. Items are the same "
            "when benchmark and question id are"
        )
    one, other = old.digests, new.digests
    changed = {
        key
        for key in common
        if (key in one and key in other and one[key] != other[key])
        or (
            None not in (old.gold[key], new.gold[key])
            and old.gold[key] != new.gold[key]
        )
    }
    left_out = {
        "only in the baseline": len(old.keys) - len(common),
        "only in the candidate": len(new.keys) - len(common),
        "another question or gold under the same id": len(changed),
    }
    left_out = {reason: n for reason, n in left_out.items() if n}
    shared = [key for key in common if key not in changed]
    obstacles = [
        *sampling_differs(old.sampling, new.sampling),
        *orders_differ(old, new),
        *videos_differ(old, new),
    ]
    share = len(shared) / max(len(old.keys), len(new.keys))
    if share < rules.min_shared:
        said = ", ".join(f"{n} {reason}" for reason, n in left_out.items())
        obstacles.append(
            Obstacle(
                "questions",
                f"{len(shared)} shared of {len(old.keys)} and {len(new.keys)} ({said})",
            )
        )
    if not shared:
        raise RecordError(
            f"{old.path} and {new.path}: every shared id asks another question"
        )
    notices = enforce(
        obstacles,
        rules.allow,
        f"{old.path} and {new.path} were not measured in the same way",
        'allow = ["{}"] in the rules',
    )
    return shared, left_out, notices


def _checks(
    old: RunMeasures, new: RunMeasures, shared: list[Key], rules: Rules
) -> tuple[tuple[Check, ...], int]:
    """Judge every measure; also count the items that all of them could use."""
    of_old, of_new = _places(old, shared), _places(new, shared)
    names = {name: i for i, name in enumerate(dict.fromkeys(old.cluster))}
    labels = np.array([names[old.cluster[i]] for i in of_old.tolist()], np.int64)
    everywhere = np.ones(len(shared), bool)
    found: list[Check] = []
    for measure in MEASURES:
        rule = rules.of(measure)
        if not rule.judged:
            continue
        was, now = old.values[measure][of_old], new.values[measure][of_new]
        usable = ~np.isnan(was) & ~np.isnan(now)
        everywhere &= usable
        found.append(change(measure, was[usable], now[usable], labels[usable], rules))
        if rule.floor is not None:
            found.append(floor(measure, now[usable], labels[usable], rule.floor, rules))
    return decide(found, rules), int(everywhere.sum())


def _places(run: RunMeasures, keys: list[Key]) -> np.ndarray[Any, np.dtype[np.int64]]:
    place = {key: i for i, key in enumerate(run.keys)}
    return np.array([place[key] for key in keys], np.int64)


def _verdict(
    checks: tuple[Check, ...], n_complete: int, n_shared: int, rules: Rules
) -> tuple[Verdict, tuple[str, ...]]:
    from phasefusion.gate._rendering import sentence

    fell = [check for check in checks if check.state == "fell"]
    unsure = [check for check in checks if check.state == "open"]
    if fell:
        reasons = tuple(sentence(check) for check in fell)
        first = checks[0]
        rose = first.measure == "accuracy" and first.low > 0.0
        if rose and any(check.measure != "accuracy" for check in fell):
            reasons += (
                f"{LABELS['accuracy']} rose by {100 * first.difference:.2f} points "
                "meanwhile: the gain holds for one way of sampling",
            )
        return "roll back", reasons
    reasons = tuple(sentence(check) for check in unsure)
    if n_complete < rules.min_complete * n_shared:
        share = math.floor(1000 * n_complete / n_shared) / 10
        reasons += (
            f"only {share:g} % of the shared items have all passes in both runs; "
            "finish the runs",
        )
    if reasons:
        return "cannot tell", reasons
    return "pass", tuple(sentence(check) for check in checks)


def _settings(old: RunMeasures, new: RunMeasures) -> tuple[str, ...]:
    return tuple(run_differences(old.run, new.run, _SETTINGS))
