"""Questions have the same ids, options and gold in datasets as in imported runs."""

import json

import pytest

from phasefusion import datasets
from phasefusion.importers import read_questions

UID = "0a1b2c3d-0000-4000-8000-000000000001"
HEAD = "video,frame_count,width,height,question,answer,qid,type,a0,a1,a2,prediction\n"
MULTI = {"question": "What?\nA. run\nB. hop", "answer": "B. hop", "prediction": "A"}
CAPTION = {
    "question": "Which?\nOption 1: He runs.\nOption 2: He hops.",
    "answer": "Option 1: He runs.",
    "prediction": "Option 2",
}
YES = {"question": "Is it?", "answer": "yes", "prediction": "no"}
QUESTION = {
    "question_id": "001-1",
    "task_type": "Counting",
    "question": "How many?",
    "options": ["A. 1.", "B. 2.", "C. 3.", "D. 4."],
    "answer": "C",
    "response": "A",
}
FILES = {
    "tempcompass": ("multi.json", {"7": {"order": [MULTI, MULTI], "speed": [MULTI]}}),
    "tempcompass yes": ("yes.json", {"7": {"order": [YES, YES]}}),
    "tempcompass caption": ("caption.json", {"7": {"order": [CAPTION]}}),
    "nextqa": ("val.csv", HEAD + "401,9,4,4,what,1,6,CH,x,y,z,0\n"),
    "videomme": ("v.json", [{"video_id": "001", "questions": [QUESTION]}]),
    "mlvu": (
        "1_plotQA.json",
        [
            {
                "video": "m.mp4",
                "duration": 7,
                "question": "What?",
                "candidates": ["3", "1", "2", "4"],
                "answer": "2",
                "question_type": "plotQA",
                "pred": "B",
            }
        ],
    ),
    "egoschema": (
        "q.json",
        [
            {
                "q_uid": UID,
                "question": "What?",
                "option 0": "x",
                "option 1": "y",
                "answer": "1",
                "prediction": "0",
            }
        ],
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_both_readers_agree(tmp_path, name):
    file, content = FILES[name]
    path = tmp_path / file
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    found = datasets.read(name.split()[0], path, missing_videos="keep")
    imported = read_questions(path).questions
    assert [
        (item.benchmark, item.question_id, item.options, item.golds, item.type)
        for item in found
    ] == [
        (one.benchmark, one.question_id, one.options, one.gold, one.type)
        for one in imported
    ]
    assert [item.video_id for item in found] == [
        datasets_stem(one.video_id) for one in imported
    ]


def datasets_stem(name):
    """Clusters of a video are named without the ending of its file."""
    return name.removesuffix(".mp4")
