"""What a scorer needs from a checkpoint: libraries, tokenizer, pixel settings."""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from phasefusion._checks import warn
from phasefusion._install import HUGGING_FACE, remedy
from phasefusion.errors import (
    BackendUnavailableError,
    FallbackWarning,
    FrameError,
    PhaseFusionError,
    ScoringError,
)
from phasefusion.pixels import (
    Exact,
    PatchSettings,
    PlaneSettings,
    find_config,
    pixel_settings,
)
from phasefusion.scoring.source import OWN_FAMILIES, json_file, one_line

Pixels: TypeAlias = PatchSettings | PlaneSettings

#: How transformers says that a library is lacking, and packages of another name.
_LACKING = re.compile(r"requires the (?P<name>[\w-]+) library but it was not found")
_PACKAGES = {"pytorch": "torch", "pil": "pillow"}


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
        if "trust_remote_code" in str(error) or "custom code" in str(error):
            raise ScoringError(
                f"{source}: the {what} runs code that comes with the checkpoint; read "
                "it and allow it with trust_remote_code=True, or take the model's "
                "native form"
            ) from error
        lacking = _LACKING.search(str(error))
        if lacking is not None:
            name = lacking["name"].lower()
            raise BackendUnavailableError(
                f"{source}: the {what} needs {lacking['name']}, which is not "
                f"installed; {remedy(_PACKAGES.get(name, name))}"
            ) from error
        raise ScoringError(
            f"{source}: the {what} cannot be loaded ({one_line(error)}); check that "
            "its files are whole and that transformers is new enough for them"
        ) from error


def check_model(model: Any) -> None:
    """Refuse what has no logits to score.

    Raises
    ------
    ScoringError
    """
    inner = getattr(model, "get_base_model", None)
    inside = inner() if callable(inner) else model
    can_generate = getattr(inside, "can_generate", None)
    if not hasattr(model, "config") or not callable(can_generate):
        raise ScoringError(
            f"the model is a {type(model).__name__}; it must be a model of "
            "transformers, as AutoModelForImageTextToText loads it"
        )
    if not can_generate():
        raise ScoringError(
            f"a {type(inside).__name__} gives no logits of tokens, so that nothing can "
            "be scored; load it with AutoModelForImageTextToText"
        )


def check_loaded(source: str, found: Mapping[str, Any]) -> None:
    """Refuse a model of which some weights were not read but drawn at random.

    Parameters
    ----------
    source : str
    found : mapping
        What ``from_pretrained(..., output_loading_info=True)`` says beside the model.
        Weights that are tied to others, or that a model makes itself, are not in it.

    Raises
    ------
    ScoringError
        Naming the first of them.
    """
    names = sorted(map(str, found.get("missing_keys") or ()))
    # of a weight in another shape the shapes come with the name
    odd = [
        one if isinstance(one, str) else one[0]
        for one in found.get("mismatched_keys") or ()
    ]
    names += sorted(set(map(str, odd)) - set(names))
    if not names:
        return
    unknown = sorted(map(str, found.get("unexpected_keys") or ()))
    others = ""
    if unknown:
        others = f" ({len(unknown)} that it does not know, such as {unknown[0]}, are)"
    raise ScoringError(
        f"{source}: {len(names)} of the model's weights are not in its files, such as "
        f"{names[0]}{others}; they would be random numbers. Copy or "
        "download the files again, or load the architecture that they were saved from"
    )


def check_vocabulary(model: Any, tokenizer: Any) -> None:
    """Refuse a tokenizer with tokens that the model does not know."""
    n_known = len(model.get_input_embeddings().weight)
    if len(tokenizer) > n_known:
        raise ScoringError(
            f"the tokenizer has {len(tokenizer)} tokens and the model {n_known}; "
            "tokenizer and model do not belong together"
        )


def unpack(processor: Any, tokenizer: Any) -> tuple[Any, str | None, Any]:
    """Find tokenizer, chat template and processor in what the caller has.

    The processor is None where a tokenizer was given in its place.
    """
    if processor is not None and hasattr(processor, "tokenizer"):
        tokenizer = processor.tokenizer if tokenizer is None else tokenizer
    else:
        tokenizer = processor if tokenizer is None else tokenizer
        processor = None
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
    return tokenizer, template, processor


def processor_pixels(processor: Any) -> Mapping[str, Any]:
    """Return the video settings of a processor, else its settings for pictures."""
    for part in ("video_processor", "image_processor"):
        inner = getattr(processor, part, None)
        if inner is not None:
            settings: Mapping[str, Any] = inner.to_dict()
            return settings
    return {}


def model_pixels(config: Mapping[str, Any], model_config: Any) -> Pixels:
    """Return the settings of a preprocessor file for the model's own family."""
    family = OWN_FAMILIES[model_config.model_type]
    with _as_scoring_error():
        vision = model_config.vision_config if family.startswith("qwen") else None
        return pixel_settings(config, vision, family=family)


def checked_pixels(pixels: Any, model_config: Any) -> Pixels:
    """Return settings given by the user, if they are of the model's kind."""
    own = model_pixels({}, model_config)
    if not isinstance(pixels, type(own)):
        raise ScoringError(
            f"pixels is {pixels!r}; this model takes a phasefusion.pixels."
            f"{type(own).__name__}"
        )
    return pixels


def limited(
    pixels: Pixels,
    size: Sequence[int] | None,
    min_pixels: int | None,
    max_pixels: int | None,
) -> Pixels:
    """Return the settings with what the user wants in their place."""
    with _as_scoring_error():
        if isinstance(pixels, PatchSettings):
            return pixels.with_limits(
                size=size, min_pixels=min_pixels, max_pixels=max_pixels
            )
        if min_pixels is not None or max_pixels is not None:
            raise FrameError(
                "min_pixels and max_pixels are of the Qwen-VL families; the frames of "
                "this model have one size, which size=(height, width) sets"
            )
        if size is None:
            return pixels
        if len(size) != 2 or min(size) < 1:
            raise FrameError(f"size is {size!r}; it must be (height, width)")
        rule = Exact(int(size[0]), int(size[1]))
        return replace(pixels, resizes=(rule,), crop=None)


@contextlib.contextmanager
def _as_scoring_error() -> Iterator[None]:
    """Blame the scorer's settings, no frame, for settings that cannot be."""
    try:
        yield
    except FrameError as error:
        raise ScoringError(str(error)) from error


def preprocessor_config(source: str, revision: str | None) -> dict[str, Any]:
    """Return the video settings of a checkpoint, or nothing when it has none.

    They are a part of ``processor_config.json`` in new checkpoints, and a file of
    their own in older ones.
    """
    return find_config(lambda name: read_json(source, name, revision), "video")


def read_json(source: str, name: str, revision: str | None) -> dict[str, Any]:
    """Return a JSON file of a checkpoint, empty when the checkpoint has none."""
    path: Path | None = Path(source) / name
    if not Path(source).is_dir():
        from transformers.utils.hub import cached_file

        found = cached_file(
            source,
            name,
            revision=revision,
            _raise_exceptions_for_missing_entries=False,
        )
        path = None if found is None else Path(found)
    if path is None or not path.is_file():
        return {}
    return json_file(path)


def warn_defaults(source: str) -> None:
    """Warn that a checkpoint does not say how it wants its pixels."""
    warn(
        f"{source} has no preprocessor file: the defaults of its family for size, mean "
        "and std are used; give size=(height, width) or pixels=...",
        FallbackWarning,
    )


def load_config(transformers: Any, source: str, **where: Any) -> Any:
    """Load a model's configuration, as any version of transformers has written it.

    5 writes the settings of rotary positions as ``rope_parameters``, which 4 does not
    read: it would take its defaults, for most models in silence.
    """
    config = transformers.AutoConfig.from_pretrained(source, **where)
    if int(transformers.__version__.split(".")[0]) >= 5:
        return config
    text = config.get_text_config()
    rope = getattr(text, "rope_parameters", None)
    if isinstance(rope, Mapping) and getattr(text, "rope_scaling", None) is None:
        rest = {k: v for k, v in rope.items() if k != "rope_theta"}
        text.rope_theta = rope.get("rope_theta", text.rope_theta)
        plain = rest.get("rope_type", "default") == "default" and len(rest) < 2
        text.rope_scaling = None if plain else {**rest, "type": rest["rope_type"]}
    return config


def load_tokenizer(transformers: Any, source: str, **where: Any) -> Any:
    """Load a tokenizer, as any version of transformers has written it.

    What 5 calls TokenizersBackend, and gives its special tokens as a list, is 4's
    PreTrainedTokenizerFast, which wants them by another name.
    """
    try:
        return transformers.AutoTokenizer.from_pretrained(source, **where)
    except ValueError as error:
        if "TokenizersBackend" not in str(error):
            raise
    config = read_json(
        source,
        "tokenizer_config.json",
        where.get("revision"),
    )
    return transformers.PreTrainedTokenizerFast.from_pretrained(
        source,
        additional_special_tokens=config.get("extra_special_tokens") or [],
        extra_special_tokens=config.get("model_specific_special_tokens") or {},
        **where,
    )


def load_own(
    transformers: Any,
    source: tuple[str, str],
    where: dict[str, Any],
    model: Any,
    options: dict[str, Any],
) -> Any:
    """Load the tokenizer of a known family, and its pixel settings into `options`."""
    name, place = source
    with loading(name, "tokenizer"):
        tokenizer = load_tokenizer(transformers, place, **where)
    with loading(name, "preprocessor settings"):
        revision = where["revision"]
        if getattr(tokenizer, "chat_template", None) is None:
            legacy = read_json(place, "chat_template.json", revision)
            tokenizer.chat_template = legacy.get("chat_template")
        if options.get("pixels") is None:
            config = preprocessor_config(place, revision)
            if not config and options.get("size") is None:
                warn_defaults(name)
            options["pixels"] = model_pixels(config, model.config)
    return tokenizer


def own_pixels(
    model: Any,
    processor: Any,
    pixels: Pixels | None,
    wanted: tuple[Sequence[int] | None, int | None, int | None],
) -> Pixels:
    """Return the settings of a known family with the user's limits in their place."""
    if pixels is None:
        pixels = model_pixels(processor_pixels(processor), model.config)
    return limited(checked_pixels(pixels, model.config), *wanted)


def origin(model: Any) -> tuple[dict[str, Any], Path | None]:
    """Return what a model says about where it is from, and its folder if it is one."""
    path = getattr(model.config, "_name_or_path", "") or None
    revision = getattr(model.config, "_commit_hash", None)
    is_local = path is not None and Path(path).is_dir()
    return (
        {"path": path, "revision": revision},
        Path(path).resolve() if path is not None and is_local else None,
    )


def refuse_pixels(*settings: object) -> None:
    """Refuse pixel settings where a processor has its own."""
    if any(setting is not None for setting in settings):
        raise ScoringError(
            "size, min_pixels, max_pixels and pixels are for frames prepared here; "
            "where frames go through the processor, set its own size"
        )
