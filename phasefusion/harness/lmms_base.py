"""An unmodified lmms-eval model, asked for the first step of one phase and order.

The model keeps its own prompt, template, processor and weights. What is put between are
three things, and only while it is asked: the frames that its video reader would have
read, the true times of these frames, and the log-probabilities that its ``generate``
computes before any processor, such as a repetition penalty, has changed them.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion.errors import ScoringError
from phasefusion.frames import resize
from phasefusion.harness.prompts import ShownOptions
from phasefusion.pixels.geometry import smart_resize
from phasefusion.scoring.letters import (
    LetterVariants,
    letter_tokens,
    log_add,
    merge_repeats,
)
from phasefusion.scoring.protocol import OptionScores, check_orders
from phasefusion.scoring.times import frame_times

if TYPE_CHECKING:
    from phasefusion.video import Clip

__all__ = ["BoundModel", "LmmsBase", "PhaseFrames"]

_ARGUMENTS_DROPPED = ("temperature", "top_p", "top_k", "max_length", "min_new_tokens")
#: Ticks a second where a frame's time is not its index over the frame rate.
_CLOCK_HZ = 1000.0
# Of qwen-vl-utils, for a side of 32 or 28 pixels and two frames a group.
_MIN_TOKENS, _MAX_TOKENS, _SEQUENCE = 128, 768, 128000
_GROUP_FRAMES = 2


@dataclass(frozen=True, slots=True, eq=False)
class PhaseFrames:
    """The frames of one phase, in the place of the path of a video.

    Attributes
    ----------
    frames : ndarray, shape (b, H, W, 3), uint8
    metadata : dict or None
        ``fps``, ``frames_indices`` and ``total_num_frames``, such that an index over
        the rate is the frame's time; None leaves times to the model.
    spacing_s : float
        Mean time between frames.
    """

    frames: NDArray[np.uint8]
    metadata: Mapping[str, Any] | None
    spacing_s: float

    @classmethod
    def of(cls, clip: Clip, s: int, timestamps: str) -> PhaseFrames:
        """Take phase `s` of a clip, with the times that a scorer would tell."""
        times = frame_times(clip, s, "frozen" if timestamps == "frozen" else "true")
        if timestamps == "base":
            return cls(clip.frames[s], None, times.spacing_s)
        rate, numbers = times.rate, times.numbers
        shown: list[Any] = [] if numbers is None else numbers.tolist()
        if rate is None or numbers is None:
            rate, shown = _CLOCK_HZ, (times.seconds * _CLOCK_HZ).tolist()
        total = rate * times.spacing_s * len(shown)  # so that their rate is the grid's
        metadata = {"fps": rate, "frames_indices": shown, "total_num_frames": total}
        return cls(clip.frames[s], metadata, times.spacing_s)

    def made_up(self) -> dict[str, Any]:
        """Return the metadata that qwen-vl-utils makes up for a list of frames."""
        n = len(self.frames)
        return {"fps": 2.0, "frames_indices": list(range(n)), "total_num_frames": n}


class LmmsBase:
    """A model of lmms-eval by its name, with its first step within reach.

    Parameters
    ----------
    name : str
        As for ``--model``.
    arguments : mapping
        As for ``--model_args``, and batch size and device.
    timestamps : {"true", "frozen", "base"}
    letter_variants : {"sum", "in-context"}

    Raises
    ------
    ScoringError
        If there is no such chat model, or it is not one on Hugging Face's ``generate``
        with a processor.
    """

    def __init__(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        timestamps: str = "true",
        letter_variants: LetterVariants = "sum",
    ) -> None:
        models: Any = importlib.import_module("lmms_eval.models")
        self.name = name
        self.timestamps = timestamps
        self._variants: LetterVariants = letter_variants
        kind = models.get_model(name)
        if getattr(kind, "is_simple", True):
            raise ScoringError(
                f"base={name}: lmms-eval has it as a simple model only; a chat model "
                "is needed, one that takes messages"
            )
        self.model = kind(**arguments)
        self.network = getattr(self.model, "model", None)
        if not callable(getattr(self.network, "generate", None)):
            raise ScoringError(
                f"base={name}: its model is a {type(self.network).__name__} without "
                "generate; only models that run on Hugging Face's can be wrapped"
            )
        self._processor = self._watch_processor()
        self._modules = [
            sys.modules[c.__module__]
            for c in kind.__mro__
            if c.__module__ in sys.modules
        ]
        self._steps: list[Any] = []
        self._problem: BaseException | None = None

    def _watch_processor(self) -> _Processor:
        for name in ("processor", "_processor"):
            inner = vars(self.model).get(name)
            if inner is not None and hasattr(inner, "tokenizer"):
                watched = _Processor(inner)
                setattr(self.model, name, watched)
                return watched
        raise ScoringError(
            f"base={self.name}: has no processor with a tokenizer to give frames to"
        )

    def first_step(
        self,
        messages: Sequence[Mapping[str, Any]],
        arguments: Sequence[Any],
    ) -> tuple[NDArray[np.float64], str]:
        """Ask once; return log-probabilities of the vocabulary, and the chat text.

        Parameters
        ----------
        messages : sequence of mapping
            With `PhaseFrames` in the place of the video.
        arguments : sequence
            Of the harness's request: context, messages, generation settings, document,
            task and split.

        Raises
        ------
        ScoringError
            If the model does not come as far as a first step.
        """
        instance: Any = importlib.import_module("lmms_eval.api.instance").Instance
        context, _, settings, doc_id, task, split = arguments
        request = instance(
            request_type="generate_until",
            arguments=(
                context,
                lambda doc: copy.deepcopy(list(messages), _keep_frames(messages)),
                copy.deepcopy(settings),
                doc_id,
                task,
                split,
            ),
            idx=0,
            metadata={"task": task, "doc_id": doc_id, "repeats": 1},
        )
        self._steps.clear()
        self._problem, self._processor.text = None, None
        with self._between():
            try:
                self.model.generate_until([request])
            except Exception as error:
                raise self._failed(self._problem or error) from error
        if self._problem is not None:  # some models log what they catch and go on
            raise self._failed(self._problem) from self._problem
        if len(self._steps) != 1 or self._processor.text is None:
            raise ScoringError(
                f"base={self.name}: generated {len(self._steps)} times for one request "
                f"and {'used' if self._processor.text else 'did not use'} its "
                "processor for the prompt; it cannot be wrapped"
            )
        return _log_softmax(self._steps[0]), self._processor.text

    def _failed(self, error: BaseException) -> BaseException:
        if type(error).__name__ == "OutOfMemoryError":
            return error
        text = " ".join(str(error).split())
        return ScoringError(f"base={self.name}: {type(error).__name__}: {text}")

    def letters(
        self, logprobs: NDArray[np.float64], chat: str, n_options: int
    ) -> NDArray[np.float64]:
        """Log-probabilities of the letters as shown, shape (K,)."""
        tokenizer = self._processor.tokenizer

        def encode(text: str) -> list[int]:
            ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
            return ids

        tokens = letter_tokens(encode, chat, n_options, variants=self._variants)
        return log_add(logprobs[np.array(tokens.ids)], axis=0)

    @contextlib.contextmanager
    def _between(self) -> Iterator[None]:
        """Stand between the model and its reader, its processor and its generate."""
        network: Any = self.network
        kept: list[tuple[Any, str, Any]] = []

        def put(where: Any, name: str, value: Any) -> None:
            kept.append((where, name, vars(where).get(name, _ABSENT)))
            setattr(where, name, value)

        put(network, "generate", self._generate(network.generate))
        for module in self._modules:
            own = vars(module)
            if "process_vision_info" in own:
                reader = _vision_reader(own["process_vision_info"])
                put(module, "process_vision_info", reader)
            if "decord" in own:
                put(module, "decord", None)  # would be asked to open the frames
            if callable(own.get("tqdm")):
                put(module, "tqdm", _quiet(own["tqdm"]))
            if callable(own.get("log_metrics")):
                put(module, "log_metrics", lambda *args, **kwargs: None)
        try:
            yield
        finally:
            for where, name, value in reversed(kept):
                if value is _ABSENT:
                    delattr(where, name)
                else:
                    setattr(where, name, value)

    def _generate(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def first_step_only(*args: Any, **kwargs: Any) -> Any:
            for name in _ARGUMENTS_DROPPED:
                kwargs.pop(name, None)
            kwargs |= {
                "max_new_tokens": 1,
                "do_sample": False,
                "num_beams": 1,
                "return_dict_in_generate": True,
                "output_logits": True,  # as they are before any processor
            }
            try:
                made = original(*args, **kwargs)
                if made.logits is None or len(made.logits[0]) != 1:
                    raise ScoringError("its generate returned no logits of one row")
            except Exception as error:
                self._problem = error
                raise
            self._steps.append(made.logits[0][0].detach().float().cpu().numpy())
            return made.sequences

        return first_step_only


@dataclass(frozen=True, slots=True, eq=False)
class BoundModel:
    """A wrapped model bound to one request; a scorer of that question.

    Attributes
    ----------
    base : LmmsBase
    arguments : tuple
        Of the request.
    messages : tuple of mapping
        As the task makes them.
    shown : ShownOptions
        The text of them that has the options.
    """

    base: LmmsBase
    arguments: tuple[Any, ...]
    messages: tuple[Mapping[str, Any], ...]
    shown: ShownOptions
    first: tuple[int, ...]

    def score(
        self,
        clip: Clip,
        question: str,
        options: Sequence[str],
        *,
        orders: ArrayLike | None = None,
    ) -> OptionScores:
        """Ask the model once a phase and order; see `Scorer.score`."""
        table = check_orders(orders, len(options))
        logprobs = np.full((len(clip.frames), *table.shape), np.nan)
        mass = np.full(logprobs.shape[:2], np.nan)
        notes: dict[tuple[int, int], str] = {}
        for s in range(len(clip.frames)):
            missing = np.flatnonzero(clip.missing[s])
            if missing.size:
                why = f"frame {clip.indices[s, missing[0]]} could not be decoded"
                notes |= {(s, m): why for m in range(len(table))}
                continue
            frames = PhaseFrames.of(clip, s, self.base.timestamps)
            for m, order in enumerate(table.tolist()):
                try:
                    letters = self._letters(frames, order)
                except Exception as error:
                    if type(error).__name__ != "OutOfMemoryError":
                        raise
                    notes[s, m] = f"out of memory: {' '.join(str(error).split())}"
                    _free_memory()
                    continue
                logprobs[s, m, order] = letters
                mass[s, m] = np.exp(letters).sum()
        merged = merge_repeats(logprobs, self.first)
        return OptionScores(merged, mass, table, "letter", (), notes)

    def _letters(
        self, frames: PhaseFrames, order: Sequence[int]
    ) -> NDArray[np.float64]:
        messages = with_phase(self.messages, frames, self.shown, order)
        logprobs, chat = self.base.first_step(messages, self.arguments)
        return self.base.letters(logprobs, chat, len(order))


def with_phase(
    messages: Sequence[Mapping[str, Any]],
    frames: PhaseFrames,
    shown: ShownOptions,
    order: Sequence[int],
) -> list[dict[str, Any]]:
    """Put the frames of a phase in the place of the video, and options in an order."""
    before, after = shown.render(), shown.render(order)
    made = []
    for message in messages:
        content: Any = message["content"]
        if not isinstance(content, str):
            content = [_replaced(part, frames, before, after) for part in content]
        made.append({**message, "content": content})
    return made


def _replaced(
    part: Mapping[str, Any], frames: PhaseFrames, before: str, after: str
) -> dict[str, Any]:
    if part.get("type") == "video":
        return {"type": "video", "url": frames}
    if part.get("type") == "text" and part.get("text") == before:
        return {**part, "text": after}
    return dict(part)


_ABSENT = object()


class _Processor:
    """A processor that is given `PhaseFrames`, and remembers the text it was given."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.text: str | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        text: Any = kwargs.get("text", args[1] if len(args) > 1 else None)
        self.text = text[0] if isinstance(text, list | tuple) and text else text
        videos = kwargs.get("videos")
        given = videos if isinstance(videos, list | tuple) else [videos]
        phases = [v for v in given if isinstance(v, PhaseFrames | _Resized)]
        if phases:
            kwargs["videos"] = [_tensor(v) for v in given]
            for name in ("num_frames", "fps", "max_frames", "min_frames"):
                kwargs.pop(name, None)
            kwargs["do_sample_frames"] = False
            first = phases[0]
            metadata = first.source if isinstance(first, _Resized) else first
            kwargs["video_metadata"] = [metadata.metadata or metadata.made_up()]
            if _takes_fps(self._inner):
                kwargs["fps"] = 1.0 / metadata.spacing_s
        return self._inner(*args, **kwargs)


@dataclass(frozen=True, slots=True, eq=False)
class _Resized:
    """Frames at the size that the model's own reader would have given them."""

    source: PhaseFrames
    size: tuple[int, int]


def _tensor(video: Any) -> Any:
    """Frames as a tensor (b, 3, H, W): uint8 as decoded, float32 when resized."""
    if not isinstance(video, PhaseFrames | _Resized):
        return video
    torch: Any = importlib.import_module("torch")
    frames = video.source.frames if isinstance(video, _Resized) else video.frames
    if isinstance(video, _Resized):
        if len(frames) % _GROUP_FRAMES:  # as the reader does
            frames = np.concatenate([frames, frames[-1:]])
        if frames.shape[1:3] != video.size:
            frames = resize(frames, video.size)
    moved = torch.from_numpy(np.ascontiguousarray(frames.transpose(0, 3, 1, 2)))
    return moved.float() if isinstance(video, _Resized) else moved


def _takes_fps(processor: Any) -> bool:
    """Whether seconds between patches come from a rate in the call (transformers 4)."""
    if "Qwen2_5_VL" not in type(processor).__name__:
        return False
    version: str = importlib.import_module("transformers").__version__
    return version.startswith("4.")


def _vision_reader(original: Any) -> Callable[..., Any]:
    """Return what stands for qwen-vl-utils' ``process_vision_info``.

    The size of the frames is the one of its rules; frames of phases are resized to it
    once, by Pillow's bicubic, and it is not asked to read them.
    """
    sequence = getattr(original, "__globals__", {}).get("MODEL_SEQ_LEN", _SEQUENCE)

    def process_vision_info(
        conversations: Any,
        return_video_kwargs: bool = False,
        return_video_metadata: bool = False,
        image_patch_size: int = 14,
        **kwargs: Any,
    ) -> Any:
        lists = conversations if isinstance(conversations[0], list) else [conversations]
        parts = [p for chat in lists for m in chat for p in _parts(m)]
        if any(part.get("type") == "image" for part in parts):
            raise ScoringError(
                "the prompt has pictures besides the video; it cannot be wrapped"
            )
        videos: list[Any] = []
        for part in parts:
            if part.get("type") != "video":
                continue
            frames = part.get("video")
            if not isinstance(frames, PhaseFrames):
                raise ScoringError(f"a video is {frames!r}, not frames of a phase")
            size = _reader_size(part, frames, 2 * image_patch_size, sequence)
            videos.append(_Resized(frames, size))
        found: list[Any] = [
            (v, v.source.metadata or v.source.made_up()) if return_video_metadata else v
            for v in videos
        ]
        result: tuple[Any, ...] = (None, found or None)
        if return_video_kwargs:
            result = (*result, {"do_sample_frames": False})
        return result

    return process_vision_info


def _parts(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    content: Any = message["content"]
    return () if isinstance(content, str) else content


def _reader_size(
    part: Mapping[str, Any], frames: PhaseFrames, side_px: int, sequence: int
) -> tuple[int, int]:
    """Height and width by the rules of qwen-vl-utils for the frames of a video."""
    n_frames = -(-len(frames.frames) // _GROUP_FRAMES) * _GROUP_FRAMES
    area = side_px * side_px
    least = part.get("min_pixels", _MIN_TOKENS * area)
    total = part.get("total_pixels", sequence * area * 0.9)
    cap = max(min(_MAX_TOKENS * area, total / n_frames * 2), int(least * 1.05))
    most = min(part.get("max_pixels", cap), cap)
    height_px, width_px = frames.frames.shape[1:3]
    return smart_resize(
        height_px,
        width_px,
        multiple_px=side_px,
        min_pixels=int(least),
        max_pixels=int(most),
    )


def _quiet(tqdm: Callable[..., Any]) -> Callable[..., Any]:
    def silent(*args: Any, **kwargs: Any) -> Any:
        return tqdm(*args, **(kwargs | {"disable": True}))

    return silent


def _keep_frames(messages: Sequence[Mapping[str, Any]]) -> dict[int, Any]:
    """Memo of a deep copy under which the frames are shared, not copied."""
    frames = [
        part["url"]
        for message in messages
        for part in _parts(message)
        if isinstance(part.get("url"), PhaseFrames)
    ]
    return {id(one): one for one in frames}


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    values = logits.astype(np.float64)
    with np.errstate(invalid="ignore"):
        shifted = values - values.max()
        found: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return found


def _free_memory() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
