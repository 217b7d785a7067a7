"""SmolVLM2: frames as pictures, each after its minute and second, in a framed text."""

from __future__ import annotations

import ast
import datetime
import importlib.util
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion.errors import ScoringError
from phasefusion.pixels import PlaneSettings
from phasefusion.pixels.geometry import Size
from phasefusion.scoring.families.base import (
    Shown,
    config_id,
    named_token,
    pair,
    token_of,
)
from phasefusion.scoring.families.planes import PlaneFamily
from phasefusion.scoring.rows import VisualInputs
from phasefusion.scoring.times import FrameTimes

#: Where transformers has the chat template for videos, and its name there.
_PROCESSOR = "transformers.models.smolvlm.processing_smolvlm"
_TEMPLATE = "DEFAULT_CHAT_TEMPLATE"

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen "
    "fourteen fifteen sixteen seventeen eighteen nineteen"
).split()
_TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()


class SmolVLM(PlaneFamily):
    """SmolVLM2, whose processor has a chat template of its own for videos."""

    def __init__(self, model: Any, tokenizer: Any, pixels: PlaneSettings) -> None:
        super().__init__(model, tokenizer, pixels)
        config = model.config
        self.visual_token_id = config_id(config, "image_token_id")
        self.visual_token = token_of(tokenizer, self.visual_token_id)
        self.placeholder = str(getattr(tokenizer, "video_token", None) or "<video>")
        self._around = named_token(
            tokenizer, "fake_image_token", "<fake_token_around_image>"
        )
        self._whole = named_token(tokenizer, "global_image_token", "<global-img>")
        self.template = _video_template()

    def show(
        self,
        frames: NDArray[Any],
        times: FrameTimes,
        *,
        size: Size | None,
        chat: str,
    ) -> Shown:
        """Make planes of the frames and say when they were."""
        planes = self.planes(frames)
        n_tokens = self._n_tokens(planes)
        picture = self._around + self._whole + self.visual_token + self._around
        seconds = [int(second) for second in times.seconds]
        length_s = seconds[-1] if times.duration_s is None else int(times.duration_s)
        text = (
            f"You are provided the following series of {in_words(len(planes))} frames "
            f"from a {datetime.timedelta(seconds=length_s)} [H:MM:SS] video.\n"
        )
        for second in seconds:
            text += f"\nFrame from {second // 60:02d}:{second % 60:02d}:{picture}"
        n_frames, _, height, width = planes.shape
        mask = np.ones((1, n_frames, height, width), dtype=np.int64)
        inputs = VisualInputs(
            {"pixel_values": planes[None], "pixel_attention_mask": mask},
            self.visual_token_id,
        )
        blank = np.flatnonzero(~planes.reshape(n_frames, -1).any(axis=1))
        problem = ""
        if blank.size:
            problem = (
                f"frame {blank[0]} of the phase is 0 all over after normalisation, "
                "which this model takes for padding and leaves out"
            )
        return Shown(inputs, text + "\n\n", (n_tokens,) * n_frames, problem=problem)

    def _n_tokens(self, planes: NDArray[np.float32]) -> int:
        side, _ = pair(self.model.config.vision_config.image_size)
        self._refuse_size(planes, (side, side))
        n_down, n_across = self._patches(planes)
        scale = int(self.model.config.scale_factor)
        if n_down % scale or n_across % scale:
            raise ScoringError(
                f"frames of {n_down} x {n_across} patches cannot be reduced by {scale}"
            )
        return n_down * n_across // scale**2

    def reserved(self) -> tuple[str, ...]:
        """Return the texts that have a meaning in a prompt."""
        return (*super().reserved(), self._around, self._whole)


def _video_template() -> str | None:
    """Return the chat template that the processor uses for every video.

    It is read off the processor's source, which cannot be imported without torchvision
    in transformers 4.57.
    """
    spec = importlib.util.find_spec(_PROCESSOR)
    loader: Any = None if spec is None else spec.loader
    for node in ast.parse(loader.get_source(_PROCESSOR)).body if loader else ():
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id == _TEMPLATE:
                    return str(node.value.value)
    return None


def in_words(number: int) -> str:
    """Return a number below a million in English words.

    Examples
    --------
    >>> in_words(8), in_words(24), in_words(768)
    ('eight', 'twenty-four', 'seven hundred and sixty-eight')
    >>> in_words(1000), in_words(1001), in_words(1250)
    ('one thousand', 'one thousand and one', 'one thousand, two hundred and fifty')
    """
    if number < 20:
        return _ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return f"{_TENS[tens]}-{_ONES[ones]}" if ones else _TENS[tens]
    if number < 1000:
        hundreds, rest = divmod(number, 100)
        words = f"{_ONES[hundreds]} hundred"
        return f"{words} and {in_words(rest)}" if rest else words
    thousands, rest = divmod(number, 1000)
    words = f"{in_words(thousands)} thousand"
    if not rest:
        return words
    return f"{words}{' and' if rest < 100 else ','} {in_words(rest)}"
