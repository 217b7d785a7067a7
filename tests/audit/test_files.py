"""Claims against files of results: JSON, JSON lines, CSV and TSV."""

import json
import os
from pathlib import Path

import pytest

from phasefusion.audit import audit


@pytest.fixture
def files(tmp_path):
    """Write results of the shapes that harnesses write; contents made up."""
    results = {
        "results": {
            "made_task": {
                "exact_match,none": 0.7,
                "exact_match_stderr,none": 0.1527525231651947,
                "other_stderr,none": "N/A",
                "a/b": [1, {"c~d": 2}],
            }
        }
    }
    (tmp_path / "results.json").write_text(json.dumps(results))
    right = [1, 0, 1, 1, 0, 1, 1, 1, 0, 1]
    with open(tmp_path / "samples.jsonl", "w") as file:
        for i, one in enumerate(right):
            row = {
                "doc_id": i,
                "exact_match": float(one),
                "doc": {"video": f"v{i % 3}"},
            }
            file.write(json.dumps(row) + "\n")
    with open(tmp_path / "other.jsonl", "w") as file:
        for i in reversed(range(10)):
            file.write(json.dumps({"doc_id": i, "exact_match": i % 2 == 0}) + "\n\n")
    (tmp_path / "scores.csv").write_text(
        "model,frames,accuracy\nA,8,0.5\nA,16,\nB,8,0.625\n"
    )
    (tmp_path / "scores.tsv").write_text("model\tok\nA\tTrue\nB\tfalse\n")
    return tmp_path


def computed(files, expression, **given):
    names = {name: files / path for name, path in given.items()}
    path = files / "claims.yaml"
    path.write_text(
        f"runs: [{', '.join(names)}]\nclaims:\n- {{id: a, text: t, published: '0', "
        f"compute: {json.dumps(expression)}}}\n"
    )
    (one,) = audit(path, names).results
    return one.reason if one.computed is None else one.computed


R = {"r": "results.json"}
S = {"s": "samples.jsonl", "o": "other.jsonl"}
C = {"c": "scores.csv"}


@pytest.mark.parametrize(
    ("expression", "given", "expected"),
    [
        ("json(r, 'results/made_task/exact_match,none')", R, 0.7),
        ("json(r, 'results/made_task/a~1b/0')", R, 1),
        ("json(r, 'results/made_task/a~1b/1/c~0d')", R, 2),
        ("json(r, 'results/made_task/other_stderr,none')", R, "N/A"),
        ("mean(column(s, 'exact_match'))", S, 0.7),
        ("clustered_mean(column(s, 'exact_match')).se_iid", S, 0.1527525231651947),
        ("clustered_mean(column(s, 'exact_match'), labels(s, 'doc/video')).n", S, 10),
        (
            "gained(column(s, 'exact_match', by='doc_id'), "
            "column(o, 'exact_match', by='doc_id'))",
            S,
            4,
        ),
        (
            "mean(column(o, 'exact_match', by='doc_id') - "
            "column(s, 'exact_match', by='doc_id'))",
            S,
            -0.2,
        ),
        ("csv(c, 'accuracy', model='B')", C, 0.625),
        ("csv(c, 'accuracy', model='A', frames=8)", C, 0.5),
        ("csv(c, 'model', accuracy=0.625)", C, "B"),
        ("present(column(c, 'accuracy'))", C, 2),
        ("mean(column(t, 'ok'))", {"t": "scores.tsv"}, 0.5),
        ("mean(keep(column(c, 'accuracy'), labels(c, 'model') == 'B'))", C, 0.625),
    ],
)
def test_look_ups(files, expression, given, expected):
    found = computed(files, expression, **given)
    assert found == (
        pytest.approx(expected) if isinstance(expected, float) else expected
    )


@pytest.mark.parametrize(
    ("expression", "given", "says"),
    [
        ("json(r, 'results/made_tsk')", R, "did you mean 'made_task'"),
        ("json(r, 'results/made_task')", R, "not a single value"),
        ("json(r, 'results/made_task/other_stderr,none') + 1", R, "a number is wanted"),
        ("column(s, 'exact') + 1", S, "did you mean 'exact_match'"),
        ("mean(column(c, 'model'))", C, "row 1 is 'A', no number"),
        ("csv(c, 'accuracy', model='A')", C, "2 rows of c have model='A'"),
        ("csv(c, 'accuracy', model='D')", C, "0 rows"),
        ("column(c, 'accuracy', by='model') + 1", C, "model 'A' twice"),
        ("column(s, 'exact_match') - column(c, 'accuracy')", S | C, "name the ids"),
        ("report(r, 'accuracy')", R, "no report.json"),
        ("mean(correct(r, 'fusion'))", R, "is no run"),
        ("column(r, 'x')", R, "no list of objects"),
        ("shared(column(s, 'exact_match'), column(o, 'exact_match'))", S, "no ids"),
        ("report('r', 'x')", R, "by name, not a text"),
    ],
)
def test_reasons(files, expression, given, says):
    assert says in computed(files, expression, **given)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.json", "{", "not JSON"),
        ("a.jsonl", '{"x": 1}\n{"x"', "line 2"),
        ("a.jsonl", "[1]\n", "line 1: not an object"),
        ("a.csv", "x,x\n1,2\n", "names a column twice"),
        ("a.csv", "x,y\n1,2\n3\n", "row 3: 1 cells under 2"),
        ("a.csv", b"x\n\xff\n", "not UTF-8"),
        ("a.csv", "", "present"),
    ],
)
def test_damaged_files(files, name, content, says):
    path = files / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if says == "present":
        assert computed(files, "present(column(a, 'x'))", a=name) == 0
    else:
        assert says in computed(files, "mean(column(a, 'x'))", a=name)


@pytest.mark.skipif(
    "PHASEFUSION_SHARED" not in os.environ, reason="PHASEFUSION_SHARED is not set"
)
def test_a_real_log_of_a_harness(tmp_path):
    folder = Path(os.environ["PHASEFUSION_SHARED"]) / "cases/13-lmms-eval-samples-log"
    results, samples = sorted(folder.glob("*.json")), sorted(folder.glob("*.jsonl"))
    (tmp_path / "claims.yaml").write_text(
        "runs: [all, some]\n"
        "claims:\n"
        '- {id: a, text: t, published: "0.6951",\n'
        "   compute: \"json(all, 'results/scienceqa_img/exact_match,none')\"}\n"
        '- {id: b, text: t, published: "0.01025",\n'
        "   compute: \"json(all, 'results/scienceqa_img/exact_match_stderr,none')\"}\n"
        '- {id: c, text: t, published: "203", unit: count,\n'
        "   compute: \"total(column(some, 'exact_match', by='doc_id'))\"}\n"
        '- {id: d, text: t, published: "0.1",\n'
        "   compute: \"json(all, 'results/pope/pope_accuracy_stderr,none')\"}\n"
    )
    runs = {"all": results[0], "some": samples[0]}
    made = audit(tmp_path / "claims.yaml", runs)
    verdicts = [one.verdict for one in made.results]
    assert verdicts == ["agrees", "agrees", "agrees", "cannot be computed"]
