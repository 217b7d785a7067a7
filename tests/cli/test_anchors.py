"""`phasefusion frames --anchor`: the window, what was found and what was tried."""

import json

import pytest

from phasefusion import find_anchor
from phasefusion.tinyvlm import questions_path

CLIP = questions_path().parent / "clip-002.mp4"
SAID = "1\n00:00:02,000 --> 00:00:03,000\nPour the <i>water</i>\n"


@pytest.fixture
def side(tmp_path):
    path = tmp_path / "side.srt"
    path.write_text(SAID)
    return path


def test_json_holds_anchor_and_window(call, side, tmp_path):
    code, out, _ = call(
        "frames", CLIP, "--anchor", "auto", "--phrase", "the water", "--subtitles",
        side, "--window", "0.2", "-b", "4", "-s", "2", "-o", tmp_path / "a.png",
        "--json",
    )  # fmt: skip
    found = json.loads(out)
    assert code == 0
    assert found["anchor"]["kind"] == "subtitle"
    assert found["anchor"]["time_s"] == 2.0
    first, end = found["grid"]["window"]
    assert (first, end) == (48, 78)
    assert found["grid"]["origin"] == [0, 1]
    assert found["phases"][0]["frame_indices"][0] == first
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_the_page_says_what_was_tried(call, side, tmp_path):
    out = tmp_path / "a.png"
    words = ["frames", CLIP, "--anchor", "auto", "-b", "2", "-s", "2", "-o", out]
    code, text, error = call(*words, "--phrase", "hello", "--subtitles", side)
    assert code == 0
    assert "warning" not in error
    text = " ".join(text.split())
    assert f"anchor by vectors: {find_anchor(CLIP).why}" in text
    assert "subtitle: failed, 'hello' is not in the 1 cues of" in text
    assert "timestamp: not asked, no times_s was given" in text
    assert "window: frames 67 to 81" in text


def test_the_middle_where_a_method_gives_nothing(call, tmp_path):
    words = ["frames", CLIP, "-b", "2", "-s", "1", "-o", tmp_path / "a.png", "--json"]
    _, out, _ = call(*words, "--anchor", "timestamp", "--at", "1:00:00")
    assert json.loads(out)["anchor"]["kind"] == "centre"
    _, out, _ = call(*words, "--anchor", "timestamp", "--at", "0:03", "--origin", "1/2")
    found = json.loads(out)
    assert found["anchor"]["time_s"] == 3.0
    assert found["grid"]["origin"] == [1, 2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--phrase", "a"], "--phrase goes with --anchor"),
        (["--subtitles", "a.srt"], "--subtitles goes with --anchor"),
        (["--at", "3"], "--at goes with --anchor"),
        (["--window", "0.1"], "--window goes with --anchor"),
        (["--anchor", "motion", "--at", "3"], "'timestamp' is not among methods"),
        (["--anchor", "auto", "--window", "2"], "--window 2 must be in (0, 1]"),
        (["--anchor", "auto", "--at", "soon"], "times_s='soon'"),
        (["--anchor", "auto", "--check"], "--anchor does not go with --check"),
    ],
)
def test_what_does_not_go_together(call, words, message):
    code, _, error = call("frames", CLIP, *words)
    assert code == 2
    assert message in error.replace("\n", " ")
