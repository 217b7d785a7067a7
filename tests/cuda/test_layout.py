"""The emulated tensor cores hold their matrices as the PTX manual says."""

from __future__ import annotations

import shutil
import subprocess

import emulator
import pytest

pytestmark = pytest.mark.skipif(
    not emulator.is_possible(), reason=f"no C++ compiler named {emulator.CXX}"
)


def check(folder, sources):
    """Compile the check with the emulator of a folder; its exit code and words."""
    program = folder / "layout"
    names = ["layout.cpp", "scheduler.cpp", "untraced.cpp"]
    command = [emulator.CXX, *emulator.FLAGS, "-O1", f"-I{sources}", "-o", str(program)]
    subprocess.run([*command, *(str(sources / name) for name in names)], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    return done.returncode, done.stdout


def test_every_element_lies_where_the_manual_says(tmp_path):
    assert check(tmp_path, emulator.EMULATOR) == (0, "")


#: What other instructions of the same shape do, and slips of the pen.
BROKEN = {
    "rows before columns": ("(k >> 4) * 2];", "(k >> 4)];"),
    "lower rows first": ("(row >> 3);", "(row >> 3) * 2;"),
    "columns of 16 bits": ("(lane & 3u) * 2 + (i & 1u)", "(lane & 3u) + 4 * (i & 1u)"),
    "rows in pairs": ("(lane >> 2) + 8 * (i >> 1)", "(lane >> 2) * 2 + (i >> 1)"),
    "unsigned weights": ("SIGNED ? (int)(signed char)", "SIGNED ? (int)"),
    "a sum forgotten": ("sum[i] += value", "sum[i] = value"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_another_layout_is_noticed(tmp_path, name):
    text, other = BROKEN[name]
    shutil.copytree(emulator.EMULATOR, tmp_path / "emu")
    header = tmp_path / "emu" / "cuemu.h"
    assert text in header.read_text()
    header.write_text(header.read_text().replace(text, other))
    code, said = check(tmp_path, tmp_path / "emu")
    assert code == 1
    assert said.startswith("element ")
