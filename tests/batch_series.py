"""Series of batches drawn from made-up corpora, without run folders."""

import numpy as np

from phasefusion.monitor import Batch, Value
from phasefusion.simulate import Effects, corpus
from phasefusion.stats import clustered_mean

MEASURES = ("accuracy", "fpc", "ooc")


def pairwise(answers):
    """Chance that two of the last axis agree."""
    n = answers.shape[-1]
    same = (answers[..., :, None] == answers[..., None, :]).sum((-1, -2)) - n
    return same / (n * (n - 1))


def item_values(effects=None, *, n_videos, seed=0, **design):
    """Accuracy, FPC and OOC of every item, from its answers, and its video."""
    made = corpus(
        effects or Effects(),
        n_videos=n_videos,
        n_options={4: 1.0},
        orders="cyclic",
        seed=seed,
        **design,
    )
    answers = made.answers("phase")
    right = (answers == made.gold[:, None, None]).mean((1, 2))
    fpc = pairwise(np.moveaxis(answers, 1, 2)).mean(1)
    ooc = pairwise(answers).mean(1)
    return np.stack([right, fpc, ooc], axis=1), made.video


def summaries(values, videos, batches):
    """Mean and clustered error of every batch: lists of videos that are in it.

    Shapes (batches, measures); every video has as many items.
    """
    order = np.argsort(videos, kind="stable")
    by_video = values[order].reshape(videos.max() + 1, -1, values.shape[1])
    size = by_video.shape[1]
    parts = by_video[batches]  # (b, videos, items, measures)
    n_videos = parts.shape[1]
    means = parts.mean((1, 2))
    sums = (parts - means[:, None, None]).sum(2)
    errors = np.sqrt(n_videos / (n_videos - 1) * (sums**2).sum(1)) / (n_videos * size)
    return means, errors, np.full(len(batches), n_videos * size)


def batch(at, values, videos, *, items="x", described=None):
    """Make a batch from the values of its items."""
    found = {}
    for j, measure in enumerate(MEASURES):
        mean = clustered_mean(values[:, j], videos)
        found[measure] = Value(mean.mean, mean.se, mean.n, mean.n_clusters)
    return Batch(
        at=at,
        run=f"runs/{at}",
        n_items=len(values),
        n_incomplete=0,
        items_sha256=items,
        sampling={},
        orders={},
        described=described or {},
        notices=(),
        values=found,
    )
