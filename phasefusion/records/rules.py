"""What makes a line a pass: the rules of one record, each with the field it is about.

`structure` holds what every reader relies on and is what the JSON Schema says, in the
same words for both: a record has no problem here exactly when the schema accepts it and
its lengths fit. `meaning` holds what a schema cannot say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias

#: (kind, field, what is wrong)
Problem: TypeAlias = tuple[str, str, str]
Test: TypeAlias = Callable[[Any], bool]

#: Log-probabilities may exceed 0 by what a float32 softmax is off.
ABOVE_ZERO = 1e-6
#: More phases of a grid are a damaged number, and would take any memory to lay out.
MOST_PHASES = 65536
#: An answer may lie this far below the best option: ties are broken elsewhere.
_TIE_NATS = 1e-9
_MAX_VALUE = 60
_DIGEST = re.compile(r"[0-9a-f]{16}", re.ASCII)


def is_integer(value: Any) -> bool:
    """Whether JSON would call it an integer; 3.0 is one and true is none."""
    kind = type(value)
    return kind is int or (kind is float and value.is_integer())


def is_number(value: Any) -> bool:
    """Whether it is a number that JSON can say."""
    kind = type(value)
    return kind is int or (kind is float and math.isfinite(value))


def _at_least(least: int) -> Test:
    return lambda value: is_integer(value) and value >= least


def _n_phases(value: Any) -> bool:
    return is_integer(value) and 1 <= value <= MOST_PHASES


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_name(value: Any) -> bool:
    return type(value) is str and value != ""


def _is_digest(value: Any) -> bool:
    return type(value) is str and _DIGEST.fullmatch(value) is not None


def _is_list(test: Test) -> Test:
    return lambda value: type(value) is list and all(map(test, value))


def _is_fraction(value: Any) -> bool:
    return (
        type(value) is list
        and len(value) == 2
        and all(map(is_integer, value))
        and value[0] >= 0
        and value[1] >= 1
    )


def _is_logprob(value: Any) -> bool:
    return value is None or is_number(value)


def _not_negative(value: Any) -> bool:
    return is_number(value) and value >= 0


#: field: (must be there, may be null, test, what it must be)
FIELDS: dict[str, tuple[bool, bool, Test, str]] = {
    "question_id": (True, False, _is_name, "a text that is not empty"),
    "benchmark": (True, False, _is_text, "a text"),
    "video_id": (False, True, _is_text, "a text or null"),
    "type": (False, True, _is_text, "a text or null"),
    "n_options": (True, False, _at_least(1), "an integer >= 1"),
    "gold": (True, True, _at_least(0), "an integer >= 0 or null"),
    "arm": (True, False, _is_name, "a text that is not empty"),
    "shifted": (False, False, lambda v: type(v) is bool, "true or false"),
    "budget": (True, True, _at_least(0), "an integer >= 0 or null"),
    "n_phases": (True, False, _n_phases, f"an integer from 1 to {MOST_PHASES}"),
    "origin": (False, True, _is_fraction, "[numerator, denominator] or null"),
    "phase": (True, True, _is_fraction, "[numerator, denominator] or null"),
    "phase_index": (True, False, _at_least(0), "an integer >= 0"),
    "n_frames": (False, True, _at_least(0), "an integer >= 0 or null"),
    "duration_s": (False, True, _not_negative, "a number >= 0 or null"),
    "frame_indices": (False, True, _is_list(_at_least(0)), "integers >= 0, or null"),
    "frame_times_s": (False, True, _is_list(is_number), "numbers, or null"),
    "damaged_frames": (False, True, _is_list(_at_least(0)), "integers >= 0, or null"),
    "video_digest": (False, True, _is_digest, "16 hexadecimal digits or null"),
    "video_problem": (False, True, _is_text, "a text or null"),
    "same_options": (False, True, _is_list(_at_least(0)), "integers >= 0, or null"),
    "order": (True, False, _is_list(_at_least(0)), "integers >= 0"),
    "logprobs": (True, True, _is_list(_is_logprob), "numbers or nulls, or null"),
    "answer": (True, True, _at_least(0), "an integer >= 0 or null"),
    "path": (False, False, lambda v: v in ("logit", "generate"), "logit or generate"),
    "text": (False, True, _is_text, "a text or null"),
    "option_mass": (False, True, _not_negative, "a number >= 0 or null"),
    "seconds": (False, True, _not_negative, "a number >= 0 or null"),
    "decode_seconds": (False, True, _not_negative, "a number >= 0 or null"),
    "invalid": (False, True, _is_text, "a text or null"),
    "source": (False, True, lambda v: type(v) is dict, "an object or null"),
}
REQUIRED = tuple(name for name, rule in FIELDS.items() if rule[0])


def structure(row: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what of a record is missing or of another type than it must be."""
    for name in REQUIRED:
        if name not in row:
            yield "missing", name, f"has no {name!r}"
    for name, value in row.items():
        rule = FIELDS.get(name)
        if rule is None or (value is None and rule[1]):
            continue
        if not rule[2](value):
            bad = _not_finite(value)
            if bad is not None:
                yield (
                    "not finite",
                    name,
                    f"{name} holds {bad}, which JSON has no word for",
                )
            else:
                yield "type", name, f"{name} is {shorten(value)}, not {rule[3]}"


def lengths(row: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what of a record does not fit its number of options and phases.

    The record has no problem of `structure`.
    """
    k = int(row["n_options"])
    order = row["order"]
    if len(order) != k:
        yield (
            "order",
            "order",
            f"order has another length than n_options: {len(order)}, not {k}",
        )
    elif sorted(order) != list(range(k)):
        yield (
            "order",
            "order",
            f"order is not a permutation of the options: {shorten(order)}",
        )
    for name in ("logprobs", "same_options"):
        values = row.get(name)
        if values is not None and len(values) != k:
            yield (
                name,
                name,
                f"{name} has another length than n_options: {len(values)}, not {k}",
            )
    for name in ("answer", "gold"):
        value = row.get(name)
        if value is not None and value >= k:
            yield (
                name,
                name,
                f"{name} is not one of the options: {value:g} of {k}, counted from 0",
            )
    if row["phase_index"] >= row["n_phases"]:
        yield (
            "phase",
            "phase_index",
            f"phase_index is {row['phase_index']:g} with n_phases {row['n_phases']:g}",
        )


def meaning(row: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what of a record contradicts itself.

    The record has no problem of `structure` and `lengths`.
    """
    yield from _phase(row)
    yield from _frames(row)
    yield from _answer(row)
    if row["n_options"] == 1:
        yield (
            "options",
            "n_options",
            "n_options is 1: there is nothing to choose, and reports leave the "
            "question out of every rate",
        )
    same = row.get("same_options")
    if same is not None and not all(
        first <= k and same[int(first)] == first for k, first in enumerate(same)
    ):
        yield (
            "same_options",
            "same_options",
            f"same_options is {shorten(same)}: each must name the first option that "
            "reads the same",
        )


def _phase(row: Mapping[str, Any]) -> Iterator[Problem]:
    if row["phase"] is None:
        return
    num, den = map(int, row["phase"])
    n_phases, index = int(row["n_phases"]), int(row["phase_index"])
    origin = row.get("origin")
    if origin is None:  # any origin in [0, 1) will do
        if not index * den <= num * n_phases < (index + 1) * den:
            yield (
                "phase",
                "phase",
                f"phase is {num}/{den}, outside of part {index} of {n_phases} of a "
                "step",
            )
        return
    top, bottom = map(int, origin)
    if top >= bottom:
        yield "phase", "origin", f"origin is {top}/{bottom}, not below 1"
        return
    if num * n_phases * bottom != (index * bottom + top) * den:
        wanted = (index + Fraction(top, bottom)) / n_phases
        yield (
            "phase",
            "phase",
            f"phase is {num}/{den}, not (phase_index + origin) / n_phases = {wanted}",
        )


def _frames(row: Mapping[str, Any]) -> Iterator[Problem]:
    indices, times_s = row.get("frame_indices"), row.get("frame_times_s")
    budget, n_frames = row["budget"], row.get("n_frames")
    if indices is not None:
        if budget is not None and len(indices) != budget:
            yield (
                "frames",
                "frame_indices",
                f"frame_indices has {len(indices)} frames with budget {budget:g}",
            )
        if n_frames is not None and indices and max(indices) >= n_frames:
            yield (
                "frames",
                "frame_indices",
                f"frame_indices goes to {max(indices):g} of {n_frames:g} frames, "
                "counted from 0",
            )
        if any(b < a for a, b in pairwise(indices)):
            yield "frames", "frame_indices", "frame_indices does not ascend"
    if times_s is not None and indices is not None and len(times_s) != len(indices):
        yield (
            "frames",
            "frame_times_s",
            f"frame_times_s has {len(times_s)} times for {len(indices)} frames",
        )
    damaged = row.get("damaged_frames")
    if damaged and indices is not None and not set(damaged) <= set(indices):
        yield (
            "frames",
            "damaged_frames",
            "damaged_frames names frames that frame_indices does not",
        )


def _answer(row: Mapping[str, Any]) -> Iterator[Problem]:
    values, answer = row["logprobs"], row["answer"]
    generated = row.get("path", "logit") == "generate"
    if answer is not None and row.get("invalid") is not None:
        yield (
            "answer",
            "invalid",
            f"invalid is {shorten(row['invalid'])} though there is an answer",
        )
    if values is None:
        if answer is not None and not generated:
            yield (
                "answer",
                "logprobs",
                'logprobs is null though there is an answer and path is not "generate"',
            )
        return
    finite = [value for value in values if value is not None]
    if not finite:
        yield "logprobs", "logprobs", "no option has any probability"
        return
    yield from above_zero(row)
    if generated:
        return
    if answer is None:
        yield "answer", "answer", "answer is null though there are log-probabilities"
        return
    position = list(row["order"]).index(answer)
    if values[position] is None or values[position] < max(finite) - _TIE_NATS:
        best = row["order"][values.index(max(finite))]
        yield (
            "answer",
            "answer",
            f"answer is {answer:g}, and the most probable option is {best:g}",
        )


def above_zero(row: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield log-probabilities that are none, which no reader takes either."""
    values = [v for v in row["logprobs"] or () if v is not None and math.isfinite(v)]
    if values and max(values) > ABOVE_ZERO:
        yield (
            "logprobs",
            "logprobs",
            f"a log-probability is {max(values):.6g}; it must be <= 0. Logits need a "
            "log-softmax first, losses a change of sign",
        )


def _not_finite(value: Any) -> str | None:
    """Name the first NaN or infinity in a value that should be numbers."""
    values: Sequence[Any] = value if type(value) is list else [value]
    for part in values:
        if type(part) is float and not math.isfinite(part):
            return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(part, "NaN")
    return None


def shorten(value: Any) -> str:
    """Show a value in at most `_MAX_VALUE` characters."""
    text = repr(value)
    return text if len(text) <= _MAX_VALUE else text[: _MAX_VALUE - 3] + "..."
