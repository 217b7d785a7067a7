"""What a scorer needs from a checkpoint: libraries, tokenizer, pixel settings."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from phasefusion._checks import warn
from phasefusion._install import HUGGING_FACE
from phasefusion.errors import (
    BackendUnavailableError,
    FallbackWarning,
    FrameError,
    PhaseFusionError,
    ScoringError,
)
from phasefusion.pixels import PatchSettings, find_config, pixel_settings
from phasefusion.scoring.source import json_file, one_line


def backend() -> tuple[Any, Any]:
    """Import torch and transformers, or say how to get them."""
    modules = []
    for name in ("torch", "transformers"):
        try:
            modules.append(importlib.import_module(name))
        except ImportError as error:
            raise BackendUnavailableError(
                f"scoring with Hugging Face models needs {name}, which cannot be "
                f"imported ({error}); install it with: {HUGGING_FACE}"
            ) from error
    return modules[0], modules[1]


def torch_dtype(torch: Any, dtype: Any) -> Any:
    """Return the dtype of a name; anything else as it is."""
    if not isinstance(dtype, str) or dtype == "auto":
        return dtype
    found = getattr(torch, dtype.removeprefix("torch."), None)
    if not isinstance(found, torch.dtype):
        raise ScoringError(
            f'dtype {dtype!r} is none of torch; give "auto", "float32", "bfloat16" or '
            '"float16"'
        )
    return found


def usable_device(torch: Any, device: Any) -> Any:
    """Return the device, by default the first CUDA device, if it can be used."""
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except Exception as error:
        raise ScoringError(
            f"device {str(device)!r} cannot be used ({one_line(error)}); give cpu, or "
            "cuda:0 where there is a GPU"
        ) from error
    return device


@contextlib.contextmanager
def loading(source: str, what: str) -> Iterator[None]:
    """Turn any failure of the libraries to load a checkpoint into one line."""
    try:
        yield
    except PhaseFusionError:
        raise
    except Exception as error:
        raise ScoringError(
            f"{source}: the {what} cannot be loaded ({one_line(error)}); check that "
            "its files are whole and that transformers is new enough for them"
        ) from error


def unpack(
    model: Any, processor: Any, tokenizer: Any, pixels: PatchSettings | None
) -> tuple[Any, str, PatchSettings]:
    """Find tokenizer, chat template and pixel settings in what the caller has."""
    config: Mapping[str, Any] = {}
    if processor is not None and hasattr(processor, "tokenizer"):
        tokenizer = processor.tokenizer if tokenizer is None else tokenizer
        video = getattr(processor, "video_processor", None)
        video = getattr(processor, "image_processor", None) if video is None else video
        config = video.to_dict() if video is not None else {}
    elif tokenizer is None:
        tokenizer = processor
    if tokenizer is None or not hasattr(tokenizer, "apply_chat_template"):
        raise ScoringError(
            "a tokenizer or a processor with a tokenizer is needed; got "
            f"{type(processor).__name__} and {type(tokenizer).__name__}"
        )
    template = getattr(tokenizer, "chat_template", None)
    template = template or getattr(processor, "chat_template", None)
    if not template:
        raise ScoringError(
            "the tokenizer has no chat template, so the place of the video in the "
            "prompt is unknown; set tokenizer.chat_template"
        )
    if pixels is None:
        pixels = model_pixels(config, model.config)
    if not isinstance(pixels, PatchSettings):
        raise ScoringError(
            f"pixels is {pixels!r}; this model takes a phasefusion.pixels.PatchSettings"
        )
    return tokenizer, template, pixels


def model_pixels(config: Mapping[str, Any], model_config: Any) -> PatchSettings:
    """Return the settings of a preprocessor file for the model's own family."""
    with _as_scoring_error():
        pixels = pixel_settings(
            config, model_config.vision_config, family=model_config.model_type
        )
    assert isinstance(pixels, PatchSettings)  # the scorer serves no other family
    return pixels


def limited(
    pixels: PatchSettings,
    size: Sequence[int] | None,
    min_pixels: int | None,
    max_pixels: int | None,
) -> PatchSettings:
    """Return the settings with what the user wants in their place."""
    with _as_scoring_error():
        pixels = pixels.with_limits(
            size=size, min_pixels=min_pixels, max_pixels=max_pixels
        )
    return pixels


@contextlib.contextmanager
def _as_scoring_error() -> Iterator[None]:
    """Blame the scorer's settings, no frame, for settings that cannot be."""
    try:
        yield
    except FrameError as error:
        raise ScoringError(str(error)) from error


def preprocessor_config(
    source: str, revision: str | None, *, cache_only: bool = False
) -> dict[str, Any]:
    """Return the video settings of a checkpoint, or nothing when it has none.

    They are a part of ``processor_config.json`` in new checkpoints, and a file of
    their own in older ones.
    """
    return find_config(
        lambda name: read_json(source, name, revision, cache_only=cache_only), "video"
    )


def read_json(
    source: str, name: str, revision: str | None, *, cache_only: bool = False
) -> dict[str, Any]:
    """Return a JSON file of a checkpoint, empty when the checkpoint has none."""
    path: Path | None = Path(source) / name
    if not Path(source).is_dir():
        from transformers.utils.hub import cached_file

        found = cached_file(
            source,
            name,
            revision=revision,
            local_files_only=cache_only,
            _raise_exceptions_for_missing_entries=False,
        )
        path = None if found is None else Path(found)
    if path is None or not path.is_file():
        return {}
    return json_file(path)


def warn_defaults(source: str) -> None:
    """Warn that a checkpoint does not say how it wants its pixels."""
    warn(
        f"{source} has no preprocessor file: the Qwen-VL defaults for size, mean and "
        "std are used; give size=(height, width) or pixels=PatchSettings(...)",
        FallbackWarning,
    )
