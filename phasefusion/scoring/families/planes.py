"""InternVL, LLaVA-OneVision and LLaVA-NeXT-Video: every frame a picture of its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion.errors import ScoringError
from phasefusion.pixels import PlaneSettings, to_pixel_values
from phasefusion.pixels.geometry import Size
from phasefusion.scoring.families.base import (
    Family,
    Shown,
    config_id,
    named_token,
    pair,
    token_of,
)
from phasefusion.scoring.rows import VisualInputs
from phasefusion.scoring.times import FrameTimes


class PlaneFamily(Family):
    """A family whose frames are planes, without tiles."""

    pixels: PlaneSettings
    _parts_only = True

    def __init__(self, model: Any, tokenizer: Any, pixels: PlaneSettings) -> None:
        super().__init__(model, tokenizer)
        self.name = str(model.config.model_type)
        if pixels.tile is not None:
            raise ScoringError(
                f"the pixel settings cut frames into tiles of {pixels.tile}, as "
                f"{self.name} does with pictures; videos are never cut"
            )
        self.pixels = pixels

    def planes(self, frames: NDArray[Any]) -> NDArray[np.float32]:
        """Return the pixels of all frames, shape (b, 3, h, w)."""
        if frames.dtype == np.float32:
            return np.asarray(frames, dtype=np.float32)
        return to_pixel_values(frames, self.pixels, device=self.frames_device)

    def _patches(self, planes: NDArray[np.float32]) -> Size:
        """Return how many patches a frame has down and across.

        Raises
        ------
        ScoringError
            If the frames are no whole number of patches.
        """
        vision = self.model.config.vision_config
        patch = pair(vision.patch_size)
        height, width = planes.shape[-2:]
        if height % patch[0] or width % patch[1]:
            raise ScoringError(
                f"frames of {height} x {width} px are no whole number of patches of "
                f"{patch[0]} x {patch[1]}; the pixel settings are of another model"
            )
        return height // patch[0], width // patch[1]

    def _refuse_size(self, planes: NDArray[np.float32], wanted: Size) -> None:
        height, width = planes.shape[-2:]
        if (height, width) != wanted:
            raise ScoringError(
                f"frames of {height} x {width} px: the model's vision tower takes "
                f"{wanted[0]} x {wanted[1]}; give size=({wanted[0]}, {wanted[1]})"
            )


class InternVL(PlaneFamily):
    """InternVL 2.5, 3 and 3.5 in their native form: ``Frame1: `` before each frame."""

    def __init__(self, model: Any, tokenizer: Any, pixels: PlaneSettings) -> None:
        super().__init__(model, tokenizer, pixels)
        config = model.config
        self.visual_token_id = config_id(config, "image_token_id", "image_token_index")
        self.visual_token = token_of(tokenizer, self.visual_token_id)
        self.placeholder = str(getattr(tokenizer, "video_token", None) or "<video>")
        self._start = named_token(tokenizer, "start_image_token", "<img>")
        self._end = named_token(tokenizer, "end_image_token", "</img>")

    def show(
        self,
        frames: NDArray[Any],
        times: FrameTimes,
        *,
        size: Size | None,
        chat: str,
    ) -> Shown:
        """Make planes of the frames and number them."""
        planes = self.planes(frames)
        n_down, n_across = self._patches(planes)
        ratio = float(self.model.config.downsample_ratio)
        n_tokens = n_down * n_across * ratio**2
        if n_tokens % 1 or (n_down * ratio) % 1 or (n_across * ratio) % 1:
            raise ScoringError(
                f"frames of {n_down} x {n_across} patches cannot be reduced by "
                f"{ratio}; give size as a multiple of the patch size over it"
            )
        block = self._start + self.visual_token + self._end
        text = "\n".join(f"Frame{i + 1}: {block}" for i in range(len(planes)))
        inputs = VisualInputs({"pixel_values": planes}, self.visual_token_id)
        return Shown(inputs, text, (int(n_tokens),) * len(planes))

    def reserved(self) -> tuple[str, ...]:
        """Return the texts that have a meaning in a prompt."""
        return (*super().reserved(), self._start, self._end)


class _Llava(PlaneFamily):
    def __init__(self, model: Any, tokenizer: Any, pixels: PlaneSettings) -> None:
        super().__init__(model, tokenizer, pixels)
        names = ("video_token_id", "video_token_index")
        self.visual_token_id = config_id(model.config, *names)
        self.visual_token = token_of(tokenizer, self.visual_token_id)
        self.placeholder = str(
            getattr(tokenizer, "video_token", None) or self.visual_token
        )

    def _shown(self, planes: NDArray[np.float32], n_tokens: int) -> Shown:
        arrays = {"pixel_values_videos": planes[None]}
        inputs = VisualInputs(arrays, self.visual_token_id)
        return Shown(inputs, self.visual_token, (n_tokens,))

    def reserved(self) -> tuple[str, ...]:
        """Return the texts that have a meaning in a prompt."""
        image = getattr(self.tokenizer, "image_token", None) or "<image>"
        return (*super().reserved(), str(image))


class LlavaOnevision(_Llava):
    """LLaVA-OneVision: patches pooled by two, one more token at the end."""

    def show(
        self,
        frames: NDArray[Any],
        times: FrameTimes,
        *,
        size: Size | None,
        chat: str,
    ) -> Shown:
        """Make planes of the frames."""
        planes = self.planes(frames)
        vision = self.model.config.vision_config
        side = int(vision.image_size)
        self._refuse_size(planes, (side, side))
        n_side = math.ceil(side // int(vision.patch_size) / 2)
        return self._shown(planes, len(planes) * n_side**2 + 1)


class LlavaNextVideo(_Llava):
    """LLaVA-NeXT-Video: patches pooled by two."""

    def show(
        self,
        frames: NDArray[Any],
        times: FrameTimes,
        *,
        size: Size | None,
        chat: str,
    ) -> Shown:
        """Make planes of the frames."""
        planes = self.planes(frames)
        config = self.model.config
        self._refuse_size(planes, (int(config.vision_config.image_size),) * 2)
        n_down, n_across = self._patches(planes)
        stride = int(getattr(config, "spatial_pool_stride", 2))
        if stride != 2 or n_down % 2 or n_across % 2:
            raise ScoringError(
                f"frames of {n_down} x {n_across} patches pooled by {stride}: only "
                "even numbers of patches pooled by 2 have a known number of tokens"
            )
        return self._shown(planes, len(planes) * n_down * n_across // 4)
