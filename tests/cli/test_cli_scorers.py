"""What `run --scorer`, `--model` and `--limit` refuse, and how."""

import json
import shutil
import sys

import pytest
from pixel_scorer import QUICK

from phasefusion import tinyvlm
from phasefusion.records import iter_passes

SCORERS = """
import pixel_scorer

class Base(pixel_scorer.PixelScorer):
    pass

class Nan(Base):
    def score(self, clip, question, options, *, orders=None):
        scores = super().score(clip, question, options, orders=orders)
        return scores.logprobs * float("nan")

class NoOrders:
    def score(self, clip, question, options):
        pass

class NoScore:
    pass

class Raises(Base):
    def score(self, clip, question, options, *, orders=None):
        raise IndexError("no such\\nlayer")

def fails():
    raise FileNotFoundError("no weights\\nanywhere")

nothing = 3
"""


@pytest.fixture
def scorers(folder):
    (folder / "myscorers.py").write_text(SCORERS)
    (folder / "broken_scorers.py").write_text("def x(:")
    yield folder
    sys.modules.pop("myscorers", None)


METHOD = "a scorer needs a method score(self, clip, question, options, *, orders)"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("./none.py:Base", "there is no file ./none.py"),
        ("./none:Base", "./none is neither a module's name nor a .py file"),
        ("myscorers:Nope", "module 'myscorers' has no attribute 'Nope'"),
        (
            "./myscorers.py:fails",
            "fails() raised FileNotFoundError: no weights anywhere",
        ),
        (
            "./myscorers.py:NoOrders",
            "NoOrders.score(clip, question, options) cannot be called: got an "
            f"unexpected keyword argument 'orders'; {METHOD}",
        ),
        ("myscorers:NoScore", f"NoScore has no method score; {METHOD}"),
        (
            "myscorers:nothing",
            "must be a scorer, or be callable without arguments to make one: 3 is not "
            "a callable object",
        ),
    ],
)
def test_wrong_scorers_are_one_line(call, scorers, spec, message):
    code, out, err = call("run", "questions.jsonl", "--scorer", spec)
    assert (code, out) == (2, "")
    assert err == f"phasefusion: error: --scorer {spec}: {message}\n"


def test_a_scorer_file_that_is_no_python(call, scorers):
    code, out, err = call("run", "questions.jsonl", "--scorer", "./broken_scorers.py:x")
    assert (code, out) == (2, "")
    assert err.startswith(
        "phasefusion: error: --scorer ./broken_scorers.py:x: ./broken_scorers.py "
        "cannot be imported: SyntaxError: "
    )
    assert err.count("\n") == 1


@pytest.mark.parametrize("spec", [":x", "x:", ":", "x"])
def test_a_scorer_without_module_or_name(call, spec):
    code, out, err = call("run", "questions.jsonl", "--scorer", spec, columns=300)
    assert (code, out) == (2, "")
    assert (
        "--scorer must be MODULE:NAME, such as mypackage.scorers:make, or "
        f"FILE.py:NAME, not '{spec}'"
    ) in err


def test_a_scorer_by_path_is_the_one_by_name(call, scorers, tmp_path):
    words = ["run", "questions.jsonl", *QUICK, "--out", tmp_path / "run", "--scorer"]
    assert call(*words, "./myscorers.py:Base", "--limit", "1")[0] == 0
    first = (tmp_path / "run" / "passes.jsonl").stat().st_size
    code, _, err = call(*words, "myscorers:Base")
    assert (code, err) == (0, "")
    assert (tmp_path / "run" / "passes.jsonl").stat().st_size > first


def test_a_run_without_any_answer_is_no_success(call, scorers, tmp_path):
    words = ["run", "questions.jsonl", "-q", *QUICK, "--out", tmp_path / "r"]
    code, out, err = call(*words, "--scorer", "myscorers:Nan")
    assert code == 2
    assert "phasefusion: error: no pass of the run has an answer" in err
    assert "passes are missing" in out
    code, _, err = call("report", tmp_path / "r")
    assert (code, "passes are missing" in err) == (0, True)


def test_a_scorer_that_raises_is_one_line(call, scorers, tmp_path):
    words = ["--scorer", "myscorers:Raises", *QUICK, "--out", tmp_path / "run"]
    code, out, err = call("run", "questions.jsonl", *words)
    assert (code, out) == (2, "")
    assert err == (
        "phasefusion: error: question '0-0', arm phase: Raises.score raised "
        "IndexError: no such layer; what was scored before is on disk, and the same "
        "command goes on from here\n"
    )


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--score", "text"], "--score"),
        (["--score", "letter"], "--score"),
        (["--device", "cpu"], "--device"),
        (["--device", "cpu", "--score", "text"], "--score and --device"),
    ],
)
def test_options_of_a_model_are_refused_for_a_scorer(call, words, named):
    code, out, err = scored_with(call, words)
    assert (code, out) == (2, "")
    assert (
        f"{named} can be given with --model only; a scorer of --scorer sets its own"
    ) in err


def scored_with(call, words):
    return call(
        "run",
        "questions.jsonl",
        "--scorer",
        "pixel_scorer:make",
        *words,
        columns=300,
    )


@pytest.mark.parametrize("words", [["demo"], ["run", "questions.jsonl", "--model"]])
def test_no_questions_are_refused_before_a_model_loads(call, monkeypatch, words):
    monkeypatch.setitem(sys.modules, "torch", None)
    words = [*words, str(tinyvlm.model_dir())] if "--model" in words else words
    for limit in ("0", "-1"):
        code, out, err = call(*words, "--limit", limit, columns=300)
        assert (code, out) == (2, "")
        assert f"--limit is {limit}; it must be at least 1" in err


def test_a_model_moved_elsewhere_goes_on(call, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    model = shutil.copytree(tinyvlm.model_dir(), tmp_path / "model")
    out = tmp_path / "run"
    words = ["run", tinyvlm.questions_path(), "--protocol", "quick", "--quiet"]
    words += ["--device", "cpu", "--out", out]
    assert call(*words, "--model", model, "--limit", "1")[0] == 0
    run = json.loads((out / "run.json").read_text())
    assert run["model"] == {"path": str(model)}
    assert "path" not in run["settings"]["scorer"]
    assert len(run["settings"]["scorer"]["sha256"]) == 64
    monkeypatch.chdir(tmp_path)
    code, _, err = call(*words, "--model", "./model", "--limit", "2")
    assert (code, err) == (0, "")
    assert len(list(iter_passes(out))) == 2
    model.rename(tmp_path / "moved")
    code, _, err = call(*words, "--model", tmp_path / "moved", "--limit", "3")
    assert (code, err) == (0, "")
    template = tmp_path / "moved" / "chat_template.jinja"
    template.write_text(template.read_text() + " ")
    code, _, err = call(*words, "--model", tmp_path / "moved", "--limit", "4")
    assert code == 2
    assert f"{out}: this run was made with other settings" in err
    assert "sha256: " in err
