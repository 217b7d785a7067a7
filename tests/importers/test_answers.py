"""The answer extractor: what is an answer, and what is never one."""

import doctest
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasefusion import answers
from phasefusion.answers import LETTERS, OUTCOMES, normal, parse_answer
from phasefusion.errors import OptionError

OPTIONS = ("a pretty girl", "a man", "a dog runs", "dunking a basketball")


@pytest.mark.parametrize(
    ("text", "position"),
    [
        # a letter alone
        ("B", 1),
        ("b", 1),
        ("B.", 1),
        ("(b)", 1),
        ("[B]", 1),
        ("B)", 1),
        ("(B", 1),
        ("**B**", 1),
        ('"B"', 1),
        ("Ｂ", 1),
        (" B\n", 1),
        ("B<|im_end|>", 1),
        ("Option A", 0),
        ("Option 2", 1),
        ("option 3: whatever", 2),
        # a letter and its text
        ("B. a man", 1),
        ("B) a man", 1),
        ("B: a man", 1),
        ("B - a man", 1),
        ("(B) A man.", 1),
        ("D dunking a basketball", 3),
        ("D. dunking a bask", 3),
        ("C. A dog runs across the lawn.", 2),
        ("Sentence A: a pretty girl", 0),
        # a text alone
        ("a man", 1),
        ("A man.", 1),
        ("A pretty girl", 0),
        ("A dog runs", 2),
        ("The answer is a man.", 1),
        ("It is a dog runs", 2),
        ("dunking a basketball\n\nHe jumps first.", 3),
        # statements
        ("Answer: B", 1),
        ("The correct answer is (B)", 1),
        ("The correct choice is option (c).", 2),
        ("the answer is b.", 1),
        ("The answer is: **D. dunking a basketball**", 3),
        ("Based on the video, the answer is C.", 2),
        ("I would choose A", 0),
        ("Option B is correct. Option A is wrong.", 1),
        ("A man walks by, so the answer is C", 2),
        ("D because A, B and C are wrong", 3),
        ("It is not A. It is B", 1),
        ("It is A", 0),
        ("The best option is B, not C", 1),
        ("The answer is A because he waves", 0),
        ("B\n\nOption A shows another scene.", 1),
        ("D. he jumps\nA is not shown. The answer is D", 3),
        ("答案是B", 1),
        ("选 C。", 2),
        # formats that were asked for
        ("\\boxed{B}", 1),
        ("So \\boxed{\\text{C}}.", 2),
        ("<answer>C</answer>", 2),
        ("<answer>(D) dunking a basketball</answer>", 3),
        ("A shows it, or C. Final answer: B", 1),
        # thinking is no answer
        ("<think>maybe A or C</think>B", 1),
        ("B <think>perhaps A</think>", 1),
        ("<think>A<think>C</think>B", 1),
        ("it could be A</think>\n\nThe answer is D.", 3),
        # what follows the answer and is none
        ("B. a man\n\nWhat is next?\nA. a cat\nB. a bird", 1),
    ],
)
def test_parsed(text, position):
    found = parse_answer(text, OPTIONS)
    assert (found.outcome, found.answer) == ("parsed", position)
    assert found.rule
    assert not found.reason


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (None, "missing"),
        (float("nan"), "missing"),
        ("", "missing"),
        ("  \n", "missing"),
        ("nan", "missing"),
        ("<|im_end|>", "missing"),
        ("Failed to obtain answer via API.", "missing"),
        ("<think>A</think>", "missing"),
        ("E", "invalid"),
        ("Z", "invalid"),
        ("The answer is E.", "invalid"),
        ("<answer>F</answer>", "invalid"),
        ("Option 7", "invalid"),
        ("I cannot determine the answer.", "refused"),
        ("Cannot determine.", "refused"),
        ("I'm sorry, but I can't help with that.", "refused"),
        ("There is not enough information.", "refused"),
        ("I cannot choose between A and B.", "refused"),
        # words that begin like letters
        ("Based on", "unparsed"),
        ("It is a dog", "unparsed"),
        ("a circle", "unparsed"),
        ("A woman", "unparsed"),
        ("Answer: A woman", "unparsed"),
        ("He drinks vitamin C.", "unparsed"),
        ("C-section", "unparsed"),
        ("I. think", "unparsed"),
        ("it is a", "unparsed"),
        # more than one
        ("A and B", "unparsed"),
        ("A or B", "unparsed"),
        ("A\nB", "unparsed"),
        ("The answer is A or B", "unparsed"),
        ("The answer is B. The answer is C.", "unparsed"),
        ("neither A nor B", "unparsed"),
        ("Neither A nor B is correct.", "unparsed"),
        ("<answer>A</answer> no, <answer>B</answer>", "unparsed"),
        ("A. a pretty girl\nB. a man\nC. a dog runs", "unparsed"),
        ("A. I think it's (C)", "unparsed"),
        # no option
        ("The answer is not B", "unparsed"),
        ("dunking a basketball. He jumps.", "unparsed"),
        ("He is dunking a basketball", "unparsed"),
        # the letter of one and the text of another
        ("A. a man", "unparsed"),
        ("B. A pretty girl", "unparsed"),
        # not finished
        ("<think>A because", "unparsed"),
    ],
)
def test_no_answer(text, outcome):
    found = parse_answer(text, OPTIONS)
    assert (found.answer, found.outcome) == (None, outcome)
    assert found.reason


ANIMALS = ("a red cat", "a blue dog", "a green bird", "None of the above")


@pytest.mark.parametrize(
    ("text", "position"),
    [
        # fields of objects
        ('{"answer": "B"}', 1),
        ("{'answer': 'b'}", 1),
        ('```json\n{"answer": "B"}\n```', 1),
        ('{"reasoning": "A moves, C does not", "answer": "B"}', 1),
        ('{"answer": "B", "reasoning": "the others are', 1),
        ('{"final_answer": "B. a blue dog"}', 1),
        ('{"Answer": "a blue dog"}', 1),
        ('{"choice": B}', 1),
        ('Here it is: {"answer": "(B)", "confidence": 0.9}', 1),
        ('I fill {"answer": "<letter>"} in: {"answer": "B"}', 1),
        ('As {"answer": "A or B"} was asked for, the answer is (C).', 2),
        # lower-case letters that are called an option
        ("option b", 1),
        ("I think option b", 1),
        ("I choose option b because it fits", 1),
        ("I would go with option b as the dog is blue", 1),
        ("choice c is right", 2),
        ("option a is correct", 0),
        ("I choose option a.", 0),
        ("The answer is option a, since it moves", 0),
        ("the answer is b because of the dog", 1),
        # one set against others
        ("not B but C", 2),
        ("Not B but C.", 2),
        ("It is not (B) but (C).", 2),
        ("not option B, but rather option C", 2),
        ("not A or B but C", 2),
        ("neither A nor B but C", 2),
        ("not B but C because it is green", 2),
        ("not b but c", 2),
        ("C, not B", 2),
        ("C, not A or B.", 2),
        ("It is C and not B", 2),
        ("C rather than B", 2),
        # an option and a reason
        ("None of the above", 3),
        ("None of the above, because nothing moves.", 3),
        ("None of the above. The video shows a horse.", 3),
        ("None of the above - the cat is gone", 3),
        ("None of the above: A shows a cat and B a dog.", 3),
        ("None of the above options, since nothing moves", 3),
        ("None of the above\nThe cat is absent.", 3),
        ("None of the above is correct", 3),
        ("D. None of the above, because nothing moves.", 3),
        ("a blue dog because it barks", 1),
        ("A blue dog, since it barks at a red cat", 1),
    ],
)
def test_further_forms(text, position):
    found = parse_answer(text, ANIMALS)
    assert (found.outcome, found.answer) == ("parsed", position), found


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ('{"answer": "E"}', "invalid"),
        ('{"answer": ""}', "unparsed"),
        ('{"answer": null}', "unparsed"),
        ('{"answer": 1}', "unparsed"),
        ('{"answer": ["A", "B"]}', "unparsed"),
        ('{"answer": "A or B"}', "unparsed"),
        ('{"answer": "A"} or {"answer": "B"}', "unparsed"),
        ('{"answer": "A", "choice": "B"}', "unparsed"),
        ('{"A": 0.1, "B": 0.9}', "unparsed"),
        ('{"question": "B", "options": ["A", "B"]}', "unparsed"),
        ('{"answer": "A man"}', "unparsed"),
        ("option a cat", "unparsed"),
        ("the option a person picks", "unparsed"),
        ("options b", "unparsed"),
        ("opt b", "unparsed"),
        ("option b or option c", "unparsed"),
        ("I choose option b or c.", "unparsed"),
        ("the option a man picks is option b", "unparsed"),
        ("option b is wrong", "unparsed"),
        ("not option b", "unparsed"),
        ("I answer a question", "unparsed"),
        ("option f", "invalid"),
        ("the answer is a and b", "unparsed"),
        ("not B", "unparsed"),
        ("not B but not C", "unparsed"),
        ("not only B but C", "unparsed"),
        ("not only B but also C", "unparsed"),
        ("not because of B but C", "unparsed"),
        ("why not B but C", "unparsed"),
        ("not B but C or D", "unparsed"),
        ("not B but A dog", "unparsed"),
        ("not B but B", "unparsed"),
        ("not a but b", "unparsed"),
        ("not a dog but a cat", "unparsed"),
        ("not B but Z", "invalid"),
        ("None of the above is shown; the answer is A", "unparsed"),
        ("None of the above, so the answer is B", "unparsed"),
        ("None of the above but B", "unparsed"),
        ("None of the above except a blue dog", "unparsed"),
        ("None of the above-mentioned dogs bark, I think", "unparsed"),
        ("None of the cats move", "unparsed"),
        ("None. It is dark.", "unparsed"),
        ("a blue dog. The red cat left.", "unparsed"),
        ("a blue dog and a red cat", "unparsed"),
        ("a blue dogma because of that", "unparsed"),
        ("a blue dog because the answer is C", "unparsed"),
        ("None", "missing"),
        ("none.", "missing"),
        ("N/A", "missing"),
    ],
)
def test_near_misses(text, outcome):
    found = parse_answer(text, ANIMALS)
    assert found.outcome == outcome, found


def test_reasons_need_the_option():
    text = "None of the above, because nothing moves."
    assert parse_answer(text, ANIMALS[:3]).outcome == "unparsed"
    assert parse_answer(text, 4).outcome == "unparsed"
    assert parse_answer("none", ["none", "one"]).answer == 0
    longer = ("a dog", "a dog because it barks")
    assert parse_answer("a dog because it barks", longer).answer == 1
    assert parse_answer("a dog because it eats", longer).answer == 0
    assert parse_answer("A because it barks", ["b", "a"]).answer == 0


def test_options_that_look_like_answers():
    # The text of an option against the letter of another: nobody can tell.
    assert parse_answer("A", ["B", "A"]).outcome == "unparsed"
    assert parse_answer("A", ["A", "B"]).answer == 0
    assert parse_answer("2", ["1", "2", "3"]).answer == 1
    assert parse_answer("nan", ["nan", "naan"]).answer == 0
    assert (
        parse_answer("A. Lincoln", ["J. Adams", "B. Franklin", "A. Lincoln"]).answer
        is None
    )
    assert parse_answer("C. A. Lincoln", ["J. Adams", "X", "A. Lincoln"]).answer == 2


def test_case_decides_only_where_it_must():
    assert parse_answer("US", ["us", "US"]).answer == 1
    assert parse_answer("Us", ["us", "US"]).answer is None
    assert parse_answer("Red", ["red", "blue"]).answer == 0


def test_equal_options_are_one():
    assert parse_answer("Three", ["Six", "Three", "Three"]).answer == 1


def test_yes_and_no():
    options = ("yes", "no")
    assert parse_answer("Yes, the man is running.", options).answer == 0
    assert parse_answer("No. He walks.", options).answer == 1
    assert parse_answer("Red, blue and green", ["Red", "Blue"]).answer is None


def test_number_of_options_alone():
    assert parse_answer("B. whatever", 2).answer == 1
    assert parse_answer("E", 5).answer == 4
    assert parse_answer("The answer is Z", 26).answer == 25


@pytest.mark.parametrize("options", [0, 27, ()])
def test_bad_number_of_options(options):
    with pytest.raises(OptionError, match="can be lettered"):
        parse_answer("A", options)


def test_text_must_be_text():
    with pytest.raises(OptionError, match="must be a text or None"):
        parse_answer(3, 4)


@pytest.mark.parametrize(
    "unit",
    [
        *("It is not (A) but ", "<think>", "<think", "\\boxed{", "A. x\n", "(", "a "),
        *("not A, ", "not A but ", '{"answer": ', "{ ", "option b ", "``` {"),
        "none of the above ",
    ],
)
def test_long_text_takes_linear_time(unit):
    times_s = []
    for n in (2_000, 20_000):
        start_s = time.process_time()
        assert parse_answer(unit * n, OPTIONS).outcome in OUTCOMES
        times_s.append(time.process_time() - start_s)
    assert times_s[1] < 40 * times_s[0] + 0.5


_WORDS = st.sampled_from(
    "A B C E I a b ( ) [ ] . , : not the answer is option or and because <think> "
    "</think> <answer> </answer> \\boxed{ } ** final dog man \n it's vitamin "
    'but rather none above {"answer": "b" b c since'.split(" ")
)


@given(
    st.one_of(st.text(), st.lists(_WORDS, max_size=12).map(" ".join)),
    st.one_of(
        st.integers(1, 26), st.lists(st.text(max_size=8), min_size=1, max_size=6)
    ),
)
def test_any_text(text, options):
    found = parse_answer(text, options)
    n_options = options if isinstance(options, int) else len(options)
    assert found.outcome in OUTCOMES
    assert (found.answer is not None) == (found.outcome == "parsed")
    if found.answer is not None:
        assert 0 <= found.answer < n_options
    assert found == parse_answer(text, options)


@given(
    st.integers(1, 26),
    st.integers(0, 25),
    st.sampled_from(
        ["{}", "({})", "{}.", "The answer is {}.", "Answer: {}", "**{}**", "option {}"]
    ),
)
def test_every_letter(n_options, place, form):
    found = parse_answer(form.format(LETTERS[place]), n_options)
    if place < n_options:
        assert found.answer == place
    else:
        assert found.outcome == "invalid"


@given(
    st.lists(
        st.text("abcdefgh ", min_size=2), min_size=2, max_size=6, unique_by=(normal)
    ),
    st.data(),
)
def test_own_text_is_found(options, data):
    options = [f"x{option.strip()}y" for option in options]
    if len({normal(option) for option in options}) < len(options):
        return
    k = data.draw(st.integers(0, len(options) - 1))
    assert parse_answer(options[k], options).answer == k
    assert parse_answer(f"{LETTERS[k]}. {options[k]}", options).answer == k
    other = (k + 1) % len(options)
    assert parse_answer(f"{LETTERS[other]}. {options[k]}", options).answer is None


def test_examples():
    failed, attempted = doctest.testmod(answers)
    assert (failed, attempted > 0) == (0, True)
