"""Scoring: what a model thinks of every option, in every phase and order.

`Scorer` is the one-method protocol that the rest of the package relies on,
`OptionScores` is what it returns, and `HFOptionScorer` scores with Hugging Face
video-language models. Only the last one needs torch and transformers, at first use.
"""

from phasefusion.scoring.huggingface import HFOptionScorer
from phasefusion.scoring.letters import PromptTemplate
from phasefusion.scoring.protocol import OptionScores, Scorer, ScoreRequest

__all__ = [
    "HFOptionScorer",
    "OptionScores",
    "PromptTemplate",
    "ScoreRequest",
    "Scorer",
]
