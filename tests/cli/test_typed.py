"""Messages of the command speak of what was typed, and say what to type instead."""

import json
import pickle
from types import SimpleNamespace

import pytest
from made_runs import made_run

from phasefusion import PhaseGrid, tinyvlm
from phasefusion._wording import Argument
from phasefusion.cli._typed import as_typed
from phasefusion.errors import GridError
from phasefusion.report.card import sampling_card

CLIPS = tinyvlm.questions_path().parent
QUESTION = {"question_id": "a", "video": "clip-000.mp4", "question": "Which?"}


@pytest.fixture
def asked(tmp_path):
    """Write questions about a shipped clip; return the file's path."""

    def write(*rows, name="q.json"):
        path = tmp_path / name
        row = {**QUESTION, "video": str(CLIPS / "clip-000.mp4")}
        path.write_text(json.dumps([row | one for one in rows]))
        return path

    return write


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--dense", 0), "'--dense'"),
        (("--n-orders", 0), "'--n-orders'"),
        (("--budget", 0), "--budget 0 must be in 1.."),
        (("--phases", 0), "--phases 0 must be in 1.."),
        (("--origin", "2"), "--origin 2 must be in [0, 1)"),
        (("--shard", "0/0"), "there must be one shard at least, such as 1/1"),
        (("--out", ""), "--out is followed by an empty text; name what is meant"),
        (("-o", ""), "-o is followed by an empty text"),
        (("--cache=",), "--cache is followed by an empty text"),
        (("--videos", ""), "--videos is followed by an empty text"),
    ],
)
def test_options_are_named_as_typed(call, words, said):
    code, out, err = call("run", "questions.jsonl", "--dry-run", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_what_to_type_is_said_as_it_is_typed(call, folder):
    (folder / "gone.json").write_text(
        json.dumps([QUESTION | {"video": "gone.mp4", "options": ["x", "y"]}])
    )
    words = ("--scorer", "pixel_scorer:make")
    _, _, err = call("run", "gone.json", *words)
    assert "leave these questions out (--missing-videos leave-out)" in err
    assert "missing_videos" not in err


def test_an_empty_argument(call):
    code, _, err = call("report", "")
    assert code == 2
    assert "an argument is an empty text" in err


@pytest.mark.parametrize("name", ["anwser", "gold", "Answer"])
def test_a_field_that_looks_misspelt_is_named(call, asked, name):
    path = asked({"options": ["x", "y"], name: 1, "note": 3})
    code, out, _ = call("questions", path)
    assert code == 0
    assert f"field not used (1): kept as it is [{name}; answer?]" in out


def test_fields_without_a_likeness_are_not(call, asked):
    path = asked({"options": ["x", "y"], "answer": 0, "gold": 1, "note": 3})
    assert "not used" not in call("questions", path)[1]


@pytest.mark.filterwarnings("always::phasefusion.errors.DatasetWarning")
def test_a_run_without_right_answers_says_so(call, asked):
    path = asked({"options": ["x", "y"], "anwser": 1})
    code, _, err = call("run", path, "--dry-run")
    assert code == 0
    assert "field not used (1): kept as it is [anwser; answer?]" in err
    assert "no question has a right answer, so there will be no accuracy" in err
    right = asked({"options": ["x", "y"], "answer": 1})
    assert call("run", right, "--dry-run")[2] == ""


FORMS = "give options as a list of 2 to 26 texts (in CSV as JSON), or in fields A, B"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"options": ["x"]}, "has 1 option; there must be 2 to 26"),
        ({"options": [str(i) for i in range(27)]}, "27 options; there must be 2 to 26"),
        ({"options": {"A": "x"}}, FORMS),
        ({"options": "man;dog"}, FORMS),
        ({"options": ["x", None]}, FORMS),
        ({}, "the first question has no options; it has question_id, video, question"),
        ({"choices": 3}, FORMS),
    ],
)
def test_options_that_cannot_be_read_say_how_they_can(call, asked, fields, said):
    code, _, err = call("questions", asked(fields))
    assert code == 2
    assert said in err


def test_an_ambiguous_answer_says_what_to_give(call, asked):
    path = asked({"options": ["1", "2"], "answer": "1"})
    _, out, _ = call("questions", path)
    assert "an index and the text of another option; give its letter in" in out
    again = asked({"options": ["1", "2"], "answer": "(B)"})
    assert "1 with gold" in call("questions", again)[1]


def test_subtitles_are_said_to_be_no_input(call, asked, tmp_path):
    (tmp_path / "a.srt").write_text("1\n00:00:00,000 --> 00:00:01,000\nhello\n")
    path = asked({"options": ["x", "y"], "subtitles": str(tmp_path / "a.srt")})
    _, out, _ = call("questions", path)
    assert "1 with subtitles (for anchors; no model is shown them)" in out
    assert out.startswith("q (plain): 1 question read, 1 kept, 0 with gold, 1 video,")
    run = {"settings": {"grid": PhaseGrid(4).to_dict()}}
    said = "Subtitles of the questions were not shown to the model."
    for n, shown in ((1, True), (0, False)):
        run["questions"] = {"dataset": {"with_subtitles": n}}
        assert (said in sampling_card(run)["text"]) is shown
    run["questions"] = "questions.jsonl"  # as records of others may have it
    assert said not in sampling_card(run)["text"]


def test_percents_that_are_none_are_refused_as_typed(call):
    for words, said in (
        (("difference", "--rates", 18, 200), "--rates is 200; it is in percent"),
        (("difference", "--rates", 18, 10, "--both", -1), "--both is -1; it is in"),
        (("interval", "--rate", 60, "--half-width", 0), "--half-width is 0; it is in"),
    ):
        code, _, err = call("plan", *words)
        assert code == 2
        assert said in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("floor", "--flip-rate", 0, "--ratio", 2),
            "--flip-rate is 0 % and ratio 2:",
        ),
        (("floor", "--flip-rate", 50, "--ratio", 0.4), "floor would be 125 %"),
        (
            ("difference", "--difference", 100, "--discordance", 20),
            "discordance is 20 % and difference 100 %",
        ),
        (
            ("equivalence", "--margin", 2, "--difference", 3, "--discordance", 20),
            "a margin of 2 % when the true difference is 3 %",
        ),
        (
            ("difference", "--rates", 20, 30, "--both", 25),
            "both is 25 %; with shares of 20 % and 30 % it is from 0 % to 20 %",
        ),
        (("risk", "--risk", 30), "the true risk is 30 %; a risk of 20 % (alpha)"),
        (
            ("interval", "--rate", 100, "--n", 50, "--method", "clustered-mean"),
            "rate is 100 %: without variance",
        ),
        (
            ("auroc", "--auroc", 0.8, "--positive", 1, "--n", 20),
            "20 items of which 1 % are positive leave a class empty",
        ),
    ],
)
def test_percents_of_two_options_are_said_in_percent(call, words, said):
    code, out, err = call("plan", *words)
    assert (code, out) == (2, "")
    assert said in err


def test_nothing_is_planned_from_one_video(call, tmp_path):
    made_run(tmp_path / "run", n_items=4)
    lines = (tmp_path / "run" / "passes.jsonl").read_text().splitlines()
    rows = [json.loads(line) | {"video_id": "one"} for line in lines]
    text = "\n".join(map(json.dumps, rows)) + "\n"
    (tmp_path / "run" / "passes.jsonl").write_text(text)
    code, out, _ = call("plan", "--from", tmp_path / "run", "--n", 600)
    assert code == 0
    assert "all items are of one video" in " ".join(out.split())
    assert "nan" not in out
    assert out.count("note:") == 1
    code, _, err = call("plan", "equivalence", "--from", tmp_path / "run")
    assert code == 2
    assert "nothing can be planned from it. Give a run of several" in err


def test_json_of_another_kind_says_how_to_name_it(call, tmp_path):
    row = json.dumps(QUESTION | {"options": ["x", "y"]})
    for text, said in (
        (f"{row}\n{row}\n", "it holds one object a line: name it .jsonl"),
        ("question_id,video\n1,a.mp4\n", "it looks like a table: name it .csv"),
    ):
        (tmp_path / "q.json").write_text(text)
        code, _, err = call("questions", tmp_path / "q.json")
        assert code == 2
        assert said in err
    (tmp_path / "q.json").write_text('[{"a": 1},')
    assert "name it" not in call("questions", tmp_path / "q.json")[2]


def test_damaged_runs_say_what_can_be_done(call, tmp_path):
    run = tmp_path / "run"
    made_run(run, n_items=2)
    passes = run / "passes.jsonl"
    lines = passes.read_text().splitlines()
    passes.write_text("\n".join([lines[0], '{"a": }', *lines[1:]]) + "\n")
    _, _, err = call("report", run)
    assert "passes.jsonl, line 2: not JSON at column 7: unexpected" in err
    assert "phasefusion records check says everything" in err
    passes.write_text("\n".join([*lines, lines[0]]) + "\n")
    _, _, err = call("report", run)
    assert "the same pass as line 1" in err
    assert "take one of them out" in err
    passes.write_text("\n".join(lines) + "\n")
    (run / "run.json").write_text("{")
    assert "take it away to report the passes alone" in call("report", run)[2]
    (run / "run.json").unlink()
    assert call("report", run)[0] == 0


def test_a_run_against_itself(call, tmp_path):
    made_run(tmp_path / "run", n_items=2)
    code, _, err = call("report", tmp_path / "run", "--against", tmp_path / "run")
    assert code == 2
    assert err.startswith("phasefusion: error: --against is the run itself")


def test_simulated_records_are_written_once(call, tmp_path):
    words = ("records", "simulate", "--out", tmp_path / "made")
    assert call(*words)[0] == 0
    code, _, err = call(*words)
    assert code == 2
    assert "is recorded already; write into another folder" in err


NAMES = ("budget=8", "budget", "seed=1", "--dense", "my seed=1")


@pytest.mark.parametrize("name", NAMES)
def test_a_path_stays_as_it_is_whatever_it_is_called(call, folder, name):
    """Also where an option of that name was given that value."""
    words = ("questions.jsonl", "--scorer", "pixel_scorer:make", "--protocol", "quick")
    out = folder / name
    given = ("--limit", 1, "--seed", 1)
    code, _, err = call("run", *words, f"--out={name}", "--budget", 3, *given)
    assert code == 0, err
    code, _, err = call("run", *words, f"--out={name}", "--budget", 8, *given)
    assert code == 2
    assert f"error: {name}: this run was made with other settings" in err
    (out / "run.json").write_text("{")
    code, _, err = call("report", f"./{name}")
    assert code == 2
    assert f"error: {name}/run.json: not JSON" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("compare", "a", "b", "--alpha", 2), "error: --alpha must be in (0, 0.5)"),
        (("samplers", "-n", 0), "error: --frames 0 must be in 1.."),
        (("frames", "x.mp4", "--budget", 0), "error: --budget 0 must be in 1.."),
        (("plan", "risk", "--alpha", 2), "error: --alpha must be in (0, 1)"),
        (
            ("plan", "equivalence", "--discordance", 9, "--design-effect", 0),
            "error: --design-effect must be > 0",
        ),
        (
            (
                "run",
                "q",
                "--dry-run",
                "--protocol",
                "anchored",
                "--at",
                1,
                "--window",
                3,
            ),
            "error: --window 3 must be in (0, 1]",
        ),
    ],
)
def test_arguments_that_cannot_be_are_said_as_options(call, words, said):
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert said in err


def test_a_path_that_is_called_like_an_option_alone(call, folder):
    words = ("records", "simulate", "--phases", 2, "--out", "phases")
    assert call(*words)[0] == 0
    code, _, err = call(*words)
    assert code == 2
    assert "error: phases" in err


def test_arguments_of_an_error_are_the_options_of_the_command():
    option = SimpleNamespace(name="on_error", opts=["-e", "--on-error"])
    command = SimpleNamespace(
        params=[option, SimpleNamespace(name="run", opts=["run"])]
    )
    parts = (
        "on_error='mark': no ",
        Argument.of("on_error", "mark"),
        ", ",
        Argument("on_error"),
        ", ",
        Argument.of("run", 1),
        " or ",
        Argument.of("strict", True),
    )
    error = pickle.loads(pickle.dumps(GridError(*parts)))
    plain = "on_error='mark': no on_error='mark', on_error, run=1 or strict=True"
    assert str(error) == plain
    said = "on_error='mark': no --on-error mark, --on-error, run=1 or strict=True"
    assert as_typed(error, command) == said
    assert as_typed(error, SimpleNamespace()) == plain
