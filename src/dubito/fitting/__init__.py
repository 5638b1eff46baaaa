"""A model of dubito's own: labels in, calibrated probabilities of the whole pool out, and how right they are."""

from dubito.fitting.door import fit
from dubito.fitting.folds import Share
from dubito.fitting.record import Fit

__all__ = ["Fit", "Share", "fit"]
