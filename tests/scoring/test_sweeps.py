"""Sweeps: what is shared, what is batched, and what happens when memory is short."""

from __future__ import annotations

import copy
import gc
import itertools
import warnings
import weakref
from dataclasses import replace

import family_models as made
import numpy as np
import pytest
from pixel_scorer import make_questions

from phasefusion._runner import one_phase
from phasefusion.errors import FallbackWarning
from phasefusion.evaluate import evaluate
from phasefusion.scoring import HFOptionScorer, ScoreRequest, prefix
from phasefusion.scoring.checkpoint import model_pixels
from phasefusion.scoring.prefix import ForwardPasses
from phasefusion.scoring.rows import Row, VisualInputs

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

ORDERS = np.array([[0, 1, 2], [2, 0, 1], [1, 0, 2], [2, 1, 0], [0, 2, 1]])
OPTIONS = ("red", "dark blue", "no colour")
QUESTIONS = ("Which colour?", "Which colour is it that the door has in the end?", "?")
NO_MEMORY = (
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't "
        "allocate memory: you tried to allocate 64 bytes. Error code 12"
    ),
    MemoryError(),
)


@pytest.fixture
def make(model, tokenizer, build):
    def make_scorer(of=model, **options):
        return HFOptionScorer(of, tokenizer, size=build.SIZE, **options)

    return make_scorer


def requests(clips, questions=QUESTIONS, orders=ORDERS):
    return [
        ScoreRequest(clip, question, OPTIONS, orders)
        for clip in clips
        for question in questions
    ]


def one_by_one(scorer, asked):
    return [
        scorer.score(r.clip, r.question, r.options, orders=r.orders).logprobs
        for r in asked
    ]


def check_equal(found, expected):
    for scores, logprobs in zip(found, expected, strict=True):
        assert scores.valid.all(), scores.notes
        np.testing.assert_allclose(scores.logprobs, logprobs, rtol=0, atol=1e-5)


class Passes:
    """Watches the passes of a model, and may raise in some."""

    def __init__(self, model, fails=lambda number, rows, tokens: None):
        self.shapes, self.failed, self.fails = [], [], fails
        self.handle = model.register_forward_pre_hook(self, with_kwargs=True)

    def __call__(self, module, args, kwargs):
        shape = tuple(kwargs["input_ids"].shape)
        error = self.fails(len(self.shapes) + len(self.failed), *shape)
        if error is not None:
            self.failed.append(shape)
            raise error
        video = any(name.startswith("pixel_values") for name in kwargs)
        self.shapes.append((*shape, video))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.handle.remove()


# What is shared


def test_many_requests_score_as_each_alone(make, build):
    clips = [build.clip(2, 4), build.clip(3, 2, seed=1, size=(40, 20))]
    asked = requests(clips)
    expected = one_by_one(make(reuse_prefix=False), asked)
    check_equal(make().score_many(asked), expected)
    check_equal(make(batch_size=2).score_many(asked), expected)
    assert np.abs(expected[0] - expected[1]).max() > 1e-3


def test_a_video_is_run_once_for_all_questions(model, make, clip):
    with Passes(model) as passes:
        make().score_many(requests([clip]))
    with_video = [shape for shape in passes.shapes if shape[2]]
    assert sum(rows for rows, _, _ in with_video) == len(clip.frames)
    # The questions differ at once, so that the prefix ends with the video.
    n_prefix = with_video[0][1]
    with Passes(model) as passes:
        make().score(clip, QUESTIONS[0], OPTIONS, orders=ORDERS)
    assert passes.shapes[0][1] > n_prefix
    n_alone = sum(rows * tokens for rows, tokens, _ in passes.shapes)
    assert n_alone > len(clip.frames) * n_prefix


def test_a_question_before_the_video_is_shared_by_its_own_orders(build, model, clip):
    template = (
        "{% for c in messages[0]['content'] | reverse %}{% if c['type'] == 'video' %}"
        "<|vision_start|><|video_pad|><|vision_end|>{% else %}{{ c['text'] }}"
        "{% endif %}{% endfor %}\n<|im_start|>assistant\n"
    )
    tokenizer = build.tokenizer(template=template)
    # Texts without options in the prompt differ after the video alone.
    made_with = {"size": build.SIZE, "score": "text"}
    asked = requests([clip], orders=None)
    expected = one_by_one(
        HFOptionScorer(model, tokenizer, reuse_prefix=False, **made_with), asked
    )
    with Passes(model) as passes:
        scores = HFOptionScorer(model, tokenizer, **made_with).score_many(asked)
    for found, logprobs in zip(scores, expected, strict=True):
        np.testing.assert_allclose(found.logprobs, logprobs, rtol=0, atol=5e-5)
    with_video = [rows for rows, _, video in passes.shapes if video]
    assert sum(with_video) == len(clip.frames) * len(QUESTIONS)


@pytest.mark.parametrize("name", list(made.SPECS))
def test_families_share_clips_and_frames(name):
    tokenizer = made.build_tokenizer(made.SPECS[name])
    model = made.build_model(name, tokenizer)
    pixels = model_pixels(made.SPECS[name].video[1], model.config)
    clip = made.build_clip(made.SPECS[name].size, n_phases=2)
    asked = requests([clip, other_order(clip)], QUESTIONS[:2])
    plain = HFOptionScorer(model, tokenizer, pixels=pixels, reuse_prefix=False)
    scorer = HFOptionScorer(model, tokenizer, pixels=pixels)
    found = scorer.score_many(asked)
    check_equal(found, one_by_one(plain, asked))
    tower = 2 if name.startswith("qwen") else 1
    assert scorer._passes.encoder.n_encoded == clip.frames[:, :, 0, 0, 0].size // tower
    assert plain._passes.encoder.n_encoded == 0


def other_order(clip):
    """The same frames in phases the other way round."""
    return replace(clip, frames=clip.frames[::-1], indices=clip.indices[::-1])


def test_a_union_of_phases_shows_no_new_frame():
    tokenizer = made.build_tokenizer(made.SPECS["internvl"])
    model = made.build_model("internvl", tokenizer)
    pixels = model_pixels(made.SPECS["internvl"].video[1], model.config)
    clip = made.build_clip(made.SPECS["internvl"].size, n_phases=3, budget=2)
    union = replace(
        clip,
        frames=clip.frames.swapaxes(0, 1).reshape(1, 6, *clip.frames.shape[2:]),
        indices=clip.indices.T.reshape(1, 6),
        times_s=clip.times_s.T.reshape(1, 6),
        missing=clip.missing.T.reshape(1, 6),
        grid=clip.grid.union(),
    )
    scorer = HFOptionScorer(model, tokenizer, pixels=pixels)
    seen = []
    tower = model.model.vision_tower
    handle = tower.embeddings.register_forward_hook(
        lambda module, args, out: seen.append(len(args[0]))
    )
    asked = requests([clip, union], QUESTIONS[:1])
    found = [scorer.score_many([one])[0] for one in asked]
    handle.remove()
    assert sum(seen) == scorer._passes.encoder.n_encoded == 6
    plain = HFOptionScorer(model, tokenizer, pixels=pixels, reuse_prefix=False)
    check_equal(found, one_by_one(plain, asked))
    assert "forward" not in vars(tower)


def test_logits_are_made_where_they_are_read(model, make, clip):
    shapes = []
    handle = model.lm_head.register_forward_hook(
        lambda head, args, logits: shapes.append(tuple(logits.shape))
    )
    make().score_many(requests([clip]))
    handle.remove()
    n_read = len(clip.frames) * len(QUESTIONS) * len(ORDERS)
    assert sum(n for _, n, _ in shapes) == n_read
    assert {(rows, width) for rows, _, width in shapes} == {
        (1, model.config.get_text_config().vocab_size)
    }
    assert "forward" not in vars(model.lm_head)


class OtherHead(torch.nn.Linear):
    """What nobody knows how to stand in for."""


def test_other_output_layers_are_left_alone(model, make, clip):
    other = copy.deepcopy(model)
    other.lm_head.__class__ = OtherHead
    expected = one_by_one(make(reuse_prefix=False), requests([clip]))
    check_equal(make(other).score_many(requests([clip])), expected)


@pytest.mark.parametrize("attention", ["eager", "sdpa", "as rows"])
def test_rows_share_a_pass_whatever_the_attention(
    model, make, clip, attention, monkeypatch
):
    other = copy.deepcopy(model)
    other.set_attn_implementation("sdpa" if attention == "as rows" else attention)
    scorer = make(other)
    if attention == "as rows":  # as for attention that takes no mask of its own
        scorer._passes._takes_trees = False
    expected = one_by_one(make(reuse_prefix=False), requests([clip]))
    with Passes(other) as passes:
        check_equal(scorer.score_many(requests([clip])), expected)
    n_rows = sum(rows for rows, _, video in passes.shapes if not video)
    n_wanted = len(clip.frames) * len(QUESTIONS) * len(ORDERS)
    assert (n_rows == n_wanted) == (attention == "as rows")


# What cannot be shared


def no_positions(forward):
    def changed(**inputs):
        if inputs.get("position_ids") is not None:
            inputs["position_ids"] = inputs["position_ids"] + 7
        return forward(**inputs)

    return changed


def no_cache(forward):
    def changed(**inputs):
        if inputs["use_cache"] and inputs.get("position_ids") is not None:
            raise TypeError("no past")
        return forward(**inputs)

    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (no_positions, "differ by .* from those of a pass of its own"),
        (no_cache, "TypeError behind a cached prefix: no past"),
    ],
)
def test_models_that_nobody_has_tried_are_seen_through(
    model, make, clip, change, message
):
    other = copy.deepcopy(model)
    scorer = make(other)
    scorer._passes._unchecked = True
    other.forward = change(other.forward)
    asked = requests([clip])
    expected = one_by_one(make(reuse_prefix=False), asked)
    with pytest.warns(FallbackWarning, match=message):
        check_equal(scorer.score_many(asked), expected)
    with Passes(other) as passes:  # known from now on
        check_equal(scorer.score_many(asked), expected)
    assert all(video for _, _, video in passes.shapes)


def test_a_model_that_goes_on_from_a_cache_is_seen_once(model, make, clip):
    scorer = make()
    scorer._passes._unchecked = True
    expected = one_by_one(make(reuse_prefix=False), requests([clip]))
    with Passes(model) as first:
        check_equal(scorer.score_many(requests([clip])), expected)
    with Passes(model) as second:
        check_equal(scorer.score_many(requests([clip])), expected)
    assert len(first.shapes) > len(second.shapes)
    assert not all(video for _, _, video in second.shapes)


def test_linear_attention_falls_back():
    kind = getattr(transformers, "Qwen3_5ForConditionalGeneration", None)
    if kind is None:
        pytest.skip("this version has no model with linear attention and frames")
    text = {
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "layer_types": ["linear_attention", "full_attention"],
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 2,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "vocab_size": 64,
    }
    vision = {
        "depth": 1,
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_heads": 2,
        "out_hidden_size": 64,
        "patch_size": 4,
        "num_position_embeddings": 16,
    }
    config = transformers.Qwen3_5Config(
        text_config=text,
        vision_config=vision,
        image_token_id=10,
        video_token_id=11,
        vision_start_token_id=12,
        vision_end_token_id=13,
    )
    torch.manual_seed(0)
    model = kind(config).eval()
    rng = np.random.default_rng(0)
    visual = VisualInputs(
        {
            "pixel_values_videos": rng.standard_normal((16, 96), dtype=np.float32),
            "video_grid_thw": np.array([[1, 4, 4]]),
        },
        11,
        {"mm_token_type_ids": {11: 2}},
    )
    head = [20, 12, 11, 11, 11, 11, 13, 21]
    rows = [
        Row(np.array([*head, *tail]), np.array([len(head) + 1]), np.array([[1, 2]]))
        for tail in ([30, 31], [32, 33], [34, 35])
    ]
    passes = ForwardPasses(model, pad_id=0)
    with pytest.warns(FallbackWarning, match="has linear_attention layers"):
        found = passes.run(rows, visual)
    plain = ForwardPasses(model, pad_id=0, reuse_prefix=False).run(rows, visual)
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_allclose(one.logprobs, other.logprobs, rtol=0, atol=1e-5)


# When memory is short


@pytest.mark.parametrize("error", NO_MEMORY, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("reuse", [True, False])
def test_passes_that_do_not_fit_are_halved(model, make, clip, error, reuse):
    asked = requests([clip])
    expected = one_by_one(make(reuse_prefix=False), asked)
    most = 2 * 60 if reuse else 2 * 200
    scorer = make(reuse_prefix=reuse, batch_size=None if reuse else 8)
    scorer._passes.budget.most_run = 10**6

    def fails(number, rows, tokens):
        return copy.copy(error) if rows > 1 and rows * tokens > most else None

    with Passes(model, fails) as passes:
        check_equal(scorer.score_many(asked), expected)
    assert passes.failed
    if not reuse:  # 8 rows failed, 4 did, 2 fit
        assert max(rows for rows, _, _ in passes.shapes) == 2
    # It is found once: what was too much is not tried again.
    limit = scorer._passes.budget.limit
    with Passes(model, fails) as again:
        check_equal(scorer.score_many(asked), expected)
    assert len(again.failed) < len(passes.failed)
    assert scorer._passes.budget.limit <= limit
    assert "forward" not in vars(model.lm_head)
    assert "forward" not in vars(model.model.visual)


@pytest.mark.parametrize("which", [{0}, {1}, {0, 1, 2}, {2, 4, 5}, {0, 2, 4, 6}])
def test_memory_short_at_chosen_passes(model, make, clip, which):
    asked = requests([clip])
    expected = one_by_one(make(reuse_prefix=False), asked)

    def fails(number, rows, tokens):
        return NO_MEMORY[0] if number in which else None

    with Passes(model, fails) as passes:
        found = make().score_many(asked)
    assert len(passes.failed) == len(which)
    check_equal(found, expected)


def test_without_room_for_a_prefix_rows_go_alone(model, make, clip):
    expected = one_by_one(make(reuse_prefix=False), requests([clip]))

    def fails(module, args, kwargs):
        if kwargs["use_cache"]:
            raise NO_MEMORY[1]

    handle = model.register_forward_pre_hook(fails, with_kwargs=True)
    found = make().score_many(requests([clip]))
    handle.remove()
    check_equal(found, expected)


def test_a_row_without_room_is_invalid_and_the_others_are_not(model, make, clip):
    long = "Which colour" + " is it then" * 12 + "?"
    asked = requests([clip], (QUESTIONS[0], long))
    expected = one_by_one(make(reuse_prefix=False), asked)
    n_most = 260

    def fails(module, args, kwargs):
        held = kwargs["attention_mask"].shape[-1]
        if held > n_most:
            raise NO_MEMORY[0]

    handle = model.register_forward_pre_hook(fails, with_kwargs=True)
    scorer = make()
    scorer._passes._takes_trees = False
    found = scorer.score_many(asked)
    handle.remove()
    check_equal(found[:1], expected[:1])
    assert not found[1].valid.any()
    notes = found[1].pass_notes.values()
    assert all("ran out of memory" in note for note in notes)
    assert len(notes) == len(clip.frames) * len(ORDERS)


def test_other_errors_are_not_taken_for_it(model, make, clip):
    def fails(number, rows, tokens):
        return RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with Passes(model, fails), pytest.raises(RuntimeError, match="mat1 and mat2"):
        make().score_many(requests([clip]))
    assert "forward" not in vars(model.lm_head)


def test_a_tower_without_room_sees_fewer_frames(model, make, clip):
    expected = one_by_one(make(reuse_prefix=False), requests([clip]))
    seen = []

    def fails(module, args):
        seen.append(len(args[0]))
        if len(args[0]) > 48:  # patches of two pairs of frames
            raise NO_MEMORY[0]

    handle = model.model.visual.patch_embed.register_forward_pre_hook(fails)
    found = make().score_many(requests([clip]))
    handle.remove()
    check_equal(found, expected)
    assert seen == [96, 48, 48]


def test_long_rows_are_invalid_before_any_pass(model, make, clip):
    short = copy.deepcopy(model)
    short.config.get_text_config().max_position_embeddings = 190
    asked = requests([clip], (QUESTIONS[0], "Which colour is it " * 9))
    scorer = make(short)
    scorer._passes._takes_trees = False  # several rows in one are longer
    with Passes(short) as passes:
        fits, long = scorer.score_many(asked)
    assert fits.valid.all()
    assert not long.valid.any()
    assert "are more than the 190 that the model takes" in long.pass_notes[0, 0]
    assert max(tokens for _, tokens, _ in passes.shapes) <= 190


# One row's trouble


@pytest.mark.parametrize("kind", ["letter", "text"])
@pytest.mark.parametrize("prior", [None, "blind"])
def test_notes_of_a_pass_do_not_tell_what_else_was_asked(
    model, make, clip, kind, prior
):
    short = copy.deepcopy(model)
    short.config.get_text_config().max_position_embeddings = 20
    scorer = make(short, score=kind, prior=prior)
    clip.damaged[1, 0] = True
    question, options = QUESTIONS[0], ("red", "blue", "red")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = scorer.score(clip, question, options, orders=ORDERS)
        assert not whole.valid.any()
        assert len(whole.pass_notes) == len(clip.frames) * len(ORDERS)
        assert "damage" in whole.pass_notes[1, 0]
        for (s, m), note in whole.pass_notes.items():
            assert "more than the 20 that the model takes" in note
            alone = scorer.score(
                one_phase(clip, s), question, options, orders=ORDERS[m : m + 1]
            )
            assert alone.pass_notes == {(0, 0): note}
            assert alone.notes == whole.notes


@pytest.mark.parametrize("reuse", [True, False])
def test_a_row_of_nan_leaves_the_others_alone(
    model, tokenizer, make, clip, reuse, monkeypatch
):
    monkeypatch.setattr(prefix, "_LEAST_PACK", 2048)  # all in one row
    expected = one_by_one(make(reuse_prefix=False), requests([clip]))
    asked = requests([clip])
    asked[1] = replace(asked[1], options=("red", "~", "no colour"))
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.get_input_embeddings().weight[tokenizer.convert_tokens_to_ids("~")] = (
            torch.nan
        )
    found = make(other, reuse_prefix=reuse, batch_size=None if reuse else 6)
    first, spoilt, last = found.score_many(asked)
    check_equal([first, last], [expected[0], expected[2]])
    assert not spoilt.valid.any()
    assert all("the logits hold NaN" in note for note in spoilt.pass_notes.values())


# What is kept


@pytest.mark.parametrize("way", ["in place", "data", "data in place", "replaced"])
def test_features_of_other_weights_are_not_taken(model, make, clip, way):
    other = copy.deepcopy(model)
    scorer = make(other)
    asked = requests([clip], QUESTIONS[:1])
    (before,) = scorer.score_many(asked)
    tower = other.model.visual
    with torch.no_grad():
        for module in tower.modules():
            for name, weight in list(module.named_parameters(recurse=False)):
                if way == "in place":
                    weight.mul_(0.5)
                elif way == "data":
                    weight.data = weight.data * 0.5
                elif way == "data in place":
                    weight.data.mul_(0.5)
                else:
                    setattr(module, name, torch.nn.Parameter(weight * 0.5))
    found = scorer.score_many(asked)
    check_equal(found, one_by_one(make(other, reuse_prefix=False), asked))
    assert np.abs(found[0].logprobs - before.logprobs).max() > 1e-4
    n_before = scorer._passes.encoder.n_encoded
    scorer.score_many(asked)
    assert scorer._passes.encoder.n_encoded == n_before


def test_a_rerun_looks_at_the_frames_again(make, build, tmp_path):
    """Or the floor of what varies from run to run would leave the tower out."""
    options = {"budget": 2, "phases": 2, "protocol": "reruns", "progress": False}
    questions = make_questions(tmp_path, n_clips=1, per_clip=1)
    n_encoded = []
    for n_runs in (2, 3):
        scorer = make()
        evaluate(
            questions, scorer, out=tmp_path / f"{n_runs}", values=(n_runs,), **options
        )
        n_encoded.append(scorer._passes.encoder.n_encoded)
    assert n_encoded == [4, 6]


def held_bytes():
    """Memory of all tensors that are reachable."""
    gc.collect()
    found = {}
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.Tensor):  # isinstance asks some in vain
            storage = thing.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return sum(found.values())


def test_nothing_grows_over_fifty_items(make, build):
    scorer = make()
    scorer._passes.encoder.max_bytes = 40_000
    sizes = []
    for i in range(50):
        clip = build.clip(3, 4, seed=i)
        scorer.score(clip, QUESTIONS[i % 3], OPTIONS, orders=ORDERS)
        assert scorer._passes.encoder.n_bytes <= 40_000
        if i in (9, 49):
            del clip
            sizes.append(held_bytes())
    # Full after a few, and the keys and values of one phase are 18,000 bytes more.
    assert abs(sizes[1] - sizes[0]) < 10_000
    assert scorer._passes.encoder.n_encoded == 50 * 3 * 2


def test_prefixes_are_given_back_phase_by_phase(model, make, build, monkeypatch):
    made_of, alive = [], []
    cut = prefix.cut

    def noted(cache, row, n_tokens):
        layers = cut(cache, row, n_tokens)
        made_of.append(weakref.ref(layers[0][0]))
        return layers

    monkeypatch.setattr(prefix, "cut", noted)
    scorer = make()
    scorer._passes.budget.most_run = 1  # one phase a time
    clip = build.clip(6, 4)
    handle = model.register_forward_pre_hook(
        lambda *_: alive.append(sum(ref() is not None for ref in made_of))
    )
    try:
        scorer.score(clip, QUESTIONS[0], OPTIONS, orders=ORDERS)
    finally:
        handle.remove()
    assert len(made_of) == 6
    assert max(alive) == 1
    assert not any(ref() is not None for ref in made_of)


# In a batch of whatever


def test_scores_do_not_depend_on_what_is_in_a_pass(make, build):
    clips = [build.clip(2, 4, seed=i, seconds=8.0 + i) for i in range(2)]
    asked = requests(clips)
    expected = one_by_one(make(reuse_prefix=False), asked)
    rng = np.random.default_rng(0)
    for most_run, most_rows in itertools.product((1, 300, 10**6), (None, 1, 4)):
        scorer = make(batch_size=most_rows)
        scorer._passes.budget.most_run = most_run
        some = rng.permutation(len(asked))[: rng.integers(1, len(asked) + 1)]
        found = scorer.score_many([asked[i] for i in some])
        check_equal(found, [expected[i] for i in some])
