"""The paper's published values stand beside what runs gave, each of them once."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

import phasefusion as pf
from phasefusion import simulate, stats
from phasefusion.audit import load_claims
from phasefusion.audit._paper_rows import SETTINGS
from phasefusion.audit.paper import (
    CANNOT,
    PaperTable,
    paper_row,
    paper_tables,
    published,
)
from phasefusion.errors import StatisticsError
from phasefusion.protocols import PROTOCOLS

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "05_paper_tables.ipynb"


def names_of(figures):
    return [one.name for one in figures]


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    made = simulate.corpus(n_videos=30, seed=3)
    sweep = simulate.corpus(n_videos=30, seed=3, phases=13)
    rotated = simulate.corpus(n_videos=30, seed=3, orders="cyclic")
    whole = simulate.corpus(n_videos=30, seed=3, orders="all", n_options={3: 1, 4: 1})
    folder = tmp_path_factory.mktemp("runs")
    runs = [
        made.write(folder / "a", frames=False),
        sweep.write(folder / "b", frames=False, protocol="phase-sweep"),
        rotated.write(folder / "c", frames=False, protocol="pride"),
        whole.write(folder / "d", frames=False, protocol="permutations"),
        made.write(folder / "e", frames=False, protocol="four-votes"),
    ]
    return sweep, [pf.report(run) for (run,) in runs]


def row_of(tables, name):
    (found,) = (
        row for one in tables for row in one.rows if name in names_of(row.published)
    )
    return found


def test_what_is_set_beside_is_what_the_reports_say(reports):
    sweep, done = reports
    tables = paper_tables({"simulated": done})
    numbers = done[0].numbers
    found = row_of(tables, "phase_q3")
    assert found.values == (numbers["phase_flips"]["consensus"]["pairwise"],)
    assert found.texts()[2:] == ("18.7, 20.1, 22.9, 22.2 %", "§2.2, p. 2; A, p. 7")
    shares = done[1].numbers["figure"]["tables"][0]["rows"]
    assert shares[-1]["some of them differ in"] == "all 13 phases"
    for name, share in (("dense_pairwise", shares[0]), ("dense_any", shares[-1])):
        assert row_of(tables, name).values == (share["questions"],)
    flips = stats.flip_rates(sweep.answers("phase")[:, :, 0])
    assert shares[-1]["questions"]["value"] == pytest.approx(flips.any, abs=0.15)
    fusion = row_of(tables, "fusion_accuracy").values[0]
    assert fusion == numbers["accuracy"]["fusion"]["consensus"]
    damping = row_of(tables, "damping").values[0]
    arms = numbers["half_step"]["arms"]
    assert damping == pytest.approx(
        arms["single"]["passes"]["value"] / arms["fusion"]["passes"]["value"]
    )
    for name in ("residual", "content_fixation", "pride_accuracy", "ensemble_accuracy"):
        value = row_of(tables, name).values[0]
        value = value["value"] if isinstance(value, dict) else value
        assert 0.0 < value < 1.0, name


def test_what_has_no_run_is_left_open(reports):
    tables = paper_tables({"one": reports[1][:1], "none": []})
    for name in ("sampler_flip", "blind_flips", "s3_p", "ego_4", "sampler_range"):
        assert set(row_of(tables, name).texts()[1:3]) == {"–"}, name
    assert row_of(tables, "fusion_units").texts()[1:4] == ("192", "–", "192 units")
    with pytest.raises(StatisticsError, match="two reports of protocol"):
        paper_tables({"one": reports[1][:1] * 2})
    with pytest.raises(StatisticsError, match="no reports"):
        paper_tables({"none": []})


def test_every_row_is_of_a_protocol_and_a_published_figure():
    from phasefusion.audit._paper_rows import ROWS

    for lines in ROWS.values():
        for label, names, protocol, find, kind in lines:
            assert label
            assert published(names)
            assert protocol in PROTOCOLS
            value = find({})
            assert value is None or math.isnan(value), label
            assert kind in ("rate", "percent", "points", "number", "count", "pvalue")


def test_every_published_figure_is_shown_or_said_why_not():
    tables = paper_tables({"": [_nothing()]})
    shown = [n for one in tables for row in one.rows for n in names_of(row.published)]
    cannot = [name for names in CANNOT for name in names.split()]
    notebook = "".join(
        "".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text())["cells"]
    )
    by_hand = set(re.findall(r"[a-z]\w+", " ".join(
        re.findall(r'paper_row\("[^"]*", "([^"]*)"', notebook)
    )))  # fmt: skip
    known = {n for n in load_claims("paper").figures if not n.startswith("s_")}
    assert len(shown) == len(set(shown))
    assert by_hand <= known
    together = {*shown, *cannot, *by_hand, *SETTINGS.split()}
    assert together == known
    assert not set(shown) & {*cannot, *by_hand}


def _nothing():
    return pf.report.__globals__["Report"]({"protocol": "quick"}, {})


def test_rows_take_results_of_statistics():
    made = stats.proportion_ci(3, 12)
    row = paper_row("x", "lost", made, 0.25)
    assert row.values[0]["value"] == 0.25
    assert row.texts()[1].startswith("25.0 [")
    assert row.texts()[2] == "25.0 %"
    with pytest.raises(StatisticsError, match="no figure 'loss'"):
        paper_row("x", "loss", 1.0)
    shown = PaperTable("<a>", ("here", "there"), (row,))._repr_html_()
    assert "&lt;a&gt;" in shown
    assert shown.count("<tr>") == 2


def test_a_corpus_writes_no_protocol_that_it_does_not_have(tmp_path):
    made = simulate.corpus(n_videos=2)
    for name in ("blind", "budget-sweep", "reruns", "random-draws", "margin"):
        with pytest.raises(StatisticsError, match=name):
            made.write(tmp_path, protocol=name)
    assert not list(tmp_path.iterdir())
