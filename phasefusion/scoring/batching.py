"""How much goes into one forward pass: what fits in memory, found by trying.

Rows are batched within a budget of tokens. It starts from the memory that is free and
from what a token of this model takes; a pass that runs out of memory halves it, and
what is left is batched anew.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

#: Tokens run by one pass: more of them fill no processor better, and fall out of its
#: caches (a CPU is fastest at 400 to 1,100).
MOST_TOKENS_RUN = {"cpu": 1024}
MOST_TOKENS_RUN_ELSEWHERE = 32768

#: The share of the free memory that the first estimate makes use of.
_SHARE = 0.5

#: Where a container says what it may use.
_GROUP = Path("/sys/fs/cgroup")

#: Where memory is short: what the CPU's allocator, the CUDA libraries and other
#: backends say in a plain RuntimeError.
_MESSAGES = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an exception says that memory ran out, on any device.

    Examples
    --------
    >>> is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    True
    >>> is_out_of_memory(RuntimeError("shapes cannot be multiplied"))
    False
    """
    if isinstance(error, MemoryError):
        return True
    if not isinstance(error, RuntimeError):
        return False
    if type(error).__name__ == "OutOfMemoryError":  # torch.OutOfMemoryError
        return True
    text = str(error)
    return any(message in text for message in _MESSAGES)


def within_memory(call: Callable[[], None], device: torch.device) -> bool:
    """Make a call; return whether memory sufficed.

    What the failed call had allocated is given back first: it hangs on the traceback,
    which is dropped here.
    """
    try:
        call()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    else:
        return True
    release(device)
    return False


def release(device: torch.device) -> None:
    """Give memory that nothing refers to back to the device."""
    import torch

    gc.collect(1)  # what a failed pass left in cycles is young
    if device.type == "cuda":
        torch.cuda.empty_cache()


def free_bytes(device: torch.device) -> int | None:
    """Return the memory that could be had now; None where nobody knows."""
    import torch

    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free + held)
    if device.type != "cpu":
        return None
    known = [_available_bytes(), _group_bytes()]
    return min((n for n in known if n is not None), default=None)


def _available_bytes() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    kib = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return 1024 * int(kib[0]) if kib else None


def _group_bytes() -> int | None:
    """Return what a container's limit leaves."""
    try:
        limit = (_GROUP / "memory.max").read_text(encoding="ascii").strip()
        used = (_GROUP / "memory.current").read_text(encoding="ascii").strip()
    except OSError:
        return None
    return None if limit == "max" else max(0, int(limit) - int(used))


class TokenBudget:
    """How many tokens a pass may hold, cached ones included.

    Parameters
    ----------
    device : torch.device
        Where the passes run.

    Attributes
    ----------
    limit : int or None
        Tokens; None before anything was measured, which is no limit.
    most_run : int
        Tokens a pass may run besides, cached ones not included.

    Examples
    --------
    >>> import torch
    >>> budget = TokenBudget(torch.device("cpu"))
    >>> budget.failed(1000)
    >>> budget.limit
    500
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.limit: int | None = None
        self.most_run = MOST_TOKENS_RUN.get(device.type, MOST_TOKENS_RUN_ELSEWHERE)

    def start(self, bytes_per_token: float) -> None:
        """Set the first limit from the memory that is free and what a token takes."""
        if self.limit is None:
            free = free_bytes(self.device)
            if free is not None:
                self.limit = max(1, int(_SHARE * free / max(1.0, bytes_per_token)))

    def failed(self, n_tokens: int) -> None:
        """Take note that a pass of so many tokens ran out of memory."""
        half = max(1, n_tokens // 2)
        self.limit = half if self.limit is None else min(self.limit, half)

    def allows(self, n_held: int, n_run: int) -> bool:
        """Tell whether a pass of so many tokens may be tried."""
        return n_run <= self.most_run and (self.limit is None or n_held <= self.limit)


def batches(
    sizes: Sequence[tuple[int, int]],
    budget: TokenBudget,
    *,
    most_rows: int | None = None,
) -> Iterator[range]:
    """Cut rows into batches that the budget allows, at least one row each.

    Parameters
    ----------
    sizes : sequence of (int, int)
        Of each row, the tokens it holds in a cache and the tokens it runs. In order of
        length, or short rows are filled up to long ones.
    budget : TokenBudget
        Read at each batch, so that one that is cut meanwhile counts for the rest.
    most_rows : int, optional
        Most rows in a batch.

    Yields
    ------
    range
        Row numbers.

    Examples
    --------
    >>> import torch
    >>> budget = TokenBudget(torch.device("cpu"))
    >>> budget.limit = 60
    >>> list(batches([(20, 5), (20, 5), (20, 6)], budget))
    [range(0, 2), range(2, 3)]
    """
    start = 0
    while start < len(sizes):
        cached, run = sizes[start]
        stop = start + 1
        while stop < len(sizes) and (most_rows is None or stop - start < most_rows):
            cached = max(cached, sizes[stop][0])
            run = max(run, sizes[stop][1])
            n_rows = stop + 1 - start
            if not budget.allows(n_rows * (cached + run), n_rows * run):
                break
            stop += 1
        yield range(start, stop)
        start = stop


def bytes_per_token(model: Any) -> int:
    """Return what a token in a pass takes: keys, values and numbers on the way.

    Attention weights are not counted; where they are written out, trying shows what
    fits.
    """
    config = model.config.get_text_config()
    width = int(getattr(config, "hidden_size", 0) or 0)
    inner = int(getattr(config, "intermediate_size", 0) or 4 * width)
    heads = int(getattr(config, "num_attention_heads", 0) or 1)
    each = int(getattr(config, "head_dim", 0) or width // heads)
    shared = int(getattr(config, "num_key_value_heads", 0) or heads)
    layers = int(getattr(config, "num_hidden_layers", 0) or 1)
    numbers = 2 * layers * shared * each + 8 * width + 3 * inner
    return numbers * int(model.dtype.itemsize)
