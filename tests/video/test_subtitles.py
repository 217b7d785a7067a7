"""Subtitles from containers and from files of their own, as they are found."""

from __future__ import annotations

import gzip
import io
import os
import re
import signal
import struct
import threading
import time
from pathlib import Path

import make
import pytest
import this_ffmpeg

from phasefusion.errors import UsageError, VideoError
from phasefusion.subtitles import Cue, read_subtitles

SRT = """1
00:00:00,210 --> 00:00:01,260
<i>Hello</i> &lt;b&gt; there

2
00:00:01,260 --> 00:00:02,350
ÁÉíöÙ 你好 😀
second line

3
00:00:02,400 --> 00:00:02,900
last
"""
WANTED = [
    Cue(210_000, 1_260_000, "Hello <b> there", place=0),
    Cue(1_260_000, 2_350_000, "ÁÉíöÙ 你好 😀\nsecond line", place=1),
    Cue(2_400_000, 2_900_000, "last", place=2),
]
ASS = r"""[Script Info]
ScriptType: v4.00+
[V4+ Styles]
Format: Name, Fontname, Fontsize
Style: Default,Arial,20
[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{\i1}Hi, you{\i0}\Nthere
Comment: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,a comment
Dialogue: 0,0:00:00.50,0:00:01.00,Default,,0,0,0,,{\p1}m 0 0 l 1 1{\p0}
Dialogue: 1,0:00:01.00,0:00:02.00,Default,,0,0,0,,Hi, you\Nthere
Dialogue: 0,0:00:00.10,0:00:00.40,Default,,0,0,0,,first
"""


def texts(subtitles):
    return [cue.text for cue in subtitles]


def times_ms(subtitles):
    return [(cue.start_us // 1000, cue.end_us // 1000) for cue in subtitles]


@pytest.fixture
def mux(clip, tmp_path):
    """A media file with subtitle files as its streams 1, 2, ..."""

    def build(ending, *parts, options=()):
        path = tmp_path / f"muxed{ending}"
        arguments = ["-i", clip("vp9.webm" if ending == ".webm" else "three.mp4")]
        maps = ["-map", "0:v"]
        for i, (name, content) in enumerate(parts, 1):
            part = tmp_path / name
            part.write_bytes(
                content if isinstance(content, bytes) else content.encode()
            )
            arguments += ["-i", part]
            maps += ["-map", str(i)]
        copied = ["-c:v", "copy", "-fflags", "+bitexact"]
        make.ffmpeg(*arguments, *maps, *copied, *options, path)
        return path

    return build


# ------------------------------------------------------------------ containers


@pytest.mark.parametrize(
    ("ending", "codec"),
    [(".mp4", "mov_text"), (".mov", "mov_text"), (".mkv", "srt"), (".mkv", "ass")],
)
def test_text_streams_of_containers(ending, codec, mux):
    path = mux(ending, ("in.srt", SRT), options=["-c:s", codec])
    subtitles = read_subtitles(path)
    # ASS has hundredths of a second; the ffmpeg program rounds to them.
    wanted = [(210, 1260), (1260, 2350), (2400, 2900)]
    assert times_ms(subtitles) == wanted
    assert texts(subtitles) == [cue.text for cue in WANTED]
    assert subtitles.embedded
    assert subtitles.stream_index == 1
    assert subtitles.codec == {"srt": "subrip"}.get(codec, codec)


def test_webvtt_in_webm(mux):
    vtt = "WEBVTT\n\nid\n00:00.210 --> 00:01.260 align:start\n<v Bob>a</v> &amp;lt;\n"
    subtitles = read_subtitles(mux(".webm", ("in.vtt", vtt)))
    assert subtitles.codec == "webvtt"
    assert subtitles.container == "matroska,webm"
    assert times_ms(subtitles) == [(210, 1260)]


def test_ass_overrides_drawings_layers_and_comments(tmp_path):
    subtitles = read_subtitles(ASS.encode())
    assert texts(subtitles) == ["first", "Hi, you\nthere"]
    assert [cue.place for cue in subtitles] == [0, 2]
    assert (subtitles.n_empty, subtitles.n_duplicate) == (1, 1)
    assert not subtitles.embedded


def test_the_same_cues_from_every_format(mux):
    srt = read_subtitles(SRT.encode())
    assert list(srt) == WANTED
    mkv = read_subtitles(mux(".mkv", ("in.srt", SRT), options=["-c:s", "copy"]))
    assert mkv.cues == srt.cues


def rows(*cues):
    return "".join(
        f"{i}\n00:00:{start:02},000 --> 00:00:{start + 1:02},000\n{text}\n\n"
        for i, (start, text) in enumerate(cues, 1)
    )


def test_the_best_stream_has_cues_then_is_not_forced_then_default_then_longest(mux):
    one, two = rows((0, "a")), rows((0, "b"), (1, "c"))
    three = rows((0, "d"), (1, "e"), (2, "f"))
    parts = [("1.srt", one), ("2.srt", two), ("3.srt", three)]

    def best(*dispositions):
        options = ["-c:s", "srt"]
        for i, disposition in enumerate(dispositions):
            options += [f"-disposition:s:{i}", disposition]
        path = mux(".mkv", *parts[: len(dispositions)], options=options)
        return read_subtitles(path).stream_index

    assert best("0", "0", "0") == 3
    assert best("default", "0", "0") == 1
    assert best("0", "default", "forced") == 2
    assert best("forced+default", "0", "0") == 3
    assert best("0", "0", "forced") == 2
    parts[2] = ("3.srt", rows((0, "&nbsp;")))
    assert best("0", "0", "default") == 2
    parts[1] = ("2.srt", rows((0, "b")))
    assert best("0", "0") == 1


@pytest.fixture
def languages(mux):
    options = ["-c:s", "srt"]
    for i, tag in enumerate(["eng", "ger", "und"]):
        options += [f"-metadata:s:s:{i}", f"language={tag}"]
    options += ["-metadata:s:s:1", "title=Gehörlose", "-disposition:s:0", "default"]
    parts = [(f"{i}.srt", rows((i, f"t{i}"))) for i in range(3)]
    return mux(".mkv", *parts, options=options)


@pytest.mark.parametrize(
    ("choice", "index"),
    [
        ({}, 1),
        ({"language": "en"}, 1),
        ({"language": "de"}, 2),
        ({"language": "DEU"}, 2),
        ({"language": "ger"}, 2),
        ({"language": "de-AT"}, 2),
        ({"stream": 2}, 2),
        ({"stream": 3}, 3),
        ({"stream": 1, "language": "eng"}, 1),
    ],
)
def test_streams_are_chosen_by_index_and_by_language(choice, index, languages):
    subtitles = read_subtitles(languages, **choice)
    assert subtitles.stream_index == index
    assert texts(subtitles) == [f"t{index - 1}"]
    streams = subtitles.streams
    assert [s.index for s in streams] == [1, 2, 3]
    assert [s.language for s in streams[:2]] == ["eng", "ger"]
    assert streams[1].title == "Gehörlose"
    assert streams[0].is_default
    assert all(s.n_cues == 1 for s in streams) or choice
    assert streams[index - 1].n_cues == 1


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"language": "fr"}, "no subtitles in that language"),
        ({"stream": 0}, "no subtitle stream of that index"),
        ({"stream": 9}, "no subtitle stream of that index"),
        ({"stream": 2, "language": "en"}, "no subtitles in that language"),
    ],
)
def test_what_is_not_there_is_named(choice, reason, languages):
    with pytest.raises(VideoError, match=f"{re.escape(str(languages))}: .*{reason}"):
        read_subtitles(languages, **choice)


def test_a_video_without_subtitles(clip):
    with pytest.raises(VideoError, match=r"three\.mp4: it has no subtitles"):
        read_subtitles(clip("three.mp4"))


def picture_stream():
    """Blu-ray subtitles: an empty picture and its end, at 1 s and 2 s."""

    def segment(kind, pts, body=b""):
        return b"PG" + struct.pack(">IIBH", pts, 0, kind, len(body)) + body

    def composition(pts, number):
        body = struct.pack(">HHBHBBBB", 160, 96, 16, number, 0x80, 0, 0, 0)
        return segment(0x16, pts, body)

    return b"".join(
        composition(90_000 * t, t) + segment(0x80, 90_000 * t) for t in (1, 2)
    )


def test_pictures_of_text_hold_no_text(mux):
    pictures = ("in.sup", picture_stream())
    path = mux(".mkv", pictures, options=["-c:s", "copy"])
    with pytest.raises(VideoError, match="its subtitles are pictures"):
        read_subtitles(path)
    with pytest.raises(VideoError, match="its subtitles are pictures"):
        read_subtitles(path, stream=1)
    both = mux(".mkv", pictures, ("a.srt", SRT), options=["-c:s", "copy"])
    subtitles = read_subtitles(both)
    assert subtitles.stream_index == 2
    assert [s.is_text for s in subtitles.streams] == [False, True]
    assert subtitles.streams[0].n_cues is None


def test_timed_text_in_utf16(mux):
    path = mux(".mp4", ("in.srt", rows((0, "abcdefgh"))), options=["-c:s", "mov_text"])
    data = bytearray(path.read_bytes())
    at = data.index(b"\0\x08abcdefgh")
    data[at + 2 : at + 10] = "\ufeffäbc".encode("utf-16be")
    assert texts(read_subtitles(bytes(data))) == ["äbc"]


# ------------------------------------------------------------------ side files


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"]
)
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r", "\r\r\n"])
def test_encodings_and_line_ends(encoding, ends, tmp_path):
    path = tmp_path / "a.srt"
    path.write_bytes(SRT.replace("\n", ends).encode(encoding))
    subtitles = read_subtitles(path)
    assert list(subtitles) == WANTED
    assert subtitles.n_invalid == 0
    assert (subtitles.container, subtitles.codec) == ("srt", "subrip")
    ass = read_subtitles(ASS.replace("\n", "\r\n").encode(encoding))
    assert texts(ass) == ["first", "Hi, you\nthere"]


def test_other_encodings_are_repaired_or_given():
    data = rows((0, "Привет, мир")).encode("cp1251")
    guessed = read_subtitles(data)
    assert guessed.n_invalid == 9
    assert guessed[0].text == "������, ���"
    given = read_subtitles(data, encoding="cp1251")
    assert (texts(given), given.n_invalid) == (["Привет, мир"], 0)
    assert read_subtitles(data, encoding="ascii").n_invalid == 9


def test_sources_are_paths_bytes_and_file_objects(tmp_path):
    path = tmp_path / "a.srt"
    path.write_text(SRT, encoding="utf-8")
    data = path.read_bytes()
    with open(path, "rb") as file:
        for source in (path, str(path), data, bytearray(data), memoryview(data), file):
            assert list(read_subtitles(source)) == WANTED
        assert list(read_subtitles(io.BytesIO(data), encoding="utf-8")) == WANTED
    assert read_subtitles(path).path == str(path)
    assert read_subtitles(data).path == "<bytes>"


def test_order_duplicates_and_missing_ends():
    srt = "\n\n".join(
        [
            "1\n0:20 --> 0:21\nlate",
            "2\n0:05 --> 0:05\nno time",
            "3\n0:08 --> 0:06\nbackwards",
            "4\n0:05 --> 0:09\nlong",
            "5\n0:20 --> 0:21\nlate",
            "6\n0:20 --> 0:22\nlate",
            "7\n0:07 --> 0:08\n<i> </i>",
            "8\n0:30 --> 0:00\nlast",
        ]
    )
    subtitles = read_subtitles(srt.encode())
    got = [(c.start_s, c.end_s, c.text, c.end_stated, c.place) for c in subtitles]
    assert got == [
        (5.0, 8.0, "no time", False, 1),
        (5.0, 9.0, "long", True, 3),
        (8.0, 18.0, "backwards", False, 2),
        (20.0, 21.0, "late", True, 0),
        (20.0, 22.0, "late", True, 5),
        (30.0, 40.0, "last", False, 7),
    ]
    assert (subtitles.n_duplicate, subtitles.n_empty) == (1, 1)


def test_lines_with_unreadable_times_take_no_text_with_them():
    srt = rows((0, "a")) + "2\n00:00:0x --> 00:00:05\nlost\n\n" + rows((6, "b"))
    subtitles = read_subtitles(srt.encode())
    assert texts(subtitles) == ["a", "b"]
    assert subtitles.n_unreadable == 1


def test_webvtt_language_and_blocks():
    vtt = (
        b"WEBVTT - x\nLanguage: en\n\nSTYLE\n::cue {}\n\nNOTE\nno\n\n"
        b"00:01.000 --> 00:02.000\na\n\nno\n"
    )
    subtitles = read_subtitles(vtt)
    assert (texts(subtitles), subtitles.language) == (["a"], "en")
    assert read_subtitles(vtt, language="eng").cues == subtitles.cues
    with pytest.raises(VideoError, match="no subtitles in that language"):
        read_subtitles(vtt, language="de")
    # SubRip states no language: the file is taken for one that fits.
    assert len(read_subtitles(SRT.encode(), language="de")) == 3
    with pytest.raises(VideoError, match="of that index"):
        read_subtitles(vtt, stream=1)
    assert len(read_subtitles(b"WEBVTT\n")) == 0


@pytest.mark.parametrize(
    ("name", "data", "wanted"),
    [
        ("a.smi", "<SAMI><BODY><SYNC Start=1000><P>a &amp; b<SYNC Start=2000><P>&nbsp;"
         "</BODY></SAMI>", [(1.0, "a & b")]),
        ("a.sub", "{0}{25}first|line\n{30}{50}{y:i}second\n{60}{70}third\n{80}{90}4\n",
         [(0.0, "first\nline"), (1.251, "second"), (2.503, "third"), (3.337, "4")]),
        ("a.scc", "Scenarist_SCC V1.0\n\n00:00:01:00\t9420 9420 c8e9 942f 942f\n",
         [(1.0, "Hi")]),
        ("a.lrc", "[00:01.00]one\n[00:02.50]two\n", [(1.0, "one"), (2.5, "two")]),
    ],
)  # fmt: skip
def test_other_formats_through_ffmpeg(name, data, wanted, tmp_path):
    others = {"a.smi": "sami", "a.sub": "microdvd", "a.scc": "scc", "a.lrc": "lrc"}
    this_ffmpeg.need(demuxer=others[name])
    path = tmp_path / name
    path.write_text(data)
    subtitles = read_subtitles(path)
    assert [(round(cue.start_s, 3), cue.text) for cue in subtitles] == wanted
    assert subtitles.n_duplicate == 0


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize("data", [b"hello world\n" * 9, b"\0" * 100, b"1\n2\n3\n"])
def test_what_is_no_subtitle_file_is_refused(data):
    with pytest.raises(
        VideoError, match="<bytes>: it is neither a subtitle nor a media"
    ):
        read_subtitles(data)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        read_subtitles(tmp_path / "nothing.srt")
    assert caught.value.filename == tmp_path / "nothing.srt"
    with pytest.raises(VideoError, match="it is a directory"):
        read_subtitles(tmp_path)
    empty = tmp_path / "empty.srt"
    empty.touch()
    with pytest.raises(VideoError, match=r"empty\.srt: the file is empty"):
        read_subtitles(empty)
    with pytest.raises(VideoError, match="neither a subtitle nor"):
        read_subtitles(gzip.compress(SRT.encode()))


def test_no_other_file_is_opened(tmp_path):
    (tmp_path / "a.sub").write_bytes(b"\0" * 2048)
    index = "# VobSub index file, v7\nid: en, index: 0\n"
    index += "timestamp: 00:00:00:000, filepos: 0\n"
    (tmp_path / "a.idx").write_text(index)
    with pytest.raises(VideoError, match=r"a\.idx"):
        read_subtitles(tmp_path / "a.idx")
    playlist = tmp_path / "a.m3u8"
    segment = f"#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\n{tmp_path / 'b.vtt'}\n"
    playlist.write_text(segment)
    (tmp_path / "b.vtt").write_text("WEBVTT\n\n00:01.000 --> 00:02.000\nsecret\n")
    with pytest.raises(VideoError, match=r"a\.m3u8"):
        read_subtitles(playlist)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"stream": -1}, "stream=-1"),
        ({"stream": "worst"}, "stream='worst'"),
        ({"stream": True}, "stream=True"),
        ({"language": 3}, "language=3"),
        ({"language": ""}, "language=''"),
        ({"language": "a,b"}, "language='a,b'"),
        ({"encoding": "no-such"}, "encoding='no-such'"),
        ({"encoding": "base64"}, "encoding='base64'"),
        ({"encoding": 3}, "encoding=3"),
        ({"max_cues": 0}, "max_cues=0"),
        ({"max_cues": 2}, "max_cues=2 allows"),
        ({"max_text_bytes": 1.5}, "max_text_bytes=1.5"),
        ({"max_text_bytes": 10}, "max_text_bytes=10 allows"),
        ({"max_text_bytes": 10, "encoding": "utf-8"}, "max_text_bytes=10 allows"),
    ],
)
def test_options_out_of_range_are_refused(option, message):
    with pytest.raises((UsageError, VideoError), match=message):
        read_subtitles(SRT.encode(), **option)


def test_limits_hold_for_all_streams_together(mux):
    path = mux(".mkv", *[(f"{i}.srt", SRT) for i in range(2)], options=["-c:s", "srt"])
    n_text = sum(len(cue.text.encode()) for cue in WANTED)
    assert len(read_subtitles(path, max_cues=6, max_text_bytes=2 * n_text)) == 3
    with pytest.raises(VideoError, match="more cues than max_cues=5 allows"):
        read_subtitles(path, max_cues=5)
    with pytest.raises(VideoError, match="more bytes of text than max_text_bytes"):
        read_subtitles(path, max_text_bytes=2 * n_text - 1)
    assert len(read_subtitles(path, stream=1, max_cues=3, max_text_bytes=n_text)) == 3


def test_a_long_file_is_read(tmp_path):
    path = tmp_path / "long.srt"
    with open(path, "w") as file:
        for i in range(100_000):
            file.write(
                f"{i}\n{i // 60}:{i % 60} --> {i // 60}:{i % 60},9\nline {i}\n\n"
            )
    subtitles = read_subtitles(path)
    assert len(subtitles) == 100_000
    assert subtitles[-1].text == "line 99999"


@pytest.mark.usefixtures("heard_interrupts")
def test_reading_can_be_interrupted():
    # Cues without text make no Python objects, so that the time is spent in C.
    data = b"0:1 --> 0:2\n\n" * 1_000_000

    def read_often():
        for _ in range(200):
            assert read_subtitles(data).n_empty == 1_000_000

    def interrupt():
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        read_often()
    thread.join()


def test_memory_and_files_do_not_grow(mux):
    sources = [SRT.encode(), ASS.encode(), mux(".mkv", ("a.srt", SRT))]

    def state():
        with open("/proc/self/statm") as file:
            n_pages = int(file.read().split()[1])
        return n_pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/fd"))

    def read_all(n):
        for source in sources * n:
            read_subtitles(source)

    read_all(50)
    before_bytes, n_file = state()
    read_all(300)
    after_bytes, n_file_after = state()
    assert n_file_after == n_file
    if "PHASEFUSION_UNDER_ASAN" not in os.environ:
        assert after_bytes - before_bytes < 4_000_000


SHARED = os.environ.get("PHASEFUSION_SHARED")


@pytest.mark.skipif(SHARED is None, reason="PHASEFUSION_SHARED is not set")
def test_the_messy_files_of_the_shared_cases():
    folder = next(Path(SHARED or "").glob("cases/15-*"))
    messy = read_subtitles(folder / "mediaelement.srt")
    assert len(messy) == 15
    assert messy[0].start_s == 0.1
    assert (messy[1].start_s, messy[1].end_s) == (4.0, 7.0)
    assert (messy[14].start_s, messy[14].end_s) == (42.0, 45.0)
    assert messy[14].text.startswith("Hope you like it.\nCome follow me at twitter.com")
    assert messy.find("video")[0].first == 0
    assert messy.find("<track>")[0].first == messy.find("track")[0].first == 11
    movie = read_subtitles(folder / "moviepy_subtitles.srt")
    assert len(movie) == 5
    assert (movie[1].end_s, movie[2].start_s, movie[2].end_s) == (3.5, 5.0, 6.0)
    (one,) = read_subtitles(folder / "moviepy_subtitles-unicode.srt")
    assert (one.text, one.start_s, one.end_s) == ("ÁÉíöÙ", 0.0, 5.0)
    nasa = read_subtitles(folder / "nasa_stream2.srt")
    assert len(nasa) == 4
    assert [match.start_s for match in nasa.find("Goddard")] == [8.35]
    assert [match.start_s for match in nasa.find("nasa's goddard")] == [8.35]
    (late,) = nasa.find("successfully")
    assert (late.start_s, late.middle_s) == (12.47, 14.52)
    assert nasa.find("never said") == ()
