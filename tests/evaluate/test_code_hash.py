"""A scorer that has changed is another one, whatever its name."""

from __future__ import annotations

import functools
import json

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
    assert describe_scorer(with_own_score)["source"] == code_hash(Louder)


def test_a_source_that_cannot_be_read_is_warned_of():
    space = {}
    exec("def f(frames, question, options): return [0.0] * len(options)", space)
    with pytest.warns(FallbackWarning, match=r"the source of .*f cannot be read"):
        assert describe_scorer(pf.wrap(space["f"], returns="logits"))["source"] is None
    exec("class Bare:\n def score(self, clip, q, o, *, orders=None): ...", space)
    with pytest.warns(FallbackWarning, match="Bare cannot be read"):
        describe_scorer(space["Bare"]())
