"""The runner of reference files: it must fail when it should."""

from __future__ import annotations

import json

import pytest
import reference

CASES = [
    {
        "id": "hash.empty",
        "stat": "fnv1a64",
        "inputs": {"utf8": ""},
        "expected": {"hex": "cbf29ce484222325"},
        "tol": 0,
    },
    {
        "id": "flip.one",
        "stat": "flip_rates",
        "inputs": {"answers": [[0], [1]], "missing": -1},
        "expected": {"pairwise_macro": "nan", "per_item_any": [-1, -1]},
        "tol": 1e-15,
    },
    {
        "id": "prop.half",
        "stat": "proportion_ci",
        "inputs": {"k": 5, "n": 10, "level": 0.95},
        "expected": {"wilson": [0.236593090512564, 0.7634069094874361]},
        "tol": 1e-12,
    },
]


def run(tmp_path, cases, *options):
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"cases": cases}))
    return reference.main([str(path), *options])


def test_all_pass(tmp_path, capsys):
    assert run(tmp_path, CASES) == 0
    assert capsys.readouterr().out == "3/3\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stat": "unheard_of"}, "no statistic named 'unheard_of'"),
        ({"expected": {"hex": "0"}}, "hex: expected '0', got 'cbf29ce484222325'"),
        (
            {"expected": {"hex": "cbf29ce484222325", "more": 1}},
            "more: expected 1, got no",
        ),
        ({"expected": {"hex": ["cbf29ce484222325"]}}, "hex: expected"),
        ({"inputs": {"utf8": 5}}, "TypeError"),
    ],
)
def test_a_wrong_case_fails(tmp_path, capsys, change, message):
    assert run(tmp_path, [CASES[0] | change, *CASES[1:]]) == 1
    printed = capsys.readouterr().out
    assert f"FAIL hash.empty: {message}" in printed
    assert printed.endswith("2/3\n")


@pytest.mark.parametrize("value", [0.5, "inf", 0])
def test_nan_is_matched_by_nan_alone(tmp_path, value):
    case = CASES[1] | {"expected": {"pairwise_macro": value}}
    assert run(tmp_path, [case]) == 1


def test_tolerance_and_length(tmp_path):
    near = CASES[2] | {"expected": {"wilson": [0.23659, 0.7634]}}
    assert run(tmp_path, [near]) == 1
    assert run(tmp_path, [near | {"tol": 1e-4}]) == 0
    assert run(tmp_path, [near | {"tol": 1.0, "expected": {"wilson": [0.2]}}]) == 1


def test_groups(tmp_path, capsys):
    wrong = CASES[0] | {"stat": "unheard_of"}
    assert run(tmp_path, [wrong, *CASES[1:]], "--groups", "flip,prop") == 0
    assert capsys.readouterr().out == "2/2\n"
    assert run(tmp_path, CASES, "--groups", "nothing") == 1
