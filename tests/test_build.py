"""What the build and the import promise."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import phasefusion

ROOT = Path(__file__).parents[1]


def test_import_is_quick_and_needs_numpy_alone() -> None:
    code = (
        "import sys, numpy, time; before = set(sys.modules); t = time.perf_counter()\n"
        "import phasefusion; t = time.perf_counter() - t\n"
        "new = {m.split('.')[0] for m in set(sys.modules) - before}\n"
        "heavy = new & {'torch', 'transformers', 'scipy', 'rich', 'typer', 'PIL',\n"
        "    'orjson', 'jinja2', 'pandas', 'matplotlib'}\n"
        "print(t, sorted(heavy))"
    )
    runs = []
    for _ in range(3):
        command = [sys.executable, "-c", code]
        out = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, heavy = out.stdout.split(" ", 1)
        assert heavy.strip() == "[]"
        runs.append(float(seconds))
    if "PHASEFUSION_UNDER_ASAN" not in os.environ:
        assert min(runs) < 0.15


def test_there_is_one_version() -> None:
    version = phasefusion.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    stated = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert stated[0] in ("Unreleased", version)


@pytest.mark.slow
def test_without_ffmpeg_only_video_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "build_ext"]
    command += ["--build-lib", str(tmp_path / "lib"), "--build-temp", str(tmp_path)]
    environment = os.environ | {"PKG_CONFIG": "/bin/false"}
    made = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    assert "building without _video" in made.stdout
    assert "install libavformat-dev" in made.stdout
    built = {path.name.split(".")[0] for path in tmp_path.glob("lib/phasefusion/*.so")}
    assert built == {"_core", "_cuda", "_frames"}


@pytest.mark.skipif(
    "PHASEFUSION_UNDER_ASAN" not in os.environ, reason="not under the sanitizers"
)
@pytest.mark.parametrize("name", ["_core", "_cuda", "_frames", "_video"])
def test_under_sanitizers_the_sanitized_modules_are_tested(name: str) -> None:
    module = importlib.import_module(f"phasefusion.{name}")
    assert b"__asan_init" in Path(str(module.__file__)).read_bytes()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_the_source_archive_is_the_tree(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", tmp_path]
    command += ["sdist", "-d", tmp_path]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        inside = {m.name.partition("/")[2] for m in archive if m.isfile()}
    command = ["git", "ls-files", "-z", "-co", "--exclude-standard"]
    listed = subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    )
    tracked = {name for name in listed.stdout.split("\0") if (ROOT / name).is_file()}
    assert tracked - inside == set()
    made = {"PKG-INFO", "setup.cfg"}
    stray = {name for name in inside - tracked - made if ".egg-info/" not in name}
    assert stray == set()
