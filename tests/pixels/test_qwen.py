"""Patch rows against slow twins, their binding's checks, and Qwen-VL's frame sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracle
import pytest

from phasefusion import _frames, resize
from phasefusion.errors import FrameError
from phasefusion.pixels import (
    PatchSettings,
    family_settings,
    smart_resize,
    to_qwen_patches,
)


def random_frames(shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize(
    ("n_frames", "size", "side", "merge", "depth"),
    [
        (4, (16, 24), 4, 2, 2),
        (1, (8, 8), 4, 2, 2),
        (5, (8, 24), 4, 2, 2),
        (3, (12, 18), 2, 3, 1),
        (7, (30, 10), 5, 1, 3),
        (2, (28, 56), 14, 2, 2),
        (3, (64, 32), 16, 2, 2),
        (1, (1, 1), 1, 1, 1),
        (1, (7, 7), 7, 1, 5),
        (2, (34, 51), 17, 1, 2),
    ],
)
def test_layout_equals_the_slow_one(n_frames, size, side, merge, depth):
    frames = random_frames((n_frames, *size, 3), seed=n_frames)
    settings = PatchSettings(
        patch_px=side, merge=merge, temporal_frames=depth, size=size
    )
    rows, grid_thw = to_qwen_patches(frames, settings)
    planes = oracle.to_values(frames, settings.value_table())
    np.testing.assert_array_equal(rows, oracle.patch_rows(planes, side, merge, depth))
    assert grid_thw == (-(-n_frames // depth), size[0] // side, size[1] // side)
    assert rows.dtype == np.float32
    assert rows.flags.c_contiguous
    again, same_grid = to_qwen_patches(planes, settings)
    np.testing.assert_array_equal(again, rows)
    assert same_grid == grid_thw


@pytest.mark.parametrize(
    "cut",
    [
        lambda big: big[:, 4:20, 8:32],  # rows apart
        lambda big: big[::-1, 4:20, 8:32],  # frames from the last to the first
        lambda big: big[:, 19:3:-1, 8:32],  # lines from the bottom up
        lambda big: big[:, 4:20, 31:7:-1],  # pixels backwards: one copy
        lambda big: np.asfortranarray(big[:, 4:20, 8:32]),
    ],
)
def test_frames_may_be_views(cut):
    frames = cut(random_frames((3, 32, 40, 3)))
    settings = PatchSettings(4, 2, 2, size=(16, 24))
    rows, _ = to_qwen_patches(frames, settings)
    copied, _ = to_qwen_patches(np.ascontiguousarray(frames), settings)
    np.testing.assert_array_equal(rows, copied)
    planes = oracle.to_values(frames, settings.value_table())
    by_planes, _ = to_qwen_patches(planes[:, :, ::-1][:, :, ::-1], settings)
    np.testing.assert_array_equal(by_planes, rows)


def test_frames_are_resized_unless_they_have_the_size():
    frames = random_frames((3, 45, 80, 3))
    settings = family_settings("qwen2_vl")
    size = settings.frame_size(45, 80, 3)
    rows, _ = to_qwen_patches(frames, settings)
    small = resize(frames, size, first_pass="horizontal")
    np.testing.assert_array_equal(to_qwen_patches(small, settings, size=size)[0], rows)
    other, _ = to_qwen_patches(frames, replace(settings, first_pass="vertical"))
    assert not np.array_equal(other, rows)


@pytest.mark.parametrize("size", [(56, 84), (84, 56)])
def test_a_size_of_ones_own_is_kept(size):
    # Within one multiple of the limits the rule would not choose its own result again.
    settings = PatchSettings(min_pixels=4000, max_pixels=4000)
    frames = random_frames((2, *size, 3))
    assert settings.frame_size(*size, 2) != size
    rows, grid_thw = to_qwen_patches(frames, settings, size=size)
    assert grid_thw == (1, size[0] // 14, size[1] // 14)
    values = oracle.to_values(frames, settings.value_table())
    np.testing.assert_array_equal(np.sort(rows.ravel()), np.sort(values.ravel()))


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (np.zeros((2, 28, 28, 3)), "float64"),
        (np.zeros((0, 28, 28, 3), np.uint8), "at least one frame"),
        (np.zeros((28, 28, 3), np.uint8), r"shape \(28, 28, 3\)"),
        (np.zeros((2, 3, 28, 28), np.uint8), r"shape \(2, 3, 28, 28\)"),
        (np.zeros((2, 3, 28, 30), np.float32), "multiples of 28"),
        (np.zeros((2, 4, 28, 28), np.float32), "three channels"),
        (np.zeros((0, 3, 28, 28), np.float32), "at least one frame"),
        ([[1]], "list"),
    ],
)
def test_frames_that_cannot_be_cut(frames, message):
    with pytest.raises(FrameError, match=message):
        to_qwen_patches(frames, "qwen2_vl")


def test_settings_of_another_family():
    with pytest.raises(FrameError, match="'internvl' are for to_pixel_values"):
        to_qwen_patches(np.zeros((1, 28, 28, 3), np.uint8), "internvl")
    with pytest.raises(FrameError, match="multiples of 28"):
        to_qwen_patches(np.zeros((1, 28, 28, 3), np.uint8), size=(30, 28))
    with pytest.raises(FrameError, match="stay as they are"):
        to_qwen_patches(np.zeros((1, 3, 28, 28), np.float32), size=(56, 28))


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"rows": np.empty((4, 95), np.float32)}, ValueError, "of 384 values"),
        ({"rows": np.empty((4, 96), np.float64)}, ValueError, "float32"),
        ({"rows": np.empty((96, 4), np.float32).T}, ValueError, "C-contiguous"),
        ({"table": np.empty((3, 255), np.float32)}, ValueError, r"shape \(3, 256\)"),
        ({"table": np.empty(768, np.float32)}, ValueError, "2 dimensions"),
        ({"table": np.empty((3, 256))}, TypeError, "safe"),
        ({"formula": (1.0, (0.0,) * 3)}, TypeError, "formula is"),
        ({"formula": [1.0, (0.0,) * 3, (1.0,) * 3]}, TypeError, "tuple"),
        ({"frames": np.empty((2, 8, 8, 4), np.uint8)}, ValueError, "3 as the last"),
        ({"frames": np.empty((2, 8, 8, 3), np.int8)}, ValueError, "uint8"),
        ({"patch": (0, 4)}, ValueError, "layout of the patches is out of range"),
        ({"patch": (3, 4)}, ValueError, "out of range"),
        ({"patch": (2**62, 4)}, OverflowError, "too large"),
        ({"merge": 0}, ValueError, "out of range"),
        ({"merge": 2**62}, OverflowError, "too large"),
        ({"depth": -1}, ValueError, "out of range"),
        ({"depth": 2**62}, OverflowError, "too large"),
    ],
)
def test_the_binding_checks_for_itself(changed, error, message):
    given = {
        "frames": np.zeros((2, 8, 8, 3), np.uint8),
        "table": np.zeros((3, 256), np.float32),
        "formula": (1.0, (0.0,) * 3, (1.0,) * 3),
        "rows": np.zeros((4, 96), np.float32),
        "patch": (4, 4),
        "merge": 2,
        "depth": 2,
    }
    _frames.patches_from_rgb(*given.values())
    with pytest.raises(error, match=message):
        _frames.patches_from_rgb(*(given | changed).values())
    if set(changed) & {"frames", "table", "formula"}:
        return
    planes = np.zeros((2, 3, 8, 8), np.float32)
    rest = [(given | changed)[name] for name in ("rows", "patch", "merge", "depth")]
    with pytest.raises(error, match=message):
        _frames.patches_from_planes(planes, *rest)


def test_no_frames_make_no_rows():
    table = np.zeros((3, 256), np.float32)
    rows = np.empty((0, 96), np.float32)
    none = np.empty((0, 8, 8, 3), np.uint8)
    _frames.patches_from_rgb(
        none, table, (1.0, (0.0,) * 3, (1.0,) * 3), rows, (4, 4), 2, 2
    )
    _frames.patches_from_planes(np.empty((0, 3, 8, 8), np.float32), rows, (4, 4), 2, 2)


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
    assert PatchSettings().frame_size(*size) == expected


@pytest.mark.parametrize(
    ("n_frames", "size", "expected"),
    [
        (2, (320, 640), (320, 640)),  # 2 x 204800 is within 131072 to 786432
        (8, (320, 640), (192, 416)),  # shrunk by 1.4434: 221.7 and 443.4
        (7, (320, 640), (224, 448)),  # 8 by the rounding, shrunk as 7: by 1.3502
        (5, (320, 640), (256, 544)),  # as 4 it is too large, shrunk as 5: by 1.141
        (2, (16, 300), (64, 1120)),  # doubled to 32 x 600, then grown by 1.847
    ],
)
def test_clip_sizes_worked_by_hand(n_frames, size, expected):
    settings = family_settings("qwen3_vl")
    assert settings.frame_size(*size, n_frames) == expected


def test_impossible_frames():
    with pytest.raises(FrameError, match="0 x 10 px"):
        PatchSettings().frame_size(0, 10)
    with pytest.raises(FrameError, match="10 x 2001 px"):
        PatchSettings().frame_size(10, 2001)
    with pytest.raises(FrameError, match=r"1 frame\(s\): .* at least 2"):
        family_settings("qwen3_vl").frame_size(64, 64, 1)
    with pytest.raises(FrameError, match="give n_frames"):
        family_settings("qwen3_vl").frame_size(64, 64)
    with pytest.raises(FrameError, match="give n_frames"):
        PatchSettings(video_tokens=100).frame_size(64, 64)


def test_one_frame_limits_do_not_depend_on_the_clip():
    settings = PatchSettings()
    assert settings.frame_size(360, 640) == settings.frame_size(360, 640, 99)
    limits = {"min_pixels": settings.min_pixels, "max_pixels": settings.max_pixels}
    assert settings.frame_size(360, 640) == smart_resize(360, 640, **limits)
