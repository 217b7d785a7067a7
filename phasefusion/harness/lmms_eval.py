"""The lmms-eval models ``phasefusion`` and ``phasefusion_wrap``.

lmms-eval finds them through the entry point group ``lmms_eval.models``, which names
`manifests`. Nothing here is imported before lmms-eval asks for it.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasefusion._description import describe_scorer
from phasefusion.errors import (
    BackendUnavailableError,
    DatasetError,
    OptionError,
    UsageError,
)
from phasefusion.harness.knobs import Knobs
from phasefusion.harness.lmms_base import BoundModel, LmmsBase
from phasefusion.harness.lmms_requests import (
    Asked,
    one_turn,
    read_request,
    repeated_ids,
)
from phasefusion.harness.session import Session
from phasefusion.scoring.letters import first_equal

if TYPE_CHECKING:
    from phasefusion.scoring.protocol import Scorer

    class lmms:
        task_dict: dict[str, Any]
        _rank: int
        _world_size: int

        @property
        def rank(self) -> int: ...
        @property
        def world_size(self) -> int: ...
else:
    try:
        from lmms_eval.api.model import lmms
    except ImportError:  # the classes below then say so when they are made
        lmms = object

__all__ = ["PhaseFusion", "PhaseFusionWrap", "manifests"]

_LOG = logging.getLogger("phasefusion")


def manifests() -> list[Any]:
    """Return what lmms-eval registers; its entry point calls this."""
    registry: Any = importlib.import_module("lmms_eval.models.registry_v2")
    here = __name__
    return [
        registry.ModelManifest(
            model_id="phasefusion", chat_class_path=f"{here}.PhaseFusion"
        ),
        registry.ModelManifest(
            model_id="phasefusion_wrap", chat_class_path=f"{here}.PhaseFusionWrap"
        ),
    ]


@dataclass(frozen=True, slots=True)
class _Unread:
    """A document that cannot be asked, and why."""

    task: str
    split: str
    doc_id: Any
    reason: str


class _Model(lmms):
    """What both models have in common."""

    is_simple = False

    def __init__(self, given: Mapping[str, Any]) -> None:
        if lmms is object:
            raise BackendUnavailableError(
                "lmms-eval cannot be imported; it runs this model, not the other way "
                "round"
            )
        super().__init__()
        self.knobs, self._rest = Knobs.split(given)
        self._session: Session | None = None
        self._repeated: dict[tuple[str, str], tuple[Any, frozenset[str]]] = {}
        _warn_of_response_cache(self.knobs)

    # What the models differ in

    def _describe(self) -> dict[str, Any]:
        raise NotImplementedError

    def _scorer(self, asked: Asked) -> Scorer:
        raise NotImplementedError

    @property
    def prompt_key(self) -> str:
        """Whose prompt the tasks shall use; empty for the one that they chose."""
        return self.knobs.prompt_key

    # What the harness calls

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """Answer every request with the letter that fuses all phases and orders."""
        session = self._open()
        with _progress(len(requests), self.rank) as step:
            read = self._read_all(requests)
            found = []
            for asked in read:
                found.append(self._answer(session, asked))
                step()
        return found

    def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
        """Refuse: the options of a question are scored together, as letters."""
        raise UsageError(
            "this task asks for the log-likelihood of single continuations; "
            "phasefusion scores the letters of multiple-choice questions, in tasks of "
            "output_type generate_until"
        )

    def generate_until_multi_round(self, requests: Sequence[Any]) -> list[str]:
        """Refuse: there is nothing to permute in a conversation."""
        raise UsageError(
            "this task is a conversation of several rounds; phasefusion answers "
            "multiple-choice questions of one"
        )

    def clean(self) -> None:
        """Let go of the model's memory, and of the run folder."""
        self.close()
        super_clean = getattr(super(), "clean", None)
        if super_clean is not None:
            super_clean()

    def close(self) -> None:
        """Close the run folder; a later request opens it again."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    # How a request becomes a question

    def _open(self) -> Session:
        if self._session is None:
            self._session = Session(
                self.knobs,
                self._describe(),
                {
                    "name": "lmms-eval",
                    "version": _version("lmms_eval"),
                    **self.knobs.to_dict(),
                    "prompt_key": self.prompt_key or None,
                },
                rank=self.rank,
                world_size=self.world_size,
            )
            atexit.register(self.close)
        return self._session

    def _read_all(self, requests: Sequence[Any]) -> list[Asked | _Unread]:
        """Read all requests first, so that a task without options stops at once."""
        read: list[Asked | _Unread] = []
        tasks: Counter[str] = Counter()
        unread: dict[str, list[_Unread]] = {}
        for request in requests:
            _, _, _, doc_id, task, split = request.args
            tasks[task] += 1
            docs = self.task_dict[task][split]
            ids = self._repeated_ids(task, split, docs)
            try:
                asked = read_request(request.args, docs[doc_id], ids, self.prompt_key)
                read.append(asked)
            except (DatasetError, OptionError) as error:
                if self.knobs.on_error == "raise":
                    raise
                one = _Unread(task, split, doc_id, str(error))
                unread.setdefault(task, []).append(one)
                read.append(one)
        for task, left_out in unread.items():
            n, first = len(left_out), left_out[0]
            if n == tasks[task]:
                raise OptionError(
                    f"task {task}: no document of {n} shows lettered options that can "
                    f"be found; the first: document {first.doc_id}: {first.reason}"
                )
            _LOG.warning(
                "task %s: %d of %d unread, such as document %s: %s",
                task, n, tasks[task], first.doc_id, first.reason,
            )  # fmt: skip
        return read

    def _repeated_ids(self, task: str, split: str, docs: Any) -> frozenset[str]:
        """Ids that name several documents of a split, which is read once."""
        known = self._repeated.get((task, split))
        if known is None or known[0] is not docs:
            known = self._repeated[task, split] = docs, repeated_ids(task, docs)
        return known[1]

    def _answer(self, session: Session, asked: Asked | _Unread) -> str:
        if isinstance(asked, _Unread):
            session.note_doc(
                {
                    "task": asked.task,
                    "split": asked.split,
                    "doc_id": asked.doc_id,
                    "unread": asked.reason,
                }
            )
            return ""
        scorer = session.cached(self._scorer(asked), asked.shown.render)
        answer = session.answer(asked.item, scorer)
        session.note_doc(
            {
                "task": asked.item.benchmark,
                "split": asked.arguments[5],
                "doc_id": asked.arguments[3],
                "prompt": asked.shown.render(),
                "options": list(asked.item.options),
                "gold": asked.item.gold,
                "gold_problem": asked.problem or None,
                "answer": answer.text,
                "reason": answer.reason or None,
            },
            asked.item,
        )
        return answer.text


class PhaseFusion(_Model):
    """``--model phasefusion``: a Hugging Face model scored by `HFOptionScorer`.

    Parameters
    ----------
    pretrained : str
        Folder or id of the model.
    device, dtype, revision, attn_implementation : str, optional
        As for `HFOptionScorer.from_pretrained`.
    min_pixels, max_pixels : int, optional
        As for `HFOptionScorer`.
    system_prompt : str, optional
        A system turn in front of a task's messages that have none.
    batch_size, max_batch_size
        Of the harness; questions are scored one by one.
    **given
        The knobs, see `phasefusion.harness.knobs.Knobs`.
    """

    def __init__(
        self,
        pretrained: str = "",
        device: str | None = None,
        batch_size: Any = 1,
        max_batch_size: Any = None,
        system_prompt: str = "",
        **given: Any,
    ) -> None:
        super().__init__(given)
        if not pretrained:
            raise UsageError("model_args need pretrained=, the folder or id of a model")
        if self.knobs.timestamps == "base":
            raise UsageError("timestamps=base is for phasefusion_wrap")
        _check_names(
            self._rest,
            ("dtype", "revision", "attn_implementation", "min_pixels", "max_pixels"),
        )
        scoring: Any = importlib.import_module("phasefusion.scoring")
        self._rank, self._world_size, device = _accelerator(device)
        self._system = system_prompt
        self._own = scoring.HFOptionScorer.from_pretrained(
            pretrained,
            device=device,
            timestamps=self.knobs.timestamps,
            letter_variants=self.knobs.letter_variants,
            **self._rest,
        )
        self._described = describe_scorer(self._own)

    def _describe(self) -> dict[str, Any]:
        described = dict(self._described)
        described["prompt"] = {"text": "as the task makes it", "system": self._system}
        return described

    def _scorer(self, asked: Asked) -> Scorer:
        prompt = one_turn(asked.messages, asked.shown, self._system)
        scorer: Scorer = self._own.with_prompt(prompt)
        return scorer


class PhaseFusionWrap(_Model):
    """``--model phasefusion_wrap``: an unmodified chat model of lmms-eval.

    Parameters
    ----------
    base : str
        Its name, as for ``--model``.
    batch_size, max_batch_size, device
        Of the harness, handed on.
    **given
        The knobs, see `phasefusion.harness.knobs.Knobs`; all other arguments are the
        base's, ``pretrained`` among them.
    """

    def __init__(
        self,
        base: str = "",
        device: str | None = None,
        batch_size: Any = 1,
        max_batch_size: Any = None,
        **given: Any,
    ) -> None:
        super().__init__(given)
        if not base:
            raise UsageError("model_args need base=, the name of a model of lmms-eval")
        if base.startswith("phasefusion"):
            raise UsageError(f"base={base}: a wrapper cannot be wrapped")
        arguments = dict(self._rest) | {"batch_size": 1}
        if device is not None:
            arguments["device"] = device
        self._arguments = arguments
        variants: Any = self.knobs.letter_variants
        self._base = LmmsBase(
            base,
            arguments,
            timestamps=self.knobs.timestamps,
            letter_variants=variants,
        )
        self._rank = int(getattr(self._base.model, "rank", 0))
        self._world_size = int(getattr(self._base.model, "world_size", 1))
        self._base.model.task_dict = self.task_dict
        self._described = self._describe_once()

    @property
    def prompt_key(self) -> str:
        """The base's, unless another one is asked for."""
        return self.knobs.prompt_key or self._base.name

    def _describe_once(self) -> dict[str, Any]:
        pretrained = str(self._arguments.get("pretrained", ""))
        kind = type(self._base.model)
        network = self._base.network
        described: dict[str, Any] = {
            "class": f"{type(self).__module__}.{type(self).__qualname__}",
            "scorer": "phasefusion_wrap",
            "base": self._base.name,
            "base_class": f"{kind.__module__}.{kind.__qualname__}",
            "model_class": type(network).__name__,
            "path": pretrained or None,
            "arguments": {
                name: value
                if isinstance(value, str | int | float | None)
                else str(value)
                for name, value in sorted(self._arguments.items())
                if name != "pretrained"
            },
            "dtype": str(getattr(network, "dtype", "")).removeprefix("torch."),
            "device": str(getattr(network, "device", "")),
            "score": "letter",
            "timestamps": self.knobs.timestamps,
            "letter_variants": self.knobs.letter_variants,
            "transformers": _version("transformers"),
            "torch": _version("torch"),
        }
        if pretrained and Path(pretrained).is_dir():
            source: Any = importlib.import_module("phasefusion.scoring.source")
            digest = source.folder_sha256(Path(pretrained))
            described["model"] = f"{self._base.name}, sha256 {digest[:12]}"
            described["sha256"] = digest
        else:
            described["model"] = pretrained or self._base.name
            config = getattr(network, "config", None)
            described["revision"] = getattr(config, "_commit_hash", None)
        return described

    def _describe(self) -> dict[str, Any]:
        return dict(self._described)

    def _scorer(self, asked: Asked) -> Scorer:
        self._base.model.task_dict = self.task_dict
        return BoundModel(
            self._base,
            asked.arguments,
            asked.messages,
            asked.shown,
            first_equal(asked.item.options),
        )


@contextlib.contextmanager
def _progress(total: int, rank: int) -> Iterator[Callable[[], None]]:
    tqdm: Any = importlib.import_module("tqdm")
    with tqdm.tqdm(total=total, disable=rank != 0, desc="phasefusion") as bar:
        yield lambda: bar.update(1) and None


def _accelerator(device: str | None) -> tuple[int, int, str | None]:
    """Rank, processes and device, under ``accelerate launch`` too."""
    import os

    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if world_size == 1:
        return 0, 1, device
    accelerator: Any = importlib.import_module("accelerate").Accelerator()
    local = int(accelerator.local_process_index)
    on = f"cuda:{local}" if str(accelerator.device).startswith("cuda") else "cpu"
    return int(accelerator.process_index), int(accelerator.num_processes), on


def _check_names(given: Mapping[str, Any], known: Sequence[str]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise UsageError(f"unknown model_args: {', '.join(unknown)}")


def _warn_of_response_cache(knobs: Knobs) -> None:
    """Say that what the harness answers by itself is not recorded."""
    if any(word.split("=")[0] == "--use_cache" for word in sys.argv):
        _LOG.warning(
            "lmms-eval answers repeated requests from its --use_cache without asking "
            "the model: their passes are %s; cache=FILE among the model_args is "
            "phasefusion's own, and fills the sidecar",
            "not in the sidecar" if knobs.sidecar else "not kept",
        )


def _version(package: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
