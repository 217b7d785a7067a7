"""What the page knows of every item, as short JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion._wording import counted
from phasefusion.fusion import fuse_items
from phasefusion.records import Passes
from phasefusion.records.questions import QuestionTexts
from phasefusion.report.html.words import columns as about_columns
from phasefusion.report.items import ItemColumns, contributions
from phasefusion.report.table import Table, arm_logprobs

#: Posteriors are given in thousandths.
POSTERIOR_UNIT = 1000


def main_arm(names: tuple[str, ...]) -> str:
    """Name the arm whose answer stands for an item: fusion where there is one."""
    return next((arm for arm in ("fusion", "vote") if arm in names), names[0])


def page_data(
    passes: Passes, table: Table, settings: Mapping[str, Any], texts: QuestionTexts
) -> dict[str, Any]:
    """Return everything that the scripts of the page read.

    Parameters
    ----------
    passes : Passes
    table : Table
        The same passes by item.
    settings : mapping
        Of the run.
    texts : QuestionTexts

    Returns
    -------
    dict
        ``arms``, ``main``, ``about`` (what the columns mean) and ``items``. Undefined
        values are None; posteriors, by arm and order, are integers in thousandths;
        answers are content indices, -1 for none.
    """
    columns = contributions(table)
    logp = arm_logprobs(passes, settings)
    seed = int(settings.get("seed", 0))
    by_arm = _posteriors(table, logp)
    by_order = _fused(table, logp.get("phase"), seed, ("phase",))
    if by_order is not None:
        by_arm["fusion"] = by_order[0]
    fused = _fused(table, logp.get("phase"), seed, ("phase", "order"))
    main = main_arm(columns.arms)
    margin = _margins(table, main, by_arm.get(main))
    shown = {arm: _thousandths(values) for arm, values in by_arm.items()}
    n_missing = np.bincount(
        passes.item[passes.answer < 0], minlength=len(table.items)
    ).tolist()
    items = []
    for i in range(len(table.items)):
        item = _item(i, table, columns, main, texts) | {"missing": n_missing[i]}
        item["pooled"] = _rounded(table.pooled_top[i])
        item["margin"] = _rounded(margin[i])
        m, k = int(table.n_orders[i]), int(table.n_options[i])
        of_item = {
            arm: shown[arm][i, :m, :k].tolist()
            for arm in item["answers"]
            if arm in shown
        }
        if of_item:
            item["posteriors"] = of_item
        if fused is not None:
            item["fused"] = _thousandths(fused[0][i, :k]).tolist()
            item["pooled_answer"] = int(fused[1][i])
        items.append(item)
    return {
        "arms": list(columns.arms),
        "main": main,
        "about": about_columns(main, bool(table.phase_names)),
        "items": items,
    }


def _item(
    i: int, table: Table, columns: ItemColumns, main: str, texts: QuestionTexts
) -> dict[str, Any]:
    info = table.items[i]
    question = texts.items.get((info.benchmark, info.question_id))
    if question is not None and len(question.options) != info.n_options:
        question = None
    outcomes = table.arms[main, False]
    flips = columns.order_flips.get("phases", columns.order_flips[columns.arms[0]])
    consensus = int(outcomes.consensus[i])
    gold = int(table.gold[i])
    n_orders = int(table.n_orders[i])
    return {
        "id": info.question_id,
        "benchmark": info.benchmark,
        "type": info.type or "",
        "video": info.video_id or "",
        "duration": None if info.duration_s is None else round(info.duration_s, 3),
        "question": "" if question is None else question.question,
        "options": [] if question is None else list(question.options),
        "k": info.n_options,
        "gold": gold,
        "answer": consensus,
        "right": None if consensus < 0 or gold < 0 else int(consensus == gold),
        "accuracy": _rounded(columns.accuracy[main][i]),
        "phase_flip": _rounded(columns.phase_flips.any[i]),
        "order_flip": _rounded(flips.any[i]),
        "half_step": (
            _rounded(columns.change[main][i]) if main in columns.change else None
        ),
        "orders": table.order[i, :n_orders, : info.n_options].tolist(),
        "answers": {
            arm: table.arms[arm, False].answer[i, :n_orders].tolist()
            for arm in columns.arms
            if arm not in table.phase_names or table.n_phases[i] > _number(arm)
        },
    }


def _margins(
    table: Table, main: str, posteriors: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Log of the consensus' mean posterior over the best other one's, by item.

    It is negative where the mean over the orders prefers another option than most of
    the orders do, and NaN without a consensus or without posteriors.
    """
    found = np.full(len(table.items), np.nan)
    if posteriors is None:
        return found
    answers = table.arms[main, False].consensus
    for i in np.flatnonzero((answers >= 0) & (table.n_options > 1)).tolist():
        mean = posteriors[i, : table.n_orders[i], : table.n_options[i]].mean(axis=0)
        others = np.delete(mean, answers[i]).max()
        with np.errstate(divide="ignore"):
            found[i] = np.log(mean[answers[i]]) - np.log(others)
    return found


def _number(phase_name: str) -> int:
    return int(phase_name.removeprefix("phase "))


def _rounded(value: float) -> float | None:
    """Three decimals, or None for what is not finite."""
    return round(float(value), 3) if np.isfinite(value) else None


def _thousandths(posterior: NDArray[np.float64]) -> NDArray[np.int64]:
    """Integers in thousandths; -1 where there is no posterior."""
    known = np.where(np.isnan(posterior), -1.0 / POSTERIOR_UNIT, posterior)
    rounded: NDArray[np.int64] = np.rint(known * POSTERIOR_UNIT).astype(np.int64)
    return rounded


def _posteriors(
    table: Table, logp: Mapping[str, NDArray[np.float64]]
) -> dict[str, NDArray[np.float64]]:
    """Posteriors of every arm that is a pass, and of every phase view, (n, M, K)."""
    found: dict[str, NDArray[np.float64]] = {}
    for name, values in logp.items():
        if np.isnan(values[..., 0]).all():
            continue
        shares = _shares(values)
        if name == "phase":
            found |= {f"phase {s}": shares[:, s] for s in range(shares.shape[1])}
        else:
            found[name] = shares[:, 0]
    for view in table.phase_names:  # one of them may be the single pass
        is_single = table.arms.get(("single", False)) is table.arms[view, False]
        if is_single and view in found:
            found["single"] = found[view]
    return found


def _shares(logp: NDArray[np.float64]) -> NDArray[np.float64]:
    top = np.nanmax(np.where(np.isnan(logp), -np.inf, logp), axis=-1, keepdims=True)
    p = np.exp(logp - np.where(np.isfinite(top), top, np.nan))
    shares: NDArray[np.float64] = p / p.sum(axis=-1, keepdims=True)
    return shares


def _fused(
    table: Table,
    logp: NDArray[np.float64] | None,
    seed: int,
    over: tuple[str, ...],
) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
    """Posteriors and answers fused over phases, or over phases and orders.

    Of shape (n, M, K) and (n, M), or (n, K) and (n,). The answers are those of
    `fuse_items`, which breaks ties as the arms do.
    """
    if logp is None or np.isnan(logp[..., 0]).all():
        return None
    n_items, _, n_orders, width = logp.shape
    both = len(over) == 2
    shape = (n_items,) if both else (n_items, n_orders)
    found, answer = np.full((*shape, width), np.nan), np.full(shape, -1)
    for n_phases in np.unique(table.n_phases[table.n_phases > 0]):
        rows = np.flatnonzero(table.n_phases == n_phases)
        pooled = fuse_items(
            logp[rows, :n_phases],
            n_options=table.n_options[rows],
            over=("phase", "order") if both else "phase",
            missing="available" if both else "complete",
            item_ids=[table.items[i].question_id for i in rows.tolist()],
            seed=seed,
        )
        found[rows], answer[rows] = pooled.posterior, pooled.answer
    return found, answer


def heat_maps(table: Table) -> list[dict[str, Any]]:
    """Phase by order: how often a cell is right, and agrees with the main answer.

    Over items that have an answer in every cell; only orders that all of them have.
    """
    names = table.phase_names or tuple(
        dict.fromkeys(name for name, shifted in table.arms if not shifted)
    )
    if not names:
        return []
    arms = tuple(dict.fromkeys(name for name, shifted in table.arms if not shifted))
    main = main_arm(arms)
    answers = np.stack([table.arms[name, False].answer for name in names], axis=1)
    complete = np.ones(len(table.items), bool)
    for name in names:
        complete &= table.arms[name, False].consensus >= 0
    if not complete.any():
        return []
    n_orders = int(table.n_orders[complete].min())
    answers = answers[:, :, :n_orders]
    wanted = (
        ("Right answers", table.gold),
        (
            f"Answers that agree with the consensus of {main}",
            table.arms[main, False].consensus,
        ),
    )
    found = []
    for title, reference in wanted:
        usable = complete & (reference >= 0)
        if not usable.any():
            continue
        share = (answers[usable] == reference[usable, None, None]).mean(axis=0)
        found.append(
            {
                "title": title,
                "n": int(usable.sum()),
                "said": counted(int(usable.sum()), "question"),
                "orders": n_orders,
                "shared": table.shared_orders,
                "rows": [
                    {"name": name, "cells": _cells(row, share)}
                    for name, row in zip(names, share, strict=True)
                ],
            }
        )
    return found


def _cells(
    row: NDArray[np.float64], share: NDArray[np.float64]
) -> list[dict[str, Any]]:
    """Text of a cell, and its place between the least and the greatest, 0 to 100."""
    low, high = float(share.min()), float(share.max())
    span = high - low or 1.0
    return [
        {"text": f"{100 * value:.1f}", "shade": round(100 * (value - low) / span)}
        for value in row.tolist()
    ]
