"""Powers of the one-sided test against simulation and the textbook formula."""

import math

import numpy as np
import pytest

from phasefusion.errors import StatisticsError
from phasefusion.planning import (
    Design,
    noninferiority_items,
    noninferiority_power,
)
from phasefusion.stats import clustered_mean


@pytest.mark.parametrize(
    ("n", "difference", "design"),
    [
        (120, 0.0, Design()),
        (120, -0.01, Design()),
        (180, 0.01, Design.from_icc(0.3, 3)),
    ],
)
def test_power_is_that_of_simulated_samples(n, difference, design):
    rng = np.random.default_rng(5)
    size, sd, margin, times = int(design.cluster_size), 0.2, 0.04, 2000
    icc = 0.0 if size == 1 else 0.3
    shape = (times, n // size, size)
    shared = rng.normal(size=(*shape[:2], 1)) * math.sqrt(icc)
    own = rng.normal(size=shape) * math.sqrt(1 - icc)
    values = (difference + sd * (shared + own)).reshape(times, n)
    labels = np.repeat(np.arange(n // size), size)
    shown = sum(
        clustered_mean(row, labels, confidence_level=0.9).low > -margin
        for row in values
    )
    plan = noninferiority_power(
        n, margin=margin, sd=sd, difference=difference, design=design
    )
    error = math.sqrt(plan.power * (1 - plan.power) / times)
    assert abs(shown / times - plan.power) < 4 * error


def test_a_textbook_size():
    # by the normal law (z + z)**2 (sd / margin)**2, and a few more for t
    z = 1.959964 + 1.281552
    plan = noninferiority_items(margin=0.1, sd=0.3, power=0.9, alpha=0.025)
    assert 0 < plan.n - (z * 3) ** 2 < 4
    assert plan.power >= 0.9
    fewer = noninferiority_power(plan.n - 1, margin=0.1, sd=0.3, alpha=0.025)
    assert fewer.power < 0.9


def test_normal_law_takes_over_without_a_step():
    around = [
        noninferiority_power(n, margin=0.001, sd=0.2).power for n in (100_001, 100_002)
    ]
    assert around[0] == pytest.approx(around[1], abs=1e-5)


@pytest.mark.parametrize(
    "wrong",
    [{"margin": 0.0}, {"sd": 0.0}, {"sd": math.inf}, {"alpha": 0.5}, {"power": 0.01}],
)
def test_numbers_out_of_range(wrong):
    with pytest.raises(StatisticsError):
        noninferiority_items(**({"margin": 0.02, "sd": 0.3} | wrong))


def test_no_sample_shows_what_is_not_so():
    with pytest.raises(StatisticsError, match="no sample"):
        noninferiority_items(margin=0.02, sd=0.3, difference=-0.02)
