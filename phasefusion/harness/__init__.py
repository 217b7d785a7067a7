"""Where phasefusion meets what people already run: a loop, a server, a harness.

`wrap` makes a scorer of any function, `OpenAIScorer` of a server; lmms-eval finds the
models ``phasefusion`` and ``phasefusion_wrap`` by itself once both packages are
installed, and `register_vlmevalkit` puts a model into VLMEvalKit.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phasefusion.harness.functions import FunctionScorer, wrap
    from phasefusion.harness.server import OpenAIScorer
    from phasefusion.harness.views import tasks_dir
    from phasefusion.harness.vlmevalkit import VLMEvalKitModel
    from phasefusion.harness.vlmevalkit import register as register_vlmevalkit

_HOME = {
    "FunctionScorer": ("functions", "FunctionScorer"),
    "OpenAIScorer": ("server", "OpenAIScorer"),
    "VLMEvalKitModel": ("vlmevalkit", "VLMEvalKitModel"),
    "register_vlmevalkit": ("vlmevalkit", "register"),
    "tasks_dir": ("views", "tasks_dir"),
    "wrap": ("functions", "wrap"),
}

__all__ = [
    "FunctionScorer",
    "OpenAIScorer",
    "VLMEvalKitModel",
    "register_vlmevalkit",
    "tasks_dir",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOME[name]
    value = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
