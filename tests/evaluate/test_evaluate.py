"""Protocols on real clips: what is scored, what is decoded, what is recorded."""

import dataclasses
import json
import warnings
from fractions import Fraction

import numpy as np
import pytest
from pixel_scorer import PixelScorer, make_clip, make_questions
from pixel_scorer import short_run as run

import phasefusion as pf
from phasefusion import _runner, _spans, orders
from phasefusion.datasets import load_questions
from phasefusion.errors import (
    DatasetError,
    DuplicateFrameWarning,
    GridError,
    NoAnswerWarning,
    OptionWarning,
    RecordError,
    ScoringError,
    VideoError,
)
from phasefusion.evaluate import evaluate
from phasefusion.records import iter_passes, read_run
from phasefusion.scoring import OptionScores


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    return make_questions(tmp_path_factory.mktemp("clips"))


def by_key(folder):
    return {
        (
            p["question_id"],
            p["arm"],
            p["shifted"],
            p["phase_index"],
            tuple(p["order"]),
        ): p
        for p in iter_passes(folder)
    }


def test_every_pass_equals_a_direct_score_of_its_frames(questions, tmp_path):
    """The whole way, arm by arm, against single views read and scored one by one."""
    run(questions, tmp_path)
    items = {item.question_id: item for item in load_questions(questions)}
    grid = pf.PhaseGrid(4, 3)
    grids = {
        ("phase", False): grid,
        ("phase", True): grid.shifted("half"),
        ("union", False): grid.union(),
        ("union", True): grid.union().shifted("half"),
        ("dense", False): pf.PhaseGrid(10),
        ("dense", True): pf.PhaseGrid(10).shifted("half"),
    }
    passes = by_key(tmp_path)
    wanted = 0
    for item in items.values():
        k = len(item.options)
        shared = orders.shared(k, 5, 0)
        shared = shared[orders.distinct(shared)]
        for (arm, shifted), arm_grid in grids.items():
            for s in range(arm_grid.phases):
                clip = pf.read_clip(item.video, arm_grid.view(s))
                for order in shared:
                    scores = PixelScorer().score(
                        clip, item.question, item.options, orders=order[None]
                    )
                    found = passes[item.question_id, arm, shifted, s, tuple(order)]
                    wanted += 1
                    letters = scores.logprobs[0, 0][order]
                    assert found["logprobs"] == pytest.approx(letters, abs=1e-12)
                    assert found["answer"] == int(scores.logprobs[0, 0].argmax())
                    assert found["frame_indices"] == clip.indices[0].tolist()
                    assert found["frame_times_s"] == pytest.approx(
                        clip.times_s[0], abs=1e-6
                    )
                    assert found["option_mass"] == pytest.approx(np.exp(-0.05))
                    assert Fraction(*found["phase"]) == arm_grid.phase(s)
                    assert Fraction(*found["origin"]) == arm_grid.origin
                    assert found["budget"] == arm_grid.budget
                    assert found["n_frames"] == clip.info.n_frames
                    assert found["gold"] == item.gold
    assert len(passes) == wanted


def test_answers_depend_on_phase_order_and_origin(questions, tmp_path):
    """Otherwise the comparisons of this file could not fail."""
    numbers = run(questions, tmp_path).report().numbers
    assert numbers["phase_flips"]["passes"]["any"]["value"] > 0
    assert numbers["order_flips"]["arms"]["phases"]["any"]["value"] > 0
    assert numbers["half_step"]["arms"]["single"]["passes"]["value"] > 0


def test_one_decode_a_video_and_one_call_an_arm(questions, tmp_path, monkeypatch):
    read = []
    real = _spans.read_clips

    def read_clips(path, grids, **options):
        read.append((path, len(grids)))
        return real(path, grids, **options)

    monkeypatch.setattr(_spans, "read_clips", read_clips)
    scorer = PixelScorer()
    run(questions, tmp_path, scorer)
    assert [n for _, n in read] == [6, 6, 6]
    assert len({path for path, _ in read}) == 3
    assert len(scorer.calls) == 12 * 6
    assert {shape for shape, *_ in scorer.calls} == {(3, 4), (1, 12), (1, 10)}


@pytest.mark.parametrize(
    ("phases", "origin", "scored"),
    [
        (3, "midpoint", [False, False]),
        (5, "left", [False, False]),
        (1, "midpoint", [False, False]),
        # Midpoint is between two views; half a step on, left is the first of two.
        (2, "midpoint", [True, False]),
        (2, "left", [False, True]),
        (3, "1/3", [True, True]),
    ],
)
def test_single_pass_is_scored_only_where_no_view_is_it(
    questions, tmp_path, phases, origin, scored
):
    run(questions, tmp_path, phases=phases, origin=origin, limit=1, orders="identity")
    passes = list(iter_passes(tmp_path))
    for shifted in (False, True):
        arms = {p["arm"] for p in passes if p["shifted"] == shifted}
        extra = {"single"} if scored[shifted] else set()
        assert arms == {"phase", "union", "dense"} | extra
    single = pf.PhaseGrid(4, 1, origin)
    (path,) = {item.video for item in load_questions(questions)[:1]}
    for shifted in (False, True):
        grid = single.shifted("half") if shifted else single
        wanted = pf.read_clip(path, grid).indices[0].tolist()
        name = "single" if scored[shifted] else "phase"
        assert wanted in [
            p["frame_indices"]
            for p in passes
            if (p["arm"], p["shifted"]) == (name, shifted)
        ]
    report = pf.report(tmp_path)
    assert "single" in report.numbers["accuracy"]
    assert "single" in report.numbers["half_step"]["arms"]


def test_derived_single_equals_a_quick_run(questions, tmp_path):
    run(questions, tmp_path / "full")
    run(questions, tmp_path / "quick", protocol="quick", orders="shared")
    full, quick = (
        pf.report(tmp_path / name).numbers["accuracy"]["single"]
        for name in ("full", "quick")
    )
    assert full == quick


def test_quick(questions, tmp_path):
    made = run(questions, tmp_path, protocol="quick")
    passes = list(iter_passes(tmp_path))
    assert made.n_passes == made.n_new == len(passes) == 12
    assert {(p["arm"], tuple(p["phase"])) for p in passes} == {("single", (1, 2))}
    assert all(p["order"] == sorted(p["order"]) for p in passes)


def test_stableeval_has_latin_orders(questions, tmp_path):
    run(questions, tmp_path, protocol="stableeval")
    for (question, arm, shifted, *_), p in by_key(tmp_path).items():
        assert (arm, shifted) == ("phase", False)
        k = p["n_options"]
        rotation = p["order"][0]
        assert p["order"] == [(rotation + i) % k for i in range(k)], question
    assert pf.report(tmp_path).numbers["consistency"]["rating"] is not None


def test_run_file_holds_what_is_needed_to_repeat(questions, tmp_path):
    run(questions, tmp_path, limit=1)
    recorded = read_run(tmp_path)
    settings = recorded["settings"]
    assert settings["grid"] == pf.PhaseGrid(4, 3).to_dict()
    assert settings["scorer"]["model"] == "pixels"
    assert settings["scorer"]["class"] == "pixel_scorer.PixelScorer"
    assert settings["orders"] == {"kind": "shared", "n": 5, "seed": 0}
    assert recorded["versions"]["phasefusion"] == pf.__version__
    assert "libavcodec" in recorded["versions"]["ffmpeg"]
    assert recorded["questions"]["file"] == str(questions)
    assert len(recorded["questions"]["sha256"]) == 64
    assert recorded["command"]


class Broken(PixelScorer):
    """Returns an invalid pass for one phase and order."""

    def __init__(self, value):
        super().__init__()
        self.value = value

    def score(self, clip, question, options, *, orders=None):
        scores = super().score(clip, question, options, orders=orders)
        logprobs = scores.logprobs.copy()
        if len(logprobs) > 1:
            logprobs[1, 0] = self.value
        return OptionScores(logprobs, scores.option_mass, scores.orders, notes=("n1",))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.nan, "scores: NaN; n1"),
        (np.inf, "scores: +inf; n1"),
        (-np.inf, "scores: no option has any probability; n1"),
    ],
)
def test_invalid_scores_are_recorded_as_missing(questions, tmp_path, value, reason):
    made = run(questions, tmp_path, Broken(value), limit=2)
    missing = [p for p in iter_passes(tmp_path) if p["answer"] is None]
    assert {(p["arm"], p["phase_index"]) for p in missing} == {("phase", 1)}
    assert len(missing) == 2 * 2
    assert all(p["logprobs"] is None and p["invalid"] == reason for p in missing)
    numbers = made.report().numbers
    assert numbers["accuracy"]["fusion"]["consensus"]["n"] == 0
    assert len(numbers["items"]["dropped"]) == 2
    assert run(questions, tmp_path, Broken(value), limit=2).n_new == 0


def test_a_run_without_one_answer_says_so(questions, tmp_path):
    class Nothing(PixelScorer):
        def score(self, clip, question, options, *, orders=None):
            return np.full((len(clip.frames), len(orders), len(options)), np.nan)

    match = r"none of 2 passes has an answer; the first .* because of: scores: NaN"
    for n_new in (2, 0):  # also when it was all on disk
        with pytest.warns(NoAnswerWarning, match=match):
            made = run(questions, tmp_path, Nothing(), protocol="quick", limit=2)
        assert made.n_new == n_new
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(questions, tmp_path / "some", Broken(np.nan), limit=2)


def test_invalid_scores_can_stop_the_run(questions, tmp_path):
    message = r"question '0-0', arm phase, phase 1, order \[.*\]: scores: NaN; n1"
    with pytest.raises(ScoringError, match=message):
        run(questions, tmp_path, Broken(np.nan), on_error="raise")
    assert all(p["answer"] is not None for p in iter_passes(tmp_path))


def test_an_option_without_mass_is_legal(questions, tmp_path):
    class Vetoes(PixelScorer):
        def score(self, clip, question, options, *, orders=None):
            scores = super().score(clip, question, options, orders=orders)
            logprobs = scores.logprobs.copy()
            logprobs[..., 0] = -np.inf
            return OptionScores(logprobs, scores.option_mass, scores.orders)

    made = run(questions, tmp_path, Vetoes(), limit=2)
    for p in iter_passes(tmp_path):
        assert p["logprobs"][p["order"].index(0)] is None
        assert p["answer"] not in (0, None)
    content = made.passes().content_logprobs()
    assert np.all(content[:, 0] == -np.inf)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: -x, "a log-probability of .*change of sign"),
        (lambda x: x[:, :1], r"returned logprobs of shape"),
        (lambda x: x[..., :-1], "must be|returned logprobs"),
    ],
)
def test_wrong_scorers_are_refused(questions, tmp_path, change, message):
    @dataclasses.dataclass
    class Scores:
        logprobs: np.ndarray
        option_mass: np.ndarray
        notes: tuple = ()

    class Wrong(PixelScorer):
        def score(self, clip, question, options, *, orders=None):
            scores = super().score(clip, question, options, orders=orders)
            return Scores(change(scores.logprobs), scores.option_mass)

    with pytest.raises(ScoringError, match=message):
        run(questions, tmp_path, Wrong(), limit=1)


@pytest.fixture
def damaged(tmp_path):
    """Two questions on a good clip, two on a text file named .mp4."""
    path = make_questions(tmp_path, n_clips=2, per_clip=2)
    (tmp_path / "clip1.mp4").write_text("no video at all\n" * 100)
    return path


def test_undecodable_video_is_marked_with_the_reason(damaged, tmp_path):
    made = run(damaged, tmp_path / "run")
    for p in iter_passes(made.path):
        if p["video_id"] == "clip1":
            assert p["answer"] is None
            assert p["logprobs"] is None
            assert p["frame_indices"] is None
            assert p["invalid"].startswith("video: ")
            assert "clip1.mp4" in p["invalid"]
        else:
            assert p["invalid"] is None
    numbers = made.report().numbers
    assert numbers["accuracy"]["single"]["consensus"]["n"] == 2
    assert [d["question_id"] for d in numbers["items"]["dropped"]] == ["1-0", "1-1"]
    assert run(damaged, made.path).n_new == 0


def test_undecodable_video_can_stop_the_run(damaged, tmp_path):
    with pytest.raises(VideoError, match=r"clip1\.mp4"):
        run(damaged, tmp_path / "run", on_error="raise")
    assert {p["video_id"] for p in iter_passes(tmp_path / "run")} == {"clip0"}


@pytest.mark.filterwarnings("ignore::phasefusion.errors.NoAnswerWarning")
def test_vanished_video_is_marked(questions, tmp_path):
    items = load_questions(questions)[:1]
    gone = [dataclasses.replace(items[0], video=str(tmp_path / "gone.mp4"))]
    made = run(gone, tmp_path / "run", limit=1)
    assert {p["answer"] for p in iter_passes(made.path)} == {None}


def test_frames_that_do_not_decode_lose_their_passes_alone(
    questions, tmp_path, monkeypatch
):
    real = _spans.read_clips

    def read_clips(path, grids, **options):
        clips = real(path, grids, **options)
        clips[0].missing[2, 1] = True
        return clips

    monkeypatch.setattr(_spans, "read_clips", read_clips)
    scorer = PixelScorer()
    made = run(questions, tmp_path, scorer, limit=1)
    missing = {
        (p["arm"], p["shifted"], p["phase_index"])
        for p in iter_passes(tmp_path)
        if p["answer"] is None
    }
    assert missing == {("phase", False, 2)}
    reasons = {p["invalid"] for p in iter_passes(tmp_path)} - {None}
    assert len(reasons) == 1
    assert "do not decode" in reasons.pop()
    assert made.report().numbers["items"]["missing_passes"] == 2


@pytest.mark.filterwarnings("ignore::phasefusion.errors.NoAnswerWarning")
def test_short_clips(tmp_path, monkeypatch):
    path = make_questions(tmp_path, n_clips=1, per_clip=1)
    make_clip(tmp_path / "clip0.mp4", 9)
    with pytest.warns(DuplicateFrameWarning):
        run(path, tmp_path / "repeat")
    unique = run(path, tmp_path / "unique", short="unique")
    phases = {(p["arm"], p["n_phases"], p["budget"]) for p in iter_passes(unique.path)}
    assert phases == {
        ("phase", 2, 4),
        ("union", 1, 9),
        ("single", 1, 4),
        ("dense", 1, 9),
    }
    numbers = unique.report().numbers
    assert numbers["phase_flips"]["consensus"]["any"]["n"] == 1
    with monkeypatch.context() as patch:  # complete, so nothing is decoded again
        patch.setattr(_runner, "read_span", None)
        assert run(path, unique.path, short="unique").n_new == 0
    marked = run(path, tmp_path / "error", short="error")
    assert {p["answer"] for p in iter_passes(marked.path) if p["arm"] == "phase"} == {
        None
    }
    with pytest.raises(GridError, match="fewer"):
        run(path, tmp_path / "stop", short="error", on_error="raise")


def test_repeated_options_share_their_mass(tmp_path):
    path = make_questions(tmp_path, n_clips=1, per_clip=1)
    row = json.loads(path.read_text())
    row |= {"options": ["same", "other", "same"], "answer": 2}
    path.write_text(json.dumps(row))
    with pytest.warns(OptionWarning):
        made = run(path, tmp_path / "run")
    with pytest.warns(OptionWarning):
        (item,) = load_questions(path)
    for p in iter_passes(made.path):
        assert p["gold"] == 0
        assert p["same_options"] == [0, 1, 0]
        assert p["logprobs"][p["order"].index(2)] is None
        assert p["answer"] in (0, 1)
    passes = by_key(made.path)
    clip = pf.read_clip(item.video, pf.PhaseGrid(4, 3))
    scores = PixelScorer().score(clip, item.question, item.options)
    merged = np.logaddexp(scores.logprobs[1, 0, 0], scores.logprobs[1, 0, 2])
    assert passes["0-0", "phase", False, 1, (0, 1, 2)]["logprobs"][0] == pytest.approx(
        merged
    )


def test_part_of_a_video(tmp_path):
    path = make_questions(tmp_path, n_clips=1, per_clip=1)
    row = json.loads(path.read_text())
    rows = [row, row | {"question_id": "b", "start": 1.0, "end": 3.0}]
    rows.append(row | {"question_id": "c", "start": 99.0})
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    made = run(path, tmp_path / "run")
    passes = by_key(made.path)
    order = next(key[-1] for key in passes)
    part = passes["b", "phase", False, 0, order]
    assert part["n_frames"] == 20
    assert part["duration_s"] == pytest.approx(2.0)
    expected = pf.PhaseGrid(4, 3).indices(20)[0] + 10
    assert part["frame_indices"] == expected.tolist()
    assert part["frame_times_s"] == pytest.approx(expected / 10)
    whole = passes["0-0", "phase", False, 0, order]
    assert whole["n_frames"] == 40
    reason = passes["c", "phase", False, 0, order]["invalid"]
    assert "no frame begins between start 99.0 s" in reason


def test_items_instead_of_a_file(questions, tmp_path):
    items = load_questions(questions)
    from_items = run(items, tmp_path / "items", limit=2)
    from_file = run(questions, tmp_path / "file", limit=2)
    assert from_items.n_passes == from_file.n_passes
    assert read_run(from_items.path)["questions"]["file"] is None
    with pytest.raises(RecordError, match="questions: 9 gone, first: "):
        run(items[:3], tmp_path / "items")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "best"}, "protocol 'best' is not one of phasefusion"),
        ({"orders": "shuffled"}, "orders 'shuffled' is not one of"),
        ({"orders": "shuffled", "n_orders": 2}, "orders 'shuffled' is not one of"),
        ({"on_error": "ignore"}, 'on_error must be "mark" or "raise"'),
        ({"limit": 0}, "limit must be >= 1"),
        ({"budget": 0}, "budget"),
        ({"dense": 0}, "budget"),
        ({"origin": "centre"}, "origin"),
        ({"n_orders": 0}, "n"),
        ({"threads": 0}, "threads=0 must be an integer from 1 to 64"),
    ],
)
def test_bad_arguments_make_no_run(questions, tmp_path, options, message):
    with pytest.raises((GridError, ValueError, VideoError), match=message):
        run(questions, tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_items_that_hide_each_other_and_what_is_no_item(questions, tmp_path):
    items = load_questions(questions)
    again = dataclasses.replace(items[2], question_id=items[0].question_id)
    with pytest.raises(DatasetError, match=r"questions\[1\]: question_id '0-0' was al"):
        run([items[0], again], tmp_path / "run")
    with pytest.raises(DatasetError, match=r"questions\[0\] is a dict, not an Item"):
        run([dataclasses.asdict(items[0])], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_empty_questions(tmp_path):
    with pytest.raises(DatasetError, match="questions is empty"):
        run([], tmp_path / "run")


def test_progress_adds_up(questions, tmp_path):
    seen = []
    run(questions, tmp_path, limit=2, progress=lambda *args: seen.append(args))
    assert seen[-1][0] == seen[-1][1] == len(list(iter_passes(tmp_path)))
    again = []
    run(questions, tmp_path, limit=4, progress=lambda *args: again.append(args))
    assert again[0][0] > seen[-1][0]
    assert again[-1][0] == again[-1][1]


def test_public_names(questions, tmp_path):
    assert pf.evaluate is evaluate
    made = pf.evaluate(
        questions, PixelScorer(), out=tmp_path, protocol="quick", progress=False
    )
    assert pf.report(made).to_dict() == pf.report(tmp_path).to_dict()
