"""Phase grids: which frames each of S offset passes over a clip is shown.

A grid of *budget* ``b`` frames cuts a clip into ``b`` equal steps and takes one frame
from each. Where inside its step that frame lies is the grid's *phase*, a fraction in
[0, 1). ``S`` grids whose phases differ by ``1/S`` interleave into one dense grid of
``S * b`` frames; they are its polyphase components.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion import _checks, _core
from phasefusion._random import MASK_64
from phasefusion.errors import DuplicateFrameWarning, GridError, GridWarning

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["By", "Origin", "PhaseGrid", "Short"]

By: TypeAlias = Literal["frames", "time"]
Short: TypeAlias = Literal["repeat", "unique", "error"]
Origin: TypeAlias = "str | int | Fraction | tuple[int, int] | list[int]"

# Random origins are multiples of 2**-32 of a step: finer than a frame of any clip, and
# small enough for S * b up to 2**31.
_RANDOM_DENOMINATOR = 2**32


@dataclass(frozen=True, slots=True, init=False)
class PhaseGrid:
    """S offset grids of b frames each, the polyphase components of one dense grid.

    Frame ``i`` of phase ``s`` over a clip of N frames is, in exact integers and with
    ``origin = num / den``::

        ((i * S + s) * den + num) * N // (S * b * den)

    Parameters
    ----------
    budget : int
        Frames a pass sees, b >= 1.
    phases : int, default 1
        Number of offset grids, S >= 1.
    origin : {"left", "midpoint"}, Fraction, int 0, "p/q" or (p, q), default "midpoint"
        Offset of the dense grid in dense steps ``N / (S * b)``, in [0, 1). "left" is 0,
        "midpoint" 1/2. Kept as an exact fraction; a float is refused.
    by : {"frames", "time"}, default "frames"
        Divide the frames of the clip equally, or its time. They agree when every frame
        is shown equally long; for a variable frame rate they do not, see `select`.
    short : {"repeat", "unique", "error"}, default "repeat"
        What a clip of fewer than ``S * b`` frames gets: repeated frames with a
        `DuplicateFrameWarning`; the largest grid without repeats, of
        ``b' = min(b, N)`` frames and ``S' = min(S, N // b')`` phases; or a `GridError`.

    Raises
    ------
    GridError
        If an argument is out of range, or ``S * b * den`` does not fit 63 bits.

    Examples
    --------
    >>> from phasefusion import PhaseGrid
    >>> grid = PhaseGrid(budget=4, phases=3)
    >>> grid.indices(60)
    array([[ 2, 17, 32, 47],
           [ 7, 22, 37, 52],
           [12, 27, 42, 57]])
    >>> grid.phase_fractions
    (Fraction(1, 6), Fraction(1, 2), Fraction(5, 6))
    """

    budget: int
    phases: int
    origin: Fraction
    by: By
    short: Short

    def __init__(
        self,
        budget: SupportsIndex,
        phases: SupportsIndex = 1,
        origin: Origin = "midpoint",
        *,
        by: By = "frames",
        short: Short = "repeat",
    ) -> None:
        values = {
            "budget": _checks.positive("budget", budget),
            "phases": _checks.positive("phases", phases),
            "origin": _checks.exact_origin(origin),
            "by": _checks.one_of("by", by, ("frames", "time")),
            "short": _checks.one_of("short", short, ("repeat", "unique", "error")),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if self.phases * self.budget * self.origin.denominator > _checks.INT64_MAX:
            raise GridError(
                f"phases * budget * denominator of origin = {self.phases} * "
                f"{self.budget} * {self.origin.denominator} must be below 2**63; "
                "take a simpler origin or a smaller grid"
            )

    # -------------------------------------------------------------- frames

    def shape(self, n_frames: SupportsIndex) -> tuple[int, int]:
        """Phases and frames a phase that a clip of `n_frames` frames gets.

        Parameters
        ----------
        n_frames : int
            Frames of the clip, N >= 1.

        Returns
        -------
        shape : tuple of int
            ``(S, b)``, less for a clip of fewer than ``S * b`` frames with
            ``short="unique"``.

        Raises
        ------
        GridError
            If N < 1, or N < S * b with ``short="error"``.

        Examples
        --------
        >>> PhaseGrid(8, 3, short="unique").shape(20)
        (2, 8)
        """
        n = _checks.clip_frames(n_frames)
        if n >= self.phases * self.budget or self.short == "repeat":
            return self.phases, self.budget
        if self.short == "error":
            raise GridError(
                f"n_frames={n} is fewer than phases * budget = {self.phases} * "
                f"{self.budget} = {self.phases * self.budget}; take a smaller grid, or "
                'short="unique" or short="repeat"'
            )
        budget = min(self.budget, n)
        return min(self.phases, n // budget), budget

    def indices(self, n_frames: SupportsIndex) -> NDArray[np.int64]:
        """Frame indices of every phase, dividing the frames equally.

        Parameters
        ----------
        n_frames : int
            Frames of the clip as counted by decoding, N >= 1.

        Returns
        -------
        indices : ndarray, shape (S, b), int64
            Row s is phase s, rising within a row. Fewer rows or columns only with
            ``short="unique"``, see `shape`.

        Raises
        ------
        GridError
            If N < 1, if N < S * b with ``short="error"``, or for a ``by="time"`` grid,
            which needs the time of every frame: use `select`.

        Warns
        -----
        DuplicateFrameWarning
            If N < S * b with ``short="repeat"``.

        Examples
        --------
        >>> PhaseGrid(8, origin="left").indices(300)
        array([[  0,  37,  75, 112, 150, 187, 225, 262]])
        """
        if self.by == "time":
            raise GridError(
                'a grid with by="time" has no frame indices without the time of every '
                "frame; call select(pts, end_pts)"
            )
        n = _checks.clip_frames(n_frames)
        grid = self._fitted(n)
        return _core.grid_indices(n, *grid._numbers())

    def dense(self, n_frames: SupportsIndex) -> NDArray[np.int64]:
        """Frame indices of all phases together, in the order of the clip.

        Parameters
        ----------
        n_frames : int
            Frames of the clip, N >= 1.

        Returns
        -------
        dense : ndarray, shape (S * b,), int64
            ``dense[i * S + s] == indices[s, i]``, non-decreasing.

        Raises
        ------
        GridError
            As `indices`.

        Warns
        -----
        DuplicateFrameWarning
            As `indices`.

        Examples
        --------
        >>> PhaseGrid(2, 3, "left").dense(60)
        array([ 0, 10, 20, 30, 40, 50])
        """
        return np.ascontiguousarray(self.indices(n_frames).T).reshape(-1)

    def select(self, pts: ArrayLike, end_pts: SupportsIndex) -> NDArray[np.int64]:
        """Frame indices of every phase for a clip with known frame times.

        With ``by="frames"`` this is ``indices(len(pts))``. With ``by="time"`` the
        interval ``[pts[0], end_pts)`` is divided equally and each entry is the frame on
        screen at that instant, compared in exact fractions of a tick. A frame shown
        longer than a dense step then repeats, and one shown for less may be passed
        over, as a viewer would see it.

        Parameters
        ----------
        pts : array_like, shape (N,), int64
            Presentation times in ticks of any time base, non-decreasing. Of frames with
            equal times the last is the one shown.
        end_pts : int
            When the last frame stops being shown, in the same ticks, >= ``pts[-1]``.

        Returns
        -------
        indices : ndarray, shape (S, b), int64
            Indices into `pts`.

        Raises
        ------
        GridError
            If `pts` is empty, not whole numbers or decreases, if `end_pts` is below its
            last value, or as `indices`.

        Warns
        -----
        DuplicateFrameWarning
            If N < S * b with ``short="repeat"``.

        Examples
        --------
        A still of 9 ticks and then three frames of one tick:

        >>> pts = [0, 9, 10, 11]
        >>> PhaseGrid(2, 2, "left").select(pts, 12)
        array([[0, 2],
               [1, 3]])
        >>> PhaseGrid(2, 2, "left", by="time").select(pts, 12)
        array([[0, 0],
               [0, 1]])
        """
        return self._frames(pts, end_pts)

    def times(self, duration_s: float, start_s: float = 0.0) -> NDArray[np.float64]:
        """Instants of every phase when the time of the clip is divided equally.

        Parameters
        ----------
        duration_s : float
            Length of the clip in seconds, >= 0.
        start_s : float, default 0.0
            Time of its first frame in seconds.

        Returns
        -------
        times_s : ndarray, shape (S, b), float64
            Seconds; within a rounding error of the fraction that `select` uses.

        Raises
        ------
        GridError
            If `duration_s` is negative, or either is not finite.

        Examples
        --------
        >>> PhaseGrid(2, 2).times(8.0)
        array([[1., 5.],
               [3., 7.]])
        """
        duration = _checks.finite("duration_s", duration_s)
        if duration < 0:
            raise GridError(f"duration_s={duration_s!r} must be >= 0")
        start = _checks.finite("start_s", start_s)
        num, den = self.origin.numerator, self.origin.denominator
        n_dense = self.phases * self.budget
        dense = (np.arange(n_dense, dtype=np.int64) * den + num) / (n_dense * den)
        by_frame = dense.reshape(self.budget, self.phases)
        return start + np.ascontiguousarray(by_frame.T) * duration

    # -------------------------------------------------------------- phases

    def phase(self, s: SupportsIndex) -> Fraction:
        """Phase of view `s` as an exact fraction of a step, ``(s + origin) / S``.

        In [0, 1). A GridError unless 0 <= s < S.

        >>> PhaseGrid(8, 3).phase(2)
        Fraction(5, 6)
        """
        view = _checks.whole("s", s)
        if not 0 <= view < self.phases:
            raise GridError(
                f"s={view} is not a phase of this grid; it must be in "
                f"0..{self.phases - 1}"
            )
        return (view + self.origin) / self.phases

    @property
    def phase_fractions(self) -> tuple[Fraction, ...]:
        """The S phases in rising order, each a fraction of a step."""
        return tuple(self.phase(s) for s in range(self.phases))

    def view(self, s: SupportsIndex) -> PhaseGrid:
        """Return the grid of phase `s` alone, 0 <= s < S; a GridError for other `s`.

        Its frames are row `s` of `indices` as long as no frame repeats.

        >>> PhaseGrid(4, 3).view(2).indices(60)
        array([[12, 27, 42, 57]])
        """
        return self._with(phases=1, origin=self.phase(s))

    def union(self) -> PhaseGrid:
        """Return the dense grid as a single pass of ``S * b`` frames.

        >>> PhaseGrid(8, 3).union()
        PhaseGrid(budget=24, phases=1, origin='midpoint', by='frames', short='repeat')
        """
        return self._with(budget=self.phases * self.budget, phases=1)

    # -------------------------------------------------------------- shifts

    def shift_steps(self, shift: Literal["half"] | Fraction | int | str) -> Fraction:
        """`shift` as an exact fraction of a step, what "half" stands for included.

        Half a step is S/2 dense steps. For odd S that moves the grid by half a dense
        step. For even S it would move the grid onto itself, so "half" is then half a
        *dense* step, 1/(2S).

        Parameters
        ----------
        shift : "half", Fraction, int or "p/q"
            In steps ``N / b``.

        Returns
        -------
        shift : Fraction
            In steps.

        Raises
        ------
        GridError
            If `shift` is a float or cannot be read.

        Examples
        --------
        >>> PhaseGrid(8, 3).shift_steps("half"), PhaseGrid(8, 2).shift_steps("half")
        (Fraction(1, 2), Fraction(1, 4))
        """
        if shift == "half":
            return Fraction(1, 2) if self.phases % 2 else Fraction(1, 2 * self.phases)
        return _checks.fraction("shift", shift, 'a Fraction, "p/q", or "half"')

    def shifted(self, shift: Literal["half"] | Fraction | int | str) -> PhaseGrid:
        """Move the grid later in the clip by `shift`.

        Only where the dense grid lies within its own steps is kept, so the phases stay
        in rising order and whole dense steps drop out.

        Parameters
        ----------
        shift : "half", Fraction, int or "p/q"
            In steps ``N / b``; "half" as in `shift_steps`. May be negative.

        Returns
        -------
        grid : PhaseGrid
            Origin ``(origin + S * shift) mod 1``.

        Raises
        ------
        GridError
            As `shift_steps`, or if the new origin needs more than 63 bits.

        Warns
        -----
        GridWarning
            If `shift` is a whole number of dense steps: the grid maps onto itself, and
            a comparison of the two finds no change by construction.

        Examples
        --------
        >>> PhaseGrid(8, 3, "left").shifted("half").origin
        Fraction(1, 2)
        """
        steps = self.shift_steps(shift)
        moved = steps * self.phases
        if moved.denominator == 1:
            _checks.warn_once(
                f"shift={steps} of a step is {moved} dense steps of a grid of "
                f"phases={self.phases}: the grid maps onto itself; shift by 1/"
                f'{2 * self.phases} or "half"',
                GridWarning,
            )
        return self._with(origin=(self.origin + moved) % 1)

    def step_frames(self, n_frames: SupportsIndex) -> Fraction:
        """Length of one step in frames, ``N / b``.

        >>> PhaseGrid(8).step_frames(300)
        Fraction(75, 2)
        """
        return Fraction(_checks.clip_frames(n_frames), self.budget)

    def shift_frames(
        self, shift: Literal["half"] | Fraction | int | str, n_frames: SupportsIndex
    ) -> Fraction:
        """Give `shift`, in steps as for `shifted`, in frames of a clip of `n_frames`.

        >>> PhaseGrid(8, 3).shift_frames("half", 300)
        Fraction(75, 4)
        """
        return self.shift_steps(shift) * self.step_frames(n_frames)

    def shift_seconds(
        self, shift: Literal["half"] | Fraction | int | str, duration_s: float
    ) -> float:
        """Give `shift`, in steps as for `shifted`, in seconds of a clip so long.

        >>> PhaseGrid(8, 3).shift_seconds("half", 12.0)
        0.75
        """
        steps = self.shift_steps(shift)
        return _checks.finite("duration_s", duration_s) * float(steps / self.budget)

    def random(self, rng: np.random.Generator | int | None = None) -> PhaseGrid:
        """Draw a random origin for the grid.

        One shift, uniform in [0, 1) of a *step* ``N / b``, is drawn and applied to the
        left grid. Grids of one budget but different S that draw from equal generators
        are therefore moved by the same number of seconds.

        Parameters
        ----------
        rng : numpy.random.Generator or int, optional
            Source of randomness, advanced by one draw, or a seed, taken modulo 2**64.

        Returns
        -------
        grid : PhaseGrid
            With a new origin, a multiple of 2**-32.

        Raises
        ------
        GridError
            If ``S * b`` is 2**31 or more, or rng is neither.

        Examples
        --------
        >>> one, three = PhaseGrid(8, 1).random(7), PhaseGrid(8, 3).random(7)
        >>> three.origin == 3 * one.origin % 1
        True
        """
        if rng is not None and not isinstance(rng, np.random.Generator):
            rng = _checks.whole("rng", rng) & MASK_64
        draw = int(np.random.default_rng(rng).integers(_RANDOM_DENOMINATOR))
        return self._with(origin=Fraction(draw, _RANDOM_DENOMINATOR) * self.phases % 1)

    # -------------------------------------------------------------- records

    def to_dict(self) -> dict[str, Any]:
        """Give the grid as JSON-able values, the origin as [numerator, denominator].

        >>> PhaseGrid(8, 3).to_dict()
        {'budget': 8, 'phases': 3, 'origin': [1, 2], 'by': 'frames', 'short': 'repeat'}
        """
        return {
            "budget": self.budget,
            "phases": self.phases,
            "origin": [self.origin.numerator, self.origin.denominator],
            "by": self.by,
            "short": self.short,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> PhaseGrid:
        """Make the grid that `to_dict` wrote; a GridError for any other record.

        >>> PhaseGrid.from_dict(PhaseGrid(8, 3).to_dict()) == PhaseGrid(8, 3)
        True
        """
        wanted = ["budget", "phases", "origin", "by", "short"]
        if sorted(record) != sorted(wanted):
            raise GridError(
                f"a grid record has the keys {wanted}, this one {sorted(record)}"
            )
        return cls(
            record["budget"],
            record["phases"],
            record["origin"],
            by=record["by"],
            short=record["short"],
        )

    def __repr__(self) -> str:
        names = {value: name for name, value in _checks.NAMED_ORIGINS.items()}
        origin = names.get(self.origin, str(self.origin))
        return (
            f"PhaseGrid(budget={self.budget}, phases={self.phases}, origin={origin!r}, "
            f"by={self.by!r}, short={self.short!r})"
        )

    def _numbers(self) -> tuple[int, int, int, int]:
        origin = self.origin
        return self.budget, self.phases, origin.numerator, origin.denominator

    def _with(
        self,
        *,
        budget: int | None = None,
        phases: int | None = None,
        origin: Fraction | None = None,
    ) -> PhaseGrid:
        return PhaseGrid(
            self.budget if budget is None else budget,
            self.phases if phases is None else phases,
            self.origin if origin is None else origin,
            by=self.by,
            short=self.short,
        )

    def _frames(
        self, pts: ArrayLike, end_pts: SupportsIndex, path: str = ""
    ) -> NDArray[np.int64]:
        """Do what `select` does, for a clip that a warning names by its path."""
        ticks, end = _checks.timeline(pts, end_pts)
        grid = self._fitted(len(ticks), path)
        if self.by == "frames":
            return _core.grid_indices(len(ticks), *grid._numbers())
        return _core.grid_frames_at(ticks, end, *grid._numbers())

    def _fitted(self, n: int, path: str = "") -> PhaseGrid:
        """Cut the grid to a clip of n frames, with a warning when frames repeat."""
        phases, budget = self.shape(n)
        if n < phases * budget:
            _checks.warn_once(
                f"{path}{': ' if path else ''}a clip of n_frames={n} is shorter than "
                f"phases * budget = {phases} * "
                f"{budget} = {phases * budget}: frames repeat, shape ({phases}, "
                f'{budget}) holds at most {n} different ones; short="unique" would '
                f"give shape {self._unique_shape(n)}",
                DuplicateFrameWarning,
            )
        if (phases, budget) == (self.phases, self.budget):
            return self
        return self._with(budget=budget, phases=phases)

    def _unique_shape(self, n: int) -> tuple[int, int]:
        budget = min(self.budget, n)
        return min(self.phases, n // budget), budget
