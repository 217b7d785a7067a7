"""Token sequences that begin alike, put together as a tree and run as one row.

Ten orders of the options of a question behind one video are ten short tails of one long
prefix. As ten rows of a pass each would drag a copy of the prefix's keys and values
along. As one row they use it together, and tokens with the same past, such as those of
a first option that several orders share, are run once. An attention mask lets every
token see the prefix and its own past, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, eq=False)
class TokenTree:
    """Sequences that share their beginnings.

    Parameters
    ----------
    ids : ndarray, shape (n,), int64
        The token of each node; a node comes after those that it comes after in a
        sequence.
    parents : ndarray, shape (n,), int64
        The node before it, -1 for the first ones.
    paths : tuple of ndarray, int64
        The nodes of each sequence, in order.

    Examples
    --------
    >>> tree = TokenTree.of([np.array([5, 6, 7]), np.array([5, 6, 8, 9])])
    >>> tree.ids, tree.depths, tree.paths[1]
    (array([5, 6, 7, 8, 9]), array([0, 1, 2, 2, 3]), array([0, 1, 3, 4]))
    >>> tree.visible().astype(int)
    array([[1, 0, 0, 0, 0],
           [1, 1, 0, 0, 0],
           [1, 1, 1, 0, 0],
           [1, 1, 0, 1, 0],
           [1, 1, 0, 1, 1]])
    """

    ids: NDArray[np.int64]
    parents: NDArray[np.int64]
    paths: tuple[NDArray[np.int64], ...]

    @classmethod
    def of(cls, sequences: Sequence[NDArray[np.int64]]) -> TokenTree:
        """Build the tree of some sequences."""
        ids: list[int] = []
        parents: list[int] = []
        paths = []
        known: dict[tuple[int, int], int] = {}
        for sequence in sequences:
            at = -1
            path = []
            for token in sequence.tolist():
                node = known.setdefault((at, token), len(ids))
                if node == len(ids):
                    ids.append(token)
                    parents.append(at)
                path.append(node)
                at = node
            paths.append(np.array(path, dtype=np.int64))
        return cls(
            np.array(ids, dtype=np.int64),
            np.array(parents, dtype=np.int64),
            tuple(paths),
        )

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def depths(self) -> NDArray[np.int64]:
        """How many tokens of its sequence come before each node, shape (n,)."""
        depths = np.zeros(len(self), dtype=np.int64)
        for node, parent in enumerate(self.parents.tolist()):
            if parent >= 0:
                depths[node] = depths[parent] + 1
        return depths

    def visible(self) -> NDArray[np.bool_]:
        """Which node is in the past of which, itself included, shape (n, n)."""
        seen = np.eye(len(self), dtype=np.bool_)
        for node, parent in enumerate(self.parents.tolist()):
            if parent >= 0:
                seen[node] |= seen[parent]
        return seen


def packing(sizes: Sequence[int], most_rows: int, most_tokens: int) -> Iterator[int]:
    """Yield where packs of sequences end, by what they hold if they share nothing.

    Examples
    --------
    >>> list(packing([40, 40, 40, 40, 90], most_rows=3, most_tokens=100))
    [2, 4, 5]
    """
    start = total = 0
    for i, size in enumerate(sizes):
        if i > start and (i - start >= most_rows or total + size > most_tokens):
            yield i
            start, total = i, 0
        total += size
    if sizes:
        yield len(sizes)


def tree_mask(
    n_past: int, visible: Sequence[NDArray[np.bool_]], dtype: torch.dtype
) -> torch.Tensor:
    """Return what is added to attention weights, shape (rows, 1, most, past + most).

    Parameters
    ----------
    n_past : int
        Tokens of the prefixes, which all that comes after sees.
    visible : sequence of ndarray, shape (n, n), bool
        Of each row, which of its own tokens see which. Rows are filled up with tokens
        that see the prefix alone, so that what they hold stays finite.
    dtype : torch.dtype
        Of the model.
    """
    import torch

    most = max(len(own) for own in visible)
    allowed = np.zeros((len(visible), most, n_past + most), dtype=np.bool_)
    allowed[:, :, :n_past] = True
    for row, own in zip(allowed, visible, strict=True):
        n = len(own)
        row[:n, n_past : n_past + n] = own
    mask = torch.zeros(allowed.shape, dtype=dtype)
    mask.masked_fill_(torch.from_numpy(~allowed), torch.finfo(dtype).min)
    return mask[:, None]
