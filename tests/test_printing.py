"""Every public result is a line of text and a table, however much it holds."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import phasefusion as pf
from phasefusion import orders, simulate, tinyvlm
from phasefusion._results import Result
from phasefusion.datasets import Item, load_questions
from phasefusion.protocols import make_plan
from phasefusion.records import read_passes
from phasefusion.scoring import GeneratedAnswers, OptionScores

#: Given to functions, not returned by them; what these print is how they are made.
GIVEN = {
    "Conditions ArmLoad VideoFacts Workload",  # capacity
    "YuvFrames Device",  # cuda
    "Limits Part Lease Poison Prepared RayEngine ScorerSpec Shard Unit",  # engine
    "MeasureRule Rules AnchorRule",
    "Exact LongestEdge ShortestEdge TileGrid TileMultiple Within",  # pixels
    "PatchSettings PixelSettings PlaneSettings",
    "Arm ArmSpec Protocol PhaseGrid WindowGrid Design Effects",
    "PromptTemplate ScoreRequest SubtitleSource",
}
#: Rows of results, that these show.
ROWS = {
    "Attempt Claim Figure Entry Difference Problem Needed ArmCounts Finding Question",
    "Value ArmCost Conflict ItemInfo Cue SubtitleStream StreamInfo",
}
LEFT_OUT = {name for line in GIVEN | ROWS for name in line.split()}
OF_AUDITS = "phasefusion.audit.verdicts"  # rows as well; others share their names
MANY = 5_000


def public_modules():
    yield pf
    for found in pkgutil.iter_modules(pf.__path__):
        if not found.name.startswith("_"):
            yield importlib.import_module(f"phasefusion.{found.name}")


def public_results():
    """Public dataclasses by module and name."""
    found = set()
    for module in public_modules():
        names = getattr(module, "__all__", None)
        if names is None:
            names = [name for name in vars(module) if not name.startswith("_")]
            homes = (module.__name__,)
        else:
            homes = ("phasefusion",)
        for value in (getattr(module, name) for name in names):
            if inspect.isclass(value) and dataclasses.is_dataclass(value):
                if value.__module__.startswith(homes):
                    found.add(value)
    return {
        f"{kind.__module__}.{kind.__name__}": kind
        for kind in sorted(found, key=lambda kind: (kind.__module__, kind.__name__))
        if kind.__name__ not in LEFT_OUT and kind.__module__ != OF_AUDITS
    }


RESULTS = public_results()
#: Whose tables are their own; shown below, from real ones.
OWN = {
    name
    for name, kind in RESULTS.items()
    if getattr(kind, "_repr_html_", None) is not Result._repr_html_
    or kind._rows is not Result._rows
}
#: Parts of these are few whatever was asked, so that dataclasses may print them.
FEW = {"Anchor", "FrameCheck", "Item", "VideoInfo"}


def stuffed(kind, value):
    """One of a class, with a value for every field that is no number."""
    made = object.__new__(kind)
    for field in dataclasses.fields(kind):
        is_number = str(field.type) in ("float", "int")
        object.__setattr__(made, field.name, 0.5 if is_number else value)
    return made


def test_there_are_results():
    assert len(RESULTS) > 80
    assert {kind.__name__ for kind in RESULTS.values()} >= {
        "Clip", "Comparison", "Dataset", "FusedPosterior", "GateResult",
        "OptionScores", "Passes", "Pilot", "Plan", "Report", "Run", "Watch",
    }  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_has_a_table(name):
    kind = RESULTS[name]
    rich = getattr(kind, "_repr_html_", getattr(kind, "_repr_markdown_", None))
    assert callable(rich), name


@pytest.mark.parametrize(
    "value",
    [
        tuple(range(MANY)),
        dict.fromkeys(range(MANY), "<b>"),
        ["<script>" * MANY] * 3,
        "&" * MANY,
        np.zeros((MANY, 4)),
        frozenset(range(MANY)),
        tuple(tuple(range(MANY)) for _ in range(3)),
    ],
    ids=["tuple", "dict", "texts", "text", "array", "set", "nested"],
)
@pytest.mark.parametrize("name", sorted(set(RESULTS) - OWN))
def test_no_field_is_printed_whole(name, value):
    made = stuffed(RESULTS[name], value)
    n_fields = len(dataclasses.fields(made))
    assert len(made._repr_html_()) < 1_500 * (n_fields + 1)
    assert "<script>" not in made._repr_html_()
    if type(made).__repr__ is Result.__repr__:
        assert len(repr(made)) < 300 * (n_fields + 1)
        assert "\n" not in repr(made)


@pytest.mark.parametrize("name", RESULTS)
def test_no_dataclass_prints_a_collection(name):
    kind = RESULTS[name]
    text = kind.__repr__
    if not hasattr(text, "__wrapped__") or kind.__name__ in FEW:  # a text of its own
        return
    for field in dataclasses.fields(kind):
        many = ("tuple[", "dict", "Mapping", "NDArray", "Sequence", "list[", "Any")
        assert not field.repr or not any(word in str(field.type) for word in many)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    made = simulate.corpus(n_videos=1500, n_orders=2, seed=4)
    return made.write(tmp_path_factory.mktemp("made"), frames=False)[0]


def big_results(run):
    rng = np.random.default_rng(0)
    logp = np.log(rng.dirichlet(np.ones(4), (60, 50)))
    table = np.tile(orders.identity(4), (50, 1))
    frames = rng.integers(0, 256, (3, 8, 90, 160, 3), np.uint8)
    indices = np.arange(24).reshape(3, 8)
    grid = pf.PhaseGrid(8, 3)
    yield "passes", read_passes(run)
    yield "report", pf.report(run)
    yield "comparison", pf.compare(run, run)
    yield "scores", OptionScores(logp, np.ones((60, 50)), table)
    yield "texts", GeneratedAnswers([["A" * 900] * 50] * 60)
    yield "fused", pf.fuse(logp)
    yield "plan", make_plan("phase-sweep")
    yield "many arms", make_plan("sampler-sweep", values=pf.samplers.names()[:15])
    yield "clip", pf.Clip(frames, indices, indices / 8.0, indices < 0, grid, None)
    tensors = np.zeros((3, 800, 3, 4, 4), np.float32)
    indices = np.arange(2400).reshape(3, 800)
    yield (
        "long clip",
        pf.Clip(tensors, indices, indices / 8.0, indices < 0, grid, None),
    )


def test_large_results_print_little(run):
    for name, made in big_results(run):
        assert len(repr(made)) < 4_000, name
        shown = made._repr_html_()
        most = 2_000_000 if name == "clip" else 60_000 if name == "report" else 12_000
        assert 20 < len(shown) < most, name


def test_a_data_set_shows_its_first_questions(tmp_path):
    rows = [
        {"question_id": f"q{k}", "video": "a.mp4", "question": f"<i>{k}?", "options":
         ["yes", "no"], "answer": 1} for k in range(MANY)
    ]  # fmt: skip
    (tmp_path / "a.mp4").write_bytes(b"")
    made = pf.datasets.read("plain", rows, videos=tmp_path)
    assert len(made) == MANY
    shown = made._repr_html_()
    assert "&lt;i&gt;5?" in shown
    assert "q500" not in shown
    assert f"and {MANY - 12} more" in shown
    assert "questions=5000" in repr(made)
    assert len(repr(made)) < 400


def test_passes_show_every_arm(run):
    made = read_passes(run)
    shown = made._repr_html_()
    for arm in ("phase", "union", "dense"):
        assert f"<td>{arm}</td>" in shown
    assert f"<td>{int((made.arm == 'phase').sum()) // 2}</td>" in shown
    assert repr(made).startswith(f"Passes(passes={len(made)}, items=4500, missing=0")


def test_a_clip_shows_its_pictures():
    item: Item = load_questions(tinyvlm.questions_path())[0]
    clip = pf.read_clip(item.video, pf.PhaseGrid(4, 2))
    assert clip._repr_html_().count("data:image/png;base64,") == 1
    small = {"size": (8, 8), "mean": (0.5,) * 3, "std": (0.5,) * 3}
    tensors = pf.read_clip(item.video, pf.PhaseGrid(4, 2), **small)
    assert "img" not in tensors._repr_html_()
