"""The sampling card: what a reader must know to repeat the frames and the prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from phasefusion._wording import by_number
from phasefusion.grid import PhaseGrid
from phasefusion.records import ARMS as RECORDED
from phasefusion.records.merging import contradictions
from phasefusion.records.scorers import shows_options
from phasefusion.report.scored import scoring_sentences

_ORIGINS = {
    Fraction(0): "left endpoints",
    Fraction(1, 2): "midpoints",
}

#: What a backend is in a sentence: its rounding is repeated, no package is needed.
_PIXELS = {"backend": "rounding of"}
#: What chooses the size of frames where none is given.
_LIMITS = {"min_pixels", "max_pixels", "per_clip", "video_tokens"}


def sampling_card(run: Mapping[str, Any]) -> dict[str, Any]:
    """Collect the card from ``run.json``.

    Parameters
    ----------
    run : mapping
        ``run.json``.

    Returns
    -------
    dict
        With the sentence for a paper under "text"; None for what was not recorded.
    """
    settings = run.get("settings", {})
    scorer = settings.get("scorer", {})
    versions = run.get("versions", {})
    card: dict[str, Any] = {
        "protocol": settings.get("protocol"),
        **_convention(settings.get("grid")),
        "grid": settings.get("grid"),
        "dense": settings.get("dense"),
        "arms": _further(settings),
        "orders": settings.get("orders"),
        "seed": settings.get("seed"),
        "model": scorer.get("path") or scorer.get("model") or scorer.get("class"),
        "score": scorer.get("score"),
        "prior": scorer.get("prior"),
        "scored": [*scoring_sentences(scorer), *_subtitles(run), *_merged(run)],
        "shows_options": shows_options(scorer),
        "prompt": scorer.get("prompt"),
        "pixels": scorer.get("pixels"),
        "decoder": versions.get("ffmpeg"),
        "phasefusion": versions.get("phasefusion"),
        "questions_sha256": settings.get("questions_sha256"),
    }
    card["text"] = _text(card)
    return card


def _subtitles(run: Mapping[str, Any]) -> list[str]:
    """Say that subtitles were no input, where questions have some."""
    about: Any = run.get("questions")
    for name in ("dataset", "with_subtitles"):
        about = about.get(name) if isinstance(about, Mapping) else None
    return ["Subtitles of the questions were not shown to the model."] if about else []


def _merged(run: Mapping[str, Any]) -> list[str]:
    """Say that a run is of several that contradict each other."""
    said = contradictions(run)
    return [f"The run is none of one making: it was {said}."] if said else []


def _convention(record: Mapping[str, Any] | None) -> dict[str, Any]:
    """Name the convention of a grid, its phases and the frames of a pass."""
    if record is None:
        return {"convention": None, "phases_of_a_step": None, "frames_a_pass": None}
    grid = PhaseGrid.from_dict(record)
    return {
        "convention": _ORIGINS.get(grid.origin, f"origin {grid.origin}"),
        "phases_of_a_step": [str(phase) for phase in grid.phase_fractions],
        "frames_a_pass": grid.budget,
    }


def _text(card: Mapping[str, Any]) -> str:
    if card["grid"] is None:
        return "The run does not say how its frames were sampled."
    grid = PhaseGrid.from_dict(card["grid"])
    origin = _ORIGINS.get(grid.origin, f"origin {grid.origin} of a dense step")
    if any("draw" in entry for entry in card["arms"]):
        return _joined(_drawn_text(grid), card)
    phases = ", ".join(str(phase) for phase in grid.phase_fractions)
    what = "frames" if grid.by == "frames" else "time"
    if grid.phases == 1:
        frames = (
            f"{grid.budget} frames were taken on a uniform grid that divides the "
            f"{what} of the clip equally ({origin}; phase {phases} of a step)"
        )
    else:
        frames = (
            f"Frames were taken on {grid.phases} uniform grids of {grid.budget} frames "
            f"that divide the {what} of the clip equally, the polyphase components of "
            f"one {grid.phases * grid.budget}-frame grid ({origin}; phases {phases} of "
            "a step)"
        )
    return _joined(f"{frames}.", card)


def _joined(frames: str, card: Mapping[str, Any]) -> str:
    return " ".join(part for part in (frames, *_rest(card)) if part)


def _rest(card: Mapping[str, Any]) -> list[str]:
    """Say what else there is to a pass than its grid."""
    return [
        _arms_text(card["arms"]),
        _orders_text(card),
        *card["scored"],
        _decoder_text(card["decoder"]),
        _pixels_text(card["pixels"]),
        _model_text(card),
    ]


def _further(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Arms that differ from the usual ones in more than their grid."""
    return [
        dict(entry)
        for entry in settings.get("arms", ())
        if entry["arm"] not in RECORDED or "draw" in entry
    ]


def _drawn_text(grid: PhaseGrid) -> str:
    more = f"{grid.phases} uniform grids"
    grids = by_number(grid.phases, "one uniform grid", more)
    return (
        f"Frames were taken on {grids} of {grid.budget} frames that divide the "
        f"{'frames' if grid.by == 'frames' else 'time'} of the clip equally, at an "
        "origin drawn at random for every video."
    )


def _arms_text(arms: Sequence[Mapping[str, Any]]) -> str:
    further = [entry for entry in arms if entry["arm"] not in RECORDED]
    names = [entry["arm"] for entry in further]
    text = f"Further arms: {', '.join(names)}." if names else ""
    rules = [entry["anchor"] for entry in further if "anchor" in entry]
    return f"{text} {_anchor_text(rules[0])}" if rules else text


def _anchor_text(rule: Mapping[str, Any]) -> str:
    """Say where the windows of anchored frames are."""
    length = "15 % in the middle of a clip, 10 % elsewhere, of its duration"
    if rule["window"] is not None:
        length = f"{rule['window']} of the clip's duration"
    elif rule["window_s"] is not None:
        length = f"{rule['window_s']} s"
    said = [
        f"{text} {rule[name]!r}"
        for name, text in (
            ("phrase", "the phrase"),
            ("phrase_field", "the phrases in the field"),
            ("times_s", "the time"),
            ("times_field", "the times in the field"),
        )
        if rule[name] is not None
    ]
    by = f"; looked for: {' and '.join(said)}" if said else ""
    return (
        "Anchored frames are those of grids with left endpoints in a window at an "
        f"anchor of the video (length: {length}), found by the first of "
        f"{', '.join(rule['methods'])} that gives one{by}."
    )


def _orders_text(card: Mapping[str, Any]) -> str:
    orders = card["orders"]
    if orders is None or not card["shows_options"]:
        return ""
    kind = orders["kind"]
    if kind == "identity":
        return "Options were shown in the given order."
    if kind == "shared":
        return (
            f"Options were shown in the same {orders['n']} seeded orders for every "
            f"question (seed {orders['seed']}, repeats left out)."
        )
    if kind == "ends":
        return (
            "Options were shown in the given order, and with the first and the last "
            "exchanged."
        )
    if "n" in orders:
        return (
            f"Options were shown in {orders['n']} {kind} orders, unbalanced for "
            f"questions whose number of options does not divide {orders['n']}."
        )
    return f"Options were shown in {kind} orders."


def _model_text(card: Mapping[str, Any]) -> str:
    """Say what answered, to which questions, and what measured it."""
    parts = []
    if card["model"]:
        parts.append(f"Model: {card['model']}")
    if card["questions_sha256"]:
        parts.append(f"questions: sha256 {card['questions_sha256'][:12]}")
    if card["protocol"]:
        version = f" {card['phasefusion']}" if card["phasefusion"] else ""
        parts.append(f"protocol: {card['protocol']} of phasefusion{version}")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _decoder_text(decoder: Any) -> str:
    if isinstance(decoder, Mapping) and decoder:
        names = ", ".join(f"{name} {version}" for name, version in decoder.items())
        return f"Frames were decoded with {names}."
    return ""


def _pixels_text(pixels: Any) -> str:
    if not isinstance(pixels, Mapping) or not pixels:
        return ""
    is_fixed = isinstance(pixels.get("size"), list | tuple)
    parts = ", ".join(
        f"{_PIXELS.get(name, name)} {value}"
        for name, value in pixels.items()
        if value is not None and not (is_fixed and name in _LIMITS)
    )
    return f"Pixels: {parts}."
