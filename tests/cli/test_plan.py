"""`phasefusion plan`."""

import json

import pytest
from made_runs import made_run

from phasefusion.planning import (
    Design,
    auroc_items,
    discordance_of,
    floor_items,
    interval_items,
    mcnemar_difference,
    mcnemar_items,
    mcnemar_power,
    pilot,
    risk_items,
    risk_power,
    tost_items,
    tost_margin,
    tost_power,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan") / "run"
    made_run(folder, n_items=40)
    return folder


def made(call, *words):
    code, out, err = call("plan", *words, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_the_published_sample_cannot_certify_the_margin(call):
    code, out, _ = call("plan", "equivalence", "--discordance", 13.9, "--n", 446)
    assert code == 0
    text = " ".join(out.split())
    assert "not certifiable at this size" in text
    assert "604 items (normal law: 602)" in text


def test_equivalence(call):
    found = made(call, "equivalence", "--margin", 3, "--discordance", 14)
    assert found == {"items": tost_items(margin=0.03, discordance=0.14).to_dict()}
    found = made(call, "equivalence", "--discordance", 14, "--n", 900, "--power", 0.9)
    assert found["this margin"] == (
        tost_power(900, margin=0.025, discordance=0.14).to_dict()
    )
    assert found["margin with power 0.9"] == (
        tost_margin(900, discordance=0.14, power=0.9).to_dict()
    )


def test_clusters_are_given_by_design_effect_or_icc(call):
    words = ["equivalence", "--discordance", 14, "--cluster-size", 3]
    found = made(call, *words, "--icc", 0.1)
    assert found["items"]["design"] == {"design_effect": 1.2, "cluster_size": 3.0}
    assert made(call, *words, "--design-effect", 1.2) == found
    code, _, err = call("plan", *words, "--icc", 0.1, "--design-effect", 2)
    assert code == 2
    assert "give either --design-effect or --icc" in err
    code, _, err = call("plan", "equivalence", "--discordance", 14, "--icc", 0.1)
    assert code == 2
    assert "--icc needs --cluster-size" in err


def test_difference(call):
    found = made(call, "difference", "--difference", 3, "--discordance", 15)
    expected = mcnemar_items(difference=0.03, discordance=0.15)
    assert found["items"] == expected.to_dict()
    words = ["difference", "--rates", 18.2, 10.1, "--both", 6, "--test", "mid-p"]
    delta = 0.182 - 0.101
    share = discordance_of(0.182, 0.101, 0.06)
    found = made(call, *words)
    expected = mcnemar_items(difference=delta, discordance=share, test="mid-p")
    assert found["items"]["n"] == expected.n
    found = made(call, *words, "--n", 300)
    power = mcnemar_power(300, difference=delta, discordance=share, test="mid-p")
    assert found["this difference"]["power"] == pytest.approx(power.power)
    least = mcnemar_difference(300, discordance=share, test="mid-p")
    assert found["difference with power 0.8"]["difference"] == pytest.approx(
        least.difference
    )


def test_interval_floor_auroc_risk(call):
    found = made(call, "interval", "--rate", 60, "--half-width", 3)
    assert found["interval"]["n"] == interval_items(rate=0.6, half_width=0.03).n
    found = made(
        call, "interval", "--rate", 60, "--n", 500, "--method", "clopper-pearson"
    )
    assert found["interval"]["method"] == "clopper-pearson"
    found = made(call, "floor", "--upper", 1)
    assert found["floor"]["n"] == floor_items(upper=0.01).n == 299
    found = made(call, "floor", "--flip-rate", 18.7, "--ratio", 8)
    assert found["floor"]["n"] == floor_items(flip_rate=0.187, ratio=8).n
    found = made(call, "floor", "--n", 599)
    assert found["floor"]["ratio"] is None
    words = ["auroc", "--auroc", 0.83, "--positive", 57]
    found = made(call, *words, "--half-width", 0.03)
    expected = auroc_items(half_width=0.03, auroc=0.83, positive_share=0.57)
    assert found["auroc"]["n"] == expected.n
    assert made(call, *words, "--n", 400)["auroc"]["n"] == 400
    found = made(call, "risk", "--risk", 10)
    assert found["risk"] == risk_items(alpha=0.2, delta=0.1, risk=0.1).to_dict()
    found = made(call, "risk", "--n", 25)
    assert found["risk"] == risk_power(25, alpha=0.2, delta=0.1).to_dict()


def test_a_pilot_gives_plans_for_every_pair(call, run):
    found = made(call, "--from", run)
    pair = pilot(run).pair("fusion", "union")
    entry = next(
        plan
        for plan in found["plans"]
        if (plan["against"], plan["of"]) == ("union", "accuracy")
    )
    share = pair.discordance.mean
    for name, value in (
        ("equivalence", share.value),
        ("equivalence_upper", share.high),
    ):
        expected = tost_items(margin=0.025, discordance=value, design=pair.design())
        assert entry[name] == expected.to_dict()
    assert entry["difference"]["difference"] == pair.difference.mean.value
    code, out, err = call("plan", "--from", run, columns=160)
    assert (code, err) == (0, "")
    assert "40 items in 20 clusters by video" in out
    assert f" {entry['equivalence']['n']} " in out
    assert "phase 0" not in out


def test_a_pair_without_a_difference_has_no_size(call, run):
    found = made(call, "--from", run)
    equal = [
        plan
        for plan in found["plans"]
        if plan["against"] == "union" and plan["of"] == "half-step change"
    ]
    assert equal[0]["difference"] == "no sample detects a difference of 0"
    code, out, _ = call("plan", "--from", run, columns=160)
    assert code == 0
    assert (
        "note: fusion - union (half-step change), to detect the difference seen: no "
        "sample detects a difference of 0"
    ) in out


def test_a_pilot_of_one_arm_says_what_is_missing(call, tmp_path):
    made_run(tmp_path / "run", protocol="quick", n_items=12)
    code, out, _ = call("plan", "--from", tmp_path / "run", columns=160)
    assert code == 0
    assert "one arm only, single" in out
    assert "by video" in out


def test_a_pilot_and_a_size_give_the_reverse(call, run):
    code, out, _ = call("plan", "--from", run, "--n", 600, columns=160)
    assert code == 0
    design = pilot(run).pair("fusion", "union").design()
    share = pilot(run).pair("fusion", "union").discordance.mean.value
    needed = tost_power(600, margin=0.025, discordance=share, design=design)
    assert f"not certifiable (> {needed.n_certifiable - 1})" in out
    margin = tost_margin(600, discordance=share, design=design).margin
    assert f"+-{100 * margin:.2f}" in out


def test_goals_take_what_they_need_from_a_pilot(call, run):
    pair = pilot(run).pair("fusion", "union")
    found = made(call, "equivalence", "--from", run, "--against", "union")
    expected = tost_items(
        margin=0.025, discordance=pair.discordance.mean.value, design=pair.design()
    )
    assert found["at the pilot's discordance"] == expected.to_dict()
    assert found["at the upper end of its interval"]["n"] > expected.n
    words = ["--from", run, "--of", "half-step change", "--cluster-size", 4]
    found = made(call, "difference", *words)
    pair = pilot(run).pair("fusion", "single", "half-step change")
    assert found["items"]["difference"] == pair.difference.mean.value
    assert found["items"]["design"]["cluster_size"] == 4
    found = made(call, "interval", "--from", run, "--half-width", 3)
    rate = pilot(run).rates["accuracy, fusion"]
    expected = interval_items(
        rate=rate.mean.value, half_width=0.03, design=rate.design()
    )
    assert found["interval"]["n"] == expected.n
    found = made(call, "auroc", "--from", run, "--half-width", 0.05)
    expected = auroc_items(half_width=0.05, pilot=pilot(run).auroc["single"])
    assert found["auroc"]["n"] == expected.n
    assert rate.design() != Design()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--n", 600], "give --from RUN, or a goal"),
        (["--n", 600, "equivalence"], "--n goes behind the goal"),
        (["--from", "none"], "none: no run here: there is no run.json"),
        (["equivalence"], "give --discordance, or --from RUN"),
        (["equivalence", "--discordance", 139], "less than or equal to 100"),
        (
            ["equivalence", "--discordance", 14, "--difference", 3],
            "the difference must be inside the margin",
        ),
        (["difference"], "give --discordance, --rates, or --from RUN"),
        (["difference", "--discordance", 9], "or the reverse: --n"),
        (["difference", "--discordance", 9, "--both", 3], "--both goes with --rates"),
        (
            ["difference", "--rates", 9, 3, "--difference", 3],
            "--rates give the difference",
        ),
        (["interval"], "give --rate, or --from RUN"),
        (["interval", "--rate", 60], "give either --half-width or --n"),
        (["floor"], "give --upper, or --flip-rate and --ratio, or --n"),
        (["floor", "--n", 5, "--upper", 1], "--upper: goes without --n"),
        (["auroc", "--auroc", 0.8], "give --auroc and --positive, or --from RUN"),
        (["auroc", "--auroc", 0.8, "--positive", 5], "give either --half-width or"),
        (["risk", "--risk", 30], "certified only by mistake"),
        (
            ["equivalence", "--discordance", 9, "--margin", 100],
            "--margin is 100; it is in percent, above 0, below 100",
        ),
        (["equivalence", "--discordance", 9, "--difference", 300], "--difference is"),
        (["interval", "--rate", 60, "--half-width", 50], "above 0, below 50"),
        (["interval", "--rate", 60, "--half-width", "nan"], "--half-width is nan"),
        (["floor", "--upper", 100], "--upper is 100; it is in percent, above 0"),
        (["floor", "--n", 9, "--flip-rate", 187], "--flip-rate is 187; it is in"),
        (
            ["auroc", "--auroc", 0.8, "--positive", 0, "--n", 90],
            "--positive is 0; it is in percent, above 0, below 100",
        ),
    ],
)
def test_bad_use_is_said_in_a_line(call, words, message):
    code, out, err = call("plan", *words)
    assert code == 2
    assert out == ""
    flat = " ".join(err.replace("│", " ").split())
    assert message in flat


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["equivalence", "--discordance", 9], "--discordance: comes from the pilot"),
        (["equivalence", "--arm", "vote"], "the pilot does not have vote against"),
        (["interval", "--of", "speed", "--n", 9], "the pilot has accuracy, single"),
        (["auroc", "--arm", "vote", "--n", 90], "the pilot has an AUROC for single"),
    ],
)
def test_what_a_pilot_does_not_have(call, run, words, message):
    code, _, err = call("plan", *words, "--from", run)
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())


def test_help_has_examples(call):
    for words in ([], ["equivalence"], ["difference"], ["interval"], ["floor"]):
        code, out, _ = call("plan", *words, "--help")
        assert code == 0
        assert "Examples:" in out
    assert call("plan")[0] == 0
