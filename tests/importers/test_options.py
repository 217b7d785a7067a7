"""Option texts: letters off once, nothing lost, gold in every form, orders undone."""

import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasefusion._sources import options, questions, rows, shapes
from phasefusion.errors import OptionError, RecordError, UsageError
from phasefusion.importers import (
    accuracy_by,
    analysis,
    group_flips,
    logprobs,
    most_probable,
    n_distinct_orders,
    order_of,
    resolve_gold,
    split_embedded,
    tables,
)
from phasefusion.scoring.letters import strip_letters

LINE = (
    st.text(st.characters(blacklist_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1)
    .map(str.strip)
    .filter(bool)
)


@pytest.mark.parametrize(
    "module", [options, rows, questions, shapes, logprobs, analysis, tables]
)
def test_examples(module):
    failed, attempted = doctest.testmod(module)
    assert (failed, attempted > 0) == (0, True)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["A. 1.", "B. 4."], ("1.", "4.")),
        (["A. C. Berries.", "B. x"], ("C. Berries.", "x")),
        (["(A) x", "(B) y"], ("x", "y")),
        (["a) x", "b) y"], ("x", "y")),
        (["A、x", "B、y"], ("x", "y")),
        (["A.", "B. y"], ("", "y")),
        (["A man", "B flat"], ("A man", "B flat")),
        (["B. x", "A. y"], ("B. x", "A. y")),
        (["A. x", "y"], ("A. x", "y")),
    ],
)
def test_strip_letters(given, wanted):
    assert strip_letters(given)[0] == wanted


@given(st.lists(LINE, min_size=2, max_size=6))
def test_one_letter_is_one_letter(texts):
    lettered = [f"{chr(65 + k)}. {text}" for k, text in enumerate(texts)]
    assert strip_letters(lettered) == (tuple(texts), True)


@given(LINE, st.lists(LINE, min_size=2, max_size=6))
def test_splitting_loses_nothing(stem, texts):
    text = "\n".join([stem, *(f"{chr(65 + k)}. {t}" for k, t in enumerate(texts))])
    question, found = split_embedded(text)
    # A text may itself look like the first label of a shorter list.
    if found == tuple(texts):
        assert question == stem
    else:
        assert any(options._LINE.fullmatch(t) for t in (stem, *texts))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Q?\nA. x: y. z.\nB. w", ("x: y. z.", "w")),
        ("Q?\nOption 1: x\nOption 2: y", ("x", "y")),
        ("Q?\nSentence A: x\nSentence B: y", ("x", "y")),
        ("Q?\n(A) x\n(B) y\nAnswer with the letter.", ("x", "y")),
        ("A. no\nB. list\nQ?\nA. x\nB. y", ("x", "y")),
        ("Q?\nA. x\nmore of x\nB. y", ("x\nmore of x", "y")),
        ("Q?\nA. x\nC. y", ()),
        ("Q? A. x B. y", ()),
        ("", ()),
    ],
)
def test_split(text, wanted):
    assert split_embedded(text)[1] == wanted


TEXTS = ["a cat", "a dog", "a dog", "3"]


@pytest.mark.parametrize(
    ("gold", "kind", "indices"),
    [
        (0, "auto", (0,)),
        (1, "auto", (1, 2)),
        ("B", "auto", (1, 2)),
        ("(a)", "auto", (0,)),
        ("A.", "letter", (0,)),
        ("a cat", "auto", (0,)),
        ("a dog", "text", (1, 2)),
        ("D. 3", "auto", (3,)),
        ("A: A CAT.", "auto", (0,)),
        ("Option 1: a cat", "auto", (0,)),
        ("2", "auto", (1, 2)),
        ("0", "index", (0,)),
        ("3", "index", (3,)),
        (2.0, "auto", (1, 2)),
    ],
)
def test_gold(gold, kind, indices):
    found = resolve_gold(gold, TEXTS, 4, kind)
    assert (found.indices, found.kind) == (indices, "")


@pytest.mark.parametrize(
    ("gold", "kind", "problem"),
    [
        (None, "auto", "gold missing"),
        (math.nan, "auto", "gold missing"),
        (" ", "auto", "gold missing"),
        (4, "auto", "gold not an option"),
        (-1, "auto", "gold not an option"),
        (1.5, "auto", "gold not an option"),
        ("E", "auto", "gold not an option"),
        ("a bat", "auto", "gold not an option"),
        ("A", "text", "gold not an option"),
        ("B. a cat", "auto", "gold contradicts itself"),
        ([1], "auto", "gold not an option"),
        ({}, "text", "gold not an option"),
        (10**400, "auto", "gold not an option"),
    ],
)
def test_no_gold(gold, kind, problem):
    found = resolve_gold(gold, TEXTS, 4, kind)
    assert (found.indices, found.kind) == ((), problem)
    assert found.reason


def test_index_that_is_the_text_of_another_option():
    assert resolve_gold("1", ["1", "0"], 2).kind == "gold ambiguous"
    assert resolve_gold("1", ["0", "1"], 2).indices == (1,)


@given(st.permutations(["w", "x", "y", "z"]))
def test_orders_are_undone(shown):
    content = ["w", "x", "y", "z"]
    assert [content[k] for k in order_of(shown, content)] == list(shown)


@given(st.permutations(["x", "x", "y", "z", "z"]))
def test_orders_of_equal_texts_are_permutations(shown):
    content = ["x", "y", "x", "z", "z"]
    order = order_of(shown, content)
    assert sorted(order) == list(range(5))
    assert [content[k] for k in order] == list(shown)


def test_other_options_have_no_order():
    with pytest.raises(OptionError, match="'q' is new"):
        order_of(["x", "q"], ["x", "y"])


def test_distinct_orders():
    assert n_distinct_orders(["a", "b", "c", "d"]) == 24
    assert n_distinct_orders(["a", "b", "b", "a"]) == 6


def test_analysis_refuses_what_is_not_there():
    row = {"arm": "a", "answer": 0, "gold": 0, "group": "g", "choice": "x"}
    row |= {"benchmark": "b", "question_id": "q"}
    with pytest.raises(RecordError, match="no pass has 'duration'"):
        accuracy_by([row], "duration")
    with pytest.raises(RecordError, match="several runs"):
        group_flips([row, row | {"arm": "b"}])
    with pytest.raises(UsageError, match="ties must be"):
        most_probable({"logprobs": [-1.0, -2.0]}, ties="last")
    assert group_flips([row]).groups == 0
    assert math.isnan(group_flips([row]).rate)
    assert "no effect of the order alone" in str(group_flips([row]))


def test_groups_are_of_questions():
    def rows(*said):
        names = ("benchmark", "question_id", "choice")
        return [
            {"arm": "a", "group": "g", **dict(zip(names, one, strict=True))}
            for one in said
        ]

    # The second pass of a question, in another order, is no other question.
    found = group_flips(rows(("b", "p", "x"), ("b", "p", "y"), ("b", "q", "x")))
    assert (found.flips, found.groups, found.n_left_out) == (0, 1, 0)
    found = group_flips(rows(("b", "p", "x"), ("b", "p", "y")))
    assert (found.flips, found.groups, found.n_left_out) == (0, 0, 1)
    # A group of another benchmark is another group.
    found = group_flips(rows(("b", "p", "x"), ("c", "q", "y")))
    assert (found.flips, found.groups, found.n_left_out) == (0, 0, 2)
