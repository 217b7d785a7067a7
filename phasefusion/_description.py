"""What identifies a run in run.json, whoever asks for its passes."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from phasefusion._checks import warn
from phasefusion._code_hash import code_hash
from phasefusion._devices import without_number
from phasefusion._versions import versions
from phasefusion.errors import BackendUnavailableError, FallbackWarning
from phasefusion.protocols import Plan

#: Where a description says on which device a model is, or is to be.
_DEVICES = ("device", "device_map")


def describe_scorer(scorer: object) -> dict[str, Any]:
    """Return what identifies a scorer in run.json.

    Which of several equal devices it was is left out, because the workers of one run,
    or its shards, each have another. Code that does not describe itself is identified
    by a hash of its source.

    Warns
    -----
    FallbackWarning
        If no such code is reached.
    """
    described = getattr(scorer, "describe", None)
    kind = type(scorer)
    name = f"{kind.__module__}.{kind.__qualname__}"
    found = {"class": name, **(described() if callable(described) else {})}
    if not _describes_itself(scorer):
        found.setdefault("source", code_hash(scorer))
    if "source" in found and found["source"] is None:
        warn(
            f"nothing of {found.get('model') or name} is known, so that a run goes on "
            "even if it has changed; say what identifies it (describe() of a class, "
            "content= of wrap)",
            FallbackWarning,
        )
    return on_any_device(found)


def _describes_itself(scorer: object) -> bool:
    """Whether an object, or a class that is the user's own, has a `describe`."""
    kind = type(scorer)
    if "describe" in getattr(scorer, "__dict__", {}):
        return True
    for base in kind.__mro__:
        if "describe" in vars(base):
            is_ours = base.__module__.partition(".")[0] == "phasefusion"
            return not is_ours or kind.__module__.partition(".")[0] == "phasefusion"
    return False


def on_any_device(described: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out which of several equal devices it was.

    Examples
    --------
    >>> on_any_device({"device": "cuda:1", "arguments": {"device": "cuda:1"}})
    {'device': 'cuda', 'arguments': {'device': 'cuda'}}
    """
    found = dict(described)
    for name, value in found.items():
        if isinstance(value, Mapping):
            found[name] = on_any_device(value)
        elif name in _DEVICES and isinstance(value, str):
            found[name] = without_number(value)
    return found


def describe_run(
    plan: Plan, facts: Mapping[str, Any], *, seed: int, on_error: str
) -> dict[str, Any]:
    """Return the description of a run for `RunWriter`.

    Parameters
    ----------
    plan : Plan
    facts : mapping
        Further settings, without which passes are others: "scorer", as
        `describe_scorer` has it, and whatever else there is.
    seed : int
    on_error : str
    """
    scorer = on_any_device(facts["scorer"])
    # Files identify a local model; where they lie may differ when the run goes on.
    place = scorer.pop("path", None) if "sha256" in scorer else None
    return {
        "settings": {
            **plan.settings(),
            "seed": seed,
            "on_error": on_error,
            **facts,
            "scorer": scorer,
        },
        "versions": versions(),
        "model": {"path": place},
        "host": {"platform": platform.platform(), "machine": platform.machine()},
        "command": list(sys.argv),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def describe_frames(device: str, *, here: bool) -> dict[str, Any]:
    """Return what run.json says of where frames are resized; nothing of the CPU.

    Parameters
    ----------
    device : {"cpu", "cuda", "auto"}
        What was asked for.
    here : bool
        Whether this process resizes them; other processes may have other GPUs.

    Raises
    ------
    BackendUnavailableError
        With "cuda", if there is no usable GPU here.
    """
    if device == "cpu":
        return {}
    found: dict[str, Any] = {"asked": device}
    if here:
        from phasefusion.cuda import runtime

        try:
            gpu = runtime.device(runtime.own_device())
            found |= {"used": "cuda", "gpu": gpu.name, "kernels": gpu.image}
        except BackendUnavailableError as error:
            if device == "cuda":
                raise
            found |= {"used": "cpu", "why": str(error)}
    return {"frames": found}
