"""Forward passes: one visual prefix for all rows that share it, or one row at a time.

The rows of one phase differ in the order of their options and agree in everything
before: chat header, video, question. That common part, nearly all of the work, is run
once; its keys and values are repeated over the rows, and each row runs its own tail.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phasefusion._checks import warn
from phasefusion.errors import FallbackWarning, ScoringError

if TYPE_CHECKING:
    import torch


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
class RowScores:
    """Log-probabilities, shape (q, r) float64, NaN with a reason when invalid."""

    logprobs: NDArray[np.float64]
    problem: str = ""


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
    """

    arrays: Mapping[str, NDArray[Any]]
    token_id: int
    kinds: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


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


class ForwardPasses:
    """Runs rows through a model and reads log-probabilities.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        In evaluation mode, on its device.
    pad_id : int
        A token id to fill short rows with; masked, so any id will do.
    batch_size : int, optional
        Most rows in one pass. Default: all rows that share a prefix at once, and one
        row at a time where nothing is shared.
    reuse_prefix : bool, default True
        Run the common prefix once where the model's cache allows it.
    """

    def __init__(
        self,
        model: Any,
        *,
        pad_id: int,
        batch_size: int | None = None,
        reuse_prefix: bool = True,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise ScoringError(f"batch_size is {batch_size}; it must be at least 1")
        self.model = model
        self.pad_id = pad_id
        self.batch_size = batch_size
        self.reuse_prefix = reuse_prefix
        self._warned = False
        # Names move between transformers versions: mm_token_type_ids came with 5,
        # past_key_values is becoming cache.
        self._accepts = forward_parameters(model)
        self._cache_name = "cache" if "cache" in self._accepts else "past_key_values"

    def run(self, rows: Sequence[Row], visual: VisualInputs) -> list[RowScores]:
        """Return the scores of every row, in order."""
        import torch

        with torch.inference_mode():
            if self.reuse_prefix and len(rows) > 1:
                scores = self._reused(rows, visual)
                if scores is not None:
                    return scores
            return self._plain(rows, visual)

    def _plain(self, rows: Sequence[Row], visual: VisualInputs) -> list[RowScores]:
        scores: list[RowScores] = []
        for chunk in _chunks(rows, self.batch_size or 1):
            ids, mask = self._padded([row.ids for row in chunk])
            keep = _union([row.at for row in chunk])
            out = self.model(
                input_ids=ids,
                attention_mask=mask,
                use_cache=False,
                **self._visual(ids, visual),
                **self._keep(keep),
            )
            scores += self._read(out.logits, keep, chunk)
        return scores

    def _reused(
        self, rows: Sequence[Row], visual: VisualInputs
    ) -> list[RowScores] | None:
        n_prefix = common_prefix(rows)
        problem = self._shared_part_problem(rows[0].ids, n_prefix, visual.token_id)
        if problem:
            self._warn_once(problem)
            return None
        head, _ = self._padded([rows[0].ids[:n_prefix]])
        inputs = self._visual(head, visual)
        out = self.model(
            input_ids=head,
            attention_mask=head.new_ones(head.shape),
            use_cache=True,
            **inputs,
            **self._keep(np.array([n_prefix - 1])),
        )
        cache = out[self._cache_name]
        problem = _cache_problem(cache)
        if problem:
            self._warn_once(problem)
            return None
        start, n_axes = self._next_position(head, inputs)
        scores: list[RowScores] = []
        n_left = len(rows)
        for chunk in _chunks(rows, self.batch_size or len(rows)):
            n_left -= len(chunk)
            shared = _clone(cache) if n_left else cache
            scores += self._tails(chunk, n_prefix, shared, (start, n_axes))
        return scores

    def _tails(
        self,
        chunk: Sequence[Row],
        n_prefix: int,
        cache: Any,
        position: tuple[int, int],
    ) -> list[RowScores]:
        import torch

        cache.batch_repeat_interleave(len(chunk))
        ids, mask = self._padded([row.ids[n_prefix:] for row in chunk])
        seen = mask.new_ones((len(chunk), n_prefix))
        start, n_axes = position
        positions = torch.arange(start, start + ids.shape[1], device=ids.device)
        shape = (n_axes, len(chunk), -1) if n_axes > 1 else (len(chunk), -1)
        keep = _union([row.at for row in chunk])
        out = self.model(
            input_ids=ids,
            attention_mask=torch.cat([seen, mask], dim=1),
            position_ids=positions.expand(shape),
            use_cache=True,
            **{self._cache_name: cache},
            **self._keep(keep - n_prefix),
        )
        return self._read(out.logits, keep, chunk, offset=n_prefix)

    def _shared_part_problem(
        self, ids: NDArray[np.int64], n_prefix: int, token_id: int
    ) -> str:
        last_video = int(np.flatnonzero(ids == token_id)[-1])
        if n_prefix < last_video + 2:  # a text token after the video tells positions
            return "the prompts differ before the end of the video"
        layers = getattr(self.model.config.get_text_config(), "layer_types", None) or ()
        other = sorted(set(layers) - {"full_attention"})
        if other:
            return f"the model has {', '.join(other)} layers"
        return ""

    def _warn_once(self, problem: str) -> None:
        if not self._warned:
            self._warned = True
            warn(
                f"the visual prefix cannot be reused ({problem}); every row is run in "
                "full, which is slower and gives the same scores",
                FallbackWarning,
            )

    def _next_position(
        self, head: torch.Tensor, visual: dict[str, Any]
    ) -> tuple[int, int]:
        """Return the position of the first text token after a shared prefix.

        And the number of axes that positions have. Where frames have positions of
        their own, it is read off the last prefix token. The model's own `rope_deltas`
        counts from the highest position instead, which in a long video belongs to a
        frame.
        """
        index = getattr(getattr(self.model, "model", None), "get_rope_index", None)
        if index is None:
            return head.shape[1], 1
        known = inspect.signature(index).parameters
        inputs = {name: value for name, value in visual.items() if name in known}
        positions, _ = index(input_ids=head, **inputs)
        return int(positions[0, 0, -1]) + 1, len(positions)

    def _padded(
        self, sequences: Sequence[NDArray[np.int64]]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        width = max(len(ids) for ids in sequences)
        table = np.full((len(sequences), width), self.pad_id, dtype=np.int64)
        mask = np.zeros((len(sequences), width), dtype=np.int64)
        for i, ids in enumerate(sequences):
            table[i, : len(ids)] = ids
            mask[i, : len(ids)] = 1
        device = self.model.get_input_embeddings().weight.device
        return torch.from_numpy(table).to(device), torch.from_numpy(mask).to(device)

    def _visual(self, ids: torch.Tensor, visual: VisualInputs) -> dict[str, Any]:
        """Return what the model takes beside the ids, for as many rows.

        Of numbers a token, those that this version of the model does not take are left
        out: it places the frames by the ids alone. Left out where they are taken, the
        frames would be placed as if they were text, and nothing said.
        """
        import torch

        inputs: dict[str, Any] = {}
        for name, values in visual.arrays.items():
            array = np.concatenate([values] * len(ids)) if len(ids) > 1 else values
            inputs[name] = torch.from_numpy(np.ascontiguousarray(array)).to(ids.device)
        for name, numbers in visual.kinds.items():
            if name in self._accepts:
                inputs[name] = torch.zeros_like(ids, dtype=torch.int32)
                for token, number in numbers.items():
                    inputs[name][ids == token] = number
        return inputs

    def _keep(self, positions: NDArray[np.int64]) -> dict[str, Any]:
        import torch

        if "logits_to_keep" not in self._accepts:
            return {}
        device = self.model.get_input_embeddings().weight.device
        return {"logits_to_keep": torch.from_numpy(positions).to(device)}

    def _read(
        self,
        logits: torch.Tensor,
        keep: NDArray[np.int64],
        chunk: Sequence[Row],
        *,
        offset: int = 0,
    ) -> list[RowScores]:
        """Log-softmax over the whole vocabulary, in float32 at least."""
        import torch

        precise = torch.promote_types(logits.dtype, torch.float32)
        selected = "logits_to_keep" in self._accepts
        scores = []
        for i, row in enumerate(chunk):
            index = np.searchsorted(keep, row.at) if selected else row.at - offset
            where = torch.from_numpy(index).to(logits.device)
            values = logits[i, where].to(precise)
            total = torch.logsumexp(values, dim=-1, keepdim=True)
            tokens = torch.from_numpy(row.tokens).to(logits.device)
            logprobs = values.gather(-1, tokens) - total
            problem = _logits_problem(total.flatten().tolist())
            result = logprobs.cpu().double().numpy()
            if problem:
                result = np.full_like(result, np.nan)
            scores.append(RowScores(result, problem))
        return scores


def _chunks(rows: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _union(positions: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.unique(np.concatenate(positions))


def _clone(cache: Any) -> Any:
    """Copy a cache far enough that repeating the copy leaves the original alone.

    Growing a layer binds new tensors to it and writes into none, so the layers are
    copied and the tensors, which hold the whole visual prefix, are shared.
    """
    if not isinstance(getattr(cache, "layers", None), list):
        return copy.deepcopy(cache)
    twin = copy.copy(cache)
    twin.layers = [copy.copy(layer) for layer in cache.layers]
    return twin


def _cache_problem(cache: Any) -> str:
    if not hasattr(cache, "batch_repeat_interleave"):
        return f"a {type(cache).__name__} cannot be repeated over rows"
    layers = getattr(cache, "layers", None) or ()
    other = {type(layer).__name__ for layer in layers} - {"DynamicLayer"}
    if other:
        return f"the cache holds {', '.join(sorted(other))}"
    return ""


def _logits_problem(totals: Sequence[float]) -> str:
    for total in totals:
        if np.isnan(total):
            return "the logits hold NaN"
        if total == np.inf:
            return "the logits hold +inf"
        if total == -np.inf:
            return "all logits are -inf"
    return ""
