"""A good citizen: threads and the GIL."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

from phasefusion.errors import VideoError
from phasefusion.video import Video


def n_tasks():
    return len(os.listdir("/proc/self/task"))


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


def test_threads_in_one_video_are_refused_not_mixed(clip):
    """Readers, recounts, facts and a close from eight threads at once."""
    with Video(clip("h264_one_key.mp4"), threads=2) as video:
        true = video.read([5, 55])
        refused, wrong, others = [], [], []
        begin = threading.Barrier(8)

        def use(what):
            begin.wait()
            for _ in range(15):
                try:
                    what()
                except VideoError as error:
                    refused.append(str(error))
                except BaseException as error:
                    others.append(error)

        def read():
            wrong.append(not np.array_equal(video.read([5, 55]), true))

        def fit():
            video.read([5, 55], size=(32, 32))

        whats = [read] * 4 + [fit, video._reader.recount, video._reader.info]
        whats += [video._reader.pts]
        users = [threading.Thread(target=use, args=(what,)) for what in whats]
        for user in users:
            user.start()
        for user in users:
            user.join()
        assert not any(wrong)
        assert not others
        assert refused
        assert all("another thread; open one Video a thread" in r for r in refused)
        assert np.array_equal(video.read([5, 55]), true)


def test_a_close_in_another_thread_is_refused_or_ends_the_video(clip):
    for _ in range(20):
        video = Video(clip("h264_one_key.mp4"))
        said = []

        def read(video=video, said=said):
            try:
                video.read(range(60))
            except VideoError as error:
                said.append(str(error))

        user = threading.Thread(target=read)
        user.start()
        try:
            video.close()
        except VideoError as error:
            said.append(str(error))
        user.join()
        assert all("closed" in text or "another thread" in text for text in said)
        video.close()
        video.close()


def test_one_video_a_thread(clip):
    """Sixteen threads, each with its own, give what one gives."""
    before = n_tasks()
    path = clip("h264_open.mp4")
    with Video(path) as video:
        true = video.read(range(60))
    wrong = []

    def use(k):
        with Video(path, threads=1 + k % 3) as video:
            wrong.append(not np.array_equal(video.read(range(60)), true))

    users = [threading.Thread(target=use, args=(k,)) for k in range(16)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert wrong == [False] * 16
    deadline = time.monotonic() + 5
    while n_tasks() > before and time.monotonic() < deadline:
        time.sleep(0.01)  # a joined thread may take a moment to leave the list
    assert n_tasks() <= before
