"""Every form of file: what becomes of its rows."""

import json

import numpy as np
import pytest

from phasefusion.errors import DatasetError
from phasefusion.importers import FORMATS, detect_format, read_questions
from phasefusion.importers.tables import frames_of
from phasefusion.records import pass_key


def samples(**more):
    """Two lines of an lmms-eval log."""
    rows = [
        {
            "doc_id": i,
            "target": "B",
            "filtered_resps": [text],
            "doc_hash": f"h{i}",
            "acc": float(text[0] == "B"),
            "input": "Watch.\nWhat floats?\nA. a boat\nB. a swan\nAnswer directly.",
        }
        for i, text in enumerate(["B", "A. a boat"])
    ]
    return [row | more for row in rows]


class TestLmmsEval:
    NAME = "20260101_samples_lake_mcq.jsonl"

    def test_options_in_the_input(self, write, take):
        report, rows = take(write(self.NAME, samples()))
        assert report.benchmarks == ("lake_mcq",)
        assert [row["answer"] for row in rows] == [1, 0]
        assert [row["gold"] for row in rows] == [1, 1]
        assert rows[1]["rule"] == "letter and text"
        assert rows[1]["harness"] == {"acc": 0.0}
        assert rows[0]["source"] == {
            "format": "lmms-eval",
            "file": self.NAME,
            "line": 1,
        }
        assert report.harness["acc"] == {"n": 2, "mean": 0.5, "differs": 0}

    @pytest.mark.parametrize(
        "shape", [["B"], [["B"]], [[["B"]]], "B", [["B", {"tokens": 1}]]]
    )
    def test_shapes_of_responses(self, write, take, shape):
        rows = samples()
        for row in rows:
            row["filtered_resps"] = shape
        _, passes = take(write(self.NAME, rows))
        assert [row["answer"] for row in passes[:2]] == [1, 1]

    def test_raw_text_goes_before_the_filter(self, write, take):
        rows = samples(resps=[["The answer is (B), clearly."]], filtered_resps=["T"])
        _, passes = take(write(self.NAME, rows))
        assert passes[0]["answer"] == 1
        assert passes[0]["text"] == "The answer is (B), clearly."
        assert passes[0]["filtered"] == ["T"]

    @pytest.mark.parametrize(
        ("pairs", "best", "notes"),
        [
            ([[-1.5, False], [-0.2, True]], 1, False),
            ([[[-1.5, False]], [[-0.2, True]]], 1, False),
            (["(-1.5, False)", "(-0.2, True)"], 1, False),
            ([[1.5, False], [0.2, True]], 1, True),  # losses
        ],
    )
    def test_loglikelihood(self, write, take, pairs, best, notes):
        report, passes = take(write(self.NAME, samples(filtered_resps=pairs)))
        assert [row["answer"] for row in passes] == [best, best]
        assert passes[0]["path"] == "logit"
        assert passes[0]["logprobs"] == [-1.5, -0.2]
        assert (report.finding("losses") is not None) == notes

    def test_scores_of_both_signs_are_no_scores(self, write, take):
        file = write(self.NAME, samples(filtered_resps=[[-1.0, False], [0.5, True]]))
        _, passes = take(file)
        assert passes[0]["answer"] is None
        assert passes[0]["outcome"] == "unparsed"

    def test_doc_goes_before_the_input(self, write, take):
        doc = {
            "question": "What floats?",
            "candidates": ["a swan", "a boat", "a log"],
            "video": "lake.mp4",
            "question_id": "L-7",
        }
        rows = [samples(doc=doc)[0]]
        file = write(self.NAME, rows)
        _, (row,) = take(file)
        assert (row["n_options"], row["video_id"]) == (3, "lake.mp4")
        _, (row,) = take(file, mapping={"question_id": "doc.question_id"})
        assert row["question_id"] == "L-7"

    def test_constant_hash_and_repeats(self, write, take):
        rows = samples(doc_hash="same", resps=[["A", "B"]])
        report, passes = take(write(self.NAME, rows))
        assert report.finding("doc_hash is constant") is not None
        assert [arm.name for arm in report.arms] == ["repeat 1", "repeat 2"]
        assert len(passes) == 4

    def test_results_beside(self, write, take):
        write(
            "20260101_results.json",
            {
                "results": {"lake_mcq": {"acc,none": 0.5, "acc_stderr,none": "N/A"}},
                "n-samples": {"lake_mcq": {"effective": 2}},
            },
        )
        report, _ = take(write(self.NAME, samples()))
        assert report.results == {
            "acc,none": 0.5,
            "acc_stderr,none": None,
            "n-samples": 2.0,
        }

    def test_harness_that_counts_otherwise(self, write, take):
        rows = samples(filtered_resps=["The answer is (B)"], acc=0.0)
        report, _ = take(write(self.NAME, rows))
        found = report.finding("harness score differs")
        assert found.n == report.harness["acc"]["differs"] == 2
        assert found.examples[0] == "0: acc 0, parsed B"

    def test_scores_that_do_not_say_what_is_right(self, write, take):
        more = {"acc": 1.0, "parsed": 0.0, "format_score": 0.0, "gpt_score": 3.0}
        report, _ = take(write(self.NAME, samples(**more)))
        harness = report.harness
        assert [name for name in harness if "differs" in harness[name]] == ["acc"]
        assert harness["parsed"] == {"n": 2, "mean": 0.0}
        assert report.finding("harness score differs").n == harness["acc"]["differs"]
        lines = {
            line.split(":")[0].split()[-1]: line for line in str(report).split("\n")
        }
        assert "compared with the answers parsed here" in lines["acc"]
        for name in ("parsed", "format_score", "gpt_score"):
            assert "not compared" in lines[name]

    def test_score_of_a_dict(self, write, take):
        score = {"question_id": "x", "pred_answer": "B", "answer": "B"}
        report, _ = take(write(self.NAME, samples(videomme_score=score)))
        assert report.harness["videomme_score"]["mean"] == 1.0

    def test_line_without_id(self, write, take):
        file = write(self.NAME, [*samples(), {"target": "A"}])
        with pytest.raises(DatasetError, match=r"line 3: has no doc_id"):
            take(file)


VLM = "index,question,A,B,C,answer,prediction,hit\n"


class TestVlmEvalKit:
    def test_plain(self, write, take):
        text = VLM + "0,What floats?,a boat,a swan,,B,B. a swan,1\n"
        text += "1,Who waves?,Ann,Bob,Cy,C,I am not sure,0\n"
        report, rows = take(write("m_Lake.csv", text))
        assert report.benchmarks == ("Lake",)
        assert [row["n_options"] for row in rows] == [2, 3]
        assert [row["answer"] for row in rows] == [1, None]
        assert rows[1]["outcome"] == "refused"
        assert report.harness["hit"]["differs"] == 0

    @pytest.mark.parametrize("step", [10**6, 10**7])
    def test_circular_copies(self, write, take, step):
        base = 5 if step == 10**6 else 1_500_005
        lines = [
            f"{base},What floats?,boat,swan,log,B,B,1",
            f"{base + step},What floats?,swan,log,boat,A,A,1",
            f"{base + 2 * step},What floats?,log,boat,swan,C,A,0",
        ]
        report, rows = take(write("m_Lake.csv", VLM + "\n".join(lines) + "\n"))
        assert {row["question_id"] for row in rows} == {str(base)}
        assert [row["order"] for row in rows] == [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
        assert [row["answer"] for row in rows] == [1, 1, 2]
        assert {row["gold"] for row in rows} == {1}
        assert (report.finding("circular copies") is None) == (step == 10**6)
        assert not any("order flips" in text for text in report.cannot)

    def test_group_column(self, write, take):
        text = "index,g_index,question,A,B,answer,prediction\n"
        text += "9,3,Q,no,yes,B,B\n3,3,Q,yes,no,A,B\n"
        _, rows = take(write("m_Lake.tsv", text.replace(",", "\t")))
        # The base row, here the second, gives the content order.
        assert [row["order"] for row in rows] == [[0, 1], [1, 0]]
        assert [row["answer"] for row in rows] == [1, 0]
        assert {row["gold"] for row in rows} == {0}

    def test_equal_options_turn_as_one(self, write, take):
        lines = ["1,Q?,red,red,blue,C,C,1", "1000001,Q?,red,blue,red,B,B,1"]
        report, rows = take(write("m_Lake.csv", VLM + "\n".join(lines) + "\n"))
        assert [row["order"] for row in rows] == [[0, 1, 2], [1, 2, 0]]
        assert [row["answer"] for row in rows] == [2, 2]
        assert rows[0]["same_options"] == [0, 0, 2]
        assert report.finding("gold differs") is None

    def test_copies_with_another_gold(self, write, take):
        lines = ["1,Q?,boat,swan,log,B,B,1", "1000001,Q?,swan,log,boat,B,B,1"]
        report, rows = take(write("m_Lake.csv", VLM + "\n".join(lines) + "\n"))
        assert report.finding("gold differs").n == 1
        assert [row["gold"] for row in rows] == [None, None]

    def test_spreadsheet(self, tmp_path, take):
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        book.active.append(["index", "question", "A", "B", "C", "answer", "prediction"])
        book.active.append([1.0, "How many?", 2, 3, None, "A", "2"])
        book.active.append([2, "Who?", "Ann", "Bob", float("nan"), "B", None])
        book.save(tmp_path / "m_Lake.xlsx")
        report, rows = take(tmp_path / "m_Lake.xlsx")
        assert [row["question_id"] for row in rows] == ["1", "2"]
        assert [row["answer"] for row in rows] == [0, None]
        assert [row["n_options"] for row in rows] == [2, 2]
        assert report.arms[0].outcomes["missing"] == 1

    def test_no_spreadsheet(self, tmp_path, take):
        pytest.importorskip("openpyxl")
        (tmp_path / "bad.xlsx").write_bytes(b"PK\x03\x04 no book")
        with pytest.raises(DatasetError, match="cannot be read as a spreadsheet"):
            take(tmp_path / "bad.xlsx")

    def test_candidates_in_one_cell(self, write, take):
        text = "index,question,candidates,answer,prediction\n"
        text += "0,Q?,\"['A. boat', 'B. swan']\",A,A\n"
        _, (row,) = take(write("m_Lake.csv", text))
        assert (row["n_options"], row["answer"]) == (2, 0)

    def test_bad_index(self, write, take):
        file = write("m_Lake.csv", VLM + "x,Q?,a,b,c,A,A,1\n")
        with pytest.raises(DatasetError, match=r"line 2: index must be a whole number"):
            take(file)


class TestBenchmarks:
    def videos(self, lake):
        rows = [
            lake | {"question_id": f"7-{i}", "response": r}
            for i, r in enumerate(["B", "C. a log", "Answer: A. a boat"])
        ]
        return [{"video_id": "7", "duration": "short", "questions": rows}]

    def test_videomme(self, write, take, lake):
        report, rows = take(write("out.json", self.videos(lake)))
        assert report.format.startswith("videomme")
        assert [row["answer"] for row in rows] == [1, 2, 0]
        assert {row["video_id"] for row in rows} == {"7"}
        assert rows[0]["strata"] == {"duration": "short"}

    def test_trailing_commas(self, write, take, lake):
        good = json.dumps(self.videos(lake), indent=1)
        bad = good.replace('"response": "B"\n', '"response": "B",\n').replace(
            "}\n  ]", "},\n  ]"
        )
        assert bad != good
        file = write("out.json", bad)
        with pytest.raises(DatasetError, match=r"line 16, column 4: not JSON: a comma"):
            take(file)
        report, rows = take(file, lenient=True)
        assert [row["answer"] for row in rows] == [1, 2, 0]
        assert "2 commas" in report.finding("repaired JSON").text
        one = good.replace("}\n  ]", "},\n  ]")
        report, _ = take(write("one.json", one), lenient=True)
        said = "1 comma before closing brackets was taken out"
        assert said in report.finding("repaired JSON").text

    def test_lenient_leaves_texts_alone(self, write, take, lake):
        odd = lake | {
            "question": "Is it [a,] or {b, }?",
            "question_id": "1",
            "response": "B",
        }
        text = json.dumps([{"video_id": "v", "questions": [odd]}])
        file = write("out.json", text[:-1] + ",]")
        with pytest.raises(DatasetError, match="1 such in the file"):
            take(file)
        assert take(file, lenient=True)[1][0]["answer"] == 1

    def test_other_faults_stay_faults(self, write, take):
        file = write("out.json", '[{"a": 1,}, {"b" 2}]')
        with pytest.raises(DatasetError, match=r"line 1, column 18: not JSON: Expect"):
            take(file, lenient=True)

    def test_mlvu(self, write, take):
        row = {
            "video": "v.mp4",
            "question": "Q?",
            "candidates": ["x", "y"],
            "answer": "y",
            "question_type": "order",
            "duration": 9,
        }
        file = write("3_order.json", [row | {"pred": "(B) y"}, row | {"pred": "A"}])
        _, rows = take(file)
        assert [row["question_id"] for row in rows] == ["3_order#0", "3_order#1"]
        assert [row["answer"] for row in rows] == [1, 0]
        assert rows[0]["duration_s"] == 9.0

    def test_mlvu_submission(self, write, take):
        rows = [{"question_id": "AR_0", "question_type": "AR", "option": "F"}]
        report, (row,) = take(write("sub.json", rows))
        assert (row["answer"], row["n_options"]) == (5, 6)
        assert report.finding("number of options").n == 1
        assert row["gold"] is None
        assert report.finding("gold missing") is not None

    def test_tempcompass(self, write, take):
        question = "Which way?\nA. up: fast. Then stop.\nB. down"
        value = {
            "v1": {
                "direction": [
                    {
                        "question": question,
                        "answer": "A. up: fast. Then stop.",
                        "prediction": "A",
                    },
                    {
                        "question": "Where to?\nA. down\nB. Up: fast. Then stop",
                        "answer": "B. Up: fast. Then stop",
                        "prediction": "A. down",
                    },
                ]
            },
            "v2": {
                "direction": [
                    {"question": question, "answer": "B. up", "prediction": "B"},
                    {
                        "question": "Is it up?",
                        "answer": "yes",
                        "prediction": "Yes, it is.",
                    },
                ]
            },
        }
        report, rows = take(write("pred.json", value))
        assert [row["question_id"] for row in rows] == [
            "v1/direction/0",
            "v1/direction/1",
            "v2/direction/0",
            "v2/direction/yes_no/1",
        ]
        assert [row["answer"] for row in rows] == [0, 0, 1, 0]
        assert [row["choice"] for row in rows][:2] == ["up: fast. then stop", "down"]
        found = report.finding("gold contradicts itself")
        assert found.n == 1
        assert "'B. up' has the letter of 'down' and another text" in found.examples[0]
        assert rows[2]["gold"] is None

    def test_nextqa(self, write, take):
        head = "video,question,answer,qid,type,a0,a1,a2\n"
        text = head + "00123,why,2,6,CW,x,y,z\n0456,how,0,6,CH,p,q,r\n"
        questions = write("val.csv", text)
        preds = {
            "00123_6": {"prediction": 2, "answer": 2},
            "0456_6": {"prediction": 7, "answer": 0},
        }
        report, rows = take(
            write("pred.json", preds), format="nextqa", questions=questions
        )
        assert [row["video_id"] for row in rows] == ["00123", "0456"]
        assert [row["answer"] for row in rows] == [2, None]
        assert rows[1]["outcome"] == "invalid"
        assert (report.arms[0].right, report.arms[0].with_gold) == (1, 2)

    def test_egoschema(self, write, take):
        uid = "0d173aa3-9a94-4ba4-84bc-949d3254a63d"
        question = {"q_uid": uid, "question": "Why?"} | {
            f"option {k}": text for k, text in enumerate("vwxyz")
        }
        questions = write("questions.json", [question])
        gold = write("subset_answers.json", {uid: 3})
        predictions = write("pred.csv", f"q_uid,answer\n{uid},3\n")
        report, (row,) = take(predictions, questions=questions, gold=gold)
        assert (row["answer"], row["gold"], row["n_options"]) == (3, 3, 5)
        assert report.format.startswith("egoschema")
        said = write("said.json", {uid: {"pred": "D. y", "truth": 3}})
        _, (row,) = take(said, questions=questions)
        assert (row["answer"], row["gold"]) == (3, 3)

    def test_questions_alone_are_no_run(self, write, take, lake):
        file = write(
            "q.json", [{"video_id": "1", "questions": [lake | {"question_id": "1-1"}]}]
        )
        with pytest.raises(DatasetError, match="questions but no predictions"):
            take(file)
        assert len(read_questions(file).questions) == 1


class TestTables:
    def test_wide(self, write, take):
        text = "sample_id,128f,16f,blind,note\nq1,A,B,C,x y\nq2,B,,A,z\n"
        gold = write("gold.json", {"q1": "A", "q2": "B"})
        report, rows = take(write("wide.csv", text), gold=gold, n_options=4)
        assert [arm.name for arm in report.arms] == ["blind", "16f", "128f"]
        assert [arm.budget for arm in report.arms] == [0, 16, 128]
        assert [row["answer"] for row in rows] == [2, 0, 1, None, 0, 1]
        assert {row["n_options"] for row in rows} == {4}
        assert report.finding("number of options") is None

    @pytest.mark.parametrize(
        ("name", "frames"),
        [
            ("8f", 8),
            ("run_32f_151k", 32),
            ("64 frames", 64),
            ("textonly", 0),
            ("text_only_2", 0),
            ("half", None),
            ("b", None),
        ],
    )
    def test_frames_in_names(self, name, frames):
        assert frames_of(name) == frames

    def test_mapping(self, write, take):
        text = "vid,n,said,truth,w,x\nv1,1,second,2,first,second\nv1,2,1,0,aa,bb\n"
        text = text.replace("truth,w,x", "truth,option_0,option_1")
        file = write("log.csv", text)
        with pytest.raises(DatasetError, match="no column that could be the id"):
            take(file, format="csv", mapping={"answer": "said"})
        mapping = {"question_id": "vid+n", "answer": "said", "gold": "truth"}
        report, rows = take(file, format="csv", mapping=mapping)
        assert [row["question_id"] for row in rows] == ["v1_1", "v1_2"]
        assert [row["answer"] for row in rows] == [1, 1]
        assert report.finding("gold not an option").n == 1  # 2 of options 0 and 1
        with pytest.raises(DatasetError, match="is no field"):
            take(file, format="csv", mapping={"reply": "said"})
        with pytest.raises(DatasetError, match="has no column 'reply'"):
            take(file, format="csv", mapping={"answer": "reply"})

    def test_mapped_phases_are_phases(self, write, take):
        rows = [
            {
                "id": "q",
                "options": ["x", "y"],
                "gold": 0,
                "s": s,
                "n": 2,
                "phase": f"{2 * s + 1}/4",
                "lp": [-0.1, -2.4] if s else [-2.4, -0.1],
                "order": order,
            }
            for s in (0, 1)
            for order in ("AB", "BA")
        ]
        mapping = {
            "question_id": "id",
            "phase_index": "s",
            "n_phases": "n",
            "logprobs": "lp",
        }
        report, passes = take(write("p.jsonl", rows), format="csv", mapping=mapping)
        assert {row["arm"] for row in passes} == {"phase"}
        assert [row["phase"] for row in passes] == [[1, 4], [1, 4], [3, 4], [3, 4]]
        assert [row["answer"] for row in passes] == [1, 0, 0, 1]
        assert report.cannot == ("differences between runs: there is one run",)

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("order", "AAB", "order must hold every option once"),
            ("order", "[0, 1]", "order has 2 places"),
            ("phase", "5/4", "phase must be a fraction of a step"),
            ("phase", "x", "phase must be a fraction of a step"),
            ("logprobs", "[0.5, -1, -2]", "must be <= 0"),
            ("logprobs", "[-1, -2]", "3 options and 2 log-prob"),
            ("logprobs", "high", "must be a list of numbers"),
            ("phase_index", "3", "3 is none of 1 phases.*--map n_phases=COLUMN"),
            ("arm", "fusion", "is the name of an arm on a known grid"),
        ],
    )
    def test_bad_values(self, write, take, name, value, message):
        row = {"id": "q", "options": ["x", "y", "z"], "pred": "A", name: value}
        with pytest.raises(DatasetError, match=rf"line 1: .*{message}"):
            take(write("p.jsonl", [row]), format="csv")

    def test_order_sweep(self, write, take):
        head = "question,options,answer,source"
        for k in (0, 1):
            head += f",pos_{k}_options,pos_{k}_response_proba,pos_{k}_response_idx"
            head += f",pos_{k}_response"
        line = "Q?,\"['x', 'y']\",x,made"
        line += ",\"['x', 'y']\",\"[0.6, 0.2]\",0,x"
        line += ",\"['y', 'x']\",\"[0.5, 0.5]\",0,y"
        file = write("sweep.csv", f"{head}\n{line}\n")
        report, rows = take(file)
        assert report.format.startswith("order-sweep")
        assert [row["order"] for row in rows] == [[0, 1], [1, 0]]
        assert [row["answer"] for row in rows] == [0, 1]
        assert np.exp(rows[0]["logprobs"]) == pytest.approx([0.75, 0.25])
        assert rows[1]["maxima"] == [1, 0]
        assert report.finding("distribution does not sum to 1").examples == ("0: 0.8",)
        assert report.finding("tied maximum").n == 1
        with pytest.raises(DatasetError, match=r"sum to 0\.8, not to 1"):
            take(file, strict=True)

    def test_sweep_of_equal_texts(self, write, take):
        head = "options,answer,pos_0_options,pos_0_response_idx,pos_1_options"
        head += ",pos_1_response_idx\n"
        shown = "\"['x', 'x', 'y']\""
        file = write("s.csv", f"{head}{shown},x,{shown},0,{shown},2\n")
        report, rows = take(file)
        assert report.finding("repeated prompt").n == 1
        assert [row["order"] for row in rows] == [[0, 1, 2], [1, 0, 2]]
        assert [row["answer"] for row in rows] == [0, 2]
        assert report.finding("gold repeated").n == 1

    def test_stated_text_and_index_must_agree(self, write, take):
        head = "options,answer,pos_0_options,pos_0_response_idx,pos_0_response\n"
        shown = "\"['x', 'y']\""
        _, (row,) = take(write("s.csv", f"{head}{shown},x,{shown},0,y\n"))
        assert (row["answer"], row["outcome"]) == (None, "unparsed")

    def test_by_id(self, write, take):
        gold = write("gold.csv", "id,answer\n001-1,C\n001-2,A\n")
        report, rows = take(
            write("lake.json", {"001-1": "C", "001-2": "B."}), gold=gold
        )
        assert report.format.startswith("by-id")
        assert [row["question_id"] for row in rows] == ["001-1", "001-2"]
        assert report.arms[0].right == 1

    def test_bad_tables(self, write, take):
        with pytest.raises(
            DatasetError, match=r"line 2: has 3 cells, the header has 2"
        ):
            take(write("t.csv", "id,pred\na,A,B\n"), format="csv")
        with pytest.raises(DatasetError, match="a column name occurs twice"):
            take(write("t.csv", "id,pred,pred\n"), format="csv")
        with pytest.raises(DatasetError, match="is empty"):
            take(write("t.csv", ""), format="csv")


@pytest.mark.parametrize(
    ("name", "value", "form"),
    [
        ("a.jsonl", [{"doc_id": 0, "target": "A"}], "lmms-eval"),
        (
            "a.jsonl",
            [{"custom_id": "1", "response": {"body": {"choices": []}}}],
            "logprobs",
        ),
        ("a.jsonl", [{"q_uid": "u"}], "egoschema"),
        ("a.jsonl", [{"id": "u", "pred": "A"}], "csv"),
        ("a.json", [{"video_id": "1", "questions": []}], "videomme"),
        ("a.json", [{"candidates": ["x"], "answer": "x"}], "mlvu"),
        (
            "a.json",
            [{"question_id": "AR_0", "question_type": "AR", "option": "A"}],
            "mlvu",
        ),
        ("a.json", {"v": {"speed": [{"question": "q"}]}}, "tempcompass"),
        ("a.json", {"4010069381_6": {"prediction": 4, "answer": 0}}, "nextqa"),
        ("a.json", {"0d173aa3-9a94-4ba4-84bc-949d3254a63d": 3}, "egoschema"),
        ("a.json", {"001-1": "C"}, "by-id"),
        ("a.json", {"choices": []}, "logprobs"),
        ("a.csv", "index,question,A,B,answer,prediction\n", "vlmevalkit"),
        ("a.csv", "video,qid,question,a0,a1\n", "nextqa"),
        ("a.csv", "q_uid,answer\n", "egoschema"),
        ("a.csv", "id,8f,16f\nq,A,B\n", "wide"),
        ("a.csv", "pos_0_options,pos_0_response\n", "order-sweep"),
        ("a.tsv", "id\tprediction\nq\tA\n", "csv"),
    ],
)
def test_detection(write, name, value, form):
    found = detect_format(write(name, value))
    assert found.format == form
    assert form in FORMATS
    assert found.reason


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a.json", []),
        ("a.json", [1]),
        ("a.json", 3),
        ("a.json", {"a": [1]}),
        ("a.jsonl", []),
        ("a.txt", "x"),
    ],
)
def test_no_known_form(write, name, value):
    with pytest.raises(DatasetError, match=r"of no known form|result files end in"):
        detect_format(write(name, value))


def test_records_have_keys_of_their_own(write, take, lake):
    """Whatever the form, the records are passes that the run can hold."""
    _, rows = take(write("out.json", TestBenchmarks().videos(lake)))
    assert len({pass_key(row) for row in rows}) == len(rows)
    for row in rows:
        assert row["phase"] is None
        assert (row["phase_index"], row["n_phases"], row["budget"]) == (0, 1, None)
        assert (row["logprobs"], row["path"]) == (None, "generate")
        assert (row["frame_indices"], row["frame_times_s"]) == (None, None)
