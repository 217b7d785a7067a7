"""The page of a history: what is in it, and that a browser shows it."""

import re

import numpy as np
import pytest
from batch_series import batch, item_values
from html_pages import pixels

from phasefusion.errors import RecordError
from phasefusion.monitor._watching import watch
from phasefusion.simulate import Effects

HOSTILE = "<script>window.hacked = 1</script>"
N = 18


def watched(n=N, changed=14, **options):
    """A history whose phases disagree more from batch `changed` on."""
    batches = []
    for i in range(n):
        effects = Effects(phase_sd=1.6) if i >= changed else Effects()
        values, videos = item_values(effects, n_videos=40, seed=i)
        described = {"model": {"path": HOSTILE if i >= changed else "old"}}
        at = f"2026-01-{i + 1:02d}T00:00:00Z"
        batches.append(batch(at, values, videos, items=str(i), described=described))
    given = {"baseline": 10, "every": 370.0, "width": None, "h": None}
    return watch(batches, "quality.sqlite", **(given | options))


def p_chart(one):
    return "p chart" if one.baseline.dispersion == 1 else "Laney p′ chart"


@pytest.fixture(scope="module")
def made():
    made = watched()
    fpc = made.measures[1]
    assert {alert.chart for alert in fpc.alerts} == {"p chart", "CUSUM"}
    return made


@pytest.fixture(scope="module")
def path(made, tmp_path_factory):
    return made.save_html(tmp_path_factory.mktemp("page") / "new" / "quality.html")


def test_one_file_without_addresses(path):
    text = path.read_text(encoding="utf-8")
    assert [p.name for p in path.parent.iterdir()] == ["quality.html"]
    names = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"https?://[^\s\"'<>)]*", text)) <= names
    assert text.count("<script>") == 1
    assert "default-src 'none'; script-src 'sha256-" in text


def test_the_same_page_twice(made, path, tmp_path):
    assert made.save_html(tmp_path / "b.html").read_bytes() == path.read_bytes()


def test_opens_with_charts_alerts_and_every_batch(open_page, made, path):
    page = open_page(path)
    assert page.locator("h1").inner_text() == "phasefusion monitor"
    assert page.locator(".tag").inner_text() == "alarm"
    assert page.evaluate("window.hacked") is None
    titles = page.locator("figure h3").all_inner_texts()
    names = ("Mean accuracy", "FPC", "OOC")
    charts = zip(names, made.measures, strict=True)
    assert titles == [
        f"{name}: {kind}" for name, one in charts for kind in (p_chart(one), "CUSUM")
    ]
    assert page.locator("figure svg").count() == 6
    alert = next(a for a in made.alerts if a.active and a.measure == "fpc")
    told = page.locator(".alerts").first.inner_text()
    assert f"FPC fell since {alert.since}" in told
    assert HOSTILE in told
    table = page.locator("h3:text-is('FPC') + .scroll")
    assert table.locator("tbody tr").count() == N
    fpc = made.measures[1]
    row = table.locator("tbody tr").last.inner_text().split("\t")
    assert row[0] == fpc.at[-1]
    assert float(row[1]) == pytest.approx(100 * fpc.values[-1], abs=0.006)
    low, high = map(float, re.findall(r"[\d.]+", row[4]))
    assert low == pytest.approx(100 * fpc.lower[-1], abs=0.006)
    assert high == pytest.approx(100 * fpc.upper[-1], abs=0.006)
    assert float(row[5]) == pytest.approx(fpc.cusum_fell[-1], abs=0.006)


def test_charts_are_where_the_numbers_are(open_page, made, path):
    """Markers of batches outside the limits are below the lower one on the screen."""
    page = open_page(path)
    fpc = made.measures[1]
    figure = page.locator(f"figure:has(h3:text-is('FPC: {p_chart(fpc)}'))")
    text = figure.locator("figcaption").inner_text()
    assert f"Newest: {100 * fpc.values[-1]:.2f} %" in text
    since = next(a.since for a in fpc.alerts if a.chart == "p chart" and a.active)
    assert f"fell since {since}" in text
    svg = figure.locator("svg")
    outside = np.array(fpc.values) < np.array(fpc.lower)
    marks = svg.locator("use[style*='#d55e00']")
    assert marks.count() == outside.sum() > 0
    y = [float(mark.get_attribute("y")) for mark in marks.all()]
    values = np.array(fpc.values)[outside]
    assert np.argsort(y).tolist() == np.argsort(-values).tolist()
    assert "since 2026-01-" in svg.text_content()


def test_screenshot_and_dark(open_page, path):
    shot = pixels(open_page(path))
    assert (shot.max(axis=2) < 90).mean() > 0.003  # text
    blue = np.abs(shot - [0, 0x72, 0xB2]).max(axis=2) < 12
    assert blue.mean() > 1e-4  # lines of the charts
    page = open_page(path, color_scheme="dark")
    assert pixels(page).mean() < shot.mean() - 100
    page.keyboard.press("d")
    assert pixels(page).mean() == pytest.approx(shot.mean(), abs=3)


def test_a_baseline_that_is_not_full(open_page, tmp_path):
    made = watched(n=3, changed=9)
    page = open_page(made.save_html(tmp_path / "young.html"))
    assert page.locator(".tag").inner_text() == "baseline"
    assert page.locator("figure").count() == 3  # no sums yet
    assert page.locator(".alerts").count() == 0
    assert "3 of 10 batches" in page.locator(".headline").inner_text()


def test_where_nothing_can_be_written(made, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot be written"):
        made.save_html(tmp_path / "file" / "page.html")
