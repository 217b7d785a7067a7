"""A report as titled tables of text, the same for the terminal and for Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from phasefusion._wording import counted
from phasefusion.report.rates import INTERVALS, P_SHOWN, TESTS
from phasefusion.report.scored import MANY_TIES
from phasefusion.stats._answers import half_up

UNDEFINED = "–"
#: Columns other than the first that hold text.
TEXT_COLUMNS = ("reason", "value", "other", "this")
_MAX_DROPPED = 20
#: Smallest probability that three digits show.
_LEAST_MASS = 0.001
#: Options up to which the letters stand side by side.
_MAX_LETTERS_WIDE = 8
#: Orders in which every option stands at every place equally often.
_BALANCED = ("latin", "cyclic", "all")


@dataclass(frozen=True, slots=True)
class Section:
    """One table: the first column is text, the others are numbers.

    Attributes
    ----------
    title : str
    columns : tuple of str
    rows : tuple of tuple of str
    note : str
        How to read the table.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def sections(numbers: Mapping[str, Any]) -> list[Section]:
    """Lay the numbers of a report out; parts that were not measured are left out."""
    from phasefusion.report.anchors import anchor_sections
    from phasefusion.report.environment import against_sections
    from phasefusion.report.environment import section as environment_section
    from phasefusion.report.figures.table import sections as figure_sections
    from phasefusion.report.generated import section as generated_section

    figure = numbers.get("figure")
    own = figure_sections(figure)
    is_further = figure is not None and figure["is_further"]
    found = [
        *([] if is_further else own),
        *anchor_sections(numbers.get("anchors")),
        generated_section(numbers.get("generated")),
        _accuracy(numbers),
        _comparisons(numbers),
        _half_step(numbers),
        _phase_flips(numbers),
        _order_flips(numbers),
        _options(numbers),
        _consistency(numbers),
        _posteriors(numbers),
        _letters(numbers),
        *(own if is_further else []),
        _types(numbers),
        *_imported(numbers),
        _dropped(numbers),
        environment_section(numbers["environment"]),
        *against_sections(numbers.get("against")),
    ]
    return [section for section in found if section is not None and section.rows]


def percent(value: float) -> str:
    """Format a fraction as percent with one digit, half up; undefined is a dash.

    >>> percent(0.18225), percent(0.0005), percent(float("nan"))
    ('18.2', '0.1', '–')
    """
    return UNDEFINED if math.isnan(value) else half_up(100 * value, 1)


def _number(value: float | None, digits: int = 2) -> str:
    if value is None or not math.isfinite(value):
        return UNDEFINED
    return half_up(value, digits)


def _points(value: float) -> str:
    if math.isnan(value):
        return UNDEFINED
    text = half_up(value, 1)
    return text if float(text) <= 0 else f"+{text}"


def _p(value: float) -> str:
    if math.isnan(value):
        return UNDEFINED
    if value < 1e-4:
        return "< 0.0001"
    return f"{value:.4f}" if value < 0.1 else f"{value:.2f}"


def _rate(rate: Mapping[str, Any]) -> str:
    """Format "57.3 [52.1, 62.4]"."""
    if math.isnan(rate["value"]) or "low" not in rate:  # pairs in reports of before
        return percent(rate["value"])
    return f"{percent(rate['value'])} [{percent(rate['low'])}, {percent(rate['high'])}]"


def _intervals(numbers: Mapping[str, Any]) -> str:
    """Say what the intervals of the general tables are."""
    return f"{INTERVALS[_cluster(numbers)]}."


def _cluster(numbers: Mapping[str, Any]) -> str:
    """Tell by what the report is clustered; those of before were not."""
    return str(numbers["items"].get("cluster", "question"))


def _accuracy(numbers: Mapping[str, Any]) -> Section:
    rows = []
    wrong = numbers["items"]["missing_answers"] == "wrong"
    other = "answered" if wrong else "missing_wrong"
    # both ways to count what is missing, where they are not the same
    differs = any(
        values[other]["order_averaged"]["n"] != values["order_averaged"]["n"]
        for values in numbers["accuracy"].values()
    )
    for arm, values in numbers["accuracy"].items():
        cost = numbers["cost"].get(arm, {})
        rows.append(
            (
                arm,
                str(cost.get("frames", UNDEFINED)),
                str(cost.get("attention_units", UNDEFINED)),
                _rate(values["order_averaged"]),
                _rate(values["first_order"]),
                percent(values["consensus"]["value"]),
                str(values["consensus"]["n"]),
                *(_other_way(values[other]) if differs else ()),
            )
        )
    which = (
        "Questions that every arm was asked; a missing answer counts as wrong. "
        if wrong
        else "Questions that carry every arm; those that lack a pass are left out. "
    )
    if not any(
        values["order_averaged"]["n"] for values in numbers["accuracy"].values()
    ):
        items = numbers["items"]
        if items["without_gold"] == items["with_passes"]:
            which = "No question has a right answer, so there is no accuracy. "
    label = "answered only, %" if wrong else "missing as wrong, %"
    return Section(
        "Accuracy",
        (
            "arm",
            "frames",
            "units",
            "all orders, %",
            "first order, %",
            "consensus",
            "n",
            *((label, "of") if differs else ()),
        ),
        tuple(rows),
        f"{which}All orders: mean over the option orders; consensus: the plurality "
        f"over them, in percent. {_intervals(numbers)} Units of attention: frames "
        "squared, summed over passes.",
    )


def _other_way(values: Mapping[str, Any]) -> tuple[str, str]:
    """Accuracy over all orders with the other count of missing answers, and its n."""
    rate = values["order_averaged"]
    return percent(rate["value"]), str(rate["n"])


def _comparisons(numbers: Mapping[str, Any]) -> Section | None:
    cluster = _cluster(numbers)
    p = P_SHOWN[cluster]
    rows = [
        (
            entry["against"],
            _points(entry["order_averaged_points"]),
            _points(entry["consensus"]["points"]),
            str(entry["consensus"]["only_arm"]),
            str(entry["consensus"]["only_against"]),
            _p(entry["consensus"][p]),
            _points(entry["first_order"]["points"]),
            _p(entry["first_order"][p]),
            str(entry["n"]),
        )
        for entry in numbers["comparisons"]
    ]
    pool = numbers["comparisons"][0]["arm"] if rows else "fusion"
    return Section(
        f"{pool.capitalize()} against the other arms",
        (
            "arm",
            "all orders",
            "consensus",
            "gained",
            "lost",
            "p",
            "first order",
            "p",
            "n",
        ),
        tuple(rows),
        f"Points of accuracy, {pool} minus the other arm, on the same questions. "
        f"Gained and lost: consensus answers that only {pool}, and only the other arm, "
        f"has right; {TESTS[cluster]}.",
    )


def _half_step(numbers: Mapping[str, Any]) -> Section | None:
    half = numbers["half_step"]
    if half is None:
        return None
    cluster = _cluster(numbers)
    rows = []
    for arm, values in half["arms"].items():
        against = half["fusion_against"].get(arm)
        shift = values["shift"]
        rows.append(
            (
                arm,
                _rate(values["consensus"]),
                percent(values["passes"]["value"]),
                UNDEFINED if shift["steps"] is None else shift["steps"],
                _number(shift["frames"]),
                _number(shift["seconds"], 3),
                UNDEFINED if against is None else _p(against[P_SHOWN[cluster]]),
                str(values["consensus"]["n"]),
            )
        )
    return Section(
        "Answers changed by a half-step shift of the grid",
        (
            "arm",
            "consensus, %",
            "passes, %",
            "steps",
            "frames",
            "seconds",
            "p",
            "n",
        ),
        tuple(rows),
        "Every arm is moved by half a step of its own grid, or by half a dense step "
        "for an even number of phases, which half a step would map onto themselves. "
        "Passes: at the same option order, mean over orders. Frames and seconds are "
        f"medians over questions. {_intervals(numbers)} {TESTS[cluster]}, "
        "on the changes, against fusion.",
    )


def _phase_flips(numbers: Mapping[str, Any]) -> Section | None:
    flips = numbers["phase_flips"]
    if flips is None:
        return None
    rows = [
        (
            name,
            _rate(flips[key]["pairwise"]),
            _rate(flips[key]["any"]),
            str(flips[key]["any"]["n"]),
        )
        for key, name in (("consensus", "consensus answers"), ("passes", "passes"))
    ]
    rows += [
        (
            f"phases {' and '.join(map(str, pair['phases']))}",
            _rate(pair),
            UNDEFINED,
            str(pair["n"]),
        )
        for pair in flips["pairs"]
    ]
    return Section(
        "Phase flips",
        ("answers", "two phases, %", "all phases, %", "n"),
        tuple(rows),
        "Chance that two phases differ, and share of questions that change over all of "
        "them; questions with an answer in every phase and order. Passes are compared "
        "at the same option order, mean over orders; pairs are of consensus answers. "
        + _intervals(numbers),
    )


def _order_flips(numbers: Mapping[str, Any]) -> Section | None:
    flips = numbers["order_flips"]
    if flips is None:
        return None
    rows = [
        (
            "phases, mean" if arm == "phases" else arm,
            _rate(values["pairwise"]),
            _rate(values["any"]),
            str(values["any"]["n"]),
        )
        for arm, values in flips["arms"].items()
    ]
    return Section(
        "Order flips",
        ("arm", "two orders, %", "all orders, %", "n"),
        tuple(rows),
        "At a fixed phase, over distinct option orders: chance that two orders differ, "
        f"and share of questions that change under any. {_intervals(numbers)}",
    )


def _options(numbers: Mapping[str, Any]) -> Section | None:
    flips = numbers["order_flips"]
    if flips is None:
        return None
    rows = [
        (
            k,
            f"{values['orders']} of {_count(values['orders_possible'])}",
            _rate(values["pairwise"]),
            _rate(values["any"]),
            str(values["any"]["n"]),
        )
        for k, values in flips["by_options"].items()
    ]
    return Section(
        "Order flips by number of options",
        ("options", "orders", "two orders, %", "all orders, %", "n"),
        tuple(rows),
        "Orders: scored and possible. Where all were scored the rate over all orders "
        f"is exact; where some were it is a lower bound. {_intervals(numbers)}",
    )


def _count(value: float) -> str:
    """Format a count; one that is no exact integer any more with three digits."""
    return str(value) if isinstance(value, int) else f"{value:.3g}"


def measures_consistency(numbers: Mapping[str, Any]) -> bool:
    """Whether any question has two phases, or two orders, to agree."""
    values = numbers["consistency"]
    return bool(values["fpc"]["pairwise"]["n"] or values["ooc"]["pairwise"]["n"])


def _consistency(numbers: Mapping[str, Any]) -> Section | None:
    values = numbers["consistency"]
    if not measures_consistency(numbers):
        return None  # the first lines say so
    rows = [
        (
            name,
            *(_agreement(values[key][kind]) for kind in _KINDS),
            str(values[key]["pairwise"]["n"]),
        )
        for key, name in (
            ("fpc", "frame phase (FPC)"),
            ("ooc", "option order (OOC)"),
        )
    ]
    notes = [_intervals(numbers)]
    if values["rating"] is not None:
        notes.append(
            f"Rating: {values['rating']}; inconsistency points to: "
            f"{values['attribution']}. {_THRESHOLDS}"
        )
    elif values["tied_passes"] >= MANY_TIES:
        notes.append(
            f"Not rated: a tie rule chose {percent(values['tied_passes'])} % of the "
            "answers."
        )
    if not math.isnan(values["robust"]):
        notes.append(
            f"Posterior pooled over phases and orders: above 0.75 (robust) in "
            f"{percent(values['robust'])} % of the questions, below 0.55 (fragile) in "
            f"{percent(values['fragile'])} %."
        )
    if values["configurations"] > 1:
        notes.append(
            f"Accuracy over {_configurations(values)}: mean "
            f"{percent(values['mean_accuracy'])} %, standard deviation "
            f"{_number(100 * values['accuracy_sd'], 2)} points."
        )
    return Section(
        "Consistency",
        ("over", "two passes agree", "all passes agree", "n"),
        tuple(rows),
        " ".join(notes),
    )


def _agreement(rate: Mapping[str, Any]) -> str:
    """Format "0.832 [0.763, 0.901]"."""
    if math.isnan(rate["value"]):
        return UNDEFINED
    value, low, high = (_number(rate[name], 3) for name in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


_KINDS = ("pairwise", "unanimous")
_THRESHOLDS = (
    "The rating goes by the agreement of two passes: high when the smaller of FPC and "
    "OOC is at least 0.85 and the greater at least 0.90, low when the smaller is below "
    "0.75, else medium. Below 0.85 an axis is unstable and above 0.90 stable: only "
    "phases unstable and orders stable points to visual, the reverse to language, both "
    "unstable to cross-modal alignment, anything else to none."
)


def _configurations(values: Mapping[str, Any]) -> str:
    """Name what the accuracies were taken over.

    Orders that were drawn by question have a number in common and nothing else.
    """
    phases = values["configuration_phases"]
    orders = values["configurations"] // phases
    which = (
        "those that all questions share"
        if values["shared_orders"]
        else "numbered by question, for questions have orders of their own"
    )
    arm = values["configuration_arm"]
    of = "" if arm in ("phases", "single") else f" of {arm}"
    return (
        f"{values['configurations']} configurations ("
        f"{counted(phases, 'phase')} x {counted(orders, 'option order')}, {which}){of}"
    )


def _posteriors(numbers: Mapping[str, Any]) -> Section:
    rows = []
    for arm in numbers["accuracy"]:
        margins = numbers["margins_nats"].get(arm, {})
        mass = numbers["option_mass"].get(arm, {})
        if arm.startswith("phase ") or (arm == "single" and not mass):
            mass = numbers["option_mass"].get("phase", {})
        ties = numbers["ties"][arm]
        rows.append(
            (
                arm,
                _number(margins.get("q25")),
                _number(margins.get("median")),
                _number(margins.get("q75")),
                percent(ties["passes"]),
                percent(ties["consensus"]),
                _mass(mass.get("median")),
                _mass(mass.get("min")),
            )
        )
    return Section(
        "Margins, ties and option mass",
        (
            "arm",
            "margin q25",
            "median",
            "q75",
            "ties, %",
            "of consensus, %",
            "mass",
            "min",
        ),
        tuple(rows),
        "Margins of the first order, in nats. Mass: probability that the model gives "
        "to the options together, median and minimum over passes of all phase views.",
    )


def _mass(value: float | None) -> str:
    """Format a probability with three digits; one that is small is not 0.000."""
    if value is not None and 0 < value < _LEAST_MASS:
        return f"< {_LEAST_MASS}"
    return _number(value, 3)


def _letters(numbers: Mapping[str, Any]) -> Section:
    by_options: Mapping[str, Any] = numbers["letters"]
    width = max(map(int, by_options), default=0)
    letters = [chr(ord("A") + k) for k in range(width)]
    note = "Over all recorded passes."
    orders = numbers["card"]["orders"]
    if orders is not None and orders["kind"] in _BALANCED:
        note = (
            f"Over all recorded passes; in {orders['kind']} orders every option stands "
            "at every letter equally often, so a model without a letter preference "
            "gives every letter the same share."
        )
    if width > _MAX_LETTERS_WIDE:
        return _letters_tall(by_options, letters, note)
    rows = [
        (
            k,
            *(percent(share) for share in values["shares"]),
            *[UNDEFINED] * (width - len(values["shares"])),
            str(values["n"]),
        )
        for k, values in by_options.items()
    ]
    return Section(
        "Letters answered",
        ("options", *(f"{letter}, %" for letter in letters), "passes"),
        tuple(rows),
        note,
    )


def _letters_tall(
    by_options: Mapping[str, Any], letters: Sequence[str], note: str
) -> Section:
    """Lay many letters out as rows, a row a number of options and letter."""
    rows = [
        (k, letter, percent(share), str(values["n"]))
        for k, values in by_options.items()
        for letter, share in zip(letters, values["shares"], strict=False)
    ]
    columns = ("options", "letter", "answered, %", "passes")
    return Section("Letters answered", columns, tuple(rows), note)


def _types(numbers: Mapping[str, Any]) -> Section:
    rows = []
    for kind, values in numbers["by_type"].items():
        rows.append(
            (
                kind,
                *(_of(values["accuracy"], arm) for arm in ("single", "fusion")),
                percent(values["phase_flips"]["value"]),
                percent(values["order_flips"]["value"]),
                *(_of(values["half_step"], arm) for arm in ("single", "fusion")),
                str(values["n"]),
            )
        )
    return Section(
        "By type of question",
        (
            "type",
            "single",
            "fusion",
            "phase flips",
            "order flips",
            "shift single",
            "shift fusion",
            "n",
        ),
        tuple(rows),
        "In percent. Single and fusion: accuracy over all orders; phase flips between "
        "two phases; order flips over all orders; shift: answers that half a step "
        "changes.",
    )


def _imported(numbers: Mapping[str, Any]) -> list[Section]:
    if "imported" not in numbers:
        return []
    from phasefusion.report.foreign import foreign_sections

    return foreign_sections(numbers["imported"], _cluster(numbers))


def _of(rates: Mapping[str, Any], arm: str) -> str:
    return percent(rates[arm]["value"]) if arm in rates else UNDEFINED


def _dropped(numbers: Mapping[str, Any]) -> Section:
    dropped: Sequence[Mapping[str, Any]] = numbers["items"]["dropped"]
    title = f"Left out ({len(dropped)})"
    note = "Questions that lack a pass; rates that need it leave them out."
    if numbers["items"]["missing_answers"] == "wrong":
        title = f"Not answered ({len(dropped)})"
        note = (
            "Questions that lack an answer; accuracy counts them as wrong where they "
            "were asked, rates of changed answers leave them out."
        )
    if len(dropped) > _MAX_DROPPED:
        note += f" {len(dropped) - _MAX_DROPPED} more are in the JSON report."
    return Section(
        title,
        ("question", "missing passes", "reason"),
        tuple(
            (
                f"{entry['benchmark']}/{entry['question_id']}",
                str(entry["missing_passes"]),
                entry["reason"],
            )
            for entry in dropped[:_MAX_DROPPED]
        ),
        note,
    )
