"""Questions of a harness, one by one: scored as `evaluate` does, kept, and fused."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from numpy.typing import NDArray

from phasefusion._cached_clips import as_cache
from phasefusion._description import describe_run, on_any_device
from phasefusion._known_videos import KnownVideos
from phasefusion._runner import Runner
from phasefusion._video_digest import digest_of_file
from phasefusion.errors import DatasetError, ScoringError
from phasefusion.fusion import FusedPosterior, fuse
from phasefusion.harness.knobs import Knobs
from phasefusion.harness.posteriors import (
    CachedScorer,
    PosteriorCache,
    cache_identity,
)
from phasefusion.orders import to_content
from phasefusion.records import RunWriter, iter_passes
from phasefusion.scoring.letters import LETTERS, merge_repeats

if TYPE_CHECKING:
    from phasefusion.datasets import Item
    from phasefusion.scoring.protocol import Scorer

__all__ = ["Answer", "Session"]

DOCS_FILE = "docs.jsonl"
#: What is said where a model gives nothing that can be fused.
NO_POSTERIORS = (
    "generated answers have no posteriors to fuse; make a scorer of the function that "
    'writes them, wrap(returns="answer"), whose passes then vote'
)

_Head = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question gets.

    Attributes
    ----------
    index : int
        Content index of the fused answer; -1 where a pass is missing.
    text : str
        What the harness gets; empty without an answer.
    fused : FusedPosterior or None
        None where nothing could be scored.
    reason : str
        Why there is no answer.
    """

    index: int
    text: str
    fused: FusedPosterior | None
    reason: str = ""


class _Kept(RunWriter):
    """A run that remembers the log-probabilities it has on disk, by item."""

    def __init__(self, folder: Path, description: Mapping[str, Any]) -> None:
        self.rows: dict[_Head, list[Mapping[str, Any]]] = {}
        super().__init__(folder, description)
        for record in iter_passes(folder):
            self._keep(record)

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        super().append(self._kept(records))

    def _kept(
        self, records: Iterable[Mapping[str, Any]]
    ) -> Iterator[Mapping[str, Any]]:
        for record in records:
            yield record
            self._keep(record)  # it is on disk when the next one is asked for

    def _keep(self, record: Mapping[str, Any]) -> None:
        names = ("arm", "shifted", "phase_index", "order", "logprobs", "invalid")
        key = (record["benchmark"], record["question_id"])
        self.rows.setdefault(key, []).append({n: record.get(n) for n in names})


class Session:
    """Scores questions one at a time into a run folder; may be called from threads.

    Parameters
    ----------
    knobs : Knobs
    scorer : mapping
        What is needed to repeat the scores, for ``run.json``, as `describe_scorer` has
        it; with a cache it has to identify the contents of the model.
    harness : mapping
        Which harness, which model, which prompt; for ``run.json`` too.
    rank, world_size : int
        Of several processes each writes a folder of its own.

    Raises
    ------
    RecordError
        If the sidecar cannot be written, or holds a run with other settings.
    UsageError
        If there is to be a cache, and the scorer does not say what it is.
    """

    def __init__(
        self,
        knobs: Knobs,
        scorer: Mapping[str, Any],
        harness: Mapping[str, Any],
        *,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.knobs = knobs
        self._lock = threading.RLock()
        self._remove: Callable[[], Any] | None = None
        if knobs.sidecar:
            folder = Path(knobs.sidecar)
            if world_size > 1:
                folder = folder.with_name(f"{folder.name}.rank{rank}")
        else:
            folder = Path(tempfile.mkdtemp(prefix="phasefusion-"))
            self._remove = weakref.finalize(self, shutil.rmtree, folder, True)
        self.folder = folder
        self._plan = knobs.plan()
        self._orders: dict[int, NDArray[np.int64]] = {}
        facts = {"scorer": on_any_device(scorer), "harness": dict(harness)}
        self._identity = cache_identity(facts["scorer"], harness) if knobs.cache else {}
        self.cache = PosteriorCache(knobs.cache) if knobs.cache else None
        self._frames = as_cache(knobs.frame_cache) if knobs.frame_cache else None
        description = describe_run(
            self._plan, facts, seed=knobs.seed, on_error=knobs.on_error
        )
        self._writer = _Kept(folder, description)
        self._videos = KnownVideos()
        self._docs, self._asked = _known_docs(folder / DOCS_FILE)

    def cached(self, scorer: Scorer, shown: Callable[[Sequence[int]], str]) -> Scorer:
        """Return a scorer that asks the given one for what is not in the cache.

        Parameters
        ----------
        scorer : Scorer
        shown : callable
            From an order to the prompt in that order.
        """
        if self.cache is None:
            return scorer
        return CachedScorer(scorer, self.cache, self._identity, shown)

    def orders(self, n_options: int) -> NDArray[np.int64]:
        """Orders of K options, shape (M, K)."""
        if n_options not in self._orders:
            self._orders[n_options] = self._plan.orders_of(n_options)
        return self._orders[n_options]

    def answer(self, item: Item, scorer: Scorer) -> Answer:
        """Make every pass of an item that is not on disk, and fuse them.

        Raises
        ------
        PhaseFusionError
            With ``on_error="raise"`` for what cannot be read or scored, and always for
            what the scorer cannot do at all.
        DatasetError
            If the item's id has been another question's, whose passes are on disk.
        RecordError
            If its video is another file than passes of it were made of.
        """
        with self._lock:
            self._check_asked(item)
            self._check_video(item)
            on_error: Any = self.knobs.on_error
            runner = Runner(
                scorer=scorer,
                writer=self._writer,
                arms=self._plan.arms,
                orders_of={len(item.options): self.orders(len(item.options))},
                seed=self.knobs.seed,
                threads=self.knobs.threads,
                on_error=on_error,
                cache=self._frames,
                videos=self._videos,
            )
            runner.run([item], False)
            rows = self._writer.rows.get((item.benchmark, item.question_id), [])
        return self._fused(item, rows)

    def _check_asked(self, item: Item) -> None:
        """Refuse an id under which something else was asked before."""
        asked = _question_hash(item)
        if self._asked.setdefault((item.benchmark, item.question_id), asked) != asked:
            raise DatasetError(
                f"{item.benchmark}, question {item.question_id!r}: another question "
                f"was asked under this id, and its passes are in {self.folder}; if the "
                "data have changed, name another sidecar"
            )

    def _check_video(self, item: Item) -> None:
        """Refuse a video that was another file, here or when the run began."""
        then = self._writer.digests.get((item.benchmark, item.question_id))
        for digest in (then, digest_of_file(item.video)):
            self._videos.check(item.video, digest)

    def _fused(self, item: Item, rows: list[Mapping[str, Any]]) -> Answer:
        """Pool all phases and orders of the arm that is answered with."""
        arm = "single" if self.knobs.protocol == "quick" else "phase"
        wanted = [row for row in rows if row["arm"] == arm and not row["shifted"]]
        orders = self.orders(len(item.options))
        places = {tuple(order): m for m, order in enumerate(orders.tolist())}
        n_phases = 1 + max((row["phase_index"] for row in wanted), default=-1)
        if not n_phases:
            return Answer(-1, "", None, "no pass")
        logprobs = np.full((n_phases, *orders.shape), np.nan)
        reason = ""
        for row in wanted:
            m = places.get(tuple(row["order"]))
            if m is None:
                continue
            if row["logprobs"] is None:
                if row["invalid"] is None:
                    raise ScoringError(NO_POSTERIORS)
                reason = reason or str(row["invalid"])
                continue
            letters = np.array(row["logprobs"], np.float64)
            letters[np.isnan(letters)] = -np.inf  # JSON has no -inf
            logprobs[row["phase_index"], m] = to_content(letters, orders[m])
        fused = fuse(
            merge_repeats(logprobs, item.same_options, add=False),
            over=("phase", "order"),
            item_id=item.question_id,
            seed=self.knobs.seed,
        )
        index = int(fused.answer)
        if index < 0:
            return Answer(-1, "", fused, reason or "a pass is missing")
        text = LETTERS[index]
        if self.knobs.answer == "option":
            text = f"{text}. {item.options[index]}"
        return Answer(index, text, fused)

    def note_doc(self, facts: Mapping[str, Any], item: Item | None = None) -> None:
        """Write what a document was asked as, once, beside the passes.

        Parameters
        ----------
        facts : mapping
            With "task" and "doc_id".
        item : Item, optional
            What was answered; so that a later process knows the question of an id.
        """
        key = (str(facts["task"]), str(facts["doc_id"]))
        if item is not None:
            facts = {
                **facts,
                "question_id": item.question_id,
                "asked": _question_hash(item),
            }
        with self._lock:
            if key in self._docs:
                return
            self._docs.add(key)
            with open(self.folder / DOCS_FILE, "ab") as file:
                file.write(orjson.dumps(dict(facts), option=orjson.OPT_APPEND_NEWLINE))

    def close(self) -> None:
        """Let others write the run; a run without a sidecar is gone."""
        self._writer.close()
        if self.cache is not None:
            self.cache.close()
        if self._remove is not None:
            self._remove()


def _known_docs(path: Path) -> tuple[set[_Head], dict[_Head, str]]:
    """Documents that an earlier process has written, and what it asked by id.

    A torn line is left out.
    """
    found: set[_Head] = set()
    asked: dict[_Head, str] = {}
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        task = str(row.get("task"))
        found.add((task, str(row.get("doc_id"))))
        if "asked" in row:
            asked[task, row["question_id"]] = row["asked"]
    return found, asked


def _question_hash(item: Item) -> str:
    """Short hash of what a model is shown; where the video lies does not matter."""
    facts = [Path(item.video).name, item.start, item.end, item.question, item.options]
    return hashlib.sha256(orjson.dumps(facts)).hexdigest()[:16]
