"""Run a file of reference cases against the public API.

    python tests/reference.py FILE.json [--groups flip,mcnemar]

The file holds ``cases[]`` of ``{id, stat, inputs, expected, tol}``; nan and infinities
are strings, -1 is a missing answer, tol is absolute and relative. A case passes when
every key of `expected` is matched; a statistic that is not here fails. Prints the
failures and ``passed/total``; exit status 1 if any case failed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adapters_inference  # noqa: F401 - registers its functions
import numpy as np
from adapters import ADAPTERS

# ------------------------------------------------------------------ comparing

_SPECIAL = {"nan": math.nan, "inf": math.inf, "+inf": math.inf, "-inf": -math.inf}
# What other packages print where they are wrong; in the file for the record.
_OF_OTHERS = {"chi2_cc_statsmodels"}


def plain(value: Any) -> Any:
    """Strings for nan and inf become floats, arrays become lists."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return value.item()
    return _SPECIAL.get(value, value) if isinstance(value, str) else value


def close(expected: float, got: float, tol: float) -> bool:
    if math.isnan(expected) or math.isnan(got):
        return math.isnan(expected) and math.isnan(got)
    if math.isinf(expected) or math.isinf(got):
        return expected == got
    return abs(expected - got) <= tol + tol * abs(expected)


def differences(expected: Any, got: Any, tol: float, where: str) -> Iterator[str]:
    """One line for every number, string or shape that does not match."""
    if isinstance(expected, dict) and isinstance(got, dict):
        for key, value in expected.items():
            if key in _OF_OTHERS:
                continue
            path = f"{where}.{key}" if where else key
            if key in got:
                yield from differences(value, got[key], tol, path)
            else:
                yield f"{path}: expected {value}, got nothing"
    elif isinstance(expected, list) and isinstance(got, list):
        if len(expected) != len(got):
            yield f"{where}: expected {len(expected)} entries, got {len(got)}: {got}"
            return
        for i, (left, right) in enumerate(zip(expected, got, strict=True)):
            yield from differences(left, right, tol, f"{where}[{i}]")
    elif isinstance(expected, int | float) and isinstance(got, int | float):
        if not close(float(expected), float(got), tol):
            yield f"{where}: expected {expected!r}, got {got!r}"
    elif expected != got:
        yield f"{where}: expected {expected!r}, got {got!r}"


def check(case: dict[str, Any]) -> list[str]:
    """Differences between a case and the library; empty when it passes."""
    run = ADAPTERS.get(case["stat"])
    if run is None:
        return [f"no statistic named {case['stat']!r}"]
    expected = plain(case["expected"])
    try:
        got = plain(run(plain(case["inputs"]), expected))
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    return list(differences(expected, got, case["tol"], ""))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--groups", help="comma-separated: the ids up to the first dot")
    options = parser.parse_args(arguments)
    cases = json.loads(options.file.read_text(encoding="utf-8"))["cases"]
    if options.groups:
        groups = set(options.groups.split(","))
        cases = [case for case in cases if case["id"].split(".")[0] in groups]
    failed = 0
    for case in cases:
        found = check(case)
        failed += bool(found)
        for line in found:
            print(f"FAIL {case['id']}: {line}")
    print(f"{len(cases) - failed}/{len(cases)}")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
