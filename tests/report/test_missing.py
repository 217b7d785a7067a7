"""What reports do with missing answers, and with questions that have one option."""

import json

import pytest
from compare_runs import answer, write_run
from made_runs import made_run

from phasefusion.compare import compare
from phasefusion.planning import pilot
from phasefusion.report import report
from phasefusion.report.headline import headline
from phasefusion.report.missing import missing_sentence
from phasefusion.report.sections import sections


def table(made, title):
    (part,) = [p for p in sections(made.numbers) if p.title.startswith(title)]
    return part


@pytest.fixture
def imported(tmp_path):
    """Ten questions: five right, one wrong, four without an option named."""
    chosen = [0] * 5 + [1] + [None] * 4
    return write_run(tmp_path, [answer(f"q{i}", k) for i, k in enumerate(chosen)])


def test_a_missing_answer_of_an_imported_run_is_wrong(imported):
    made = report(imported)
    found = made.to_dict()["accuracy"]["single"]
    for kind in ("order_averaged", "first_order", "consensus"):
        assert (found[kind]["value"], found[kind]["n"]) == (0.5, 10)
        assert found["missing_wrong"][kind] == found[kind]
        answered = found["answered"][kind]
        assert (answered["value"], answered["n"]) == (pytest.approx(5 / 6), 6)
    assert made.to_dict()["items"]["missing_answers"] == "wrong"
    text = " ".join(headline(made.numbers))
    assert (
        "single 50.0 % (missing answers count as wrong; answered only: single 83.3 %)"
        in text
    )
    assert "Only" not in text
    part = table(made, "Accuracy")
    assert part.columns[-2:] == ("answered only, %", "of")
    assert part.rows[0][-3:] == ("10", "83.3", "6")
    assert "missing answer counts as wrong" in part.note
    assert table(made, "Not answered (4)").rows[0][0] == "quiz/q6"
    # the imported section, the comparison and the pilot say the same
    assert made.numbers["imported"]["arms"]["single"]["accuracy"]["value"] == 0.5
    assert compare(imported, imported).a.accuracy.value == 0.5
    rate = pilot(imported).rates["accuracy, single"]
    assert (rate.mean.value, rate.n) == (0.5, 10)


def test_a_run_that_does_not_know_its_questions_says_so(imported):
    path = imported / "run.json"
    run = json.loads(path.read_text())
    path.write_text(json.dumps(run | {"questions": {"n": None}}))
    assert headline(report(imported).numbers)[0].startswith(
        "10 of an unknown number of questions, 10 passes"
    )


def test_pairs_of_a_pilot_count_what_is_missing(tmp_path):
    passes = [
        answer(f"q{i}", k, arm=arm)
        for i, pair in enumerate([(0, 0), (0, None), (None, None), (1, 0), (None, 1)])
        for arm, k in zip(("8f", "16f"), pair, strict=True)
    ]
    (pair,) = [
        p for p in pilot(write_run(tmp_path, passes)).pairs if p.of == "accuracy"
    ]
    assert (pair.discordance.n, pair.discordance.mean.value) == (5, 2 / 5)
    assert pair.difference.mean.value == 0.0


def test_questions_that_an_arm_was_not_asked_do_not_count(tmp_path):
    passes = [answer(f"q{i}", 0, arm="8f") for i in range(4)]
    passes += [answer(f"q{i}", None, arm="16f") for i in range(2)]
    made = report(write_run(tmp_path, passes)).numbers["accuracy"]
    assert {arm: found["consensus"]["n"] for arm, found in made.items()} == {
        "8f": 2,
        "16f": 2,
    }
    assert made["16f"]["consensus"]["value"] == 0.0
    assert made["16f"]["answered"]["consensus"]["n"] == 0


def test_orders_without_an_answer_are_wrong(tmp_path):
    orders = [[0, 1, 2, 3], [1, 2, 3, 0]]
    passes = [answer("q1", 0, order=orders[0]), answer("q1", None, order=orders[1])]
    passes += [answer("q2", 0, order=order) for order in orders]
    found = report(write_run(tmp_path, passes)).numbers["accuracy"]["single"]
    assert found["order_averaged"]["value"] == 0.75
    assert found["first_order"]["value"] == 1.0
    assert found["consensus"]["value"] == 0.5
    assert found["answered"]["order_averaged"] == found["answered"]["consensus"]
    assert found["answered"]["consensus"]["n"] == 1


def test_a_run_made_here_says_what_it_leaves_out(tmp_path):
    drop = {(i, "dense", False, 0, 0) for i in range(3)}
    passes = made_run(tmp_path, drop=drop)
    made = report(tmp_path)
    numbers = made.numbers
    assert numbers["items"]["missing_answers"] == "left out"
    n = len({row["question_id"] for row in passes})
    for arm, found in numbers["accuracy"].items():
        assert found["order_averaged"] == found["answered"]["order_averaged"]
        assert found["order_averaged"]["n"] == n - 3
        assert found["missing_wrong"]["order_averaged"]["n"] == n
        if arm == "dense":
            right = found["answered"]["consensus"]
            wrong = found["missing_wrong"]["consensus"]
            assert wrong["value"] * n == pytest.approx(right["value"] * (n - 3))
    text = " ".join(headline(numbers))
    assert "questions that lack a pass are left out; counted as wrong: single" in text
    part = table(made, "Accuracy")
    assert part.columns[-2:] == ("missing as wrong, %", "of")
    assert "those that lack a pass are left out" in part.note


def test_without_a_missing_answer_there_is_one_accuracy(tmp_path):
    made_run(tmp_path)
    made = report(tmp_path)
    assert table(made, "Accuracy").columns[-1] == "n"
    assert "left out" not in " ".join(headline(made.numbers))


def with_one_option(folder):
    """Add five questions with a single option to three, of which one is right."""
    passes = [answer(f"q{i}", int(i > 0), gold=0) for i in range(3)]
    passes += [answer(f"one{i}", 0, order=[0], gold=0) for i in range(5)]
    return write_run(folder, passes)


def test_one_option_is_no_right_answer(tmp_path):
    run = with_one_option(tmp_path / "a")
    made = report(run)
    found = made.numbers["accuracy"]["single"]["consensus"]
    assert (found["value"], found["n"]) == (pytest.approx(1 / 3), 3)
    assert made.numbers["items"]["one_option"] == 5
    assert (
        "5 questions have one option: any answer is right, so every rate leaves them "
        "out."
    ) in headline(made.numbers)
    assert pilot(run).rates["accuracy, single"].n == 3
    both = compare(run, with_one_option(tmp_path / "b"))
    assert both.outcome.n == both.differ.n == 3
    left_out = {part.reason: len(part.items) for part in both.left_out}
    assert left_out == {"one option: there is nothing to choose": 5}


def test_one_option_changes_no_rate_of_a_run_made_here(tmp_path):
    made_run(tmp_path / "a", n_items=12)
    passes = made_run(tmp_path / "b", n_items=12)
    for row in passes[:]:
        if row["question_id"] == "q0":
            one = {"question_id": "one", "n_options": 1, "order": [0], "answer": 0}
            passes.append(row | one | {"gold": 0, "logprobs": [-0.5]})
    lines, seen = [], set()
    for row in passes:  # the orders of q0 are one order here
        names = ("question_id", "arm", "shifted", "phase_index")
        key = (*map(row.get, names), tuple(row["order"]))
        if key not in seen:
            lines.append(json.dumps(row) + "\n")
        seen.add(key)
    (tmp_path / "b/passes.jsonl").write_text("".join(lines))
    alone, joined = (report(tmp_path / name).to_dict() for name in "ab")
    for part in (
        "accuracy",
        "comparisons",
        "phase_flips",
        "half_step",
        "consistency",
        "margins_nats",
    ):
        assert joined[part] == alone[part], part
    assert joined["order_flips"]["arms"] == alone["order_flips"]["arms"]


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        (["a"], "1 of 4 passes is missing: a"),
        (["a", "a"], "2 of 4 passes are missing: a"),
        (["a", "b"], "2 of 4 passes are missing: for 2 different reasons, such as a"),
        (
            ["a", "a", "b"],
            "3 of 4 passes are missing: most often (2 times) a; then (1 time) b",
        ),
        (
            ["a", "b", "a", "b"],
            "4 of 4 passes are missing: most often (2 times) a; then (2 times) b",
        ),
        (
            ["a", "a", "b", "c"],
            "4 of 4 passes are missing: most often (2 times) a; then (1 time) b; and "
            "for 1 other reason",
        ),
        (
            [
                "video: a.mp4: frames [1] do not decode",
                "video: frame 3 is gone",
                "video: b c/d.mp4: frames [2, 3] do not decode",
            ],
            "3 of 4 passes are missing: most often (2 times) video: a.mp4: frames [1] "
            "do not decode (and 1 more like it); then (1 time) video: frame 3 is gone",
        ),
    ],
)
def test_how_often_a_reason_is_there(tmp_path, reasons, said):
    passes = [answer(f"q{i}", None, invalid=reason) for i, reason in enumerate(reasons)]
    passes += [answer(f"r{i}", 0) for i in range(4 - len(reasons))]
    made = report(write_run(tmp_path, passes))
    assert missing_sentence(made.numbers["items"]) == said


def test_a_report_certifies_nothing_where_nothing_varies(tmp_path):
    passes = made_run(tmp_path, n_items=14)
    for row in passes:
        scores = [-5.0] * row["n_options"]
        scores[row["order"].index(row["gold"])] = -0.1
        row |= {"logprobs": scores, "answer": row["gold"]}
    (tmp_path / "passes.jsonl").write_text(
        "".join(json.dumps(r) + "\n" for r in passes)
    )
    made = report(tmp_path)
    text = " ".join(str(made).split())
    assert "not certifiable" in text
    equal = table(made, "Equivalence of fusion")
    assert [row[-2] for row in equal.rows] == ["not certifiable"] * 2
    columns = dict(zip(equal.columns, equal.rows[0], strict=True))
    assert (float(columns["low"]), float(columns["high"])) != (0.0, 0.0)
    excess = table(made, "Votes of two halves")
    assert excess.rows[-1][1] != "0.0 [0.0, 0.0]"
