"""Passes for publication: ids and numbers, nothing of the benchmark or the machine."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phasefusion._paths import PASSES, path_of, run_path
from phasefusion._results import Result
from phasefusion.errors import RecordError
from phasefusion.records import _json
from phasefusion.records.files import (
    ARMS,
    FORMAT,
    IMPORTED,
    PASSES_FILE,
    PLANNED,
    RUN_FILE,
    write_whole,
)
from phasefusion.records.lines import Row
from phasefusion.records.merging import conflicts_of
from phasefusion.records.scorers import way_of_scoring
from phasefusion.records.tables import (
    _file_of,
    replacing,
    source_blocks,
    valid_blocks,
)

#: Fields that are kept; ids may be hashed. What is not named here is left out, also
#: fields that this version does not know.
KEPT: tuple[str, ...] = tuple(
    "question_id benchmark video_id n_options gold arm shifted "
    "budget n_phases origin phase phase_index n_frames "
    "duration_s frame_indices frame_times_s damaged_frames video_problem "
    "video_digest "
    "same_options order logprobs answer path option_mass "
    "seconds decode_seconds invalid".split()
)
#: Of the settings in run.json.
_SETTINGS = ("protocol", "grid", "dense", "arms", "orders", "seed", "on_error")
#: Of the scorer's description: neither its paths nor the texts of its prompt.
_SCORER = ("class", "score", "model_type", "sha256", "dtype", "pixels")
#: Of the rule by which anchors were found.
_ANCHOR_TEXTS = ("phrase", "phrase_field", "times_s", "times_field")
_HASH_CHARACTERS = 16
#: Fields that become hashes: who has a video could tell it by its digest.
_IDS = ("question_id", "video_id", "video_digest")


@dataclass(frozen=True, slots=True, repr=False)
class Exported(Result):
    """What an export wrote.

    Attributes
    ----------
    path : Path
    n_passes : int
    left_out : dict of str to int
        Fields that were there and are not any more, with the passes that had them.
    is_hashed : bool
        Whether ids are hashes.
    arms : dict of str to str
        New names of the arms that an importer has named.
    """

    path: Path
    n_passes: int
    left_out: dict[str, int]
    is_hashed: bool
    arms: dict[str, str]


def export_anonymous(
    source: Any,
    out: str | Path,
    *,
    hash_ids: bool = False,
    salt: str | None = None,
    types: bool = False,
) -> Exported:
    """Write a run that may be published where its benchmark may not.

    Kept are ids and numbers, nothing else: no text that a model wrote, no reasons but
    their first word, no paths, no unknown fields, and of ``run.json`` the protocol, the
    grids, the orders, the seed, versions, what kind of model it was and how it scored.
    Arms that an importer has named, after files or columns, are "run 1", "run 2", ...
    by their first passes. Names of benchmarks stay: give an import a public one.

    Ids can be hashed with a salt, so that two exports with one salt can be joined and
    who does not have it cannot try ids. The tie rules of phasefusion depend on ids:
    answers that a tie decides can differ after hashing.

    Parameters
    ----------
    source : Run, str or Path
        A run folder or a pass file.
    out : str or Path
        A run folder to make, or a ``.jsonl`` file.
    hash_ids : bool, default False
        Whether question_id, video_id and video_digest become hashes.
    salt : str, optional
        Of the hashes; by default a random one that nobody keeps.
    types : bool, default False
        Whether the benchmark's names of question types stay.

    Returns
    -------
    Exported

    Raises
    ------
    FileNotFoundError
        If there is no such run.
    RecordError
        If a line is no pass, `out` is there already or cannot be written, or `salt`
        comes without `hash_ids`.
    """
    source = run_path("source", source, PASSES)
    out = path_of("out", out, "a run folder, or a file of passes")
    if salt is not None and not hash_ids:
        raise RecordError("a salt is of no use unless ids are hashed")
    target = out if out.suffix == ".jsonl" else out / PASSES_FILE
    if target.exists():
        raise RecordError(f"{target}: is there already; choose another name")
    names = {*KEPT, "type"} if types else set(KEPT)
    blocks, run = source_blocks(source)
    new_id = _hasher(salt or secrets.token_hex(32)) if hash_ids else None
    left_out: dict[str, int] = {}
    arms: dict[str, str] = {}
    own = _own_arms(run or {})
    n = 0
    with replacing(target) as file:
        for _, rows in valid_blocks(_file_of(source), blocks):
            for row in rows:
                for name in row.keys() - names:
                    left_out[name] = left_out.get(name, 0) + 1
                kept = _stripped(row, names, new_id)
                kept["arm"] = _arm(row["arm"], own, arms)
                file.write(_json.dumps(kept) + b"\n")
            n += len(rows)
    if run is not None and target.name == PASSES_FILE:
        write_whole(target.parent / RUN_FILE, _stripped_run(run, own, arms))
    return Exported(out, n, dict(sorted(left_out.items())), hash_ids, arms)


def _own_arms(run: Mapping[str, Any]) -> set[str]:
    """Return the names of arms that a protocol has given."""
    settings = run.get("settings") or {}
    found = set(ARMS)
    if settings.get("protocol", IMPORTED) != IMPORTED:  # or an arm may be a path
        given = settings.get("arms")
        found |= {
            one["arm"]
            for one in (given if isinstance(given, list) else [])
            if isinstance(one, dict) and isinstance(one.get("arm"), str)
        }
    return found


def _arm(name: str, own: set[str], renamed: dict[str, str]) -> str:
    """Return the name of an arm that may be seen."""
    if name in own:
        return name
    return renamed.setdefault(name, f"run {len(renamed) + 1}")


def _stripped(
    row: Row, names: set[str], new_id: Callable[[str, str, str], str] | None
) -> Row:
    kept = {name: value for name, value in row.items() if name in names}
    if kept.get("invalid") is not None:
        kept["invalid"] = reason_kind(kept["invalid"])
    if new_id is not None:
        for name in _IDS:
            if kept.get(name) is not None:
                kept[name] = new_id(name, row["benchmark"], row[name])
    return kept


def reason_kind(reason: str) -> str:
    """Return the kind of a reason: paths and texts follow after its first word.

    >>> reason_kind("video: clips/a.mp4: does not decode"), reason_kind("It failed")
    ('video', 'other')
    """
    kind = reason.partition(":")[0]
    return kind if kind in ("video", "scores") else "other"


def _hasher(salt: str) -> Callable[[str, str, str], str]:
    def new_id(name: str, benchmark: str, value: str) -> str:
        text = "\0".join([name, benchmark, value]).encode()
        digest = hmac.new(salt.encode(), text, hashlib.sha256).hexdigest()
        return digest[:_HASH_CHARACTERS]

    return new_id


def _without_texts(arm: Mapping[str, Any]) -> dict[str, Any]:
    """Return an arm without what its anchors were looked for by."""
    found = dict(arm)
    if isinstance(found.get("anchor"), Mapping):
        found["anchor"] = dict(found["anchor"]) | dict.fromkeys(_ANCHOR_TEXTS)
    return found


def _stripped_run(
    run: Mapping[str, Any], own: set[str], arms: dict[str, str]
) -> dict[str, Any]:
    settings = run.get("settings") or {}
    scorer = settings.get("scorer") or {}
    kept = {name: settings[name] for name in _SETTINGS if name in settings}
    if isinstance(kept.get("arms"), list):
        kept["arms"] = [
            _without_texts(one) | {"arm": _arm(one["arm"], own, arms)}
            for one in kept["arms"]
            if isinstance(one, dict) and isinstance(one.get("arm"), str)
        ]
    kept["scorer"] = {
        **{name: scorer[name] for name in _SCORER if name in scorer},
        **way_of_scoring(scorer),
    }
    questions = run.get("questions") or {}
    return {
        "format": FORMAT,
        "settings": kept,
        "versions": run.get("versions", {}),
        "questions": {"n": questions.get("n")},
        **_planned(run.get("planned")),
        **conflicts_of(run, values=False),
        "anonymous": True,
    }


def _planned(planned: object) -> dict[str, Any]:
    """Return how many passes a run was to have: numbers alone."""
    known = planned if isinstance(planned, Mapping) else {}
    kept = {name: known.get(name) for name in PLANNED}
    is_whole = all(type(value) is int for value in kept.values())
    return {"planned": kept} if is_whole else {}
