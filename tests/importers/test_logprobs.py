"""Log-probabilities of servers: token variants, option mass, what is absent."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasefusion.errors import DatasetError
from phasefusion.importers import letter_scores
from phasefusion.importers.logprobs import answer_position

ROW = {"custom_id": "q1", "options": ["x", "y", "z"], "gold": "B"}
TOP = {"B": -0.6, " A": -1.5, "A": -3.0, "▁C": -2.5, "The": -4.0}


def chat(text="B", tokens=(("B", TOP),), wrap=True):
    content = [
        {
            "token": token,
            "logprob": top.get(token, -9.0),
            "top_logprobs": [{"token": t, "logprob": v} for t, v in top.items()],
        }
        for token, top in tokens
    ]
    body = {
        "choices": [{"message": {"content": text}, "logprobs": {"content": content}}]
    }
    return {"response": {"status_code": 200, "body": body}} if wrap else body


def legacy():
    logprobs = {
        "tokens": [" B"],
        "token_logprobs": [-0.6],
        "top_logprobs": [{" B": -0.6, " A": -1.5, "A": -3.0, "C": -2.5}],
    }
    return {"choices": [{"text": " B", "logprobs": logprobs}]}


def vllm():
    top = {"33": ("B", -0.6), "34": (" A", -1.5), "35": ("A", -3.0), "36": ("ĠC", -2.5)}
    position = {
        token: {"logprob": value, "rank": 1, "decoded_token": text}
        for token, (text, value) in top.items()
    }
    return {"outputs": [{"text": "B", "logprobs": [position]}]}


def vllm_prompt():
    (position,) = vllm()["outputs"][0]["logprobs"]
    return {
        "choices": [{"text": "", "logprobs": None}],
        "prompt_logprobs": [
            None,
            {"7": {"logprob": -1, "decoded_token": "Q"}},
            position,
        ],
    }


@pytest.mark.parametrize(
    "response",
    [chat(), chat(wrap=False), legacy(), vllm(), vllm_prompt()],
    ids=["batch", "chat", "completions", "vllm", "prompt"],
)
def test_forms(write, take, response):
    report, (row,) = take(write("out.jsonl", [ROW | response]))
    a = math.log(math.exp(-1.5) + math.exp(-3.0))
    assert row["logprobs"] == pytest.approx([a, -0.6, -2.5])
    mass = math.exp(a) + math.exp(-0.6) + math.exp(-2.5)
    assert row["option_mass"] == pytest.approx(mass)
    assert (row["answer"], row["gold"], row["path"]) == (1, 1, "logit")
    assert row["distribution"] == "tokens"
    assert report.format.startswith("logprobs")
    assert report.finding("letters absent") is None
    assert not any("no distribution" in text for text in report.cannot)


def test_letter_later_in_the_text(write, take):
    tokens = [
        ("The", {"The": -0.1}),
        (" answer", {" answer": -0.1}),
        (" is", {}),
        (" (", {" (": -0.1}),
        ("B", TOP),
        (")", {")": -0.1}),
    ]
    tokens[2] = (" is", {" is": -0.2})
    _, (row,) = take(write("o.jsonl", [ROW | chat("The answer is (B)", tokens)]))
    assert row["answer"] == 1
    assert row["logprobs"][1] == pytest.approx(-0.6)


def test_absent_letters_are_said(write, take):
    file = write("o.jsonl", [ROW | chat(tokens=[("B", {"B": -0.1, "A": -3.0})])])
    report, (row,) = take(file)
    assert row["logprobs"][2] is None
    found = report.finding("letters absent")
    rest = 1 - math.exp(-0.1) - math.exp(-3.0)
    assert found.examples == (f"q1: C <= {rest:.2g}",)
    with pytest.raises(DatasetError, match="letters C are not among the 2 tokens"):
        take(file, strict=True)


def test_no_letter_at_all(write, take):
    file = write("o.jsonl", [ROW | chat("x", [("x", {"x": -0.1, "they": -2.0})])])
    report, (row,) = take(file)
    assert (row["logprobs"], row["answer"], row["path"]) == (None, 0, "generate")
    assert report.finding("no letter among the tokens").n == 1


def test_text_against_the_maximum(write, take):
    tokens = [("A", {"A": -1.2, "B": -0.6, "C": -3.0})]
    report, (row,) = take(write("o.jsonl", [ROW | chat("A", tokens)]))
    # A sampled letter stays the answer, with the distribution it was drawn from.
    assert (row["answer"], row["text"], row["path"]) == (0, "A", "generate")
    assert row["logprobs"][1] == -0.6
    assert report.finding("answer is not the maximum").n == 1


def test_repeated_options_share_their_mass(write, take):
    row = ROW | {"options": ["x", "y", "x"], "gold": "x"}
    tokens = [("B", {"A": math.log(0.3), "B": math.log(0.4), "C": math.log(0.3)})]
    _, (made,) = take(write("o.jsonl", [row | chat("B", tokens)]))
    assert np.exp(made["logprobs"][:2]) == pytest.approx([0.6, 0.4])
    assert made["logprobs"][2] is None
    assert made["answer"] == made["gold"] == 0


def test_options_of_the_prompt_or_a_question_file(write, take):
    row = {
        "id": "q1",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "video"},
                    {"type": "text", "text": "Q?\nA. x\nB. y\nC. z\nAnswer."},
                ],
            }
        ],
    }
    _, (made,) = take(write("o.jsonl", [row | chat(wrap=False)]))
    assert made["n_options"] == 3
    questions = write(
        "q.json",
        [{"id": "q1", "question": "Q?", "options": ["x", "y", "z"], "gold": 1}],
    )
    _, (made,) = take(
        write("o.jsonl", [{"id": "q1"} | chat(wrap=False)]), questions=questions
    )
    assert (made["n_options"], made["gold"]) == (3, 1)


def test_a_failed_request_is_a_missing_answer(write, take):
    rows = [
        ROW | chat(),
        ROW
        | {
            "custom_id": "q2",
            "response": {"body": {}},
            "error": {"message": "too long"},
        },
    ]
    _, made = take(write("o.jsonl", rows))
    assert made[1]["outcome"] == "missing"
    assert made[1]["error"] == "too long"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            ROW | chat(tokens=[("B", {"B": 0.7, "A": 1.2, "C": 0.1})]),
            r"line 1: the log-probability of token '.' is [\d.]+; it must be <= 0",
        ),
        ({"choices": []}, "has none of custom_id"),
        (ROW, "has no response"),
    ],
)
def test_bad_rows(write, take, row, message):
    with pytest.raises(DatasetError, match=message):
        take(write("o.jsonl", [row]), format="logprobs")


def test_variants():
    found = letter_scores({"A": -1.0, "\tA": -2.0, "a": -0.1, "AB": -0.1, "C": -1.5}, 2)
    assert found.variants == ("A", "\tA")
    assert found.absent == "B"
    assert found.logprobs[1] == -math.inf
    assert letter_scores({"C": -1.0}, 2) is None


class TestTheBoundOfAnAbsentLetter:
    def bound(self, tokens, chosen=None, n=2):
        return letter_scores(tokens, n, chosen=chosen).bound

    def test_is_of_both_its_spellings(self):
        """One of " B" and "B" alone would be 0.02, and B can have 0.04."""
        tokens = {"A": math.log(0.8), "x": math.log(0.02)}
        assert self.bound(tokens) == pytest.approx(0.04)

    def test_is_of_as_many_as_another_letter_has(self):
        given = {"A": 0.5, " A": 0.1, "\nA": 0.05, "x": 0.01}
        tokens = {name: math.log(p) for name, p in given.items()}
        assert self.bound(tokens) == pytest.approx(0.03)

    def test_is_no_more_than_what_is_left(self):
        tokens = {"A": math.log(0.9), "x": math.log(0.09)}
        assert self.bound(tokens) == pytest.approx(0.01)
        assert self.bound({"A": -1e-9}) == 2.0**-23

    def test_is_not_that_of_a_token_that_was_drawn(self):
        """The server gives the token that it drew beside the most likely ones."""
        tokens = {"A": math.log(0.6), "x": math.log(0.1), "A.": math.log(1e-6)}
        assert self.bound(tokens, "A.") == pytest.approx(0.2)
        assert self.bound(tokens, "A") == pytest.approx(2e-6)
        assert self.bound({"A": math.log(0.6)}, "A") == pytest.approx(0.4)

    def test_comes_from_the_token_at_the_answer(self, write, take):
        tokens = [("A", {"A": math.log(0.05), "B": math.log(0.6), "x": math.log(0.1)})]
        report, _ = take(write("o.jsonl", [ROW | chat("A", tokens)]))
        assert report.finding("letters absent").examples == ("q1: C <= 0.2",)

    @given(st.lists(st.floats(0.01, 1), min_size=5, max_size=9), st.integers(1, 8))
    def test_holds_for_every_distribution(self, weights, k):
        """The most likely k of all tokens are given, whichever they are."""
        names = ["A", " A", "B", " B", "x", "y", "z", "u", "v"][: len(weights)]
        total = sum(weights) / (1 - 1e-9)
        odds = {n: w / total for n, w in zip(names, weights, strict=True)}
        top = sorted(odds, key=odds.get, reverse=True)[:k]
        found = letter_scores({name: math.log(odds[name]) for name in top}, 2)
        if found is not None and found.absent:
            letter = found.absent
            truth = odds.get(letter, 0.0) + odds.get(f" {letter}", 0.0)
            assert found.bound >= truth * (1 - 1e-9)


@given(
    st.dictionaries(
        st.sampled_from(["A", " A", "▁A", "B", "ĠB", "x", "C"]),
        st.floats(-50, -1e-3),
        min_size=1,
    )
)
def test_mass_is_the_sum(tokens):
    letters = {t: v for t, v in tokens.items() if t.strip(" ▁Ġ") in "ABC"}
    total = sum(math.exp(v) for v in letters.values())
    if total > 1.001:
        with pytest.raises(DatasetError, match="natural logarithms"):
            letter_scores(tokens, 3)
        return
    found = letter_scores(tokens, 3)
    if not letters:
        assert found is None
        return
    assert found.option_mass == pytest.approx(min(total, 1))
    assert sum(map(math.exp, found.logprobs)) == pytest.approx(total)
    assert set(found.variants) == set(letters)


OTHER = {"A": -0.2, "B": -2.0, "C": -3.0}


@pytest.mark.parametrize(
    ("tokens", "wanted"),
    [
        # The letter in the thinking is not the answer's.
        ([("<think>", {}), ("A", OTHER), (" no", {}), ("</think>", {}), ("A", TOP)], 4),
        ([("A", OTHER), (" man", {}), (".", {}), (" Answer:", {}), (" A", TOP)], 4),
        ([("I", {}), (" see", {}), (" A", OTHER), ("; so: (", {}), ("A", TOP)], 4),
        ([("A", TOP), (".", {}), (" The answer is ", {}), ("A", OTHER)], 0),
        ([("**", {}), ("A", TOP), ("**", {}), ("<|im_end|>", {})], 1),
        ([("▁The", {}), ("▁answer", {}), ("▁is", {}), ("▁A", TOP), (".", {})], 3),
    ],
)
def test_the_token_that_decides(tokens, wanted):
    text = "".join(token for token, _ in tokens).replace("▁", " ")
    assert answer_position(text, tokens, ["x", "y", "z"]) == wanted
    shown = text.partition("</think>")[2] or text.replace("<|im_end|>", "")
    assert answer_position(shown, tokens, ["x", "y", "z"]) == wanted


def test_an_article_in_the_text_of_an_option(write, take):
    row = ROW | {"options": ["a man", "a dog"], "gold": "B"}
    tokens = [("A", {"A": -0.9, "B": -0.6}), (" man", {" man": -0.1})]
    report, (made,) = take(write("o.jsonl", [row | chat("A man", tokens)]))
    assert (made["answer"], made["logprobs"]) == (0, None)
    assert report.finding("no letter among the tokens").n == 1


def test_thinking_is_no_answer(write, take):
    content = [("<think>", {"<think>": -0.1}), ("A", OTHER), ("</think>", {"x": -0.1})]
    content.append(("B", TOP))
    text = "<think>A</think>B"
    _, (made,) = take(write("o.jsonl", [ROW | chat(text, content)]))
    assert (made["answer"], made["logprobs"][1]) == (1, -0.6)


@pytest.mark.parametrize("name", ["choices", "outputs"])
def test_every_choice_is_a_repeat(write, take, name):
    said = [chat(text, [(text, TOP)], wrap=False)["choices"][0] for text in "BAB"]
    body = {name: [one | {"index": 2 - i} for i, one in enumerate(said)]}
    body[name][0]["message"] = {"content": "C"}
    report, rows = take(write("o.jsonl", [ROW | body]))
    assert [arm.name for arm in report.arms] == ["repeat 1", "repeat 2", "repeat 3"]
    assert [row["text"] for row in rows] == ["B", "A", "C"]
