"""Film strips: the frames that each phase of a question showed, in one picture."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion._checks import warn
from phasefusion._video_digest import digest_of_file
from phasefusion._wording import by_number, counted
from phasefusion.contact import png_bytes
from phasefusion.errors import PhaseFusionError, RecordWarning
from phasefusion.records import iter_passes
from phasefusion.records.questions import QuestionTexts

#: Longest side of one frame in a strip.
FRAME_PX = 112
#: Frames that a strip has at most; of longer passes evenly spaced ones are shown.
MAX_FRAMES = 32
_JPEG_QUALITY = 72
_OTHER_FILE = "is not the file that was scored"
_OTHER_FILES = "are not the files that were scored"
#: Videos that a warning names.
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Picture:
    """Bytes of a picture, its media type, and its name as a file."""

    data: bytes
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Strip:
    """The frames of one phase of one item, or why there are none.

    Attributes
    ----------
    item : int
        Number of the item in the report.
    phase : int
    places : tuple of int
        Which of the frames of the pass are shown.
    frames : tuple of int
        Their indices, in the order of the picture.
    times_s : tuple of float
        Their presentation times; empty where not recorded.
    n_frames : int
        Frames that the pass had.
    picture : Picture or None
    width_px, height_px : int
        Of the picture.
    note : str
        Why there is no picture, or what is odd about it.
    digest : str or None
        Of the file that was scored, where recorded.
    """

    item: int
    phase: int
    places: tuple[int, ...]
    frames: tuple[int, ...]
    times_s: tuple[float, ...]
    n_frames: int
    picture: Picture | None = None
    width_px: int = 0
    height_px: int = 0
    note: str = ""
    digest: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return all but the picture as JSON values."""
        return {
            "phase": self.phase,
            "frames": self.frames,
            "times": self.times_s,
            "n": self.n_frames,
            "w": self.width_px,
            "h": self.height_px,
            "note": self.note,
        }


def film_strips(
    run: Path,
    items: Sequence[Mapping[str, Any]],
    texts: QuestionTexts,
    n_strips: int,
    explained: Collection[int] = (),
) -> list[Strip]:
    """Decode the strips of the least stable items.

    Parameters
    ----------
    run : Path
    items : sequence of mapping
        Of `page_data`.
    texts : QuestionTexts
        Where the videos are.
    n_strips : int
        Items that get strips.
    explained : collection of int
        Items that get them whatever their place; none where `n_strips` is 0.

    Returns
    -------
    list of Strip
        One a phase. A video that is not there, does not decode or is another file than
        the one that was scored gives strips without a picture that say so.

    Warns
    -----
    RecordWarning
        If videos are other files.
    """
    if not n_strips or not texts.items:
        return []
    chosen = sorted(range(len(items)), key=lambda i: (-_instability(items[i]), i))
    numbers = sorted({*chosen[:n_strips], *explained})
    wanted = {(items[i]["benchmark"], items[i]["id"]): i for i in numbers}
    by_video: dict[str, list[Strip]] = {}
    for key, strip in _recorded(run, wanted):
        question = texts.items.get(key)
        if question is not None:
            by_video.setdefault(question.video, []).append(strip)
    made, changed = [], []
    for video, strips in by_video.items():
        now = digest_of_file(video)
        others = [one for one in strips if now and one.digest not in (None, now)]
        if others:
            changed.append(video)
        made += [_without(one, f"No frames: {video} {_OTHER_FILE}") for one in others]
        same = [one for one in strips if one not in others]
        made += _decoded(video, same) if same else []
    if changed:
        more = ", ..." if len(changed) > _SHOWN else ""
        warn(
            f"{counted(len(changed), 'video')} "
            f"{by_number(len(changed), _OTHER_FILE, _OTHER_FILES)}: "
            f"{', '.join(changed[:_SHOWN])}{more}; the page shows no frames of another "
            "file: put the old one back and write the page again",
            RecordWarning,
        )
    return sorted(made, key=lambda one: (one.item, one.phase))


def _instability(item: Mapping[str, Any]) -> float:
    """Phase flips count most, then what half a step changes, then the order."""
    weights = {"phase_flip": 4.0, "half_step": 2.0, "order_flip": 1.0}
    return sum(weight * (item[name] or 0.0) for name, weight in weights.items())


def _recorded(
    run: Path, wanted: Mapping[tuple[str, str], int]
) -> Iterator[tuple[tuple[str, str], Strip]]:
    """Yield what each wanted phase was shown, by the first pass that says it."""
    seen: set[tuple[int, int]] = set()
    for row in iter_passes(run):
        key = (str(row["benchmark"]), str(row["question_id"]))
        item = wanted.get(key)
        if item is None or row["arm"] not in ("phase", "single") or row.get("shifted"):
            continue
        frames = row.get("frame_indices")
        place = (item, int(row["phase_index"]))
        if not frames or place in seen:
            continue
        seen.add(place)
        times = row.get("frame_times_s") or []
        places = range(len(frames))
        if len(frames) > MAX_FRAMES:
            spread = np.linspace(0, len(frames) - 1, MAX_FRAMES)
            places = spread.round().astype(int).tolist()
        yield (
            key,
            Strip(
                *place,
                tuple(places),
                tuple(int(frames[i]) for i in places),
                tuple(float(times[i]) for i in places) if times else (),
                len(frames),
                digest=row.get("video_digest"),
            ),
        )


def _decoded(video: str, strips: Sequence[Strip]) -> Iterator[Strip]:
    """Decode the frames of all strips of one video together."""
    from phasefusion.video import Video

    wanted = np.unique([index for one in strips for index in one.frames])
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with Video(video) as opened:
                frames = opened.read(wanted, size=_small, on_error="mark")
        odd = " ".join(" ".join(str(one.message).split()) for one in caught)
    except (OSError, IndexError, ValueError, PhaseFusionError, MemoryError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        for one in strips:
            yield _without(one, f"No frames: {why}")
        return
    pixels = np.asarray(frames, np.uint8)
    for one in strips:
        rows = pixels[np.searchsorted(wanted, one.frames)]
        strip = np.concatenate(list(rows), axis=1)
        yield replace(
            one,
            picture=_picture(strip),
            width_px=strip.shape[1],
            height_px=strip.shape[0],
            note=odd,
        )


def _without(strip: Strip, note: str) -> Strip:
    return replace(strip, note=note)


def _small(height_px: int, width_px: int, _: int) -> tuple[int, int]:
    """Size of a frame whose longer side is `FRAME_PX` at most."""
    scale = min(1.0, FRAME_PX / max(height_px, width_px))
    return max(1, round(height_px * scale)), max(1, round(width_px * scale))


def _picture(pixels: NDArray[np.uint8]) -> Picture:
    """Compress as JPEG where Pillow is installed, else as PNG."""
    pixels = np.ascontiguousarray(pixels)
    try:
        from PIL import Image
    except ImportError:
        data, kind, ending = png_bytes(pixels), "image/png", "png"
    else:
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, "JPEG", quality=_JPEG_QUALITY, optimize=True)
        data, kind, ending = out.getvalue(), "image/jpeg", "jpg"
    name = f"{hashlib.sha256(data).hexdigest()[:20]}.{ending}"
    return Picture(data, kind, name)
