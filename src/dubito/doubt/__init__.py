"""Measures of a model's uncertainty about each point.

Doubt is the paper's ``I(x) = 1 - max_y P(y|x)`` (equation 2), in [0, 1]. `measures` computes it and other measures from
probabilities, `posterior` from several posterior samples; `temperature` calibrates logits; `reading` checks arguments.
"""

from dubito.doubt.measures import (
    Softmax,
    beam_scores,
    doubt_from_logits,
    doubt_from_probabilities,
    entropy,
    log_confidence,
    margin,
    margin_doubt,
    mean_probabilities,
    predicted_classes,
    scaling_weights,
    sharpened_doubt,
    softmax,
    uncertainty,
)
from dubito.doubt.posterior import SplitDoubt, learnable_doubt, split_posterior
from dubito.doubt.reading import Temperature
from dubito.doubt.temperature import fit_temperature

__all__ = [
    "Softmax",
    "SplitDoubt",
    "Temperature",
    "beam_scores",
    "doubt_from_logits",
    "doubt_from_probabilities",
    "entropy",
    "fit_temperature",
    "learnable_doubt",
    "log_confidence",
    "margin",
    "margin_doubt",
    "mean_probabilities",
    "predicted_classes",
    "scaling_weights",
    "sharpened_doubt",
    "softmax",
    "split_posterior",
    "uncertainty",
]
