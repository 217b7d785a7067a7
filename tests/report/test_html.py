"""The page as a file: what is in it, what cannot be, and where pictures lie."""

import json
import re

import numpy as np
import pytest
from html_runs import HOSTILE, add_saliency, run_with_questions

import phasefusion as pf
from phasefusion import tinyvlm
from phasefusion._video_digest import video_digest
from phasefusion.datasets import load_questions
from phasefusion.datasets.item import item_hash
from phasefusion.errors import RecordError, RecordWarning, UsageError
from phasefusion.records import read_passes, read_run
from phasefusion.records.questions import find_questions
from phasefusion.report import report
from phasefusion.report.html import inert_json
from phasefusion.report.html.data import heat_maps, page_data
from phasefusion.report.html.plots import plots
from phasefusion.report.table import build

CLIP = tinyvlm.questions_path().parent / "clip-000.mp4"


def data_of(path):
    page = path.read_text(encoding="utf-8")
    found = re.findall(
        r'<script id="data" type="application/json">(.*?)</script>', page
    )
    assert len(found) == 1
    return page, json.loads(found[0])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    run_with_questions(folder, clip=CLIP, drop={(3, "phase", False, 1, 2)})
    return folder


@pytest.fixture(scope="module")
def page(run):
    return data_of(report(run).save_html(run))


def test_hostile_texts_are_data(page):
    text, data = page
    assert data["items"][0]["question"] == HOSTILE
    assert data["items"][0]["options"][0] == HOSTILE + " option"
    assert "window.hacked" in text
    assert "<script>window.hacked" not in text
    assert "<img src=x" not in text
    assert text.count("<script") == text.count("</script>") == 2


def test_hostile_type_and_protocol(tmp_path):
    run_with_questions(tmp_path, n_items=4)
    path = tmp_path / "passes.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row | {"type": HOSTILE}) + "\n" for row in rows))
    text, data = data_of(report(tmp_path).save_html(tmp_path))
    assert data["items"][0]["type"] == HOSTILE
    assert text.count("<script") == text.count("</script>") == 2
    assert "<img src=x" not in text


@pytest.mark.parametrize("text", ["</script>", "<!--", "&lt;", "\u2028\u2029", '"\\'])
def test_inert_json(text):
    made = inert_json({"a": text})
    assert json.loads(made) == {"a": text}
    assert not set(made) & set("<>&\u2028\u2029")


def test_nothing_can_be_fetched(page):
    text, _ = page
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    without_data = re.sub(r'<script id="data".*?</script>', "", text)
    addresses = set(re.findall(r"https?://[^\s\"'<>)]*", without_data))
    names = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert addresses <= names  # names of vocabularies, which nobody loads
    assert not re.search(r"<(link|iframe|object|embed|base)\b|@import", without_data)
    assert not re.search(
        r"\b(fetch|XMLHttpRequest|WebSocket|import)\s*\(", without_data
    )


def test_posteriors_are_those_of_the_passes(run, page):
    _, data = page
    passes = [
        json.loads(line) for line in (run / "passes.jsonl").read_text().splitlines()
    ]
    for i in (0, 5):
        item = data["items"][i]
        of_item = [
            row
            for row in passes
            if row["question_id"] == item["id"]
            and row["arm"] == "phase"
            and not row["shifted"]
        ]
        total = np.zeros(item["k"])
        for row in of_item:
            content = np.empty(item["k"])
            content[row["order"]] = np.exp(row["logprobs"])
            content /= content.sum()
            total += content
            m = item["orders"].index(row["order"])
            shown = item["posteriors"][f"phase {row['phase_index']}"][m]
            assert np.abs(np.array(shown) - 1000 * content).max() <= 0.5 + 1e-6
            answer = item["answers"][f"phase {row['phase_index']}"][m]
            assert answer == row["answer"]
        fused = 1000 * total / len(of_item)
        assert np.abs(np.array(item["fused"]) - fused).max() <= 0.5 + 1e-6


def test_the_margin_is_that_of_the_answer_shown(page):
    """Also where the mean over the orders prefers another option: below 0 then."""
    _, data = page
    assert data["main"] == "fusion"
    n_others = 0
    for item in data["items"]:
        answer, fused = item["answer"], np.array(item["fused"]) / 1000
        if answer < 0:
            assert item["margin"] is None
            continue
        mean = np.array(item["posteriors"]["fusion"]).mean(axis=0) / 1000
        assert np.abs(mean - fused).max() < 2e-3
        votes = np.bincount(item["answers"]["fusion"])
        assert votes[answer] == votes.max()
        others = np.delete(fused, answer).max()
        assert item["margin"] == pytest.approx(np.log(fused[answer] / others), abs=0.02)
        if item["pooled_answer"] != answer:
            n_others += 1
            assert item["margin"] < 0
            assert fused[item["pooled_answer"]] == fused.max()
        else:
            assert item["margin"] >= 0
    assert n_others > 0


def test_a_tie_of_the_mean_is_broken_as_in_the_arms(tmp_path):
    """Options that rounding alone keeps apart are equal, so both answers are one."""
    run_with_questions(tmp_path, n_items=4)
    path = tmp_path / "passes.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    first, k = rows[0]["question_id"], rows[0]["n_options"]
    seed = json.loads((tmp_path / "run.json").read_text())["settings"].get("seed", 0)
    equal = np.full(k, np.log(1 / k))
    chosen = int(pf.fuse(equal[None], item_id=first, seed=seed).answer)
    equal[(chosen + 1) % k] += 2 * np.spacing(1.0)
    for row in rows:
        if row["question_id"] == first:
            row["logprobs"] = equal[row["order"]].tolist()
            row["answer"] = chosen
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    item = data_of(report(tmp_path).save_html(tmp_path))[1]["items"][0]
    assert item["id"] == first
    assert item["answer"] == item["pooled_answer"] == chosen


@pytest.mark.parametrize("protocol", ["phasefusion", "quick", "stableeval"])
def test_words_are_explained(tmp_path, protocol):
    """Every arm of the run and every column of the table, in the fold and no others."""
    run_with_questions(tmp_path, protocol=protocol)
    text, data = data_of(report(tmp_path).save_html(tmp_path))
    fold = text[text.index('<details id="words">') :]
    fold = fold[: fold.index("</details>")]
    for name, meaning in data["about"].items():
        assert f"<dt>{name}</dt><dd>{meaning}</dd>" in fold
    for arm in ("single", "fusion", "vote", "union", "dense"):
        assert (f"<dt>{arm}</dt>" in fold) == (arm in data["arms"])
    assert f"consensus of {data['main']}" in text


@pytest.mark.parametrize("arm", ["union", "dense"])
def test_posteriors_of_single_passes(run, page, arm):
    _, data = page
    passes = [
        json.loads(line) for line in (run / "passes.jsonl").read_text().splitlines()
    ]
    n_seen = 0
    for item in data["items"]:
        for row in passes:
            if row["question_id"] != item["id"] or row["arm"] != arm or row["shifted"]:
                continue
            content = np.empty(item["k"])
            content[row["order"]] = np.exp(row["logprobs"])
            shown = item["posteriors"][arm][item["orders"].index(row["order"])]
            apart = np.array(shown) - 1000 * content / content.sum()
            assert np.abs(apart).max() <= 0.5 + 1e-6
            n_seen += 1
    assert n_seen == sum(len(item["orders"]) for item in data["items"])


def test_the_single_pass_is_the_view_that_it_is(page):
    item = page[1]["items"][5]
    assert item["answers"]["single"] == item["answers"]["phase 1"]
    assert item["posteriors"]["single"] == item["posteriors"]["phase 1"]
    assert set(item["posteriors"]) == set(item["answers"]) - {"vote"}


def test_missing_passes_are_none(page):
    item = page[1]["items"][3]
    assert item["missing"] == 1
    assert item["posteriors"]["phase 1"][2] == [-1] * item["k"]
    assert item["answers"]["phase 1"][2] == -1
    assert item["phase_flip"] is None


def test_strips(page):
    _, data = page
    strips = data["strips"]["0"]
    assert [one["phase"] for one in strips] == [0, 1, 2]
    assert strips[1]["frames"] == [1, 4, 7, 10]
    assert all(one["source"].startswith("data:image/") for one in strips)
    assert strips[0]["w"] % 4 == 0
    assert max(strips[0]["w"] // 4, strips[0]["h"]) == 112


def test_a_missing_video_is_said_in_place(page):
    strips = page[1]["strips"]["1"]
    assert len(strips) == 3
    assert all("source" not in one and "gone-1.mp4" in one["note"] for one in strips)


def test_strips_go_to_the_least_stable(run, tmp_path):
    _, data = data_of(report(run).save_html(run, tmp_path, n_strips=2))
    flips = [item["phase_flip"] or 0 for item in data["items"]]
    chosen = [int(i) for i in data["strips"]]
    assert len(chosen) == 2
    assert all(flips[i] == max(flips) for i in chosen)
    _, data = data_of(report(run).save_html(run, tmp_path, n_strips=0))
    assert data["strips"] == {}


def test_pictures_beside_the_page(run, tmp_path):
    made = report(run)
    text, data = data_of(made.save_html(run, tmp_path, inline_bytes=0))
    sources = {
        one["source"]
        for strips in data["strips"].values()
        for one in strips
        if "source" in one
    }
    assert len(sources) == 3  # one clip, three phases, shared by the questions
    for source in sources:
        assert (tmp_path / source).read_bytes()[:2] in (b"\xff\xd8", b"\x89P")
    assert "data:image" not in text
    made.save_html(run, tmp_path)
    assert not (tmp_path / "report_files").exists()


def test_heat_maps(run):
    described = read_run(run)
    passes = read_passes(run)
    table = build(passes, described["settings"])
    heats = heat_maps(table)
    rows = [
        json.loads(line) for line in (run / "passes.jsonl").read_text().splitlines()
    ]
    lacking = {row["question_id"] for row in rows if row["answer"] is None}
    data = page_data(passes, table, described["settings"], find_questions({}))
    n_orders = heats[0]["orders"]
    right = [
        [
            item["answers"]["phase 2"][m] == item["gold"]
            for item in data["items"]
            if item["id"] not in lacking
        ]
        for m in range(n_orders)
    ]
    shown = [cell["text"] for cell in heats[0]["rows"][2]["cells"]]
    assert shown == [f"{100 * np.mean(column):.1f}" for column in right]
    assert heats[0]["n"] == len(data["items"]) - len(lacking)


@pytest.mark.parametrize("protocol", ["quick", "stableeval"])
def test_other_protocols(tmp_path, protocol):
    run_with_questions(tmp_path, protocol=protocol, n_items=6)
    _, data = data_of(report(tmp_path).save_html(tmp_path))
    assert len(data["items"]) == 6
    arms = ["single"] if protocol == "quick" else ["phase 0", "phase 1", "phase 2"]
    assert set(arms) <= set(data["items"][0]["posteriors"])
    assert ("fused" in data["items"][0]) == (protocol == "stableeval")


def test_a_run_without_answers(tmp_path):
    run_with_questions(tmp_path, n_items=3, drop="all")
    _, data = data_of(report(tmp_path).save_html(tmp_path))
    assert [item["answer"] for item in data["items"]] == [-1, -1, -1]
    assert [item["margin"] for item in data["items"]] == [None, None, None]


def test_generated_answers(tmp_path):
    run_with_questions(tmp_path, n_items=4)
    path = tmp_path / "passes.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row |= {"path": "generate", "logprobs": None, "text": "so I think"}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, data = data_of(report(tmp_path).save_html(tmp_path))
    assert data["main"] == "vote"
    assert all("posteriors" not in item for item in data["items"])
    assert all(item["answer"] >= 0 for item in data["items"])


def test_a_run_without_its_questions(tmp_path):
    run_with_questions(tmp_path, n_items=4).unlink()
    with pytest.warns(RecordWarning, match="cannot be read .* --questions FILE"):
        text, data = data_of(report(tmp_path).save_html(tmp_path))
    assert "cannot be read" in text
    assert data["items"][0]["question"] == ""
    assert data["strips"] == {}


def test_questions_given(run, tmp_path):
    questions = tmp_path / "moved.jsonl"
    questions.write_text((run / "questions.jsonl").read_text())
    _, data = data_of(
        report(run).save_html(run, tmp_path, questions=questions, n_strips=0)
    )
    assert data["items"][2]["question"] == "What happens in number 2?"
    with pytest.raises(FileNotFoundError):
        report(run).save_html(run, tmp_path, questions=tmp_path / "none.jsonl")


def test_questions_of_another_run_are_said_to_be_others(run, tmp_path):
    lines = (run / "questions.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    n = len(read_passes(run).items)
    for kept, others in ((3, rows[:3]), (0, [rows[0] | {"question_id": "other"}])):
        path = tmp_path / "q.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in others))
        with pytest.warns(RecordWarning, match=f"has {kept} of the {n} questions"):
            report(run).save_html(run, tmp_path, questions=path, n_strips=0)


def test_changed_questions_are_not_shown(tmp_path):
    questions = run_with_questions(tmp_path, n_items=4)
    path = tmp_path / "run.json"
    described = json.loads(path.read_text())
    same = load_questions(questions, check_videos=False)
    hashes = {one.question_id: item_hash(one) for one in same}
    described["questions"]["items"] = {"made": hashes | {"q2": "0" * 12}}
    path.write_text(json.dumps(described))
    text, data = data_of(report(tmp_path).save_html(tmp_path))
    assert "others than those that were scored: 1." in text
    assert [bool(item["question"]) for item in data["items"]] == [1, 1, 0, 1]


def test_the_same_page_twice(run, tmp_path):
    made = report(run)
    first = made.save_html(run, tmp_path / "a").read_bytes()
    assert made.save_html(run, tmp_path / "b").read_bytes() == first


def test_refused(run, tmp_path):
    made = report(run)
    with pytest.raises(UsageError, match="n_strips is -1"):
        made.save_html(run, tmp_path, n_strips=-1)
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot be written"):
        made.save_html(run, tmp_path / "file", n_strips=0)


def test_plots_follow_the_page(page):
    pytest.importorskip("matplotlib")
    text, _ = page
    svgs = re.findall(r"<svg .*?</svg>", text, flags=re.S)
    assert len(svgs) == 4
    assert all("var(--ink)" in svg for svg in svgs)
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for reference in re.findall(r'(?:url\(#|xlink:href="#)([^")]+)', text):
        assert reference in ids


def test_shares_of_frames(tmp_path):
    run_with_questions(tmp_path, clip=CLIP, n_items=8)
    rows = add_saliency(tmp_path, kinds=("occlusion", "gradient"))
    _, data = data_of(report(tmp_path).save_html(tmp_path, n_strips=1))
    assert {"0", "1", "2", "3", "4", "5"} <= set(data["strips"])
    strips = {one["phase"]: one for one in data["strips"]["0"]}
    first = strips[0]["shares"]
    assert [one["kind"] for one in first] == ["phase", "phase", "flip"]
    assert first[0]["values"][:2] == [None, -3.5]
    assert first[0]["values"][2] == round(rows[0]["values"][0][2], 3)
    assert first[0]["option"] == rows[0]["options"][0]
    flip = next(row for row in rows if row["kind"] == "flip")
    for s, n in ((0, 0), (2, 1)):
        shown = strips[s]["shares"][-1]
        assert shown["values"] == [round(value, 3) for value in flip["values"][n]]
        assert (shown["option"], shown["against"]) == (0, 1)
        assert (shown["other"], shown["first"]) == (2 - s, n == 0)
        assert shown["base"] == flip["base"][n]
    assert len(strips[1]["shares"]) == 2  # no flip of it
    no_pictures = data["strips"]["1"]  # its video is gone
    assert all("source" not in one and one["shares"] for one in no_pictures)
    _, data = data_of(report(tmp_path).save_html(tmp_path, n_strips=0))
    assert data["strips"] == {}


def test_shares_of_other_frames_are_left_out(tmp_path):
    run_with_questions(tmp_path, clip=CLIP, n_items=4)
    rows = add_saliency(tmp_path)
    rows[0]["frame_indices"] = [[99, *rows[0]["frame_indices"][0][1:]]]
    (tmp_path / "saliency.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
    )
    _, data = data_of(report(tmp_path).save_html(tmp_path))
    assert [one["kind"] for one in data["strips"]["0"][0]["shares"]] == ["flip"]


def test_shares_of_the_frames_that_a_long_strip_shows(tmp_path):
    run_with_questions(tmp_path, n_items=1)
    path = tmp_path / "passes.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for row in lines:
        if row["frame_indices"]:
            row["frame_indices"] = [2 * i for i in range(50)]
            row["frame_times_s"] = []
    path.write_text("".join(json.dumps(row) + "\n" for row in lines))
    rows = add_saliency(tmp_path, n_frames=50)
    _, data = data_of(report(tmp_path).save_html(tmp_path))
    strip = data["strips"]["0"][1]
    assert len(strip["frames"]) == 32
    values = rows[1]["values"][0]
    wanted = [round(values[index // 2], 3) for index in strip["frames"]]
    assert strip["shares"][0]["values"] == wanted


def test_no_frames_of_another_file(tmp_path):
    run_with_questions(tmp_path, clip=CLIP)
    path = tmp_path / "passes.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    changed = rows[0]["question_id"]
    same = video_digest(CLIP)
    for row in rows:
        row["video_digest"] = "0" * 16 if row["question_id"] == changed else same
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.warns(RecordWarning, match=r"1 video is not the file .*clip-000\.mp4"):
        _, data = data_of(report(tmp_path).save_html(tmp_path))
    number = [item["id"] for item in data["items"]].index(changed)
    strips = data["strips"][str(number)]
    assert len(strips) == 3
    assert all("source" not in one for one in strips)
    assert all(
        one["note"] == f"No frames: {CLIP} is not the file that was scored"
        for one in strips
    )
    others = [i for i in data["strips"] if i not in (str(number), "1")]
    assert others
    assert all("source" in one for i in others for one in data["strips"][i])


def test_a_plot_without_a_line_is_a_sentence(tmp_path):
    """Questions of equal margin cannot be answered one before the other."""
    run_with_questions(tmp_path, n_items=4)
    path = tmp_path / "passes.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row["logprobs"] = [-0.1 if c == 0 else -4.0 for c in row["order"]]
        row["answer"] = 0
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = report(tmp_path)
    (risk,) = [p for p in plots_of(made, tmp_path) if p["title"] == "Risk and coverage"]
    assert risk["svg"] == ""
    assert risk["note"].startswith("Not drawn: no two questions have different margins")


def test_axes_of_percentages_end_at_100(tmp_path):
    run_with_questions(tmp_path)
    path = tmp_path / "passes.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:  # right everywhere: intervals reach 100
        q = int(row["question_id"][1:])
        row["logprobs"] = [-0.1 - c * (1 + q) for c in row["order"]]
        row |= {"answer": 0, "gold": 0}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = plots_of(report(tmp_path), tmp_path)
    assert len(found) == 4
    for plot in found:
        ticks = re.findall(r">\s*(\d+(?:\.\d+)?)\s*</text>", plot["svg"])
        most = 100 if plot["title"] != "Margins" else 1000
        assert ticks
        assert max(map(float, ticks)) <= most, plot["title"]


def plots_of(made, folder):
    table = build(read_passes(folder), read_run(folder)["settings"])
    return plots(made.numbers, table)
