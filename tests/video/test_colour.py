"""Colours: bit-exact against the NumPy twin, close to the ffmpeg program."""

from __future__ import annotations

import numpy as np
import oracle
import pytest

# (clip, FFmpeg's name of its layout, depth, chroma shifts, full range)
LAYOUTS = [
    ("alpha.mkv", "yuv420p", 8, (1, 1), False),
    ("h264_422.mp4", "yuv422p", 8, (1, 0), False),
    ("h264_444.mp4", "yuv444p", 8, (0, 0), False),
    ("h264_hi10.mp4", "yuv420p10le", 10, (1, 1), False),
    ("h264.mp4", "yuv420p", 8, (1, 1), False),
    ("mjpeg.avi", "yuvj420p", 8, (1, 1), True),
    ("odd.webm", "yuv420p", 8, (1, 1), False),
    ("odd_444.mkv", "yuv444p", 8, (0, 0), False),
]


def planes(raw, width, height, depth, shifts):
    """Y, U, V of the first frame."""
    wide = raw.view("<u2") if depth > 8 else raw
    chroma = (-(-height >> shifts[1]) if shifts[1] == 0 else (height + 1) >> 1, 0)[0]
    columns = width if shifts[0] == 0 else (width + 1) >> 1
    y = wide[: width * height].reshape(height, width)
    rest = wide[width * height :]
    u = rest[: chroma * columns].reshape(chroma, columns)
    v = rest[chroma * columns : 2 * chroma * columns].reshape(chroma, columns)
    return y, u, v


@pytest.mark.parametrize(("name", "layout", "depth", "shifts", "full"), LAYOUTS)
def test_yuv_is_converted_as_defined(
    name, layout, depth, shifts, full, clip, quiet_video, ffmpeg_frames
):
    path = clip(name)
    with quiet_video(path) as video:
        frame = video.read([0])[0]
        raw = ffmpeg_frames(path, video.info, layout)
    height, width = frame.shape[:2]
    y, u, v = planes(raw, width, height, depth, shifts)
    true = oracle.yuv_to_rgb(y, u, v, "bt601", full, depth)
    assert np.array_equal(frame, true)
    real = oracle.yuv_to_rgb_real(y, u, v, "bt601", full, depth)
    assert np.abs(frame - real).max() <= 0.5 + 1e-3


@pytest.mark.parametrize("matrix", ["bt709", "bt601", "bt2020", "smpte240m", "fcc"])
@pytest.mark.parametrize("full", [False, True])
def test_matrix_and_range_are_the_frame_s_own(
    matrix, full, tmp_path, clip, quiet_video, ffmpeg_frames
):
    tag = {"bt601": "smpte170m", "bt2020": "bt2020nc"}.get(matrix, matrix)
    path = tmp_path / "tagged.mkv"
    make = pytest.importorskip("make")
    options = ["-c:v", "ffv1", "-pix_fmt", "yuv420p", "-colorspace", tag]
    options += ["-color_range", "pc" if full else "tv"]
    make.encode(path, make.pictures(2), options)
    with quiet_video(path) as video:
        frame = video.read([1])[0]
        info = video.info
        assert info.color_space == tag
        assert info.color_range == ("pc" if full else "tv")
        raw = ffmpeg_frames(path, info, "yuv420p")
    y, u, v = planes(raw[len(raw) // 2 :], 160, 96, 8, (1, 1))
    assert np.array_equal(frame, oracle.yuv_to_rgb(y, u, v, matrix, full, 8))


@pytest.mark.parametrize(
    ("name", "mean", "most"),
    [
        ("h264.mp4", 1.3, 4),  # the program's fast path cuts where we round
        ("mjpeg.avi", 1.3, 4),
        ("h264_444.mp4", 0.1, 1),
        ("rgb.mkv", 0, 0),
        ("png.mkv", 0, 0),
        ("animation.gif", 0, 0),
        ("palette.avi", 0, 0),
        ("grey.mkv", 0, 0),
        ("grey12.mkv", 0.6, 1),
        ("deep16.mkv", 0.6, 1),
        ("packed.avi", 2.0, 60),  # the program blends chroma of neighbours here
    ],
)
def test_colours_are_close_to_the_ffmpeg_program(
    name, mean, most, clip, quiet_video, ffmpeg_frames
):
    path = clip(name)
    with quiet_video(path) as video:
        frames = video.read([0, len(video) - 1]).astype(int)
        true = ffmpeg_frames(path, video.info, "rgb24")
    true = true.reshape(-1, *frames.shape[1:])[[0, -1]].astype(int)
    assert np.abs(frames - true).mean() <= mean
    assert np.abs(frames - true).max() <= most


def test_grey_is_grey(clip, quiet_video, ffmpeg_frames):
    path = clip("grey.mkv")
    with quiet_video(path) as video:
        frame = video.read([3])[0]
        raw = ffmpeg_frames(path, video.info, "gray").reshape(-1, *frame.shape[:2])
    assert np.array_equal(frame, np.repeat(raw[3][..., None], 3, axis=2))
