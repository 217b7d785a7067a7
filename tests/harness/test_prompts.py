"""Options found in the prompts that deployed tasks make, and shown in another order."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import phasefusion as pf
from phasefusion import tinyvlm
from phasefusion.datasets import load_questions
from phasefusion.errors import OptionError, ScoringError
from phasefusion.harness.docs import read_doc, resolved_gold
from phasefusion.harness.prompts import (
    AsShown,
    find_options,
    prompt_source,
    takes_prompt,
    with_prompt,
)
from phasefusion.scoring.letters import PromptTemplate, strip_letters

VIDEOMME = (
    "Select the best answer to the following multiple-choice question based on the "
    "video. Respond with only the letter (A, B, C, or D) of the correct option.\n"
    "When demonstrating, which is shown?\nA. 22\nB. 23\nC. 24\nD. 25.\n"
    "Answer with the option's letter from the given choices directly."
)


def test_a_prompt_comes_back_to_the_character():
    found = find_options(VIDEOMME)
    assert found.texts == ("22", "23", "24", "25.")
    assert found.render() == VIDEOMME
    shown = found.render([3, 0, 1, 2])
    assert "\nA. 25.\nB. 22\nC. 23\nD. 24\nAnswer" in shown
    assert shown.split("\nA.")[0] == VIDEOMME.split("\nA.")[0]


@pytest.mark.parametrize(
    ("prompt", "texts", "labels"),
    [
        ("Q?\n(A) a cat\n(B) a dog\nBest option: (", ("a cat", "a dog"), "(A) "),
        ("Q?\nA) a cat\nB) a dog", ("a cat", "a dog"), "A) "),
        ("Q?\nA: a cat\nB: a dog\n", ("a cat", "a dog"), "A: "),
        ("Q?\n  A. a cat\n  B. a dog\n", ("a cat", "a dog"), "  A. "),
        ("Q?\na. a cat\nb. a dog", ("a cat", "a dog"), "a. "),
        ("Q?\nA.cat\nB.dog", ("cat", "dog"), "A."),
        ("Q?\r\nA. a cat\r\nB. a dog\r\nGo", ("a cat", "a dog"), "A. "),
    ],
)
def test_forms_of_labels(prompt, texts, labels):
    found = find_options(prompt)
    assert (found.texts, found.labels[0]) == (texts, labels)
    assert found.render() == prompt
    swapped = find_options(found.render([1, 0]))
    assert swapped.texts == texts[::-1]


def test_the_last_run_of_labels_counts():
    prompt = "Example\nA. x\nB. y\nAnswer: A\n\nNow you\nA. red\nB. blue\nC. pink\n"
    assert find_options(prompt).texts == ("red", "blue", "pink")


def test_an_option_of_several_lines():
    found = find_options("Q?\nA. first\nwith more\nB. second\nGo")
    assert found.texts == ("first\nwith more", "second")
    assert found.render([1, 0]) == "Q?\nA. second\nB. first\nwith more\nGo"


def test_known_options_are_found_where_labels_mislead():
    prompt = "Q?\nA. J. Adams\nB. A. Lincoln\nC. B. Franklin\nC. Note: be brief."
    options = ["J. Adams", "A. Lincoln", "B. Franklin"]
    found = find_options(prompt, options)
    assert found.texts == tuple(options)
    assert found.tail == "\nC. Note: be brief."
    assert found.render() == prompt


def test_known_options_on_one_line_and_with_labels_of_their_own():
    prompt = "Q? (A) red (B) blue (C) red and blue. Answer:"
    found = find_options(prompt, ["A. red", "B. blue", "C. red and blue"])
    assert found.texts == ("red", "blue", "red and blue")
    assert found.render([2, 0, 1]) == "Q? (A) red and blue (B) red (C) blue. Answer:"


def test_one_option_inside_another():
    options = ["a", "aa", "aaa"]
    found = find_options("aaa?\nA. a\nB. aa\nC. aaa\n", options)
    assert found.render([2, 1, 0]) == "aaa?\nA. aaa\nB. aa\nC. a\n"


@pytest.mark.parametrize(
    ("prompt", "options"),
    [
        ("What happens in the video?", None),
        ("Q?\nA. only one", None),
        ("Q?\nB. x\nC. y", None),
        ("Q?\nA. red\nB. blue", ["red", "green"]),
        ("Q?\nA. red\nB. blue", ["blue", "red"]),
        ("", None),
    ],
)
def test_prompts_without_options(prompt, options):
    with pytest.raises(OptionError):
        find_options(prompt, options)


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1)


@given(
    st.lists(TEXTS.map(str.strip).filter(bool), min_size=2, max_size=8),
    TEXTS.filter(lambda text: text.strip()),
    st.permutations(range(8)),
    st.sampled_from(["{}. ", "({}) ", "{}) "]),
)
def test_any_options_come_back(options, question, order, label):
    lines = [label.format(chr(ord("A") + k)) + o for k, o in enumerate(options)]
    prompt = question + "\n" + "\n".join(lines) + "\nAnswer with the letter."
    order = [k for k in order if k < len(options)]
    found = find_options(prompt, options)
    assert found.render() == prompt
    assert found.render(order).startswith(question)
    assert found.render(order).endswith("\nAnswer with the letter.")
    again = [found.labels[pos] + options[k] for pos, k in enumerate(order)]
    assert "\n".join(again) in found.render(order)


@pytest.mark.parametrize(
    ("task", "doc", "expected"),
    [
        (
            "videomme_w_subtitle",
            {
                "question_id": "001-1",
                "videoID": "abc",
                "options": ["A. x", "B. y"],
                "answer": "B",
                "task_type": "Counting",
            },
            ("001-1", "abc", 1, "Counting"),
        ),
        (
            "egoschema_subset",
            {
                "question_idx": "4",
                "video_idx": "u-1",
                "option": ["A. x", "B. y", "C. z"],
                "answer": "2",
            },
            ("u-1", "u-1", 2, ""),
        ),
        (
            "mvbench_action_count",
            {"video": "v.mp4", "candidates": ["2", "0"], "answer": "0"},
            ("", "v", 1, ""),
        ),
        (
            "nextqa_mc_test",
            {"video": 7, "qid": 3, "a0": "x", "a1": "y", "answer": 1, "type": "CW"},
            ("7_3", "7", 1, "CW"),
        ),
        (
            "longvideobench_val_v",
            {
                "id": "v_0",
                "video_path": "v.mp4",
                "option0": "x",
                "option1": "y",
                "option2": "N/A",
                "correct_choice": 0,
                "question_category": "S2E",
            },
            ("v_0", "v", 0, "S2E"),
        ),
        (
            "perceptiontest_val_mc",
            {
                "video_name": "v1",
                "question_id": "0",
                "options": ["x", "y", "z"],
                "answer_id": "2",
                "area": "physics",
            },
            ("v1_0", "v1", 2, "physics"),
        ),
        ("tempcompass_multi_choice", {"video_id": "9", "dim": "speed"}, None),
        (
            "any_other",
            {"id": 5, "choices": [{"choice": "x"}, {"choice": "y"}], "label": "y"},
            ("5", "", 1, ""),
        ),
    ],
)
def test_documents_of_tasks(task, doc, expected):
    facts = read_doc(task, doc)
    if expected is None:
        assert (facts.options, facts.question_id, facts.type) == (None, "", "speed")
        return
    assert facts.options is not None
    options, _ = strip_letters(facts.options)
    gold, problem = resolved_gold(facts.gold, options, facts.gold_kind)
    assert (facts.question_id, facts.video_id, gold, facts.type) == expected
    assert not problem


def test_gold_that_is_none():
    assert resolved_gold(None, ["x", "y"]) == (None, "")
    gold, problem = resolved_gold("E", ["x", "y"])
    assert gold is None
    assert "none of the options" in problem


def test_an_option_that_is_no_text():
    with pytest.raises(OptionError, match="must be a text"):
        read_doc("t", {"options": [["x"], "y"]})


def test_a_model_reads_the_tasks_own_prompt():
    """As a scorer does that was made with that prompt; the first one keeps its own."""
    pytest.importorskip("transformers")
    item = load_questions(tinyvlm.questions_path())[0]
    template = PromptTemplate(
        "Look: {question}\n{options}\nThe letter is", "({letter}) {option}", "Be brief."
    )
    text = template.render(item.question, item.options)
    load = pf.scoring.HFOptionScorer.from_pretrained
    plain = load(tinyvlm.model_dir(), device="cpu")
    clip = pf.read_clip(item.video, pf.PhaseGrid(2, 2), size=plain.frame_size)
    orders = pf.orders.reverse(len(item.options))
    before = plain.score(clip, item.question, item.options, orders=orders)
    shown = with_prompt(plain, AsShown(find_options(text), "Be brief."))
    found = shown.score(clip, "anything", item.options, orders=orders)
    wanted = load(tinyvlm.model_dir(), device="cpu", prompt=template)
    expected = wanted.score(clip, item.question, item.options, orders=orders)
    np.testing.assert_array_equal(found.logprobs, expected.logprobs)
    again = plain.score(clip, item.question, item.options, orders=orders)
    np.testing.assert_array_equal(again.logprobs, before.logprobs)
    assert np.abs(found.logprobs - before.logprobs).max() > 1e-3


def test_a_scorer_without_a_prompt_stays(tmp_path):
    scorer = pf.wrap(lambda frames, question, options: [0.0], returns="logits")
    assert with_prompt(scorer, PromptTemplate()) is scorer
    server = pf.OpenAIScorer("http://localhost/v1", "m")
    shown = with_prompt(server, PromptTemplate(system="Be brief."))
    assert shown is not server
    assert shown.describe()["prompt"]["system"] == "Be brief."
    assert server.describe()["prompt"]["system"] is None
    with pytest.raises(ScoringError, match=r"must show \{options\}"):
        with_prompt(server, PromptTemplate("{question}"))


def test_a_scorer_with_names_like_ours_is_left_alone():
    """What it keeps under a private name is its own business."""

    class Foreign:
        def __init__(self):
            self._prompt = "Answer: "
            self._asker = SimpleNamespace(prompt="Answer: ")

    foreign = Foreign()
    assert with_prompt(foreign, PromptTemplate()) is foreign
    assert foreign._prompt == foreign._asker.prompt == "Answer: "
    assert not takes_prompt(foreign)


def test_a_scorer_of_ones_own_may_take_a_prompt():
    class Own:
        def __init__(self, prompt=None):
            self.prompt = prompt

        def with_prompt(self, prompt):
            return Own(prompt)

    prompt = PromptTemplate()
    assert with_prompt(Own(), prompt).prompt is prompt
    assert prompt_source(Own(), {}) == {"text": "as the data set makes it"}
    own = prompt_source(object(), {"prompt": {"text": "{question}"}})
    assert own["text"].startswith("the scorer's own")
    assert own["own"] == {"text": "{question}"}
