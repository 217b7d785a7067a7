"""What sweeps hold in memory: bounded, and given back."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from phasefusion.scoring import HFOptionScorer, prefix

torch = pytest.importorskip("torch")

ORDERS = np.array([[0, 1, 2], [2, 0, 1], [1, 0, 2], [2, 1, 0], [0, 2, 1]])
OPTIONS = ("red", "dark blue", "no colour")
QUESTIONS = ("Which colour?", "Which colour is it that the door has in the end?", "?")


@pytest.fixture
def make(model, tokenizer, build):
    return lambda: HFOptionScorer(model, tokenizer, size=build.SIZE)


def held_bytes():
    """Memory of all tensors that are reachable."""
    gc.collect()
    found = {}
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.Tensor):  # isinstance asks some in vain
            storage = thing.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return sum(found.values())


def test_nothing_grows_over_fifty_items(make, build):
    scorer = make()
    scorer._passes.encoder.max_bytes = 40_000
    sizes = []
    for i in range(50):
        clip = build.clip(3, 4, seed=i)
        scorer.score(clip, QUESTIONS[i % 3], OPTIONS, orders=ORDERS)
        assert scorer._passes.encoder.n_bytes <= 40_000
        if i in (9, 49):
            del clip
            sizes.append(held_bytes())
    # Full after a few, and the keys and values of one phase are 18,000 bytes more.
    assert abs(sizes[1] - sizes[0]) < 10_000
    assert scorer._passes.encoder.n_encoded == 50 * 3 * 2


def test_prefixes_are_given_back_phase_by_phase(model, make, build, monkeypatch):
    made_of, alive = [], []
    cut = prefix.cut

    def noted(cache, row, n_tokens):
        layers = cut(cache, row, n_tokens)
        made_of.append(weakref.ref(layers[0][0]))
        return layers

    monkeypatch.setattr(prefix, "cut", noted)
    scorer = make()
    scorer._passes.budget.most_run = 1  # one phase a time
    clip = build.clip(6, 4)
    handle = model.register_forward_pre_hook(
        lambda *_: alive.append(sum(ref() is not None for ref in made_of))
    )
    try:
        scorer.score(clip, QUESTIONS[0], OPTIONS, orders=ORDERS)
    finally:
        handle.remove()
    assert len(made_of) == 6
    assert max(alive) == 1
    assert not any(ref() is not None for ref in made_of)
