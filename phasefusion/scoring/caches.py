"""Keys and values of a prefix, kept once and put before every row that shares it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
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
        Keys and values of each layer, shape (1, heads, n, width); of the tokens that
        come after `before` alone.
    n_tokens : int
        All tokens, those of `before` included.
    position : int
        Of the token that comes next, as the model counts.
    before : Prefix, optional
        What comes before these tokens.
    """

    layers: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    n_tokens: int
    position: int
    before: Prefix | None = None

    def parts(self) -> Iterator[Prefix]:
        """Yield the parts from the first token on."""
        if self.before is not None:
            yield from self.before.parts()
        yield self

    @property
    def n_bytes(self) -> int:
        """Memory of these tokens in all layers."""
        return sum(
            tensor.numel() * tensor.element_size()
            for pair in self.layers
            for tensor in pair
        )


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


def joined(prefixes: Sequence[Prefix], *, keep: bool = False) -> Any:
    """Return a cache in which row i comes after ``prefixes[i]``.

    The prefixes are copied layer by layer, while the layer runs, so that at no time
    more than one layer of them is held once a row. Shorter ones begin later; the
    attention mask has to leave out what is before them (see `Prefix.n_tokens`).

    Parameters
    ----------
    prefixes : sequence of Prefix
    keep : bool, default False
        Keep the keys and values of the rows' own tokens, as a longer prefix needs.
    """
    import transformers

    n_past = max(prefix.n_tokens for prefix in prefixes)
    runs: list[tuple[int, Prefix]] = []
    for prefix in prefixes:
        if runs and runs[-1][1] is prefix:
            runs[-1] = (runs[-1][0] + 1, prefix)
        else:
            runs.append((1, prefix))
    cache = transformers.DynamicCache()
    make = _layer_class()
    cache.layers = [make(i, runs, n_past, keep) for i in range(len(prefixes[0].layers))]
    return cache


@functools.cache
def _layer_class() -> Any:
    from transformers.cache_utils import DynamicLayer

    class JoinedLayer(DynamicLayer):  # type: ignore[misc, no-untyped-call, unused-ignore]
        """One layer of the prefixes, put before what the pass adds."""

        def __init__(
            self, index: int, runs: list[tuple[int, Prefix]], n_past: int, keep: bool
        ) -> None:
            super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
            self.index, self.runs, self.n_past, self.keep = index, runs, n_past, keep
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
            if self.keep:
                self.keys, self.values = key_states, value_states
            return self._filled(key_states, 0), self._filled(value_states, 1)

        def _filled(self, own: torch.Tensor, which: int) -> torch.Tensor:
            n_rows, heads, n_own, width = own.shape
            whole = own.new_empty(n_rows, heads, self.n_past + n_own, width)
            row = 0
            for count, prefix in self.runs:
                rows = whole[row : row + count]
                at = self.n_past - prefix.n_tokens
                rows[:, :, :at] = 0
                for part in prefix.parts():
                    tensor = part.layers[self.index][which]
                    rows[:, :, at : at + tensor.shape[2]] = tensor
                    at += tensor.shape[2]
                row += count
            whole[:, :, self.n_past :] = own
            return whole

    return JoinedLayer
