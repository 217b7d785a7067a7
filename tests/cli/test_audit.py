"""phasefusion audit: what it prints, writes and exits with."""

import json

import pytest
from made_runs import made_run

CLAIMS = """\
runs: [main, second]
claims:
  - {id: n, text: Forty questions., published: "40", compute: "present(gold(main))"}
  - {id: m, text: As many., holds: "present(gold(second)) == 40"}
  - {id: s, text: A sum., published: "4", compute: 2 + 2}
"""


@pytest.fixture
def place(tmp_path, call, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "claims.yaml").write_text(CLAIMS)
    made_run(tmp_path / "a", n_items=40)
    made_run(tmp_path / "b", n_items=39)
    return tmp_path


def test_shipped_claims(call):
    code, out, err = call("audit", "paper")
    assert (code, err) == (0, "")
    assert "circular.identity" in out
    assert "All as the file expects." in out
    code, out, _ = call("audit", "stableeval", "--only", "seed002.*", "--json")
    assert code == 0
    made = json.loads(out)
    assert [one["verdict"] for one in made["claims"]] == [
        "inconsistent",
        "inconsistent",
        "ambiguous",
    ]


@pytest.mark.parametrize(
    ("runs", "code", "verdicts"),
    [
        ([], 0, ["cannot be computed", "cannot be computed", "agrees"]),
        (["--strict"], 1, ["cannot be computed", "cannot be computed", "agrees"]),
        (["main=a"], 0, ["agrees", "cannot be computed", "agrees"]),
        (["a", "a"], 0, ["agrees", "agrees", "agrees"]),
        (["second=a", "b"], 1, ["differs", "agrees", "agrees"]),
        (["main=a", "second=b"], 1, ["agrees", "differs", "agrees"]),
    ],
)
def test_runs_and_exit_status(call, place, runs, code, verdicts):
    found, out, err = call("audit", "claims.yaml", *runs, "--json")
    assert (found, err) == (code, "")
    assert [one["verdict"] for one in json.loads(out)["claims"]] == verdicts


def test_markdown(call, place):
    code, out, _ = call("audit", "claims.yaml", "main=b", "--markdown")
    assert code == 1
    assert out.startswith("3 claims: 1 agrees, 1 differs, 1 cannot be computed.")
    assert "| n | Forty questions. | 40 (39.5..40.5) | 39 | differs (expected" in out


def test_draft(call, place):
    call("report", "a")
    code, out, err = call("audit", "--draft", "a/report.json", "--out", "mine.yaml")
    assert (code, err) == (0, "")
    assert "written: mine.yaml (" in out
    assert call("audit", "mine.yaml", "run=a")[0] == 0
    assert call("audit", "mine.yaml", "run=b")[0] == 1
    code, out, _ = call("audit", "--draft", "a/report.md")
    assert code == 0
    assert "cell(run, 'Accuracy', 'fusion', 'consensus')" in out
    code, _, err = call("audit", "--draft", "a/report.md", "--out", "mine.yaml")
    assert code == 2
    assert "mine.yaml is there already" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "paper, stableeval"),
        (["none.yaml"], "none.yaml: No such file"),
        (["claims.yaml", "man=a"], "names no run 'man': did you mean 'main'"),
        (["claims.yaml", "main=none"], "none: no such run or file"),
        (["claims.yaml", "main=a", "main=b"], "main is given twice"),
        (["claims.yaml", "a", "b", "c"], "leaves no run open for it"),
        (["paper", "a"], "leaves no run open for it (it names none)"),
        (["paper", "--only", "tosd.p"], "did you mean 'tost.p'"),
        (["paper", "--markdown", "--json"], "--markdown or --json"),
        (["paper", "--out", "x"], "--draft only"),
        (["paper", "--draft", "a"], "no claims file"),
        (["--draft", "none"], "none: no such report"),
    ],
)
def test_bad_use(call, place, words, says):
    code, out, err = call("audit", *words)
    assert (code, out) == (2, "")
    assert says in " ".join(err.replace("│", " ").split())


def test_bad_claims_file(call, place):
    (place / "claims.yaml").write_text("claims:\n- {id: a, text: t, compte: '1'}\n")
    code, out, err = call("audit", "claims.yaml")
    assert (code, out) == (2, "")
    assert err == (
        "phasefusion: error: claims.yaml, line 2, claim 'a': a claim has no key "
        "'compte': did you mean 'compute'?\n"
    )


def test_help_names_the_keys_of_claims_files(call):
    from phasefusion.audit import claims

    code, out, _ = call("audit", "--help")
    assert code == 0
    said = " ".join(out.replace("│", " ").split())
    for key in (*claims._TOP, *claims._CLAIM, *claims._FIGURE):
        assert f" {key}," in said or f" {key};" in said or f" {key}." in said, key
