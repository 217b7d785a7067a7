"""A second run over the same videos finds its frames in the cache."""

import pytest
from pixel_scorer import PixelScorer, make_questions

import phasefusion as pf
import phasefusion.video as video_module
from phasefusion.datasets import load_questions
from phasefusion.records import iter_passes


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    return make_questions(tmp_path_factory.mktemp("clips"))


def run(questions, out, **options):
    options = {"budget": 4, "dense": 10, "n_orders": 5, "progress": False} | options
    return pf.evaluate(questions, PixelScorer(), out=out, **options)


def by_key(folder):
    names = ("question_id", "arm", "shifted", "phase_index")
    return {
        (*(p[name] for name in names), tuple(p["order"])): p
        for p in iter_passes(folder)
    }


def test_a_second_run_decodes_nothing_with_a_cache(questions, tmp_path, monkeypatch):
    run(questions, tmp_path / "plain")
    run(questions, tmp_path / "first", cache=tmp_path / "cache")
    opened = []
    real = video_module._open_reader

    def open_reader(*args):
        opened.append(args[0])
        return real(*args)

    monkeypatch.setattr(video_module, "_open_reader", open_reader)
    run(questions, tmp_path / "second", cache=pf.FrameCache(tmp_path / "cache"))
    spans = {i.video for i in load_questions(questions) if i.start or i.end}
    assert set(opened) <= spans
    plain = by_key(tmp_path / "plain")
    for name in ("first", "second"):
        found = by_key(tmp_path / name)
        assert found.keys() == plain.keys()
        for key, one in found.items():
            assert one["logprobs"] == plain[key]["logprobs"]
            assert one["frame_times_s"] == plain[key]["frame_times_s"]
