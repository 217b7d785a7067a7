"""The command that imports foreign result files."""

import json
import typing

import pytest

from phasefusion.cli.importing import Format
from phasefusion.importers import FORMATS
from phasefusion.records import iter_passes


@pytest.fixture
def log(tmp_path):
    rows = [
        {"id": "a", "options": ["x", "y"], "prediction": "(B) y", "gold": "B"},
        {"id": "b", "options": ["x", "y"], "prediction": "x or y?", "gold": "A"},
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_formats_are_those_of_the_importers():
    assert tuple(form.value for form in Format) == ("auto", *FORMATS)


def test_import_and_report(call, tmp_path, log):
    code, out, err = call("records", "import", "auto", log, "--out", tmp_path / "run")
    assert (code, err) == (0, "")
    assert "2 passes of 2 questions (log), read as csv" in out
    assert "1 parsed, 1 unparsed; letters B 1; right 1/2 = 0.500000" in out
    assert "cannot be computed: order flips: every question" in out
    assert f"written: {tmp_path / 'run'}" in out
    code, out, err = call("report", tmp_path / "run")
    assert code == 0
    assert "Cannot be computed: phase flips and phase fusion" in out
    assert "warning: 1 of 2 passes is missing: unparsed: names no option" in err


def test_json(call, tmp_path, log):
    code, out, _ = call(
        "records",
        "import",
        "csv",
        log,
        "-o",
        tmp_path / "run",
        "--json",
        "--map",
        "question_id=id",
        "--map",
        "answer=prediction",
        "--benchmark",
        "Lake",
    )
    assert code == 0
    found = json.loads(out)
    assert found["benchmarks"] == ["Lake"]
    assert found["arms"][0]["outcomes"]["unparsed"] == 1
    assert found["run"] == str(tmp_path / "run")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--map", "answer"], "must be FIELD=COLUMN"),
        (["--map", "answer=a", "--map", "answer=b"], "answer was mapped already"),
    ],
)
def test_bad_maps(call, tmp_path, log, words, message):
    code, _, err = call("records", "import", "csv", log, "-o", tmp_path / "r", *words)
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())


def test_errors_are_one_line(call, tmp_path, log):
    log.write_text(log.read_text() + "{oops\n")
    code, out, err = call("records", "import", "auto", log, "-o", tmp_path / "r")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert f"{log}, line 3, column 2: not JSON" in err
    code, _, err = call("records", "import", "auto", "none.json", "-o", tmp_path / "r")
    assert (code, err) == (
        2,
        "phasefusion: error: none.json: No such file or directory; check the path\n",
    )


def test_every_option_reaches_the_import(call, tmp_path):
    wide = tmp_path / "wide.csv"
    wide.write_text("id,8f,16f\np,A,B\nq,B,B\n")
    other = tmp_path / "other.csv"
    other.write_text("id,8f,16f\np,B,B\nq,A,B\n")
    gold = tmp_path / "gold.json"
    gold.write_text('{"p": "A", "q": "C"}')
    code, out, _ = call(
        "records",
        "import",
        "wide",
        wide,
        other,
        "--gold",
        gold,
        "-o",
        tmp_path / "r",
        "--arm",
        "m",
        "--arm",
        "n",
        "--benchmark",
        "L",
        "--version",
        "2",
        "--n-options",
        3,
        "--json",
    )
    assert code == 0
    found = json.loads(out)
    names = [arm["name"] for arm in found["arms"]]
    assert names == ["m 8f", "n 8f", "m 16f", "n 16f"]
    assert found["benchmarks"] == ["L@2"]
    rows = list(iter_passes(tmp_path / "r"))
    assert {row["n_options"] for row in rows} == {3}
    assert found["arms"][0]["right"] == 1


def test_hints_resolve():
    from phasefusion.cli import importing

    assert typing.get_type_hints(importing.import_)["out"]


def test_two_answers_to_one_id_say_which_columns_to_map(call, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("id,pred\na,A\na,B\n")
    words = ["records", "import", "csv", path, "--n-options", "4"]
    code, _, err = call(*words, "--out", tmp_path / "run")
    assert code == 2
    assert "(--map arm=COLUMN, --map question_id=COLUMN+COLUMN)" in err
