"""Which frames an answer rests on: what each adds to the log-posterior of an option."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._results import Result
from phasefusion.errors import OptionError, ScoringError
from phasefusion.scoring.gathering import decoded
from phasefusion.scoring.gradients import Gradient, shared_frames, slope
from phasefusion.scoring.letters import clean_options
from phasefusion.scoring.protocol import OptionScores, check_clip, check_orders
from phasefusion.scoring.sweeps import MOST_BYTES
from phasefusion.scoring.variants import subtract_prior

if TYPE_CHECKING:
    from phasefusion.scoring.families import Shown
    from phasefusion.scoring.huggingface import HFOptionScorer
    from phasefusion.video import Clip

Method: TypeAlias = Literal["occlusion", "gradient"]
Replace: TypeAlias = Literal["neighbour", "mean"]
METHODS = ("occlusion", "gradient")
REPLACES = ("neighbour", "mean")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Saliency(Result):
    """What each frame adds to the log-posterior of an option, or to log-odds.

    Attributes
    ----------
    values : ndarray, shape (S, b), float64
        In nats; above 0 a frame speaks for the option. NaN where a phase has none.
    base : ndarray, shape (S,), float64
        What is explained: the log-posterior of the option among the options, or its
        log-odds against another, with all frames as they are.
    emptied : ndarray, shape (S,), float64
        The same with every frame replaced by their mean colour; NaN for others.
    options, against : ndarray, shape (S,), int64
        Content index of the option, and of the other one; -1 where there is none.
    frame_indices : ndarray, shape (S, b), int64
    order : ndarray, shape (K,), int64
        In which options were shown.
    method : {"occlusion", "gradient"}
    replace : {"neighbour", "mean"} or None
        What stood in the place of a frame; None for gradients.
    shared_frames : int
        So many frames in succession share the model's visual tokens.
    notes : tuple of str
        By phase, why it has no values or what is odd about it; "" for nothing.
    """

    values: NDArray[np.float64]
    base: NDArray[np.float64]
    emptied: NDArray[np.float64]
    options: NDArray[np.int64]
    against: NDArray[np.int64]
    frame_indices: NDArray[np.int64]
    order: NDArray[np.int64]
    method: Method
    replace: Replace | None
    shared_frames: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FlipSaliency(Result):
    """Which frames make two phases answer differently.

    Attributes
    ----------
    values : ndarray, shape (2, b), float64
        In nats. What the i-th frame of the first phase instead of that of the second
        adds to the log-odds of the first answer against the second, in the first phase
        and in the second. Each row adds up to `difference` as far as frames act on
        their own.
    log_odds : ndarray, shape (2,), float64
        Of the first answer against the second, in each phase.
    phases, options : ndarray, shape (2,), int64
        The phases, and their answers.
    frame_indices : ndarray, shape (2, b), int64
    order : ndarray, shape (K,), int64
    method : {"occlusion", "gradient"}
    shared_frames : int
    notes : tuple of str
        By phase.
    """

    values: NDArray[np.float64]
    log_odds: NDArray[np.float64]
    phases: NDArray[np.int64]
    options: NDArray[np.int64]
    frame_indices: NDArray[np.int64]
    order: NDArray[np.int64]
    method: Method
    shared_frames: int
    notes: tuple[str, ...]

    @property
    def difference(self) -> float:
        """Log-odds of the first phase minus those of the second, in nats."""
        return float(self.log_odds[0] - self.log_odds[1])


def saliency(
    scorer: HFOptionScorer,
    clip: Clip,
    question: str,
    options: Sequence[str],
    *,
    order: ArrayLike | None = None,
    option: int | Sequence[int] | None = None,
    against: int | Sequence[int] | None = None,
    method: Method = "occlusion",
    replace: Replace = "neighbour",
) -> Saliency:
    """Say what each frame adds to the log-posterior of an option.

    Parameters
    ----------
    scorer : HFOptionScorer
    clip : Clip
        S phases of b frames.
    question, options
        As in `HFOptionScorer.score`.
    order : array_like of int, shape (K,), optional
        In which the options are shown; by default as given.
    option : int or sequence of S int, optional
        Whose posterior is explained, of all phases or each; by default the answer of
        each phase.
    against : int or sequence of S int, optional
        Explain the log-odds of `option` against this one instead.
    method : {"occlusion", "gradient"}, default "occlusion"
        "occlusion" replaces one frame at a time, and takes the loss of log-posterior.
        "gradient" takes the gradient times the normalised pixels, summed over a frame:
        what it adds, to the first order, over a frame of the colour that the model
        takes for 0.
    replace : {"neighbour", "mean"}, default "neighbour"
        What occlusion puts in the place of a frame. "neighbour" is the frame before it,
        as if that had been held (the one after it for the first), so that the model
        sees nothing that no video has; a frame counts for what it alone shows. "mean"
        is the mean colour of the phase, which takes away all that a frame shows, and
        has something of a fade that the model may never have seen.

    Returns
    -------
    Saliency
        A phase with a missing frame, or whose scores are not finite, has NaN and a
        note. So has a frame without which scores are not finite.

    Raises
    ------
    OptionError
        For options or orders that cannot be scored, or an `option` that is none.
    ScoringError
        If one frame is to be replaced by its neighbour; for gradients, if the model is
        neither float32 nor float64 or its pixels cannot be told apart by frame.

    Notes
    -----
    Everything else in the prompt stays, the times of frames too. Occlusion makes b + 1
    passes a phase, two more for "mean"; its values are exact up to the rounding of
    passes (1e-5 for a float32 model), and no sum of them is anything in particular:
    what two frames show alike, neither has on its own. Qwen-VL models merge each two
    frames into the same visual tokens (`Saliency.shared_frames`); both methods still
    tell the two apart, since they act on pixels, but what is merged is also one frame
    against the other.

    References
    ----------
    .. [1] Zeiler and Fergus, "Visualizing and understanding convolutional networks",
       ECCV 2014 (occlusion).
    .. [2] Shrikumar, Greenside and Kundaje, "Learning important features through
       propagating activation differences", ICML 2017 (gradient x input).
    """
    _check("method", method, METHODS)
    _check("replace", replace, REPLACES)
    n_phases, n_frames = clip.indices.shape
    if method == "occlusion" and replace == "neighbour" and n_frames < 2:
        raise ScoringError(
            "a phase of one frame has no neighbour to stand in its place; give "
            'replace="mean"'
        )
    explained = _Explained(scorer, clip, question, options, order)
    chosen = explained.numbers("option", option)
    others = explained.numbers("against", against)
    made = []
    for s in range(n_phases):
        wanted = int(chosen[s]), int(others[s])
        if method == "occlusion":
            made.append(explained.occluded(s, *wanted, replace))
        else:
            made.append(explained.sloped(s, *wanted))
    values = np.stack([one.values for one in made])
    values[~np.isfinite(values)] = np.nan
    return Saliency(
        values,
        np.array([one.base for one in made]),
        np.array([one.emptied for one in made]),
        np.array([one.option for one in made], np.int64),
        others,
        clip.indices.copy(),
        explained.order,
        method,
        replace if method == "occlusion" else None,
        shared_frames(scorer._family),
        tuple(one.note for one in made),
    )


def flip_saliency(
    scorer: HFOptionScorer,
    clip: Clip,
    question: str,
    options: Sequence[str],
    *,
    phases: Sequence[int] | None = None,
    answers: Sequence[int] | None = None,
    order: ArrayLike | None = None,
    method: Method = "occlusion",
) -> FlipSaliency:
    """Say which frames make two phases answer differently.

    What is explained is the difference between the phases in the log-odds of the first
    phase's answer against the second's. The i-th frame of one phase is put in the place
    of the i-th of the other, which shows nearly the same moment: so that frames which
    the phases agree about count nothing, and all of them together are the flip.

    Parameters
    ----------
    scorer, clip, question, options, order
        As in `saliency`.
    phases : (int, int), optional
        By default the first phase and the first one that answers differently.
    answers : (int, int), optional
        Content indices of their answers; by default the most probable options.
    method : {"occlusion", "gradient"}, default "occlusion"
        "occlusion" exchanges one frame at a time. "gradient" is its first order: the
        gradient times the difference of the normalised pixels.

    Returns
    -------
    FlipSaliency

    Raises
    ------
    OptionError, ScoringError
        As `saliency`; and ScoringError if the phases do not answer differently.

    Notes
    -----
    Times in the prompt are those of the phase that a frame is put into.
    """
    _check("method", method, METHODS)
    explained = _Explained(scorer, clip, question, options, order)
    pair, chosen = explained.flip(phases, answers)
    frames = [clip.frames[s] for s in pair]
    n_frames = len(frames[0])
    values, log_odds = np.full((2, n_frames), np.nan), np.full(2, np.nan)
    notes = [decoded(clip, s)[1] for s in pair]
    slopes = []
    for i, s in enumerate(pair):
        if not decoded(clip, s)[0]:
            continue
        if method == "gradient":
            slopes.append(explained.gradient(s, *chosen))
            log_odds[i] = slopes[-1].value
            notes[i] = _joined(notes[i], slopes[-1].problem)
            continue
        mixed = _exchanged(frames[i], frames[1 - i])
        logp, told = explained.logprobs(s, mixed)
        target = logp[:, chosen[0]] - logp[:, chosen[1]]
        log_odds[i] = target[0]
        values[i] = (target[0] - target[1:]) * (1 - 2 * i)
        notes[i] = _joined(notes[i], *told)
    if len(slopes) == 2:
        change = slopes[0].pixels - slopes[1].pixels
        values = np.stack([one.by_frame(change, n_frames) for one in slopes])
    values[~np.isfinite(values)] = np.nan
    return FlipSaliency(
        values,
        log_odds,
        np.array(pair, np.int64),
        np.array(chosen, np.int64),
        clip.indices[list(pair)],
        explained.order,
        method,
        shared_frames(scorer._family),
        tuple(notes),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """What is found of one phase."""

    values: NDArray[np.float64]
    base: float
    emptied: float
    option: int
    note: str


class _Explained:
    """A question about a clip, in one order of its options, as a scorer asks it."""

    def __init__(
        self,
        scorer: HFOptionScorer,
        clip: Clip,
        question: str,
        options: Sequence[str],
        order: ArrayLike | None,
    ) -> None:
        check_clip(clip)
        clean = clean_options(options)
        orders = check_orders(order, len(clean.texts))
        if len(orders) != 1:
            raise OptionError(
                f"order has shape {orders.shape}; one order of the options is "
                f"explained at a time, shape ({len(clean.texts)},)"
            )
        self.scorer, self.clip = scorer, clip
        self.order = orders[0].copy()
        self.asked = scorer._asker.ask(question, clean, orders, clip.frames.shape[1])
        self.prior: OptionScores | None = None
        if scorer._prior is not None:
            blind = scorer.variant("blind")
            self.prior = blind.score(None, question, options, orders=orders)

    def numbers(
        self, name: str, given: int | Sequence[int] | None
    ) -> NDArray[np.int64]:
        """Return an option of each phase; -1 for none."""
        first, n_phases = self.asked.clean.first, len(self.clip.frames)
        if given is None:
            return np.full(n_phases, -1, np.int64)
        numbers = np.asarray(given)
        is_whole = numbers.dtype.kind in "iu" and numbers.shape in ((), (n_phases,))
        if not is_whole or ((numbers < 0) | (numbers >= len(first))).any():
            raise OptionError(
                f"{name} is {given!r}; it must be the number of an option, 0 to "
                f"{len(first) - 1}, or one for each of the {n_phases} phases"
            )
        return np.broadcast_to(np.asarray(first, np.int64)[numbers], n_phases).copy()

    def occluded(self, s: int, option: int, against: int, replace: Replace) -> _Row:
        """Replace the frames of a phase one at a time."""
        is_sound, note = decoded(self.clip, s)
        frames = self.clip.frames[s]
        nothing = np.full(len(frames), np.nan)
        if not is_sound:
            return _Row(nothing, np.nan, np.nan, option, note)
        mixed = _held(frames) if replace == "neighbour" else _faded(frames)
        logp, told = self.logprobs(s, mixed)
        note = _joined(note, *told)
        option = _answer(logp[0]) if option < 0 else option
        if option < 0:
            return _Row(nothing, np.nan, np.nan, option, note)
        target = logp[:, option] - (logp[:, against] if against >= 0 else 0.0)
        emptied = np.nan if replace == "neighbour" else float(target[-1])
        values = target[0] - target[1 : len(frames) + 1]
        return _Row(values, float(target[0]), emptied, option, note)

    def sloped(self, s: int, option: int, against: int) -> _Row:
        """Take the gradient of a phase times its pixels."""
        is_sound, note = decoded(self.clip, s)
        nothing = np.full(self.clip.indices.shape[1], np.nan)
        if is_sound and option < 0:
            logp, told = self.logprobs(s, [self.clip.frames[s]])
            option, note = _answer(logp[0]), _joined(note, *told)
        if not is_sound or option < 0:
            return _Row(nothing, np.nan, np.nan, option, note)
        made = self.gradient(s, option, against)
        values = made.by_frame(made.pixels, len(nothing))
        return _Row(values, made.value, np.nan, option, _joined(note, made.problem))

    def flip(
        self, phases: Sequence[int] | None, answers: Sequence[int] | None
    ) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return two phases and their answers, which differ."""
        n_phases = len(self.clip.frames)
        among = range(n_phases) if phases is None else phases
        if phases is not None and (
            len(phases) != 2 or not all(0 <= s < n_phases for s in phases)
        ):
            raise ScoringError(
                f"phases is {phases!r}; it must be two of 0 to {n_phases - 1}"
            )
        if answers is None:
            found = {s: self._answer_of(s) for s in among}
        elif phases is None or len(answers) != 2:
            raise ScoringError("give two answers, and the two phases that gave them")
        else:
            found = {
                s: int(self.numbers("answers", k)[0])
                for s, k in zip(phases, answers, strict=True)
            }
        known = [(s, answer) for s, answer in found.items() if answer >= 0]
        for s, answer in known[1:]:
            if answer != known[0][1]:
                return (known[0][0], s), (known[0][1], answer)
        raise ScoringError(
            f"no two phases answer differently (answers by phase: {found}); there is "
            "no flip to explain"
        )

    def _answer_of(self, s: int) -> int:
        if not decoded(self.clip, s)[0]:
            return -1
        return _answer(self.logprobs(s, [self.clip.frames[s]])[0][0])

    def logprobs(
        self, s: int, many: Iterable[NDArray[Any]]
    ) -> tuple[NDArray[np.float64], list[str]]:
        """Return log-posteriors (V, K) of versions of a phase, and what is wrong.

        A version that cannot be scored is NaN.
        """
        asker = self.scorer._asker
        rows: list[NDArray[np.float64]] = []
        wrong: list[str] = []
        for shown in self._shown(s, many):
            sound = [one for one in shown if not one.problem]
            wrong += [one.problem for one in shown if one.problem]
            jobs = [(asker.rows(self.asked, one), one.inputs) for one in sound]
            found = iter(self.scorer._passes.run_many(jobs))
            for one in shown:
                if one.problem:
                    rows.append(np.full(len(self.order), np.nan))
                    continue
                scores = next(found)
                logp, mass = asker.gather(self.asked, scores)
                wrong += asker.problems(self.asked, scores, logp).values()
                rows.append(self._posterior(logp, mass))
        return np.stack(rows), wrong

    def _shown(self, s: int, many: Iterable[NDArray[Any]]) -> Iterator[list[Shown]]:
        """Prepare versions of a phase, as many together as memory allows."""
        waiting: list[Shown] = []
        n_bytes = 0
        for frames in many:
            shown = self.scorer._shown(self.clip, s, self.asked, frames)
            waiting.append(shown)
            n_bytes += sum(array.nbytes for array in shown.inputs.arrays.values())
            if n_bytes > MOST_BYTES:
                yield waiting
                waiting, n_bytes = [], 0
        if waiting:
            yield waiting

    def _posterior(
        self, logp: NDArray[np.float64], mass: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Normalise log-probabilities (1, K) over the options."""
        if self.prior is not None:
            scores = OptionScores(logp[None], mass[None], self.asked.orders)
            logp = subtract_prior(scores, self.prior).logprobs[0]
        top = logp[0].max()
        if not np.isfinite(top):
            return np.full(len(self.order), np.nan)
        shifted = logp[0] - top
        return np.asarray(shifted - np.log(np.exp(shifted).sum()))

    def gradient(self, s: int, option: int, against: int) -> Gradient:
        """Return the gradient of a phase that has all frames."""
        clip, asked = self.clip, self.asked
        shown = self.scorer._shown(clip, s, asked)
        prior = None if self.prior is None else self.prior.logprobs[0, 0]
        return slope(
            self.scorer, asked, shown, clip.frames.shape[1], option, against, prior
        )


def _held(frames: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield frames as they are, then with one after the other that before it held."""
    yield frames
    for i in range(len(frames)):
        mixed = frames.copy()
        mixed[i] = frames[i - 1] if i else frames[1]
        yield mixed


def _faded(frames: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield frames, then with one after the other in their mean colour, then all."""
    yield frames
    is_bytes = frames.dtype == np.uint8
    axes = (0, 1, 2) if is_bytes else (0, 2, 3)
    colour = frames.mean(axis=axes, keepdims=True, dtype=np.float64)[0]
    colour = (np.rint(colour) if is_bytes else colour).astype(frames.dtype)
    for i in range(len(frames)):
        mixed = frames.copy()
        mixed[i] = colour
        yield mixed
    yield np.broadcast_to(colour, frames.shape).copy()


def _exchanged(frames: NDArray[Any], others: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield frames, then with one after the other from another phase."""
    yield frames
    for i in range(len(frames)):
        mixed = frames.copy()
        mixed[i] = others[i]
        yield mixed


def _answer(logp: NDArray[np.float64]) -> int:
    """Return the most probable option; -1 where there is none."""
    return -1 if np.isnan(logp).any() else int(logp.argmax())


def _joined(*notes: str) -> str:
    return "; ".join(dict.fromkeys(note for note in notes if note))


def _check(name: str, value: object, allowed: Sequence[object]) -> None:
    if value not in allowed:
        raise ScoringError(f"{name} is {value!r}; it must be one of {list(allowed)}")
