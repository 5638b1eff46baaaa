"""Labels saved, in the one wording that headlines, tables and pictures share."""

from math import isfinite, isnan

from dubito.experiments.findings.statistics import Saving

NOT_REACHED = "not reached"
"""Of a strategy, or of an end of its interval, that never gets to what the baseline learns."""


def is_sure(saving: Saving) -> bool:
    """Whether labels were saved beyond chance: there is an interval, and even its low end saves one.

    Pictures claim nothing else.

    Examples
    --------
    >>> from dubito.experiments.findings.pairs import Interval
    >>> told = Saving("coreset", "random", 0.9, 100.0, 140.0, Interval(40.0, 20.0, 60.0))
    >>> is_sure(told), shown_saved(told)
    (True, '40 [20 to 60]')
    >>> told = Saving("coreset", "random", 0.9, 100.0, 140.0, Interval(40.0, -float("inf"), 60.0))
    >>> is_sure(told), shown_saved(told)
    (False, '40 [not reached to 60]')
    """
    return isfinite(saving.needed) and saving.saved.low > 0.5


def shown_saved(saving: Saving) -> str:
    """The labels saved with their interval in brackets, where there is one; below 0 are those it took more."""
    if not isfinite(saving.needed):
        return NOT_REACHED
    ends = shown_ends(saving)
    return f"{round(saving.saved.estimate):,}" + (f" [{ends}]" if ends else "")


def shown_ends(saving: Saving) -> str:
    """The interval's ends; nothing where there are too few seeds for one."""
    if isnan(saving.saved.low):
        return ""
    low, high = (f"{round(end):,}" if isfinite(end) else NOT_REACHED for end in (saving.saved.low, saving.saved.high))
    return f"{low} to {high}"


def told_saved(saving: Saving) -> str:
    """Labels that a strategy needed for what the baseline learns, and how many that spares, as a sentence has it."""
    whole = f"{round(saving.baseline_needed):,}"
    if not isfinite(saving.needed):
        return f"yet it does not reach what {saving.baseline} learns from {whole} labels"
    saved, ends = round(saving.saved.estimate), shown_ends(saving)
    spared = f"{saved:,} saved" if saved >= 0 else f"{-saved:,} more"
    interval = f" (95% interval {ends})" if ends else ""
    hedge = ", but not surely" if ends and saved >= 0 and not is_sure(saving) else ""
    needed = f"{round(saving.needed):,}"
    return f"it needs {needed} labels for what {saving.baseline} learns from {whole}: {spared}{hedge}{interval}"
