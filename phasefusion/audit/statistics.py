"""The statistics of phasefusion.stats that claims may name, under their own names."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from phasefusion import stats
from phasefusion.audit.reading import nearest
from phasefusion.audit.values import Uncomputable, plain

#: Names that an expression can call; arguments are those of the library.
STATISTICS: dict[str, Callable[..., Any]] = {
    name: getattr(stats, name)
    for name in (
        "accuracy",
        "adjust_pvalues",
        "allocation",
        "attention_ratio",
        "attention_units",
        "attribution",
        "auroc",
        "change_rate",
        "cluster_bootstrap",
        "clustered_mcnemar",
        "clustered_mean",
        "cmh",
        "cochran_q",
        "consensus",
        "consistency",
        "correlation",
        "discordant",
        "expected_any_flip",
        "expected_modal_share",
        "fixed_sequence",
        "flag_lowest",
        "flip_rates",
        "flip_ratio",
        "half_split_residual",
        "hoeffding_bentkus",
        "implied_error",
        "lost_correct",
        "matched_vote",
        "mcnemar",
        "p_chart",
        "proportion_ci",
        "proportion_upper",
        "quantile",
        "rarefied_flip_rate",
        "risk_coverage",
        "shared_unstable",
        "shared_unstable_counts",
        "sign_flip_test",
        "smallest_certifiable",
        "stableeval_rating",
        "tost",
        "unanimity",
        "worst_case_accuracy",
    )
}
#: Greatest value of any number given to these, whose work grows with it.
_NUMBERS = {"mcnemar": 50_000, "expected_modal_share": 26}
#: Greatest value of an argument, where the work or the memory grows with it.
_ARGUMENTS = {"n_resamples": 20_000, "splits": 10_000, "m": 1000, "n_options": 1000}
_MOST = 10_000_000
#: Arguments that take a pair of numbers.
_PAIRS = ("margin", "limits")


def call(name: str, arguments: list[Any], options: dict[str, Any]) -> Any:
    """Call a statistic with what the library takes.

    Raises
    ------
    Uncomputable
        If the library refuses the arguments, or they are beyond the limits.
    """
    function = STATISTICS[name]
    _limit(name, function, arguments, options)
    options = {
        key: tuple(value) if key in _PAIRS and isinstance(value, list) else value
        for key, value in options.items()
    }
    try:
        return function(*arguments, **options)
    except (TypeError, ValueError, IndexError) as error:
        raise Uncomputable(str(error)) from error


def _limit(
    name: str, function: Callable[..., Any], given: list[Any], options: dict[str, Any]
) -> None:
    bound = inspect.signature(function).bind(*given, **options)
    for parameter, value in bound.arguments.items():
        most = _NUMBERS.get(name, _ARGUMENTS.get(parameter, _MOST))
        largest = _largest(value)
        if largest > most:
            raise Uncomputable(
                f"{parameter} is {largest:g}, at most {most} is computed"
            )


def _largest(value: Any) -> float:
    if isinstance(value, list):
        return max(map(_largest, value), default=0)
    return abs(value) if isinstance(value, int | float) else 0


def field_of(value: Any, name: str) -> Any:
    """Return a field of a result, as a number, text or list.

    Raises
    ------
    Uncomputable
        If the result has no such field.
    """
    if not dataclasses.is_dataclass(value) or type(value).__module__.split(".")[:2] != [
        "phasefusion",
        "stats",
    ]:
        raise Uncomputable(f"only results of statistics have fields such as {name!r}")
    known = {field.name for field in dataclasses.fields(value)}
    known |= {
        key for key, part in vars(type(value)).items() if isinstance(part, property)
    }
    if name not in known or name.startswith("_"):
        raise Uncomputable(f"there is no field {name!r}: {nearest(name, known)}")
    return plain(getattr(value, name))
