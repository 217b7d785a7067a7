"""Runs with made-up log-probabilities, written without the code under test."""

import hashlib
import itertools
import json
import math
import random
from fractions import Fraction


def made_run(folder, *, seed=0, n_items=14, protocol="phasefusion", drop=(), **options):
    """Write a run folder; return its passes as dicts.

    Log-probabilities depend on item, arm, phase and order through a seeded generator,
    with an effect of each, so that every kind of flip occurs.
    """
    phases = options.get("phases", 3)
    budget = options.get("budget", 4)
    dense = options.get("dense", 10)
    origin = options.get("origin", Fraction(1, 2))
    rng = random.Random(seed)
    passes = []
    grids = _grids(protocol, budget, phases, dense, origin)
    for i in range(n_items):
        k = options.get("n_options", 2 + i % 4)
        base = [rng.gauss(0, 0.6) for _ in range(k)]
        orders = _orders(k, protocol, random.Random(k))
        gold = None if i == options.get("no_gold") else rng.randrange(k)
        for arm, shifted, n_phases, frames, start in grids:
            for s in range(n_phases):
                phase = (s + start) / n_phases
                of_phase = [b + rng.gauss(0, 0.5) for b in base]
                for m, order in enumerate(orders):
                    passes.append(
                        _made_pass(
                            rng,
                            i,
                            k,
                            gold,
                            arm,
                            shifted,
                            n_phases,
                            frames,
                            start,
                            phase,
                            s,
                            m,
                            order,
                            of_phase,
                            missing=drop == "all" or (i, arm, shifted, s, m) in drop,
                        )
                    )
    per_video = options.get("per_video", 2)
    for row in passes:
        row["video_id"] = f"v{int(row['question_id'][1:]) // per_video}"
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "protocol": protocol,
        "grid": _grid(budget, phases if protocol != "quick" else 1, origin),
        "dense": dense,
        "arms": [
            {"arm": arm, "shifted": shifted, **_grid(frames, n_phases, start)}
            for arm, shifted, n_phases, frames, start in grids
        ],
        "orders": (
            {"kind": "latin"}
            if protocol == "stableeval"
            else {"kind": "shared", "n": 4, "seed": 0}
        ),
        "seed": 0,
        "questions_sha256": hashlib.sha256(b"").hexdigest(),
        "scorer": {"class": "made"},
    }
    run = {
        "format": 1,
        "settings": settings,
        "versions": {"phasefusion": "0"},
        "questions": {"n": n_items},
    }
    (folder / "run.json").write_text(json.dumps(run))
    lines = [json.dumps(row) + "\n" for row in passes]
    (folder / "passes.jsonl").write_text("".join(lines))
    return passes


def _grid(budget, phases, origin):
    return {
        "budget": budget,
        "phases": phases,
        "origin": list(origin.as_integer_ratio()),
        "by": "frames",
        "short": "repeat",
    }


def _grids(protocol, budget, phases, dense, origin):
    """(arm, shifted, phases, frames, origin) of every recorded arm."""
    if protocol == "quick":
        return [("single", False, 1, budget, origin)]
    if protocol == "stableeval":
        return [("phase", False, phases, budget, origin)]
    found = []
    for shifted in (False, True):
        start = (origin + Fraction(shifted, 2)) % 1
        found.append(("phase", shifted, phases, budget, start))
        found.append(("union", shifted, 1, phases * budget, start))
        if phases % 2 == 0:
            found.append(("single", shifted, 1, budget, start))
        found.append(("dense", shifted, 1, dense, start))
    return found


def _orders(k, protocol, rng):
    if protocol == "quick":
        return [tuple(range(k))]
    if protocol == "stableeval":
        return [tuple((p + v) % k for p in range(k)) for v in range(k)]
    if k > 6:  # too many to list
        return [tuple(range(k)), *(tuple(rng.sample(range(k), k)) for _ in range(3))]
    first, *rest = itertools.permutations(range(k))
    rng.shuffle(rest)
    return [first, *rest[:3]]


def _made_pass(
    rng,
    i,
    k,
    gold,
    arm,
    shifted,
    n_phases,
    frames,
    start,
    phase,
    s,
    m,
    order,
    of_phase,
    *,
    missing,
):
    content = [x + rng.gauss(0, 0.3) for x in of_phase]
    content = [x - 0.4 * order.index(c) for c, x in enumerate(content)]
    norm = math.log(sum(math.exp(x) for x in content)) + 0.1
    content = [x - norm for x in content]
    return {
        "question_id": f"q{i}",
        "benchmark": "made",
        "video_id": f"v{i // 2}",
        "type": ("when", "where")[i % 2],
        "n_options": k,
        "gold": gold,
        "arm": arm,
        "shifted": shifted,
        "budget": frames,
        "n_phases": n_phases,
        "origin": list(start.as_integer_ratio()),
        "phase": list(Fraction(phase).as_integer_ratio()),
        "phase_index": s,
        "n_frames": 120,
        "duration_s": 4.0,
        "frame_indices": None,
        "frame_times_s": None,
        "order": list(order),
        "logprobs": None if missing else [content[c] for c in order],
        "answer": None if missing else content.index(max(content)),
        "path": "logit",
        "text": None,
        "option_mass": None if missing else math.exp(-0.1),
        "seconds": 0.25,
        "invalid": "made missing" if missing else None,
    }
