"""Forward passes: one visual prefix for all rows that share it, or one row at a time.

The rows of one phase differ in the order of their options and agree in everything
before: chat header, video, question. That common part, nearly all of the work, is run
once; its keys and values are repeated over the rows, and each row runs its own tail.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    rows : ndarray, shape (t * gh * gw, values a patch), float32
    grid_thw : (int, int, int)
        Patches over time, down and across, before merging.
    second_per_grid : float
        Seconds between temporal patches.
    """

    rows: NDArray[np.float32]
    grid_thw: tuple[int, int, int]
    second_per_grid: float


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
    """Runs rows through a Qwen-VL model and reads log-probabilities.

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
        self.video_token_id = int(model.config.video_token_id)
        self.pad_id = pad_id
        self.batch_size = batch_size
        self.reuse_prefix = reuse_prefix
        self._warned = False
        # Names move between transformers versions: mm_token_type_ids came with 5,
        # past_key_values is becoming cache.
        self._accepts = frozenset(inspect.signature(model.forward).parameters)
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
        problem = self._shared_part_problem(rows[0].ids, n_prefix)
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
        start = self._next_position(head, inputs)
        scores: list[RowScores] = []
        n_left = len(rows)
        for chunk in _chunks(rows, self.batch_size or len(rows)):
            n_left -= len(chunk)
            shared = _clone(cache) if n_left else cache
            scores += self._tails(chunk, n_prefix, shared, start)
        return scores

    def _tails(
        self, chunk: Sequence[Row], n_prefix: int, cache: Any, start: int
    ) -> list[RowScores]:
        import torch

        cache.batch_repeat_interleave(len(chunk))
        ids, mask = self._padded([row.ids[n_prefix:] for row in chunk])
        seen = mask.new_ones((len(chunk), n_prefix))
        positions = torch.arange(start, start + ids.shape[1], device=ids.device)
        keep = _union([row.at for row in chunk])
        out = self.model(
            input_ids=ids,
            attention_mask=torch.cat([seen, mask], dim=1),
            position_ids=positions.expand(3, len(chunk), -1),
            use_cache=True,
            **{self._cache_name: cache},
            **self._keep(keep - n_prefix),
        )
        return self._read(out.logits, keep, chunk, offset=n_prefix)

    def _shared_part_problem(self, ids: NDArray[np.int64], n_prefix: int) -> str:
        last_video = int(np.flatnonzero(ids == self.video_token_id)[-1])
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

    def _next_position(self, head: torch.Tensor, visual: dict[str, Any]) -> int:
        """Return the position of the first text token after a shared prefix.

        Read off the last prefix token. The model's own `rope_deltas` counts from the
        highest position instead, which in a long video belongs to a frame.
        """
        index = self.model.model.get_rope_index
        known = inspect.signature(index).parameters
        inputs = {name: value for name, value in visual.items() if name in known}
        positions, _ = index(input_ids=head, **inputs)
        return int(positions[0, 0, -1]) + 1

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
        import torch

        n = len(ids)
        pixels = torch.from_numpy(visual.rows).to(ids.device)
        inputs: dict[str, Any] = {
            "pixel_values_videos": pixels.repeat(n, 1),
            "video_grid_thw": torch.tensor([visual.grid_thw] * n, device=ids.device),
        }
        if "mm_token_type_ids" in self._accepts:
            # Left out, the model places the video's tokens as if they were text, and
            # says nothing.
            kinds = 2 * (ids == self.video_token_id).int()
            inputs["mm_token_type_ids"] = kinds
        if "second_per_grid_ts" in self._accepts:
            inputs["second_per_grid_ts"] = torch.tensor(
                [visual.second_per_grid] * n, device=ids.device
            )
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
