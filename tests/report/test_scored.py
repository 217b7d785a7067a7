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


def rewritten(folder, change, protocol="stableeval", **options):
    """Report a made run after `change` has been made to every pass."""
    rows = made_run(folder, protocol=protocol, **options)
    for i, row in enumerate(rows):
        change(i, row)
    lines = [json.dumps(row) + "\n" for row in rows]
    (folder / "passes.jsonl").write_text("".join(lines))
    return report(folder)


def uniform(row):
    row["logprobs"] = [math.log(1 / row["n_options"])] * row["n_options"]
    row["answer"] = 0


@pytest.mark.parametrize("every", [1, 4])
def test_answers_of_the_tie_rule_are_not_rated(tmp_path, every):
    made = rewritten(tmp_path, lambda i, row: uniform(row) if i % every == 0 else None)
    values = made.numbers["consistency"]
    assert values["tied_passes"] == pytest.approx(1 / every, abs=0.02)
    assert values["rating"] is values["attribution"] is None
    share = f"{100 * values['tied_passes']:.1f} %"
    (line,) = [line for line in headline(made.numbers) if "tie rule" in line]
    assert f"In {share} of the passes" in line
    (part,) = [p for p in sections(made.numbers) if p.title == "Consistency"]
    assert f"Not rated: a tie rule chose {share}" in part.note
    assert "Rating:" not in part.note


def test_a_rare_tie_does_not_matter(tmp_path):
    made = rewritten(tmp_path, lambda i, row: uniform(row) if i % 50 == 0 else None)
    assert 0 < made.numbers["consistency"]["tied_passes"] < 0.1
    assert made.numbers["consistency"]["rating"] is not None
    assert not any("tie rule" in line for line in headline(made.numbers))


def test_ties_of_votes_are_no_ties_of_passes(tmp_path):
    made = rewritten(tmp_path, lambda i, row: None, "phasefusion")
    assert made.numbers["ties"]["vote"]["passes"] > 0.1
    assert made.numbers["consistency"]["tied_passes"] == 0


@pytest.mark.parametrize(("mass", "said"), [(0.0003, True), (0.7, False)])
def test_little_option_mass_is_said(tmp_path, mass, said):
    made = rewritten(tmp_path, lambda i, row: row.update(option_mass=mass))
    lines = [line for line in headline(made.numbers) if "something else" in line]
    assert len(lines) == said
    if said:
        assert "a probability of only 0.0003 (median" in lines[0]
        (part,) = [p for p in sections(made.numbers) if p.title.startswith("Margins")]
        assert {row[-2] for row in part.rows if row[-2] != "–"} == {"< 0.001"}


@pytest.mark.parametrize("prompt", ["unlabelled", "blind", None])
def test_only_letters_that_were_shown_with_a_video_tell_of_little_mass(
    tmp_path, prompt
):
    rows = made_run(tmp_path)
    for row in rows:
        row["option_mass"] = 1e-20 if row["arm"] == "union" else 0.99
    (tmp_path / "passes.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    run = json.loads((tmp_path / "run.json").read_text())
    for arm in run["settings"]["arms"]:
        if arm["arm"] == "union" and prompt:
            arm["prompt"] = prompt
    (tmp_path / "run.json").write_text(json.dumps(run))
    made = report(tmp_path)
    said = [line for line in headline(made.numbers) if "something else" in line]
    assert len(said) == (prompt is None)
    assert made.numbers["option_mass"]["union"]["median"] == 1e-20


def test_the_single_pass_is_counted_once_among_ties(tmp_path):
    """It is one of the three phases, and here the one in which passes tie."""
    tied = []

    def change(i, row):
        tied.append(row["phase_index"] == 1 and i % 2 == 0)
        if tied[-1]:
            uniform(row)

    made = rewritten(tmp_path, change)
    assert "single" in made.numbers["accuracy"]
    share = sum(tied) / len(tied)
    assert made.numbers["consistency"]["tied_passes"] == pytest.approx(share, abs=1e-12)
