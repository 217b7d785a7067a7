"""Scores that were computed before, kept by everything that decides them."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import ArrayLike, NDArray

from phasefusion._paths import path_of
from phasefusion._runner import one_phase
from phasefusion._scorer_checks import check_scores
from phasefusion.errors import RecordError, ScoringError, UsageError
from phasefusion.scoring.gathering import Gathered
from phasefusion.scoring.generation import GeneratedAnswers
from phasefusion.scoring.protocol import Kind, OptionScores, check_orders
from phasefusion.scoring.times import frame_times

if TYPE_CHECKING:
    from phasefusion.scoring.protocol import Scorer
    from phasefusion.video import Clip

__all__ = ["CachedScorer", "PosteriorCache", "cache_identity"]

#: Of the passes: another one whenever what a key or a row holds, or how, changes.
_TABLE = "passes_3"
_TIMEOUT_S = 60.0
#: What a scorer's description says of the contents of its model, under one of these.
_CONTENTS = ("sha256", "revision", "content")


def cache_identity(
    scorer: Mapping[str, Any], harness: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what decides a score besides frames, prompt and options.

    Parameters
    ----------
    scorer : mapping
        Its description.
    harness : mapping
        Of the harness only name and version count: what its settings change is seen in
        the prompt and the frames, or in the scorer.

    Raises
    ------
    UsageError
        If the description does not identify what the scorer computes: two of the same
        name would get each other's scores.

    Examples
    --------
    >>> cache_identity({"class": "a.B", "sha256": "0f", "path": "x"}, {"name": "h"})
    {'class': 'a.B', 'sha256': '0f', 'harness': ['h', None]}
    """
    if not any(scorer.get(name) for name in _CONTENTS):
        who = scorer.get("model") or scorer.get("class") or "the scorer"
        raise UsageError(
            f"cache= needs a scorer that says what it computes, and {who} does not: "
            'its describe() must have one of "sha256", "revision" (of a commit) or '
            '"content", which change whenever its scores do. A wrapped function takes '
            "content="
        )
    known = {name: value for name, value in scorer.items() if name != "path"}
    return known | {"harness": [harness.get("name"), harness.get("version")]}


class KeptPass(NamedTuple):
    """What is kept of a pass.

    Attributes
    ----------
    logprobs : ndarray, shape (K,), float64
        In content space.
    mass : float
    note : str
    kind : {"letter", "text", "text-normalised"}
    is_bounded : bool
        Whether an option was entered with the most that it can have.
    """

    logprobs: NDArray[np.float64]
    mass: float
    note: str
    kind: Kind
    is_bounded: bool


class PosteriorCache:
    """Log-probabilities of passes in one SQLite file, for threads and processes.

    Parameters
    ----------
    path : str or Path
        Made when it does not exist.

    Raises
    ------
    RecordError
        If it cannot be opened or is something else.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path_of("path", path, "the file of the cache")
        self._lock = threading.Lock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(
                self.path, timeout=_TIMEOUT_S, check_same_thread=False
            )
            self._run("PRAGMA journal_mode=WAL")
            self._run(
                f"CREATE TABLE IF NOT EXISTS {_TABLE} (key TEXT PRIMARY KEY, "
                "logprobs BLOB, mass REAL, note TEXT, kind TEXT, is_bounded INTEGER)"
            )
        except (OSError, sqlite3.Error) as error:
            raise RecordError(
                f"{self.path}: cannot be used as posterior cache: {error}; name "
                "another file"
            ) from error

    def _run(self, command: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._lock, self._database:
            return self._database.execute(command, values).fetchall()

    def get(self, key: str) -> KeptPass | None:
        """Return what was put under a key, or None."""
        try:
            rows = self._run(
                "SELECT logprobs, mass, note, kind, is_bounded "
                f"FROM {_TABLE} WHERE key = ?",
                [key],
            )
        except sqlite3.Error as error:
            raise RecordError(f"{self.path}: {error}") from error
        if not rows:
            return None
        data, mass, note, kind, is_bounded = rows[0]
        values = np.frombuffer(data, dtype="<f8").astype(np.float64)
        known = float("nan") if mass is None else float(mass)
        return KeptPass(values, known, note, kind, bool(is_bounded))

    def put(self, key: str, one: KeptPass) -> None:
        """Keep a pass; the first one under a key stays."""
        data = np.ascontiguousarray(one.logprobs, dtype="<f8").tobytes()
        known = None if np.isnan(one.mass) else one.mass
        try:
            self._run(
                f"INSERT OR IGNORE INTO {_TABLE} VALUES (?, ?, ?, ?, ?, ?)",
                [key, data, known, one.note, one.kind, one.is_bounded],
            )
        except sqlite3.Error as error:
            raise RecordError(f"{self.path}: {error}") from error

    def close(self) -> None:
        """Close the file; may be called twice."""
        with self._lock:
            self._database.close()

    def __len__(self) -> int:
        return int(self._run(f"SELECT COUNT(*) FROM {_TABLE}")[0][0])


class CachedScorer:
    """A scorer that asks another one only for passes that are not in a cache.

    A pass is known by the pixels and times of its frames, the prompt as shown, the
    options, and what the scorer says of itself; where a file lies, or what the question
    is called, does not matter.

    Parameters
    ----------
    scorer : Scorer
    cache : PosteriorCache
    identity : mapping
        What else decides the scores: model, precision, versions. JSON-able.
    shown : callable
        From an order to the prompt in that order.
    """

    def __init__(
        self,
        scorer: Scorer,
        cache: PosteriorCache,
        identity: Mapping[str, Any],
        shown: Callable[[Sequence[int]], str],
    ) -> None:
        self._scorer = scorer
        self._cache = cache
        self._identity = dict(identity)
        self._shown = shown
        size = getattr(scorer, "frame_size", None)
        if size is not None:  # as for any scorer, there is none when there is none
            self.frame_size = size

    def score(
        self,
        clip: Clip,
        question: str,
        options: Sequence[str],
        *,
        orders: ArrayLike | None = None,
    ) -> OptionScores:
        """Score what is not in the cache; see `Scorer.score`."""
        table = check_orders(orders, len(options))
        kept = Gathered.begin(clip, table)
        shape = kept.logprobs.shape
        keys = [
            [self._key(clip, s, options, order.tolist()) for order in table]
            for s in range(shape[0])
        ]
        left = np.ones(shape[:2], bool)
        for s, m in np.ndindex(shape[:2]):
            found = None if clip.missing[s].any() else self._cache.get(keys[s][m])
            if found is not None and found.logprobs.shape == shape[2:]:
                _enter(kept, s, m, found)
                left[s, m] = False
        if left.all():
            self._ask(clip, question, options, kept, keys, range(shape[0]), left)
        else:
            for s in np.flatnonzero(left.any(axis=1)).tolist():
                self._ask(one_phase(clip, s), question, options, kept, keys, [s], left)
        return kept.scores()

    def _ask(
        self,
        clip: Clip,
        question: str,
        options: Sequence[str],
        kept: Gathered,
        keys: Sequence[Sequence[str]],
        phases: Sequence[int],
        left: NDArray[np.bool_],
    ) -> None:
        """Score some phases in the orders that are left, and keep what is valid."""
        columns = np.flatnonzero(left[list(phases)].any(axis=0)).tolist()
        orders = kept.orders[columns]
        made = self._scorer.score(clip, question, options, orders=orders)
        if isinstance(made, GeneratedAnswers):
            raise ScoringError("generated answers have no posteriors to keep")
        shape = (len(phases), len(columns), len(options))
        scores = _as_scores(self._scorer, made, orders, shape)
        kept.notes += [note for note in scores.notes if note not in kept.notes]
        for p, s in enumerate(phases):
            for i, m in enumerate(columns):
                one = KeptPass(
                    scores.logprobs[p, i],
                    float(scores.option_mass[p, i]),
                    scores.pass_notes.get((p, i), ""),
                    scores.kind,
                    (p, i) in scores.bounded,
                )
                _enter(kept, s, m, one)
                if scores.valid[p, i]:
                    self._cache.put(keys[s][m], one)

    def _key(
        self, clip: Clip, s: int, options: Sequence[str], order: Sequence[int]
    ) -> str:
        frames = np.ascontiguousarray(clip.frames[s])
        frozen = frame_times(clip, s, "frozen")
        facts = {
            "identity": self._identity,
            "frames": hashlib.blake2b(frames.data, digest_size=32).hexdigest(),
            "shape": frames.shape,
            "times_s": clip.times_s[s].tolist(),
            "frozen_times_s": frozen.seconds.tolist(),
            "duration_s": frozen.duration_s,
            "options": list(options),
            "order": list(order),
            "prompt": self._shown(order),
        }
        text = orjson.dumps(facts, option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(text).hexdigest()


def _enter(kept: Gathered, s: int, m: int, one: KeptPass) -> None:
    kept.kind = one.kind
    kept.enter(s, m, one.logprobs, one.mass, one.note, is_bounded=one.is_bounded)


def _as_scores(
    scorer: Scorer,
    scores: OptionScores | ArrayLike,
    orders: NDArray[np.int64],
    shape: tuple[int, int, int],
) -> OptionScores:
    logprobs, mass = check_scores(scorer, scores, shape)
    if isinstance(scores, OptionScores):
        return scores
    return OptionScores(logprobs, mass, orders)
