"""Arbitrary rows and files: an account or a DatasetError, and nothing else."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phasefusion import datasets
from phasefusion.errors import PhaseFusionError

FIELDS = [
    "question_id",
    "q_uid",
    "qid",
    "id",
    "video",
    "video_id",
    "videoID",
    "video_name",
    "video_path",
    "question",
    "options",
    "option",
    "candidates",
    "choices",
    "a0",
    "a1",
    "a2",
    "option0",
    "A",
    "B",
    "answer",
    "answer_id",
    "answer_number",
    "correct_choice",
    "start",
    "end",
    "start_frame",
    "fps",
    "dim",
    "questions",
    "subtitles",
    "subtitle_path",
    "starting_timestamp_for_subtitles",
    "duration",
    "task",
    "url",
    "strata",
    "mc_question",
]
TEXTS = st.one_of(
    st.sampled_from(["", "A", "(B) x", "B. x", "0", "1", "-1", "nan", "N/A", "yes"]),
    st.sampled_from(
        ["What?\nA. x\nB. y", "[1, 2]", "['x', 'y']", "{", "a\0b", "v_1_2"]
    ),
    st.text(max_size=12),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-2, 6),
    st.sampled_from([10**400, -(10**2000), float("inf"), float("nan"), 1e308]),
    st.floats(),
    TEXTS,
    st.just(object()),
    st.binary(max_size=4),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(st.sampled_from([*FIELDS, "choice", "choice_id"]), inner),
    ),
    max_leaves=8,
)
ROWS = st.lists(
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=12), max_size=4
)
USUAL = {
    "question_id": st.one_of(st.integers(0, 3), TEXTS),
    "q_uid": TEXTS,
    "qid": st.integers(0, 3),
    "id": st.integers(0, 3),
    "video": TEXTS,
    "video_id": TEXTS,
    "question": TEXTS,
    "options": st.lists(TEXTS, min_size=2, max_size=5),
    "answer": SCALARS,
}
GOOD = st.fixed_dictionaries(
    USUAL, optional={name: VALUES for name in FIELDS if name not in USUAL}
)


def checked(name, source):
    """Read, and check that every question is accounted for."""
    try:
        found = datasets.read(name, source, missing_videos="keep", task="t")
    except PhaseFusionError:
        return
    report = found.report
    assert report.kept == len(found) > 0
    assert report.read == report.kept + len(report.left_out)
    keys = {(item.benchmark, item.question_id) for item in found}
    assert len(keys) == len(found)
    assert report.with_gold == sum(bool(item.golds) for item in found)
    json.dumps(report.to_dict())
    for item in found:
        assert all(text.strip() for text in (*item.options, item.question))
        json.dumps([item.question, *item.options]).encode()
        item.question.encode()


@pytest.mark.parametrize("name", ["auto", *datasets.names()])
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=st.one_of(ROWS, st.lists(GOOD, min_size=1, max_size=4)))
def test_any_rows(name, rows):
    checked(name, rows)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(
        ["auto", "tempcompass", "perceptiontest", "mvbench", "videomme"]
    ),
    value=st.dictionaries(TEXTS, VALUES, max_size=3),
)
def test_any_nesting(name, value):
    checked(name, value)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    data=st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)),
    ending=st.sampled_from([".json", ".jsonl", ".csv", ".tsv", ".parquet"]),
)
def test_any_bytes(tmp_path_factory, data, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path_factory.mktemp("fuzz") / f"q{ending}"
    path.write_bytes(data)
    checked("auto", path)
    try:
        datasets.load_questions(path, check_videos=False)
    except PhaseFusionError:
        pass
    path.unlink()


def test_a_clip_named_by_a_number_that_no_float_holds():
    row = {"question": "Who?", "options": ["a", "b"], "video_id": "A", "answer": 0}
    checked("star", [{**row, "question_id": "q", "start": 10**400, "end": 1}])
