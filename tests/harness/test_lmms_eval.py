"""The real lmms-eval, offline and on the CPU, with the shipped clips.

What needs its stock Qwen models also needs torchvision, qwen-vl-utils and decord, which
those import.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import tiny_models

import phasefusion as pf
from phasefusion import tinyvlm
from phasefusion.datasets import load_questions
from phasefusion.errors import OptionError, UsageError
from phasefusion.scoring.letters import PromptTemplate

os.environ.setdefault("HF_HUB_OFFLINE", "1")
pytest.importorskip("lmms_eval", reason="runs the real lmms-eval")
pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of lmms-eval and what it imports
    pytest.mark.slow,
]
ITEMS = load_questions(tinyvlm.questions_path())
LIMIT = 4


@pytest.fixture(scope="module", autouse=True)
def _quiet():
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def run(model, model_args, tasks=("pf_tiny",), folder=None, limit=LIMIT, **options):
    """Evaluate in this process; return what the harness returns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lmms_eval.evaluator import simple_evaluate
        from lmms_eval.tasks import TaskManager

        manager = TaskManager(
            include_path=str(folder or pf.tasks_dir()),
            include_defaults=False,
            model_name=model if isinstance(model, str) else "phasefusion_wrap",
        )
        return simple_evaluate(
            model=model,
            model_args=model_args,
            tasks=list(tasks),
            task_manager=manager,
            limit=limit,
            batch_size=1,
            device="cpu",
            bootstrap_iters=0,
            **options,
        )


def answers(results, task="pf_tiny"):
    return [sample["filtered_resps"][0] for sample in results["samples"][task]]


def arguments(**given):
    return ",".join(f"{name}={value}" for name, value in given.items())


def own(pretrained, out, *, items=ITEMS[:LIMIT], scorer=None, **options):
    """The same questions by `evaluate`, and the letters that its passes fuse to."""
    scorer = scorer or pf.scoring.HFOptionScorer.from_pretrained(
        pretrained, device="cpu", **options
    )
    made = pf.evaluate(items, scorer, out=out, protocol="stableeval", progress=False)
    passes = made.passes()
    content = passes.content_logprobs()
    letters = []
    for i, item in enumerate(passes.items):
        rows = content[passes.item == i][:, None, : item.n_options]
        fused = pf.fuse(rows, over=("phase", "order"), item_id=item.question_id)
        letters.append("ABCDEFGH"[int(fused.answer)])
    return letters, tiny_models.rows(Path(out))


@pytest.fixture(scope="module")
def registered():
    """Have the models in the registry, where the package is not installed as well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        registry = importlib.import_module("lmms_eval.models").MODEL_REGISTRY_V2
    from phasefusion.harness.lmms_eval import manifests

    for manifest in manifests():
        registry.register_manifest(manifest, overwrite=True)


@pytest.mark.usefixtures("registered")
def test_own_model_answers_as_evaluate_does(tmp_path):
    given = arguments(
        pretrained=tinyvlm.model_dir(), sidecar=tmp_path / "side", phases=3, budget=8
    )
    results = run("phasefusion", given)
    letters, rows = own(tinyvlm.model_dir(), tmp_path / "own")
    assert answers(results) == letters
    side = tiny_models.rows(tmp_path / "side")
    assert tiny_models.largest_difference(side, rows) < 2e-5
    right = [
        letter == "ABCDE"[i.gold] for letter, i in zip(letters, ITEMS, strict=False)
    ]
    assert results["results"]["pf_tiny"]["accuracy,none"] == np.mean(right)
    report = pf.report(tmp_path / "side")
    assert report.numbers["items"]["with_passes"] == LIMIT
    assert report.numbers["items"]["without_gold"] == 0
    settings = json.loads((tmp_path / "side" / "run.json").read_text())["settings"]
    assert settings["harness"]["name"] == "lmms-eval"
    assert settings["harness"]["version"]
    with open(tmp_path / "side" / "docs.jsonl") as file:
        docs = [json.loads(line) for line in file]
    assert [doc["doc_id"] for doc in docs] == list(range(LIMIT))
    wanted = PromptTemplate().render(ITEMS[0].question, ITEMS[0].options)
    assert docs[0]["prompt"] == wanted


@pytest.mark.usefixtures("registered")
def test_views_give_the_answers_of_the_orders(tmp_path):
    """One pass in the view's order, asked by the harness, is a pass of the run."""
    given = {"pretrained": tinyvlm.model_dir(), "protocol": "quick"}
    tasks = ("pf_tiny", "pf_tiny_pf_reverse", "pf_tiny_pf_rotate1")
    side = tmp_path / "side"
    results = run("phasefusion", arguments(**given, sidecar=side), tasks)
    scorer = pf.scoring.HFOptionScorer.from_pretrained(
        tinyvlm.model_dir(), device="cpu"
    )
    rows = {}
    with open(side / "passes.jsonl") as file:
        for line in file:
            row = json.loads(line)
            rows[row["benchmark"], row["question_id"]] = row
    for k, item in enumerate(ITEMS[:LIMIT]):
        clip = pf.read_clip(item.video, pf.PhaseGrid(8), size=scorer.frame_size)
        n = len(item.options)
        for task, order in (
            ("pf_tiny", range(n)),
            ("pf_tiny_pf_reverse", range(n)[::-1]),
            ("pf_tiny_pf_rotate1", [(pos + 1) % n for pos in range(n)]),
        ):
            scores = scorer.score(clip, item.question, item.options, orders=[order])
            content = int(np.argmax(scores.logprobs[0, 0]))
            said = answers(results, task)[k]
            assert said == "ABCDE"[list(order).index(content)]
            sample = results["samples"][task][k]
            assert sample["accuracy"] == float(content == item.gold)
            row = rows[task, item.question_id]
            assert order[row["gold"]] == item.gold


@pytest.mark.usefixtures("registered")
def test_a_cache_of_its_own_fills_another_sidecar(tmp_path, monkeypatch):
    given = {"pretrained": tinyvlm.model_dir(), "cache": tmp_path / "p.db"}
    first = run("phasefusion", arguments(**given, sidecar=tmp_path / "a"))

    def refuse(*args, **kwargs):
        raise AssertionError("the model was asked again")

    monkeypatch.setattr(pf.scoring.HFOptionScorer, "score", refuse)
    second = run("phasefusion", arguments(**given, sidecar=tmp_path / "b"))
    assert answers(first) == answers(second)
    a, b = tiny_models.rows(tmp_path / "a"), tiny_models.rows(tmp_path / "b")
    assert tiny_models.largest_difference(a, b) == 0
    compared = pf.compare(tmp_path / "a", tmp_path / "b")
    assert compared.n_common == LIMIT
    assert not compared.items


@pytest.mark.usefixtures("registered")
def test_a_run_that_was_stopped_goes_on(tmp_path):
    given = arguments(pretrained=tinyvlm.model_dir(), sidecar=tmp_path / "side")
    run("phasefusion", given, limit=2)
    before = (tmp_path / "side" / "passes.jsonl").read_bytes()
    run("phasefusion", given)
    assert (tmp_path / "side" / "passes.jsonl").read_bytes().startswith(before)


def write_task(folder, name, docs, text="doc['question']"):
    """A task of its own file, with a prompt that depends on the model's name."""
    (folder / "utils.py").write_text(
        "def text(doc, lmms_eval_specific_kwargs=None):\n"
        "    given = lmms_eval_specific_kwargs or {}\n"
        f"    return given.get('pre_prompt', '') + {text}\n"
        "def visual(doc):\n    return [doc['video']]\n"
        "def results(doc, results):\n    return {'said': float(bool(results[0]))}\n"
    )
    with open(folder / f"{name}.jsonl", "w") as file:
        file.writelines(json.dumps(doc) + "\n" for doc in docs)
    (folder / f"{name}.yaml").write_text(
        f"task: {name}\ndataset_path: json\ndataset_kwargs:\n  data_files:\n"
        f"    test: {name}.jsonl\ntest_split: test\noutput_type: generate_until\n"
        "doc_to_visual: !function utils.visual\ndoc_to_text: !function utils.text\n"
        "doc_to_target: answer\nprocess_results: !function utils.results\n"
        "lmms_eval_specific_kwargs:\n  default:\n    pre_prompt: ''\n"
        "  qwen3_vl:\n    pre_prompt: 'Hey. '\n"
        "metric_list:\n  - metric: said\n    aggregation: mean\n"
        "    higher_is_better: true\n"
    )


LETTERED = PromptTemplate().render(ITEMS[0].question, ITEMS[0].options)


@pytest.mark.usefixtures("registered")
def test_prompt_of_another_model_is_used_and_recorded(tmp_path):
    docs = [{"id": 1, "video": ITEMS[0].video, "question": LETTERED, "answer": "A"}]
    write_task(tmp_path, "keyed", docs)
    for key in ("", "qwen3_vl"):
        side = tmp_path / f"side{key}"
        given = {"pretrained": tinyvlm.model_dir(), "sidecar": side, "budget": 2}
        given |= {"prompt_key": key} if key else {}
        run("phasefusion", arguments(**given), ["keyed"], tmp_path)
        settings = json.loads((side / "run.json").read_text())["settings"]
        assert settings["harness"]["prompt_key"] == (key or None)
        doc = json.loads((side / "docs.jsonl").read_text())
        assert doc["prompt"].startswith("Hey. ") == bool(key)
        assert doc["gold"] == 0


@pytest.mark.usefixtures("registered")
def test_documents_that_cannot_be_asked(tmp_path):
    lost = str(tmp_path / "none.mp4")
    docs = [
        {"id": "a", "video": ITEMS[0].video, "question": LETTERED, "answer": "A"},
        {"id": "b", "video": ITEMS[0].video, "question": "What?", "answer": "A"},
        {"id": "c", "video": lost, "question": LETTERED, "answer": "Z"},
    ]
    write_task(tmp_path, "dirty", docs)
    side = tmp_path / "side"
    given = {"pretrained": tinyvlm.model_dir(), "budget": 2}
    results = run("phasefusion", arguments(**given, sidecar=side), ["dirty"], tmp_path)
    said = answers(results, "dirty")
    assert [bool(text) for text in said] == [True, False, False]
    with open(side / "docs.jsonl") as file:
        rows = {row["doc_id"]: row for row in map(json.loads, file)}
    assert "no lines labelled" in rows[1]["unread"]
    assert "none.mp4" in rows[2]["reason"]
    assert rows[2]["gold"] is None
    assert "none of the options" in rows[2]["gold_problem"]
    items = pf.report(side).numbers["items"]
    assert (items["with_passes"], items["missing_passes"]) == (2, 12)
    strict = arguments(**given, on_error="raise")
    with pytest.raises(OptionError, match="no lines labelled"):
        run("phasefusion", strict, ["dirty"], tmp_path)
    write_task(tmp_path, "open", docs[1:2])
    with pytest.raises(OptionError, match="no document of 1 shows lettered options"):
        run("phasefusion", arguments(**given), ["open"], tmp_path)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        ("phasefusion", {}, "need pretrained="),
        ("phasefusion", {"pretrained": "x", "phasse": 3}, "unknown model_args: phasse"),
        ("phasefusion", {"pretrained": "x", "phases": "two"}, "phases='two'"),
        ("phasefusion", {"pretrained": "x", "timestamps": "base"}, "timestamps=base"),
        ("phasefusion_wrap", {}, "need base="),
        ("phasefusion_wrap", {"base": "phasefusion"}, "cannot be wrapped"),
    ],
)
def test_arguments_that_cannot_be(model, given, message):
    with pytest.raises(UsageError, match=message):
        run(model, arguments(**given))


def test_command_line(tmp_path):
    """As a user types it; needs the package installed, which names the entry point."""
    from importlib.metadata import entry_points

    if "phasefusion" not in entry_points(group="lmms_eval.models").names:
        pytest.skip("phasefusion is not installed, so lmms-eval cannot find it")
    command = [sys.executable, "-m", "lmms_eval", "--model", "phasefusion"]
    given = {"pretrained": tinyvlm.model_dir(), "sidecar": tmp_path / "side"}
    command += ["--model_args", arguments(**given), "--tasks", "pf_tiny"]
    command += ["--include_path", str(pf.tasks_dir()), "--limit", "2"]
    command += ["--device", "cpu", "--log_samples", "--output_path", str(tmp_path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "pf_tiny" in done.stdout
    assert list(tmp_path.glob("*/*_samples_pf_tiny.jsonl"))
    assert len(tiny_models.rows(tmp_path / "side")) == 3 * 4 + 3 * 3


def needs_qwen():
    for name in ("torchvision", "qwen_vl_utils", "decord"):
        try:
            importlib.import_module(name)
        except Exception as error:  # a torchvision of another torch raises anything
            pytest.skip(f"the stock model needs {name}: {error}")


#: As `generate` does; in half precision what shares a pass changes the last digits.
ONE_BY_ONE = {"reuse_prefix": False, "batch_size": 1}
LIMITS = {"min_pixels": tiny_models.AREA, "max_pixels": tiny_models.AREA}


def in_float32(given):
    """The stock class, which loads weights and gives logits in half precision."""
    from phasefusion.harness.lmms_eval import PhaseFusionWrap

    made = PhaseFusionWrap(**given, device="cpu")
    made._base.network.float()
    return made


@pytest.mark.usefixtures("registered")
def test_wrapped_qwen2_5_vl_answers_as_evaluate_does(tmp_path):
    needs_qwen()
    folder = tiny_models.save_shipped(tmp_path / "model")
    given = {"base": "qwen2_5_vl", "pretrained": folder, "device_map": "cpu", **LIMITS}
    results = run("phasefusion_wrap", arguments(**given, sidecar=tmp_path / "side"))
    letters, rows = own(
        folder, tmp_path / "own", dtype="bfloat16", **ONE_BY_ONE, **LIMITS
    )
    assert answers(results) == letters
    side = tiny_models.rows(tmp_path / "side")
    assert tiny_models.largest_difference(side, rows) < 0.13
    results = run(in_float32({**given, "sidecar": str(tmp_path / "side32")}), None)
    scorer = pf.scoring.HFOptionScorer.from_pretrained(
        folder, device="cpu", dtype="bfloat16", **LIMITS
    )
    scorer._model.float()  # the same rounded weights
    letters, rows = own(folder, tmp_path / "own32", scorer=scorer)
    assert answers(results) == letters
    whole = tiny_models.rows(tmp_path / "side32")
    assert tiny_models.largest_difference(whole, rows) < 1e-4
    settings = json.loads((tmp_path / "side" / "run.json").read_text())["settings"]
    assert settings["harness"]["prompt_key"] == "qwen2_5_vl"
    assert settings["scorer"]["base_class"].startswith("lmms_eval.models.chat.")
    assert settings["scorer"]["dtype"] == "bfloat16"
    assert pf.report(tmp_path / "side").numbers["items"]["with_passes"] == LIMIT


QWEN3 = {"base": "qwen3_vl", "device_map": "cpu"}
QWEN3 |= {"min_pixels": 4096, "max_pixels": 65536}


@pytest.mark.usefixtures("registered")
def test_wrapped_qwen3_vl_sees_true_times_before_any_penalty(tmp_path):
    """The stock class against a plain pass of the network on the stock processor."""
    needs_qwen()
    import torch
    from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

    folder = tiny_models.save_qwen3_vl(tmp_path / "model", repetition_penalty=1.5)
    given = {**QWEN3, "pretrained": folder, "sidecar": tmp_path / "side"}
    results = run("phasefusion_wrap", arguments(**given), limit=1)
    network = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype="bfloat16")
    processor = AutoProcessor.from_pretrained(folder)
    tokens = processor.tokenizer
    item = ITEMS[0]
    clip = pf.read_clip(item.video, pf.PhaseGrid(8, 3))
    orders = pf.orders.latin(len(item.options))
    letters = "ABCDE"[: len(item.options)]
    rows = tiny_models.rows(tmp_path / "side")
    assert len(rows) == 3 * len(orders)
    for (_, s, order), row in rows.items():
        # 224 x 224 frames are 7 x 7 groups of 32 pixels: under the limit, as they are
        ask = PromptTemplate().render(item.question, [item.options[k] for k in order])
        turns = [
            {"role": "system", "content": "You are a helpful assistant."},
            {
                "role": "user",
                "content": [{"type": "video"}, {"type": "text", "text": ask}],
            },
        ]
        chat = processor.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=True
        )
        frames = torch.from_numpy(clip.frames[s].transpose(0, 3, 1, 2).copy())
        metadata = {
            "fps": float(clip.info.fps),
            "frames_indices": clip.indices[s].tolist(),
            "total_num_frames": clip.info.n_frames,
        }
        inputs = processor(
            text=[chat],
            videos=[frames],
            video_metadata=[metadata],
            do_sample_frames=False,
            do_resize=False,
            return_tensors="pt",
        )
        text = tokens.decode(inputs["input_ids"][0])
        first = (clip.times_s[s, 0] + clip.times_s[s, 1]) / 2
        assert f"<{first:.1f} seconds>" in text
        with torch.no_grad():
            logits = network(**inputs).logits[0, -1].double()
        plain = torch.log_softmax(logits, 0)
        wanted = [
            np.logaddexp(
                *(plain[tokens.encode(lead + letter)[0]] for lead in ("", " "))
            )
            for letter in letters
        ]
        np.testing.assert_allclose(row["logprobs"], wanted, atol=1e-4)
    assert answers(results)[0] in letters
    assert len({tuple(row["logprobs"]) for row in rows.values()}) == len(rows)


@pytest.mark.usefixtures("registered")
def test_wrapped_qwen3_vl_answers_as_evaluate_does(tmp_path):
    needs_qwen()
    folder = tiny_models.save_qwen3_vl(tmp_path / "model")
    given = {**QWEN3, "pretrained": str(folder), "sidecar": str(tmp_path / "side")}
    scorer = pf.scoring.HFOptionScorer.from_pretrained(
        folder,
        device="cpu",
        dtype="bfloat16",
        size=(224, 224),
        prompt=PromptTemplate(system="You are a helpful assistant."),
    )
    scorer._model.float()
    results = run(in_float32(given), None)
    letters, rows = own(folder, tmp_path / "own", scorer=scorer)
    assert answers(results) == letters
    side = tiny_models.rows(tmp_path / "side")
    assert {s for _, s, _ in side} == {0, 1, 2}
    assert tiny_models.largest_difference(side, rows) < 1e-4


@pytest.mark.usefixtures("registered")
def test_frozen_and_invented_times_change_the_prompt(tmp_path):
    needs_qwen()
    folder = tiny_models.save_qwen3_vl(tmp_path / "model")
    found = {}
    for timestamps in ("true", "frozen", "base"):
        given = {**QWEN3, "pretrained": folder, "timestamps": timestamps}
        given |= {"orders": "identity", "sidecar": tmp_path / timestamps}
        run("phasefusion_wrap", arguments(**given), limit=1)
        rows = tiny_models.rows(tmp_path / timestamps)
        found[timestamps] = {s: row["logprobs"] for (_, s, _), row in rows.items()}
    # The middle phase of three shows the middles of equal parts as it is.
    assert found["true"][0] != found["frozen"][0]
    assert found["true"][2] != found["frozen"][2]
    assert found["base"][0] != found["true"][0]


def test_views_of_a_task_that_comes_with_lmms_eval(tmp_path):
    name = "egoschema_subset"
    folder = pf.tasks_dir(name, orders=["reverse", "rotate1"], folder=tmp_path)
    from lmms_eval.utils import load_yaml_config

    doc = {
        "question_idx": "3",
        "video_idx": "v",
        "question": "Which?",
        "option": ["A. red", "B. green", "C. blue", "D. pink", "E. grey"],
        "answer": "4",
    }
    config = load_yaml_config(str(folder / f"{name}_pf_reverse.yaml"), mode="full")
    assert config["task"] == f"{name}_pf_reverse"
    assert config["dataset_path"] == "lmms-eval/egoschema"
    settings = config["lmms_eval_specific_kwargs"]["default"]
    text = config["doc_to_text"](doc, settings)
    assert "A. grey\nB. pink\nC. blue\nD. green\nE. red" in text
    scored = config["process_results"](doc, ["A"])
    assert scored["score"] == {"pred": 4, "ground_truth": "4"}
    rotated = load_yaml_config(str(folder / f"{name}_pf_rotate1.yaml"), mode="full")
    scored = rotated["process_results"](doc, ["The answer is D."])
    assert scored["score"]["pred"] == 4
