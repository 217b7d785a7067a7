"""Scoring: what a model thinks of every option, in every phase and order.

`Scorer` is the one-method protocol that the rest of the package relies on,
`OptionScores` is what it returns, and `HFOptionScorer` scores with Hugging Face
video-language models. `HFGenerationScorer` lets them write their answers instead, which
`GeneratedAnswers` holds. Only these two need torch and transformers, at first use.
`HFOptionScorer.saliency` and `flip_saliency` say which frames an answer rests on.
"""

from phasefusion.scoring.generation import GeneratedAnswers, HFGenerationScorer
from phasefusion.scoring.huggingface import HFOptionScorer
from phasefusion.scoring.letters import PromptTemplate
from phasefusion.scoring.protocol import OptionScores, Scorer, ScoreRequest
from phasefusion.scoring.saliency import FlipSaliency, Saliency, flip_saliency

__all__ = [
    "FlipSaliency",
    "GeneratedAnswers",
    "HFGenerationScorer",
    "HFOptionScorer",
    "OptionScores",
    "PromptTemplate",
    "Saliency",
    "ScoreRequest",
    "Scorer",
    "flip_saliency",
]
