"""Log-probabilities that cannot be, and probabilities in the place of their logs."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

#: How far rounding may take the sum of a pass above 1: half-precision logarithms
#: (bfloat16 has eight bits) are off by as much.
ROUNDING = 1e-2
#: How near to 1 the sums of what is taken for probabilities are.
_NEAR = 1e-6
#: Values that are looked at before all of them are.
_FIRST = 256

TAKE_THE_LOG = "these are probabilities; take the log"


def excess(logprobs: NDArray[np.float64]) -> float | None:
    """Return the greatest sum of a pass's probabilities, where it is above 1.

    Parameters
    ----------
    logprobs : ndarray, shape (..., K), float64
        A pass with NaN is not looked at.

    Returns
    -------
    float or None
        None where rounding explains what is above 1.

    Examples
    --------
    >>> excess(np.log([[0.5, 0.6], [0.9, 0.2]])).__round__(6)
    1.1
    >>> excess(np.log([[0.5, 0.5], [np.nan, 0.2]]))
    """
    with np.errstate(over="ignore"):
        sums = np.exp(logprobs).sum(axis=-1)
    above = sums[sums > 1 + ROUNDING]
    return float(above.max()) if above.size else None


def are_probabilities(
    rows: NDArray[np.float64], n_options: NDArray[np.int64] | None = None
) -> bool:
    """Whether every pass lies in [0, 1] and adds up to 1, as no logarithms do.

    Parameters
    ----------
    rows : ndarray, shape (n, ..., K), float64
        A pass with NaN is not looked at, but one at least has to be without.
    n_options : ndarray of int64, shape (n, ...), optional
        Options of each item, or of each pass; what lies beyond is padding.

    Examples
    --------
    >>> are_probabilities(np.array([[0.7, 0.2, 0.1], [0.0, 1.0, 0.0]]))
    True
    >>> are_probabilities(np.array([[0.7, 0.2, 0.1], [0.0, 1.0, 1.0]]))
    False
    """
    if not rows.size or rows.shape[-1] < 2:
        return False
    if rows.ndim == 1:
        n_options = None if n_options is None else n_options.reshape(1)
        return are_probabilities(rows[None], n_options)
    first = slice(_FIRST // math.prod(rows.shape[1:]) + 1)
    if not _may_be(_own(rows, n_options, first)):
        return False  # of logarithms the first say it, without a look at all
    own = _own(rows, n_options, slice(None))
    kept = own[~np.isnan(own).any(axis=-1)]
    if not kept.size or not _may_be(kept):
        return False
    return bool(np.allclose(kept.sum(axis=-1), 1.0, rtol=0.0, atol=_NEAR))


def _own(
    rows: NDArray[np.float64], n_options: NDArray[np.int64] | None, items: slice
) -> NDArray[np.float64]:
    """Put 0 in the place of padding, which may be anything."""
    if n_options is None:
        return rows[items]
    own = n_options.reshape(n_options.shape + (1,) * (rows.ndim - n_options.ndim))
    return np.where(np.arange(rows.shape[-1]) < own[items], rows[items], 0.0)


def _may_be(values: NDArray[np.float64]) -> bool:
    return not ((values < 0) | (values > 1)).any()
