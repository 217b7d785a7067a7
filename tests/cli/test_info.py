"""Why a part of the installation is missing."""

import ast
import importlib
from pathlib import Path

import pytest

from phasefusion import info

SETUP = Path(__file__).parents[2] / "setup.py"


@pytest.fixture
def pkg_config(tmp_path, monkeypatch):
    """Put a pkg-config first that knows the libraries given, by name and version."""

    def install(**versions):
        tool = tmp_path / "pkg-config"
        cases = "".join(f"{name}) has={v} ;;\n" for name, v in versions.items())
        tool.write_text(
            "#!/bin/sh\nset -- $2\nhas=\ncase $1 in\n" + cases + "esac\n"
            'test -n "$has" || exit 1\ntest -z "$3" && exit 0\n'
            'test "${has%%.*}" -ge "${3%%.*}"\n'
        )
        tool.chmod(0o755)
        monkeypatch.setenv("PKG_CONFIG", str(tool))

    return install


GOOD = {"libavformat": "60.3", "libavcodec": "60.3", "libavutil": "58.2"}
GOOD |= {"libswscale": "7.1"}


def test_the_versions_are_those_of_the_build():
    for node in ast.parse(SETUP.read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "FFMPEG":
            assert ast.literal_eval(node.value) == info.FFMPEG
            return
    raise AssertionError("setup.py has no FFMPEG")


def test_each_outcome_of_the_check(pkg_config, monkeypatch):
    pkg_config(**GOOD)
    assert "are there now" in info.why_no_ffmpeg()
    pkg_config(**{**GOOD, "libavformat": "58.1"})
    assert info.why_no_ffmpeg() == "pkg-config finds a libavformat before 59.27"
    pkg_config(libavformat="60.3", libavcodec="60.3", libavutil="56.0")
    assert info.why_no_ffmpeg() == (
        "pkg-config finds a libavutil before 57.28, does not find libswscale"
    )
    monkeypatch.setenv("PKG_CONFIG", "no-such-program")
    assert info.why_no_ffmpeg().startswith("no-such-program is not installed")


def test_not_built_and_not_loadable_are_told_apart(pkg_config, monkeypatch):
    real = importlib.import_module
    raised: list[ImportError] = []

    def refuse(name, *more):
        if name == "phasefusion._video":
            raise raised[-1]
        return real(name, *more)

    monkeypatch.setattr(importlib, "import_module", refuse)
    pkg_config(libavutil="58.2")
    raised.append(ModuleNotFoundError("No module named 'phasefusion._video'"))
    found = info.describe()
    assert found["modules"]["_video"] is None
    why = found["missing"]["_video"]
    assert "not built; pkg-config does not find libavformat, does not find lib" in why
    assert "not built" in why
    raised.append(ImportError("libavformat.so.59: cannot open shared object file"))
    why = info.describe()["missing"]["_video"]
    assert "libavformat.so.59" in why
    assert "not built" not in why
