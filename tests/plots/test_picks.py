"""Pictures of rehearsals: curves with bands, and what was asked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex

from dubito.plots.curves import curves_figure, held_below, spread_apart
from dubito.plots.picks import picks_figure
from dubito.plots.style import strategy_colour
from dubito.rehearsal import Asked, Curve, Plan, Rehearsal

LABELS = np.array([20, 40, 60])


def played(ours: float = 0.9) -> Rehearsal:
    random = Curve("random", LABELS, np.array([[0.5, 0.6, 0.7], [0.5, 0.7, 0.8]]))
    doubt = Curve("doubt-coreset", LABELS, np.array([[0.5, ours - 0.1, ours], [0.5, ours - 0.05, ours]]))
    return Rehearsal(Plan(rounds=2, seeds=2), (random, doubt), ())


def test_each_curve_is_its_mean_in_its_strategy_s_colour() -> None:
    axes = curves_figure(played()).axes[0]
    lines = [line for line in axes.lines if len(np.asarray(line.get_xdata())) == 3]
    for line, curve in zip(lines, played().curves, strict=True):
        assert np.asarray(line.get_ydata()).tolist() == curve.mean.tolist()
        assert to_hex(line.get_color()) == strategy_colour(curve.name).lower()


def test_a_band_is_one_standard_deviation_wide() -> None:
    axes = curves_figure(played()).axes[0]
    heights = [
        np.ptp([y for x, y in np.asarray(path.vertices) if x == 60])
        for band in axes.collections
        for path in band.get_paths()
    ]
    assert heights == pytest.approx([2 * curve.spread[-1] for curve in played().curves])


def test_curves_are_named_beside_their_ends_and_there_is_no_legend() -> None:
    axes = curves_figure(played(), detail="of nothing").axes[0]
    texts = [text.get_text() for text in axes.texts]
    assert "random  75.0%" in texts
    assert "doubt-coreset  90.0%" in texts
    assert "of nothing" in texts
    assert axes.get_legend() is None


def test_the_title_says_what_was_learnt_and_the_arrow_how_much() -> None:
    axes = curves_figure(played()).axes[0]
    assert axes.get_title(loc="left") == "doubt-coreset needs 35 labels for what random learns from 60"
    assert any("25 labels saved" in text.get_text() for text in axes.texts)


def test_where_nothing_was_gained_there_is_no_arrow() -> None:
    axes = curves_figure(played(ours=0.6)).axes[0]
    assert axes.get_title(loc="left") == "nothing beat random here"
    assert not any("saved" in text.get_text() for text in axes.texts)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_names_never_overlap_and_keep_their_order(places: list[float]) -> None:
    moved = spread_apart(np.array(places), 0.05)
    order = np.argsort(places, kind="stable")
    assert (np.diff(moved[order]) >= 0.05 - 1e-9).all()
    held = held_below(moved, 0.97, 0.05)
    assert (np.diff(held[order]) >= 0.05 - 1e-9).all()
    assert held.max() <= 0.97


def test_a_row_of_images_for_each_strategy_with_what_was_misread_marked() -> None:
    images, classes = np.zeros((6, 8, 8)), np.array([0, 0, 1, 1, 2, 2])
    asked = [
        Asked("random", np.array([0, 1, 2]), np.array([False, True, True])),
        Asked("coreset", np.array([0, 2, 4]), np.array([False, False, False])),
    ]
    figure = picks_figure(images, classes, asked, "a headline", "a detail")
    assert [[text.get_text() for text in axes.texts] for axes in figure.axes] == [
        ["random", "2 classes, 2 misread"],
        ["coreset", "3 classes, 0 misread"],
    ]
    assert [(len(axes.images), len(axes.lines)) for axes in figure.axes] == [(3, 2), (3, 0)]
    assert [text.get_text() for text in figure.texts] == ["a headline", "a detail"]
