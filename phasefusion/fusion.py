"""Option posteriors, and their pool over phases: the answer that no phase decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion import _core
from phasefusion._arrays import as_array
from phasefusion._checks import warn
from phasefusion._fused import FusedPosterior, Missing, Pool, WeightedPosterior
from phasefusion._probabilities import TAKE_THE_LOG, are_probabilities
from phasefusion._random import MAX_OPTIONS, check_ids, tie_priority
from phasefusion._ties import RowNumbers, TieSeeds, pool_rows
from phasefusion.errors import OptionWarning, PhaseFusionWarning, PosteriorError
from phasefusion.orders import to_content, validate

__all__ = [
    "FusedPosterior",
    "WeightedPosterior",
    "fuse",
    "fuse_items",
    "margin",
    "position_weighted",
    "posterior",
    "tie_priority",
]

Over: TypeAlias = Literal["phase"] | tuple[Literal["phase"], Literal["order"]]

_POOLS = ("linear", "loglinear")
_MISSING = ("complete", "available")
_SCALARS = ("answer", "margin", "tied", "n_valid")
_BY_ITEM = (*_SCALARS, "posterior", "phase_answers", "phase_margins", "valid")
_ANY_DIMS = tuple(range(1, 65))  # NumPy has no more
_INVALID = ("", "NaN", "+inf", "no finite log-probability")


def _choice(value: str, names: tuple[str, ...], argument: str) -> int:
    if value not in names:
        raise PosteriorError(f"{argument} must be one of {names}, it is {value!r}")
    return names.index(value)


def _logp(values: ArrayLike, n_dims: tuple[int, ...], shapes: str) -> Any:
    given = as_array(values, "logp", PosteriorError, np.nan)
    try:
        if given.dtype.kind == "c":
            raise TypeError("they are complex")
        array = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise PosteriorError(
            f"logp must be numbers of shape {shapes}: {error}"
        ) from error
    if array.ndim not in n_dims:
        raise PosteriorError(
            f"logp must have shape {shapes}, its shape is {array.shape}"
        )
    if not 1 <= array.shape[-1] <= MAX_OPTIONS:
        raise PosteriorError(
            f"logp must have 1 to {MAX_OPTIONS} options, it has {array.shape[-1]}"
        )
    return array


def _warn_of_probabilities(
    array: NDArray[np.float64], n_options: NDArray[np.int64] | None
) -> None:
    """Say it where every pass lies in [0, 1] and adds up to 1: logarithms do not."""
    if are_probabilities(array, n_options):
        warn(
            f"every row of logp lies in [0, 1] and adds up to 1: {TAKE_THE_LOG}, or a "
            "softmax is taken of probabilities",
            OptionWarning,
        )


def _options(
    n_options: ArrayLike | None, shape: tuple[int, ...], width: int
) -> NDArray[np.int64] | None:
    """Options of each item, checked against the padded width; None for all of it."""
    if n_options is None:
        return None
    given = as_array(n_options, "n_options", PosteriorError)
    if given.dtype.kind not in "iu" or given.shape not in ((), shape):
        raise PosteriorError(
            f"n_options must be an int or integers of shape {shape}, it is "
            f"{given.dtype} of shape {given.shape}"
        )
    if given.size and not (1 <= given.min() and given.max() <= width):
        raise PosteriorError(
            f"n_options must be in 1..{width}, they reach from {given.min()} to "
            f"{given.max()}"
        )
    return np.array(np.broadcast_to(given, shape), dtype=np.int64)


def _over(over: object) -> bool:
    """Whether orders are pooled too."""
    if over == "phase":
        return False
    if isinstance(over, tuple | list) and sorted(over) == ["order", "phase"]:
        return True
    raise PosteriorError(f"over must be 'phase' or ('phase', 'order'), it is {over!r}")


def _phase_order(phases: Sequence[Any] | None, n_phases: int) -> NDArray[np.int64]:
    """Rows sorted by phase, so that sums do not depend on the order they came in."""
    if phases is None:
        return np.arange(n_phases)
    if len(phases) != n_phases:
        raise PosteriorError(
            f"{len(phases)} phases were named for {n_phases} rows of logp"
        )
    labels = list(phases)
    return np.array(sorted(range(n_phases), key=lambda s: labels[s]), dtype=np.int64)


def fuse_items(
    logp: ArrayLike,
    *,
    n_options: ArrayLike | None = None,
    over: Over = "phase",
    pool: Pool = "linear",
    missing: Missing = "complete",
    strict: bool = False,
    phases: Sequence[Any] | None = None,
    item_ids: Sequence[str] | None = None,
    seed: int = 0,
    passes: bool = True,
) -> FusedPosterior:
    """Pool the posteriors of many items at once; see `fuse` for one.

    Parameters
    ----------
    logp : array_like, shape (n, S, K) or (n, S, M, K), float
        Log-probabilities in content space, natural log; S phases, M orders.
    n_options : int or array_like of int, shape (n,), optional
        Options of each item, K by default. What lies beyond is padding: it is never
        looked at, gets no mass and wins no tie.
    over, pool, missing, strict, phases, seed
        As in `fuse`.
    item_ids : sequence of str, length n, optional
        For the tie priority; the row number by default. Give ids wherever the same
        items are pooled twice, or ties will look like changed answers.
    passes : bool, default True
        Whether to say also what each pass says alone. Without, `phase_answers` and
        `phase_margins` have shape (n, 0) and the call takes about half as long.

    Returns
    -------
    FusedPosterior
        With an axis of items in front of every array.

    Raises
    ------
    PosteriorError
        As `fuse`.

    Examples
    --------
    >>> fused = fuse_items([[[0.0, 1.0]], [[2.0, 0.0]]], item_ids=["a", "b"])
    >>> fused.answer
    array([1, 0])
    """
    array = _logp(logp, (3, 4), "(n, S, K) or (n, S, M, K)")
    ids = RowNumbers(len(array)) if item_ids is None else check_ids(item_ids)
    if len(ids) != len(array):
        raise PosteriorError(f"{len(ids)} item ids were given for {len(array)} items")
    kept = _options(n_options, array.shape[:1], array.shape[-1])
    _warn_of_probabilities(array, kept)
    rules = _Rules(over, pool, missing, strict, phases, seed, passes)
    return _fuse(array, kept, ids, True, rules)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The options that `fuse` and `fuse_items` share."""

    over: Over
    pool: Pool
    missing: Missing
    strict: bool
    phases: Sequence[Any] | None
    seed: int
    passes: bool = True


def _fuse(
    array: NDArray[np.float64],
    n_options: NDArray[np.int64] | None,
    ids: Sequence[str],
    named: bool,
    rules: _Rules,
) -> FusedPosterior:
    """Pool (n, S, K) or (n, S, M, K); the kernel sees one row of passes a posterior."""
    codes = (
        _choice(rules.pool, _POOLS, "pool"),
        _choice(rules.missing, _MISSING, "missing"),
        rules.passes,
    )
    pool_orders = _over(rules.over)
    if 0 in array.shape[1:]:
        raise PosteriorError(f"logp has no pass, its shape is {array.shape}")
    order = _phase_order(rules.phases, array.shape[1])
    moved = bool((order[1:] < order[:-1]).any())
    grid = array[:, order] if moved else array
    if array.ndim == 3:
        grid = grid[:, :, None]
    if not pool_orders:
        grid = np.moveaxis(grid, 2, 1)[:, :, :, None]  # an order is an item of its own
    else:
        grid = grid[:, None]
    n, n_rows, n_first, n_second, width = grid.shape
    results = pool_rows(
        np.ascontiguousarray(grid).reshape(n * n_rows, n_first * n_second, width),
        n_options,
        TieSeeds(ids, rules.seed, n_rows),
        codes,
    )

    def of_passes(values: NDArray[Any]) -> NDArray[Any]:
        """Back to (n, S) or (n, S, M), phases in the order in which they came."""
        if not rules.passes and values.size == 0:
            return values.reshape(n, 0)
        cube = values.reshape(n, n_rows, n_first, n_second)
        cube = cube[:, 0] if pool_orders else np.moveaxis(cube[..., 0], 1, 2)
        if moved:
            unsorted = np.empty_like(cube)
            unsorted[:, order] = cube
            cube = unsorted
        return cube.reshape(array.shape[:-1])

    posteriors, margins, answers, n_tied, n_valid = results[:5]
    phase_answers, phase_margins, states = (of_passes(values) for values in results[5:])
    reasons = _reasons(states, ids, named)
    if rules.strict:
        _refuse(reasons)
    if rules.pool == "loglinear":
        needed = n_first * n_second if rules.missing == "complete" else 1
        vetoed = np.flatnonzero((n_valid >= needed) & (answers < 0))
        reasons += _vetoes(vetoed // n_rows, ids, named)
    shape = (n, n_rows) if array.ndim == 4 and not pool_orders else (n,)
    return FusedPosterior(
        posterior=posteriors.reshape(*shape, width),
        answer=answers.reshape(shape),
        margin=margins.reshape(shape),
        tied=n_tied.reshape(shape) > 1,
        n_valid=n_valid.reshape(shape),
        phase_answers=phase_answers,
        phase_margins=phase_margins,
        valid=states == 0,
        reasons=reasons,
        pool=rules.pool,
        missing=rules.missing,
    )


def _reasons(
    state: NDArray[np.uint8], ids: Sequence[str], named: bool
) -> tuple[str, ...]:
    """One line for every invalid pass: where it is and what is wrong with it."""
    lines = []
    for index in np.argwhere(state != 0) if state.any() else ():
        where = f"item {ids[index[0]]!r}, " if named else ""
        where += f"phase {index[1]}"
        if len(index) == 3:
            where += f", order {index[2]}"
        lines.append(f"{where}: {_INVALID[state[tuple(index)]]}")
    return tuple(lines)


def _refuse(reasons: Sequence[str]) -> None:
    if reasons:
        raise PosteriorError(
            f"{len(reasons)} invalid passes, the first: {reasons[0]}; strict=False "
            "counts them as missing"
        )


def _vetoes(
    items: NDArray[np.intp], ids: Sequence[str], named: bool
) -> tuple[str, ...]:
    """One line for every posterior of the loglinear pool that has no option left."""
    wheres = (f"item {ids[item]!r}: " if named else "" for item in items)
    return tuple(f"{where}every option is vetoed by a -inf" for where in wheres)


def fuse(
    logp: ArrayLike,
    *,
    over: Over = "phase",
    pool: Pool = "linear",
    missing: Missing = "complete",
    strict: bool = False,
    phases: Sequence[Any] | None = None,
    n_options: int | None = None,
    item_id: str = "",
    seed: int = 0,
) -> FusedPosterior:
    """Average the option posteriors of one item over its phases.

    Every phase enters the same way, so the answer does not depend on which of the S
    grids an evaluator would have used [1]_.

    Parameters
    ----------
    logp : array_like, shape (S, K) or (S, M, K), float
        Log-probabilities (or logits) in *content* space, natural log: S phases, M
        option orders, K options. `OptionScores` is accepted as it is.
    over : 'phase' or ('phase', 'order'), default 'phase'
        With 'phase' every order is pooled on its own: shape (M, K). With both, all S*M
        passes are pooled: shape (K,). A repeated order then counts as often as it was
        run.
    pool : {'linear', 'loglinear'}, default 'linear'
        Arithmetic mean of the posteriors, or geometric mean renormalised. In the latter
        an option with -inf in a single pass is out.
    missing : {'complete', 'available'}, default 'complete'
        A pass with NaN, +inf or no finite value is missing. 'complete' then gives no
        answer; 'available' pools the other passes, and phases no longer enter
        symmetrically.
    strict : bool, default False
        Raise at the first invalid pass instead.
    phases : sequence, length S, optional
        Sortable names of the rows (fractions, indices). Posteriors are summed in sorted
        order, so that the same passes in another order give the same bits.
    n_options : int, optional
        Options of the item where logp is padded to a greater K.
    item_id : str, default ''
        Names the item in messages and seeds its tie priority: see `stats.tie_priority`.
        Give the same id in every arm.
    seed : int, default 0
        The run's seed, for ties.

    Returns
    -------
    FusedPosterior

    Raises
    ------
    PosteriorError
        If the shape or an option is wrong; with strict, at an invalid pass (the message
        names phase, order and what was found).

    Warns
    -----
    OptionWarning
        If every pass lies in [0, 1] and adds up to 1: probabilities, not their logs.

    References
    ----------
    .. [1] Zhu et al., "Stable Scores, Unstable Answers", arXiv:2610.08649, section 3.2.

    Examples
    --------
    >>> fused = fuse([[0.0, 1.0, -1.0], [0.5, 0.4, 0.0], [2.0, 0.0, 0.1]])
    >>> fused.answer
    0
    >>> fused.posterior.round(3)
    array([0.474, 0.377, 0.149])
    >>> fused.phase_answers
    array([1, 0, 0])
    """
    array = _logp(logp, (2, 3), "(S, K) or (S, M, K)")
    if n_options is not None and np.ndim(n_options) != 0:
        raise PosteriorError(f"n_options of one item is an int, it is {n_options!r}")
    kept = _options(n_options, (1,), array.shape[-1])
    _warn_of_probabilities(array[None], kept)
    rules = _Rules(over, pool, missing, strict, phases, seed)
    fused = _fuse(array[None], kept, [item_id], item_id != "", rules)
    results = {name: getattr(fused, name)[0] for name in _BY_ITEM}
    if results["answer"].ndim == 0:
        results |= {name: results[name].item() for name in _SCALARS}
    return replace(fused, **results)


def _single_passes(
    logp: ArrayLike, n_options: ArrayLike | None, strict: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64], tuple[int, ...]]:
    """Posterior (rows, K) and margin (rows,) of every pass; the shape of the rows."""
    array = _logp(logp, _ANY_DIMS, "(..., K)")
    shape, width = array.shape[:-1], array.shape[-1]
    kept = _options(n_options, shape, width)
    _warn_of_probabilities(array, kept)
    rows = np.ascontiguousarray(array).reshape(-1, 1, width)
    no_seeds = np.zeros(len(rows), np.uint64)
    own = None if kept is None else kept.ravel()
    results = _core.fuse(rows, own, no_seeds, 0, 0, False)
    state = results[7][:, 0]
    if strict and state.any():
        row = int(np.flatnonzero(state)[0])
        where = [int(i) for i in np.unravel_index(row, shape)] if shape else []
        raise PosteriorError(
            f"{int((state > 0).sum())} invalid passes, the first: logp{where or ''} "
            f"has {_INVALID[state[row]]}; strict=False gives NaN for them"
        )
    return results[0], results[1], shape


def posterior(
    logp: ArrayLike, *, n_options: ArrayLike | None = None, strict: bool = False
) -> NDArray[np.float64]:
    """Softmax over the options of every pass.

    Parameters
    ----------
    logp : array_like, shape (..., K), float
        Log-probabilities or logits, natural log. -inf is legal: no mass.
    n_options : int or array_like of int, shape (...), optional
        Options of each pass where logp is padded.
    strict : bool, default False
        Raise at an invalid pass (NaN, +inf, no finite value) instead of giving NaN.

    Returns
    -------
    ndarray, shape (..., K), float64
        Sums to 1 over K; NaN for an invalid pass, never uniform.

    Raises
    ------
    PosteriorError
        If the shape is wrong; with strict, at an invalid pass.

    Warns
    -----
    OptionWarning
        If every pass lies in [0, 1] and adds up to 1: probabilities, not their logs.

    Examples
    --------
    >>> posterior([1000.0, 1001.0, 999.0]).round(4)
    array([0.2447, 0.6652, 0.09  ])
    """
    posteriors, _, shape = _single_passes(logp, n_options, strict)
    return posteriors.reshape(*shape, posteriors.shape[-1])


def margin(
    logp: ArrayLike, *, n_options: ArrayLike | None = None, strict: bool = False
) -> NDArray[np.float64]:
    """Answer margin of single passes: log of best over second best option.

    Parameters
    ----------
    logp, n_options, strict
        As in `posterior`. The softmax's normaliser cancels, so logits do as well.

    Returns
    -------
    ndarray, shape (...), float64
        Nats; 0 in a tie, inf where one option has all the mass, NaN for an invalid
        pass.

    Raises
    ------
    PosteriorError
        As `posterior`.

    Examples
    --------
    >>> margin([[0.0, 1.75, -3.0], [2.0, 2.0, 0.0]])
    array([1.75, 0.  ])
    """
    _, margins, shape = _single_passes(logp, n_options, strict)
    return margins.reshape(shape)


def position_weighted(
    letter_logits: ArrayLike,
    orders: ArrayLike,
    *,
    alpha: float = 0.85,
    mode: Literal["centered", "raw", "logprob"] = "centered",
    item_id: str = "",
    seed: int = 0,
) -> WeightedPosterior:
    """Ensemble over orders in which early letters weigh more.

    ``total[c] = sum_v alpha**position_v(c) * z_v[c]``; the posterior is
    ``softmax(total)``. With alpha = 1 the answer is that of the loglinear pool,
    ``softmax(total / V)``. Weight 1 on the first letter keeps a bias towards it;
    balanced orders are what cancels it.

    Parameters
    ----------
    letter_logits : array_like, shape (V, K), finite float
        Scores by letter of V views of one item.
    orders : array_like, shape (V, K), int
        ``orders[v, position] = content``.
    alpha : float, default 0.85
        In (0, 1].
    mode : {'centered', 'raw', 'logprob'}, default 'centered'
        What z is: the logits minus their mean in the view, the logits themselves, or
        log-softmax over the options. 'raw' depends on a constant that a view's logits
        have no meaning for, 'logprob' favours late letters because its numbers are
        negative.
    item_id : str, default ''
        Seeds the tie priority.
    seed : int, default 0
        The run's seed, for ties.

    Returns
    -------
    WeightedPosterior
        .total (K,), .posterior (K,), .answer (content index), .margin (nats).

    Raises
    ------
    PosteriorError
        If the shape, alpha or the mode is wrong, or a logit is not finite.
    OptionError
        If a row of orders is no permutation.

    Warns
    -----
    PhaseFusionWarning
        For 'raw' with alpha < 1.

    Examples
    --------
    >>> position_weighted([[2.0, 1.0], [0.5, 1.5]], [[0, 1], [1, 0]]).answer
    0
    """
    given = as_array(letter_logits, "letter_logits", PosteriorError)
    scores = np.asarray(given, dtype=np.float64)
    checked = validate(orders)
    if scores.shape != checked.shape:
        raise PosteriorError(
            f"letter_logits of shape {scores.shape} do not match orders of shape "
            f"{checked.shape}"
        )
    if not np.isfinite(scores).all():
        raise PosteriorError(
            "letter_logits must be finite; a weight times -inf is a veto"
        )
    if not 0.0 < alpha <= 1.0:
        raise PosteriorError(f"alpha must be in (0, 1], it is {alpha}")
    _choice(mode, ("centered", "raw", "logprob"), "mode")
    if mode == "centered":
        scores = scores - scores.mean(axis=1, keepdims=True)
    elif mode == "logprob":
        top = scores.max(axis=1, keepdims=True)
        scores = scores - top - np.log(np.exp(scores - top).sum(1, keepdims=True))
    elif alpha < 1.0:
        warn(
            "raw logits: a constant added to one view changes the weighted answer; "
            "mode='centered' does not depend on it",
            PhaseFusionWarning,
        )
    weighted = scores * alpha ** np.arange(scores.shape[1])
    total = to_content(weighted, checked).sum(axis=0)
    fused = fuse(total[None], item_id=item_id, seed=seed)
    return WeightedPosterior(total, fused.posterior, fused.answer, fused.margin)
