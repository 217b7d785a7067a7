"""`phasefusion saliency`."""

import json

import pytest

from phasefusion import tinyvlm
from phasefusion._wording import counted
from phasefusion.records.saliency import read_saliency

pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of eight questions that `call` has made."""
    return tmp_path_factory.mktemp("runs") / "demo"


def test_run_saliency_and_page(call, run):
    model = tinyvlm.model_dir()
    code, _, _ = call("demo", "--limit", 8, "--out", run, "--quiet")
    assert code == 0
    words = ("saliency", run, "--model", model, "--device", "cpu", "--quiet")
    code, out, err = call(*words)
    assert (code, err) == (0, "")
    rows = read_saliency(run)
    n_items = len({row["question_id"] for row in rows})
    assert n_items > 0
    assert out.startswith(
        f"{counted(n_items, 'question')}, {len(rows)} lines, {len(rows)} of "
    )
    code, out, _ = call(*words, "--json")
    found = json.loads(out)
    assert (code, found["new"], found["lines"]) == (0, 0, len(rows))
    wanted = "tinyvlm-0003"
    code, out, _ = call(*words, "--items", wanted, "--method", "gradient", "--json")
    assert (code, json.loads(out)["items"]) == (0, 1)
    assert wanted in {row["question_id"] for row in read_saliency(run)}
    code, _, err = call(*words, "--items", "nothing")
    assert code == 2
    assert "has no answer to a question 'nothing'" in err


def test_bad_use(call, run):
    code, _, err = call("saliency", run)
    assert code == 2
    assert "give either --model or --scorer" in err
    code, _, err = call(
        "saliency", run, "--model", "m", "--items", "all", "--items", "q"
    )
    assert code == 2
    assert "stand alone" in err
    code, _, err = call("saliency", run.parent / "none", "--model", "m")
    assert code == 2
    assert "no run here" in err
