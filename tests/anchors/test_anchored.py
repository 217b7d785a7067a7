"""Questions about windows, evaluated as any others."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from anchor_clips import RUNS, STOPS

from phasefusion import anchor_grid, evaluate
from phasefusion.datasets import Item, SubtitleSource, anchored
from phasefusion.errors import DuplicateFrameWarning, FallbackWarning
from phasefusion.video import read_clip


class Bright:
    """A scorer that likes the option whose number is the brightness modulo K."""

    def score(self, clip, question, options, *, orders=None):
        k = len(options)
        orders = np.arange(k)[None] if orders is None else np.asarray(orders)
        likes = [int(view.mean()) % k for view in clip.frames]
        logp = np.full((len(likes), len(orders), k), np.log(0.1 / (k - 1)))
        for s, content in enumerate(likes):
            logp[s, :, content] = np.log(0.9)
        return logp


def item_of(path, **more) -> Item:
    return Item("q1", "b", str(path), "v", "What?", ("one", "two", "three"), 0, **more)


def test_windows_are_evaluated(found_clip, tmp_path):
    path = found_clip("run.mp4")
    items = anchored([item_of(path)], window=0.12)
    assert items[0].strata == {"anchor": "vectors"}
    anchor = items[0].extra["anchor"]
    assert RUNS < anchor["frame"] <= STOPS
    run = evaluate(
        items, Bright(), out=tmp_path / "run", protocol="stableeval", budget=4,
        origin="left", orders="identity", progress=False,
    )  # fmt: skip
    grid = anchor_grid(path, anchor["time_s"], 4, 3, window=0.12)
    assert (grid.first, grid.end) == (anchor["frame"], anchor["frame"] + 12)
    expected = read_clip(path, grid)
    lines = (run.path / "passes.jsonl").read_text().splitlines()
    found = [json.loads(line)["frame_indices"] for line in lines]
    assert found == expected.indices.tolist()


def test_every_window_is_read_back_exactly(found_clip, tmp_path):
    """Bounds in seconds give the frames that they were made of, at odd rates too."""
    from phasefusion._runner import read_span
    from phasefusion.grid import PhaseGrid

    path = found_clip("run.mp4")
    for k in range(0, 100, 7):
        item = anchored([item_of(path)], times_s=lambda _, k=k: k / 25, window=0.05)[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DuplicateFrameWarning)
            span = read_span(item, [PhaseGrid(5, 1, "left")], None, 1, "raise")
        first = min(k, 95)
        assert span.clips[0].indices.tolist() == [list(range(first, first + 5))]


def test_items_that_stay_as_they_are(found_clip, tmp_path):
    bounded = item_of(found_clip("run.mp4"), start=1.0)
    missing = item_of(tmp_path / "none.mp4")
    assert anchored([bounded, missing]) == [bounded, missing]


def test_phrases_and_times_of_items(found_clip):
    said = "1\n00:00:02,000 --> 00:00:03,000\nnow pour\n"
    one = item_of(found_clip("run.mp4"), subtitles=SubtitleSource(text=said))
    two = replace(one, question_id="q2", extra={"time": "0:01"})
    made = anchored(
        [one, two],
        phrase=lambda item: "now pour" if item.question_id == "q1" else None,
        times_s=lambda item: item.extra.get("time"),
    )
    assert [item.start for item in made] == [2.0, 1.0]
    assert [item.strata["anchor"] for item in made] == ["subtitle", "timestamp"]
    assert made[1].extra["time"] == "0:01"
    with pytest.warns(FallbackWarning, match="'never' is not in the 1 cues"):
        anchored([one], phrase=lambda item: "never")
