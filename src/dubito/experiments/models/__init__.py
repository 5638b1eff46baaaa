"""Models that experiments train on the labels, by kind."""
