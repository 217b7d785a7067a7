"""What frames add to answers, as the film strips of the page show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from phasefusion.records.saliency import read_saliency
from phasefusion.report.html.strips import Strip

#: Decimals of a share, in nats.
_DIGITS = 3
_HOW = {
    ("occlusion", "neighbour"): "occlusion by the frame before",
    ("occlusion", "mean"): "occlusion by the mean colour",
    ("occlusion", "exchange"): "occlusion by the other phase's frame",
    ("gradient", None): "gradient times pixels",
}

#: Rows of a run by item and phase of the page.
Shares = Mapping[tuple[int, int], Sequence[Mapping[str, Any]]]


def frame_shares(run: Path, items: Sequence[Mapping[str, Any]]) -> Shares:
    """Read the saliency of a run, if it has any.

    Parameters
    ----------
    run : Path
    items : sequence of mapping
        Of `page_data`.

    Returns
    -------
    mapping
        By number of the item and phase. Rows have ``kind``, ``how``, ``option``,
        ``against`` and ``other`` (the phase that differs) of a flip and whether this is
        its ``first`` phase, ``base``, ``order``, ``frames`` and ``values`` of all
        frames, and ``note``.
    """
    numbers = {(item["benchmark"], item["id"]): i for i, item in enumerate(items)}
    found: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for row in read_saliency(run):
        i = numbers.get((row["benchmark"], row["question_id"]))
        if i is None:
            continue
        is_flip = row["kind"] == "flip"
        for n, s in enumerate(row["phases"]):
            how = (row["method"], row["replace"])
            found.setdefault((i, s), []).append(
                {
                    "kind": row["kind"],
                    "how": _HOW.get(how, " ".join(map(str, how))),
                    "option": row["options"][0],
                    "against": row["options"][1] if is_flip else -1,
                    "other": row["phases"][1 - n] if is_flip else -1,
                    "first": n == 0,
                    "base": row["base"][n],
                    "order": row["order"],
                    "frames": row["frame_indices"][n],
                    "values": row["values"][n],
                    "shared": row.get("shared_frames", 1),
                    "note": row.get("note", ""),
                }
            )
    return found


def shown(shares: Shares, strip: Strip) -> list[dict[str, Any]]:
    """Return the rows of one strip, with the values of the frames that it shows.

    Rows about other frames than the strip's are left out.
    """
    found = []
    for row in shares.get((strip.item, strip.phase), ()):
        frames, values = row["frames"], row["values"]
        if len(frames) != strip.n_frames:
            continue
        if tuple(frames[i] for i in strip.places) != strip.frames:
            continue
        made = {name: row[name] for name in row if name != "frames"}
        made["values"] = [_rounded(values[i]) for i in strip.places]
        made["base"] = _rounded(row["base"])
        found.append(made)
    return found


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
