"""What may not be resized, and what the message says."""

import numpy as np
import pytest

from phasefusion import _frames
from phasefusion import frames as pf
from phasefusion.errors import FrameError

FRAMES = np.zeros((2, 4, 5, 3), np.uint8)
GOOD = {"mean": [0.5] * 3, "std": [0.5] * 3}


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ([[0, 0, 0]], "frames must be a NumPy array of uint8, got list"),
        (FRAMES.astype(np.float32), "uint8, got float32; scaled floats have lost"),
        (FRAMES.astype(np.int8), "uint8, got int8"),
        (FRAMES.astype(bool), "uint8, got bool"),
        (FRAMES[0, 0], r"shape \(\.\.\., height, width, 3\), got \(5, 3\)"),
        (FRAMES[..., :2], r"got \(2, 4, 5, 2\); convert grey"),
        (np.zeros((2, 3, 4, 5), np.uint8), r"got \(2, 3, 4, 5\).*leading channel axis"),
        (np.zeros((2, 0, 5, 3), np.uint8), r"1 to 16777216 pixels.*\(2, 0, 5, 3\)"),
        (np.zeros((4, 0, 3), np.uint8), "1 to 16777216 pixels"),
        (
            np.broadcast_to(np.zeros(3, np.uint8), (1, (1 << 24) + 1, 3)),
            "1 to 16777216 pixels",
        ),
    ],
)
def test_frames(frames, message):
    with pytest.raises(FrameError, match=message):
        pf.resize(frames, (2, 3))
    with pytest.raises(FrameError, match=message):
        pf.resize_normalize(frames, (2, 3), **GOOD)


@pytest.mark.parametrize(
    "size",
    [
        (0, 3),
        (2, -1),
        (2,),
        (2, 3, 4),
        224,
        "23",
        (2.0, 3.0),
        (True, 2),
        None,
        (1, (1 << 24) + 1),
        {2, 3},
    ],
)
def test_size(size):
    with pytest.raises(FrameError, match=r"size must be \(height, width\).*got ") as e:
        pf.resize(FRAMES, size)
    assert repr(size) in str(e.value)
    with pytest.raises(FrameError, match="size must be"):
        pf.resize_normalize(FRAMES, size, **GOOD)


def test_sizes_that_are_integers_of_another_kind():
    wanted = pf.resize(FRAMES, (2, 3))
    for size in ([2, 3], np.array([2, 3]), (np.int64(2), np.uint8(3))):
        assert np.array_equal(pf.resize(FRAMES, size), wanted)


@pytest.mark.parametrize("filter", ["nearest", "BICUBIC", "", "cubic"])
def test_filter(filter):
    with pytest.raises(FrameError, match="filter must be one of box, bilinear") as e:
        pf.resize(FRAMES, (2, 3), filter=filter)
    assert repr(filter) in str(e.value)


def test_first_pass():
    with pytest.raises(FrameError, match=r"first_pass must be one of auto.*'down'"):
        pf.resize(FRAMES, (2, 3), first_pass="down")


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2", None])
def test_threads(threads):
    with pytest.raises(FrameError, match="threads must be"):
        pf.resize(FRAMES, (2, 3), threads=threads)


@pytest.mark.parametrize("name", ["mean", "std"])
@pytest.mark.parametrize(
    "value",
    [
        0.5,
        [0.5, 0.5],
        [0.5] * 4,
        [[0.5] * 3],
        [0.5, np.nan, 0.5],
        [np.inf, 1, 1],
        [1e39, 1, 1],
        "abc",
        None,
        [1j, 1, 1],
        [[1], [1, 2], [3]],
    ],
)
def test_mean_and_std(name, value):
    with pytest.raises(FrameError, match=f"{name} must be three finite float32"):
        pf.resize_normalize(FRAMES, (2, 3), **{**GOOD, name: value})


@pytest.mark.parametrize("zero", [0.0, -0.0, 1e-60])
def test_std_zero(zero):
    with pytest.raises(FrameError, match="std must not be 0"):
        pf.resize_normalize(FRAMES, (2, 3), mean=[0.5] * 3, std=[0.5, zero, 0.5])


def test_out():
    shape = (2, 3, 2, 3)

    def call(out, frames=FRAMES):
        return pf.resize_normalize(frames, (2, 3), **GOOD, out=out)

    with pytest.raises(
        FrameError, match="out must be a NumPy array of float32, got fl"
    ):
        call(np.zeros(shape))
    with pytest.raises(FrameError, match="float32, got >f4"):
        call(np.zeros(shape, ">f4"))
    with pytest.raises(FrameError, match="float32, got list"):
        call([])
    with pytest.raises(FrameError, match=r"shape \(2, 3, 2, 3\), got \(2, 2, 3, 3\)"):
        call(np.zeros((2, 2, 3, 3), np.float32))
    with pytest.raises(FrameError, match="C-contiguous, aligned and writable"):
        call(np.zeros((2, 3, 3, 2), np.float32).swapaxes(2, 3))
    locked = np.zeros(shape, np.float32)
    locked.flags.writeable = False
    with pytest.raises(FrameError, match="writeable=False"):
        call(locked)
    odd = np.zeros(4 * 36 + 1, np.uint8)[1:].view(np.float32).reshape(shape)
    with pytest.raises(FrameError, match="aligned"):
        call(odd)
    memory = np.zeros(4 * 36, np.uint8)
    with pytest.raises(FrameError, match="share memory"):
        call(memory.view(np.float32).reshape(shape), memory[:120].reshape(2, 4, 5, 3))


def test_a_failed_call_leaves_out_alone():
    out = np.full((2, 3, 2, 3), 7, np.float32)
    with pytest.raises(FrameError):
        pf.resize_normalize(FRAMES, (2, 3), mean=[0] * 3, std=[0] * 3, out=out)
    assert (out == 7).all()


def test_the_extension_checks_for_itself():
    """It is private, but must not read or write out of bounds whatever it is given."""
    out = np.zeros((2, 2, 3, 3), np.uint8)
    good = ("bicubic", "auto", "auto", 1)
    bad_frames = [
        None,
        FRAMES[0, 0],
        FRAMES.astype(np.int8),
        FRAMES[..., :2],
        FRAMES[..., ::-1],
        FRAMES[:, :, ::-1],
        FRAMES[:, :0],
    ]
    for frames in bad_frames:
        with pytest.raises(ValueError, match="frames"):
            _frames.resize(frames, out, *good)
    for bad in [None, out[:1], out[0], out[..., :2], out.astype(np.int8), out[::-1]]:
        with pytest.raises(ValueError, match="out must"):
            _frames.resize(FRAMES, bad, *good)
    for options, message in [
        (("sharp", "auto", "auto", 1), "unknown filter 'sharp'"),
        (("box", "down", "auto", 1), "unknown first pass 'down'"),
        (("box", "auto", "mmx", 1), "mmx is out of range"),
        (("box", "auto", "auto", 0), "threads is out of range"),
    ]:
        with pytest.raises(ValueError, match=message):
            _frames.resize(FRAMES, out, *options)
    planes = np.zeros((2, 3, 2, 3), np.float32)
    zeros = (0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="mean or std is out of range"):
        _frames.resize_normalize(FRAMES, planes, zeros, zeros, *good)
    with pytest.raises(ValueError, match="mean or std holds NaN or Inf"):
        _frames.resize_normalize(FRAMES, planes, zeros, (1.0, np.nan, 1.0), *good)
