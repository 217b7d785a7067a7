"""Runs on disk: what was set in ``run.json``, one line a pass in ``passes.jsonl``."""

from phasefusion.records.anonymous import Exported, export_anonymous
from phasefusion.records.checking import CheckResult, Finding, check
from phasefusion.records.columns import ItemInfo, Passes, read_passes
from phasefusion.records.datasheet import Datasheet, describe
from phasefusion.records.files import (
    ARMS,
    LOCK_FILE,
    PASSES_FILE,
    RUN_FILE,
    PassKey,
    differences,
    different_values,
    iter_passes,
    pass_key,
    read_run,
    run_differences,
)
from phasefusion.records.merging import Conflict, Merged, merge
from phasefusion.records.schema import pass_schema
from phasefusion.records.tables import convert
from phasefusion.records.writer import RunWriter

__all__ = [
    "ARMS",
    "LOCK_FILE",
    "PASSES_FILE",
    "RUN_FILE",
    "CheckResult",
    "Conflict",
    "Datasheet",
    "Exported",
    "Finding",
    "ItemInfo",
    "Merged",
    "PassKey",
    "Passes",
    "RunWriter",
    "check",
    "convert",
    "describe",
    "differences",
    "different_values",
    "export_anonymous",
    "iter_passes",
    "merge",
    "pass_key",
    "pass_schema",
    "read_passes",
    "read_run",
    "run_differences",
]
