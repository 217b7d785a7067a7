"""Questions and videos of two benchmarks that have the same ids are others."""

import json

import numpy as np
import pytest
from made_runs import made_run

import phasefusion as pf
from phasefusion.compare import compare
from phasefusion.planning import pilot
from phasefusion.records import read_passes
from phasefusion.report import report
from phasefusion.report.figures import views
from phasefusion.report.figures.study import Study
from phasefusion.report.videos import incomplete_videos

N = 10


def two_benchmarks(folder, rename=None, seed=5, **options):
    """Write a run of two benchmarks of N questions each, all ids equal.

    `rename` changes the video of a pass of the second.
    """
    first = made_run(folder / "a", n_items=N, seed=seed, **options)
    second = made_run(folder, n_items=N, seed=seed + 1, **options)
    for p in second:
        p["benchmark"] = "other"
        if rename is not None:
            p["video_id"] = rename(p["video_id"])
    lines = "".join(json.dumps(p) + "\n" for p in (*first, *second))
    (folder / "passes.jsonl").write_text(lines)
    return folder


def tolerant(value):
    """Numbers as they print: clusters are added up in the order of their names."""
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, dict):
        return {key: tolerant(one) for key, one in value.items()}
    return [tolerant(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("protocol", ["phasefusion", "stableeval", "quick"])
def test_reports_do_not_depend_on_what_videos_are_called(tmp_path, protocol):
    same, apart = (
        two_benchmarks(tmp_path / name, rename, protocol=protocol)
        for name, rename in (("same", None), ("apart", "other {}".format))
    )
    numbers = [report(folder).to_dict() for folder in (same, apart)]
    for one in numbers:
        one.pop("card", None)
    assert tolerant(numbers[0]) == tolerant(numbers[1])
    assert len(set(Study(read_passes(same), {}).videos.tolist())) == N


def test_clusters_are_the_videos_of_each_benchmark(tmp_path):
    run = two_benchmarks(tmp_path / "run")
    made = pf.calibrate(run, alpha=0.9, delta=0.9)
    assert (made.certified.n, made.certified.n_clusters) == (2 * N, N)
    other = two_benchmarks(tmp_path / "other")
    assert compare(run, other, cluster="video").outcome.difference.n_clusters == N
    assert pilot(run, cluster="video").n_clusters == N


def test_questions_at_risk_are_named_with_their_benchmark(tmp_path):
    """All of them are in the JSON; what is printed is cut."""
    folder = two_benchmarks(tmp_path, phases=2)
    settings = json.loads((folder / "run.json").read_text())["settings"]
    tables = views.ensemble(Study(read_passes(folder), settings))
    (table,) = [one for one in tables if one.title == "Questions at risk"]
    names = [row[0] for row in table.rows]
    assert len(set(names)) == len(names)
    both = {name.split("/")[1] for name in names if name.startswith("made/")}
    assert both & {name.split("/")[1] for name in names if name.startswith("other/")}


def test_long_lists_of_questions_at_risk_are_cut_in_print_alone(tmp_path):
    passes = made_run(tmp_path, n_items=50, phases=2, n_options=4)
    for p in passes:
        p["logprobs"] = [-1.4, -1.3, -1.4, -1.4]
    lines = "".join(json.dumps(p) + "\n" for p in passes)
    (tmp_path / "passes.jsonl").write_text(lines)
    settings = json.loads((tmp_path / "run.json").read_text())["settings"]
    tables = views.ensemble(Study(read_passes(tmp_path), settings))
    (table,) = [one for one in tables if one.title == "Questions at risk"]
    assert (len(table.rows), table.printed) == (50, 20)


def test_videos_that_are_incomplete(tmp_path):
    folder = two_benchmarks(tmp_path, protocol="quick")
    lines = (folder / "passes.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    for p in rows:
        if p["video_id"] == "v1":
            p["video_problem"] = f"cut, in {p['benchmark']}"
            if p["benchmark"] == "other":
                p |= {"answer": None, "logprobs": None, "invalid": "video: gone"}
    (folder / "passes.jsonl").write_text("".join(json.dumps(p) + "\n" for p in rows))
    assert incomplete_videos(folder) == [
        {"benchmark": name, "video": "v1", "questions": 2, "answered": n}
        | {"reason": f"cut, in {name}"}
        for name, n in (("made", 2), ("other", 0))
    ]
    assert (
        "a part is lost, and 2 of them saw what is left" in report(folder).to_markdown()
    )


def test_imported_predictions_count_the_videos_of_each_benchmark(tmp_path):
    folder = two_benchmarks(tmp_path, protocol="quick")
    run = json.loads((folder / "run.json").read_text())
    run["settings"]["protocol"] = "imported"
    (folder / "run.json").write_text(json.dumps(run))
    (arm,) = report(folder).numbers["imported"]["arms"].values()
    assert arm["videos"] == N
    assert np.isfinite(arm["se_by_video"])
