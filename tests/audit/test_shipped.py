"""The claims that are shipped: complete, computable, and as their files expect."""

import json
import math
import os
from pathlib import Path

import pytest

from phasefusion.audit import SHIPPED, audit, load_claims
from phasefusion.audit.evaluation import names_in

SHARED = os.environ.get("PHASEFUSION_SHARED")
#: Verdicts of the reference in ours; where it says another, the text is ambiguous.
_WORDS = {
    "consistent": "agrees",
    "derived": "agrees",
    "ambiguous": "ambiguous",
    "tension": "ambiguous",
    "INCONSISTENT": "inconsistent",
}


def close(a, b):
    """Whether recorded values are equal; the reference rounds one quantile."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(close, a, b))
    return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-12)


@pytest.mark.parametrize("name", SHIPPED)
def test_as_the_file_expects(name):
    made = audit(name)
    assert [one.claim.id for one in made.results if not one.as_expected] == []
    assert "All as the file expects." in str(made)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_figure_is_used_and_every_claim_placed(name):
    claims = load_claims(name)
    used = set()
    for one in audit(claims).results:
        used |= {figure.name for figure in one.figures}
        used |= set().union(*(names_in(e.term) for e in one.claim.expressions))
        assert one.claim.where, one.claim.id
        assert one.claim.text.endswith("."), one.claim.id
    assert set(claims.figures) - used == set()


def test_what_is_expected_of_the_paper():
    counts = audit("paper").counts
    assert counts["ambiguous"] >= 5
    assert counts["inconsistent"] >= 2
    assert audit("stableeval").counts["inconsistent"] >= 5


def test_the_second_source_is_the_same_in_both_files():
    def of_seed(name):
        return {
            one.claim.id: (
                one.claim.text,
                one.claim.recorded,
                one.verdict,
                one.computed,
            )
            for one in audit(name, only="seed002.*").results
        }

    assert of_seed("paper") == of_seed("stableeval")
    assert len(of_seed("paper")) == 3


@pytest.mark.skipif(SHARED is None, reason="PHASEFUSION_SHARED is not set")
def test_every_anchor_is_a_claim_of_the_paper():
    path = Path(str(SHARED)) / "reference" / "statistics.json"
    anchors = json.loads(path.read_text())["anchors"]
    found = {one.claim.id: one for one in audit("paper").results}
    assert {one["id"] for one in anchors} <= set(found)
    for anchor in anchors:
        one = found[anchor["id"]]
        assert close(one.claim.recorded, anchor["recomputed"]), anchor["id"]
        assert close(one.computed, anchor["recomputed"]), anchor["id"]
        assert one.verdict == _WORDS.get(anchor["verdict"], "ambiguous"), anchor["id"]


@pytest.mark.parametrize(
    ("name", "figure", "wrong", "breaks"),
    [
        ("paper", "unanimity", "35.0", "circular.identity"),
        ("paper", "gain_long", "+2.74", "split.high"),
        ("paper", "ci_high", "+1.66", "tost.mid"),
        ("paper", "n_short", "371", "split.n"),
        ("paper", "lead_swing", "2.87", "lead.swing"),
        ("paper", "dense_pairwise", "45.0", "dense13.bounds"),
        ("paper", "ratio_ego", "3.6", "floor.q25"),
        ("paper", "s3_accuracy", "60.15", "s6.s3"),
        ("stableeval", "s_pairwise", "38.9", "seed002.pairwise"),
        ("stableeval", "spacing", "18.65", "phase.spacing"),
    ],
)
def test_another_digit_is_noticed(tmp_path, name, figure, wrong, breaks):
    import phasefusion.audit

    source = Path(phasefusion.audit.__file__).parent / "claims" / f"{name}.yaml"
    lines = source.read_text(encoding="utf-8").splitlines()
    (i,) = [k for k, line in enumerate(lines) if line.startswith(f"  {figure}: ")]
    before, _, after = lines[i].split('"', 2)
    lines[i] = f'{before}"{wrong}"{after}'
    path = tmp_path / "claims.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    assert breaks in {one.claim.id for one in audit(path).surprises}
