"""The scorers that a plan needs, wherever they are to score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from phasefusion._description import describe_scorer
from phasefusion._scorer_checks import check_scorer
from phasefusion.errors import ScoringError

if TYPE_CHECKING:
    from phasefusion.protocols import Plan
    from phasefusion.protocols.arms import Prompt
    from phasefusion.scoring.protocol import Scorer


@dataclass(frozen=True, slots=True)
class Prepared:
    """All scorers of a run.

    Attributes
    ----------
    scorer : Scorer
        None stands for one in another process.
    variants : mapping
        Scorers of further prompts.
    facts : dict
        What identifies them in run.json: "scorer", and "prompts" where there are any.
    """

    scorer: Any
    variants: Mapping[Any, Any]
    facts: dict[str, Any]


def prepare(scorer: Scorer, plan: Plan) -> Prepared:
    """Return all scorers that a plan needs, and what identifies them in run.json."""
    pinned = _pinned(scorer, plan)
    variants = _variants(pinned, plan)
    facts = {"scorer": describe_scorer(pinned), **_prompts(variants)}
    return Prepared(pinned, variants, facts)


def _pinned(scorer: Scorer, plan: Plan) -> Scorer:
    """Let all arms see the same pixels, where a scorer's rule would have it other."""
    pinned = getattr(scorer, "pinned", None)
    budgets = [arm.grid.budget for arm in plan.arms if arm.grid is not None]
    if not callable(pinned) or not budgets:
        return scorer
    same: Scorer = pinned(max(budgets))
    check_scorer(same)
    return same


def _variants(scorer: Scorer, plan: Plan) -> dict[Prompt, Scorer]:
    """Return the scorers of all prompts but the usual one, or say what is missing."""
    name, kind = plan.protocol.name, type(scorer).__name__
    if plan.protocol.needs_posteriors and getattr(scorer, "is_generating", False):
        raise ScoringError(
            f"protocol {name!r} needs posteriors, and {kind} gives generated answers "
            "alone"
        )
    prompts = {arm.prompt for arm in plan.arms} - {"letters"}
    variant = getattr(scorer, "variant", None)
    if prompts and not callable(variant):
        raise ScoringError(
            f"protocol {name!r} puts questions in the form {', '.join(sorted(prompts))}"
            f", for which a scorer needs a method variant(name); {kind} has none"
        )
    return {prompt: variant(prompt) for prompt in sorted(prompts) if variant}


def _prompts(variants: Mapping[Prompt, Scorer]) -> dict[str, Any]:
    """Describe the scorers of further prompts, if there are any, for run.json."""
    if not variants:
        return {}
    return {"prompts": {name: describe_scorer(one) for name, one in variants.items()}}
