"""Frames to the patch layout of the Qwen-VL vision towers, without torchvision."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion.errors import FrameError, ScoringError
from phasefusion.frames import Filter

# PIL's resampling codes as they stand in preprocessor files.
_FILTERS: dict[int, Filter] = {
    1: "lanczos",
    2: "bilinear",
    3: "bicubic",
    4: "box",
    5: "hamming",
}
_MAX_ASPECT = 200


@dataclass(frozen=True, slots=True)
class PixelSettings:
    """How frames become the pixels that a checkpoint was trained on.

    Parameters
    ----------
    patch_px, merge, temporal_frames : int
        Patch side in pixels, patches merged per side into one token, and frames in
        one patch.
    mean, std : tuple of float
        Normalisation of the three channels, on the scale 0..1.
    size : (int, int), optional
        Fixed (height, width); otherwise `fit_size` chooses within the limits.
    min_pixels, max_pixels : int
        Limits on height times width of one frame.
    filter : str
        Resampling filter.
    """

    patch_px: int = 14
    merge: int = 2
    temporal_frames: int = 2
    mean: tuple[float, float, float] = (0.48145466, 0.4578275, 0.40821073)
    std: tuple[float, float, float] = (0.26862954, 0.26130258, 0.27577711)
    size: tuple[int, int] | None = None
    min_pixels: int = 128 * 28 * 28
    max_pixels: int = 768 * 28 * 28
    filter: Filter = "bicubic"

    def __post_init__(self) -> None:
        if self.size is not None:
            height, width = self.size
            step = self.multiple_px
            if min(height, width) < step or height % step or width % step:
                raise ScoringError(
                    f"frame size {self.size} (height, width): both must be multiples "
                    f"of {step} (patch {self.patch_px} x merge {self.merge})"
                )
        if not 0 < self.min_pixels <= self.max_pixels:
            raise ScoringError(
                f"min_pixels {self.min_pixels} and max_pixels {self.max_pixels}: "
                "need 0 < min_pixels <= max_pixels"
            )

    @property
    def multiple_px(self) -> int:
        """What height and width must be a multiple of."""
        return self.patch_px * self.merge

    def frame_size(self, height_px: int, width_px: int) -> tuple[int, int]:
        """Return the (height, width) that frames of the given size are resized to."""
        if self.size is not None:
            return self.size
        return fit_size(
            height_px,
            width_px,
            multiple_px=self.multiple_px,
            min_pixels=self.min_pixels,
            max_pixels=self.max_pixels,
        )

    def with_limits(
        self,
        *,
        size: Sequence[int] | None = None,
        min_pixels: int | None = None,
        max_pixels: int | None = None,
    ) -> PixelSettings:
        """Return the settings with the user's size or pixel limits in their place."""
        if size is not None and (min_pixels is not None or max_pixels is not None):
            raise ScoringError(
                "size fixes the frame size; it cannot be combined with pixel limits"
            )
        if size is not None:
            if len(size) != 2:
                raise ScoringError(f"size is {size!r}; it must be (height, width)")
            return replace(self, size=(int(size[0]), int(size[1])))
        if min_pixels is None and max_pixels is None:
            return self
        low, top = self.min_pixels, self.max_pixels
        if min_pixels is not None:  # a limit that was not asked for makes way
            low, top = int(min_pixels), max(int(min_pixels), top)
        if max_pixels is not None:
            top = int(max_pixels)
            low = min(low, top) if min_pixels is None else low
        return replace(self, size=None, min_pixels=low, max_pixels=top)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON-able fields."""
        return {
            "patch_px": self.patch_px,
            "merge": self.merge,
            "temporal_frames": self.temporal_frames,
            "mean": list(self.mean),
            "std": list(self.std),
            "size": None if self.size is None else list(self.size),
            "min_pixels": self.min_pixels,
            "max_pixels": self.max_pixels,
            "filter": self.filter,
        }


def pixel_settings(config: Mapping[str, Any], vision_config: Any) -> PixelSettings:
    """Read settings from a checkpoint's preprocessor file and its vision config.

    Parameters
    ----------
    config : mapping
        The contents of ``video_preprocessor_config.json`` or
        ``preprocessor_config.json``; may be empty.
    vision_config : object
        ``model.config.vision_config``: patch size, merge size, temporal patch size.

    Returns
    -------
    PixelSettings

    Raises
    ------
    ScoringError
        If the file contradicts the model or asks for a step that is not offered.
    """
    shape = {
        "patch_size": int(vision_config.patch_size),
        "merge_size": int(vision_config.spatial_merge_size),
        "temporal_patch_size": int(vision_config.temporal_patch_size),
    }
    for name, value in shape.items():
        if config.get(name, value) != value:
            raise ScoringError(
                f"the preprocessor file says {name} {config[name]}, the model's "
                f"config says {value}; one of the two belongs to another model"
            )
    for step in ("do_resize", "do_rescale"):
        if config.get(step) is False:
            raise ScoringError(f"a preprocessor file with {step}: false is not served")
    if not math.isclose(config.get("rescale_factor", 1 / 255), 1 / 255, rel_tol=1e-6):
        raise ScoringError(
            f"rescale_factor {config['rescale_factor']} is not served, only 1/255"
        )
    settings = PixelSettings(
        patch_px=shape["patch_size"],
        merge=shape["merge_size"],
        temporal_frames=shape["temporal_patch_size"],
    )
    if config.get("do_normalize") is False:
        settings = replace(settings, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    else:
        settings = replace(
            settings,
            mean=_three(config, "image_mean", settings.mean),
            std=_three(config, "image_std", settings.std),
        )
    code = config.get("resample")
    if code is not None:
        if int(code) not in _FILTERS:
            raise ScoringError(
                f"resample code {code!r} is not served; served are {_FILTERS}"
            )
        settings = replace(settings, filter=_FILTERS[int(code)])
    return replace(settings, **_limits(config))


def _three(
    config: Mapping[str, Any], key: str, default: tuple[float, float, float]
) -> tuple[float, float, float]:
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, Sequence) or len(value) != 3:
        raise ScoringError(f"{key} is {value!r} in the preprocessor file; need three")
    return float(value[0]), float(value[1]), float(value[2])


def _limits(config: Mapping[str, Any]) -> dict[str, Any]:
    """Size, or the two pixel limits, under any of the names they go by."""
    size = dict(config.get("size") or {})
    if size.get("height") and size.get("width"):
        return {"size": (int(size["height"]), int(size["width"]))}
    limits = {}
    for ours, edge in (
        ("min_pixels", "shortest_edge"),
        ("max_pixels", "longest_edge"),
    ):
        value = config.get(ours) or size.get(ours) or size.get(edge)
        if value:
            limits[ours] = int(value)
    return limits


def fit_size(
    height_px: int,
    width_px: int,
    *,
    multiple_px: int,
    min_pixels: int,
    max_pixels: int,
) -> tuple[int, int]:
    """Choose the size at which a Qwen-VL model sees a frame.

    Both sides become the nearest multiple of `multiple_px` (halves to even). When the
    area then leaves the limits, the sides of the *given* frame are scaled by one
    factor so that the area meets the limit, and rounded down to the multiple for the
    upper limit and up for the lower. This is the rule of the models' own
    preprocessing, so sizes agree with it exactly.

    Parameters
    ----------
    height_px, width_px : int
        The frame as decoded.
    multiple_px : int
        Patch side times merge size.
    min_pixels, max_pixels : int
        Limits on the area.

    Returns
    -------
    size : (int, int)
        Height and width in pixels.

    Raises
    ------
    FrameError
        If a side is not positive or one is more than 200 times the other.

    Examples
    --------
    >>> fit_size(720, 1280, multiple_px=28, min_pixels=3136, max_pixels=602112)
    (560, 1008)
    """
    short, long = sorted((height_px, width_px))
    if short < 1 or long > _MAX_ASPECT * short:
        raise FrameError(
            f"a frame of {height_px} x {width_px} px cannot be resized for this model: "
            f"sides must be positive and at most {_MAX_ASPECT} to 1"
        )
    sides = (height_px, width_px)
    fitted = [round(side / multiple_px) * multiple_px for side in sides]
    area = fitted[0] * fitted[1]
    if area > max_pixels:
        shrink = math.sqrt(height_px * width_px / max_pixels)
        fitted = [
            max(1, math.floor(side / shrink / multiple_px)) * multiple_px
            for side in sides
        ]
    elif area < min_pixels:
        grow = math.sqrt(min_pixels / (height_px * width_px))
        fitted = [math.ceil(side * grow / multiple_px) * multiple_px for side in sides]
    return max(fitted[0], multiple_px), max(fitted[1], multiple_px)


def patch_layout(
    frames: NDArray[np.float32], settings: PixelSettings
) -> tuple[NDArray[np.float32], tuple[int, int, int], int]:
    """Cut normalised frames into the rows that a Qwen-VL vision tower reads.

    A row is one patch over `temporal_frames` frames, its values in the order channel,
    frame, line, column. Rows run over time, then over blocks of merge x merge patches,
    then inside the block, so that the patches of one token are neighbours. When the
    frames do not fill the last temporal patch, the last frame is repeated.

    Parameters
    ----------
    frames : ndarray, shape (b, 3, h, w), float32
        One phase; h and w multiples of ``settings.multiple_px``.
    settings : PixelSettings

    Returns
    -------
    rows : ndarray, shape (t * gh * gw, 3 * temporal_frames * patch_px**2), float32
    grid_thw : (int, int, int)
        Temporal patches, and patches down and across (before merging).
    n_repeated : int
        How many copies of the last frame were added.
    """
    n_frames, channels, height, width = frames.shape
    step = settings.multiple_px
    if n_frames < 1 or height % step or width % step:
        raise FrameError(
            f"frames of shape {frames.shape} cannot be cut into patches: need at "
            f"least one frame and sides that are multiples of {step}"
        )
    n_repeated = -n_frames % settings.temporal_frames
    if n_repeated:
        frames = np.concatenate([frames, np.repeat(frames[-1:], n_repeated, axis=0)])
    side, merge, depth = settings.patch_px, settings.merge, settings.temporal_frames
    t, gh, gw = len(frames) // depth, height // side, width // side
    blocks = frames.reshape(
        t, depth, channels, gh // merge, merge, side, gw // merge, merge, side
    )
    rows = blocks.transpose(0, 3, 6, 4, 7, 2, 1, 5, 8).reshape(
        t * gh * gw, channels * depth * side * side
    )
    return np.ascontiguousarray(rows), (t, gh, gw), n_repeated
