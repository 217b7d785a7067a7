"""The page in a real browser: Chromium, driven by Playwright; skipped without."""

import io
import json
import time

import numpy as np
import pytest
from html_pages import pixels
from html_runs import HOSTILE, add_saliency, run_with_questions

from phasefusion import tinyvlm
from phasefusion.report import report

CLIP = tinyvlm.questions_path().parent / "clip-000.mp4"
LARGE = 3000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    run_with_questions(folder, clip=CLIP)
    return report(folder).save_html(folder)


def ids(page):
    cells = page.locator("#rows tr.item td:first-child").all_inner_texts()
    return [text.split()[0] for text in cells]


def test_opens(open_page, path):
    page = open_page(path)
    assert page.locator("#count").inner_text() == "14 of 14"
    assert ids(page) == [f"q{i}" for i in range(14)]
    assert page.evaluate("window.hacked") is None
    page.locator("#rows tr.item").first.click()
    assert page.locator("#item-title").text_content() == HOSTILE
    assert page.evaluate("window.hacked") is None
    assert page.locator("#item img").count() == 3


def test_filters(open_page, path):
    page = open_page(path)
    items = page.evaluate("JSON.parse(document.getElementById('data').textContent)")
    items = items["items"]
    page.fill("#search", "thing NUMBER 7")
    assert ids(page) == ["q7"]
    page.fill("#search", "no such words")
    assert page.locator("#count").inner_text() == "0 of 14"
    page.fill("#search", "")
    page.select_option("#kind", "where")
    assert ids(page) == [f"q{i}" for i in range(1, 14, 2)]
    page.select_option("#kind", "")
    page.select_option("#which", "phase")
    wanted = [item["id"] for item in items if item["phase_flip"]]
    assert ids(page) == wanted
    assert 0 < len(wanted) < 14
    page.select_option("#which", "wrong")
    assert ids(page) == [item["id"] for item in items if item["right"] == 0]


def test_what_is_not_defined_is_no_stability(open_page, tmp_path):
    """Of one pass nothing is known to be stable; of more, what lacks a pass is not."""
    run_with_questions(tmp_path / "quick", clip=CLIP, protocol="quick")
    page = open_page(report(tmp_path / "quick").save_html(tmp_path / "quick"))
    page.select_option("#which", "wrong")
    assert len(ids(page)) > 3
    page.select_option("#which", "gap")
    assert ids(page) == []
    for protocol in ("phasefusion", "stableeval"):
        folder = tmp_path / protocol
        run_with_questions(folder, clip=CLIP, protocol=protocol)
        make_sure(folder / "passes.jsonl")
        page = open_page(report(folder).save_html(folder))
        page.select_option("#which", "gap")
        assert ids(page) == ["q0", "q2"]


def make_sure(file):
    """The first four questions are answered alike, wrongly; two of them lack a pass."""
    passes = [json.loads(line) for line in file.read_text().splitlines()]
    for p in passes:
        q = int(p["question_id"][1:])
        wrong = 0 if p["gold"] else 1
        if q > 3:
            wrong = p["gold"] or 0
        p["answer"] = wrong
        p["logprobs"] = [-0.1 if c == wrong else -4.0 for c in p["order"]]
        p["invalid"] = None
        home = p["phase_index"] == 1 and not p["shifted"] and p["order"][0] == 0
        if q in (1, 3) and p["arm"] == "phase" and home:
            p |= {"answer": None, "logprobs": None, "invalid": "lost"}
    file.write_text("".join(json.dumps(p) + "\n" for p in passes))


def test_what_is_not_defined_is_sorted_last(open_page, tmp_path):
    run_with_questions(tmp_path, clip=CLIP)
    file = tmp_path / "passes.jsonl"
    passes = [json.loads(line) for line in file.read_text().splitlines()]
    for p in passes:
        q = int(p["question_id"][1:])
        p["gold"] = None if q == 5 else p["gold"]
        p["type"] = None if q == 5 else p["type"]
    file.write_text("".join(json.dumps(p) + "\n" for p in passes))
    page = open_page(report(tmp_path).save_html(tmp_path))
    for column in ("gold", "type", "right"):
        for _ in range(2):  # up and down
            page.click(f"#columns th:has-text('{column}') button")
            assert ids(page)[-1] == "q5"


def test_a_question_that_is_not_there_is_said(open_page, path):
    page = open_page(path)
    assert page.locator("#absent").inner_text() == ""
    for asked in ("999", "14", "-1", "q3"):
        page.goto("about:blank")
        page.goto(path.as_uri() + f"#item={asked}")
        said = page.locator("#absent").inner_text()
        assert f"There is no question #item={asked} on this page" in said
        assert "#item=0 to #item=13" in said
        assert page.locator("#item").is_hidden()
    page.evaluate("location.hash = '#item=3'")  # as a link or the address would
    page.wait_for_selector("#item-title")
    assert page.locator("#absent").inner_text() == ""
    page.evaluate("location.hash = '#item=77'")
    page.wait_for_function("document.getElementById('absent').textContent !== ''")


def test_sorts(open_page, path):
    page = open_page(path)
    page.click("#columns th:has-text('margin') button")
    found = page.locator("#rows tr.item td:last-child").all_inner_texts()
    margins = [float(text) for text in found]
    assert margins == sorted(margins)
    assert len(set(margins)) > 5
    page.click("#columns th:has-text('margin') button")
    found = page.locator("#rows tr.item td:last-child").all_inner_texts()
    assert [float(text) for text in found] == margins[::-1]
    head = page.locator("#columns th").last
    assert head.get_attribute("aria-sort") == "descending"
    page.click("#columns th:has-text('question') button")
    assert ids(page) == [f"q{i}" for i in range(14)]  # q10 after q9


def test_keys(open_page, path):
    page = open_page(path)
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "scroller"
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert page.locator("#item-title").inner_text() == "What happens in number 2?"
    page.keyboard.press("j")
    assert page.locator("#item-title").inner_text() == "What happens in number 3?"
    page.keyboard.press("k")
    page.keyboard.press("k")
    assert page.locator("#item-title").inner_text() == "What happens in number 1?"
    assert page.url.endswith("#item=1")
    assert "gone-1.mp4" in page.locator("#item").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("#item").is_hidden()


def test_item_page(open_page, path):
    page = open_page(path)
    page.goto(path.as_uri() + "#item=5")
    page.reload()
    assert page.locator("#item-title").inner_text() == "What happens in number 5?"
    item = page.evaluate(
        "JSON.parse(document.getElementById('data').textContent).items[5]"
    )
    rows = page.locator(".posteriors tbody th").all_inner_texts()
    assert rows[:4] == ["single", "phase 0", "phase 1", "phase 2"]
    assert "fusion" in rows
    assert rows[-2:] == ["union", "dense"]
    for arm in ("phase 1", "fusion", "union", "dense"):
        cell = page.locator(f".posteriors tr:has(th:text-is('{arm}')) td").nth(2)
        answer = item["answers"][arm][2]
        shares = item["posteriors"][arm][2]
        shown = f"{chr(65 + answer)} {shares[answer] / 10:.1f}"
        assert cell.inner_text().strip() == shown
        spoken = cell.locator(".bar").get_attribute("aria-label")
        assert spoken == ", ".join(
            f"{chr(65 + k)} {share / 10:.1f} %" for k, share in enumerate(shares)
        )
    assert page.locator("#item img").count() == 3


def test_linked_pictures(open_page, path, tmp_path):
    linked = report(path.parent).save_html(path.parent, tmp_path, inline_bytes=0)
    page = open_page(linked)
    page.locator("#rows tr.item").nth(2).click()
    image = page.locator("#item img").first
    image.evaluate("i => { i.loading = 'eager'; return i.decode(); }")
    assert image.evaluate("i => i.naturalWidth") == 4 * 112


def test_screenshot_has_content(open_page, path):
    page = open_page(path)
    shot = pixels(page)
    assert (shot.max(axis=2) < 90).mean() > 0.003  # text
    heat = page.locator(".heat td").first.bounding_box()
    assert heat["width"] > 20
    colours = np.unique(shot.reshape(-1, 3), axis=0)
    assert len(colours) > 100
    page.locator("#rows tr.item").nth(2).click()
    image = page.locator("#item img").first
    image.evaluate("i => { i.loading = 'eager'; return i.decode(); }")
    image.scroll_into_view_if_needed()
    picture = image.screenshot()
    shown = np.asarray(
        pytest.importorskip("PIL.Image").open(io.BytesIO(picture)).convert("RGB"), int
    )
    assert shown.std() > 5


def test_dark_and_print(open_page, path):
    light = pixels(open_page(path)).mean()
    page = open_page(path, color_scheme="dark")
    assert pixels(page).mean() < light - 100
    page.keyboard.press("d")
    assert pixels(page).mean() == pytest.approx(light, abs=3)
    page.keyboard.press("d")
    page.emulate_media(media="print")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(255, 255, 255)"
    assert page.locator("#filters").is_hidden()
    assert page.pdf()[:5] == b"%PDF-"


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    run_with_questions(folder, n_items=LARGE, hostile=(), protocol="stableeval")
    return report(folder).save_html(folder, n_strips=0)


def test_many_questions_are_quick(open_page, large):
    assert large.stat().st_size < 8_000_000
    start = time.perf_counter()
    page = open_page(large)
    assert page.locator("#count").inner_text() == f"{LARGE} of {LARGE}"
    assert time.perf_counter() - start < 15  # 1 s where nothing else runs
    assert page.locator("#rows tr").count() < 120
    start = time.perf_counter()
    page.fill("#search", f"number {LARGE - 1}")
    assert ids(page) == [f"q{LARGE - 1}"]
    page.fill("#search", "")
    page.click("#columns th:has-text('margin') button")
    page.focus("#scroller")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    assert time.perf_counter() - start < 15
    margins = page.evaluate(
        "JSON.parse(document.getElementById('data').textContent).items"
        ".map(item => item.margin)"
    )
    title = page.locator("#item-title").inner_text()
    assert title == f"What happens in number {int(np.argmax(margins))}?"


def test_all_rows_are_printed(open_page, path):
    page = open_page(path)
    page.set_viewport_size({"width": 1200, "height": 400})
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#rows tr.item").count() == 14
    assert json.loads(page.evaluate("document.getElementById('data').textContent"))


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    """A page with shares of frames, and what they are."""
    folder = tmp_path_factory.mktemp("explained")
    run_with_questions(folder, clip=CLIP, n_items=8)
    rows = add_saliency(folder, kinds=("occlusion", "gradient"))
    return report(folder).save_html(folder), rows


def test_shares_under_the_frames(open_page, explained):
    path, rows = explained
    page = open_page(path)
    page.select_option("#which", "shares")
    assert ids(page) == [f"q{i}" for i in range(6)]
    page.locator("#rows tr.item").first.click()
    strips = page.locator(".strip")
    assert strips.count() == 3
    groups = strips.nth(0).locator(".shares")
    assert groups.count() == 3  # two methods, and a flip
    values = rows[0]["values"][0]
    texts = groups.first.locator(".value").all_inner_texts()
    assert texts[:2] == ["–", "−3.50"]
    assert texts[3] == f"{values[3]:+.2f}".replace("-", "−")
    spoken = groups.first.locator(".well").nth(1).get_attribute("aria-label")
    answer = chr(65 + rows[0]["options"][0])
    frame = rows[0]["frame_indices"][0][1]
    assert spoken == f"frame {frame}: −3.50 nats for {answer}"
    title = groups.first.get_attribute("aria-label")
    assert title.startswith(f"For {answer}: what a frame adds to its log-posterior")
    assert "occlusion by the frame before" in title
    flip = groups.last.get_attribute("aria-label")
    assert flip.startswith("Flip, A against B: what a frame adds over that of phase 2")
    other = strips.nth(2).locator(".shares").last.get_attribute("aria-label")
    assert "what a frame of phase 0 adds over it" in other


def test_bars_are_as_tall_as_their_values(open_page, explained):
    path, rows = explained
    page = open_page(path)
    page.locator("#rows tr.item").first.click()
    well = page.locator(".well").first.bounding_box()
    most = max(
        abs(value)
        for row in rows
        if (row["question_id"], row["kind"], row["method"])
        == ("q0", "phase", "occlusion")
        for value in row["values"][0]
        if value is not None
    )
    groups = page.locator(".strip").nth(0).locator(".shares")
    bars = groups.first.locator(".share")
    assert bars.nth(0).bounding_box()["height"] == 0
    for i, value in list(enumerate(rows[0]["values"][0]))[1:]:
        box = bars.nth(i).bounding_box()
        wanted = well["height"] / 2 * abs(value) / most
        assert box["height"] == pytest.approx(wanted, abs=1)
        middle = groups.first.locator(".well").nth(i).bounding_box()
        middle = middle["y"] + middle["height"] / 2
        edge = box["y"] if value < 0 else box["y"] + box["height"]
        assert edge == pytest.approx(middle, abs=1)
    # every value stands under its own frame
    image = page.locator("#item img").first.bounding_box()
    for i in range(4):
        box = groups.first.locator(".well").nth(i).bounding_box()
        centre = image["x"] + image["width"] * (i + 0.5) / 4
        assert box["x"] + box["width"] / 2 == pytest.approx(centre, abs=3)


def test_shares_without_pictures_and_in_the_dark(open_page, explained):
    path, _ = explained
    page = open_page(path, color_scheme="dark")
    page.locator("#rows tr.item").nth(1).click()
    assert page.locator("#item img").count() == 0
    assert page.locator(".strip .frames").count() == 3
    shares = page.locator(".shares").first
    shares.scroll_into_view_if_needed()
    shot = shares.screenshot()
    image = pytest.importorskip("PIL.Image")
    shown = np.asarray(image.open(io.BytesIO(shot)).convert("RGB"), int)
    coloured = (shown.max(axis=2) - shown.min(axis=2)) > 60
    assert coloured.mean() > 0.01  # bars
    assert (shown.min(axis=2) > 150).mean() > 0.005  # values
    page.keyboard.press("j")
    assert page.locator("#item-title").inner_text() == "What happens in number 2?"
