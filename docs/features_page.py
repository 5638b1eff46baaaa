"""The page of the study on frozen features: its tables, and sentences that are checked before they are written."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from features_record import (
    HEADS,
    Record,
    Study,
    beside,
    claim,
    difference,
    heads,
    held_against,
    reached,
    shown,
    shown_saved,
)
from features_slow import about_slow, slow_section
from features_words import AFTER_RADII, COSTS, INTRODUCTION, POOLS, RERUN

from dubito.experiments.statistics import Steady, holm, shown_p
from dubito.matrix import FloatArray

PARTS = (*POOLS, "badge", "slow")
DOUBT = "doubt-coreset"
STRENGTHS = tuple(f"{DOUBT}:strength={each}" if each != "1" else DOUBT for each in ("0.25", "0.5", "1", "2"))


def pools_where(study: Study, name: str, verdict: int) -> tuple[str, ...]:
    return tuple(pool for pool in POOLS if study[pool].verdict(name) == verdict)


# Tables


def pool_table(record: Record) -> Iterator[str]:
    yield from heads(HEADS)
    for name in record.names:
        cells = [*reached(record.strategy(name)), *held_against(record, "random", name)]
        cells += held_against(record, "coreset", name)
        cells.append("–" if name == "random" else shown_saved(record.saved(name)))
        yield f"| `{name}` | {' | '.join(cells)} |"


def steps_table(study: Study) -> Iterator[str]:
    """Each strength against the next smaller, with Holm's correction over the steps of a pool."""
    yield from heads(["pool", "0.5 over 0.25", "p", "1 over 0.5", "p", "2 over 1", "p"])
    for pool in POOLS:
        areas = [study[pool].area(name) for name in STRENGTHS]
        steps = [difference(more, less) for less, more in pairwise(areas)]
        corrected = holm([p for _, p in steps])
        cells = [f"{text} | {shown_p(float(p))}" for (text, _), p in zip(steps, corrected, strict=True)]
        yield f"| {pool} | {' | '.join(cells)} |"


def radii_table(study: Study) -> Iterator[str]:
    radii = [f"{radius} of `{name}`" for radius in ("δ", "δ̂") for name in ("coreset", DOUBT)]
    yield from heads(["pool", *radii, "gain", "over rounds", "over seeds"])
    for pool in POOLS:
        record = study[pool]
        cells = [path(record.radii[name][kind]) for kind in ("radius", "scaled_radius") for name in ("coreset", DOUBT)]
        gain = " → ".join(f"{Steady(each):+.1f}" for each in gains(record).mean(axis=0)[[1, 4, 9]])
        over_rounds, over_seeds = related(record)
        yield f"| {pool} | {' | '.join(cells)} | {gain} | {Steady(over_rounds):+.2f} | {Steady(over_seeds):+.2f} |"


def path(radii: FloatArray) -> str:
    """The mean at 2,000, 5,000 and 10,000 labels."""
    return " → ".join(f"{Steady(each):.0f}" for each in radii.mean(axis=0)[[1, 4, 9]])


def gains(record: Record) -> FloatArray:
    """(seeds, trainings) points of accuracy by which doubt-coreset is above coreset."""
    return 100 * (record.accuracy(DOUBT) - record.accuracy("coreset"))


def related(record: Record) -> tuple[float, float]:
    """The gain's correlation with coreset's δ: by ranks over the rounds, and over seeds, each seed's mean a point."""
    gain, radius = gains(record)[:, 1:], record.radii["coreset"]["radius"][:, 1:]
    ranks = [np.argsort(np.argsort(each.mean(axis=0))) for each in (gain, radius)]
    return float(np.corrcoef(*ranks)[0, 1]), float(np.corrcoef(gain.mean(axis=1), radius.mean(axis=1))[0, 1])


# Sentences


def reading(study: Study) -> Iterator[str]:
    pools = [study[pool] for pool in POOLS]
    yield from about_margin(study, pools)
    yield from about_coreset(study, pools)
    yield from about_doubts(study)


def about_margin(study: Study, pools: Sequence[Record]) -> Iterator[str]:
    leads = [Steady(100 * record.against("random", "margin")["difference"]["estimate"]) for record in pools]
    spared = [Steady(record.saved("margin")["estimate"]) for record in pools]
    best = all(max(record.names, key=lambda name: record.area(name).mean()) == "margin" for record in pools)
    yield claim(
        best,
        f"- **of these strategies `margin` is first on every pool, and even its gain is small**: {min(leads):+.1f} to "
        f"{max(leads):+.1f} points over random. The curves are flat, so that little is still "
        f"{min(spared):,.0f} to {max(spared):,.0f} of 10,000 labels.",
    )
    amiss = study["ambiguous"].against("random", "margin")["p_holm"]
    yield claim(
        pools_where(study, "margin", 1) == ("clean", "imbalanced", "mislabelled", "redundant"),
        f"  Beyond chance on four pools; not on the ambiguous one (p = {shown_p(amiss)}).",
    )
    late = study["redundant"].accuracy(STRENGTHS[3])[:, -1], study["redundant"].accuracy("margin")[:, -1]
    text, p = difference(*late)
    yield claim(
        late[0].mean() > late[1].mean(),
        f"  Where items repeat, its lead is gone by 10,000 labels: `{STRENGTHS[3]}` ends {text} points above it "
        f"(p = {shown_p(p)}).",
    )


def about_coreset(study: Study, pools: Sequence[Record]) -> Iterator[str]:
    below = [Steady(-100 * record.against("random", "coreset")["difference"]["estimate"]) for record in pools]
    amiss = study["imbalanced"].against("random", "coreset")["p_holm"]
    yield claim(
        pools_where(study, "coreset", -1) == ("clean", "ambiguous", "mislabelled", "redundant") and min(below) > 0,
        f"- **The plain core-set is below random on every pool**, by {min(below):.1f} to {max(below):.1f} "
        f"points; on the imbalanced pool not beyond chance (p = {shown_p(amiss)}).",
    )
    lifts = [record.verdict(name, "coreset") for record in pools for name in STRENGTHS]
    yield claim(
        all(each == 1 for each in lifts) and all(record.verdict(DOUBT) == 0 for record in pools),
        "- **Scaling by doubt lifts it to random's level, hardly above**: at every strength it is above the plain "
        "core-set beyond chance, on every pool; at strength 1 it cannot be distinguished from random on any.",
    )
    above = Steady(100 * study["ambiguous"].against("random", STRENGTHS[3])["difference"]["estimate"])
    tempered = [pools_where(study, name, -1) for name in STRENGTHS[:2]]
    yield claim(
        pools_where(study, STRENGTHS[3], 1) == ("ambiguous",)
        and set(tempered) == {("clean", "mislabelled", "redundant")},
        f"  Strength 2 beats random on the ambiguous pool alone ({above:+.2f} points); 0.25 and 0.5 stay below "
        "random on the clean, the mislabelled and the redundant pool.",
    )
    rising = [
        record.area(less).mean() < record.area(more).mean() for record in pools for less, more in pairwise(STRENGTHS)
    ]
    yield claim(
        all(rising),
        "- **More strength is better here**: 2 before 1 before 0.5 before 0.25 on every pool, though not every step is "
        "beyond chance (below). The probe is penalized strongly; nothing says that this carries over to a network that "
        "fits its labels perfectly.",
    )


def about_doubts(study: Study) -> Iterator[str]:
    summary = {pool: study[pool].against("random", "least-confidence")["difference"] for pool in POOLS}
    low = {pool: Steady(100 * each["estimate"]) for pool, each in summary.items()}
    yield claim(
        pools_where(study, "least-confidence", -1) == ("ambiguous", "redundant")
        and pools_where(study, "least-confidence", 1) == ("imbalanced",),
        f"- **`least-confidence` falls below random where items repeat** ({low['redundant']:+.2f} points) and where "
        f"they are ambiguous ({low['ambiguous']:+.2f}). On the imbalanced pool it is above random "
        f"({low['imbalanced']:+.2f}); on the other two it cannot be distinguished from it.",
    )
    clean = study["clean"]
    beam, p_beam = difference(clean.area(f"{DOUBT}:beam_width=10"), clean.area(DOUBT))
    other, p_other = difference(clean.area(f"{DOUBT}:scaling=acquired"), clean.area(DOUBT))
    yield claim(
        min(p_beam, p_other) > 0.05,
        f"- **A beam of 10 changes nothing measurable**: {beam} points over `{DOUBT}` (p = {shown_p(p_beam)}); nor "
        f"does the other reading of the paper's line 11, `scaling=acquired`: {other} (p = {shown_p(p_other)}).",
    )
    yield about_badge(study)
    if "slow" in study:
        yield about_slow(study)


def about_badge(study: Study) -> str:
    badge, clean = study["badge"], beside(study, "badge")
    summary = badge.against("random", "badge")
    behind, p = difference(badge.area("badge"), clean.area("margin"))
    slow, quick = badge.strategy("badge")["select_seconds"], clean.strategy(DOUBT)["select_seconds"]
    return claim(
        badge.verdict("badge") == 1 and p > 0.05,
        f"- **`badge`**, on the clean pool with {summary['seeds']} seeds: {shown(summary['difference'])} points over "
        f"random (p = {shown_p(summary['p'])}), not distinguishable from `margin` ({behind} points, "
        f"p = {shown_p(p)}), for "
        f"{Steady(slow):.0f} s a selection (mean over two machines; it has become quicker since) where `{DOUBT}` takes "
        f"{Steady(quick):.1f} s.",
    )


def place_from_below(record: Record, name: str) -> int:
    return sorted(record.names, key=lambda each: record.area(each).mean()).index(name)


def radii_reading(study: Study) -> list[str]:
    """What stands above the table, and what below it."""
    ends = [{name: each["radius"][:, -1].mean() for name, each in study[pool].radii.items()} for pool in POOLS]
    places = [place_from_below(study[pool], "coreset") for pool in POOLS]
    over_rounds, over_seeds = zip(*(related(study[pool]) for pool in POOLS), strict=True)
    chance = [0.63 if len(study[pool].results["seeds"]) == 10 else 0.88 for pool in POOLS]
    beyond = [pool for pool, each, limit in zip(POOLS, over_seeds, chance, strict=True) if abs(each) > limit]
    smallest = all(min(each, key=each.__getitem__) == "coreset" for each in ends) and max(places) <= 1
    unrelated = max(map(abs, over_rounds)) < 0.7 and beyond == ["imbalanced"] and over_seeds[1] < 0 < over_seeds[2]
    return claim(smallest and unrelated, AFTER_RADII).split("\n\n", 1)


def page(study: Study) -> str:
    """The whole page."""
    lines = [INTRODUCTION, "## What came out", "", *reading(study), ""]
    for pool, title in POOLS.items():
        seeds = len(study[pool].results["seeds"])
        lines += [f"### {pool.capitalize()}", "", f"{title} {seeds} seeds.", ""]
        lines += [f"![Learning curves of the strategies on the {pool} pool](images/features-{pool}.png)", ""]
        lines += [*pool_table(study[pool]), ""]
        lines += slow_section(study) if pool == "clean" and "slow" in study else []
    lines += [
        "## Strength, step by step",
        "",
        "Points of mean accuracy; p is corrected over the three steps of a pool.",
        "",
    ]
    lines += [*steps_table(study), "", "## Is the gain related to δ?", ""]
    above, below = radii_reading(study)
    lines += [above, "", *radii_table(study), "", below, COSTS if "slow" in study else COSTS + RERUN]
    return "\n".join(lines)
