"""What Python says of arguments that are something else than they must be."""

import io

import numpy as np
import pytest
from pixel_scorer import PixelScorer

import phasefusion as pf
from phasefusion import capacity, datasets, importers, tinyvlm
from phasefusion.audit import load_claims
from phasefusion.contact import write_png
from phasefusion.datasets import load_questions
from phasefusion.engine.shards import merge_shards
from phasefusion.errors import (
    DatasetError,
    FallbackWarning,
    RecordError,
    ScoringError,
    UsageError,
    VideoError,
)
from phasefusion.harness import tasks_dir
from phasefusion.harness.posteriors import PosteriorCache
from phasefusion.importers import import_run
from phasefusion.records import (
    Datasheet,
    RunWriter,
    check,
    convert,
    describe,
    export_anonymous,
    iter_passes,
    merge,
    read_passes,
    read_run,
)
from phasefusion.records.files import described_run
from phasefusion.records.questions import find_questions
from phasefusion.reparse import reparse
from phasefusion.report import Report
from phasefusion.report.html import write_html
from phasefusion.saliency import explain_run

CLIP = tinyvlm.questions_path().parent / "clip-000.mp4"
GRID = pf.PhaseGrid(budget=2)
AT = "2026-11-30T09:00+01:00"


class Nameless:
    """A path without a name, which is not the current folder."""

    def __fspath__(self):
        return ""


class Nothing:
    def score(self, clip, question, options, *, orders=None):
        raise AssertionError


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: pf.evaluate(None, Nothing(), out="x"),
            "questions is None; it must be",
        ),
        (
            lambda: pf.evaluate(7, Nothing(), out="x"),
            "questions is 7, a int; it must be",
        ),
        (lambda: pf.evaluate([], Nothing(), out=None), "out is None; it must be the"),
        (lambda: pf.evaluate([], Nothing(), out=""), "out is '', a str; it must be"),
        (lambda: pf.report(None), "run is None; it must be a Run, or a run folder"),
        (lambda: read_run(5), "folder is 5, a int; it must be a Run, or a run"),
        (
            lambda: read_passes(None),
            "folder is None; it must be a Run, a run folder, or",
        ),
        (lambda: Report({}, {}).save_html(None), "run is None; it must be a Run"),
        (lambda: Report({}, {}).save(None), "folder is None; it must be a folder"),
        (lambda: pf.calibrate(None), "run is None; it must be a Run, or a run folder"),
        (lambda: pf.compare(None, "x"), "a is None; it must be a Run"),
        (lambda: pf.gate(None, "x"), "baseline is None; it must be a Run"),
        (lambda: pf.gate("x", "y", rules=5), "path is 5, a int; it must be a TOML"),
        (lambda: pf.planning.pilot(None), "run is None; it must be a Run"),
        (lambda: pf.monitor.add("h.sqlite", None, at=AT), "run is None; it must be"),
        (lambda: pf.monitor.batches(None), "history is None; it must be the file"),
        (lambda: pf.FrameCache(None), "cache is None; it must be a folder of"),
        (lambda: pf.FrameCache(""), "cache is '', a str; it must be a folder of"),
        (lambda: merge([None, "x"], "y"), "source is None; it must be a Run, a run"),
        (lambda: merge(["x", "y"], None), "out is None; it must be a run folder"),
        (lambda: merge_shards([None], "y"), "folder is None; it must be a Run"),
        (lambda: check(None), "path is None; it must be a Run, a run"),
        (lambda: load_questions(None), "path is None; it must be a question file"),
        (lambda: write_html(None, {}), "run is None; it must be a Run"),
        (lambda: export_anonymous(None, "x"), "source is None; it must be a Run, a"),
        (lambda: export_anonymous("x", 5), "out is 5, a int; it must be a run"),
        (lambda: convert(None, "x"), "source is None; it must be a Run, a run"),
        (lambda: convert("x", None), "out is None; it must be the file to write"),
        (lambda: describe(None), "run is None; it must be a Run, a run folder"),
        (lambda: Datasheet({}).save(None), "path is None; it must be the file"),
        (lambda: described_run(None), "path is None; it must be a Run, a run"),
        (lambda: reparse(None), "run is None; it must be a Run, or a run folder"),
        (lambda: explain_run(None, None), "run is None; it must be a Run, or a"),
        (lambda: capacity.fit(None), "folder is None; it must be a Run"),
        (lambda: PosteriorCache(None), "path is None; it must be the file of the"),
        (lambda: RunWriter(None, {}), "folder is None; it must be a run folder"),
        (lambda: import_run(5, out="x"), "files is 5, a int; it must be a file of"),
        (lambda: import_run("x", out=None), "out is None; it must be a run folder"),
        (lambda: import_run("x", out="y", gold=3), "gold is 3, a int; it must be"),
        (lambda: importers.read_questions(None), "path is None; it must be a file"),
        (lambda: importers.detect_format(None), "path is None; it must be a file"),
        (lambda: load_claims(None), "path is None; it must be a claims file"),
        (lambda: write_png(None, np.zeros((1, 1, 3), np.uint8)), "path is None; it"),
        (lambda: find_questions({}, 5), "path is 5, a int; it must be a question"),
        (lambda: datasets.load("auto", ""), "source is '', a str; it must be a"),
        (
            lambda: datasets.load("auto", tinyvlm.questions_path(), videos=3),
            "videos is 3, a int; it must be a folder of videos",
        ),
        (lambda: pf.FrameCache(Nameless()), "cache is <"),
    ],
)
def test_what_is_no_path_is_named(call, said):
    with pytest.raises(UsageError) as caught:
        call()
    assert str(caught.value).startswith(said)


def test_a_run_is_taken_where_its_folder_is(tmp_path):
    items = load_questions(tinyvlm.questions_path())[:1]
    scorer = PixelScorer()
    run = pf.evaluate(items, scorer, out=tmp_path / "run", budget=2, progress=False)
    n = run.n_passes
    assert read_run(run) == read_run(run.path) == described_run(run)
    assert len(read_passes(run).answer) == len(list(iter_passes(run))) == n
    assert check(run).n_passes == n
    assert check(run).files == (str(run.path),)
    assert convert(run, tmp_path / "a.csv") == n
    assert export_anonymous(run, tmp_path / "anonymous").n_passes == n
    assert describe(run).numbers == describe(run.path).numbers
    assert reparse(run, items).passes == n
    with pytest.raises(RecordError, match="give two or more runs"):
        merge([run], tmp_path / "merged")


def test_a_cache_that_is_no_path():
    with pytest.raises(UsageError, match="cache is 5, a int; it must be a folder of"):
        pf.read_clip(CLIP, GRID, cache=5)


def test_the_page_as_first_argument_of_save_html(tmp_path):
    with pytest.raises(UsageError, match=r"takes the run first.*save_html.run, folder"):
        Report({}, {}).save_html(tmp_path / "my.html")


def test_a_page_without_plots_is_warned_of(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.warns(FallbackWarning, match="no plots: pip install matplotlib"):
        with pytest.raises(FileNotFoundError):
            Report({}, {}).save_html(tmp_path / "none")


def test_files_open_for_text_and_frames_are_no_videos():
    with CLIP.open(encoding="utf-8") as text:
        with pytest.raises(VideoError, match=r'clip-000.mp4: is open for text.*"rb"'):
            pf.read_clip(text, GRID)
    with pytest.raises(VideoError, match="is open for text; open the file with mode"):
        pf.Video(io.StringIO("x"))
    with pytest.raises(VideoError, match=r"of shape .2, 4, 4, 3.: frames are not"):
        pf.read_clip(np.zeros((2, 4, 4, 3), np.uint8), GRID)
    flat = np.frombuffer(CLIP.read_bytes(), np.uint8)
    np.testing.assert_array_equal(
        pf.read_clip(flat, GRID).frames, pf.read_clip(CLIP, GRID).frames
    )


@pytest.mark.parametrize("name", ["start", "end_s", "duration"])
def test_a_section_is_told_how_to_be_read(name):
    with pytest.raises(TypeError, match=f"option '{name}': the whole video is read"):
        pf.read_clip(CLIP, GRID, **{name: 10})
    with pytest.raises(TypeError, match="unknown option 'pixels'; limits are"):
        pf.read_clip(CLIP, GRID, pixels=10)
    with pf.Video(CLIP) as video:  # the way it names
        first = int(np.searchsorted(video.times_s, 5.0))
        frames = video.read(first + GRID.indices(len(video) - first)[0])
    assert len(frames) == 2


def test_returns_is_checked_before_there_is_a_function():
    with pytest.raises(ScoringError, match="returns is 'foo'; it must be one of"):
        pf.wrap(returns="foo")


def test_tasks_dir_says_what_the_folder_is_for():
    with pytest.raises(DatasetError, match=r"views of 'nope' and needs.*PATH"):
        tasks_dir("nope")
