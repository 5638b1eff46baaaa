"""Plots as matplotlib figures, made without pyplot, so that no backend is chosen and no global state changes."""

from dubito.experiments.plots.diagnosis import diagnosis_figure
from dubito.experiments.plots.style import save_figure, strategy_color

__all__ = ["diagnosis_figure", "save_figure", "strategy_color"]
