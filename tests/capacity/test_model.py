"""Costs are found again from records that were made with them; forecasts add up."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from pixel_scorer import PixelScorer, make_questions

from phasefusion import protocols
from phasefusion.capacity import (
    ArmLoad,
    CostModel,
    VideoFacts,
    Workload,
    costs_of,
    fit,
    forecast,
    survey,
)
from phasefusion.datasets import Item, load_questions
from phasefusion.errors import DatasetError, RecordError
from phasefusion.evaluate import evaluate
from phasefusion.orders import shared
from phasefusion.protocols import make_plan
from phasefusion.records import iter_passes, read_run

TRUE = CostModel(
    open_s=0.2,
    decode_s=0.004,
    frame_s=0.01,
    call_s=0.04,
    prefix_fixed_s=0.05,
    prefix_linear_s=0.02,
    prefix_square_s=0.001,
    suffix_fixed_s=0.03,
    suffix_linear_s=0.001,
)
ARMS = {"phase": ArmLoad(3, 8), "union": ArmLoad(1, 24), "single": ArmLoad(1, 8)}
ARMS["dense"] = ArmLoad(1, 32)
VIDEOS = {
    ("b", f"v{i}"): VideoFacts(100 * (i + 1), (0.3, 0.9)[i % 2]) for i in range(6)
}


def write_run(folder, model, *, reuse=True, noise=0.0, together=False):
    """Write a run whose times are those of a model, exactly or nearly.

    With `together` an arm has all questions of a video in one call.
    """
    rng = np.random.default_rng(0)
    rows = []
    for i, ((_, name), video) in enumerate(VIDEOS.items()):
        n_options = [2 + (i + q) % 4 for q in range(3)]
        all_orders = [np.unique(shared(k, 10), axis=0) for k in n_options]
        for q, (k, orders) in enumerate(zip(n_options, all_orders, strict=True)):
            n = len(orders)
            for arm, load in ARMS.items():
                seconds = model.prefix_s(load) + model.orders_s(load, n)
                if together:
                    total = sum(map(len, all_orders))
                    seconds = model.prefix_s(load) + model.orders_s(load, total)
                    seconds *= n / total
                else:
                    # no two calls take the same time to the last digit
                    seconds *= 1 + 1e-9 * q + noise * rng.uniform(-1, 1)
                for s in range(load.phases):
                    for order in orders.tolist():
                        rows.append(
                            {
                                "question_id": f"{i}-{q}",
                                "benchmark": "b",
                                "video_id": name,
                                "n_options": k,
                                "gold": None,
                                "arm": arm,
                                "shifted": False,
                                "budget": load.frames,
                                "n_phases": load.phases,
                                "phase": [0, 1],
                                "phase_index": s,
                                "n_frames": video.n_frames,
                                "frame_indices": [s * 50 + j for j in range(50)][
                                    : load.frames
                                ],
                                "order": order,
                                "logprobs": [math.log(1 / k)] * k,
                                "answer": 0,
                                "seconds": float(f"{seconds / load.phases / n:.12e}"),
                            }
                        )
        mine = [row for row in rows if row["video_id"] == name]
        wanted = len({f for row in mine for f in row["frame_indices"]})
        for row in mine:
            row["decode_seconds"] = model.video_s(video, wanted) / len(mine)
    folder.mkdir()
    settings = {"scorer": {"reuse_prefix": reuse}, "arms": [], "orders": {}}
    run = {"format": 1, "settings": settings, "versions": {}}
    (folder / "run.json").write_text(json.dumps(run))
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "passes.jsonl").write_text(text)
    return folder


def test_costs_are_found_again(tmp_path):
    found = fit(write_run(tmp_path / "run", TRUE), videos=VIDEOS, startup_s=7.0)
    assert found.startup_s == 7.0
    assert found.error < 1e-6
    for name in ("open_s", "decode_s", "prefix_square_s", "suffix_linear_s"):
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=1e-3)
    for load in (*ARMS.values(), ArmLoad(2, 16)):
        for m in (1, 6, 10):
            wanted = TRUE.prefix_s(load) + TRUE.orders_s(load, m)
            assert found.prefix_s(load) + found.orders_s(load, m) == pytest.approx(
                wanted, rel=1e-3
            )


def test_videos_of_two_benchmarks_with_one_id_are_two(tmp_path):
    run, other = write_run(tmp_path / "run", TRUE), write_run(tmp_path / "b", TRUE)
    text = (other / "passes.jsonl").read_text()
    with (run / "passes.jsonl").open("a") as file:
        file.write(text.replace('"benchmark": "b"', '"benchmark": "c"'))
    others = {("c", name): facts for (_, name), facts in VIDEOS.items()}
    found, alone = fit(run, videos=VIDEOS | others), fit(other, videos=VIDEOS)
    assert found.open_s == pytest.approx(alone.open_s)
    assert found.decode_s == pytest.approx(alone.decode_s)
    assert found.n_calls == 2 * alone.n_calls


def test_as_many_costs_as_kinds_of_calls_check_nothing(tmp_path):
    run = write_run(tmp_path / "run", TRUE)
    first = (run / "passes.jsonl").read_text().splitlines()[0]
    (run / "passes.jsonl").write_text(first + "\n")
    found = fit(run)
    assert math.isnan(found.error)
    assert found.n_calls == 1


def test_noise_moves_totals_little(tmp_path):
    found = fit(write_run(tmp_path / "run", TRUE, noise=0.3), videos=VIDEOS)
    assert 0 < found.error < 0.3
    wanted = TRUE.question_s(ARMS.values(), 10)
    assert found.question_s(ARMS.values(), 10) == pytest.approx(wanted, rel=0.1)


def test_without_reuse_every_pass_bears_all(tmp_path):
    plain = CostModel(suffix_fixed_s=0.05, suffix_linear_s=0.01, suffix_square_s=0.002)
    found = fit(write_run(tmp_path / "run", plain, reuse=False))
    assert found.prefix_s(ArmLoad(3, 8)) == pytest.approx(0, abs=1e-12)
    wanted = plain.orders_s(ArmLoad(3, 16), 10)
    assert found.orders_s(ArmLoad(3, 16), 10) == pytest.approx(wanted, rel=1e-3)


def test_questions_in_one_call_share_its_prefix(tmp_path):
    found = fit(write_run(tmp_path / "run", TRUE, together=True), videos=VIDEOS)
    assert found.takes_many
    assert found.error < 1e-6
    for load in ARMS.values():
        for m in (1, 10, 30):
            wanted = TRUE.prefix_s(load) + TRUE.orders_s(load, m)
            made = found.prefix_s(load) + found.orders_s(load, m)
            assert made == pytest.approx(wanted, rel=1e-3)
    alone = fit(write_run(tmp_path / "alone", TRUE), videos=VIDEOS)
    assert not alone.takes_many


def test_a_forecast_counts_prefixes_by_call():
    """A call ends with the question that reaches 256 passes."""
    items = [
        Item(str(q), "b", "/x.mp4", "x", "?", tuple("abcd"[:k]))
        for q, k in enumerate((4, 4, 3, 4, 4))
    ]
    workload = Workload((ArmLoad(10, 8),), {"kind": "shared", "n": 10, "seed": 0})
    facts = {"/x.mp4": VideoFacts(0, 0.0)}
    prefix = TRUE.prefix_s(ArmLoad(10, 8))
    apart = forecast(items, TRUE, workload, videos=facts)
    assert apart.prefix_s == pytest.approx(5 * prefix)
    together = forecast(items, replace(TRUE, takes_many=True), workload, videos=facts)
    # 100 + 100 + 60 passes, then 100 + 100
    assert together.prefix_s == pytest.approx(2 * prefix)
    assert together.orders_s == apart.orders_s
    assert together.total_s == pytest.approx(sum(u.cost for u in together.units))


def test_a_run_without_times_is_refused(tmp_path):
    folder = write_run(tmp_path / "run", TRUE)
    path = folder / "passes.jsonl"
    lines = path.read_text().splitlines()
    rows = [json.loads(line) | {"seconds": None} for line in lines]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(RecordError, match="no pass has its seconds recorded"):
        fit(folder)


def test_a_model_survives_json():
    text = json.dumps(TRUE.to_dict() | {"later": 1}, allow_nan=False)
    again = CostModel.from_dict(json.loads(text))
    assert again.to_dict() == TRUE.to_dict()
    assert math.isnan(again.error)


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    return make_questions(tmp_path_factory.mktemp("clips"), n_clips=4, per_clip=3)


def test_a_forecast_counts_what_a_run_does(questions, tmp_path):
    options = {"budget": 4, "dense": 10, "n_orders": 5, "progress": False}
    run = evaluate(questions, PixelScorer(), out=tmp_path, **options)
    workload = Workload.of_settings(read_run(run.path)["settings"])
    items = load_questions(questions)
    model = fit(run.path, videos={})
    made = forecast(items, model, workload)
    assert made.n_passes == run.n_passes
    assert (made.n_questions, made.n_videos) == (12, 4)
    passes = list(iter_passes(run.path))
    scored = sum(p["seconds"] for p in passes)
    decoded = sum(p["decode_seconds"] for p in passes)
    assert made.prefix_s + made.orders_s == pytest.approx(scored, rel=0.05)
    assert made.decode_s > 0
    assert decoded > 0
    assert made.total_s == pytest.approx(made.on(1).makespan_s)
    assert sum(unit.cost for unit in made.units) == pytest.approx(made.total_s)
    two = made.on(2)
    assert made.total_s / 2 <= two.makespan_s <= made.total_s
    assert two.makespan_s <= made.in_shards(2, items) + 1e-9
    assert made.in_shards(1, items) == pytest.approx(made.total_s)
    json.dumps(made.to_dict(), allow_nan=False)


@pytest.mark.parametrize("name", protocols.names())
def test_a_workload_has_the_frames_of_every_arm(name):
    plan = make_plan(name, budget=6, dense=14)
    settings = {"arms": [arm.to_dict() for arm in plan.arms], "orders": plan.orders}
    loads = Workload.of_settings(json.loads(json.dumps(settings))).arms
    for arm, load in zip(plan.arms, loads, strict=True):
        n_frames = arm.n_frames
        if n_frames is None:  # the video decides
            n_frames = arm.grid.budget
        assert load == ArmLoad(arm.n_phases, n_frames)
        assert (load.frames == 0) == (arm.grid is None)


def test_costs_for_the_engine(questions):
    items = load_questions(questions)[:3]
    workload = Workload((ArmLoad(3, 4),), {"kind": "latin"})
    cost_of = costs_of(TRUE, workload, [item.video for item in items])
    planned = [3 * workload.n_orders(len(item.options)) for item in items]
    opening, costs = cost_of(items, planned)
    assert opening == TRUE.video_s(VideoFacts(40, 64 * 48 / 1e6), 12)
    assert costs[0] == TRUE.question_s(workload.arms, len(items[0].options))
    assert cost_of(items, [n // 2 for n in planned])[1][0] < costs[0]


def test_a_survey_opens_some_and_judges_the_others(questions, tmp_path):
    paths = [str(questions.parent / f"clip{v}.mp4") for v in range(4)]
    found = survey(paths)
    assert [found[path].n_frames for path in paths] == [40, 57, 74, 91]
    assert found[paths[0]].megapixels == pytest.approx(64 * 48 / 1e6)
    some = survey(paths, probed=2)
    assert [some[p].n_frames for p in (paths[0], paths[3])] == [40, 91]
    assert 20 < some[paths[1]].n_frames < 150
    bad = tmp_path / "bad.mp4"
    bad.write_bytes(b"no video")
    gone = str(tmp_path / "gone.mp4")
    found = survey([str(bad), gone])
    assert found[str(bad)] == VideoFacts(0, 0.0)
    assert found[gone].n_frames == 0


def test_no_questions_no_forecast():
    with pytest.raises(DatasetError, match="no questions"):
        forecast([], TRUE, Workload((), {"kind": "identity"}))
    one = Item("a", "b", "/nowhere/x.mp4", "x", "?", ("a", "b"))
    made = forecast([one], TRUE, Workload((ArmLoad(1, 8),), {"kind": "identity"}))
    assert made.decode_s == TRUE.open_s
