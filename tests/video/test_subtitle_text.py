"""The text of cues against its twin; folding, finding; transcripts in JSON."""

from __future__ import annotations

import doctest
import importlib
import json
import re

import oracle_subtitles as oracle
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from phasefusion._languages import equivalent_codes
from phasefusion.errors import VideoError
from phasefusion.subtitles import Cue, Subtitles, read_subtitles


@pytest.mark.parametrize(
    "name", ["subtitles", "_subtitle_json", "_subtitle_search", "_languages"]
)
def test_examples(name):
    result = doctest.testmod(importlib.import_module(f"phasefusion.{name}"))
    assert result.attempted > 0
    assert result.failed == 0


# ------------------------------------------------------------------ markup

PIECES = st.sampled_from(
    [
        *r"<i> </i> <B> <b <br> <BR/> <br2>".split(),
        *["<font\tcolor='x'>", "<font\u00a0", "<a\thref='x'>", "</font >", " "],
        *"<laughs> <c.red> <v\tBob> <!-- --> <! < > <00:01.5> <> </> <1> <-1>".split(
            " "
        ),
        *r"{ } {\an8} {\p1} {\p0} {\p10} {\pos(1,2)} {y:i} {note} {: {}".split(),
        *r"\ \N \n \h \{ \} \\ & ; &lt; &lt &LT; &amp; &amp;lt; &amp;amp;".split(),
        *"&nbsp; &eacute; &thetasym; &apos; &none; &#65; &#x42; &#10; &#13;".split(),
        *"&#0; &#150; &#129; &#xD800; &#1114112; &#x; &#; &#".split(),
        *"\u00a0 \u200b \ufeff \u3000 \u2060 \u202f \u200e \x01 \x7f \x85".split(" "),
        *"\r \r\r\n \r\n \n a Z é 你 😀".split(" "),
    ]
)
LETTERS = st.characters(exclude_categories=["Cs", "Nd"], exclude_characters="\0")
PAYLOADS = st.lists(PIECES | st.text(LETTERS, max_size=3), max_size=12).map("".join)
END = "~end~"  # so that a last line of digits is no number


def one_line(payload):
    return re.sub(r"[\r\n\0]", " ", payload)


@given(st.lists(PAYLOADS, min_size=1, max_size=20))
def test_subrip_text_equals_its_twin(payloads):
    cues = [f"0:{i} --> 0:{i + 1}\n{p}\n{END}\n\n" for i, p in enumerate(payloads)]
    subtitles = read_subtitles("".join(cues).encode())
    wanted = [oracle.strip_markup(f"{p}\n{END}", "text") for p in payloads]
    assert [cue.text for cue in subtitles] == wanted


@given(st.lists(PAYLOADS, min_size=1, max_size=20))
def test_webvtt_text_equals_its_twin(payloads):
    lines = [re.split(r"\r\r\n|\r\n|\r|\n", p) for p in payloads]
    payloads = ["\n".join(k for k in p if k.strip(" \t")) for p in lines]
    cues = [f"0:{i} --> 0:{i + 1}\n{END}{p}\n\n" for i, p in enumerate(payloads)]
    subtitles = read_subtitles(("WEBVTT\n\n" + "".join(cues)).encode())
    wanted = [oracle.strip_markup(f"{END}{p}", "webvtt") for p in payloads]
    assert [cue.text for cue in subtitles] == wanted


@given(st.lists(PAYLOADS.map(one_line), min_size=1, max_size=20))
def test_ass_text_equals_its_twin(payloads):
    head = "[Script Info]\nScriptType: v4.00+\n[Events]\nFormat: Layer, Start, End, "
    head += "Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
    events = [
        f"Dialogue: 0,0:00:{i:02}.00,0:00:{i + 1:02}.00,Default,,0,0,0,,{END}{p}{END}\n"
        for i, p in enumerate(payloads)
    ]
    subtitles = read_subtitles((head + "".join(events)).encode())
    wanted = [oracle.strip_markup(END + p + END, "ass") for p in payloads]
    assert [cue.text for cue in subtitles] == wanted


@given(st.binary(max_size=40).map(lambda b: re.sub(rb"[\0\r\n0-9-]", b"\xc3", b)))
def test_broken_utf8_is_repaired_as_python_does(data):
    payload = b"~" + data + b"~"
    subtitles = read_subtitles(b"0:1 --> 0:2\n" + payload)
    text = payload.decode("utf-8", "replace")
    assert subtitles[0].text == oracle.strip_markup(text, "text")
    sound = payload.count(b"\xef\xbf\xbd")
    assert subtitles.n_invalid == text.count("\ufffd") - sound


@given(
    st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"a").replace(b"\r", b"a"))
)
@example(b"\0\xd8\0")
@example(b"\0\xdc\0")
def test_broken_utf16_is_repaired_as_python_does(data):
    payload = ("0:1 --> 0:2\n~".encode("utf-16-le")) + data
    text = payload.decode("utf-16-le", "replace").partition("\n")[2]
    if re.search(r"[\r\n]|[0-9]", text):
        return
    subtitles = read_subtitles(b"\xff\xfe" + payload)
    assert subtitles[0].text == oracle.strip_markup(text, "text")


# ------------------------------------------------------------------ order

CUES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.sampled_from(["a", "b", " "])),
    max_size=12,
)


@given(CUES)
def test_order_ends_and_duplicates_are_those_of_the_twin(raw):
    srt = "".join(f"0:{s} --> 0:{e}\n{text}\n\n" for s, e, text in raw)
    rows = [{"start": s, "end": e, "text": text} for s, e, text in raw]
    other = read_subtitles(json.dumps({"segments": rows}).encode())
    assert len(other) + other.n_empty + other.n_duplicate == len(raw)
    kept = {(s, e if e > s else None, text) for s, e, text in raw if text != " "}
    assert len(other) == len(kept)
    assert all(
        cue.end_s <= cue.start_s + 10 and cue.end_us > cue.start_us
        for cue in other
        if not cue.end_stated
    )
    if raw:
        subtitles = read_subtitles(srt.encode())
        assert subtitles.cues == other.cues
        assert subtitles.n_empty == other.n_empty
        assert subtitles.n_duplicate == other.n_duplicate


# ------------------------------------------------------------------ finding


def spoken(*texts, gap_s=0.0):
    step_us = int((1 + gap_s) * 1_000_000)
    cues = [Cue(i * step_us, i * step_us + 1_000_000, t) for i, t in enumerate(texts)]
    return Subtitles("a", "srt", "subrip", 0, None, False, tuple(cues), ())


def found(subtitles, *args, **kwargs):
    return [(m.first, m.last) for m in subtitles.find(*args, **kwargs)]


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("at NASA’s Goddard", "nasa's GODDARD"),
        ("one\ntwo", "one two"),
        ("one \u00a0 two", "one  two"),
        ("Straße", "STRASSE"),
        ("ﬁne", "FINE"),
        ("ＡＢＣ１２３", "abc123"),
        ("e\u0301te\u0301", "Été"),
        ("well\u2014known", "well-known"),
        ("“quoted”", '"quoted"'),
        ("soft\u00adhy\u200bphen", "softhyphen"),
        ("Привет, МИР", "мир"),
        ("ΟΔΟΣ", "οδος"),
        ("你好\n世界", "你好世界"),
        ("你好 世界", "你好世界"),
        ("สวัสดี\nครับ", "สวัสดีครับ"),
        ("שלום\u200f עולם", "שלום עולם"),
        ("한국어 자막", "한국어 자막"),
        ("नमस्ते दुनिया", "दुनिया"),
        ("İstanbul", "i\u0307stanbul"),
    ],
)
def test_phrases_are_found_in_any_script(text, pattern):
    assert found(spoken("before", text, "after"), pattern) == [(1, 1)]


def test_case_can_matter():
    subtitles = spoken("The Web", "the web")
    assert found(subtitles, "web") == [(0, 0), (1, 1)]
    assert found(subtitles, "web", ignore_case=False) == [(1, 1)]
    assert found(subtitles, r"\bWeb", regex=True, ignore_case=False) == [(0, 0)]


def test_a_phrase_may_run_over_two_cues():
    subtitles = spoken("the Webb", "space telescope", "in one of", "the rooms")
    assert found(subtitles, "webb space") == [(0, 1)]
    assert found(subtitles, "telescope in one") == [(1, 2)]
    assert found(subtitles, "webb space telescope in") == []  # over three
    assert found(subtitles, "the") == [(0, 0), (3, 3)]
    assert found(subtitles, "webbspace") == []
    assert found(spoken("你", "好"), "你好") == [(0, 1)]
    assert found(spoken("the Webb", "space", gap_s=2.9), "webb space") == [(0, 1)]
    assert found(spoken("the Webb", "space", gap_s=3.1), "webb space") == []
    match = subtitles.find("webb space")[0]
    assert (match.start_s, match.end_s, match.middle_s) == (0.0, 2.0, 1.0)
    assert match.text == "webb space"


def test_a_pair_counts_only_where_neither_matches_alone():
    assert found(spoken("ha ha", "ha ha"), "ha ha") == [(0, 0), (1, 1)]
    assert found(spoken("x ha", "ha"), "ha ha") == [(0, 1)]
    assert found(spoken("a", "b", "c"), ".+", regex=True) == [(0, 0), (1, 1), (2, 2)]
    assert found(spoken("one a", "b two"), r"a\s+b", regex=True) == [(0, 1)]
    assert found(spoken("one a", "b two"), r"^b|a$", regex=True) == [(0, 0), (1, 1)]


def test_regular_expressions():
    subtitles = spoken("NASA’s 1st", "no digits", "Café")
    assert found(subtitles, r"\d", regex=True) == [(0, 0)]
    assert found(subtitles, "nasa's", regex=True) == [(0, 0)]
    assert found(subtitles, "cafe\u0301", regex=True) == [(2, 2)]
    assert found(subtitles, "x*", regex=True) == []
    assert found(spoken(), "a") == []


@pytest.mark.parametrize(
    ("pattern", "regex", "message"),
    [
        ("", False, "'' holds nothing to look for"),
        (" \u200b ", False, "holds nothing to look for"),
        ("(", True, "pattern='\\('"),
        ("*", True, "pattern='\\*'"),
        (3, False, "what to look for must be a str, not 3"),
        (b"a", True, "what to look for must be a str, not b'a'"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern, regex, message):
    with pytest.raises(VideoError, match=message):
        spoken("a").find(pattern, regex=regex)


@given(st.lists(st.text(max_size=8), min_size=1, max_size=6), st.text(max_size=4))
@settings(max_examples=200)
def test_finding_never_fails_and_stays_inside(texts, pattern):
    subtitles = spoken(*texts)
    try:
        matches = subtitles.find(pattern)
    except VideoError:
        return
    for match in matches:
        assert 0 <= match.first <= match.last <= match.first + 1 < len(texts) + 1
        assert match.text
    starts = [match.first for match in matches]
    assert starts == sorted(set(starts))


# ------------------------------------------------------------------ JSON

WHISPER = {
    "text": " Hello there.",
    "language": "en",
    "segments": [
        {
            "id": 0,
            "start": 0.0,
            "end": 1.5,
            "text": " Hello",
            "tokens": [1],
            "words": [],
        },
        {"id": 1, "start": 1.5, "end": 2.25, "text": " there."},
    ],
}
CPP = {
    "result": {"language": "en"},
    "transcription": [
        {"timestamps": {}, "offsets": {"from": 0, "to": 1500}, "text": " Hello"},
        {"offsets": {"from": 1500, "to": 2250}, "text": " there."},
    ],
}
CHUNKS = {
    "text": "",
    "chunks": [
        {"timestamp": [0.0, 1.5], "text": " Hello"},
        {"timestamp": [1.5, None], "text": " there."},
    ],
}
LONG = [
    {"start": "00:00:00.000", "end": "00:00:01.500", "line": "Hello"},
    {"timestamp": [1.5, 2.25], "text": "there."},
]


@pytest.mark.parametrize("document", [WHISPER, CPP, CHUNKS, LONG], ids=range(4))
@pytest.mark.parametrize("indent", [None, 2])
def test_transcripts(document, indent, tmp_path):
    path = tmp_path / "a.json"
    path.write_text("\ufeff" + json.dumps(document, indent=indent), encoding="utf-8")
    subtitles = read_subtitles(path)
    last_s = 11.5 if document is CHUNKS else 2.25
    assert [(c.start_s, c.end_s, c.text) for c in subtitles] == [
        (0.0, 1.5, "Hello"),
        (1.5, last_s, "there."),
    ]
    assert subtitles.codec == "json"
    assert subtitles.language == ("en" if document in (WHISPER, CPP) else None)
    assert found(subtitles, "hello there") == [(0, 1)]


def test_transcripts_by_language():
    data = json.dumps(WHISPER).encode()
    assert len(read_subtitles(data, language="eng")) == 2
    with pytest.raises(VideoError, match="it states 'en'"):
        read_subtitles(data, language="de")
    with pytest.raises(VideoError, match="of that index"):
        read_subtitles(data, stream=1)
    named = json.dumps({**WHISPER, "language": "english"}).encode()
    assert len(read_subtitles(named, language="de")) == 2  # a name cannot be told


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ('{"a"', "not valid JSON"),
        ('{"a": [' + "[" * 100_000, "not valid JSON"),
        ('{"a": 1}', "no transcript"),
        ('{"segments": {}}', "no transcript"),
        ('{"segments": [3]}', r"segments\[0\]: it is a int, not an object"),
        ('{"segments": [{"end": 1, "text": ""}]}', "no 'start'"),
        ('{"segments": [{"start": 0, "text": ""}]}', "no 'end'"),
        ('{"segments": [{"start": 0, "end": 1}]}', "no text or line"),
        ('{"segments": [{"start": 0, "end": 1, "text": null}]}', "no text or line"),
        ('{"segments": [{"start": true, "end": 1, "text": ""}]}', "start=True"),
        ('{"segments": [{"start": NaN, "end": 1, "text": ""}]}', "start=nan"),
        ('{"segments": [{"start": 1e300, "end": 1, "text": ""}]}', "start=1e"),
        ('{"segments": [{"start": 1%s, "end": 1}]}' % ("0" * 400), "start=1"),
        ('{"segments": [{"start": "x", "end": 1, "text": ""}]}', "start='x' is no"),
        ('{"chunks": [{"timestamp": [1], "text": ""}]}', r"timestamp=\[1\]"),
        ('{"chunks": [{"timestamp": [null, 1], "text": ""}]}', r"timestamp\[0\]=None"),
        ('{"transcription": [{"offsets": [], "text": ""}]}', "offsets="),
        ('{"transcription": [{"offsets": {"from": 1}, "text": ""}]}', "no 'to'"),
        ('[{"start": 0, "end": 1, "text": ""}, []]', r"\[1\]: it is a list"),
    ],
)  # fmt: skip
def test_what_is_no_transcript_says_where(document, message, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(document)
    with pytest.raises(VideoError, match=f"{re.escape(str(path))}: .*{message}"):
        read_subtitles(path)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "segments transcription chunks start end text line timestamp offsets "
                "from to language result".split()
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.lists(VALUES, max_size=3) | st.dictionaries(st.text(max_size=3), VALUES))
def test_any_json_is_read_or_refused(document):
    cues: tuple[Cue, ...] = ()
    message = "<bytes>: "
    try:
        cues = read_subtitles(json.dumps(document).encode()).cues
    except VideoError as error:
        message = str(error)
    assert message.startswith("<bytes>: ")
    assert all(cue.text and cue.end_us > cue.start_us for cue in cues)


def test_transcripts_keep_the_limits_and_hold_valid_text():
    data = json.dumps(WHISPER).encode()
    with pytest.raises(VideoError, match="more cues than max_cues=1 allows"):
        read_subtitles(data, max_cues=1)
    with pytest.raises(VideoError, match="max_text_bytes=20 allows"):
        read_subtitles(data, max_text_bytes=20)
    halves = '[{"start": 0, "end": 1, "text": "\\ud83d\\ude00 \\ud83d \\ude00"}]'
    subtitles = read_subtitles(halves.encode())
    assert subtitles[0].text == "😀 \ufffd \ufffd"
    assert subtitles.n_invalid == 2


def test_languages_are_the_same_by_any_code():
    assert equivalent_codes("de") == equivalent_codes("ger") == ("de", "deu", "ger")
    assert (
        equivalent_codes("zh-Hant") == equivalent_codes("CHI") == ("zh", "zho", "chi")
    )
    assert equivalent_codes("xyz") == ("xyz",)
