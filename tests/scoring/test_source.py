"""Checkpoints that cannot be loaded: what is said, and how soon."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from phasefusion.errors import ScoringError
from phasefusion.scoring import HFOptionScorer
from phasefusion.scoring.checkpoint import load_tokenizer
from phasefusion.scoring.source import folder_sha256
from phasefusion.tinyvlm import model_dir

MAKE = "give a folder as save_pretrained writes it, with the processor's files"
SERVED = (
    "is not served; served are internvl, llava_next_video, llava_onevision, "
    "qwen2_5_vl, qwen2_vl, qwen3_vl, qwen3_vl_moe, smolvlm, and with its processor any "
    "other that AutoModelForImageTextToText loads. Any other model can be wrapped in a "
    "class with a score method"
)


@pytest.fixture
def checkpoint(tmp_path):
    return shutil.copytree(model_dir(), tmp_path / "model")


@pytest.fixture
def no_torch(monkeypatch):
    """Fail any import of what is slow to load."""
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "transformers", None)


def refused(source, **options):
    with pytest.raises(ScoringError) as caught:
        HFOptionScorer.from_pretrained(source, **options)
    assert type(caught.value) is ScoringError
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "name", ["/no/such/model", "./none", "../none", "~/none-there", "~nobody-here/x"]
)
def test_no_such_folder(no_torch, name):
    assert refused(name) == (
        f"{name}: there is no such folder; {MAKE}, or an id of the Hugging Face hub"
    )


def test_no_such_folder_beside_others(no_torch, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    assert refused("models/none").startswith("models/none: there is no such folder; ")
    assert refused("a/b/c").startswith("a/b/c: there is no such folder; ")


@pytest.mark.parametrize("name", ["", "two words", "a:b", "-a/b", "a/"])
def test_neither_a_folder_nor_an_id(no_torch, name):
    assert refused(name) == (
        f"{name!r}: neither a folder nor an id of the Hugging Face hub; {MAKE}"
    )


def test_a_name_too_long_for_a_file(no_torch):
    name = 300 * "a"
    assert refused(name) == f"{name}: cannot be read: File name too long; {MAKE}"


def test_the_home_folder_is_found(checkpoint, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("HOME", str(checkpoint.parent))
    scorer = HFOptionScorer.from_pretrained("~/model", device="cpu")
    assert scorer.describe()["path"] == "~/model"


def test_a_file_or_an_empty_folder(no_torch, tmp_path):
    file = tmp_path / "model.bin"
    file.touch()
    assert refused(file) == f"{file}: is a file, not a model; {MAKE}"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert refused(empty) == f"{empty}: the folder is empty; {MAKE}"


def drop(*names):
    def change(folder):
        for name in names:
            (folder / name).unlink()

    return change


def write(name, data):
    return lambda folder: (folder / name).write_bytes(data)


def cut(n_bytes):
    def change(folder):
        path = folder / "model.safetensors"
        path.write_bytes(path.read_bytes()[:n_bytes])

    return change


SIZE = (model_dir() / "model.safetensors").stat().st_size
AGAIN = "copy or download the file again"
BROKEN = [
    (
        drop("config.json"),
        "{folder}: has no config.json, so it is no model; " + MAKE,
    ),
    (
        write("config.json", b'{"model_type": "llama"}'),
        "{folder}: model type 'llama' " + SERVED,
    ),
    (write("config.json", b"{}"), "{folder}: model type None " + SERVED),
    (write("config.json", b"[1]"), "{folder}/config.json holds list; need an object"),
    (
        write("config.json", b"{"),
        "{folder}/config.json is not JSON: Expecting property name enclosed in double "
        "quotes: line 1 column 2 (char 1); copy the file again",
    ),
    (
        drop("tokenizer.json"),
        "{folder}: has no tokenizer (tokenizer.json, or vocab.json and merges.txt); "
        "copy the tokenizer's files of the same model into it",
    ),
    (
        drop("model.safetensors"),
        "{folder}: has no weights (model.safetensors); copy them into it",
    ),
    (
        cut(SIZE - 1),
        f"{{folder}}/model.safetensors: is cut short: {SIZE - 1} of {SIZE} bytes; "
        + AGAIN,
    ),
    (
        cut(100),
        "{folder}/model.safetensors: is cut short within its header, at 100 bytes; "
        + AGAIN,
    ),
    (
        cut(0),
        "{folder}/model.safetensors: is cut short within its header, at 0 bytes; "
        + AGAIN,
    ),
    (
        write("model.safetensors", (4).to_bytes(8, "little") + b"nope"),
        "{folder}/model.safetensors: is no safetensors file; " + AGAIN,
    ),
    (
        write("model.safetensors", (8).to_bytes(8, "little") + b'{"a": 1}'),
        "{folder}/model.safetensors: is no safetensors file; " + AGAIN,
    ),
    (
        write("model.safetensors", b"version https://git-lfs.github.com/spec/v1\n"),
        "{folder}/model.safetensors: is a Git LFS pointer, not the weights; run git "
        "lfs pull",
    ),
]


@pytest.mark.parametrize(("change", "message"), BROKEN)
def test_what_the_files_show_is_said_without_torch(
    no_torch, checkpoint, change, message
):
    change(checkpoint)
    assert refused(checkpoint) == message.format(folder=checkpoint)


def test_a_missing_shard(no_torch, checkpoint):
    (checkpoint / "model.safetensors").rename(checkpoint / "part-1.safetensors")
    index = checkpoint / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "part-1.safetensors"}}))
    named = {"a": "part-1.safetensors", "b": "part-2.safetensors"}
    index.write_text(json.dumps({"weight_map": named}))
    assert refused(checkpoint) == (
        f"{checkpoint}/part-2.safetensors: there is no such file; {AGAIN}"
    )
    index.write_text("{}")
    assert refused(checkpoint) == f"{index}: has no weight_map; copy the file again"


def test_what_only_the_libraries_find(checkpoint):
    pytest.importorskip("torch")
    (checkpoint / "tokenizer.json").write_text("{}")
    assert re.fullmatch(
        re.escape(f"{checkpoint}: the tokenizer cannot be loaded (")
        + r".+\); check that its files are whole and that transformers is new enough "
        "for them",
        refused(checkpoint, device="cpu"),
    )
    config = json.loads((checkpoint / "config.json").read_text())
    config["text_config"]["num_attention_heads"] = 0
    (checkpoint / "config.json").write_text(json.dumps(config))
    assert refused(checkpoint, device="cpu").startswith(
        f"{checkpoint}: the model cannot be loaded ("
    )


def test_weights_that_are_not_in_the_files(checkpoint):
    pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    path = checkpoint / "model.safetensors"
    weights = load_file(path)
    lost = [name for name in sorted(weights) if ".layers." in name][::2]
    renamed = {f"old.{k}" if k in lost else k: w for k, w in weights.items()}
    save_file(renamed, path, metadata={"format": "pt"})
    message = refused(checkpoint, device="cpu")
    found = re.match(r"(.*): (\d+) of the model's weights are not in", message)
    assert found is not None
    assert (found[1], int(found[2])) == (str(checkpoint), len(lost))
    assert f"({len(lost)} that it does not know, such as old.model." in message
    assert "they would be random numbers" in message

    short = dict(weights)
    short.pop("visual.merger.ln_q.weight")
    save_file(short, path, metadata={"format": "pt"})
    message = refused(checkpoint, device="cpu")
    assert "1 of the model's weights are not in its files, such as " in message
    assert "does not know" not in message


def test_wrong_device_and_dtype():
    pytest.importorskip("torch")
    assert re.fullmatch(
        r"device 'abacus' cannot be used \(RuntimeError: .+\); give cpu, or cuda:0 "
        "where there is a GPU",
        refused(model_dir(), device="abacus"),
    )
    for dtype in ("float99", "nn"):
        assert refused(model_dir(), dtype=dtype) == (
            f'dtype \'{dtype}\' is none of torch; give "auto", "float32", '
            '"bfloat16" or "float16"'
        )


# Ids of the hub


@pytest.fixture
def hub(monkeypatch, tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub.constants, "ENDPOINT", "https://hub.example")
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return hub


def test_offline_by_setting(hub, monkeypatch, no_torch):
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    assert refused("someone/some-model") == (
        "someone/some-model: there is no such folder, the model is not in the Hugging "
        "Face cache, and HF_HUB_OFFLINE is set; give a folder, or download it with a "
        "connection"
    )


def test_offline_without_a_connection_is_said_at_once(hub, monkeypatch, no_torch):
    asked = []

    def getaddrinfo(host, port):
        asked.append(host)
        raise OSError("no name")

    monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)
    monkeypatch.setattr(hub, "hf_hub_download", None)
    assert refused("weights") == (
        "weights: there is no such folder, the model is not in the Hugging Face "
        "cache, and hub.example cannot be reached; give a folder, or download it with "
        "a connection"
    )
    assert asked == ["hub.example"]


@pytest.mark.parametrize("name", ["a--b", "a..b", "x.git", "a./b", 120 * "a"])
def test_ids_that_the_hub_does_not_allow(hub, no_torch, name):
    assert refused(name) == (
        f"{name!r}: neither a folder nor an id of the Hugging Face hub; {MAKE}"
    )


def test_unknown_and_unserved_ids(hub, monkeypatch, no_torch, tmp_path):
    monkeypatch.setattr("socket.getaddrinfo", lambda host, port: [])

    def download(model_id, name, revision):
        raise OSError("404 not there\nmore text")

    monkeypatch.setattr(hub, "hf_hub_download", download)
    assert refused("a/b") == (
        "a/b: there is no such folder, and the Hugging Face hub gives no config.json "
        "of such a model (OSError: 404 not there); check the name and the revision, "
        "or give a folder"
    )
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "bert"}')
    monkeypatch.setattr(hub, "hf_hub_download", lambda *_, **__: str(path))
    assert refused("a/b") == f"a/b: model type 'bert' {SERVED}"


def test_a_cached_model_loads_without_a_connection(tmp_path):
    pytest.importorskip("torch")
    root = tmp_path / "hub" / "models--someone--tiny"
    shutil.copytree(model_dir(), root / "snapshots" / ("0" * 40))
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text("0" * 40)
    code = (
        "import json, socket\n"
        "def getaddrinfo(*_): raise OSError('no name')\n"
        "socket.getaddrinfo = getaddrinfo\n"
        "from phasefusion.scoring import HFOptionScorer\n"
        "scorer = HFOptionScorer.from_pretrained('someone/tiny', device='cpu')\n"
        "print(json.dumps(scorer.describe()))\n"
    )
    unset = ("hf_hub_offline", "transformers_offline", "https_proxy", "all_proxy")
    environment = {k: v for k, v in os.environ.items() if k.lower() not in unset}
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | {"HF_HOME": str(tmp_path), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "Retrying" not in done.stderr
    about = json.loads(done.stdout)
    assert about["path"] == "someone/tiny"
    assert about["revision"] == "0" * 40
    assert "sha256" not in about


# What identifies a model


def test_a_model_is_its_files_wherever_they_are(checkpoint, tmp_path):
    digest = folder_sha256(model_dir())
    assert folder_sha256(checkpoint) == digest
    (checkpoint / "README.md").write_text("notes")
    assert folder_sha256(checkpoint) == digest
    for name in (
        "config.json",
        "tokenizer.json",
        "chat_template.jinja",
        "preprocessor_config.json",
        "model.safetensors",
    ):
        path = checkpoint / name
        data = path.read_bytes()
        path.write_bytes(data + b" ")
        assert folder_sha256(checkpoint) != digest, name
        path.write_bytes(data)
        assert folder_sha256(checkpoint) == digest
    (checkpoint / "chat_template.jinja").rename(checkpoint / "chat_template.json")
    assert folder_sha256(checkpoint) != digest


def test_a_model_that_has_gone_cannot_be_identified(checkpoint):
    shutil.rmtree(checkpoint)
    with pytest.raises(ScoringError) as caught:
        folder_sha256(checkpoint)
    assert str(caught.value) == (
        f"{checkpoint}/config.json: cannot be read to identify the model: No such "
        "file or directory"
    )


def test_a_model_loaded_by_the_caller_is_its_files_too(checkpoint, monkeypatch):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("torch")
    monkeypatch.chdir(checkpoint.parent)
    load = transformers.AutoModelForImageTextToText.from_pretrained
    tokenizer = load_tokenizer(transformers, "model")
    scorer = HFOptionScorer(load("model"), tokenizer)
    monkeypatch.chdir("/")
    assert scorer.describe()["sha256"] == folder_sha256(model_dir())


def test_weights_are_read_once(checkpoint, monkeypatch):
    digest = folder_sha256(checkpoint)
    monkeypatch.setattr("hashlib.file_digest", None)
    assert folder_sha256(checkpoint) == digest


def test_describe_and_repr():
    pytest.importorskip("torch")
    folder = model_dir()
    scorer = HFOptionScorer.from_pretrained(folder, device="cpu", dtype="float32")
    about = scorer.describe()
    assert about["sha256"] == folder_sha256(folder)
    assert about["model"] == f"qwen2_5_vl, sha256 {about['sha256'][:12]}"
    assert repr(scorer) == (
        f"<HFOptionScorer {str(folder)!r}: qwen2_5_vl, float32 on cpu, scores letter>"
    )
