"""Grids, posteriors and statistics: pure functions over NumPy arrays."""

from typing import Any

from numpy.typing import NDArray

# grid

# posterior

# statistics
