"""The command that lists protocols, and the cost of one before it starts."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasefusion._wording import counted
from phasefusion.cli.application import (
    Budget,
    JsonFlag,
    app,
    console,
    examples,
    print_table,
)

if TYPE_CHECKING:
    from phasefusion.datasets import Item
    from phasefusion.protocols import Cost, Plan

_UNKNOWN = "by clip"


def parse_values(text: str | None) -> list[int | str] | None:
    """Read ``--values``: numbers or names with commas between them."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return [int(part) if part.removeprefix("-").isdecimal() else part for part in parts]


@app.command(
    epilog=examples(
        "phasefusion protocols",
        "phasefusion protocols --n-options 5 --budget 16 --json",
        "phasefusion run q.jsonl --model path --protocol budget-sweep --dry-run",
    )
)
def protocols(
    options: Annotated[
        int, typer.Option("--n-options", min=2, max=8, help="Options a question.")
    ] = 4,
    budget: Budget = 8,
    dense: Annotated[int, typer.Option(help="Frames of the dense pass.")] = 32,
    as_json: JsonFlag = False,
) -> None:
    """List what can be run, the figure that each gives, and its cost a question."""
    from phasefusion.protocols import PROTOCOLS, make_plan

    found = []
    for name, protocol in PROTOCOLS.items():
        plan = make_plan(
            name, budget=budget, dense=dense if protocol.has_dense else None
        )
        # many questions, so that a share of them is there
        n = plan.arms[-1].share.denominator
        cost = plan.cost([options] * n)
        span = _span(cost.least_passes / n, cost.passes / n)
        one = {
            "protocol": name,
            "figure": protocol.figure,
            "section": protocol.section,
            "varies": protocol.varies,
            "values": list(protocol.values),
            "passes": cost.passes / n,
            "least_passes": cost.least_passes / n,
            "attention_units": cost.attention_units / n,
        }
        found.append((one, span))
    if as_json:
        print(json.dumps([one for one, _ in found]))
        return
    rows = [
        [
            str(one["protocol"]),
            span,
            f"{one['attention_units']:g}",
            str(one["figure"]),
            str(one["section"]),
        ]
        for one, span in found
    ]
    title = f"Protocols; a question of {options} options, {budget} frames a pass"
    columns = ["protocol", "passes", "units", "gives", "paper"]
    print_table(title, columns, rows)
    console().print(
        "Units of attention: frames squared, summed over passes. Sweeps take other "
        "--values.",
        style="dim",
    )


def warn_of_no_effect(
    protocol: str, orders: str | None, given: Mapping[str, int | None]
) -> None:
    """Say which options the protocol does not heed."""
    from phasefusion.protocols.plans import without_effect
    from phasefusion.protocols.registry import get

    for name, why in without_effect(get(protocol), orders).items():
        if given[name] is not None:
            option = name.replace("_", "-")
            print(
                f"phasefusion: warning: --{option} {given[name]} has no effect: {why}",
                file=sys.stderr,
            )


def print_plan(
    questions: Sequence[Item],
    limit: int | None,
    shard: str | None,
    as_json: bool,
    scorer: Mapping[str, Any],
    **settings: Any,
) -> None:
    """Print what a run would score, and its cost; nothing is decoded or loaded.

    Of the scorer, what is known of it without loading it.
    """
    from phasefusion.engine.shards import part_of
    from phasefusion.protocols import make_plan

    plan = make_plan(**settings).as_shown(scorer)
    if settings.get("anchor") is not None:
        settings["anchor"].check(list(questions))
    items, part = part_of(questions, limit, shard, plan)
    cost = plan.cost([len(item.options) for item in items])
    if as_json:
        found = _to_dict(plan, cost)
        print(json.dumps(found if part is None else found | part.to_dict()))
        return
    rows = [
        [
            f"{arm.arm}, half a step on" if arm.shifted else arm.arm,
            str(arm.questions),
            str(arm.phases),
            _UNKNOWN if arm.frames is None else str(arm.frames),
            f"at most {arm.passes}" if arm.at_most else str(arm.passes),
            _UNKNOWN if arm.attention_units is None else str(arm.attention_units),
        ]
        for arm in cost.arms
    ]
    protocol = plan.protocol
    columns = ["arm", "questions", "phases", "frames", "passes", "units"]
    title = f"{protocol.name}: {protocol.figure}"
    if part is not None:
        title = f"{title}; shard {part} of the questions"
    print_table(title, columns, rows)
    least = "" if cost.is_complete else "at least "
    if cost.least_passes < cost.passes:
        least = "at most "
    orders = ", ".join(f"{name} {value}" for name, value in plan.orders.items())
    print(
        f"{counted(cost.questions, 'question')}, "
        f"{_span(cost.least_passes, cost.passes)} passes, "
        f"{least}{cost.attention_units} units of attention (frames squared); orders: "
        f"{orders}"
    )


def _span(least: float, most: float) -> str:
    """Say from where to where something goes, or how much it is."""
    return f"{most:.10g}" if least == most else f"{least:.10g} to {most:.10g}"


def _to_dict(plan: Plan, cost: Cost) -> dict[str, Any]:
    return {
        "figure": plan.protocol.figure,
        "section": plan.protocol.section,
        **plan.settings(),
        "cost": cost.to_dict(),
    }
