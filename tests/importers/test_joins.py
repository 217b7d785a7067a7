"""Joining by id: collisions, gaps, repeats, gold from elsewhere, runs that are one."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasefusion.errors import DatasetError, RecordError, UsageError
from phasefusion.importers import cannot, identical_runs, import_run
from phasefusion.importers.run import _short_names
from phasefusion.records import iter_passes, read_passes, read_run
from phasefusion.report import report as make_report
from phasefusion.report.sections import sections


def said(*pairs, **more):
    """Rows of a plain log with the options shown."""
    return [
        {"id": name, "options": ["x", "y", "z"], "prediction": text, **more}
        for name, text in pairs
    ]


def test_ids_stay_text(write, take):
    _, rows = take(write("log.csv", "id,pred\n007,A\n2440175990,B\n1e5,C\n"))
    assert [row["question_id"] for row in rows] == ["007", "2440175990", "1e5"]


def test_the_same_answer_twice_counts_once(write, take):
    report, rows = take(write("log.jsonl", said(("a", "A"), ("b", "B"), ("a", "A"))))
    assert len(rows) == 2
    assert report.finding("duplicate id").examples == ("a",)


def test_two_answers_to_one_id_are_refused(write, take):
    file = write("log.jsonl", said(("a", "A"), ("b", "B"), ("a", "C")))
    with pytest.raises(DatasetError, match="line 3: question 'a' has another answer"):
        take(file)


def test_a_name_twice_in_one_object_is_refused(write, take):
    file = write("log.json", '{"a": "A", "b": "B", "a": "C"}')
    with pytest.raises(DatasetError, match="name 'a' occurs twice in one object"):
        take(file)
    file = write("log.jsonl", '{"id": "a", "pred": "A", "pred": "B"}\n')
    with pytest.raises(DatasetError, match=r"line 1, .* name 'pred' occurs twice"):
        take(file)


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (2.5, "unparsed"),
        (True, "unparsed"),
        (float("nan"), "missing"),
        ([], "unparsed"),
    ],
)
def test_answers_that_are_no_texts(write, take, value, outcome):
    _, rows = take(write("log.jsonl", said(("a", "A"), ("b", value))))
    assert [row["outcome"] for row in rows] == ["parsed", outcome]


def test_one_id_of_two_questions_is_refused(write, take):
    rows = said(("6", "A"), ("7", "A"), ("6", "B"))
    for i, row in enumerate(rows):
        row |= {"video": f"v{i}"}
    with pytest.raises(DatasetError) as error:
        take(write("log.jsonl", rows))
    text = str(error.value)
    assert "line 3: question id '6' is that of another question at" in text
    assert "line 1" in text
    assert "1 ids name several questions; there are 2 different ids" in text


def test_missing_and_unknown_ids(write, take):
    questions = write(
        "q.json", [{"id": n, "question": "?", "options": ["x", "y"]} for n in "abc"]
    )
    report, rows = take(write("log.json", {"a": "A", "d": "B"}), questions=questions)
    assert [row["question_id"] for row in rows] == ["a"]
    assert report.finding("missing id").examples == ("b", "c")
    assert report.finding("unknown id").examples == ("d",)


def test_nothing_in_common(write, take):
    questions = write("q.json", [{"id": "a", "question": "?", "options": ["x", "y"]}])
    with pytest.raises(DatasetError, match="no id of the results is in the question"):
        take(write("log.json", {"d": "B"}), questions=questions)
    gold = write("gold.json", {"a": "A"})
    with pytest.raises(DatasetError, match="no id of the results is in the gold file"):
        take(write("log.json", {"d": "B"}), gold=gold)


def test_another_version_of_the_question(write, take):
    questions = write("q.json", [{"id": "a", "question": "?", "options": ["x", "y"]}])
    with pytest.raises(DatasetError, match="different versions of it"):
        take(write("log.jsonl", said(("a", "A"))), questions=questions)


def test_version_is_part_of_the_benchmark(write, take):
    report, rows = take(write("log.json", {"a": "A"}), benchmark="Lake", version="2")
    assert rows[0]["benchmark"] == "Lake@2"
    assert report.benchmarks == ("Lake@2",)


def test_question_file_sets_the_content_order(write, take):
    questions = write(
        "q.json",
        [{"id": "a", "question": "?", "options": [*"zyx"], "gold": "C"}],
    )
    _, (row,) = take(write("log.jsonl", said(("a", "A"))), questions=questions)
    assert row["order"] == [2, 1, 0]
    assert (row["answer"], row["gold"]) == (2, 2)


def test_gold_file_counts_before_the_results(write, take):
    file = write("log.jsonl", said(("a", "A"), ("b", "B"), gold="B"))
    gold = write("gold.json", {"a": "A", "c": "A"})
    report, rows = take(file, gold=gold)
    assert [row["gold"] for row in rows] == [0, 1]
    assert report.finding("id without gold").examples == ("b",)
    assert report.finding("gold without answer").examples == ("c",)


def test_gold_that_differs_between_files_is_left_out(write, take):
    questions = write(
        "q.json",
        [{"id": "a", "question": "?", "options": [*"xyz"], "gold": "A"}],
    )
    report, (row,) = take(
        write("log.jsonl", said(("a", "A"), gold="B")), questions=questions
    )
    assert row["gold"] is None
    assert "A and B" in report.finding("gold differs").examples[0]
    assert report.without_gold == 1


@pytest.mark.parametrize(
    ("options", "gold", "kind"),
    [
        (["x", "y"], "w", "gold not an option"),
        (["x", "y"], "B. x", "gold contradicts itself"),
        (["B", "x"], "B", "gold ambiguous"),
        (["1", "0"], "0", "gold ambiguous"),
        (["x", "y"], 2, "gold not an option"),
        (["x", "y"], -1, "gold not an option"),
        (["x", "y"], "", "gold missing"),
    ],
)
def test_gold_that_is_none(write, take, options, gold, kind):
    row = {"id": "q", "options": options, "prediction": "A", "gold": gold}
    report, (made,) = take(write("log.jsonl", [row]))
    assert made["gold"] is None
    assert report.finding(kind).n == 1
    assert report.without_gold == 1
    assert report.arms[0].with_gold == 0


@pytest.mark.parametrize(
    ("question", "options", "problem"),
    [
        ("", ["x", "y"], "the question is empty"),
        ("?", ["", ""], "all options are empty"),
        ("?", ["x", "x"], "all options read 'x'"),
        ("?", ["x"], "has 1 option; there must be 2 to 26"),
        ("?", ["x"] * 27, "has 27 options; there must be 2 to 26"),
    ],
)
def test_unusable_questions(write, take, question, options, problem):
    rows = [
        *said(("good", "A")),
        {"id": "bad", "question": question, "options": options, "prediction": "A"},
    ]
    report, made = take(write("log.jsonl", rows))
    assert [row["question_id"] for row in made] == ["good"]
    assert report.finding("unusable question").examples == (f"bad: {problem}",)
    assert report.finding("answer left out").examples == ("bad",)


def test_only_unusable_questions(write, take):
    row = {"id": "bad", "options": ["x", "x"], "prediction": "A"}
    with pytest.raises(DatasetError, match="none of its answers belongs"):
        take(write("log.jsonl", [row]))


def test_gold_in_two_places(write, take):
    row = {"options": ["one", "two", "two"], "gold": "two"}
    rows = [row | {"id": n, "prediction": n} for n in "ABC"]
    report, made = take(write("log.jsonl", rows))
    assert [one["answer"] == one["gold"] for one in made] == [False, True, True]
    assert made[0]["gold_set"] == [1, 2]
    assert report.arms[0].right == 2


def test_outcomes_are_kept_apart(write, take):
    texts = ["A", "E", "I cannot tell.", "A or B", None]
    rows = said(*((f"q{i}", text) for i, text in enumerate(texts)), gold="A")
    report, made = take(write("log.jsonl", rows))
    assert [row["outcome"] for row in made] == [
        "parsed",
        "invalid",
        "refused",
        "unparsed",
        "missing",
    ]
    assert [row["text"] for row in made] == texts
    assert [row["invalid"] is None for row in made] == [True] + [False] * 4
    assert set(report.arms[0].outcomes.values()) == {1}
    # No answer is not right, and not left out either.
    assert (report.arms[0].right, report.arms[0].with_gold) == (1, 5)
    assert report.finding("answer refused").n == 1


def test_files_are_runs(write, take):
    a = write("big.jsonl", said(("p", "A"), ("q", "B")))
    b = write("small.jsonl", said(("p", "A"), ("q", "C")))
    report, rows = take([a, b], benchmark="Lake")
    assert [arm.name for arm in report.arms] == ["big", "small"]
    assert len(rows) == 4
    report, _ = take([a, b], benchmark="Lake", arms=["one", "two"])
    assert [arm.name for arm in report.arms] == ["one", "two"]
    with pytest.raises(DatasetError, match="1 names of runs were given for 2 files"):
        take([a, b], arms=["one"])


def test_runs_are_named_by_as_little_of_their_paths_as_tells_them_apart(
    write, take, tmp_path
):
    files = []
    for name, letter in (("x", "B"), ("y", "C")):
        made = write(f"{name}.jsonl", said(("p", "A"), ("q", letter)))
        files.append(tmp_path / name / "deep" / "p.jsonl")
        files[-1].parent.mkdir(parents=True)
        made.rename(files[-1])
    report, _ = take(files, benchmark="Lake")
    assert [arm.name for arm in report.arms] == ["x/deep/p", "y/deep/p"]
    same = [tmp_path / "p.json", tmp_path / "p.jsonl"]
    assert _short_names(same) == ["p.json", "p.jsonl"]
    assert _short_names([same[0], same[0]]) == ["p", "p"]


def test_files_of_other_questions_are_one_run(write, take):
    a = write("part1.jsonl", said(("p", "A")))
    b = write("part2.jsonl", said(("q", "C")))
    report, _ = take([a, b], benchmark="Lake")
    assert [arm.name for arm in report.arms] == ["single"]


def test_identical_runs(write, take):
    names = ("8f", "16f", "32f")
    lines = ["id," + ",".join(names), "p,A,B,B", "q,C,C,C", "r,A,,"]
    report, rows = take(write("wide.csv", "\n".join(lines) + "\n"), n_options=3)
    found = report.finding("identical runs")
    assert found.examples == ("16f and 32f: all 3 items",)
    assert "same evidence?" in found.text
    assert identical_runs(rows) == [("16f", "32f", 3)]


def test_budgets_are_no_phases(write, take, tmp_path):
    lines = ["id,8f,16f", "p,A,B", "q,C,C"]
    gold = write("gold.json", {"p": "A", "q": "C"})
    file = write("wide.csv", "\n".join(lines) + "\n")
    import_run(file, out=tmp_path / "r", gold=gold, n_options=3)
    made = make_report(tmp_path / "r")
    assert made.numbers["phase_flips"] is None
    text = made.to_markdown()
    assert "## Phase flips" not in text
    assert "number of frames, which is no phase" in text
    (pair,) = made.numbers["imported"]["pairs"]
    assert (pair["differ"], pair["only_first"], pair["only_second"]) == (1, 1, 0)
    assert pair["p"] == 1.0
    assert set(made.numbers["accuracy"]) == {"8f", "16f"}
    assert "8f - 16f" in str(made)


@pytest.mark.parametrize("per_video", [1, 3])
def test_runs_that_share_videos_are_tested_by_video(write, tmp_path, per_video):
    """Of six questions 16f gains five, all three of one video and two of the other."""
    rows = [f"q{i},v{i // per_video},B,{'BA'[i < 5]},A" for i in range(6)]
    file = write("wide.csv", "\n".join(["id,video_id,8f,16f,answer", *rows]) + "\n")
    import_run(file, out=tmp_path / "r", n_options=3)
    made = make_report(tmp_path / "r")
    (pair,) = made.numbers["imported"]["pairs"]
    assert (pair["only_first"], pair["only_second"]) == (0, 5)
    assert pair["p"] == pytest.approx(2 / 2**5)
    z = 5 / math.sqrt(3**2 + 2**2 if per_video == 3 else 5)
    assert pair["p_clustered"] == pytest.approx(math.erfc(z / math.sqrt(2)))
    by_title = {one.title: one for one in sections(made.numbers)}
    table = by_title["Differences between imported runs"]
    assert ("clustered by video" in table.note) == (per_video == 3)
    shown = pair["p_clustered" if per_video == 3 else "p"]
    assert f"{shown:.3g}" in table.rows[0]


def test_a_run_without_frames(write, tmp_path):
    file = write("wide.csv", "id,textonly,8f,16f\np,A,B,B\nq,C,C,A\n")
    import_run(file, out=tmp_path / "r", n_options=3)
    assert sorted(set(read_passes(tmp_path / "r").budget.tolist())) == [0, 8, 16]
    over = make_report(tmp_path / "r").numbers["imported"]["over_arms"]
    assert over["arms"] == ["8f", "16f"]
    assert over["oracle"] is None  # nothing says what is right
    assert over["any_flip"]["flips"] == 1


def test_report_of_groups_strata_and_clusters(write, tmp_path):
    def question(text, *options):
        return "\n".join(
            [text, *(f"{x}. {o}" for x, o in zip("AB", options, strict=True))]
        )

    value = {
        f"v{i}": {
            "speed": [
                {
                    "question": question("How?", "fast", "slow"),
                    "answer": "A. fast",
                    "prediction": "A",
                },
                {
                    "question": question("What pace?", "slow", "Fast."),
                    "answer": "B. Fast.",
                    "prediction": "AB"[i % 2],
                },
            ]
        }
        for i in range(4)
    }
    import_run(write("p.json", value), out=tmp_path / "r")
    made = make_report(tmp_path / "r")
    part = made.numbers["imported"]
    assert part["groups"]["single"] == {"flips": 2, "groups": 4, "value": 0.5}
    arm = part["arms"]["single"]
    assert (arm["accuracy"]["right"], arm["videos"]) == (6, 4)
    assert arm["se_by_video"] != arm["se_as_if_independent"]
    assert made.numbers["order_flips"] is None
    assert "2/4 for single" in made.to_markdown()
    json.loads(json.dumps(made.to_dict(), allow_nan=False))


def test_what_cannot_be_computed(write, take):
    report, rows = take(write("log.jsonl", said(("a", "A"))))
    assert [text.split(":")[0] for text in report.cannot] == [
        "phase flips and phase fusion",
        "posteriors, margins and fusion",
        "order flips",
        "differences between runs",
    ]
    full = [
        row
        | {
            "n_phases": 2,
            "phase_index": s,
            "order": order,
            "arm": arm,
            "logprobs": [-1.0, -1.0, -1.0],
        }
        for row in rows
        for s in (0, 1)
        for order in ([0, 1, 2], [1, 0, 2])
        for arm in ("phase", "other")
    ]
    assert cannot(full) == []


def test_run_json_has_the_report(write, tmp_path):
    out = tmp_path / "r"
    made = import_run(write("log.jsonl", said(("a", "A"))), out=out)
    described = read_run(out)
    assert described["import"] == json.loads(json.dumps(made.report.to_dict()))
    assert described["settings"]["protocol"] == "imported"
    assert described["import"]["files"][0]["role"] == "results"
    assert len(read_passes(out)) == 1


def test_importing_again(write, tmp_path):
    out = tmp_path / "r"
    file = write("log.jsonl", said(("a", "A"), ("b", "B")))
    import_run(file, out=out)
    before = list(iter_passes(out))
    import_run(file, out=out)  # what is there is not written twice
    assert list(iter_passes(out)) == before
    with pytest.raises(RecordError, match="made with other settings"):
        import_run(file, out=out, benchmark="Other")
    cut = (out / "passes.jsonl").read_bytes().split(b"\n")[0] + b"\n"
    (out / "passes.jsonl").write_bytes(cut)
    import_run(file, out=out)
    assert list(iter_passes(out)) == before


def test_nothing_to_read(tmp_path, take):
    with pytest.raises(DatasetError, match="no file was given"):
        take([])
    with pytest.raises(FileNotFoundError):
        take(tmp_path / "none.json")
    with pytest.raises(DatasetError, match="is not one of auto, lmms-eval"):
        take(tmp_path / "none.json", format="excel")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DatasetError, match="result files end in"):
        take(tmp_path / "folder")


@given(
    st.permutations(range(4)), st.lists(st.sampled_from("ABCD"), min_size=1, max_size=6)
)
def test_shown_orders_are_undone(tmp_path_factory, order, letters):
    """An answer in a shuffled prompt is the option that stood at its letter."""
    folder = tmp_path_factory.mktemp("orders")
    content = ["red", "green", "blue", "grey"]
    questions = folder / "q.json"
    ids = [f"q{i}" for i in range(len(letters))]
    questions.write_text(
        json.dumps(
            [{"id": i, "question": "?", "options": content, "gold": 0} for i in ids]
        )
    )
    log = folder / "log.jsonl"
    shown = [content[k] for k in order]
    log.write_text(
        "".join(
            json.dumps({"id": i, "options": shown, "prediction": letter}) + "\n"
            for i, letter in zip(ids, letters, strict=True)
        )
    )
    import_run(log, out=folder / "run", questions=questions)
    for row, letter in zip(iter_passes(folder / "run"), letters, strict=True):
        assert row["order"] == list(order)
        assert content[row["answer"]] == shown["ABCD".index(letter)]


@pytest.mark.parametrize(
    ("n_options", "message"),
    [
        (4.0, "n_options=4.0 must be a whole number, it is a float"),
        ("4", "n_options='4' must be a whole number"),
        (True, "not a truth value"),
        (1, "n_options=1 must be 2 to 26"),
        (27, "n_options=27 must be 2 to 26"),
    ],
)
def test_numbers_of_options_that_cannot_be(write, tmp_path, n_options, message):
    file = write("log.csv", "id,pred\nq1,A\n")
    with pytest.raises(UsageError, match=message):
        import_run(file, out=tmp_path / "run", n_options=n_options)
    made = import_run(file, out=tmp_path / "run", n_options=np.int64(4))
    assert [row["n_options"] for row in iter_passes(made.path)] == [4]
