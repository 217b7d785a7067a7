"""Contact sheets and the PNG writer, against an independent reader."""

import struct
import zlib

import numpy as np
import pytest
from pixel_scorer import make_clip

from phasefusion import PhaseGrid, read_clip, resize
from phasefusion._video_fit import Fit
from phasefusion.contact import contact_sheet, picture_size, write_png
from phasefusion.errors import FrameError

RED = (230, 40, 40)


def read_png(data):
    """Decode an 8-bit RGB PNG without interlacing, all five filters."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, parts = 8, {}
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        (crc,) = struct.unpack_from(">I", data, at + 8 + size)
        assert crc == zlib.crc32(kind + body)
        parts[kind] = parts.get(kind, b"") + body
        at += 12 + size
    assert list(parts) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, depth, color, *rest = struct.unpack(">IIBBBBB", parts[b"IHDR"])
    assert (depth, color, rest) == (8, 2, [0, 0, 0])
    raw = zlib.decompress(parts[b"IDAT"])
    assert len(raw) == height * (1 + 3 * width)
    above = [0] * (3 * width)
    rows = []
    for y in range(height):
        line = raw[y * (1 + 3 * width) : (y + 1) * (1 + 3 * width)]
        row = []
        for x, value in enumerate(line[1:]):
            left = row[x - 3] if x >= 3 else 0
            add = {0: 0, 1: left, 2: above[x], 3: (left + above[x]) // 2}[line[0]]
            row.append((value + add) % 256)
        rows.append(row)
        above = row
    return np.array(rows, np.uint8).reshape(height, width, 3)


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (13, 1), (31, 17), (64, 48)])
def test_png_round_trip(tmp_path, shape):
    pixels = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
    write_png(tmp_path / "a.png", pixels)
    assert np.array_equal(read_png((tmp_path / "a.png").read_bytes()), pixels)


def test_png_is_what_pillow_reads(tmp_path):
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(1).integers(0, 256, (23, 37, 3), np.uint8)
    write_png(tmp_path / "a.png", pixels)
    with image.open(tmp_path / "a.png") as picture:
        assert np.array_equal(np.asarray(picture), pixels)


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((4, 4, 3)),
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((0, 4, 3), np.uint8),
    ],
)
def test_png_of_nothing_else(tmp_path, pixels):
    with pytest.raises(FrameError, match="pixels"):
        write_png(tmp_path / "a.png", pixels)


def test_sheet_is_a_row_a_phase_and_a_column_a_sample(tmp_path):
    make_clip(tmp_path / "clip.mp4", 40)
    clip = read_clip(tmp_path / "clip.mp4", PhaseGrid(4, 3))
    clip.missing[1, 2] = clip.missing[0, 3] = clip.damaged[0, 3] = True
    sheet = contact_sheet(clip, width_px=32)
    height = 24
    cell_height, cell_width = height + 5 * 2 + 8, 32 + 4
    assert sheet.shape == (3 * cell_height + 4, 4 * cell_width + 4, 3)
    for s in range(3):
        for i in range(4):
            top, left = s * cell_height + 4, i * cell_width + 4
            cell = sheet[top : top + height, left : left + 32]
            if (s, i) == (1, 2):
                marked = cell.any(axis=2)
                assert (cell[marked] == RED).all()
                assert marked[[0, 0, -1, -1, 12], [0, -1, 0, -1, 16]].all()
                assert marked.any(axis=1).all()
                assert marked.any(axis=0).all()
                assert marked.mean() < 0.25
                continue
            wanted = resize(clip.frames[s, i], (height, 32), filter="bicubic")
            if (s, i) == (0, 3):
                assert np.array_equal(cell[2:-2, 2:-2], wanted[2:-2, 2:-2])
                cell[2:-2, 2:-2] = RED
                assert (cell == RED).all()
            else:
                assert np.array_equal(cell, wanted)


def test_labels_tell_the_frames_apart(tmp_path):
    make_clip(tmp_path / "clip.mp4", 125)
    clip = read_clip(tmp_path / "clip.mp4", PhaseGrid(5, 5))
    sheet = contact_sheet(clip, width_px=32)
    cell_height, cell_width = 24 + 18, 36
    labels = {
        sheet[s * cell_height + 32 : (s + 1) * cell_height + 4][
            :, i * cell_width : (i + 1) * cell_width
        ].tobytes()
        for s in range(5)
        for i in range(5)
    }
    assert len(labels) == 25


@pytest.mark.parametrize("width", [0, 15, 4097])
def test_width_is_bounded(tmp_path, width):
    make_clip(tmp_path / "clip.mp4", 4)
    clip = read_clip(tmp_path / "clip.mp4", PhaseGrid(2))
    with pytest.raises(FrameError, match="width_px must be 16 to 4096"):
        contact_sheet(clip, width_px=width)


def test_sheet_is_bounded(tmp_path):
    make_clip(tmp_path / "clip.mp4", 40)
    clip = read_clip(tmp_path / "clip.mp4", PhaseGrid(8, 5))
    with pytest.raises(FrameError, match=r"of \d+x\d+ pixels, more than 2\*\*28"):
        contact_sheet(clip, width_px=4096)


@pytest.mark.parametrize("width", [16, 37, 160])
def test_frames_read_at_the_size_of_a_picture_make_the_same_sheet(tmp_path, width):
    make_clip(tmp_path / "clip.mp4", 40)
    path, grid = tmp_path / "clip.mp4", PhaseGrid(4, 3)
    whole = contact_sheet(read_clip(path, grid), width_px=width)
    small = read_clip(path, grid, size=picture_size(3, width))
    assert small.frames.shape[3] == width
    assert np.array_equal(contact_sheet(small, width_px=width), whole)


def test_a_sheet_that_is_too_large_is_refused_before_frames_are_read(
    tmp_path, monkeypatch
):
    make_clip(tmp_path / "clip.mp4", 4)
    monkeypatch.setattr(Fit, "read", None)
    size = picture_size(1000, 160)
    with pytest.raises(FrameError, match=r"1000 rows of 4000 .* fewer frames \(about"):
        read_clip(tmp_path / "clip.mp4", PhaseGrid(4000, 1000), size=size)
