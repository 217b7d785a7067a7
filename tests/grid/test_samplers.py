"""The registry, the kernels behind it, and what is known of the conventions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasefusion import PhaseGrid, _core, samplers
from phasefusion.errors import GridError

FRAMES = st.one_of(st.integers(1, 600), st.integers(1, 2**31 - 1))
BUDGET = st.integers(1, 80)


@given(n=FRAMES, b=BUDGET)
@settings(max_examples=150)
def test_kernels_equal_their_twins(n: int, b: int) -> None:
    for rounded in (False, True):
        found = _core.sampler_linspace(0, n - 1, b, rounded)
        assert found.tolist() == oracle.sampler_linspace(0, n - 1, b, rounded)
    found = _core.sampler_torch_linspace(n - 1, b)
    assert found.tolist() == oracle.sampler_torch_linspace(n - 1, b)
    for start in (0.0, n / b / 2):
        found = _core.sampler_torch_arange(start, n, n / b)
        assert found.tolist() == oracle.sampler_torch_arange(start, n, n / b)
    found = _core.sampler_multiples(1, n / (b + 1), b)
    assert found.tolist() == oracle.sampler_multiples(1, n / (b + 1), b)
    found = _core.sampler_segments(n - 1, b)
    assert found.tolist() == oracle.sampler_segments(n - 1, b)


@pytest.mark.parametrize("n", [43, 75, 85, 87, 91, 149, 159])
def test_the_middle_of_an_odd_count_comes_from_the_end(n: int) -> None:
    # near 1.5, where counting from the start would round to the other side
    found = _core.sampler_torch_linspace(3, n).tolist()
    assert found == oracle.sampler_torch_linspace(3, n)


def test_linspace_from_elsewhere() -> None:
    for first, last in ((3, 40), (-1, -1), (25, 1), (-7, 8)):
        for n in (1, 2, 3, 13, 50):
            for rounded in (False, True):
                found = _core.sampler_linspace(first, last, n, rounded).tolist()
                assert found == oracle.sampler_linspace(first, last, n, rounded)
                want = np.linspace(first, last, n)
                want = want.round() if rounded else np.floor(want)
                assert found == want.astype(int).tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda: _core.sampler_linspace(0, 2**31, 4, False),
        lambda: _core.sampler_linspace(0, 5, 0, False),
        lambda: _core.sampler_torch_linspace(-1, 4),
        lambda: _core.sampler_torch_linspace(5, 0),
        lambda: _core.sampler_torch_arange(0.0, float("nan"), 1.0),
        lambda: _core.sampler_torch_arange(0.0, 5.0, 0.0),
        lambda: _core.sampler_torch_arange(6.0, 5.0, 1.0),
        lambda: _core.sampler_torch_arange(0.0, 5.0, 1e-9),
        lambda: _core.sampler_multiples(0, float("inf"), 3),
        lambda: _core.sampler_multiples(0, 2.0**31, 3),
        lambda: _core.sampler_multiples(-1, 1.0, 3),
        lambda: _core.sampler_segments(5, 0),
    ],
)
def test_kernels_refuse_what_their_contract_excludes(call) -> None:
    with pytest.raises((ValueError, OverflowError)):
        call()


# Frames of a 300-frame clip at a budget of 8, as the harnesses choose them.
ROWS_300 = {
    "left": [0, 37, 75, 112, 150, 187, 225, 262],
    "midpoint": [18, 56, 93, 131, 168, 206, 243, 281],
    "endpoint-trunc": [0, 42, 85, 128, 170, 213, 256, 299],
    "endpoint-round": [0, 43, 85, 128, 171, 214, 256, 299],
    "interior": [33, 66, 100, 133, 166, 200, 233, 266],
    "vlmeval-fps": list(range(0, 300, 30)),
}
# How far frame i of a 900-frame clip lies behind the left grid, in steps.
OFFSETS_900 = {
    "left": [0, 0, 0, 0, 0, 0, 0, 0],
    "midpoint": [0.5] * 8,
    "endpoint-trunc": [0, 0.14, 0.28, 0.43, 0.56, 0.71, 0.84, 1.0],
    "interior": [0.89, 0.78, 0.67, 0.56, 0.44, 0.34, 0.22, 0.12],
}


def test_side_by_side_gives_the_known_rows() -> None:
    rows = {row.name: row for row in samplers.side_by_side(300, 8, fps=30)}
    assert list(rows) == list(samplers.names())
    for name, want in ROWS_300.items():
        assert rows[name].indices.tolist() == want
        assert rows[name].family == samplers.get(name).family
    assert rows["left"].note == ""
    assert rows["vlmeval-fps"].note == "10 frames for a budget of 8"


def test_side_by_side_gives_the_known_drifts() -> None:
    rows = {row.name: row for row in samplers.side_by_side(900, 8, fps=30)}
    for name, want in OFFSETS_900.items():
        assert rows[name].offsets == pytest.approx(want, abs=0.0051)


def test_side_by_side_says_what_is_wrong() -> None:
    rows = {row.name: row for row in samplers.side_by_side(17, 14)}
    assert rows["hf-qwen2-vl"].indices[-1] == 17
    note = "15 frames for a budget of 14; frame 17 is outside 0..16"
    assert rows["hf-qwen2-vl"].note == note
    assert "give fps" in rows["llava-video"].note
    assert rows["llava-video"].indices.size == rows["llava-video"].offsets.size == 0
    rows = {row.name: row for row in samplers.side_by_side(5, 8)}
    assert "refuses budget=8 for n_frames=5" in rows["hf-default"].note
    assert rows["hf-qwen3-vl"].indices.tolist() == [0, 1, 1, 2, 2, 3, 3, 4]
    assert rows["hf-qwen3-vl"].note == "3 repeated"
    rows = {row.name: row for row in samplers.side_by_side(1, 2)}
    assert rows["vila"].note == "frame -1 is outside 0..0"


def test_side_by_side_refuses_what_no_sampler_takes() -> None:
    for bad in ((0, 8), (300, 0), (2**31, 8), (300, 2**20 + 1)):
        with pytest.raises(GridError, match=r"must be in 1\.\."):
            samplers.side_by_side(*bad)
    with pytest.raises(GridError, match="fps=0"):
        samplers.side_by_side(300, 8, 0)


def test_known_quirks() -> None:
    def of(name: str, n: int, b: int) -> list[int]:
        return samplers.get(name).indices(n, b).tolist()

    assert of("internvl", 8, 8) == [0, 1, 2, 3, 4, 4, 5, 6]
    assert len(of("qwen-vl-utils", 100, 5)) == len(of("qwen-vl-utils", 100, 3)) == 4
    assert len(of("qwen-vl-utils", 100, 7)) == 8
    assert len(of("hf-qwen2-vl", 100, 7)) == 8
    assert len(of("hf-qwen2-vl", 17, 14)) == 15
    assert max(of("vila", 300, 8)) == 298
    assert of("longvideobench", 5, 8) == [0] * 8
    assert of("lmms-append-last", 10, 1) == [0, 9]
    assert of("lmms-pyav", 5, 8) == [0, 1, 2, 3, 4]
    with pytest.raises(GridError, match=r"made even it is 0.*2\.\.n_frames"):
        of("qwen-vl-utils", 100, 1)


BY_RATE = {"vlmeval-fps", "llava-video", "qwen-vl-utils-fps"}


@pytest.mark.parametrize("name", [n for n in samplers.names() if n not in BY_RATE])
def test_full_budget_is_the_identity_but_for_two(name: str) -> None:
    identity = [
        samplers.get(name).indices(n, n).tolist() == list(range(n))
        for n in (2, 4, 8, 16, 32, 64, 128)
    ]
    if name in ("internvl", "vila"):
        assert not any(identity)
    else:
        assert all(identity)


def test_budgets_where_arange_returns_one_too_many() -> None:
    # Even budgets in use that never do, and some that do, for clips under 1500 frames.
    sampler = samplers.get("hf-qwen2-vl")
    for b in (4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128):
        assert all(len(sampler.indices(n, b)) == b for n in range(b, 1500))
    for b in (14, 22, 28, 30, 50, 60, 100, 120):
        lengths = {len(sampler.indices(n, b)) for n in range(b, 1500)}
        assert lengths == {b, b + 1}


def test_left_and_midpoint_are_phase_grids() -> None:
    for n in (1, 7, 60, 61, 599):
        for b in (1, 2, 7, 8):
            if n < b:
                continue
            for name in ("left", "midpoint"):
                want = PhaseGrid(b, origin=name).indices(n)[0]
                assert np.array_equal(samplers.get(name).indices(n, b), want)


def test_registry() -> None:
    families = {"left", "midpoint", "endpoint", "interior", "fps"}
    for name in samplers.names():
        sampler = samplers.get(name)
        assert sampler.name == name
        assert sampler.family in families
        assert sampler.formula
        assert sampler.source
        assert sampler.short
        assert name in repr(sampler)
        assert sampler.needs_fps == (sampler.target_fps is not None)
        assert sampler.indices(600, 8, 25).dtype == np.int64
    assert {samplers.get(name).family for name in samplers.names()} == families
    with pytest.raises(GridError, match="no sampler 'uniform'; the samplers are left"):
        samplers.get("uniform")


def test_frame_rates_are_checked() -> None:
    video = samplers.get("llava-video")
    assert video.indices(100, 8, Fraction(24000, 1001)).tolist() == [0, 24, 48, 72, 96]
    with pytest.raises(GridError, match="goes by frame rate; give fps"):
        video.indices(100, 8)
    for bad in (0, -1, float("nan"), 1e9, "fast"):
        with pytest.raises(GridError, match="fps="):
            video.indices(100, 8, bad)
        with pytest.raises(GridError, match="target_fps="):
            video.indices(100, 8, 25, target_fps=bad)
    with pytest.raises(GridError, match="takes no target_fps=2"):
        samplers.get("left").indices(100, 8, target_fps=2)
    with pytest.raises(GridError, match="asks for 2147483647000"):
        samplers.get("vlmeval-fps").indices(2**31 - 1, 8, 1, target_fps=1000)
