"""What differs from one family of models to the next, and nothing else."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasefusion.errors import ScoringError
from phasefusion.frames import Device
from phasefusion.pixels import PatchSettings, PlaneSettings, TileGrid
from phasefusion.pixels.geometry import Size, pass_order_shows
from phasefusion.scoring.rows import VisualInputs
from phasefusion.scoring.times import FrameTimes

Encode: TypeAlias = Callable[[str], list[int]]
Pixels: TypeAlias = PatchSettings | PlaneSettings
Turns: TypeAlias = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """The frames of one phase as a family shows them to its model.

    Parameters
    ----------
    inputs : VisualInputs
    text : str
        What takes the place of the chat's placeholder, with one visual token for each
        block of them.
    n_tokens : tuple of int
        How many visual tokens each block has.
    notes : tuple of str
        What a reader of the scores has to know.
    problem : str
        Why the phase cannot be scored, if so.
    """

    inputs: VisualInputs
    text: str
    n_tokens: tuple[int, ...]
    notes: tuple[str, ...] = ()
    problem: str = ""


class Family(ABC):
    """How frames reach the models of one family.

    A family knows how frames become tensors, which text stands around them in the
    prompt, how many tokens they take, and which other inputs the model needs; the
    rest of scoring is the same for all.

    Attributes
    ----------
    name : str
        As in `phasefusion.pixels`.
    placeholder : str
        What the chat template writes for a video, as the family's processor has it.
    visual_token : str
    visual_token_id : int
        The token whose places in a prompt the frames take.
    pixels : PatchSettings or PlaneSettings or None
        None where the model's own processor makes the pixels.
    pixel_frames : int or None
        The number of frames for which their size is chosen; None for as many as a
        phase has.
    frames_device : {"cpu", "cuda", "auto"}
        Where frames are resized that were not decoded to the model's size.
    """

    name: str
    placeholder: str
    visual_token: str
    visual_token_id: int
    pixels: Pixels | None = None
    pixel_frames: int | None = None
    frames_device: Device = "cpu"
    template: str | None = None
    #: Whether what `show` returns depends on the chat that it is given.
    shows_by_chat = False
    #: Whether a turn's content is always a list of parts.
    _parts_only = False

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model = model
        self.tokenizer = tokenizer

    @abstractmethod
    def show(
        self,
        frames: NDArray[Any],
        times: FrameTimes,
        *,
        size: Size | None,
        chat: str,
    ) -> Shown:
        """Prepare the frames of one phase.

        Parameters
        ----------
        frames : ndarray, shape (b, H, W, 3), uint8
            Or float32 of shape (b, 3, h, w), normalised already.
        times : FrameTimes
        size : (int, int) or None
            Their size if they were resized for this model before.
        chat : str
            A prompt that the frames belong to.
        """

    # Prompts

    def content(self, n_frames: int) -> list[dict[str, Any]]:
        """Return the parts of the user's turn that stand for the frames."""
        return [{"type": "video"}]

    def render(self, turns: Turns) -> str:
        """Write turns as the model's chat, up to the answer."""
        if self._parts_only:
            turns = [_in_parts(turn) for turn in turns]
        chat: str = self.tokenizer.apply_chat_template(
            turns,
            chat_template=self.template,
            tokenize=False,
            add_generation_prompt=True,
        )
        return chat

    def n_placeholders(self, chat: str) -> int:
        """Count the places of a chat where frames go."""
        return chat.count(self.placeholder)

    def n_wanted(self, n_frames: int) -> int:
        """Return how many such places a chat must have."""
        return 1

    def reserved(self) -> tuple[str, ...]:
        """Return texts that have a meaning in a prompt, special tokens or not."""
        return (self.placeholder, self.visual_token)

    def expand(self, chat: str, text: str) -> str:
        """Put a text in the place of the frames."""
        return chat.replace(self.placeholder, text, 1)

    def token_ids(self, encode: Encode, chat: str, shown: Shown) -> NDArray[np.int64]:
        """Return the tokens of a prompt with its frames."""
        table = np.asarray(encode(self.expand(chat, shown.text)), dtype=np.int64)
        at = np.flatnonzero(table == self.visual_token_id)
        if at.size != len(shown.n_tokens):
            raise ScoringError(
                f"the prompt has {at.size} tokens {self.visual_token!r} (id "
                f"{self.visual_token_id}) for {len(shown.n_tokens)} blocks of frames; "
                "tokenizer and model do not belong together"
            )
        repeats = np.ones(len(table), dtype=np.int64)
        repeats[at] = shown.n_tokens
        return np.repeat(table, repeats)

    # Sizes

    def _size(self, frames: NDArray[Any], size: Size | None) -> Size | None:
        """Return the size that frames have to get; None for as the settings say."""
        if size is not None or self.pixel_frames is None or self.pixels is None:
            return size
        if frames.dtype == np.float32:
            return None
        height, width = frames.shape[1:3]
        return self.pixels.frame_size(height, width, self.pixel_frames)

    def native_size(self, height_px: int, width_px: int, n_frames: int) -> Size | None:
        """Return the size at which the model looks at frames as decoded."""
        if self.pixels is None:
            return None
        n_frames = self.pixel_frames or n_frames
        return self.pixels.frame_size(height_px, width_px, n_frames)

    def frame_size(self, height_px: int, width_px: int, n_frames: int) -> Size | None:
        """Return the size at which frames may come instead of as decoded.

        None when the model wants more, or another resize, than one of
        `phasefusion.resize` with its defaults.
        """
        pixels = self.pixels
        size = self.native_size(height_px, width_px, n_frames)
        if pixels is None or size is None:
            return None
        if isinstance(pixels, PlaneSettings):
            if pixels.square is not None or len(pixels.resizes) != 1:
                return None
            rule = pixels.resizes[0]
            if isinstance(rule, TileGrid) or rule.size(*size) != size:
                return None
        if pixels.filter != "bicubic" or pixels.first_pass == "vertical":
            return None
        horizontal = pixels.first_pass == "horizontal"
        if horizontal and pass_order_shows((height_px, width_px), size):
            return None
        return size

    @property
    def size_follows_frames(self) -> bool:
        """Whether more frames may mean smaller ones."""
        pixels = self.pixels
        if not isinstance(pixels, PatchSettings) or pixels.size is not None:
            return False
        return pixels.per_clip or pixels.video_tokens is not None

    def pinned(self, n_frames: int) -> Family:
        """Return the family with frame sizes as for clips of `n_frames`."""
        twin = copy.copy(self)
        twin.pixel_frames = n_frames
        return twin

    def describe(self) -> dict[str, Any]:
        """Return what is needed to show frames the same way again, JSON-able."""
        return {
            "family": self.name,
            "pixels": None if self.pixels is None else self.pixels.to_dict(),
            "pixel_frames": self.pixel_frames,
        }


def _in_parts(turn: Mapping[str, Any]) -> dict[str, Any]:
    content = turn["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return {**turn, "content": content}


def config_id(config: Any, *names: str) -> int:
    """Return a token id of a model's configuration, by the first name that it has.

    Raises
    ------
    ScoringError
        If it has none.
    """
    for name in names:
        value = getattr(config, name, None)
        if value is not None:
            return int(value)
    raise ScoringError(
        f"the {type(config).__name__} has no {' or '.join(names)}; the model's token "
        "for frames is unknown"
    )


def token_of(tokenizer: Any, token_id: int) -> str:
    """Return the text of a token, or say that the tokenizer is of another model."""
    token = tokenizer.convert_ids_to_tokens(token_id)
    if not isinstance(token, str):
        raise ScoringError(
            f"the tokenizer has no token {token_id}, which the model's configuration "
            "names as that of frames; tokenizer and model do not belong together"
        )
    return token


def named_token(tokenizer: Any, attribute: str, default: str) -> str:
    """Return a token that a tokenizer knows by a name, or else by its usual text.

    Raises
    ------
    ScoringError
        If it is no token of the tokenizer.
    """
    token = str(getattr(tokenizer, attribute, None) or default)
    token_id = tokenizer.convert_tokens_to_ids(token)
    if token_id is None or token_id == getattr(tokenizer, "unk_token_id", None):
        raise ScoringError(
            f"the tokenizer has no token {token!r} ({attribute}); it is of another "
            "model"
        )
    return token


def even_repeats(n_frames: int, group: int) -> tuple[str, ...]:
    """Say how often the last frame is repeated to fill groups, if it is."""
    n_repeated = -n_frames % group
    if not n_repeated:
        return ()
    return (
        f"last frame of every phase repeated {n_repeated}x to fill groups of {group} "
        "frames",
    )


def pair(value: Any) -> tuple[int, int]:
    """Return height and width of what may be one number for both.

    Examples
    --------
    >>> pair(14), pair([28, 14])
    ((14, 14), (28, 14))
    """
    if isinstance(value, Sequence):
        return int(value[0]), int(value[1])
    return int(value), int(value)
