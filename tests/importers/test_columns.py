"""Answers of distributions are taken for many passes at once, as for each alone."""

import numpy as np
import pytest

from phasefusion.fusion import fuse
from phasefusion.importers import accuracy_by, distributions, most_probable
from phasefusion.importers.distributions import best_of


def made(n, seed):
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        k = int(rng.integers(2, 6))
        # Rounded, so that many are tied.
        letters = np.round(rng.uniform(-2, 0, k), 1)
        rows.append(
            {
                "question_id": f"q{i}",
                "arm": "abc"[i % 3],
                "gold": int(rng.integers(k)),
                "answer": 0,
                "n_options": k,
                "order": rng.permutation(k).tolist(),
                "logprobs": letters.tolist() if i % 7 else None,
            }
        )
    return rows


def alone(row):
    if row["logprobs"] is None:
        return None
    content = np.empty(row["n_options"])
    content[row["order"]] = row["logprobs"]
    return int(fuse([content], item_id=row["question_id"]).answer)


def test_best_of_many_is_that_of_each():
    rows = made(300, 1)
    assert [most_probable(row) for row in rows] == [alone(row) for row in rows]
    found = accuracy_by(rows, "arm", answers="most-probable")
    for arm in "abc":
        of_arm = [row for row in rows if row["arm"] == arm]
        right = sum(alone(row) == row["gold"] for row in of_arm)
        assert (found[arm].k, found[arm].n) == (right, len(of_arm))


def test_one_call_for_every_number_of_options(write, take, monkeypatch):
    calls = []
    inner = distributions.fuse_items

    def counted(values, **options):
        calls.append(np.shape(values))
        return inner(values, **options)

    monkeypatch.setattr(distributions, "fuse_items", counted)
    rows = [
        {"id": f"q{i}", "options": [*"wxyz"][: 3 + i % 2], "logprobs": values}
        for i, values in enumerate([[-1.0, -2.0, -0.5], [-1.0, -0.1, -3.0, -4.0]] * 50)
    ]
    _, passes = take(write("log.jsonl", rows))
    assert calls == [(50, 1, 3), (50, 1, 4)]
    assert [row["answer"] for row in passes] == [2, 1] * 50
    accuracy_by([row | {"gold": 0} for row in passes], "arm", answers="most-probable")
    assert len(calls) == 4


@pytest.mark.parametrize("n", [0, 1])
def test_few(n):
    assert best_of([[-1.0, -0.5]] * n, ["q"] * n) == [1] * n
