"""What is given as an array: its mask counts, and what NumPy cannot read is named."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion.errors import PhaseFusionError

INT64_MAX = 2**63 - 1


def as_array(
    values: object,
    name: str,
    error: type[PhaseFusionError],
    missing: float | None = None,
) -> NDArray[Any]:
    """Return values as a plain array, or say what cannot be used.

    Parameters
    ----------
    values : array_like
    name : str
        Of the argument, for messages.
    error : type
        What is raised.
    missing : float or int, optional
        What stands for a missing entry in an array of this kind, such as NaN or -1;
        masked ones become it. Without, they are refused.

    Raises
    ------
    PhaseFusionError
        Of the given type, if the values are no array, or naming the first entry that is
        masked.

    Examples
    --------
    >>> given = np.ma.array([3, 1, 2], mask=[False, True, False])
    >>> as_array(given, "answers", PhaseFusionError, -1)
    array([ 3, -1,  2])
    """
    if "numpy.ma" in sys.modules:  # else there can be no mask
        if isinstance(values, list | tuple):
            kinds = set(map(type, values))
            if any(issubclass(kind, np.ma.MaskedArray) for kind in kinds):
                values = np.ma.array(values)
        if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
            return _unmasked(values, name, error, missing)
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as problem:  # the last is of torch
        raise error(f"{name} cannot be read as an array: {problem}") from problem


def _unmasked(
    values: Any, name: str, error: type[PhaseFusionError], missing: float | None
) -> NDArray[Any]:
    plain, mask = np.asarray(values), np.ma.getmaskarray(values)
    if missing is None:
        place = ", ".join(str(i) for i in np.argwhere(mask)[0])
        raise error(
            f"{name}[{place}] is masked, and {name} must be whole: leave what it "
            "belongs to out, or fill it in"
        )
    if isinstance(missing, int) and plain.dtype.kind in "iu":
        plain = as_int64(np.where(mask, 0, plain), name, error)
    return np.where(mask, missing, plain)


def as_int64(
    array: NDArray[Any], name: str, error: type[PhaseFusionError]
) -> NDArray[np.int64]:
    """Return integers as int64; those of uint64 that do not fit would wrap around."""
    if array.dtype.kind == "u" and array.size and int(array.max()) > INT64_MAX:
        raise error(
            f"{name} hold {int(array.max())}, which is above 2**63-1; as a signed "
            "number it would be another one"
        )
    return array.astype(np.int64, copy=False)
