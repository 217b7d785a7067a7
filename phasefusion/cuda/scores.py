"""Posteriors of options straight from the logits of a model, where they lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._arrays import as_array
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
    array = as_array(given, name, PosteriorError)
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

    Arrays are of the framework, and on the device, that the passes came from.

    Attributes
    ----------
    posterior : array, shape (n, K), float64
    margin : array, shape (n,), float64
        In nats.
    answer : array, shape (n,), int64
        Content index; -1 without an answer.
    n_tied, n_valid : array, shape (n,), int64
    """

    posterior: Any
    margin: Any
    answer: Any
    n_tied: Any
    n_valid: Any


def fuse_items(
    logp: Any,
    tie_seeds: ArrayLike,
    *,
    missing: str = "complete",
    stream: Any = None,
    device: int = 0,
) -> FusedItems:
    """Fuse the passes of many items on a GPU, with the bits of the CPU.

    Parameters
    ----------
    logp : array_like, or array on a GPU, shape (n, P, K), float64
        Natural log, content order; K at most 32. On a GPU (torch, cupy, anything with
        DLPack or ``__cuda_array_interface__``) it is C-contiguous, and stays there, as
        the results do.
    tie_seeds : integers, shape (n,), uint64
        What the tie priority of each item is drawn from.
    missing : {"complete", "available"}
        As in `phasefusion.fuse`.
    stream : optional
        As in `phasefusion.cuda.resize`, for an array on a GPU; the call waits for it.
    device : int, default 0
        For arrays of the host; others say where they are.

    Raises
    ------
    PosteriorError
        If the shapes are not as described.
    BackendUnavailableError, DeviceMemoryError, DeviceError
        As `phasefusion.cuda.resize`.
    """
    from phasefusion import _cuda

    seeds = np.ascontiguousarray(tie_seeds, np.uint64)
    if missing not in ("complete", "available"):
        raise PosteriorError(f"missing must be complete or available; got {missing!r}")
    if arrays.on_gpu(logp):
        return _fuse_there(logp, seeds, missing == "complete", stream)
    given = as_array(logp, "logp", PosteriorError, np.nan)
    values = np.ascontiguousarray(given, np.float64)
    _check_passes(values.shape, seeds)
    ready = runtime.device(device)
    with runtime.translated(f"fusing {len(values)} items"):
        made = _cuda.fuse(ready.handle, values, seeds, missing == "complete")
    return FusedItems(*made)


def _check_passes(shape: tuple[int, ...], seeds: NDArray[np.uint64]) -> None:
    if len(shape) != 3 or shape[1] < 1 or not 1 <= shape[2] <= 32:
        raise PosteriorError(
            f"logp must have shape (n, P, K) with K in 1..32, got {shape}"
        )
    if seeds.shape != shape[:1]:
        raise PosteriorError(
            f"tie_seeds must be one an item, got {seeds.shape} for {shape[0]}"
        )


def _fuse_there(
    logp: Any, seeds: NDArray[np.uint64], complete: bool, stream: Any
) -> FusedItems:
    """Fuse passes that lie on a GPU, and leave the results there."""
    from phasefusion import _cuda

    handle = arrays.stream_of(logp, stream)
    view = arrays.view(logp, handle, "logp")
    if view.dtype != "f8" or (view.strides != arrays._tight(view.shape, 8)):
        raise PosteriorError(
            f"logp on a GPU must be C-contiguous float64, got {view.dtype} of strides "
            f"{view.strides}"
        )
    _check_passes(view.shape, seeds)
    n, n_passes, n_options = view.shape
    made = [
        arrays.empty_like(logp, shape, dtype)
        for shape, dtype in (
            ((n, n_options), "float64"),
            *(((n,), name) for name in ("float64", "int64", "int64", "int64")),
        )
    ]
    outs = [arrays.view(array, handle, "a result") for array in made]
    posterior, margin, answer, n_tied, n_valid = (out.address for out in outs)
    with runtime.translated(f"fusing {n} items"):
        _cuda.fuse_there(
            runtime.device(view.device).handle,
            handle,
            view.address,
            (n, n_passes, n_options),
            seeds,
            complete,
            (posterior, margin, answer, n_tied, n_valid),
        )
    return FusedItems(*made)
