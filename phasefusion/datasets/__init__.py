"""Multiple-choice questions about videos, read from question files and checked."""

from __future__ import annotations

from phasefusion.datasets.generic import Item, load_questions

__all__ = ["Item", "load_questions"]
