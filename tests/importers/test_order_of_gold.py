"""Numbers that files could quietly get wrong: copies, gold, letters, gaps."""

import pytest

from phasefusion.datasets import read
from phasefusion.errors import DatasetError

VLM = "index,question,A,B,C,answer,prediction\n"
BASE = "{},Q{}?,boat,swan,log,B,B\n"
COPY = "{},Q{}?,swan,log,boat,A,A\n"


def copies(*indices, step=10**6):
    rows = [(COPY if i >= step else BASE).format(i, i % step) for i in indices]
    return VLM + "".join(rows)


class TestCircularCopies:
    @pytest.mark.parametrize("step", [10**6, 10**8])
    def test_without_a_base_row(self, write, take, step):
        text = copies(0, 1, 3, *(step + i for i in range(4)), step=step)
        report, rows = take(write("m_Lake.csv", text))
        assert report.questions == 4
        assert {row["question_id"] for row in rows} == {"0", "1", "2", "3"}
        by_id = [row["order"] for row in rows if row["question_id"] == "1"]
        assert by_id == [[0, 1, 2], [1, 2, 0]]
        # Of question 2 the copy alone is there, which gives the content order.
        (only,) = [row for row in rows if row["question_id"] == "2"]
        assert (only["order"], only["gold"], only["answer"]) == ([0, 1, 2], 0, 0)

    def test_a_copy_between_is_missing(self, write, take):
        text = copies(0, 1, 10**6, 10**6 + 1) + "2000000,Q0?,log,boat,swan,C,C\n"
        report, rows = take(write("m_Lake.csv", text.replace("1000000,Q0", "9,Q9")))
        assert report.questions == 3
        assert {row["order"][0] for row in rows} == {0, 1, 2}

    def test_large_indices_of_no_copies(self, write, take):
        text = VLM + BASE.format(0, 0) + BASE.format(5_000_003, 7)
        report, rows = take(write("m_Lake.csv", text))
        assert {row["question_id"] for row in rows} == {"0", "5000003"}
        assert report.finding("large index").examples == ("5000003",)

    def test_copies_that_fit_no_distance(self, write, take):
        text = copies(0, 1, 10**6) + COPY.format(10**6 + 1, 5)
        with pytest.raises(DatasetError, match="index 0 and 1000000 ask one question"):
            take(write("m_Lake.csv", text))


ROW = {"id": "q", "question": "Q?", "options": ["cat", "dog"], "prediction": "B"}


class TestGoldFile:
    def gold(self, **more):
        return [{"id": "q", "options": ["dog", "cat"], "answer": "A"} | more]

    @pytest.mark.parametrize("answer", ["A", 0, "dog", "A. dog"])
    def test_counts_in_its_own_order(self, write, take, answer):
        gold = write("gold.json", self.gold(answer=answer))
        _, (row,) = take(write("log.jsonl", [ROW]), gold=gold)
        assert (row["gold"], row["answer"]) == (1, 1)

    def test_contradicts_itself(self, write, take):
        # In the order of the results the letter and the text would agree.
        gold = write("gold.json", self.gold(answer="A. cat"))
        report, (row,) = take(write("log.jsonl", [ROW]), gold=gold)
        assert row["gold"] is None
        assert report.finding("gold contradicts itself").n == 1

    def test_of_another_question(self, write, take):
        gold = write("gold.json", self.gold(options=["cow", "cat"]))
        with pytest.raises(DatasetError, match="another text, video or options"):
            take(write("log.jsonl", [ROW]), gold=gold)

    def test_of_a_dataset(self, write):
        row = {"question_id": "q", "video": "v.mp4", "question": "Q?"}
        rows = [row | {"options": ["cat", "dog"]}]
        gold = write("gold.json", self.gold())
        (item,) = read("plain", rows, gold=gold, missing_videos="keep")
        assert item.options[item.gold] == "dog"

    def test_of_a_copy(self, write, take):
        rows = [ROW, ROW | {"options": ["dog", "cat"], "gold": "A"}]
        _, made = take(write("log.jsonl", rows))
        assert [row["gold"] for row in made] == [1, 1]
        assert [row["answer"] for row in made] == [1, 0]

    def test_of_a_copy_with_letters(self, write, take):
        questions = [{"id": "q", "question": "Q?", "options": ["A. cat", "B. dog"]}]
        file = write("log.jsonl", [ROW | {"gold": "B"}])
        _, (row,) = take(file, questions=write("q.json", questions))
        assert row["gold"] == 1

    def test_of_statements_in_two_orders(self, write, take):
        again = {"id": "q", "options": ["cat", "dog"], "answer": "B"}
        file = write("log.jsonl", [ROW])
        _, (row,) = take(file, gold=write("g.json", [*self.gold(), again]))
        assert row["gold"] == 1
        with pytest.raises(DatasetError, match="the gold of 'q' is 'A'"):
            take(file, gold=write("g.json", [*self.gold(), again | {"answer": "A"}]))


class TestBenchmarksOfGold:
    def logs(self, write):
        row = {"target": None, "input": "Q?\nA. x\nB. y"}
        return [
            write(
                f"1_samples_{task}.jsonl",
                [row | {"doc_id": i, "filtered_resps": ["A"]} for i in range(3)],
            )
            for task in ("lake", "sea")
        ]

    def test_ids_alone_are_of_one_benchmark(self, write, take):
        logs = self.logs(write)
        gold = write("gold.json", {"0": "A", "1": "B", "2": "A"})
        with pytest.raises(DatasetError, match=r"of several: lake, sea; read one"):
            take(logs, gold=gold)
        _, rows = take(logs[:1], gold=gold)
        assert [row["gold"] for row in rows] == [0, 1, 0]

    def test_gold_that_names_them(self, write, take):
        gold = "benchmark,id,answer\nlake,0,A\nsea,0,B\nlake,1,B\n"
        report, rows = take(self.logs(write), gold=write("gold.csv", gold))
        found = {(r["benchmark"], r["question_id"]): r["gold"] for r in rows}
        assert (found["lake", "0"], found["sea", "0"]) == (0, 1)
        assert (found["lake", "1"], found["sea", "1"]) == (1, None)
        assert report.finding("id without gold").n == 3

    def test_ids_of_other_benchmarks_are_not_taken(self, write, take):
        gold = write("gold.csv", "benchmark,id,answer\nlake,0,A\nsea,1,B\n")
        _, rows = take(self.logs(write)[:1], gold=gold)
        assert [row["gold"] for row in rows] == [0, None, None]

    def test_of_a_dataset(self, write):
        row = {"question_id": "q", "video": "v.mp4", "question": "Q?"}
        rows = [row | {"options": ["x", "y"], "benchmark": name} for name in "ab"]
        with pytest.raises(DatasetError, match="of several: a, b"):
            read("plain", rows, gold={"q": "B"}, missing_videos="keep")


def test_options_lettered_out_of_order(write, take):
    good = {"id": "a", "options": ["x", "y", "z"], "prediction": "A"}
    bad = good | {"id": "b", "options": ["A. a", "C. c", "B. b"], "gold": "B"}
    report, rows = take(write("log.jsonl", [good, bad]))
    assert [row["question_id"] for row in rows] == ["a"]
    assert "the letters A, C, B" in report.finding("unusable question").examples[0]


class TestGaps:
    def check(self, report, row):
        assert row["n_options"] == 3
        assert (row["gold"], row["answer"]) == (1, 2)
        assert report.finding("empty option").examples == ("q: B",)

    @pytest.mark.parametrize(
        "names", [("option_0", "option_1", "option_2"), ("a1", "a2", "a3"), (*"ABC",)]
    )
    @pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
    def test_a_gap_is_an_empty_option(self, write, take, names, suffix):
        values = dict(zip(names, ["ape", "", "cat"], strict=True))
        row = {"id": "q"} | values | {"gold": "B", "prediction": "C"}
        if suffix == ".jsonl":
            file = write("log.jsonl", [row])
        else:
            text = ",".join(row) + "\n" + ",".join(row.values()) + "\n"
            file = write("log.csv", text)
        report, (made,) = take(file)
        self.check(report, made)

    def test_a_letter_that_is_absent(self, write, take):
        row = {"id": "q", "A": "ape", "C": "cat", "gold": "B", "prediction": "C"}
        report, (made,) = take(write("log.jsonl", [row | {"Q": "?"}]))
        self.check(report, made)

    def test_choices_by_their_ids(self, write, take):
        choices = [{"choice_id": 2, "choice": "cat"}, {"choice_id": 0, "choice": "ape"}]
        row = {"id": "q", "choices": choices, "gold": "B", "prediction": "C"}
        report, (made,) = take(write("log.jsonl", [row]))
        self.check(report, made)

    def test_the_first_is_empty(self, write):
        text = "question_id,video,question,a0,a1,a2,answer\nq,v,?,,ape,cat,1\n"
        text += "r,v,?,cow,ape,cat,1\n"
        found = read("plain", write("q.csv", text), missing_videos="keep")
        assert [item.question_id for item in found] == ["r"]
        assert found.report.left_out[0].kind == "empty option"


class TestDigits:
    """A number is a position in every file of predictions, and a text is a text."""

    OPTIONS = ("x", "y", "z")

    def files(self, write, said):
        row = {"question": "Q?", "options": [*self.OPTIONS], "gold": 0}
        videomme = {"video_id": "v", "questions": [row | {"question_id": "q"}]}
        videomme["questions"][0] |= {"response": said}
        mlvu = {"question_type": "t", "candidates": [*self.OPTIONS], "question": "Q?"}
        nested = "Q?\n" + "\n".join(
            f"{letter}. {text}"
            for letter, text in zip("ABC", self.OPTIONS, strict=True)
        )
        tempcompass = {"v": {"d": [{"question": nested, "prediction": said}]}}
        return {
            "csv": [row | {"id": "q", "prediction": said}],
            "videomme": [videomme],
            "mlvu": [mlvu | {"question_id": "q", "prediction": said}],
            "tempcompass": tempcompass,
            "by-id": {"q": said},
            "egoschema": {"q": said},
        }

    @pytest.mark.parametrize("said", ["2", 2, " 2 "])
    def test_is_a_position(self, write, take, said):
        for form, value in self.files(write, said).items():
            file = write(f"{form}.json", value)
            _, (row,) = take(file, format=form, n_options=3)
            assert (row["answer"], row["rule"]) == (2, "index"), form

    def test_of_the_text_of_an_option(self, write, take):
        self.OPTIONS = ("1", "2", "3")
        files = self.files(write, "2")
        for form in ("csv", "videomme", "mlvu", "tempcompass"):
            _, (row,) = take(write(f"{form}.json", files[form]), format=form)
            assert (row["answer"], row["rule"]) == (1, "text"), form
        row = {"id": "q", "question": "Q?", "options": [*self.OPTIONS]}
        _, (made,) = take(
            write("by.json", files["by-id"]), questions=write("q.json", [row])
        )
        assert (made["answer"], made["rule"]) == (1, "text")

    def test_of_a_model_is_no_answer(self, write, take):
        text = VLM + "0,Q?,a,b,c,B,2\n"
        _, (row,) = take(write("m_Lake.csv", text))
        assert row["outcome"] == "unparsed"
