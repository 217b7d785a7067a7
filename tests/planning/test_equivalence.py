"""Powers of the equivalence test against enumeration, simulation, published numbers."""

import math

import numpy as np
import pytest

from phasefusion.errors import StatisticsError
from phasefusion.planning import Design, tost_items, tost_margin, tost_power
from phasefusion.stats import tost


def enumerated(n, margin, difference, discordance, alpha):
    """Try the test on every outcome of n items, each with its chance."""
    up, down = (discordance + difference) / 2, (discordance - difference) / 2
    total = 0.0
    for b in range(n + 1):
        for c in range(n - b + 1):
            values = [1] * b + [-1] * c + [0] * (n - b - c)
            made = tost(values, margin=margin, alpha=alpha, limits=(-1, 1))
            if made.equivalent:
                ways = math.comb(n, b) * math.comb(n - b, c)
                rest = (1 - discordance) ** (n - b - c)
                total += ways * up**b * down**c * rest
    return total


@pytest.mark.parametrize(
    ("n", "margin", "difference", "discordance", "alpha"),
    [
        (2, 0.5, 0.0, 0.3, 0.05),
        (3, 0.9, 0.1, 0.8, 0.2),
        (5, 0.95, -0.2, 0.9, 0.4),
        (13, 0.3, 0.05, 0.2, 0.05),
        (29, 0.2, 0.0, 0.14, 0.05),
        (31, 0.2, -0.06, 0.3, 0.1),
        (41, 0.11, 0.02, 0.15, 0.05),
        (41, 0.6, 0.5, 0.9, 0.05),
        (40, 0.05, 0.0, 0.01, 0.05),
        (28, 0.1, 0.0, 0.01, 0.05),
        (29, 0.1, 0.0, 0.01, 0.05),
    ],
)
def test_power_is_that_of_the_test_on_every_outcome(
    n, margin, difference, discordance, alpha
):
    plan = tost_power(
        n, margin=margin, difference=difference, discordance=discordance, alpha=alpha
    )
    expected = enumerated(n, margin, difference, discordance, alpha)
    assert plan.power == pytest.approx(expected, abs=1e-12)


def test_every_discordant_item_favours_one_arm():
    plan = tost_power(41, margin=0.3, difference=0.2, discordance=0.2)
    assert plan.power == pytest.approx(enumerated(41, 0.3, 0.2, 0.2, 0.05), abs=1e-12)


@pytest.mark.parametrize(
    ("n", "half_width"),
    [(446, 2.9037971183697513), (593, 2.5182935468928345), (1132, 1.8226802421874775)],
)
def test_half_width_of_the_published_discordance(n, half_width):
    plan = tost_power(n, margin=0.025, discordance=0.139)
    # computed with a quantile of six digits
    assert 100 * plan.half_width_z == pytest.approx(half_width, rel=1e-5)
    assert plan.half_width > plan.half_width_z


@pytest.mark.parametrize(("n", "points"), [(446, 1.12), (435, -1.15)])
def test_published_margin_is_not_certifiable_at_the_published_sizes(n, points):
    plan = tost_power(n, margin=0.025, discordance=0.139, difference=points / 100)
    assert not plan.certifiable
    assert plan.verdict.startswith("not certifiable at this size: the 90 % interval")
    at_zero = tost_power(n, margin=0.025, discordance=0.139)
    assert at_zero.n_certifiable_z == 602  # "needs n > 601"
    assert at_zero.n_certifiable == 604
    assert "more than 603 items" in at_zero.verdict


def test_published_margin_is_certifiable_on_the_pooled_sample():
    design = Design(1.0, 1132 / 581)
    plan = tost_power(1132, margin=0.025, discordance=157 / 1132, design=design)
    assert plan.certifiable
    assert "certifiable: " in plan.verdict
    assert 100 * plan.half_width == pytest.approx(1.825, abs=0.005)
    assert plan.power == pytest.approx(0.46, abs=0.005)
    assert plan.power_t == pytest.approx(0.46, abs=0.005)


def test_a_difference_near_the_margin_needs_luck():
    plan = tost_power(1132, margin=0.025, discordance=0.139, difference=0.015)
    assert plan.certifiable
    assert plan.smallest_margin > 0.025
    assert "only if the difference is seen closer to 0" in plan.verdict


@pytest.mark.parametrize("df", [4, 30, 580])
def test_power_of_normal_means_is_that_of_drawn_ones(df):
    rng = np.random.default_rng(df)
    design, n, margin, difference = Design(1.3, 2.0), 2 * (df + 1), 0.2, 0.04
    plan = tost_power(
        n, margin=margin, difference=difference, discordance=0.4, design=design
    )
    error = math.sqrt((0.4 - difference**2) * 1.3 / n)
    draws = 400_000
    mean = difference + error * rng.standard_normal(draws)
    seen = error * np.sqrt(rng.chisquare(df, draws) / df)
    t = plan.half_width / error
    share = float(np.mean(np.abs(mean) + t * seen < margin))
    assert plan.power_t == pytest.approx(
        share, abs=4 * math.sqrt(share * (1 - share) / draws) + 1e-6
    )


def clustered_differences(rng, n_clusters, size, discordance, icc):
    """Draw differences of which a share `icc` of clusters agrees as a whole."""
    law = [discordance / 2, 1 - discordance, discordance / 2]
    own = rng.choice([-1, 0, 1], p=law, size=(n_clusters, size))
    shared = rng.choice([-1, 0, 1], p=law, size=(n_clusters, 1))
    return np.where(rng.random((n_clusters, 1)) < icc, shared, own)


def test_power_with_clusters_is_that_of_simulated_tests():
    rng = np.random.default_rng(5)
    n_clusters, size, icc = 150, 3, 0.2
    design = Design.from_icc(icc, size)
    assert design.design_effect == pytest.approx(1.4)
    plan = tost_power(n_clusters * size, margin=0.06, discordance=0.15, design=design)
    cluster = np.repeat(np.arange(n_clusters), size)
    draws = 3000
    hits = sum(
        tost(
            clustered_differences(rng, n_clusters, size, 0.15, icc).ravel(),
            cluster,
            margin=0.06,
            limits=(-1, 1),
        ).equivalent
        for _ in range(draws)
    )
    share = hits / draws
    # a design effect is an approximation: a point on top of 3 standard errors
    slack = 3 * math.sqrt(share * (1 - share) / draws) + 0.01
    assert plan.power == pytest.approx(share, abs=slack)
    assert plan.power_t == pytest.approx(share, abs=slack)
    naive = tost_power(n_clusters * size, margin=0.06, discordance=0.15)
    assert naive.power - share > 2 * slack


@pytest.mark.parametrize("n", [200, 1000, 5000])
def test_no_more_than_alpha_is_certified_on_the_margin(n):
    plan = tost_power(n, margin=0.05, difference=0.05, discordance=0.2)
    assert plan.power < 0.055


@pytest.mark.parametrize(
    ("margin", "difference", "discordance", "power", "design"),
    [
        (0.025, 0.0, 0.139, 0.8, Design()),
        (0.05, 0.02, 0.3, 0.9, Design()),
        (0.1, 0.0, 0.01, 0.8, Design()),
        (0.05, 0.0, 0.2, 0.8, Design.from_icc(0.1, 3)),
        (0.3, 0.0, 0.9, 0.5, Design(2.0, 10.0)),
    ],
)
def test_items_are_the_fewest(margin, difference, discordance, power, design):
    common = {
        "margin": margin,
        "difference": difference,
        "discordance": discordance,
        "design": design,
    }
    plan = tost_items(power=power, **common)
    assert plan.target == power
    assert plan.power >= power
    for more in range(1, 30):
        assert tost_power(plan.n + more, **common).power >= power
    if plan.n > 2 * design.cluster_size + 1:
        assert tost_power(plan.n - 1, **common).power < power


def test_margin_is_the_smallest():
    plan = tost_margin(700, discordance=0.15, difference=0.01, power=0.9)
    assert plan.power >= 0.9
    less = plan.margin - 1e-6
    below = tost_power(700, margin=less, discordance=0.15, difference=0.01)
    assert below.power < 0.9


def test_power_grows_with_the_sample_and_the_margin():
    powers = [
        tost_power(n, margin=0.03, discordance=0.15).power
        for n in range(600, 3000, 300)
    ]
    assert powers == sorted(powers)
    powers = [
        tost_power(900, margin=m / 100, discordance=0.15).power for m in range(1, 9)
    ]
    assert powers == sorted(powers)


def test_a_large_sample_is_planned_by_the_normal_law():
    plan = tost_items(margin=0.001, discordance=0.139)
    assert plan.n > 1_000_000
    assert math.isnan(plan.power)
    assert plan.power_t == pytest.approx(0.8, abs=1e-4)
    assert plan.to_dict()["power"] is None
    assert "– exact" in repr(plan)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 1}, "n must be a whole number in 2"),
        ({"n": 4.5}, "n must be a whole number"),
        ({"margin": 2.5}, r"margin must be in \(0, 1\), it is 2.5"),
        ({"discordance": 13.9}, "discordance must be in"),
        ({"discordance": 0.0}, "more than none"),
        ({"difference": 0.2}, "at least as many as the difference"),
        ({"alpha": 0.5}, r"alpha must be in \(0, 0.5\)"),
        ({"design": Design(1.0, 300.0)}, "fewer than two clusters"),
    ],
)
def test_what_is_out_of_range_is_refused(changes, message):
    given = {"n": 500, "margin": 0.025, "discordance": 0.139} | changes
    with pytest.raises(StatisticsError, match=message):
        tost_power(**given)


def test_what_no_sample_does_is_refused():
    with pytest.raises(StatisticsError, match="inside the margin"):
        tost_items(margin=0.025, discordance=0.139, difference=0.03)
    with pytest.raises(StatisticsError, match="power must be above alpha"):
        tost_items(margin=0.025, discordance=0.139, power=0.04)
    with pytest.raises(StatisticsError, match="certify no margin"):
        tost_margin(2, discordance=0.9, difference=0.9, power=0.99, alpha=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 1.0), "design_effect must be > 0"),
        ((math.nan, 1.0), "design_effect must be > 0"),
        ((1.0, 0.5), "cluster_size must be >= 1"),
    ],
)
def test_designs_that_are_none(arguments, message):
    with pytest.raises(StatisticsError, match=message):
        Design(*arguments)


def test_design_of_an_icc():
    assert Design.from_icc(0.1, 3, cv=0.5).design_effect == pytest.approx(
        1 + (1.25 * 3 - 1) * 0.1
    )
    with pytest.raises(StatisticsError, match="icc must be in"):
        Design.from_icc(1.5, 3)
    with pytest.raises(StatisticsError, match="cv must be >= 0"):
        Design.from_icc(0.5, 3, cv=-1.0)


def test_a_plan_prints_as_a_line_and_as_a_table():
    plan = tost_power(446, margin=0.025, discordance=0.139, design=Design(1.1, 2.0))
    text = repr(plan)
    assert text.startswith("TostPlan(sample 446 items in 223 clusters, margin +-2.50 ")
    assert "\n" not in text
    assert "design effect 1.100 with 2.00 items a cluster" in text
    table = plan._repr_html_()
    assert table.startswith("<table><caption>Equivalence (two one-sided tests)")
    assert table.count("<tr>") == len(plan.rows())
    assert "+-2.50 points" in table


def test_items_without_a_difference_are_no_certificate():
    # 40 items mostly agree altogether, and 59 would be needed to say so within 5 points
    plan = tost_power(40, margin=0.05, discordance=1e-6)
    assert plan.power < 1e-4
    assert tost_power(58, margin=0.05, discordance=1e-6).power < 1e-3
    assert tost_power(59, margin=0.05, discordance=1e-6).power > 0.999
    # as many clusters, whatever the number of items in them
    design = Design(1.0, 4)
    assert tost_power(160, margin=0.05, discordance=1e-6, design=design).power < 1e-3
    assert tost_power(236, margin=0.05, discordance=1e-6, design=design).power > 0.999
