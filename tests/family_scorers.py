"""Scorers of the families' tiny models, and the passes that they make, by hand."""

from __future__ import annotations

import family_models as made
import numpy as np

from phasefusion.scoring.letters import clean_options

ORDERS = np.array([[0, 1, 2], [2, 0, 1], [1, 0, 2]])
_BUILT: dict = {}


def built(name):
    """Tokenizer and model of a family, made once."""
    if name not in _BUILT:
        tokenizer = made.build_tokenizer(made.SPECS[name])
        _BUILT[name] = tokenizer, made.build_model(name, tokenizer)
    return _BUILT[name]


def pixels_of(name):
    from phasefusion.scoring.checkpoint import model_pixels

    config = made.SPECS[name].video[1]
    return model_pixels(config, built(name)[1].config)


def make_scorer(name, **options):
    tokenizer, model = built(name)
    from phasefusion.scoring import HFOptionScorer

    if "frames_as" not in options:
        options.setdefault("pixels", pixels_of(name))
    return HFOptionScorer(model, options.pop("processor", tokenizer), **options)


def make_clip(name, budget=4, **options):
    return made.build_clip(made.SPECS[name].size, budget=budget, **options)


def asked_of(scorer, clip, orders=ORDERS):
    return scorer._asker.ask(
        made.QUESTION, clean_options(made.OPTIONS), orders, clip.frames.shape[1]
    )


def inputs_of(scorer, clip, s, order=0):
    """All inputs of one full pass as the scorer makes them, tensors by name."""
    asked = asked_of(scorer, clip)
    shown = scorer._shown(clip, s, asked)
    row = scorer._asker.rows(asked, shown)[order]
    import torch

    ids = torch.from_numpy(row.ids)[None]
    inputs = {"input_ids": ids, **scorer._passes._visual(ids, shown.inputs)}
    return inputs, row


def log_softmax_of(model, inputs):
    import torch

    inputs = {**inputs, "attention_mask": torch.ones_like(inputs["input_ids"])}
    with torch.inference_mode():
        logits = model(**inputs).logits[0, -1]
    return torch.log_softmax(logits.float(), dim=-1).double().numpy()
