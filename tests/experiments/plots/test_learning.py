"""Pictures of experiments: curves with bands, differences, matrices and bars."""

import re
from dataclasses import replace
from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from dubito.experiments.plots.comparing import (
    areas_figure,
    format_seconds,
    pairwise_figure,
    savings_figure,
    times_figure,
)
from dubito.experiments.plots.learning import (
    differences_figure,
    learning_figure,
    shift_below,
    spread_apart,
    styles,
    wrapped,
)
from dubito.experiments.plots.style import inline_svg, strategy_color
from dubito.experiments.records import Curve
from dubito.experiments.statistics import Comparison, Interval, Saving, compare, savings

LABELS = np.array([20, 40, 60])
TWELVE = (
    *("random", "least-confidence", "margin", "entropy", "coreset", "doubt-coreset", "doubt-coreset:strength=0.5"),
    *("doubt-coreset:strength=0.25", "doubt-coreset:strength=2,beam_width=20", "closest-kmeans", "badge", "batchbald"),
)


def curve(name: str, *ends: float) -> Curve:
    return Curve(name, LABELS, np.array([[0.5, 0.5 + (end - 0.5) / 2, end] for end in ends]))


def two() -> list[Curve]:
    return [curve("random", 0.7, 0.8, 0.75), curve("doubt-coreset", 0.88, 0.96, 0.91)]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_each_curve_is_its_mean_in_its_strategy_s_color() -> None:
    axes = learning_figure(two(), "headline").axes[0]
    for line, each in zip(axes.lines, two(), strict=True):
        assert np.asarray(line.get_ydata()).tolist() == each.mean.tolist()
        assert to_hex(line.get_color()) == strategy_color(each.name).lower()


def test_a_band_is_one_standard_deviation_to_either_side() -> None:
    axes = learning_figure(two(), "headline").axes[0]
    heights = [
        np.ptp([y for x, y in np.asarray(path.vertices) if x == 60])
        for band in axes.collections
        for path in band.get_paths()
    ]
    assert heights == pytest.approx([2 * each.spread[-1] for each in two()])


def test_the_headline_is_there_and_names_stand_beside_the_curves_without_a_legend() -> None:
    figure = learning_figure(two(), "what was found", "of nothing")
    assert figure.axes[0].get_title(loc="left") == "what was found"
    assert {"random  75.0%", "doubt-coreset  91.7%", "of nothing"} <= set(texts(figure))
    assert figure.axes[0].get_legend() is None


def test_names_of_twelve_curves_that_end_together_do_not_overlap_and_stay_inside() -> None:
    figure = learning_figure([curve(name, 0.9, 0.9 + 0.001 * place) for place, name in enumerate(TWELVE)], "twelve")
    figure.savefig(BytesIO(), format="png")
    # Of an annotation the text alone: its line may cross another's.
    boxes = sorted((Text.get_window_extent(each) for each in figure.axes[0].texts), key=lambda box: float(box.y0))
    assert len(boxes) == 12
    assert all(above.y0 >= below.y1 - 1 for below, above in pairwise(boxes))
    assert all(box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 and box.y0 >= 0 for box in boxes)


def test_variants_share_their_strategy_s_color_and_no_two_look_alike() -> None:
    described = styles(TWELVE)
    assert len({described[name].color for name in TWELVE if name.startswith("doubt-coreset")}) == 1
    assert len({(look.color, look.line) for look in described.values()}) == len(TWELVE)


def test_an_arrow_marks_labels_saved_only_where_their_interval_says_so() -> None:
    (saving,) = savings(two(), "random")
    assert not any("labels saved" in text for text in texts(learning_figure(two(), "", saving=saving)))
    saving = replace(saving, saved=replace(saving.saved, low=3.0, high=9.0))
    assert any("labels saved" in text for text in texts(learning_figure(two(), "", saving=saving)))
    (lost,) = savings(list(reversed(two())), "doubt-coreset")
    assert not any("labels saved" in text for text in texts(learning_figure(two(), "", saving=lost)))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_places_keep_their_distance_and_their_order(places: list[float]) -> None:
    moved = spread_apart(np.array(places), 0.05)
    order = np.argsort(places, kind="stable")
    assert (np.diff(moved[order]) >= 0.05 - 1e-9).all()
    held = shift_below(moved, 0.97, 0.05)
    assert (np.diff(held[order]) >= 0.05 - 1e-9).all()
    assert held.max() <= 0.97


def test_a_difference_is_drawn_for_every_strategy_but_the_baseline() -> None:
    curves = [curve(name, 0.7, 0.8, 0.75 + 0.01 * place) for place, name in enumerate(TWELVE[:6])]
    figure = differences_figure(curves)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in shown] == list(TWELVE[1:6])
    heights = np.asarray(shown[-1].lines[1].get_ydata())
    assert heights[-1] == pytest.approx(100 * (curves[5].accuracy - curves[0].accuracy)[:, -1].mean())
    assert "3 seeds" in figure.get_supxlabel()
    assert "interval" not in differences_figure([curve("random", 0.7), curve("coreset", 0.8)]).get_supxlabel()


def test_areas_have_a_panel_for_each_baseline_and_full_marks_where_it_is_sure() -> None:
    curves = [*two(), curve("coreset", 0.7, 0.81, 0.74)]
    figure = areas_figure([compare(curves, "random"), compare(curves, "coreset")])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["against random", "against coreset"]
    faces = {to_hex(line.get_markerfacecolor()) for line in figure.axes[0].lines if line.get_marker() == "o"}
    assert faces == {"#ffffff", strategy_color("doubt-coreset").lower()}
    alone = areas_figure([compare([curve("random", 0.7), curve("coreset", 0.8)], "random"), ()])
    assert len(alone.axes) == 1


def test_the_matrix_shows_its_shares_and_how_often_each_is_beaten() -> None:
    table = np.array([[0.0, 0.25, 0.0], [0.5, 0.0, 0.0], [1.0, 0.9, 0.0]])
    figure = pairwise_figure(["random", "coreset", "margin"], table)
    assert texts(figure) == ["0.25", "0", "0.5", "0", "1", "0.9", "0.75", "0.57", "0"]


def test_the_matrix_keeps_its_cells_and_its_headline_whatever_the_names() -> None:
    long = "doubt-coreset:strength=0.25,beam_width=4"
    figure = pairwise_figure(["random", "margin", long], np.zeros((3, 3)))
    picture = BytesIO()
    figure.savefig(picture)  # A layout that does not fit warns, and a warning is an error here.
    (axes,) = figure.axes
    assert axes.get_window_extent().width / figure.dpi >= 3 * 0.45
    headline = figure.get_suptitle(), figure.texts[0].get_window_extent()
    assert headline[1].x1 <= figure.bbox.width
    assert "doubt-coreset:\nstrength=0.25,\nbeam_width=4" in [label.get_text() for label in axes.get_yticklabels()]


def test_names_without_a_place_to_break_are_cut() -> None:
    assert wrapped("x" * 60) == "x" * 29 + "…"
    assert wrapped("coreset:metric=cosine") == "coreset:metric=cosine"
    assert wrapped(":" + "y" * 25) == ":\n" + "y" * 25


def test_savings_are_bars_with_intervals_and_say_where_there_is_none() -> None:
    shown = [
        Saving("coreset", "random", 0.9, 100.0, 140.0, Interval(40.0, 20.0, 60.0)),
        Saving("margin", "random", 0.9, 150.0, 140.0, Interval(-10.0, -np.inf, 20.0)),
        Saving("entropy", "random", 0.9, np.inf, 140.0, Interval(-np.inf, -np.inf, -np.inf)),
        Saving("badge", "random", 0.9, 130.0, 140.0, Interval(10.0, np.nan, np.nan)),
    ]
    figure = savings_figure(shown)
    assert texts(figure) == ["40 [20 to 60]", "-10 [not reached to 20]", "not reached", "10"]
    assert figure.axes[0].get_xlabel() == "labels; random needs 140 for 90.0%"
    low, high = figure.axes[0].get_xlim()
    assert low < -10
    assert high > 60
    assert texts(savings_figure(shown[2:3])) == ["not reached"]


def test_times_are_bars_with_their_seconds() -> None:
    figure = times_figure(["random", "coreset"], [0.0004, 2.5], 0.05)
    assert texts(figure) == ["0.4 ms", "2.5 s"]
    assert "a training takes 50 ms" in figure.axes[0].get_xlabel()
    assert texts(times_figure(["random"], [0.0], 0.0)) == ["0.0 ms"]
    assert format_seconds(12_345.6) == "12,346 s"


def test_svg_for_a_page_is_one_element_whose_ids_are_its_own() -> None:
    figure = learning_figure(two(), "headline")
    text = inline_svg(figure, "curves", r'Curves of "two" in C:\data\1')
    assert text.startswith(r'<svg role="img" aria-label="Curves of &quot;two&quot; in C:\data\1"')
    assert text.endswith("</svg>")
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert all(each.startswith("curves-") for each in ids)
    used = re.findall(r'href="#([^"]+)"', text) + re.findall(r"url\(#([^)]+)\)", text)
    assert used
    assert set(used) <= set(ids)


def test_svg_for_a_page_takes_the_page_s_ink_and_is_the_same_every_time() -> None:
    once, again = (inline_svg(learning_figure(two(), "headline"), "a", "alt") for _ in range(2))
    assert once == again
    assert "var(--ink)" in once
    assert "#222222" not in once
    assert strategy_color("doubt-coreset").lower() in once.lower()


def test_a_comparison_without_a_finding_is_hollow_whatever_its_size() -> None:
    unsure = Comparison("coreset", "random", 2, Interval(0.5, np.nan, np.nan), np.nan, np.nan, 1.0, np.nan, None)
    marks = [line for line in areas_figure([[unsure]]).axes[0].lines if line.get_marker() == "o"]
    assert to_hex(marks[0].get_markerfacecolor()) == "#ffffff"
