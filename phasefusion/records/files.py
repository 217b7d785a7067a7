"""The two files of a run: names, reading, comparing, and what a crash leaves."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from phasefusion._paths import PASSES, run_path
from phasefusion._whole import replace_file
from phasefusion.errors import RecordError
from phasefusion.records import _json
from phasefusion.records.lines import PassLines

FORMAT = 1
RUN_FILE = "run.json"
PASSES_FILE = "passes.jsonl"
LOCK_FILE = "writer.lock"
#: Parts of run.json that a run must keep from its first pass to its last.
FIXED = ("settings", "versions")
#: What run.json says of a run when it is finished.
PLANNED = ("passes", "stages_left", "questions")
#: Arms of which passes are recorded; fusion and vote are derived from "phase".
ARMS = ("single", "phase", "union", "dense")
#: The protocol of runs that an importer has made, and whose arms it has named.
IMPORTED = "imported"
#: Stands for the protocol of passes without run.json, which nothing else names.
RECORDED = "recorded"

#: Where the hash of a scorer's code is, in the settings.
SOURCE = "scorer.source"

#: Settings that the derived list of arms follows from.
_MAKE_ARMS = ("protocol", "grid", "dense")
_ABSENT = "(absent)"
_OTHER_CODE = (
    " (its code has changed, or an object or a constant that it uses; if it is the "
    "same scorer all the same, say what identifies it: content= of wrap, describe() of "
    "a class)"
)
_MAX_VALUE = 60

PassKey = tuple[str, str, str, bool, int, tuple[int, ...]]


def pass_key(record: Mapping[str, Any]) -> PassKey:
    """Return what makes a pass that pass: item, arm, origin, phase and order.

    Parameters
    ----------
    record : mapping
        One line of ``passes.jsonl``.

    Returns
    -------
    tuple
        ``(benchmark, question_id, arm, shifted, phase_index, order)``.
    """
    return (
        record["benchmark"],
        record["question_id"],
        record["arm"],
        bool(record.get("shifted", False)),
        int(record["phase_index"]),
        tuple(record["order"]),
    )


def read_run(folder: Any) -> dict[str, Any]:
    """Read ``run.json``.

    Parameters
    ----------
    folder : Run, str or Path
        The run folder.

    Raises
    ------
    FileNotFoundError
        If there is no such run.
    RecordError
        If a file is given in place of a folder, or ``run.json`` is not what this
        version writes.
    UsageError
        If `folder` is no run and no path.
    """
    folder = run_path("folder", folder)
    path = folder / RUN_FILE
    try:
        data = _json.loads(path.read_bytes())
    except FileNotFoundError:
        raise FileNotFoundError(
            errno.ENOENT, f"no run here: there is no {RUN_FILE}", str(folder)
        ) from None
    except NotADirectoryError:
        raise RecordError(
            f"{folder}: is a file; give the run folder, in which {RUN_FILE} says how "
            f"the passes were made (report reads a {PASSES_FILE} alone as well)"
        ) from None
    except ValueError as error:
        raise RecordError(
            f"{path}: not JSON: {error}; restore it, or take it away to report the "
            "passes alone"
        ) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, dict) else None
        raise RecordError(
            f"{path}: has format {found!r}; this version reads format {FORMAT}"
        )
    return data


def described_run(path: Any) -> dict[str, Any]:
    """Read ``run.json`` of a run folder or pass file, which may have none.

    Parameters
    ----------
    path : Run, str or Path
        The run folder, or a pass file. The ``passes.jsonl`` of a run folder is of that
        run.

    Returns
    -------
    dict
        As `read_run`; of passes alone, settings that name no grid and no seed.

    Raises
    ------
    FileNotFoundError
        If there are no passes either.
    RecordError
        If ``run.json`` is there and is not what this version writes.
    """
    path = run_path("path", path, PASSES)
    folder = path.parent if path.name == PASSES_FILE and path.is_file() else path
    if (folder / RUN_FILE).exists() or not passes_path(path).is_file():
        return read_run(folder)
    return {"format": FORMAT, "settings": {"protocol": RECORDED}}


def iter_passes(folder: Any) -> Iterator[dict[str, Any]]:
    """Every recorded pass as a dict, unknown fields included, in file order.

    Parameters
    ----------
    folder : Run, str or Path
        The run folder, or a ``passes.jsonl`` file itself.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    RecordError
        Naming the line that is not a JSON object, or too long. A last line that a
        crash has torn is left out with a RecordWarning.
    """
    lines = PassLines(passes_path(folder))
    for _, rows in lines.rows():
        yield from rows
    lines.warn_torn("left out")


def passes_path(folder: Any) -> Path:
    """Return the pass file of a run folder, or the file itself when that is given."""
    path = run_path("folder", folder, PASSES)
    return path / PASSES_FILE if path.is_dir() else path


def differences(old: Any, new: Any, name: str = "") -> list[str]:
    """List every place where two JSON values differ, as "key: old -> new".

    Examples
    --------
    >>> differences({"budget": 8, "scorer": {"id": "m"}}, {"budget": 16, "seed": 0})
    ['budget: 8 -> 16', "scorer: {'id': 'm'} -> (absent)", 'seed: (absent) -> 0']
    """
    return [f"{path}: {a} -> {b}" for path, a, b in different_values(old, new, name)]


def different_values(
    old: Any, new: Any, name: str = ""
) -> Iterator[tuple[str, str, str]]:
    """Path and both values, as text, of every place where two JSON values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            path = f"{name}.{key}" if name else key
            if key not in old:
                yield path, _ABSENT, _cut(repr(new[key]))
            elif key not in new:
                yield path, _cut(repr(old[key])), _ABSENT
            else:
                yield from different_values(old[key], new[key], path)
    elif old != new:
        a, b = repr(old), repr(new)
        differ = (k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
        same = next(differ, min(len(a), len(b)))
        yield name, _cut(a, same), _cut(b, same)


def _cut(text: str, same: int = 0) -> str:
    """Cut a text to what a line can hold, around where it stops being the same."""
    if len(text) <= _MAX_VALUE:
        return text
    room = _MAX_VALUE - 6
    begin = max(0, min(same - room // 2, len(text) - room))
    end = begin + room
    return (
        f"{'...' if begin else ''}{text[begin:end]}{'...' if end < len(text) else ''}"
    )


def changes(
    recorded: Mapping[str, Any],
    wanted: Mapping[str, Any],
    *,
    same_scorer: bool = False,
) -> list[str]:
    """Explain what keeps a run from going on with other settings.

    Parameters
    ----------
    recorded, wanted : mapping
        ``run.json`` as it is and as it would be.
    same_scorer : bool, default False
        Whether another hash of the scorer's code is none.

    Returns
    -------
    list of str
        A line a changed key of the parts that are fixed; empty when none has changed.
        What only follows from other changes is left out.
    """
    found: dict[str, str] = {}
    for part in FIXED:
        for path, old, new in different_values(
            recorded.get(part, {}), wanted.get(part, {}), ""
        ):
            found[path] = f"{path}: {old} -> {new}"
    if any(path.split(".")[0] in _MAKE_ARMS for path in found):
        found.pop("arms", None)
    if "questions_sha256" in found:
        found["questions_sha256"] = _question_changes(recorded, wanted)
    if same_scorer:
        found.pop(SOURCE, None)
    if SOURCE in found:
        found[SOURCE] += _OTHER_CODE
    return list(found.values())


def run_differences(
    old: Mapping[str, Any], new: Mapping[str, Any], parts: Iterable[str]
) -> list[str]:
    """List what two runs were made with differently, as "key: old -> new".

    Parameters
    ----------
    old, new : mapping
        ``run.json`` of both.
    parts : iterable of str
        Of these, such as "settings".

    Returns
    -------
    list of str
        Of questions it says which ones differ, where that was recorded.

    Examples
    --------
    >>> one = {"settings": {"seed": 0, "questions_sha256": "ab"}}
    >>> two = {"settings": {"seed": 0, "questions_sha256": "cd"}}
    >>> run_differences(one, two, ["settings"])
    ['questions: another file, SHA-256 ab... -> cd...']
    """
    found = []
    for part in parts:
        lines = different_values(old.get(part, {}), new.get(part, {}), part)
        for path, a, b in lines:
            questions = path == "settings.questions_sha256"
            found.append(
                _question_changes(old, new) if questions else f"{path}: {a} -> {b}"
            )
    return found


def _question_changes(recorded: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Say which questions differ, where the hash of each was recorded."""
    old, new = (
        {
            (benchmark, question_id): digest
            for benchmark, hashes in run.get("questions", {}).get("items", {}).items()
            for question_id, digest in hashes.items()
        }
        for run in (recorded, wanted)
    )
    if not old or not new:
        a, b = (run["settings"].get("questions_sha256") for run in (recorded, wanted))
        return f"questions: another file, SHA-256 {str(a)[:12]}... -> {str(b)[:12]}..."
    kinds = {
        "changed": [key for key in old if key in new and old[key] != new[key]],
        "gone": [key for key in old if key not in new],
        "new": [key for key in new if key not in old],
    }
    parts = [
        f"{len(keys)} {kind}, first: {_cut(keys[0][1])}"
        for kind, keys in kinds.items()
        if keys
    ]
    if not parts:
        if list(old) != list(new):
            return "questions: the same ones in another order"
        return "questions: the file was changed, its questions are the same"
    return f"questions: {'; '.join(parts)}"


def dump(value: Any) -> bytes:
    """Return one line of JSON; NumPy arrays are lists and -inf and NaN are null."""
    return _json.dumps(value) + b"\n"


def write_whole(path: Path, value: Any) -> None:
    """Replace a file so that a crash leaves the old one or the new one."""
    replace_file(path, _json.dumps(value, indent=True) + b"\n")
    folder_fd = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder_fd)
    finally:
        os.close(folder_fd)
