"""Digests of values that are equal when they are, to tell changed settings apart."""

from __future__ import annotations

import contextlib
import enum
import hashlib
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

from phasefusion._devices import without_number

#: Bytes of an array, and of a tensor, that count in whole; of larger ones so many
#: elements do, evenly spread.
_WHOLE_ARRAY_BYTES, _WHOLE_TENSOR_BYTES = 2**24, 2**20
_N_SAMPLED = 4096
#: How deep containers are looked into, and how many entries of all of them count.
_DEPTH = 8
_MOST_ENTRIES = 100_000
_PLACE = re.compile(r"(?:~|[A-Za-z]:)?[/\\]\S*")


def value_digest(value: object) -> str | None:
    """Return a digest of what a value is; None for what is not looked into.

    Numbers, texts, arrays, tensors, weights of torch modules, and containers of them;
    of paths the last part counts, of devices the kind.

    Examples
    --------
    >>> value_digest({"k": 1, "on": "cuda:1"}) == value_digest({"on": "cuda", "k": 1})
    True
    >>> value_digest(object()) is None
    True
    """
    found = _Digest()
    with contextlib.suppress(Exception):  # what raises when it is looked at is unknown
        if found.feed(value, _DEPTH):
            return found.hash.hexdigest()
    return None


class _Digest:
    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.n_left = _MOST_ENTRIES

    def feed(self, value: object, depth: int) -> bool:
        """Add a value; False when nothing is known of it."""
        self.n_left -= 1
        text = _plain_text(value)
        if text is not None:
            return self._say(text)
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return self._array(value)
        if isinstance(value, list | tuple | set | frozenset | dict):
            return self._container(value, depth)
        torch = sys.modules.get("torch")
        if torch is None:
            return False
        if isinstance(value, torch.Tensor):
            return self._tensor(torch, value)
        if isinstance(value, torch.nn.Module):
            return self._module(torch, value)
        return isinstance(value, torch.device | torch.dtype) and self._say(
            without_number(str(value))
        )

    def _say(self, text: str) -> bool:
        self.hash.update(text.encode(errors="surrogatepass") + b"\0")
        return True

    def _container(self, value: Any, depth: int) -> bool:
        """Add the entries that are known, and of the others their types."""
        self._say(f"{type(value).__name__} {len(value)}")
        if depth == 0:
            return True
        rows: Sequence[Any]
        if isinstance(value, Mapping):
            rows = [row for key in value for row in (_key(key), value[key])]
            if all(isinstance(key, str) for key in value):
                rows = [row for key in sorted(value) for row in (key, value[key])]
        elif isinstance(value, set | frozenset):
            rows = sorted(map(_key, value))
        else:
            rows = value
        for row in rows:
            if self.n_left <= 0:
                return self._say("...")
            if not self.feed(row, depth - 1):
                self._say(type(row).__qualname__)
        return True

    def _array(self, value: np.ndarray[Any, Any]) -> bool:
        step = _step(value.size, value.nbytes, _WHOLE_ARRAY_BYTES)
        self._say(f"array {value.dtype} {value.shape}")
        self.hash.update(np.ascontiguousarray(value.reshape(-1)[::step]).tobytes())
        return True

    def _module(self, torch: Any, module: Any) -> bool:
        self._say(type(module).__qualname__)
        for name, tensor in sorted(module.state_dict().items()):
            self._say(name)
            if isinstance(tensor, torch.Tensor):
                self._tensor(torch, tensor)
        return True

    def _tensor(self, torch: Any, tensor: Any) -> bool:
        """Add type and elements; of what cannot be read, as on "meta", the type."""
        with contextlib.suppress(Exception):
            self._say(f"tensor {tensor.dtype} {tuple(tensor.shape)}")
            n = tensor.numel()
            step = _step(n, n * tensor.element_size(), _WHOLE_TENSOR_BYTES)
            some = tensor.detach().reshape(-1)[::step].to("cpu").contiguous()
            if some.dtype.is_floating_point and some.dtype.itemsize < 4:
                some = some.to(torch.float32)  # which NumPy knows
            self.hash.update(some.resolve_conj().numpy().tobytes())
        return True


def _plain_text(value: object) -> str | None:
    """Return what a number, a text, a path or a name says."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if type(value) is int:
        return hex(value)  # of any length
    if value is None or type(value) in (bool, bytes, complex, float):
        return repr(value)
    if isinstance(value, str):
        known = without_number(str(value))
        return repr(_last_part(known) if _PLACE.fullmatch(known) else known)
    if isinstance(value, PurePath):
        return repr(value.name)
    if isinstance(value, np.generic):
        return f"{value.dtype} {value!r}"
    return None


def _key(value: object) -> str:
    """Return a text to put a key in order by; of objects the type, not the address."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_key, value))})"
    return _plain_text(value) or type(value).__qualname__


def _last_part(path: str) -> str:
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def _step(n: int, n_bytes: int, most_bytes: int) -> int:
    return 1 if n_bytes <= most_bytes else -(-n // _N_SAMPLED)
