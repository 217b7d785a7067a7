"""Commands that say how many items a measurement needs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasefusion.cli.application import (
    ALPHA_HELP,
    CLUSTER_HELP,
    MARGIN_HELP,
    JsonFlag,
    app,
    console,
    examples,
    fraction_of_percent,
    print_table,
)

if TYPE_CHECKING:
    from phasefusion.planning import Design, PairEstimate, Pilot, Plan

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
    typer.Option(min=0, max=100, help=MARGIN_HELP),
]
Power = Annotated[float, typer.Option(help="Chance to succeed, a fraction.")]
Alpha = Annotated[float, typer.Option(help=ALPHA_HELP)]
By = Annotated[
    Cluster,
    typer.Option(help=CLUSTER_HELP),
]


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
        for option in context.command.params:
            source = context.get_parameter_source(option.name or "")
            if source is not None and source.name != "DEFAULT":
                raise typer.BadParameter(
                    f"{option.opts[0]} goes behind the goal: phasefusion plan "
                    f"{context.invoked_subcommand} {option.opts[0]} ..."
                )
        return
    if not runs:
        if n is not None or as_json:
            raise typer.BadParameter("give --from RUN, or a goal: equivalence, ...")
        print(context.get_help())
        return
    share = fraction_of_percent("--margin", margin, closed=False)
    made = estimate(runs, cluster, of_one=True)
    plans = []
    if made.n_clusters > 1:
        plans = [_of_pair(pair, n, share, power, alpha) for pair in made.pairs]
    if as_json:
        found = {"pilot": made.to_dict(), "plans": [_json(entry) for entry in plans]}
        print(json.dumps(found, allow_nan=False))
        return
    console().print(made)
    if plans:
        _print_pairs(plans, n, margin, power, alpha)


def estimate(runs: Sequence[Path], cluster: Cluster, *, of_one: bool = False) -> Pilot:
    """Estimate from pilot runs what a plan needs: more than one cluster."""
    from phasefusion.errors import StatisticsError
    from phasefusion.planning import pilot

    made = pilot(*runs, cluster=cluster.value)
    if made.n_clusters < 2 and not of_one:
        raise StatisticsError(f"{', '.join(map(str, runs))}: {made.notices[0]}")
    return made


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
    labels = dict(zip(list(plans[0])[3:], columns, strict=True))
    for entry in plans:
        for name, label in labels.items():
            if isinstance(entry[name], str):
                arms = f"{entry['arm']} - {entry['against']} ({entry['of']})"
                print(f"note: {arms}, {label}: {entry[name]}")


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


def design_of(effect: float | None, icc: float | None, size: float | None) -> Design:
    """Make the design that the options describe."""
    from phasefusion.planning import Design

    if effect is not None and icc is not None:
        raise typer.BadParameter("give either --design-effect or --icc")
    if icc is not None:
        if size is None:
            raise typer.BadParameter("--icc needs --cluster-size")
        return Design.from_icc(icc, size)
    return Design(1.0 if effect is None else effect, 1.0 if size is None else size)


def refuse(reason: str, **options: Any) -> None:
    """Refuse the options that were given among some."""
    given = [
        f"--{name.replace('_', '-')}" for name, v in options.items() if v is not None
    ]
    if given:
        raise typer.BadParameter(f"{' and '.join(given)}: {reason}")


def print_plans(plans: Mapping[str, Plan], as_json: bool) -> None:
    """Print plans, a table each."""
    if as_json:
        found = {name: made.to_dict() for name, made in plans.items()}
        print(json.dumps(found, allow_nan=False))
        return
    for name, made in plans.items():
        rows = [list(row) for row in made.rows()]
        title = made.title if len(plans) == 1 else f"{made.title}: {name}"
        print_table(title, ["", ""], rows, header=False)
