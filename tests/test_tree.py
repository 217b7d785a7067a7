"""Rules of the tree that no compiler and no linter checks."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "phasefusion"
C_FILES = sorted((ROOT / "csrc").glob("*/*.[ch]"))
C_FOLDERS = sorted(path for path in (ROOT / "csrc").iterdir() if path.is_dir())
# Kernels for GPUs are measured in registers, not in parameters and levels.
C_CODE = [path for path in C_FILES if path.parent.name != "cuda"]
HEADERS = [path for path in C_FILES if path.suffix == ".h"]
BINDINGS = sorted((ROOT / "csrc" / "python").glob("*.c"))
PYTHON_FILES = sorted(
    path
    for folder in ("phasefusion", "tests", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)

# The stages in their order, and the modules of each. A module imports those of its own
# stage and of earlier ones, late and for types alone too.
STAGES = {
    "errors": "errors _core",
    "shared": "_arrays _checks _file_hash _install _markdown _paths _random _results "
    "_whole _wording progress",
    "grid": "grid samplers _sampled",
    # a GPU is another place where the same frames, scores and counts are made
    "frames": "_frames frames pixels _cuda cuda _devices",
    "video": "_video video cache contact frame_check cuda.decoding _cached_clips "
    "_video_checks _video_digest _video_fit _video_records _video_source",
    "subtitles": "subtitles _languages _subtitle_json _subtitle_search",
    "anchors": "anchors",
    "orders": "orders",
    "scoring": "answers _answer_forms scoring",
    "fusion": "fusion _fused _probabilities _ties",
    # a gold file may have any of the forms that results have
    "datasets": "datasets _sources importers.golds importers.detect "
    "importers.benchmarks importers.harness importers.logprobs importers.tables",
    "records": "records _versions",
    "stats": "stats",
    "protocols": "protocols",
    "importers": "importers",
    "report": "report",
    "judging": "calibrate planning compare audit gate monitor _comparable _measures",
    "simulate": "simulate",
    "running": "engine reparse _arm_grids _passes _runner _scorer_checks _scorers "
    "_spans _known_videos _description _code_hash _bytecode _value_hash",
    # these may know all of them
    "whole": "evaluate saliency capacity harness tinyvlm info cli __main__ __init__",
}
ORDER = list(STAGES)
STAGE_OF = {name: stage for stage, names in STAGES.items() for name in names.split()}

# What the files of a folder of csrc include, beside their own.
C_USES = {
    "base": "",
    "grid": "base",
    "posterior": "base",
    "stats": "base",
    "frames": "base",
    "video": "base",
    "cuda": "posterior",
    "host": "base frames cuda",
    "python": "base grid posterior stats frames video host",
}


def modules() -> dict[str, Path]:
    """Every module of the package by its name in it, compiled ones by their stub."""
    files = [*PACKAGE.rglob("*.py"), *PACKAGE.glob("*.pyi")]
    found = {}
    for path in files:
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[-1] == "__init__" and len(parts) > 1:
            parts = parts[:-1]
        found[".".join(parts)] = path
    return found


MODULES = modules()


def stage_of(module: str) -> str | None:
    """Stage of a module: its own entry, or that of the package it is in."""
    while module and module not in STAGE_OF:
        module = module.rpartition(".")[0]
    return STAGE_OF.get(module)


def imported(path: Path) -> Iterator[str]:
    """Modules of the package that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            package, _, module = name.partition(".")
            while module and module not in MODULES:
                module = module.rpartition(".")[0]
            if package == "phasefusion" and module:
                yield module


def test_every_module_has_a_stage() -> None:
    assert [name for name in MODULES if stage_of(name) is None] == []
    assert [name for name in STAGE_OF if name not in MODULES] == []


@pytest.mark.parametrize("stage", STAGES)
def test_no_stage_imports_a_later_one(stage: str) -> None:
    later = set(ORDER[ORDER.index(stage) + 1 :])
    wrong = [
        f"{module} imports {other}"
        for module, path in MODULES.items()
        if stage_of(module) == stage
        for other in imported(path)
        if stage_of(other) in later
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", C_FOLDERS, ids=lambda path: path.name)
def test_a_folder_of_c_includes_what_it_may(folder: Path) -> None:
    allowed = {folder.name, *C_USES[folder.name].split()}
    for path in sorted(folder.iterdir()):
        for name in re.findall(r'#include "([^"]+)"', path.read_text()):
            places = [folder / name, ROOT / "csrc" / name, ROOT / "tests/emu" / name]
            places += [ROOT / "csrc" / other / name for other in allowed]
            found = next((place for place in places if place.is_file()), None)
            assert found is not None, f"{path.name} includes {name}"
            assert found.parent.name in {*allowed, "emu"}, f"{path.name}: {name}"


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


@pytest.mark.parametrize("path", C_FILES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_one_way_out_and_no_status_unread(path: Path) -> None:
    text = without_comments(path.read_text())
    if path.suffix == ".h":
        unread = set(re.findall(r"^pf_status (\w+)\(", text, re.MULTILINE))
        # called for the text as well, and on the way out of what cannot fail
        assert unread <= {"pf_failure_say", "pf_device_leave"}
    labels = [
        re.findall(r"^(\w+):$", body, re.MULTILINE)
        for body in re.findall(r"^\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    ]
    assert [one for one in labels if one not in ([], ["fail"], ["done"])] == []


@pytest.mark.parametrize("path", C_FILES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_every_product_that_is_allocated_was_checked(path: Path) -> None:
    """A product inside malloc has wrapped around before anything can see it."""
    text = without_comments(path.read_text())
    found = re.findall(r"\b(?:m|re)alloc\(((?:[^()]|\([^()]*\))*)\)", text)
    assert [one for one in found if re.search(r"\w\)? \* ", one)] == []


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


@pytest.mark.parametrize("path", C_CODE, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_functions_take_little_and_nest_little(path: Path) -> None:
    text = without_comments(path.read_text())
    for name, given in re.findall(r"\b(\w+)\(((?:[^()]|\([^()]*\))*)\)\n\{", text):
        n_given = re.sub(r"\([^()]*\)", "", given).count(",") + 1
        assert n_given <= 6, f"{name} has {n_given} parameters"
    depth = 0
    for number, line in enumerate(text.splitlines(), 1):
        if line == "{":
            depth = 0
        depth += line.count("{") - line.count("}")
        assert depth <= 4 or line.startswith("#"), f"line {number} is nested too deep"


def test_python_files_and_functions_are_short() -> None:
    long = [p.name for p in PYTHON_FILES if len(p.read_text().splitlines()) > 600]
    assert not long
    for path in MODULES.values():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                body = node.body[ast.get_docstring(node) is not None :]
                n_line = body[-1].end_lineno - body[0].lineno + 1 if body else 0
                assert n_line <= 60, f"{path.name}: {node.name} has {n_line} lines"
