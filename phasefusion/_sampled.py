"""The frames of a deployed sampler as a grid, for one video of which all is known."""

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
