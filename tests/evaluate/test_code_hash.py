"""A scorer that has changed is another one, whatever its name."""

from __future__ import annotations

import functools
import importlib
import json
import linecache
import sys

import numpy as np
import pytest
from pixel_scorer import PixelScorer, make_questions

import phasefusion as pf
from phasefusion._code_hash import code_hash
from phasefusion._description import describe_scorer
from phasefusion.errors import FallbackWarning, RecordError

FUNCTION = """
import phasefusion as pf
SCALE = {scale}
calls = 0
def helper(text):
    return {sign}len(text)
@pf.wrap(returns="logits")
def likes(frames, question, options):
    global calls
    calls += 1
    {comment}
    return [SCALE * helper(option) for option in options]
"""
CLASS = """
import numpy as np
class Likes:
    calls = []
    def score(self, clip, question, options, *, orders=None):
        self.calls.append(question)
        values = {sign}np.array([len(option) for option in options], float)
        values = values - np.log(np.exp(values).sum())
        return np.broadcast_to(
            values, (len(clip.frames), len(orders), len(options))
        )
likes = Likes()
"""


def load(path, text, **values):
    """Import a module as it is written now, as a new process would."""
    path.write_text(text.format(**{"scale": 1, "sign": "", "comment": ""} | values))
    space = {"__name__": path.stem}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return space["likes"]


@pytest.mark.parametrize("text", [FUNCTION, CLASS])
def test_a_run_does_not_go_on_with_a_changed_scorer(tmp_path, text):
    questions = make_questions(tmp_path, n_clips=1, per_clip=2)
    path = tmp_path / "mine.py"

    def run(limit, **values):
        return pf.evaluate(
            questions,
            load(path, text, **values),
            out=tmp_path / "run",
            protocol="quick",
            budget=4,
            limit=limit,
            progress=False,
        )

    assert run(1).n_new == 1
    with pytest.raises(RecordError, match="source"):
        run(2, sign="-")
    assert run(2, comment="# said otherwise").n_new == 1
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert len(settings["scorer"]["source"]) == 16


def test_what_counts_and_what_does_not(tmp_path):
    path = tmp_path / "mine.py"
    same = load(path, FUNCTION).describe()["source"]
    assert load(path, FUNCTION, comment="# why").describe()["source"] == same
    for change in ({"scale": 2}, {"sign": "-"}, {"comment": "options.sort()"}):
        assert load(path, FUNCTION, **change).describe()["source"] != same


def test_workers_with_a_device_each_are_of_one_run(tmp_path):
    path = tmp_path / "mine.py"
    first, second, other = (
        load(path, FUNCTION, scale=repr(device)).describe()["source"]
        for device in ("cuda:0", "cuda:1", "cpu")
    )
    # the text of the module is another one, but the function's is not
    assert first == second != other


HELPERS = """
SHIFT = {shift}
def pick(options):
    return [len(option) + SHIFT for option in options]
class Model:
    calls = 0
    def __init__(self, k):
        self.k = k
        self.seen = []
        self.answered = 0
    def run(self, options):
        self.seen.append(len(options))
        self.answered += 1
        return [{sign}self.k * len(option) for option in options]
"""
USES = {
    "a function of another file": "from {name} import pick\ndef f(v, q, o):\n"
    "    return pick(o)\n",
    "a module": "import {name}\ndef f(v, q, o):\n    return {name}.pick(o)\n",
    "an object": "from {name} import Model\nmodel = Model({k})\ndef f(v, q, o):\n"
    "    return model.run(o)\n",
    "a method": "from {name} import Model\nf = Model({k}).run\n",
    "a list of objects": "from {name} import Model\nmodels = [Model({k})]\n"
    "def f(v, q, o):\n    return models[0].run(o)\n",
    "a container": "known = dict(k=[1, {k}])\ndef f(v, q, o):\n    return known['k']\n",
    "an array": "import numpy as np\nknown = np.arange(9) * {k}\ndef f(v, q, o):\n"
    "    return known[: len(o)]\n",
}


def hashes(folder, monkeypatch, text, **values):
    """Hash of ``f`` in a module that uses another one, as two new processes would."""
    name = f"helpers_{folder.name}".replace("-", "_")
    monkeypatch.syspath_prepend(str(folder))
    values = {"k": 1, "shift": 0, "sign": "", "name": name} | values
    (folder / f"{name}.py").write_text(HELPERS.format(**values))
    (folder / "mine.py").write_text(text.format(**values))
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    linecache.clearcache()
    space = {"__name__": "mine"}
    exec(
        compile((folder / "mine.py").read_text(), str(folder / "mine.py"), "exec"),
        space,
    )
    found = code_hash(space["f"])
    sys.modules.pop(name, None)
    return found


@pytest.mark.parametrize("what", USES)
def test_what_a_function_uses_counts(tmp_path, monkeypatch, what):
    change = {"k": 2}
    if what in ("a function of another file", "a module"):
        change = {"shift": 1}
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    first = hashes(tmp_path, monkeypatch, USES[what])
    assert first is not None
    assert hashes(tmp_path, monkeypatch, USES[what]) == first
    assert hashes(tmp_path, monkeypatch, USES[what], **change) != first
    if "object" in what or "method" in what:
        assert hashes(tmp_path, monkeypatch, USES[what], sign="-") != first


class Counting:
    """Counts its calls, which makes it no other scorer."""

    def __init__(self, k):
        self.k = k
        self.calls = 0
        self.seen = {}

    def __call__(self, frames, question, options):
        self.calls += 1
        self.seen[question] = len(options)
        return [self.k * len(option) for option in options]


def test_objects_are_told_apart_by_what_they_are_made_with():
    one = Counting(1)
    same = code_hash(one)
    one(None, "?", ["a"])
    assert code_hash(one) == same == code_hash(Counting(1)) != code_hash(Counting(2))


def test_weights_of_torch_count():
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(3, 4)
    large = torch.nn.Linear(2**10, 2**10).to(torch.bfloat16)

    def f(frames, question, options):
        return large(model(frames))

    first = code_hash(f)
    assert code_hash(f) == first
    with torch.no_grad():
        model.weight[2, 1] += 1e-3
        second = code_hash(f)
        large.weight.mul_(1.01)
    assert len({first, second, code_hash(f)}) == 3


def test_installed_code_is_not_read():
    assert code_hash(json.JSONDecoder) is None
    assert code_hash(json.JSONDecoder()) is None
    assert code_hash(np.vectorize(len)) is None


def test_a_refusal_says_what_to_do(tmp_path):
    questions = make_questions(tmp_path, n_clips=1, per_clip=1)
    options = {"out": tmp_path / "run", "protocol": "quick", "progress": False}
    pf.evaluate(questions, pf.wrap(Counting(1), returns="logits"), **options)
    with pytest.raises(RecordError, match="say what identifies it: content= of wrap"):
        pf.evaluate(questions, pf.wrap(Counting(2), returns="logits"), **options)


def made(by=1.0, *, start=0):
    count = start

    def inner(frames, question, options, power=by):
        nonlocal count
        count += 1
        return [by * power * len(option) for option in options]

    return inner


def test_closures_and_defaults_count_but_no_counters():
    first = made()
    same = code_hash(first)
    first(None, "", ["a"])
    assert code_hash(first) == same == code_hash(made(start=7))
    assert code_hash(made(2.0)) != same
    partial = functools.partial(first, power=1.0)
    assert code_hash(partial) not in (None, same)
    assert code_hash(partial) != code_hash(functools.partial(first, power=2.0))

    def decorated(function):
        @functools.wraps(function)
        def outer(*args):
            return function(*args)

        return outer

    assert code_hash(decorated(made())) != code_hash(decorated(made(2.0)))


class Louder(pf.wrap(lambda f, q, o: [0.1] * len(o), returns="logits").__class__):
    """Inherits what describes it."""

    def score(self, clip, question, options, *, orders=None):
        return super().score(clip, question, options, orders=orders)


def test_who_describes_itself_is_not_looked_at():
    assert "source" not in describe_scorer(PixelScorer())
    given = pf.wrap(made(), returns="logits", content="v1")
    assert describe_scorer(given).get("content") == "v1"
    assert "source" not in describe_scorer(given)
    with_own_score = Louder(made(), returns="logits", content="v1")
    assert describe_scorer(with_own_score)["source"] == code_hash(with_own_score)


def test_code_of_nobody_is_warned_of():
    with pytest.warns(FallbackWarning, match=r"nothing of .*where is known"):
        assert describe_scorer(pf.wrap(np.where, returns="logits"))["source"] is None
    with pytest.warns(FallbackWarning, match="nothing of .*JSONDecoder is known"):
        describe_scorer(json.JSONDecoder())


def test_code_that_was_typed_in_is_known():
    spaces = [{}, {}, {}]
    for space, sign in zip(spaces, ("", "", "-"), strict=True):
        exec(f"def f(v, q, o): return [{sign}len(x) for x in o]", space)
    first, second, other = (code_hash(space["f"]) for space in spaces)
    assert first == second != other
