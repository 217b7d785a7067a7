"""A thousand workers on videos of heavy-tailed lengths, some of which fail or lag.

    python benchmarks/many_workers.py [--write docs/capacity.md]

The simulation works off the videos on up to 1,000 workers, with the scheduler that the
Ray engine uses. With --write, the table goes between the marks of a file. There is no
goal: it is a study, and the exit code is 0 whatever it finds.
"""

from __future__ import annotations

import argparse

import _report

from phasefusion.capacity import Conditions, Outcome, heavy_tailed, simulate
from phasefusion.engine import Part, Unit

#: A worker of the simulation: seconds by second of video, by question and to start.
DECODE_S, QUESTION_S, STARTUP_S = 0.05, 12.0, 90.0
N_VIDEOS = 20_000


def mixed_units() -> list[Unit]:
    """Videos as of a mixed benchmark, with their questions."""
    return [
        Unit(
            str(i),
            tuple(Part(str(q), QUESTION_S) for q in range(video["questions"])),
            opening=DECODE_S * video["duration_s"],
        )
        for i, video in enumerate(heavy_tailed(N_VIDEOS, seed=7))
    ]


def row(name: str, made: Outcome) -> str:
    total_s = made.n_workers * made.makespan_s
    shares = [made.slow_s, made.lost_s, made.down_s, made.idle_s]
    cells = [f"{share / total_s:.2%}" for share in shares]
    hours = made.makespan_s / 3600
    return (
        f"| {made.n_workers} | {name} | {hours:.2f} h | "
        f"{made.makespan_s / made.bound_s:.3f} | {made.utilisation:.1%} | "
        + " | ".join(cells)
        + f" | {made.n_failures} | {made.lost_by_failure_s:.0f} s | "
        f"{made.n_given_up} |"
    )


def simulated() -> list[str]:
    """Return the table of the simulation."""
    units = mixed_units()
    costs = sorted(unit.cost for unit in units)
    total_h = sum(costs) / 3600
    print(
        f"{len(units)} videos, {sum(len(u.parts) for u in units)} questions, "
        f"{total_h:.0f} h of one worker; median video {costs[len(costs) // 2]:.0f} s, "
        f"longest {costs[-1]:.0f} s"
    )
    lines = [
        "| workers | conditions | makespan | / bound | useful | slow | lost | down | "
        "idle | failures | lost a failure | given up |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    day, hours = 24 * 3600.0, 4 * 3600.0
    lag = {"slow_share": 0.02, "slow_factor": 4.0}
    for n_workers in (1, 8, 64, 256, 1000):
        for name, conditions in (
            ("no failures", {}),
            ("a failure a day each", {"mean_life_s": day}),
            ("one in 4 hours each", {"mean_life_s": hours}),
            ("2 % of them 4 times as slow", lag),
            ("the same, with backups", lag | {"backups": True}),
        ):
            if n_workers == 1 and name != "no failures":
                continue
            made = simulate(
                units, Conditions(n_workers, startup_s=STARTUP_S, seed=1, **conditions)
            )
            lines.append(row(name, made))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    page = _report.page_with("simulation")
    parser.add_argument("--write", type=page, metavar="FILE")
    options = parser.parse_args()
    table = "\n".join(simulated())
    print(table)
    if options.write:
        _report.replace_between(options.write, "simulation", table)


if __name__ == "__main__":
    main()
