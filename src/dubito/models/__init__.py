"""A model of dubito's own: fitted on the labels so far, with calibrated probabilities."""
