"""Phase grids: exactness, the polyphase identities, policies and messages."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pickle
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasefusion import PhaseGrid, _core
from phasefusion.errors import DuplicateFrameWarning, GridError, GridWarning

ORIGINS = st.fractions(0, 1, max_denominator=1000).filter(lambda x: x < 1)
GRIDS = st.builds(PhaseGrid, st.integers(1, 20), st.integers(1, 9), ORIGINS)


def quiet(grid: PhaseGrid, n: int) -> Any:
    """Indices of a grid that may be longer than its clip."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DuplicateFrameWarning)
        return grid.indices(n)


# ---------------------------------------------------------------- exactness


@given(grid=GRIDS, n=st.integers(1, 3000))
def test_indices_equal_the_integer_rule(grid: PhaseGrid, n: int) -> None:
    found = quiet(grid, n)
    origin = grid.origin
    want = oracle.grid_indices(
        n, grid.budget, grid.phases, origin.numerator, origin.denominator
    )
    assert found.dtype == np.int64
    assert found.shape == (grid.phases, grid.budget)
    assert np.array_equal(found, want)


@given(
    n=st.integers(2**53 - 9, 2**63 - 1),
    b=st.integers(1, 40),
    phases=st.integers(1, 9),
    num=st.integers(0, 2**62),
    gap=st.integers(1, 2**62),
)
def test_huge_clips_and_origins_stay_exact(
    n: int, b: int, phases: int, num: int, gap: int
) -> None:
    limit = (2**63 - 1) // (b * phases)
    den = min(num + gap, limit)
    origin = Fraction(min(num, den - 1), den)
    found = PhaseGrid(b, phases, origin).indices(n)
    want = oracle.grid_indices(n, b, phases, origin.numerator, origin.denominator)
    assert np.array_equal(found, want)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 60, 61, 97, 300, 2**53, 2**63 - 1])
@pytest.mark.parametrize("b", [1, 2, 7, 8, 16, 61])
@pytest.mark.parametrize("phases", [1, 2, 3, 4, 6])
def test_edge_sizes(n: int, b: int, phases: int) -> None:
    for origin in ("left", "midpoint", "2/3"):
        grid = PhaseGrid(b, phases, origin)
        num, den = grid.origin.numerator, grid.origin.denominator
        want = oracle.grid_indices(n, b, phases, num, den)
        assert np.array_equal(quiet(grid, n), want)
        assert want.min() >= 0
        assert want.max() < n


def test_known_rows() -> None:
    left = [[0, 37, 75, 112, 150, 187, 225, 262]]
    middle = [[18, 56, 93, 131, 168, 206, 243, 281]]
    assert PhaseGrid(8, origin="left").indices(300).tolist() == left
    assert PhaseGrid(8).indices(300).tolist() == middle
    assert PhaseGrid(1).indices(1).tolist() == [[0]]
    assert PhaseGrid(1).indices(2).tolist() == [[1]]


def test_a_full_budget_is_every_frame() -> None:
    for n in (1, 2, 3, 8, 61):
        for origin in ("left", "midpoint", Fraction(999, 1000)):
            want = list(range(n))
            assert PhaseGrid(n, origin=origin).indices(n)[0].tolist() == want
            assert PhaseGrid(n, origin=origin).dense(n).tolist() == want


# --------------------------------------------------------------- identities


@given(grid=GRIDS, extra=st.integers(0, 500))
def test_phases_partition_the_dense_grid(grid: PhaseGrid, extra: int) -> None:
    n = grid.phases * grid.budget + extra
    views, dense = grid.indices(n), grid.dense(n)
    assert len(np.unique(dense)) == len(dense)
    assert (np.diff(dense) > 0).all()
    assert sorted(views.ravel().tolist()) == dense.tolist()
    for s in range(grid.phases):
        assert np.array_equal(views[s], dense[s :: grid.phases])
        assert np.array_equal(views[s], grid.view(s).indices(n)[0])
    assert np.array_equal(grid.union().indices(n)[0], dense)
    assert np.array_equal(grid.union().dense(n), dense)


def test_a_dense_grid_of_every_frame_is_partitioned() -> None:
    for phases in (1, 2, 3, 4, 6):
        for b in (1, 4, 7, 8, 16):
            n = phases * b
            assert PhaseGrid(b, phases).dense(n).tolist() == list(range(n))


@pytest.mark.parametrize("few", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("many", [1, 2, 3, 4, 6, 9, 12])
def test_nesting(few: int, many: int) -> None:
    # A clip of a multiple of every dense grid and its halves, so no two times share
    # a frame.
    n = 8 * 72 * 12
    for origin in ("left", "midpoint"):
        inner = set(PhaseGrid(8, few, origin).dense(n).tolist())
        outer = set(PhaseGrid(8, many, origin).dense(n).tolist())
        divides = many % few == 0
        nested = divides if origin == "left" else divides and (many // few) % 2 == 1
        assert (inner <= outer) == nested


@given(grid=GRIDS)
def test_phases_are_equally_spaced_in_a_step(grid: PhaseGrid) -> None:
    phases = grid.phase_fractions
    assert len(phases) == grid.phases
    assert all(0 <= phase < 1 for phase in phases)
    gaps = {after - before for before, after in itertools.pairwise(phases)}
    assert gaps <= {Fraction(1, grid.phases)}
    for s, phase in enumerate(phases):
        assert grid.phase(s) == phase == grid.view(s).phase(0) == grid.view(s).origin


# ------------------------------------------------------------------- shifts


@given(grid=GRIDS)
def test_half_a_step_by_parity(grid: PhaseGrid) -> None:
    half = grid.shifted("half")
    assert half.origin == (grid.origin + Fraction(1, 2)) % 1
    assert half.shifted("half") == grid
    if grid.phases % 2:
        assert grid.shift_steps("half") == Fraction(1, 2)
        assert grid.shifted(Fraction(1, 2)) == half
    else:
        assert grid.shift_steps("half") == Fraction(1, 2 * grid.phases)
        with pytest.warns(GridWarning, match="maps onto itself"):
            assert grid.shifted(Fraction(1, 2)) == grid
    assert grid.shifted(grid.shift_steps("half")) == half


@given(grid=GRIDS, k=st.integers(-30, 30), part=ORIGINS)
def test_shifts_add_up_and_wrap(grid: PhaseGrid, k: int, part: Fraction) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridWarning)
        moved = grid.shifted(part / grid.phases)
        assert moved.origin == (grid.origin + part) % 1
        assert moved.shifted(-part / grid.phases) == grid
        assert grid.shifted(Fraction(k, grid.phases)) == grid
        assert grid.shifted(k) == grid


def test_a_shift_moves_the_frames_it_says() -> None:
    # 40 frames a step, 40/3 a dense step: half a step is 20 frames.
    grid, n = PhaseGrid(6, 3, "left"), 240
    assert grid.step_frames(n) == 40
    assert grid.shift_frames("half", n) == 20
    assert grid.shift_seconds("half", 24.0) == 2.0
    moved = {int(k) + 20 for k in grid.dense(n)}
    assert {k % n for k in moved} <= set(range(n))
    assert set(grid.shifted("half").dense(n).tolist()) == {k % n for k in moved}
    assert PhaseGrid(8, 2).shift_frames("half", 300) == Fraction(75, 8)
    assert PhaseGrid(8, 2).shift_frames("1/3", 300) == Fraction(25, 2)


def test_shift_messages() -> None:
    grid = PhaseGrid(8, 2)
    with pytest.raises(GridError, match=r"shift=0\.5 is a float, which is not exact"):
        grid.shifted(0.5)  # type: ignore[arg-type]
    with pytest.raises(GridError, match="shift='most' cannot be read"):
        grid.shifted("most")
    with pytest.warns(GridWarning, match=r"1/2 of a step is 1 dense steps.*by 1/4 or"):
        grid.shifted(Fraction(1, 2))
    with pytest.raises(GridError, match=r"2\*\*63"):
        grid.shifted(Fraction(1, 2**61))


@given(b=st.integers(1, 64), phases=st.integers(1, 9), seed=st.integers(0, 2**32))
def test_random_origins_move_all_arms_alike(b: int, phases: int, seed: int) -> None:
    one, many = PhaseGrid(b).random(seed), PhaseGrid(b, phases).random(seed)
    assert many == PhaseGrid(b, phases).random(np.random.default_rng(seed))
    assert 0 <= many.origin < 1
    # the same absolute shift: the single grid is one of the many views
    assert one.origin in many.phase_fractions


def test_random_origins_are_uniform_and_need_no_global_state() -> None:
    rng = np.random.default_rng(5)
    grid = PhaseGrid(8, 3)
    draws = np.array([float(grid.random(rng).origin) for _ in range(4000)])
    counts = np.histogram(draws, bins=10, range=(0, 1))[0]
    # 9 degrees of freedom: above 27.9 once in a thousand, and the seed is fixed
    assert ((counts - 400) ** 2 / 400).sum() < 27.9
    assert grid.random(1) == grid.random(1) != grid.random(2)
    assert grid.random() != grid.random()


# ---------------------------------------------------------------- time grids

TICKS = st.lists(st.integers(0, 40), min_size=1, max_size=30).map(sorted)


@given(grid=GRIDS, pts=TICKS, start=st.integers(-99, 99), tail=st.integers(0, 9))
@settings(max_examples=60)
def test_time_grid_shows_what_is_on_screen(
    grid: PhaseGrid, pts: list[int], start: int, tail: int
) -> None:
    pts = [start + tick for tick in pts]
    end = pts[-1] + tail
    timed = dataclasses.replace(grid, by="time")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DuplicateFrameWarning)
        found = timed.select(pts, end)
    origin = grid.origin
    want = oracle.grid_frames_at(
        pts, end, grid.budget, grid.phases, origin.numerator, origin.denominator
    )
    assert np.array_equal(found, want)


@given(grid=GRIDS, n=st.integers(1, 300), tick=st.integers(1, 1001))
def test_time_and_frames_agree_at_a_constant_rate(
    grid: PhaseGrid, n: int, tick: int
) -> None:
    pts = np.arange(n) * tick - 512
    timed = dataclasses.replace(grid, by="time")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DuplicateFrameWarning)
        found = timed.select(pts, -512 + n * tick)
    assert np.array_equal(found, quiet(grid, n))


def test_time_grid_on_uneven_frames() -> None:
    grid = PhaseGrid(4, by="time")
    # times 1, 3, 5, 7 of 8; frame 1 is on screen from 1 to 7
    assert grid.select([0, 1, 7, 7, 7], 8).tolist() == [[1, 1, 1, 4]]
    assert PhaseGrid(1, by="time").select([5], 5).tolist() == [[0]]
    # a time that is exactly a frame's pts shows that frame
    assert PhaseGrid(2, origin=0, by="time").select([0, 3, 4], 6).tolist() == [[0, 1]]
    by_frames = PhaseGrid(2, origin=0).select([0, 9, 10, 11], 12)
    assert by_frames.tolist() == [[0, 2]]


def test_time_grid_at_the_limits_of_int64() -> None:
    low, high = -(2**62), 2**62 - 1
    pts = [low, 0, high]
    found = PhaseGrid(3, by="time").select(pts, high)
    assert np.array_equal(found, oracle.grid_frames_at(pts, high, 3, 1, 1, 2))
    with pytest.raises(GridError, match=r"more than 2\*\*63-1 after pts\[0\]"):
        PhaseGrid(3, by="time").select([-2, 0], 2**63 - 1)


def test_select_messages() -> None:
    for grid in (PhaseGrid(2), PhaseGrid(2, by="time")):
        with pytest.raises(GridError, match=r"pts\[2\]=4 is below pts\[1\]=5"):
            grid.select([0, 5, 4, 3], 9)
        with pytest.raises(GridError, match="end_pts=4 must be >= the last of pts, 5"):
            grid.select([0, 5], 4)
        with pytest.raises(GridError, match="dtype float64"):
            grid.select([0.0, 1.0], 4)
        with pytest.raises(GridError, match=r"shape \(0,\)"):
            grid.select([], 4)
        with pytest.raises(GridError, match=r"shape \(1, 2\)"):
            grid.select([[0, 1]], 4)
        with pytest.raises(GridError, match=r"end_pts=4\.0 must be a whole number"):
            grid.select([0, 1], 4.0)  # type: ignore[arg-type]
    with pytest.raises(GridError, match=r"call select\(pts, end_pts\)"):
        PhaseGrid(2, by="time").indices(10)
    with pytest.raises(GridError, match=r"call select\(pts, end_pts\)"):
        PhaseGrid(2, by="time").dense(10)


def test_select_takes_any_layout_and_leaves_it_alone() -> None:
    pts = np.arange(40, dtype=np.int32)[::-2][::-1]
    before = pts.copy()
    found = PhaseGrid(4, by="time").select(pts, 41)
    assert found.tolist() == [[2, 7, 12, 17]]
    assert np.array_equal(pts, before)


@given(grid=GRIDS, duration=st.floats(0, 1e5), start=st.floats(-1e3, 1e3))
def test_times_are_the_fractions_in_seconds(
    grid: PhaseGrid, duration: float, start: float
) -> None:
    times = grid.times(duration, start)
    assert times.shape == (grid.phases, grid.budget)
    assert times.dtype == np.float64
    for s in range(grid.phases):
        for i in range(grid.budget):
            exact = (i + grid.phase(s)) / grid.budget * Fraction(duration)
            want = float(exact + Fraction(start))
            assert times[s, i] == pytest.approx(want, rel=1e-15, abs=1e-11)


def test_times_messages() -> None:
    for bad in (float("nan"), float("inf"), -1.0, "long"):
        with pytest.raises(GridError, match="duration_s="):
            PhaseGrid(2).times(bad)  # type: ignore[arg-type]
    with pytest.raises(GridError, match="start_s=nan must be finite"):
        PhaseGrid(2).times(1.0, float("nan"))
    with pytest.raises(GridError, match="duration_s=inf must be finite"):
        PhaseGrid(2).shift_seconds("half", float("inf"))


# ------------------------------------------------------------------ policies


@pytest.mark.parametrize("origin", ["left", "midpoint", "99/100"])
@pytest.mark.parametrize("phases", [1, 2, 3, 4, 6])
def test_unique_never_repeats_and_is_as_large_as_it_can(
    phases: int, origin: str
) -> None:
    for b in range(1, 13):
        grid = PhaseGrid(b, phases, origin, short="unique")
        for n in range(1, b * phases + 4):
            found = grid.indices(n)
            assert found.shape == grid.shape(n)
            assert found.shape == (min(phases, n // min(b, n)), min(b, n))
            assert len(np.unique(found)) == found.size
            assert np.array_equal(grid.dense(n), np.sort(found, axis=None))
            if n >= b * phases:
                assert np.array_equal(found, PhaseGrid(b, phases, origin).indices(n))


def test_short_clips() -> None:
    repeat = PhaseGrid(8, 3)
    message = (
        r"n_frames=20 is shorter than phases \* budget = 3 \* 8 = 24: frames repeat, "
        r"shape \(3, 8\) .* at most 20 .* shape \(2, 8\)"
    )
    with pytest.warns(DuplicateFrameWarning, match=message):
        assert repeat.indices(20).shape == repeat.shape(20) == (3, 8)
    with pytest.warns(DuplicateFrameWarning, match="n_frames=1 "):
        assert not repeat.dense(1).any()
    timed = dataclasses.replace(repeat, by="time")
    with pytest.warns(DuplicateFrameWarning, match="n_frames=2 "):
        assert timed.select([0, 1], 2).shape == (3, 8)
    unique = PhaseGrid(8, 3, short="unique")
    assert unique.indices(20).shape == unique.shape(20) == (2, 8)
    assert unique.indices(5).tolist() == [[0, 1, 2, 3, 4]]
    timed = dataclasses.replace(unique, by="time")
    assert timed.select(range(5), 5).tolist() == [[0, 1, 2, 3, 4]]
    strict = PhaseGrid(8, 3, short="error")
    assert strict.indices(24).shape == strict.shape(24) == (3, 8)
    match = r"n_frames=23 is fewer than phases \* budget = 3 \* 8 = 24"
    for call in (strict.indices, strict.dense, strict.shape):
        with pytest.raises(GridError, match=match):
            call(23)
    with pytest.raises(GridError, match="n_frames=2 is fewer"):
        dataclasses.replace(strict, by="time").select([0, 1], 2)


def test_one_warning_a_line_whatever_the_clip() -> None:
    grid = PhaseGrid(8, 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for n in range(3, 20):
            grid.indices(n)
        grid.indices(20)
    assert [str(w.message).split()[3] for w in caught] == ["n_frames=3", "n_frames=20"]
    assert {w.filename for w in caught} == {__file__}
    assert caught[0].lineno + 1 == caught[1].lineno
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(3, 20):
            grid.indices(n)
    assert len(caught) == 17
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(3, 20):
            with pytest.raises(DuplicateFrameWarning):
                grid.indices(n)


# ---------------------------------------------------------- construction


@pytest.mark.parametrize(
    ("given_", "stored"),
    [
        ("left", Fraction(0)),
        ("midpoint", Fraction(1, 2)),
        (0, Fraction(0)),
        (Fraction(2, 3), Fraction(2, 3)),
        ("2/3", Fraction(2, 3)),
        ((4, 6), Fraction(2, 3)),
        ([4, 6], Fraction(2, 3)),
        ("0.25", Fraction(1, 4)),
    ],
)
def test_origins(given_: Any, stored: Fraction) -> None:
    grid = PhaseGrid(8, 3, given_)
    assert type(grid.origin) is Fraction
    assert grid.origin == stored


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"budget": 0}, r"budget=0 must be in 1\.\."),
        ({"budget": -3}, r"budget=-3 must be in 1\.\."),
        ({"budget": 2**63}, r"budget=9223372036854775808 must be in 1\.\."),
        ({"budget": 8.0}, r"budget=8\.0 must be a whole number, it is a float"),
        ({"budget": True}, "budget=True must be a whole number"),
        ({"budget": "8"}, "budget='8' must be a whole number"),
        ({"phases": 0}, r"phases=0 must be in 1\.\."),
        ({"phases": None}, "phases=None must be a whole number"),
        ({"origin": 1}, r"origin=1 must be in \[0, 1\)"),
        ({"origin": "-1/3"}, r"origin='-1/3' must be in \[0, 1\)"),
        ({"origin": 0.5}, r"origin=0\.5 is a float, .* give .*midpoint"),
        ({"origin": np.float32(0)}, "is a float"),
        ({"origin": "middle"}, "origin='middle' cannot be read; give"),
        ({"origin": (1, 0)}, r"origin=\(1, 0\) cannot be read"),
        ({"origin": (1, 2, 3)}, r"origin=\(1, 2, 3\) cannot be read"),
        ({"origin": None}, "origin=None cannot be read"),
        ({"origin": Fraction(1, 2**62)}, r"8 \* 4611686018427387904 must be below"),
        ({"by": "seconds"}, "by='seconds' must be one of frames, time"),
        ({"short": "pad"}, "short='pad' must be one of repeat, unique, error"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(GridError, match=message):
        PhaseGrid(**({"budget": 8} | arguments))


def test_bad_calls() -> None:
    grid = PhaseGrid(8, 3)
    for call in (grid.indices, grid.dense, grid.shape, grid.step_frames):
        for bad in (0, -1, 2**63):
            with pytest.raises(GridError, match=f"n_frames={bad} must be in 1"):
                call(bad)
        with pytest.raises(GridError, match=r"n_frames=300\.0 must be a whole number"):
            call(300.0)
    for bad in (3, -1):
        for call in (grid.phase, grid.view):
            with pytest.raises(GridError, match=rf"s={bad} .* in 0\.\.2"):
                call(bad)
    assert isinstance(GridError(""), ValueError)


def test_whole_numbers_of_any_kind() -> None:
    grid = PhaseGrid(np.int32(8), np.uint8(3))
    assert grid == PhaseGrid(8, 3)
    assert type(grid.budget) is int
    assert grid.indices(np.int64(60)).shape == (3, 8)


@given(grid=GRIDS, by=st.sampled_from(["frames", "time"]))
def test_records(grid: PhaseGrid, by: Any) -> None:
    grid = dataclasses.replace(grid, by=by, short="unique")
    record = json.loads(json.dumps(grid.to_dict()))
    assert PhaseGrid.from_dict(record) == grid
    assert list(record) == ["budget", "phases", "origin", "by", "short"]
    assert eval(repr(grid)) == grid
    assert pickle.loads(pickle.dumps(grid)) == grid
    assert len({grid, PhaseGrid.from_dict(record)}) == 1
    for derived in (grid.view(0), grid.union(), grid.shifted("half"), grid.random(1)):
        assert (derived.by, derived.short) == (by, "unique")


def test_records_are_strict() -> None:
    record = PhaseGrid(8, 3).to_dict()
    with pytest.raises(GridError, match="a grid record has the keys"):
        PhaseGrid.from_dict({k: v for k, v in record.items() if k != "origin"})
    with pytest.raises(GridError, match="a grid record has the keys"):
        PhaseGrid.from_dict(record | {"stride": 2})
    with pytest.raises(GridError, match="budget=0"):
        PhaseGrid.from_dict(record | {"budget": 0})


def test_grids_are_frozen() -> None:
    grid = PhaseGrid(8)
    with pytest.raises(dataclasses.FrozenInstanceError):
        grid.budget = 4  # type: ignore[misc]
    assert not hasattr(grid, "__dict__")


# ------------------------------------------------------------------ binding


def test_kernels_refuse_what_their_contract_excludes() -> None:
    pts = np.array([0, 1, 2])
    for bad in ((0, 1, 0, 1), (1, 0, 0, 1), (1, 1, 1, 1), (1, 1, -1, 2), (1, 1, 0, 0)):
        with pytest.raises(ValueError, match="budget, phases or origin"):
            _core.grid_indices(10, *bad)
        with pytest.raises(ValueError, match="budget, phases or origin"):
            _core.grid_frames_at(pts, 3, *bad)
    for big in ((2**32, 2**32, 0, 1), (2**31, 2**31, 1, 4)):
        with pytest.raises(OverflowError):
            _core.grid_indices(10, *big)
    with pytest.raises(ValueError, match="clip_frames"):
        _core.grid_indices(0, 1, 1, 0, 1)
    for bad_pts, end in (([0, 2, 1], 3), ([0, 1], 0), ([], 0)):
        with pytest.raises(ValueError, match="pts or end_pts"):
            _core.grid_frames_at(np.array(bad_pts, np.int64), end, 1, 1, 0, 1)
    with pytest.raises(OverflowError):
        _core.grid_frames_at(np.array([-2]), 2**63 - 1, 1, 1, 0, 1)
    with pytest.raises(ValueError, match="dimensions"):
        _core.grid_frames_at(pts.reshape(1, 3), 3, 1, 1, 0, 1)
    with pytest.raises(TypeError):
        _core.grid_frames_at(pts.astype(float), 3, 1, 1, 0, 1)
