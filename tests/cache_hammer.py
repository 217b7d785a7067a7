"""A busy user of a frame cache, as a function and as a process of its own."""

from __future__ import annotations

import os
import random

import numpy as np

from phasefusion import FrameCache
from phasefusion.cache import Entry


def some(seed, n_bytes=1000):
    rng = np.random.default_rng(seed)
    return Entry(
        {
            "frames": rng.integers(0, 256, (n_bytes,)).astype(np.uint8),
            "times": rng.random((2, 0, 3)),
            "flags": np.array(True),
        },
        {"seed": seed, "text": "é\n", "none": None},
    )


def assert_entry(got, entry):
    assert got.facts == entry.facts
    assert list(got.arrays) == list(entry.arrays)
    for name, array in entry.arrays.items():
        assert got.arrays[name].dtype == array.dtype
        assert got.arrays[name].shape == array.shape
        assert np.array_equal(got.arrays[name], array)


def hammer(folder, seed, n_rounds):
    """Put, get and evict at random; every hit must be right."""
    rng = random.Random(seed)
    cache = FrameCache(folder, max_bytes=30_000)
    n_hit = 0
    for _ in range(n_rounds):
        k = rng.randrange(40)
        if rng.random() < 0.4:
            cache.put(f"{k}", some(k))
        elif rng.random() < 0.05:
            try:  # somebody cuts an entry short
                path = rng.choice(os.listdir(folder))
                os.truncate(os.path.join(folder, path), 500)
            except (OSError, IndexError):
                pass
        else:
            found = cache.get(f"{k}")
            if found is not None:
                assert_entry(found, some(k))
                n_hit += 1
    return n_hit


def main(words):
    """Hammer the folder words[0] with the seed words[1]; whether that hit enough."""
    folder, seed = words
    return hammer(folder, int(seed), 300) > 10
