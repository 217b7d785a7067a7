"""A stated answer is the answer, whatever the probabilities beside it say."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from pass_files import text
from sample_passes import make_pass

from phasefusion.audit import audit
from phasefusion.compare import compare
from phasefusion.importers import import_run
from phasefusion.planning import pilot
from phasefusion.records import read_passes
from phasefusion.report import report
from phasefusion.report.headline import headline
from phasefusion.report.sections import sections

#: Content space; the text states 1, the probabilities are those of 0.
LOGPROBS = [-0.2, -2.0, -4.0]


def write(folder, rows, protocol="imported"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "passes.jsonl").write_text(text(*rows))
    run = {"format": 1, "settings": {"protocol": protocol}, "versions": {}}
    (folder / "run.json").write_text(json.dumps(run))
    return folder


def passes(answers, *, path="generate", gold=1, logprobs=LOGPROBS, **changes):
    """Two phases and two orders a question; `answers` by question, phase and order."""
    rows = []
    for i, by_phase in enumerate(answers):
        for s, by_order in enumerate(by_phase):
            for order, answer in zip(([0, 1, 2], [2, 1, 0]), by_order, strict=True):
                values = logprobs and [logprobs[k] for k in order]
                rows.append(
                    make_pass(
                        i,
                        gold=gold,
                        phase_index=s,
                        n_phases=2,
                        phase=[s, 2],
                        order=order,
                        answer=answer,
                        path=path,
                        logprobs=values,
                        invalid="unparsed: no" if answer is None else None,
                    )
                    | changes
                )
    return rows


@pytest.fixture
def stated(tmp_path):
    """Three questions: 1 everywhere; 1 but for one order; 1 but for one phase."""
    answers = [
        [[1, 1], [1, 1]],
        [[1, 0], [1, 1]],
        [[1, 1], [0, 0]],
    ]
    return write(tmp_path / "stated", passes(answers))


def test_rates_are_of_what_was_stated(stated):
    numbers = report(stated).numbers
    accuracy = {
        arm: values["order_averaged"]["value"]
        for arm, values in numbers["accuracy"].items()
    }
    assert accuracy["phase 0"] == pytest.approx(5 / 6)
    assert accuracy["phase 1"] == pytest.approx(4 / 6)
    # the votes of question 2 are 1 and 0 in both orders, those of question 1 in one
    assert accuracy["vote"] >= 3 / 6
    assert accuracy["fusion"] == 0, "fusion is of the probabilities"
    assert numbers["phase_flips"]["passes"]["any"]["value"] == pytest.approx(1.5 / 3)
    assert numbers["order_flips"]["arms"]["phases"]["any"]["value"] == pytest.approx(
        0.5 / 3
    )
    assert numbers["margins_nats"]["phase 0"]["median"] == pytest.approx(1.8)
    assert numbers["ties"]["phase 0"]["passes"] == 0


def test_the_report_counts_where_they_differ(stated):
    made = report(stated)
    assert made.numbers["stated"] == {
        "passes": 12,
        "not_most_probable": 9,
        "no_answer": 0,
    }
    assert any(
        line.startswith("In 9 of 12 passes the stated answer is not the most probable")
        for line in headline(made.numbers)
    )
    assert made.to_dict()["stated"]["not_most_probable"] == 9


def test_scored_passes_are_as_before(tmp_path):
    answers = [[[0, 0], [0, 0]]] * 2
    numbers = report(write(tmp_path, passes(answers, path="logit"))).numbers
    assert numbers["stated"] is None
    assert numbers["accuracy"]["phase 0"]["order_averaged"]["value"] == 0
    assert not any("stated" in line for line in headline(numbers))


def test_ties_of_probabilities_choose_no_stated_answer(tmp_path):
    tied = [-1.0, -1.0, -4.0]
    rows = passes([[[1, 0], [0, 1]]] * 3, logprobs=tied)
    numbers = report(write(tmp_path / "a", rows)).numbers
    assert numbers["stated"]["not_most_probable"] == 0
    assert numbers["ties"]["phase 0"]["passes"] == 0
    rows = passes([[[0, 0], [0, 0]]] * 3, path="logit", logprobs=tied)
    numbers = report(write(tmp_path / "b", rows)).numbers
    assert numbers["ties"]["phase 0"]["passes"] == 1


def test_a_text_that_states_nothing_is_no_answer(tmp_path):
    answers = [[[None, 1], [1, 1]], [[1, 1], [1, 1]]]
    folder = write(tmp_path / "a", passes(answers))
    made = report(folder)
    assert made.numbers["stated"]["no_answer"] == 1
    assert made.numbers["items"]["missing_passes"] == 1
    assert [d["question_id"] for d in made.numbers["items"]["dropped"]] == ["q0"]
    assert any("states no option" in line for line in headline(made.numbers))
    # q0 has no consensus at phase 0: wrong there, right at phase 1
    compared = compare(folder, folder, arm="phase 0", against="phase 1")
    assert (compared.outcome.both, compared.outcome.only_b) == (1, 1)


def test_other_readers_take_the_stated_answers(stated, tmp_path):
    answers_alone = passes([[[1, 1], [1, 1]]] * 3, logprobs=None)
    other = write(tmp_path / "other", answers_alone)
    claims = tmp_path / "claims.yaml"
    claims.write_text(
        "format: 1\ntitle: t\nruns: [main]\nclaims:\n"
        "  - id: right\n    text: t\n    published: '2'\n    unit: count\n"
        "    compute: total(correct(main, 'phase 1'))\n"
        "  - id: none\n    text: t\n    published: '0'\n    unit: count\n"
        "    compute: total(correct(main, 'fusion'))\n"
    )
    made = audit(claims, {"main": stated})
    assert [one.verdict for one in made.results] == ["agrees", "agrees"]
    compared = compare(stated, other, arm="phase 1", against="phase 1")
    assert (compared.outcome.both, compared.outcome.only_b) == (2, 1)
    planned = pilot(stated, n_resamples=10).rates
    assert planned["accuracy, vote"].mean.value > 0
    assert planned["accuracy, fusion"].mean.value == 0


@pytest.mark.parametrize("reader", ["json", "duckdb"])
def test_generated_passes_are_known_to_every_reader(stated, tmp_path, reader):
    pytest.importorskip("duckdb" if reader == "duckdb" else "orjson")
    rows = passes([[[1, 1], [1, None]]])
    rows[0]["path"] = "logit"
    rows[0]["answer"] = 0
    del rows[1]["path"]
    rows[1]["answer"] = 0
    folder = write(tmp_path / "mixed", rows)
    found = read_passes(folder, reader=reader)
    assert found.generated.tolist() == [False, False, True, True]
    for _ in range(2):
        kept = read_passes(folder, cache=tmp_path / "cache")
        np.testing.assert_array_equal(kept.generated, found.generated)


def test_orders_of_their_own_are_not_called_shared(tmp_path):
    own = passes([[[1, 1], [1, 1]]] * 2)
    for row in own[4:]:
        row["order"] = {0: [1, 0, 2], 2: [1, 2, 0]}[row["order"][0]]
    for name, rows, words in (
        ("own", own, "have orders of their own"),
        ("same", passes([[[1, 1], [1, 1]]] * 2), "that all questions share"),
    ):
        numbers = report(write(tmp_path / name, rows)).numbers
        (note,) = [one.note for one in sections(numbers) if one.title == "Consistency"]
        assert words in note


def test_the_headline_names_the_accuracy_of_imported_runs(tmp_path):
    rows = [
        make_pass(
            i,
            arm=arm,
            phase=None,
            n_phases=1,
            order=[0, 1, 2],
            logprobs=None,
            answer=answer,
            path="generate",
        )
        for arm in ("textonly", "16f")
        for i, answer in enumerate((0, 1, 0, 0) if arm == "16f" else (0, 1, 1, 0))
    ]
    numbers = report(write(tmp_path / "a", rows)).numbers
    assert "Accuracy: textonly 50.0 %, 16f 75.0 %." in headline(numbers)
    assert "configurations" not in " ".join(one.note for one in sections(numbers))
    for row in rows:
        row["gold"] = None
    numbers = report(write(tmp_path / "b", rows)).numbers
    assert not any(line.startswith("Accuracy") for line in headline(numbers))


@pytest.mark.skipif(
    "PHASEFUSION_SHARED" not in os.environ, reason="PHASEFUSION_SHARED is not set"
)
def test_a_real_sweep_gives_its_published_figures(tmp_path):
    cases = Path(os.environ["PHASEFUSION_SHARED"]) / "cases"
    file = cases / "10-order-posteriors-gpt4o-mini/mcq-gpt-4o-mini_test.csv"
    numbers = report(import_run(file, out=tmp_path / "run").path).numbers
    assert numbers["accuracy"]["single"]["order_averaged"]["value"] == 0.84
    flips = numbers["order_flips"]["arms"]["single"]
    assert round(flips["pairwise"]["value"], 3) == 0.155
    assert flips["any"]["value"] == 0.26
    assert numbers["stated"]["not_most_probable"] == 20
