"""How the log-posterior of an option changes with the pixels, frame by frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from phasefusion.errors import ScoringError
from phasefusion.pixels import PatchSettings
from phasefusion.scoring.batching import is_out_of_memory, release

if TYPE_CHECKING:
    import torch

    from phasefusion.scoring.families import Family, Shown
    from phasefusion.scoring.huggingface import HFOptionScorer
    from phasefusion.scoring.questions import Asked, Asker
    from phasefusion.scoring.rows import Row, VisualInputs

_PIXELS = ("pixel_values_videos", "pixel_values")


@dataclass(frozen=True, slots=True, eq=False)
class Gradient:
    """The gradient of a log-posterior, or of log-odds, by normalised pixels.

    Attributes
    ----------
    value : float
        What it is the gradient of; NaN where there is none.
    gradient, pixels : ndarray, float64
        Of one shape, that which the model takes.
    n_blocks, depth : int
        Temporal patches and frames in each; (b, 1) where frames are planes.
    problem : str
        Why there is none.
    """

    value: float
    gradient: NDArray[np.float64]
    pixels: NDArray[np.float64]
    n_blocks: int
    depth: int
    problem: str = ""

    def by_frame(
        self, change: NDArray[np.float64], n_frames: int
    ) -> NDArray[np.float64]:
        """Return what a change of the pixels does, to the first order, by frame.

        The last frame stands for those that repeat it to fill a temporal patch.
        """
        effect = self.gradient * change
        if self.depth > 1:  # values of a row: channel, frame, line, column
            side = effect.shape[-1] // (3 * self.depth)
            effect = effect.reshape(self.n_blocks, -1, 3, self.depth, side)
            effect = effect.sum(axis=(1, 2, 4))
        each = effect.reshape(self.n_blocks * self.depth, -1).sum(axis=1)
        each[n_frames - 1] += each[n_frames:].sum()
        return np.asarray(each[:n_frames])


def shared_frames(family: Family) -> int:
    """Return how many frames in succession a model merges into the same tokens."""
    pixels = family.pixels
    return pixels.temporal_frames if isinstance(pixels, PatchSettings) else 1


def slope(
    scorer: HFOptionScorer,
    asked: Asked,
    shown: Shown,
    n_frames: int,
    option: int,
    against: int,
    prior: NDArray[np.float64] | None,
) -> Gradient:
    """Return the gradient for one phase of a question in one order.

    Parameters
    ----------
    scorer : HFOptionScorer
    asked : Asked
    shown : Shown
        The frames of the phase.
    n_frames : int
        Of the phase.
    option, against : int
        Content indices; `against` is -1 for the log-posterior of `option` alone.
    prior : ndarray, shape (K,), optional
        Log-probabilities to subtract.

    Raises
    ------
    ScoringError
        If the model is neither float32 nor float64, or its pixels cannot be told apart
        by frame.
    """
    import torch

    model, passes, asker = scorer._model, scorer._passes, scorer._asker
    if model.dtype not in (torch.float32, torch.float64):
        raise ScoringError(
            f"the model is {str(model.dtype).removeprefix('torch.')}, in which a "
            'gradient is mostly rounding; load it with dtype="float32", or take '
            'method="occlusion"'
        )
    name, n_blocks, depth = _layout(scorer._family, shown.inputs, n_frames)
    pixels = np.asarray(shown.inputs.arrays[name], dtype=np.float64)
    none = Gradient(np.nan, np.full_like(pixels, np.nan), pixels, n_blocks, depth)
    rows = asker.rows(asked, shown)
    problem = shown.problem or next(filter(None, map(passes._length_problem, rows)), "")
    if problem:
        return _without(none, problem)
    model.eval()
    try:
        with torch.inference_mode(False), torch.enable_grad():
            leaf = passes._visuals(_ids(scorer, rows[0]), [shown.inputs])[name]
            leaf = leaf.detach().clone().requires_grad_()
            parts = [_row_logprobs(scorer, row, shown, {name: leaf}) for row in rows]
            posterior = _log_posterior(asker, asked, parts, prior)
            found = posterior[option]
            if against >= 0:
                found = found - posterior[against]
            (gradient,) = torch.autograd.grad(found, leaf)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        release(passes.device)
        return _without(none, "the model ran out of memory in a pass with gradients")
    value = float(found.detach())
    by_pixel = gradient.cpu().double().numpy()
    if not (np.isfinite(value) and np.isfinite(by_pixel).all()):
        return _without(none, "the logits or their gradient are not finite")
    return Gradient(value, by_pixel, pixels, n_blocks, depth)


def _without(none: Gradient, problem: str) -> Gradient:
    return Gradient(
        none.value, none.gradient, none.pixels, none.n_blocks, none.depth, problem
    )


def _layout(
    family: Family, visual: VisualInputs, n_frames: int
) -> tuple[str, int, int]:
    """Return the name of the pixels, and how they are cut along time."""
    name = next((name for name in _PIXELS if name in visual.arrays), "")
    shape = visual.arrays[name].shape if name else ()
    if len(shape) == 2 and isinstance(family.pixels, PatchSettings):
        depth = family.pixels.temporal_frames
        return name, -(-n_frames // depth), depth
    lead = shape[0] * shape[1] if len(shape) == 5 else shape[0] if shape else 0
    if len(shape) in (4, 5) and lead == n_frames:
        return name, n_frames, 1
    raise ScoringError(
        f"the {family.name} model takes frames as {name or 'no pixels'} of shape "
        f"{tuple(shape)}, in which they cannot be told apart; take "
        'method="occlusion"'
    )


def _ids(scorer: HFOptionScorer, row: Row) -> torch.Tensor:
    return scorer._passes._padded([row.ids])[0]


def _row_logprobs(
    scorer: HFOptionScorer, row: Row, shown: Shown, pixels: dict[str, torch.Tensor]
) -> torch.Tensor:
    """Run one row in full; its log-probabilities (q, r), with their graph."""
    import torch

    passes = scorer._passes
    ids, mask = passes._padded([row.ids])
    inputs = passes._visuals(ids, [shown.inputs]) | pixels
    inputs |= {"input_ids": ids, "attention_mask": mask, "use_cache": False}
    logits = passes._pass(inputs, [row.at])[1]
    values = logits.to(torch.promote_types(logits.dtype, torch.float32))
    wanted = torch.from_numpy(row.tokens).to(values.device)
    return values.gather(-1, wanted) - torch.logsumexp(values, dim=-1, keepdim=True)


def _log_posterior(
    asker: Asker,
    asked: Asked,
    parts: Sequence[torch.Tensor],
    prior: NDArray[np.float64] | None,
) -> torch.Tensor:
    """Put rows together as `Asker.gather` does, normalised over the options, (K,)."""
    import torch

    first, n_options = asked.clean.first, len(asked.clean.first)
    distinct = list(asked.clean.distinct)
    if asker.score == "letter":
        by_letter = torch.logsumexp(parts[0].reshape(-1, n_options), dim=0)
        places = np.argsort(asked.orders[0])
        same = [
            [int(places[j]) for j in range(n_options) if first[j] == k]
            for k in distinct
        ]
        logp = torch.stack([torch.logsumexp(by_letter[at], dim=0) for at in same])
    elif asker.score == "text-normalised":
        logp = torch.stack([part.mean() for part in parts])
    else:
        logp = torch.stack([part.sum() for part in parts])
    if prior is not None:
        logp = logp - torch.from_numpy(prior[distinct]).to(logp)
    whole = logp.new_full((n_options,), -torch.inf)
    return whole.index_copy(
        0, torch.tensor(distinct, device=logp.device), logp - torch.logsumexp(logp, 0)
    )
