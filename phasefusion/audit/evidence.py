"""Functions over runs, reports and files of results."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasefusion.audit.arithmetic import function
from phasefusion.audit.printed import NUMBER, flat, read_tables
from phasefusion.audit.reading import nearest
from phasefusion.audit.sources import (
    Source,
    as_number,
    look_up,
    numeric_column,
)
from phasefusion.audit.values import (
    CONVERT,
    Column,
    Count,
    Uncomputable,
    describe,
)
from phasefusion.report.items import cluster_name


def _source(value: Any) -> Source:
    if not isinstance(value, Source):
        raise Uncomputable(f"a run or file is wanted by name, not {describe(value)}")
    return value


CONVERT["Source"] = _source


# ------------------------------------------------------------------ reports and files


@function("reports and files")
def report(run: Source, path: str) -> Any:
    """Return a number of the report of a run, or of a report.json.

    The path is one such as 'accuracy/fusion/consensus/value'.
    """
    return _scalar(look_up(run.report(), path, run.name), run, path)


@function("reports and files")
def json_(file: Source, path: str) -> Any:
    """Return a number or text of a JSON file.

    The path is of keys and list indices, such as 'results/mmbench/accuracy,none'.
    """
    return _scalar(look_up(file.json(), path, file.name), file, path)


def _scalar(value: Any, source: Source, path: str) -> Any:
    if value is None or isinstance(value, dict | list):
        what = "null" if value is None else "not a single value"
        raise Uncomputable(f"{source.name} has {what} under {path}")
    return value


@function("reports and files")
def cell(
    run: Source,
    section: str,
    row: str,
    column: str,
    number: Count = 1,
    nth: Count = 1,
    nth_row: Count = 1,
) -> float:
    """Return a number that a report prints in a table.

    By the title of the table, the first cell of the row and the head of the column; of
    several numbers in the cell the first, or the one asked for, and of several columns
    with that head, or rows that begin so, the nth. White space counts as one blank.
    """
    heads, rows = _printed_table(run, section)
    columns = [i for i, head in enumerate(heads) if flat(head) == flat(column)]
    if not 1 <= nth <= len(columns):
        raise Uncomputable(
            f"{section} has no column {column!r}: {nearest(column, heads)}"
        )
    found = [cells for cells in rows if flat(cells[0]) == flat(row)]
    if not 1 <= nth_row <= len(found):
        known = [cells[0] for cells in rows]
        raise Uncomputable(f"{section} has no row {row!r}: {nearest(row, known)}")
    text = found[nth_row - 1][columns[nth - 1]]
    numbers = NUMBER.findall(text)
    if not 1 <= number <= len(numbers):
        raise Uncomputable(f"{section} prints {text!r} for {row}")
    return float(numbers[number - 1])


def _printed_table(
    source: Source, title: str
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    from phasefusion.report.sections import sections

    if source.path.suffix.lower() == ".md":
        tables = source.once("tables", lambda: read_tables(source.text()))
    else:
        tables = source.once("tables", lambda: sections(source.report()))
    for table in tables:
        if flat(table.title) == flat(title):
            return table.columns, table.rows
    known = [table.title for table in tables]
    raise Uncomputable(f"{source.name} has no table {title!r}: {nearest(title, known)}")


@function("reports and files")
def csv_(file: Source, column: str, **where: Any) -> Any:
    """Return a cell of a table file (CSV, TSV, JSON lines, a JSON list).

    Of the one row whose named columns hold the given values, as in csv(scores,
    'accuracy', model='A').
    """
    rows = [row for row in file.rows() if _matches(row, where)]
    if len(rows) != 1:
        given = ", ".join(f"{key}={value!r}" for key, value in where.items())
        raise Uncomputable(
            f"{len(rows)} rows of {file.name} have {given or 'no condition'}; one is "
            "wanted"
        )
    value = _entry(rows[0], column, file)
    number = as_number(value)
    return value if number is None else number


def _matches(row: dict[str, Any], where: dict[str, Any]) -> bool:
    for key, wanted in where.items():
        value = row.get(key)
        if isinstance(wanted, str):
            if str(value) != wanted:
                return False
        elif as_number(value) != as_number(wanted):
            return False
    return True


def _entry(row: dict[str, Any], path: str, file: Source) -> Any:
    return row[path] if path in row else look_up(row, path, file.name)


@function("reports and files")
def column(file: Source, path: str, by: str = "") -> Column:
    """Numbers of a column of a table file (CSV, TSV, JSON lines, a JSON list).

    With the column that tells the rows apart two files are paired by it.
    """
    values = [_entry(row, path, file) for row in file.rows()]
    return numeric_column(values, _ids(file, by), f"{file.name} {path}")


@function("reports and files")
def labels(file: Source, path: str, by: str = "") -> Column:
    """Texts of a column of a table file, such as answers or the labels of clusters."""
    values = [str(_entry(row, path, file)) for row in file.rows()]
    return Column(np.array(values, object), _ids(file, by), f"{file.name} {path}")


def _ids(file: Source, by: str) -> tuple[Any, ...] | None:
    if not by:
        return None
    ids = tuple(str(_entry(row, by, file)) for row in file.rows())
    if len(set(ids)) < len(ids):
        seen: set[str] = set()
        twice = next(one for one in ids if one in seen or seen.add(one))  # type: ignore[func-returns-value]
        raise Uncomputable(f"{file.name} has {by} {twice!r} twice; it pairs nothing")
    return ids


# ------------------------------------------------------------------ runs, by item


def _items(run: Source) -> tuple[Any, Any, tuple[Any, ...]]:
    table, columns = run.passes()
    ids = tuple((info.benchmark, info.question_id) for info in table.items)
    return table, columns, ids


def _of_arm(columns: Any, arm: str, run: Source) -> Any:
    if arm not in columns:
        raise Uncomputable(f"{run.name} has no arm {arm!r}: {nearest(arm, columns)}")
    return columns[arm]


@function("runs, by item")
def correct(run: Source, arm: str, over: str = "consensus") -> Column:
    """Whether an arm is right, by item.

    By its 'consensus' over the orders, in the 'first' order, or the share of 'orders'.
    Without an answer in every order an item of an imported run is wrong, as in its
    report, and one of a run made here is missing; so is one without gold.
    """
    _, columns, ids = _items(run)
    kinds = {
        "consensus": columns.consensus,
        "first": columns.first_order,
        "orders": columns.accuracy,
    }
    if over not in kinds:
        raise Uncomputable(f"over is {over!r}: {nearest(over, kinds)}")
    return Column(_of_arm(kinds[over], arm, run), ids, f"{run.name} {arm}")


@function("runs, by item")
def changed(run: Source, arm: str, over: str = "consensus") -> Column:
    """Whether a half-step shift changes an arm's answer, by item.

    Its 'consensus' answer, or the share of 'orders' in which it changes.
    """
    _, columns, ids = _items(run)
    kinds = {"consensus": columns.change, "orders": columns.change_passes}
    if over not in kinds:
        raise Uncomputable(f"over is {over!r}: {nearest(over, kinds)}")
    return Column(_of_arm(kinds[over], arm, run), ids, f"{run.name} {arm}")


@function("runs, by item")
def answers(run: Source, arm: str, shifted: Any = False) -> Column:
    """Content answers of an arm, a column an order, -1 where missing."""
    table, _, ids = _items(run)
    wanted = bool(shifted)
    arms = {name: one for (name, moved), one in table.arms.items() if moved == wanted}
    return Column(_of_arm(arms, arm, run).answer, ids, f"{run.name} {arm}")


@function("runs, by item")
def phase_answers(run: Source, shifted: Any = False) -> Column:
    """Consensus answers over the orders, a column a phase, -1 where missing."""
    table, _, ids = _items(run)
    if not table.phase_names or (table.phase_names[0], bool(shifted)) not in table.arms:
        raise Uncomputable(f"{run.name} has no such passes on several phases")
    return Column(table.phase_consensus(bool(shifted)), ids, run.name)


@function("runs, by item")
def phase_order_answers(run: Source, shifted: Any = False) -> Column:
    """Content answers by phase and order, as matched_vote takes them."""
    table, _, ids = _items(run)
    if not table.phase_names or (table.phase_names[0], bool(shifted)) not in table.arms:
        raise Uncomputable(f"{run.name} has no such passes on several phases")
    return Column(table.phase_answers(bool(shifted)), ids, run.name)


@function("runs, by item")
def margins(run: Source, arm: str) -> Column:
    """Margin of the first order in nats; missing without log-probabilities."""
    table, _, ids = _items(run)
    arms = {name: one for (name, moved), one in table.arms.items() if not moved}
    return Column(_of_arm(arms, arm, run).margin[:, 0], ids, f"{run.name} {arm}")


@function("runs, by item")
def order_flips(run: Source, arm: str = "phases") -> Column:
    """Whether some order changes an arm's answer; 'phases' is the mean over phases."""
    _, columns, ids = _items(run)
    return Column(_of_arm(columns.order_flips, arm, run).any, ids, f"{run.name} {arm}")


@function("runs, by item")
def gold(run: Source) -> Column:
    """Content index of the right option, -1 where it is not known."""
    table, _, ids = _items(run)
    return Column(table.gold, ids, run.name)


@function("runs, by item")
def option_counts(run: Source) -> Column:
    """How many options there are, by item."""
    table, _, ids = _items(run)
    return Column(table.n_options, ids, run.name)


@function("runs, by item")
def clusters(run: Source, by: str = "video") -> Column:
    """Labels to cluster by: 'video', 'question', 'benchmark' or 'type'.

    An item whose video or type is not known is its own cluster.
    """
    table, _, ids = _items(run)
    known = ("video", "question", "benchmark", "type")
    if by not in known:
        raise Uncomputable(f"by is {by!r}: {nearest(by, known)}")
    found = [_cluster(info, by) for info in table.items]
    return Column(np.array(found, object), ids, f"{run.name} {by}")


def _cluster(info: Any, by: str) -> str:
    if by == "benchmark" or (by == "type" and info.type):
        return str(getattr(info, by))
    return "\0".join(cluster_name(info, "video" if by == "video" else "question"))


# ------------------------------------------------------------------ columns


@function("columns")
def keep(x: Column, where: Column) -> Column:
    """Rows of x for which a comparison holds, such as option_counts(run) == 3."""
    mask = where.on(x).values
    if mask.dtype.kind not in "bf" or not np.isin(mask[~np.isnan(mask)], (0, 1)).all():
        raise Uncomputable("where must be a comparison, such as a == b")
    return _rows(x, mask == 1)


@function("columns", aligns=False)
def shared(x: Column, y: Column) -> Column:
    """Rows of x whose items y has too."""
    if x.ids is None or y.ids is None:
        raise Uncomputable("the rows have no ids; name them with by=")
    there = set(y.ids)
    return _rows(x, np.array([one in there for one in x.ids], bool))


def _rows(x: Column, mask: Any) -> Column:
    ids = None
    if x.ids is not None:
        ids = tuple(one for one, kept in zip(x.ids, mask, strict=True) if kept)
    return Column(x.values[mask], ids, x.what)


@function("columns")
def present(x: Column) -> int:
    """Rows that are not missing."""
    return int(_there(x).sum())


def _there(x: Column) -> Any:
    if x.values.ndim != 1:
        raise Uncomputable("one value an item is wanted, this is a table")
    if x.values.dtype.kind == "f":
        return ~np.isnan(x.values)
    return np.ones(len(x.values), bool)


@function("columns")
def gained(x: Column, y: Column) -> int:
    """Items that x has (1) and y has not (0), of those where neither is missing."""
    first, second = x.values, y.on(x).values
    for one in (x, y):
        if one.values.dtype.kind not in "biuf":
            raise Uncomputable(f"{one.what} holds texts; 1 and 0 are wanted")
    return int(((first == 1) & (second == 0)).sum())


@function("columns")
def one_of(x: Column, wanted: Any) -> Column:
    """Whether each entry is among a list of values."""
    if not isinstance(wanted, list):
        raise Uncomputable(f"a list of values is wanted, this is {describe(wanted)}")
    values = np.array([one in wanted for one in x.values.tolist()], bool)
    return Column(values, x.ids, x.what)
