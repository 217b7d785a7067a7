"""Runs on disk: what was set in ``run.json``, one line a pass in ``passes.jsonl``."""

from phasefusion.records.columns import ItemInfo, Passes, read_passes
from phasefusion.records.files import (
    ARMS,
    LOCK_FILE,
    PASSES_FILE,
    RUN_FILE,
    PassKey,
    differences,
    iter_passes,
    pass_key,
    read_run,
)
from phasefusion.records.writer import RunWriter

__all__ = [
    "ARMS",
    "LOCK_FILE",
    "PASSES_FILE",
    "RUN_FILE",
    "ItemInfo",
    "PassKey",
    "Passes",
    "RunWriter",
    "differences",
    "iter_passes",
    "pass_key",
    "read_passes",
    "read_run",
]
