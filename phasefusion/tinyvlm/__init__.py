"""A tiny video-language model, its clips and their questions, as package data.

The model is a stock Qwen2.5-VL of about two million parameters, trained from nothing on
procedural clips; ``MODEL_CARD.md`` says what it can and cannot do. It loads with
``transformers.AutoModelForImageTextToText.from_pretrained(model_dir())``.
"""

from importlib.resources import files
from pathlib import Path

__all__ = ["model_dir", "questions_path"]


def model_dir() -> Path:
    """Folder of the shipped checkpoint.

    Returns
    -------
    folder : Path
        Holds the configuration, the half-precision weights, the tokenizer with its chat
        template, and ``preprocessor_config.json``.

    Examples
    --------
    >>> (model_dir() / "model.safetensors").is_file()
    True
    """
    return Path(str(files(__name__).joinpath("weights")))


def questions_path() -> Path:
    """Question file of the shipped clips, one JSON object a line.

    Returns
    -------
    path : Path
        Each line holds ``question_id``, ``benchmark``, ``video`` (relative to the
        file), ``video_id``, ``question``, ``options``, ``answer`` (from 0), ``type``
        and ``duration_s``.

    Examples
    --------
    >>> questions_path().name
    'questions.jsonl'
    """
    return Path(str(files(__name__).joinpath("clips", "questions.jsonl")))
