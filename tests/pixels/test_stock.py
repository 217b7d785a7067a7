"""Tensors, bit for bit those of transformers: stored ones, and live where it is."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pixel_cases
import pytest
import stock_processors as stock

from phasefusion.pixels import (
    center_crop,
    family_settings,
    longest_edge_size,
    pad_to_square,
    pixel_settings,
    shortest_edge_size,
    smart_resize,
    tile_grid,
    tile_multiple_size,
    to_pixel_values,
    to_qwen_patches,
    within_size,
)

STORED = json.loads(pixel_cases.EXPECTED.read_text())
IDS = [case.id for case in pixel_cases.CASES]


def test_every_case_is_stored():
    assert sorted(STORED) == sorted(IDS)
    assert len(set(STORED.values())) > len(IDS) * 0.9  # they tell cases apart


@pytest.mark.parametrize("case", pixel_cases.CASES, ids=IDS)
def test_equals_what_the_processor_gave(case):
    assert pixel_cases.digest(case.ours()) == STORED[case.id]


@pytest.mark.parametrize("case", pixel_cases.CASES, ids=IDS)
def test_equals_the_processor(case):
    np.testing.assert_array_equal(case.ours(), case.theirs())


@pytest.mark.parametrize("shape", [(4, 90, 160), (2, 160, 90), (3, 100, 100)])
@pytest.mark.parametrize(
    ("family", "model", "name"),
    [
        ("qwen2_vl", "qwen2_vl", "Qwen2VLVideoProcessor"),
        ("qwen3_vl", "qwen3_vl", "Qwen3VLVideoProcessor"),
        ("internvl", "internvl", "InternVLVideoProcessor"),
        ("llava_onevision", "llava_onevision", "LlavaOnevisionVideoProcessor"),
        ("llava_next_video", "llava_next_video", "LlavaNextVideoVideoProcessor"),
        ("smolvlm", "smolvlm", "SmolVLMVideoProcessor"),
    ],
)
def test_resized_videos_are_within_torchs_rounding(family, model, name, shape):
    settings = family_settings(family)
    processor = stock.video_class(model, name)()
    if family == "smolvlm" and stock.is_version_4():
        pytest.skip("transformers 4 has no lanczos there and says so")
    frames = np.random.default_rng(5).integers(0, 256, (*shape, 3), dtype=np.uint8)
    out = stock.run_video(processor, frames)
    theirs = out.get("pixel_values_videos", out.get("pixel_values"))
    if "video_grid_thw" in out:
        ours, grid_thw = to_qwen_patches(frames, settings)
        assert out["video_grid_thw"].tolist() == [list(grid_thw)]
    else:
        ours, theirs = to_pixel_values(frames, settings), theirs[0]
    assert ours.shape == theirs.shape
    steps = np.abs(ours - theirs) * 255 * max(settings.std)
    assert steps.max() < 3.5
    assert np.mean(steps > 0.5) < 0.04


# Sizes against the rules themselves, at random


def sizes(n, low=9, high=3000, seed=11):
    rng = np.random.default_rng(seed)
    return [tuple(int(v) for v in rng.integers(low, high, 2)) for _ in range(n)]


def stock_rule(*names):
    pytest.importorskip("transformers", reason="compares with transformers")
    for file, name in names:
        found = getattr(stock.module(file), name, None)
        if found is not None:
            return found
    return pytest.skip("this transformers has no such rule that can be imported here")


def test_qwen2_sizes_equal_the_stock_rule():
    rule = stock_rule(
        ("qwen2_vl.image_processing_pil_qwen2_vl", "smart_resize"),
        ("qwen2_vl.image_processing_qwen2_vl", "smart_resize"),
    )
    limits = [(3136, 12845056), (100352, 602112), (200704, 200704), (784, 3136)]
    for i, (height, width) in enumerate(sizes(3000)):
        low, high = limits[i % len(limits)]
        if max(height, width) > 200 * min(height, width):
            continue
        ours = smart_resize(height, width, min_pixels=low, max_pixels=high)
        assert ours == rule(height, width, 28, low, high), (height, width, low, high)


def test_qwen3_sizes_equal_the_stock_rule():
    stock.needs_torchvision()
    rule = stock_rule(("qwen3_vl.video_processing_qwen3_vl", "smart_resize"))
    limits = [(4096, 25165824), (131072, 786432), (200704, 200704)]
    low_side = 32 if stock.is_version_4() else 5  # it refused smaller frames
    for i, (height, width) in enumerate(sizes(3000, low=low_side)):
        low, high = limits[i % len(limits)]
        n_frames = 2 + i % 63
        if max(height, width) > 200 * min(height, width):
            continue
        ours = smart_resize(
            height,
            width,
            multiple_px=32,
            min_pixels=low,
            max_pixels=high,
            n_frames=n_frames,
        )
        theirs = rule(n_frames, height, width, 2, 32, low, high)
        assert ours == theirs, (n_frames, height, width, low, high)


@pytest.mark.parametrize(
    ("family", "model", "name"),
    [
        ("qwen2_vl", "qwen2_vl", "Qwen2VLVideoProcessor"),
        ("qwen3_vl", "qwen3_vl", "Qwen3VLVideoProcessor"),
    ],
)
@pytest.mark.parametrize("tokens", [60, 768, 128000])
def test_capped_sizes_equal_the_stock_processor(family, model, name, tokens):
    cls = stock.video_class(model, name)
    if not hasattr(cls, "cap_pixels_per_frame"):
        pytest.skip("this transformers has no cap")
    config = {
        "size": {"shortest_edge": 4096, "longest_edge": 301056},
        "cap_pixels_per_frame": True,
        "max_video_tokens": tokens,
    }
    processor = cls(**config)
    settings = pixel_settings(config, family=family)
    for n_frames, (height, width) in zip(
        (2, 5, 16, 31), sizes(4, 60, 300), strict=True
    ):
        made = settings.frame_size(height, width, n_frames)
        frames = np.broadcast_to(np.uint8(0), (n_frames, height, width, 3))
        grid = stock.run_video(processor, frames)["video_grid_thw"].tolist()[0]
        side = settings.patch_px
        assert grid == [-(-n_frames // 2), made[0] // side, made[1] // side]


def test_edge_sizes_equal_the_stock_rules():
    image_transforms = pytest.importorskip("transformers.image_transforms")
    image_utils = pytest.importorskip("transformers.image_utils")
    for height, width in sizes(500):
        picture = SimpleNamespace(shape=(3, height, width))
        assert shortest_edge_size(height, width, 224) == tuple(
            image_transforms.get_resize_output_image_size(
                np.broadcast_to(np.uint8(0), picture.shape),
                224,
                default_to_square=False,
                input_data_format="channels_first",
            )
        )
        if min(height, width) > 40:  # otherwise no pixels are left
            stock_size = image_transforms.get_size_with_aspect_ratio(
                (height, width), 224, 300
            )
            assert shortest_edge_size(height, width, 224, 300) == stock_size
            assert within_size(
                height, width, 100, 300
            ) == image_utils.get_image_size_for_max_height_width(
                (height, width), 100, 300
            )


def test_idefics3_sizes_equal_the_stock_processor():
    cls = stock.pil_class("smolvlm", "SmolVLMImageProcessor")
    processor = cls()
    file = cls.__module__.removeprefix("transformers.models.")
    rule = stock.find(file, "get_resize_output_image_size")
    for height, width in sizes(300):
        picture = np.broadcast_to(np.uint8(0), (3, height, width))
        assert longest_edge_size(height, width, 1456) == tuple(rule(picture, 1456))
    for height, width in sizes(20, 50, 200):
        picture = np.zeros((3, height, width), np.uint8)
        if stock.is_version_4():
            made = processor.resize_for_vision_encoder(
                picture, 64, input_data_format="channels_first"
            )
        else:
            made = processor.resize_for_vision_encoder(picture, 64)
        assert tile_multiple_size(height, width, 64) == made.shape[1:]


def test_tile_grids_equal_the_stock_processor():
    cls = stock.pil_class("got_ocr2", "GotOcr2ImageProcessor")
    rule = stock.find(
        cls.__module__.removeprefix("transformers.models."), "get_optimal_tiled_canvas"
    )
    for i, (height, width) in enumerate(sizes(500)):
        tile, most = (448, 300 + i % 200), 2 + i % 11
        columns, rows = rule((height, width), tile, 1, most)
        assert tile_grid(height, width, tile, 1, most) == (rows, columns)


def test_crops_equal_the_stock_processors():
    transforms = pytest.importorskip("transformers.image_transforms")
    rng = np.random.default_rng(3)
    for _ in range(200):
        height, width, *crop = (int(v) for v in rng.integers(1, 12, 4))
        frame = rng.integers(1, 256, (height, width, 3), dtype=np.uint8)
        theirs = transforms.center_crop(
            frame, tuple(crop), input_data_format="channels_last"
        )
        ours = center_crop(frame, tuple(crop), backend="pil")
        np.testing.assert_array_equal(ours, theirs)


def test_squares_equal_the_stock_processor():
    processor = stock.pil_class("llava", "LlavaImageProcessor")()
    for height, width in sizes(50, 1, 40):
        frame = np.full((3, height, width), 200, np.uint8)
        options = {"background_color": (1, 2, 3)}
        if stock.is_version_4():
            options["input_data_format"] = "channels_first"
        theirs = processor.pad_to_square(frame, **options)
        ours = pad_to_square(frame.transpose(1, 2, 0), (1, 2, 3))
        np.testing.assert_array_equal(ours, theirs.transpose(1, 2, 0))
