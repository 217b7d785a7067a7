"""The resize against Pillow, the NumPy twin and itself, level by level."""

import os
import tracemalloc

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasefusion import frames as pf

MEAN = [0.48145466, 0.4578275, 0.40821073]
STD = [0.26862954, 0.26130258, 0.27577711]
LEVELS = ("scalar", "avx2", "avx512")
HERE = LEVELS[: LEVELS.index(pf.cpu_level()) + 1]
MARGIN = 64


def resize(
    frames, size, *, filter="bicubic", first_pass="auto", threads=1, level="auto"
):
    return pf._resize(
        frames,
        size,
        filter=filter,
        first_pass=first_pass,
        threads=threads,
        level=level,
    )


def normalized(
    frames, size, *, filter="bicubic", out=None, threads=1, level="auto", mean=MEAN
):
    return pf._resize_normalize(
        frames,
        size,
        mean=mean,
        std=STD,
        filter=filter,
        first_pass="auto",
        out=out,
        threads=threads,
        level=level,
    )


def images(height, width):
    """Pictures that reach both clips, both roundings and every byte."""
    rng = np.random.default_rng(height * 10007 + width)
    shape = (height, width, 3)
    y, x = np.mgrid[:height, :width]
    yield "random", rng.integers(0, 256, shape, np.uint8)
    yield "extremes", (rng.integers(0, 2, shape) * 255).astype(np.uint8)
    yield "black", np.zeros(shape, np.uint8)
    yield "white", np.full(shape, 255, np.uint8)
    checker = ((x + y) % 2 * 255).astype(np.uint8)
    yield "checker", np.stack([checker, 255 - checker, checker // 2], -1)
    gradient = np.stack([x, y, x + y], -1) * 255 // max(height + width - 2, 1)
    yield "gradient", gradient.astype(np.uint8)


def pillow(image, size, filter):
    """The same by Pillow, and the name of the pass that its version starts with."""
    pil = pytest.importorskip("PIL.Image")
    how = getattr(pil.Resampling, filter.upper())
    resized = np.asarray(pil.fromarray(image).resize(size[::-1], how))
    return resized, "auto" if int(pil.__version__.split(".")[0]) >= 13 else "horizontal"


def skip_special_rule(image):
    """Pillow 12.2 and 12.3 alone turn pictures more than 100 times as high as wide."""
    pil = pytest.importorskip("PIL.Image")
    version = tuple(int(n) for n in pil.__version__.split(".")[:2])
    if (12, 2) <= version < (13, 0) and image.shape[0] > 100 * image.shape[1]:
        pytest.skip("this Pillow has a rule of its own for very high pictures")


@pytest.mark.parametrize("filter", oracle.FILTERS)
@pytest.mark.parametrize(("source", "size"), oracle.FRAME_SIZES)
def test_every_level_is_pillow(source, size, filter):
    for name, image in images(*source):
        skip_special_rule(image)
        expected, first_pass = pillow(image, size, filter)
        for level in HERE:
            got = resize(image, size, filter=filter, first_pass=first_pass, level=level)
            assert np.array_equal(got, expected), (name, level)


@pytest.mark.parametrize("filter", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize(("source", "size"), oracle.FRAME_SIZES_LARGE)
def test_every_level_is_pillow_at_video_sizes(source, size, filter):
    image = np.random.default_rng(1).integers(0, 256, (*source, 3), np.uint8)
    expected, first_pass = pillow(image, size, filter)
    for level in HERE:
        got = resize(image, size, filter=filter, first_pass=first_pass, level=level)
        assert np.array_equal(got, expected), level


@pytest.mark.parametrize("first_pass", ["horizontal", "vertical", "auto"])
@pytest.mark.parametrize("filter", oracle.FILTERS)
@pytest.mark.parametrize(
    ("source", "size"), [s for s in oracle.FRAME_SIZES if max(*s[0], *s[1]) < 110]
)
def test_every_level_is_the_twin(source, size, filter, first_pass):
    vertical = {"horizontal": False, "vertical": True, "auto": None}[first_pass]
    for name, image in images(*source):
        expected = oracle.resize(image, size, filter, vertical)
        for level in HERE:
            got = resize(image, size, filter=filter, first_pass=first_pass, level=level)
            assert np.array_equal(got, expected), (name, level)


def test_the_order_of_the_passes_shows():
    image = np.random.default_rng(5).integers(0, 256, (90, 50, 3), np.uint8)
    across = resize(image, (40, 41), first_pass="horizontal")
    down = resize(image, (40, 41), first_pass="vertical")
    assert not np.array_equal(across, down)
    assert np.array_equal(resize(image, (40, 41)), down)  # 50 > 2 * 9


@pytest.mark.parametrize("level", HERE)
@pytest.mark.parametrize(("source", "size"), oracle.FRAME_SIZES)
def test_floats_are_numpys(source, size, level):
    for name, image in images(*source):
        expected = oracle.normalise(resize(image, size, level="scalar"), MEAN, STD)
        got = normalized(image, size, level=level)
        assert got.dtype == np.float32
        assert np.array_equal(got.view(np.int32), bits(expected)), name


def bits(array):
    return np.ascontiguousarray(array).view(np.int32)


@pytest.mark.parametrize("level", HERE)
def test_every_byte_is_normalised_as_numpy_does(level):
    image = np.arange(256, dtype=np.uint8)[None, :, None].repeat(3, 2)
    for mean, std in [
        (MEAN, STD),
        ([0.0, -1.5, 1e30], [1.0, -0.25, 1e-30]),  # signs, an overflow to infinity
        ([1e-42, 0.1, 2.0], [3.0, 1e38, 7e-39]),  # subnormal numbers
    ]:
        with np.errstate(over="ignore"):
            expected = oracle.normalise(image, mean, std)
        got = pf._resize_normalize(
            image,
            (1, 256),
            mean=mean,
            std=std,
            filter="bicubic",
            first_pass="auto",
            out=None,
            threads=1,
            level=level,
        )
        assert np.array_equal(got.view(np.int32), bits(expected))


@given(
    st.integers(1, 70),
    st.integers(1, 70),
    st.integers(1, 70),
    st.integers(1, 70),
    st.sampled_from(sorted(oracle.FILTERS)),
    st.sampled_from(["auto", "horizontal", "vertical"]),
    st.integers(1, 3),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=150, deadline=None)
def test_levels_threads_and_views_agree(
    height, width, new_height, new_width, filter, first_pass, threads, seed
):
    rng = np.random.default_rng(seed)
    frames = rng.integers(0, 256, (2, height, width, 3), np.uint8)
    size = (new_height, new_width)
    vertical = {"horizontal": False, "vertical": True, "auto": None}[first_pass]
    expected = [oracle.resize(frame, size, filter, vertical) for frame in frames]
    wide = rng.integers(0, 256, (2, height, width + 5, 3), np.uint8)
    wide[:, :, 2:-3] = frames
    for level in HERE:
        for source in (frames, wide[:, :, 2:-3]):
            got = resize(
                source,
                size,
                filter=filter,
                first_pass=first_pass,
                threads=threads,
                level=level,
            )
            assert np.array_equal(got, expected), level


def guarded(shape, dtype):
    """A view for the output in the middle of poisoned memory, and that memory."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.full(n_bytes + 2 * MARGIN, 0xA5, np.uint8)
    return memory[MARGIN : MARGIN + n_bytes].view(dtype).reshape(shape), memory


@pytest.mark.parametrize("level", HERE)
@pytest.mark.parametrize(("source", "size"), oracle.FRAME_SIZES)
def test_nothing_outside_the_output_is_written(source, size, level):
    frames = np.random.default_rng(2).integers(0, 256, (2, *source, 3), np.uint8)
    options = ("bicubic", "auto", level, 2)
    out, memory = guarded((2, *size, 3), np.uint8)
    pf._frames.resize(frames, out, *options)
    planes, float_memory = guarded((2, 3, *size), np.float32)
    pf._frames.resize_normalize(frames, planes, tuple(MEAN), tuple(STD), *options)
    for guard in (memory, float_memory):
        assert (guard[:MARGIN] == 0xA5).all()
        assert (guard[-MARGIN:] == 0xA5).all()
    assert np.array_equal(out, resize(frames, size, level="scalar"))
    assert np.array_equal(planes, normalized(frames, size, level="scalar"))


@pytest.mark.parametrize("level", HERE)
@pytest.mark.parametrize("size", [(9, 11), (31, 43), (17, 43), (31, 90), (5, 43)])
def test_bytes_between_and_after_the_rows_do_not_matter(size, level):
    rng = np.random.default_rng(3)
    frame = rng.integers(0, 256, (31, 43, 3), np.uint8)
    results = []
    for poison in (0, 255):
        memory = np.full(31 * 150 + 2 * MARGIN, poison, np.uint8)
        rows = np.lib.stride_tricks.as_strided(
            memory[MARGIN:], (31, 43, 3), (150, 3, 1)
        )
        rows[:] = frame
        results.append(resize(rows, size, level=level))
    assert np.array_equal(*results)
    assert np.array_equal(results[0], resize(frame, size))


@pytest.mark.parametrize("threads", [1, 2, 4, 7, 1000])
def test_threads_do_not_show(threads):
    frames = np.random.default_rng(4).integers(0, 256, (3, 40, 30, 3), np.uint8)
    for size in [(21, 33), (11, 17), (40, 7), (1, 1)]:
        assert np.array_equal(
            resize(frames, size), resize(frames, size, threads=threads)
        )
        assert np.array_equal(
            normalized(frames, size), normalized(frames, size, threads=threads)
        )


def test_no_thread_outlives_the_call():
    before = set(os.listdir("/proc/self/task"))
    frames = np.zeros((4, 64, 64, 3), np.uint8)
    pf.resize(frames, (32, 32), threads=4)
    assert set(os.listdir("/proc/self/task")) <= before


def test_leading_axes_and_strides():
    base = np.random.default_rng(6).integers(0, 256, (4, 3, 20, 24, 3), np.uint8)
    expected = pf.resize(base, (10, 9))
    assert expected.shape == (4, 3, 10, 9, 3)
    for i in np.ndindex(4, 3):
        assert np.array_equal(expected[i], pf.resize(base[i], (10, 9)))
    views = {
        "every other": (base[::2, ::-1], expected[::2, ::-1]),
        "axes swapped": (base.swapaxes(0, 1), expected.swapaxes(0, 1)),
        "no axes": (base[1, 2], expected[1, 2]),
        "one more": (base[:, None], expected[:, None]),
        "a frame again and again": (
            np.broadcast_to(base[0, 0], (5, 20, 24, 3)),
            np.broadcast_to(expected[0, 0], (5, 10, 9, 3)),
        ),
        "upside down": (base[:, :, ::-1], pf.resize(base[:, :, ::-1].copy(), (10, 9))),
        "mirrored": (
            base[..., ::-1, :],
            pf.resize(base[..., ::-1, :].copy(), (10, 9)),
        ),
        "blue first": (base[..., ::-1], expected[..., ::-1]),
        "channel first in memory": (
            np.moveaxis(np.ascontiguousarray(np.moveaxis(base, -1, 0)), 0, -1),
            expected,
        ),
        "one column": (base[:, :, :, :1], pf.resize(base[:, :, :, :1].copy(), (10, 9))),
    }
    for name, (view, wanted) in views.items():
        view.flags.writeable = False
        assert np.array_equal(pf.resize(view, (10, 9)), wanted), name


def test_rows_are_not_copied():
    base = np.zeros((2, 500, 500, 3), np.uint8)
    view = base[::-1, ::-1, 10:]
    assert pf._check_frames(view) is view
    tracemalloc.start()
    pf.resize_normalize(view, (4, 4), mean=MEAN, std=STD)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < view.nbytes // 10


def test_empty_batch():
    frames = np.zeros((0, 4, 5, 3), np.uint8)
    assert pf.resize(frames, (2, 3)).shape == (0, 2, 3, 3)
    planes = pf.resize_normalize(frames, (2, 3), mean=MEAN, std=STD, threads=3)
    assert planes.shape == (0, 3, 2, 3)
    assert pf.resize(np.zeros((3, 0, 4, 5, 3), np.uint8), (2, 3)).shape[:2] == (3, 0)


def test_out_is_used_and_returned():
    frames = np.random.default_rng(7).integers(0, 256, (2, 8, 9, 3), np.uint8)
    out = np.full((2, 3, 5, 4), np.nan, np.float32)
    assert pf.resize_normalize(frames, (5, 4), mean=MEAN, std=STD, out=out) is out
    assert np.array_equal(out, normalized(frames, (5, 4)))


def test_long_axis():
    """More than 2^16 pixels; one row is enough to run over a 16-bit index."""
    row = np.random.default_rng(8).integers(0, 256, (1, 70001, 3), np.uint8)
    expected = oracle.resize(row, (1, 333), "bilinear")
    for level in HERE:
        got = resize(row, (1, 333), filter="bilinear", level=level)
        assert np.array_equal(got, expected), level
        turned = resize(row.swapaxes(0, 1), (333, 1), filter="bilinear", level=level)
        assert np.array_equal(turned.swapaxes(0, 1), expected), level


def free_bytes():
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            table = dict(line.split(":") for line in lines)
    except OSError:
        return 0
    return int(table["MemAvailable"].split()[0]) * 1024


def expected_rows(frame, size, rows):
    """Rows of a picture that is resized in width, then in height."""
    wide = oracle.resize(frame, (len(frame), size[1]), "bilinear").astype(np.int64)
    half = 1 << (oracle.WEIGHT_BITS - 1)
    weights = oracle.resize_weights(len(frame), size[0], "bilinear")
    taps = [(first, w, wide[first : first + len(w)]) for first, w in weights]
    sums = [np.tensordot(taps[y][1], taps[y][2], 1) + half for y in rows]
    return (np.stack(sums) >> oracle.WEIGHT_BITS).astype(np.uint8)


@pytest.mark.slow
@pytest.mark.skipif(free_bytes() < 6 * 2**30, reason="needs 6 GiB of free memory")
@pytest.mark.parametrize("level", HERE)
def test_more_than_two_to_the_31_bytes(level):
    frame = np.random.default_rng(9).integers(0, 256, (64, 96, 3), np.uint8)
    size = (22400, 32000)  # 2.15e9 bytes
    rows = [0, 1, 11200, 22368, 22369, 22370, 22399]  # byte 2^31 is in row 22369
    got = resize(frame, size, filter="bilinear", level=level)
    assert np.array_equal(got[rows], expected_rows(frame, size, rows))
    del got
    size = (7600, 32000)  # 2.9e9 bytes of float32
    rows = [0, 3800, 7598, 7599]
    planes = normalized(frame, size, filter="bilinear", level=level)
    expected = oracle.normalise(expected_rows(frame, size, rows), MEAN, STD)
    assert np.array_equal(planes[:, rows], expected)


@pytest.mark.slow
@pytest.mark.skipif(free_bytes() < 6 * 2**30, reason="needs 6 GiB of free memory")
@pytest.mark.parametrize("level", HERE)
def test_sources_of_more_than_two_to_the_31_bytes(level):
    frames = np.zeros((90, 2160, 3840, 3), np.uint8)  # 2.2e9 bytes
    frames[-1] = np.random.default_rng(10).integers(0, 256, frames.shape[1:], np.uint8)
    got = resize(frames[-2:], (30, 40), level=level)
    assert np.array_equal(resize(frames[::89], (30, 40), level=level), got)
    assert np.array_equal(got[1], resize(frames[-1], (30, 40), level="scalar"))
