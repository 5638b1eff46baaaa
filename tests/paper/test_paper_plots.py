"""Pictures of the paper's figures: one for every finding, whose headline says what was measured."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from dubito.errors import InvalidArgument
from dubito.experiments.records import Curve
from dubito.paper.coreset_studies import BeamsStudy, QuadrantsStudy, RadiiStudy
from dubito.paper.mixture_studies import HeatmapStudy, MixtureStudy, Tail, TailStudy
from dubito.paper.plots import paper_figure
from dubito.paper.statement_studies import BetaStudy, DiscussionStudy, TimingStudy
from dubito.paper.study import Study
from dubito.paper.toy_studies import AcquisitionsStudy, Concentration, ConcentrationStudy, NegativeStudy, ToyStudy

TOY = {"n": 200, "initial": 30, "batch": 10, "rounds": 1, "seeds": 1, "batches": 3, "iterations": 3}
STUDIES: dict[str, tuple[Study, str]] = {
    "radii": (RadiiStudy(n=25, k=3, pools=2), "3 picks, three radii"),
    "quadrants": (QuadrantsStudy(n=200, steps=2, seeds=1), "within 0.2 of a class boundary"),
    "beams": (BeamsStudy(n=200, budget=6, width=3, pools=1), "a beam of 3"),
    "beta": (BetaStudy(z=(0.1, 0.5), points=61), "bound on β"),
    "mixture": (MixtureStudy(n=200, components=8), "8 Gaussians"),
    "heatmap": (HeatmapStudy(n=200, components=8, batch=4, batches=60), "high scores"),
    "tail": (TailStudy(200, 8, 4, 60, (4,), (2,)), "the longer tail is on the"),
    "toy": (ToyStudy(**TOY), "clusters that hardly overlap"),
    "toy at 1": (ToyStudy(deviation=1.0, **TOY), "clusters that overlap much"),
    "acquisitions": (AcquisitionsStudy(**TOY), "of entropy's picks"),
    "negative": (NegativeStudy(**TOY), "times the cost of Algorithm 2"),
    "timing": (TimingStudy(n=400, d=8, budget=20, sizes=(20, 40), repeats=1), "a core-set of 20 takes"),
    "timing, picks": (TimingStudy(n=400, d=8, budget=20, sizes=(20, 40), repeats=2, budgets=(20, 60)), "on this CPU"),
    "discussion": (DiscussionStudy(initial=20, batch=20, rounds=2, seeds=2), "scaling gains most at"),
    "concentration": (ConcentrationStudy(3, 3, 1.0, 200, 20, 10, 1, 1, (), 3), "least confidence"),
}


def words(figure: Figure) -> str:
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    return "\n".join([*(text.get_text() for text in figure.texts), *titles])


@pytest.mark.parametrize("name", STUDIES)
def test_every_finding_has_a_picture_whose_headline_says_what_was_measured(name: str) -> None:
    study, said = STUDIES[name]
    figure = paper_figure(study.measure(0))
    figure.draw_without_rendering()
    assert said in words(figure)


def test_what_is_no_finding_has_no_picture() -> None:
    with pytest.raises(InvalidArgument, match="finding=3 has no plot"):
        paper_figure(3)


def test_the_headline_of_figure_1_follows_the_numbers() -> None:
    rows = {name: np.array([[0, 1]]) for name in ("random", "least-confidence", "coreset")}

    def described(least: float) -> Concentration:
        curves = tuple(
            Curve(name, np.array([10, 20]), np.array([[0.5, end]]))
            for name, end in (("random", 0.6), ("least-confidence", least), ("coreset", 0.7))
        )
        return Concentration(np.eye(2), np.array([0, 1]), np.zeros(2), rows, curves, {})

    assert "falls below random" in words(paper_figure(described(0.55)))
    assert "does not fall below random" in words(paper_figure(described(0.65)))


def test_the_headline_of_the_tail_names_its_side() -> None:
    scores = np.array([0.0, 0.9, 1.0, 1.0])
    left = Tail(scores, 8, 4, (4,), (2,), np.array([[-0.5]]))
    assert "on the left" in words(paper_figure(left))
    assert "on the right" in words(paper_figure(replace(left, scores=-scores)))
