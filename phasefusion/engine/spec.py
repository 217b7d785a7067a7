"""Scorers by description, so that every worker makes its own."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasefusion._scorer_checks import check_scorer
from phasefusion.errors import ScoringError

if TYPE_CHECKING:
    from phasefusion.scoring.protocol import Scorer


@dataclass(frozen=True, slots=True)
class ScorerSpec:
    """How to make a scorer, for another process to do it.

    Attributes
    ----------
    model : str, optional
        A folder with a Hugging Face checkpoint, or its id.
    scorer : str, optional
        ``MODULE:NAME`` or ``FILE.py:NAME`` of a scorer or of a function that makes one.
    options : mapping
        Keywords of `HFOptionScorer.from_pretrained`, with `model` only.
    folder : str
        Where relative paths begin and modules are looked for; here by default.

    Examples
    --------
    >>> from phasefusion import tinyvlm
    >>> spec = ScorerSpec(model=str(tinyvlm.model_dir()), options={"device": "cpu"})
    >>> spec.kind
    'model'
    """

    model: str | None = None
    scorer: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    folder: str = field(default_factory=os.getcwd)

    def __post_init__(self) -> None:
        if (self.model is None) == (self.scorer is None):
            raise ScoringError("give either model or scorer")
        if self.scorer is not None and self.options:
            raise ScoringError("options are those of a model; a scorer sets its own")

    @property
    def kind(self) -> str:
        """What is described: "model" or "scorer"."""
        return "scorer" if self.model is None else "model"

    def make(self) -> Scorer:
        """Load the model, or make the scorer, in this process."""
        from phasefusion._scorers import load_model, load_scorer

        if self.model is not None:
            local = Path(self.folder, self.model)
            name = str(local) if local.exists() else self.model
            return load_model(name, **self.options)
        module, colon, name = str(self.scorer).rpartition(":")
        if module.endswith(".py"):
            module = str(Path(self.folder, module))
        return load_scorer(f"{module}{colon}{name}", self.folder)


ScorerFactory = Callable[[], "Scorer"]


@dataclass(frozen=True, slots=True)
class _Given:
    """A scorer that is sent as it is."""

    scorer: Any

    def __call__(self) -> Any:
        return self.scorer


@dataclass(frozen=True, slots=True)
class PackedFactory:
    """What makes a scorer, packed so that only who calls it has to understand it.

    Attributes
    ----------
    data : bytes
        A pickle of the factory.
    path : tuple of str
        Where modules are looked for in the process that packed it.
    """

    data: bytes
    path: tuple[str, ...]

    def __call__(self) -> Any:
        """Unpack the factory and call it."""
        sys.path += [folder for folder in self.path if folder not in sys.path]
        return pickle.loads(self.data)()


def as_factory(scorer: object) -> ScorerFactory:
    """Return what makes a scorer, of any form in which one is given.

    Raises
    ------
    ScoringError
        If it is none.
    """
    if isinstance(scorer, ScorerSpec):
        return scorer.make
    if callable(scorer) and (isinstance(scorer, type) or not hasattr(scorer, "score")):
        factory: ScorerFactory = scorer
        return factory
    check_scorer(scorer)
    return _Given(scorer)
