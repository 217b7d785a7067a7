"""Pass files of every shape that may be read, and how results are compared."""

import dataclasses
import json
import math

import numpy as np
from hypothesis import strategies as st
from sample_passes import make_pass

from phasefusion.records import iter_passes, pass_key

#: No two runs take the same times.
TIMELESS = {"seconds": None, "decode_seconds": None}


def passes_of(folder):
    """Every pass of a run without its times, by key; each is there once."""
    passes = {}
    for record in iter_passes(folder):
        assert pass_key(record) not in passes
        passes[pass_key(record)] = record | TIMELESS
    return passes


def text(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def write(tmp_path, data):
    path = tmp_path / "passes.jsonl"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def assert_equal(a, b):
    for field in dataclasses.fields(a):
        x, y = getattr(a, field.name), getattr(b, field.name)
        if isinstance(x, np.ndarray):
            assert (x.dtype, x.shape) == (y.dtype, y.shape), field.name
            np.testing.assert_array_equal(x, y, err_msg=field.name)
        else:
            assert x == y, field.name


JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.text(max_size=3), inner, max_size=2),
    ),
    max_leaves=4,
)


@st.composite
def pass_files(draw):
    """Lines of distinct passes, each with its keys in another order."""
    rows = []
    for i in range(draw(st.integers(1, 4))):
        k = draw(st.integers(1, 6))
        same = make_pass(
            i,
            question_id=f"q{i}" + draw(st.text(max_size=3)),
            benchmark=draw(st.sampled_from(["a", "b\u00e9", ""])),
            video_id=draw(st.one_of(st.none(), st.text(max_size=3))),
            n_options=k,
            gold=draw(st.one_of(st.none(), st.integers(0, k - 1))),
            type=draw(st.sampled_from([None, "when"])),
            n_frames=draw(st.sampled_from([None, 0, 120])),
            duration_s=draw(st.sampled_from([None, 4, 4.25])),
            video_digest=draw(st.sampled_from([None, "0123456789abcdef", "1" * 16])),
            same_options=draw(st.sampled_from([None, list(range(k))])),
        )
        for s in range(draw(st.integers(1, 3))):
            rows.append(same | draw(_of_pass(k, s)))
    rows.append(make_pass("last"))  # so that there is an answer
    rows = draw(st.permutations(rows))
    made = []
    for row in rows:
        row["another"] = draw(JSON_VALUES)
        keys = draw(st.permutations(list(row)))
        line = json.dumps(
            {key: row[key] for key in keys}, ensure_ascii=draw(st.booleans())
        )
        made.append(line + draw(st.sampled_from(["\n", "\r\n", " \n", "\n\n"])))
    return rows, draw(st.sampled_from(["", "\ufeff"])) + "".join(made)


@st.composite
def _of_pass(draw, k, s):
    numbers = st.one_of(
        st.none(), st.floats(-30, 0), st.sampled_from([math.nan, math.inf, -math.inf])
    )
    values = draw(st.one_of(st.none(), st.lists(numbers, min_size=k, max_size=k)))
    found = {
        "arm": draw(st.sampled_from(["phase", "single", "16f \U0001f600"])),
        "n_phases": 3,
        "phase_index": s,
        "phase": draw(st.sampled_from([None, [2 * s + 1, 6]])),
        "budget": draw(st.sampled_from([None, 0, 8])),
        "order": draw(st.permutations(range(k))),
        "logprobs": values,
        "answer": draw(st.one_of(st.none(), st.integers(0, k - 1))),
        "invalid": draw(st.sampled_from([None, 'video: a \u2028 "b"'])),
        "option_mass": draw(st.sampled_from([None, 0.25, 1])),
        "seconds": draw(st.sampled_from([None, 1e-3])),
    }
    if draw(st.booleans()):
        del found["option_mass"]
    return found
