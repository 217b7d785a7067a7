"""Run a file of reference cases against the public API.

    python tests/reference.py FILE.json [--groups flip,mcnemar]

The file holds ``cases[]`` of ``{id, stat, inputs, expected, tol}``; nan and infinities
are strings, -1 is a missing answer, tol is absolute and relative. A case passes when
every key of `expected` is matched; a statistic that is not here fails. Prints the
failures and ``passed/total``; exit status 1 if any case failed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import phasefusion as pf
from phasefusion import fusion, orders, stats

Inputs = dict[str, Any]
Results = dict[str, Any]
ADAPTERS: dict[str, Callable[[Inputs, Results], Results]] = {}


def adapter(function: Callable[[Inputs, Results], Results]) -> Any:
    """Register a function under its name; it gets the inputs and the wanted keys."""
    ADAPTERS[function.__name__] = function
    return function


# ------------------------------------------------------------------ choices and hashes


@adapter
def fnv1a64(inputs: Inputs, wanted: Results) -> Results:
    return {"hex": f"{stats.fnv1a64(inputs['utf8']):016x}"}


@adapter
def splitmix64(inputs: Inputs, wanted: Results) -> Results:
    draws = stats.splitmix64(inputs["seed"], inputs["n"])
    return {"hex": [f"{int(draw):016x}" for draw in draws]}


@adapter
def tie_priority(inputs: Inputs, wanted: Results) -> Results:
    order = stats.tie_priority(inputs["qid"], inputs["K"], inputs.get("seed", 0))
    return {"order": order}


@adapter
def latin_square(inputs: Inputs, wanted: Results) -> Results:
    return {"views": orders.latin(inputs["K"])}


@adapter
def attention_units(inputs: Inputs, wanted: Results) -> Results:
    tokens = {
        name: inputs[key]
        for key, name in (("t", "tokens_per_frame"), ("L", "text_tokens"))
        if key in inputs
    }
    return {"units": stats.attention_units(inputs["S"], inputs["b"], **tokens)}


# ------------------------------------------------------------------ posteriors


@adapter
def fuse(inputs: Inputs, wanted: Results) -> Results:
    logits = np.array(inputs["logits"], dtype=inputs.get("dtype", "float64"))
    item = {"item_id": inputs.get("qid", ""), "seed": inputs.get("seed", 0)}
    linear = pf.fuse(logits, missing="available", **item)
    loglinear = pf.fuse(logits, missing="available", pool="loglinear", **item)
    return {
        "posteriors": pf.posterior(logits),
        "linear_pool": linear.posterior,
        "linear_argmax": linear.answer,
        "loglinear_pool": loglinear.posterior,
        "loglinear_argmax": loglinear.answer,
        "margin_log": linear.margin,
        "valid": bool(linear.answer >= 0),
        "valid_pass": linear.valid,
        "tied": linear.tied,
        "tie_set": np.flatnonzero(linear.tie_set),
        "phase_answers": linear.phase_answers,
    }


@adapter
def fuse_ordered(inputs: Inputs, wanted: Results) -> Results:
    letters = np.array(inputs["letter_logits"], dtype=float)
    content = orders.to_content(letters, inputs["order"])
    fused = pf.fuse(content, missing="available")
    letter_argmax = pf.fuse(letters, missing="available").phase_answers
    return {
        "content_logits": content,
        "linear_pool": fused.posterior,
        "argmax_content": fused.answer,
        "letter_argmax": letter_argmax,
        "content_argmax": fused.phase_answers,
    }


@adapter
def position_weighted(inputs: Inputs, wanted: Results) -> Results:
    def run(mode: Any) -> Results:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pf.errors.PhaseFusionWarning)
            made = fusion.position_weighted(
                inputs["letter_logits"],
                inputs["order"],
                alpha=inputs["alpha"],
                mode=mode,
            )
        return {"sum": made.total, "posterior": made.posterior, "argmax": made.answer}

    return {mode: run(mode) for mode in ("raw", "centered", "logprob")}


# ------------------------------------------------------------------ flips and votes


@adapter
def flip_rates(inputs: Inputs, wanted: Results) -> Results:
    policies = ("complete", "available-macro", "available-micro")
    complete, macro, micro = (
        stats.flip_rates(
            inputs["answers"],
            missing=inputs.get("missing", -1),
            policy=policy,  # type: ignore[arg-type]
        )
        for policy in policies
    )
    return {
        "per_item_pairwise": macro.per_item_pairwise,
        "per_item_any": macro.per_item_any,
        "pairwise_macro": macro.pairwise,
        "pairwise_micro": micro.pairwise,
        "any": macro.any,
        "n_used": macro.n_used,
        "complete_n": complete.n_complete,
        "complete_pairwise": complete.pairwise,
        "complete_any": complete.any,
        "pair_matrix": macro.pair_matrix,
        "pair_n": macro.pair_n,
    }


@adapter
def expected_any_flip(inputs: Inputs, wanted: Results) -> Results:
    return {"value": stats.expected_any_flip(inputs["counts"], inputs["m"])}


@adapter
def consensus(inputs: Inputs, wanted: Results) -> Results:
    def run(rule: Any) -> Any:
        return stats.consensus(
            inputs["votes"],
            n_options=inputs["K"],
            rule=rule,
            mean_posterior=inputs.get("mean_posterior"),
            item_ids=inputs["qid"],
            seed=inputs.get("seed", 0),
        )

    neutral = run("priority")
    found = {
        "lowest": run("lowest").answers,
        "first": run("first").answers,
        "hash": neutral.answers,
        "tie_set": np.flatnonzero(neutral.tied_answers),
        "counts": neutral.counts,
    }
    if inputs.get("mean_posterior") is not None:
        found["posterior_then_hash"] = run("posterior").answers
    return found


@adapter
def consistency(inputs: Inputs, wanted: Results) -> Results:
    kinds = ("pairwise", "modal", "unanimous", "anchor")
    made = {
        kind: stats.consistency(
            inputs["answers"],
            kind,  # type: ignore[arg-type]
            missing=inputs.get("missing", -1),
            policy="available-macro",
        )
        for kind in kinds
    }
    n_items = len(inputs["answers"])
    return {
        "per_item": [
            {kind: made[kind].per_item[i] for kind in kinds} for i in range(n_items)
        ],
        "mean": {kind: made[kind].mean for kind in kinds},
    }


@adapter
def circular_eval(inputs: Inputs, wanted: Results) -> Results:
    answers = np.array(inputs["content_answers"])
    gold = np.array(inputs["gold"])
    forward, reverse = inputs["forward"], inputs["reverse"]
    correct = answers == gold[:, None]
    scores = [stats.accuracy(column).value for column in correct.T]
    return {
        "unanimity_score": stats.unanimity(answers, gold).value,
        "naive_mean": float(np.mean(scores)),
        f"vanilla_{forward}": scores[forward],
        "fluctuation_rate": stats.change_rate(
            answers[:, forward], answers[:, reverse]
        ).value,
        "any_flip": stats.flip_rates(answers).any,
        "lost_correct": stats.lost_correct(answers, gold, forward).value,
    }


@adapter
def fixation(inputs: Inputs, wanted: Results) -> Results:
    made = stats.fixation(
        inputs["contents"],
        inputs["letters"],
        inputs["position_posteriors"],
        n_options=inputs["K"],
    )
    return {
        "content": made.per_item_content,
        "letter": made.per_item_letter,
        "position_mass": made.per_item_position_mass,
    }


@adapter
def emax_share(inputs: Inputs, wanted: Results) -> Results:
    sizes = np.atleast_1d(inputs["K"])
    shares = [stats.expected_modal_share(inputs["M"], int(size)) for size in sizes]
    return {"value": shares if np.ndim(inputs["K"]) else shares[0]}


# ------------------------------------------------------------------ intervals and tests


@adapter
def proportion_ci(inputs: Inputs, wanted: Results) -> Results:
    k, n, level = inputs["k"], inputs["n"], inputs["level"]

    def interval(method: Any) -> list[float]:
        made = stats.proportion_ci(k, n, level, method)
        return [made.low, made.high]

    return {
        "wilson": interval("wilson"),
        "clopper_pearson": interval("clopper-pearson"),
        "wilson_cc": interval("wilson-cc"),
        "cp_upper_one_sided": stats.proportion_upper(k, n, level),
    }


@adapter
def mcnemar(inputs: Inputs, wanted: Results) -> Results:
    made = stats.mcnemar(inputs["b"], inputs["c"])
    return {
        "exact": made.pvalue,
        "midp": made.midp,
        "chi2": made.chi2,
        "p_chi2": made.p_chi2,
        "chi2_cc": made.chi2_corrected,
        "p_chi2_cc": made.p_chi2_corrected,
        "chi2_cc_R": made.chi2_corrected,
    }


@adapter
def mcnemar_clustered(inputs: Inputs, wanted: Results) -> Results:
    made = stats.clustered_mcnemar(inputs["diff"], inputs["cluster"])
    return {
        "cluster_sums": made.cluster_sums,
        "z": made.z,
        "chi2": made.chi2,
        "p": made.pvalue,
    }


# ------------------------------------------------------------------ comparing

_SPECIAL = {"nan": math.nan, "inf": math.inf, "+inf": math.inf, "-inf": -math.inf}
# What other packages print where they are wrong; in the file for the record.
_OF_OTHERS = {"chi2_cc_statsmodels"}


def plain(value: Any) -> Any:
    """Strings for nan and inf become floats, arrays become lists."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return value.item()
    return _SPECIAL.get(value, value) if isinstance(value, str) else value


def close(expected: float, got: float, tol: float) -> bool:
    if math.isnan(expected) or math.isnan(got):
        return math.isnan(expected) and math.isnan(got)
    if math.isinf(expected) or math.isinf(got):
        return expected == got
    return abs(expected - got) <= tol + tol * abs(expected)


def differences(expected: Any, got: Any, tol: float, where: str) -> Iterator[str]:
    """One line for every number, string or shape that does not match."""
    if isinstance(expected, dict) and isinstance(got, dict):
        for key, value in expected.items():
            if key in _OF_OTHERS:
                continue
            path = f"{where}.{key}" if where else key
            if key in got:
                yield from differences(value, got[key], tol, path)
            else:
                yield f"{path}: expected {value}, got nothing"
    elif isinstance(expected, list) and isinstance(got, list):
        if len(expected) != len(got):
            yield f"{where}: expected {len(expected)} entries, got {len(got)}: {got}"
            return
        for i, (left, right) in enumerate(zip(expected, got, strict=True)):
            yield from differences(left, right, tol, f"{where}[{i}]")
    elif isinstance(expected, int | float) and isinstance(got, int | float):
        if not close(float(expected), float(got), tol):
            yield f"{where}: expected {expected!r}, got {got!r}"
    elif expected != got:
        yield f"{where}: expected {expected!r}, got {got!r}"


def check(case: dict[str, Any]) -> list[str]:
    """Differences between a case and the library; empty when it passes."""
    run = ADAPTERS.get(case["stat"])
    if run is None:
        return [f"no statistic named {case['stat']!r}"]
    expected = plain(case["expected"])
    try:
        got = plain(run(plain(case["inputs"]), expected))
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    return list(differences(expected, got, case["tol"], ""))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--groups", help="comma-separated: the ids up to the first dot")
    options = parser.parse_args(arguments)
    cases = json.loads(options.file.read_text(encoding="utf-8"))["cases"]
    if options.groups:
        groups = set(options.groups.split(","))
        cases = [case for case in cases if case["id"].split(".")[0] in groups]
    failed = 0
    for case in cases:
        found = check(case)
        failed += bool(found)
        for line in found:
            print(f"FAIL {case['id']}: {line}")
    print(f"{len(cases) - failed}/{len(cases)}")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
