"""One experiment on images: its curves, its tables, and what it took."""

from collections.abc import Iterator, Sequence

import numpy as np
from networks_record import Record, bold_p, heads, shown
from networks_words import EXPERIMENTS

from dubito.experiments.statistics import Comparison, Steady, area

MOST_COLUMNS = 9
"""Numbers of labels in a table of accuracies."""
PAPERS = ("random", "coreset", "doubt-coreset")


def section(record: Record) -> Iterator[str]:
    words = EXPERIMENTS[record.name]
    yield f"### {record.name}"
    yield f"\n**{words.title}.** {words.about} {len(record.summary.seeds)} seeds.\n"
    yield f"![Learning curves: {words.title}](images/network-{record.name}.png)\n"
    yield from accuracy_table(record)
    yield ""
    yield from statistics_table(record)
    yield f"\n{times(record)}\n"


def accuracy_table(record: Record) -> Iterator[str]:
    labels = record.summary.curves[0].labels
    if len(labels) > MOST_COLUMNS:
        yield f"{MOST_COLUMNS} of the {len(labels)} numbers of labels; the picture has all.\n"
    places = sorted({round(each) for each in np.linspace(0, len(labels) - 1, min(MOST_COLUMNS, len(labels)))})
    yield from heads(["accuracy, %", *(f"{labels[place]:,} labels" for place in places)])
    for curve in record.summary.curves:
        cells = [f"{Steady(100 * curve.mean[place]):.1f} ± {Steady(100 * curve.spread[place]):.1f}" for place in places]
        yield f"| `{curve.name}` | {' | '.join(cells)} |"


def statistics_table(record: Record) -> Iterator[str]:
    described = record.summary
    yield from heads(
        [
            "strategy",
            "mean over the curve",
            "against random",
            "p",
            "against coreset",
            "p",
            "labels saved",
            "median selection",
        ]
    )
    saved = {each.name: each.saved for each in described.savings}
    for curve in described.curves:
        cells = [f"{Steady(100 * area(curve).mean()):.2f}"]
        for baseline in (described.against_random, described.against_coreset):
            cells += held_against(curve.name, baseline)
        cells.append(shown_saved(saved[curve.name]) if curve.name in saved else "–")
        yield f"| `{curve.name}` | {' | '.join(cells)} | {Steady(selection_seconds(record, curve.name)):.2f} s |"


def held_against(name: str, baseline: Sequence[Comparison]) -> list[str]:
    described = next((each for each in baseline if each.name == name), None)
    return ["–", "–"] if described is None else [shown(described.difference), bold_p(described.p_holm)]


def shown_saved(saved: object) -> str:
    ends = [getattr(saved, key) for key in ("estimate", "low", "high")]
    described = ["never" if not np.isfinite(end) else f"{Steady(end):,.0f}" for end in ends]
    return (
        described[0]
        if np.isnan(ends[1]) or set(described) == {"never"}
        else f"{described[0]} [{described[1]}, {described[2]}]"
    )


def times(record: Record) -> str:
    """What training and selecting took; the first training of a seed, which its strategies share, counts once."""
    trained = {(each.strategy if each.turn else "", each.seed, each.turn): each for each in record.rounds}
    model = record.experiment.model
    images = sum(each.labels * (model.later_epochs if each.turn else model.epochs) for each in trained.values())
    training = sum(each.train_seconds for each in trained.values())
    selecting = sum(each.select_seconds for each in record.rounds)
    return (
        f"{len(trained)} trainings, {Steady(images / 1e6):,.1f} million images in {Steady(training):,.0f} s: "
        f"{Steady(images / training):,.0f} images a second. Selecting took {Steady(selecting):,.1f} s in all, "
        f"{Steady(selecting / (training + selecting)):.1%} of both; {paper_share(record, training)}"
    )


def selections(record: Record, name: str) -> list[float]:
    """Seconds of each selection."""
    return [each.select_seconds for each in record.rounds if each.strategy == name and each.picked]


def selection_seconds(record: Record, name: str) -> float:
    """The median: a first call compiles kernels, and is no measure."""
    return float(np.median(selections(record, name)))


def paper_share(record: Record, training: float) -> str:
    """The same for the paper's own strategies, each at its median."""
    own = [name for name in record.summary.names if name.startswith(PAPERS)]
    selecting = sum(len(selections(record, name)) * selection_seconds(record, name) for name in own)
    trained = training * len(own) / len(record.summary.names)
    return (
        f"for random and core-sets alone, selections at their median, {Steady(selecting / (trained + selecting)):.1%}."
    )
