"""Pictures of what was asked for."""

import numpy as np

from dubito.experiments.plots.picks import PickedPictures, picks_figure


def test_a_row_of_images_for_each_strategy_with_what_was_misread_marked() -> None:
    images, classes = np.zeros((6, 8, 8)), np.array([0, 0, 1, 1, 2, 2])
    asked = [
        PickedPictures("random", np.array([0, 1, 2]), np.array([False, True, True])),
        PickedPictures("coreset", np.array([0, 2, 4]), np.array([False, False, False])),
    ]
    figure = picks_figure(images, classes, asked, "a headline", "a detail")
    assert [[text.get_text() for text in axes.texts] for axes in figure.axes] == [
        ["random", "2 classes, 2 misread"],
        ["coreset", "3 classes, 0 misread"],
    ]
    assert [(len(axes.images), len(axes.lines)) for axes in figure.axes] == [(3, 2), (3, 0)]
    assert [text.get_text() for text in figure.texts] == ["a headline", "a detail"]
