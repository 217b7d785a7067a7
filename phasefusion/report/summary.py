"""All numbers of a report, as plain JSON-able values; undefined ones are NaN."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from phasefusion.grid import PhaseGrid
from phasefusion.records import ARMS as RECORDED
from phasefusion.records import Passes
from phasefusion.records.scorers import shows_options
from phasefusion.report.card import sampling_card
from phasefusion.report.environment import environment
from phasefusion.report.items import (
    Column,
    ItemColumns,
    Right,
    contributions,
    without_orders,
)
from phasefusion.report.missing import kinds_of
from phasefusion.report.rates import Paired, Rates
from phasefusion.report.scored import MANY_TIES
from phasefusion.report.stated import stated_answers
from phasefusion.report.table import Table
from phasefusion.stats import (
    attention_units,
    attribution,
    stableeval_rating,
)

FORMAT = 1
#: Pooled posterior above and below which an item is called robust or fragile.
ROBUST, FRAGILE = 0.75, 0.55
_COMPARED = ("single", "union", "dense", "vote")
#: Greatest number up to which a float, as JSON readers use, holds every integer.
_EXACT = 2**53

Numbers = dict[str, Any]
T = TypeVar("T", int, float)


def summarise(run: Mapping[str, Any], passes: Passes, table: Table) -> Numbers:
    """Compute a report.

    Parameters
    ----------
    run : mapping
        ``run.json``.
    passes : Passes
        At least one pass.
    table : Table
        The same passes by item.

    Returns
    -------
    dict
        By section. Nothing in it depends on when or in how many pieces the run was
        made, and on where only what "environment" says; timing is that of `timing`.
    """
    from phasefusion.report.figures import figure
    from phasefusion.report.generated import generated

    settings = run.get("settings", {})
    columns = contributions(table)
    shown = shows_options(settings.get("scorer", {}))
    if not shown:
        columns = without_orders(columns)
    everywhere = _complete(columns.consensus.values(), table)
    rates = Rates(table.items)
    return {
        "format": FORMAT,
        "protocol": settings.get("protocol"),
        "items": _items(run, passes, table, rates),
        "stated": stated_answers(passes),
        "accuracy": _accuracy(table, columns, everywhere, rates),
        "comparisons": _comparisons(columns, everywhere, rates),
        "phase_flips": _phase_flips(table, columns, rates),
        "order_flips": _order_flips(table, columns, rates) if shown else None,
        "half_step": _half_step(settings, table, columns, rates),
        "consistency": _consistency(table, columns, rates),
        "margins_nats": _margins(table, columns.arms),
        "cost": _cost(settings, columns.arms),
        "ties": _ties(table, columns.arms),
        "option_mass": _option_mass(passes, settings),
        "letters": _letters(passes, table) if shown else {},
        "by_type": _by_type(table, columns, everywhere, rates),
        "card": sampling_card(run),
        "environment": environment(run),
        "generated": generated(passes, settings),
        "figure": figure(passes, settings),
    }


def timing(passes: Passes) -> Numbers:
    """Seconds of scoring by recorded arm; kept apart, for no two runs agree on it."""
    found = {}
    for arm in _recorded_arms(passes):
        seconds = passes.seconds[(passes.arm == arm) & ~np.isnan(passes.seconds)]
        n = len(seconds)
        with np.errstate(over="ignore"):  # a damaged number may be of any size
            total_s = float(seconds.sum())
        per_pass_s = total_s / n if n else math.nan
        found[arm] = {"n": n, "total_s": total_s, "per_pass_s": per_pass_s}
    return found


def _complete(columns: Any, table: Table) -> NDArray[np.bool_]:
    """Items that carry every arm."""
    complete = np.ones(len(table.items), bool)
    for column in columns:
        complete &= ~np.isnan(column)
    return complete


def _items(
    run: Mapping[str, Any], passes: Passes, table: Table, rates: Rates
) -> Numbers:
    planned = run.get("planned") or {}
    carries_all = np.ones(len(table.items), bool)
    for outcomes in table.arms.values():
        carries_all &= outcomes.consensus >= 0
    missing = passes.answer < 0
    reasons: dict[int, str] = {}
    counts: Counter[str] = Counter()
    for p in np.flatnonzero(missing).tolist():
        reason = passes.invalid[p] or "no answer"
        reasons.setdefault(int(passes.item[p]), reason)
        counts[reason] += 1
    n_missing = np.bincount(passes.item[missing], minlength=len(table.items))
    dropped = [
        {
            "benchmark": table.items[i].benchmark,
            "question_id": table.items[i].question_id,
            "missing_passes": int(n_missing[i]),
            "reason": reasons.get(i, "not every arm has been scored yet"),
        }
        for i in np.flatnonzero(~carries_all).tolist()
    ]
    return {
        "questions": run.get("questions", {}).get("n"),
        "with_passes": len(table.items),
        "videos": rates.n_videos,
        "cluster": rates.by,
        "without_gold": int((table.gold < 0).sum()),
        "one_option": int((table.n_options == 1).sum()),
        "missing_answers": "wrong" if table.missing_is_wrong else "left out",
        "passes": len(passes),
        "planned_passes": planned.get("passes"),
        "unfinished": len(passes) < planned.get("passes", 0)
        or bool(planned.get("stages_left")),
        "missing_passes": int(missing.sum()),
        "missing_reasons": [
            {"reason": reason, "n": n}
            for reason, n in sorted(counts.items(), key=lambda pair: (-pair[1], pair))
        ],
        "missing_kinds": kinds_of(counts),
        "dropped": sorted(dropped, key=lambda d: (d["benchmark"], d["question_id"])),
    }


def _accuracy(
    table: Table, columns: ItemColumns, everywhere: NDArray[np.bool_], rates: Rates
) -> Numbers:
    """Accuracy by arm, by the policy of the run, and by either policy.

    "answered" is of the questions with an answer, "missing_wrong" of all that every arm
    was asked; the one that the policy says stands above both.
    """
    asked = _complete(
        (right.consensus for right in columns.missing_wrong.values()), table
    )
    found = {}
    for arm in columns.arms:
        answered = _rates(rates, columns.answered[arm], everywhere)
        missing_wrong = _rates(rates, columns.missing_wrong[arm], asked)
        headline = missing_wrong if table.missing_is_wrong else answered
        found[arm] = headline | {"answered": answered, "missing_wrong": missing_wrong}
    return found


def _rates(rates: Rates, right: Right, chosen: NDArray[np.bool_]) -> Numbers:
    return {
        "order_averaged": rates.rate(right.order_averaged, chosen),
        "first_order": rates.rate(right.first_order, chosen),
        "consensus": rates.rate(right.consensus, chosen),
    }


def _comparisons(
    columns: ItemColumns, everywhere: NDArray[np.bool_], rates: Rates
) -> list[Numbers]:
    """Fusion, or the vote without posteriors, against every other arm."""
    pool = "fusion" if "fusion" in columns.arms else "vote"
    if pool not in columns.arms:
        return []
    found = []
    for arm in _COMPARED:
        if arm not in columns.arms or arm == pool:
            continue
        mean = columns.accuracy[pool] - columns.accuracy[arm]
        usable = everywhere & ~np.isnan(mean)
        found.append(
            {
                "arm": pool,
                "against": arm,
                "n": int(usable.sum()),
                "order_averaged_points": _points(mean[usable]),
                **{
                    name: _tested(
                        rates.paired(np.where(usable, of[pool], np.nan), of[arm])
                    )
                    for name, of in (
                        ("first_order", columns.first_order),
                        ("consensus", columns.consensus),
                    )
                },
            }
        )
    return found


def _points(differences: Column) -> float:
    return 100 * float(differences.mean()) if len(differences) else math.nan


def _tested(found: Paired) -> Numbers:
    return {
        "points": found.points,
        "only_arm": found.only_first,
        "only_against": found.only_second,
        "p": found.exact,
        "p_clustered": found.clustered,
    }


def _phase_flips(table: Table, columns: ItemColumns, rates: Rates) -> Numbers | None:
    if len(table.phase_names) < 2:
        return None
    consensus = table.phase_consensus()
    usable = ~np.isnan(columns.phase_flips.pairwise)
    pairs = [
        {
            "phases": [s, t],
            **rates.rate((consensus[:, s] != consensus[:, t]).astype(float), usable),
        }
        for s in range(len(table.phase_names))
        for t in range(s + 1, len(table.phase_names))
        if (table.n_phases[usable] > max(s, t)).all()
    ]
    return {
        "consensus": {
            "pairwise": rates.rate(columns.phase_flips.pairwise),
            "any": rates.rate(columns.phase_flips.any),
        },
        "passes": {
            "pairwise": rates.rate(columns.phase_flips_passes.pairwise),
            "any": rates.rate(columns.phase_flips_passes.any),
        },
        "pairs": pairs,
    }


def _order_flips(table: Table, columns: ItemColumns, rates: Rates) -> Numbers | None:
    if table.n_orders.max() < 2:
        return None
    arms = {
        arm: {"pairwise": rates.rate(flips.pairwise), "any": rates.rate(flips.any)}
        for arm, flips in columns.order_flips.items()
    }
    name = "phases" if "phases" in columns.order_flips else columns.arms[0]
    by_options = {}
    for k in np.unique(table.n_options).tolist():
        chosen = table.n_options == k
        by_options[str(k)] = {
            "orders": int(table.n_orders[chosen].max()),
            "orders_possible": _factorial(k),
            "pairwise": rates.rate(columns.order_flips[name].pairwise, chosen),
            "any": rates.rate(columns.order_flips[name].any, chosen),
        }
    return {"arms": arms, "by_options_of": name, "by_options": by_options}


def _factorial(k: int) -> int | float:
    """K!, as a float where JSON readers could not hold it exactly (K > 18)."""
    exact = math.factorial(k)
    return exact if exact <= _EXACT else float(exact)


def _half_step(
    settings: Mapping[str, Any], table: Table, columns: ItemColumns, rates: Rates
) -> Numbers | None:
    """Answers that change when a grid moves by half of its own step."""
    if not columns.change:
        return None
    everywhere = _complete(columns.change.values(), table)
    arms = {}
    for arm, change in columns.change.items():
        arms[arm] = {
            "consensus": rates.rate(change, everywhere),
            "passes": rates.rate(columns.change_passes[arm], everywhere),
            "shift": _shift(settings, table, arm, everywhere),
        }
    fusion = columns.change.get("fusion")
    against = {
        arm: _tested(rates.paired(np.where(everywhere, fusion, np.nan), change))
        for arm, change in columns.change.items()
        if fusion is not None and arm != "fusion"
    }
    return {"arms": arms, "fusion_against": against}


def _shift(
    settings: Mapping[str, Any], table: Table, arm: str, chosen: NDArray[np.bool_]
) -> Numbers:
    """Length of the shift in steps, and its median in frames and seconds."""
    recorded = "phase" if arm in ("fusion", "vote") else arm
    grid = _grid_of(settings, recorded)
    if grid is None:
        return {"steps": None, "frames": math.nan, "seconds": math.nan}
    infos = [info for info, use in zip(table.items, chosen, strict=True) if use]
    frames = [
        float(grid.shift_frames("half", n))
        for n in _middle([info.n_frames for info in infos])
    ]
    seconds = [
        grid.shift_seconds("half", duration_s)
        for duration_s in _middle([info.duration_s for info in infos])
    ]
    return {
        "steps": str(grid.shift_steps("half")),
        "frames": float(np.mean(frames)) if frames else math.nan,
        "seconds": float(np.mean(seconds)) if seconds else math.nan,
    }


def _middle(values: Sequence[T | None]) -> list[T]:
    """Return the one or two values whose mean is the median.

    A shift grows with the length of the clip, so these are the clips of the median.
    """
    known = sorted(value for value in values if value is not None)
    return known[(len(known) - 1) // 2 : len(known) // 2 + 1]


def _grid_of(settings: Mapping[str, Any], arm: str) -> PhaseGrid | None:
    """Return the unshifted grid of an arm, derived ones included."""
    for entry in settings.get("arms", ()):
        if entry["arm"] == arm and not entry["shifted"] and "budget" in entry:
            whole = settings["grid"]
            # random origins are none of the arm's
            own = {name: entry[name] for name in whole if entry[name] is not None}
            return PhaseGrid.from_dict(whole | own)
    if arm == "single" and "grid" in settings:
        grid = PhaseGrid.from_dict(settings["grid"])
        return PhaseGrid(grid.budget, 1, grid.origin, by=grid.by, short=grid.short)
    return None


def _consistency(table: Table, columns: ItemColumns, rates: Rates) -> Numbers:
    """FPC over phases at a fixed order, OOC over orders at a fixed phase."""
    over_orders = columns.order_flips.get("phases")
    if over_orders is None:
        over_orders = columns.order_flips[columns.arms[0]]
    over_phases = columns.phase_flips_passes
    if len(table.phase_names) < 2:
        nothing = np.full(len(table.items), np.nan)
        over_phases = type(over_phases)(nothing, nothing)
    fpc, ooc = (
        rates.rate(1 - over_phases.pairwise),
        rates.rate(1 - over_orders.pairwise),
    )
    both = (fpc["value"], ooc["value"])
    tied = _tied(table)
    # a tie rule answers the same in every phase and order, whatever the model
    defined = not any(map(math.isnan, both)) and not tied >= MANY_TIES
    configurations = _configurations(table, columns)
    pooled = ~np.isnan(table.pooled_top) & (table.n_options > 1)
    return {
        "fpc": {"pairwise": fpc, "unanimous": rates.rate(1 - over_phases.any)},
        "ooc": {"pairwise": ooc, "unanimous": rates.rate(1 - over_orders.any)},
        "tied_passes": tied,
        "rating": stableeval_rating(*both) if defined else None,
        "attribution": attribution(*both) if defined else None,
        "robust": _share(table.pooled_top > ROBUST, pooled),
        "fragile": _share(table.pooled_top < FRAGILE, pooled),
        "mean_accuracy": _mean(configurations),
        "accuracy_sd": (
            float(np.std(configurations, ddof=1))
            if len(configurations) > 1
            else math.nan
        ),
        "configurations": len(configurations),
        "configuration_phases": max(1, len(table.phase_names)),
        "configuration_arm": "phases" if table.phase_names else columns.arms[0],
        "shared_orders": table.shared_orders,
    }


def _configurations(table: Table, columns: ItemColumns) -> list[float]:
    """Accuracy of every phase with every order that all items have."""
    names = table.phase_names or tuple(arm for arm, _ in table.arms)[:1]
    answers = np.stack([table.arms[name, False].answer for name in names], axis=1)
    there = np.arange(table.order.shape[1]) < table.n_orders[:, None]
    usable = np.ones(len(table.items), bool)
    for name in names:
        usable &= ~np.isnan(columns.consensus[name])
        usable &= (table.arms[name, False].asked | ~there).all(axis=1)
    if not usable.any():
        return []
    n_orders = int(table.n_orders[usable].min())
    right = answers[usable, :, :n_orders] == table.gold[usable, None, None]
    return [float(x) for x in right.mean(axis=0).ravel()]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def _margins(table: Table, arms: Sequence[str]) -> Numbers:
    """Quartiles of the margin of the first order, in nats."""
    found = {}
    for arm in arms:
        margins = table.arms[arm, False].margin[:, 0]
        margins = margins[~np.isnan(margins) & (table.n_options > 1)]
        if len(margins):
            # an answer alone has an infinite margin, and inf - inf is no number
            at = [0.25, 0.5, 0.75]
            if np.isfinite(margins).all():
                q25, median, q75 = np.quantile(margins, at)
            else:
                q25, median, q75 = np.quantile(margins, at, method="inverted_cdf")
            found[arm] = {
                "q25": float(q25),
                "median": float(median),
                "q75": float(q75),
                "n": len(margins),
            }
    return found


def _cost(settings: Mapping[str, Any], arms: Sequence[str]) -> Numbers:
    """Count passes and attention units (frames squared, over passes) by arm."""
    found = {}
    for arm in arms:
        phased = arm in ("fusion", "vote")
        grid = _grid_of(
            settings, "phase" if phased or arm.startswith("phase ") else arm
        )
        if grid is None:
            continue
        n_passes = grid.phases if phased else 1
        found[arm] = {
            "passes": n_passes,
            "frames": n_passes * grid.budget,
            "attention_units": int(attention_units(n_passes, grid.budget)),
        }
    return found


def _ties(table: Table, arms: Sequence[str]) -> Numbers:
    """Share of answers that a tie rule chose, by arm."""
    there = np.arange(table.order.shape[1]) < table.n_orders[:, None]
    found = {}
    for arm in arms:
        outcomes = table.arms[arm, False]
        answered = there & (outcomes.answer >= 0)
        with_consensus = outcomes.consensus >= 0
        found[arm] = {
            "passes": _share(outcomes.tied, answered),
            "consensus": _share(outcomes.consensus_tied, with_consensus),
        }
    return found


def _tied(table: Table) -> float:
    """Share of the passes themselves of which a tie rule chose the answer."""
    there = np.arange(table.order.shape[1]) < table.n_orders[:, None]
    there &= (table.n_options > 1)[:, None]
    own = {  # by what they are: the single pass may be one of the phases
        id(out): out
        for (arm, _), out in table.arms.items()
        if arm not in ("fusion", "vote")
    }
    hits = [out.tied[there & (out.answer >= 0)] for out in own.values()]
    each = np.concatenate(hits) if hits else np.empty(0)
    return float(each.mean()) if len(each) else math.nan


def _share(hits: NDArray[np.bool_], of: NDArray[np.bool_]) -> float:
    return float(hits[of].mean()) if of.any() else math.nan


def _recorded_arms(passes: Passes) -> list[str]:
    there = dict.fromkeys(passes.arm.tolist())
    return [arm for arm in dict.fromkeys((*RECORDED, *there)) if arm in there]


def _option_mass(passes: Passes, settings: Mapping[str, Any]) -> Numbers:
    """Probability that the model gives to the options together, by recorded arm."""
    found = {}
    given = settings.get("arms")
    prompts = {
        arm.get("arm"): arm.get("prompt", "letters")
        for arm in (given if isinstance(given, list) else [])
        if isinstance(arm, dict)
    }
    for arm in _recorded_arms(passes):
        mass = passes.option_mass[(passes.arm == arm) & ~np.isnan(passes.option_mass)]
        if len(mass):
            found[arm] = {
                "prompt": prompts.get(arm, "letters"),
                "median": float(np.median(mass)),
                "min": float(mass.min()),
                "below_half": float((mass < 0.5).mean()),
                "n": len(mass),
            }
    return found


def _letters(passes: Passes, table: Table) -> Numbers:
    """Share of answers at every position of the prompt, by number of options."""
    found = {}
    answered = passes.answer >= 0
    position = np.argmax(passes.order == passes.answer[:, None], axis=1)
    n_options = table.n_options[passes.item]
    for k in np.unique(n_options[answered]).tolist():
        counts = np.bincount(position[answered & (n_options == k)], minlength=k)
        found[str(k)] = {
            "shares": (counts / counts.sum()).tolist(),
            "n": int(counts.sum()),
        }
    return found


def _by_type(
    table: Table, columns: ItemColumns, everywhere: NDArray[np.bool_], rates: Rates
) -> Numbers:
    types = sorted({info.type for info in table.items if info.type is not None})
    of_item = np.array([info.type for info in table.items], object)
    order_flips = columns.order_flips.get(
        "phases", columns.order_flips[columns.arms[0]]
    )
    found = {}
    for kind in types:
        chosen = of_item == kind
        found[kind] = {
            "n": int(chosen.sum()),
            "accuracy": {
                arm: rates.rate(columns.accuracy[arm], chosen & everywhere)
                for arm in ("single", "fusion")
                if arm in columns.arms
            },
            "phase_flips": rates.rate(columns.phase_flips.pairwise, chosen),
            "order_flips": rates.rate(order_flips.any, chosen),
            "half_step": {
                arm: rates.rate(columns.change[arm], chosen)
                for arm in ("single", "fusion")
                if arm in columns.change
            },
        }
    return found
