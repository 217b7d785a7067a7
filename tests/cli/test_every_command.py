"""What holds for all commands: their help, their options, and what bad input gets."""

import enum
import fcntl
import inspect
import json
import os
import pty
import re
import subprocess
import sys
import typing
from collections import defaultdict
from pathlib import Path

import pytest
from every_command import WORDS, groups, leaves

from phasefusion import monitor
from phasefusion.simulate import Effects, corpus

COMMANDS = leaves()
#: What goes before the colon of the help of an option: its meaning, in all commands.
MEANING = re.compile(r"[^:]*")


def options_of(command):
    return [one for one in command.params if one.param_type_name == "option"]


def test_the_table_of_words_is_whole():
    assert WORDS.keys() == COMMANDS.keys()


@pytest.mark.parametrize("name", [*COMMANDS, *groups()])
def test_help_has_examples_of_the_command(name):
    command = (COMMANDS | groups())[name]
    assert command.help
    shown = command.epilog.split("Examples:\n\n")[1].split("\n\n")
    examples = [line for line in shown if line.startswith("phasefusion ")]
    assert any(line.startswith(f"phasefusion {name}".rstrip()) for line in examples)
    words = {word for line in examples for word in line.split()}
    known = {o for one in COMMANDS.values() for p in one.params for o in p.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_an_option_means_the_same_in_every_command():
    means = defaultdict(set)
    letters = defaultdict(set)
    for command in COMMANDS.values():
        for one in options_of(command):
            assert one.help, one.opts
            long = max(one.opts, key=len)
            meaning = MEANING.match(one.help).group().rstrip(".")
            means[long].add((meaning, one.is_flag))
            for short in (o for o in one.opts if o != long):
                letters[short].add(long)
    assert {name: found for name, found in means.items() if len(found) > 1} == {}
    assert {name: found for name, found in letters.items() if len(found) > 1} == {}


def test_what_is_shared_is_named_alike():
    for name, command in COMMANDS.items():
        flags = {o for one in options_of(command) for o in one.opts}
        assert "--json" in flags, name
        assert "--output" not in flags, name
        assert ("--out" in flags) == ("-o" in flags), name
        source = inspect.getsource(inspect.unwrap(command.callback))
        assert ("progress=" in source) == ("--quiet" in flags) == ("-q" in flags), name


@pytest.fixture(scope="module")
def places(tmp_path_factory, folder):
    """What the words of `WORDS` stand for."""
    home = tmp_path_factory.mktemp("places")
    made = corpus(Effects(), n_videos=6, orders="cyclic", seed=1)
    runs = made.write(home / "runs", reruns=1, frames=False)
    monitor.add(home / "history.sqlite", runs[0], at="2026-11-30")
    rows = [{"id": "a", "options": ["x", "y"], "prediction": "(B) y", "gold": "B"}]
    (home / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {
        "RUN": runs[0],
        "RUN2": runs[1],
        "QUESTIONS": folder / "questions.jsonl",
        "VIDEO": folder / "clip0.mp4",
        "PREDICTIONS": home / "log.jsonl",
        "HISTORY": home / "history.sqlite",
    }


def words_of(name, places, new):
    words = [*name.split(), *WORDS[name].split()]
    found = []
    for word in words:
        if word.startswith("NEW"):
            found.append(str(new) + word[3:])
        else:
            found.append(str(places.get(word, word)))
    return found


def bad_places(folder):
    """Paths that are no good for a command, each in its way."""
    (folder / "noise.json").write_bytes(b"\xff\xfe{[" * 99)
    (folder / "empty.jsonl").write_bytes(b"")
    (folder / "folder").mkdir()
    (folder / "run").mkdir()
    (folder / "run" / "run.json").write_bytes(b'{"format": "no", "settings": 1}')
    (folder / "run" / "passes.jsonl").write_bytes(b'{"question_id": 1}\n[]\n\xff')
    found = [folder / name for name in ("noise.json", "folder", "run")]
    return [*found, folder / "empty.jsonl" / "in", folder / "es\x1b[31mcape\nline"]


def takes(one, kind):
    of = one.type_descriptor.annotation
    return kind is of or kind in typing.get_args(of)


def is_plain(text):
    return not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)


def is_one_line(err):
    said = [line for line in err.splitlines() if "phasefusion: warning: " not in line]
    return len(said) == 1 and said[0].startswith("phasefusion: error: ")


SLOW = ("demo",)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in SLOW])
def test_output_to_a_file_is_plain_and_json_is_json(call, places, name, tmp_path):
    words = words_of(name, places, tmp_path / "new")
    code, out, err = call(*words)
    assert is_plain(out + err)
    if code == 2:  # such as an explanation that the scorer of the tests has not
        assert is_one_line(err)
    else:
        code, out, _ = call(*words_of(name, places, tmp_path / "again"), "--json")
        json.loads(out)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", COMMANDS)
def test_bad_paths_are_a_line_each(call, places, name, tmp_path):
    command = COMMANDS[name]
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    n_refused = 0
    for one in (one for one in command.params if takes(one, Path)):
        if name in SLOW:
            continue
        folder = tmp_path / one.name
        folder.mkdir()
        for bad in bad_places(folder):
            words = words_of(name, places, tmp_path / f"{one.name}-{bad.name}")
            if one in arguments:
                words[len(name.split()) + arguments.index(one)] = bad
            elif one.opts[0] in words:
                words[words.index(one.opts[0]) + 1] = bad
            else:
                words += [one.opts[0], bad]
            code, out, err = call(*words)
            if code == 2:
                assert is_plain(out + err), words
                assert is_one_line(err), words
                n_refused += 1
            assert code in (0, 1, 2, 3), words
    has_paths = any(takes(one, Path) for one in command.params) and name not in SLOW
    assert has_paths == (n_refused > 0)


@pytest.mark.parametrize("name", COMMANDS)
def test_words_of_the_wrong_kind_are_a_line_that_names_the_help(call, places, name):
    for one in options_of(COMMANDS[name]):
        of = one.type_descriptor.annotation
        choices = isinstance(of, type) and issubclass(of, enum.Enum)
        if not (choices or takes(one, int) or takes(one, float)):
            continue
        if one.nargs != 1:
            continue
        words = words_of(name, places, "nowhere/at/all")
        code, out, err = call(*words, one.opts[0], "wr\x1bng")
        assert (code, out) == (2, ""), one.opts
        assert is_one_line(err)
        assert is_plain(err)
        assert err.endswith(f"; see phasefusion {name} --help\n")
    code, _, err = call(*name.split(), "--no-such-option")
    assert code == 2
    assert is_one_line(err)


def printed_on_a_terminal(words, **variables):
    """What a command prints where it believes that someone looks."""
    reader, terminal = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "phasefusion", *map(str, words)],
        env={**os.environ, "COLUMNS": "100", **variables},
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    found = b""
    try:
        while part := os.read(reader, 4096):
            found += part
    except OSError:  # the other end was closed
        pass
    finally:
        os.close(reader)
    assert done.wait() == 0, found
    return found.decode()


COLOUR = re.compile(r"\x1b\[([0-9]+;)*(3[0-8]|4[0-8]|9[0-7])(;[0-9]+)*m")


def test_no_colour_and_dumb_terminals(places, tmp_path, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "CI"):
        monkeypatch.delenv(name, raising=False)
    path = os.pathsep.join(filter(None, sys.path))
    monkeypatch.setenv("PYTHONPATH", path)
    shown = printed_on_a_terminal(["--help"], TERM="xterm-256color")
    assert COLOUR.search(shown)
    plain = printed_on_a_terminal(["--help"], TERM="xterm-256color", NO_COLOR="1")
    assert not COLOUR.search(plain)
    for words in (["--help"], ["protocols"], words_of("run", places, tmp_path / "new")):
        shown = printed_on_a_terminal(words, TERM="dumb")
        assert "\x1b" not in shown
        assert "\r" not in shown.replace("\r\n", "")


def test_a_pipe_is_written_to_and_stays_a_pipe(call, places, tmp_path):
    pytest.importorskip("prometheus_client")
    pytest.importorskip("pyarrow")
    targets = {
        "compare": ("--save-items", "benchmark,"),
        "monitor show": ("--save-prometheus", "# HELP"),
        "records convert": ("", '"question_id"'),
    }
    for name, (option, start) in targets.items():
        pipe = tmp_path / f"{name}.jsonl"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 2**20)
        try:
            words = words_of(name, places, tmp_path / "unused")
            if name == "records convert":
                del words[-1]
            code, _, err = call(*words, *option.split(), pipe)
            assert code in (0, 1), err
            assert start in os.read(reader, 2**20).decode()[:400]
        finally:
            os.close(reader)
        assert pipe.is_fifo()
