"""What the cases of a reference file call: choices, posteriors, flips, votes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
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
