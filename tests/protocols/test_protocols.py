"""What protocols have in common: plans, cost, resuming, refusals, a real model."""

import json

import numpy as np
import pytest
from pixel_scorer import PixelScorer, make_questions

import phasefusion as pf
from phasefusion.anchors import AnchorRule
from phasefusion.datasets import load_questions
from phasefusion.errors import DatasetError, GridError, ScoringError
from phasefusion.evaluate import evaluate
from phasefusion.protocols import PROTOCOLS, get, make_plan, names
from phasefusion.records import check, iter_passes, read_run
from phasefusion.report.figures import FIGURES
from phasefusion.report.sections import sections
from phasefusion.scoring import GeneratedAnswers

SMALL = {"budget": 2, "dense": 7, "n_orders": 3}
#: Of the sweeps that would need longer clips.
VALUES = {"budget-sweep": (2, 4), "oracle": (2, 4, 6)}


class Asks(PixelScorer):
    """The pixels' scorer, asked without the video or without letters too."""

    def variant(self, name):
        return Blind() if name == "blind" else PixelScorer(letter=0.0)


class Blind(PixelScorer):
    def score(self, clip, question, options, *, orders=None):
        assert clip is None
        k, orders = len(options), np.asarray(orders)
        places = [[list(order).index(c) for c in range(k)] for order in orders]
        return -2.0 - np.array([places])


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    return make_questions(tmp_path_factory.mktemp("clips"), n_clips=2, per_clip=2)


def run(questions, out, protocol, scorer=None, **options):
    if protocol == "anchored":
        options = {"anchor": AnchorRule(window="1/2")} | options
    options = {"values": VALUES.get(protocol)} | options
    return evaluate(
        questions,
        scorer or Asks(),
        out=out,
        protocol=protocol,
        progress=False,
        **SMALL,
        **options,
    )


@pytest.mark.parametrize("name", names())
def test_cost_is_what_is_then_scored(questions, tmp_path, name):
    made = run(questions, tmp_path, name)
    plan = make_plan(name, **SMALL, values=VALUES.get(name))
    cost = plan.cost([len(item.options) for item in load_questions(questions)])
    assert check(tmp_path).is_right
    if plan.protocol.adapts:  # what it costs is seen when it is done
        assert cost.least_passes <= made.n_passes <= cost.passes
        assert cost.least_passes < cost.passes
        return
    assert made.n_passes == made.n_new == cost.passes == cost.least_passes
    units = sum(len(p["frame_indices"] or ()) ** 2 for p in iter_passes(tmp_path))
    assert cost.is_complete
    assert cost.attention_units == units
    by_arm = {}
    for p in iter_passes(tmp_path):
        key = (p["arm"], p["shifted"])
        by_arm[key] = by_arm.get(key, 0) + 1
    assert by_arm == {(a.arm, a.shifted): a.passes for a in cost.arms if a.passes}
    arms = read_run(tmp_path)["settings"]["arms"]
    assert [(one["arm"], one["shifted"]) for one in arms] == [
        (arm.name, arm.shifted) for arm in plan.arms
    ]


@pytest.mark.parametrize("name", names())
def test_every_protocol_goes_on_where_it_was(questions, tmp_path, name):
    whole = run(questions, tmp_path / "whole", name)
    lines = (whole.path / "passes.jsonl").read_bytes().splitlines(keepends=True)
    kept = len(lines) // 2 - 1
    part = tmp_path / "part"
    part.mkdir()
    (part / "run.json").write_bytes((whole.path / "run.json").read_bytes())
    (part / "passes.jsonl").write_bytes(b"".join(lines[:kept]))
    made = run(questions, part, name)
    assert made.n_new == len(lines) - kept
    both = [
        sorted(
            (
                json.dumps(p | {"seconds": None, "decode_seconds": None})
                for p in iter_passes(folder)
            ),
        )
        for folder in (part, whole.path)
    ]
    assert both[0] == both[1]
    assert run(questions, part, name).n_new == 0


@pytest.mark.parametrize("name", names())
def test_every_report_prints_the_protocols_own_figure(questions, tmp_path, name):
    report = run(questions, tmp_path, name).report()
    figure = report.numbers["figure"]
    for text in (str(report), report.to_markdown(), report._repr_html_()):
        assert f"protocol {name}" in text
        if figure is not None:
            for one in figure["tables"]:
                assert one["title"] in text
    assert (figure is None) == (name not in FIGURES)
    if figure is not None:
        assert figure["tables"]
        assert all(one["rows"] for one in figure["tables"])
    json.dumps(report.to_dict(), allow_nan=False)
    assert report.numbers["items"]["cluster"] == "video"
    for one in sections(report.numbers):
        if "p" in one.columns or any("[" in cell for row in one.rows for cell in row):
            assert "clustered by video" in one.note, one.title


@pytest.mark.parametrize("name", names())
def test_a_run_of_which_little_is_there_can_be_reported(questions, tmp_path, name):
    made = run(questions, tmp_path, name)
    path = made.path / "passes.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for kept in (1, len(lines) // 3 + 1):
        path.write_bytes(b"".join(lines[:kept]))
        assert str(pf.report(made.path))


def test_the_general_report_is_about_the_arms_that_it_knows(questions, tmp_path):
    swept = run(questions, tmp_path / "swept", "budget-sweep", values=(4,))
    plain = run(questions, tmp_path / "plain", "stableeval", orders="shared")
    general, other = (one.report().numbers for one in (swept, plain))
    for name in ("accuracy", "phase_flips", "order_flips", "consistency", "ties"):
        assert general[name] == other[name]
    assert set(general["option_mass"]) == {"phase", "4 frames"}


def test_reference_arms_are_not_made_twice():
    plan = make_plan("budget-sweep", budget=16)
    assert [arm.name for arm in plan.arms] == [
        "phase",
        "4 frames",
        "8 frames",
        "32 frames",
    ]
    plan = make_plan("phase-counts", phases=2)
    assert [arm.name for arm in plan.arms] == ["phase", "3 phases", "6 phases"]


def test_protocols_say_what_they_reproduce():
    for name, protocol in PROTOCOLS.items():
        assert protocol.name == name
        assert protocol.figure
    assert get(PROTOCOLS["quick"]) is PROTOCOLS["quick"]


@pytest.mark.parametrize(
    ("protocol", "options", "message"),
    [
        ("quick", {"values": [2]}, "'quick' varies nothing"),
        ("budget-sweep", {"values": [8, 8]}, r"each once, not \[8, 8\]"),
        ("sampler-sweep", {"values": ["left", "left"]}, "each once"),
        ("budget-sweep", {"values": []}, "takes frames a pass as values"),
        ("budget-sweep", {"values": [4, 0]}, r"at least 1, not \[4, 0\]"),
        ("budget-sweep", {"values": ["left"]}, "takes frames a pass as values"),
        ("sampler-sweep", {"values": [8]}, "takes names of samplers as values"),
        ("sampler-sweep", {"values": ["best"]}, "there is no sampler 'best'"),
        ("reruns", {"values": [1]}, "one and at least 2"),
        ("random-draws", {"values": [2, 3]}, "one and at least 2"),
        ("margin", {"dense": 2}, "dense=2 frames for some questions cannot cost"),
        ("best", {}, "protocol 'best' is not one of phasefusion, quick"),
        ("quick", {"phases": 3}, "phases=3 has no effect: .*'quick' takes one grid"),
        ("oracle", {"phases": 2}, "phases=2 has no effect"),
        ("quick", {"orders": "identity", "n_orders": 3}, "these are identity"),
        ("reruns", {"orders": "all", "n_orders": 3}, "n_orders=3 has no effect"),
    ],
)
def test_values_that_cannot_be(questions, tmp_path, protocol, options, message):
    with pytest.raises((DatasetError, GridError), match=message):
        evaluate(
            questions,
            Asks(),
            out=tmp_path / "run",
            protocol=protocol,
            **({"budget": 2} | options),
        )
    assert not (tmp_path / "run").exists()


def test_scorers_that_a_protocol_cannot_use(questions, tmp_path):
    class Writes:
        is_generating = True

        def score(self, clip, question, options, *, orders=None):
            return GeneratedAnswers([["A"] * len(orders)] * len(clip.frames))

    for name in ("pride", "margin"):
        with pytest.raises(ScoringError, match=f"'{name}' needs posteriors, and Wri"):
            run(questions, tmp_path / "run", name, Writes())
    for name in ("blind", "unlabelled"):
        with pytest.raises(ScoringError, match=rf"form {name}, for which .* variant"):
            run(questions, tmp_path / "run", name, PixelScorer())
    assert not (tmp_path / "run").exists()


def test_other_values_are_another_run(questions, tmp_path):
    run(questions, tmp_path, "budget-sweep", values=(4,), limit=1)
    with pytest.raises(pf.errors.RecordError, match="arms"):
        run(questions, tmp_path, "budget-sweep", values=(5,), limit=1)


@pytest.mark.parametrize("name", sorted(set(names()) - {"permutations"}))
def test_on_the_shipped_model(tmp_path, name, shipped):
    made = evaluate(
        pf.tinyvlm.questions_path(),
        shipped,
        out=tmp_path,
        protocol=name,
        limit=1,
        n_orders=2,
        progress=False,
    )
    report = made.report()
    assert report.numbers["items"]["missing_passes"] == 0
    assert "nan" not in str(report)


@pytest.fixture(scope="module")
def shipped():
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from phasefusion import tinyvlm
    from phasefusion.scoring import HFOptionScorer

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield HFOptionScorer.from_pretrained(
        tinyvlm.model_dir(), device="cpu", dtype="float32"
    )
    torch.set_num_threads(threads)


#: Those that do not ask for every one of the 26! orders.
FEW_ORDERS = [name for name in names() if name not in ("permutations", "stress")]


@pytest.mark.parametrize("name", FEW_ORDERS)
def test_a_question_of_many_answers_is_in_every_report(tmp_path, name):
    """Letter A is always chosen, so 26 orders give up to 26 different answers."""
    path = make_questions(tmp_path, n_clips=1, per_clip=2)
    first = json.loads(path.read_text().splitlines()[0])
    wide = first | {"question_id": "wide", "options": [f"thing {c}" for c in range(26)]}
    path.write_text(f"{path.read_text()}{json.dumps(wide)}\n")
    options = {"budget": 2, "dense": 7, "values": VALUES.get(name)}
    if name == "phasefusion":
        options["orders"] = "latin"
    if name == "anchored":
        options["anchor"] = AnchorRule(window="1/2")
    scorer = Asks(letter=6.0)
    out = tmp_path / "run"
    made = evaluate(path, scorer, out=out, protocol=name, progress=False, **options)
    given = {p["answer"] for p in iter_passes(out) if p["question_id"] == "wide"}
    assert len(given) > 16 or name != "phasefusion"
    assert str(made.report())


class Masks:
    """All but one option masked, by the least number there is or one near it."""

    def __init__(self, least):
        self.least = least

    def variant(self, name):
        return self

    def score(self, clip, question, options, *, orders):
        n_phases = 1 if clip is None else len(clip.indices)
        scores = np.full((n_phases, len(orders), len(options)), self.least)
        scores[:, 1:, 1:] *= 0.6
        scores[:, :, len(question) % 2] = 0.0
        return scores


@pytest.mark.parametrize("least", [float(np.finfo(np.float64).min), -3e306])
@pytest.mark.parametrize("name", names())
def test_masked_scores_are_in_every_report(questions, tmp_path, name, least):
    report = run(questions, tmp_path, name, Masks(least)).report()
    for text in (str(report), report.to_markdown(), report._repr_html_()):
        assert " inf" not in text
    json.dumps(report.to_dict(), allow_nan=False)
    if name in ("phasefusion", "stableeval"):
        assert f"{-least:.3g}" in str(report)
        assert report.save_html(tmp_path, n_strips=0).exists()
