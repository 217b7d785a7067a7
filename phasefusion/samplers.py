"""Deployed frame samplers, reproduced bit for bit.

Harnesses and processors that are given one budget and one clip choose different frames.
This registry says which, float quirks included, so that a published number can be tied
to the frames behind it. For measurements use `phasefusion.PhaseGrid`, which is exact.

Families, with N the frames of the clip and b the budget:

========= ======================================= =====================================
left      first frame of each of b equal steps    phase 0
midpoint  middle of each of b equal steps         phase 1/2
endpoint  b frames from 0 to N - 1 inclusive      no phase: drifts from 0 to about 1
interior  b frames with both ends left out        no phase: drifts from about 1 to 0
fps       a fixed stride in seconds               phase 0 of its own step
========= ======================================= =====================================

Read in lmms-eval 75571cfe, VLMEvalKit e8e78f05, qwen-vl-utils 0.0.14 and transformers
5.24.0. Float forms are those of NumPy 2 and of torch 2.13 on x86-64 with AVX2 or
AVX-512. There torch rounds once where ATEN_CPU_CAPABILITY=default, other processors
and GPUs may round twice; the frame can then differ by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasefusion import _checks, _core
from phasefusion._results import Result
from phasefusion._wording import Argument
from phasefusion.errors import GridError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Family", "Sampler", "SamplerRow", "get", "names", "side_by_side"]

Family: TypeAlias = Literal["left", "midpoint", "endpoint", "interior", "fps"]
Fps: TypeAlias = "float | int | Fraction"

# Above this the originals' int32 casts overflow and float64 products lose integers.
_MAX_FRAMES = 2**31 - 1
_MAX_BUDGET = 2**20


@dataclass(frozen=True, slots=True)
class _Ask:
    """One request: N frames, budget b, frames a second of the clip and wanted."""

    n: int
    b: int
    fps: float
    target_fps: float


@dataclass(frozen=True, slots=True)
class Sampler(Result):
    """One deployed sampling convention.

    Attributes
    ----------
    name : str
        Its name in this registry.
    family : {"left", "midpoint", "endpoint", "interior", "fps"}
        What kind of grid it draws, see the module's table.
    formula : str
        The original's expression; N frames, budget b, i the frame's position.
    source : str
        Project and function it was read in.
    short : str
        What it does for a clip of N < b frames.
    quirk : str
        Where it departs from what its formula seems to say; empty if nowhere known.
    needs_fps : bool
        Whether `indices` needs the frame rate of the clip.
    target_fps : float or None
        Frames a second it asks for by default, for samplers that go by frame rate.
    """

    name: str
    family: Family
    formula: str
    source: str
    short: str
    rule: Callable[[_Ask], NDArray[np.int64]] = field(repr=False, compare=False)
    quirk: str = ""
    needs_fps: bool = False
    target_fps: float | None = None

    def indices(
        self,
        n_frames: SupportsIndex,
        budget: SupportsIndex,
        fps: Fps | None = None,
        *,
        target_fps: Fps | None = None,
    ) -> NDArray[np.int64]:
        """Frames that the original asks its decoder for.

        Parameters
        ----------
        n_frames : int
            Frames of the clip, 1 <= N < 2**31.
        budget : int
            Frames asked for, 1 <= b <= 2**20.
        fps : float, int or Fraction, optional
            Frame rate of the clip in frames a second; used where `needs_fps`.
        target_fps : float, int or Fraction, optional
            Frames a second to sample, in place of the sampler's own default.

        Returns
        -------
        indices : ndarray, shape (n,), int64
            Exactly the original's numbers. n may differ from b, and an index may lie
            outside the clip, where that is so in the original; see `quirk`.

        Raises
        ------
        GridError
            If an argument is out of range, the frame rate is missing, or the original
            refuses this clip and budget.

        Examples
        --------
        >>> from phasefusion import samplers
        >>> samplers.get("endpoint-round").indices(300, 8)
        array([  0,  43,  85, 128, 171, 214, 256, 299])
        """
        n, b = _checks.whole("n_frames", n_frames), _checks.whole("budget", budget)
        if not 1 <= n <= _MAX_FRAMES:
            raise GridError(Argument.of("n_frames", n), f" must be in 1..{_MAX_FRAMES}")
        if not 1 <= b <= _MAX_BUDGET:
            raise GridError(Argument.of("budget", b), f" must be in 1..{_MAX_BUDGET}")
        rate = target = 0.0
        if self.needs_fps:
            if fps is None:
                raise GridError(
                    f"sampler {self.name} goes by frame rate; give fps, the frames a "
                    "second of the clip"
                )
            rate = _rate("fps", fps)
        if self.target_fps is not None:
            wanted = self.target_fps if target_fps is None else target_fps
            target = _rate("target_fps", wanted)
        elif target_fps is not None:
            raise GridError(
                f"sampler {self.name} takes no target_fps={target_fps!r}; it goes by "
                "budget alone"
            )
        return self.rule(_Ask(n, b, rate, target))


@dataclass(frozen=True, slots=True, repr=False)
class SamplerRow(Result):
    """What one sampler does with one clip, for tables.

    Attributes
    ----------
    name : str
        Of the sampler.
    family : str
        Its family.
    indices : ndarray, shape (n,), int64
        Its frames; empty where it refuses the clip.
    offsets : ndarray, shape (n,), float64
        How far frame i lies behind frame ``i * N // b`` of the left grid, in steps
        ``N / b``: constant for a grid with a phase, drifting for one without.
    note : str
        What is remarkable about this row, or why it is empty.
    """

    name: str
    family: Family
    indices: NDArray[np.int64]
    offsets: NDArray[np.float64]
    note: str


def names() -> tuple[str, ...]:
    """Names of all samplers, in the order of the registry.

    >>> "qwen-vl-utils" in names()
    True
    """
    return tuple(_REGISTRY)


def get(name: str) -> Sampler:
    """Look a sampler up by its name.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    sampler : Sampler

    Raises
    ------
    GridError
        If there is none of that name.

    Examples
    --------
    >>> get("interior").family
    'interior'
    """
    try:
        return _REGISTRY[name]
    except KeyError:
        raise GridError(
            f"there is no sampler {name!r}; the samplers are {', '.join(_REGISTRY)}"
        ) from None


def side_by_side(
    n_frames: SupportsIndex, budget: SupportsIndex, fps: Fps | None = None
) -> list[SamplerRow]:
    """Every sampler's frames for one clip and budget.

    Parameters
    ----------
    n_frames : int
        Frames of the clip.
    budget : int
        Frames asked for.
    fps : float, int or Fraction, optional
        Frame rate of the clip; samplers that need it are empty rows without it.

    Returns
    -------
    rows : list of SamplerRow
        In the order of `names`.

    Raises
    ------
    GridError
        If `n_frames`, `budget` or `fps` is out of range.

    Examples
    --------
    >>> row = side_by_side(300, 8)[0]
    >>> row.name, row.indices.tolist()
    ('left', [0, 37, 75, 112, 150, 187, 225, 262])
    """
    get("left").indices(n_frames, budget)  # refuses what no sampler takes
    if fps is not None:
        _rate("fps", fps)
    n, b = int(n_frames), int(budget)
    rows = []
    for sampler in _REGISTRY.values():
        try:
            found = sampler.indices(n, b, fps)
            note = _note(found, n, b)
        except GridError as error:
            found, note = np.empty(0, np.int64), str(error)
        left = np.arange(len(found), dtype=np.int64) * n // b
        offsets = (found - left) * b / n
        rows.append(SamplerRow(sampler.name, sampler.family, found, offsets, note))
    return rows


def _note(found: NDArray[np.int64], n: int, b: int) -> str:
    notes = []
    if len(found) != b:
        notes.append(f"{len(found)} frames for a budget of {b}")
    outside = found[(found < 0) | (found >= n)]
    if outside.size:
        notes.append(f"frame {outside[0]} is outside 0..{n - 1}")
    repeats = len(found) - len(np.unique(found))
    if repeats:
        notes.append(f"{repeats} repeated")
    return "; ".join(notes)


def _rate(name: str, value: Fps) -> float:
    rate = _checks.finite(name, float(value) if isinstance(value, Fraction) else value)
    if not 1e-3 <= rate <= 1e6:
        raise GridError(
            Argument.of(name, value), " must be in 0.001..1e6 frames a second"
        )
    return rate


# -------------------------------------------------------------------- rules


def _left(ask: _Ask) -> NDArray[np.int64]:
    return _core.grid_indices(ask.n, ask.b, 1, 0, 1).reshape(-1)


def _midpoint(ask: _Ask) -> NDArray[np.int64]:
    return _core.grid_indices(ask.n, ask.b, 1, 1, 2).reshape(-1)


def _endpoint_trunc(ask: _Ask) -> NDArray[np.int64]:
    return _core.sampler_linspace(0, ask.n - 1, ask.b, False)


def _endpoint_round(ask: _Ask) -> NDArray[np.int64]:
    return _core.sampler_linspace(0, ask.n - 1, ask.b, True)


def _endpoint_capped(ask: _Ask) -> NDArray[np.int64]:
    return _core.sampler_linspace(0, ask.n - 1, min(ask.b, ask.n), False)


def _endpoint_append(ask: _Ask) -> NDArray[np.int64]:
    found = _endpoint_trunc(ask)
    last = ask.n - 1
    return found if last in found else np.append(found, np.int64(last))


def _vila(ask: _Ask) -> NDArray[np.int64]:
    return _core.sampler_linspace(0, ask.n - 2, ask.b, False)


def _interior(ask: _Ask) -> NDArray[np.int64]:
    return _core.sampler_multiples(1, ask.n / (ask.b + 1), ask.b)


def _internvl(ask: _Ask) -> NDArray[np.int64]:
    return _core.sampler_segments(ask.n - 1, ask.b)


def _longvideobench(ask: _Ask) -> NDArray[np.int64]:
    return _core.sampler_multiples(0, ask.n // ask.b, ask.b)


def _even(ask: _Ask) -> int:
    return round(ask.b / 2) * 2


def _qwen_vl_utils(ask: _Ask) -> NDArray[np.int64]:
    return _qwen_frames(ask, _even(ask))


def _qwen_vl_utils_fps(ask: _Ask) -> NDArray[np.int64]:
    most = math.floor(ask.b / 2) * 2
    wanted = min(max(ask.n / ask.fps * ask.target_fps, 4), most, ask.n)
    return _qwen_frames(ask, math.floor(wanted / 2) * 2)


def _qwen_frames(ask: _Ask, wanted: int) -> NDArray[np.int64]:
    if not 2 <= wanted <= ask.n:
        raise GridError(
            f"qwen-vl-utils refuses budget={ask.b} for n_frames={ask.n}: made even it "
            f"is {wanted}, which must be in 2..n_frames"
        )
    return _core.sampler_torch_linspace(ask.n - 1, wanted)


def _refuse_short(ask: _Ask, wanted: int) -> None:
    if wanted > ask.n:
        raise GridError(
            f"transformers refuses budget={wanted} for n_frames={ask.n}: more frames "
            "than the clip has"
        )


def _hf_default(ask: _Ask) -> NDArray[np.int64]:
    _refuse_short(ask, ask.b)
    return _left(ask)


def _hf_qwen2_vl(ask: _Ask) -> NDArray[np.int64]:
    wanted = _even(ask)
    if wanted == 0:
        raise GridError(
            f"transformers divides by zero for budget={ask.b}: made even it is 0"
        )
    _refuse_short(ask, wanted)
    return _core.sampler_torch_arange(0.0, ask.n, ask.n / wanted)


def _hf_internvl(ask: _Ask) -> NDArray[np.int64]:
    _refuse_short(ask, ask.b)
    return _core.sampler_torch_arange(ask.n / ask.b / 2, ask.n, ask.n / ask.b)


def _llava_video(ask: _Ask) -> NDArray[np.int64]:
    stride = round(ask.fps / ask.target_fps)
    if stride == 0:
        raise GridError(
            f"LLaVA-Video refuses fps={ask.fps}: its stride round(fps / "
            f"{ask.target_fps}) is 0"
        )
    if -(-ask.n // stride) > ask.b:
        return _endpoint_trunc(ask)
    return np.arange(0, ask.n, stride, dtype=np.int64)


def _vlmeval_fps(ask: _Ask) -> NDArray[np.int64]:
    wanted = int(ask.n / ask.fps * ask.target_fps)
    if wanted == 0:
        return np.empty(0, np.int64)
    if wanted > _MAX_BUDGET:
        raise GridError(
            f"target_fps={ask.target_fps} asks for {wanted} frames of this clip, more "
            f"than {_MAX_BUDGET}"
        )
    return _core.sampler_multiples(0, ask.fps / ask.target_fps, wanted)


# ----------------------------------------------------------------- registry

_LMMS = "lmms-eval"
_HF = "transformers"
_REPEATS = "repeats frames"
_REFUSES = "ValueError"
_ALL = (
    Sampler(
        "left",
        "left",
        "i*N // b",
        "the integer form of transformers and of most papers' definitions",
        _REPEATS,
        _left,
    ),
    Sampler(
        "midpoint",
        "midpoint",
        "(2*i + 1)*N // (2*b)",
        "the integer form of segment-midpoint (TSN-style) sampling",
        _REPEATS,
        _midpoint,
    ),
    Sampler(
        "endpoint-trunc",
        "endpoint",
        "np.linspace(0, N-1, b, dtype=int)",
        f"{_LMMS}: load_video_decord, llava_onevision, longva and most simple models",
        _REPEATS,
        _endpoint_trunc,
        quirk="float64: an exact multiple may be cut one frame early",
    ),
    Sampler(
        "endpoint-round",
        "endpoint",
        "np.linspace(0, N-1, b).round()",
        "NumPy form of rounded end-to-end sampling",
        _REPEATS,
        _endpoint_round,
        quirk="halves go to the even frame",
    ),
    Sampler(
        "interior",
        "interior",
        "int(i * (N/(b+1))), i = 1..b",
        "VLMEvalKit: VideoBaseDataset.save_video_frames, Video-MME, MLVU",
        _REPEATS,
        _interior,
        quirk="float64: i * (N/(b+1)) may fall just below a whole frame",
    ),
    Sampler(
        "internvl",
        "midpoint",
        "int(seg/2 + np.round(seg*i)), seg = (N-1)/b",
        f"{_LMMS}: internvl2.get_index, videochat2; VLMEvalKit: MVBench, pllava",
        _REPEATS,
        _internvl,
        quirk="N-1 and halves to even: at N = b it repeats frames and drops the last",
    ),
    Sampler(
        "qwen-vl-utils",
        "endpoint",
        "torch.linspace(0, N-1, n).round().long(), n = round(b/2)*2",
        "qwen-vl-utils: smart_nframes(nframes=b), _read_video_decord",
        _REFUSES,
        _qwen_vl_utils,
        quirk=(
            "budget made even, halves to even: 5 gives 4, 7 gives 8, 1 is refused; "
            "float32"
        ),
    ),
    Sampler(
        "qwen-vl-utils-fps",
        "endpoint",
        "as qwen-vl-utils, n = floor(min(max(N/fps*target, 4), b, N)/2)*2",
        "qwen-vl-utils: smart_nframes(fps=target, max_frames=b)",
        "at most N frames, an even number",
        _qwen_vl_utils_fps,
        quirk="the budget is a cap; the number of frames follows the clip's length",
        needs_fps=True,
        target_fps=2.0,
    ),
    Sampler(
        "hf-default",
        "left",
        "np.arange(b)*N // b",
        f"{_HF}: video_utils.default_sample_indices_fn (LLaVA-OneVision, Video-LLaVA)",
        _REFUSES,
        _hf_default,
    ),
    Sampler(
        "hf-qwen2-vl",
        "left",
        "torch.arange(0, N, N/n).int(), n = round(b/2)*2",
        f"{_HF}: Qwen2VLVideoProcessor.sample_frames (Qwen2-VL, Qwen2.5-VL)",
        _REFUSES,
        _hf_qwen2_vl,
        quirk=(
            "n + 1 indices with the last one N, outside the clip, where N/n rounds "
            "down (n = 14, N = 17); budget made even, halves to even; float32, off by "
            "one in long clips"
        ),
    ),
    Sampler(
        "hf-qwen3-vl",
        "endpoint",
        "np.linspace(0, N-1, b).round().astype(int)",
        f"{_HF}: Qwen3VLVideoProcessor.sample_frames",
        _REPEATS,
        _endpoint_round,
        quirk="halves go to the even frame",
    ),
    Sampler(
        "hf-internvl",
        "midpoint",
        "torch.arange(N/b/2, N, N/b).int()",
        f"{_HF}: InternVLVideoProcessor.sample_frames(initial_shift=True)",
        _REFUSES,
        _hf_internvl,
        quirk="float32, off by one in long clips",
    ),
    Sampler(
        "longvideobench",
        "left",
        "int(N/b) * i",
        f"{_LMMS}: tasks/longvideobench load_video, for clips of b seconds or more",
        "frame 0 only",
        _longvideobench,
        quirk="whole-frame steps: up to b-1 frames at the end are never reached",
    ),
    Sampler(
        "llava-video",
        "fps",
        "range(0, N, round(fps/target)), np.linspace(0, N-1, b, dtype=int) above b",
        f"{_LMMS}: llava_vid.load_video; VLMEvalKit: LLaVA-Video",
        "as for longer clips",
        _llava_video,
        quirk="changes family with the length of the clip",
        needs_fps=True,
        target_fps=1.0,
    ),
    Sampler(
        "vlmeval-fps",
        "fps",
        "int(i * (fps/target)), int(N/fps*target) frames",
        "VLMEvalKit: VideoBaseDataset.save_video_frames(fps=target)",
        "as for longer clips",
        _vlmeval_fps,
        quirk="the budget is ignored; clips under 1/target seconds give no frame",
        needs_fps=True,
        target_fps=1.0,
    ),
    Sampler(
        "vila",
        "endpoint",
        "np.linspace(0, N-2, b, dtype=int)",
        f"{_LMMS}: vila.load_video",
        _REPEATS,
        _vila,
        quirk="the last frame is never seen; a clip of one frame gives frame -1",
    ),
    Sampler(
        "lmms-pyav",
        "endpoint",
        "np.linspace(0, N-1, min(N, b), dtype=int)",
        f"{_LMMS}: load_video.read_video",
        "N frames",
        _endpoint_capped,
    ),
    Sampler(
        "lmms-append-last",
        "endpoint",
        "np.linspace(0, N-1, b, dtype=int), and N-1 if it is not there",
        f"{_LMMS}: vllm, openai, gpt4v",
        _REPEATS,
        _endpoint_append,
        quirk="b + 1 frames at b = 1",
    ),
)
_REGISTRY = {sampler.name: sampler for sampler in _ALL}
