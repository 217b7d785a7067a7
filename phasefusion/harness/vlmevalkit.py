"""A model of VLMEvalKit that answers with the fusion of phases and orders.

VLMEvalKit has no place to register models from outside; `register` puts one where its
runner looks.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasefusion._description import describe_scorer
from phasefusion._video_digest import digest_of_file
from phasefusion.datasets import Item
from phasefusion.errors import (
    BackendUnavailableError,
    DatasetError,
    OptionError,
    PhaseFusionError,
    UsageError,
)
from phasefusion.harness.knobs import Knobs
from phasefusion.harness.posteriors import cache_identity
from phasefusion.harness.prompts import (
    AsShown,
    find_options,
    prompt_source,
    with_prompt,
)
from phasefusion.harness.session import NO_POSTERIORS, Session

if TYPE_CHECKING:
    from phasefusion.scoring.protocol import Scorer

__all__ = ["VLMEvalKitModel", "register"]

_VIDEO_SUFFIXES = (".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v", ".mpg", ".mpeg")


class VLMEvalKitModel:
    """What VLMEvalKit's runner for videos takes for a model.

    Parameters
    ----------
    scorer : Scorer, str, Path or callable
        A scorer; the folder or id of a Hugging Face model, which `HFOptionScorer`
        loads; or a function without arguments that makes a scorer.
    answer_key : callable, optional
        From (dataset, video, prompt) to the content index of the right option or None.
        The runner does not tell a model, and the passes have no gold without it.
    **knobs
        See `phasefusion.harness.knobs.Knobs`.

    Attributes
    ----------
    VIDEO_LLM : bool
        So that the data set gives the path of a video, not frames of its own sampler.
    nframe : int
        Frames of a pass. The runner sets it to that of the data set, so it must be the
        same for one `sidecar`.

    Raises
    ------
    UsageError, GridError
        If a knob cannot be; if the scorer gives generated answers alone, or with a
        cache does not say what it computes.
    """

    VIDEO_LLM = True
    INTERLEAVE = False
    is_api = False
    allowed_types = ("text", "video", "image")

    def __init__(
        self,
        scorer: Scorer | str | Path | Callable[[], Scorer],
        *,
        answer_key: Callable[[str, str, str], int | None] | None = None,
        **knobs: Any,
    ) -> None:
        self._knobs, rest = Knobs.split(knobs)
        if self._knobs.timestamps == "base":
            raise UsageError("timestamps=base is for lmms-eval's phasefusion_wrap")
        self._scorer = _made(scorer, self._knobs, rest)
        if self._knobs.cache:  # refused before a data set is loaded
            cache_identity(self._described(), {})
        self._answer_key = answer_key
        self._session: Session | None = None
        self._dump_image: Callable[..., Any] | None = None
        self.fps = 0

    @property
    def nframe(self) -> int:
        """Frames of a pass."""
        return self._knobs.budget

    @nframe.setter
    def nframe(self, value: int) -> None:
        if value == self._knobs.budget:
            return
        self.close()
        self._knobs = dataclasses.replace(self._knobs, budget=int(value))

    def use_custom_prompt(self, dataset: str) -> bool:
        """Leave the prompt to the data set."""
        return False

    def set_dump_image(self, dump_image: Callable[..., Any]) -> None:
        """Take what models of pictures need."""
        self._dump_image = dump_image

    def generate(self, message: Any, dataset: str | None = None) -> str:
        """Answer a message in any of the forms that VLMEvalKit knows."""
        return self.generate_inner(_parts(message), dataset)

    def generate_inner(
        self, message: Sequence[Mapping[str, Any]], dataset: str | None = None
    ) -> str:
        """Answer with the letter of the fused option; empty where nothing was scored.

        Parameters
        ----------
        message : sequence of mapping
            Parts with "type" and "value": texts, and one video.
        dataset : str, optional

        Raises
        ------
        PhaseFusionError
            With ``on_error="raise"`` for a question that cannot be read or scored.
        """
        session = self._open()
        texts = [str(part["value"]) for part in message if part["type"] == "text"]
        prompt = "\n".join(texts)
        try:
            item, shown = self._read(message, prompt, dataset or "vlmevalkit")
        except PhaseFusionError as error:
            if self._knobs.on_error == "raise":
                raise
            name = hashlib.sha256(repr(message).encode()).hexdigest()[:16]
            session.note_doc({"task": dataset, "doc_id": name, "unread": str(error)})
            return ""
        scorer = with_prompt(self._scorer, AsShown(shown))
        answer = session.answer(item, session.cached(scorer, shown.render))
        session.note_doc(
            {
                "task": item.benchmark,
                "doc_id": item.question_id,
                "video": Path(item.video).name,
                "prompt": prompt,
                "options": list(item.options),
                "gold": item.gold,
                "answer": answer.text,
                "reason": answer.reason or None,
            },
            item,
        )
        return answer.text

    def _read(
        self, message: Sequence[Mapping[str, Any]], prompt: str, dataset: str
    ) -> tuple[Item, Any]:
        shown = find_options(prompt)
        videos = [str(p["value"]) for p in message if p["type"] == "video"]
        if len(videos) != 1 or any(part["type"] == "image" for part in message):
            kinds = [part["type"] for part in message]
            raise DatasetError(f"the message needs one video and texts, has {kinds}")
        gold = None
        if self._answer_key is not None:
            gold = self._answer_key(dataset, videos[0], prompt)
        video_id = f"{Path(videos[0]).stem}-{_video_digest(videos[0])}"
        digest = hashlib.sha256(prompt.encode()).hexdigest()[:12]
        item = Item(
            question_id=f"{video_id}-{digest}",
            benchmark=dataset,
            video=videos[0],
            video_id=video_id,
            question=shown.head.strip() or "?",
            options=shown.texts,
            gold=gold,
        )
        return item, shown

    def _open(self) -> Session:
        if self._session is None:
            self._session = Session(
                self._knobs,
                self._described(),
                {"name": "VLMEvalKit", **self._knobs.to_dict()},
            )
        return self._session

    def _described(self) -> dict[str, Any]:
        described = describe_scorer(self._scorer)
        return {**described, "prompt": prompt_source(self._scorer, described)}

    def close(self) -> None:
        """Close the run folder; a later question opens it again."""
        session, self._session = self._session, None
        if session is not None:
            session.close()


def register(
    name: str,
    scorer: Scorer | str | Path | Callable[[], Scorer],
    *,
    into: MutableMapping[str, Any] | None = None,
    **knobs: Any,
) -> Callable[[], VLMEvalKitModel]:
    """Put a model into VLMEvalKit's table of models.

    Parameters
    ----------
    name : str
        Under which ``run.py --model`` finds it.
    scorer, **knobs
        As for `VLMEvalKitModel`.
    into : mutable mapping, optional
        Another table than ``vlmeval.config.supported_VLM``.

    Returns
    -------
    make : callable
        What was put there; makes the model.

    Raises
    ------
    BackendUnavailableError
        If VLMEvalKit cannot be imported.
    UsageError
        If the name is taken, or a knob cannot be.

    Examples
    --------
    >>> from phasefusion import tinyvlm
    >>> table = {}
    >>> make = register("tiny_pf", tinyvlm.model_dir(), into=table, phases=2, budget=4)
    >>> list(table)
    ['tiny_pf']
    """
    Knobs.split(knobs)
    if into is None:
        try:
            config: Any = importlib.import_module("vlmeval.config")
        except ImportError as error:
            raise BackendUnavailableError(
                f"VLMEvalKit cannot be imported: {error}; install it from its source"
            ) from error
        into = config.supported_VLM
    if name in into:
        raise UsageError(f"{name!r} is a model of VLMEvalKit already")
    make = partial(VLMEvalKitModel, scorer, **knobs)
    into[name] = make
    return make


def _made(scorer: Any, knobs: Knobs, rest: Mapping[str, Any]) -> Scorer:
    if isinstance(scorer, str | Path):
        scoring: Any = importlib.import_module("phasefusion.scoring")
        found: Scorer = scoring.HFOptionScorer.from_pretrained(
            scorer,
            timestamps=knobs.timestamps,
            letter_variants=knobs.letter_variants,
            **rest,
        )
        return found
    if rest:
        raise UsageError(f"unknown settings: {', '.join(sorted(rest))}")
    if callable(scorer) and not hasattr(scorer, "score"):
        scorer = scorer()
    if not callable(getattr(scorer, "score", None)):
        raise UsageError(f"{scorer!r} is no scorer")
    if getattr(scorer, "is_generating", False):
        raise UsageError(f"{type(scorer).__name__}: {NO_POSTERIORS}")
    return scorer  # type: ignore[no-any-return]


def _video_digest(path: str) -> str:
    """Tell videos of one name apart, wherever they lie."""
    # that a file cannot be read is said where it is
    found = digest_of_file(path) or hashlib.sha256(path.encode()).hexdigest()
    return found[:8]


def _parts(message: Any) -> list[dict[str, Any]]:
    """Bring a message into the form of parts: a text, a part, or a list of either."""
    given = message if isinstance(message, list | tuple) else [message]
    parts = []
    for one in given:
        if isinstance(one, str):
            is_video = one.lower().endswith(_VIDEO_SUFFIXES) and "\n" not in one
            parts.append({"type": "video" if is_video else "text", "value": one})
        elif isinstance(one, Mapping) and {"type", "value"} <= set(one):
            parts.append(dict(one))
        else:
            raise OptionError(f"a part of the message is {one!r}")
    return parts
