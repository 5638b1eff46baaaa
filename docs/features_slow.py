"""The strategies that take long: a run of their own beside the clean one, paired with it seed by seed."""

from collections.abc import Iterator

import numpy as np
from features_record import HEADS, Study, beside, difference, emphasised, heads, held_against, reached, shown_saved
from features_words import SLOW

from dubito.experiments.statistics import Steady, holm, shown_p


def slow_table(study: Study) -> Iterator[str]:
    """The strategies that take long; `coreset` is the clean run's, seed by seed."""
    slow, coreset = study["slow"], beside(study, "slow").area("coreset")
    names = [name for name in slow.names if name != "random"]
    apart = [difference(slow.area(name), coreset) for name in names]
    corrected = holm([p for _, p in apart])
    yield from heads([*HEADS, "a selection"])
    for name, (text, _), p in zip(names, apart, corrected, strict=True):
        described, seconds = slow.strategy(name), Steady(slow.strategy(name)["select_seconds"])
        cells = [*reached(described), *held_against(slow, "random", name), text, emphasised(float(p))]
        yield f"| `{name}` | {' | '.join(cells)} | {shown_saved(slow.saved(name))} | {seconds:.1f} s |"


def about_slow(study: Study) -> str:
    """Which of the slow strategies is above random, which below, and how the best of them stands to margin."""
    slow, margin = study["slow"], beside(study, "slow").area("margin")
    verdicts = {1: "above random beyond chance", 0: "not distinguishable from it", -1: "below it beyond chance"}
    found = {
        sign: [
            f"`{name}` ({Steady(100 * slow.against('random', name)['difference']['estimate']):+.2f})"
            for name in slow.names
            if name != "random" and slow.verdict(name) == sign
        ]
        for sign in verdicts
    }
    said = "; ".join(f"{verdicts[sign]}: {', '.join(names) or 'none'}" for sign, names in found.items())
    best = max((name for name in slow.names if name != "random"), key=lambda name: slow.area(name).mean())
    text, p = difference(slow.area(best), margin)
    return (
        f"- **What takes long**, on the clean pool: {said}. The best of them, `{best}`, is {text} points from "
        f"`margin` (p = {shown_p(p)})."
    )


def slow_section(study: Study) -> Iterator[str]:
    """The table of the strategies that take long, and how it was made."""
    again = study["slow"].area("random") - beside(study, "slow").area("random")
    versions = study["slow"].results["about"]["facts"]["versions"]
    yield SLOW.format(apart=f"{Steady(100 * np.abs(again).max()):.2f}", versions=versions)
    yield from slow_table(study)
    yield ""
