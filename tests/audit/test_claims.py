"""What a claims file must hold; every error names file, line, claim and remedy."""

import pytest

from phasefusion.audit import audit, load_claims
from phasefusion.errors import AuditError, UsageError

GOOD = """\
format: 1
title: T
source: S
runs: {main: runs/a, other: null}
figures:
  rate: {value: "18.2", unit: "%", where: "p. 3"}
  plain: "7"
claims:
  - id: one
    text: A rate.
    where: p. 3
    published: rate
    compute: 2 * 9.1
  - id: two
    text: A list.
    source: elsewhere
    published: {a: "1.0", b: ["2", "3"]}
    tolerance: 0.5
    unit: s
    compute: {a: "1", b: ["2.4", "3"]}
    note: a
      note
    quote: "in its words"
"""


def test_everything_is_read(claims_file):
    path = claims_file(GOOD)
    claims = load_claims(path)
    assert (claims.title, claims.source) == ("T", "S")
    assert claims.runs == {"main": path.parent / "runs/a", "other": None}
    assert claims.figures["rate"].where == "p. 3"
    one, two = claims.claims
    assert (one.source, two.source, two.note) == ("S", "elsewhere", "a note")
    assert (one.quote, two.quote) == ("", "in its words")
    assert one.published is claims.figures["rate"]
    assert two.published["b"][1].unit == "s"
    assert (one.tolerance, two.tolerance) == (None, 0.5)
    assert one.place.line == 9
    assert one.expect == "agrees"
    made = audit(claims)
    assert made.counts == {"agrees": 2}


HEAD = "figures: {rate: '18.2'}\nclaims:\n"
CLAIM = HEAD + "  - id: one\n    text: A rate.\n"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("[1]", 1, "a claims file must be a mapping, it is a list"),
        ("title: x\n", 1, "has no list 'claims:'"),
        ("claims: []\n", 1, "holds 0 claims"),
        ("format: 2\nclaims: [a]\n", 1, "reads format 1"),
        ("claim:\n  - id: a\n", 2, "no key 'claim': did you mean 'claims'?"),
        ("claims:\n  - x\n", 2, "a claim must be a mapping, it is a text"),
        ("claims:\n  - text: x\n", 2, "has no 'id'"),
        ("claims:\n  - id: [a]\n", 2, "id must be a text, it is a list"),
        ("claims:\n  - id: ''\n", 2, "has no 'id'"),
        (HEAD + "  - id: one\n    compute: '1'\n", 3, "has no 'text'"),
        (CLAIM, 3, "has nothing to check"),
        (CLAIM + "    compute: '1'\n", 3, "compares it with nothing"),
        (CLAIM + "    publish: x\n", 5, "no key 'publish': did you mean 'published'?"),
        (CLAIM + "    published: '1'\n    holds: 1 < 2\n", 5, "needs 'compute'"),
        (CLAIM + "    published: rat\n    compute: '1'\n", 5, "did you mean 'rate'?"),
        (CLAIM + "    published: 1 %\n    compute: '1'\n", 5, "no printed figure"),
        (CLAIM + "    holds: rat < 1\n", 5, "did you mean 'rate'?"),
        (CLAIM + "    holds: rate <\n", 5, "a value is missing"),
        (CLAIM + "    holds: maxx([1]) < 2\n", 5, "did you mean 'max'?"),
        (CLAIM + "    holds: [1]\n", 5, "an expression must be a text, it is a list"),
        (
            CLAIM + "    published: '1'\n    compute: '1'\n    tolerance: -1\n",
            7,
            "must not be negative",
        ),
        (
            CLAIM + "    published: '1'\n    compute: '1'\n    tolerance: much\n",
            7,
            "tolerance, unless it is 'digits', must be a number",
        ),
        (
            CLAIM + "    holds: 1 < 2\n    tolerance: 1\n",
            6,
            "of the 'published' figures",
        ),
        (CLAIM + "    holds: 1 < 2\n    expect: agree\n", 6, "did you mean 'agrees'?"),
        (CLAIM + "    compute: '1'\n    recorded: x\n", 6, "must be a number"),
        (CLAIM + "    compute: '1'\n    recorded: 1e99\n", 6, "up to 1e15"),
        (CLAIM + "    compute: '1'\n    recorded: nan\n", 6, "up to 1e15"),
        (CLAIM + "    readings: [{name: a}]\n", 5, "at least two"),
        (
            CLAIM + "    readings:\n      - {holds: 1 < 2}\n      - {name: b}\n",
            6,
            "a reading has no 'name'",
        ),
        (
            CLAIM
            + "    readings:\n      - {name: a, compute: '1'}\n      - {name: b}\n",
            6,
            "a reading needs 'holds'",
        ),
        (
            CLAIM + "    readings:\n      - {name: a, hold: '1'}\n      - {name: b}\n",
            6,
            "did you mean 'holds'?",
        ),
        ("figures: [a]\nclaims: [a]\n", 1, "figures must be a mapping"),
        ("figures: {a: {unit: s}}\nclaims: [a]\n", 1, "has no 'value'"),
        (
            "figures: {a: {value: '1', units: s}}\nclaims: [a]\n",
            1,
            "did you mean 'unit'",
        ),
        ("figures: {a: {value: '1', exact: 1}}\nclaims: [a]\n", 1, "true or false"),
        ("figures: {a b: '1'}\nclaims: [a]\n", 1, "cannot name a figure"),
        ("figures: {value: '1'}\nclaims: [a]\n", 1, "cannot name a figure"),
        ("figures: {and: '1'}\nclaims: [a]\n", 1, "cannot name a figure"),
        ("figures: {_a: '1'}\nclaims: [a]\n", 1, "cannot name a figure"),
        ("figures: {a: '1'}\nruns: [a]\nclaims: [a]\n", 2, "names a figure already"),
        ("runs: x\nclaims: [a]\n", 1, "runs must be a list"),
        ("runs: {a: [b]}\nclaims: [a]\n", 1, "a path must be a text"),
    ],
)
def test_errors(claims_file, text, line, says):
    path = claims_file(text)
    with pytest.raises(AuditError) as caught:
        load_claims(path)
    message = str(caught.value)
    assert message.startswith(f"{path}, line {line}")
    assert says in message


def test_errors_name_the_claim(claims_file):
    path = claims_file(CLAIM + "    holds: rat < 1\n")
    with pytest.raises(AuditError, match=r"line 5, claim 'one': there is no figure"):
        load_claims(path)


def test_ids_are_unique(claims_file):
    text = "claims:\n" + "  - {id: a, text: x, holds: 1 < 2}\n" * 2
    with pytest.raises(AuditError, match=r"line 3, claim 'a': the claim of line 2"):
        load_claims(claims_file(text))


def test_bad_arguments(claims_file, tmp_path):
    path = claims_file(GOOD)
    with pytest.raises(UsageError, match=r"runs.'main'. is None; it must be a Run"):
        audit(path, {"main": None})
    with pytest.raises(UsageError, match="names no run 'man': did you mean 'main'"):
        audit(path, {"man": tmp_path})
    with pytest.raises(FileNotFoundError):
        audit(path, {"main": tmp_path / "none"})
    with pytest.raises(UsageError, match="did you mean 'one'"):
        audit(path, only=["onee"])
    assert [r.claim.id for r in audit(path, only="t*").results] == ["two"]


def test_many_claims_are_refused(claims_file):
    text = "claims:\n" + "".join(
        f"- {{id: a{i}, text: x, holds: 1 < 2}}\n" for i in range(5001)
    )
    with pytest.raises(AuditError, match="holds 5001 claims"):
        load_claims(claims_file(text))
