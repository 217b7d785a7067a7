"""What the command scores with: a model by its name, or a scorer by MODULE:NAME."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasefusion.errors import ScoringError, UsageError

if TYPE_CHECKING:
    from types import ModuleType

    from phasefusion.scoring.protocol import Scorer


def load_model(name: str, **options: Any) -> Scorer:
    """Load a Hugging Face model for `run --model` and `demo`, without progress bars.

    ``path="generate"`` makes a scorer of what it writes.
    """
    from phasefusion.scoring import HFGenerationScorer, HFOptionScorer
    from phasefusion.scoring.source import check_folder, local_folder

    folder = local_folder(name)  # before transformers, which is slow to load
    if folder is not None:
        check_folder(folder)
    with contextlib.suppress(ImportError):  # from_pretrained says what is missing
        logging: Any = importlib.import_module("transformers.utils.logging")
        logging.disable_progress_bar()
    generates = options.pop("path", "logit") == "generate"
    kind = HFGenerationScorer if generates else HFOptionScorer
    return kind.from_pretrained(name, **options)


def load_scorer(spec: str, folder: str | None = None) -> Scorer:
    """Make the scorer that `run --scorer` names.

    Modules are looked for in `folder`, which is the working directory by default, too.

    Raises
    ------
    UsageError
        If `spec` is not MODULE:NAME or FILE.py:NAME.
    ScoringError
        If there is no such thing, or it is no scorer and makes none.
    """
    from phasefusion._scorer_checks import check_scorer

    module_name, _, name = spec.rpartition(":")
    if not (module_name and name):
        raise UsageError(
            "--scorer must be MODULE:NAME, such as mypackage.scorers:make, or "
            f"FILE.py:NAME, not {spec!r}"
        )
    try:
        made = getattr(_module(module_name, folder or os.getcwd()), name)
    except (ImportError, AttributeError) as error:
        raise ScoringError(f"--scorer {spec}: {error}") from error
    except Exception as error:
        raise ScoringError(
            f"--scorer {spec}: {module_name} cannot be imported: {_one_line(error)}"
        ) from error
    if not hasattr(made, "score") or isinstance(made, type):
        try:
            inspect.signature(made).bind()
        except (TypeError, ValueError) as error:
            raise ScoringError(
                f"--scorer {spec}: must be a scorer, or be callable without "
                f"arguments to make one: {error}"
            ) from None
        try:
            made = made()
        except Exception as error:
            raise ScoringError(
                f"--scorer {spec}: {name}() raised {_one_line(error)}"
            ) from error
    try:
        check_scorer(made)
    except ScoringError as error:
        raise ScoringError(f"--scorer {spec}: {error}") from None
    scorer: Scorer = made
    return scorer


def _module(name: str, folder: str) -> ModuleType:
    """Import a module by name, or a file by its path."""
    if not name.endswith(".py"):
        if os.sep in name:
            raise ImportError(f"{name} is neither a module's name nor a .py file")
        sys.path.insert(0, folder)  # a module beside the question file
        return importlib.import_module(name)
    path = Path(name)
    if not path.is_file():
        raise ImportError(f"there is no file {name}")
    sys.path.insert(0, str(path.parent.resolve()))  # what the file itself imports
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
