"""The report as one HTML page that needs nothing else: pictures, styles and the little script are inside."""

from collections.abc import Iterator, Mapping
from html import escape
from importlib.resources import files

from matplotlib.figure import Figure

from dubito.experiments.findings.saved import is_sure
from dubito.experiments.findings.sentences import notes
from dubito.experiments.findings.summary import Summary, finding
from dubito.plots.comparing import areas_figure, pairwise_figure, savings_figure, times_figure
from dubito.plots.inline import inline_svg
from dubito.plots.learning import differences_figure, learning_figure
from dubito.reports.about import About
from dubito.reports.tables import recall_table, statistics_table, targets_table, times_table

METHOD = (
    "The primary endpoint, fixed in advance, is the area under the learning curve of each seed, divided by its width: "
    "the mean accuracy between the first and the last number of labels.",
    "Strategies share, seed by seed, the test set, the first labels and the model's start, so tests are on differences "
    "within a seed: two-sided paired t tests with 95% intervals, and Holm's correction over the strategies held "
    "against the same baseline, in which strategies that asked for the same rows count once. Intervals themselves are "
    "not corrected.",
    "The Wilcoxon test is exact, two-sided and not corrected.",
    "Labels saved: how much sooner a strategy's mean curve reaches what random has learned in the end. Both curves are "
    "made non-decreasing first: where one falls, the rounds around are averaged. Counted is up to where random first "
    "has its last level, which is before the last round if it gains nothing more. The interval is a percentile "
    "bootstrap over seeds (2,000 draws), told from 5 seeds on; 'not reached' is an end at which the strategy does not "
    "get there at all. Pictures claim labels saved only where the whole interval does.",
    "Who beats whom: a paired t test at 95% for each number of labels after the first, not corrected, as in BADGE's "
    "paper.",
    "Ratios of variances have the interval of Pitman and Morgan for paired samples, and are told from 10 seeds on.",
)
TIMES = (
    "The time of a selection is what choosing took, with the training of a committee where one was asked. Runs begun "
    "on a CPU with a dubito before 0.1.0 have the model's predictions over the pool in it, too."
)


def render_report(summary: Summary, about: About, links: Mapping[str, str]) -> str:
    """The whole page.

    Parameters
    ----------
    summary : Summary
        The statistics.
    about : About
        What was run.
    links : mapping
        Files beside the page: what a link says, and where it leads.
    """
    sections = "\n".join(_sections(summary, about, links))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(about.title)}</title>\n<style>\n{_asset('report.css')}</style>\n</head>\n<body>\n"
        f"{sections}\n<script>\n{_asset('report.js')}</script>\n</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return files("dubito.reports").joinpath(name).read_text(encoding="utf-8")


def _sections(summary: Summary, about: About, links: Mapping[str, str]) -> Iterator[str]:
    yield f"<header>\n<h1>{escape(about.title)}</h1>\n<p class='finding'>{escape(finding(summary))}</p>"
    yield from (f"<p class='partial' role='status'>{escape(note)}</p>" for note in _warnings(summary, about))
    yield "</header>\n<main>"
    yield _figure("curves", curves_picture(summary), curves_alt(summary))
    yield f"<h2>What the seeds show</h2>\n{statistics_table(summary)}"
    yield from (f"<p class='quiet'>{escape(note)}</p>" for note in notes(summary))
    if summary.against_random:
        yield from _comparisons(summary)
    yield f"<h2>Labels for a given accuracy</h2>\n{targets_table(summary)}"
    yield f"<h2>Class by class</h2>\n{recall_table(summary, about.classes)}"
    yield "<h2>What selecting costs</h2>"
    times = times_figure(summary.names, summary.select_seconds, sum(summary.train_seconds) / len(summary.train_seconds))
    yield _figure("times", times, "Bars: mean time of a selection, by strategy; the table below has the numbers", True)
    yield times_table(summary)
    yield f"<p class='quiet'>{escape(TIMES)}</p>"
    yield from _what_was_run(about, links)
    yield "</main>\n<footer><p>Made by dubito. This page needs no network.</p></footer>"


def _warnings(summary: Summary, about: About) -> Iterator[str]:
    """What a reader must not overlook: a run that is not over yet."""
    seeds = f"{len(summary.seeds)} {'seed' if len(summary.seeds) == 1 else 'seeds'}"
    waiting = f" Not begun yet: {', '.join(summary.not_begun)}." if summary.not_begun else ""
    recorded = summary.left_out + sum(curve.accuracy.size for curve in summary.curves)
    if about.expected is not None and recorded < about.expected:
        yield (
            f"Not finished: {recorded:,} of {about.expected:,} trainings are recorded. Shown is what all strategies "
            f"{'begun ' if summary.not_begun else ''}have: {seeds}, up to "
            f"{summary.curves[0].labels[-1]:,} labels.{waiting}"
        )


def _comparisons(summary: Summary) -> Iterator[str]:
    yield "<h2>How sure that is</h2>"
    yield _figure(
        "areas",
        areas_figure([summary.against_random, summary.against_coreset]),
        "Intervals: each strategy's mean accuracy over the curve less a baseline's; the table above has the numbers",
    )
    yield _figure(
        "differences", differences_figure(summary.curves), "Accuracy above random against labels, by strategy"
    )
    yield "<h2>Labels saved</h2>"
    yield _figure(
        "savings",
        savings_figure(summary.savings),
        "Bars: labels saved against random with intervals, by strategy",
        True,
    )
    if len(summary.seeds) > 1:
        yield "<h2>Who beats whom</h2>"
        yield _figure(
            "pairwise",
            pairwise_figure(summary.names, summary.penalties),
            "Matrix: the share of label counts at which the row's strategy is significantly above the column's",
            True,
        )


def curves_picture(summary: Summary, detail: str = "") -> Figure:
    """The learning curves with the finding as headline, and an arrow where labels were surely saved."""
    better = [each for each in summary.against_random if each.is_better]
    leader = max(better, key=lambda each: each.difference.estimate, default=None)
    saving = next((each for each in summary.savings if leader is not None and each.name == leader.name), None)
    seeds = len(summary.seeds)
    spread = f"mean and one standard deviation of {seeds} seeds" if seeds > 1 else "one seed"
    return learning_figure(
        summary.curves, short_finding(summary), f"{detail}; {spread}" if detail else spread, saving=saving
    )


def short_finding(summary: Summary) -> str:
    """The finding in the few words of a headline."""
    better = [each for each in summary.against_random if each.is_better]
    if not better:
        return (
            "nothing beat random beyond chance"
            if len(summary.seeds) > 1
            else "one seed, which cannot tell a gain from chance"
        )
    leader = max(better, key=lambda each: each.difference.estimate)
    saving = next(each for each in summary.savings if each.name == leader.name)
    if not is_sure(saving):
        return f"{leader.name} is {100 * leader.difference.estimate:.1f} points above random on average"
    return (
        f"{leader.name} needs {round(saving.needed):,} labels for what random learns "
        f"from {round(saving.baseline_needed):,}"
    )


def curves_alt(summary: Summary) -> str:
    """The learning curves in words, for who cannot see them."""
    ends = ", ".join(f"{curve.name} {curve.mean[-1]:.1%}" for curve in summary.curves)
    first, last = summary.curves[0].labels[0], summary.curves[0].labels[-1]
    return f"Learning curves from {first:,} to {last:,} labels; accuracy in the end: {ends}"


def _figure(name: str, figure: Figure, alt: str, is_narrow: bool = False) -> str:
    kind = ' class="narrow"' if is_narrow else ""
    # A picture wider than a phone scrolls, so a keyboard must be able to reach it.
    return f'<figure{kind} tabindex="0">{inline_svg(figure, name, alt)}</figure>'


def _what_was_run(about: About, links: Mapping[str, str]) -> Iterator[str]:
    yield "<h2>What was run</h2>\n<dl>"
    yield "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in about.facts)
    yield "</dl>"
    if links:
        shown = ", ".join(f'<a href="{escape(where, quote=True)}">{escape(what)}</a>' for what, where in links.items())
        yield f"<p>Beside this page: {shown}.</p>"
    if about.settings:
        yield f"<details><summary>The experiment as a file</summary>\n<pre>{escape(about.settings)}</pre></details>"
    listed = "\n".join(f"<li>{escape(each)}</li>" for each in METHOD)
    yield f"<details open><summary>How to read the statistics</summary>\n<ul>\n{listed}\n</ul></details>"
