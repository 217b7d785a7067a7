"""Any other model: frames go through its own processor, as a video or as pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from phasefusion.errors import ScoringError
from phasefusion.pixels.geometry import Size
from phasefusion.scoring.families.base import Encode, Family, Shown, Turns
from phasefusion.scoring.rows import VisualInputs
from phasefusion.scoring.source import not_served, one_line
from phasefusion.scoring.times import FrameTimes

FramesAs = Literal["video", "images"]

_TOKENS = (
    "video_token_id",
    "video_token_index",
    "image_token_id",
    "image_token_index",
)


@dataclass(frozen=True, slots=True, eq=False)
class _Processed(Shown):
    """Frames that a processor has put into one prompt.

    Parameters
    ----------
    frames, times
        To do it again for another prompt.
    chat : str
        The prompt.
    whole : ndarray, int64
        Its tokens, those of the frames among them.
    """

    frames: NDArray[np.uint8] = None  # type: ignore[assignment]
    times: FrameTimes = None  # type: ignore[assignment]
    chat: str = ""
    whole: NDArray[np.int64] = None  # type: ignore[assignment]


class ThroughProcessor(Family):
    """A model whose processor makes pixels, text and tokens of the frames.

    Parameters
    ----------
    model : transformers.PreTrainedModel
    processor : transformers.ProcessorMixin
    frames_as : {"video", "images"}, optional
        What the processor is given; by default a video where it has a video processor.
    """

    shows_by_chat = True

    def __init__(
        self, model: Any, processor: Any, frames_as: FramesAs | None = None
    ) -> None:
        super().__init__(model, getattr(processor, "tokenizer", None))
        self.name = str(getattr(model.config, "model_type", type(model).__name__))
        self.processor = processor
        has_video = getattr(processor, "video_processor", None) is not None
        has_image = getattr(processor, "image_processor", None) is not None
        self.frames_as: FramesAs = frames_as or ("video" if has_video else "images")
        if not (has_video if self.frames_as == "video" else has_image):
            raise ScoringError(
                f"the {type(processor).__name__} has no "
                f"{self.frames_as.removesuffix('s')} processor, so frames cannot go "
                f'through it as {self.frames_as!r}; give frames_as="'
                f'{"images" if has_image else "video"}"'
            )
        singular = self.frames_as.removesuffix("s")
        self._written = self._texts(f"{singular}_token", "boi_token", f"<{singular}>")
        self.placeholder = self._written[0]
        self.visual_token, self.visual_token_id = self.placeholder, -1
        # Whether prompts can be put together from parts, once a prompt has shown it.
        self._in_parts: bool | None = None

    def content(self, n_frames: int) -> list[dict[str, Any]]:
        """Return the parts of the user's turn that stand for the frames."""
        if self.frames_as == "video":
            return [{"type": "video"}]
        return [{"type": "image"} for _ in range(n_frames)]

    def _texts(self, *names: str) -> tuple[str, ...]:
        """Return what the processor calls by these names; those in <> are texts."""
        found = (n if n[0] == "<" else getattr(self.processor, n, None) for n in names)
        return tuple(dict.fromkeys(str(token) for token in found if token))

    def n_placeholders(self, chat: str) -> int:
        """Count the places of a chat where frames go, by any text for them."""
        return max(chat.count(text) for text in self._written)

    def n_wanted(self, n_frames: int) -> int:
        """Return how many places for frames a chat must have."""
        return 1 if self.frames_as == "video" else n_frames

    def render(self, turns: Turns) -> str:
        """Write turns as the model's chat, up to the answer."""
        try:
            chat: str = self.processor.apply_chat_template(
                turns,
                chat_template=self.template,
                tokenize=False,
                add_generation_prompt=True,
            )
        except Exception as error:
            raise ScoringError(
                f"the chat template of the {type(self.processor).__name__} cannot "
                f"write the prompt ({one_line(error)})"
            ) from error
        return chat

    def show(
        self,
        frames: NDArray[Any],
        times: FrameTimes,
        *,
        size: Size | None,
        chat: str,
    ) -> Shown:
        """Let the processor put the frames into a prompt."""
        if frames.dtype != np.uint8:
            raise ScoringError(
                f"frames are {frames.dtype}; a processor takes them as decoded, uint8"
            )
        out = self._process(frames, times, chat)
        whole = out.pop("input_ids")[0].astype(np.int64)
        mask = out.pop("attention_mask", np.ones((1, len(whole))))
        if not mask.all():
            raise ScoringError(
                f"the {type(self.processor).__name__} filled a single prompt up; set "
                "its padding to False"
            )
        kinds = {
            name: _kinds(name, out.pop(name)[0], whole)
            for name in list(out)
            if out[name].shape == (1, len(whole))
        }
        token_id = self._token_id(whole)
        return _Processed(
            VisualInputs(out, token_id, kinds, in_its_precision=True),
            self.placeholder,
            (int((whole == token_id).sum()),),
            frames=frames,
            times=times,
            chat=chat,
            whole=whole,
        )

    def token_ids(self, encode: Encode, chat: str, shown: Shown) -> NDArray[np.int64]:
        """Return the tokens of a prompt with its frames.

        A processor would go through all pixels again for each prompt. What it puts in
        the place of the frames is taken from the first prompt instead, where another
        begins with the same tokens; at the first other prompt it is seen whether that
        gives what the processor gives.
        """
        assert isinstance(shown, _Processed)
        if chat == shown.chat:
            return shown.whole
        ids = None
        if self._in_parts is not False:
            ids = _put_together(encode(shown.chat), shown.whole, encode(chat))
        if ids is not None and self._in_parts:
            return ids
        out = self._process(shown.frames, shown.times, chat)
        whole: NDArray[np.int64] = out["input_ids"][0].astype(np.int64)
        if ids is not None:
            self._in_parts = np.array_equal(ids, whole)
        return whole

    def _process(
        self, frames: NDArray[np.uint8], times: FrameTimes, chat: str
    ) -> dict[str, NDArray[Any]]:
        """Return what the processor gives for one prompt, as arrays."""
        inputs: dict[str, Any] = {"text": [chat], "return_tensors": "pt"}
        bos = getattr(self.tokenizer, "bos_token", None)
        if bos and chat.startswith(bos):
            inputs["add_special_tokens"] = False
        if self.frames_as == "video":
            inputs |= _as_video(frames, times)
        else:
            inputs |= _as_images(frames)
        try:
            out = self.processor(**inputs)
        except Exception as error:
            raise ScoringError(
                f"the {type(self.processor).__name__} cannot take {len(frames)} frames "
                f"as {self.frames_as} ({one_line(error)})"
            ) from error
        arrays: dict[str, NDArray[Any]] = {}
        for name, value in out.items():
            if not hasattr(value, "numpy"):
                raise ScoringError(
                    f"the {type(self.processor).__name__} gives {name} as a "
                    f"{type(value).__name__}, not as a tensor; the model needs a "
                    "scorer of its own"
                )
            arrays[name] = value.numpy()
        return arrays

    def _token_id(self, whole: NDArray[np.int64]) -> int:
        """Return the token that frames took the place of."""
        known = [getattr(self.model.config, name, None) for name in _TOKENS]
        known += [getattr(self.processor, name, None) for name in _TOKENS]
        counts = {int(i): int((whole == i).sum()) for i in known if i is not None}
        best = max(counts, key=lambda i: counts[i], default=-1)
        if not counts.get(best):
            raise ScoringError(
                f"the prompt of the {type(self.processor).__name__} holds none of the "
                f"model's tokens for frames {sorted(counts)}; its chat template or "
                "tokenizer is of another model"
            )
        return best

    def reserved(self) -> tuple[str, ...]:
        """Return the texts that have a meaning in a prompt."""
        return self._texts("image_token", "video_token", "boi_token", *self._written)

    def describe(self) -> dict[str, Any]:
        """Return what is needed to show frames the same way again, JSON-able."""
        part = f"{self.frames_as.removesuffix('s')}_processor"
        inner = getattr(self.processor, part)
        return {
            "family": self.name,
            "frames_as": self.frames_as,
            "processor": type(self.processor).__name__,
            "pixels": json.loads(inner.to_json_string()),
            "pixel_frames": None,
        }


def _as_video(frames: NDArray[np.uint8], times: FrameTimes) -> dict[str, Any]:
    """Return what a processor takes for a video that is sampled already."""
    import torch
    import transformers
    from transformers.video_utils import VideoMetadata

    _, height, width, _ = frames.shape
    about = VideoMetadata(**times.metadata(), height=height, width=width)
    planes = np.ascontiguousarray(frames.transpose(0, 3, 1, 2))
    inputs = {
        "videos": [torch.from_numpy(planes)],
        "video_metadata": [about],
        "do_sample_frames": False,
    }
    if transformers.__version__.startswith("4.") and times.spacing_s > 0:
        # There, what a processor tells of the time between frames comes from here, or
        # is two frames a second.
        inputs["fps"] = 1 / times.spacing_s
    return inputs


def _as_images(frames: NDArray[np.uint8]) -> dict[str, Any]:
    from PIL import Image

    return {"images": [[Image.fromarray(frame) for frame in frames]]}


def _kinds(
    name: str, values: NDArray[Any], ids: NDArray[np.int64]
) -> Mapping[int, int]:
    """Return the numbers that tokens other than text have, by token.

    Raises
    ------
    ScoringError
        If one token has several, so that other prompts' cannot be told.
    """
    found: dict[int, int] = {}
    for token in np.unique(ids[values != 0]):
        numbers = np.unique(values[ids == token])
        if numbers.size > 1:
            raise ScoringError(
                f"{name} gives token {token} the numbers {numbers.tolist()} within one "
                "prompt; the model needs a scorer of its own"
            )
        found[int(token)] = int(numbers[0])
    return found


def _put_together(
    plain: list[int], whole: NDArray[np.int64], other: list[int]
) -> NDArray[np.int64] | None:
    """Do to `other` what made `whole` of `plain`; None when they begin differently.

    Examples
    --------
    >>> _put_together([1, 9, 2], np.array([1, 9, 9, 9, 2]), [1, 9, 3, 4])
    array([1, 9, 9, 9, 3, 4])
    >>> _put_together([1, 9, 2], np.array([1, 9, 9, 9, 2]), [3, 9, 2]) is None
    True
    """
    n_most = min(len(plain), len(whole))
    table = np.asarray(plain, dtype=np.int64)
    same = table[:n_most] == whole[:n_most]
    head = n_most if same.all() else int(same.argmin())
    left = n_most - head
    ends = table[len(table) - left :] == whole[len(whole) - left :]
    tail = left if ends.all() else int(ends[::-1].argmin())
    upto = len(plain) - tail
    if list(other[:upto]) != list(plain[:upto]):
        return None
    middle = whole[head : len(whole) - tail]
    rest = np.asarray(other[upto:], dtype=np.int64)
    return np.concatenate([whole[:head], middle, rest])


def through_processor(
    model: Any, processor: Any, frames_as: FramesAs | None
) -> ThroughProcessor:
    """Return the family of a model whose frames go through its processor.

    Raises
    ------
    ScoringError
        If the model takes no frames, or its processor none.
    """
    kind = getattr(model.config, "model_type", None)
    parts = ("video_processor", "image_processor")
    if any(getattr(processor, part, None) is not None for part in parts):
        return ThroughProcessor(model, processor, frames_as)
    if frames_as is None and not hasattr(model.config, "vision_config"):
        raise not_served(type(model).__name__, kind)
    raise ScoringError(
        f"{type(model).__name__}: frames for model type {kind!r} go through its "
        "processor; give a processor with a video or an image processor, as "
        "AutoProcessor loads it"
    )
