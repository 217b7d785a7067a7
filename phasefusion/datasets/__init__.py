"""Multiple-choice questions about videos, read from files and rows and checked.

`load` and `read` know the forms in which benchmarks are published and account for every
question; `load_questions` reads the project's own form and refuses what is wrong in it.
"""

from __future__ import annotations

from phasefusion.datasets.anchored import anchored
from phasefusion.datasets.generic import load_questions
from phasefusion.datasets.item import Item, SubtitleSource
from phasefusion.datasets.loading import detect, load, names, read
from phasefusion.datasets.report import Dataset, DatasetReport, Problem

__all__ = [
    "Dataset",
    "DatasetReport",
    "Item",
    "Problem",
    "SubtitleSource",
    "anchored",
    "detect",
    "load",
    "load_questions",
    "names",
    "read",
]
