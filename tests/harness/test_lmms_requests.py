"""Requests of lmms-eval, read; nothing here needs lmms-eval."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from phasefusion import tinyvlm
from phasefusion.datasets import load_questions
from phasefusion.errors import DatasetError
from phasefusion.harness.knobs import Knobs
from phasefusion.harness.lmms_requests import read_request, repeated_ids
from phasefusion.harness.session import Session

VIDEOS = sorted({item.video for item in load_questions(tinyvlm.questions_path())})
DOCS = [
    {"question_id": name, "options": ["x", "y"], "answer": "A", "video": video}
    for name, video in zip(["1", "0", "0", "#1", "", "5"], VIDEOS, strict=False)
]


def messages(doc):
    text = {"type": "text", "text": "Q?\nA. x\nB. y\n"}
    video = {"type": "video", "url": doc["video"]}
    return [{"role": "user", "content": [video, text]}]


def read(doc_id):
    arguments = ("context", messages, {}, doc_id, "t", "test")
    return read_request(arguments, DOCS[doc_id], repeated_ids("t", DOCS)).item


class Says:
    def __init__(self, k):
        self.k = k

    def score(self, clip, question, options, *, orders=None):
        values = np.log([0.1, 0.1])
        values[self.k] = np.log(0.8)
        return np.broadcast_to(values, (len(clip.frames), len(orders), 2))


def session_of(**knobs):
    return Session(Knobs(phases=1, budget=2, orders="identity", **knobs), {}, {})


def test_every_document_has_an_id_of_its_own():
    names = [read(i).question_id for i in range(len(DOCS))]
    assert names == ["1", "#1", "#2", "#3", "#4", "5"]
    session = session_of()
    answers = [session.answer(read(i), Says(i % 2)).text for i in range(len(DOCS))]
    session.close()
    assert answers == ["A", "B", "A", "B", "A", "B"]


def test_ids_that_repeat_are_found_in_the_whole_split():
    assert repeated_ids("t", DOCS) == {"0"}
    assert repeated_ids("t", dict(enumerate(DOCS))) == {"0"}


def test_columns_of_pictures_are_not_read():
    class Columns(list):
        def __init__(self, rows):
            super().__init__(rows)
            self.features = {"question_id": None, "preview": type("Image", (), {})()}
            self.left_out = []

        def remove_columns(self, names):
            self.left_out = names
            return list(self)

    docs = Columns(DOCS)
    assert repeated_ids("t", docs) == {"0"}
    assert docs.left_out == ["preview"]


@pytest.mark.parametrize(
    "change",
    [{"video": VIDEOS[9]}, {"question": "R?"}, {"options": ("x", "z")}, {"end": 0.5}],
)
def test_another_question_under_one_id_is_refused(tmp_path, change):
    given = {"sidecar": str(tmp_path / "side")}
    item = read(0)
    other = replace(item, **change)
    session = session_of(**given)
    answer = session.answer(item, Says(0))
    facts = {"task": "t", "doc_id": 0, "answer": answer.text}
    session.note_doc(facts, item)
    with pytest.raises(DatasetError, match="another question was asked under this id"):
        session.answer(other, Says(1))
    session.close()
    again = session_of(**given)
    with pytest.raises(DatasetError, match="t, question '1': another question"):
        again.answer(other, Says(1))
    moved = replace(item, video=str(tmp_path / Path(item.video).name))
    assert again.answer(moved, Says(1)).text == "A"
    again.close()
