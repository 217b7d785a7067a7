"""What a protocol costs in attention."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from phasefusion.errors import StatisticsError
from phasefusion.stats._answers import integers


def attention_units(
    n_phases: ArrayLike,
    budget: ArrayLike,
    *,
    tokens_per_frame: int | None = None,
    text_tokens: int | None = None,
) -> Any:
    """Self-attention of S passes of b frames each, a square a pass.

    Parameters
    ----------
    n_phases, budget : int or array_like of int
        S and b, >= 1; they broadcast. For a union pass use S = 1 and b = S*b.
    tokens_per_frame, text_tokens : int, optional
        t and L. Without them the unit is one frame squared, visual prefix only:
        ``S * b**2``. With them it is one token squared: ``S * (b*t + L)**2``; text
        counts only beside frames in tokens, so L needs t.

    Returns
    -------
    int or ndarray of int64

    Raises
    ------
    StatisticsError
        If a number is out of range, or too large for 64 bits.

    Examples
    --------
    >>> attention_units(3, 8), attention_units(1, 32)
    (192, 1024)
    """
    passes, frames = integers(n_phases, "n_phases"), integers(budget, "budget")
    for name, values in (("n_phases", passes), ("budget", frames)):
        if values.size and values.min() < 1:
            raise StatisticsError(f"{name} must be >= 1, it is {int(values.min())}")
    if tokens_per_frame is None and text_tokens is not None:
        raise StatisticsError("text_tokens needs tokens_per_frame")
    per_frame = 1 if tokens_per_frame is None else int(tokens_per_frame)
    text = 0 if text_tokens is None else int(text_tokens)
    if per_frame < 1 or text < 0:
        raise StatisticsError(
            f"tokens_per_frame must be >= 1 and text_tokens >= 0, they are {per_frame} "
            f"and {text}"
        )
    units = passes.astype(object) * (frames.astype(object) * per_frame + text) ** 2
    if np.ndim(units) == 0:
        return int(units)
    try:
        return np.array(units, dtype=np.int64)
    except OverflowError as error:
        raise StatisticsError("attention units do not fit 64 bits") from error


def attention_ratio(
    n_phases: int,
    budget: int,
    reference_budget: int,
    *,
    tokens_per_frame: int | None = None,
    text_tokens: int | None = None,
) -> float:
    """Attention of S passes of b frames, as a share of one pass of B frames.

    Parameters
    ----------
    n_phases, budget, reference_budget : int
        S, b and B, >= 1.
    tokens_per_frame, text_tokens
        As in `attention_units`.

    Returns
    -------
    float
        1/S for B = S*b without text.

    Raises
    ------
    StatisticsError
        As `attention_units`.

    Examples
    --------
    >>> attention_ratio(3, 8, 32)
    0.1875
    """
    tokens: dict[str, Any] = {
        "tokens_per_frame": tokens_per_frame,
        "text_tokens": text_tokens,
    }
    ours = int(attention_units(n_phases, budget, **tokens))
    return ours / int(attention_units(1, reference_budget, **tokens))
