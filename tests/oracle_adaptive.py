"""Slow, obvious twin of `stats.adaptive_phases`: one item, one phase at a time."""

import math

import numpy as np

from phasefusion import fuse


def adaptive_item(posteriors, order, threshold, item_id, seed):
    """Answer, phases and margin of one item (S, K), by `fuse` at each step."""
    taken = []
    for s in order:
        taken.append(posteriors[s])
        if np.isnan(posteriors[s]).any():
            return -1, len(taken), math.nan
        with np.errstate(divide="ignore"):
            fused = fuse(np.log(np.array(taken)), item_id=item_id, seed=seed)
        if math.isfinite(threshold) and fused.margin >= threshold:
            break
    return int(fused.answer), len(taken), float(fused.margin)


def farthest_first(n_phases, first):
    """Every phase that is left tried against every phase that is taken."""
    found = [first]
    while len(found) < n_phases:
        best = None
        for s in set(range(n_phases)) - set(found):
            apart = sorted(min((s - t) % n_phases, (t - s) % n_phases) for t in found)
            crowd = round(sum(1 / d**2 for d in apart), 9)
            key = (-apart[0], crowd, s)
            best = key if best is None else min(best, key)
        found.append(best[2])
    return found
