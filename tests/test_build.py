"""Rules of the tree that a compiler does not check, and what the build promises."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
C_FILES = sorted((ROOT / "csrc").glob("*/*.[ch]"))
HEADERS = [path for path in C_FILES if path.suffix == ".h"]
BINDINGS = sorted((ROOT / "csrc" / "python").glob("*.c"))
PYTHON_FILES = sorted(
    path
    for folder in ("phasefusion", "tests", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)


# A stage imports only earlier ones; `evaluate` and `cli` alone know them all.
# frames before video: its kernels run inside the decoder; cuda is a part of frames
STAGES = ["errors", "grid", "samplers", "frames", "pixels", "video", "subtitles"]
STAGES += ["anchors", "contact", "orders", "scoring", "fusion", "datasets", "records"]
STAGES += ["stats", "report", "planning", "compare", "audit", "simulate"]


def imported_stages(path: Path) -> set[str]:
    """Names X of every `phasefusion.X` that a file imports, types-only ones too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            if node.module == "phasefusion":
                found |= {alias.name for alias in node.names}
            elif node.module.startswith("phasefusion."):
                found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            found |= {n[1] for n in names if n[0] == "phasefusion" and len(n) > 1}
    return found


def without_comments(text: str) -> str:
    """C text with comments and string literals blanked, lines kept."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"'
    return re.sub(pattern, blank, text, flags=re.DOTALL)


@pytest.mark.parametrize("path", C_FILES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_core_is_free_of_python_and_of_exits(path: Path) -> None:
    text = without_comments(path.read_text())
    if path.parent.name != "python":
        assert "Python.h" not in path.read_text()
        assert not re.search(r"\bPy[A-Z_]\w*", text), "Python in the core"
    called = re.findall(r"\b(exit|abort|printf|fprintf|puts)\s*\(", text)
    assert not called, f"{called} in the core"


# What stands in one place so that there is one answer to it.
HOMES = {
    r"\bLIBAV\w+_VERSION_(INT|MAJOR)\b": "video/compat.h",
    r"\b__builtin_cpu_\w+": "base/cpu.c",
    r"\bpthread_create\b": "base/parallel.c",
}


@pytest.mark.parametrize("path", C_FILES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_each_thing_has_one_home(path: Path) -> None:
    text = without_comments(path.read_text())
    name = f"{path.parent.name}/{path.name}"
    for pattern, home in HOMES.items():
        assert bool(re.search(pattern, text)) == (name == home), pattern


@pytest.mark.parametrize("path", C_FILES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_no_hidden_state_and_no_unsaid_promise(path: Path) -> None:
    text = path.read_text()
    assert text.startswith(f"/* {path.name} - ")
    assert not re.search(r"^static PyObject \*\w+( =|;)", text, re.MULTILINE)
    if path.suffix == ".h" and path.name != "pf.h" and "PF_RESTRICT" in text:
        assert "overlap" in text, "PF_RESTRICT without the promise it rests on"


@pytest.mark.parametrize("path", C_FILES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_files_and_functions_are_short(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= 600
    begin = 0
    for number, line in enumerate(lines, 1):
        if line == "{":
            begin = number
        if line == "}" and begin:
            assert number - begin <= 61, f"the function at line {begin} is too long"
            begin = 0


@pytest.mark.parametrize("path", BINDINGS, ids=lambda p: p.name)
def test_no_python_call_without_the_gil(path: Path) -> None:
    text = without_comments(path.read_text())
    pattern = (
        r"Py_BEGIN_ALLOW_THREADS(.*?)Py_END_ALLOW_THREADS"
        r"|PyEval_SaveThread\(\)(.*?)(?:PyEval_RestoreThread|\n})"
    )
    for inside in re.findall(pattern, text, re.DOTALL):
        assert not re.search(r"\bPy\w+\s*\(", "".join(inside)), inside


@pytest.mark.parametrize("path", HEADERS, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_each_header_compiles_alone(path: Path, tmp_path: Path) -> None:
    if path.parent.name == "python":
        pytest.skip("needs Python's headers; every binding includes it first")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    probe = tmp_path / "probe.c"
    probe.write_text(f'#include "{path.relative_to(ROOT / "csrc")}"\nint probe;\n')
    flags = []
    if path.parent.name == "video":
        command = ["pkg-config", "--cflags", "libavformat", "libswscale"]
        found = subprocess.run(command, capture_output=True, text=True)
        flags = found.stdout.split()
    command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", *flags]
    command += ["-fsyntax-only", "-I", str(ROOT / "csrc"), str(probe)]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr


@pytest.mark.parametrize("stage", STAGES)
def test_no_stage_imports_a_later_one(stage: str) -> None:
    package = ROOT / "phasefusion"
    later = set(STAGES[STAGES.index(stage) + 1 :]) | {"evaluate", "harness", "cli"}
    for path in [package / f"{stage}.py", *(package / stage).rglob("*.py")]:
        if path.exists():
            assert not imported_stages(path) & later, path


def test_python_files_are_short() -> None:
    long = [p.name for p in PYTHON_FILES if len(p.read_text().splitlines()) > 600]
    assert not long


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
