"""Colour histograms and their change, against NumPy and OpenCV."""

import numpy as np
import oracle_anchors as oracle
import pytest

from phasefusion import _frames


def noise(n, pixels, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, pixels, 3), np.uint8)


@pytest.mark.parametrize("pixels", [0, 1, 2, 3, 5, 7, 64, 4099])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_histograms_are_those_of_numpy(n, pixels):
    frames = noise(n, pixels)
    counts = _frames.histograms(frames)
    assert counts.dtype == np.uint32
    np.testing.assert_array_equal(counts, oracle.histograms(frames))


def test_change_is_the_twins():
    frames = noise(9, 1009)
    frames[3] //= 3  # darker
    frames[5] = frames[5, :, :1]  # grey
    frames[6] = 77  # one colour
    counts = oracle.histograms(frames).astype(np.uint32)
    counts[7] *= 5  # five times the pixels
    change = _frames.histogram_change(counts)
    np.testing.assert_allclose(
        change, oracle.histogram_change(counts), rtol=1e-12, atol=1e-12
    )
    assert change[0] == 0.0
    assert change[6] > 0.8 > change[1]
    for n in (0, 1):
        assert _frames.histogram_change(counts[:n]).tolist() == [0.0] * n


def test_equal_frames_are_exactly_0_apart_and_disjoint_ones_1():
    frames = np.repeat(noise(1, 1009), 3, axis=0)
    frames[2] = 255
    frames[:2] //= 2
    change = _frames.histogram_change(_frames.histograms(frames))
    assert change[1] == 0.0
    assert change[2] == pytest.approx(1.0, abs=1e-15)
    assert change[2] <= 1.0


def test_change_is_that_of_opencv():
    cv2 = pytest.importorskip("cv2")
    counts = _frames.histograms(
        noise(5, 500) // np.arange(1, 6, dtype=np.uint8)[:, None, None]
    )
    rows = counts.reshape(5, -1).astype(np.float32)
    theirs = [
        cv2.compareHist(rows[i - 1], rows[i], cv2.HISTCMP_BHATTACHARYYA)
        for i in range(1, 5)
    ]
    ours = _frames.histogram_change(counts)[1:]
    np.testing.assert_allclose(ours, theirs, atol=1e-7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: _frames.histograms(np.zeros((2, 3), np.uint8)), "3 dimensions"),
        (lambda: _frames.histograms(np.zeros((1, 2, 4), np.uint8)), "pixels, 3"),
        (lambda: _frames.histogram_change(np.ones((1, 3, 31), np.uint32)), "3, 32"),
        (lambda: _frames.histogram_change(np.zeros((1, 3, 32), np.uint32)), "no pix"),
    ],
)
def test_what_is_no_histogram_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
