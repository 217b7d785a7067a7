"""Reports as text, Markdown, HTML and files."""

import json
import math

import pytest
from made_runs import made_run
from rich.console import Console

from phasefusion._wording import by_number
from phasefusion.errors import RecordError
from phasefusion.records import read_run
from phasefusion.report import Report, report
from phasefusion.report.headline import headline
from phasefusion.report.sections import _p, percent, sections


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    made_run(folder, drop={(3, "phase", False, 1, 2)})
    return report(folder)


def test_save_and_read_back(made, tmp_path):
    paths = made.save(tmp_path / "deep" / "results")
    assert [path.name for path in paths] == ["report.json", "report.md"]
    assert json.loads(paths[0].read_text()) == made.to_dict()
    assert paths[1].read_text() == made.to_markdown()


def test_save_where_nothing_can_be_written(made, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot be written"):
        made.save(tmp_path / "file" / "results")


def test_timing_is_kept_apart(made):
    numbers = made.to_dict()
    assert numbers.pop("timing")["phase"]["per_pass_s"] == 0.25
    assert "seconds" not in json.dumps(numbers["accuracy"])


def test_every_section_is_in_every_form(made):
    text, markdown, html = str(made), made.to_markdown(), made._repr_html_()
    for section in sections(made.numbers):
        assert section.title in text
        assert f"\n## {section.title}\n" in markdown
        assert f"<h4>{section.title}</h4>" in html
        for row in section.rows:
            assert len(row) == len(section.columns)


def test_percent_in_text_fractions_in_json(made):
    value = made.to_dict()["accuracy"]["fusion"]["order_averaged"]["value"]
    assert 0 < value < 1
    assert f"| {percent(value)} [" in made.to_markdown()


def test_markdown_tables_are_whole(made):
    for block in made.to_markdown().split("\n\n"):
        if block.startswith("|"):
            widths = {line.count("|") for line in block.splitlines()}
            assert len(widths) == 1
            assert set(block.splitlines()[1]) <= set("|-: ")


def test_no_line_is_wider_than_the_terminal(made):
    with Console(width=80, color_system=None) as console, console.capture() as capture:
        console.print(made)
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)


def test_text_of_others_is_not_markup(tmp_path):
    passes = made_run(tmp_path, n_items=4)
    for row in passes:
        row["type"] = "[bold]a|b</td> <i>"
    (tmp_path / "passes.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in passes)
    )
    made = report(tmp_path)
    assert "[bold]a|b" in str(made)
    assert "[bold]a\\|b" in made.to_markdown()
    assert "<i>" not in made._repr_html_()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1825, "18.3"), (0.18249, "18.2"), (0.0005, "0.1"), (1.0, "100.0"), (0, "0.0")],
)
def test_half_is_rounded_up(value, text):
    assert percent(value) == text


def test_undefined_is_a_dash():
    assert percent(math.nan) == "–"


@pytest.mark.parametrize("protocol", ["phasefusion", "stableeval", "quick"])
@pytest.mark.parametrize("k", [18, 19, 21, 26])
def test_many_options(tmp_path, protocol, k):
    made_run(tmp_path, protocol=protocol, n_items=3, n_options=k)
    made = report(tmp_path)
    made.save(tmp_path)
    saved = json.loads((tmp_path / "report.json").read_text())
    assert len(saved["letters"][str(k)]["shares"]) == k
    if protocol != "quick":
        possible = saved["order_flips"]["by_options"][str(k)]["orders_possible"]
        assert possible == pytest.approx(math.factorial(k), rel=1e-15)
        assert type(possible) is (int if k == 18 else float)
        shown = str(possible) if k == 18 else f"{possible:.3g}"
        assert f" of {shown} " in str(made)
    with Console(width=80, color_system=None) as console, console.capture() as capture:
        console.print(made)
    assert "…" not in capture.get()
    assert max(map(len, capture.get().splitlines())) <= 80


@pytest.mark.parametrize("protocol", ["phasefusion", "stableeval", "quick"])
def test_a_run_without_one_usable_pass_says_so(tmp_path, protocol):
    passes = made_run(tmp_path, protocol=protocol, n_items=3, drop="all")
    made = report(tmp_path)
    n = len(passes)
    assert f"{n} of {n} passes are missing: made missing" in str(made).replace(
        "\n  ", " "
    )
    lines = headline(made.numbers)
    assert lines[0] == f"3 of 3 questions on 2 videos, {n} passes."
    assert not any(percent(math.nan) in line for line in lines)
    assert "Only 0 of 3 questions have every pass" in " ".join(lines)
    assert made.to_dict()["items"]["missing_reasons"] == [
        {"reason": "made missing", "n": n}
    ]
    for section in sections(made.numbers):
        for row in section.rows:
            for name, cell in zip(section.columns, row, strict=True):
                assert name != "p" or cell == percent(math.nan)


def test_few_questions_left_are_named(tmp_path):
    drop = {(i, "dense", True, 0, 0) for i in range(8)}
    passes = made_run(tmp_path, drop=drop)
    for row, reason in zip(
        (row for row in passes if row["invalid"]), ["no sound"] * 3, strict=False
    ):
        row["invalid"] = reason
    (tmp_path / "passes.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in passes)
    )
    lines = headline(report(tmp_path).numbers)
    assert (
        f"8 of {len(passes)} passes are missing: most often (5 times) made missing; "
        "then (3 times) no sound" in lines
    )
    assert any(line.startswith("Only 6 of 14 questions have every") for line in lines)
    drop = {(i, "dense", True, 0, 0) for i in range(2)}
    made_run(tmp_path / "one", n_items=3, drop=drop)
    (said,) = [s for s in headline(report(tmp_path / "one").numbers) if "Only" in s]
    assert said.startswith("Only 1 of 3 questions has every pass")
    assert "rest on it alone" in said
    made_run(tmp_path, drop=set(list(drop)[:7]))
    lines = headline(report(tmp_path).numbers)
    assert not any(line.startswith("Only") for line in lines)


def test_seconds_of_any_size_are_summed(tmp_path):
    passes = made_run(tmp_path, protocol="quick")
    for row in passes:
        row["seconds"] = 1e308
    lines = "".join(json.dumps(row) + "\n" for row in passes)
    (tmp_path / "passes.jsonl").write_text(lines)
    assert "Scoring took: single inf s a pass, inf s in all" in str(report(tmp_path))
    passes[-1]["seconds"] = 1e300
    (tmp_path / "passes.jsonl").write_text(json.dumps(passes[-1]) + "\n")
    assert "1e+300 s a pass, 1e+300 s in all" in str(report(tmp_path))


def test_notes_define_their_words(tmp_path, made):
    notes = {part.title: part.note for part in sections(made.numbers)}
    assert "low when the smaller is below 0.75" in notes["Consistency"]
    assert "6 configurations (3 phases x 2 option orders" in notes["Consistency"]
    assert "same share" not in notes["Letters answered"]
    made_run(tmp_path, protocol="stableeval")
    notes = {part.title: part.note for part in sections(report(tmp_path).numbers)}
    assert "same share" in notes["Letters answered"]


@pytest.mark.parametrize(("per_video", "n_videos"), [(1, 14), (2, 7), (14, 1)])
def test_what_questions_share_decides_on_intervals_and_tests(
    tmp_path, per_video, n_videos
):
    made_run(tmp_path, per_video=per_video)
    made = report(tmp_path)
    first, second, *_ = headline(made.numbers)
    assert f"on {by_number(n_videos, '1 video', f'{n_videos} videos')}, " in first
    assert ("clustered by video" in second) == (n_videos == 7)
    assert ("share one video" in second) == (n_videos == 1)
    by_title = {part.title: part for part in sections(made.numbers)}
    shared = "95 % intervals clustered by video (CR1, t)."
    alone = "95 % Wilson intervals over questions."
    for title in ("Accuracy", "Phase flips", "Order flips", "Consistency"):
        assert (shared in by_title[title].note) == (per_video > 1)
        assert (alone in by_title[title].note) == (per_video == 1)
    tested = by_title["Fusion against the other arms"]
    assert ("clustered by video" in tested.note) == (per_video > 1)
    for row, entry in zip(tested.rows, made.numbers["comparisons"], strict=True):
        p = entry["consensus"]["p" if per_video == 1 else "p_clustered"]
        assert math.isnan(p) == (n_videos == 1)
        assert row[5] == (percent(math.nan) if n_videos == 1 else _p(p))


def test_repr(made):
    assert repr(made).startswith("Report(phasefusion, 14 items, ")
    assert isinstance(made, Report)


@pytest.mark.parametrize("given", ["folder", "passes.jsonl", "renamed.jsonl"])
def test_passes_without_run_file_are_reported(tmp_path, given):
    folder = tmp_path / "run"
    made_run(folder)
    of_run = report(folder).numbers
    (folder / "run.json").unlink()
    if given == "renamed.jsonl":
        (folder / "passes.jsonl").rename(folder / given)
    path = folder if given == "folder" else folder / given
    bare = report(path)
    assert bare.numbers["protocol"] == "recorded"
    assert bare.numbers["card"]["grid"] is None
    assert bare.numbers["accuracy"]["fusion"] == of_run["accuracy"]["fusion"]
    assert bare.save_html(path) == folder / "report.html"
    assert "protocol recorded" in str(bare)


def test_the_pass_file_of_a_run_is_that_run(tmp_path):
    made_run(tmp_path / "run")
    whole = report(tmp_path / "run").to_dict()
    part = report(tmp_path / "run" / "passes.jsonl").to_dict()
    assert part == whole


def test_no_passes_and_a_file_in_place_of_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="no run here"):
        report(tmp_path)
    made_run(tmp_path / "run")
    with pytest.raises(RecordError, match="is a file; give the run folder"):
        read_run(tmp_path / "run" / "passes.jsonl")


def test_without_a_right_answer_there_is_no_accuracy(tmp_path):
    """And it is said, also beside a table of costs that has no accuracy in it."""
    rows = made_run(tmp_path, n_items=4)
    text = "".join(json.dumps(row | {"gold": None}) + "\n" for row in rows)
    (tmp_path / "passes.jsonl").write_text(text)
    made = report(tmp_path)
    said = "No question has a right answer, so there is no accuracy."
    assert said in headline(made.numbers)
    (part,) = [one for one in sections(made.numbers) if one.title == "Accuracy"]
    assert part.note.startswith(said)
    assert not any("Accuracy" in line for line in headline(made.numbers))


@pytest.mark.parametrize(
    ("protocol", "label"),
    [
        ("phasefusion", "Accuracy, mean over orders: "),
        ("quick", "Accuracy, in one option order: "),
    ],
)
def test_an_accuracy_says_of_which_answers_it_is(tmp_path, protocol, label):
    made_run(tmp_path, protocol=protocol)
    assert any(line.startswith(label) for line in headline(report(tmp_path).numbers))


@pytest.mark.parametrize("protocol", ["phasefusion", "quick"])
def test_consistency_of_one_pass_is_left_out(tmp_path, protocol):
    made_run(tmp_path, protocol=protocol)
    made = report(tmp_path)
    titles = [one.title for one in sections(made.numbers)]
    lines = headline(made.numbers)
    is_quick = protocol == "quick"
    assert ("Consistency" not in titles) == is_quick
    said = any(line.startswith("Consistency is not measured") for line in lines)
    assert said == is_quick


def test_a_report_of_no_known_protocol_names_none(tmp_path):
    made_run(tmp_path, n_items=2)
    described = read_run(tmp_path)
    del described["settings"]["protocol"]
    (tmp_path / "run.json").write_text(json.dumps(described))
    found = report(tmp_path)
    for text in (str(found), found.to_markdown(), found._repr_html_()):
        assert "phasefusion report" in text
        assert "protocol None" not in text
