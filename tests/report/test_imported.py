"""Reports of passes that came from elsewhere, and of very many."""

import json
import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import made_run
from pass_files import text
from sample_passes import make_pass

from phasefusion.records import read_passes
from phasefusion.report import report
from phasefusion.report.summary import _middle
from phasefusion.report.table import _codes_of_rows, number_orders


@pytest.fixture
def imported(tmp_path):
    """Plain predictions of two arms, one of which no protocol of ours has."""
    rows = [
        make_pass(
            i,
            arm=arm,
            phase=None,
            n_phases=1,
            order=[0, 1, 2],
            logprobs=None,
            answer=answer,
            path="generate",
            budget=None,
            source={"format": "csv", "file": "a.csv", "line": i},
        )
        for i in range(4)
        for arm, answer in (("single", i % 3), ("16f", 0))
    ]
    rows[0]["answer"] = None
    (tmp_path / "passes.jsonl").write_text(text(*rows))
    run = {"format": 1, "settings": {}, "versions": {}}
    (tmp_path / "run.json").write_text(json.dumps(run))
    return tmp_path


def test_arms_from_elsewhere_are_reported(imported):
    made = report(imported)
    numbers = made.numbers
    assert list(numbers["accuracy"]) == ["single", "16f"]
    # question 0 has no single answer; of the others 3 is right (gold is 0)
    assert numbers["accuracy"]["single"]["first_order"]["value"] == pytest.approx(1 / 3)
    assert numbers["accuracy"]["16f"]["first_order"]["value"] == 1
    assert numbers["items"]["missing_passes"] == 1
    assert numbers["items"]["dropped"][0]["missing_passes"] == 1
    assert "does not say how its frames were sampled" in made.to_markdown()
    assert "16f" in str(made)
    assert math.isnan(made.fpc)


def test_orders_are_numbered_as_they_come(tmp_path):
    made_run(tmp_path / "run", n_items=8)
    passes = read_passes(tmp_path / "run")
    rng = np.random.default_rng(0)
    index, order = number_orders(passes)
    seen = [[] for _ in passes.items]
    for p in range(len(passes)):
        row = passes.order[p].tolist()
        if row not in seen[passes.item[p]]:
            seen[passes.item[p]].append(row)
        assert seen[passes.item[p]][index[p]] == row
    for i, rows in enumerate(seen):
        assert order[i, : len(rows)].tolist() == rows
        assert (order[i, len(rows) :] == -1).all()
    wide = np.array([rng.permutation(40) for _ in range(30)])[rng.integers(0, 30, 200)]
    codes = _codes_of_rows(wide)
    same = (wide[:, None] == wide[None]).all(axis=2)
    assert ((codes[:, None] == codes[None]) == same).all()
    assert codes.max() < 30


@given(st.lists(st.one_of(st.none(), st.integers(1, 10**6)), min_size=1))
def test_the_middle_is_what_the_median_is_the_mean_of(values):
    known = [value for value in values if value is not None]
    middle = _middle(values)
    assert len(middle) <= 2
    if known:
        assert statistics.mean(middle) == statistics.median(known)
    else:
        assert middle == []
