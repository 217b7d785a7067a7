"""Free-text answers: a scorer that lets a model write, and what it returns."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._results import Result
from phasefusion.errors import ScoringError
from phasefusion.frames import Device
from phasefusion.scoring.batching import is_out_of_memory
from phasefusion.scoring.checkpoint import backend
from phasefusion.scoring.gathering import decoded
from phasefusion.scoring.huggingface import HFOptionScorer
from phasefusion.scoring.letters import clean_options
from phasefusion.scoring.protocol import check_clip, check_orders
from phasefusion.scoring.source import one_line
from phasefusion.scoring.variants import UNLABELLED, VARIANTS, BlindScorer

if TYPE_CHECKING:
    from phasefusion.scoring.families import Shown
    from phasefusion.scoring.questions import Asked
    from phasefusion.video import Clip

#: A text, or None and why there is none.
_Written: TypeAlias = tuple[str | None, str]


@dataclass(frozen=True, slots=True, repr=False)
class GeneratedAnswers(Result):
    """What a model wrote under M option orders and S frame phases.

    A scorer may return it in place of `OptionScores`. Which option a text chooses is
    told by `phasefusion.parse_answer`, unless its place is given; the text is kept.
    Without posteriors there is no fusion, and a vote of the phases stands in its place.

    Parameters
    ----------
    texts : sequence of S sequences of M texts
        Raw, without the prompt; None for a pass that could not be made.
    notes : tuple of str
        What a reader has to know, whichever phases and orders were asked for.
    pass_notes : mapping of (int, int) to str
        The same of single passes, by phase and order, such as why a text is None. They
        are kept with the pass, so none may say where in the call it was.
    places : mapping of (int, int) to int
        By phase and order, the place of the option that was chosen, 0 for the first
        that was shown, of passes where that is known for certain. Their texts are kept
        and not read.

    Raises
    ------
    ScoringError
        If the rows differ in length, or an entry is no text.

    Examples
    --------
    >>> GeneratedAnswers([["A", "The answer is B."]]).shape
    (1, 2)
    """

    texts: Sequence[Sequence[str | None]]
    notes: tuple[str, ...] = ()
    pass_notes: Mapping[tuple[int, int], str] = field(default_factory=dict)
    places: Mapping[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.texts, str) or any(isinstance(r, str) for r in self.texts):
            raise ScoringError(
                "texts must be rows of texts, one row a phase, one text an order"
            )
        rows = tuple(tuple(row) for row in self.texts)
        if len(set(map(len, rows))) > 1:
            raise ScoringError(
                f"texts has rows of {sorted(set(map(len, rows)))} texts; it must have "
                "one row a phase and one text an order"
            )
        for row in rows:
            for text in row:
                if text is not None and not isinstance(text, str):
                    raise ScoringError(
                        f"a generated text is {text!r}; it must be a str or None"
                    )
        object.__setattr__(self, "texts", rows)
        object.__setattr__(self, "notes", tuple(self.notes))

    @property
    def shape(self) -> tuple[int, int]:
        """``(S, M)``."""
        return len(self.texts), len(self.texts[0]) if self.texts else 0


class HFGenerationScorer:
    """Lets a video-language model of transformers write its answers, greedily.

    Frames, prompts and families are those of `HFOptionScorer`. The most probable token
    is taken each time; what the checkpoint sets for generation, such as a temperature
    or a repetition penalty, has no influence but for its end tokens.

    Parameters
    ----------
    model, processor, tokenizer
        As for `HFOptionScorer`.
    constrain : {"letters"}, optional
        Let it write one token, a letter of the question at hand: as many as it has
        options, as one token each, with or without a space in front.
    max_new_tokens : int, default 64
        Where an answer is cut.
    **options
        As for `HFOptionScorer`, but for what is about scores. With ``reuse_prefix``,
        which is the default, every frame is looked at once for all option orders; each
        prompt is a pass of its own.

    Raises
    ------
    ScoringError
        As `HFOptionScorer`, or if an option is about scores.
    """

    #: There are no posteriors to fuse.
    is_generating = True

    def __init__(
        self,
        model: Any,
        processor: Any = None,
        tokenizer: Any = None,
        *,
        constrain: Literal["letters"] | None = None,
        max_new_tokens: int = 64,
        **options: Any,
    ) -> None:
        _check(constrain, max_new_tokens, options)
        self._scorer = HFOptionScorer(model, processor, tokenizer, **options)
        self._constrain = constrain
        self._max_new_tokens = max_new_tokens
        self._video = True

    @classmethod
    def from_pretrained(
        cls,
        path_or_id: str | Path,
        *,
        constrain: Literal["letters"] | None = None,
        max_new_tokens: int = 64,
        **options: Any,
    ) -> HFGenerationScorer:
        """Load a checkpoint as `HFOptionScorer.from_pretrained` does."""
        _check(constrain, max_new_tokens, options)
        made = cls.__new__(cls)
        made._scorer = HFOptionScorer.from_pretrained(path_or_id, **options)
        made._constrain = constrain
        made._max_new_tokens = max_new_tokens
        made._video = True
        return made

    def score(
        self,
        clip: Clip | None,
        question: str,
        options: Sequence[str],
        *,
        orders: ArrayLike | None = None,
    ) -> GeneratedAnswers:
        """Let the model answer in every phase of a clip and every option order.

        Parameters
        ----------
        clip : Clip
            S phases of b frames; not looked at by the variant "blind".
        question, options, orders
            As in `HFOptionScorer.score`.

        Returns
        -------
        GeneratedAnswers
            Texts by phase and order, without the end token. None where a frame is
            missing, the prompt is too long or the logits hold NaN, with the reason in
            ``pass_notes``.

        Raises
        ------
        OptionError, ScoringError
            As `HFOptionScorer.score`.
        """
        scorer = self._scorer
        clean = clean_options(options)
        table = check_orders(orders, len(clean.texts))
        if not self._video:
            asked = scorer._asker.ask(question, clean, table, 0)
            family: Any = scorer._family
            phases = [self._texts(asked, family.nothing())]
            return _together(phases, clean.notes)
        check_clip(clip)
        scorer._passes.encoder.renew()
        assert clip is not None  # or it would have been refused
        asked = scorer._asker.ask(question, clean, table, clip.frames.shape[1])
        notes = list(clean.notes)
        phases = []
        for s in range(len(clip.frames)):
            is_sound, said = decoded(clip, s)
            texts: list[_Written] = [(None, "")] * len(table)
            if is_sound:
                shown = scorer._shown(clip, s, asked)
                notes += shown.notes
                if shown.problem:
                    said = "; ".join(filter(None, [said, shown.problem]))
                else:
                    texts = self._texts(asked, shown)
            phases.append(
                [(text, "; ".join(filter(None, [said, why]))) for text, why in texts]
            )
        return _together(phases, tuple(dict.fromkeys(notes)))

    def _texts(self, asked: Asked, shown: Shown) -> list[_Written]:
        """Return what the model writes under every order with the frames shown."""
        asker, family = self._scorer._asker, self._scorer._family
        allowed: NDArray[np.int64] | None = None
        if self._constrain is not None:
            n_options = asked.orders.shape[1]
            letters = asker.letter_tokens(asked.prompts[0], n_options)
            allowed = np.unique(np.array(letters.ids, dtype=np.int64))
        found: list[_Written] = []
        for prompt in asked.prompts:
            ids = family.token_ids(asker.encode, prompt, shown)
            found.append(self._written(ids, shown, allowed))
        # a prompt without options stands for every order
        return found * len(asked.orders) if len(found) == 1 else found

    def _written(
        self, ids: NDArray[np.int64], shown: Shown, allowed: NDArray[np.int64] | None
    ) -> _Written:
        """Return what the model writes after a prompt, or why there is no text."""
        scorer = self._scorer
        config = scorer._model.config.get_text_config()
        limit = getattr(config, "max_position_embeddings", None)
        if limit is not None and len(ids) >= limit:
            return None, f"{len(ids)} tokens leave no room in the model's {limit}"
        torch, transformers = backend()
        passes, model = scorer._passes, scorer._model
        watch = _processors()["watch"]()
        steps = [watch]
        if allowed is not None:
            steps.append(_processors()["allow"](allowed.tolist()))
        table, mask = passes._padded([ids])
        try:
            with (
                torch.inference_mode(),
                passes.looking(shown.inputs),
                _greedy(transformers, model, self._n_new),
            ):
                out = model.generate(
                    input_ids=table,
                    attention_mask=mask,
                    logits_processor=transformers.LogitsProcessorList(steps),
                    **passes._visual(table, shown.inputs),
                )
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return None, f"the model ran out of memory ({one_line(error)})"
        if watch.problem:
            return None, watch.problem
        new = out[0, table.shape[1] :].tolist()
        ends = _end_tokens(model)
        while new and new[-1] in ends:
            new.pop()
        tokenizer = scorer._asker.tokenizer
        return str(tokenizer.decode(new, skip_special_tokens=False)), ""

    @property
    def _n_new(self) -> int:
        return self._max_new_tokens if self._constrain is None else 1

    def frame_size(
        self, height_px: int, width_px: int, n_frames: int
    ) -> tuple[int, int] | None:
        """Return the size at which the model looks at frames; see `HFOptionScorer`."""
        return self._scorer.frame_size(height_px, width_px, n_frames)

    @property
    def frames_device(self) -> Device:
        """Where frames are resized."""
        return self._scorer.frames_device

    def pinned(self, n_frames: int) -> HFGenerationScorer:
        """Return the scorer with frame sizes as for clips of `n_frames`."""
        return self._twin(self._scorer.pinned(n_frames))

    def forget(self) -> None:
        """Drop the features that are kept of frames; see `HFOptionScorer.forget`."""
        self._scorer.forget()

    def variant(self, name: str) -> HFGenerationScorer:
        """Return the scorer that asks the same model in another way.

        Parameters
        ----------
        name : {"blind", "unlabelled"}
            Without the video; or with options without letters.

        Returns
        -------
        HFGenerationScorer
            Without letters, nothing restricts what it writes.

        Raises
        ------
        ScoringError
            If there is no such variant.
        """
        if name not in VARIANTS:
            raise ScoringError(f"variant is {name!r}; it must be one of {VARIANTS}")
        if name == "blind":
            twin = self._twin(BlindScorer(self._scorer)._scorer)
            twin._video = False
            return twin
        scorer = copy.copy(self._scorer)
        scorer._asker = copy.copy(scorer._asker)
        scorer._asker.prompt = UNLABELLED
        twin = self._twin(scorer)
        twin._constrain = None
        return twin

    def _twin(self, scorer: HFOptionScorer) -> HFGenerationScorer:
        twin = copy.copy(self)
        twin._scorer = scorer
        return twin

    def describe(self) -> dict[str, Any]:
        """Return what is needed to repeat the answers, JSON-able."""
        left_out = ("scorer", "score", "letter_variants", "batch_size")
        described = self._scorer.describe()
        if self._constrain is None:
            described.pop("letter_tokens")
        return {
            "scorer": type(self).__name__,
            **{k: v for k, v in described.items() if k not in left_out},
            "answers": "generated",
            "constrain": self._constrain,
            "max_new_tokens": self._n_new,
            **({} if self._video else {"video": False}),
        }

    def __repr__(self) -> str:
        what = "texts" if self._constrain is None else "one letter"
        return f"<{type(self).__name__} {self._scorer._named()}, writes {what}>"


def _together(
    phases: Sequence[Sequence[_Written]], notes: tuple[str, ...]
) -> GeneratedAnswers:
    return GeneratedAnswers(
        [[text for text, _ in texts] for texts in phases],
        notes,
        {
            (s, m): note
            for s, texts in enumerate(phases)
            for m, (_, note) in enumerate(texts)
            if note
        },
    )


def _check(constrain: object, max_new_tokens: int, options: dict[str, Any]) -> None:
    if constrain not in (None, "letters"):
        raise ScoringError(f'constrain is {constrain!r}; it must be "letters" or None')
    if max_new_tokens < 1:
        raise ScoringError(f"max_new_tokens is {max_new_tokens}; it must be at least 1")
    about_scores = ("score", "prior", "batch_size")
    wrong = [name for name in about_scores if options.get(name) is not None]
    if wrong:
        raise ScoringError(
            f"{' and '.join(wrong)} cannot be given: generated answers have no scores"
        )
    if constrain is None and options.get("letter_variants") is not None:
        raise ScoringError(
            'letter_variants is for constrain="letters"; without it any token may be '
            "written"
        )


@cache
def _processors() -> dict[str, Any]:
    """Make the two steps on logits, once torch is known to be there."""
    import torch
    from transformers import LogitsProcessor

    class AllowTokens(LogitsProcessor):
        """Leaves the logits of some tokens as they are and rules the others out."""

        def __init__(self, allowed: Sequence[int]) -> None:
            self.allowed = torch.tensor(list(allowed))

        def __call__(self, input_ids: Any, scores: Any) -> Any:
            at = self.allowed.to(scores.device)
            only = torch.full_like(scores, -torch.inf)
            only[:, at] = scores[:, at]
            return only

    class Watch(LogitsProcessor):
        """Remembers whether logits ever were such that no token can be chosen."""

        problem = ""

        def __call__(self, input_ids: Any, scores: Any) -> Any:
            if torch.isnan(scores).any():
                self.problem = "the logits hold NaN"
            elif torch.isposinf(scores).any():
                self.problem = "the logits hold +inf"
            return scores

    return {"allow": AllowTokens, "watch": Watch}


@contextmanager
def _greedy(transformers: Any, model: Any, max_new_tokens: int) -> Iterator[None]:
    """Let a model generate greedily, whatever its checkpoint sets.

    What is not said to `generate` is taken from the model's own configuration, so that
    is put aside, its end and padding tokens excepted.
    """
    own = model.generation_config
    ends = sorted(_end_tokens(model)) or None
    pad = own.pad_token_id
    model.generation_config = transformers.GenerationConfig(
        max_new_tokens=max_new_tokens,
        do_sample=False,
        num_beams=1,
        eos_token_id=ends,
        pad_token_id=ends[0] if pad is None and ends else pad,
    )
    try:
        yield
    finally:
        model.generation_config = own


def _end_tokens(model: Any) -> set[int]:
    """Return the tokens that end an answer."""
    found = getattr(model.generation_config, "eos_token_id", None)
    if found is None:
        found = getattr(model.config.get_text_config(), "eos_token_id", None)
    if found is None:
        return set()
    return {int(found)} if isinstance(found, int) else {int(one) for one in found}
