"""The goals of `phasefusion plan`, a command each."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasefusion.cli.application import (
    DELTA_HELP,
    JsonFlag,
    examples,
    fraction_of_percent,
)
from phasefusion.cli.planning import (
    Alpha,
    By,
    Cluster,
    Margin,
    Power,
    Runs,
    Size,
    design_of,
    estimate,
    plan,
    print_plans,
    refuse,
)

if TYPE_CHECKING:
    from phasefusion.planning import Design, Plan


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


Discordance = Annotated[
    float | None,
    typer.Option(min=0, max=100, help="Percent of items that only one arm has."),
]
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
ArmName = Annotated[str, typer.Option(help="Arm: of the pilot.")]
Against = Annotated[str, typer.Option(help="Compare with: another arm, of the pilot.")]


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
        refuse(
            "comes from the pilot of --from",
            discordance=discordance,
            design_effect=design_effect,
            icc=icc,
        )
        pair = estimate(runs, cluster).pair(arm, against)
        design = pair.design(cluster_size)
        share = pair.discordance.mean
        cases["at the pilot's discordance"] = (share.value, design)
        cases["at the upper end of its interval"] = (share.high, design)
    elif discordance is None:
        raise typer.BadParameter("give --discordance, or --from RUN")
    else:
        design = design_of(design_effect, icc, cluster_size)
        cases["items"] = (fraction_of_percent("--discordance", discordance), design)
    within = fraction_of_percent("--margin", margin, closed=False)
    plans: dict[str, Plan] = {}
    for name, (share_of, design) in cases.items():
        common: dict[str, Any] = {
            "discordance": share_of,
            "difference": fraction_of_percent("--difference", difference, -100),
            "alpha": alpha,
            "design": design,
        }
        if n is None:
            plans[name] = planning.tost_items(margin=within, power=power, **common)
            continue
        label = "" if len(cases) == 1 else f", {name}"
        plans[f"this margin{label}"] = planning.tost_power(n, margin=within, **common)
        plans[f"margin with power {power:g}{label}"] = planning.tost_margin(
            n, power=power, **common
        )
    print_plans(plans, as_json)


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
    of: Annotated[
        Of, typer.Option(help="What is planned for: what is compared, of --from.")
    ] = Of.accuracy,
    cluster: By = Cluster.auto,
    as_json: JsonFlag = False,
) -> None:
    """Plan a test that two arms differ, in accuracy or in flips (McNemar)."""
    from phasefusion import planning

    delta = difference
    if difference is not None:
        delta = fraction_of_percent("--difference", difference, -100)
    if runs:
        refuse(
            "comes from the pilot of --from",
            discordance=discordance,
            rates=rates,
            both=both,
            design_effect=design_effect,
            icc=icc,
        )
        pair = estimate(runs, cluster).pair(arm, against, of.value)
        share, design = pair.discordance.mean.value, pair.design(cluster_size)
        delta = pair.difference.mean.value if delta is None else delta
    else:
        design = design_of(design_effect, icc, cluster_size)
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
    print_plans(plans, as_json)


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
        return delta, fraction_of_percent("--discordance", discordance)
    if delta is not None or discordance is not None:
        raise typer.BadParameter(
            "--rates give the difference and, with --both, the discordance"
        )
    first, second = (fraction_of_percent("--rates", rate) for rate in rates)
    shared = None if both is None else fraction_of_percent("--both", both)
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
        float | None,
        typer.Option(help="To either side: of the rate, in percent."),
    ] = None,
    n: Size = None,
    method: Annotated[
        Interval, typer.Option(help="How: the interval's formula.")
    ] = Interval.wilson,
    level: Level = 0.95,
    design_effect: Effect = None,
    icc: Icc = None,
    cluster_size: ClusterSize = None,
    runs: Runs = None,
    of: Annotated[
        str,
        typer.Option(help="What is planned for: a rate, by its name in plan --from."),
    ] = "accuracy, fusion",
    cluster: By = Cluster.auto,
    as_json: JsonFlag = False,
) -> None:
    """Plan the width of the interval of a rate."""
    from phasefusion import planning

    if runs:
        refuse(
            "comes from the pilot of --from",
            rate=rate,
            design_effect=design_effect,
            icc=icc,
        )
        found = estimate(runs, cluster).rates
        if of not in found:
            raise typer.BadParameter(f"--of {of!r}: the pilot has {', '.join(found)}")
        share, design = found[of].mean.value, found[of].design(cluster_size)
    elif rate is None:
        raise typer.BadParameter("give --rate, or --from RUN")
    else:
        share = fraction_of_percent("--rate", rate)
        design = design_of(design_effect, icc, cluster_size)
    if (n is None) == (half_width is None):
        raise typer.BadParameter("give either --half-width or --n")
    common: dict[str, Any] = {
        "rate": share,
        "method": method.value,
        "confidence_level": level,
        "design": design,
    }
    made: Plan
    if half_width is None:
        assert n is not None
        made = planning.interval_width(n, **common)
    else:
        wide = fraction_of_percent("--half-width", half_width, most=50, closed=False)
        made = planning.interval_items(half_width=wide, **common)
    print_plans({"interval": made}, as_json)


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
        float | None,
        typer.Option(help="How many floors the flip rate must be."),
    ] = None,
    n: Annotated[
        int | None, typer.Option("--n", min=1, help="Items: run twice.")
    ] = None,
    level: Level = 0.95,
    as_json: JsonFlag = False,
) -> None:
    """Plan re-runs with everything fixed, of which none may change its answer."""
    from phasefusion import planning

    flips, most = flip_rate, upper
    if flip_rate is not None:
        flips = fraction_of_percent("--flip-rate", flip_rate)
    if upper is not None:
        most = fraction_of_percent("--upper", upper, closed=False)
    made: Plan
    if n is not None:
        refuse("goes without --n", upper=upper, ratio=ratio)
        made = planning.floor_upper(n, flip_rate=flips, confidence_level=level)
    elif upper is None and (flip_rate is None or ratio is None):
        raise typer.BadParameter("give --upper, or --flip-rate and --ratio, or --n")
    else:
        made = planning.floor_items(
            upper=most,
            flip_rate=flips,
            ratio=ratio,
            confidence_level=level,
        )
    print_plans({"floor": made}, as_json)


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
        float | None,
        typer.Option(help="To either side: of the AUROC, a fraction."),
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
        refuse("comes from the pilot of --from", auroc=auroc, positive=positive)
        found = estimate(runs, cluster).auroc
        if arm not in found:
            raise typer.BadParameter(
                f"--arm {arm!r}: the pilot has an AUROC for "
                f"{', '.join(found) or 'no arm: it needs margins and order flips'}"
            )
        known["pilot"] = found[arm]
    elif auroc is None or positive is None:
        raise typer.BadParameter("give --auroc and --positive, or --from RUN")
    else:
        share = fraction_of_percent("--positive", positive, closed=False)
        known |= {"auroc": auroc, "positive_share": share}
    if (n is None) == (half_width is None):
        raise typer.BadParameter("give either --half-width or --n")
    made: Plan
    if n is not None:
        made = planning.auroc_width(n, **known)
    else:
        assert half_width is not None
        made = planning.auroc_items(half_width=half_width, **known)
    print_plans({"auroc": made}, as_json)


@plan.command(
    epilog=examples(
        "phasefusion plan risk --alpha 0.2 --delta 0.1 --risk 10",
        "phasefusion plan risk --alpha 0.2 --delta 0.1 --n 25",
    )
)
def risk(
    alpha: Annotated[
        float, typer.Option(help="Error to allow: the risk to control, a fraction.")
    ] = 0.2,
    delta: Annotated[float, typer.Option(help=DELTA_HELP)] = 0.1,
    risk: Annotated[
        float, typer.Option(min=0, max=100, help="True percent of errors.")
    ] = 0.0,
    n: Annotated[
        int | None,
        typer.Option(
            "--n", min=1, help="Items: those that the strictest threshold selects."
        ),
    ] = None,
    power: Power = 0.8,
    as_json: JsonFlag = False,
) -> None:
    """Plan calibration items for fixed-sequence risk control."""
    from phasefusion import planning

    share = fraction_of_percent("--risk", risk)
    known: dict[str, Any] = {"alpha": alpha, "delta": delta, "risk": share}
    made: Plan
    if n is not None:
        made = planning.risk_power(n, **known)
    else:
        made = planning.risk_items(power=power, **known)
    print_plans({"risk": made}, as_json)
