"""`phasefusion gate`."""

import json
from xml.etree import ElementTree

import pytest
from made_runs import made_run

from phasefusion.simulate import Effects, corpus

DESIGN = {"n_videos": 100, "orders": "cyclic", "seed": 5}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    old, again = corpus(**DESIGN).write(folder / "a", reruns=1, frames=False)
    worse = Effects(phase_sd=0.9)
    return old, again, corpus(worse, **DESIGN).write(folder / "b", frames=False)[0]


def test_pass_and_roll_back(call, runs, tmp_path):
    old, again, worse = runs
    code, out, err = call("gate", old, again)
    assert (code, err) == (0, "")
    assert out.startswith("phasefusion gate: pass")
    files = tmp_path / "gate.md", tmp_path / "gate.xml"
    code, out, err = call(
        "gate",
        old,
        worse,
        "--save-markdown",
        files[0],
        "--save-junit",
        files[1],
        "--json",
    )
    assert code == 1
    assert json.loads(out)["verdict"] == "roll back"
    assert err == "".join(f"phasefusion: written: {path}\n" for path in files)
    assert files[0].read_text().startswith("# phasefusion gate: roll back")
    assert ElementTree.parse(files[1]).getroot().get("failures") != "0"


def test_cannot_tell(call, tmp_path):
    for name in "ab":
        made_run(tmp_path / name, protocol="stableeval", n_items=10)
    code, out, _ = call("gate", tmp_path / "a", tmp_path / "b")
    assert code == 3
    assert "cannot tell" in out


def test_bad_input(call, runs, tmp_path):
    made_run(tmp_path / "b", protocol="stableeval")
    code, out, err = call("gate", runs[0], tmp_path / "b")
    assert (code, out) == (2, "")
    assert err.startswith("phasefusion: error: ")
    rules = tmp_path / "gate.toml"
    rules.write_text("[fcp]\n")
    code, _, err = call("gate", runs[0], runs[1], "--rules", rules)
    assert code == 2
    assert "'fcp' is not a rule" in err
    code, _, err = call(
        "gate", runs[0], runs[1], "--save-junit", tmp_path / "no" / "x.xml"
    )
    assert code == 2
    assert "cannot be written" in err
