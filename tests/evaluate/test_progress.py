"""Progress: a bar on a terminal, rare plain lines elsewhere, numbers for a callable."""

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from phasefusion import progress as module
from phasefusion.progress import follow


class Clock:
    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def test_lines_are_rare_and_tell_rate_and_time_left(clock, capsys):
    with follow(1000, 200, None) as advance:
        for _ in range(80):
            clock.now += 1
            advance(5, "clip7")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "phasefusion: 350 of 1000 passes, 5.0/s, 130 s left (clip7)",
        "phasefusion: 500 of 1000 passes, 5.0/s, 100 s left (clip7)",
    ]


def test_silence(clock, capsys):
    with follow(10, 0, False) as advance:
        clock.now += 1000
        advance(10, "clip")
    assert capsys.readouterr() == ("", "")


def test_numbers_for_a_callable():
    seen = []
    with follow(10, 4, lambda *numbers: seen.append(numbers)) as advance:
        advance(1, "a")
        advance(5, "b")
    assert seen == [(5, 10, "a"), (10, 10, "b")]


def test_bar_on_a_terminal():
    code = (
        "import time\n"
        "from phasefusion.progress import follow\n"
        "with follow(40, 10, None) as advance:\n"
        "    for _ in range(30):\n"
        "        advance(1, 'clip7')\n"
        "        time.sleep(0.02)\n"
    )
    ours, theirs = pty.openpty()
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stderr=theirs,
        env=os.environ | {"PYTHONPATH": root, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    shown = io.BytesIO()
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown.write(part)
    os.close(ours)
    assert process.wait() == 0
    text = shown.getvalue().decode()
    assert "clip7" in text
    assert "/40" in text
    assert "/s" in text
