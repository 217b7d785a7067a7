"""Reports as text, Markdown, HTML and files."""

import json
import math

import pytest
from made_runs import made_run
from rich.console import Console

from phasefusion.errors import RecordError
from phasefusion.report import Report, report
from phasefusion.report.sections import percent, sections


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


def test_repr(made):
    assert repr(made).startswith("Report(phasefusion, 14 items, ")
    assert isinstance(made, Report)
