"""A good citizen: threads, forks, signals, the GIL, memory."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

from phasefusion.errors import VideoError
from phasefusion.video import Video


def n_tasks():
    return len(os.listdir("/proc/self/task"))


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("name", ["h264_open.mp4", "av1.mp4", "vp9.webm", "asp.avi"])
def test_no_thread_outlives_a_call(name, clip, quiet_video):
    before = n_tasks()
    with quiet_video(clip(name), threads=4) as video:
        assert n_tasks() == before
        video.read(range(0, len(video), 2))
        assert n_tasks() == before


def test_threads_are_used_and_give_the_same(clip):
    wanted = np.arange(60)
    with (
        Video(clip("h264_intra.mp4")) as one,
        Video(clip("h264_intra.mp4"), threads=4) as four,
    ):
        assert np.array_equal(one.read(wanted), four.read(wanted))


def test_the_gil_is_free_while_decoding(clip):
    ticks = 0
    done = threading.Event()

    def count():
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.0005)

    with Video(clip("h264_one_key.mp4")) as video:
        counter = threading.Thread(target=count)
        counter.start()
        try:
            before, began = ticks, time.perf_counter()
            for _ in range(20):
                video.read(range(60))
            passed = time.perf_counter() - began
            counted = ticks - before
        finally:
            done.set()
            counter.join()
    assert counted > 0.1 * passed / 0.0005 / 4


def test_two_threads_in_one_video_are_refused_not_mixed(clip):
    with Video(clip("h264_one_key.mp4")) as video:
        true = video.read([5, 55])
        refused = []
        wrong = []

        def use():
            for _ in range(10):
                try:
                    wrong.append(not np.array_equal(video.read([5, 55]), true))
                except VideoError as error:
                    refused.append(str(error))

        users = [threading.Thread(target=use) for _ in range(3)]
        for user in users:
            user.start()
        for user in users:
            user.join()
        assert not any(wrong)
        assert len(refused) + len(wrong) == 30
        assert all("another thread" in text for text in refused)


@pytest.fixture
def heard_interrupts():
    """Have SIGINT raise, though a shell that put us in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard_interrupts")
def test_ctrl_c_stops_a_decode_half_way(clip):
    with Video(clip("long.mp4")) as video:
        wanted = range(0, len(video), 50)
        began, began_cpu = time.perf_counter(), time.process_time()
        video.read(wanted)
        whole = time.perf_counter() - began
        whole_cpu = time.process_time() - began_cpu
        assert whole > 0.05, "the clip must be long enough to be interrupted"
        interrupt = threading.Timer(whole / 5, os.kill, (os.getpid(), signal.SIGINT))
        interrupt.start()
        began_cpu = time.process_time()
        with pytest.raises(KeyboardInterrupt):
            video.read(wanted)
        # processor time, which other work on the machine does not stretch
        assert time.process_time() - began_cpu < 0.9 * whole_cpu
        interrupt.join()
        assert video.read([0]).shape == (1, 480, 800, 3)


@pytest.mark.skipif(
    "PHASEFUSION_UNDER_ASAN" in os.environ, reason="ASan keeps freed memory back"
)
def test_two_hundred_opens_leak_nothing(clip, quiet_video):
    names = ["h264.mp4", "vp9.webm", "asp.avi", "corrupted.mp4", "animation.gif"]
    paths = [clip(name) for name in names]

    def use(times):
        for k in range(times):
            with quiet_video(paths[k % len(paths)], threads=1 + k % 2) as video:
                video._reader.read(
                    np.arange(3), (np.empty((3, 96, 160, 3), np.uint8),), 2, False
                )
            with pytest.raises(VideoError):
                Video(clip("text.mp4"))

    use(25)
    files, before = open_files(), resident_bytes()
    use(200)
    assert open_files() == files
    assert resident_bytes() - before < 8 * 2**20
