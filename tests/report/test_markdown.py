"""Markdown of every kind shows ids, texts and names as they are, and no markup."""

import itertools
import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import made_run

from phasefusion import _markdown
from phasefusion.audit import audit
from phasefusion.audit.printed import read_tables
from phasefusion.compare import compare
from phasefusion.gate import gate
from phasefusion.records import describe
from phasefusion.report import report

markdown_it = pytest.importorskip("markdown_it")

#: What a question, an option, a reason or a folder may be called.
ODD = "<img src=x onerror=alert(0)>|`a`\n# b *c* _d_ [e](f) &lt; \\| ~~g~~"
FLAT = " ".join(ODD.split())


class Page(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, markdown):
        super().__init__()
        self.tags, self.text = set(), ""
        parser = markdown_it.MarkdownIt("commonmark", {"html": True})
        self.feed(parser.enable(["table", "strikethrough"]).render(markdown))

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.text += data


@given(st.text(max_size=40))
def test_a_text_reads_as_it_is(text):
    page = Page(_markdown.inline(text))
    assert page.tags <= {"p"}
    assert " ".join(page.text.split()) == " ".join(text.replace("\0", "\ufffd").split())


@pytest.mark.parametrize(
    ("place", "tags"), [("", {"p"}), ("- ", {"ul", "li"}), ("## ", {"h2"})]
)
def test_no_three_marks_are_markup_wherever_a_text_stands(place, tags):
    for marks in itertools.product("\\`*_[]()#+-.!|<>~&=:; 0a", repeat=3):
        flat = " ".join("".join(marks).split())
        if flat:
            page = Page(place + _markdown.inline("".join(marks)))
            assert page.tags == tags
            assert " ".join(page.text.split()) == flat


@given(st.lists(st.text(max_size=20), min_size=1, max_size=4))
def test_a_row_is_read_back(cells):
    assert _markdown.cells_of(_markdown.row(cells)) == tuple(
        " ".join(cell.split()) for cell in cells
    )
    head = _markdown.row("h" * len(cells))
    page = Page(f"{head}\n|{'---|' * len(cells)}\n{_markdown.row(cells)}\n")
    assert page.tags <= {"table", "thead", "tbody", "tr", "th", "td"}


@given(st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=20))
def test_code_is_shown(text):
    flat = " ".join(text.split())
    if flat:
        page = Page("x " + _markdown.code(text))
        assert page.tags == {"p", "code"}
        assert page.text.strip() == "x " + flat


def odd_run(folder, protocol, **options):
    """A run whose ids, types, benchmark and reasons are the odd text."""
    lost = {(2, arm, False, 0, 1) for arm in ("phase", "single")}
    passes = made_run(folder, protocol=protocol, drop=lost, **options)
    for p in passes:
        p |= {"question_id": f"{p['question_id']} {ODD}", "benchmark": ODD}
        p |= {"video_id": f"{p['video_id']} {ODD}", "type": ODD}
        p["invalid"] = ODD if p["invalid"] else None
        p["video_problem"] = ODD
    text = "".join(json.dumps(p) + "\n" for p in passes)
    (folder / "passes.jsonl").write_text(text)
    run = json.loads((folder / "run.json").read_text())
    run["settings"]["scorer"] = {"model": ODD, ODD: ODD}
    (folder / "run.json").write_text(json.dumps(run))
    return folder


def check(markdown):
    page = Page(markdown)
    assert FLAT in page.text
    assert not page.tags & {"img", "a", "em", "strong", "s", "del"}
    assert "# b" not in [line.strip() for line in markdown.splitlines()]
    return page


@pytest.mark.parametrize("protocol", ["phasefusion", "stableeval", "quick", "latin"])
def test_reports(tmp_path, protocol):
    folder = odd_run(tmp_path, "quick" if protocol == "latin" else protocol)
    if protocol == "latin":
        run = json.loads((folder / "run.json").read_text())
        run["settings"]["protocol"] = protocol
        (folder / "run.json").write_text(json.dumps(run))
    made = report(folder)
    text = made.to_markdown()
    page = check(text)
    assert page.text.count(FLAT) >= 3
    told = [one.title for one in read_tables(text)]
    assert "Accuracy" in " ".join(told)
    cells = {cell for one in read_tables(text) for row in one.rows for cell in row}
    assert any(FLAT in cell for cell in cells)


def test_gates_comparisons_and_datasheets(tmp_path):
    old = odd_run(tmp_path / "<b>old*", "phasefusion")
    new = odd_run(tmp_path / "`new`_", "phasefusion")
    run = json.loads((new / "run.json").read_text())
    run["settings"]["scorer"] = {"model": f"other {ODD}"}
    (new / "run.json").write_text(json.dumps(run))
    pages = [check(one.to_markdown()) for one in (compare(old, new), gate(old, new))]
    for page in pages:
        assert f"{tmp_path}/<b>old*" in page.text
        assert f"{tmp_path}/`new`_" in page.text
    check(describe(old).to_markdown())


def test_audits(tmp_path):
    claims = {
        "title": "odd",
        "figures": {"share": "41.3"},
        "claims": [
            {"id": "a", "text": ODD, "published": "share", "compute": "41.3"},
            {"id": "b", "text": "t", "published": "share", "compute": "7", "note": ODD},
        ],
    }
    path = tmp_path / "claims.yaml"
    path.write_text(json.dumps(claims))  # which is YAML
    page = check(audit(path).to_markdown())
    assert page.text.count(FLAT) == 2
