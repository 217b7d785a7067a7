"""Commands that say how many items a measurement needs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasefusion.cli.application import JsonFlag, app, examples, print_table

if TYPE_CHECKING:
    from phasefusion.planning import Design, Estimate, PairEstimate, Pilot, Plan

plan = typer.Typer(
    invoke_without_command=True,
    help="Say how many items a measurement needs, or what a given number can show.\n\n"
    "With --from, rates, discordance and clusters are estimated from pilot runs, and "
    "every plan is made for them.",
    epilog=examples(
        "phasefusion plan equivalence --margin 2.5 --discordance 13.9",
        "phasefusion plan equivalence --margin 2.5 --discordance 13.9 --n 446",
        "phasefusion plan difference --rates 18.2 10.1 --both 6",
        "phasefusion plan interval --rate 60 --half-width 3",
        "phasefusion plan --from runs/pilot",
        "phasefusion plan --from runs/pilot --n 600",
    ),
)
app.add_typer(plan, name="plan")


class Cluster(StrEnum):
    """What items of one cluster share."""

    auto = "auto"
    question = "question"
    video = "video"


class Of(StrEnum):
    """What two arms are compared by."""

    accuracy = "accuracy"
    change = "half-step change"


class PValue(StrEnum):
    """P-value of McNemar's test."""

    exact = "exact"
    midp = "mid-p"


class Interval(StrEnum):
    """Interval of a rate."""

    wilson = "wilson"
    exact = "clopper-pearson"
    clustered = "clustered-mean"


Runs = Annotated[
    list[Path] | None,
    typer.Option("--from", help="Pilot run folder; give it again for more runs."),
]
Size = Annotated[
    int | None,
    typer.Option("--n", min=2, help="Items: what so many can show, the reverse."),
]
Margin = Annotated[
    float,
    typer.Option(min=0, max=100, help="Points that count as no difference, to +-."),
]
Discordance = Annotated[
    float | None,
    typer.Option(min=0, max=100, help="Percent of items that only one arm has."),
]
Power = Annotated[float, typer.Option(help="Chance to succeed, a fraction.")]
Alpha = Annotated[float, typer.Option(help="Level of the test, a fraction.")]
Level = Annotated[float, typer.Option(help="Confidence level, a fraction.")]
Effect = Annotated[
    float | None,
    typer.Option("--design-effect", help="Variance over that of independent items."),
]
Icc = Annotated[
    float | None, typer.Option(help="Correlation inside a cluster; needs its size.")
]
ClusterSize = Annotated[
    float | None, typer.Option(min=1, help="Items a cluster (such as a video).")
]
By = Annotated[Cluster, typer.Option(help="What items of a cluster share, of --from.")]
ArmName = Annotated[str, typer.Option(help="Arm of the pilot.")]
Against = Annotated[str, typer.Option(help="Arm of the pilot to compare with.")]


@plan.callback()
def _overview(
    context: typer.Context,
    runs: Runs = None,
    n: Size = None,
    margin: Margin = 2.5,
    power: Power = 0.8,
    alpha: Alpha = 0.05,
    cluster: By = Cluster.auto,
    as_json: JsonFlag = False,
) -> None:
    if context.invoked_subcommand is not None:
        if runs or n is not None or as_json:
            raise typer.BadParameter(
                f"give the options after the goal: phasefusion plan "
                f"{context.invoked_subcommand} --from ..."
            )
        return
    if not runs:
        if n is not None or as_json:
            raise typer.BadParameter("give --from RUN, or a goal: equivalence, ...")
        print(context.get_help())
        return
    made = _pilot(runs, cluster)
    plans = [_of_pair(pair, n, margin / 100, power, alpha) for pair in made.pairs]
    if as_json:
        found = {"pilot": made.to_dict(), "plans": [_json(entry) for entry in plans]}
        print(json.dumps(found, allow_nan=False))
        return
    _print_pilot(made)
    if plans:
        _print_pairs(plans, n, margin, power, alpha)


def _pilot(runs: Sequence[Path], cluster: Cluster) -> Pilot:
    from phasefusion.planning import pilot

    return pilot(*runs, cluster=cluster.value)


def _of_pair(
    pair: PairEstimate, n: int | None, margin: float, power: float, alpha: float
) -> dict[str, Any]:
    """Plans for one pair of arms: its equivalence and its difference.

    A pilot without a discordant item, or a difference too small for any sample, gets
    the reason instead.
    """
    from phasefusion import planning

    discordance, design = pair.discordance.mean, pair.design()
    difference = pair.difference.mean.value
    found: dict[str, Any] = {"arm": pair.arm, "against": pair.against, "of": pair.of}
    share = discordance.value or discordance.high
    common: dict[str, Any] = {"alpha": alpha, "design": design}
    goals: dict[str, Any] = {
        "equivalence": lambda: planning.tost_items(
            margin=margin, discordance=share, power=power, **common
        ),
        "equivalence_upper": lambda: planning.tost_items(
            margin=margin, discordance=discordance.high, power=power, **common
        ),
        "difference": lambda: planning.mcnemar_items(
            difference=difference, discordance=share, power=power, **common
        ),
    }
    if n is not None:
        goals = {
            "equivalence": lambda: planning.tost_power(
                n, margin=margin, discordance=share, **common
            ),
            "margin": lambda: planning.tost_margin(
                n, discordance=share, power=power, **common
            ),
            "difference": lambda: planning.mcnemar_difference(
                n, discordance=share, power=power, **common
            ),
        }
    for name, make in goals.items():
        found[name] = _or_reason(make)
    return found


def _or_reason(make: Any) -> Plan | str:
    from phasefusion.errors import StatisticsError

    try:
        made: Plan = make()
    except StatisticsError as error:
        return str(error)
    return made


def _json(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.to_dict() if hasattr(value, "to_dict") else value
        for name, value in entry.items()
    }


def _print_pilot(made: Pilot) -> None:
    rows = [
        [
            name,
            _interval(rate.mean, 100, 1),
            _interval(rate.design_effect, 1, 2),
            _interval(rate.icc, 1, 2),
            str(rate.n),
        ]
        for name, rate in made.rates.items()
        if not name.partition(", ")[2].startswith("phase ")
    ]
    print_table(
        f"Pilot: {', '.join(made.runs)}; {made.n} items in {made.n_clusters} clusters "
        f"by {made.cluster}, 95 % intervals",
        ["rate", "%", "design effect", "ICC", "n"],
        rows,
    )
    rows = [
        [
            f"{pair.arm} - {pair.against}",
            pair.of,
            _interval(pair.difference.mean, 100, 1),
            _interval(pair.discordance.mean, 100, 1),
            _interval(pair.difference.design_effect, 1, 2),
            _interval(pair.difference.icc, 1, 2),
            str(pair.difference.n),
        ]
        for pair in made.pairs
    ]
    columns = ["arms", "of", "points", "discordant, %", "design effect", "ICC", "n"]
    if rows:
        print_table("Pairs of arms", columns, rows)


def _print_pairs(
    plans: Sequence[Mapping[str, Any]],
    n: int | None,
    margin: float,
    power: float,
    alpha: float,
) -> None:
    if n is None:
        title = (
            f"Items needed for power {power:g} at alpha {alpha:g}, clusters as in the "
            "pilot"
        )
        columns = [
            f"to certify +-{margin:g}",
            "at the upper discordance",
            "to detect the difference seen",
        ]
    else:
        title = f"What {n} items show, power {power:g} at alpha {alpha:g}"
        columns = [f"+-{margin:g} points", "margin certified", "difference detected"]
    rows = [
        [
            f"{entry['arm']} - {entry['against']}",
            entry["of"],
            *(_cell(name, entry[name], n) for name in list(entry)[3:]),
        ]
        for entry in plans
    ]
    print_table(title, ["arms", "of", *columns], rows)


def _cell(name: str, made: Any, n: int | None) -> str:
    """Say the one number that a plan was made for; a dash where there is no plan."""
    if isinstance(made, str):
        return "–"
    if n is None:
        return str(made.n)
    if name == "margin":
        return f"+-{100 * made.margin:.2f}"
    if name == "difference":
        return f"{100 * made.difference:.2f}"
    if made.certifiable:
        return f"power {made.power:.2f}"
    return f"not certifiable (> {made.n_certifiable - 1})"


def _interval(estimate: Estimate, scale: float, digits: int) -> str:
    import math

    from phasefusion.stats._answers import half_up

    if math.isnan(estimate.value):
        return "–"
    value, low, high = (
        half_up(scale * x, digits)
        for x in (estimate.value, estimate.low, estimate.high)
    )
    return value if math.isnan(estimate.low) else f"{value} [{low}, {high}]"


def _design(effect: float | None, icc: float | None, size: float | None) -> Design:
    from phasefusion.planning import Design

    if effect is not None and icc is not None:
        raise typer.BadParameter("give either --design-effect or --icc")
    if icc is not None:
        if size is None:
            raise typer.BadParameter("--icc needs --cluster-size")
        return Design.from_icc(icc, size)
    return Design(1.0 if effect is None else effect, 1.0 if size is None else size)


def _refuse(reason: str, **options: Any) -> None:
    given = [
        f"--{name.replace('_', '-')}" for name, v in options.items() if v is not None
    ]
    if given:
        raise typer.BadParameter(f"{' and '.join(given)}: {reason}")


def _print_plans(plans: Mapping[str, Plan], as_json: bool) -> None:
    """Print plans side by side, the labels of all in the order of the first."""
    if as_json:
        found = {name: made.to_dict() for name, made in plans.items()}
        print(json.dumps(found, allow_nan=False))
        return
    for name, made in plans.items():
        rows = [list(row) for row in made.rows()]
        title = made.title if len(plans) == 1 else f"{made.title}: {name}"
        print_table(title, ["", ""], rows, header=False)


@plan.command(
    epilog=examples(
        "phasefusion plan equivalence --margin 2.5 --discordance 13.9",
        "phasefusion plan equivalence --discordance 13.9 --n 446",
        "phasefusion plan equivalence --discordance 14 --icc 0.1 --cluster-size 3",
        "phasefusion plan equivalence --from runs/pilot --against union",
    )
)
def equivalence(
    margin: Margin = 2.5,
    discordance: Discordance = None,
    difference: Annotated[
        float, typer.Option(help="Points that the arms truly differ by.")
    ] = 0.0,
    n: Size = None,
    power: Power = 0.8,
    alpha: Alpha = 0.05,
    design_effect: Effect = None,
    icc: Icc = None,
    cluster_size: ClusterSize = None,
    runs: Runs = None,
    arm: ArmName = "fusion",
    against: Against = "single",
    cluster: By = Cluster.auto,
    as_json: JsonFlag = False,
) -> None:
    """Plan a test that two arms are equally accurate within a margin (TOST)."""
    from phasefusion import planning

    cases: dict[str, tuple[float, Design]] = {}
    if runs:
        _refuse(
            "comes from the pilot of --from",
            discordance=discordance,
            design_effect=design_effect,
            icc=icc,
        )
        pair = _pilot(runs, cluster).pair(arm, against)
        design = pair.design(cluster_size)
        share = pair.discordance.mean
        cases["at the pilot's discordance"] = (share.value, design)
        cases["at the upper end of its interval"] = (share.high, design)
    elif discordance is None:
        raise typer.BadParameter("give --discordance, or --from RUN")
    else:
        design = _design(design_effect, icc, cluster_size)
        cases["items"] = (discordance / 100, design)
    plans: dict[str, Plan] = {}
    for name, (share_of, design) in cases.items():
        common: dict[str, Any] = {
            "discordance": share_of,
            "difference": difference / 100,
            "alpha": alpha,
            "design": design,
        }
        if n is None:
            made = planning.tost_items(margin=margin / 100, power=power, **common)
            plans[name] = made
            continue
        label = "" if len(cases) == 1 else f", {name}"
        plans[f"this margin{label}"] = planning.tost_power(
            n, margin=margin / 100, **common
        )
        plans[f"margin with power {power:g}{label}"] = planning.tost_margin(
            n, power=power, **common
        )
    _print_plans(plans, as_json)


@plan.command(
    epilog=examples(
        "phasefusion plan difference --difference 3 --discordance 15",
        "phasefusion plan difference --rates 18.2 10.1 --both 6",
        "phasefusion plan difference --discordance 15 --n 600",
        "phasefusion plan difference --from runs/pilot --of 'half-step change'",
    )
)
def difference(
    difference: Annotated[
        float | None,
        typer.Option(min=-100, max=100, help="Points that the arms truly differ by."),
    ] = None,
    discordance: Discordance = None,
    rates: Annotated[
        tuple[float, float] | None,
        typer.Option(help="Percent that each arm has: right answers, or changed ones."),
    ] = None,
    both: Annotated[
        float | None,
        typer.Option(help="Percent that both have, with --rates (independent arms)."),
    ] = None,
    n: Size = None,
    power: Power = 0.8,
    alpha: Alpha = 0.05,
    test: Annotated[PValue, typer.Option(help="P-value.")] = PValue.exact,
    design_effect: Effect = None,
    icc: Icc = None,
    cluster_size: ClusterSize = None,
    runs: Runs = None,
    arm: ArmName = "fusion",
    against: Against = "single",
    of: Annotated[Of, typer.Option(help="What is compared, of --from.")] = Of.accuracy,
    cluster: By = Cluster.auto,
    as_json: JsonFlag = False,
) -> None:
    """Plan a test that two arms differ, in accuracy or in flips (McNemar)."""
    from phasefusion import planning

    delta = None if difference is None else difference / 100
    if runs:
        _refuse(
            "comes from the pilot of --from",
            discordance=discordance,
            rates=rates,
            both=both,
            design_effect=design_effect,
            icc=icc,
        )
        pair = _pilot(runs, cluster).pair(arm, against, of.value)
        share, design = pair.discordance.mean.value, pair.design(cluster_size)
        delta = pair.difference.mean.value if delta is None else delta
    else:
        design = _design(design_effect, icc, cluster_size)
        delta, share = _arms_differ(delta, discordance, rates, both)
    common: dict[str, Any] = {
        "discordance": share,
        "alpha": alpha,
        "test": test.value,
        "design": design,
    }
    plans: dict[str, Plan] = {}
    if n is None:
        if delta is None:
            raise typer.BadParameter(
                "give --difference or --rates, or the reverse: --n"
            )
        plans["items"] = planning.mcnemar_items(difference=delta, power=power, **common)
    else:
        if delta is not None:
            plans["this difference"] = planning.mcnemar_power(
                n, difference=delta, **common
            )
        plans[f"difference with power {power:g}"] = planning.mcnemar_difference(
            n, power=power, **common
        )
    _print_plans(plans, as_json)


def _arms_differ(
    delta: float | None,
    discordance: float | None,
    rates: tuple[float, float] | None,
    both: float | None,
) -> tuple[float | None, float]:
    """Difference and discordance as fractions, from what was given of them."""
    from phasefusion.planning import discordance_of

    if rates is None:
        if both is not None:
            raise typer.BadParameter("--both goes with --rates")
        if discordance is None:
            raise typer.BadParameter("give --discordance, --rates, or --from RUN")
        return delta, discordance / 100
    if delta is not None or discordance is not None:
        raise typer.BadParameter(
            "--rates give the difference and, with --both, the discordance"
        )
    first, second = (rate / 100 for rate in rates)
    shared = None if both is None else both / 100
    return first - second, discordance_of(first, second, shared)


@plan.command(
    epilog=examples(
        "phasefusion plan interval --rate 60 --half-width 3",
        "phasefusion plan interval --rate 20 --n 600 --method clopper-pearson",
        "phasefusion plan interval --rate 60 --half-width 3 --icc 0.1 --cluster-size 3",
        "phasefusion plan interval --from runs/pilot --of 'accuracy, fusion' --n 900",
    )
)
def interval(
    rate: Annotated[
        float | None, typer.Option(min=0, max=100, help="Percent: accuracy, flips.")
    ] = None,
    half_width: Annotated[
        float | None, typer.Option(help="Points to either side of the rate.")
    ] = None,
    n: Size = None,
    method: Annotated[Interval, typer.Option()] = Interval.wilson,
    level: Level = 0.95,
    design_effect: Effect = None,
    icc: Icc = None,
    cluster_size: ClusterSize = None,
    runs: Runs = None,
    of: Annotated[
        str,
        typer.Option(help="Rate of the pilot, by its name in plan --from."),
    ] = "accuracy, fusion",
    cluster: By = Cluster.auto,
    as_json: JsonFlag = False,
) -> None:
    """Plan the width of the interval of a rate."""
    from phasefusion import planning

    if runs:
        _refuse(
            "comes from the pilot of --from",
            rate=rate,
            design_effect=design_effect,
            icc=icc,
        )
        found = _pilot(runs, cluster).rates
        if of not in found:
            raise typer.BadParameter(f"--of {of!r}: the pilot has {', '.join(found)}")
        share, design = found[of].mean.value, found[of].design(cluster_size)
    elif rate is None:
        raise typer.BadParameter("give --rate, or --from RUN")
    else:
        share, design = rate / 100, _design(design_effect, icc, cluster_size)
    if (n is None) == (half_width is None):
        raise typer.BadParameter("give either --half-width or --n")
    common: dict[str, Any] = {
        "rate": share,
        "method": method.value,
        "confidence_level": level,
        "design": design,
    }
    made: Plan
    if n is not None:
        made = planning.interval_width(n, **common)
    else:
        made = planning.interval_items(
            half_width=float(half_width or 0) / 100, **common
        )
    _print_plans({"interval": made}, as_json)


@plan.command(
    epilog=examples(
        "phasefusion plan floor --upper 1",
        "phasefusion plan floor --flip-rate 18.7 --ratio 8",
        "phasefusion plan floor --n 599 --flip-rate 18.7",
    )
)
def floor(
    upper: Annotated[
        float | None, typer.Option(help="Percent that the floor must be below.")
    ] = None,
    flip_rate: Annotated[
        float | None, typer.Option(help="Percent: the flips that are compared with it.")
    ] = None,
    ratio: Annotated[
        float | None, typer.Option(help="How many floors the flip rate must be.")
    ] = None,
    n: Annotated[
        int | None, typer.Option("--n", min=1, help="Items run twice.")
    ] = None,
    level: Level = 0.95,
    as_json: JsonFlag = False,
) -> None:
    """Plan re-runs with everything fixed, of which none may change its answer."""
    from phasefusion import planning

    flips = None if flip_rate is None else flip_rate / 100
    made: Plan
    if n is not None:
        _refuse("goes without --n", upper=upper, ratio=ratio)
        made = planning.floor_upper(n, flip_rate=flips, confidence_level=level)
    else:
        made = planning.floor_items(
            upper=None if upper is None else upper / 100,
            flip_rate=flips,
            ratio=ratio,
            confidence_level=level,
        )
    _print_plans({"floor": made}, as_json)


@plan.command(
    epilog=examples(
        "phasefusion plan auroc --auroc 0.83 --positive 57 --half-width 0.03",
        "phasefusion plan auroc --from runs/pilot --n 500",
    )
)
def auroc(
    auroc: Annotated[float | None, typer.Option(help="Expected AUROC.")] = None,
    positive: Annotated[
        float | None, typer.Option(help="Percent of items that flip.")
    ] = None,
    half_width: Annotated[
        float | None, typer.Option(help="Of the interval, in units of the AUROC.")
    ] = None,
    n: Size = None,
    level: Level = 0.95,
    runs: Runs = None,
    arm: ArmName = "single",
    cluster: By = Cluster.auto,
    as_json: JsonFlag = False,
) -> None:
    """Plan the width of the interval of an AUROC (margin against order flips)."""
    from phasefusion import planning

    known: dict[str, Any] = {"confidence_level": level}
    if runs:
        _refuse("comes from the pilot of --from", auroc=auroc, positive=positive)
        found = _pilot(runs, cluster).auroc
        if arm not in found:
            raise typer.BadParameter(
                f"--arm {arm!r}: the pilot has an AUROC for "
                f"{', '.join(found) or 'no arm: it needs margins and order flips'}"
            )
        known["pilot"] = found[arm]
    elif auroc is None or positive is None:
        raise typer.BadParameter("give --auroc and --positive, or --from RUN")
    else:
        known |= {"auroc": auroc, "positive_share": positive / 100}
    if (n is None) == (half_width is None):
        raise typer.BadParameter("give either --half-width or --n")
    made: Plan
    if n is not None:
        made = planning.auroc_width(n, **known)
    else:
        made = planning.auroc_items(half_width=float(half_width or 0), **known)
    _print_plans({"auroc": made}, as_json)


@plan.command(
    epilog=examples(
        "phasefusion plan risk --alpha 0.2 --delta 0.1 --risk 10",
        "phasefusion plan risk --alpha 0.2 --delta 0.1 --n 25",
    )
)
def risk(
    alpha: Annotated[float, typer.Option(help="Risk to control, a fraction.")] = 0.2,
    delta: Annotated[
        float, typer.Option(help="Chance to certify a greater risk, a fraction.")
    ] = 0.1,
    risk: Annotated[
        float, typer.Option(min=0, max=100, help="True percent of errors.")
    ] = 0.0,
    n: Annotated[
        int | None,
        typer.Option("--n", min=1, help="Items that the strictest threshold selects."),
    ] = None,
    power: Power = 0.8,
    as_json: JsonFlag = False,
) -> None:
    """Plan calibration items for fixed-sequence risk control."""
    from phasefusion import planning

    known: dict[str, Any] = {"alpha": alpha, "delta": delta, "risk": risk / 100}
    made: Plan
    if n is not None:
        made = planning.risk_power(n, **known)
    else:
        made = planning.risk_items(power=power, **known)
    _print_plans({"risk": made}, as_json)
