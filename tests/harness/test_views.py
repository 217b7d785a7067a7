"""Tasks with their options in another order: any model's answers, scored as before."""

from __future__ import annotations

import json

import pytest

from phasefusion import tasks_dir, tinyvlm
from phasefusion.datasets import load_questions
from phasefusion.errors import DatasetError, OptionError
from phasefusion.harness.views import OrderView, QuestionTask, view_order

DOC = {
    "question_id": "q",
    "video": "clips/a.mp4",
    "question": "Which?",
    "options": ["red", "green", "blue"],
    "answer": 2,
}


def own_text(doc, lmms_eval_specific_kwargs=None):
    lines = [f"{'ABC'[k]}. {option}" for k, option in enumerate(doc["options"])]
    pre = lmms_eval_specific_kwargs["pre_prompt"]
    return f"{pre}{doc['question']}\n" + "\n".join(lines) + "\nAnswer:"


def own_results(doc, results):
    return {"score": float(results[0] == "ABC"[doc["answer"]]), "said": results[0]}


def test_orders():
    assert view_order("rotate2", 3) == (2, 0, 1)
    assert view_order("rotate3", 3) == (0, 1, 2)
    with pytest.raises(OptionError, match="order 'shuffle' is neither"):
        view_order("shuffle", 3)


@pytest.mark.parametrize(
    ("order", "said", "score", "letter"),
    [
        ("reverse", "A", 1.0, "C"),
        ("reverse", "The answer is (C).", 0.0, "A"),
        ("rotate1", "B", 1.0, "C"),
        ("rotate1", "blue", 1.0, "C"),
        ("rotate1", "A or B", 0.0, ""),
        ("reverse", "", 0.0, ""),
    ],
)
def test_answers_are_translated_back(order, said, score, letter):
    view = OrderView("t", own_text, own_results, order)
    assert view.process_results(DOC, [said]) == {"score": score, "said": letter}


def test_prompt_is_the_tasks_own():
    view = OrderView("t", own_text, own_results, "reverse")
    text = view.doc_to_text(DOC, {"pre_prompt": "Look. "})
    assert text == "Look. Which?\nA. blue\nB. green\nC. red\nAnswer:"
    view = OrderView("t", lambda doc: "Q\nA. x\nB. y", own_results, "reverse")
    assert view.doc_to_text({}) == "Q\nA. y\nB. x"


def test_a_question_file_as_task(tmp_path):
    task = QuestionTask(tmp_path)
    assert task.doc_to_visual(DOC) == [str(tmp_path / "clips" / "a.mp4")]
    part = task.doc_to_visual({**DOC, "start": 1.5})[0]
    assert part["video_start"] == 1.5
    assert "video_end" not in part
    assert task.doc_to_text(DOC).splitlines()[-1].startswith("Answer with the option's")
    shown = task.doc_to_text(DOC, {"pre_prompt": "Q: ", "post_prompt": "\nGo"})
    assert shown == "Q: Which?\nA. red\nB. green\nC. blue\nGo"
    assert task.doc_to_target(DOC) == "C"
    assert task.process_results(DOC, ["C. blue"]) == {"accuracy": 1.0, "parsed": 1.0}
    assert task.process_results(DOC, ["none"]) == {"accuracy": 0.0, "parsed": 0.0}


def test_tasks_of_a_question_file_are_written(tmp_path):
    yaml = pytest.importorskip("yaml")
    folder = tasks_dir(
        questions=tinyvlm.questions_path(),
        orders=["reverse", "rotate1"],
        folder=tmp_path / "views",
    )
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    assert names == [
        "pf_questions",
        "pf_questions_pf_reverse",
        "pf_questions_pf_rotate1",
    ]
    module = {}
    exec((folder / "phasefusion_views.py").read_text(), module)
    items = load_questions(tinyvlm.questions_path())
    with open(folder / "pf_questions.jsonl") as file:
        docs = [json.loads(line) for line in file]
    assert len(docs) == len(items)

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor(
        "!function", lambda loader, node: loader.construct_scalar(node)
    )
    for name in names:
        config = yaml.load((folder / f"{name}.yaml").read_text(), Loader)
        assert config["task"] == name
        functions = {
            key: module[config[key].removeprefix("phasefusion_views.")]
            for key in ("doc_to_visual", "doc_to_text", "process_results")
        }
        for doc, item in list(zip(docs, items, strict=True))[:5]:
            assert functions["doc_to_visual"](doc) == [item.video]
            lines = functions["doc_to_text"](doc).splitlines()
            letter = next(
                line[0] for line in lines if line[3:] == item.options[item.gold]
            )
            assert functions["process_results"](doc, [letter])["accuracy"] == 1.0


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(DatasetError, match="needs a folder"):
        tasks_dir("videomme")
    with pytest.raises(OptionError):
        tasks_dir("videomme", orders=["shuffle"], folder=tmp_path)
    pytest.importorskip("lmms_eval")
    with pytest.raises(DatasetError, match="has no task 'videomne'"):
        tasks_dir("videomne", folder=tmp_path)
