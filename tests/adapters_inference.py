"""What the cases of a reference file call: intervals, tests, rankings, charts."""

from __future__ import annotations

from typing import Any

import numpy as np
from adapters import Inputs, Results, adapter

from phasefusion import audit, orders, stats

# ------------------------------------------------------------------ intervals and tests


@adapter
def proportion_ci(inputs: Inputs, wanted: Results) -> Results:
    k, n, level = inputs["k"], inputs["n"], inputs["level"]

    def interval(method: Any) -> list[float]:
        made = stats.proportion_ci(k, n, level, method)
        return [made.low, made.high]

    return {
        "wilson": interval("wilson"),
        "clopper_pearson": interval("clopper-pearson"),
        "wilson_cc": interval("wilson-cc"),
        "cp_upper_one_sided": stats.proportion_upper(k, n, level),
    }


@adapter
def mcnemar(inputs: Inputs, wanted: Results) -> Results:
    made = stats.mcnemar(inputs["b"], inputs["c"])
    return {
        "exact": made.pvalue,
        "midp": made.midp,
        "chi2": made.chi2,
        "p_chi2": made.p_chi2,
        "chi2_cc": made.chi2_corrected,
        "p_chi2_cc": made.p_chi2_corrected,
        "chi2_cc_R": made.chi2_corrected,
    }


@adapter
def mcnemar_clustered(inputs: Inputs, wanted: Results) -> Results:
    made = stats.clustered_mcnemar(inputs["diff"], inputs["cluster"])
    return {
        "cluster_sums": made.cluster_sums,
        "z": made.z,
        "chi2": made.chi2,
        "p": made.pvalue,
    }


@adapter
def cochran_q(inputs: Inputs, wanted: Results) -> Results:
    made = stats.cochran_q(inputs["x"])
    return {"Q": made.q, "p": made.pvalue}


@adapter
def clustered_mean(inputs: Inputs, wanted: Results) -> Results:
    diff, cluster, level = inputs["diff"], inputs["cluster"], inputs["level"]
    made = stats.clustered_mean(diff, cluster, confidence_level=level)
    test = stats.tost(diff, cluster, margin=inputs["margin"], alpha=0.05)
    return {
        "n": made.n,
        "clusters": made.n_clusters,
        "mean": made.mean,
        "se_iid": made.se_iid,
        "se_cr0": made.se_cr0,
        "se_cr1": made.se,
        "se_miller_eq4": made.se_miller,
        "ci_t_cr1": [made.low, made.high],
        "ci_z_cr1": [made.low_z, made.high_z],
        "p_two_sided_t": made.pvalue,
        "tost_p_lower": test.p_lower,
        "tost_p_upper": test.p_upper,
        "tost_p": test.pvalue,
        "equivalent_05": test.equivalent,
    }


@adapter
def tost_paired(inputs: Inputs, wanted: Results) -> Results:
    made = stats.tost(
        stats.paired_difference(inputs["x1"], inputs["x2"]),
        margin=(inputs["low"], inputs["upp"]),
    )
    return {
        "p": made.pvalue,
        "t_lower": made.t_lower,
        "p_lower": made.p_lower,
        "t_upper": made.t_upper,
        "p_upper": made.p_upper,
    }


def _published_estimate(low: float, high: float) -> float | None:
    """Estimate that the paper's claims compute for a printed interval, in points."""
    claims = audit.load_claims("paper")
    printed = [float(claims.figures[name].value) for name in ("ci_low", "ci_high")]
    if [low, high] != printed:
        return None
    (claim,) = audit.audit(claims, only=["tost.estimate"]).results
    return float(claim.computed)


@adapter
def implied_se(inputs: Inputs, wanted: Results) -> Results:
    low, high = inputs["ci"]
    normal = stats.implied_error(low, high, confidence_level=inputs["level"])
    estimate = inputs.get("estimate", _published_estimate(low, high))
    found = {
        "mid": normal.center,
        "half": normal.half_width,
        "se_z": normal.se,
        "tost_p_z": normal.tost_pvalue(inputs.get("margin", 2.5), estimate),
    }
    for key in wanted:
        if key.startswith("se_t"):
            df = int(key.removeprefix("se_t"))
            student = stats.implied_error(
                low, high, confidence_level=inputs["level"], df=df
            )
            found[key] = student.se
    return found


@adapter
def cluster_bootstrap_exact(inputs: Inputs, wanted: Results) -> Results:
    made = stats.cluster_bootstrap_exact(inputs["diff"], inputs["cluster"])

    def quantiles(key: str, method: Any) -> Results:
        shares = wanted.get(key, {})
        return {share: made.quantile(float(share), method) for share in shares}

    return {
        "n_resamples": made.n_resamples,
        "mean": made.mean,
        "se": made.se,
        "quantiles": quantiles("quantiles", "linear"),
        "inverted_cdf": quantiles("inverted_cdf", "inverted_cdf"),
    }


@adapter
def quantile(inputs: Inputs, wanted: Results) -> Results:
    return {
        "linear_type7": stats.quantile(inputs["x"], inputs["q"]),
        "type1": stats.quantile(inputs["x"], inputs["q"], "inverted_cdf"),
    }


@adapter
def signflip_exact(inputs: Inputs, wanted: Results) -> Results:
    pvalue = stats.sign_flip_test(inputs["cluster_sums"]).pvalue
    return {"p_two_sided_abs": pvalue, "p_scipy_two_sided": pvalue}


@adapter
def p_adjust(inputs: Inputs, wanted: Results) -> Results:
    methods = ("holm", "bh", "by", "bonferroni")
    return {name: stats.adjust_pvalues(inputs["p"], name) for name in methods}  # type: ignore[arg-type]


# ------------------------------------------------------------------ matched votes


@adapter
def matched_vote(inputs: Inputs, wanted: Results) -> Results:
    made = stats.matched_vote(
        inputs["answers"],
        n_options=inputs["K"],
        splits=inputs.get("splits", "all"),
        rule="lowest",
    )
    return {
        "n_splits": made.n_splits,
        "within_lowest": made.within,
        "across_lowest": made.across,
        "excess_lowest": made.excess,
        "within_fractional": made.within_fractional,
        "across_fractional": made.across_fractional,
        "tie_rate": made.tie_rate,
    }


# ------------------------------------------------------------------ ranking and risk


@adapter
def auroc(inputs: Inputs, wanted: Results) -> Results:
    from scipy.special import ndtri

    made = stats.auroc(inputs["y"], inputs["score"])
    half = float(ndtri(0.975)) * made.se
    return {
        "auc": made.value,
        "var_delong": made.variance,
        "ci95_delong_pROC": [made.low, made.high],
        "ci95_untruncated": [made.value - half, made.value + half],
        "ci95_logit": [made.logit_low, made.logit_high],
    }


@adapter
def auroc_clustered(inputs: Inputs, wanted: Results) -> Results:
    made = stats.auroc(inputs["y"], inputs["score"], cluster=inputs["cluster"])
    return {"auc": made.value, "var": made.variance, "se": made.se}


@adapter
def flag_lowest(inputs: Inputs, wanted: Results) -> Results:
    made = stats.flag_lowest(inputs["margin"], inputs["flip"], inputs["frac"])
    return {
        "k": made.k,
        "threshold": made.threshold,
        "flagged_rate": made.flagged_rate,
        "unflagged_rate": made.unflagged_rate,
        "overall": made.overall,
    }


@adapter
def risk_coverage(inputs: Inputs, wanted: Results) -> Results:
    made = stats.risk_coverage(inputs["confidence"], inputs["error"])
    return {
        "thresholds": made.thresholds,
        "coverage": made.coverage,
        "risk": made.risk,
        "aurc": made.aurc,
        "e_aurc": made.e_aurc,
    }


@adapter
def fixed_sequence(inputs: Inputs, wanted: Results) -> Results:
    made = stats.fixed_sequence(
        inputs["n"], inputs["k"], alpha=inputs["alpha"], delta=inputs["delta"]
    )
    return {
        "p": made.pvalues,
        "certified": made.certified,
        "last_certified_index": made.last,
    }


@adapter
def hb_pvalue(inputs: Inputs, wanted: Results) -> Results:
    pvalues = stats.hoeffding_bentkus(
        inputs["r_hat"], inputs["n"], inputs["alpha"], binary=inputs["binary"]
    )
    return {"p": pvalues}


@adapter
def ltt_min_n(inputs: Inputs, wanted: Results) -> Results:
    alphas = np.atleast_1d(inputs["alpha"])
    sizes = [stats.smallest_certifiable(a, inputs["delta"]) for a in alphas.tolist()]
    return {"n": sizes if np.ndim(inputs["alpha"]) else sizes[0]}


# ------------------------------------------------------------------ association


@adapter
def correlation(inputs: Inputs, wanted: Results) -> Results:
    made = stats.correlation(inputs["x"], inputs["y"])
    return {
        "spearman": made.spearman,
        "spearman_p_t": made.spearman_p,
        "pearson": made.pearson,
        "pearson_p": made.pearson_p,
    }


@adapter
def shared_unstable(inputs: Inputs, wanted: Results) -> Results:
    names = ("n11", "n10", "n01", "n00")
    made = stats.shared_unstable_counts(*(inputs[name] for name in names))
    return {
        "shared": made.shared,
        "null": made.expected,
        "excess": made.excess,
        "ratio": made.ratio,
        "phi": made.phi,
        "p_greater": made.pvalue,
    }


@adapter
def cmh(inputs: Inputs, wanted: Results) -> Results:
    made = stats.cmh(inputs["tables"])
    return {"chi2": made.chi2, "p": made.pvalue, "or_mh": made.odds_ratio}


# ------------------------------------------------------------------ debiasing, charts


@adapter
def pride(inputs: Inputs, wanted: Results) -> Results:
    rotations = np.array(inputs["observed_by_cyclic_rotation"])
    marginal = stats.permutation_marginal(rotations, orders.cyclic(rotations.shape[1]))
    test = stats.divide_by_prior(inputs["test"], marginal.prior)
    return {
        "prior": marginal.prior,
        "debiased_prefix": marginal.posterior,
        "prefix_answer": marginal.answer,
        "test_scores": test.scores,
        "test_posterior": test.posterior,
        "test_answer": int(test.answers),
        "naive_answer": int(np.argmax(inputs["test"])),
    }


@adapter
def full_permutation(inputs: Inputs, wanted: Results) -> Results:
    observed = np.array(inputs["observed"])
    made = stats.permutation_marginal(observed, orders.all_orders(observed.shape[1]))
    return {"prior": made.prior, "marginal": made.posterior, "answer": made.answer}


@adapter
def tabular_cusum(inputs: Inputs, wanted: Results) -> Results:
    made = stats.cusum(
        inputs["x"], inputs["mu"], inputs["sigma"], k=inputs["k"], h=inputs["h"]
    )
    first = made.first_alarm
    if first < 0 and wanted.get("first_alarm") is None:
        first = None  # type: ignore[assignment]
    return {"upper": made.upper, "lower": made.lower, "first_alarm": first}


@adapter
def p_chart(inputs: Inputs, wanted: Results) -> Results:
    made = stats.p_chart(inputs["k"], inputs["n"], baseline=inputs["baseline"])
    return {
        "center": made.center,
        "ucl": made.upper,
        "lcl": made.lower,
        "alarms": made.alarms,
    }
