"""A forked child gets an error or frames, never a hang."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from phasefusion import PhaseGrid
from phasefusion.errors import VideoError
from phasefusion.video import Video, read_clip

# Later Pythons warn at a fork beside threads, which is what is tested.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
PATIENCE_S = 60


def in_child(use: Callable[[], bool]) -> None:
    """Run in a forked child, which must return True in time."""
    child = os.fork()
    if child == 0:  # pragma: no cover
        code = 1
        try:
            code = 0 if use() else 2
        finally:
            os._exit(code)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")


def error_of(use: Callable[[], object]) -> str:
    try:
        use()
    except VideoError as error:
        return str(error)
    return ""


def test_a_video_of_the_parent_is_refused_in_the_child(clip):
    path = clip("h264_open.mp4")
    with Video(path, threads=2) as video:
        true = video.read([3, 33])
        parent = os.getpid()

        def use():
            asked = [
                lambda: video.read([3]),
                lambda: video.read([3], size=(8, 8)),
                video._reader.info,
                video._reader.pts,
                video._reader.recount,
            ]
            what = f"{path}: opened in process {parent}; open it again here"
            facts = len(video) == 60 and len(video.pts) == 60
            return facts and all(error_of(ask).startswith(what) for ask in asked)

        in_child(use)
        assert np.array_equal(video.read([3, 33]), true)


def test_a_child_opens_its_own(clip):
    with Video(clip("h264_open.mp4"), threads=2) as video:
        true = video.read([3, 33])

        def use():
            with Video(clip("h264_open.mp4"), threads=2) as own:
                return np.array_equal(own.read([3, 33]), true)

        in_child(use)


def test_a_child_may_close_and_forget(clip):
    data = bytearray(clip("h264.mp4").read_bytes())
    videos = [Video(clip("h264.mp4")), Video(data, cache_bytes=1)]

    def use():
        videos[0].close()
        videos[0].close()
        closed = error_of(lambda: videos[0].read([1]))
        videos.clear()
        data.clear()  # not pinned any more
        return "opened in process" in closed

    in_child(use)
    assert all(len(video.read([1])) == 1 for video in videos)


def test_a_fork_while_another_thread_reads(clip):
    """The child finds the video taken by a thread that does not exist there."""
    with Video(clip("long.mp4"), threads=2) as video:
        done = threading.Event()

        def read():
            while not done.is_set():
                video.read(range(0, 500, 25))

        reader = threading.Thread(target=read)
        reader.start()
        try:
            for _ in range(10):
                time.sleep(0.01)

                def use():
                    refused = "opened in process" in error_of(lambda: video.read([0]))
                    video.close()
                    with Video(clip("h264.mp4"), threads=2) as own:
                        return refused and len(own.read([0, 59])) == 2

                in_child(use)
        finally:
            done.set()
            reader.join()
        assert len(video.read([0])) == 1


@pytest.mark.skipif(
    "PHASEFUSION_UNDER_ASAN" in os.environ,
    reason="a fork may take a lock of ASan with it",
)
def test_a_fork_while_another_thread_opens(clip):
    done = threading.Event()

    def open_often():
        while not done.is_set():
            Video(clip("asp.avi")).close()

    opener = threading.Thread(target=open_often)
    opener.start()
    try:
        for _ in range(10):
            in_child(
                lambda: len(read_clip(clip("h264.mp4"), PhaseGrid(4)).indices) == 1
            )
    finally:
        done.set()
        opener.join()


class Frames:
    """A data set as data loaders know it: made in the parent, indexed in workers."""

    def __init__(self, path: Path, *, keep: bool) -> None:
        self.path = path
        self.video = Video(path) if keep else None

    def __getitem__(self, index: int) -> int:
        if self.video is not None:
            return int(self.video.read([index]).sum())
        with Video(self.path) as video:
            return int(video.read([index]).sum())


_frames: Frames


def _sum_of(index: int) -> int | str:
    try:
        return _frames[index]
    except VideoError as error:
        return str(error)


def test_a_pool_of_forked_workers(clip):
    """Right when each opens its own, an error in every worker when they share one."""
    global _frames
    context = multiprocessing.get_context("fork")
    path = clip("h264_open.mp4")
    with Video(path) as video:
        true = [int(frame.sum()) for frame in video.read(range(24))]
    for keep in (False, True):
        _frames = Frames(path, keep=keep)
        with context.Pool(3) as pool:
            got = pool.map_async(_sum_of, range(24)).get(PATIENCE_S)
        if keep:
            assert all(f"{path}: opened in process {os.getpid()}; " in g for g in got)
        else:
            assert got == true


def _serve(todo, done, frames) -> None:
    for index in iter(todo.get, None):
        done.put((index, frames[index]))


def test_long_lived_workers_with_queues(clip):
    """As a data loader: workers live on, requests and results go through queues."""
    context = multiprocessing.get_context("fork")
    todo, done = context.Queue(), context.Queue()
    frames = Frames(clip("vp9.webm"), keep=False)
    parent = Video(clip("vp9.webm"), threads=2)  # open in the parent all the while
    true = [int(frame.sum()) for frame in parent.read(range(20))]
    workers = [
        context.Process(target=_serve, args=(todo, done, frames)) for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    try:
        for index in range(20):
            todo.put(index)
            parent.read([index])
        got = dict(done.get(timeout=PATIENCE_S) for _ in range(20))
    except queue.Empty:
        pytest.fail("a worker hangs")
    finally:
        for _ in workers:
            todo.put(None)
        for worker in workers:
            worker.join(PATIENCE_S)
            worker.kill()
    assert [got[index] for index in range(20)] == true
