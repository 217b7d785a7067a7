"""Values as texts that are equal when they are, to tell changed settings apart."""

from __future__ import annotations

import enum
import hashlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

from phasefusion._devices import without_number

#: Bytes of an array, and of a tensor, that count in whole; of larger ones so many
#: elements do, evenly spread.
_WHOLE_ARRAY_BYTES, _WHOLE_TENSOR_BYTES = 2**24, 2**20
_N_SAMPLED = 4096
#: How deep containers are looked into.
_DEPTH = 8
_PLAIN = (bool, bytes, complex, float, int)


def value_text(value: object, depth: int = _DEPTH) -> str | None:
    """Return a text that says what a value is; None for what is not looked into.

    Numbers, texts, paths, arrays, and tuples, lists, sets and dicts of them; tensors
    and modules of torch by type, shape and a sample of their elements. Of names of
    devices the number is left out.

    Examples
    --------
    >>> value_text({"scale": 2, "device": "cuda:1"})
    "{'device': 'cuda', 'scale': 2}"
    >>> value_text(object()) is None
    True
    """
    if value is None or type(value) in _PLAIN:
        return repr(value)
    if isinstance(value, str | PurePath):
        return repr(without_number(str(value)))
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, np.generic | np.ndarray):
        return None if value.dtype.hasobject else _array_text(np.asarray(value))
    if type(value) in (tuple, list, set, frozenset, dict) and depth:
        return _container_text(value, depth - 1)
    return _torch_text(value)


def _container_text(value: Any, depth: int) -> str | None:
    if isinstance(value, Mapping):
        rows = [(value_text(k, depth), value_text(v, depth)) for k, v in value.items()]
        if any(None in row for row in rows):
            return None
        return "{" + ", ".join(sorted(f"{k}: {v}" for k, v in rows)) + "}"
    texts = [value_text(one, depth) for one in value]
    if None in texts:
        return None
    known = [text for text in texts if text is not None]
    if isinstance(value, set | frozenset):
        known.sort()
    return f"{type(value).__name__}({', '.join(known)})"


def _array_text(value: np.ndarray[Any, Any]) -> str:
    step = _step(value.size, value.nbytes, _WHOLE_ARRAY_BYTES)
    some = np.ascontiguousarray(value.reshape(-1)[::step])
    digest = hashlib.sha256(some.tobytes()).hexdigest()
    return f"array({value.dtype}, {value.shape}, {digest})"


def _step(n: int, n_bytes: int, most_bytes: int) -> int:
    return 1 if n_bytes <= most_bytes else -(-n // _N_SAMPLED)


def _torch_text(value: object) -> str | None:
    """Text of a tensor, a module or a device, if torch has been imported at all."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if isinstance(value, torch.device):
        return repr(value.type)
    if isinstance(value, torch.dtype):
        return str(value)
    if isinstance(value, torch.Tensor):
        return _tensor_text(torch, value)
    if isinstance(value, torch.nn.Module):
        return f"{type(value).__qualname__}({', '.join(_weights(torch, value))})"
    return None


def _weights(torch: Any, module: Any) -> Iterator[str]:
    for name, tensor in sorted(module.state_dict().items()):
        if isinstance(tensor, torch.Tensor):
            yield f"{name}: {_tensor_text(torch, tensor)}"


def _tensor_text(torch: Any, tensor: Any) -> str:
    about = f"{tensor.dtype}, {tuple(tensor.shape)}"
    if tensor.device.type == "meta" or tensor.layout != torch.strided:
        return f"tensor({about})"
    n = tensor.numel()
    step = _step(n, n * tensor.element_size(), _WHOLE_TENSOR_BYTES)
    some = tensor.detach().reshape(-1)[::step].to("cpu")
    if some.dtype.is_floating_point and some.dtype.itemsize < 4:
        some = some.to(torch.float32)  # which NumPy knows
    digest = hashlib.sha256(some.contiguous().numpy().tobytes()).hexdigest()
    return f"tensor({about}, {digest})"
