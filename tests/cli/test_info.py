"""Why a part of the installation is missing."""

import ast
import importlib
import tomllib
from pathlib import Path

import numpy as np
import pytest

import phasefusion
from phasefusion import _frames, info

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


def test_the_version_says_how_it_was_built(call):
    code, out, err = call("--version")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines == info.build_lines()
    assert lines[0] == f"phasefusion {phasefusion.__version__}"
    facts = info.describe()["phasefusion"]
    assert lines[1] == f"Python {facts['python']}, NumPy {np.__version__}"
    assert lines[3] == f"instruction set {facts['instructions']}"
    assert facts["instructions"] == _frames.cpu_level()
    assert lines[4].startswith("CUDA image ")


@pytest.mark.parametrize(
    ("folder", "origin"),
    [("site/phasefusion.libs", "bundled"), ("usr/lib", "the system's")],
)
def test_whose_ffmpeg_is_loaded(tmp_path, monkeypatch, folder, origin):
    library = tmp_path / folder / "libavcodec-1a2b.so.59"
    maps = (
        f"7f00-7f01 r-xp 00000000 fe:00 9   /lib/libc.so.6\n7f02-7f03 r 0 f 1 {library}"
    )
    real = Path.read_text
    monkeypatch.setattr(
        Path,
        "read_text",
        lambda self, *a, **k: maps if "maps" in self.name else real(self, *a, **k),
    )
    monkeypatch.setattr(info, "_ffmpeg_versions", lambda: {"release": "5.1"})
    monkeypatch.setattr(info, "__file__", str(tmp_path / "site/phasefusion/info.py"))
    assert info._ffmpeg_origin() == origin
    assert info.build_lines()[2] == f"FFmpeg 5.1, {origin}"
    assert "not built" in info.build_lines()[4]
    monkeypatch.setattr(info, "_ffmpeg_versions", lambda: None)
    assert "cannot be decoded" in info.build_lines()[2]


def test_the_version_is_in_one_place():
    found = tomllib.loads((SETUP.parent / "pyproject.toml").read_text())
    assert found["project"]["dynamic"] == ["version"]
    where = found["tool"]["setuptools"]["dynamic"]["version"]
    assert where == {"attr": "phasefusion.__version__"}


def test_the_citation_is_of_this_version_and_of_the_paper():
    yaml = pytest.importorskip("yaml")
    found = yaml.safe_load((SETUP.parent / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= found.keys()
    assert found["cff-version"] == "1.2.0"
    assert found["version"] == phasefusion.__version__
    paper = found["references"][0]
    assert {"type", "title", "authors"} <= paper.keys()
    assert paper["title"] in " ".join((SETUP.parent / "README.md").read_text().split())
    assert paper["url"] == "https://arxiv.org/abs/2610.08649"


def test_every_optional_package_is_listed_with_what_needs_it(monkeypatch):
    """Extras of pyproject.toml that are more than tools of development."""
    project = tomllib.loads((SETUP.parent / "pyproject.toml").read_text())["project"]
    extras = ("records", "hf", "report", "audit", "importers", "datasets", "anchors")
    extras += ("monitor", "ray")
    wanted = {
        text.partition(">")[0].partition("[")[0]
        for extra in extras
        for text in project["optional-dependencies"][extra]
    }
    assert wanted == set(info._OPTIONAL)

    def nothing(name):
        raise info.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(info.metadata, "version", nothing)
    found = info.describe()
    for name, purpose in info._OPTIONAL.items():
        assert found["packages"][name] is None
        assert found["missing"][name].startswith(f"needed for {purpose}; pip install")


def test_a_package_that_does_as_well_counts(monkeypatch):
    def version(name):
        if name != "opencv-python":
            raise info.metadata.PackageNotFoundError(name)
        return "4.9"

    monkeypatch.setattr(info.metadata, "version", version)
    assert info._version("opencv-python-headless") == "4.9"
    assert info._version("matplotlib") is None
