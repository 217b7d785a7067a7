"""The texts of questions, which passes do not carry, from the question file."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasefusion.errors import PhaseFusionError, RecordError

if TYPE_CHECKING:
    from phasefusion.datasets import Item


@dataclass(frozen=True, slots=True)
class QuestionTexts:
    """Questions by benchmark and id, and why there are none where there are none.

    Attributes
    ----------
    items : mapping from (str, str) to Item
    note : str
        What is amiss; empty when nothing is.
    is_lost : bool
        Whether the run names a file that cannot be read where it is now.
    changed : frozenset of (str, str)
        Questions that say another thing than when the run scored them.
    """

    items: Mapping[tuple[str, str], Item] = field(default_factory=dict)
    note: str = ""
    is_lost: bool = False
    changed: frozenset[tuple[str, str]] = frozenset()

    def required(self, run: Path) -> QuestionTexts:
        """Return these, which what is done with a run cannot do without.

        Raises
        ------
        RecordError
            If there are none.
        """
        if self.items:
            return self
        why = self.note or "the question file is empty"
        raise RecordError(f"{run}: {why}; {NAME_IT}")


#: What to do where the question file of a run is not found.
NAME_IT = "name it with --questions FILE (questions= in Python)"


def question_places(source: Mapping[str, Any], out: str | Path) -> dict[str, str]:
    """Return where a question file lies, from any folder and from that of the run.

    Parameters
    ----------
    source : mapping
        What run.json says of the questions; its "file" is the path that was given.
    out : str or Path
        The run folder.

    Returns
    -------
    dict
        ``absolute`` and ``from_run``; empty for questions of no file.
    """
    if not source.get("file"):
        return {}
    absolute = os.path.abspath(source["file"])
    return {
        "absolute": absolute,
        "from_run": os.path.relpath(os.path.realpath(absolute), os.path.realpath(out)),
    }


def _places(run: Mapping[str, Any], folder: Path | None) -> Iterator[Path]:
    """Where the question file of a run may be: beside the run, then as it was named."""
    source = run.get("questions", {})
    names = [source[name] for name in ("absolute", "file") if source.get(name)]
    if folder is not None and source.get("from_run"):
        names.insert(0, os.path.join(os.path.realpath(folder), source["from_run"]))
    by_file: dict[str, Path] = {}
    for name in names:
        by_file.setdefault(os.path.realpath(name), Path(os.path.abspath(name)))
    yield from by_file.values()


def find_questions(
    run: Mapping[str, Any],
    given: Any = None,
    *,
    folder: Path | None = None,
) -> QuestionTexts:
    """Read the question file that is given, or that the run names if it can be read.

    Parameters
    ----------
    run : mapping
        ``run.json``.
    given : str, Path or sequence of Item, optional
    folder : Path, optional
        Of the run, from which the file is found when both were moved together.

    Raises
    ------
    FileNotFoundError, DatasetError
        If a file is given and cannot be read.
    """
    from phasefusion.datasets import load_questions

    if given is not None:
        is_items = isinstance(given, Iterable) and not isinstance(given, str)
        items = given if is_items else load_questions(given, check_videos=False)
        return _by_id(items, run)
    if not run.get("questions", {}).get("file"):
        return QuestionTexts(note="The run names no question file")
    found, absent, reason = None, [], ""
    for place in _places(run, folder):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the run has given them
                found = _by_id(load_questions(place, check_videos=False), run)
        except FileNotFoundError:
            absent.append(str(place))
            continue
        except (OSError, PhaseFusionError) as error:
            reason = reason or " ".join(str(error).split())
            continue
        if found.items:  # or it is another file that lies there now
            break
    if found is not None:
        return found
    reason = reason or f"there is no {' and no '.join(absent)}"
    return QuestionTexts(
        note=f"The question file that the run names cannot be read ({reason})",
        is_lost=True,
    )


def _by_id(items: Iterable[Item], run: Mapping[str, Any]) -> QuestionTexts:
    """Take the questions that say what they said when the run scored them."""
    from phasefusion.datasets.item import item_hash

    hashes = run.get("questions", {}).get("items") or {}
    found, changed = {}, set()
    for one in items:
        key = one.benchmark, one.question_id
        known = hashes.get(one.benchmark, {}).get(one.question_id)
        if known is not None and known != item_hash(one):
            changed.add(key)
        else:
            found[key] = one
    note = "Questions of the file that are others than those that were scored: "
    note = f"{note}{len(changed)}" if changed else ""
    return QuestionTexts(found, note, changed=frozenset(changed))
