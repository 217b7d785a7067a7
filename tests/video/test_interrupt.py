"""Ctrl-C stops every long call within 0.2 s."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
import this_ffmpeg

from phasefusion import PhaseGrid
from phasefusion.video import Video, read_clips

pytestmark = pytest.mark.usefixtures("heard_interrupts")

LATEST_S = 0.2
TRIES = 5  # a busy machine may be late; not five times


def stops_after(call, after_s):
    """Seconds from the signal to the KeyboardInterrupt; the call must not end first."""
    sent = []

    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after_s, send)
    timer.start()
    try:
        call()
    except KeyboardInterrupt:
        return time.monotonic() - sent[0]
    finally:
        timer.cancel()
        timer.join()
    pytest.fail(f"the call ended within {after_s:.3f} s; it is no test")


def assert_stops(call):
    began = time.monotonic()
    call()
    whole_s = time.monotonic() - began
    assert whole_s > 0.3, f"{whole_s:.3f} s is too short to be interrupted"
    late = [stops_after(call, whole_s * (0.1 + 0.08 * k)) for k in range(TRIES)]
    assert min(late) < LATEST_S, late
    assert np.median(late) < 2 * LATEST_S, late


@pytest.mark.parametrize("threads", [1, 2])
def test_decoding_stops(threads, clip):
    with Video(clip("long.mp4"), threads=threads) as video:
        assert_stops(lambda: video.read(range(0, len(video), 25)))
        assert video.read([0]).shape == (1, 480, 800, 3)  # and it can be used on


def test_decoding_stops_while_only_others_have_work(clip, tmp_path):
    """Two groups of pictures, a short one and all the rest."""
    from make import ffmpeg

    path = tmp_path / "two_groups.mp4"
    x264 = "keyint=infinite:min-keyint=1:scenecut=0"
    coder = ["-c:v", "libx264", "-preset", "ultrafast", "-x264-params", x264]
    ffmpeg("-i", clip("long.mp4"), *coder, "-force_key_frames", "expr:eq(n,5)", path)
    with Video(path, threads=2) as video:
        wanted = [0, len(video) - 1]
        began = time.monotonic()
        video.read(wanted)
        whole_s = time.monotonic() - began
        late = [stops_after(lambda: video.read(wanted), whole_s / 4) for _ in range(9)]
        assert max(late) < whole_s / 2, (whole_s, late)


def test_decoding_to_a_size_stops(clip):
    grids = [PhaseGrid(8, 3)]
    assert_stops(lambda: read_clips(clip("long.mp4"), grids, size=(224, 224)))


def test_reading_from_a_file_that_is_not_held_stops(clip):
    with Video(clip("long.mp4"), cache_bytes=1) as video:
        assert_stops(lambda: video.read(range(0, len(video), 25)))
        assert len(video.read([0])) == 1


def test_counting_stops(clip, tmp_path):
    """A stream whose order has to be found by decoding all of it."""
    from make import ffmpeg

    path = tmp_path / "long.h264"
    ffmpeg("-i", clip("long.mp4"), "-c", "copy", path)
    with Video(path) as video:
        assert video.info.counted
    assert_stops(lambda: Video(path))


def test_recounting_stops(clip):
    with Video(clip("long.mp4")) as video:
        true = video.pts

        def recount():
            with Video(clip("long.mp4")) as other:
                other._reader.recount()

        assert_stops(recount)
        for after_s in (0.05, 0.15):
            stops_after(video._reader.recount, after_s)
        assert np.array_equal(video._reader.pts(), true)  # as it was


def test_scanning_stops(tmp_path):
    """A file of a million pictures of one pixel."""
    this_ffmpeg.need(demuxer="yuv4mpegpipe")
    path = tmp_path / "million.y4m"
    with path.open("wb") as file:
        file.write(b"YUV4MPEG2 W1 H1 F25:1 Cmono\n" + b"FRAME\n\x80" * 1_000_000)

    def scan():
        with Video(path, cache_bytes=1) as video:
            assert len(video) == 1_000_000

    assert_stops(scan)
