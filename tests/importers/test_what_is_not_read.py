"""What is left unread is said: filtered responses, failed requests, score columns."""

import pytest

from phasefusion.errors import DatasetError
from phasefusion.importers import detect_format, import_run

TASK = "x_samples_lake.jsonl"
INPUT = "What floats?\nA. a boat\nB. a swan\nC. a log\nAnswer:"


def sample(doc_id=0, **row):
    return {"doc_id": doc_id, "target": "B", "input": INPUT} | row


class TestFilteredResponses:
    def test_the_text_of_the_model_goes_first(self, write, take):
        rows = [
            sample(0, resps=[["It is (B)."]], filtered_resps=["B"]),
            sample(1, resps=[["I think (B) or (C)."]], filtered_resps=["C"]),
            sample(2, resps=[["The answer is A"]], filtered_resps=["C"]),
            sample(3, resps=[["C"]], filtered_resps=["C"]),
        ]
        report, passes = take(write(TASK, rows))
        assert [row["answer"] for row in passes] == [1, None, 0, 2]
        assert report.finding("filtered response not used").n == 3
        differs = report.finding("filtered response differs")
        assert differs.n == 2
        assert differs.examples == ("1: C, the text none", "2: C, the text A")
        assert "filtered" not in passes[3]

    @pytest.mark.parametrize("resps", [None, [], [[]], [[""]]])
    def test_it_is_read_where_there_is_no_text(self, write, take, resps):
        report, (row,) = take(write(TASK, [sample(resps=resps, filtered_resps=["B"])]))
        assert (row["answer"], row["text"]) == (1, "B")
        assert report.finding("filtered response not used") is None

    def test_nesting_alone_is_no_difference(self, write, take):
        rows = [sample(resps=[["B"]], filtered_resps=["B"])]
        report, (row,) = take(write(TASK, rows))
        assert "filtered" not in row
        assert report.finding("filtered response not used") is None


def batch(name, content=None, *, status=200, error=None, body=None):
    if content is not None:
        body = {"choices": [{"index": 0, "message": {"content": content}}]}
    response = None if body is None else {"status_code": status, "body": body}
    return {"id": "b", "custom_id": name, "response": response, "error": error}


class TestFailedRequests:
    @pytest.mark.parametrize(
        ("row", "reason"),
        [
            (
                batch("q1", status=500, body={"error": {"message": "the server fell"}}),
                "the server fell (status 500)",
            ),
            (
                batch(
                    "q1", status=400, body={"object": "error", "message": "too long"}
                ),
                "too long (status 400)",
            ),
            (batch("q1", error={"code": "batch_expired", "message": "late"}), "late"),
            (batch("q1", error={"code": "batch_expired"}), "batch_expired"),
            (batch("q1", error="gone"), "gone"),
            (batch("q1", status=429, body={}), "status 429"),
            (batch("q1"), "no reason given"),
        ],
    )
    @pytest.mark.parametrize("first", [True, False])
    def test_they_are_missing_with_the_reason(self, write, take, row, reason, first):
        rows = [row, batch("q2", "B")]
        file = write("out.jsonl", rows if first else rows[::-1])
        assert detect_format(file).format == "logprobs"
        report, passes = take(file)
        of = {one["question_id"]: one for one in passes}
        assert of["q1"]["invalid"] == f"missing: request failed: {reason}"
        assert of["q1"]["outcome"] == "missing"
        assert of["q2"]["answer"] == 1
        (arm,) = report.arms
        assert (arm.outcomes["parsed"], arm.outcomes["missing"]) == (1, 1)

    def test_lists_of_them(self, write, take):
        rows = [batch("q1", error={"message": "late"}), batch("q2", "B")]
        report, _ = take(write("out.json", rows))
        assert report.format.startswith("logprobs")

    def test_a_refusal_of_the_server_is_one(self, write, take):
        body = {"choices": [{"message": {"content": None, "refusal": "I can't help."}}]}
        _, passes = take(write("o.jsonl", [batch("q1", body=body), batch("q2", "B")]))
        assert passes[0]["outcome"] == "refused"
        assert passes[0]["text"] == "I can't help."


class TestTablesOfRuns:
    @pytest.mark.parametrize(
        ("head", "cells"),
        [
            ("question_id,8f,16f", "A,B"),
            ("question_id,8f", "A"),
            ("question_id,8f,16f", "The answer is A,(B)"),
            ("question_id,accuracy,8f,16f", "0.5,A,B"),
            ("question_id,answer,8f", "B,A"),
        ],
    )
    def test_they_are_wide(self, write, head, cells):
        file = write("a.csv", f"{head}\nq1,{cells}\nq2,{cells}\n")
        found = detect_format(file)
        assert found.format == "wide"
        assert "8f" in found.reason
        assert "accuracy" not in found.reason

    @pytest.mark.parametrize("cells", ["1,0", "0.25,0.5", "1,"])
    @pytest.mark.parametrize("form", ["auto", "wide"])
    def test_scores_are_no_answers(self, write, tmp_path, cells, form):
        file = write("a.csv", f"question_id,8f,16f\nq1,{cells}\nq2,{cells}\n")
        with pytest.raises(
            DatasetError, match=r"8f.* hold numbers.*format wide.*letter"
        ):
            import_run(file, out=tmp_path / "out", format=form)

    def test_a_table_without_predictions_names_the_ways(self, write, tmp_path):
        file = write("a.csv", "question_id,answer,said\nq1,A,it is B\n")
        with pytest.raises(DatasetError, match=r"--map answer=COLUMN.*wide.*said"):
            import_run(file, out=tmp_path / "out")
        with pytest.raises(
            DatasetError, match=r"no column holds .*--map answer=COLUMN"
        ):
            import_run(file, out=tmp_path / "out", format="wide")

    def test_runs_beside_a_prediction_are_named(self, write):
        file = write("a.csv", "question_id,8f,16f,prediction\nq1,A,B,A\n")
        found = detect_format(file)
        assert (found.format, "8f, 16f may be runs" in found.reason) == ("csv", True)
