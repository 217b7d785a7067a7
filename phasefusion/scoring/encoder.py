"""A vision tower that looks at every frame once.

Towers of today's video models treat frames one by one, or in pairs; a frame that
several grids share gives the same features in each of them. They are kept by a key of
the frame's pixels, within a bound on memory, and put together in the order asked for.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phasefusion.scoring.batching import release, within_memory

if TYPE_CHECKING:
    import torch

    from phasefusion.scoring.rows import VisualInputs

#: Models whose tower takes the patches of a whole video at once and lets those of one
#: temporal patch see each other alone.
_PATCH_TOWERS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe")

#: A template and the tensors of one frame that belong into it.
Made = tuple[Any, tuple[Any, ...]]


class FrameEncoder:
    """Stands in for a model's vision tower and keeps what it made of each frame.

    Parameters
    ----------
    model : transformers.PreTrainedModel
    max_bytes : int, default 256 MiB
        Features kept from one call to the next; the oldest are dropped first.

    Attributes
    ----------
    n_encoded : int
        Frames, or pairs of frames, that the tower has looked at.
    """

    def __init__(self, model: Any, max_bytes: int = 2**28) -> None:
        self._model = model
        self.max_bytes = max_bytes
        self.n_encoded = 0
        self.n_bytes = 0
        self._kept: OrderedDict[Hashable, Made] = OrderedDict()
        self._weights: Hashable = None
        self._most_frames: int | None = None

    def clear(self) -> None:
        """Forget all frames."""
        self._kept.clear()
        self.n_bytes = 0

    def renew(self) -> None:
        """Forget all frames if the tower's weights are others than the last time."""
        tower = vision_tower(self._model)
        weights = None if tower is None else weights_of(tower)
        if weights is None or weights != self._weights:
            self.clear()
        self._weights = weights

    @contextmanager
    def encoding(self, visuals: Sequence[VisualInputs]) -> Iterator[None]:
        """Look at the frames of one pass, those of row after row, once each.

        Where frames cannot be told apart, or are not treated one by one, the tower runs
        as it is.

        Parameters
        ----------
        visuals : sequence of VisualInputs
            Of each row.
        """
        tower: Any = vision_tower(self._model) if visuals else None
        keys: list[Hashable] = []
        if tower is not None:
            by_id = {id(visual): frame_keys(visual.arrays) for visual in visuals}
            keys = [key for visual in visuals for key in by_id[id(visual)]]
        if not keys:
            yield
            return

        def forward(*args: Any, **kwargs: Any) -> Any:
            frames = _frames_of(self._model, args, kwargs)
            if frames is None or len(frames) != len(keys):
                return type(tower).forward(tower, *args, **kwargs)
            return self._assembled(tower, frames, keys)

        tower.forward = forward
        try:
            yield
        finally:
            del tower.forward

    def _assembled(self, tower: Any, frames: _Frames, keys: Sequence[Hashable]) -> Any:
        keys = [(key, frames.setting) for key in keys]
        found = {key: self._kept[key] for key in keys if key in self._kept}
        for key in found:
            self._kept.move_to_end(key)
        first = {key: i for i, key in reversed(list(enumerate(keys)))}
        new = [key for key in first if key not in found]
        while new:
            some = new[: self._most_frames]
            out = self._run(tower, frames, [first[key] for key in some])
            if out is not None:
                leaves: list[Any] = []
                template = _template(_thinned(out, self._model, frames), leaves)
                for i, key in enumerate(some):
                    parts = tuple(_part(leaf, i, len(some)) for leaf in leaves)
                    found[key] = template, parts
                    self._keep(key, found[key])
                new = new[len(some) :]
        template = found[keys[0]][0]
        return _put_together(template, [found[key][1] for key in keys])

    def _run(self, tower: Any, frames: _Frames, numbers: Sequence[int]) -> Any:
        """Return what the tower makes of some frames; None to come back with fewer."""
        outputs: list[Any] = []

        def call() -> None:
            args, kwargs = frames.select(numbers)
            outputs.append(type(tower).forward(tower, *args, **kwargs))

        if len(numbers) == 1:
            call()
        elif not within_memory(call, frames.pixels.device):
            self.clear()
            release(frames.pixels.device)
            self._most_frames = len(numbers) // 2
            return None
        self.n_encoded += len(numbers)
        return outputs[0]

    def _keep(self, key: Hashable, made: Made) -> None:
        self._kept[key] = made
        self.n_bytes += _n_bytes(made)
        while self.n_bytes > self.max_bytes:
            _, oldest = self._kept.popitem(last=False)
            self.n_bytes -= _n_bytes(oldest)


@dataclass(frozen=True, slots=True, eq=False)
class _Frames:
    """A call of a tower, cut into what it treats on its own.

    Parameters
    ----------
    pixels : Tensor
        Frames along the first axis, or with `grid` the patches of all of them.
    name : str or None
        Of the argument that holds them; None where it is the first one.
    args, kwargs
        The other arguments.
    grid : Tensor, shape (videos, 3), optional
        Temporal patches and patches down and across.
    """

    pixels: torch.Tensor
    name: str | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    grid: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.pixels) if self.grid is None else int(self.grid[:, 0].sum())

    @property
    def setting(self) -> Hashable:
        """What decides features besides the pixels."""
        shape = tuple(self.pixels.shape[1:])
        if self.grid is not None:
            shape += tuple(self.grid[0, 1:].tolist())
        plain = {k: v for k, v in self.kwargs.items() if not hasattr(v, "shape")}
        return shape, repr(sorted(plain.items()))

    def select(self, numbers: Sequence[int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of the same call for some of the frames."""
        import torch

        n, which = len(self), torch.tensor(list(numbers), device=self.pixels.device)
        kwargs = dict(self.kwargs)
        if self.grid is None:
            pixels = self.pixels[which]
            for name, value in kwargs.items():
                if isinstance(value, torch.Tensor) and value.ndim and len(value) == n:
                    kwargs[name] = value[which.to(value.device)]
        else:
            shape = self.pixels.shape[1:]
            pixels = self.pixels.reshape(n, -1, *shape)[which].reshape(-1, *shape)
            grid = self.grid[:1].clone()
            grid[0, 0] = len(numbers)
            kwargs["grid_thw"] = grid
        if self.name is None:
            return (pixels, *self.args), kwargs
        return self.args, {self.name: pixels, **kwargs}


def frame_keys(arrays: Mapping[str, NDArray[Any]]) -> list[Hashable]:
    """Return a key of each frame, or of each temporal patch, by its pixels.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        Inputs of a model: frames of shape (n, 3, h, w) or (1, n, 3, h, w), or patches
        of whole videos with their ``*_grid_thw``.

    Returns
    -------
    list of hashable
        Empty where the arrays are of another form.

    Examples
    --------
    >>> frames = np.zeros((3, 3, 4, 4), np.float32)
    >>> frames[1] = 1
    >>> keys = frame_keys({"pixel_values": frames})
    >>> keys[0] == keys[2], keys[0] == keys[1]
    (True, False)
    """
    for name in ("pixel_values_videos", "pixel_values"):
        pixels = arrays.get(name)
        if pixels is None:
            continue
        if pixels.ndim == 5:
            pixels = pixels.reshape(-1, *pixels.shape[2:])
        if pixels.ndim == 4:
            return _digests(pixels)
        grids = [grid for key, grid in arrays.items() if key.endswith("_grid_thw")]
        if pixels.ndim == 2 and len(grids) == 1 and len(grids[0]) == 1:
            return _digests(pixels.reshape(int(grids[0][0, 0]), -1))
    return []


def _digests(units: NDArray[Any]) -> list[Hashable]:
    return [
        hashlib.sha1(np.ascontiguousarray(unit).data, usedforsecurity=False).digest()
        for unit in units
    ]


def vision_tower(model: Any) -> Any:
    """Return the module that looks at frames, if it can be stood in for."""
    import torch

    inner = getattr(model, "model", model)
    for name in ("visual", "vision_tower", "vision_model"):
        tower = getattr(inner, name, None)
        if isinstance(tower, torch.nn.Module):
            # With a forward of its own it is loaded on demand.
            return None if "forward" in vars(tower) else tower
    return None


def weights_of(tower: Any) -> Hashable:
    """Return what differs between the weights of two moments; None if that is unknown.

    Where tensors lie and how often they were changed in place does not tell of changes
    through ``.data``, which is how adapters are merged, so some of the values count,
    too: up to 64 of each tensor.

    Examples
    --------
    >>> import torch
    >>> layer = torch.nn.Linear(3, 2)
    >>> before = weights_of(layer)
    >>> before == weights_of(layer)
    True
    >>> _ = layer.weight.data.mul_(2)
    >>> before == weights_of(layer)
    False
    """
    import torch

    places: list[Hashable] = []
    samples: dict[Any, list[Any]] = {}
    try:
        for tensor in (*tower.parameters(), *tower.buffers()):
            version = -1 if tensor.is_inference() else tensor._version
            places.append((tensor.data_ptr(), version, tensor.dtype, tensor.shape))
            if tensor.numel() and not tensor.is_meta:
                flat = tensor.detach().reshape(-1)
                some = flat[:: max(1, len(flat) // 64)].to(torch.float64)
                samples.setdefault(tensor.device, []).append(some)
        values = [torch.cat(some).cpu().numpy().tobytes() for some in samples.values()]
    except (RuntimeError, TypeError):  # a tensor that is no memory of its own
        return None
    return tuple(places), tuple(values)


def _frames_of(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> _Frames | None:
    """Cut a call of the tower into frames; None where they are not independent."""
    name = None
    if args:
        pixels, args = args[0], args[1:]
    else:
        name = "pixel_values" if "pixel_values" in kwargs else "hidden_states"
        pixels = kwargs.get(name)
        kwargs = {key: value for key, value in kwargs.items() if key != name}
    n_axes = getattr(pixels, "ndim", 0)
    if n_axes == 4 and not args:
        return _Frames(pixels, name, args, kwargs)
    if n_axes != 2 or getattr(model.config, "model_type", "") not in _PATCH_TOWERS:
        return None
    if args:
        kwargs, args = {"grid_thw": args[0], **kwargs}, args[1:]
    grid = kwargs.pop("grid_thw", None)
    prepared = any(hasattr(value, "shape") for value in kwargs.values())
    if grid is None or args or prepared or bool((grid[:, 1:] != grid[:1, 1:]).any()):
        return None
    return _Frames(pixels, name, args, kwargs, grid)


# What a tower returns is a tensor, or tensors in tuples, lists and model outputs. Taken
# apart it is a list of tensors and a template that holds their numbers.


def _thinned(out: Any, model: Any, frames: _Frames) -> Any:
    """Leave out the large tensors that no model reads."""
    if not hasattr(out, "items"):
        return out
    fields = dict(out.items())
    fields.pop("attentions", None)
    if frames.grid is not None and fields.get("pooler_output") is not None:
        fields.pop("last_hidden_state", None)
    states = fields.get("hidden_states")
    layers = getattr(model.config, "vision_feature_layer", None)
    if states is not None and layers is not None:
        listed = [layers] if isinstance(layers, int) else layers
        wanted = {layer % len(states) for layer in listed}
        fields["hidden_states"] = tuple(
            state if i in wanted else None for i, state in enumerate(states)
        )
    return type(out)(**fields)


def _template(out: Any, leaves: list[Any]) -> Any:
    import torch

    if isinstance(out, torch.Tensor):
        leaves.append(out)
        return len(leaves) - 1
    if hasattr(out, "items"):
        return type(out), {k: _template(v, leaves) for k, v in out.items()}
    if isinstance(out, tuple | list):
        return type(out), [_template(value, leaves) for value in out]
    return None


def _filled(template: Any, leaves: Sequence[Any]) -> Any:
    if template is None:
        return None
    if isinstance(template, int):
        return leaves[template]
    kind, inner = template
    if isinstance(inner, dict):
        return kind(**{name: _filled(value, leaves) for name, value in inner.items()})
    return kind(_filled(value, leaves) for value in inner)


def _part(leaf: torch.Tensor, i: int, n: int) -> torch.Tensor:
    """Return what belongs to frame i of n, as memory of its own."""
    size = len(leaf) // n
    return leaf[i * size : (i + 1) * size].clone()


def _put_together(template: Any, parts: Sequence[tuple[Any, ...]]) -> Any:
    import torch

    leaves = [torch.cat(same) for same in zip(*parts, strict=True)]
    return _filled(template, leaves)


def _n_bytes(made: Made) -> int:
    return sum(leaf.numel() * leaf.element_size() for leaf in made[1])
