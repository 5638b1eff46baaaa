"""What to know before leaning on an experiment's numbers, in sentences that stand below its table."""

from collections.abc import Iterator
from math import isfinite, isnan

from dubito.experiments.findings.alike import told_alike
from dubito.experiments.findings.statistics import FEWEST_FOR_BOOTSTRAP, seeds_note
from dubito.experiments.findings.summary import Summary, listed

HARDLY = 0.05
"""Training accuracy this little above guessing is no learning."""


def notes(summary: Summary) -> tuple[str, ...]:
    """What to know before leaning on the numbers."""
    said = [*_notes_on_learning(summary), seeds_note(len(summary.seeds))]
    if summary.left_out:
        said.append(
            f"The experiment is not finished: {summary.left_out} records of cells that not every strategy has "
            f"are left out; shown is what all have, up to {summary.curves[0].labels[-1]:,} labels."
        )
    if summary.not_begun:
        said.append(f"Not begun yet, and not in any number here: {listed(summary.not_begun)}.")
    said += _notes_on_differences(summary)
    if summary.savings:
        said += _notes_on_savings(summary)
    return tuple(said)


def _notes_on_learning(summary: Summary) -> Iterator[str]:
    """That the models diverged or stood still, which no strategy can help."""
    guessing = 1.0 / len(summary.recall[0])
    if summary.train_accuracy <= guessing + HARDLY:
        yield (
            f"The models have hardly learnt: {summary.train_accuracy:.0%} of their own labels are right after the last "
            f"training, where guessing gives {guessing:.0%}. Look at learning_rate and epochs before anything else."
        )


def _notes_on_differences(summary: Summary) -> Iterator[str]:
    for names in summary.alike:
        yield f"{listed(names)} {told_alike(names, len(summary.recall[0]))}"
    if len(summary.seeds) > 1:
        same = [each.name for each in summary.against_random if isnan(each.detectable)]
        if same:
            yield (
                f"{listed(same)}: the difference to random is the same under every seed. Without spread there is "
                "nothing to judge it by, so it has no interval, and no p that tells anything: run more seeds, or test "
                "on more rows."
            )
    detectable = [each.detectable for each in summary.against_random if isfinite(each.detectable)]
    if detectable:
        ends = dict.fromkeys(f"{100 * end:.1f}" for end in (min(detectable), max(detectable)))
        yield (
            f"Power: given the spread seen, a single comparison finds a true difference of {' to '.join(ends)} points "
            "with 80% probability; smaller ones may well have been missed."
        )


def _notes_on_savings(summary: Summary) -> Iterator[str]:
    if 1 < len(summary.seeds) < FEWEST_FOR_BOOTSTRAP:
        yield f"Labels saved have no interval below {FEWEST_FOR_BOOTSTRAP} seeds: it would be far too narrow."
    reached, last = summary.savings[0].baseline_needed, float(summary.curves[0].labels[-1])
    if round(reached) < last:
        yield (
            f"Labels saved: random gains nothing more after {round(reached):,} labels on its curve made non-decreasing "
            f"({summary.savings[0].accuracy:.1%}), so they are counted to there and not to {round(last):,}. "
            "A strategy that ends above random may have got to that accuracy later."
        )
    below = {each.name for each in summary.against_random if each.difference.estimate < 0.0}
    late = [each.name for each in summary.savings if each.name in below and each.saved.estimate >= 1.0]
    if late:
        yield (
            f"{listed(late)}: labels saved though below random on average, because the curve is lower at first and "
            "higher in the end."
        )
