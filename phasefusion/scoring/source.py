"""Where a checkpoint comes from: checked before torch is loaded, named by content."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from phasefusion._file_hash import file_sha256
from phasefusion._install import HUGGING_FACE
from phasefusion.errors import BackendUnavailableError, ScoringError

#: Model types whose frames are prepared here, with the family's name in
#: `phasefusion.pixels`; any other model needs its own processor.
OWN_FAMILIES = {
    "internvl": "internvl",
    "llava_next_video": "llava_next_video",
    "llava_onevision": "llava_onevision",
    "qwen2_5_vl": "qwen2_5_vl",
    "qwen2_vl": "qwen2_vl",
    "qwen3_vl": "qwen3_vl",
    "qwen3_vl_moe": "qwen3_vl",
    "smolvlm": "smolvlm",
}

_MAKE = "give a folder as save_pretrained writes it, with the processor's files"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_TOKENIZERS = (
    ("tokenizer.json",),
    ("vocab.json", "merges.txt"),
    ("tokenizer.model",),
)
_SMALL = (
    "*.py",
    "*preprocessor_config.json",
    "added_tokens.json",
    "chat_template.*",
    "config.json",
    "merges.txt",
    "processor_config.json",
    "special_tokens_map.json",
    "tokenizer*",
    "vocab.json",
)
_INDEX = "model.safetensors.index.json"
_LFS = b"version https://git-lfs"


def local_folder(source: str) -> Path | None:
    """Return the folder that is meant; None for an id of the Hugging Face hub.

    Raises
    ------
    ScoringError
        If it can only be a folder and is none, or is neither.
    """
    try:
        path = Path(source).expanduser()
    except RuntimeError:  # ~somebody who does not exist
        path = Path(source)
    try:
        is_folder, exists = path.is_dir(), path.exists()
        has_parent = len(path.parts) > 1 and path.parent.is_dir()
    except OSError as error:  # a name too long, a folder that may not be entered
        raise ScoringError(
            f"{source}: cannot be read: {error.strerror}; {_MAKE}"
        ) from error
    if source and is_folder:
        return path
    if source and exists:
        raise ScoringError(f"{source}: is a file, not a model; {_MAKE}")
    if source.startswith(("/", ".", "~")) or source.count("/") > 1 or has_parent:
        raise ScoringError(
            f"{source}: there is no such folder; {_MAKE}, or an id of the Hugging Face "
            "hub"
        )
    if not _HUB_ID.fullmatch(source):
        raise _neither(source)
    return None


def _neither(source: str) -> ScoringError:
    return ScoringError(
        f"{source!r}: neither a folder nor an id of the Hugging Face hub; {_MAKE}"
    )


def check_folder(folder: Path, *, pickled_weights: bool = False) -> None:
    """Refuse what cannot be loaded for a reason that its files show.

    Parameters
    ----------
    folder : Path
    pickled_weights : bool, default False
        Take weights that are Python pickles, which can run code when they are read.

    Raises
    ------
    ScoringError
        Naming the folder or the file, and what to do.
    """
    try:
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise ScoringError(f"{folder}: cannot be read: {error.strerror}") from error
    if not names:
        raise ScoringError(f"{folder}: the folder is empty; {_MAKE}")
    if "config.json" not in names:
        raise ScoringError(f"{folder}: has no config.json, so it is no model; {_MAKE}")
    check_family(json_file(folder / "config.json"), str(folder))
    if not any(names.issuperset(files) for files in _TOKENIZERS):
        raise ScoringError(
            f"{folder}: has no tokenizer (tokenizer.json, or vocab.json and "
            "merges.txt); copy the tokenizer's files of the same model into it"
        )
    weights = _weights(folder)
    if not weights:
        raise ScoringError(
            f"{folder}: has no weights (model.safetensors); copy them into it"
        )
    if weights[0].suffix != ".safetensors" and not pickled_weights:
        raise ScoringError(
            f"{folder}: its weights are pickled ({weights[0].name}), and reading them "
            "can run code; convert them to safetensors, or give pickled_weights=True"
        )
    for path in weights:
        _check_weights(path)


def check_family(config: dict[str, Any], source: str) -> None:
    """Refuse the configuration of a model that takes no frames."""
    kind = config.get("model_type")
    if kind in OWN_FAMILIES:
        return
    if any(word in key for key in config for word in ("vision", "visual", "image")):
        return
    if config.get("auto_map"):  # code of its own may do anything
        return
    raise not_served(source, kind)


def not_served(source: str, kind: object) -> ScoringError:
    """Return the error for a model that takes no frames."""
    return ScoringError(
        f"{source}: model type {kind!r} is not served; served are "
        f"{', '.join(sorted(OWN_FAMILIES))}, and with its processor any other that "
        "AutoModelForImageTextToText loads. Any other model can be wrapped in a class "
        "with a score method"
    )


def json_file(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ScoringError(
            f"{path} is not JSON: {error}; copy the file again"
        ) from error
    except OSError as error:
        raise ScoringError(f"{path}: cannot be read: {error.strerror}") from error
    if not isinstance(content, dict):
        raise ScoringError(f"{path} holds {type(content).__name__}; need an object")
    return content


def _weights(folder: Path) -> list[Path]:
    """Return the files that hold the weights, sorted by name."""
    if (folder / "model.safetensors").is_file() or not (folder / _INDEX).is_file():
        found = sorted(folder.glob("*.safetensors"))
        return found or sorted(folder.glob("pytorch_model*.bin"))
    placed = json_file(folder / _INDEX).get("weight_map")
    if not isinstance(placed, dict) or not placed:
        raise ScoringError(f"{folder / _INDEX}: has no weight_map; copy the file again")
    return [folder / name for name in sorted(set(map(str, placed.values())))]


def _check_weights(path: Path) -> None:
    """Compare a safetensors file's length with what its header says."""
    again = "copy or download the file again"
    try:
        size_bytes = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(len(_LFS))
            if head == _LFS:
                raise ScoringError(
                    f"{path}: is a Git LFS pointer, not the weights; run git lfs pull"
                )
            if path.suffix != ".safetensors":
                return
            n_header = int.from_bytes(head[:8], "little")
            file.seek(8)
            if size_bytes < 8 or n_header > size_bytes - 8:
                raise ScoringError(
                    f"{path}: is cut short within its header, at {size_bytes} bytes; "
                    f"{again}"
                )
            header = json.loads(file.read(n_header))
    except FileNotFoundError:
        raise ScoringError(f"{path}: there is no such file; {again}") from None
    except OSError as error:
        raise ScoringError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ScoringError(f"{path}: is no safetensors file; {again}") from error
    try:
        ends = [part["data_offsets"][1] for part in _tensors(header)]
        need_bytes = 8 + n_header + max(ends, default=0)
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise ScoringError(f"{path}: is no safetensors file; {again}") from error
    if size_bytes < need_bytes:
        raise ScoringError(
            f"{path}: is cut short: {size_bytes} of {need_bytes} bytes; {again}"
        )


def _tensors(header: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (part for name, part in header.items() if name != "__metadata__")


def check_hub(model_id: str, revision: str | None) -> tuple[Path | None, str | None]:
    """Look for a checkpoint of the hub.

    Returns the folder of the cache where only that is to be used, and the commit that
    was found.

    Without a connection it is said at once, where the libraries would try for half a
    minute.

    Raises
    ------
    BackendUnavailableError
        If huggingface_hub, which comes with transformers, is missing.
    ScoringError
        If there is no such model, or it is not in the cache and there is no
        connection.
    """
    try:
        import huggingface_hub as hub
        from huggingface_hub import constants
    except ImportError as error:
        raise BackendUnavailableError(
            f"{model_id}: a model of the Hugging Face hub needs huggingface_hub "
            f"({error}); {HUGGING_FACE}"
        ) from error
    try:
        cached = hub.try_to_load_from_cache(model_id, "config.json", revision=revision)
    except ValueError as error:  # the hub has rules for names beyond ours
        raise _neither(model_id) from error
    why = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else ""
    if not why and not _resolves(constants.ENDPOINT):
        why = f"{urlsplit(constants.ENDPOINT).hostname} cannot be reached"
    if why and not isinstance(cached, str):
        raise ScoringError(
            f"{model_id}: there is no such folder, the model is not in the Hugging "
            f"Face cache, and {why}; give a folder, or download it with a connection"
        )
    if not isinstance(cached, str):
        try:
            cached = hub.hf_hub_download(model_id, "config.json", revision=revision)
        except Exception as error:
            raise ScoringError(
                f"{model_id}: there is no such folder, and the Hugging Face hub gives "
                f"no config.json of such a model ({one_line(error)}); check the name "
                "and the revision, or give a folder"
            ) from error
    check_family(json_file(Path(str(cached))), model_id)
    snapshot = Path(str(cached)).parent.name
    commit = snapshot if re.fullmatch("[0-9a-f]{40}", snapshot) else None
    return Path(str(cached)).parent if why else None, commit


def _resolves(url: str) -> bool:
    """Whether the host of an address has a name; a proxy knows names that we do not."""
    if any(name.lower() in ("https_proxy", "all_proxy") for name in os.environ):
        return True
    try:
        socket.getaddrinfo(urlsplit(url).hostname, None)
    except OSError:
        return False
    return True


def one_line(error: BaseException) -> str:
    """Return kind and first line of an exception."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def folder_sha256(folder: Path) -> str:
    """SHA-256 over names and contents of all that decides the scores.

    That are configuration, tokenizer, chat template, pixel settings and weights; other
    files of the folder do not count, and neither does the place of the folder. Files
    that have not changed since are not read again.

    Raises
    ------
    ScoringError
        If the files cannot be read.

    Examples
    --------
    >>> from phasefusion.tinyvlm import model_dir
    >>> len(folder_sha256(model_dir()))
    64
    """
    total = hashlib.sha256()
    try:
        files = {path for pattern in _SMALL for path in folder.glob(pattern)}
        files.update(_weights(folder), folder.glob(_INDEX), [folder / "config.json"])
        for path in sorted(files, key=lambda path: path.name):
            about = path.stat()
            digest = _file_sha256(path.resolve(), about.st_size, about.st_mtime_ns)
            total.update(path.name.encode() + b"\0" + digest)
    except OSError as error:
        raise ScoringError(
            f"{error.filename}: cannot be read to identify the model: {error.strerror}"
        ) from error
    return total.hexdigest()


@functools.lru_cache(maxsize=256)
def _file_sha256(path: Path, size_bytes: int, mtime_ns: int) -> bytes:
    """SHA-256 of a file; size and time tell a changed file from a known one."""
    return bytes.fromhex(file_sha256(path))
