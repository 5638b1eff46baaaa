"""Tables of a report, as HTML: each sorts by a click on a heading."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import inf, isfinite, isnan

import numpy as np

from dubito.experiments.findings.pairs import Interval, shown_p
from dubito.experiments.findings.saved import NOT_REACHED, shown_saved
from dubito.experiments.findings.statistics import Comparison, Saving, area
from dubito.experiments.findings.summary import Summary
from dubito.plots.comparing import shown_seconds
from dubito.plots.style import strategy_colour

MOST_CLASSES = 40
"""Classes shown; of more, those that random gets worst."""


@dataclass(frozen=True, slots=True)
class TableCell:
    """What is shown, as HTML, and what sorts it."""

    html: str
    value: float
    is_best: bool = False

    def render(self) -> str:
        """A ``<td>``; a value that is no number sorts last."""
        key = f"{self.value:.10g}" if isfinite(self.value) else ""
        return f'<td data-value="{key}"{" class=best" if self.is_best else ""}>{self.html}</td>'


def render_table(
    caption: str, heads: Sequence[str], rows: Sequence[tuple[str, Sequence[TableCell]]], foot: Sequence[TableCell] = ()
) -> str:
    """A table whose rows begin with their name; a foot, the worst class, stays below however it is sorted.

    Examples
    --------
    >>> print(render_table("Times", ["strategy", "seconds"], [("random", [TableCell("1 s", 1.0)])]))
    <div class="scroll"><table><caption>Times</caption>
    <thead><tr><th scope="col"><button>strategy</button></th><th scope="col"><button>seconds</button></th></tr></thead>
    <tbody>
    <tr><td>random</td><td data-value="1">1 s</td></tr>
    </tbody></table></div>
    """
    top = "".join(f'<th scope="col"><button>{escape(head)}</button></th>' for head in heads)
    body = "\n".join(f"<tr><td>{name}</td>{''.join(cell.render() for cell in cells)}</tr>" for name, cells in rows)
    below = (
        f"\n<tfoot><tr><td><strong>worst class</strong></td>{''.join(cell.render() for cell in foot)}</tr></tfoot>"
        if foot
        else ""
    )
    return (
        f'<div class="scroll"><table><caption>{escape(caption)}</caption>\n<thead><tr>{top}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>{below}</table></div>"
    )


def strategy_html(name: str) -> str:
    """A strategy's name beside a dot of its colour; a long one may break between its settings."""
    shown = re.sub(r"([:,])", r"\1<wbr>", escape(name))
    return f'<span class="swatch" style="background:{strategy_colour(name)}"></span>{shown}'


def statistics_table(summary: Summary) -> str:
    """The primary endpoint and all that belongs to it, a row for each strategy."""
    heads = [
        "strategy",
        f"accuracy at\n{summary.curves[0].labels[-1]:,} labels",
        "labels saved",
        "mean over\nthe curve",
        "against random,\npoints",
        "its p,\nHolm",
        "its p,\nWilcoxon",
        *(["against coreset,\npoints", "its p,\nHolm"] if summary.against_coreset else []),
        *(["variance over\nrandom's"] if any(each.variance_ratio for each in summary.against_random) else []),
    ]
    rows = [(strategy_html(name), list(_statistics(summary, place, name))) for place, name in enumerate(summary.names)]
    _mark_best(rows, columns=(0, 2))
    caption = "95% intervals in brackets. Seeds are paired; p under 0.05 is called significant."
    return render_table(caption, heads, rows)


def _statistics(summary: Summary, place: int, name: str) -> Iterator[TableCell]:
    curve = summary.curves[place]
    spread = f" <small>± {100 * curve.spread[-1]:.1f}</small>" if len(summary.seeds) > 1 else ""
    yield TableCell(f"{curve.mean[-1]:.1%}{spread}", float(curve.mean[-1]))
    yield _saved(next((each for each in summary.savings if each.name == name), None))
    yield TableCell(f"{area(curve).mean():.1%}", float(area(curve).mean()))
    against = _of(summary.against_random, name)
    yield _difference(against)
    yield _p(None if against is None else against.p_holm)
    yield _p(None if against is None else against.p_wilcoxon)
    if summary.against_coreset:
        other = _of(summary.against_coreset, name)
        yield _difference(other)
        yield _p(None if other is None else other.p_holm)
    if any(each.variance_ratio for each in summary.against_random):
        yield _ratio(None if against is None else against.variance_ratio)


def _of(comparisons: Sequence[Comparison], name: str) -> Comparison | None:
    return next((each for each in comparisons if each.name == name), None)


NOTHING = TableCell("–", np.nan)


def _difference(each: Comparison | None) -> TableCell:
    if each is None:
        return NOTHING
    gain = each.difference
    brackets = "" if isnan(gain.low) else _below(f"{100 * gain.low:+.1f} to {100 * gain.high:+.1f}")
    return TableCell(f"{100 * gain.estimate:+.1f}{brackets}", gain.estimate)


def _below(interval: str) -> str:
    """An interval in brackets, on a line of its own, so that the whole table fits a page."""
    return f' <small class="below">[{interval}]</small>'


def _p(p: float | None) -> TableCell:
    return NOTHING if p is None or isnan(p) else TableCell(escape(shown_p(p)), p, is_best=p < 0.05)


def _saved(each: Saving | None) -> TableCell:
    if each is None:
        return NOTHING
    number, _, ends = shown_saved(each).partition(" [")
    return TableCell(number + (_below(ends.rstrip("]")) if ends else ""), each.saved.estimate)


def _ratio(ratio: Interval | None) -> TableCell:
    if ratio is None or isnan(ratio.estimate):
        return NOTHING
    brackets = "" if isnan(ratio.low) else _below(f"{ratio.low:.2g} to {ratio.high:.2g}")
    return TableCell(f"{ratio.estimate:.2g}{brackets}", ratio.estimate)


def _mark_best(rows: Sequence[tuple[str, list[TableCell]]], columns: Sequence[int]) -> None:
    """Print the largest of a column in bold."""
    for column in columns:
        best = max(cells[column].value for _, cells in rows)
        for _, cells in rows:
            cell = cells[column]
            cells[column] = TableCell(cell.html, cell.value, is_best=cell.value == best)


def targets_table(summary: Summary) -> str:
    """Labels that each strategy needs for given accuracies."""
    rows = [
        (strategy_html(name), [_labels(labels) for labels in needed])
        for name, needed in zip(summary.names, summary.needed, strict=True)
    ]
    caption = (
        "Labels needed to reach an accuracy, on the mean curve made non-decreasing; straight lines between rounds."
    )
    return render_table(caption, ["strategy", *(f"{target:.1%}" for target in summary.targets)], rows)


def _labels(labels: float) -> TableCell:
    return (
        TableCell(f"{round(labels):,}", labels) if isfinite(labels) else TableCell(f"<small>{NOT_REACHED}</small>", inf)
    )


def recall_table(summary: Summary, classes: Sequence[str]) -> str:
    """Each class's recall in the end, a row for each class, and below them the worst class of each strategy."""
    table = np.array(summary.recall)
    names = [*classes, *(f"class {place}" for place in range(len(classes), table.shape[1]))]
    shown = np.argsort(table[summary.names.index("random")], kind="stable")[:MOST_CLASSES]
    rows = [(escape(names[place]), _recalls(table[:, place])) for place in sorted(shown.tolist())]
    left = "" if len(shown) == table.shape[1] else f"; the {len(shown)} of {table.shape[1]} that random gets worst"
    caption = f"Recall of each class after the last round, mean over seeds, %{left}."
    return render_table(caption, ["class", *summary.names], rows, _recalls(np.nanmin(table, axis=1)))


def _recalls(shares: Sequence[float] | np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[TableCell]:
    return [NOTHING if isnan(share) else TableCell(f"{100 * share:.1f}", float(share)) for share in shares]


def times_table(summary: Summary) -> str:
    """Mean seconds of a selection and of a training."""
    rows = [
        (strategy_html(name), [TableCell(shown_seconds(chosen), chosen), TableCell(shown_seconds(trained), trained)])
        for name, chosen, trained in zip(summary.names, summary.select_seconds, summary.train_seconds, strict=True)
    ]
    return render_table("Mean time on the machine named below.", ["strategy", "a selection", "a training"], rows)
