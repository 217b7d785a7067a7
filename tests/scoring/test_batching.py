"""Budgets, trees and keys of frames, without a model."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from phasefusion.scoring import batching, readout
from phasefusion.scoring.batching import TokenBudget, batches, within_memory
from phasefusion.scoring.caches import cut
from phasefusion.scoring.encoder import frame_keys
from phasefusion.scoring.readout import project
from phasefusion.scoring.trees import TokenTree, packing, tree_mask

torch = pytest.importorskip("torch")

CPU = torch.device("cpu")


def test_the_allocator_of_the_cpu_is_understood():
    def far_too_much():
        torch.empty(10**15)

    assert not within_memory(far_too_much, CPU)
    assert within_memory(lambda: None, CPU)
    with pytest.raises(IndexError):
        within_memory(lambda: [][0], CPU)


def test_the_first_limit_follows_the_free_memory(monkeypatch):
    free = batching.free_bytes(CPU)
    assert free is None or 0 < free < 10**15
    monkeypatch.setattr(batching, "free_bytes", lambda device: 1000)
    budget = TokenBudget(CPU)
    budget.start(10)
    assert budget.limit == 50
    budget.failed(40)
    budget.failed(100)
    assert budget.limit == 20  # never back up
    budget.start(1)
    assert budget.limit == 20


def test_a_container_sets_the_limit(monkeypatch, tmp_path):
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("1000\n")
    monkeypatch.setattr(batching, "_GROUP", tmp_path)
    assert batching.free_bytes(CPU) == 4000
    (tmp_path / "memory.max").write_text("max\n")
    assert batching.free_bytes(CPU) != 4000


@pytest.mark.parametrize("limit", [1, 25, 59, 60, 10**9])
@pytest.mark.parametrize("most_rows", [None, 1, 3])
def test_every_row_is_in_one_batch_that_is_allowed(limit, most_rows):
    rng = np.random.default_rng(limit)
    sizes = [(int(a), int(b)) for a, b in rng.integers(1, 20, (30, 2))]
    budget = TokenBudget(CPU)
    budget.limit, budget.most_run = limit, 64
    found = list(batches(sizes, budget, most_rows=most_rows))
    assert [i for batch in found for i in batch] == list(range(30))
    for batch in found:
        cached = max(sizes[i][0] for i in batch)
        run = max(sizes[i][1] for i in batch)
        fits = len(batch) * (cached + run) <= limit and len(batch) * run <= 64
        assert fits or len(batch) == 1
        assert most_rows is None or len(batch) <= most_rows


def test_trees_hold_every_sequence():
    rng = np.random.default_rng(0)
    sequences = [rng.integers(0, 3, rng.integers(1, 9)) for _ in range(40)]
    tree = TokenTree.of(sequences)
    visible = tree.visible()
    assert len(tree) == len(
        {tuple(s[: i + 1].tolist()) for s in sequences for i in range(len(s))}
    )
    for sequence, path in zip(sequences, tree.paths, strict=True):
        np.testing.assert_array_equal(tree.ids[path], sequence)
        np.testing.assert_array_equal(tree.depths[path], np.arange(len(path)))
        # Each sees its own past and nothing else.
        for i, node in enumerate(path):
            np.testing.assert_array_equal(
                np.flatnonzero(visible[node]), np.sort(path[: i + 1])
            )


def test_masks_let_nothing_else_through():
    trees = [TokenTree.of([np.array([1, 2])]), TokenTree.of([np.array([1])])]
    mask = tree_mask(2, [tree.visible() for tree in trees], torch.float32)
    assert mask.shape == (2, 1, 2, 4)
    np.testing.assert_array_equal(
        (mask[:, 0] == 0).int(),
        [[[1, 1, 1, 0], [1, 1, 1, 1]], [[1, 1, 1, 0], [1, 1, 0, 0]]],
    )


def test_a_prefix_holds_no_more_than_itself():
    keys = torch.zeros(3, 2, 5, 4)
    layer = SimpleNamespace(keys=keys, values=keys + 1)
    for pair in cut(SimpleNamespace(layers=[layer]), 1, 4):
        for tensor in pair:
            assert tensor.shape == (1, 2, 4, 4)
            assert tensor.untyped_storage().nbytes() == tensor.nbytes


def test_packs_end_where_they_are_full():
    assert list(packing([], 3, 10)) == []
    assert list(packing([50, 50], 3, 10)) == [1, 2]
    assert list(packing([1] * 7, 3, 10)) == [3, 6, 7]


def test_frames_have_keys_by_their_pixels():
    rng = np.random.default_rng(0)
    frames = rng.random((4, 3, 8, 8), dtype=np.float32)
    keys = frame_keys({"pixel_values": frames})
    assert len(set(keys)) == 4
    assert frame_keys({"pixel_values_videos": frames[None]}) == keys
    assert frame_keys({"pixel_values": frames[::-1]}) == keys[::-1]
    changed = frames.copy()
    changed[2, 0, 0, 0] = np.nextafter(changed[2, 0, 0, 0], np.float32(2))
    other = frame_keys({"pixel_values": changed})
    assert [a == b for a, b in zip(keys, other, strict=True)] == [1, 1, 0, 1]
    patches = rng.random((12, 5), dtype=np.float32)
    grid = np.array([[3, 2, 2]])
    assert (
        len(frame_keys({"pixel_values_videos": patches, "video_grid_thw": grid})) == 3
    )
    assert frame_keys({"pixel_values": patches}) == []
    assert frame_keys({"input_features": frames}) == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("with_bias", [True, False])
def test_projection_is_exact_block_by_block(monkeypatch, dtype, with_bias):
    monkeypatch.setattr(readout, "_BLOCK", 64)  # 4 rows of the vocabulary at a time
    generator = torch.Generator().manual_seed(0)
    hidden, weight, bias = (
        torch.randn(shape, generator=generator).to(dtype)
        for shape in ((3, 16), (37, 16), (37,))
    )
    bias = bias if with_bias else None
    found = project(hidden, weight, bias)
    expected = hidden.double() @ weight.double().T
    if bias is not None:
        expected += bias.double()
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert project(hidden[:0], weight, bias).shape == (0, 37)
