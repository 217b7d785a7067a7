"""The model that VLMEvalKit runs, against a small stand-in of its runner."""

from __future__ import annotations

import json
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import phasefusion as pf
from phasefusion import tinyvlm
from phasefusion.datasets import load_questions
from phasefusion.errors import BackendUnavailableError, OptionError, UsageError
from phasefusion.harness import VLMEvalKitModel, register_vlmevalkit
from phasefusion.scoring.letters import PromptTemplate

ITEMS = load_questions(tinyvlm.questions_path())[:3]


class Dataset:
    """What the runner asks of a data set: prompts of one video and texts."""

    dataset_name = "Stand-In"
    nframe, fps = 4, -1

    def build_prompt(self, index, video_llm):
        item = ITEMS[index]
        assert video_llm
        text = PromptTemplate().render(item.question, item.options)
        return [
            {"type": "text", "value": "Watch the video."},
            {"type": "video", "value": item.video},
            {"type": "text", "value": text},
        ]


def infer(model, dataset):
    """Do what the runner for videos does with a model, one question after another."""
    answers = {}
    for index in range(len(ITEMS)):
        if getattr(model, "nframe", None) and model.nframe != dataset.nframe:
            model.nframe = dataset.nframe
        if getattr(model, "fps", None) is not None and getattr(model, "fps", 0) > 0:
            raise AssertionError("a rate that the data set does not have")
        assert not model.use_custom_prompt(dataset.dataset_name)
        message = dataset.build_prompt(index, video_llm=model.VIDEO_LLM)
        answers[index] = model.generate(message=message, dataset=dataset.dataset_name)
    return answers


def darker(frames, question, options):
    assert "Watch the video." in question
    return [float(len(option)) + frames.mean() / 255 for option in options]


def test_runner(tmp_path):
    table = {}
    made = []

    def make():
        made.append(1)
        return pf.wrap(darker, returns="logits")

    register_vlmevalkit(
        "pf", make, into=table, sidecar=str(tmp_path / "side"), phases=2
    )
    assert not made
    model = table["pf"]()
    answers = infer(model, Dataset())
    model.close()
    for item, answer in zip(ITEMS, answers.values(), strict=True):
        lengths = [len(option) for option in item.options]
        assert lengths["ABCDE".index(answer)] == max(lengths)
    with open(tmp_path / "side" / "passes.jsonl") as file:
        rows = [json.loads(line) for line in file]
    described = json.loads((tmp_path / "side" / "run.json").read_text())["settings"]
    assert described["scorer"]["prompt"]["text"].startswith("the scorer's own")
    assert {row["budget"] for row in rows} == {4}
    assert {row["benchmark"] for row in rows} == {"Stand-In"}
    assert {row["gold"] for row in rows} == {None}
    numbers = pf.report(tmp_path / "side").numbers
    assert numbers["items"]["without_gold"] == 3
    assert numbers["phase_flips"]["passes"]["any"]["value"] == 0


def test_a_hugging_face_model_by_its_folder(tmp_path):
    """The data set's own prompt, scored as the scorer alone would."""
    pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    gold = {(item.video, item.question): item.gold for item in ITEMS}

    def answer_key(dataset, video, prompt):
        return next(g for (v, q), g in gold.items() if v == video and q in prompt)

    model = VLMEvalKitModel(
        tinyvlm.model_dir(),
        answer_key=answer_key,
        device="cpu",
        budget=4,
        sidecar=str(tmp_path / "side"),
    )
    answers = [
        model.generate(
            [item.video, PromptTemplate().render(item.question, item.options)], "tiny"
        )
        for item in ITEMS
    ]
    model.close()
    scorer = pf.scoring.HFOptionScorer.from_pretrained(
        tinyvlm.model_dir(), device="cpu"
    )
    run = pf.evaluate(
        ITEMS, scorer, out=tmp_path / "own", protocol="stableeval", budget=4,
        progress=False,
    )  # fmt: skip
    assert answers == ["ABCDE"[k] for k in _fused(run)]
    described = json.loads((tmp_path / "side" / "run.json").read_text())["settings"]
    assert described["scorer"]["prompt"] == {"text": "as the data set makes it"}
    with open(tmp_path / "side" / "passes.jsonl") as file:
        golds = {json.loads(line)["gold"] for line in file}
    assert golds == {item.gold for item in ITEMS}


def _fused(run):
    passes = run.passes()
    content = passes.content_logprobs()
    for i, item in enumerate(passes.items):
        rows = content[passes.item == i][:, None, : item.n_options]
        yield int(
            pf.fuse(rows, over=("phase", "order"), item_id=item.question_id).answer
        )


def test_questions_that_cannot_be_read(tmp_path):
    model = VLMEvalKitModel(
        pf.wrap(darker, returns="logits"), sidecar=str(tmp_path / "side")
    )
    item = ITEMS[0]
    assert model.generate([item.video, "What happens?"]) == ""
    pictures = [{"type": "image", "value": "a.jpg"}] * 2
    assert model.generate([*pictures, {"type": "text", "value": "Q\nA. x\nB. y"}]) == ""
    model.close()
    with open(tmp_path / "side" / "docs.jsonl") as file:
        unread = [json.loads(line)["unread"] for line in file]
    assert "no lines labelled A, B" in unread[0]
    assert "needs one video" in unread[1]
    strict = VLMEvalKitModel(pf.wrap(darker, returns="logits"), on_error="raise")
    with pytest.raises(OptionError):
        strict.generate([item.video, "What happens?"])
    with pytest.raises(OptionError, match="a part of the message is 5"):
        strict.generate([5])


class Prefers:
    """A scorer that says nothing of itself, or what its weights are."""

    def __init__(self, k, content=None):
        self.k, self.calls = k, 0
        if content is not None:
            self.describe = lambda: {"content": content}

    def score(self, clip, question, options, *, orders=None):
        self.calls += 1
        values = np.full(len(options), np.log(0.01))
        values[self.k] = np.log(0.9)
        shape = (len(clip.frames), len(orders), len(options))
        return np.broadcast_to(values, shape)


def prompt_of(item, video=None):
    return [video or item.video, PromptTemplate().render(item.question, item.options)]


def test_a_cache_serves_one_scorer_alone(tmp_path):
    given = {"phases": 1, "budget": 2, "cache": str(tmp_path / "p.db")}
    for anonymous in (Prefers(0), pf.wrap(darker, returns="logits", name="mine")):
        with pytest.raises(UsageError, match="cache= needs a scorer that says what"):
            VLMEvalKitModel(anonymous, **given)
    said = []
    for scorer in (Prefers(0, "a"), Prefers(1, "b"), Prefers(1, "a")):
        model = VLMEvalKitModel(scorer, **given)
        said.append((model.generate(prompt_of(ITEMS[0])), scorer.calls))
        model.close()
    assert said == [("A", 1), ("B", 1), ("A", 0)]

    class Other(Prefers):
        pass

    model = VLMEvalKitModel(Other(1, "a"), **given)
    assert model.generate(prompt_of(ITEMS[0])) == "B"
    model.close()
    wrapped = pf.wrap(darker, returns="logits", content="3")
    assert VLMEvalKitModel(wrapped, **given)._described()["content"] == "3"


def test_videos_of_one_name_are_several(tmp_path):
    first, other = ITEMS[0], load_questions(tinyvlm.questions_path())[-1]
    assert first.video != other.video
    scorer = Prefers(0)
    given = {"phases": 1, "budget": 2, "sidecar": str(tmp_path / "side")}
    model = VLMEvalKitModel(scorer, **given)
    for folder, item, k in (("a", first, 0), ("b", other, 1), ("c", first, 2)):
        (tmp_path / folder).mkdir()
        video = tmp_path / folder / "v.mp4"
        shutil.copy(item.video, video)
        scorer.k = k
        said = model.generate(prompt_of(first, str(video)))
        assert said == "AB"[folder == "b"]  # a copy is the same question
    model.close()
    assert scorer.calls == 2
    with open(tmp_path / "side" / "passes.jsonl") as file:
        rows = [json.loads(line) for line in file]
    assert len({row["video_id"] for row in rows}) == 2


def test_unread_messages_are_noted_one_by_one(tmp_path):
    given = {"phases": 1, "sidecar": str(tmp_path / "side")}
    model = VLMEvalKitModel(Prefers(0), **given)
    for video in ("a.mp4", "b.mp4"):
        assert model.generate([video, "What happens?"]) == ""
    model.close()
    assert (tmp_path / "side" / "docs.jsonl").read_text().count("\n") == 2


def test_generated_answers_are_refused_when_the_model_is_made():
    class Writes(Prefers):
        is_generating = True

    with pytest.raises(UsageError, match=r'Writes: generated.*returns="answer"'):
        VLMEvalKitModel(Writes(0))
    with pytest.raises(UsageError, match="Writes: generated answers"):
        VLMEvalKitModel(lambda: Writes(0))


def test_register(monkeypatch):
    monkeypatch.setitem(sys.modules, "vlmeval", None)
    with pytest.raises(BackendUnavailableError, match="VLMEvalKit cannot be imported"):
        register_vlmevalkit("pf", "folder")
    config = SimpleNamespace(supported_VLM={"taken": None})
    monkeypatch.setitem(sys.modules, "vlmeval", SimpleNamespace(config=config))
    monkeypatch.setitem(sys.modules, "vlmeval.config", config)
    register_vlmevalkit("pf", "folder", phases=2)
    assert list(config.supported_VLM) == ["taken", "pf"]
    with pytest.raises(UsageError, match="'taken' is a model of VLMEvalKit already"):
        register_vlmevalkit("taken", "folder")
    with pytest.raises(UsageError, match="phases='x'"):
        register_vlmevalkit("other", "folder", phases="x")
    with pytest.raises(UsageError, match="unknown settings: pahses"):
        VLMEvalKitModel(pf.wrap(darker, returns="logits"), pahses=2)
