"""Disks that are full, folders that may not be written, signals, and odd names."""

from __future__ import annotations

import ctypes
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time
import warnings
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from _soak_load import CheapScorer
from _soak_table import Tried, environment, python
from _soak_videos import clips, make_kinds, write_questions

#: Set by who starts the command of a run whose calls shall take a while.
DELAY = "SOAK_DELAY_S"
OPTIONS = ["--budget", "4", "--dense", "10", "--n-orders", "2", "--quiet"]
TIMELESS = {"seconds": None, "decode_seconds": None}
#: Capabilities that let root read and write what modes forbid.
_DROP_CAPABILITY, _DAC_OVERRIDE, _DAC_READ_SEARCH = 24, 1, 2
_FULL_BYTES = 40_000


class SlowScorer(CheapScorer):
    """Takes its time, so that it can be stopped."""

    def score(self, *given: Any, **options: Any) -> Any:
        time.sleep(float(os.environ.get(DELAY, "0")))
        return super().score(*given, **options)


def make() -> SlowScorer:
    return SlowScorer()


def run_command(questions: object, out: object, *more: object) -> list[str]:
    """The command of a run; `more` stands before its words."""
    words = ["run", "--scorer", "_soak_faults:make", *OPTIONS]
    return python("-m", "phasefusion", *words, *more, "--out", out, "--", questions)


def called(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    options = {"env": environment(), "timeout": 300} | options
    return subprocess.run(command, capture_output=True, text=True, **options)


def last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "(nothing)"


def passes(folder: Path) -> list[str]:
    """Every pass without its times, in an order of their own."""
    from phasefusion.records import iter_passes

    rows = [json.dumps(row | TIMELESS, sort_keys=True) for row in iter_passes(folder)]
    return sorted(rows)


def questions_of(folder: Path, n_items: int, *, sound: bool = False) -> Path:
    """A question file over videos of every kind, or of the sound ones alone."""
    kinds = make_kinds(folder / "kinds", 1)
    kinds = {kind: paths for kind, paths in kinds.items() if kind.sound or not sound}
    write_questions(folder / "questions.jsonl", kinds, n_items)
    return folder / "questions.jsonl"


def without_rights() -> None:
    """In a child: as any user, though it is root's."""
    libc = ctypes.CDLL(None)
    for capability in (_DAC_OVERRIDE, _DAC_READ_SEARCH):
        libc.prctl(_DROP_CAPABILITY, capability, 0, 0, 0)


def small_files() -> None:
    """In a child: files end where a disk would."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FULL_BYTES, _FULL_BYTES))


def full_disk(folder: Path, n_items: int) -> list[Tried]:
    """A disk that is full in mid-run, and has room again."""
    questions = questions_of(folder, n_items)
    whole = called(run_command(questions, folder / "whole"))
    expected = passes(folder / "whole")
    out = folder / "disk" / "run"
    out.parent.mkdir()
    mounted = called(["unshare", "-m", *_mount(out.parent), "true"]).returncode == 0
    if mounted:
        what = "a tmpfs that is full in mid-run, then larger"
        first = run_command(questions, out)
        script = '"$@"; code=$?; cp "$DISK/run/passes.jsonl" "$DISK.first"; '
        script += 'mount -o remount,size=64m none "$DISK" && "$@" && '
        script += 'cp -r "$DISK/run" "$DISK.whole"; exit $code'
        command = [*_mount(out.parent), "sh", "-c", script, "sh", *first]
        env = environment() | {"DISK": str(out.parent)}
        full = called(["unshare", "-m", *command], env=env)
        n_first = Path(f"{out.parent}.first").read_bytes().count(b"\n")
        done = Path(f"{out.parent}.whole")
    else:
        what = "files that may not grow any further in mid-run, then may"
        full = called(run_command(questions, out), preexec_fn=small_files)
        n_first = (out / "passes.jsonl").read_bytes().count(b"\n")
        called(run_command(questions, out))
        done = out
    errors = [x for x in full.stderr.splitlines() if "cannot be written" in x]
    message = errors[0] if errors else ""
    same = done.exists() and passes(done) == expected and whole.returncode == 0
    ok = full.returncode == 2 and "Make room" in message and 0 < n_first < len(expected)
    text = f"exit {full.returncode}, {n_first} of {len(expected)} passes whole; the "
    text += "error says to make room; the same command then makes the others: "
    text += "equal to an undisturbed run" if same else f"NOT equal ({message!r})"
    return [Tried("faults", what, text, ok=bool(ok and same))]


def _mount(folder: Path) -> list[str]:
    """Mount a small disk on a folder, in a namespace, before the words that follow."""
    size = f"size={_FULL_BYTES // 1000}k,mode=755"
    script = f'mount -t tmpfs -o {size} none "$0" && exec "$@"'
    return ["sh", "-c", script, str(folder)]


def rights(folder: Path) -> list[Tried]:
    """Folders and videos that this user may not write or read."""
    questions = questions_of(folder, 12, sound=True)
    tried = []
    locked = folder / "locked"
    locked.mkdir()
    locked.chmod(0o555)
    made = called(run_command(questions, locked / "run"), preexec_fn=without_rights)
    ok = made.returncode == 2 and "cannot be written" in made.stderr
    ok = ok and "Traceback" not in made.stderr
    text = f"exit {made.returncode}: {_tail(made.stderr, folder)}"
    tried.append(Tried("faults", "a run in a read-only directory", text, ok=ok))
    out = folder / "run"
    called(run_command(questions, out))
    (out / "passes.jsonl").chmod(0o444)
    made = called(run_command(questions, out), preexec_fn=without_rights)
    ok = made.returncode == 2 and "cannot be written" in made.stderr
    text = f"exit {made.returncode}: {_tail(made.stderr, folder)}"
    tried.append(Tried("faults", "a run whose passes are read-only", text, ok=ok))
    (out / "report.json").unlink()  # or it would be written to
    out.chmod(0o555)
    command = python("-m", "phasefusion", "report", out)
    made = called(command, preexec_fn=without_rights)
    ok = made.returncode == 0 and "cannot be written" in made.stderr
    text = f"exit {made.returncode}, printed; {_tail(made.stderr, folder)}"
    tried.append(Tried("faults", "a report of a read-only run", text, ok=ok))
    for path in (out, locked):
        path.chmod(0o755)
    return [*tried, _forbidden_video(folder, questions)]


def _forbidden_video(folder: Path, questions: Path) -> Tried:
    video = sorted((folder / "videos").iterdir())[3]
    forbidden = video.with_name("forbidden")
    shutil.copy(video, forbidden)
    forbidden.replace(video)
    video.chmod(0)
    out = folder / "one"
    made = called(run_command(questions, out), preexec_fn=without_rights)
    from phasefusion.records import iter_passes

    rows = list(iter_passes(out)) if out.exists() else []
    lost = {row["question_id"]: str(row["invalid"]) for row in rows if row["invalid"]}
    n_videos = len({row["question_id"] for row in rows})
    ok = made.returncode == 0 and list(lost) == ["q3"] and n_videos == 12
    ok = ok and "ermission" in lost.get("q3", "")
    text = f"exit {made.returncode}; {n_videos - len(lost)} of 12 videos scored, the "
    text += f"other recorded: {_short(lost.get('q3', 'nothing'), folder)}"
    return Tried("faults", "one video that may not be read", text, ok=ok)


def _tail(text: str, folder: Path) -> str:
    return _short(last_line(text), folder)


def _short(text: str, folder: Path) -> str:
    """The text without the folder of this soak."""
    return text.replace(f"{folder}/", "").replace(str(folder), ".")


def signals(folder: Path, n_each: int, seed: int) -> list[Tried]:
    """Runs stopped at random moments and gone on with."""
    questions = questions_of(folder, 44)
    called(run_command(questions, folder / "whole"))
    expected = passes(folder / "whole")
    n_bytes = (folder / "whole" / "passes.jsonl").stat().st_size
    rng = random.Random(seed)
    stopped = {
        signal.SIGTERM: {-signal.SIGTERM},
        # Python ends itself by the signal where that came inside a text it executed, as
        # of a dataclass, whatever the program's status; a shell says 130 of both
        signal.SIGINT: {130, -signal.SIGINT},
        signal.SIGKILL: {-signal.SIGKILL},
    }
    tried = []
    for which, allowed in stopped.items():
        out = folder / which.name
        targets = sorted(rng.randrange(n_bytes) for _ in range(n_each))
        codes, n_torn, said = [], 0, ""
        for target in targets:
            ended, errors, torn = stop_run(questions, out, which, target)
            codes.append(ended)
            n_torn += torn
            said += errors if "Traceback" in errors else ""
        resumed = called(run_command(questions, out))
        same = resumed.returncode == 0 and passes(out) == expected
        left = sorted(p.name for p in out.iterdir() if p.suffix in (".tmp", ".part"))
        early = [c for c in codes if c != 0]
        ended = " or ".join(map(str, sorted(set(early)))) or "never"
        ok = same and len(early) > 0 and set(early) <= allowed and not said and not left
        text = f"{len(early)} of {n_each} stopped in mid-run, exit {ended}, "
        text += f"{n_torn} torn last lines; then "
        text += "equal to an undisturbed run" if same else "NOT equal"
        text += f"; traceback: {said[-300:]}" if said else ""
        what = f"{which.name} at {n_each} random moments"
        tried.append(Tried("faults", what, text, ok=ok))
    return tried


def stop_run(
    questions: Path, out: Path, which: signal.Signals, target_bytes: int
) -> tuple[int, str, bool]:
    """Send a signal once so many bytes are there: exit, stderr, a torn last line."""
    path = out / "passes.jsonl"
    process = subprocess.Popen(
        run_command(questions, out),
        env=environment() | {DELAY: "0.004"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None:
        if path.exists() and path.stat().st_size > target_bytes:
            process.send_signal(which)
            break
        time.sleep(0.001)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors, not path.read_bytes().endswith(b"\n")


NAMES: Mapping[str, bytes] = {
    "of other scripts": "vidéo ビデオ 🎬".encode(),
    "with combining marks": b"e\xcc\x81",
    "with a line feed": b"a\nb",
    "with quotes and $": b"a'b\"c`$(x)",
    "that begin with a dash": b"-rf",
    "like an option": b"--out",
    "that are not UTF-8": b"caf\xe9",
    "with half a surrogate pair": b"\xed\xa0\x80",
    "with control characters": b"a\x1b[31mred\rb",
    "with markup and formats": b"[bold]x[/bold] %s {0}",
    "with backslashes": b"a\\b",
    "like an address": b"http:b",
    "of white space": b" a ",
    "of 240 bytes": b"x" * 240,
    "of a path of 3,000 bytes": b"/".join([b"d" * 199] * 15),
}


def names(folder: Path, chosen: Container[str] = NAMES) -> list[Tried]:
    """Folders, question files and videos of odd names, on the command line."""
    tried = []
    for kind, name in NAMES.items():
        if kind not in chosen:
            continue
        base = folder / kind.replace(" ", "-")
        base.mkdir()
        wrong = _with_name(base, name)
        text = "; ".join(wrong) or "scored, the bad video recorded, checked, reported"
        tried.append(Tried("names", f"names {kind}", text, ok=not wrong))
    return tried


def _with_name(base: Path, name: bytes) -> list[str]:
    """Everything that commands do wrong in a folder of that name."""
    inside = os.path.join(os.fsencode(base), name)
    os.makedirs(inside)
    deep = b"/" in name
    stem = b"v" if deep else name[:200]
    written = stem if _is_utf8(name) else b"v"  # no JSON can say what is none
    video, bad = written + b".mp4", b"bad.mp4"
    shutil.copy(clips()[0], os.path.join(inside, video))
    Path(os.fsdecode(os.path.join(inside, bad))).write_bytes(b"no video")
    same = {"question": "q?", "options": ["a", "b"], "answer": 0}
    rows = [
        {"question_id": n.decode().strip(), "video": n.decode()} | same
        for n in (video, bad)
    ]
    questions = os.fsdecode(os.path.join(name, stem + b".jsonl"))
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (base / questions).write_text(lines, encoding="utf-8")
    out, short = os.fsdecode(os.path.join(name, b"run")), ["--protocol", "quick"]
    cache = os.fsdecode(os.path.join(name, b"cache"))
    wrong = []
    for command in (
        python("-m", "phasefusion", "questions", "--", questions),
        run_command(questions, out, *short, f"--cache={cache}"),
        python("-m", "phasefusion", "records", "check", "--", out),
        python("-m", "phasefusion", "report", "--html", "--", out),
        python("-m", "phasefusion", "records", "describe", "--", out),
        python("-m", "phasefusion", "report", "--json", "--", out),
    ):
        made = called(command, cwd=base)
        if made.returncode != 0 or "Traceback" in made.stderr:
            words = " ".join(command[3:5])
            wrong.append(f"{words}: exit {made.returncode}: {last_line(made.stderr)}")
    if not wrong:
        wrong += _wrong_records(base / out, video.decode().strip())
    return wrong


def _wrong_records(out: Path, video: str) -> list[str]:
    from phasefusion.records import iter_passes

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {row["question_id"]: row for row in iter_passes(out)}
    wrong = []
    if set(found) != {video, "bad.mp4"} or found[video]["answer"] is None:
        wrong.append(f"the video has no answer: {found}")
    elif not str(found["bad.mp4"]["invalid"]).startswith("video: "):
        wrong.append("the bad video has no reason")
    return wrong


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
