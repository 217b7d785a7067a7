"""Real result files give the numbers that are published with them.

Run with PHASEFUSION_SHARED naming the folder that has ``cases``; the files may not be
shipped. What they test is tested on made files of the same forms everywhere else.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from phasefusion.errors import DatasetError
from phasefusion.fusion import fuse_items
from phasefusion.importers import (
    accuracy_by,
    group_flips,
    import_run,
    most_probable,
    n_distinct_orders,
    read_questions,
)
from phasefusion.records import iter_passes, read_passes
from phasefusion.report import report
from phasefusion.stats import (
    clustered_mean,
    flip_rates,
    majority_vote,
    mcnemar,
    unanimity,
)

SHARED = os.environ.get("PHASEFUSION_SHARED")
pytestmark = pytest.mark.skipif(
    SHARED is None, reason="PHASEFUSION_SHARED is not set: no real result files"
)
CASES = Path(SHARED or ".") / "cases"


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def numbers(run):
    return report(run.path).numbers["imported"]


@pytest.fixture(scope="module")
def videomme(out):
    file = CASES / "01-videomme-official-json/output_videomme.json"
    return import_run(file, out=out / "videomme")


@pytest.fixture(scope="module")
def budgets(out):
    folder = CASES / "02-framebudget-flips-qwen3vl"
    return import_run(
        folder / "predictions_wide.csv",
        gold=folder / "gold.json",
        out=out / "budgets",
        benchmark="Video-MME",
    )


@pytest.fixture(scope="module")
def nextqa(out):
    folder = CASES / "07-nextqa-composite-ids"
    return import_run(
        folder / "HGA_val_700.json",
        questions=folder / "val_700.csv",
        out=out / "nextqa",
    )


@pytest.fixture(scope="module")
def sweep_file():
    return CASES / "10-order-posteriors-gpt4o-mini/mcq-gpt-4o-mini_test.csv"


@pytest.fixture(scope="module")
def sweep(out, sweep_file):
    return import_run(sweep_file, out=out / "sweep")


@pytest.fixture(scope="module")
def sweep_rows(sweep):
    return list(iter_passes(sweep.path))


@pytest.fixture(scope="module")
def lmms(out):
    folder = CASES / "13-lmms-eval-samples-log"
    file = folder / "20260218_234435_samples_scienceqa_img.jsonl"
    return import_run(file, out=out / "lmms")


class TestVideoMme:
    def test_accuracy(self, videomme):
        assert "videomme" in videomme.report.format
        (arm,) = videomme.report.arms
        assert (arm.right, arm.with_gold) == (36, 72)
        assert numbers(videomme)["arms"]["single"]["accuracy"]["value"] == 0.5
        by = accuracy_by(videomme.path, "duration")
        assert {name: (one.k, one.n) for name, one in by.items()} == {
            "short": (23, 36),
            "medium": (6, 18),
            "long": (7, 18),
        }
        in_report = numbers(videomme)["strata"]["duration"]["single"]
        assert in_report["short"]["right"] == 23

    def test_a_record_a_question(self, videomme):
        rows = list(iter_passes(videomme.path))
        assert len(rows) == 72
        assert {row["n_options"] for row in rows} == {4}
        first = rows[0]
        assert first["question_id"] == "001-1"
        assert first["video_id"] == "001"
        assert first["gold"] == 2
        assert set(first["strata"]) == {
            "duration",
            "domain",
            "sub_category",
            "task_type",
        }
        assert len({row["video_id"] for row in rows}) == 24

    def test_standard_error_is_clustered_by_video(self, videomme):
        arm = numbers(videomme)["arms"]["single"]
        right = np.array([r["answer"] == r["gold"] for r in iter_passes(videomme.path)])
        videos = [r["video_id"] for r in iter_passes(videomme.path)]
        wanted = clustered_mean(right.astype(float), videos)
        assert arm["videos"] == 24
        assert arm["se_by_video"] == wanted.se != arm["se_as_if_independent"]
        assert "SE independent" in str(report(videomme.path).to_markdown())

    def test_prefix_is_taken_off_once(self):
        file = CASES / "01-videomme-official-json/output_videomme.json"
        found = read_questions(file)
        options = {one.question_id: one.options for one in found.questions}
        assert options["001-3"] == ("1.", "4.", "2.", "3.")
        assert options["001-1"][0] == "Apples."

    def test_template(self, out):
        file = CASES / "01-videomme-official-json/output_test_template.json"
        with pytest.raises(DatasetError, match=r"line 20, column 13: not JSON"):
            import_run(file, out=out / "template")
        run = import_run(file, out=out / "template", lenient=True)
        assert run.report.finding("repaired JSON") is not None
        rows = list(iter_passes(run.path))
        assert len(rows) == 9
        said = {row["text"]: row["answer"] for row in rows}
        assert said["C. Berries."] == 2
        assert said["D."] == said["D. 3"] == 3
        assert said["Answer: C. Jade."] == 2


class TestFrameBudgets:
    def test_order_and_accuracy(self, budgets):
        arms = budgets.report.arms
        assert [arm.budget for arm in arms] == [0, 16, 32, 64, 128, 256]
        wanted = [43.8931, 69.5929, 74.8092, 78.1170, 79.6438, 79.6438]
        found = [round(100 * arm.right / arm.with_gold, 4) for arm in arms]
        assert found == wanted
        assert {arm.with_gold for arm in arms} == {786}

    def test_pairs(self, budgets):
        pairs = {tuple(pair["arms"]): pair for pair in numbers(budgets)["pairs"]}

        def pair(a, b):
            return pairs[f"{a}f_151k", f"{b}f_151k"]

        differ = {
            (16, 32): 140,
            (16, 64): 162,
            (16, 128): 169,
            (32, 64): 89,
            (32, 128): 94,
            (64, 128): 41,
        }
        for (a, b), n in differ.items():
            assert (pair(a, b)["differ"], pair(a, b)["n"]) == (n, 786)
        assert round(pair(16, 32)["rate"], 4) == 0.1781
        assert round(pair(16, 128)["rate"], 4) == 0.2150
        tests = {
            (16, 32): (37, 78, 0.00017, 5),
            (32, 64): (22, 48, 0.00255, 5),
            (64, 128): (11, 23, 0.0576, 4),
            (128, 256): (0, 0, 1.0, 5),
        }
        for (a, b), (first, second, p, digits) in tests.items():
            one = pair(a, b)
            assert (one["only_first"], one["only_second"]) == (first, second)
            assert round(one["p"], digits) == p
            assert one["p"] == mcnemar(first, second).pvalue
        assert pair(128, 256)["identical"]
        assert sum(one["identical"] for one in pairs.values()) == 1

    def test_identical_runs_are_named(self, budgets):
        found = budgets.report.finding("identical runs")
        assert found.n == 1
        assert "same evidence?" in found.text
        assert found.examples == ("128f_151k and 256f_151k: all 786 items",)

    def test_over_budgets(self, budgets):
        over = numbers(budgets)["over_arms"]
        assert len(over["arms"]) == 5
        assert len(over["distinct_arms"]) == 4
        assert (over["any_flip"]["flips"], over["any_flip"]["n"]) == (204, 786)
        assert round(over["any_flip"]["value"], 4) == 0.2595
        assert over["pairwise_distinct"] > over["pairwise"]
        assert round(over["oracle"]["value"], 6) == 0.849873
        assert round(over["unanimous"]["value"], 6) == 0.627226
        assert (over["decided"], over["ties"]) == (779, 7)
        assert round(over["majority"]["value"], 6) == 0.779898

    def test_no_phase_flips(self, budgets):
        made = report(budgets.path)
        assert made.numbers["phase_flips"] is None
        assert made.numbers["half_step"] is None
        text = made.to_markdown()
        assert "## Phase flips" not in text
        assert "differ in their number of frames, which is no phase" in text


class TestTempCompass:
    FOLDER = CASES / "05-tempcompass-embedded-options"

    @pytest.mark.parametrize(
        ("model", "null", "unparsed", "right", "letters", "flips"),
        [
            ("gemini", 2, 2, 277, {"A": 77, "B": 137, "C": 131, "D": 51}, 6),
            ("video-llava", 0, 0, 223, {"A": 245, "B": 73, "C": 60, "D": 22}, 8),
            ("reka-flash", 0, 0, 267, {"A": 118, "B": 147, "C": 107, "D": 28}, 4),
        ],
    )
    def test_model(self, out, model, null, unparsed, right, letters, flips):
        run = import_run(
            self.FOLDER / f"predictions_{model}.json",
            questions=self.FOLDER / "questions.json",
            out=out / model,
        )
        (arm,) = run.report.arms
        assert arm.passes == 400
        assert arm.outcomes["missing"] == null
        assert arm.outcomes["unparsed"] == unparsed
        assert arm.letters == letters
        assert (arm.right, arm.with_gold) == (right, 400)
        groups = group_flips(run.path)
        assert (groups.flips, groups.groups) == (flips, 15)
        assert "no effect of the order alone" in report(run.path).to_markdown()
        assert report(run.path).numbers["order_flips"] is None

    def test_options(self):
        found = read_questions(self.FOLDER / "questions.json")
        counts = [one.n_options for one in found.questions]
        assert (counts.count(3), counts.count(4), len(counts)) == (222, 178, 400)
        assert all(one.gold for one in found.questions)
        assert found.report.finding("gold contradicts itself") is None

    def test_reference_score(self, out):
        run = import_run(self.FOLDER / "auto_eval_video-llava.json", out=out / "auto")
        rating = run.report.harness["rating"]
        assert (rating["n"], rating["mean"], rating["differs"]) == (400, 0.5575, 0)


class TestNextQa:
    def test_accuracy(self, nextqa):
        (arm,) = nextqa.report.arms
        assert (arm.right, arm.with_gold) == (348, 702)
        assert {k: (v.k, v.n) for k, v in accuracy_by(nextqa.path, "type").items()} == {
            "CH": (43, 102),
            "CW": (119, 271),
            "DC": (12, 28),
            "DL": (33, 43),
            "DO": (19, 36),
            "TC": (48, 90),
            "TN": (67, 122),
            "TP": (7, 10),
        }

    def test_refusals(self, nextqa):
        said = " ".join(nextqa.report.cannot)
        assert "phase fusion: no pass says on which phase" in said
        assert "order flips: every question was asked in one option order" in said
        assert "no distribution over the options" in said
        rows = list(iter_passes(nextqa.path))
        assert {(row["arm"], row["phase"]) for row in rows} == {("single", None)}
        assert all(row["order"] == [0, 1, 2, 3, 4] for row in rows)
        assert "4010069381" in {row["video_id"] for row in rows}

    def test_repeated_options(self, nextqa):
        names = [
            x.split(":")[0] for x in nextqa.report.finding("repeated option").examples
        ]
        assert names == ["5256928210_7", "13884293626_2", "3263908208_7"]

    def test_qid_alone_is_refused(self, out):
        file = CASES / "07-nextqa-composite-ids/val_700.csv"
        with pytest.raises(DatasetError, match="there are 13 different ids"):
            import_run(
                file,
                format="csv",
                out=out / "qid",
                mapping={"question_id": "qid", "answer": "answer"},
            )


class TestDirtyOptions:
    FOLDER = CASES / "09-duplicate-and-missing-gold-options"

    def ids(self, found, kind):
        return [x.split(": ")[0] for x in found.report.finding(kind).examples]

    def test_mlvu(self):
        found = read_questions(self.FOLDER / "mlvu_dirty.json")
        missing = found.report.finding("gold not an option")
        assert self.ids(found, "gold not an option") == [
            "MLVU/2_needle.json#34",
            "MLVU/2_needle.json#338",
        ]
        assert "'Catching the drone', which was not taken" in missing.examples[0]
        known = {one.question_id: one for one in found.questions}
        assert known["MLVU/2_needle.json#34"].gold == ()
        assert self.ids(found, "unusable question") == [
            "MLVU/7_topic_reasoning.json#26"
        ]
        assert "MLVU/7_topic_reasoning.json#26" not in known
        assert self.ids(found, "empty option") == ["MLVU/1_plotQA.json#23"]
        assert self.ids(found, "gold repeated") == [
            "MLVU/1_plotQA.json#335",
            "MLVU/1_plotQA.json#387",
            "MLVU/1_plotQA.json#493",
            "MLVU/6_anomaly_reco.json#66",
            "MLVU/7_topic_reasoning.json#163",
        ]
        assert known["MLVU/1_plotQA.json#335"].gold == (1, 2)
        repeated = set(self.ids(found, "repeated option"))
        assert len(repeated - set(self.ids(found, "gold repeated"))) == 10
        assert n_distinct_orders(known["MLVU/1_plotQA.json#335"].options) == 12

    def test_others(self):
        nextqa = read_questions(self.FOLDER / "nextqa_dup.csv")
        assert nextqa.report.finding("repeated option").n == 3
        ego = read_questions(self.FOLDER / "egoschema_dup.jsonl")
        assert ego.report.finding("repeated option").n == 1
        assert ego.questions[0].gold


class TestOrderSweep:
    def by_order(self, rows, pick):
        """Picked answers and gold by question and order."""
        found = {}
        for row in rows:
            place = int(row["sweep"].removeprefix("pos_"))
            found.setdefault(row["question_id"], {})[place] = pick(row)
        table = np.array([[one[k] for k in range(4)] for one in found.values()])
        gold = {row["question_id"]: row["gold"] for row in rows}
        return table, np.array([gold[name] for name in found]), list(found)

    def test_by_gold_position(self, sweep_rows):
        stated = accuracy_by(sweep_rows, "sweep")
        wanted = {"pos_0": 0.828, "pos_1": 0.876, "pos_2": 0.868, "pos_3": 0.788}
        assert {k: v.value for k, v in stated.items()} == wanted
        best = accuracy_by(
            sweep_rows, "sweep", answers="most-probable", ties="first-shown"
        )
        wanted = {"pos_0": 0.808, "pos_1": 0.848, "pos_2": 0.836, "pos_3": 0.736}
        assert {k: v.value for k, v in best.items()} == wanted

    def test_flips(self, sweep_rows):
        stated, gold, _ = self.by_order(sweep_rows, lambda row: row["answer"])
        assert (flip_rates(stated).n_flipped, len(gold)) == (65, 250)
        assert unanimity(stated, gold).value == 0.708
        best, _, _ = self.by_order(
            sweep_rows, lambda row: most_probable(row, ties="first-shown")
        )
        assert flip_rates(best).any == 0.328

    def test_majority(self, sweep_rows):
        stated, gold, ids = self.by_order(sweep_rows, lambda row: row["answer"])
        vote = majority_vote(stated, n_options=4, item_ids=ids)
        tied = vote.n_tied > 1
        assert tied.sum() == 18
        assert ((vote.answers == gold) & ~tied).mean() == 0.836

    def test_fusion(self, sweep, sweep_rows):
        passes = read_passes(sweep.path)
        content = passes.content_logprobs().reshape(250, 1, 4, 4)
        names = [info.question_id for info in passes.items]
        fused = fuse_items(content, over=("phase", "order"), item_ids=names)
        gold = np.array([info.gold for info in passes.items])
        assert fused.tied.sum() == 3
        assert ((fused.answer == gold) & ~fused.tied).mean() == 0.860
        assert fused.tie_set[np.arange(250), gold].mean() == 0.868

    def test_dirt(self, sweep):
        report = sweep.report
        assert report.finding("distribution does not sum to 1").n == 10
        sums = [
            x.split()[1]
            for x in report.finding("distribution does not sum to 1").examples
        ]
        assert {"0.4", "1.87"} <= set(sums)
        assert report.finding("tied maximum").n == 74
        assert report.finding("answer is not the maximum").n == 20
        assert report.finding("repeated option").n == 2

    def test_distributions_are_normalised(self, sweep_rows):
        for row in sweep_rows:
            values = [x for x in row["logprobs"] if x is not None]
            assert np.exp(values).sum() == pytest.approx(1, abs=1e-12)

    def test_strict_refuses(self, out, sweep_file):
        with pytest.raises(DatasetError, match=r"line \d+: the probabilities .* 1\.1,"):
            import_run(sweep_file, out=out / "strict", strict=True)


class TestLmmsEval:
    def test_counts(self, lmms):
        rows = list(iter_passes(lmms.path))
        assert len(rows) == 301
        assert {row["benchmark"] for row in rows} == {"scienceqa_img"}
        counts = [row["n_options"] for row in rows]
        assert {k: counts.count(k) for k in set(counts)} == {
            2: 109,
            3: 78,
            4: 108,
            5: 6,
        }
        assert "doc_hash" in lmms.report.finding("doc_hash is constant").text

    def test_scores(self, lmms):
        score = lmms.report.harness["exact_match"]
        assert (score["n"], score["mean"] * 301) == (301, pytest.approx(203))
        results = lmms.report.results
        assert round(results["exact_match,none"], 7) == 0.6950917
        assert round(results["exact_match_stderr,none"], 8) == 0.01025322
        assert results["exact_match_stderr_clustered,none"] is None
        right = np.zeros(2017)
        right[: round(results["exact_match,none"] * 2017)] = 1
        wanted = results["exact_match_stderr,none"]
        assert clustered_mean(right).se_iid == pytest.approx(wanted, rel=1e-9)

    def test_letter_and_text(self, lmms):
        (row,) = [r for r in iter_passes(lmms.path) if r["question_id"] == "1429"]
        assert row["text"] == "A. the watering method used"
        assert (row["answer"], row["gold"]) == (0, 1)
        assert row["rule"] == "letter and text"
        assert row["harness"] == {"exact_match": 0.0}

    def test_flips_cannot_be_computed(self, lmms):
        assert any("there is one run" in text for text in lmms.report.cannot)
        assert any("one option order" in text for text in lmms.report.cannot)
