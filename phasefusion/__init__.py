"""Frame-phase and option-order stability of video-language models.

Everything public is reached from here and loaded at first use, so that
``import phasefusion`` needs NumPy alone.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from phasefusion import errors

if TYPE_CHECKING:
    from phasefusion import anchors as anchors
    from phasefusion import audit as audit
    from phasefusion import cache as cache
    from phasefusion import cuda as cuda
    from phasefusion import datasets as datasets
    from phasefusion import harness as harness
    from phasefusion import importers as importers
    from phasefusion import monitor as monitor
    from phasefusion import orders, pixels, planning, samplers, scoring, stats
    from phasefusion import simulate as simulate
    from phasefusion import subtitles as subtitles
    from phasefusion import tinyvlm as tinyvlm
    from phasefusion import video as video
    from phasefusion.anchors import (
        Anchor,
        AnchorRule,
        WindowGrid,
        anchor_grid,
        find_anchor,
    )
    from phasefusion.answers import parse_answer
    from phasefusion.cache import FrameCache
    from phasefusion.calibrate import Calibration, calibrate
    from phasefusion.compare import Comparison, compare
    from phasefusion.evaluate import evaluate
    from phasefusion.frames import resize, resize_normalize
    from phasefusion.fusion import FusedPosterior, fuse, posterior
    from phasefusion.gate import GateResult, gate
    from phasefusion.grid import PhaseGrid
    from phasefusion.harness import OpenAIScorer, tasks_dir, wrap
    from phasefusion.importers import import_run
    from phasefusion.report import report
    from phasefusion.subtitles import Subtitles, read_subtitles
    from phasefusion.video import Clip, Video, VideoInfo, read_clip, read_clips

__version__ = "0.1.0"

_HOME = {
    "Anchor": "anchors",
    "AnchorRule": "anchors",
    "Calibration": "calibrate",
    "Clip": "video",
    "Comparison": "compare",
    "FrameCache": "cache",
    "FusedPosterior": "fusion",
    "GateResult": "gate",
    "OpenAIScorer": "harness",
    "PhaseGrid": "grid",
    "Subtitles": "subtitles",
    "Video": "video",
    "VideoInfo": "video",
    "WindowGrid": "anchors",
    "anchor_grid": "anchors",
    "calibrate": "calibrate",
    "compare": "compare",
    "evaluate": "evaluate",
    "find_anchor": "anchors",
    "fuse": "fusion",
    "gate": "gate",
    "import_run": "importers",
    "parse_answer": "answers",
    "posterior": "fusion",
    "read_clip": "video",
    "read_clips": "video",
    "read_subtitles": "subtitles",
    "report": "report",
    "resize": "frames",
    "resize_normalize": "frames",
    "tasks_dir": "harness",
    "wrap": "harness",
}
_MODULES = {"audit", "cache", "importers", "orders", "pixels", "planning", "samplers"}
_MODULES |= {"scoring", "simulate", "stats", "subtitles", "tinyvlm", "video"}
_MODULES |= {"anchors", "cuda", "datasets", "harness", "monitor"}

__all__ = [
    "Anchor",
    "AnchorRule",
    "Calibration",
    "Clip",
    "Comparison",
    "FrameCache",
    "FusedPosterior",
    "GateResult",
    "OpenAIScorer",
    "PhaseGrid",
    "Subtitles",
    "Video",
    "VideoInfo",
    "WindowGrid",
    "__version__",
    "anchor_grid",
    "anchors",
    "audit",
    "calibrate",
    "compare",
    "datasets",
    "errors",
    "evaluate",
    "find_anchor",
    "fuse",
    "gate",
    "harness",
    "import_run",
    "importers",
    "monitor",
    "orders",
    "parse_answer",
    "pixels",
    "planning",
    "posterior",
    "read_clip",
    "read_clips",
    "read_subtitles",
    "report",
    "resize",
    "resize_normalize",
    "samplers",
    "scoring",
    "stats",
    "tasks_dir",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = importlib.import_module(f"phasefusion.{name}")
    elif name in _HOME:
        value = getattr(importlib.import_module(f"phasefusion.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module 'phasefusion' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


class _Package(ModuleType):
    """Keeps `phasefusion.evaluate` the function when its module is imported.

    Importing a submodule sets it as an attribute of its package; a function of the
    same name would then be hidden, or not, depending on what was imported before.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
