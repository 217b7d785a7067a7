"""What a checkpoint wants its pixels to be: one record a family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion.errors import FrameError
from phasefusion.frames import Filter, FirstPass
from phasefusion.pixels.geometry import Backend, Size, smart_resize
from phasefusion.pixels.rules import Exact, SizeRule, TileGrid, TileMultiple, to_dict

Three = tuple[float, float, float]

CLIP_MEAN: Three = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD: Three = (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True, slots=True, kw_only=True)
class PixelSettings:
    """What every family has: a filter and the way from bytes to floats.

    Parameters
    ----------
    family : str
        Whose rules these are.
    mean, std : (float, float, float) or None
        Normalisation of the three channels, on the scale of the rescaled values; None
        for no normalisation.
    rescale : float or None
        What bytes are multiplied by; None for no rescaling.
    filter : {"bicubic", "bilinear", "lanczos", "hamming", "box"}
        Resampling filter.
    first_pass : {"auto", "horizontal", "vertical"}
        As in `phasefusion.resize`. torchvision begins with the horizontal pass
        whatever the shape, as Pillow did before its version 13.
    backend : {"torchvision", "pil"}
        Whose arithmetic the floats follow, see `value_table`, and whose rule
        `center_crop` does.
    """

    family: str = "generic"
    mean: Three | None = CLIP_MEAN
    std: Three | None = CLIP_STD
    rescale: float | None = 1 / 255
    filter: Filter = "bicubic"
    first_pass: FirstPass = "horizontal"
    backend: Backend = "torchvision"

    def __post_init__(self) -> None:
        if (self.mean is None) != (self.std is None):
            raise FrameError(
                f"mean {self.mean} and std {self.std}: give both or neither"
            )
        if self.mean is None and self.rescale is None:
            raise FrameError(
                "neither rescaling nor normalisation: that leaves bytes, not the "
                "floats that a model takes"
            )
        if self.std is not None and 0 in np.array(self.std, np.float32):
            raise FrameError(f"std is {self.std}: must not be 0")
        if self.backend not in ("torchvision", "pil"):
            raise FrameError(f'backend is {self.backend!r}: "torchvision" or "pil"')

    def value_table(self) -> NDArray[np.float32]:
        """Return the float that each byte becomes, for each channel.

        "pil" processors multiply in float64, round to float32, subtract the mean and
        divide by the std in float32. "torchvision" processors divide mean and std by
        the factor instead, in float32, and apply them to the bytes, which rounds
        differently in the last place.

        Returns
        -------
        table : ndarray, shape (3, 256), float32
            Entry ``[c, v]`` belongs to the value v of channel c.

        Examples
        --------
        >>> settings = PixelSettings(mean=(0.5,) * 3, std=(0.5,) * 3)
        >>> settings.value_table()[0, [0, 255]]
        array([-1.,  1.], dtype=float32)
        """
        values = np.arange(256, dtype=np.float32)
        if self.mean is None or self.std is None:
            assert self.rescale is not None  # both None is refused
            unit = _rescaled(self.rescale, self.backend)
            return np.ascontiguousarray(np.broadcast_to(unit, (3, 256)))
        mean = np.array(self.mean, np.float32)[:, None]
        std = np.array(self.std, np.float32)[:, None]
        if self.rescale is not None and self.backend == "pil":
            values = _rescaled(self.rescale, "pil")
        elif self.rescale is not None:
            factor = np.float32(1.0 / self.rescale)
            mean, std = mean * factor, std * factor
        return np.asarray((values - mean) / std, np.float32)

    def value_formula(self) -> tuple[float, Three, Three]:
        """Return divisor, mean and std of ``(v / divisor - mean) / std``.

        In float32 it gives the entries of `value_table`, or nearly so.
        """
        mean, std = self.mean or (0.0, 0.0, 0.0), self.std or (1.0, 1.0, 1.0)
        if self.rescale is None:
            return 1.0, mean, std
        factor = np.float32(1.0 / self.rescale)
        if self.backend == "pil" or self.mean is None:
            return float(factor), mean, std
        red, green, blue = (float(np.float32(m) * factor) for m in mean)
        spread = [float(np.float32(s) * factor) for s in std]
        return 1.0, (red, green, blue), (spread[0], spread[1], spread[2])

    def _shared(self) -> dict[str, Any]:
        return {
            "family": self.family,
            "mean": None if self.mean is None else list(self.mean),
            "std": None if self.std is None else list(self.std),
            "rescale": self.rescale,
            "filter": self.filter,
            "first_pass": self.first_pass,
            "backend": self.backend,
        }


def _rescaled(factor: float, backend: Backend) -> NDArray[np.float32]:
    if backend == "pil":
        return (np.arange(256, dtype=np.float64) * factor).astype(np.float32)
    return np.arange(256, dtype=np.float32) * np.float32(factor)


@dataclass(frozen=True, slots=True)
class PatchSettings(PixelSettings):
    """How frames become the patch rows of a Qwen-VL vision tower.

    Parameters
    ----------
    patch_px, merge, temporal_frames : int
        Patch side in pixels, patches merged per side into one token, and frames in
        one patch.
    size : (int, int), optional
        Fixed (height, width); otherwise `smart_resize` chooses within the limits.
    min_pixels, max_pixels : int
        Limits on height times width of one frame, or, with `per_clip`, on height times
        width times frames of a clip.
    per_clip : bool, default False
        As Qwen3-VL has it for videos.
    video_tokens : int, optional
        Caps the pixels of a frame as ``cap_pixels_per_frame`` with this
        ``max_video_tokens`` does.
    **shared
        As for `PixelSettings`.
    """

    patch_px: int = 14
    merge: int = 2
    temporal_frames: int = 2
    size: Size | None = None
    min_pixels: int = 128 * 28 * 28
    max_pixels: int = 768 * 28 * 28
    per_clip: bool = False
    video_tokens: int | None = None

    def __post_init__(self) -> None:
        super(PatchSettings, self).__post_init__()
        if min(self.patch_px, self.merge, self.temporal_frames) < 1:
            raise FrameError(
                f"patch {self.patch_px}, merge {self.merge}, temporal frames "
                f"{self.temporal_frames}: all must be at least 1"
            )
        if self.size is not None:
            height, width = self.size
            step = self.multiple_px
            if min(height, width) < step or height % step or width % step:
                raise FrameError(
                    f"frame size {self.size} (height, width): both must be multiples "
                    f"of {step} (patch {self.patch_px} x merge {self.merge})"
                )
        if not 0 < self.min_pixels <= self.max_pixels:
            raise FrameError(
                f"min_pixels {self.min_pixels} and max_pixels {self.max_pixels}: "
                "need 0 < min_pixels <= max_pixels"
            )

    @property
    def multiple_px(self) -> int:
        """What height and width must be a multiple of."""
        return self.patch_px * self.merge

    def frame_size(
        self, height_px: int, width_px: int, n_frames: int | None = None
    ) -> Size:
        """Return the (height, width) that frames of the given size are resized to.

        Parameters
        ----------
        height_px, width_px : int
        n_frames : int, optional
            Needed where the rule depends on it: `per_clip`, `video_tokens`.
        """
        if self.size is not None:
            return self.size
        needs_frames = self.per_clip or self.video_tokens is not None
        if needs_frames and n_frames is None:
            raise FrameError(
                "the frame size of this model depends on the number of frames; give "
                "n_frames"
            )
        return smart_resize(
            height_px,
            width_px,
            multiple_px=self.multiple_px,
            min_pixels=self.min_pixels,
            max_pixels=self._max_pixels(n_frames),
            n_frames=n_frames if self.per_clip else None,
            temporal_frames=self.temporal_frames,
        )

    def _max_pixels(self, n_frames: int | None) -> int:
        """Return the upper limit with the cap on the tokens of a video applied."""
        if self.video_tokens is None or not n_frames:
            return self.max_pixels
        floor = int(self.min_pixels * 1.05)
        token_px = self.multiple_px**2
        if self.per_clip:
            share = self.max_pixels // n_frames
            return max(min(self.video_tokens * token_px, share), floor) * n_frames
        total = int(self.video_tokens * token_px * 0.9)
        share = total * self.temporal_frames // n_frames
        return max(min(self.max_pixels, share), floor)

    def with_limits(
        self,
        *,
        size: Sequence[int] | None = None,
        min_pixels: int | None = None,
        max_pixels: int | None = None,
    ) -> PatchSettings:
        """Return the settings with the user's size or pixel limits in their place."""
        if size is not None and (min_pixels is not None or max_pixels is not None):
            raise FrameError(
                "size fixes the frame size; it cannot be combined with pixel limits"
            )
        if size is not None:
            if len(size) != 2:
                raise FrameError(f"size is {size!r}; it must be (height, width)")
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
            **self._shared(),
            "patch_px": self.patch_px,
            "merge": self.merge,
            "temporal_frames": self.temporal_frames,
            "size": None if self.size is None else list(self.size),
            "min_pixels": self.min_pixels,
            "max_pixels": self.max_pixels,
            "per_clip": self.per_clip,
            "video_tokens": self.video_tokens,
        }


@dataclass(frozen=True, slots=True)
class PlaneSettings(PixelSettings):
    """How frames become channel-first planes, whole or in tiles.

    The steps, in this order: square, resizes, crop or tiles, normalisation.

    Parameters
    ----------
    resizes : tuple of rules
        One after the other, with bytes in between, as the processors do.
    square : (int, int, int), optional
        Colour with which frames are first padded to a square.
    crop : (int, int), optional
        Height and width of the centre that is kept.
    tile : (int, int), optional
        Height and width of the tiles that the last resize's result is cut into.
    overview : {"given", "resized"}, optional
        With more than one tile, adds the whole frame as a last one of the same size,
        made from the frame as given (InternVL) or as resized (Idefics3, SmolVLM).
    **shared
        As for `PixelSettings`.
    """

    resizes: tuple[SizeRule, ...] = ()
    square: tuple[int, int, int] | None = None
    crop: Size | None = None
    tile: Size | None = None
    overview: str | None = None

    def __post_init__(self) -> None:
        super(PlaneSettings, self).__post_init__()
        if self.tile is None:
            return
        if self.crop is not None:
            raise FrameError("tiles of a crop are not served; give tile or crop")
        last = self.resizes[-1] if self.resizes else None
        tile = getattr(last, "tile", None) or (getattr(last, "tile_px", None),) * 2
        if isinstance(last, Exact):
            tile = last.height_px, last.width_px
        if not isinstance(last, Exact | TileGrid | TileMultiple) or tile != self.tile:
            raise FrameError(
                f"tile {self.tile}: the last resize must be to whole tiles of that "
                f"size, it is {last}"
            )

    def frame_size(
        self, height_px: int, width_px: int, n_frames: int | None = None
    ) -> Size:
        """Return the (height, width) of frames after square and resizes."""
        height, width = height_px, width_px
        if self.square is not None:
            height = width = max(height, width)
        for rule in self.resizes:
            height, width = rule.size(height, width)
        return height, width

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON-able fields."""
        return {
            **self._shared(),
            "resizes": [to_dict(rule) for rule in self.resizes],
            "square": None if self.square is None else list(self.square),
            "crop": None if self.crop is None else list(self.crop),
            "tile": None if self.tile is None else list(self.tile),
            "overview": self.overview,
        }
