"""Keys and values of a prefix, kept once and put before every row that shares it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """The keys and values of tokens that rows have in common.

    Parameters
    ----------
    layers : tuple of (Tensor, Tensor)
        Keys and values of each layer, shape (1, heads, n, width).
    n_tokens : int
    position : int
        Of the token that comes next, as the model counts.
    """

    layers: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    n_tokens: int
    position: int


def cache_problem(cache: Any) -> str:
    """Say why the entries of a cache cannot be put before several rows, if so."""
    layers = getattr(cache, "layers", None)
    if not isinstance(layers, list) or not layers:
        return f"a {type(cache).__name__} has no layers that can be shared by rows"
    other = {type(layer).__name__ for layer in layers} - {"DynamicLayer"}
    if other:
        return f"the cache holds {', '.join(sorted(other))}"
    if not all(layer.is_initialized for layer in layers):
        return "layers of the model keep no keys and values of their own"
    return ""


def cut(cache: Any, row: int, n_tokens: int) -> tuple[tuple[Any, Any], ...]:
    """Return keys and values of a row's first tokens, out of a cache of many rows."""
    one = slice(row, row + 1)
    alone = len(cache.layers[0].keys) == 1
    layers = []
    for layer in cache.layers:
        pair = (layer.keys[one, :, :n_tokens], layer.values[one, :, :n_tokens])
        # A view of many rows would keep all of them alive.
        layers.append(pair if alone else tuple(tensor.clone() for tensor in pair))
    return tuple(layers)


def joined(prefixes: Sequence[Prefix]) -> Any:
    """Return a cache in which row i comes after ``prefixes[i]``.

    The prefixes, of one length, are copied layer by layer, while the layer runs, so
    that at no time more than one layer of them is held once a row. What the rows add
    is not kept.
    """
    import transformers

    cache = transformers.DynamicCache()
    make = _layer_class()
    cache.layers = [make(i, prefixes) for i in range(len(prefixes[0].layers))]
    return cache


@functools.cache
def _layer_class() -> Any:
    from transformers.cache_utils import DynamicLayer

    class JoinedLayer(DynamicLayer):  # type: ignore[misc, no-untyped-call, unused-ignore]
        """One layer of the prefixes, put before what the pass adds."""

        def __init__(self, index: int, prefixes: Sequence[Prefix]) -> None:
            super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
            self.index, self.prefixes = index, prefixes
            self.n_past = prefixes[0].n_tokens
            self.is_initialized = True

        def get_seq_length(self) -> int:
            return self.n_past

        def get_mask_sizes(self, query: Any) -> tuple[int, int]:
            # transformers 4 gives the positions, 5 their number
            n = query if isinstance(query, int) else query.shape[0]
            return self.n_past + n, 0

        def update(
            self,
            key_states: torch.Tensor,
            value_states: torch.Tensor,
            *args: Any,
            **kwargs: Any,
        ) -> tuple[torch.Tensor, torch.Tensor]:
            return self._filled(key_states, 0), self._filled(value_states, 1)

        def _filled(self, own: torch.Tensor, which: int) -> torch.Tensor:
            n_rows, heads, n_own, width = own.shape
            whole = own.new_empty(n_rows, heads, self.n_past + n_own, width)
            for row, prefix in zip(whole, self.prefixes, strict=True):
                row[:, : self.n_past] = prefix.layers[self.index][which][0]
            whole[:, :, self.n_past :] = own
            return whole

    return JoinedLayer
