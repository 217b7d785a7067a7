"""Frames resized by the kernels, on the emulated driver, against the C core."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from emulator import forget
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phasefusion import cuda, frames
from phasefusion.cuda import images
from phasefusion.cuda.sources import LUMA_WEIGHTS, source_of

MEAN = [0.48145466, 0.4578275, 0.40821073]
STD = [0.26862954, 0.26130258, 0.27577711]
VARIANTS = ("plain", "tiled", "tensor")
#: A picture of these sizes does not fit into the shared memory of a block.
TOO_LONG = [((2, 2731), (3, 2))]
KEEP = settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def resized(given_frames, size, filter, first_pass, variant, table=None, dtype="uint8"):
    """The bytes, or the values of a table, by one variant."""
    where = source_of(given_frames, size, filter, first_pass, None, 0)
    shape = (*where.lead, *size, 3) if table is None else (*where.lead, 3, *size)
    recipe = images.Recipe(filter, first_pass, dtype, table, variant=variant)
    return images.make(where, size, shape, recipe)


def cannot(variant, source, size, first_pass):
    """Whether a variant leaves that to others: tensor cores go across first."""
    lost_h, lost_w = source[0] - size[0], source[1] - size[1]
    auto_down = lost_h > max(2 * lost_w, 0)
    down = first_pass == "vertical" or (first_pass == "auto" and auto_down)
    return variant == "tensor" and down and lost_h != 0 and lost_w != 0


def pictures(n, height, width):
    rng = np.random.default_rng(height * 10007 + width)
    yield rng.integers(0, 256, (n, height, width, 3), np.uint8)
    yield (rng.integers(0, 2, (n, height, width, 3)) * 255).astype(np.uint8)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("filter", "first_pass"),
    [
        ("bicubic", "auto"),
        ("bicubic", "vertical"),
        ("bilinear", "auto"),
        ("lanczos", "vertical"),
    ],
)
def test_every_kernel_is_the_core(gpu, filter, first_pass, variant):
    for source, size in oracle.FRAME_SIZES:
        if variant != "plain" and (source, size) in TOO_LONG:
            continue
        if cannot(variant, source, size, first_pass):
            continue
        for batch in pictures(1, *source):
            expected = frames.resize(batch, size, filter=filter, first_pass=first_pass)
            got = resized(batch, size, filter, first_pass, variant)
            assert np.array_equal(got, expected), (source, size)


@pytest.mark.parametrize("first_pass", ["horizontal", "vertical"])
def test_video_sizes(gpu, first_pass):
    batch = next(pictures(1, 360, 640))
    expected = frames.resize(batch, (224, 224), first_pass=first_pass)
    for variant in ("tiled", "tensor"):
        if not cannot(variant, (360, 640), (224, 224), first_pass):
            got = resized(batch, (224, 224), "bicubic", first_pass, variant)
            assert np.array_equal(got, expected)


@pytest.mark.parametrize(
    ("width", "shared"),
    [(640, 101376), (1280, 101376), (1280, 232448), (2560, 232448), (3840, 232448)],
)
def test_tensor_tiles_of_wide_pictures(gpu, monkeypatch, width, shared):
    """Bands of many steps, and tiles that get smaller until they fit."""
    monkeypatch.setenv("CUEMU_SHARED", str(shared))  # of an RTX 30, and of an H200
    batch = next(pictures(1, 40, width))
    got = resized(batch, (70, 40), "lanczos", "horizontal", "tensor")
    expected = frames.resize(batch, (70, 40), filter="lanczos", first_pass="horizontal")
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("pitch", [3 * 37, 3 * 37 + 1, 112, 128])
@pytest.mark.parametrize("skip", [0, 1, 4, 16])
def test_tensor_rows_start_anywhere(gpu, pitch, skip):
    """Rows of 16 bytes travel as they are, and others pixel by pixel."""
    rng = np.random.default_rng(pitch)
    n_byte = skip + 22 * pitch + 3 * 37  # memory ends with the last pixel
    memory = gpu_array(gpu, rng.integers(0, 256, n_byte, np.uint8))
    rows = np.lib.stride_tricks.as_strided(
        memory.memory[skip:], (23, 37, 3), (pitch, 3, 1)
    )
    got = resized(memory.view(rows), (17, 19), "bicubic", "horizontal", "tensor")
    expected = frames.resize(rows.copy(), (17, 19), first_pass="horizontal")
    assert np.array_equal(got.memory, expected)


def test_frames_that_are_upside_down(gpu):
    """Rows may follow one another downwards in memory."""
    memory = gpu_array(gpu, next(pictures(1, 40, 64))[0])
    flipped = memory.view(memory.memory[::-1])
    for variant in VARIANTS:
        got = resized(flipped, (19, 23), "bicubic", "horizontal", variant)
        expected = frames.resize(memory.memory[::-1].copy(), (19, 23))
        assert np.array_equal(got.memory, expected)


def test_tensor_cores_go_across_first_and_are_of_new_devices(gpu, monkeypatch):
    batch = next(pictures(1, 40, 30))
    with pytest.raises(ValueError, match="out of range"):
        resized(batch, (10, 10), "bicubic", "vertical", "tensor")
    monkeypatch.setenv("CUEMU_ARCH", "75")
    forget()
    with pytest.raises(ValueError, match="out of range"):
        resized(batch, (10, 10), "bicubic", "horizontal", "tensor")


def test_what_fits_no_tile_is_made_by_the_plain_kernels(gpu):
    (source, size), *_ = TOO_LONG
    batch = next(pictures(2, *source))
    assert np.array_equal(cuda.resize(batch, size), frames.resize(batch, size))
    assert {name for name, _ in gpu.launches()} == {"pf_pass"}
    with pytest.raises(ValueError, match="out of range"):
        resized(batch, size, "bicubic", "auto", "tiled")


@given(
    st.integers(1, 70),
    st.integers(1, 70),
    st.integers(1, 70),
    st.integers(1, 70),
    st.sampled_from(sorted(oracle.FILTERS)),
    st.sampled_from(["auto", "horizontal", "vertical"]),
    st.sampled_from(VARIANTS),
    st.integers(0, 3),
    st.integers(0, 2**32 - 1),
)
@KEEP
def test_any_size(gpu, h, w, new_h, new_w, filter, first_pass, variant, skip, seed):
    rng = np.random.default_rng(seed)
    wide = gpu_array(gpu, rng.integers(0, 256, (2, h, 3 * w + 7), np.uint8))
    # rows that start anywhere in a word
    rows = wide.memory[:, :, skip : skip + 3 * w]
    view = wide.view(
        np.lib.stride_tricks.as_strided(rows, (2, h, w, 3), (*rows.strides[:2], 3, 1))
    )
    size = (new_h, new_w)
    if cannot(variant, (h, w), size, first_pass):
        first_pass = "horizontal"
    host = np.ascontiguousarray(view.memory)
    expected = frames.resize(host, size, filter=filter, first_pass=first_pass)
    got = resized(view, size, filter, first_pass, variant)
    assert np.array_equal(got.memory, expected)


def gpu_array(gpu, values):
    from emulator import DeviceArray

    made = DeviceArray(gpu, values.shape, values.dtype)
    made.memory[...] = values
    return made


@pytest.mark.parametrize("order", ["f", "r", "s1", "s2", "s3"])
@pytest.mark.parametrize("first_pass", ["horizontal", "vertical"])
def test_threads_may_run_in_any_order(gpu, monkeypatch, order, first_pass):
    monkeypatch.setenv("CUEMU_ORDER", order)
    batch = next(pictures(1, 61, 83))
    expected = frames.resize(batch, (37, 29), first_pass=first_pass)
    for variant in VARIANTS:
        if not cannot(variant, (61, 83), (37, 29), first_pass):
            got = resized(batch, (37, 29), "bicubic", first_pass, variant)
            assert np.array_equal(got, expected)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_values_are_the_cores(gpu, dtype):
    torch = pytest.importorskip("torch")
    batch = next(pictures(2, 40, 51))
    expected = frames.resize_normalize(batch, (28, 14), mean=MEAN, std=STD)
    for source in (torch.from_numpy(batch), batch):
        if dtype == "bfloat16" and source is batch:
            continue
        got = cuda.resize_normalize(source, (28, 14), mean=MEAN, std=STD, dtype=dtype)
        assert type(got) is type(source)
        wanted = torch.from_numpy(expected).to(getattr(torch, dtype))
        assert torch.equal(torch.as_tensor(got), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_every_byte_becomes_what_torch_rounds_it_to(gpu, dtype):
    torch = pytest.importorskip("torch")
    every = torch.arange(256, dtype=torch.uint8)[None, :, None].repeat(1, 1, 3)
    for mean, std in [(MEAN, STD), ([0.0, -1.5, 1e30], [1.0, -0.25, 1e-7])]:
        got = cuda.resize_normalize(every, (1, 256), mean=mean, std=std, dtype=dtype)
        exact = frames.resize_normalize(every.numpy(), (1, 256), mean=mean, std=std)
        wanted = torch.from_numpy(exact).to(getattr(torch, dtype))
        assert torch.equal(got, wanted)


def yuv_frames(rng, height, width, nv12):
    half = (2, (height + 1) // 2, (width + 1) // 2)
    y = rng.integers(0, 256, (2, height, width), np.uint8)
    u = rng.integers(0, 256, half, np.uint8)
    v = rng.integers(0, 256, half, np.uint8)
    return y, u, v, (np.stack([u, v], -1) if nv12 else u)


@pytest.mark.parametrize("matrix", LUMA_WEIGHTS)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("nv12", [False, True])
def test_yuv_is_the_decoders_conversion(gpu, matrix, full, nv12):
    assert LUMA_WEIGHTS == oracle.LUMA_WEIGHTS
    rng = np.random.default_rng(3)
    for height, width in [(1, 1), (2, 2), (13, 31), (40, 64)]:
        y, u, v, chroma = yuv_frames(rng, height, width, nv12)
        rgb = np.stack([core_rgb(y[i], u[i], v[i], matrix, full) for i in range(2)])
        source = cuda.YuvFrames(y, chroma, None if nv12 else v, matrix, full)
        for first_pass in ("horizontal", "vertical"):
            expected = frames.resize(rgb, (9, 14), first_pass=first_pass)
            for variant in VARIANTS:
                if cannot(variant, (height, width), (9, 14), first_pass):
                    continue
                got = resized(source, (9, 14), "bicubic", first_pass, variant)
                assert np.array_equal(got, expected), (height, width, variant)


def core_rgb(y, u, v, matrix, full):
    """RGB by the twin of csrc/video/colour.c."""
    return oracle.yuv_to_rgb(y, u, v, matrix, full, 8)


def patches_of_the_core(batch, size, patch, merge, depth):
    planes = frames.resize_normalize(batch, size, mean=MEAN, std=STD)
    missing = -len(planes) % depth
    if missing:
        planes = np.concatenate([planes, planes[-1:].repeat(missing, 0)])
    return oracle.patch_rows(planes, patch, merge, depth)


@pytest.mark.parametrize(
    ("n", "size", "patch", "merge", "depth"),
    [
        (1, (28, 28), 14, 2, 1),
        (4, (28, 56), 14, 2, 2),
        (3, (56, 28), 7, 2, 2),
        (5, (24, 36), 4, 3, 3),
        (2, (33, 22), 11, 1, 1),
    ],
)
def test_patches_are_the_rows_of_vision_towers(gpu, n, size, patch, merge, depth):
    batch = next(pictures(n, 45, 38))
    table = cuda.normalise_table(MEAN, STD)
    got = cuda.resize_patches(
        batch, size, table=table, patch=patch, merge=merge, depth=depth
    )
    expected = patches_of_the_core(batch, size, patch, merge, depth)
    assert got.shape == expected.shape
    assert np.array_equal(got, expected)


def test_frames_of_many_sizes_go_in_few_launches(gpu):
    rng = np.random.default_rng(1)
    sizes = [(20 + 7 * i, 64 - 5 * i) for i in range(6)] + [(90, 20), (4, 4)]
    clips = [gpu_array(gpu, rng.integers(0, 256, (*s, 3), np.uint8)) for s in sizes]
    wanted = [(14 + i, 28 - i) for i in range(len(sizes))]
    gpu.reset()
    made = cuda.resize_normalize_many(clips, wanted, mean=MEAN, std=STD)
    assert len(gpu.launches()) == 2  # one for each first pass
    for clip, size, got in zip(clips, wanted, made, strict=True):
        exact = frames.resize_normalize(clip.memory.copy(), size, mean=MEAN, std=STD)
        assert np.array_equal(got.memory, exact)


def test_many_frames_and_tables_do_not_crowd_one_another_out(gpu):
    rng = np.random.default_rng(2)
    for turn in range(3):
        clips, wanted = [], []
        for i in range(100):
            clips.append(rng.integers(0, 256, (1 + i % 9, 2 + i, 3), np.uint8))
            wanted.append((3 + i % 7 + turn, 5 + i % 11))
        made = cuda.resize_normalize_many(clips, wanted, mean=MEAN, std=STD)
        for clip, size, got in zip(clips, wanted, made, strict=True):
            exact = frames.resize_normalize(clip, size, mean=MEAN, std=STD)
            assert np.array_equal(got, exact)


def test_frames_of_the_host_travel_in_chunks(gpu, monkeypatch):
    monkeypatch.setenv("CUEMU_LAZY", "1")
    batch = next(pictures(40, 540, 960))  # 62 MB: two chunks
    out = np.full((40, 8, 8, 3), 0xA5, np.uint8)
    got = cuda.resize(batch, (8, 8), filter="box", out=out)
    assert got is out
    assert np.array_equal(out, frames.resize(batch, (8, 8), filter="box"))
    assert len({stream for _, stream in gpu.launches()}) == 2


def test_no_frames_make_nothing(gpu):
    none = np.empty((0, 5, 7, 3), np.uint8)
    assert cuda.resize(none, (3, 2)).shape == (0, 3, 2, 3)
    assert cuda.resize_normalize(none, (3, 2), mean=MEAN, std=STD).shape == (0, 3, 3, 2)


def test_host_results_are_not_overrun(gpu):
    memory = np.full(3 * 5 * 7 * 4 + 128, 0xA5, np.uint8)
    out = memory[64:-64].view(np.float32).reshape(3, 5, 7)
    frame = next(pictures(1, 9, 11))[0]
    cuda.resize_normalize(frame, (5, 7), mean=MEAN, std=STD, out=out)
    assert (memory[:64] == 0xA5).all()
    assert (memory[-64:] == 0xA5).all()
    assert np.array_equal(
        out, frames.resize_normalize(frame, (5, 7), mean=MEAN, std=STD)
    )
