"""Results print as a line and a table, and do not depend on the order of items."""

from __future__ import annotations

import dataclasses
import inspect
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasefusion import stats
from phasefusion._results import Result


def data(seed, n=40):
    """Items: clusters, values, classes, answers by view and order, ids."""
    rng = np.random.default_rng(seed)
    return {
        "cluster": rng.integers(0, 12, n),
        "values": rng.choice([-1.0, 0.0, 1.0, np.nan], n, p=[0.2, 0.5, 0.2, 0.1]),
        "real": rng.normal(size=n),
        "other": rng.normal(size=n),
        "positive": np.r_[True, False, rng.random(n - 2) < 0.4],
        "flag": np.r_[True, False, rng.random(n - 2) < 0.3],
        "answers": rng.integers(-1, 3, (n, 4)),
        "whole": rng.integers(0, 3, (n, 3, 4)),
        "gold": rng.integers(0, 3, n),
        "ids": np.array([f"q{i}" for i in range(n)]),
        "prob": rng.dirichlet(np.ones(3), (n, 3)),
    }


#: Results of many items that are numbers of all of them, by what makes them.
WHOLE = {
    "clustered_mean": lambda d: stats.clustered_mean(d["values"], d["cluster"]),
    "tost": lambda d: stats.tost(d["values"], d["cluster"], margin=0.3),
    "cluster_bootstrap": lambda d: stats.cluster_bootstrap(
        d["values"], d["cluster"], n_resamples=200
    ),
    "clustered_mcnemar": lambda d: stats.clustered_mcnemar(
        np.nan_to_num(d["values"]).astype(int), d["cluster"]
    ),
    "auroc": lambda d: stats.auroc(d["positive"], d["real"]),
    "clustered_auroc": lambda d: stats.auroc(
        d["positive"], d["real"], cluster=d["cluster"]
    ),
    "auroc_bootstrap": lambda d: stats.auroc_bootstrap(
        d["positive"], d["real"], n_resamples=200
    ),
    "flag_lowest": lambda d: stats.flag_lowest(d["real"], d["flag"]),
    "flip_rates": lambda d: stats.flip_rates(d["answers"]),
    "flip_ratio": lambda d: stats.flip_ratio(
        np.abs(d["values"]), d["flag"], cluster=d["cluster"], n_resamples=200
    ),
    "matched_vote": lambda d: stats.matched_vote(
        d["whole"], n_options=3, item_ids=d["ids"].tolist(), cluster=d["cluster"]
    ),
    "matched_vote_null": lambda d: stats.matched_vote_null(
        d["whole"], n_options=3, item_ids=d["ids"].tolist(), n_permutations=19
    ),
    "worst_case": lambda d: stats.worst_case_accuracy(d["answers"], d["gold"]),
    "shared_unstable": lambda d: stats.shared_unstable(d["flag"], d["positive"]),
    "correlation": lambda d: stats.correlation(d["real"], d["other"]),
    "risk_coverage": lambda d: stats.risk_coverage(d["real"], d["flag"]),
    "control_risk": lambda d: stats.control_risk(
        d["real"], d["flag"], [1.0, 0.0, -1.0], alpha=0.4, delta=0.2
    ),
    "consistency": lambda d: stats.consistency(d["answers"]),
    "fixation": lambda d: stats.fixation(d["whole"][:, 0], n_options=3),
    "unanimity": lambda d: stats.unanimity(d["whole"][:, 0], d["gold"]),
    "cochran_q": lambda d: stats.cochran_q(d["whole"][:, 0] == d["gold"][:, None]),
    "accuracy": lambda d: stats.accuracy(d["positive"]),
    "change_rate": lambda d: stats.change_rate(d["answers"][:, 0], d["answers"][:, 1]),
    "random_draws": lambda d: stats.random_draw_change_rate(
        d["answers"][:, ::2], d["answers"][:, 1::2], cluster=d["cluster"]
    ),
}


def scalars(made):
    """Numbers of a result and of those in it; arrays are by item or replicate."""
    found = {}
    for item in dataclasses.fields(made):
        value = getattr(made, item.name)
        if dataclasses.is_dataclass(value):
            found |= {f"{item.name}.{k}": v for k, v in scalars(value).items()}
        elif isinstance(value, bool | int | float | str | np.generic):
            found[item.name] = value
    return found


@pytest.mark.parametrize("name", WHOLE)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), shuffle=st.integers(0, 10**6))
def test_the_order_of_the_items_changes_nothing(name, seed, shuffle):
    given_data = data(seed)
    order = np.random.default_rng(shuffle).permutation(len(given_data["real"]))
    moved = {key: values[order] for key, values in given_data.items()}
    plain, other = scalars(WHOLE[name](given_data)), scalars(WHOLE[name](moved))
    assert plain.keys() == other.keys()
    for key, value in plain.items():
        if isinstance(value, str):
            assert value == other[key], key
        else:
            np.testing.assert_allclose(value, other[key], 1e-12, 1e-15, err_msg=key)


@pytest.mark.parametrize("name", WHOLE)
def test_the_same_seed_gives_the_same_in_every_thread(name):
    made = []
    threads = [
        threading.Thread(target=lambda: made.append(scalars(WHOLE[name](data(5)))))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 3
    assert repr(made[0]) == repr(made[1]) == repr(made[2])


@pytest.mark.parametrize("name", WHOLE)
def test_a_result_is_one_line_and_a_table(name):
    made = WHOLE[name](data(7))
    assert isinstance(made, Result)
    assert "\n" not in str(made)
    assert len(str(made)) < 600
    assert str(made).startswith(type(made).__name__)
    table = made._repr_html_()
    assert table.count("<tr>") == table.count("</tr>") >= 2
    names = [item.name for item in dataclasses.fields(made)]
    if "confidence_level" in names and "low" in names:
        assert "interval at 95 %" in table
    if "n_dropped" in names:
        assert table.endswith(
            f'>dropped</th><td style="text-align:left">{made.n_dropped}'
            "</td></tr></tbody></table>"
        )


def test_every_result_is_made_to_print():
    classes = [v for v in vars(stats).values() if inspect.isclass(v)]
    classes = [v for v in classes if dataclasses.is_dataclass(v)]
    assert len(classes) > 30
    for kind in classes:
        assert issubclass(kind, Result), kind
        assert "_repr_html_" not in vars(kind), kind


def test_text_in_a_table_is_no_markup():
    @dataclasses.dataclass(frozen=True, slots=True, repr=False)
    class Odd(Result):
        name: str
        parts: dict

    made = Odd("<b>\n", {"x": 1})
    assert "&lt;b&gt;" in made._repr_html_()
    assert str(made) == "Odd(name=<b>, parts=1 entry: x)"
