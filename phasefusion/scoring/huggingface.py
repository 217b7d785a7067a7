"""Option scores from Hugging Face video-language models of the Qwen-VL family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion.errors import OptionError, ScoringError
from phasefusion.pixels import PatchSettings, to_qwen_patches
from phasefusion.pixels.geometry import pass_order_shows
from phasefusion.scoring.checkpoint import (
    backend,
    limited,
    loading,
    model_pixels,
    preprocessor_config,
    read_json,
    torch_dtype,
    unpack,
    usable_device,
    warn_defaults,
)
from phasefusion.scoring.letters import (
    TEXT_PROMPT,
    CleanOptions,
    LetterTokens,
    LetterVariants,
    PromptTemplate,
    clean_options,
    continuation,
    letter_tokens,
    log_add,
    merge_repeats,
)
from phasefusion.scoring.prefix import ForwardPasses, Row, RowScores, VisualInputs
from phasefusion.scoring.protocol import (
    Kind,
    OptionScores,
    check_clip,
    check_orders,
    check_question,
)
from phasefusion.scoring.source import (
    check_family,
    check_folder,
    check_hub,
    folder_sha256,
    local_folder,
)

if TYPE_CHECKING:
    from phasefusion.video import Clip

Timestamps = Literal["true", "frozen"]


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A question as the model reads it: prompts, options, orders (M, K)."""

    prompts: tuple[str, ...]
    clean: CleanOptions
    orders: NDArray[np.int64]


class HFOptionScorer:
    """Scores options with a Qwen2-VL or Qwen2.5-VL model.

    Frames go from the clip to the model without torchvision: resized, normalised and
    cut into patches the way the model's own preprocessing does it. Letters are scored
    by a plain forward pass at the answer position, not by `generate`, so generation
    settings such as a repetition penalty have no influence.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        Switched to evaluation mode.
    processor : processor or tokenizer, optional
        A processor gives its tokenizer, and its video processor's settings; a
        tokenizer may be given here instead.
    tokenizer : tokenizer, optional
        Needs a chat template.
    score : {"letter", "text", "text-normalised"}, default "letter"
        "letter" scores the token of each option's letter. "text" scores the tokens of
        each option's text as the answer (sum of their log-probabilities, no end
        token), after a prompt that shows no options unless `prompt` lists them;
        "text-normalised" divides that sum by the number of tokens.
    reuse_prefix : bool, default True
        Run header, video and question once a phase for all option orders. Scores are
        the same either way, up to rounding.
    prompt : PromptTemplate, optional
        Default: the letter prompt for letters, and for text a prompt without options,
        for which all orders are equal and are scored once.
    letter_variants : {"sum", "in-context"}, default "sum"
        Whether ``"A"`` and ``" A"`` both count as the letter, or only the one right
        after the prompt.
    timestamps : {"true", "frozen"}, default "true"
        Where the model takes the time between temporal patches: from each phase's own
        frame times, or from phase 0's for all phases.
    size : (int, int), optional
        Fixed (height, width) of the frames the model sees.
    min_pixels, max_pixels : int, optional
        Limits on the area of a frame, in place of the checkpoint's.
    pixels : PatchSettings, optional
        All pixel settings at once, in place of the checkpoint's.
    device : str or torch.device, optional
        Where to move the model; default: where it is.
    batch_size : int, optional
        Most rows in one pass; default: all rows that share a prefix, one otherwise.

    Raises
    ------
    ScoringError
        If the model is of another family, or tokenizer and model do not fit.

    Notes
    -----
    transformers 4.57 and 5.24 place the same tokens differently, so that scores of one
    checkpoint differ between them: 4.57 cuts the seconds between temporal patches to
    a whole number, and lets the text after a video go on from the video's highest
    position, 5.24 from the longer side of a frame. `describe` records the version.
    """

    def __init__(
        self,
        model: Any,
        processor: Any = None,
        tokenizer: Any = None,
        *,
        score: Kind = "letter",
        reuse_prefix: bool = True,
        prompt: PromptTemplate | None = None,
        letter_variants: LetterVariants = "sum",
        timestamps: Timestamps = "true",
        size: Sequence[int] | None = None,
        min_pixels: int | None = None,
        max_pixels: int | None = None,
        pixels: PatchSettings | None = None,
        device: Any = None,
        batch_size: int | None = None,
    ) -> None:
        backend()
        _check_choice("score", score, ("letter", "text", "text-normalised"))
        _check_choice("letter_variants", letter_variants, ("sum", "in-context"))
        _check_choice("timestamps", timestamps, ("true", "frozen"))
        check_family(
            {"model_type": getattr(model.config, "model_type", None)},
            type(model).__name__,
        )
        tokenizer, self._template, settings = unpack(
            model, processor, tokenizer, pixels
        )
        self._tokenizer = tokenizer
        self._pixels = limited(settings, size, min_pixels, max_pixels)
        default = PromptTemplate() if score == "letter" else TEXT_PROMPT
        self._prompt = default if prompt is None else prompt
        if score == "letter" and not self._prompt.lists_letters:
            raise ScoringError(
                'score="letter" needs a prompt that shows {options} with their '
                f"{{letter}}; got {self._prompt.to_dict()}"
            )
        self._score: Kind = score
        self._variants: LetterVariants = letter_variants
        self._timestamps = timestamps
        self._model = model.to(device) if device is not None else model
        self._model.eval()
        self._video_token_id = int(model.config.video_token_id)
        self._video_token = tokenizer.convert_ids_to_tokens(self._video_token_id)
        self._special = (*tokenizer.all_special_tokens, self._video_token)
        pad_id = tokenizer.pad_token_id
        self._passes = ForwardPasses(
            self._model,
            pad_id=0 if pad_id is None else int(pad_id),
            batch_size=batch_size,
            reuse_prefix=reuse_prefix,
        )
        self._source: dict[str, Any] = {
            "path": getattr(model.config, "_name_or_path", "") or None,
            "revision": getattr(model.config, "_commit_hash", None),
        }
        folder = self._source["path"]
        is_local = folder is not None and Path(folder).is_dir()
        self._folder = Path(folder).resolve() if is_local else None

    @classmethod
    def from_pretrained(
        cls,
        path_or_id: str | Path,
        *,
        device: Any = None,
        dtype: Any = "auto",
        revision: str | None = None,
        attn_implementation: str | None = None,
        **options: Any,
    ) -> HFOptionScorer:
        """Load model, tokenizer and pixel settings of a checkpoint.

        Parameters
        ----------
        path_or_id : str or path
            A folder, or a model id of the Hugging Face hub.
        device : str or torch.device, optional
            Default: the first CUDA device, or the CPU where there is none.
        dtype : str or torch.dtype, default "auto"
            "auto" takes the checkpoint's.
        revision : str, optional
            Branch, tag or commit on the hub.
        attn_implementation : str, optional
            Passed to the model.
        **options
            As for the class.

        Returns
        -------
        HFOptionScorer

        Raises
        ------
        ScoringError
            If there is no such folder or id, a file of it is missing, cut short or
            does not load, the model is of another family, or the device or dtype
            cannot be used. What the files show is found before torch is loaded.
        BackendUnavailableError
            If torch or transformers is missing.

        Warns
        -----
        FallbackWarning
            If the checkpoint has no preprocessor file and neither `size` nor `pixels`
            is given, so that the family's defaults are used.
        """
        source = str(path_or_id)
        folder = local_folder(source)
        cache_only, commit = False, None
        if folder is None:
            cache_only, commit = check_hub(source, revision)
        else:
            check_folder(folder)
            source = str(folder)
        torch, transformers = backend()
        dtype = torch_dtype(torch, dtype)
        device = usable_device(torch, device)
        where = {"revision": revision, "local_files_only": cache_only}
        arguments: dict[str, Any] = {"dtype": dtype, **where}
        if attn_implementation is not None:
            arguments["attn_implementation"] = attn_implementation
        with loading(source, "model"):
            model = transformers.AutoModelForImageTextToText.from_pretrained(
                source, **arguments
            ).to(device)
        with loading(source, "tokenizer"):
            tokenizer = transformers.AutoTokenizer.from_pretrained(source, **where)
        with loading(source, "preprocessor settings"):
            if getattr(tokenizer, "chat_template", None) is None:
                legacy = read_json(
                    source, "chat_template.json", revision, cache_only=cache_only
                )
                tokenizer.chat_template = legacy.get("chat_template")
            if options.get("pixels") is None:
                config = preprocessor_config(source, revision, cache_only=cache_only)
                if not config and options.get("size") is None:
                    warn_defaults(source)
                options["pixels"] = model_pixels(config, model.config)
        scorer = cls(model, tokenizer=tokenizer, device=device, **options)
        scorer._source = {
            "path": str(path_or_id),
            "revision": getattr(model.config, "_commit_hash", None)
            or commit
            or revision,
        }
        scorer._folder = None if folder is None else folder.resolve()
        return scorer

    def score(
        self,
        clip: Clip,
        question: str,
        options: Sequence[str],
        *,
        orders: ArrayLike | None = None,
    ) -> OptionScores:
        """Score every option in every phase of a clip and every option order.

        Parameters
        ----------
        clip : Clip
            S phases of b frames.
        question : str
        options : sequence of str
            K option texts, between 2 and 26; letters of their own are taken off.
            Options with equal texts are shown as given and merged onto the first.
        orders : array_like of int, shape (M, K), optional
            ``orders[m, pos]`` is the option shown at ``pos``; default: as given.

        Returns
        -------
        OptionScores
            Log-probabilities of shape (S, M, K) in content space. A phase with a
            missing frame, or a pass whose logits are not finite, is a row of NaN with
            the reason in ``notes``.

        Raises
        ------
        OptionError
            For options or orders that cannot be scored.
        ScoringError
            If `clip` is none, or tokenizer and prompt do not allow such scores.
        """
        check_clip(clip)
        text = check_question(question)
        clean = clean_options(options)
        table = check_orders(orders, len(clean.texts))
        self._refuse_special(text, clean.texts)
        asked = _Asked(self._prompts(text, clean.texts, table), clean, table)
        notes = list(clean.notes)
        logprobs = np.full((len(clip.frames), *table.shape), np.nan)
        mass = np.full(logprobs.shape[:2], np.nan)
        rows: list[Row] = []
        n_repeated = 0
        for s in range(len(clip.frames)):
            missing = np.flatnonzero(clip.missing[s])
            if missing.size:
                frame = int(clip.indices[s, missing[0]])
                notes.append(f"phase {s}: frame {frame} could not be decoded")
                continue
            if clip.damaged[s].any():
                frame = int(clip.indices[s, clip.damaged[s].argmax()])
                notes.append(f"phase {s}: frame {frame} was decoded with damage")
            visual, n_repeated = self._visual(clip, s)
            rows = rows or self._rows(asked, self._n_tokens(visual))
            scores = self._passes.run(rows, visual)
            gather = self._letters if self._score == "letter" else self._texts
            logprobs[s], mass[s] = gather(asked, scores)
            notes += [f"phase {s}, {why}" for why in _problems(scores, logprobs[s])]
        if n_repeated:
            notes.append(
                f"last frame of every phase repeated {n_repeated}x to fill groups of "
                f"{self._pixels.temporal_frames} frames"
            )
        return OptionScores(logprobs, mass, table, self._score, tuple(notes))

    def frame_size(
        self, height_px: int, width_px: int, n_frames: int
    ) -> tuple[int, int] | None:
        """Return the size at which the model looks at frames.

        Frames of this size are taken as they are, so that a clip may be decoded
        straight to it.

        Parameters
        ----------
        height_px, width_px : int
            The frames as decoded.
        n_frames : int
            Of one phase, b.

        Returns
        -------
        size : (int, int) or None
            Height and width in pixels. None when the model wants a resize that
            differs from `phasefusion.resize` with its defaults, as portrait frames
            may, so that it has to see the frames as decoded.

        Raises
        ------
        FrameError
            If frames of that size cannot be resized for the model.
        """
        size = self._pixels.frame_size(height_px, width_px, n_frames)
        filter, first_pass = self._pixels.filter, self._pixels.first_pass
        if filter != "bicubic" or first_pass == "vertical":
            return None
        if first_pass == "horizontal" and pass_order_shows((height_px, width_px), size):
            return None
        return size

    def describe(self) -> dict[str, Any]:
        """Return what is needed to repeat the scores, JSON-able.

        A model of a folder is identified by "sha256", over the contents of all files
        that decide the scores; its "path" says only where it was.
        """
        torch, transformers = backend()
        letters: Any = None
        if self._score == "letter":
            try:
                letters = self._letter_tokens(self._chat("?", ["a", "b"]), 2).to_dict()
            except ScoringError as error:
                letters = str(error)
        return {
            "scorer": type(self).__name__,
            "model_class": type(self._model).__name__,
            "model_type": self._model.config.model_type,
            **self._source,
            **self._content(),
            "dtype": str(self._model.dtype).removeprefix("torch."),
            "device": str(self._model.device),
            "transformers": transformers.__version__,
            "torch": torch.__version__,
            "score": self._score,
            "prompt": self._prompt.to_dict(),
            "letter_variants": self._variants,
            "letter_tokens": letters,
            "timestamps": self._timestamps,
            "pixels": self._pixels.to_dict(),
            "reuse_prefix": self._passes.reuse_prefix,
            "batch_size": self._passes.batch_size,
        }

    def _content(self) -> dict[str, Any]:
        if self._folder is None:
            return {}
        digest = folder_sha256(self._folder)
        kind = self._model.config.model_type
        return {"model": f"{kind}, sha256 {digest[:12]}", "sha256": digest}

    def __repr__(self) -> str:
        name = self._source["path"] or type(self._model).__name__
        dtype = str(self._model.dtype).removeprefix("torch.")
        return (
            f"<{type(self).__name__} {name!r}: {self._model.config.model_type}, "
            f"{dtype} on {self._model.device}, scores {self._score}>"
        )

    # Prompts and tokens

    def _chat(self, question: str, options: Sequence[str]) -> str:
        turns: list[dict[str, Any]] = []
        if self._prompt.system is not None:
            turns.append({"role": "system", "content": self._prompt.system})
        ask = self._prompt.render(question, options)
        turns.append(
            {
                "role": "user",
                "content": [{"type": "video"}, {"type": "text", "text": ask}],
            }
        )
        chat: str = self._tokenizer.apply_chat_template(
            turns,
            chat_template=self._template,
            tokenize=False,
            add_generation_prompt=True,
        )
        n_video = chat.count(self._video_token)
        if n_video != 1 or ask not in chat:
            raise ScoringError(
                f"the chat template wrote {n_video} video placeholders "
                f"{self._video_token!r} and the question "
                f"{'once' if ask in chat else 'not'}; need one of each: {chat!r}"
            )
        return chat

    def _prompts(
        self, question: str, texts: Sequence[str], orders: NDArray[np.int64]
    ) -> tuple[str, ...]:
        """One prompt an order, or one for all when no options are shown."""
        shown = orders if self._prompt.lists_options else orders[:1]
        return tuple(self._chat(question, [texts[k] for k in row]) for row in shown)

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _letter_tokens(self, chat: str, n_options: int) -> LetterTokens:
        return letter_tokens(self._encode, chat, n_options, variants=self._variants)

    def _refuse_special(self, question: str, texts: Sequence[str]) -> None:
        named = [("the question", question)]
        named += [(f"option {k}", text) for k, text in enumerate(texts)]
        for name, text in named:
            for token in self._special:
                if token and token in text:
                    raise OptionError(
                        f"{name} holds {token!r}, a control token of this model, "
                        f"and would change the prompt's structure: {text!r}"
                    )

    def _with_video(self, ids: Sequence[int], n_tokens: int) -> NDArray[np.int64]:
        """Put `n_tokens` video tokens in the place of the one placeholder."""
        table = np.asarray(ids, dtype=np.int64)
        at = np.flatnonzero(table == self._video_token_id)
        if at.size != 1:
            raise ScoringError(
                f"the prompt has {at.size} video tokens (id {self._video_token_id}); "
                "tokenizer and model do not belong together"
            )
        repeats = np.ones(len(table), dtype=np.int64)
        repeats[at] = n_tokens
        return np.repeat(table, repeats)

    # Frames

    def _visual(self, clip: Clip, s: int) -> tuple[VisualInputs, int]:
        frames = clip.frames[s]
        rows, grid_thw = to_qwen_patches(
            frames, self._pixels, size=self._clip_size(clip)
        )
        n_repeated = -len(frames) % self._pixels.temporal_frames
        times = clip.times_s[0 if self._timestamps == "frozen" else s]
        seconds = self._pixels.temporal_frames * _spacing_s(times)
        return VisualInputs(rows, grid_thw, seconds), n_repeated

    def _clip_size(self, clip: Clip) -> tuple[int, int] | None:
        """Return the size of frames that were resized for this model before."""
        n_frames, *shown = clip.frames.shape[1:4]
        if clip.info is not None:
            native = (clip.info.height, clip.info.width)
            if tuple(shown) == self._pixels.frame_size(*native, n_frames):
                return shown[0], shown[1]
        return None

    def _n_tokens(self, visual: VisualInputs) -> int:
        return math.prod(visual.grid_thw) // self._pixels.merge**2

    # Rows of a question, the same for every phase, and their scores put together:
    # log-probabilities (M, K) in content space and option mass (M,)

    def _rows(self, asked: _Asked, n_tokens: int) -> list[Row]:
        if self._score != "letter":
            return [
                self._text_row(prompt, asked.clean.texts[k], n_tokens)
                for prompt in asked.prompts
                for k in asked.clean.distinct
            ]
        letters = self._letter_tokens(asked.prompts[0], len(asked.clean.texts))
        wanted = np.array(letters.ids, dtype=np.int64).reshape(1, -1)
        rows = []
        for prompt in asked.prompts:
            ids = self._with_video(self._encode(prompt), n_tokens)
            rows.append(Row(ids, np.array([len(ids) - 1]), wanted))
        return rows

    def _text_row(self, prompt: str, text: str, n_tokens: int) -> Row:
        base = self._encode(prompt)
        added = continuation(base, self._encode(prompt + text))
        if not added:
            raise ScoringError(
                f"option text {text!r} has no tokens of its own after the prompt "
                "(does the generation prompt end in a space?)"
            )
        ids = self._with_video([*base, *added[:-1]], n_tokens)
        at = np.arange(len(ids) - len(added), len(ids))
        return Row(ids, at, np.array(added, dtype=np.int64)[:, None])

    def _letters(
        self, asked: _Asked, scores: Sequence[RowScores]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        n_orders, n_options = asked.orders.shape
        by_variant = np.stack([row.logprobs[0] for row in scores])
        by_letter = log_add(by_variant.reshape(n_orders, -1, n_options), axis=1)
        content = np.empty_like(by_letter)
        np.put_along_axis(content, asked.orders, by_letter, axis=1)
        mass = np.exp(by_letter).sum(axis=1)
        return merge_repeats(content, asked.clean.first), mass

    def _texts(
        self, asked: _Asked, scores: Sequence[RowScores]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        distinct = list(asked.clean.distinct)
        shape = (len(asked.prompts), len(distinct))
        sums = np.array([row.logprobs.sum() for row in scores]).reshape(shape)
        means = np.array([row.logprobs.mean() for row in scores]).reshape(shape)
        content = np.full((shape[0], len(asked.clean.texts)), -np.inf)
        content[:, distinct] = means if self._score == "text-normalised" else sums
        content[np.isnan(sums).any(axis=1)] = np.nan
        mass = np.exp(sums).sum(axis=1)
        shown = asked.orders.shape  # prompts without options stand for every order
        return np.broadcast_to(content, shown), np.broadcast_to(mass, shown[:1])


def _check_choice(name: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ScoringError(f"{name} is {value!r}; it must be one of {list(allowed)}")


def _spacing_s(times_s: NDArray[np.float64]) -> float:
    """Mean time between frames, in seconds; 1 for a single frame."""
    if len(times_s) < 2:
        return 1.0
    spacing = float(times_s[-1] - times_s[0]) / (len(times_s) - 1)
    if not (math.isfinite(spacing) and spacing >= 0):
        raise ScoringError(
            f"frame times {np.asarray(times_s).tolist()} s do not ascend; they set "
            "the model's positions in time"
        )
    return spacing


def _problems(scores: Sequence[RowScores], logprobs: NDArray[np.float64]) -> list[str]:
    """Say what is wrong with which row or order, if anything is."""
    found = [f"row {i}: {row.problem}" for i, row in enumerate(scores) if row.problem]
    for m in np.flatnonzero(np.isneginf(logprobs).all(axis=1)):
        found.append(f"order {m}: no option has any probability")
    return found
