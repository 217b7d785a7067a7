"""The tiny model: its clips, its questions, its tokenizer, and what it answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phasefusion.tinyvlm import model_dir, questions_path
from phasefusion.tinyvlm.questions import (
    DEFAULT_SUFFIX,
    KINDS,
    LETTERS,
    all_texts,
    ask,
    key_word,
    kinds_for,
    prompt_text,
)
from phasefusion.tinyvlm.world import (
    Scene,
    border_colour,
    mover_centre,
    render,
    sample_scene,
)

QUESTIONS = [json.loads(line) for line in questions_path().read_text().splitlines()]
needs_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="no ffmpeg")


def scenes(n_scene: int) -> list[Scene]:
    return [sample_scene(np.random.default_rng([4, i])) for i in range(n_scene)]


# The generator


def test_scene_depends_on_the_seed_alone() -> None:
    assert scenes(20) == scenes(20)
    assert sample_scene(np.random.default_rng(1)) != scenes(1)[0]


def test_each_frame_depends_on_its_index_alone() -> None:
    for scene in scenes(6):
        last = scene.n_frames - 1
        together = render(scene, np.array([last, 3, 40]), side_px=84)
        for frame, index in zip(together, (last, 3, 40), strict=True):
            alone = render(scene, range(index, index + 1), side_px=84)[0]
            assert np.array_equal(alone, frame)


def test_frames_show_what_the_scene_says() -> None:
    for scene in scenes(40):
        indices = np.arange(0, scene.n_frames, 5)
        frames = render(scene, indices, side_px=84).astype(float)
        lit = [border_colour(scene, int(i)) is not None for i in indices]
        if not any(lit) or all(lit):
            continue
        edge = frames[:, 0].mean(1)
        dark, bright = edge[~np.array(lit)].mean(0), edge[np.array(lit)].mean(0)
        assert np.abs(bright - dark).max() > 8
        x, y = mover_centre(scene, 0)
        assert 0 < x < 1
        assert 0 < y < 1


@pytest.mark.parametrize("n_flash", range(6))
def test_flashes_are_apart_and_inside_the_clip(n_flash: int) -> None:
    for seed in range(200):
        scene = sample_scene(np.random.default_rng(seed), n_flash=n_flash)
        assert len(scene.flashes) == n_flash
        ends = [0.0, *(f.end for f in scene.flashes)]
        begins = [*(f.begin for f in scene.flashes), 1.0]
        gaps = np.subtract(begins, ends)
        assert (gaps > 0).all()
        assert (gaps[1:-1] > 1 / 8).all()


def test_questions_have_one_right_answer_and_a_word_that_carries_it() -> None:
    rng = np.random.default_rng(0)
    for scene in scenes(60):
        for kind in kinds_for(scene):
            for n_option in (3, 4, 5):
                q = ask(scene, kind, rng, n_option=n_option)
                assert len(set(q.options)) == len(set(q.concepts)) == len(q.options)
                if kind == "when":
                    assert len(q.options) == min(n_option, 4)
                elif kind != "flash":
                    assert len(q.options) == n_option
                for option, concept in zip(q.options, q.concepts, strict=True):
                    assert key_word(option, concept) in option.split()


# What is shipped


def test_shipped_questions_are_valid() -> None:
    assert 150 <= len(QUESTIONS) <= 300
    assert len({q["question_id"] for q in QUESTIONS}) == len(QUESTIONS)
    assert {q["type"] for q in QUESTIONS} == set(KINDS)
    for q in QUESTIONS:
        assert 3 <= len(q["options"]) <= 5
        assert len(set(q["options"])) == len(q["options"])
        assert 0 <= q["answer"] < len(q["options"])
        assert (questions_path().parent / q["video"]).is_file()
        assert 6 <= q["duration_s"] <= 14


def test_shipped_files_are_small() -> None:
    weights = (model_dir() / "model.safetensors").stat().st_size
    assert weights <= 10_000_000
    clips = sum(p.stat().st_size for p in questions_path().parent.iterdir())
    assert clips <= 5_000_000


# The tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    transformers = pytest.importorskip("transformers")
    return transformers.AutoTokenizer.from_pretrained(model_dir())


def test_letters_are_single_tokens(tokenizer: Any) -> None:
    for letter in LETTERS:
        for text in (letter, f" {letter}"):
            assert len(tokenizer(text)["input_ids"]) == 1


def test_other_text_survives_the_tokenizer(tokenizer: Any) -> None:
    for text in ("Ünïcode, zebra?", "x²\t\n  q", *all_texts()):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_chat_template_gives_the_trained_format(tokenizer: Any) -> None:
    text = prompt_text("Which?", ("red", "blue"), DEFAULT_SUFFIX)
    content = [{"type": "video"}, {"type": "text", "text": text}]
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": content}],
        tokenize=False,
        add_generation_prompt=True,
    )
    assert chat == (
        "<|im_start|>user\n<|vision_start|><|video_pad|><|vision_end|>"
        "Which?\nA. red\nB. blue\n"
        "Answer with the option's letter from the given choices directly."
        "<|im_end|>\n<|im_start|>assistant\n"
    )


# The model


@pytest.fixture(scope="module")
def model() -> Any:
    pytest.importorskip("transformers")
    from phasefusion.tinyvlm.evaluate import Model

    return Model.load(model_dir())


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> Any:
    pytest.importorskip("transformers")
    from phasefusion.tinyvlm.evaluate import load_items

    folder = questions_path().parent
    some = [q for q in QUESTIONS if q["video_id"] < "clip-016"]
    lines = [json.dumps(q | {"video": str(folder / q["video"])}) for q in some]
    path = tmp_path_factory.mktemp("questions") / "questions.jsonl"
    path.write_text("\n".join(lines))
    return load_items(path)


@needs_ffmpeg
def test_model_answers_shipped_clips_well_above_chance(model: Any, items: Any) -> None:
    from phasefusion.tinyvlm.evaluate import letter_posteriors

    posterior, mass = letter_posteriors(model, items)
    gold = np.array([i.answer for i in items])
    assert (posterior.argmax(1) == gold).mean() > 0.5
    assert mass.min() > 0.5


@needs_ffmpeg
def test_fast_path_is_the_stock_forward_and_generate_stops(
    model: Any, items: Any
) -> None:
    import torch

    from phasefusion.tinyvlm.evaluate import letter_posteriors
    from phasefusion.tinyvlm.network import (
        PAIR_TOKENS,
        fast_vision,
        normalise,
        patch_layout,
    )

    item = items[0]
    with fast_vision():
        fast = letter_posteriors(model, [item])[0][0]
    frames, seconds = item.view(8, 0)
    patches = normalise(torch.from_numpy(patch_layout(frames)))
    text = prompt_text(item.question, item.options, DEFAULT_SUFFIX)
    ids = torch.tensor([model.encoder.prompt(text, 4 * PAIR_TOKENS)])
    inputs = {
        "input_ids": ids,
        "pixel_values_videos": patches,
        "video_grid_thw": torch.tensor([[4, 6, 6]]),
        "mm_token_type_ids": (ids == model.encoder.ids["video"]).int() * 2,
        "second_per_grid_ts": torch.tensor([seconds]),
    }
    with torch.inference_mode():
        logits = model.network(**inputs).logits[0, -1]
        written = model.network.generate(**inputs)[0, ids.shape[1] :].tolist()
    letters = model.encoder.letters[: len(item.options)]
    stock = logits[letters].softmax(0).numpy()
    assert np.abs(stock - fast[: len(letters)]).max() < 1e-4
    assert written == [letters[int(fast.argmax())], model.encoder.ids["end"]]


def test_training_reduces_the_loss(tokenizer: Any) -> None:
    torch = pytest.importorskip("torch")
    from phasefusion.tinyvlm.batches import Stage
    from phasefusion.tinyvlm.network import build_network
    from phasefusion.tinyvlm.tokens import special_ids
    from phasefusion.tinyvlm.train import Settings, train

    ids = special_ids(tokenizer)
    torch.manual_seed(0)
    network = build_network(len(tokenizer), ids, hidden=64, layers=2)
    stages = (Stage(150, {2: 1.0}, 0.8, 0.0), Stage(50, {2: 0.9, 8: 0.1}, 0.2, 0.0))
    n_thread = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        log = train(network, tokenizer, Settings(stages, scale=0.06, report=20))
    finally:
        torch.set_num_threads(n_thread)
    assert log[-1]["answer"] < 0.5 * log[0]["answer"]
    assert log[-1]["see"] < 0.9 * log[0]["see"]


@needs_ffmpeg
def test_a_written_clip_decodes_to_its_frames(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    from phasefusion.tinyvlm.clips import decode_clip, encode_clip

    scene = scenes(3)[2]
    encode_clip(scene, tmp_path / "a.mp4")
    frames = decode_clip(tmp_path / "a.mp4")
    wanted = render(scene, range(scene.n_frames))
    assert frames.shape == wanted.shape
    assert np.abs(frames.astype(int) - wanted).mean() < 6
