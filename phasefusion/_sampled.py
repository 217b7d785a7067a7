"""Frames that are chosen once a video is known: of a sampler, or of a moved grid."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion import samplers
from phasefusion.errors import GridError
from phasefusion.grid import PhaseGrid


@dataclass(frozen=True, slots=True, init=False)
class SampledGrid(PhaseGrid):
    """Frames that a sampler takes of a clip, where a decoder wants a grid.

    Parameters
    ----------
    name : str
        Of the sampler, see `phasefusion.samplers`.
    n_frames : int
        Frames of the clip.
    budget : int
        Frames asked for.
    fps : Fraction
        Frames a second of the clip.

    Raises
    ------
    GridError
        If the sampler refuses such a clip, takes no frame of it, or one outside.
    """

    sampler: str
    chosen: tuple[int, ...]

    def __init__(self, name: str, n_frames: int, budget: int, fps: Fraction) -> None:
        chosen = samplers.get(name).indices(n_frames, budget, fps)
        if not len(chosen):
            raise GridError(f"sampler {name} takes no frame of {n_frames}")
        outside = chosen[(chosen < 0) | (chosen >= n_frames)]
        if outside.size:
            raise GridError(
                f"sampler {name} asks for frame {outside[0]} of a clip of {n_frames} "
                "frames"
            )
        PhaseGrid.__init__(self, len(chosen), 1, "left")
        object.__setattr__(self, "sampler", name)
        object.__setattr__(self, "chosen", tuple(chosen.tolist()))

    def view(self, s: SupportsIndex) -> PhaseGrid:
        """Return the grid itself, its only phase."""
        self.phase(s)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Give what was chosen as JSON values."""
        return {"sampler": self.sampler, "frames": list(self.chosen)}

    def _frames(
        self, pts: ArrayLike, end_pts: SupportsIndex, path: str = ""
    ) -> NDArray[np.int64]:
        if self.chosen[-1] >= np.size(pts):  # damage has been found meanwhile
            raise GridError(
                f"{path}: sampler {self.sampler} chose frame {self.chosen[-1]}, and "
                f"only {np.size(pts)} frames can be decoded"
            )
        return np.array([self.chosen], dtype=np.int64)


@dataclass(frozen=True, slots=True, init=False)
class MovedGrid(PhaseGrid):
    """A grid of one phase of which every frame is moved by as many frames.

    Parameters
    ----------
    grid : PhaseGrid
        One phase over frames.
    moved : int
        Frames to add to every index.
    n_frames : int
        Frames of the clip.

    Raises
    ------
    GridError
        If the grid goes by time, or a frame would be outside of the clip: what is cut
        off or repeated is no moved grid.
    """

    moved: int

    def __init__(self, grid: PhaseGrid, moved: int, n_frames: int) -> None:
        if grid.phases != 1 or grid.by != "frames":
            raise GridError(
                "only a grid of one phase over frames is moved by whole frames, not "
                f'{grid.phases} phases with by="{grid.by}"'
            )
        PhaseGrid.__init__(self, grid.budget, 1, grid.origin, short=grid.short)
        object.__setattr__(self, "moved", moved)
        self._inside(PhaseGrid.indices(self, n_frames) + moved, n_frames, "")

    def view(self, s: SupportsIndex) -> PhaseGrid:
        """Return the grid itself, its only phase."""
        self.phase(s)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Give the grid and by how much it is moved as JSON values."""
        return PhaseGrid.to_dict(self) | {"moved_frames": self.moved}

    def indices(self, n_frames: SupportsIndex) -> NDArray[np.int64]:
        """Frame indices, shape (1, b)."""
        found = PhaseGrid.indices(self, n_frames) + self.moved
        return self._inside(found, int(n_frames), "")

    def _frames(
        self, pts: ArrayLike, end_pts: SupportsIndex, path: str = ""
    ) -> NDArray[np.int64]:
        found = PhaseGrid._frames(self, pts, end_pts, path) + self.moved
        return self._inside(found, np.size(pts), f"{path}: ")

    def _inside(
        self, found: NDArray[np.int64], n_frames: int, where: str
    ) -> NDArray[np.int64]:
        if found.min() < 0 or found.max() >= n_frames:
            raise GridError(
                f"{where}{self.budget} frames moved by {self.moved:+d} would reach "
                f"from {found.min()} to {found.max()}, outside of a clip of {n_frames}"
            )
        return found
