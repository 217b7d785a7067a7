"""What decoding and scoring cost, fitted from the times in a run's records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion._results import Result
from phasefusion.capacity.videos import VideoFacts
from phasefusion.errors import RecordError
from phasefusion.records import iter_passes, read_run


@dataclass(frozen=True, slots=True)
class ArmLoad:
    """What one arm asks of a scorer for every question.

    Attributes
    ----------
    phases, frames : int
        S passes of b frames an order.
    """

    phases: int
    frames: int


@dataclass(frozen=True, slots=True)
class CostModel(Result):
    """Seconds that videos and questions take on one worker.

    A video costs ``open + decode * N * P + frame * W * P`` for its N frames of P
    megapixels, of which W are wanted. A call for an arm, S phases of b frames in M
    orders, costs ``call + S * prefix(b) + S * M * suffix(b)``, where the prefix is what
    all orders share (encoding the frames, and the visual part of the prompt); where
    questions of a video are scored in one call, M is the sum of their orders. Both are
    ``fixed + linear * b + square * b**2``: attention is quadratic in visual tokens,
    which are proportional to frames as long as all are of one size. Without prefix
    reuse the prefix costs nothing and every pass bears it.

    Attributes
    ----------
    open_s, decode_s, frame_s : float
        By video; by megapixel decoded; by megapixel kept.
    call_s : float
        By call.
    prefix_fixed_s, prefix_linear_s, prefix_square_s : float
    suffix_fixed_s, suffix_linear_s, suffix_square_s : float
    startup_s : float
        Of a worker, before it can score; records do not tell it.
    takes_many : bool
        Whether questions of a video share calls.
    error : float
        Root mean square of the relative errors over the kinds of calls that the
        fit has seen; NaN when it is not fitted, or has as many costs as it has seen
        kinds of calls, which any fit meets.
    n_calls : int
        Calls that it is fitted to.
    """

    open_s: float = 0.0
    decode_s: float = 0.0
    frame_s: float = 0.0
    call_s: float = 0.0
    prefix_fixed_s: float = 0.0
    prefix_linear_s: float = 0.0
    prefix_square_s: float = 0.0
    suffix_fixed_s: float = 0.0
    suffix_linear_s: float = 0.0
    suffix_square_s: float = 0.0
    startup_s: float = 0.0
    takes_many: bool = False
    error: float = math.nan
    n_calls: int = 0

    def video_s(self, video: VideoFacts, n_wanted: int) -> float:
        """Seconds to decode a video of which so many different frames are wanted."""
        wanted = min(n_wanted, video.n_frames)
        pixels = self.decode_s * video.n_frames + self.frame_s * wanted
        return self.open_s + pixels * video.megapixels

    def prefix_s(self, arm: ArmLoad) -> float:
        """Seconds of a call that do not depend on how many orders it has."""
        return self.call_s + arm.phases * (
            self.prefix_fixed_s
            + self.prefix_linear_s * arm.frames
            + self.prefix_square_s * arm.frames**2
        )

    def orders_s(self, arm: ArmLoad, n_orders: int) -> float:
        """Seconds of an arm that grow with its orders."""
        each = (
            self.suffix_fixed_s
            + self.suffix_linear_s * arm.frames
            + self.suffix_square_s * arm.frames**2
        )
        return arm.phases * n_orders * each

    def question_s(self, arms: Iterable[ArmLoad], n_orders: int) -> float:
        """Seconds of all arms of a question in calls of its own."""
        return sum(self.prefix_s(arm) + self.orders_s(arm, n_orders) for arm in arms)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        error = None if math.isnan(self.error) else self.error
        return asdict(self) | {"error": error}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CostModel:
        """Return the model of `to_dict`.

        Examples
        --------
        >>> model = CostModel(open_s=0.5, error=0.1)
        >>> CostModel.from_dict(model.to_dict()) == model
        True
        """
        known = {field.name for field in fields(cls)}
        made = {name: value for name, value in values.items() if name in known}
        if made.get("error", 0.0) is None:
            made["error"] = math.nan
        return cls(**made)


@dataclass(slots=True)
class _Call:
    """What is recorded of one arm of one question, or of several in one call."""

    questions: set[tuple[str, str]]
    phases: set[int]
    orders: set[tuple[Any, ...]]
    frames: int
    seconds: float


@dataclass(slots=True)
class _Decode:
    """What is recorded of one video."""

    n_frames: int
    wanted: set[int]
    seconds: float


def fit(
    run: Any,
    *,
    videos: Mapping[tuple[str, str], VideoFacts] | None = None,
    startup_s: float = 0.0,
) -> CostModel:
    """Fit the costs to the times that a run recorded.

    Non-negative least squares of relative errors over the mean time of every kind of
    call, a kind being its phases, frames and orders.

    Parameters
    ----------
    run : Run, str or Path
        A run folder of `evaluate`, as long as possible.
    videos : mapping, optional
        Facts by benchmark and video id; without them all frames count as one megapixel,
        which is right as long as all videos are of one size.
    startup_s : float, default 0.0
        Passed on.

    Returns
    -------
    CostModel

    Raises
    ------
    FileNotFoundError
        If there is no run.
    RecordError
        If it has no times.

    Notes
    -----
    What orders share and what each costs can be told apart only where arms, or
    questions, have different numbers of orders, as questions of two and of five options
    have. A run in one order says nothing about ten.

    Questions of a video that were scored in one call have the same seconds, to the last
    digit, in all their passes, and count as one call with the orders of all of them.
    """
    calls, decodes = _collect(run)
    if not calls:
        raise RecordError(f"{run}: no pass has its seconds recorded; nothing to fit")
    reuse = read_run(run)["settings"].get("scorer", {}).get("reuse_prefix", True)
    found, error = _fit_calls(calls, bool(reuse))
    found = _fit_decodes(decodes, videos or {}) + found
    names = [field.name for field in fields(CostModel)]
    values = dict(zip(names, found, strict=False))
    many = any(len(call.questions) > 1 for call in calls)
    return CostModel(
        **values,
        startup_s=startup_s,
        takes_many=many,
        error=error,
        n_calls=len(calls),
    )


def _collect(run: str | Path) -> tuple[list[_Call], dict[tuple[str, str], _Decode]]:
    """Add up the times of every call, and of every video."""
    calls: dict[tuple[Any, ...], _Call] = {}
    decodes: dict[tuple[str, str], _Decode] = {}
    for row in iter_passes(run):
        video = row["benchmark"], row["video_id"]
        seconds = row.get("seconds")
        if seconds is not None and row["budget"] is not None:
            arm = (row["arm"], bool(row.get("shifted")), row["budget"])
            key = (*video, *arm, seconds)
            call = calls.setdefault(key, _Call(set(), set(), set(), row["budget"], 0.0))
            question = (row["benchmark"], row["question_id"])
            call.questions.add(question)
            call.phases.add(row["phase_index"])
            call.orders.add((question, *row["order"]))
            call.seconds += seconds
        spent = row.get("decode_seconds")
        if spent is not None and row.get("frame_indices") is not None:
            decode = decodes.setdefault(video, _Decode(row["n_frames"], set(), 0.0))
            decode.wanted.update(row["frame_indices"])
            decode.seconds += spent
    return list(calls.values()), decodes


def _fit_calls(calls: Sequence[_Call], reuse: bool) -> tuple[list[float], float]:
    """Return the costs of calls, prefixes and suffixes, and the error of the fit."""
    kinds: dict[tuple[int, int, int], list[float]] = {}
    for call in calls:
        kind = (len(call.phases), call.frames, len(call.orders))
        kinds.setdefault(kind, []).append(call.seconds)
    s, b, m = np.array(list(kinds), np.float64).T
    suffix = np.stack([s * m, s * m * b, s * m * b**2], axis=1)
    columns = [np.ones((len(s), 1)), suffix]
    if reuse:
        columns.insert(1, np.stack([s, s * b, s * b**2], axis=1))
    seconds = np.array([np.mean(values) for values in kinds.values()])
    counts = np.array([len(values) for values in kinds.values()])
    found, error = _relative_fit(np.concatenate(columns, axis=1), seconds, counts)
    if len(kinds) <= np.count_nonzero(found):
        error = math.nan
    costs = [float(value) for value in found]
    return costs[:1] + [0.0] * (7 - len(costs)) + costs[1:], error


def _fit_decodes(
    decodes: Mapping[tuple[str, str], _Decode],
    videos: Mapping[tuple[str, str], VideoFacts],
) -> list[float]:
    """Return the costs of opening, decoding and keeping."""
    if not decodes:
        return [0.0, 0.0, 0.0]
    rows = []
    for name, decode in decodes.items():
        megapixels = videos[name].megapixels if name in videos else 1.0
        rows.append(
            [1.0, decode.n_frames * megapixels, len(decode.wanted) * megapixels]
        )
    seconds = np.array([decode.seconds for decode in decodes.values()])
    found, _ = _relative_fit(np.array(rows), seconds, np.ones(len(rows)))
    return [float(value) for value in found]


def _relative_fit(
    table: NDArray[np.float64], seconds: NDArray[np.float64], counts: NDArray[Any]
) -> tuple[NDArray[np.float64], float]:
    """Fit seconds as a non-negative mix of columns; errors count by their ratio.

    The fit is then scaled so that all seconds together come out right: it is sums that
    are predicted.
    """
    from scipy.optimize import nnls

    scale = np.sqrt(counts) / np.maximum(seconds, 1e-9)
    norms = np.maximum(np.abs(table).max(axis=0), 1e-300)
    found, _ = nnls(table / norms * scale[:, None], seconds * scale)
    found = found / norms
    made = table @ found
    total = float(made @ counts)
    if total > 0:
        found *= float(seconds @ counts) / total
        made = table @ found
    errors = made / np.maximum(seconds, 1e-9) - 1
    return found, float(np.sqrt(np.average(errors**2, weights=counts)))
