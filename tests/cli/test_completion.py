"""What the shells get when they ask what could stand where."""

import os
import shutil
import subprocess
import sys

import pytest

HEAVY = ["numpy", "scipy", "torch", "transformers", "pyarrow", "duckdb", "jinja2"]


@pytest.fixture
def program(tmp_path):
    """Make a program named phasefusion, as an installation does."""
    path = tmp_path / "bin" / "phasefusion"
    path.parent.mkdir()
    path.write_text(
        f"#!{sys.executable}\nimport sys\nfrom phasefusion.cli import main\n"
        "try:\n    main()\nfinally:\n"
        f"    loaded = [name for name in {HEAVY} if name in sys.modules]\n"
        "    print(*loaded, file=open(sys.argv[0] + '.loaded', 'w'))\n"
    )
    path.chmod(0o755)
    return path


def environment(program, **more):
    where = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    paths = [*sys.path, os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PATH": where,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "HOME": str(program.parents[1]),
        **more,
    }


def words_of_bash(program, *words):
    """Complete the last word in a bash that reads the script of phasefusion."""
    typed = " ".join(f"'{word}'" for word in words)
    code = (
        'source "$0.sh"; spec=$(complete -p phasefusion); set -- $spec; '
        f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; "
        'while [ "$1" != -F ]; do shift; done; "$2" phasefusion; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    script = subprocess.run(
        [program],
        env=environment(program, _PHASEFUSION_COMPLETE="source_bash"),
        capture_output=True,
        text=True,
        check=True,
    )
    program.with_name("phasefusion.sh").write_text(script.stdout)
    done = subprocess.run(
        ["bash", "-c", code, program],
        env=environment(program),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes(program):
    assert words_of_bash(program, "phasefusion", "re") == ["report", "records"]
    assert {"check", "merge"} < {*words_of_bash(program, "phasefusion", "records", "")}
    assert program.with_name("phasefusion.loaded").read_text() == "\n"
    words = words_of_bash(program, "phasefusion", "run", "q", "--dry-run", "--protoc")
    assert words == ["--protocol"]
    assert program.with_name("phasefusion.loaded").read_text() == "\n"
    words = ["phasefusion", "run", "q", "--protocol", "st"]
    assert words_of_bash(program, *words) == ["stableeval", "stress"]
    assert words_of_bash(program, "phasefusion", "run", "q", "--by", "t") == ["time"]


def asked(program, **variables):
    done = subprocess.run(
        [program],
        env=environment(program, **variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


def test_zsh_completes(program):
    script = asked(program, _PHASEFUSION_COMPLETE="source_zsh")
    assert script.lstrip().startswith("#compdef phasefusion\n")
    assert "_PHASEFUSION_COMPLETE=complete_zsh" in script
    zsh = shutil.which("zsh")
    if zsh is not None:
        subprocess.run([zsh, "-n"], input=script, text=True, check=True)
    found = asked(
        program,
        _PHASEFUSION_COMPLETE="complete_zsh",
        _TYPER_COMPLETE_ARGS="phasefusion re",
    )
    assert '"report":"Report a run, finished or not' in found
    assert '"records":' in found
    assert '"run":' not in found
    assert program.with_name("phasefusion.loaded").read_text() == "\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_script_is_shown_and_installed_for_the_shell_that_asks(program):
    def told(option):
        done = subprocess.run(
            ["bash", "-c", f"phasefusion {option}; exit $?"],
            env=environment(program),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    assert "complete_bash" in told("--show-completion")
    assert "bash completion installed" in told("--install-completion")
    home = program.parents[1]
    assert "phasefusion" in (home / ".bashrc").read_text()
    installed = home / ".bash_completions" / "phasefusion.sh"
    assert "_PHASEFUSION_COMPLETE=complete_bash" in installed.read_text()
