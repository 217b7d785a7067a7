"""Option scores from a server that speaks the OpenAI protocol, such as vLLM's."""

from __future__ import annotations

import base64
import copy
import io
import threading
import urllib.parse
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._install import remedy
from phasefusion.contact import png_bytes
from phasefusion.errors import BackendUnavailableError, ScoringError
from phasefusion.frames import resize
from phasefusion.harness._http import Endpoint, RefusedRequestError
from phasefusion.harness._letters import (
    TopTokens,
    calibrated,
    completed_logprob,
    entered,
    read_answer_position,
)
from phasefusion.scoring.gathering import Gathered
from phasefusion.scoring.letters import (
    LETTERS,
    PromptTemplate,
    as_prompt,
    clean_options,
)
from phasefusion.scoring.protocol import (
    OptionScores,
    check_clip,
    check_orders,
    check_question,
)

if TYPE_CHECKING:
    from phasefusion.video import Clip

__all__ = ["OpenAIScorer"]

Images: TypeAlias = Literal["png", "jpeg"]
Send: TypeAlias = Literal["images", "video"]
Timestamps: TypeAlias = Literal["none", "text"]
Reask: TypeAlias = Literal["logit_bias", "prompt_logprobs"]
#: Log-probabilities as shown, the mass that is certain, a note, and whether a letter
#: that is not known was entered with the most that it can have.
_Asked: TypeAlias = tuple[NDArray[np.float64], float, str, bool]

_BIAS = 100
_JPEG_QUALITY = 95


@dataclass(frozen=True, slots=True)
class _Pass:
    """One request: the texts as shown, and the frames as the server gets them."""

    s: int
    m: int
    shown: tuple[str, ...]
    media: tuple[Mapping[str, Any], ...]


class OpenAIScorer:
    """Scores option letters by the log-probabilities that a chat server returns.

    Every phase and option order is one request for one token with its most likely
    alternatives. Frames are sent as they are decoded, as pictures inside the request.

    Parameters
    ----------
    base_url : str
        Such as ``http://localhost:8000/v1``.
    model : str
        Its name on the server.
    api_key : str, optional
        Sent as a bearer token; never in a message, a record or a repr. No environment
        variable is looked at.
    prompt : PromptTemplate or str, optional
        A str is the template's text. Must show the options with their letters.
    images : {"png", "jpeg"}, default "png"
        "png" keeps every pixel; "jpeg" is smaller, and needs Pillow.
    send : {"images", "video"}, default "images"
        Each frame as an ``image_url``, or all in one ``video_url`` of JPEG frames,
        which vLLM understands. The server then invents the frames' times.
    timestamps : {"none", "text"}, default "none"
        "text" writes the time of each frame before it, for ``send="images"``.
    size : (int, int), optional
        Height and width to which frames are resized here.
    top_logprobs : int, default 20
        How many tokens to ask for, as far as the server allows.
    reask : {"logit_bias", "prompt_logprobs"}, optional
        How to ask for letters that are not among these. "logit_bias" lifts all letters
        alike, and takes the ratios; it needs the letters' token ids, from
        `letter_token_ids` or the server's ``/tokenize``. "prompt_logprobs" puts each
        letter at the end of the prompt, which vLLM can score.
    letter_token_ids : mapping of str to int, optional
        Token of each letter, for "logit_bias".
    concurrency : int, default 4
        Requests under way at a time.
    timeout_s : float, default 120
        Of one try.
    retries : int, default 5
        Further tries after a failed connection, a timeout, or status 408, 409, 425,
        429 or 5xx, with growing pauses or those that the server asks for. One at most
        where nobody is at an address that never answered.
    backoff_s : float, default 1
        The first of these pauses.
    extra_body : mapping, optional
        Put into every request; a value of None takes a field out.
    headers : mapping of str to str, optional
        Sent with every request.

    Raises
    ------
    ScoringError
        If an argument cannot be.

    Notes
    -----
    A letter that is not among the tokens named is not impossible. Each of its two
    spellings, ``"A"`` and ``" A"``, can have as much as the least likely token named,
    and both no more than all that is left of 1. Where that reaches the likeliest letter
    named, the answer is not known, and the pass is missing with a note that says so.
    Else the letter enters with that bound, or with the probability of the least likely
    letter named if that is less: the answer of a pass does not depend on it, and no
    mean of passes makes a letter the answer that the server never named. Posteriors do
    depend on it, by at most the bound. `OptionScores.option_mass` counts named letters
    alone, so it is a lower bound, and a note says which letters were entered so. Of a
    letter that is named in one spelling, the other one is left out. A pass without any
    letter named is missing.

    A request that the server refuses (status 400, 413, 422: too long a prompt, a
    filter) is a missing pass with the server's reason, once another has gone well;
    before that it is an error of the settings. Where it refuses to be asked again about
    single letters, the pass keeps what was named, with its reason as a note.

    Only the standard library is used for the connection.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        prompt: PromptTemplate | str | None = None,
        images: Images = "png",
        send: Send = "images",
        timestamps: Timestamps = "none",
        size: Sequence[int] | None = None,
        top_logprobs: int = 20,
        reask: Reask | None = None,
        letter_token_ids: Mapping[str, int] | None = None,
        concurrency: int = 4,
        timeout_s: float = 120.0,
        retries: int = 5,
        backoff_s: float = 1.0,
        extra_body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        _check("images", images, ("png", "jpeg"))
        _check("send", send, ("images", "video"))
        _check("timestamps", timestamps, ("none", "text"))
        _check("reask", reask, (None, "logit_bias", "prompt_logprobs"))
        if send == "video" and timestamps == "text":
            raise ScoringError('timestamps="text" needs send="images"')
        if not 1 <= concurrency <= 256 or not 1 <= top_logprobs <= 1000:
            raise ScoringError(
                f"concurrency {concurrency} must be 1..256, and top_logprobs "
                f"{top_logprobs} 1..1000"
            )
        if not isinstance(model, str) or not model.strip():
            raise ScoringError(
                f"model is {model!r}; it must be the name that the server gives it, "
                "one of those at /models"
            )
        self._prompt = _checked(PromptTemplate() if prompt is None else prompt)
        self._endpoint = Endpoint(
            base_url, api_key, dict(headers or {}), timeout_s, retries, backoff_s
        )
        self._model = model
        self._images: Images = "jpeg" if send == "video" else images
        self._send: Send = send
        self._timestamps: Timestamps = timestamps
        self._size = None if size is None else (int(size[0]), int(size[1]))
        self._top_logprobs = top_logprobs
        self._reask: Reask | None = reask
        self._token_ids: dict[str, int] = dict(letter_token_ids or {})
        self._concurrency = concurrency
        self._extra = dict(extra_body or {})
        self._lock = threading.Lock()
        self._succeeded = False

    def score(
        self,
        clip: Clip,
        question: str,
        options: Sequence[str],
        *,
        orders: ArrayLike | None = None,
    ) -> OptionScores:
        """Ask the server once a phase and order; see `Scorer.score`.

        Raises
        ------
        OptionError
            For options or orders that cannot be scored.
        ScoringError
            If the server cannot be reached, refuses the key or the model, or gives no
            log-probabilities.
        BackendUnavailableError
            If JPEG is wanted and Pillow is missing.
        """
        check_clip(clip)
        text = check_question(question)
        clean = clean_options(options)
        table = check_orders(orders, len(clean.texts))
        made = Gathered.begin(clip, table)
        made.notes += clean.notes
        passes = []
        for s in made.phases(clip):
            media = tuple(self._media(clip.frames[s], clip.times_s[s]))
            for m, order in enumerate(table):
                shown = tuple(clean.texts[k] for k in order)
                passes.append(_Pass(s, m, shown, media))
        for one, found in zip(passes, self._ask_all(text, passes), strict=True):
            values, mass, note, is_bounded = found
            made.enter_shown(one.s, one.m, values, mass, note, is_bounded=is_bounded)
        return made.scores(clean.first)

    def frame_size(
        self, height_px: int, width_px: int, n_frames: int
    ) -> tuple[int, int] | None:
        """Return the size that frames are sent at; None as decoded."""
        return self._size

    def with_prompt(self, prompt: PromptTemplate) -> OpenAIScorer:
        """Return a scorer of the same model that shows questions in another prompt."""
        twin = copy.copy(self)
        twin._prompt = _checked(prompt)
        return twin

    def describe(self) -> dict[str, Any]:
        """Return what is needed to repeat the scores, without the key."""
        return {
            "scorer": type(self).__name__,
            "model": self._model,
            "base_url": self._endpoint.shown,
            "score": "letter",
            "prompt": self._prompt.to_dict(),
            "images": self._images,
            "send": self._send,
            "timestamps": self._timestamps,
            "size": self._size,
            "top_logprobs": self._top_logprobs,
            "missing_letters": "bound, at most the least letter named",
            "reask": self._reask,
            "extra_body": self._extra,
        }

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._model!r} at {self._endpoint.shown}>"

    # Frames

    def _media(
        self, frames: NDArray[np.uint8], times_s: NDArray[np.float64]
    ) -> list[dict[str, Any]]:
        if self._size is not None and frames.shape[1:3] != self._size:
            frames = resize(frames, self._size)
        encode = png_bytes if self._images == "png" else _jpeg_bytes
        coded = [base64.b64encode(encode(frame)).decode() for frame in frames]
        if self._send == "video":
            url = f"data:video/jpeg;base64,{','.join(coded)}"
            return [{"type": "video_url", "video_url": {"url": url}}]
        parts: list[dict[str, Any]] = []
        for data, time_s in zip(coded, times_s.tolist(), strict=True):
            if self._timestamps == "text":
                parts.append({"type": "text", "text": f"<{time_s:.1f} seconds>"})
            url = f"data:image/{self._images};base64,{data}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
        return parts

    # Requests

    def _ask_all(self, question: str, passes: Sequence[_Pass]) -> list[_Asked]:
        failed = threading.Event()

        def ask(one: _Pass) -> _Asked:
            if failed.is_set():
                raise ScoringError("not asked, because another request failed")
            try:
                return self._ask(question, one)
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(self._concurrency) as pool:
            asked = [pool.submit(ask, one) for one in passes]
            try:
                return [one.result() for one in asked]
            except BaseException:  # an interrupt too
                failed.set()
                raise

    def _ask(self, question: str, one: _Pass) -> _Asked:
        """Ask one pass, and once more for letters that the server does not name."""
        n_options = len(one.shown)
        body = self._body(question, one)
        try:
            response = self._endpoint.post("chat/completions", body)
        except RefusedRequestError as error:
            with self._lock:
                if not self._succeeded:
                    raise
            why = f"refused: {error}"
            return np.full(n_options, np.nan), np.nan, why, False
        found = read_answer_position(response, n_options, self._top_logprobs)
        with self._lock:
            self._succeeded = True
        values, refused = found.logprobs.copy(), ""
        if found.missing.any() and self._reask is not None:
            again, refused = self._asked_again(body, found)
            values = np.where(found.missing, again, values)
        is_bounded = bool(np.isnan(values).any())
        values, mass, note = entered(values, found)
        return values, mass, "; ".join(filter(None, (note, refused))), is_bounded

    def _body(self, question: str, one: _Pass) -> dict[str, Any]:
        messages: list[dict[str, Any]] = []
        if self._prompt.system is not None:
            messages.append({"role": "system", "content": self._prompt.system})
        text = {"type": "text", "text": self._prompt.render(question, one.shown)}
        messages.append({"role": "user", "content": [*one.media, text]})
        body = {
            "model": self._model,
            "messages": messages,
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": self._top_logprobs,
            **self._extra,
        }
        return {name: value for name, value in body.items() if value is not None}

    def _asked_again(
        self, body: Mapping[str, Any], found: TopTokens
    ) -> tuple[NDArray[np.float64], str]:
        """Log-probabilities of missing letters, NaN where they are still not known.

        What the server refuses stays unknown, with its reason; the pass itself stays.
        """
        letters = LETTERS[: len(found.logprobs)]
        values = np.full(len(letters), np.nan)
        try:
            if self._reask == "logit_bias":
                return self._biased(body, found, letters), ""
            for k in np.flatnonzero(found.missing):
                value = self._completed(body, letters[k])
                bound = found.spelling_bound  # it is one token that was asked for
                values[k] = np.nan if value is None else min(value, bound)
        except RefusedRequestError as error:
            return values, f"asking again by {self._reask} was refused: {error}"
        return values, ""

    def _biased(
        self, body: Mapping[str, Any], found: TopTokens, letters: str
    ) -> NDArray[np.float64]:
        bias = {str(self._token_id(letter)): _BIAS for letter in letters}
        response = self._endpoint.post("chat/completions", {**body, "logit_bias": bias})
        second = read_answer_position(response, len(letters), self._top_logprobs)
        return calibrated(found, second)

    def _completed(self, body: Mapping[str, Any], letter: str) -> float | None:
        ended = {
            **body,
            "messages": [*body["messages"], {"role": "assistant", "content": letter}],
            "add_generation_prompt": False,
            "continue_final_message": True,
            "prompt_logprobs": 0,
        }
        for name in ("logprobs", "top_logprobs"):
            ended.pop(name, None)
        return completed_logprob(self._endpoint.post("chat/completions", ended), letter)

    def _token_id(self, letter: str) -> int:
        """Token of a letter, asked of the server once."""
        with self._lock:
            known = self._token_ids.get(letter)
        if known is not None:
            return known
        parts = urllib.parse.urlsplit(self._endpoint.base_url)
        root = parts.path.rstrip("/").removesuffix("/v1")
        base = urllib.parse.urlunsplit((parts.scheme, parts.netloc, root, "", ""))
        answer = replace(self._endpoint, base_url=base).post(
            "tokenize",
            {"model": self._model, "prompt": letter, "add_special_tokens": False},
        )
        tokens = answer.get("tokens")
        if not isinstance(tokens, list) or len(tokens) != 1:
            raise ScoringError(
                f"the server's /tokenize gave {tokens!r} for {letter!r}, not one "
                "token; give letter_token_ids"
            )
        with self._lock:
            self._token_ids[letter] = int(tokens[0])
        return int(tokens[0])


def _jpeg_bytes(pixels: NDArray[np.uint8]) -> bytes:
    try:
        from PIL import Image
    except ImportError as error:
        raise BackendUnavailableError(
            f'JPEG needs Pillow: {error}; {remedy("pillow")}, or images="png"'
        ) from error
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=_JPEG_QUALITY, subsampling=0)
    return out.getvalue()


def _checked(prompt: PromptTemplate | str) -> PromptTemplate:
    prompt = as_prompt(prompt)
    if not prompt.lists_letters:
        raise ScoringError("the prompt must show {options} with their {letter}")
    return prompt


def _check(name: str, value: object, allowed: Sequence[object]) -> None:
    if value not in allowed:
        raise ScoringError(f"{name} is {value!r}; it must be one of {list(allowed)}")
