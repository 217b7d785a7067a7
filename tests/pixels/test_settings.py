"""Settings from preprocessor files: what is read, followed, refused."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import phasefusion
from phasefusion.errors import FrameError
from phasefusion.pixels import (
    Exact,
    LongestEdge,
    PatchSettings,
    PixelSettings,
    PlaneSettings,
    ShortestEdge,
    TileGrid,
    TileMultiple,
    Within,
    center_crop,
    family_settings,
    find_config,
    longest_edge_size,
    pad_to_square,
    pixel_settings,
    shortest_edge_size,
    tile_grid,
    to_pixel_values,
    to_qwen_patches,
    within_size,
)
from phasefusion.pixels.geometry import pass_order_shows
from phasefusion.tinyvlm import model_dir

SHAPE = SimpleNamespace(patch_size=4, spatial_merge_size=2, temporal_patch_size=2)


def test_the_module_is_reached_from_the_package():
    assert phasefusion.pixels.to_pixel_values is to_pixel_values
    assert "pixels" in dir(phasefusion)


def read(family="qwen2_5_vl", shape=SHAPE, **config):
    return pixel_settings(config, shape, family=family)


def test_qwen_settings_from_files():
    shape = {"patch_px": 4, "merge": 2, "temporal_frames": 2}
    assert read() == PatchSettings(**shape, family="qwen2_5_vl")
    assert read(size={"height": 16, "width": 24}).frame_size(99, 99) == (16, 24)
    limits = read(size={"shortest_edge": 64, "longest_edge": 128})
    assert (limits.min_pixels, limits.max_pixels) == (64, 128)
    edges = {"shortest_edge": 1, "longest_edge": 128}
    assert read(min_pixels=64, size=edges).min_pixels == 64
    assert read(max_pixels=200000).max_pixels == 200000
    assert read(image_mean=[0.5, 0.4, 0.3]).mean == (0.5, 0.4, 0.3)
    assert read(do_normalize=False).std is None
    assert read(do_rescale=False).rescale is None
    assert read(resample=2).filter == "bilinear"
    assert read(size=None, image_std=None) == read()
    assert read(cap_pixels_per_frame=True).video_tokens == 128000
    assert read("qwen3_vl", max_video_tokens=5).video_tokens is None


def test_the_model_gives_what_the_file_leaves_out():
    assert read("qwen3_vl", None).multiple_px == 32
    assert read("qwen2_vl", None).multiple_px == 28
    assert read("qwen3_vl").multiple_px == 8
    assert read(patch_size=4, merge_size=2).patch_px == 4


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"patch_size": 14}, "patch_size 14, the model's config says 4"),
        ({"merge_size": 1}, "merge_size 1"),
        ({"do_resize": False}, "do_resize: false"),
        ({"do_rescale": False, "do_normalize": False}, "leaves bytes"),
        ({"rescale_factor": 0}, "rescale_factor is 0"),
        ({"rescale_factor": "1"}, "rescale_factor is '1'"),
        ({"image_std": [1.0]}, r"image_std is \[1.0\]"),
        ({"image_std": [1, 0, 1]}, "must not be 0"),
        ({"resample": 0}, "resample code 0"),
        ({"size": {"height": 17, "width": 24}}, "multiples of 8"),
        ({"size": {"shortest_edge": 64}}, "no longest_edge"),
        (
            {"size": {"shortest_edge": 64.5, "longest_edge": 99}},
            "shortest_edge is 64.5",
        ),
        ({"size": "large"}, "size 'large'"),
        ({"size": {"shortest_edge": "64", "longest_edge": 99}}, "shortest_edge is '64"),
        ({"size": {"shortest_edge": [64], "longest_edge": 99}}, "shortest_edge is"),
        ({"min_pixels": 10, "max_pixels": 5}, "min_pixels 10 and max_pixels 5"),
        ({"image_processor_type": "ViTImageProcessor"}, "a ViTImageProcessor, which"),
        ({"video_processor_type": "InternVLVideoProcessor"}, "contradicts it"),
        ({"video_processor_type": "Qwen3VLVideoProcessor"}, "contradicts it"),
    ],
)
def test_files_that_cannot_be_followed(config, message):
    with pytest.raises(FrameError, match=message):
        read(**config)


@pytest.mark.parametrize(
    ("family", "kind", "config", "message"),
    [
        ("qwen3_vl", "video", {"min_pixels": 9}, "no effect in transformers"),
        ("qwen3_vl", "image", {"patch_size": 16}, "leaves out"),
        ("llava_onevision", "image", {}, "no image settings"),
        ("llama", "video", {}, "families are clip"),
        (None, "video", {}, "names no class"),
        ("clip", "image", {"size": {"longest_edge": 9}}, "longest_edge"),
        ("clip", "image", {"do_pad": True}, "do_pad: true"),
        ("clip", "image", {"crop_size": {"shortest_edge": 9}}, "crop_size"),
        ("smolvlm", "video", {"size": {"shortest_edge": 9}}, "longest_edge, or"),
        ("smolvlm", "video", {"do_resize": False}, "do_resize: false"),
        ("smolvlm", "video", {"size": {"longest_edge": True}}, "longest_edge is True"),
        (
            "internvl",
            "image",
            {"crop_to_patches": True, "size": {"shortest_edge": 9}},
            "tiles need height",
        ),
    ],
)
def test_families_that_cannot_be_followed(family, kind, config, message):
    with pytest.raises(FrameError, match=message):
        pixel_settings(config, family=family, kind=kind)
    with pytest.raises(FrameError, match='must be "video" or "image"'):
        pixel_settings(config, family=family, kind="audio")


@pytest.mark.parametrize(
    ("config", "family", "kind"),
    [
        ({"video_processor_type": "Qwen2VLVideoProcessor"}, "qwen2_vl", "video"),
        ({"video_processor_type": "Qwen3VLVideoProcessor"}, "qwen3_vl", "video"),
        ({"image_processor_type": "Qwen2VLImageProcessorFast"}, "qwen2_vl", "image"),
        ({"image_processor_type": "Qwen2_5_VLImageProcessor"}, "qwen2_vl", "video"),
        (
            {
                "image_processor_type": "Qwen2VLImageProcessorFast",
                "processor_class": "Qwen3VLProcessor",
            },
            "qwen3_vl",
            "video",
        ),
        ({"image_processor_type": "GotOcr2ImageProcessorFast"}, "internvl", "video"),
        (
            {"image_processor_type": "LlavaOnevisionImageProcessor", "size": 30},
            "llava_onevision",
            "video",
        ),
        ({"feature_extractor_type": "CLIPFeatureExtractor"}, "clip", "image"),
        ({"image_processor_type": "CLIPImageProcessorPil"}, "clip", "image"),
    ],
)
def test_classes_are_told_by_their_names(config, family, kind):
    settings = pixel_settings(config, kind=kind)
    assert settings.family == family
    assert settings.backend == ("torchvision" if kind == "video" else "pil")
    assert settings.first_pass == ("horizontal" if kind == "video" else "auto")
    named = {**config, "size": None}
    assert replace(pixel_settings(named, kind=kind)) == family_settings(family, kind)


def test_sizes_of_files():
    def resizes(size, family="clip", **config):
        kind = "image" if family == "clip" else "video"
        config = {"size": size, **config}
        return pixel_settings(config, family=family, kind=kind).resizes

    assert resizes(224) == (ShortestEdge(224),)
    assert resizes(224, default_to_square=True) == (Exact(224, 224),)
    assert resizes(224, "internvl") == (Exact(224, 224),)
    assert resizes([30, 44]) == (Exact(30, 44),)
    assert resizes({"shortest_edge": 9, "longest_edge": 12}) == (ShortestEdge(9, 12),)
    assert resizes({"max_height": 9, "max_width": 12}) == (Within(9, 12),)
    assert resizes(224, do_resize=False) == ()
    square = Exact(364, 364)
    assert family_settings("smolvlm").resizes == (LongestEdge(1456), square)
    split = family_settings("idefics3", "image")
    assert split.resizes == (LongestEdge(1456), TileMultiple(364))


def test_a_folder_is_read_in_the_order_of_transformers(tmp_path):
    def write(name, **content):
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")

    def size(kind="video"):
        return pixel_settings(tmp_path, family="internvl", kind=kind).resizes[0]

    write("preprocessor_config.json", size=10)
    assert size() == size("image") == Exact(10, 10)
    write("processor_config.json", image_processor={"size": 20}, image_seq_length=9)
    assert size() == size("image") == Exact(20, 20)
    write("video_preprocessor_config.json", size=30)
    assert (size(), size("image")) == (Exact(30, 30), Exact(20, 20))
    write("processor_config.json", video_processor={"size": 40})
    assert (size(), size("image")) == (Exact(40, 40), Exact(10, 10))
    assert find_config(lambda name: {}, "video") == {}
    (tmp_path / "processor_config.json").write_text("{")
    with pytest.raises(FrameError, match=r"processor_config.json is not JSON"):
        size()
    (tmp_path / "processor_config.json").write_text("[]")
    with pytest.raises(FrameError, match="holds list"):
        size()
    with pytest.raises(FrameError, match="no such folder"):
        pixel_settings(tmp_path / "none", family="clip", kind="image")


def test_user_limits():
    settings = PatchSettings()
    assert settings.with_limits(size=[28, 56]).size == (28, 56)
    small = settings.with_limits(max_pixels=3136)
    assert (small.min_pixels, small.max_pixels) == (3136, 3136)
    assert small.frame_size(1080, 1920) == (28, 56)
    assert settings.with_limits() is settings
    fixed = settings.with_limits(size=(28, 56)).with_limits(min_pixels=784)
    assert fixed.size is None
    with pytest.raises(FrameError, match="cannot be combined"):
        settings.with_limits(size=(28, 28), max_pixels=3)
    with pytest.raises(FrameError, match=r"must be \(height, width\)"):
        settings.with_limits(size=(28,))
    with pytest.raises(FrameError, match="min_pixels 99 and max_pixels 9"):
        settings.with_limits(min_pixels=99, max_pixels=9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PixelSettings(mean=None), "both or neither"),
        (lambda: PixelSettings(mean=None, std=None, rescale=None), "leaves bytes"),
        (lambda: PixelSettings(std=(1.0, 1e-60, 1.0)), "must not be 0"),
        (lambda: PixelSettings(backend="jax"), "backend is 'jax'"),
        (lambda: PatchSettings(patch_px=0), "at least 1"),
        (lambda: PlaneSettings(tile=(8, 8)), "last resize must be to whole tiles"),
        (
            lambda: PlaneSettings(tile=(8, 8), resizes=(TileMultiple(9),)),
            "last resize must be to whole tiles",
        ),
        (
            lambda: PlaneSettings(tile=(8, 8), crop=(8, 8), resizes=(Exact(8, 8),)),
            "give tile or crop",
        ),
    ],
)
def test_settings_that_cannot_be(make, message):
    with pytest.raises(FrameError, match=message):
        make()


@pytest.mark.parametrize(
    "settings",
    [
        family_settings("qwen3_vl"),
        PatchSettings(size=(28, 56), video_tokens=9),
        PlaneSettings(mean=None, std=None),
        pixel_settings({"crop_to_patches": True}, family="internvl", kind="image"),
        pixel_settings({"do_pad": True}, family="llava", kind="image"),
    ],
)
def test_settings_are_written_as_json(settings):
    written = json.loads(json.dumps(settings.to_dict()))
    fields = {name: getattr(settings, name) for name in written if name != "resizes"}
    assert written.keys() == set(settings.__dataclass_fields__)
    for name, value in fields.items():
        assert written[name] == (list(value) if isinstance(value, tuple) else value)


@pytest.mark.parametrize("backend", ["pil", "torchvision"])
def test_values_are_near_the_real_ones(backend):
    settings = PixelSettings(backend=backend, mean=(0.1, 0.5, 0.9), std=(1, 0.5, 0.2))
    exact = np.arange(256) / 255 - np.array(settings.mean)[:, None]
    exact /= np.array(settings.std)[:, None]
    table = settings.value_table()
    assert table.dtype == np.float32
    np.testing.assert_allclose(table, exact, rtol=0, atol=1e-6)
    other = "torchvision" if backend == "pil" else "pil"
    changed = replace(settings, backend=other)
    assert not np.array_equal(table, changed.value_table())


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("rescale", [1 / 255, 0.01, None])
@pytest.mark.parametrize("backend", ["pil", "torchvision"])
def test_the_formula_stands_for_the_table(backend, rescale, normalised):
    if rescale is None and not normalised:
        pytest.skip("leaves bytes")
    settings = PixelSettings(backend=backend, rescale=rescale)
    if not normalised:
        settings = replace(settings, mean=None, std=None)
    divisor, mean, std = settings.value_formula()
    values = np.arange(256, dtype=np.float32) / np.float32(divisor)
    values = values - np.array(mean, np.float32)[:, None]
    values = values / np.array(std, np.float32)[:, None]
    table = settings.value_table()
    np.testing.assert_allclose(values, table, rtol=0, atol=1e-6 * abs(table).max())
    if rescale == 1 / 255 and (normalised or backend == "pil"):
        np.testing.assert_array_equal(values, table)  # the usual files, at full speed


def test_planes_say_their_size():
    assert family_settings("llava_next_video").frame_size(360, 640) == (224, 398)
    assert family_settings("smolvlm").frame_size(360, 640, 9) == (364, 364)
    padded = pixel_settings({"do_pad": True}, family="llava", kind="image")
    assert padded.frame_size(360, 640) == (224, 224)
    grid = PlaneSettings(resizes=(TileGrid((448, 448), 1, 12),), tile=(448, 448))
    assert grid.frame_size(720, 1280) == (896, 1792)
    frames = np.zeros((1, 36, 64, 3), np.uint8)
    assert to_pixel_values(frames, grid).shape == (
        1,
        2,
        3,
        448,
        448,
    )  # too few pixels for 2 x 4
    with pytest.raises(FrameError, match="'qwen2_vl' are for to_qwen_patches"):
        to_pixel_values(frames, "qwen2_vl")
    with pytest.raises(FrameError, match=r"\(n, height, width, 3\)"):
        to_pixel_values(frames[0], grid)


@pytest.mark.parametrize("given", [(640, 360), (360, 640), (300, 300), (61, 50)])
@pytest.mark.parametrize("size", [(224, 224), (40, 40), (640, 360), (61, 30), (30, 50)])
def test_the_order_of_the_passes_shows_where_it_is_said(given, size):
    rng = np.random.default_rng(1)
    frame = rng.integers(0, 256, (*given, 3), dtype=np.uint8)
    auto = phasefusion.resize(frame, size)
    horizontal = phasefusion.resize(frame, size, first_pass="horizontal")
    assert pass_order_shows(given, size) == (not np.array_equal(auto, horizontal))


def test_frames_that_cannot_be_cropped_or_padded():
    frames = np.zeros((2, 4, 6, 3), np.uint8)
    with pytest.raises(FrameError, match="crop size"):
        center_crop(frames, (0, 3))
    with pytest.raises(FrameError, match="float64"):
        center_crop(frames.astype(float), (2, 2))
    with pytest.raises(FrameError, match=r"shape \(2, 4, 6\)"):
        pad_to_square(frames[..., 0])
    with pytest.raises(FrameError, match="three values"):
        pad_to_square(frames, (256, 0, 0))
    with pytest.raises(FrameError, match="no pixels left"):
        within_size(1, 900, 9, 9)
    with pytest.raises(FrameError, match="no pixels left"):
        shortest_edge_size(1, 900, 10, 90)
    with pytest.raises(FrameError, match="from 1 to 4096"):
        longest_edge_size(9, 9, 5000)
    with pytest.raises(FrameError, match="no grid"):
        tile_grid(9, 9, (3, 3), 5, 4)
    assert center_crop(frames, (2, 2)).base is not None
    assert pad_to_square(frames[:, :, :4]).base is not None


@pytest.mark.parametrize("config", [None, 5, []])
def test_what_is_no_config_is_refused(config):
    with pytest.raises(FrameError, match="the contents of a preprocessor file"):
        pixel_settings(config)


def test_the_shipped_model_sees_one_size_and_other_processors_load_it():
    folder = model_dir()
    config = json.loads((folder / "preprocessor_config.json").read_text())
    assert set(config["size"]) == {"shortest_edge", "longest_edge"}
    fixed = {k: v for k, v in config.items() if k != "frame_size"}
    fixed["size"] = {"height": 84, "width": 84}
    ours, wanted = pixel_settings(folder), pixel_settings(fixed)
    assert ours == wanted
    assert ours.size == (84, 84)
    frames = np.random.default_rng(0).integers(0, 256, (4, 90, 161, 3), np.uint8)
    rows, grid = to_qwen_patches(frames, ours)
    same, _ = to_qwen_patches(frames, wanted)
    assert rows.tobytes() == same.tobytes()
    assert tuple(grid) == (2, 6, 6)


def test_a_processor_with_limits_loads_the_shipped_settings():
    transformers = pytest.importorskip("transformers")
    load = transformers.AutoImageProcessor.from_pretrained
    limits = {"min_pixels": 7056, "max_pixels": 7056}
    made = load(str(model_dir()), backend="pil", **limits)
    frame = np.zeros((224, 224, 3), np.uint8)
    rows = made(images=[frame], return_tensors="np")
    assert rows["image_grid_thw"].tolist() == [[1, 6, 6]]
