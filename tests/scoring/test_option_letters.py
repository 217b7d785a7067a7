"""Options as letters: cleaning, merging, prompts, and which token a letter is."""

from __future__ import annotations

import numpy as np
import pytest

from phasefusion.errors import OptionError, OptionWarning, ScoringError
from phasefusion.scoring.letters import (
    LETTERS,
    PromptTemplate,
    clean_options,
    letter_tokens,
    merge_repeats,
    strip_letters,
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["A. foo", "B. bar"], ("foo", "bar")),
        (["(A) foo", "(B) bar", "(C) baz"], ("foo", "bar", "baz")),
        (["A) foo", "[B] bar", "C: baz"], ("foo", "bar", "baz")),
        (["a. foo", "b. bar"], ("foo", "bar")),
        (["A.foo", "  B.  bar  "], ("foo", "bar")),
        (["A. A man", "B. A dog"], ("A man", "A dog")),
        (["A. ", "B. x"], ("", "x")),  # an empty option, as everywhere
    ],
)
def test_letters_are_taken_off(given, expected):
    assert strip_letters(given) == (expected, True)


@pytest.mark.parametrize(
    "given",
    [
        ["A man walks", "B flat"],  # no delimiter
        ["A. foo", "bar"],  # not all
        ["A. foo", "C. bar"],  # not consecutive
        ["B. foo", "C. bar"],  # does not begin at A
        ["A. foo", "b. bar"],  # two cases
        ["(A. foo", "(B. bar"],  # open bracket
        ["A. ", "B. "],  # nothing left
        ["1. foo", "2. bar"],
        ["A", "B"],
    ],
)
def test_anything_less_is_left_alone(given):
    assert strip_letters(given) == (tuple(text.strip() for text in given), False)


def test_taken_off_letters_are_noted_and_kept_out_of_content():
    clean = clean_options(["A. red", "B. blue", "C. red hat"])
    assert clean.texts == ("red", "blue", "red hat")
    assert clean.first == (0, 1, 2)
    assert "taken off" in clean.notes[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], r"0 option\(s\).*at least 2"),
        (["one"], r"1 option\(s\).*at least 2"),
        (["x"] * 27, "27 options.*at most 26"),
        (["red", "  ", "blue"], "option 1 of 3 is empty"),
        (["red", None], "option 1 is None"),
        ("red", "'red'.*sequence"),
        (["red", " red "], "all 2 options say 'red'"),
        (["A. ", "B. x"], "option 0 of 2 is a letter alone: 'A. '"),
    ],
)
def test_options_that_cannot_be_scored(options, message):
    with pytest.raises(OptionError, match=message):
        clean_options(options)


def test_twenty_six_options_are_served():
    assert len(clean_options([f"o{k}" for k in range(26)]).texts) == 26


def test_repeated_contents_are_found_up_to_white_space():
    with pytest.warns(OptionWarning, match="option 2 repeats option 0"):
        clean = clean_options(["red  hat", "blue", "red hat", "Red hat"])
    assert clean.first == (0, 1, 0, 3)
    assert clean.distinct == (0, 1, 3)
    assert "option 2 repeats option 0: merged" in clean.notes


def test_repeats_are_added_onto_the_first():
    probability = np.array([[0.1, 0.2, 0.3, 0.05], [0.4, 0.1, 0.1, 0.2]])
    merged = merge_repeats(np.log(probability), (0, 1, 0, 1))
    np.testing.assert_allclose(
        np.exp(merged), [[0.4, 0.25, 0, 0], [0.5, 0.3, 0, 0]], rtol=1e-14
    )
    kept = merge_repeats(np.log(probability), (0, 1, 0, 1), add=False)
    np.testing.assert_allclose(np.exp(kept[0]), [0.1, 0.2, 0, 0], rtol=1e-14)


def test_invalid_rows_stay_invalid_when_merged():
    logp = np.log([[0.1, 0.2, 0.3], [0.1, 0.2, 0.3]])
    logp[0, 2] = np.nan
    merged = merge_repeats(logp, (0, 1, 0))
    assert np.isnan(merged[0]).all()
    assert np.isfinite(merged[1, :2]).all()


def test_default_prompt_is_the_documented_text():
    assert PromptTemplate().render("What is it?", ["a cat", "a dog", "a cow"]) == (
        "What is it?\nA. a cat\nB. a dog\nC. a cow\n"
        "Answer with the option's letter from the given choices directly."
    )


def test_braces_in_the_question_are_not_fields():
    text = PromptTemplate().render("{options} or {question}?", ["{letter}", "{x}"])
    assert text.startswith("{options} or {question}?\nA. {letter}\nB. {x}\n")


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "{options}"},
        {"text": "{question}{question}"},
        {"text": "{question}{options}{options}"},
        {"option": "{letter}"},
    ],
)
def test_incomplete_templates_are_refused(fields):
    with pytest.raises(ScoringError, match="must hold"):
        PromptTemplate(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"text": "{question} {options} {otpions}"},
            r"holds \{otpions\}, .*\{options\}",
        ),
        ({"text": "{question} {options} {letter}"}, r"holds \{letter\}"),
        ({"option": "{letter}. {option} {question}"}, r"holds \{question\}"),
        ({"option": "{leter}. {option}"}, r"holds \{leter\}.*write \{\{leter\}\}"),
        ({"text": "{{question}} {options}"}, "must hold"),
        ({"system": "About {question}"}, "nothing is filled in there"),
    ],
)
def test_fields_that_would_be_shown_as_they_stand_are_refused(fields, message):
    with pytest.raises(ScoringError, match=message):
        PromptTemplate(**fields)


def test_braces_that_are_meant_are_shown():
    template = PromptTemplate('{question} {} {"a": 1} {{A}}', system="Say {A}.")
    assert template.render("Why?", []) == 'Why? {} {"a": 1} {A}'
    assert not template.lists_options


def characters(text):
    """A tokenizer of one token a character."""
    return [ord(c) for c in text]


def pairs(*glued):
    """A tokenizer of one token a character, with some pairs glued into one."""

    def encode(text):
        ids, i = [], 0
        while i < len(text):
            if text[i : i + 2] in glued:
                ids.append(1000 + glued.index(text[i : i + 2]))
                i += 2
            else:
                ids.append(ord(text[i]))
                i += 1
        return ids

    return encode


def test_plain_letters_are_one_token():
    found = letter_tokens(characters, "answer:\n", 3)
    assert found.letters == "ABC"
    assert found.ids == ((65, 66, 67),)
    assert found.variants == ("L",)


def test_both_ids_of_a_letter_are_found():
    encode = pairs(" A", " B")
    both = letter_tokens(encode, "answer:\n", 2)
    assert both.ids == ((65, 66), (1000, 1001))
    assert both.variants == ("L", " L")
    assert both.to_dict() == {"L": {"A": 65, "B": 66}, " L": {"A": 1000, "B": 1001}}
    alone = letter_tokens(encode, "answer:\n", 2, variants="in-context")
    assert alone.ids == ((65, 66),)


def test_one_id_for_both_is_counted_once():
    def encode(text):
        return characters(text.replace(" ", ""))

    assert letter_tokens(encode, "answer:\n", 2).ids == ((65, 66),)


def test_a_variant_must_serve_every_letter():
    assert letter_tokens(pairs(" A"), "answer:\n", 2).ids == ((65, 66),)


def test_the_id_is_the_one_in_context():
    # After "(", this tokenizer has a token of its own for the letter and bracket, so
    # the id found without context would be another one.
    def encode(text):
        ids = characters(text)
        return [i + 5000 if i in (65, 66) and k else i for k, i in enumerate(ids)]

    assert letter_tokens(encode, "say", 2).ids == ((5065, 5066),)


def test_letters_of_several_tokens_are_refused_by_name():
    def encode(text):
        return [i for c in text for i in ([1, 2] if c == "C" else [ord(c)])]

    with pytest.raises(
        ScoringError, match=r"'C' after the prompt is 2 tokens \[1, 2\]"
    ):
        letter_tokens(encode, "answer:\n", 4)
    assert letter_tokens(encode, "answer:\n", 2).ids == ((65, 66),)


def test_a_prompt_that_the_letter_changes_is_refused():
    with pytest.raises(ScoringError, match="'A' changes the last tokens"):
        letter_tokens(pairs(" A", " B"), "answer: ", 2, variants="in-context")


def test_letters_that_share_an_id_are_refused():
    def encode(text):
        return [0 if c in LETTERS else ord(c) for c in text]

    with pytest.raises(ScoringError, match="share a token id"):
        letter_tokens(encode, "q:\n", 3)


def test_real_tokenizers(build):
    plain, spaced = build.tokenizer(), build.tokenizer(merges=build.spaced_letters())

    def encoder(tokenizer):
        return lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]

    context = "<|im_end|>\n<|im_start|>assistant\n"
    ids = plain.convert_tokens_to_ids(list("ABCD"))
    assert letter_tokens(encoder(plain), context, 4).ids == (tuple(ids),)
    found = letter_tokens(encoder(spaced), context, 4)
    assert found.ids[0] == tuple(spaced.convert_tokens_to_ids(list("ABCD")))
    assert found.ids[1] == tuple(
        spaced.convert_tokens_to_ids([f"Ġ{c}" for c in "ABCD"])
    )
    # A tokenizer that glues the line end to the letter leaves no place to read it.
    glued = build.tokenizer(merges=[("Ċ", c) for c in "ABCD"])
    with pytest.raises(ScoringError, match="changes the last tokens of the prompt"):
        letter_tokens(encoder(glued), context, 4)
