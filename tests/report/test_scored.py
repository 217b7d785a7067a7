"""Reports say what was scored where it is not letters, and claim nothing about it."""

import json
import math

import pytest
from made_runs import made_run
from pixel_scorer import PixelScorer, make_questions

from phasefusion.evaluate import evaluate
from phasefusion.records import iter_passes
from phasefusion.report import report
from phasefusion.report.headline import headline
from phasefusion.report.sections import sections

BARE = {"text": "{question}\nAnswer directly.", "option": "", "system": None}
FULL = {"text": "{question}\n{options}", "option": "{letter}. {option}"}


def scored(folder, **scorer):
    """Write a run whose scorer describes itself so."""
    made_run(folder, protocol="stableeval")
    run = json.loads((folder / "run.json").read_text())
    run["settings"]["scorer"] |= scorer
    (folder / "run.json").write_text(json.dumps(run))
    return report(folder)


class Blindfolded(PixelScorer):
    """A prompt without options: orders change nothing, and it says so."""

    def score(self, clip, question, options, *, orders=None):
        scores = super().score(clip, question, options, orders=orders)
        return scores.logprobs[:, :1].repeat(len(scores.orders), axis=1)

    def describe(self):
        return {"score": "text", "prompt": BARE, "shows_options": False}


@pytest.mark.parametrize("protocol", ["stableeval", "phasefusion"])
def test_options_that_are_not_shown_are_scored_in_one_order(tmp_path, protocol):
    questions = make_questions(tmp_path, n_clips=1, per_clip=2)
    out = tmp_path / "run"
    evaluate(
        questions, Blindfolded(), out=out, protocol=protocol, budget=4, progress=False
    )
    orders = {tuple(row["order"]) for row in iter_passes(out)}
    assert orders == {tuple(range(len(order))) for order in orders}
    made = report(out)
    assert made.numbers["order_flips"] is None
    assert made.numbers["consistency"]["rating"] is None


def test_the_options_of_another_prompt_are_scored_in_every_order(tmp_path):
    questions = make_questions(tmp_path, n_clips=1, per_clip=2)

    class Both(Blindfolded):
        def variant(self, name):
            return PixelScorer()

    options = {"protocol": "unlabelled", "budget": 4, "progress": False}
    evaluate(questions, Both(), out=tmp_path / "run", **options)
    assert len({tuple(row["order"]) for row in iter_passes(tmp_path / "run")}) > 1


def test_order_figures_of_options_that_were_not_shown_are_left_out(tmp_path):
    """Of a run that was made in many orders all the same."""
    made = scored(tmp_path, score="text", prompt=BARE)
    numbers = made.numbers
    assert numbers["order_flips"] is None
    assert numbers["letters"] == {}
    assert math.isnan(numbers["consistency"]["ooc"]["pairwise"]["value"])
    assert numbers["consistency"]["attribution"] is None
    titles = {part.title for part in sections(numbers)}
    assert not titles & {"Order flips", "Letters answered"}
    assert "orders" not in numbers["card"]["text"]
    assert "the prompt shows no options" in numbers["card"]["text"]


@pytest.mark.parametrize(
    ("scorer", "said"),
    [
        ({"score": "text", "prompt": BARE}, "Texts of the options were scored"),
        ({"score": "text-normalised", "prompt": FULL}, "mean over the tokens"),
        ({"score": "letter", "prior": "blind"}, "without the video were subtracted"),
        ({"score": "letter", "timestamps": "frozen"}, "the same frame times"),
        ({"constrain": "letters"}, "restricted to letters"),
    ],
)
def test_what_was_scored_is_said_everywhere(tmp_path, scorer, said):
    made = scored(tmp_path, **scorer)
    assert any(said in line for line in headline(made.numbers))
    assert said in made.numbers["card"]["text"]
    assert said in made.to_markdown()


def test_letters_need_no_word(tmp_path):
    usual = {"score": "letter", "prompt": FULL, "timestamps": "true", "constrain": None}
    made = scored(tmp_path, **usual)
    assert made.numbers["card"]["scored"] == []
    assert made.numbers["order_flips"] is not None
    assert "Options were shown in latin orders." in made.numbers["card"]["text"]
