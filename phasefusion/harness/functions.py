"""Any function of frames, question and options as a scorer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._code_hash import code_hash
from phasefusion._probabilities import TAKE_THE_LOG, are_probabilities, excess
from phasefusion.errors import ScoringError
from phasefusion.scoring.gathering import Gathered
from phasefusion.scoring.generation import GeneratedAnswers
from phasefusion.scoring.letters import LETTERS, clean_options
from phasefusion.scoring.protocol import (
    NO_PROBABILITY,
    OptionScores,
    check_clip,
    check_orders,
    check_question,
)

if TYPE_CHECKING:
    from phasefusion.video import Clip

__all__ = ["FunctionScorer", "Returns", "wrap"]

#: What a wrapped function returns, in the order in which it was shown the options.
Returns: TypeAlias = Literal["logprobs", "probabilities", "logits", "answer"]
ScoreFunction: TypeAlias = Callable[..., Any]

_RETURNS = ("logprobs", "probabilities", "logits", "answer")


class FunctionScorer:
    """A scorer that calls a function once a phase and option order; see `wrap`.

    Parameters
    ----------
    function : callable
        ``function(frames, question, options)``.
    returns : {"logprobs", "probabilities", "logits", "answer"}
    name : str, optional
        Of the model in reports; the function's own name by default.
    content : str, optional
        What changes whenever the function's results do.

    Raises
    ------
    ScoringError
        If `function` cannot be called so, or `returns` is none of these.
    """

    def __init__(
        self,
        function: ScoreFunction,
        *,
        returns: Returns = "logprobs",
        name: str | None = None,
        content: str | None = None,
    ) -> None:
        _check_returns(returns)
        if not callable(function):
            raise ScoringError(
                f"wrap needs a function of (frames, question, options), not "
                f"{function!r}"
            )
        self._function = function
        self._returns: Returns = returns
        self._takes_times = _takes_times(function)
        own = getattr(function, "__qualname__", type(function).__qualname__)
        module = getattr(function, "__module__", type(function).__module__)
        self._name = name or f"{module}.{own}"
        self._content = content

    def score(
        self,
        clip: Clip,
        question: str,
        options: Sequence[str],
        *,
        orders: ArrayLike | None = None,
    ) -> OptionScores | GeneratedAnswers:
        """Call the function for every phase and order; see `Scorer.score`.

        With ``returns="answer"`` that gives texts, for an answer has no posterior.

        Raises
        ------
        OptionError
            For options or orders that cannot be scored.
        ScoringError
            If what the function returns is not what `returns` says; the message shows
            it.
        """
        check_clip(clip)
        text = check_question(question)
        clean = clean_options(options)
        table = check_orders(orders, len(clean.texts))
        made = Gathered.begin(clip, table)
        made.notes += clean.notes
        if self.is_generating:
            return self._answers(made, clip, text, clean.texts)
        for s in made.phases(clip):
            for m, order in enumerate(table):
                shown = [clean.texts[k] for k in order]
                said = self._call(clip, s, text, shown)
                made.enter_shown(s, m, *self._read(said, shown))
        return made.scores(clean.first)

    @property
    def is_generating(self) -> bool:
        """Whether the function answers, so that there are no posteriors to fuse."""
        return self._returns == "answer"

    def _call(self, clip: Clip, s: int, question: str, shown: list[str]) -> object:
        times = {"times_s": clip.times_s[s]} if self._takes_times else {}
        said: object = self._function(clip.frames[s], question, shown, **times)
        return said

    def _answers(
        self, made: Gathered, clip: Clip, question: str, options: Sequence[str]
    ) -> GeneratedAnswers:
        """Call the function for texts; a phase with a missing frame has none."""
        texts: list[list[str | None]] = [[None] * len(made.orders) for _ in made.mass]
        places = {}
        for s in made.phases(clip):
            for m, order in enumerate(made.orders):
                shown = [options[k] for k in order]
                said = self._call(clip, s, question, shown)
                texts[s][m], place = _answer(self._name, said, len(shown))
                if place is not None:
                    places[s, m] = place
        return GeneratedAnswers(texts, tuple(made.notes), made.pass_notes, places)

    def _read(
        self, said: object, shown: Sequence[str]
    ) -> tuple[NDArray[np.float64], float, str]:
        """Log-probabilities as shown, option mass (NaN: not known), and a problem."""
        values = self._numbers(said, len(shown))
        if np.isnan(values).any():
            return np.full(len(shown), np.nan), np.nan, f"{self._name} returned NaN"
        if self._returns == "logits":
            return self._logits(values)
        if self._returns == "probabilities":
            if (values < 0).any():
                raise self._unusable(said, "probabilities must be >= 0")
            with np.errstate(divide="ignore"):
                values = np.log(values)
        most = excess(values)
        if most is not None:  # +inf too
            raise self._unusable(
                said,
                f"the probabilities of the options add up to {most:.6g}, more than 1; "
                + (
                    f'{TAKE_THE_LOG}, or say returns="probabilities"'
                    if self._returns == "logprobs" and are_probabilities(values[None])
                    else 'for unnormalised scores say returns="logits"'
                ),
            )
        mass = min(float(np.exp(values).sum()), 1.0)
        return np.minimum(values, 0.0), mass, ""

    def _logits(
        self, values: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float, str]:
        """Normalise over the options; what else the model could say is not known."""
        top = values.max()
        if not np.isfinite(top):
            kept = np.where(values == top, top, -np.inf)
            return kept, np.nan, "a logit is +inf" if top > 0 else NO_PROBABILITY
        shifted = values - top
        return shifted - np.log(np.exp(shifted).sum()), np.nan, ""

    def _numbers(self, said: object, n_options: int) -> NDArray[np.float64]:
        try:
            given = np.asarray(_on_cpu(said))
            # a list of tensors or of Decimals is an object array; texts are not numbers
            parts = given.ravel().tolist() if given.dtype == object else []
            is_real = given.dtype.kind in "biufO" and not any(
                isinstance(part, str | bytes | complex | np.complexfloating)
                for part in parts
            )
            if not is_real:
                raise self._unusable(said, "they must be real numbers")
            values = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise self._unusable(said, str(error)) from None
        if values.shape != (n_options,):
            raise self._unusable(
                said, f"its shape is {values.shape}; it must be ({n_options},)"
            )
        return values

    def _unusable(self, said: object, why: str) -> ScoringError:
        return ScoringError(
            f"{self._name} returned {_cut(repr(said))} as {self._returns}, one for "
            f"each option in the order shown: {why}"
        )

    def describe(self) -> dict[str, Any]:
        """Return what identifies the function, and what it returns."""
        return {
            "scorer": type(self).__name__,
            "model": self._name,
            "returns": self._returns,
            **(
                {"source": code_hash(self._function)}
                if self._content is None
                else {"content": self._content}
            ),
        }

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}: returns {self._returns}>"


@overload
def wrap(
    function: ScoreFunction,
    *,
    returns: Returns = ...,
    name: str | None = ...,
    content: str | None = ...,
) -> FunctionScorer: ...
@overload
def wrap(
    function: None = ...,
    *,
    returns: Returns = ...,
    name: str | None = ...,
    content: str | None = ...,
) -> Callable[[ScoreFunction], FunctionScorer]: ...
def wrap(
    function: ScoreFunction | None = None,
    *,
    returns: Returns = "logprobs",
    name: str | None = None,
    content: str | None = None,
) -> FunctionScorer | Callable[[ScoreFunction], FunctionScorer]:
    """Make a scorer of any function, or decorate one.

    Parameters
    ----------
    function : callable
        ``function(frames, question, options)``, called once a phase and option order.
        `frames` is uint8 (b, H, W, 3), RGB; `options` are the texts without letters in
        the order in which they are to be shown, so that the first is the one to call
        A. A parameter ``times_s``, if there is one, gets the times of the frames in
        seconds, float64 (b,).
    returns : {"logprobs", "probabilities", "logits", "answer"}, default "logprobs"
        What the function returns for the options as shown. "logprobs" (natural) and
        "probabilities" are those of the whole vocabulary or of the options; "logits"
        are normalised over the options. "answer" is the place of the option from 0,
        shown as its letter in the record, or a text, which is kept with the pass and
        read by `parse_answer`: one that names no option is a pass without an answer.
        Answers have no posteriors, so a vote of the phases takes the place of fusion.
    name : str, optional
        Of the model in reports and in run.json. A run goes on only under the same
        name and the same function: its source and what it uses of your own files, with
        constants, objects and arrays, and a sample of the weights of torch models; or
        under the same `content` in its place.
    content : str, optional
        What changes whenever the function's results do, such as a hash of its code and
        weights, of which the source of the function says nothing. A harness keeps a
        cache of posteriors only where it is given.

    Returns
    -------
    FunctionScorer
        For `evaluate`, or to be called itself. Without `function`, a decorator.

    Raises
    ------
    ScoringError
        If `function` cannot be called so, or `returns` is none of these.

    Examples
    --------
    Five lines around a model of one's own; here one that looks for the brighter half:

    >>> import phasefusion as pf
    >>> from phasefusion import tinyvlm
    >>> @pf.wrap(returns="logits")
    ... def brighter(frames, question, options):
    ...     sides = {"left": frames[:, :, :112], "right": frames[:, :, 112:]}
    ...     return [sides[option].mean() / 10 for option in options]
    >>> path = tinyvlm.questions_path().parent / "clip-000.mp4"
    >>> clip = pf.read_clip(path, pf.PhaseGrid(budget=4, phases=3))
    >>> orders = pf.orders.all_orders(2)
    >>> scores = brighter.score(clip, "Where?", ["left", "right"], orders=orders)
    >>> scores.shape
    (3, 2, 2)
    >>> pf.fuse(scores, over=("phase", "order")).phase_answers.shape
    (3, 2)
    """
    _check_returns(returns)
    if function is None:
        return lambda given: FunctionScorer(
            given, returns=returns, name=name, content=content
        )
    return FunctionScorer(function, returns=returns, name=name, content=content)


def _check_returns(returns: object) -> None:
    if returns not in _RETURNS:
        raise ScoringError(f"returns is {returns!r}; it must be one of {_RETURNS}")


def _takes_times(function: ScoreFunction) -> bool:
    """Whether there is a parameter ``times_s``; refuse what takes no three others."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a compiled function may have none
        return False
    takes = "times_s" in signature.parameters
    try:
        signature.bind(None, "", (), **({"times_s": None} if takes else {}))
    except TypeError as error:
        raise ScoringError(
            f"the wrapped function {signature} cannot be called with "
            f"(frames, question, options): {error}"
        ) from None
    return takes


def _answer(name: str, said: object, n_options: int) -> tuple[str | None, int | None]:
    """Return the text of an answer, and its place where that is what it was."""
    if said is None or isinstance(said, str):
        return said, None
    if isinstance(said, bool) or not isinstance(said, int | np.integer):
        raise ScoringError(
            f"{name} returned {_cut(repr(said))} as its answer; it must be a text, the "
            "place of an option, or None"
        )
    if not 0 <= said < n_options:
        raise ScoringError(
            f"{name} returned {said} as the place of its answer; it must be "
            f"0..{n_options - 1}"
        )
    return f"({LETTERS[int(said)]})", int(said)


def _on_cpu(values: Any) -> Any:
    """Take a tensor off its device and its graph."""
    for step in ("detach", "cpu", "double"):  # bfloat16 has no NumPy type
        if hasattr(values, step) and hasattr(values, "detach"):
            values = getattr(values, step)()
    return values


def _cut(text: str, most: int = 80) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
