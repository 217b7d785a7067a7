"""What becomes of a claim: its verdict, what it computes, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from phasefusion.audit.arithmetic import printed_as, printed_bounds
from phasefusion.audit.claims import Claim, Claims, Expression, Formula, Reading
from phasefusion.audit.evaluation import Evaluator, names_in, same
from phasefusion.audit.figures import Figure
from phasefusion.audit.language import List, Term
from phasefusion.audit.rounding import Roundings
from phasefusion.audit.values import Column, Uncomputable, describe

AGREES, DIFFERS, UNKNOWN = "agrees", "differs", "cannot be computed"
AMBIGUOUS, INCONSISTENT = "ambiguous", "inconsistent"
#: Longest relation that is quoted in a reason.
_MAX_RELATION = 48


@dataclass(frozen=True, slots=True)
class Outcome:
    """Verdict of one reading.

    Attributes
    ----------
    name : str
        Of the reading; empty for a claim that has one only.
    verdict : str
    computed : number, bool, text, list, mapping or None
    reason : str
    """

    name: str
    verdict: str
    computed: Any
    reason: str


@dataclass(frozen=True, slots=True)
class Result:
    """What an audit found of one claim.

    Attributes
    ----------
    claim : Claim
    verdict : str
        "agrees", "differs" (from what runs or files hold, or from what was recorded),
        "cannot be computed", "ambiguous" (readings of the text disagree) or
        "inconsistent" (printed figures contradict each other).
    computed : number, bool, text, list, mapping or None
    figures : tuple of Figure
        The printed figures it rests on.
    reason : str
    readings : tuple of Outcome
    from_runs : bool
        Whether it is computed from runs or files, not from printed figures alone.
    """

    claim: Claim
    verdict: str
    computed: Any
    figures: tuple[Figure, ...]
    reason: str
    readings: tuple[Outcome, ...]
    from_runs: bool

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is the one the file expects."""
        return self.verdict == self.claim.expect


def judge(claim: Claim, claims: Claims, sources: Mapping[str, Any]) -> Result:
    """Check one claim.

    Parameters
    ----------
    claim : Claim
    claims : Claims
        The file it is in.
    sources : mapping of str to Source
        Runs and files by name.

    Returns
    -------
    Result
    """
    judged = _Judge(claim, claims, sources)
    own = judged.outcome(Reading("", claim.compute, claim.holds), recorded=True)
    readings = tuple(judged.outcome(one) for one in claim.readings)
    if claim.readings:
        own = _combined(claim, own, readings)
    return Result(
        claim,
        own.verdict,
        own.computed,
        judged.shown(),
        own.reason,
        readings,
        judged.from_runs,
    )


def _combined(claim: Claim, own: Outcome, readings: tuple[Outcome, ...]) -> Outcome:
    """One verdict of all readings: what they share, or that they do not."""
    if own.verdict not in (AGREES, ""):
        return own
    verdicts = {one.verdict for one in readings}
    parts = "; ".join(f"{one.name}: {_short(one)}" for one in readings)
    if len(verdicts) == 1 and AGREES not in verdicts:
        return Outcome("", verdicts.pop(), own.computed, parts)
    if len(verdicts) == 1 and all(
        same(one.computed, readings[0].computed) for one in readings
    ):
        return Outcome("", AGREES, own.computed, parts)
    return Outcome("", AMBIGUOUS, own.computed, parts)


def _short(outcome: Outcome) -> str:
    """Say what became of a reading in a few words."""
    words = {AGREES: "holds", UNKNOWN: outcome.reason}
    said = words.get(outcome.verdict, "does not hold")
    computed = show(outcome.computed)
    return f"{said} ({computed})" if computed and outcome.verdict == AGREES else said


class _Judge:
    def __init__(
        self, claim: Claim, claims: Claims, sources: Mapping[str, Any]
    ) -> None:
        self._claim = claim
        self._figures = claims.figures
        self._evaluator = Evaluator(claims.figures, sources)
        used = set().union(*(names_in(one.term) for one in claim.expressions))
        self._used = used
        self.from_runs = bool(used & set(claims.runs))
        self._wrong = DIFFERS if self.from_runs else INCONSISTENT

    def shown(self) -> tuple[Figure, ...]:
        """Return the published figures, or those that the expressions use."""
        published = _figures(self._claim.published)
        if published:
            return tuple(published)
        return tuple(one for name, one in self._figures.items() if name in self._used)

    def outcome(self, reading: Reading, recorded: bool = False) -> Outcome:
        """Verdict of one reading; none ("") where there is nothing to check."""
        computed = None
        try:
            computed = self._compute(reading.compute)
            verdict, reason = self._checked(reading, computed, recorded)
        except Uncomputable as error:
            verdict, reason = UNKNOWN, str(error)
        return Outcome(reading.name, verdict, computed, reason)

    def _compute(self, formula: Formula) -> Any:
        if formula is None:
            return None
        if isinstance(formula, dict):
            return {key: self._compute(one) for key, one in formula.items()}
        if isinstance(formula, list):
            return [self._compute(one) for one in formula]
        value = self._evaluator.value(formula.term)
        if isinstance(value, float) and math.isnan(value):
            raise Uncomputable("the result is not defined (NaN)")
        if isinstance(value, int | float | str | bool | list):
            return value
        hint = "; name one of its fields" if not isinstance(value, Column) else ""
        raise Uncomputable(f"a number is wanted, this is {describe(value)}{hint}")

    def _checked(
        self, reading: Reading, computed: Any, recorded: bool
    ) -> tuple[str, str]:
        claim, reasons = self._claim, []
        if recorded and claim.recorded is not None:
            if not same(computed, claim.recorded):
                return DIFFERS, f"the file records {show(claim.recorded)}"
            reasons.append("as recorded")
        if claim.published is not None and reading.compute is not None:
            verdict, reason = self._against(
                claim.published, computed, reading.compute, "published"
            )
            if verdict != AGREES:
                return verdict, reason
            reasons.append(reason)
        if reading.holds is not None:
            verdict, reason = self._true(reading.holds, computed, reading.compute)
            if verdict != AGREES:
                return verdict, reason
            reasons.append(reason)
        if not reasons:
            return "", ""
        if reasons == ["as recorded"]:
            return AGREES, "derived: nothing is printed to compare it with"
        return AGREES, next(one for one in reversed(reasons) if one != "as recorded")

    def _against(
        self, published: Any, computed: Any, formula: Formula, where: str
    ) -> tuple[str, str]:
        """Compare what is computed with what is published, part by part."""
        if not isinstance(published, Figure):
            return self._parts(published, computed, formula, where)
        if isinstance(computed, bool) or not isinstance(computed, int | float):
            raise Uncomputable(
                f"a number is wanted to compare with {published.text}, this is "
                f"{describe(computed)}"
            )
        tolerance = self._claim.tolerance
        wanted = (
            f"within {tolerance:g} of {published.text}"
            if tolerance is not None
            else f"prints as {published.text}"
        )
        if printed_as(computed, published, tolerance):
            return AGREES, wanted
        if self._wrong == INCONSISTENT and isinstance(formula, Expression):
            rounding = Roundings(self._evaluator, formula.term)
            if rounding.reaches(*printed_bounds(published, tolerance)):
                return AGREES, f"rounding of the figures allows {published.text}"
        return (
            self._wrong,
            f"{show(computed)} is not {wanted.replace('prints as ', '')}",
        )

    def _parts(
        self, published: Any, computed: Any, formula: Formula, where: str
    ) -> tuple[str, str]:
        keys: Any
        if isinstance(published, dict):
            keys = list(published)
            fits = isinstance(computed, dict) and set(computed) == set(published)
        else:
            keys = range(len(published))
            fits = isinstance(computed, list) and len(computed) == len(published)
        if not fits:
            raise Uncomputable(f"{where} and what is computed have different parts")
        found = [
            self._against(
                published[key],
                computed[key],
                formula[key] if isinstance(formula, dict | list) else None,
                f"{where} {key}",
            )
            for key in keys
        ]
        wrong = [reason for verdict, reason in found if verdict != AGREES]
        if wrong:
            return self._wrong, "; ".join(wrong)
        return AGREES, "; ".join(dict.fromkeys(reason for _, reason in found))

    def _true(
        self, holds: Expression, computed: Any, formula: Formula
    ) -> tuple[str, str]:
        """Whether a relation holds as printed, or under some rounding."""
        if self._truth(self._evaluator.value(holds.term, computed)):
            return AGREES, f"{_relation(holds)} holds"
        if self._wrong == DIFFERS:
            return DIFFERS, f"{_relation(holds)} does not hold"
        rounding = Roundings(self._evaluator, holds.term, _term(formula), computed)
        if rounding.allows(self._truth):
            return AGREES, f"{_relation(holds)} holds within the printed digits"
        return INCONSISTENT, f"{_relation(holds)} does not hold"

    def _truth(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise Uncomputable(f"holds must be true or false, it is {describe(value)}")
        return value


def _term(formula: Formula) -> Term | None:
    """Return what `value` stands for as one expression, where it is one."""
    if isinstance(formula, Expression):
        return formula.term
    if isinstance(formula, list):
        items = [_term(one) for one in formula]
        known = tuple(one for one in items if one is not None)
        return List(0, known) if len(known) == len(items) else None
    return None


def _relation(holds: Expression) -> str:
    text = " ".join(holds.text.split())
    return text if len(text) <= _MAX_RELATION else "the relation"


def _figures(published: Any) -> list[Figure]:
    if published is None:
        return []
    if isinstance(published, Figure):
        return [published]
    parts = published.values() if isinstance(published, dict) else published
    return [one for part in parts for one in _figures(part)]


def show(value: Any, digits: int = 4) -> str:
    """Format what was computed for a table.

    Examples
    --------
    >>> show([18.228, -3, True]), show({"25": 2}), show(None)
    ('[18.23, -3, true]', '25: 2', '')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {show(one, digits)}" for key, one in value.items())
    if isinstance(value, list):
        shown = [show(one, digits) for one in value[:8]]
        more = f", ... {len(value)} in all" if len(value) > 8 else ""
        return f"[{', '.join(shown)}{more}]"
    return str(value)
