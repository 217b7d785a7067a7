"""Frames, settings and the stock processors whose output they must give.

`expected.json` beside the tests holds the SHA-256 of what the stock processors gave,
so that equality is checked where transformers or torchvision are missing; it is made
by ``python tests/pixel_cases.py``, which needs both.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import stock_processors as stock

from phasefusion.pixels import (
    PatchSettings,
    pixel_settings,
    to_pixel_values,
    to_qwen_patches,
)

EXPECTED = Path(__file__).parent / "pixels" / "expected.json"


@dataclass(frozen=True)
class Case:
    """One clip through one processor class."""

    family: str
    kind: str  # "video": torchvision; "image": Pillow
    model: str
    name: str
    shape: tuple[int, int, int]  # frames, height, width
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        options = json.dumps(self.config, sort_keys=True)
        return f"{self.name} {self.shape} {options}"

    def frames(self) -> np.ndarray:
        """Bytes that no shortcut survives: noise with black and white areas."""
        n, height, width = self.shape
        rng = np.random.Generator(np.random.PCG64(n * 7919 + height * 101 + width))
        frames = rng.integers(0, 256, (n, height, width, 3), dtype=np.uint8)
        frames[:, : height // 4] = 0
        frames[:, :, : width // 5, 1:] = 255
        return frames

    def ours(self) -> np.ndarray:
        settings = pixel_settings(self.config, family=self.family, kind=self.kind)
        if not isinstance(settings, PatchSettings):
            planes = to_pixel_values(self.frames(), settings)
            return planes.reshape(-1, *planes.shape[-3:])
        if self.kind == "video":
            return to_qwen_patches(self.frames(), settings)[0]
        return np.concatenate(
            [to_qwen_patches(frame[None], settings)[0] for frame in self.frames()]
        )

    def theirs(self) -> np.ndarray:
        frames = self.frames()
        if self.kind == "video":
            processor = stock.video_class(self.model, self.name)(**self.config)
            out = stock.run_video(processor, frames)
            rows = out.get("pixel_values_videos", out.get("pixel_values"))
            return rows[0] if rows.ndim == 5 else rows
        processor = stock.pil_class(self.model, self.name)(**self.config)
        nested = self.model in ("smolvlm", "idefics3", "llava_next_video")
        pictures = [list(frames)] if nested else list(frames)
        out = processor(pictures, return_tensors="np")
        values = out.get("pixel_values", out.get("pixel_values_videos"))
        return np.asarray(values[0] if nested else values)


def digest(values: np.ndarray) -> str:
    assert values.dtype == np.float32
    little = np.ascontiguousarray(values).astype("<f4", copy=False)
    return f"{values.shape} {hashlib.sha256(little.tobytes()).hexdigest()}"


_QWEN2 = {"size": {"shortest_edge": 3136, "longest_edge": 50176}}
_QWEN3 = {"size": {"shortest_edge": 4096, "longest_edge": 200000}}
_SMOL = {"size": {"longest_edge": 300}, "max_image_size": {"longest_edge": 100}}
_SQUARE = {"size": {"longest_edge": 64}, "max_image_size": {"longest_edge": 64}}
_TILES = {"crop_to_patches": True, "size": {"height": 56, "width": 40}}
_SMALL = {"size": {"height": 30, "width": 44}}
_CROP = {
    "size": {"shortest_edge": 40},
    "crop_size": {"height": 37, "width": 32},
}
_TIGHT = {  # a crop larger than the picture, by an odd number of lines
    "do_resize": False,
    "crop_size": {"height": 30, "width": 51},
}
_OTHER = {"image_mean": [0.1, 0.5, 0.9], "image_std": [1.0, 0.2, 0.5]}

PICTURES = [
    Case("qwen2_vl", "image", "qwen2_vl", "Qwen2VLImageProcessor", (1, 360, 640)),
    Case(
        "qwen2_5_vl", "image", "qwen2_vl", "Qwen2VLImageProcessor", (3, 97, 131), _QWEN2
    ),
    Case(
        "qwen3_vl",
        "image",
        "qwen2_vl",
        "Qwen2VLImageProcessor",
        (2, 90, 300),
        {**_QWEN2, "patch_size": 16, "image_mean": [0.5] * 3, "image_std": [0.5] * 3},
    ),
    Case("internvl", "image", "got_ocr2", "GotOcr2ImageProcessor", (2, 97, 131)),
    *(
        Case("internvl", "image", "got_ocr2", "GotOcr2ImageProcessor", shape, _TILES)
        for shape in [(2, 97, 131), (1, 300, 50), (1, 20, 21)]
    ),
    Case(
        "smolvlm",
        "image",
        "smolvlm",
        "SmolVLMImageProcessor",
        (2, 97, 131),
        {**_SMOL, "do_image_splitting": False},
    ),
    *(
        Case("smolvlm", "image", "smolvlm", "SmolVLMImageProcessor", shape, _SMOL)
        for shape in [(2, 97, 131), (1, 200, 61), (1, 88, 88)]
    ),
    Case(
        "idefics3", "image", "idefics3", "Idefics3ImageProcessor", (2, 97, 131), _SMOL
    ),
    Case(  # no more than one tile, so no overview
        "idefics3", "image", "idefics3", "Idefics3ImageProcessor", (1, 97, 131), _SQUARE
    ),
    Case("clip", "image", "clip", "CLIPImageProcessor", (2, 97, 131), _CROP),
    Case("clip", "image", "clip", "CLIPImageProcessor", (2, 29, 40), _TIGHT),
    Case(
        "clip",
        "image",
        "clip",
        "CLIPImageProcessor",
        (1, 131, 97),
        {**_OTHER, "size": 40, "crop_size": 33, "resample": 2, "rescale_factor": 0.01},
    ),
    Case(
        "clip",
        "image",
        "clip",
        "CLIPImageProcessor",
        (1, 131, 97),
        {**_CROP, "do_normalize": False},
    ),
    Case("siglip", "image", "siglip", "SiglipImageProcessor", (1, 97, 131)),
    Case(
        "llava",
        "image",
        "llava",
        "LlavaImageProcessor",
        (2, 97, 130),
        {**_CROP, "do_pad": True},
    ),
    Case(
        "llava_next_video",
        "image",
        "llava_next_video",
        "LlavaNextVideoImageProcessor",
        (3, 97, 131),
        _CROP,
    ),
]

# Of a size that needs no resize, since torch rounds another way than Pillow.
VIDEOS = [
    *(
        Case("qwen2_vl", "video", "qwen2_vl", "Qwen2VLVideoProcessor", shape, _QWEN2)
        for shape in [(4, 56, 84), (5, 84, 56), (1, 56, 56)]
    ),
    *(
        Case("qwen3_vl", "video", "qwen3_vl", "Qwen3VLVideoProcessor", shape, _QWEN3)
        for shape in [(4, 64, 96), (3, 96, 64)]
    ),
    Case(
        "qwen2_5_vl",
        "video",
        "qwen2_vl",
        "Qwen2VLVideoProcessor",
        (2, 56, 84),
        {**_QWEN2, **_OTHER, "rescale_factor": 0.01},
    ),
    Case(
        "qwen2_5_vl",
        "video",
        "qwen2_vl",
        "Qwen2VLVideoProcessor",
        (2, 56, 84),
        {**_QWEN2, "do_normalize": False},
    ),
    Case(
        "qwen2_5_vl",
        "video",
        "qwen2_vl",
        "Qwen2VLVideoProcessor",
        (2, 56, 84),
        {**_QWEN2, "do_rescale": False},
    ),
    Case(
        "internvl", "video", "internvl", "InternVLVideoProcessor", (3, 30, 44), _SMALL
    ),
    Case(
        "llava_onevision",
        "video",
        "llava_onevision",
        "LlavaOnevisionVideoProcessor",
        (3, 30, 44),
        _SMALL,
    ),
    *(
        Case(
            "llava_next_video",
            "video",
            "llava_next_video",
            "LlavaNextVideoVideoProcessor",
            shape,
            config,
        )
        for shape, config in [
            ((3, 40, 57), _CROP),
            ((2, 61, 40), _CROP),
            ((2, 29, 40), _TIGHT),
        ]
    ),
    Case("smolvlm", "video", "smolvlm", "SmolVLMVideoProcessor", (3, 64, 64), _SQUARE),
]

CASES = [*PICTURES, *VIDEOS]


def main() -> None:
    old = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    found = {}
    for case in CASES:
        try:
            found[case.id] = digest(case.theirs())
        except BaseException as reason:  # a skip, where a class is missing
            if type(reason).__name__ != "Skipped":
                raise
            if case.id in old:
                found[case.id] = old[case.id]
            print(f"kept or missing: {case.id}: {reason}")
    EXPECTED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
