"""Design effect and intraclass correlation from sums over clusters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def ratios_of_clusters(
    totals: NDArray[np.float64], n_clusters: int
) -> NDArray[np.float64]:
    """Design effect and ICC from sums over clusters, shape (B, 2).

    Totals are n, sum x, sum x**2, and over clusters sum S**2, sum m S, sum m**2 and
    sum S**2 / m, where a cluster has m items with the sum S.
    """
    n, total, squares, s2, ms, m2, within = totals.T
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / n
        deviations = np.maximum(squares - n * mean * mean, 0.0)
        robust = s2 - 2.0 * mean * ms + mean * mean * m2
        robust *= n_clusters / (n_clusters - 1.0) if n_clusters > 1 else np.nan
        effect = robust / (deviations * n / (n - 1.0))
        between = (within - n * mean * mean) / (n_clusters - 1.0)
        inside = np.maximum(squares - within, 0.0) / (n - n_clusters)
        typical = (n - m2 / n) / (n_clusters - 1.0)
        icc = (between - inside) / (between + (typical - 1.0) * inside)
    none = deviations <= 1e-12 * np.maximum(squares, 1.0)
    return np.where(none[:, None], np.nan, np.stack([effect, icc], axis=1))
