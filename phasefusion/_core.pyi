"""Grids, posteriors and statistics: pure functions over NumPy arrays."""

# grid

# posterior

# statistics
