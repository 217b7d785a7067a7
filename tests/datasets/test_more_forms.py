"""More published forms of benchmarks, on invented questions of that form."""

import json

from phasefusion import datasets


def read(name, source, **options):
    """Read without videos: those of a form are files that nobody has here."""
    return datasets.read(name, source, missing_videos="keep", **options)


def one(name, row, **options):
    found = read(name, [row], **options)
    assert found.report.read == len(found) == 1
    return found[0]


MLVU_ROW = {
    "video": "movie101_30.mp4",
    "duration": 726,
    "question": "What color?",
    "candidates": ["Blue", "Red", "White", "Green"],
    "answer": "White",
    "question_type": "plotQA",
}


class TestMlvu:
    def test_a_file_a_task(self, tmp_path):
        path = tmp_path / "1_plotQA.json"
        path.write_text(json.dumps([MLVU_ROW, MLVU_ROW | {"answer": "Red"}]))
        found = read("mlvu", path)
        assert [item.question_id for item in found] == ["1_plotQA#0", "1_plotQA#1"]
        assert [item.gold for item in found] == [2, 1]
        assert found[0].type == "plotQA"
        assert found[0].extra == {"duration": 726}
        assert datasets.detect(path) == "mlvu"

    def test_copy_with_the_options_in_the_question(self):
        row = {
            "video_name": "movie101_30.mp4",
            "task_type": "plotQA",
            "question": "What color?\n(A) Blue\n(B) A. Red\n(C) White",
            "answer": "B",
        }
        item = one("mlvu", row, task="plotQA")
        assert item.question == "What color?"
        assert item.options == ("Blue", "A. Red", "White")
        assert (item.gold, item.type) == (1, "plotQA")

    def test_a_number_is_no_index(self):
        numbers = MLVU_ROW | {"candidates": ["6", "7", "3", "9"], "answer": "3"}
        assert one("mlvu", numbers).gold == 2
        found = read("mlvu", [numbers | {"answer": "1"}])
        assert found[0].gold is None

    def test_submission_rows(self):
        row = MLVU_ROW | {"question_id": "AR_0", "candidates": list("uvwxyz")}
        del row["answer"]
        item = one("mlvu", row)
        assert (item.question_id, len(item.options), item.gold) == ("AR_0", 6, None)


TEMPCOMPASS_CHOICE = {
    "question": "What?\nA. run. fast\nB. a: b\nC. hop",
    "answer": "B. a: b",
}
TEMPCOMPASS_YES = {"question": "Is it so?", "answer": "yes"}
TEMPCOMPASS_CAPTION = {
    "question": "Which is it?\nOption 1: He runs.\nOption 2: He hops.",
    "answer": "Option 2: He hops.",
}
TEMPCOMPASS_SENTENCE = {
    "question": "Which one?\nSentence A: He runs.\nSentence B: He hops.",
    "answer": "Sentence A: He runs.",
}


class TestTempCompass:
    def test_nested(self, tmp_path):
        data = {
            "103": {
                "action": [TEMPCOMPASS_CHOICE, TEMPCOMPASS_CHOICE],
                "speed": [TEMPCOMPASS_CHOICE],
            },
            "103_reverse": {"action": [TEMPCOMPASS_CHOICE]},
        }
        path = tmp_path / "multi-choice.json"
        path.write_text(json.dumps(data))
        assert datasets.detect(path) == "tempcompass"
        found = read("tempcompass", path)
        assert [item.question_id for item in found] == [
            "103/action/0",
            "103/action/1",
            "103/speed/0",
            "103_reverse/action/0",
        ]
        first = found[0]
        assert first.question == "What?"
        assert first.options == ("run. fast", "a: b", "hop")
        assert (first.gold, first.type, first.video_id) == (1, "action", "103")

    def test_kinds_of_task_have_ids_of_their_own(self):
        rows = [
            TEMPCOMPASS_CHOICE,
            TEMPCOMPASS_YES,
            TEMPCOMPASS_CAPTION,
            TEMPCOMPASS_SENTENCE,
        ]
        found = read("tempcompass", {"7": {"order": rows}})
        assert [item.question_id for item in found] == [
            "7/order/0",
            "7/order/yes_no/1",
            "7/order/caption_matching/2",
            "7/order/caption_matching/3",
        ]
        assert [item.options for item in found[1:]] == [
            ("yes", "no"),
            ("He runs.", "He hops."),
            ("He runs.", "He hops."),
        ]
        assert [item.gold for item in found] == [1, 0, 1, 0]

    def test_flat_rows(self):
        rows = [
            TEMPCOMPASS_CHOICE | {"video_id": "7", "dim": "order"} for _ in range(2)
        ]
        found = read("tempcompass", rows)
        assert [item.question_id for item in found] == ["7/order/0", "7/order/1"]
        rows.insert(1, TEMPCOMPASS_YES | {"video_id": "7", "dim": "order"})
        mixed = [item.question_id for item in read("tempcompass", rows)]
        assert mixed == ["7/order/0", "7/order/yes_no/0", "7/order/1"]

    def test_letter_and_text_must_agree(self):
        rows = [TEMPCOMPASS_CHOICE | {"answer": "A. hop"}, TEMPCOMPASS_CHOICE]
        found = read("tempcompass", {"7": {"order": rows}})
        assert [item.gold for item in found] == [None, 1]
        (problem,) = found.report.unusable_gold
        assert problem.question_id == "7/order/0"
        assert problem.kind == "gold contradicts itself"

    def test_captions_have_no_options(self):
        caption = {"question": "Describe it.", "answer": "", "mc_question": "What?"}
        found = read("tempcompass", {"7": {"order": [caption, TEMPCOMPASS_CHOICE]}})
        assert (
            found.report.left_out[0].reason == "asks for a caption, and has no options"
        )


PERCEPTION_QUESTION = {
    "id": 0,
    "question": "Is it open?",
    "options": ["yes", "no", "cannot tell"],
    "answer_id": 2,
    "area": "physics",
    "reasoning": "descriptive",
    "tag": ["state", "place"],
}


class TestPerceptionTest:
    def test_ids_are_unique_within_a_video_only(self, tmp_path):
        video = {"metadata": {"frame_rate": 30.0}, "mc_question": [PERCEPTION_QUESTION]}
        path = tmp_path / "mc_question_valid.json"
        path.write_text(json.dumps({"video_1": video, "video_2": video}))
        assert datasets.detect(path) == "perceptiontest"
        found = read("Perception Test", path)
        assert [item.question_id for item in found] == ["video_1_0", "video_2_0"]
        item = found[0]
        assert (item.gold, item.type, item.video_id) == (2, "physics", "video_1")
        assert item.strata == {"area": "physics", "reasoning": "descriptive"}
        assert item.extra["tag"] == ["state", "place"]
        assert item.extra["metadata"] == {"frame_rate": 30.0}

    def test_hub_rows(self):
        row = PERCEPTION_QUESTION | {"video_name": "video_9", "answer_id": "1"}
        row["question_id"] = row.pop("id")
        item = one("perceptiontest", row)
        assert (item.question_id, item.gold) == ("video_9_0", 1)
        assert one("perceptiontest", row | {"answer_id": None}).gold is None


STAR_ROW = {
    "question_id": "Interaction_T1_4",
    "question": "Which object was tidied up?",
    "answer": "The clothes.",
    "video_id": "6H78U",
    "start": 11.1,
    "end": 19.0,
    "choices": [
        {"choice_id": 3, "choice": "The table."},
        {"choice_id": 0, "choice": "The closet."},
        {"choice_id": 2, "choice": "The clothes."},
        {"choice_id": 1, "choice": "The blanket."},
    ],
    "situations": {"000012": {"bbox": [1, 2]}},
}


class TestStar:
    def test_choices_count_by_their_ids(self):
        item = one("star", STAR_ROW)
        assert item.options == (
            "The closet.",
            "The blanket.",
            "The clothes.",
            "The table.",
        )
        assert (item.gold, item.type) == (2, "Interaction")
        assert (item.start, item.end) == (11.1, 19.0)
        assert "situations" not in item.extra

    def test_a_clip_that_was_cut_has_no_bounds(self, tmp_path):
        (tmp_path / "6H78U.mp4").write_bytes(b"")
        bounded = datasets.read("star", [STAR_ROW], videos=tmp_path)[0]
        assert bounded.video == str(tmp_path / "6H78U.mp4")
        (tmp_path / "6H78U_11.1_19.mp4").write_bytes(b"")
        cut = datasets.read("star", [STAR_ROW], videos=tmp_path)[0]
        assert cut.video == str(tmp_path / "6H78U_11.1_19.mp4")
        assert cut.start is cut.end is None
        assert cut.video_id == bounded.video_id == "6H78U"

    def test_a_table_with_the_bounds_in_the_name(self, tmp_path):
        path = tmp_path / "star.csv"
        path.write_text(
            ",video_name,question,answer_number,question_id,question_type,"
            "a0,a1,a2,a3,answer\n"
            "1,6H78U_11.1_19.6,Which?,2,Feasibility_T6_4,Feasibility_T6,"
            "The bed.,The bag.,The box.,The cup.,The box.\n"
        )
        assert datasets.detect(path) == "star"
        (item,) = read("star", path)
        assert (item.video_id, item.start, item.end) == ("6H78U", 11.1, 19.6)
        assert (item.gold, item.type) == (2, "Feasibility")
        assert item.strata == {"question_type": "Feasibility_T6"}


PLAIN_ROW = {
    "question_id": 7,
    "video": "clip.mp4",
    "question": "What?",
    "options": ["A. cat", "B. dog"],
    "answer": "B. dog",
    "strata": {"length": "short", "n": 3},
    "start_frame": 50,
    "end_frame": 100,
    "fps": 25,
}


class TestPlain:
    def test_rows(self):
        item = one("plain", PLAIN_ROW)
        assert (item.question_id, item.gold) == ("7", 1)
        assert item.strata == {"length": "short", "n": "3"}
        assert (item.start, item.end) == (2.0, 4.0)

    def test_what_load_questions_refuses_is_left_out(self):
        rows = [PLAIN_ROW, PLAIN_ROW | {"question_id": 8, "options": ["x", " "]}]
        found = read("plain", rows)
        assert [one.question_id for one in found.report.left_out] == ["8"]

    def test_numbered_options_begin_with_0_or_1(self):
        row = {k: v for k, v in PLAIN_ROW.items() if k != "options"} | {"answer": "B"}
        first = {"option_1": "cat", "option_2": "dog", "option_3": "ape"}
        assert one("plain", row | first).options == ("cat", "dog", "ape")
        assert one("plain", row | first).gold == 1
        lacking = row | {"option_2": "dog", "option_3": "ape"}
        found = read("plain", [row | first, lacking | {"question_id": 9}])
        assert found.report.left_out[0].kind == "empty option"

    def test_both_ways_give_the_same_items(self, tmp_path):
        (tmp_path / "clip.mp4").write_bytes(b"")
        path = tmp_path / "set.json"
        path.write_text(json.dumps([PLAIN_ROW]))
        (other,) = datasets.load_questions(path)
        assert datasets.load("auto", path) == [other]
        assert (other.start, other.strata["n"]) == (2.0, "3")
