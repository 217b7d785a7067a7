"""Frame sizes and the patch rows, against slow and stock implementations."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from phasefusion.errors import FrameError, ScoringError
from phasefusion.scoring.pixels import (
    PixelSettings,
    fit_size,
    patch_layout,
    pixel_settings,
)

SHAPE = SimpleNamespace(patch_size=4, spatial_merge_size=2, temporal_patch_size=2)


def slow_layout(frames, side, merge, depth):
    """Every row written out from its definition, one patch at a time."""
    frames = list(frames)
    while len(frames) % depth:
        frames.append(frames[-1])
    _, height, width = frames[0].shape
    rows = []
    for t in range(0, len(frames), depth):
        for block_y in range(0, height, side * merge):
            for block_x in range(0, width, side * merge):
                for j in range(merge):
                    for i in range(merge):
                        y, x = block_y + j * side, block_x + i * side
                        row = [
                            frames[t + d][c, y : y + side, x : x + side].ravel()
                            for c in range(3)
                            for d in range(depth)
                        ]
                        rows.append(np.concatenate(row))
    return np.array(rows)


@pytest.mark.parametrize(
    ("n_frames", "size", "side", "merge", "depth"),
    [
        (4, (16, 24), 4, 2, 2),
        (1, (8, 8), 4, 2, 2),
        (5, (8, 24), 4, 2, 2),
        (3, (12, 18), 2, 3, 1),
        (7, (30, 10), 5, 1, 3),
        (2, (28, 56), 14, 2, 2),
    ],
)
def test_layout_equals_the_slow_one(n_frames, size, side, merge, depth):
    rng = np.random.default_rng(n_frames)
    frames = rng.normal(size=(n_frames, 3, *size)).astype(np.float32)
    settings = PixelSettings(patch_px=side, merge=merge, temporal_frames=depth)
    rows, grid_thw, n_repeated = patch_layout(frames, settings)
    np.testing.assert_array_equal(rows, slow_layout(frames, side, merge, depth))
    assert n_repeated == -n_frames % depth
    assert grid_thw == (
        (n_frames + n_repeated) // depth,
        size[0] // side,
        size[1] // side,
    )
    assert rows.dtype == np.float32
    assert rows.flags.c_contiguous


def test_layout_refuses_sides_that_do_not_divide():
    with pytest.raises(FrameError, match="multiples of 28"):
        patch_layout(np.zeros((2, 3, 28, 30), np.float32), PixelSettings())


def stock_video_processor():
    pytest.importorskip("torchvision", reason="the stock video processor needs it")
    return pytest.importorskip(
        "transformers.models.qwen2_vl.video_processing_qwen2_vl"
    ).Qwen2VLVideoProcessor


def test_layout_equals_the_stock_video_processor():
    torch = pytest.importorskip("torch")
    processor = stock_video_processor()(
        size={"shortest_edge": 56 * 84, "longest_edge": 56 * 84},
        do_sample_frames=False,
    )
    frames = np.random.default_rng(0).integers(0, 256, (5, 56, 84, 3), dtype=np.uint8)
    stock = processor(
        [torch.from_numpy(frames).permute(0, 3, 1, 2)], return_tensors="pt"
    )
    check_against_stock(frames, stock, "pixel_values_videos", "video_grid_thw")


def test_layout_equals_the_stock_image_processor():
    module = pytest.importorskip(
        "transformers.models.qwen2_vl.image_processing_pil_qwen2_vl"
    )
    processor = module.Qwen2VLImageProcessorPil(
        size={"shortest_edge": 56 * 84, "longest_edge": 56 * 84}
    )
    frame = np.random.default_rng(1).integers(0, 256, (1, 56, 84, 3), dtype=np.uint8)
    stock = processor(frame[0], return_tensors="np")
    check_against_stock(frame, stock, "pixel_values", "image_grid_thw")


def check_against_stock(frames, stock, pixels, grid):
    from phasefusion.frames import resize_normalize

    settings = PixelSettings()
    ours = resize_normalize(
        frames, frames.shape[1:3], mean=settings.mean, std=settings.std
    )
    rows, grid_thw, _ = patch_layout(ours, settings)
    np.testing.assert_allclose(rows, np.asarray(stock[pixels]), rtol=0, atol=1e-5)
    assert list(grid_thw) == np.asarray(stock[grid])[0].tolist()


def stock_size_rule():
    pytest.importorskip("torch")
    for name in ("image_processing_pil_qwen2_vl", "image_processing_qwen2_vl"):
        try:
            module = __import__(
                f"transformers.models.qwen2_vl.{name}", fromlist=["smart_resize"]
            )
        except ImportError:
            continue
        return module.smart_resize
    return pytest.skip("no stock rule that can be imported here")


def test_sizes_equal_the_stock_rule():
    stock = stock_size_rule()
    rng = np.random.default_rng(11)
    limits = [(3136, 12845056), (100352, 602112), (200704, 200704), (784, 3136)]
    for _ in range(3000):
        height, width = (int(v) for v in rng.integers(9, 3000, 2))
        low, high = limits[rng.integers(len(limits))]
        if max(height, width) > 200 * min(height, width):
            continue
        ours = fit_size(height, width, multiple_px=28, min_pixels=low, max_pixels=high)
        assert ours == stock(height, width, 28, low, high), (height, width, low, high)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((360, 640), (364, 644)),  # nearest multiples, inside the limits
        ((1080, 1920), (560, 1008)),  # scaled down
        ((64, 64), (336, 336)),  # scaled up
        ((42, 700), (84, 1316)),  # 1.5 multiples round to 2; scaled up by 1.85
    ],
)
def test_sizes_worked_by_hand(size, expected):
    assert PixelSettings().frame_size(*size) == expected


@pytest.mark.parametrize("size", [(0, 10), (10, 2001)])
def test_impossible_frames(size):
    with pytest.raises(FrameError, match=f"{size[0]} x {size[1]} px"):
        PixelSettings().frame_size(*size)


def test_settings_from_files():
    def read(**config):
        return pixel_settings(config, SHAPE)

    assert read() == PixelSettings(patch_px=4)
    assert read(size={"height": 16, "width": 24}).frame_size(99, 99) == (16, 24)
    limits = read(size={"shortest_edge": 64, "longest_edge": 128})
    assert (limits.min_pixels, limits.max_pixels) == (64, 128)
    assert read(min_pixels=64, size={"shortest_edge": 1}).min_pixels == 64
    assert read(image_mean=[0.5, 0.4, 0.3]).mean == (0.5, 0.4, 0.3)
    assert read(do_normalize=False).std == (1.0, 1.0, 1.0)
    assert read(resample=2).filter == "bilinear"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"patch_size": 14}, "patch_size 14, the model's config says 4"),
        ({"merge_size": 1}, "merge_size 1"),
        ({"do_resize": False}, "do_resize: false"),
        ({"do_rescale": False}, "do_rescale: false"),
        ({"rescale_factor": 1.0}, "rescale_factor 1.0"),
        ({"image_std": [1.0]}, r"image_std is \[1.0\]"),
        ({"resample": 0}, "resample code 0"),
        ({"size": {"height": 17, "width": 24}}, "multiples of 8"),
        ({"min_pixels": 10, "max_pixels": 5}, "min_pixels 10 and max_pixels 5"),
    ],
)
def test_files_that_cannot_be_followed(config, message):
    with pytest.raises(ScoringError, match=message):
        pixel_settings(config, SHAPE)


def test_user_limits():
    settings = PixelSettings()
    assert settings.with_limits(size=[28, 56]).size == (28, 56)
    small = settings.with_limits(max_pixels=3136)
    assert (small.min_pixels, small.max_pixels) == (3136, 3136)
    assert small.frame_size(1080, 1920) == (28, 56)
    assert settings.with_limits() is settings
    fixed = settings.with_limits(size=(28, 56)).with_limits(min_pixels=784)
    assert fixed.size is None
    with pytest.raises(ScoringError, match="cannot be combined"):
        settings.with_limits(size=(28, 28), max_pixels=3)
    with pytest.raises(ScoringError, match=r"must be \(height, width\)"):
        settings.with_limits(size=(28,))
    with pytest.raises(ScoringError, match="min_pixels 99 and max_pixels 9"):
        settings.with_limits(min_pixels=99, max_pixels=9)
