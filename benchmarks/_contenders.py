"""How each library is asked for frames of a file by their indices.

`CONTENDERS[name]()` imports the library and gives `read(path, indices, threads)`, which
returns the frames as a sequence of (H, W, 3) uint8 arrays, and `count(path)`, the
number of frames that the library itself reports, as its users would ask for it. Each
way is the one that the library's own documentation shows for this purpose; nothing is
converted that was not asked for, and readers are closed before returning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Frames = Sequence[NDArray[np.uint8]]
Read = Callable[[str, Sequence[int], int], Frames]


@dataclass(frozen=True, slots=True)
class Decoder:
    """One way to read frames."""

    read: Read
    count: Callable[[str], int]
    version: str


def phasefusion() -> Decoder:
    import phasefusion
    from phasefusion.video import Video

    def read(path: str, indices: Sequence[int], threads: int) -> Frames:
        with warnings.catch_warnings(), Video(path, threads=threads) as video:
            return video.read(indices)

    def count(path: str) -> int:
        with warnings.catch_warnings(), Video(path) as video:
            return len(video)

    warnings.simplefilter("ignore")
    return Decoder(read, count, f"phasefusion {phasefusion.__version__}")


def decord() -> Decoder:
    import decord

    def read(path: str, indices: Sequence[int], threads: int) -> Frames:
        reader = decord.VideoReader(path, num_threads=threads)
        return reader.get_batch(list(indices)).asnumpy()

    def count(path: str) -> int:
        return len(decord.VideoReader(path, num_threads=1))

    decord.logging.set_level(decord.logging.QUIET)
    return Decoder(read, count, f"decord {decord.__version__}")


def torchcodec(seek_mode: str) -> Decoder:
    import torch
    import torchcodec
    from torchcodec.decoders import VideoDecoder

    torch.set_num_threads(1)

    def opened(path: str, threads: int) -> Any:
        return VideoDecoder(
            path,
            num_ffmpeg_threads=threads,
            seek_mode=seek_mode,
            dimension_order="NHWC",
        )

    def read(path: str, indices: Sequence[int], threads: int) -> Frames:
        return opened(path, threads).get_frames_at(list(indices)).data.numpy()

    version = f"torchcodec {torchcodec.__version__.partition('+')[0]}"
    return Decoder(read, lambda path: len(opened(path, 1)), version)


def torchcodec_exact() -> Decoder:
    return torchcodec("exact")


def torchcodec_approximate() -> Decoder:
    return torchcodec("approximate")


def av_opened(path: str, threads: int) -> Any:
    import av

    container = av.open(path)
    stream = container.streams.video[0]
    stream.codec_context.thread_count = threads
    stream.codec_context.thread_type = "AUTO" if threads > 1 else "NONE"
    return container, stream


def av_count(path: str) -> int:
    container, stream = av_opened(path, 1)
    with container:
        return int(stream.frames)


def av_version() -> str:
    import av

    av.logging.set_level(None)
    return f"PyAV {av.__version__}"


def pyav() -> Decoder:
    """Decode from the start, convert what is wanted, stop after the last."""

    def read(path: str, indices: Sequence[int], threads: int) -> Frames:
        wanted = set(indices)
        found = {}
        container, stream = av_opened(path, threads)
        with container:
            for i, frame in enumerate(container.decode(stream)):
                if i in wanted:
                    found[i] = frame.to_ndarray(format="rgb24")
                    if len(found) == len(wanted):
                        break
        return [found[i] for i in indices]

    return Decoder(read, av_count, av_version())


def pyav_seek() -> Decoder:
    """Seek before each frame, its time computed from the average frame rate."""

    def read(path: str, indices: Sequence[int], threads: int) -> Frames:
        found = []
        container, stream = av_opened(path, threads)
        with container:
            start = stream.start_time or 0
            for index in indices:
                ticks = round(index / stream.average_rate / stream.time_base) + start
                container.seek(ticks, stream=stream)
                for frame in container.decode(stream):
                    if frame.pts is not None and frame.pts >= ticks:
                        found.append(frame.to_ndarray(format="rgb24"))
                        break
                else:
                    raise IndexError(f"no frame at {ticks}")
        return found

    return Decoder(read, av_count, av_version())


def cv_opened(path: str, threads: int) -> Any:
    import cv2

    parameters = [cv2.CAP_PROP_N_THREADS, threads]
    capture = cv2.VideoCapture(path, cv2.CAP_FFMPEG, parameters)
    if not capture.isOpened():
        raise ValueError("OpenCV does not open it")
    return capture


def cv_count(path: str) -> int:
    import cv2

    capture = cv_opened(path, 1)
    n = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
    capture.release()
    return n


def cv_version() -> str:
    import cv2

    cv2.setNumThreads(1)
    return f"OpenCV {cv2.__version__}"


def opencv() -> Decoder:
    """Grab every frame, retrieve what is wanted, stop after the last."""
    import cv2

    def read(path: str, indices: Sequence[int], threads: int) -> Frames:
        wanted = set(indices)
        found = {}
        capture = cv_opened(path, threads)
        for i in range(max(wanted) + 1):
            if not capture.grab():
                break
            if i in wanted:
                good, picture = capture.retrieve()
                if not good:
                    break
                found[i] = cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)
        capture.release()
        return [found[i] for i in indices]

    return Decoder(read, cv_count, cv_version())


def opencv_seek() -> Decoder:
    """Set the position before each frame."""
    import cv2

    def read(path: str, indices: Sequence[int], threads: int) -> Frames:
        found = []
        capture = cv_opened(path, threads)
        for index in indices:
            capture.set(cv2.CAP_PROP_POS_FRAMES, index)
            good, picture = capture.read()
            if not good:
                raise IndexError(f"frame {index} does not come")
            found.append(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB))
        capture.release()
        return found

    return Decoder(read, cv_count, cv_version())


OURS = "phasefusion"
CONTENDERS: dict[str, Callable[[], Decoder]] = {
    OURS: phasefusion,
    "decord": decord,
    "torchcodec exact": torchcodec_exact,
    "torchcodec approximate": torchcodec_approximate,
    "PyAV": pyav,
    "PyAV, seeking": pyav_seek,
    "OpenCV": opencv,
    "OpenCV, POS_FRAMES": opencv_seek,
}
