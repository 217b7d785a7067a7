"""A file that names other files or addresses has none of them opened."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import this_ffmpeg

from phasefusion.errors import VideoError
from phasefusion.video import Video

IN_ACCESS, IN_OPEN = 0x1, 0x20


class Watch:
    """Names of the files of a folder that anybody opens or reads."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        added = libc.inotify_add_watch(
            self._fd, os.fsencode(folder), IN_OPEN | IN_ACCESS
        )
        if self._fd < 0 or added < 0:
            pytest.skip("no inotify here")

    def opened(self) -> set[str]:
        names = set()
        while True:
            try:
                data = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                return names
            at = 0
            while at < len(data):
                _, _, _, n = struct.unpack_from("iIII", data, at)
                names.add(data[at + 16 : at + 16 + n].rstrip(b"\0").decode())
                at += 16 + n

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    watch = Watch(tmp_path)
    yield watch
    watch.close()


@pytest.fixture
def server() -> Iterator[tuple[str, Callable[[], bool]]]:
    """An address, and whether anybody has called there."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)

        def was_called() -> bool:
            try:
                listener.accept()[0].close()
            except BlockingIOError:
                return False
            return True

        yield f"127.0.0.1:{listener.getsockname()[1]}", was_called


def test_the_watch_and_the_server_see_what_they_should(tmp_path, watch, server):
    address, was_called = server
    (tmp_path / "seen").write_text("x")
    watch.opened()
    (tmp_path / "seen").read_text()
    assert watch.opened() == {"seen"}
    assert not was_called()
    host, port = address.split(":")
    with socket.create_connection((host, int(port))):
        assert was_called()


def hls(target: str) -> str:
    return f"#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\n{target}\n#EXT-X-ENDLIST\n"


def hls_key(target: str) -> str:
    key = f'#EXT-X-KEY:METHOD=AES-128,URI="{target}"\n'
    return f"#EXTM3U\n#EXT-X-TARGETDURATION:3\n{key}#EXTINF:3,\ninner.ts\n"


def hls_master(target: str) -> str:
    return f"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1000\n{target}\n"


def dash(target: str) -> str:
    return (
        '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" '
        'mediaPresentationDuration="PT3S" profiles="urn:mpeg:dash:profile:full:2011">'
        '<Period><AdaptationSet mimeType="video/mp4"><Representation id="1" '
        f'bandwidth="1000"><BaseURL>{target}</BaseURL></Representation>'
        "</AdaptationSet></Period></MPD>"
    )


def concat(target: str) -> str:
    return f"ffconcat version 1.0\nfile '{target}'\n"


def sdp(target: str) -> str:
    return (
        "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n"
        f"a=control:{target}\r\nm=video 49170 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n"
    )


def imf(target: str) -> str:
    return (
        '<?xml version="1.0"?><CompositionPlaylist xmlns="http://www.smpte-ra.org/'
        f'schemas/2067-3/2016"><Id>urn:uuid:{"0" * 36}</Id><A>{target}</A>'
        "</CompositionPlaylist>"
    )


def vobsub(target: str) -> str:
    return (
        "# VobSub index file, v7 (do not modify this line!)\nsize: 720x576\n"
        f"id: en, index: 0\ntimestamp: 00:00:01:000, filepos: 000000000\n# {target}\n"
    )


def avisynth(target: str) -> str:
    return f'DirectShowSource("{target}")\n'


def subrip(target: str) -> str:
    return f"1\n00:00:01,000 --> 00:00:02,000\n<img src='{target}'>\n"


SCRIPTS = {
    "list.m3u8": hls,
    "keyed.m3u8": hls_key,
    "master.m3u8": hls_master,
    "list.mpd": dash,
    "list.ffconcat": concat,
    "list.txt": concat,
    "stream.sdp": sdp,
    "cpl.xml": imf,
    "inner.idx": vobsub,
    "script.avs": avisynth,
    "lines.srt": subrip,
}
#: Those that an FFmpeg with everything in it knows by their first bytes.
DEMUXERS = {
    "list.m3u8": "hls",
    "keyed.m3u8": "hls",
    "master.m3u8": "hls",
    "list.ffconcat": "concat",
    "list.txt": "concat",
    "stream.sdp": "sdp",
    "inner.idx": "vobsub",
}


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("kind", ["relative", "absolute", "file:", "http"])
def test_scripts_and_playlists_open_nothing(
    name, kind, clip, tmp_path, watch, server, monkeypatch
):
    address, was_called = server
    inner = tmp_path / "inner.ts"
    inner.write_bytes(clip("h264.ts").read_bytes())
    (tmp_path / "inner.sub").write_bytes(clip("mpeg2.mpg").read_bytes())
    targets = {
        "relative": "inner.ts",
        "absolute": str(inner),
        "file:": f"file:{inner}",
        "http": f"http://{address}/inner.ts",
    }
    path = tmp_path / name
    path.write_text(SCRIPTS[name](targets[kind]))
    monkeypatch.chdir(tmp_path)
    for source in (path, name, path.read_bytes()):
        watch.opened()
        with pytest.raises(VideoError) as caught:
            Video(source)
        assert watch.opened() <= {name}
        assert not was_called()
        known = DEMUXERS.get(name) in this_ffmpeg.names("demuxers")
        if name in DEMUXERS:
            why = "a list of other files" if known else "not a video file"
            assert f"it is {why}" in str(caught.value)


@pytest.mark.parametrize("name", ["%03d.png", "%d.png", "*.png", "[0-9].png", "?.png"])
def test_a_name_is_no_pattern(name, clip, tmp_path, watch):
    """The picture of that very name is read, and none of those that it would match."""
    other = clip("still.png").read_bytes()
    for number in ("000", "001", "0", "1"):
        (tmp_path / f"{number}.png").write_bytes(other)
    path = tmp_path / name
    path.write_bytes(other)
    watch.opened()
    with Video(path) as video:
        assert len(video) == 1
    assert watch.opened() == {name}


@pytest.mark.parametrize("name", ["still.jpg", "still.png", "still.bmp"])
def test_a_picture_is_a_video_of_one_frame(name, clip, tmp_path):
    from make import ffmpeg

    this_ffmpeg.need(demuxer=f"{name[6:].replace('jpg', 'jpeg')}_pipe")
    path = tmp_path / name
    ffmpeg("-i", clip("still.png"), path)
    with Video(path) as one, Video(path.read_bytes()) as other:
        assert len(one) == len(other) == 1
        assert np.array_equal(one.read([0]), other.read([0]))


def boxed(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", 8 + len(body)) + kind + body


def alias(target: str) -> bytes:
    """A QuickTime alias record that says where a track's data are."""
    path = target.encode()
    path += b"\0" * (len(path) % 2)
    record = b"\0" * 10 + b"\0" + b"\0" * 27 + b"\0" * 12
    record += bytes([min(len(path), 63)]) + path[:63].ljust(63, b"\0")
    record += b"\0" * 16 + struct.pack(">hh", 1, 1) + b"\0" * 16
    record += struct.pack(">hH", 2, len(path)) + path + struct.pack(">hH", -1, 0)
    return boxed(b"alis", b"\0\0\0\0" + record)


def with_reference(data: bytes, target: str) -> bytes:
    """A movie whose samples are said to lie in another file."""
    moov = data.index(b"moov") - 4
    assert moov > data.index(b"mdat"), "offsets of samples must not move"
    body = bytearray(data)
    at = data.index(b"dref") - 4
    old_bytes = struct.unpack_from(">I", data, at)[0]
    made = boxed(b"dref", b"\0\0\0\0" + struct.pack(">I", 1) + alias(target))
    for kind in (b"moov", b"trak", b"mdia", b"minf", b"dinf"):
        where = data.rindex(kind, 0, at + 8) - 4
        size = struct.unpack_from(">I", data, where)[0]
        struct.pack_into(">I", body, where, size + len(made) - old_bytes)
    body[at : at + old_bytes] = made
    return bytes(body)


def test_a_movie_that_refers_to_another_file_does_not_get_it(clip, tmp_path, watch):
    inner = tmp_path / "inner.mp4"
    inner.write_bytes(clip("h264.mp4").read_bytes())
    path = tmp_path / "reference.mov"
    for target in (str(inner), "inner.mp4", f"disk:{inner}".replace("/", ":")):
        path.write_bytes(with_reference(inner.read_bytes(), target))
        watch.opened()
        with pytest.raises(VideoError, match=r"reference\.mov: not one frame"):
            Video(path)
        assert watch.opened() == {"reference.mov"}


def test_raw_video_in_parts_has_its_parts_left_alone(tmp_path, watch):
    header = b"MLVI" + struct.pack("<I", 52) + b"v2.0\0\0\0\0" + b"\0" * 36
    path = tmp_path / "clip.mlv"
    path.write_bytes(header + b"NULL" + struct.pack("<I", 16) + b"\0" * 2000)
    (tmp_path / "clip.m00").write_bytes(header)
    (tmp_path / "clip.M00").write_bytes(header)
    watch.opened()
    with pytest.raises(VideoError):
        Video(path)
    assert watch.opened() == {"clip.mlv"}


@pytest.mark.parametrize("name", ["h264.mp4", "h264.ts", "animation.gif", "asp.avi"])
def test_the_name_of_a_file_says_nothing_about_it(name, clip, tmp_path):
    """The bytes do: a wrong ending, or none, changes nothing."""
    data = clip(name).read_bytes()
    with Video(clip(name)) as video:
        true = video.read([0, 7, 19])
    for wrong in ("a.m3u8", "a.png", "a", "a.sdp", "a%d.jpg", "a.mkv"):
        path = tmp_path / wrong
        path.write_bytes(data)
        with Video(path) as video:
            assert np.array_equal(video.read([0, 7, 19]), true)
