"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL: patches over pairs of frames, places in time."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion.errors import ScoringError
from phasefusion.pixels import PatchSettings, to_qwen_patches
from phasefusion.pixels.geometry import Size
from phasefusion.scoring.families.base import (
    Family,
    Shown,
    config_id,
    even_repeats,
    named_token,
    token_of,
)
from phasefusion.scoring.rows import VisualInputs, forward_parameters
from phasefusion.scoring.times import FrameTimes


class QwenVL(Family):
    """Qwen2-VL and Qwen2.5-VL; MiMo-VL is one of the latter.

    The last frame of an odd number is repeated. Qwen2.5-VL places temporal patches by
    the seconds between them.
    """

    pixels: PatchSettings

    def __init__(self, model: Any, tokenizer: Any, pixels: PatchSettings) -> None:
        super().__init__(model, tokenizer)
        self.name = str(model.config.model_type)
        self.pixels = pixels
        self.visual_token_id = config_id(model.config, "video_token_id")
        self.visual_token = token_of(tokenizer, self.visual_token_id)
        self.placeholder = self.visual_token
        self._accepts = forward_parameters(model)
        self._check_kinds()

    def _check_kinds(self) -> None:
        """Refuse a model that places frames by an input it cannot be given.

        Without it transformers 5 places frames as if they were text, in silence.
        """
        index = getattr(getattr(self.model, "model", None), "get_rope_index", None)
        if index is None or "mm_token_type_ids" in self._accepts:
            return
        if "mm_token_type_ids" in inspect.signature(index).parameters:
            raise ScoringError(
                f"{type(self.model).__name__}.forward does not name mm_token_type_ids, "
                "by which this model tells frames from text; give the model itself, "
                "not a wrapper"
            )

    def show(
        self,
        frames: NDArray[Any],
        times: FrameTimes,
        *,
        size: Size | None,
        chat: str,
    ) -> Shown:
        """Cut the frames into patches."""
        pixels = self.pixels
        rows, grid_thw = to_qwen_patches(
            frames,
            pixels,
            size=self._size(frames, size),
            device=self.frames_device,
        )
        arrays: dict[str, NDArray[Any]] = {
            "pixel_values_videos": rows,
            "video_grid_thw": np.array([grid_thw], dtype=np.int64),
        }
        if "second_per_grid_ts" in self._accepts:
            seconds = pixels.temporal_frames * times.spacing_s
            arrays["second_per_grid_ts"] = np.array([seconds], dtype=np.float32)
        kinds = {"mm_token_type_ids": {self.visual_token_id: 2}}
        n_blocks, n_down, n_across = grid_thw
        text, n_tokens = self._layout(
            times, n_blocks, n_down * n_across // pixels.merge**2
        )
        return Shown(
            VisualInputs(arrays, self.visual_token_id, kinds),
            text,
            n_tokens,
            even_repeats(len(frames), pixels.temporal_frames),
        )

    def _layout(
        self, times: FrameTimes, n_blocks: int, n_tokens: int
    ) -> tuple[str, tuple[int, ...]]:
        """Return the text around the tokens and how many of them stand together."""
        return self.visual_token, (n_blocks * n_tokens,)


class Qwen3VL(QwenVL):
    """Qwen3-VL: every pair of frames stands after its time, ``<1.5 seconds>``.

    The time is the mean of the pair's two, to a tenth of a second. transformers 4 puts
    the pairs in the place of the vision tokens that the chat template writes around a
    video, transformers 5 between them; the version that is installed is followed.
    """

    def __init__(self, model: Any, tokenizer: Any, pixels: PatchSettings) -> None:
        super().__init__(model, tokenizer, pixels)
        self._start = named_token(tokenizer, "vision_start_token", "<|vision_start|>")
        self._end = named_token(tokenizer, "vision_end_token", "<|vision_end|>")
        self._keeps_frame = keeps_outer_tokens()

    def _layout(
        self, times: FrameTimes, n_blocks: int, n_tokens: int
    ) -> tuple[str, tuple[int, ...]]:
        block = self._start + self.visual_token + self._end
        seconds = self.pair_times(times)
        assert len(seconds) == n_blocks  # both round the number of frames up
        text = "".join(f"<{second:.1f} seconds>{block}" for second in seconds)
        return text, (n_tokens,) * n_blocks

    def pair_times(self, times: FrameTimes) -> list[float]:
        """Return the time that stands before each temporal patch, in seconds."""
        group = self.pixels.temporal_frames
        known = times.seconds.tolist()
        known += known[-1:] * (-len(known) % group)
        return [
            (known[i] + known[i + group - 1]) / 2 for i in range(0, len(known), group)
        ]

    def expand(self, chat: str, text: str) -> str:
        """Put a text in the place of the frames, with or without what surrounds it."""
        outer = self._start + self.placeholder + self._end
        if outer in chat and not self._keeps_frame:
            return chat.replace(outer, text, 1)
        return super().expand(chat, text)

    def describe(self) -> dict[str, Any]:
        """Return what is needed to show frames the same way again, JSON-able."""
        return {**super().describe(), "outer_vision_tokens": self._keeps_frame}


def keeps_outer_tokens() -> bool:
    """Whether the installed Qwen3-VL processor leaves the outer vision tokens.

    It does since the common base of processors puts texts in place of placeholders.
    """
    from transformers.processing_utils import ProcessorMixin

    return hasattr(ProcessorMixin, "get_text_with_replacements")
