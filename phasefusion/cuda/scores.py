"""Posteriors of options straight from the logits of a model, where they lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._results import Result
from phasefusion.cuda import arrays, runtime
from phasefusion.errors import PosteriorError

__all__ = ["FusedItems", "fuse_items", "option_scores"]

_TYPES = {"f4": 0, "f2": 1, "V2": 2}


def option_scores(
    logits: Any,
    tokens: ArrayLike,
    orders: ArrayLike | None = None,
    *,
    stream: Any = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log-softmax over the whole vocabulary, of the options alone, in content order.

    Parameters
    ----------
    logits : array on a GPU, shape (n, V), float32, float16 or bfloat16
        One row a pass: those of the position where the model answers.
    tokens : integers, shape (K,) or (n, K)
        Token of the option at each place of the prompt.
    orders : integers, shape (K,) or (n, K), optional
        ``order[place] = content``; as given when left out.
    stream : optional
        As in `phasefusion.cuda.resize`; the call waits for it.

    Returns
    -------
    logprobs : ndarray, shape (n, K), float64
    mass : ndarray, shape (n,), float64
        Of all options of a row together.

    Raises
    ------
    PosteriorError
        If shapes or types are not as described, or a token is not in the vocabulary.
    BackendUnavailableError, DeviceMemoryError, DeviceError
        As `phasefusion.cuda.resize`.
    """
    from phasefusion import _cuda

    handle = arrays.stream_of(logits, stream)
    view = arrays.view(logits, handle, "logits")
    if view.dtype not in _TYPES or len(view.shape) != 2 or view.shape[1] < 1:
        raise PosteriorError(
            "logits must be float32, float16 or bfloat16 of shape (n, V), got "
            f"{view.dtype} of shape {view.shape}"
        )
    item_bytes = int(view.dtype[1])
    if view.strides[1] != item_bytes and view.shape[1] > 1:
        raise PosteriorError(f"rows of logits must be contiguous, got {view.strides}")
    n, n_vocab = view.shape
    token = _rows("tokens", tokens, n)
    n_options = token.shape[1]
    order = _rows("orders", np.arange(n_options) if orders is None else orders, n)
    if (
        order.shape != token.shape
        or (np.sort(order, axis=1) != np.arange(n_options)).any()
    ):
        raise PosteriorError(
            f"orders must be permutations of 0..{n_options - 1}, one a row of logits"
        )
    if token.size and not (token.min() >= 0 and token.max() < n_vocab):
        raise PosteriorError(
            f"tokens must be in 0..{n_vocab - 1}, they reach from {token.min()} to "
            f"{token.max()}"
        )
    ready = runtime.device(view.device)
    row_values = view.strides[0] // item_bytes
    with runtime.translated(f"scoring {n} passes"):
        made = _cuda.option_scores(
            ready.handle,
            handle,
            (view.address, _TYPES[view.dtype], row_values, n_vocab),
            token,
            order,
        )
    del view
    return made


def _rows(name: str, given: ArrayLike, n: int) -> NDArray[np.int32]:
    """Return integers of shape (n, K)."""
    array = np.asarray(given)
    if array.dtype.kind not in "iu" or array.ndim not in (1, 2) or array.size == 0 < n:
        raise PosteriorError(f"{name} must be integers of shape (K,) or (n, K)")
    if array.ndim == 2 and array.shape[0] != n:
        raise PosteriorError(
            f"{name} must have one row for each of {n} rows of logits, got "
            f"{array.shape[0]}"
        )
    if array.size and not (-(2**31) <= array.min() and array.max() < 2**31):
        raise PosteriorError(f"{name} must fit 32 bits")
    rows = np.broadcast_to(array, (n, array.shape[-1]))
    return np.ascontiguousarray(rows, np.int32)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FusedItems(Result):
    """Linear pools of items, as of `phasefusion.fusion.fuse_items`.

    Attributes
    ----------
    posterior : ndarray, shape (n, K), float64
    margin : ndarray, shape (n,), float64
        In nats.
    answer : ndarray, shape (n,), int64
        Content index; -1 without an answer.
    n_tied, n_valid : ndarray, shape (n,), int64
    """

    posterior: NDArray[np.float64]
    margin: NDArray[np.float64]
    answer: NDArray[np.int64]
    n_tied: NDArray[np.int64]
    n_valid: NDArray[np.int64]


def fuse_items(
    logp: ArrayLike,
    tie_seeds: ArrayLike,
    *,
    missing: str = "complete",
    device: int = 0,
) -> FusedItems:
    """Fuse the passes of many items on a GPU, with the bits of the CPU.

    Parameters
    ----------
    logp : array_like, shape (n, P, K), float64
        Natural log, content order; K at most 32.
    tie_seeds : integers, shape (n,), uint64
        What the tie priority of each item is drawn from.
    missing : {"complete", "available"}
        As in `phasefusion.fuse`.
    device : int, default 0

    Raises
    ------
    PosteriorError
        If the shapes are not as described.
    BackendUnavailableError, DeviceMemoryError, DeviceError
        As `phasefusion.cuda.resize`.
    """
    from phasefusion import _cuda

    values = np.ascontiguousarray(logp, np.float64)
    seeds = np.ascontiguousarray(tie_seeds, np.uint64)
    if values.ndim != 3 or values.shape[1] < 1 or not 1 <= values.shape[2] <= 32:
        raise PosteriorError(
            f"logp must have shape (n, P, K) with K in 1..32, got {values.shape}"
        )
    if seeds.shape != values.shape[:1]:
        raise PosteriorError(
            f"tie_seeds must be one an item, got {seeds.shape} for {values.shape[0]}"
        )
    if missing not in ("complete", "available"):
        raise PosteriorError(f"missing must be complete or available; got {missing!r}")
    ready = runtime.device(device)
    with runtime.translated(f"fusing {len(values)} items"):
        made = _cuda.fuse(ready.handle, values, seeds, missing == "complete")
    return FusedItems(*made)
