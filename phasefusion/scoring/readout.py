"""Logits at the positions that are read, and nowhere else, in float32.

A vocabulary has 150,000 entries; projecting a whole prompt onto it costs gigabytes that
nobody looks at. And a half-precision model rounds its logits: at 20, bfloat16 counts in
steps of 1/8, so that options come out equal that are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

    from phasefusion.scoring.rows import Row

#: Numbers of the output layer that are turned into float32 at once.
_BLOCK = 2**24


@dataclass(frozen=True, slots=True, eq=False)
class RowScores:
    """Log-probabilities, shape (q, r) float64, NaN with a reason when invalid."""

    logprobs: NDArray[np.float64]
    problem: str = ""


def invalid(row: Row, problem: str) -> RowScores:
    """Return the scores of a row that has none, with the reason."""
    return RowScores(np.full(row.tokens.shape, np.nan), problem)


@dataclass(slots=True)
class Chosen:
    """Whether a pass gave the logits of chosen positions alone."""

    applied: bool = False


@contextmanager
def projecting(
    model: Any, rows: torch.Tensor, positions: torch.Tensor, shape: tuple[int, int]
) -> Iterator[Chosen]:
    """Let a pass project chosen positions alone, and in float32 at least.

    While it lasts, the model's output layer takes the hidden states of the chosen
    positions out of all that it is given, so that its logits have shape (1, n, V). What
    a model does to logits afterwards, such as capping them, it does to these.

    Parameters
    ----------
    model : transformers.PreTrainedModel
    rows, positions : Tensor, shape (n,), int64
        Which positions of which rows, in the padded batch.
    shape : (int, int)
        Rows and tokens of the batch.

    Yields
    ------
    Chosen
        `applied` stays False where the output layer is none that can be stood in for;
        the logits are then what the model gives.
    """
    chosen = Chosen()
    head = output_layer(model)
    if head is None:
        yield chosen
        return

    def forward(hidden: torch.Tensor) -> torch.Tensor:
        if hidden.shape[:2] != shape:
            whole: torch.Tensor = type(head).forward(head, hidden)
            return whole
        chosen.applied = True
        return project(hidden[rows, positions], head.weight, head.bias)[None]

    head.forward = forward
    try:
        yield chosen
    finally:
        del head.forward


def output_layer(model: Any) -> Any:
    """Return the output layer if it is a plain one whose weights lie in memory."""
    import torch

    get = getattr(model, "get_output_embeddings", None)
    head = get() if get is not None else None
    # Another class may be quantised, split over devices or adapted; an instance with
    # a forward of its own is loaded on demand.
    if type(head) is not torch.nn.Linear or "forward" in vars(head):
        return None
    return head if type(head.weight) is torch.nn.Parameter else None


def project(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """Return ``hidden @ weight.T + bias`` in float32, or float64 for such a model.

    Parameters
    ----------
    hidden : Tensor, shape (n, d)
    weight : Tensor, shape (V, d)
        Taken to float32 a block at a time, so that no second copy of it is held.
    bias : Tensor, shape (V,), optional

    Returns
    -------
    Tensor, shape (n, V)

    Examples
    --------
    >>> import torch
    >>> half = torch.ones(2, 3, dtype=torch.bfloat16)
    >>> project(half[:1], half, None)
    tensor([[3., 3.]])
    """
    import torch

    precise = torch.promote_types(weight.dtype, torch.float32)
    hidden = hidden.to(weight.device, precise)
    shift = None if bias is None else bias.to(precise)
    if weight.dtype == precise:
        return torch.nn.functional.linear(hidden, weight, shift)
    logits = hidden.new_empty(len(hidden), len(weight))
    step = max(1, _BLOCK // weight.shape[1])
    for start in range(0, len(weight), step):
        block = slice(start, start + step)
        torch.matmul(hidden, weight[block].to(precise).T, out=logits[:, block])
    return logits if shift is None else logits.add_(shift)


def read(logits: torch.Tensor, chunk: Sequence[Row]) -> list[RowScores]:
    """Log-softmax over the whole vocabulary, in float32 at least, row by row.

    Parameters
    ----------
    logits : Tensor, shape (n, V)
        Of the positions of all rows, one row after the other.
    chunk : sequence of Row

    Returns
    -------
    list of RowScores
        A row whose logits are no numbers is invalid; the others are not touched by it.
    """
    import torch

    precise = torch.promote_types(logits.dtype, torch.float32)
    width = max(row.tokens.shape[1] for row in chunk)
    filled = [
        np.pad(row.tokens, ((0, 0), (0, width - row.tokens.shape[1])), mode="edge")
        for row in chunk
    ]
    wanted = torch.from_numpy(np.concatenate(filled))
    values = logits.to(precise)
    totals = torch.logsumexp(values, dim=-1, keepdim=True)
    picked = values.gather(-1, wanted.to(logits.device)) - totals
    logprobs = picked.cpu().double().numpy()
    sums = totals.flatten().cpu().double().numpy()
    scores = []
    start = 0
    for row in chunk:
        stop = start + len(row.at)
        problem = logits_problem(sums[start:stop])
        result = logprobs[start:stop, : row.tokens.shape[1]].copy()
        scores.append(invalid(row, problem) if problem else RowScores(result))
        start = stop
    return scores


def logits_problem(totals: NDArray[np.float64]) -> str:
    """Say what is wrong with logits whose log-sum-exps these are, if anything is."""
    if np.isnan(totals).any():
        return "the logits hold NaN"
    if (totals == np.inf).any():
        return "the logits hold +inf"
    if (totals == -np.inf).any():
        return "all logits are -inf"
    return ""


def distance(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the largest difference between scores, infinite if one alone is none.

    Examples
    --------
    >>> distance(np.array([-1.0, -np.inf]), np.array([-1.5, -np.inf]))
    0.5
    >>> distance(np.array([np.nan]), np.array([-1.5]))
    inf
    """
    numbers, other_numbers = np.isfinite(one), np.isfinite(other)
    rest, other_rest = np.where(numbers, 0, one), np.where(other_numbers, 0, other)
    if not np.array_equal(rest, other_rest, equal_nan=True):
        return np.inf
    return float(np.abs(one[numbers] - other[numbers]).max(initial=0.0))
