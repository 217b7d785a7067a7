"""What a scorer is and what it returns; nothing here needs a model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._results import Result
from phasefusion.errors import OptionError, ScoringError
from phasefusion.orders import MAX_LETTERS, validate

if TYPE_CHECKING:
    from phasefusion.scoring.generation import GeneratedAnswers
    from phasefusion.video import Clip

#: Of a pass in which every option is impossible.
NO_PROBABILITY = "no option has any probability"

Kind = Literal["letter", "text", "text-normalised"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OptionScores(Result):
    """Log-probabilities of K options under M option orders and S frame phases.

    Parameters
    ----------
    logprobs : array_like, shape (S, M, K), float64
        Natural log-probabilities in **content space**: entry ``[s, m, k]`` belongs to
        the option that was given as number ``k``, whichever letter it wore in order
        ``m``. They come from a log-softmax over the whole vocabulary, not over the
        options, so their exponentials add up to `option_mass` (except for
        ``kind="text-normalised"``, where they are means per token). An invalid pass is
        a row of NaN; an option that repeats an earlier one is ``-inf``, because its
        probability has been credited to the earlier one.
    option_mass : array_like, shape (S, M), float64
        Probability that the model gives to the options together; NaN for an invalid
        pass, or where it is not known. Far below 1 means that the model wants to say
        something else. Log-probabilities from which a prior was subtracted add up to 1
        instead.
    orders : array_like, shape (M, K), int64
        ``orders[m, pos]`` is the number of the option shown at position ``pos``.
    kind : {"letter", "text", "text-normalised"}
        What was scored: the option's letter, or the tokens of its text (summed, or
        averaged over the tokens).
    notes : tuple of str
        What a reader of the scores has to know, whichever phases and orders were asked
        for: which options were merged, which letters were taken off, which frames were
        repeated.
    pass_notes : mapping of (int, int) to str
        The same of single passes, by phase and order, such as why one is invalid. They
        are kept with the pass, so none may say where in the call it was.
    bounded : collection of (int, int)
        Passes, by phase and order, in which an option that is not known was entered
        with the most that it can have. Their probabilities may add up to more than 1;
        those of other passes of letters may not.

    Raises
    ------
    ScoringError
        If the shapes do not fit together, or `bounded` names a pass that is none.

    Examples
    --------
    >>> scores = OptionScores([[[-0.1, -3.0]]], [[0.95]], [[1, 0]], "letter")
    >>> scores.shape
    (1, 1, 2)
    >>> scores.letter_logprobs
    array([[[-3. , -0.1]]])
    """

    logprobs: NDArray[np.float64]
    option_mass: NDArray[np.float64]
    orders: NDArray[np.int64]
    kind: Kind = "letter"
    notes: tuple[str, ...] = ()
    pass_notes: Mapping[tuple[int, int], str] = field(default_factory=dict)
    bounded: Collection[tuple[int, int]] = ()

    def __post_init__(self) -> None:
        orders = validate(self.orders).copy()
        if np.iscomplexobj(self.logprobs) or np.iscomplexobj(self.option_mass):
            raise ScoringError("logprobs and option_mass must be real, not complex")
        logprobs = np.array(self.logprobs, dtype=np.float64)
        mass = np.array(self.option_mass, dtype=np.float64)
        if logprobs.ndim != 3 or logprobs.shape[1:] != orders.shape:
            raise ScoringError(
                f"logprobs has shape {logprobs.shape}; with orders of shape "
                f"{orders.shape} (M, K) it must be (S, M, K)"
            )
        if mass.shape != logprobs.shape[:2]:
            raise ScoringError(
                f"option_mass has shape {mass.shape}; it must be (S, M) = "
                f"{logprobs.shape[:2]}"
            )
        bounded = frozenset(self.bounded)
        strange = bounded - set(np.ndindex(mass.shape))
        if strange:
            raise ScoringError(
                f"bounded names the pass {min(strange)}; scores of shape {mass.shape} "
                "(S, M) have none"
            )
        object.__setattr__(self, "bounded", bounded)
        for name, value in (
            ("logprobs", logprobs),
            ("option_mass", mass),
            ("orders", orders),
        ):
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "notes", tuple(self.notes))

    @property
    def shape(self) -> tuple[int, ...]:
        """``(S, M, K)``."""
        return self.logprobs.shape

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Passes that can be used, shape (S, M): no NaN, and some option possible."""
        top = self.logprobs.max(axis=-1)  # NaN where any entry is
        return np.asarray(np.isfinite(top), dtype=np.bool_)

    @property
    def letter_logprobs(self) -> NDArray[np.float64]:
        """The log-probabilities by position in the prompt, shape (S, M, K), float64."""
        orders = np.broadcast_to(self.orders, self.logprobs.shape)
        return np.take_along_axis(self.logprobs, orders, axis=-1)

    def __array__(
        self, dtype: Any = None, copy: bool | None = None
    ) -> NDArray[np.float64]:
        if dtype is not None and np.dtype(dtype) != self.logprobs.dtype:
            if copy is False:
                raise ValueError(
                    f"a view of the float64 scores as {np.dtype(dtype)} is impossible"
                )
            return self.logprobs.astype(dtype)
        return self.logprobs.copy() if copy else self.logprobs


@dataclass(frozen=True, slots=True, eq=False)
class ScoreRequest:
    """What one call of `Scorer.score` is given.

    Parameters
    ----------
    clip : Clip
    question : str
    options : sequence of str
    orders : array_like of int, shape (M, K), optional
    """

    clip: Clip
    question: str
    options: Sequence[str]
    orders: ArrayLike | None = None


@runtime_checkable
class Scorer(Protocol):
    """Anything that can score options: one method is all it takes.

    A scorer may also have ``describe() -> dict`` with what is needed to repeat its
    scores (model, revision, prompt, versions); it is then stored with the run.

    It may have ``frame_size(height_px, width_px, n_frames)``, which returns the
    (height, width) at which it looks at the `n_frames` frames of a phase when they are
    ``height_px x width_px`` as decoded, or None for as decoded. Clips may then come at
    that size, resized by `phasefusion.resize` with its defaults, and the scorer must
    take frames of that size as they are; `Clip.info` tells the size in the file. A
    scorer without it gets frames as decoded.

    It may have ``score_many(requests)``, which takes a sequence of `ScoreRequest` and
    returns what `score` would for each; a run then gives it all that is to be scored of
    a video together.

    It may have ``forget()``, which drops what it keeps from one call to the next, such
    as features of frames. It is called before each call that repeats another one, to
    see what varies between them.

    It may have ``pinned(n_frames)``, which returns the scorer to use in its place for
    arms of at most `n_frames` frames a pass, one that looks at all of them at the same
    size. `evaluate` asks for it before anything else.

    It may have ``with_prompt(prompt)``, which returns a scorer of the same model that
    shows question and options as ``prompt.render(question, options)`` does. Harnesses
    then have it show the prompts of their own tasks; without it a scorer gets question
    and options and shows them its own way, and run.json says so.

    Notes
    -----
    A run that is continued asks only for the phases and orders that are not on disk,
    so a score must not depend on which other phases or orders are asked for in the
    same call. What differs between calls, as random noise does, has to come from the
    frames, the question, the options and the order alone. The same is true of
    ``notes`` and ``pass_notes``.

    With ``on_error="mark"``, an `OptionError`, `QuestionError` or `FrameError` is about
    the question at hand, whose passes are then missing, with what it says as the
    reason; any other error stops the run.

    Examples
    --------
    >>> class Longest:
    ...     def score(self, clip, question, options, *, orders=None):
    ...         lengths = np.array([len(text) for text in options], float)
    ...         logprobs = lengths - np.log(np.exp(lengths).sum())
    ...         return np.broadcast_to(
    ...             logprobs, (len(clip.frames), len(orders), len(options))
    ...         )
    >>> isinstance(Longest(), Scorer)
    True
    """

    def score(
        self,
        clip: Clip,
        question: str,
        options: Sequence[str],
        *,
        orders: ArrayLike | None = None,
    ) -> OptionScores | GeneratedAnswers | ArrayLike:
        """Score every option in every phase of `clip` and every option order.

        Parameters
        ----------
        clip : Clip
            S phases of b frames: ``clip.frames`` has shape (S, b, H, W, 3). In a run
            its arrays, and `orders`, are read-only: all questions of a video are shown
            the same ones. Copy what is to be changed.
        question : str
        options : sequence of str
            K option texts in the order of the question file.
        orders : array_like of int, shape (M, K), optional
            ``orders[m, pos]`` is the number of the option shown at position ``pos``.

        Returns
        -------
        scores : OptionScores, GeneratedAnswers or array_like, shape (S, M, K)
            `OptionScores`, texts that a model wrote, or natural log-probabilities
            alone: entry ``[s, m, k]`` belongs to the option that was given as number
            ``k``, wherever order ``m`` shows it. Of these alone, the option mass is the
            sum of their exponentials over the options, at most 1, and a row of NaN is
            an invalid pass. Scores of option texts, which may add up to more, are
            `OptionScores` with ``kind="text"`` or ``"text-normalised"``.
        """
        ...


def check_clip(clip: object) -> None:
    """Refuse what does not carry the frames of phases as `read_clip` gives them."""
    frames = getattr(clip, "frames", None)
    if getattr(frames, "ndim", 0) != 5 or not hasattr(clip, "missing"):
        what = f"of shape {clip.shape}" if hasattr(clip, "shape") else repr(clip)[:80]
        raise ScoringError(
            f"the clip is a {type(clip).__name__} {what}; it must be a Clip, as "
            "read_clip gives it, with frames of shape (S, b, H, W, 3)"
        )


def check_question(question: object) -> str:
    """Return the question without surrounding white space, or say what is wrong."""
    if not isinstance(question, str):
        raise OptionError(f"the question is {question!r}; it must be a str")
    text = question.strip()
    if not text:
        raise OptionError("the question is empty; there is nothing to ask")
    return text


def check_options(options: Sequence[str]) -> tuple[str, ...]:
    """Return the options without surrounding white space, or say what is wrong.

    Parameters
    ----------
    options : sequence of str
        Between 2 and 26 option texts.

    Returns
    -------
    options : tuple of str

    Raises
    ------
    OptionError
        If `options` is one string, or has fewer than two or more than 26 entries, or
        if an entry is not a string or is empty; the message gives its index.

    Examples
    --------
    >>> check_options(["a cat ", "a dog"])
    ('a cat', 'a dog')
    """
    if isinstance(options, str | bytes) or not isinstance(options, Sequence):
        raise OptionError(
            f"options is {options!r}; it must be a sequence of option texts"
        )
    if len(options) < 2:
        raise OptionError(f"{len(options)} option(s): a choice needs at least 2")
    if len(options) > MAX_LETTERS:
        raise OptionError(
            f"{len(options)} options: there can be at most {MAX_LETTERS}, one a "
            "letter, however they are scored"
        )
    texts = []
    for k, option in enumerate(options):
        if not isinstance(option, str):
            raise OptionError(f"option {k} is {option!r}; it must be a str")
        text = option.strip()
        if not text:
            raise OptionError(f"option {k} of {len(options)} is empty")
        texts.append(text)
    return tuple(texts)


def check_orders(orders: ArrayLike | None, n_options: int) -> NDArray[np.int64]:
    """Return option orders as an (M, K) array, or say which row is not an order.

    Parameters
    ----------
    orders : array_like of int, shape (K,) or (M, K), or None
        ``orders[m, pos]`` is the number of the option at position ``pos``; None is the
        order in which the options were given.
    n_options : int
        K.

    Returns
    -------
    orders : ndarray, shape (M, K), int64

    Raises
    ------
    OptionError
        If a row is not a permutation of ``range(n_options)``.

    Examples
    --------
    >>> check_orders(None, 3)
    array([[0, 1, 2]])
    """
    if orders is None:
        return np.arange(n_options, dtype=np.int64)[None, :]
    table = validate(orders)
    if table.shape[0] < 1 or table.shape[1] != n_options:
        raise OptionError(
            f"orders has shape {np.shape(orders)}; for {n_options} options it must be "
            f"(M, {n_options}) with M >= 1"
        )
    return table
