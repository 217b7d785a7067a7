"""Real question files are read with the counts that are known of them.

Run with PHASEFUSION_SHARED naming the folder that has ``cases``; the files may not be
shipped. What they test is tested on invented files of the same forms everywhere else.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

from phasefusion import datasets
from phasefusion.errors import DatasetError, DatasetWarning

SHARED = os.environ.get("PHASEFUSION_SHARED")
pytestmark = pytest.mark.skipif(
    SHARED is None, reason="PHASEFUSION_SHARED is not set: no real question files"
)
CASES = Path(SHARED or ".") / "cases"


def read(name, path, **options):
    found = datasets.read(name, CASES / path, missing_videos="keep", **options)
    assert found.report.read == found.report.kept + len(found.report.left_out)
    return found


def by_id(found):
    return {item.question_id: item for item in found}


def test_videomme():
    path = "01-videomme-official-json/output_videomme.json"
    found = read("videomme", path)
    assert datasets.detect(CASES / path) == "videomme"
    assert (found.report.read, found.report.kept, found.report.with_gold) == (72,) * 3
    assert len({item.video_id for item in found}) == found.report.videos == 24
    lengths = Counter(item.strata["duration"] for item in found)
    assert lengths == {"short": 36, "medium": 18, "long": 18}
    items = by_id(found)
    assert items["001-1"].gold == 2
    assert items["001-1"].options[0] == "Apples."
    assert items["001-3"].options == ("1.", "4.", "2.", "3.")
    right = sum("ABCD".index(item.extra["response"]) == item.gold for item in found)
    assert right == 36


def test_videomme_template():
    path = "01-videomme-official-json/output_test_template.json"
    with pytest.raises(DatasetError, match="line 20, column 13: not JSON"):
        read("videomme", path)
    found = read("videomme", path, lenient=True)
    assert len(found) == 9
    assert found.report.finding("repaired JSON") is not None


def test_gold_of_its_own_file_that_is_of_other_questions():
    gold = CASES / "02-framebudget-flips-qwen3vl/gold.json"
    path = "01-videomme-official-json/output_videomme.json"
    own = by_id(read("videomme", path))
    joined = read("videomme", path, gold=gold)
    assert len(joined) == 72
    assert [item.gold for item in joined] == [own[i.question_id].gold for i in joined]
    assert joined.report.finding("gold without question").n > 700


def test_tempcompass():
    path = "05-tempcompass-embedded-options/questions.json"
    found = read("tempcompass", path)
    assert datasets.detect(CASES / path) == "tempcompass"
    assert (found.report.kept, found.report.with_gold) == (400, 400)
    assert found.report.is_clean
    assert Counter(len(item.options) for item in found) == {3: 222, 4: 178}
    assert found.report.videos == 60
    first = by_id(found)["1034419625/action/1"]
    assert first.options[first.gold] == "dunking a basketball"


@pytest.mark.parametrize(
    ("model", "right"), [("video-llava", 223), ("gemini", 277), ("reka-flash", 267)]
)
def test_tempcompass_predictions_join_with_the_items(model, right):
    from phasefusion.answers import parse_answer

    folder = "05-tempcompass-embedded-options"
    items = by_id(read("tempcompass", f"{folder}/questions.json"))
    said = read("tempcompass", f"{folder}/predictions_{model}.json")
    hits = 0
    for item in said:
        text = item.extra["prediction"]
        parsed = parse_answer(text, items[item.question_id].options)
        hits += parsed.answer == items[item.question_id].gold
    assert hits == right


def test_nextqa():
    path = "07-nextqa-composite-ids/val_700.csv"
    found = read("nextqa", path)
    assert datasets.detect(CASES / path) == "nextqa"
    assert (found.report.kept, found.report.with_gold) == (702, 702)
    assert len({item.question_id for item in found}) == 702
    assert len({item.question_id.rpartition("_")[2] for item in found}) == 13
    types = Counter(item.type for item in found)
    assert types["CW"] == 271
    assert types["TP"] == 10
    assert found.report.finding("repeated option").n == 3
    gold = CASES / "07-nextqa-composite-ids/HGA_val_700.json"
    assert [i.gold for i in read("nextqa", path, gold=gold)] == [i.gold for i in found]


def test_repeated_options_of_nextqa():
    path = "09-duplicate-and-missing-gold-options/nextqa_dup.csv"
    items = by_id(read("nextqa", path))
    assert items["5256928210_7"].same_options == (0, 1, 2, 3, 0)
    assert items["5256928210_7"].golds == (1,)


def test_repeated_options_of_egoschema():
    path = "09-duplicate-and-missing-gold-options/egoschema_dup.jsonl"
    found = read("egoschema", path)
    assert len(found) == 1
    assert found.report.finding("repeated option").n == 1
    assert found[0].gold is not None


def test_dirty_mlvu():
    found = read("mlvu", "09-duplicate-and-missing-gold-options/mlvu_dirty.json")
    report = found.report
    assert (report.read, report.kept, report.with_gold) == (18, 16, 14)
    assert [(one.question_id, one.kind) for one in report.left_out] == [
        ("MLVU/1_plotQA.json#23", "empty option"),
        ("MLVU/7_topic_reasoning.json#26", "empty question"),
    ]
    assert [one.question_id for one in report.unusable_gold] == [
        "MLVU/2_needle.json#34",
        "MLVU/2_needle.json#338",
    ]
    assert "'Catching the drone', which was not taken" in report.unusable_gold[0].reason
    several = {item.question_id for item in found if len(item.golds) > 1}
    assert several == {
        "MLVU/1_plotQA.json#335",
        "MLVU/1_plotQA.json#387",
        "MLVU/1_plotQA.json#493",
        "MLVU/6_anomaly_reco.json#66",
        "MLVU/7_topic_reasoning.json#163",
    }
    assert by_id(found)["MLVU/1_plotQA.json#335"].golds == (1, 2)


def test_load_questions_tells_them_by_their_fields():
    path = CASES / "09-duplicate-and-missing-gold-options/mlvu_dirty.json"
    with pytest.warns(DatasetWarning, match="18 questions read, 16 kept, 14 with gold"):
        items = datasets.load_questions(path, check_videos=False)
    assert len(items) == 16
    with pytest.raises(DatasetError, match="16 videos of MLVU are missing"):
        datasets.load_questions(path)
