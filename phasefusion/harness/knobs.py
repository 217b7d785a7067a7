"""Everything that can be set from a harness's command line, checked once."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias, get_args

from phasefusion.errors import UsageError
from phasefusion.grid import PhaseGrid
from phasefusion.protocols import Plan, make_plan
from phasefusion.protocols.plans import of_no_effect, without_effect
from phasefusion.protocols.registry import OrdersName, get

__all__ = ["Knobs"]

#: Protocols of which a harness can be given one answer a question.
ProtocolName: TypeAlias = Literal["phasefusion", "stableeval", "quick"]

_CHOICES = {
    "protocol": get_args(ProtocolName),
    "by": ("frames", "time"),
    "short": ("repeat", "unique", "error"),
    "orders": ("", *get_args(OrdersName)),
    "timestamps": ("true", "frozen", "base"),
    "answer": ("letter", "option"),
    "on_error": ("mark", "raise"),
    "letter_variants": ("sum", "in-context"),
}
_ORIGINS: dict[str, Fraction] = {"left": Fraction(0), "midpoint": Fraction(1, 2)}


@dataclass(frozen=True, slots=True)
class Knobs:
    """How the questions of a harness are put; see `docs/harnesses.md`.

    Attributes
    ----------
    protocol : {"stableeval", "phasefusion", "quick"}, default "stableeval"
        As for `evaluate`: the phase views; the phase views, their union, a dense and a
        single pass on two origins; one pass.
    phases, budget, origin, by, short
        The phase grid, as for `PhaseGrid`.
    orders : {"latin", "identity", "shared", "cyclic", "all"}
        By default the protocol's: "latin", "shared" for "phasefusion", "identity" for
        "quick".
    n_orders : int, default 10
        How many "shared" orders.
    dense : int, default 32
        Frames of the dense pass of "phasefusion".
    seed : int, default 0
        Of shared orders and of ties.
    timestamps : {"true", "frozen", "base"}, default "true"
        Times of a phase's own frames, the middles of equal parts of the video for all
        phases, or what the wrapped model makes up itself.
    letter_variants : {"sum", "in-context"}, default "sum"
        As for `HFOptionScorer`.
    answer : {"letter", "option"}, default "letter"
        What the harness gets: "B", or "B. a dog".
    sidecar : str
        Run folder for the passes; none by default, and then they are not kept.
    cache : str
        File of the posterior cache; none by default.
    frame_cache : str
        Folder of decoded frames; none by default.
    prompt_key : str
        Whose prompt a task shall use; by default that of the wrapped model.
    on_error : {"mark", "raise"}, default "mark"
        Missing passes recorded with the reason, or an error.
    threads : int, default 1
        Of decoding.
    """

    protocol: ProtocolName = "stableeval"
    phases: int = 3
    budget: int = 8
    origin: str = "midpoint"
    by: str = "frames"
    short: str = "repeat"
    orders: str = ""
    n_orders: int = 10
    dense: int = 32
    seed: int = 0
    timestamps: str = "true"
    letter_variants: str = "sum"
    answer: str = "letter"
    sidecar: str = ""
    cache: str = ""
    frame_cache: str = ""
    prompt_key: str = ""
    on_error: str = "mark"
    threads: int = 1

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                named = ", ".join(value for value in allowed if value)
                raise UsageError(
                    f"{name}={getattr(self, name)!r} is not one of {named}"
                )
        if not 1 <= self.n_orders <= 10_000:
            raise UsageError(f"n_orders={self.n_orders} must be 1 to 10000")
        if self.dense < 1:
            raise UsageError(f"dense={self.dense} must be >= 1")
        self.plan()

    @classmethod
    def split(cls, given: Mapping[str, Any]) -> tuple[Knobs, dict[str, Any]]:
        """Take the knobs out of model arguments; the rest is the model's.

        Values may be texts, as a command line gives them.

        Raises
        ------
        UsageError
            If a value is of the wrong kind, not allowed, or contradicts another.

        Examples
        --------
        >>> knobs, rest = Knobs.split({"phases": "2", "pretrained": "folder"})
        >>> knobs.phases, rest
        (2, {'pretrained': 'folder'})
        """
        known = {field.name: field.type for field in dataclasses.fields(cls)}
        own = {name: value for name, value in given.items() if name in known}
        rest = {name: value for name, value in given.items() if name not in known}
        values: dict[str, Any] = {
            name: _whole(name, value) if known[name] == "int" else _text(name, value)
            for name, value in own.items()
            if value is not None
        }
        knobs = cls(**values)
        if complaint := of_no_effect(get(knobs.protocol), knobs.orders, values):
            raise UsageError(*complaint)
        return knobs, rest

    def grid(self) -> PhaseGrid:
        """Return the phase grid."""
        return self.plan().grid

    def plan(self) -> Plan:
        """Return what is scored of every question.

        Raises
        ------
        GridError
            If a grid cannot be.
        """
        origin: Any = _ORIGINS.get(self.origin, self.origin)
        by: Any = self.by
        short: Any = self.short
        orders: Any = self.orders or None
        counts: dict[str, int | None] = {
            "phases": self.phases,
            "n_orders": self.n_orders,
            "dense": self.dense,
        }
        counts |= dict.fromkeys(without_effect(get(self.protocol), self.orders))
        return make_plan(
            self.protocol,
            budget=self.budget,
            origin=origin,
            by=by,
            short=short,
            orders=orders,
            seed=self.seed,
            phases=counts["phases"],
            n_orders=counts["n_orders"],
            dense=counts["dense"],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what decides the passes, JSON-able: paths and threads do not."""
        given = dataclasses.asdict(self)
        for name in ("sidecar", "cache", "frame_cache", "threads"):
            given.pop(name)
        return given


def _whole(name: str, value: Any) -> int:
    """Read a whole number; one that is written as such keeps every digit."""
    found: int | None = None
    if not isinstance(value, bool):
        with contextlib.suppress(TypeError, ValueError):
            found = int(value) if isinstance(value, str) else operator.index(value)
    if found is None and isinstance(value, float | str):  # such as 2.0 and "1e3"
        with contextlib.suppress(ValueError):
            number = float(value)
            found = int(number) if number.is_integer() else None
    if found is None:
        raise UsageError(f"{name}={value!r} must be a whole number")
    return found


def _text(name: str, value: Any) -> str:
    if name == "timestamps" and value is True:  # a harness reads "true" so
        return "true"
    if isinstance(value, bool):
        raise UsageError(f"{name}={value!r} must be a text")
    if name == "origin" and isinstance(value, float) and math.isfinite(value):
        return str(Fraction(value).limit_denominator(1_000_000))
    return str(value)
