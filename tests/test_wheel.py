"""The recipe of the self-contained wheel, without building one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / "tools" / "wheel"


def options() -> list[str]:
    text = (TOOLS / "ffmpeg.options").read_text()
    return [o for line in text.splitlines() for o in line.split("#")[0].split()]


def test_nothing_is_on_that_the_options_do_not_name():
    assert "--disable-everything" in options()
    assert "--disable-autodetect" in options()
    assert "--disable-network" in options()
    assert not {"--enable-gpl", "--enable-nonfree", "--enable-version3"} & {*options()}
    kinds = {o.split("=")[0] for o in options() if o.startswith("--enable-")}
    assert kinds == {
        *("--enable-shared", "--enable-pic", "--enable-zlib", "--enable-libdav1d"),
        *("--enable-demuxer", "--enable-decoder", "--enable-parser", "--enable-bsf"),
    }


def test_the_page_lists_what_is_compiled_in():
    page = (ROOT / "docs" / "wheels.md").read_text()
    table = page.split("## What it reads")[1].split("Nothing else is there")[0]
    told = set(re.findall(r"`(\w+)`", table))
    assert told == {o.split("=")[1] for o in options() if "=" in o}


def test_each_option_is_given_once():
    assert len(options()) == len({*options()})


def dsc(folder: Path, data: bytes) -> None:
    (folder / "x_1.orig.tar.xz").write_bytes(data)
    digest = "27042f4e6eca7d0b2a7ee4026df2ecfa51d3339e6d122aa099118ecd8563bad9"
    (folder / "x_1.dsc").write_text(
        f"Source: x\nChecksums-Sha256:\n {digest} 5 x_1.orig.tar.xz\nFiles:\n"
    )


@pytest.mark.parametrize(("data", "fails"), [(b"right", False), (b"wrong", True)])
def test_a_source_that_is_not_what_its_package_says_is_refused(data, fails, tmp_path):
    dsc(tmp_path, data)
    code = "import sys, pathlib; sys.path.insert(0, sys.argv[1]); import wheel\n"
    code += "print(wheel.source_files(pathlib.Path(sys.argv[2])))"
    done = subprocess.run(
        [sys.executable, "-c", code, TOOLS, tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode != 0) == fails
    assert ("is not what x_1.dsc says" in done.stderr) == fails
