"""Whatever a file holds, an import makes a run or says what is wrong."""

import json
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phasefusion.errors import PhaseFusionError
from phasefusion.importers import FORMATS, detect_format, import_run, read_questions
from phasefusion.records import read_passes

KEYS = st.sampled_from(
    "question_id id doc_id q_uid video video_id qid questions question options option "
    "candidates answer prediction response target filtered_resps resps doc doc_hash "
    "input choices outputs logprobs content token logprob top_logprobs message text "
    "prompt_logprobs decoded_token tokens token_logprobs body custom_id a0 a1 A B "
    "order phase phase_index n_phases budget probabilities arm index g_index type "
    "duration gold rating hit error".split()
)
TEXTS = st.one_of(
    st.sampled_from(
        [
            "A",
            "B",
            "(B)",
            "A. x",
            "",
            "nan",
            "x",
            "Q?\nA. x\nB. y",
            "['x', 'y']",
            "[0.5, 0.5]",
            "BA",
            "1/2",
            "(-1.0, False)",
            "9" * 5000,
            "[" * 3000,
        ]
    ),
    st.text(max_size=12),
)
SCALARS = st.one_of(
    TEXTS, st.none(), st.booleans(), st.integers(-3, 2**70), st.floats()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(KEYS | TEXTS, inner, max_size=5)
    ),
    max_leaves=24,
)
ROWS = st.lists(st.dictionaries(KEYS, VALUES, max_size=8), min_size=1, max_size=4)
QUICK = settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def attempt(call):
    """Run; errors of the project's own are what may come."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return call()
    except PhaseFusionError as error:
        if not str(error):
            raise
        return None


def try_all(tmp_path_factory, name, data, form):
    folder = tmp_path_factory.mktemp("fuzz")
    path = folder / name
    path.write_bytes(data)
    attempt(lambda: detect_format(path))
    attempt(lambda: read_questions(path, format=form))
    made = attempt(lambda: import_run(path, out=folder / "run", format=form))
    if made is not None:
        assert len(read_passes(made.path)) == made.report.passes > 0
        assert str(made.report)
        json.dumps(made.report.to_dict(), allow_nan=False)


@pytest.mark.parametrize("form", FORMATS)
@QUICK
@given(data=st.data())
def test_any_json(tmp_path_factory, form, data):
    value = data.draw(VALUES | ROWS)
    text = json.dumps(value).encode()
    try_all(tmp_path_factory, "results.json", text, form)


@pytest.mark.parametrize("form", ["auto", "lmms-eval", "logprobs", "csv", "egoschema"])
@QUICK
@given(rows=ROWS)
def test_any_lines(tmp_path_factory, form, rows):
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    try_all(tmp_path_factory, "x_samples_t.jsonl", text, form)


@pytest.mark.parametrize("form", ["auto", "vlmevalkit", "nextqa", "order-sweep", "csv"])
@QUICK
@given(
    head=st.lists(
        KEYS | st.sampled_from(["pos_0_options", "pos_0_response_proba", "8f", "16f"]),
        min_size=1,
        max_size=7,
        unique=True,
    ),
    data=st.data(),
)
def test_any_table(tmp_path_factory, form, head, data):
    import csv
    import io

    rows = data.draw(
        st.lists(
            st.lists(
                TEXTS | st.sampled_from("0123"), min_size=len(head), max_size=len(head)
            ),
            min_size=1,
            max_size=4,
        )
    )
    out = io.StringIO(newline="")
    csv.writer(out).writerows([head, *rows])
    text = out.getvalue().encode("utf-8", "surrogatepass")
    try_all(tmp_path_factory, "table.csv", text, form)


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.csv", "a.tsv", "a.xlsx"])
@QUICK
@given(data=st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_any_bytes(tmp_path_factory, name, data):
    try_all(tmp_path_factory, name, data, "auto")


@pytest.mark.parametrize("duration", [-1, -0.5, float("inf"), "-3"])
def test_a_length_that_can_be_none_is_left_out(tmp_path, duration):
    row = {"question_id": "q", "question": "Q?\nA. x\nB. y", "answer": "x"}
    row |= {"prediction": "A", "duration": duration}
    (tmp_path / "r.json").write_text(json.dumps([row]))
    made = import_run(tmp_path / "r.json", out=tmp_path / "run", format="mlvu")
    assert made.report.passes == len(read_passes(made.path)) == 1
