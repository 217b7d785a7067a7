"""Models of no known family: frames go through their own processor."""

from __future__ import annotations

import json
from dataclasses import replace

import family_models as made
import numpy as np
import pytest
import stock_processors as stock
from family_scorers import (
    ORDERS,
    built,
    inputs_of,
    log_softmax_of,
    make_clip,
    make_scorer,
)

from phasefusion.errors import FallbackWarning, ScoringError
from phasefusion.scoring import HFOptionScorer
from phasefusion.scoring.families.generic import ThroughProcessor

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CHAT = (
    "{% for m in messages %}{{ m['role'].upper() + ': ' }}{% for c in m['content'] %}"
    "{% if c['type'] == 'text' %}{{ c['text'] }}{% else %}<image>\n{% endif %}"
    "{% endfor %} {% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
SIDE = 24


@pytest.fixture(scope="module")
def llava():
    """A model and a processor that know pictures alone, on Pillow."""
    spec = made.SPECS["llava_next_video"]
    tokenizer = made.build_tokenizer(replace(spec, chat=CHAT))
    vision = {"model_type": "clip_vision_model", "image_size": SIDE, "patch_size": 6}
    vision |= {"hidden_size": 32, "intermediate_size": 64, "projection_dim": 32}
    vision |= {"num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.LlavaConfig(
        text_config=made._text("llama", tokenizer, **made._rope()),
        vision_config=vision,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=16,
        tie_word_embeddings=False,
    )
    model = transformers.LlavaForConditionalGeneration(config).eval()
    made.randomise(model, 1)
    image = stock.pil_class("clip", "CLIPImageProcessor")(
        size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}
    )
    kind = stock.find("llava.processing_llava", "LlavaProcessor")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "check_argument_for_proper_class", lambda *_: None)
        processor = kind(
            image_processor=image,
            tokenizer=tokenizer,
            patch_size=6,
            vision_feature_select_strategy="default",
            num_additional_image_tokens=1,
            chat_template=CHAT,
        )
    return model, processor


def score(scorer, clip, **options):
    return scorer.score(clip, made.QUESTION, made.OPTIONS, orders=ORDERS, **options)


@pytest.mark.parametrize("reuse", [True, False])
def test_pictures_go_through_the_processor(llava, reuse):
    from PIL import Image

    model, processor = llava
    scorer = HFOptionScorer(model, processor, reuse_prefix=reuse)
    clip = made.build_clip((SIDE, 40))
    scores = score(scorer, clip)
    tokenizer = processor.tokenizer
    for s in range(2):
        for m, order in enumerate(ORDERS):
            ask = scorer._asker.prompt.render(
                made.QUESTION, [made.OPTIONS[k] for k in order]
            )
            chat = "USER: " + 4 * "<image>\n" + f"{ask} ASSISTANT:"
            inputs = processor(
                text=[chat],
                images=[[Image.fromarray(frame) for frame in clip.frames[s]]],
                return_tensors="pt",
            )
            inputs.pop("token_type_ids", None)
            logp = log_softmax_of(model, dict(inputs))
            ids = tokenizer.convert_tokens_to_ids(list("ABC"))
            np.testing.assert_allclose(
                scores.logprobs[s, m, order], logp[ids], rtol=0, atol=1e-5
            )
    assert np.abs(scores.logprobs[0] - scores.logprobs[1]).max() > 1e-3


def test_pixels_are_made_once_a_phase(llava, monkeypatch):
    model, processor = llava
    scorer = HFOptionScorer(model, processor)
    clip = made.build_clip((SIDE, 40))
    calls = []
    process = ThroughProcessor._process

    def counted(self, *arguments):
        calls.append(arguments[-1])
        return process(self, *arguments)

    monkeypatch.setattr(ThroughProcessor, "_process", counted)
    first = score(scorer, clip)
    # One a phase, and one for good: whether prompts can be put together.
    assert len(calls) == 3
    again = score(scorer, clip)
    assert len(calls) == 5
    np.testing.assert_allclose(first.logprobs, again.logprobs, rtol=0, atol=1e-5)


def test_a_model_that_cannot_share_a_prefix_is_found_out(llava):
    """Of no known family, it may look at what is cached in another way."""
    import copy

    model, processor = llava
    odd = copy.deepcopy(model)
    cached = []
    odd.register_forward_pre_hook(
        lambda module, args, kwargs: cached.append("pixel_values" not in kwargs),
        with_kwargs=True,
    )
    odd.get_input_embeddings().register_forward_hook(
        lambda module, args, out: out * 1.5 if cached[-1] else None
    )
    clip = made.build_clip((SIDE, 40))
    expected = score(HFOptionScorer(model, processor, reuse_prefix=False), clip)
    scorer = HFOptionScorer(odd, processor)
    with pytest.warns(FallbackWarning, match="differ by .* from those of a pass of"):
        scores = score(scorer, clip)
    np.testing.assert_allclose(scores.logprobs, expected.logprobs, rtol=0, atol=1e-5)
    assert not scorer._passes.reuses
    score(scorer, clip)  # once is enough
    # What was asked for stands in run.json, or the run could not be continued.
    assert scorer.describe() == HFOptionScorer(odd, processor).describe()
    assert scorer.describe()["reuse_prefix"] is True


def test_a_model_that_gives_no_numbers_behind_a_prefix_is_found_out(llava):
    import copy

    model, processor = llava
    odd = copy.deepcopy(model)
    cached = []
    odd.register_forward_pre_hook(
        lambda module, args, kwargs: cached.append("pixel_values" not in kwargs),
        with_kwargs=True,
    )
    odd.get_input_embeddings().register_forward_hook(
        lambda module, args, out: out * np.nan if cached[-1] else None
    )
    clip = made.build_clip((SIDE, 40))
    expected = score(HFOptionScorer(model, processor, reuse_prefix=False), clip)
    scorer = HFOptionScorer(odd, processor)
    with pytest.warns(FallbackWarning, match="differ by inf from those of a pass of"):
        scores = score(scorer, clip)
    assert scores.valid.all()
    np.testing.assert_allclose(scores.logprobs, expected.logprobs, rtol=0, atol=1e-5)


def test_prompts_that_cannot_be_put_together_are_processed(llava, monkeypatch):
    from phasefusion.scoring.families import generic

    model, processor = llava
    clip = made.build_clip((SIDE, 40))
    expected = score(HFOptionScorer(model, processor), clip).logprobs
    monkeypatch.setattr(
        generic, "_put_together", lambda *_: np.array([1, 2, 3], dtype=np.int64)
    )
    found = score(HFOptionScorer(model, processor), clip).logprobs
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_half_precision_takes_the_pixels_too(llava):
    import copy

    model, processor = llava
    half = copy.deepcopy(model).to(torch.bfloat16)
    clip = made.build_clip((SIDE, 40), n_phases=1)
    given = []
    half.register_forward_pre_hook(
        lambda module, args, kwargs: given.append(kwargs.get("pixel_values")),
        with_kwargs=True,
    )
    scores = score(HFOptionScorer(half, processor), clip)
    assert {pixels.dtype for pixels in given if pixels is not None} == {torch.bfloat16}
    full = score(HFOptionScorer(model, processor), clip)
    assert scores.valid.all()
    assert np.abs(scores.logprobs - full.logprobs).max() < 0.5


def test_it_says_what_it_does(llava):
    model, processor = llava
    about = json.loads(json.dumps(HFOptionScorer(model, processor).describe()))
    assert about["family"] == "llava"
    assert about["frames_as"] == "images"
    assert about["processor"] == "LlavaProcessor"
    assert about["pixels"]["size"] == {"shortest_edge": SIDE}
    assert about["letter_tokens"]["L"]["A"] > 0


def test_what_a_processor_cannot_do(llava):
    model, processor = llava
    with pytest.raises(ScoringError, match="has no video processor, so frames cannot"):
        HFOptionScorer(model, processor, frames_as="video")
    with pytest.raises(ScoringError, match="give a processor with a video or an"):
        HFOptionScorer(model, processor.tokenizer)
    with pytest.raises(ScoringError, match="set its own size"):
        HFOptionScorer(model, processor, size=(24, 24))
    with pytest.raises(ScoringError, match="frames_as is 'film'"):
        HFOptionScorer(model, processor, frames_as="film")
    scorer = HFOptionScorer(model, processor)
    assert scorer.frame_size(240, 400, 4) is None
    assert scorer.pinned(32) is scorer
    clip = made.build_clip((SIDE, 40), n_phases=1)
    floats = np.zeros((1, 4, 3, 24, 24), np.float32)
    with pytest.raises(ScoringError, match="frames are float32"):
        score(scorer, replace(clip, frames=floats))


def test_a_template_that_loses_frames_is_refused(llava):
    model, processor = llava
    clip = made.build_clip((SIDE, 40), n_phases=1)
    scorer = HFOptionScorer(model, processor)
    scorer._family.template = CHAT.replace("<image>\n", "")
    with pytest.raises(ScoringError, match="wrote 0 image placeholders"):
        score(scorer, clip)


@pytest.fixture(scope="module")
def gemma():
    """A model whose frames see each other in both directions, told by token types."""
    special = ("<pad>", "<s>", "</s>", "<image>", "<boi>", "<eoi>")
    spec = replace(made.SPECS["llava_next_video"], special=special, chat=CHAT, names={})
    tokenizer = made.build_tokenizer(spec)
    for name, token in (("boi", "<boi>"), ("eoi", "<eoi>"), ("image", "<image>")):
        setattr(tokenizer, f"{name}_token", token)
        token_id = tokenizer.convert_tokens_to_ids(token)
        setattr(tokenizer, f"{name}_token_id", token_id)
    vision = {"model_type": "siglip_vision_model", "image_size": SIDE, "patch_size": 6}
    vision |= {"hidden_size": 32, "intermediate_size": 64, "vision_use_head": False}
    vision |= {"num_hidden_layers": 2, "num_attention_heads": 2}
    text = made._text("gemma3_text", tokenizer, head_dim=16, sliding_window=512)
    config = transformers.Gemma3Config(
        text_config={k: v for k, v in text.items() if k != "model_type"},
        vision_config=vision,
        mm_tokens_per_image=4,
        image_token_index=tokenizer.image_token_id,
        boi_token_index=tokenizer.boi_token_id,
        eoi_token_index=tokenizer.eoi_token_id,
        tie_word_embeddings=False,
    )
    model = transformers.Gemma3ForConditionalGeneration(config).eval()
    made.randomise(model, 2)
    kind = stock.find("gemma3.processing_gemma3", "Gemma3Processor")
    image = stock.pil_class("gemma3", "Gemma3ImageProcessor")(
        size={"height": SIDE, "width": SIDE}, image_seq_length=4
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "check_argument_for_proper_class", lambda *_: None)
        processor = kind(
            image_processor=image,
            tokenizer=tokenizer,
            image_seq_length=4,
            chat_template=CHAT.replace("<image>", "<boi>"),
        )
    return model, processor


def test_numbers_a_token_are_passed_for_every_prompt(gemma):
    model, processor = gemma
    scorer = HFOptionScorer(model, processor)
    clip = made.build_clip((SIDE, SIDE), n_phases=1)
    with pytest.warns(FallbackWarning, match="prefix cannot be reused"):
        scores = score(scorer, clip)
    for m in range(len(ORDERS)):
        inputs, _ = inputs_of(scorer, clip, 0, m)
        kinds = inputs["token_type_ids"][0].numpy()
        is_frame = inputs["input_ids"][0].numpy() == processor.tokenizer.image_token_id
        np.testing.assert_array_equal(kinds, is_frame)
        logp = log_softmax_of(model, inputs)
        ids = processor.tokenizer.convert_tokens_to_ids(list("ABC"))
        np.testing.assert_allclose(
            scores.logprobs[0, m, ORDERS[m]], logp[ids], rtol=0, atol=1e-5
        )
        rest = {k: v for k, v in inputs.items() if k != "token_type_ids"}
        assert np.abs(log_softmax_of(model, rest)[ids] - logp[ids]).max() > 1e-5


@pytest.mark.parametrize("name", list(made.SPECS))
def test_known_families_score_the_same_through_their_processor(name):
    if name == "smolvlm" and made.variant() == "4":
        pytest.skip("this version's processor counts frames as videos")
    tokenizer, _ = built(name)
    processor = made.build_processor(name, tokenizer)
    clip = make_clip(name, n_frames=96)
    own = score(make_scorer(name), clip)
    through = make_scorer(name, processor=processor, frames_as="video")
    assert isinstance(through._family, ThroughProcessor)
    np.testing.assert_allclose(
        score(through, clip).logprobs, own.logprobs, rtol=0, atol=1e-5
    )


def test_frames_explained_through_a_processor(llava):
    scorer = HFOptionScorer(*llava)
    clip = made.build_clip((SIDE, SIDE))
    asked = (made.QUESTION, made.OPTIONS)
    found = scorer.saliency(clip, *asked, option=0)
    frames = clip.frames.copy()
    frames[1, 2] = frames[1, 1]
    logp = [
        scorer.score(one, *asked).logprobs[1, 0]
        for one in (clip, replace(clip, frames=frames))
    ]
    logp = [one - np.logaddexp.reduce(one) for one in logp]
    assert found.values[1, 2] == pytest.approx(logp[0][0] - logp[1][0], abs=2e-5)
    assert found.shared_frames == 1
    slopes = scorer.saliency(clip, *asked, option=0, method="gradient")
    assert np.abs(slopes.base - found.base).max() < 2e-5
    assert np.isfinite(slopes.values).all()


def test_pixels_that_are_not_by_frame_have_no_gradient(llava, monkeypatch):
    scorer = HFOptionScorer(*llava)
    clip = made.build_clip((SIDE, SIDE))
    show = scorer._family.show

    def in_tiles(*args, **options):
        shown = show(*args, **options)
        pixels = shown.inputs.arrays["pixel_values"]
        shown.inputs.arrays["pixel_values"] = np.concatenate([pixels, pixels])
        return shown

    monkeypatch.setattr(scorer._family, "show", in_tiles)
    with pytest.raises(ScoringError, match="cannot be told apart"):
        scorer.saliency(clip, made.QUESTION, made.OPTIONS, option=0, method="gradient")
