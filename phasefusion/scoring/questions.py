"""A question as a model reads it, and the scores of its prompts put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion.errors import OptionError, QuestionError, ScoringError
from phasefusion.scoring.families import Family, Shown
from phasefusion.scoring.letters import (
    CleanOptions,
    LetterTokens,
    LetterVariants,
    PromptTemplate,
    continuation,
    letter_tokens,
    log_add,
    merge_repeats,
)
from phasefusion.scoring.protocol import NO_PROBABILITY, Kind, check_question
from phasefusion.scoring.readout import RowScores
from phasefusion.scoring.rows import Row


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A question as the model reads it: prompts, options, orders (M, K)."""

    prompts: tuple[str, ...]
    clean: CleanOptions
    orders: NDArray[np.int64]


class Asker:
    """Writes questions as prompts of one family's model and reads its scores.

    Parameters
    ----------
    tokenizer : transformers.PreTrainedTokenizerBase
    family : Family
    prompt : PromptTemplate
    score : {"letter", "text", "text-normalised"}
    variants : {"sum", "in-context"}
    """

    def __init__(
        self,
        tokenizer: Any,
        family: Family,
        *,
        prompt: PromptTemplate,
        score: Kind,
        variants: LetterVariants,
    ) -> None:
        self.tokenizer = tokenizer
        self.family = family
        self.prompt = prompt
        self.score: Kind = score
        self.variants: LetterVariants = variants
        special = [*tokenizer.all_special_tokens, *family.reserved()]
        self._special = tuple(dict.fromkeys(token for token in special if token))
        self._lead = _leading(tokenizer)

    # Prompts and tokens

    def ask(
        self,
        question: object,
        clean: CleanOptions,
        orders: NDArray[np.int64],
        n_frames: int,
    ) -> Asked:
        """Write a question once an order, or once when no options are shown.

        Raises
        ------
        OptionError
            If the question is no text, or it or an option holds a control token.
        ScoringError
            If the chat template leaves out the frames or the question.
        """
        text = check_question(question)
        self._refuse_special(text, clean.texts)
        shown = orders if self.prompt.lists_options else orders[:1]
        prompts = tuple(
            self.chat(text, [clean.texts[k] for k in row], n_frames) for row in shown
        )
        return Asked(prompts, clean, orders)

    def chat(self, question: str, options: Sequence[str], n_frames: int = 1) -> str:
        """Return one prompt, up to the answer, before frames are put into it."""
        turns: list[dict[str, Any]] = []
        if self.prompt.system is not None:
            turns.append({"role": "system", "content": self.prompt.system})
        ask = self.prompt.render(question, options)
        frames = self.family.content(n_frames)
        content = [*frames, {"type": "text", "text": ask}]
        turns.append({"role": "user", "content": content})
        chat = self.family.render(turns)
        n_found = self.family.n_placeholders(chat)
        n_wanted = self.family.n_wanted(n_frames)
        if n_found != n_wanted or ask not in chat:
            kind = frames[0]["type"] if frames else "video"
            raise ScoringError(
                f"the chat template wrote {n_found} {kind} placeholders "
                f"{self.family.placeholder!r} and the question "
                f"{'once' if ask in chat else 'not'}; need {n_wanted} and the question "
                f"once: {chat!r}"
            )
        return chat

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a prompt, the tokenizer's own first ones included."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        bos = getattr(self.tokenizer, "bos_token", None)
        return ids if bos and text.startswith(bos) else [*self._lead, *ids]

    def letter_tokens(self, chat: str, n_options: int) -> LetterTokens:
        """Return the tokens of the letters after a prompt."""
        return letter_tokens(self.encode, chat, n_options, variants=self.variants)

    def _refuse_special(self, question: str, texts: Sequence[str]) -> None:
        named = [("the question", question)]
        named += [(f"option {k}", text) for k, text in enumerate(texts)]
        for name, text in named:
            for token in self._special:
                if token in text:
                    raise OptionError(
                        f"{name} holds {token!r}, a control token of this model, "
                        f"and would change the prompt's structure: {text!r}"
                    )

    # Rows of one phase, and their scores put together: log-probabilities (M, K) in
    # content space and option mass (M,)

    def rows(self, asked: Asked, shown: Shown) -> list[Row]:
        """Return the token sequences of a question with the frames of one phase."""
        if self.score != "letter":
            return [
                self._text_row(prompt, asked.clean.texts[k], shown)
                for prompt in asked.prompts
                for k in asked.clean.distinct
            ]
        letters = self.letter_tokens(asked.prompts[0], len(asked.clean.texts))
        wanted = np.array(letters.ids, dtype=np.int64).reshape(1, -1)
        rows = []
        for prompt in asked.prompts:
            ids = self.family.token_ids(self.encode, prompt, shown)
            rows.append(Row(ids, np.array([len(ids) - 1]), wanted))
        return rows

    def _text_row(self, prompt: str, text: str, shown: Shown) -> Row:
        added = continuation(self.encode(prompt), self.encode(prompt + text))
        if not added:
            raise QuestionError(
                f"option text {text!r} has no tokens of its own after the prompt "
                "(does the generation prompt end in a space?)"
            )
        base = self.family.token_ids(self.encode, prompt, shown)
        ids = np.concatenate([base, np.array(added[:-1], dtype=np.int64)])
        at = np.arange(len(ids) - len(added), len(ids))
        return Row(ids, at, np.array(added, dtype=np.int64)[:, None])

    def gather(
        self, asked: Asked, scores: Sequence[RowScores]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Put the scores of `rows` together."""
        if self.score == "letter":
            return self._letters(asked, scores)
        return self._texts(asked, scores)

    def _letters(
        self, asked: Asked, scores: Sequence[RowScores]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        n_orders, n_options = asked.orders.shape
        by_variant = np.stack([row.logprobs[0] for row in scores])
        by_letter = log_add(by_variant.reshape(n_orders, -1, n_options), axis=1)
        content = np.empty_like(by_letter)
        np.put_along_axis(content, asked.orders, by_letter, axis=1)
        mass = np.exp(by_letter).sum(axis=1)
        return merge_repeats(content, asked.clean.first), mass

    def _texts(
        self, asked: Asked, scores: Sequence[RowScores]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        distinct = list(asked.clean.distinct)
        shape = (len(asked.prompts), len(distinct))
        sums = np.array([row.logprobs.sum() for row in scores]).reshape(shape)
        means = np.array([row.logprobs.mean() for row in scores]).reshape(shape)
        content = np.full((shape[0], len(asked.clean.texts)), -np.inf)
        content[:, distinct] = means if self.score == "text-normalised" else sums
        content[np.isnan(sums).any(axis=1)] = np.nan
        mass = np.exp(sums).sum(axis=1)
        shown = asked.orders.shape  # prompts without options stand for every order
        return np.broadcast_to(content, shown), np.broadcast_to(mass, shown[:1])

    def problems(
        self,
        asked: Asked,
        scores: Sequence[RowScores],
        logprobs: NDArray[np.float64],
    ) -> dict[int, str]:
        """Say by order what is wrong with the scores of `rows`, if anything is.

        Nothing of it depends on what else was asked for, because it is kept with a
        pass, and a run that goes on asks for a part alone.
        """
        options = asked.clean.distinct if self.score != "letter" else (None,)
        n_orders = len(asked.orders)
        found: dict[int, list[str]] = {}
        for i, row in enumerate(scores):
            if not row.problem:
                continue
            m, j = divmod(i, len(options))
            name = "" if options[j] is None else f"the text of option {options[j]}: "
            # A prompt without options stands for every order.
            for order in [m] if len(asked.prompts) == n_orders else range(n_orders):
                found.setdefault(order, []).append(f"{name}{row.problem}")
        for m in np.flatnonzero(np.isneginf(logprobs).all(axis=1)).tolist():
            found.setdefault(m, []).append(NO_PROBABILITY)
        return {m: "; ".join(texts) for m, texts in found.items()}


def _leading(tokenizer: Any) -> list[int]:
    """Return the tokens that a tokenizer puts before every text."""
    whole: list[int] = tokenizer("a")["input_ids"]
    plain: list[int] = tokenizer("a", add_special_tokens=False)["input_ids"]
    n_lead = len(whole)
    for i in range(len(whole) - len(plain) + 1):
        if whole[i : i + len(plain)] == plain:
            n_lead = i
            break
    return whole[:n_lead]
