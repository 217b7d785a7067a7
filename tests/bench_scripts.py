"""The scripts of benchmarks/ as modules, for tests of them and with them."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[1] / "benchmarks"


def load(name: str) -> ModuleType:
    """Import benchmarks/NAME.py, once; it finds its own helpers beside it."""
    known = f"benchmark_{name}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, FOLDER / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[known] = module
        sys.path.insert(0, str(FOLDER))
        try:
            spec.loader.exec_module(module)
        finally:
            sys.path.remove(str(FOLDER))
    return sys.modules[known]
