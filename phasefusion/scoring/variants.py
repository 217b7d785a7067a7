"""The same model asked in another way: without the video, or without letters."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion.errors import ScoringError
from phasefusion.pixels.geometry import Size
from phasefusion.scoring.families import Family, Shown
from phasefusion.scoring.families.base import Turns
from phasefusion.scoring.letters import PromptTemplate, clean_options
from phasefusion.scoring.protocol import OptionScores, check_orders
from phasefusion.scoring.rows import VisualInputs
from phasefusion.scoring.times import FrameTimes

if TYPE_CHECKING:
    from phasefusion.scoring.huggingface import HFOptionScorer

#: Names of the variants.
VARIANTS = ("blind", "unlabelled")
#: Options without letters, answered by their texts.
UNLABELLED = PromptTemplate(
    "{question}\n{options}\nAnswer with the text of the right option.", "- {option}"
)
_WITHOUT = "without the video: "
_KINDS = ("mm_token_type_ids",)


class NoVideo(Family):
    """A model's family when its prompt holds no video.

    Parameters
    ----------
    seeing : Family
        The family as it is otherwise.
    """

    def __init__(self, seeing: Family) -> None:
        super().__init__(seeing.model, seeing.tokenizer)
        self.name = seeing.name
        self.placeholder = seeing.placeholder
        self.visual_token = seeing.visual_token
        self.visual_token_id = seeing.visual_token_id
        self._seeing = seeing

    def render(self, turns: Turns) -> str:
        """Write turns the way the family does."""
        return self._seeing.render(turns)

    def show(
        self,
        frames: NDArray[Any],
        times: FrameTimes,
        *,
        size: Size | None,
        chat: str,
    ) -> Shown:
        """Show nothing; the arguments are not looked at."""
        return self.nothing()

    def nothing(self) -> Shown:
        """Return what takes the place of frames: no text, no tokens, no pixels."""
        kinds: dict[str, dict[int, int]] = {name: {} for name in _KINDS}
        return Shown(VisualInputs({}, self.visual_token_id, kinds), "", ())

    def content(self, n_frames: int) -> list[dict[str, Any]]:
        """Return no parts."""
        return []

    def n_wanted(self, n_frames: int) -> int:
        """Return 0: a place for frames would be one too many."""
        return 0

    def n_placeholders(self, chat: str) -> int:
        """Count places of frames the way the family does."""
        return self._seeing.n_placeholders(chat)

    def reserved(self) -> tuple[str, ...]:
        """Return what has a meaning in a prompt, as with the video."""
        return self._seeing.reserved()


class BlindScorer:
    """Scores options without the video: what the question alone gives away.

    Parameters
    ----------
    scorer : HFOptionScorer
        Whose model, prompt and way of scoring are used.
    """

    def __init__(self, scorer: HFOptionScorer) -> None:
        self._scorer = copy.copy(scorer)
        self._family = NoVideo(scorer._family)
        self._scorer._family = self._family
        self._scorer._prior = None
        self._scorer._asker = copy.copy(scorer._asker)
        self._scorer._asker.family = self._family
        self._scorer._passes = copy.copy(scorer._passes)
        self._scorer._passes.reuse_prefix = False  # there is nothing worth it

    def score(
        self,
        clip: object,
        question: str,
        options: Sequence[str],
        *,
        orders: ArrayLike | None = None,
    ) -> OptionScores:
        """Score every option under every order, once.

        Parameters
        ----------
        clip : object
            Not looked at; may be None.
        question, options, orders
            As in `HFOptionScorer.score`.

        Returns
        -------
        OptionScores
            Of shape (1, M, K).
        """
        clean = clean_options(options)
        table = check_orders(orders, len(clean.texts))
        asker = self._scorer._asker
        asked = asker.ask(question, clean, table, 0)
        shown = self._family.nothing()
        scores = self._scorer._passes.run(asker.rows(asked, shown), shown.inputs)
        logprobs, mass = asker.gather(asked, scores)
        wrong = asker.problems(asked, scores, logprobs)
        return OptionScores(
            logprobs[None],
            mass[None],
            table,
            asker.score,
            clean.notes,
            {(0, m): text for m, text in wrong.items()},
        )

    def forget(self) -> None:
        """Do nothing: there are no frames of which anything is kept."""

    def describe(self) -> dict[str, Any]:
        """Return what `HFOptionScorer.describe` does, and that there is no video."""
        return {**self._scorer.describe(), "video": False}


def without_letters(scorer: HFOptionScorer) -> HFOptionScorer:
    """Return a scorer that shows options without letters and scores their texts.

    Texts are scored by the mean over their tokens, or a long option could not win.
    """
    twin = copy.copy(scorer)
    twin._asker = copy.copy(scorer._asker)
    system = scorer._asker.prompt.system
    twin._asker.prompt = PromptTemplate(UNLABELLED.text, UNLABELLED.option, system)
    twin._asker.score = "text-normalised"
    return twin


def subtract_prior(scores: OptionScores, prior: OptionScores) -> OptionScores:
    """Subtract log-probabilities without the video from those with it.

    Parameters
    ----------
    scores : OptionScores, shape (S, M, K)
    prior : OptionScores, shape (1, M, K)
        Of the same options and orders.

    Returns
    -------
    OptionScores
        Differences, normalised over the options, so that their exponentials add up to
        1; `option_mass` is that of `scores`. An option without any probability stays
        so. A pass without a usable prior is a row of NaN.

    Raises
    ------
    ScoringError
        If the orders differ.

    Examples
    --------
    >>> with_video = OptionScores([[[-1.0, -1.0]]], [[0.7]], [[0, 1]])
    >>> without = OptionScores([[[-0.5, -2.5]]], [[0.7]], [[0, 1]])
    >>> subtract_prior(with_video, without).logprobs.round(3)
    array([[[-2.127, -0.127]]])
    """
    if not np.array_equal(scores.orders, prior.orders) or len(prior.logprobs) != 1:
        raise ScoringError(
            f"a prior of shape {prior.shape} is none of scores of shape {scores.shape}"
        )
    usable = prior.valid[0][None, :, None]
    impossible = np.isneginf(scores.logprobs)
    base = np.where(impossible, 0.0, prior.logprobs)
    with np.errstate(invalid="ignore"):
        found = np.where(usable, scores.logprobs - base, np.nan)
        top = found.max(axis=-1, keepdims=True)
        total = np.log(np.exp(found - top).sum(axis=-1, keepdims=True))
        normalised = np.where(impossible & usable, -np.inf, found - top - total)
    added = (_WITHOUT + note for note in prior.notes if note not in scores.notes)
    return OptionScores(
        normalised,
        scores.option_mass,
        scores.orders,
        scores.kind,
        (*scores.notes, *added),
        _notes_of_both(scores, prior),
    )


def _notes_of_both(
    scores: OptionScores, prior: OptionScores
) -> dict[tuple[int, int], str]:
    """Say of each pass what there is to say of it, and of it without the video."""
    found: dict[tuple[int, int], str] = {}
    for s, m in np.ndindex(scores.logprobs.shape[:2]):
        texts = [scores.pass_notes.get((s, m), "")]
        said = prior.pass_notes.get((0, m), "")
        texts.append(_WITHOUT + said if said else "")
        ruled_out = np.isneginf(prior.logprobs[0, m])
        ruled_out &= ~np.isneginf(scores.logprobs[s, m])
        if prior.valid[0, m] and ruled_out.any():
            options = ", ".join(map(str, np.flatnonzero(ruled_out)))
            texts.append(f"{_WITHOUT}option {options} has no probability to subtract")
        note = "; ".join(text for text in texts if text)
        if note:
            found[s, m] = note
    return found
