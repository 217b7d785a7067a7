"""Families of models: how frames reach each of them."""

from __future__ import annotations

from typing import Any

from phasefusion.scoring.families.base import Family, Shown
from phasefusion.scoring.families.generic import (
    FramesAs,
    ThroughProcessor,
    through_processor,
)
from phasefusion.scoring.families.planes import (
    InternVL,
    LlavaNextVideo,
    LlavaOnevision,
)
from phasefusion.scoring.families.qwen import Qwen3VL, QwenVL
from phasefusion.scoring.families.smolvlm import SmolVLM
from phasefusion.scoring.source import OWN_FAMILIES

__all__ = [
    "Family",
    "FramesAs",
    "Shown",
    "ThroughProcessor",
    "own_family",
    "through_processor",
]

_CLASSES: dict[str, type[Any]] = {
    "internvl": InternVL,
    "llava_next_video": LlavaNextVideo,
    "llava_onevision": LlavaOnevision,
    "qwen2_5_vl": QwenVL,
    "qwen2_vl": QwenVL,
    "qwen3_vl": Qwen3VL,
    "smolvlm": SmolVLM,
}


def own_family(model: Any, tokenizer: Any, pixels: Any) -> Family:
    """Return the family of a model whose type is one of `OWN_FAMILIES`."""
    kind = _CLASSES[OWN_FAMILIES[model.config.model_type]]
    family: Family = kind(model, tokenizer, pixels)
    return family
