"""What a forward pass is given: token rows, and the frames that they look at."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion.errors import ScoringError


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A token sequence and the log-probabilities wanted from it.

    Parameters
    ----------
    ids : ndarray, shape (n,), int64
        Token ids, video tokens included.
    at : ndarray, shape (q,), int64
        Positions whose next-token distribution is wanted, ascending.
    tokens : ndarray, shape (q, r), int64
        The token ids wanted from each of them.
    """

    ids: NDArray[np.int64]
    at: NDArray[np.int64]
    tokens: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class VisualInputs:
    """The frames of one phase, as the model takes them.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        Keyword arguments of the model for one row. Those of several rows are joined
        along the first axis, whatever the model's family.
    token_id : int
        The token whose places in a row the frames take.
    kinds : mapping of str to mapping of int to int
        Keyword arguments with one number a token that depends on the token's id alone:
        ``{"mm_token_type_ids": {id of the video token: 2}}``. Other tokens get 0.
    in_its_precision : bool, default False
        Give the model numbers in its own precision. Most make them so themselves.
    """

    arrays: Mapping[str, NDArray[Any]]
    token_id: int
    kinds: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    in_its_precision: bool = False


def forward_parameters(model: Any) -> frozenset[str]:
    """Return the names of the inputs that a model takes.

    Wrappers that pass everything on, such as those of adapters and compilers, name
    none; the model inside is asked.

    Raises
    ------
    ScoringError
        If no input is named, so that a needed one could be lost in silence.
    """
    for _ in range(4):
        names = frozenset(inspect.signature(model.forward).parameters)
        if "input_ids" in names:
            return names
        inner = getattr(model, "get_base_model", None)
        inside = inner() if callable(inner) else getattr(model, "_orig_mod", None)
        if inside is None or inside is model:
            break
        model = inside
    raise ScoringError(
        f"{type(model).__name__}.forward does not name its inputs (input_ids among "
        "them); give the model of transformers itself"
    )


def common_prefix(rows: Sequence[Row]) -> int:
    """Return how many leading tokens all rows share and none has an answer in.

    Examples
    --------
    >>> import numpy as np
    >>> def row(*ids):
    ...     return Row(np.array(ids), np.array([len(ids) - 1]), np.array([[0]]))
    >>> common_prefix([row(7, 8, 9, 1, 2), row(7, 8, 9, 2)])
    3
    >>> common_prefix([row(7, 8), row(7, 8)])
    1
    """
    n = min(int(row.at[0]) for row in rows)
    head = rows[0].ids[:n]
    for row in rows[1:]:
        differs = np.flatnonzero(head != row.ids[: len(head)])
        if differs.size:
            head = head[: differs[0]]
    return len(head)
