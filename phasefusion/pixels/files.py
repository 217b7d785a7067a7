"""Preprocessor files of checkpoints, and the defaults of the classes they name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from phasefusion.errors import FrameError
from phasefusion.frames import Filter
from phasefusion.pixels.geometry import Backend, Size
from phasefusion.pixels.rules import (
    Exact,
    LongestEdge,
    SizeRule,
    TileGrid,
    TileMultiple,
    size_keys,
    size_rule,
)
from phasefusion.pixels.settings import (
    CLIP_MEAN,
    CLIP_STD,
    PatchSettings,
    PlaneSettings,
    Three,
)

Kind: TypeAlias = Literal["video", "image"]

HALF: Three = (0.5, 0.5, 0.5)

# PIL's resampling codes as they stand in preprocessor files.
_FILTERS: dict[int, Filter] = {
    1: "lanczos",
    2: "bilinear",
    3: "bicubic",
    4: "box",
    5: "hamming",
}


@dataclass(frozen=True, slots=True)
class _Class:
    """A processor class of transformers: its family and what a file may leave out."""

    family: str
    kind: Kind
    defaults: Mapping[str, Any]
    int_is_square: bool = True


_CLIP = {"image_mean": CLIP_MEAN, "image_std": CLIP_STD, "resample": 3}
_HALF = {"image_mean": HALF, "image_std": HALF, "resample": 3}
_SHORT_224 = {
    "size": {"shortest_edge": 224},
    "crop_size": {"height": 224, "width": 224},
    "do_center_crop": True,
}
_QWEN = {"patch_size": 14, "merge_size": 2, "temporal_patch_size": 2}
_SMOL = {
    **_HALF,
    "resample": 1,
    "size": {"longest_edge": 4 * 364},
    "max_image_size": {"longest_edge": 364},
}

# Read from transformers 5.24 and 4.57, where these agree.
_CLASSES = {
    "Qwen2VLVideoProcessor": _Class(
        "qwen2_vl",
        "video",
        {
            **_CLIP,
            **_QWEN,
            "size": {"shortest_edge": 128 * 28**2, "longest_edge": 768 * 28**2},
            "max_video_tokens": 128000,
        },
    ),
    "Qwen2VLImageProcessor": _Class(
        "qwen2_vl",
        "image",
        {
            **_CLIP,
            **_QWEN,
            "size": {"shortest_edge": 56**2, "longest_edge": 1280 * 28**2},
        },
    ),
    "Qwen3VLVideoProcessor": _Class(
        "qwen3_vl",
        "video",
        {
            **_HALF,
            **_QWEN,
            "patch_size": 16,
            "size": {"shortest_edge": 128 * 32**2, "longest_edge": 768 * 32**2},
            "max_video_tokens": 768,
        },
    ),
    "InternVLVideoProcessor": _Class(
        "internvl", "video", {**_CLIP, "size": {"height": 384, "width": 384}}
    ),
    "GotOcr2ImageProcessor": _Class(
        "internvl",
        "image",
        {
            **_CLIP,
            "size": {"height": 384, "width": 384},
            "crop_to_patches": False,
            "min_patches": 1,
            "max_patches": 12,
        },
    ),
    "LlavaOnevisionVideoProcessor": _Class(
        "llava_onevision",
        "video",
        {**_CLIP, "size": {"height": 384, "width": 384}},
        int_is_square=False,
    ),
    "LlavaNextVideoVideoProcessor": _Class(
        "llava_next_video", "video", {**_CLIP, **_SHORT_224}, int_is_square=False
    ),
    "LlavaNextVideoImageProcessor": _Class(
        "llava_next_video", "image", {**_CLIP, **_SHORT_224}, int_is_square=False
    ),
    "SmolVLMVideoProcessor": _Class("smolvlm", "video", _SMOL),
    "SmolVLMImageProcessor": _Class(
        "smolvlm", "image", {**_SMOL, "do_image_splitting": True}
    ),
    "Idefics3ImageProcessor": _Class(
        "idefics3", "image", {**_SMOL, "do_image_splitting": True}
    ),
    "CLIPImageProcessor": _Class(
        "clip", "image", {**_CLIP, **_SHORT_224}, int_is_square=False
    ),
    "SiglipImageProcessor": _Class(
        "siglip",
        "image",
        {**_HALF, "size": {"height": 224, "width": 224}},
        int_is_square=False,
    ),
    "LlavaImageProcessor": _Class(
        "llava", "image", {**_CLIP, **_SHORT_224, "do_pad": False}, int_is_square=False
    ),
}
# Names of a model's own, for a class that another model brought.
_SAME_RULES = {"qwen2_5_vl": "qwen2_vl"}
# Picture classes whose file also serves the model's videos when there is no other.
_VIDEO_TWINS = {
    "Qwen2VLImageProcessor": ("Qwen2VLVideoProcessor", "Qwen3VLVideoProcessor"),
    "GotOcr2ImageProcessor": ("InternVLVideoProcessor",),
    "LlavaNextImageProcessor": ("LlavaNextVideoVideoProcessor",),
    "LlavaNextVideoImageProcessor": ("LlavaNextVideoVideoProcessor",),
    "LlavaOnevisionImageProcessor": ("LlavaOnevisionVideoProcessor",),
    "SmolVLMImageProcessor": ("SmolVLMVideoProcessor",),
}


def family_settings(family: str, kind: Kind = "video") -> PatchSettings | PlaneSettings:
    """Return the settings of a family's processor before a checkpoint changes them.

    Parameters
    ----------
    family : str
        "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "internvl", "llava_onevision",
        "llava_next_video" or "smolvlm"; for pictures also "idefics3", "clip",
        "siglip" and "llava".
    kind : {"video", "image"}

    Examples
    --------
    >>> family_settings("qwen3_vl").patch_px
    16
    """
    return pixel_settings({}, family=family, kind=kind)


def pixel_settings(
    config: Mapping[str, Any] | str | Path,
    vision_config: Any = None,
    *,
    family: str | None = None,
    kind: Kind = "video",
    backend: Backend | None = None,
) -> PatchSettings | PlaneSettings:
    """Read the pixel settings of a checkpoint.

    Parameters
    ----------
    config : mapping or path
        The contents of ``video_preprocessor_config.json`` or
        ``preprocessor_config.json``, or the folder that they are in. What the file
        leaves out has the value that the processor class gives it.
    vision_config : object, optional
        ``model.config.vision_config`` of a Qwen-VL model: its patch size, merge size
        and temporal patch size are the defaults, and the file must not contradict
        them.
    family : str, optional
        As for `family_settings`; default: by the class that the file names.
    kind : {"video", "image"}
        Whether frames are treated as the model's videos or as pictures.
    backend : {"torchvision", "pil"}, optional
        Whose arithmetic to follow. Default: "torchvision" for videos, the only one
        that transformers 5 has, and "pil" for pictures.

    Returns
    -------
    PatchSettings or PlaneSettings

    Raises
    ------
    FrameError
        If the file names a class that is not served, asks for a step that is not, or
        contradicts the model or the family.

    Notes
    -----
    A file of Qwen's classes may have ``frame_size``, a height and a width, for a model
    that was trained on frames of one size; it comes before ``size``, whose limits are
    then for processors that do not know it.

    ``crop_to_patches`` is that of the file, where transformers' InternVL *processor*
    sets it for every picture.

    Examples
    --------
    >>> config = {"video_processor_type": "InternVLVideoProcessor", "size": 448}
    >>> pixel_settings(config).resizes
    (Exact(height_px=448, width_px=448),)
    """
    if isinstance(config, str | Path):
        config = find_config(_folder_reader(Path(config)), kind)
    if not isinstance(config, Mapping):
        raise FrameError(
            f"config is {config!r}; it must be the contents of a preprocessor file as "
            "a mapping, or the folder that it is in"
        )
    if kind not in ("video", "image"):
        raise FrameError(f'kind is {kind!r}; it must be "video" or "image"')
    about = _class_of(config, family, kind)
    values = {**about.defaults, **{k: v for k, v in config.items() if v is not None}}
    shared = _shared(values, family or about.family, kind, backend)
    if about.family in ("qwen2_vl", "qwen3_vl"):
        return _patches(values, config, vision_config, about, shared)
    return _planes(values, about, shared)


def find_config(read: Callable[[str], Mapping[str, Any]], kind: Kind) -> dict[str, Any]:
    """Find the settings of one kind among the files of a checkpoint.

    They are a part of ``processor_config.json`` in new checkpoints, and a file of
    their own in older ones; videos fall back on those of pictures, as in
    transformers.

    Parameters
    ----------
    read : callable
        Gives the object in the JSON file of that name, empty when there is none.
    kind : {"video", "image"}

    Returns
    -------
    dict
        Empty when the checkpoint has no such file.
    """
    nested = read("processor_config.json")
    for part in ("video", "image") if kind == "video" else ("image",):
        inner = nested.get(f"{part}_processor")
        if isinstance(inner, Mapping):
            return dict(inner)
        name = "video_preprocessor_config" if part == "video" else "preprocessor_config"
        config = read(f"{name}.json")
        if config:
            return dict(config)
    return {}


def _folder_reader(folder: Path) -> Callable[[str], Mapping[str, Any]]:
    if not folder.is_dir():
        raise FrameError(f"{folder}: there is no such folder of a checkpoint")

    def read(name: str) -> Mapping[str, Any]:
        path = folder / name
        if not path.is_file():
            return {}
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise FrameError(
                f"{path} is not JSON: {error}; copy the file again"
            ) from error
        if not isinstance(content, dict):
            raise FrameError(f"{path} holds {type(content).__name__}; need an object")
        return content

    return read


def _class_of(config: Mapping[str, Any], family: str | None, kind: Kind) -> _Class:
    """Find the processor class whose steps a file describes."""
    named = _class_name(config)
    candidates = [named] if named in _CLASSES else []
    if kind == "video" and named in _VIDEO_TWINS:
        candidates = list(_VIDEO_TWINS[named])
        if str(config.get("processor_class", "")).startswith("Qwen3VL"):
            candidates.remove("Qwen2VLVideoProcessor")
    if named and not candidates:
        raise FrameError(
            f"the preprocessor file is of a {named}, which is not served; served are "
            f"{', '.join(sorted(_CLASSES))}. Where its steps are those of a served "
            "family, leave the name out of the mapping and give family"
        )
    wanted = None if family is None else _SAME_RULES.get(family, family)
    names = candidates or list(_CLASSES)
    if wanted is not None:
        if (wanted, kind) == ("qwen3_vl", "image"):  # by the class of Qwen2-VL
            wanted = "qwen2_vl"
        names = [n for n in names if _CLASSES[n].family == wanted]
    elif not candidates:
        raise FrameError("the preprocessor file names no class; give family")
    if not candidates:
        names = [n for n in names if _CLASSES[n].kind == kind]
    if not names:
        known = sorted({c.family for c in _CLASSES.values()} | set(_SAME_RULES))
        raise FrameError(
            f"family {family!r} has no {kind} settings here, or the preprocessor file "
            f"of a {named or 'processor without a name'} contradicts it; families are "
            f"{', '.join(known)}"
        )
    return _CLASSES[names[0]]


def _class_name(config: Mapping[str, Any]) -> str | None:
    """Return the class that a file names, without the suffix of its backend."""
    keys = ("video_processor_type", "image_processor_type", "feature_extractor_type")
    for key in keys:
        if config.get(key):
            name = re.sub("(Fast|Pil)$", "", str(config[key]))
            name = name.replace("FeatureExtractor", "ImageProcessor")
            return name.replace("Qwen2_5_VL", "Qwen2VL")
    return None


def _shared(
    values: Mapping[str, Any], family: str, kind: Kind, backend: Backend | None
) -> dict[str, Any]:
    """Return what all settings have."""
    code = values.get("resample", 3)
    if code not in _FILTERS:
        raise FrameError(f"resample code {code!r} is not served; served are {_FILTERS}")
    normalised = values.get("do_normalize", True) is not False
    rescaled = values.get("do_rescale", True) is not False
    if backend is None:
        backend = "torchvision" if kind == "video" else "pil"
    return {
        "family": family,
        "mean": _three(values, "image_mean") if normalised else None,
        "std": _three(values, "image_std") if normalised else None,
        "rescale": _number(values, "rescale_factor", 1 / 255) if rescaled else None,
        "filter": _FILTERS[int(code)],
        "first_pass": "horizontal" if backend == "torchvision" else "auto",
        "backend": backend,
    }


def _three(values: Mapping[str, Any], key: str) -> Three:
    value = values.get(key)
    if not isinstance(value, Sequence) or len(value) != 3 or isinstance(value, str):
        raise FrameError(f"{key} is {value!r} in the preprocessor file; need three")
    return float(value[0]), float(value[1]), float(value[2])


def _number(values: Mapping[str, Any], key: str, default: float) -> float:
    value = values.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise FrameError(
            f"{key} is {value!r} in the preprocessor file; need a positive number"
        )
    return float(value)


def _patches(
    values: Mapping[str, Any],
    config: Mapping[str, Any],
    vision_config: Any,
    about: _Class,
    shared: Mapping[str, Any],
) -> PatchSettings:
    """Return the settings of a Qwen-VL class."""
    shape = {
        "patch_size": ("patch_size", "patch_px"),
        "merge_size": ("spatial_merge_size", "merge"),
        "temporal_patch_size": ("temporal_patch_size", "temporal_frames"),
    }
    fields: dict[str, Any] = {}
    for name, (of_model, ours) in shape.items():
        fields[ours] = int(values[name])
        if vision_config is None:
            continue
        fields[ours] = int(getattr(vision_config, of_model))
        if config.get(name, fields[ours]) != fields[ours]:
            raise FrameError(
                f"the preprocessor file says {name} {config[name]}, the model's "
                f"config says {fields[ours]}; one of the two belongs to another model"
            )
    if values.get("do_resize") is False:
        raise FrameError("a preprocessor file with do_resize: false is not served")
    if shared["family"] == "qwen3_vl" and about.kind == "image":
        missing = {"patch_size", "size", "image_mean", "image_std"} - set(config)
        if missing:
            raise FrameError(
                f"Qwen3-VL's file for pictures leaves out {sorted(missing)}; the "
                "class it names has Qwen2-VL's values for them"
            )
    per_clip = about.family == "qwen3_vl"
    fields |= _limits(values, config, per_clip)
    if about.kind == "video" and values.get("cap_pixels_per_frame"):
        fields["video_tokens"] = int(values["max_video_tokens"])
    return PatchSettings(per_clip=per_clip, **fields, **shared)


def _limits(
    values: Mapping[str, Any], config: Mapping[str, Any], per_clip: bool
) -> dict[str, Any]:
    """Size, or the two pixel limits, under any of the names they go by."""
    # What a model was trained with where it sees all frames in one size; the processors
    # of Qwen know limits alone, and refuse a height and a width beside them.
    given = config.get("frame_size") or values["size"]
    size = size_keys(given, int_is_square=True)
    if size.get("height") and size.get("width"):
        return {"size": (size["height"], size["width"])}
    limits = {}
    for ours, edge in (
        ("min_pixels", "shortest_edge"),
        ("max_pixels", "longest_edge"),
    ):
        if per_clip and config.get(ours) is not None:
            raise FrameError(
                f"{ours} in a preprocessor file of Qwen3-VL has no effect in "
                "transformers; give its size as shortest_edge and longest_edge"
            )
        value = config.get(ours) or size.get(ours) or size.get(edge)
        if not value:
            raise FrameError(
                f"size {values['size']!r} of the preprocessor file has no {edge}"
            )
        limits[ours] = int(value)
    return limits


def _planes(
    values: Mapping[str, Any], about: _Class, shared: Mapping[str, Any]
) -> PlaneSettings:
    """Return the settings of any other class."""
    resizes: tuple[SizeRule, ...] = ()
    fields: dict[str, Any] = {}
    resized = values.get("do_resize", True) is not False
    if about.family in ("smolvlm", "idefics3"):
        resizes, fields = _idefics(values, about.kind)
        if not resized:
            raise FrameError("a preprocessor file with do_resize: false is not served")
    elif about.family == "internvl" and about.kind == "image" and _has_tiles(values):
        rule = size_rule(values["size"], int_is_square=about.int_is_square)
        if not isinstance(rule, Exact):
            raise FrameError(f"size {values['size']!r}: tiles need height and width")
        tile = (rule.height_px, rule.width_px)
        counts = int(values["min_patches"]), int(values["max_patches"])
        resizes = (TileGrid(tile, *counts),)
        fields = {"tile": tile, "overview": "given"}
    elif resized:
        square = values.get("default_to_square", about.int_is_square)
        resizes = (size_rule(values["size"], int_is_square=bool(square)),)
    if about.family == "llava" and values.get("do_pad"):
        mean = shared["mean"] or (0.0, 0.0, 0.0)
        fields["square"] = tuple(int(255 * value) for value in mean)
    elif about.kind == "image" and values.get("do_pad") and not fields.get("tile"):
        if about.family not in ("smolvlm", "idefics3"):
            raise FrameError("a preprocessor file with do_pad: true is not served")
    crops = about.family not in ("smolvlm", "idefics3") and not (
        about.family == "internvl" and about.kind == "image"
    )
    crop = _crop(values) if crops else None
    return PlaneSettings(resizes=resizes, crop=crop, **fields, **shared)


def _has_tiles(values: Mapping[str, Any]) -> bool:
    return bool(values.get("crop_to_patches")) and int(values["max_patches"]) > 1


def _idefics(
    values: Mapping[str, Any], kind: Kind
) -> tuple[tuple[SizeRule, ...], dict[str, Any]]:
    """Two resizes; pictures may then be split, videos never are."""
    size = values["size"]
    tile_px = size_keys(values["max_image_size"], int_is_square=False)["longest_edge"]
    keys = size_keys(size, int_is_square=False)
    if set(keys) == {"longest_edge"}:
        first: SizeRule = LongestEdge(keys["longest_edge"])
    else:
        first = size_rule(size, int_is_square=False)
        if not isinstance(first, Exact):
            raise FrameError(
                f"size {size!r}: this family takes longest_edge, or height and width"
            )
    tile: Size = (tile_px, tile_px)
    if kind == "image" and values.get("do_image_splitting"):
        rules = (first, TileMultiple(tile_px))
        return rules, {"tile": tile, "overview": "resized"}
    return (first, Exact(*tile)), {}


def _crop(values: Mapping[str, Any]) -> Size | None:
    if not values.get("do_center_crop"):
        return None
    size = size_keys(values.get("crop_size"), int_is_square=True)
    if set(size) != {"height", "width"}:
        raise FrameError(
            f"crop_size is {values.get('crop_size')!r} in the preprocessor file; need "
            "height and width"
        )
    return size["height"], size["width"]
