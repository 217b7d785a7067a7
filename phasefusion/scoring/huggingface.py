"""Option scores from Hugging Face video-language models."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion.errors import ScoringError
from phasefusion.frames import Device
from phasefusion.scoring.checkpoint import (
    Pixels,
    backend,
    check_loaded,
    check_model,
    check_vocabulary,
    load_config,
    load_own,
    loading,
    origin,
    own_pixels,
    refuse_pixels,
    torch_dtype,
    unpack,
    usable_device,
)
from phasefusion.scoring.families import (
    FramesAs,
    Shown,
    ThroughProcessor,
    own_family,
    through_processor,
)
from phasefusion.scoring.letters import (
    TEXT_PROMPT,
    LetterVariants,
    PromptTemplate,
    as_prompt,
)
from phasefusion.scoring.prefix import ForwardPasses
from phasefusion.scoring.protocol import (
    Kind,
    OptionScores,
    ScoreRequest,
)
from phasefusion.scoring.questions import Asked, Asker
from phasefusion.scoring.saliency import Method, Replace, Saliency, saliency
from phasefusion.scoring.source import (
    OWN_FAMILIES,
    check_folder,
    check_hub,
    folder_sha256,
    local_folder,
)
from phasefusion.scoring.sweeps import Sweeper
from phasefusion.scoring.times import Timestamps, frame_times
from phasefusion.scoring.variants import (
    VARIANTS,
    BlindScorer,
    subtract_prior,
    without_letters,
)

if TYPE_CHECKING:
    from phasefusion.video import Clip


class HFOptionScorer:
    """Scores options with a video-language model of transformers.

    For Qwen2-VL, Qwen2.5-VL (and MiMo-VL), Qwen3-VL, InternVL (in its native form),
    LLaVA-OneVision, LLaVA-NeXT-Video and SmolVLM2, frames go from the clip to the model
    without torchvision: resized, normalised, cut and described in the prompt the way
    the model's own processor does it. With any other model of
    AutoModelForImageTextToText they go through its processor. Letters are scored by a
    plain forward pass at the answer position, not by `generate`, so generation settings
    such as a repetition penalty have no influence.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        Switched to evaluation mode.
    processor : processor or tokenizer, optional
        A processor gives its tokenizer, and its video processor's settings; a
        tokenizer may be given here instead where the model is of a family named above.
    tokenizer : tokenizer, optional
        Needs a chat template.
    score : {"letter", "text", "text-normalised"}, default "letter"
        "letter" scores the token of each option's letter. "text" scores the tokens of
        each option's text as the answer (sum of their log-probabilities, no end
        token), after a prompt that shows no options unless `prompt` lists them;
        "text-normalised" divides that sum by the number of tokens.
    reuse_prefix : bool, default True
        Run what prompts have in common, header and video at least, once a phase for
        all option orders and questions, and look at every frame once. Scores are the
        same either way, up to rounding.
    prompt : PromptTemplate or str, optional
        A str is the template's text. Default: the letter prompt for letters, and for
        text a prompt without options, for which all orders are equal and scored once.
    letter_variants : {"sum", "in-context"}, default "sum"
        Whether ``"A"`` and ``" A"`` both count as the letter, or only the one right
        after the prompt.
    timestamps : {"true", "frozen"}, default "true"
        What models that are told times are told: each phase's own frame times, or for
        all phases the middles of equal parts of the video (see `frame_times`).
    size : (int, int), optional
        Fixed (height, width) of the frames the model sees.
    min_pixels, max_pixels : int, optional
        Limits on the area of a frame, in place of the checkpoint's (Qwen-VL).
    pixels : PatchSettings or PlaneSettings, optional
        All pixel settings at once, in place of the checkpoint's.
    pixel_frames : int, optional
        Give frames the size that those of a clip of so many frames have, whatever the
        clip's number, where the model's rule depends on it (Qwen3-VL). `evaluate` sets
        it to the most frames of an arm, so that all arms see the same pixels.
    frames_as : {"video", "images"}, optional
        Let frames go through the processor, as a video or as pictures, also where the
        family is known. By default other models get a video where their processor
        takes one.
    frames_device : {"cpu", "cuda", "auto"}, default "cpu"
        Where frames are resized, here and by `evaluate` as it decodes; the scores are
        the same. Frames that go through a processor are resized by that.
    device : str or torch.device, optional
        Where to move the model; default: where it is.
    batch_size : int, optional
        Most rows in one pass; default: as many as fit into memory, and one with
        ``reuse_prefix=False``. A pass that runs out of memory is halved.
    prior : {"blind"}, optional
        Subtract the log-probabilities that the same prompt without the video gives,
        and normalise over the options; see `variants.subtract_prior`.

    Raises
    ------
    ScoringError
        If the model takes no frames or gives no logits, or tokenizer and model do not
        fit.

    Notes
    -----
    What else is scored in a pass makes no difference to a score above 1e-5 for a
    float32 model; for others it is what their own precision allows. Logits are made in
    float32 from the last hidden states whatever the precision of the model, so that
    options are not made equal by rounding.

    Scores of one checkpoint differ between transformers 4.57 and 5.24, and `describe`
    records the version. In Qwen2.5-VL, 4.57 cuts the seconds between temporal patches
    to a whole number, and lets the text after a video go on from the video's highest
    position, 5.24 from the longer side of a frame. Around Qwen3-VL's timed frames, 5.24
    leaves the two vision tokens that the chat template writes around a video, 4.57 does
    not. What SmolVLM2's processor resizes with a Lanczos filter in 5.24, older ones
    resize with a bicubic one; here it is Lanczos with all.
    """

    def __init__(
        self,
        model: Any,
        processor: Any = None,
        tokenizer: Any = None,
        *,
        score: Kind = "letter",
        reuse_prefix: bool = True,
        prompt: PromptTemplate | str | None = None,
        letter_variants: LetterVariants = "sum",
        timestamps: Timestamps = "true",
        size: Sequence[int] | None = None,
        min_pixels: int | None = None,
        max_pixels: int | None = None,
        pixels: Pixels | None = None,
        pixel_frames: int | None = None,
        frames_as: FramesAs | None = None,
        frames_device: Device = "cpu",
        device: Any = None,
        batch_size: int | None = None,
        prior: Literal["blind"] | None = None,
    ) -> None:
        backend()
        _check_choice("prior", prior, (None, "blind"))
        _check_choice("score", score, ("letter", "text", "text-normalised"))
        _check_choice("letter_variants", letter_variants, ("sum", "in-context"))
        _check_choice("timestamps", timestamps, ("true", "frozen"))
        _check_choice("frames_as", frames_as, (None, "video", "images"))
        _check_choice("frames_device", frames_device, get_args(Device))
        if pixel_frames is not None and pixel_frames < 1:
            raise ScoringError(f"pixel_frames is {pixel_frames}; it must be at least 1")
        check_model(model)
        tokenizer, template, processor = unpack(processor, tokenizer)
        wanted = (size, min_pixels, max_pixels)
        if model.config.model_type in OWN_FAMILIES and frames_as is None:
            pixels = own_pixels(model, processor, pixels, wanted)
            family = own_family(model, tokenizer, pixels)
        else:
            refuse_pixels(*wanted, pixels)
            family = through_processor(model, processor, frames_as)
            if getattr(processor, "chat_template", None):
                template = None  # it may have another one for videos
        family.template = family.template or template
        family.pixel_frames = pixel_frames
        family.frames_device = frames_device
        check_vocabulary(model, tokenizer)
        prompt = _checked_prompt(prompt, score)
        self._prior = prior
        self._timestamps = timestamps
        self._model = model.to(device) if device is not None else model
        self._model.eval()
        self._family = family
        self._asker = Asker(
            tokenizer, family, prompt=prompt, score=score, variants=letter_variants
        )
        self._passes = ForwardPasses(
            self._model,
            pad_id=int(tokenizer.pad_token_id or 0),
            batch_size=batch_size,
            reuse_prefix=reuse_prefix,
            check_reuse=isinstance(family, ThroughProcessor),
        )
        self._source, self._folder = origin(model)

    @classmethod
    def from_pretrained(
        cls,
        path_or_id: str | Path,
        *,
        device: Any = None,
        dtype: Any = "auto",
        revision: str | None = None,
        attn_implementation: str | None = None,
        trust_remote_code: bool = False,
        pickled_weights: bool = False,
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
        trust_remote_code : bool, default False
            Run Python code that comes with the checkpoint.
        pickled_weights : bool, default False
            Read weights that are Python pickles, which can run code, where there are
            no safetensors.
        **options
            As for the class.

        Returns
        -------
        HFOptionScorer

        Raises
        ------
        ScoringError
            If there is no such folder or id, a file of it is missing, cut short or
            does not load, weights of the model are not in its files, it takes no
            frames, its weights are pickled or it needs code of its own without that
            being allowed, or the device or dtype cannot be used. What the files show is
            found before torch is loaded.
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
        snapshot, commit = None, None
        if folder is None:
            snapshot, commit = check_hub(source, revision)
        else:
            check_folder(folder, pickled_weights=pickled_weights)
            source = str(folder)
        # As a folder, or some libraries would ask the hub about it all the same.
        place = source if snapshot is None else str(snapshot)
        torch, transformers = backend()
        dtype = torch_dtype(torch, dtype)
        device = usable_device(torch, device)
        where = {
            "revision": revision if snapshot is None else None,
            "trust_remote_code": trust_remote_code,
        }
        arguments: dict[str, Any] = {"dtype": dtype, **where}
        if attn_implementation is not None:
            arguments["attn_implementation"] = attn_implementation
        if not pickled_weights:
            arguments["use_safetensors"] = True
        with loading(source, "configuration"):
            arguments["config"] = load_config(transformers, place, **where)
        with loading(source, "model"):
            model, found = transformers.AutoModelForImageTextToText.from_pretrained(
                place, output_loading_info=True, **arguments
            )
        check_loaded(source, found)
        model = model.to(device)
        own = model.config.model_type in OWN_FAMILIES and not options.get("frames_as")
        processor: Any = None
        tokenizer: Any = None
        if own:
            tokenizer = load_own(transformers, (source, place), where, model, options)
        else:
            with loading(source, "processor"):
                processor = transformers.AutoProcessor.from_pretrained(place, **where)
        scorer = cls(model, processor, tokenizer, device=device, **options)
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
            the reason in ``pass_notes``.

        Raises
        ------
        OptionError
            For options or orders that cannot be scored.
        ScoringError
            If `clip` is none, or tokenizer and prompt do not allow such scores.
        """
        return self.score_many([ScoreRequest(clip, question, options, orders)])[0]

    def score_many(self, requests: Sequence[ScoreRequest]) -> list[OptionScores]:
        """Score several questions, about one clip or several, in passes they share.

        Requests about one `Clip` object share the prefix up to the end of its video.
        Scores are those of `score`, up to rounding: 1e-5 for a float32 model.

        Parameters
        ----------
        requests : sequence of ScoreRequest

        Returns
        -------
        list of OptionScores
            One a request.

        Raises
        ------
        OptionError, ScoringError
            As `score`, for the first request that is wrong, before any pass is made.
        """
        made = Sweeper(self._asker, self._passes, self._shown).score(requests)
        if self._prior is None:
            return made
        blind = self.variant("blind")
        return [
            subtract_prior(
                scores,
                blind.score(None, asked.question, asked.options, orders=asked.orders),
            )
            for scores, asked in zip(made, requests, strict=True)
        ]

    def saliency(
        self,
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
        """Say what each frame adds to the log-posterior of an option, in nats.

        Parameters, what is returned and what is raised are those of
        `phasefusion.scoring.saliency.saliency`.
        """
        return saliency(
            self,
            clip,
            question,
            options,
            order=order,
            option=option,
            against=against,
            method=method,
            replace=replace,
        )

    def forget(self) -> None:
        """Drop the features that are kept of frames, so that the next call makes all.

        A run that is repeated to see what varies from one to the next needs it.
        """
        self._passes.encoder.clear()

    def variant(self, name: str) -> Any:
        """Ask the same model without the video, "blind", or letters, "unlabelled"."""
        _check_choice("variant", name, VARIANTS)
        return BlindScorer(self) if name == "blind" else without_letters(self)

    def _shown(
        self, clip: Clip, s: int, asked: Asked, frames: NDArray[Any] | None = None
    ) -> Shown:
        """Show the frames of one phase, or others at their times.

        They are shown as they are if they were resized before.
        """
        n_frames, *now = clip.frames.shape[1:4]
        size = None
        if clip.info is not None and clip.frames.dtype == np.uint8:
            native = (clip.info.height, clip.info.width)
            if tuple(now) == self._family.native_size(*native, n_frames):
                size = (now[0], now[1])
        times = frame_times(clip, s, self._timestamps)
        chat = asked.prompts[0]
        frames = clip.frames[s] if frames is None else frames
        return self._family.show(frames, times, size=size, chat=chat)

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
        return self._family.frame_size(height_px, width_px, n_frames)

    @property
    def frames_device(self) -> Device:
        """Where frames are resized."""
        return self._family.frames_device

    def pinned(self, n_frames: int) -> HFOptionScorer:
        """Return the scorer with frame sizes as for clips of `n_frames`.

        Where the model's rule gives frames of longer clips a smaller size, arms of
        different numbers of frames would see different pixels.

        Parameters
        ----------
        n_frames : int
            Most frames of an arm.

        Returns
        -------
        HFOptionScorer
            This one where the size does not depend on the number of frames, or
            `pixel_frames` was given; a copy with the same model otherwise.
        """
        family = self._family
        if family.pixel_frames is not None or not family.size_follows_frames:
            return self
        twin = copy.copy(self)
        twin._family = family.pinned(n_frames)
        twin._asker = copy.copy(self._asker)
        twin._asker.family = twin._family
        return twin

    def with_prompt(self, prompt: PromptTemplate) -> HFOptionScorer:
        """Return a scorer of the same model that shows questions in another prompt.

        Parameters
        ----------
        prompt : PromptTemplate

        Raises
        ------
        ScoringError
            If letters are scored, and `prompt` does not show them.
        """
        twin = copy.copy(self)
        twin._asker = copy.copy(self._asker)
        twin._asker.prompt = _checked_prompt(prompt, twin._asker.score)
        return twin

    def describe(self) -> dict[str, Any]:
        """Return what is needed to repeat the scores, JSON-able.

        A model of a folder is identified by "sha256", over the contents of all files
        that decide the scores; its "path" says only where it was.
        """
        torch, transformers = backend()
        letters: Any = None
        asker = self._asker
        if asker.score == "letter":
            try:
                letters = asker.letter_tokens(asker.chat("?", ["a", "b"]), 2).to_dict()
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
            "score": asker.score,
            "prompt": asker.prompt.to_dict(),
            "letter_variants": asker.variants,
            "letter_tokens": letters,
            "timestamps": self._timestamps,
            **({} if self._prior is None else {"prior": self._prior}),
            **({} if asker.prompt.lists_options else {"shows_options": False}),
            **self._family.describe(),
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
        return f"<{type(self).__name__} {self._named()}, scores {self._asker.score}>"

    def _named(self) -> str:
        name = self._source["path"] or type(self._model).__name__
        dtype = str(self._model.dtype).removeprefix("torch.")
        kind = self._model.config.model_type
        return f"{name!r}: {kind}, {dtype} on {self._model.device}"


def _checked_prompt(prompt: PromptTemplate | str | None, score: Kind) -> PromptTemplate:
    if prompt is None:
        prompt = PromptTemplate() if score == "letter" else TEXT_PROMPT
    prompt = as_prompt(prompt)
    if score == "letter" and not prompt.lists_letters:
        raise ScoringError(
            'score="letter" needs a prompt that shows {options} with their '
            f"{{letter}}; got {prompt.to_dict()}"
        )
    return prompt


def _check_choice(name: str, value: object, allowed: Sequence[object]) -> None:
    if value not in allowed:
        raise ScoringError(f"{name} is {value!r}; it must be one of {list(allowed)}")
