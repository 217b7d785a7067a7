"""Datasheets: what is in a corpus of passes, what is missing, how it was made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion import _markdown
from phasefusion._file_hash import file_sha256
from phasefusion._paths import PASSES, path_of, run_path
from phasefusion._whole import replace_file
from phasefusion._wording import counted, unwritten
from phasefusion.errors import RecordError
from phasefusion.records import _json, rules
from phasefusion.records.columns import Passes, read_passes
from phasefusion.records.files import RUN_FILE, passes_path, read_run
from phasefusion.records.lines import PassLines
from phasefusion.records.merging import conflicts_of
from phasefusion.records.scorers import way_of_scoring

FORMAT = 1
_MAX_ROWS = 40
#: Of the settings in run.json, in the order of the sheet.
_MADE = ("protocol", "grid", "dense", "orders", "seed", "on_error", "questions_sha256")
_SCORER = ("class", "model", "path", "model_type", "score", "dtype", "sha256")


@dataclass(frozen=True, slots=True, repr=False)
class Datasheet:
    """What `describe` found.

    Attributes
    ----------
    numbers : dict
        By run under "runs", JSON values throughout.
    """

    numbers: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return self.numbers

    def to_markdown(self) -> str:
        """Return the sheet as Markdown."""
        parts = ["# Datasheet"]
        for run in self.numbers["runs"]:
            parts += _run_sections(run)
        return "\n".join(parts) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the sheet: Markdown, or JSON when the name ends in ``.json``.

        Raises
        ------
        RecordError
            If it cannot be written.
        """
        path = path_of("path", path, "the file to write")
        data = (
            _json.dumps(self.numbers, indent=True) + b"\n"
            if path.suffix == ".json"
            else self.to_markdown().encode()
        )
        try:
            replace_file(path, data)
        except OSError as error:
            raise RecordError(unwritten(path, error)) from error

    def __repr__(self) -> str:
        return f"Datasheet({counted(len(self.numbers['runs']), 'run')})"

    def _repr_markdown_(self) -> str:
        return self.to_markdown()


def describe(*runs: Any) -> Datasheet:
    """Describe runs: counts by benchmark, arm, phase, order and options, and origins.

    Parameters
    ----------
    *runs : Run, str or Path
        Run folders or pass files.

    Returns
    -------
    Datasheet

    Raises
    ------
    FileNotFoundError
        If a run is not there.
    RecordError
        If it cannot be read.
    """
    return Datasheet(
        {
            "format": FORMAT,
            "runs": [_describe(run_path("run", run, PASSES)) for run in runs],
        }
    )


def _describe(path: Path) -> dict[str, Any]:
    file = passes_path(path)
    passes = read_passes(path)
    run = None
    if path.is_dir() and (path / RUN_FILE).exists():
        run = read_run(path)
    n_options = _per_item(passes, [info.n_options for info in passes.items])
    benchmark = _per_item(passes, [info.benchmark for info in passes.items])
    missing = passes.answer < 0
    reasons = Counter(passes.invalid[p] or "no answer" for p in np.flatnonzero(missing))
    return {
        "run": path.resolve().name,
        "file": {
            "name": file.name,
            "bytes": file.stat().st_size,
            "sha256": file_sha256(file),
        },
        "passes": len(passes),
        "items": len(passes.items),
        "videos": len(
            {(i.benchmark, i.video_id) for i in passes.items if i.video_id is not None}
        ),
        "with_gold": sum(info.gold is not None for info in passes.items),
        "missing_passes": int(missing.sum()),
        "missing_reasons": [
            {"reason": reason, "n": n} for reason, n in reasons.most_common(_MAX_ROWS)
        ],
        "by_benchmark": _by_benchmark(passes, benchmark, missing),
        "by_options": _by_options(passes, n_options, missing),
        "by_arm": _by_arm(passes, missing),
        "by_phase": _by_phase(passes, missing),
        "by_order": _by_order(passes, n_options, missing),
        "absent_passes": _absent(passes, _asked_of_some(run)),
        "fields": _fields(file),
        "made": None if run is None else _made(run),
    }


def _per_item(passes: Passes, values: Sequence[Any]) -> NDArray[np.object_]:
    of_items = np.empty(len(values), object)
    of_items[:] = values
    return of_items.take(passes.item)


def _by_benchmark(
    passes: Passes, benchmark: NDArray[np.object_], missing: NDArray[np.bool_]
) -> list[dict[str, Any]]:
    found = []
    for name in sorted({info.benchmark for info in passes.items}):
        infos = [info for info in passes.items if info.benchmark == name]
        chosen = benchmark == name
        options = Counter(info.n_options for info in infos)
        found.append(
            {
                "benchmark": name,
                "items": len(infos),
                "videos": len({i.video_id for i in infos if i.video_id is not None}),
                "with_gold": sum(info.gold is not None for info in infos),
                "options": {str(k): options[k] for k in sorted(options)},
                "types": len({info.type for info in infos if info.type is not None}),
                "passes": int(chosen.sum()),
                "missing": int((chosen & missing).sum()),
            }
        )
    return found


def _by_options(
    passes: Passes, n_options: NDArray[np.object_], missing: NDArray[np.bool_]
) -> list[dict[str, Any]]:
    items = Counter(info.n_options for info in passes.items)
    return [
        {
            "options": k,
            "items": items[k],
            "orders": len(np.unique(passes.order[n_options == k], axis=0)),
            "passes": int((n_options == k).sum()),
            "missing": int((missing & (n_options == k)).sum()),
        }
        for k in sorted(items)
    ]


def _groups(*columns: NDArray[Any]) -> tuple[list[tuple[Any, ...]], NDArray[np.int64]]:
    """Different rows of columns, sorted, and which of them every pass has."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, of_column = np.unique(column, return_inverse=True)
        code = code * len(values) + of_column
    _, first, code = np.unique(code, return_index=True, return_inverse=True)
    rows = [tuple(column[i] for column in columns) for i in first.tolist()]
    return rows, code.astype(np.int64)


def _counted(
    names: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    code: NDArray[np.int64],
    passes: Passes,
    missing: NDArray[np.bool_],
) -> list[dict[str, Any]]:
    n = np.bincount(code, minlength=len(rows))
    n_missing = np.bincount(code[missing], minlength=len(rows))
    pairs = np.unique(code * len(passes.items) + passes.item) // max(
        len(passes.items), 1
    )
    n_items = np.bincount(pairs, minlength=len(rows))
    return [
        dict(zip(names, map(_plain, row), strict=True))
        | {
            "items": int(n_items[i]),
            "passes": int(n[i]),
            "missing": int(n_missing[i]),
        }
        for i, row in enumerate(rows)
    ]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _by_arm(passes: Passes, missing: NDArray[np.bool_]) -> list[dict[str, Any]]:
    arms = passes.arm.astype(str)
    rows, code = _groups(arms, passes.shifted, passes.n_phases, passes.budget)
    names = ("arm", "shifted", "n_phases", "budget")
    found = _counted(names, rows, code, passes, missing)
    for entry in found:
        entry["budget"] = None if entry["budget"] < 0 else entry["budget"]
    return found


def _by_phase(passes: Passes, missing: NDArray[np.bool_]) -> list[dict[str, Any]]:
    arms = passes.arm.astype(str)
    num, den = passes.phase.T
    rows, code = _groups(arms, passes.shifted, passes.phase_index, num, den)
    names = ("arm", "shifted", "phase_index", "num", "den")
    found = _counted(names, rows, code, passes, missing)
    for entry in found:
        num, den = entry.pop("num"), entry.pop("den")
        entry["phase"] = None if num < 0 else [num, den]
    return found


def _by_order(
    passes: Passes, n_options: NDArray[np.object_], missing: NDArray[np.bool_]
) -> list[dict[str, Any]]:
    """Count by order, with the number of options it is one of."""
    found = []
    for k in sorted({info.n_options for info in passes.items}):
        chosen = n_options == k
        orders, code = np.unique(
            passes.order[chosen][:, :k], axis=0, return_inverse=True
        )
        code = code.ravel()
        n = np.bincount(code, minlength=len(orders))
        n_missing = np.bincount(code[missing[chosen]], minlength=len(orders))
        found += [
            {
                "options": k,
                "order": order.tolist(),
                "passes": int(n[i]),
                "missing": int(n_missing[i]),
            }
            for i, order in enumerate(orders)
        ]
    return found


def _asked_of_some(run: Mapping[str, Any] | None) -> set[str]:
    """Names of arms that a protocol asks of some questions only."""
    arms = [] if run is None else run.get("settings", {}).get("arms") or []
    return {arm["arm"] for arm in arms if arm.get("step") or arm.get("share")}


def _absent(passes: Passes, of_some: set[str]) -> dict[str, Any]:
    """Count passes that other items of their number of options have.

    Every item is expected to have, in every arm that there is and at each of its
    phases, as many passes as any item with as many options; short clips may have fewer
    phases.
    """
    arms = passes.arm.astype(str)
    rows, code = _groups(arms, passes.shifted)
    counts = np.zeros((len(passes.items), len(rows)), np.int64)
    np.add.at(counts, (passes.item, code), 1)
    n_phases = np.zeros_like(counts)
    np.maximum.at(n_phases, (passes.item, code), passes.n_phases)
    of_item = np.array([info.n_options for info in passes.items], np.int64)
    expected = np.zeros_like(counts)
    for k in np.unique(of_item):
        chosen = of_item == k
        phases = n_phases[chosen]
        a_phase = (-(-counts[chosen] // np.maximum(phases, 1))).max(axis=0, initial=0)
        phases = np.where(phases, phases, phases.max(axis=0, initial=0))
        expected[chosen] = phases * a_phase
    some = [name in of_some for name, _ in rows]
    expected[:, some] = counts[:, some]
    lacking = expected - counts
    return {
        "expected": int(expected.sum()),
        "there": len(passes),
        "absent": int(lacking.sum()),
        "items_that_lack": int((lacking.sum(axis=1) > 0).sum()),
        "by_arm": [
            {"arm": arm, "shifted": bool(shifted), "absent": int(n)}
            for (arm, shifted), n in zip(rows, lacking.sum(axis=0), strict=True)
            if n
        ],
    }


def _fields(file: Path) -> list[dict[str, Any]]:
    """Count passes that have a field, and that have something in it."""
    there: Counter[str] = Counter()
    null: Counter[str] = Counter()
    for _, rows in PassLines(file).rows():
        for row in rows:
            there.update(row.keys())
            null.update(name for name, value in row.items() if value is None)
    known = [name for name in rules.FIELDS if name in there]
    names = known + [name for name in there if name not in rules.FIELDS]
    return [
        {
            "field": name,
            "of_the_schema": name in rules.FIELDS,
            "passes": there[name],
            "not_null": there[name] - null[name],
        }
        for name in names
    ]


def _made(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return what run.json says, without paths of questions and commands."""
    settings = run.get("settings") or {}
    scorer = settings.get("scorer") or {}
    return {
        "settings": {name: settings[name] for name in _MADE if name in settings},
        "scorer": {
            **{name: scorer[name] for name in _SCORER if name in scorer},
            **way_of_scoring(scorer),
        },
        "versions": run.get("versions") or {},
        "questions": (run.get("questions") or {}).get("n"),
        "started": run.get("started"),
        "source": run.get("source"),
        "merged_from": run.get("merged_from"),
        "same_scorer": run.get("same_scorer"),
        **conflicts_of(run, values=False),
        "anonymous": bool(run.get("anonymous")),
    }


# -------------------------------------------------------------------------- Markdown


def _run_sections(run: Mapping[str, Any]) -> list[str]:
    absent = run["absent_passes"]
    file = run["file"]
    lines = [
        f"\n## {_markdown.inline(run['run'])}\n",
        f"{counted(run['passes'], 'pass', 'passes')} of "
        f"{counted(run['items'], 'question')} about {counted(run['videos'], 'video')}; "
        f"questions with a right answer: {run['with_gold']}.",
        f"Passes recorded as missing: {run['missing_passes']}; passes that others of "
        f"their kind have and that are not recorded: {absent['absent']}, of "
        f"{counted(absent['items_that_lack'], 'question')}.",
        f"\n{_markdown.code(file['name'])}, {file['bytes']} bytes, SHA-256 "
        f"`{file['sha256']}`.",
    ]
    for title, key in (
        ("Benchmarks", "by_benchmark"),
        ("Options", "by_options"),
        ("Arms", "by_arm"),
        ("Phases", "by_phase"),
        ("Orders", "by_order"),
        ("Missing passes", "missing_reasons"),
        ("Not recorded, by arm", None),
        ("Fields", "fields"),
    ):
        rows = absent["by_arm"] if key is None else run[key]
        if rows:
            lines += [f"\n### {title}\n", *_table(rows)]
    lines += ["\n### How it was made\n"]
    if run["made"] is None:
        lines.append(f"There is no {RUN_FILE} with the passes.")
    else:
        lines += _made_lines(run["made"])
    return lines


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    columns = list(rows[0])
    lines = [
        _markdown.row(name.replace("_", " ") for name in columns),
        "|" + "---|" * len(columns),
    ]
    for one in rows[:_MAX_ROWS]:
        lines.append(_markdown.row(_text(one[name]) for name in columns))
    if len(rows) > _MAX_ROWS:
        lines.append(f"\n{len(rows) - _MAX_ROWS} more are in the JSON form.")
    return lines


def _made_lines(made: Mapping[str, Any]) -> list[str]:
    facts: dict[str, Any] = {}
    for part in ("settings", "scorer", "versions"):
        facts |= {f"{part}: {name}": value for name, value in made[part].items()}
    names = "questions started source merged_from same_scorer conflicts anonymous"
    facts |= {name: made[name] for name in names.split() if made.get(name)}
    return [
        f"- {_markdown.inline(f'{name}: {_text(value)}')}"
        for name, value in facts.items()
    ]


def _text(value: Any) -> str:
    """Show a value as a text."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else _json.dumps(value).decode()
