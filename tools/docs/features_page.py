"""The page of the study on frozen features: text, tables and sentences that are checked against the records."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from formatting import bold_p, format_points, table_head

from dubito.experiments.statistics import Interval, Rounded, format_p, holm, paired_test
from dubito.matrix import FloatArray

POOLS = {
    "clean": "The 50,000 items as they are.",
    "ambiguous": "The 50,000 items and 25,000 blends of two items of different classes, with the label of either.",
    "imbalanced": "Class sizes fall from 5,000 to 500, in another order for each seed: 20,434 items, half of them "
    "labeled in the end. The test set stays balanced.",
    "mislabelled": "A tenth of the labels is wrong. The test set is correct.",
    "redundant": "Each item and two near-duplicates: 150,000 items.",
}

INTRODUCTION = """\
# Frozen features and a linear probe

On frozen CIFAR-10 features with a linear probe, **`margin` is best, by a small lead; the plain core-set is worse than
random; scaling by doubt brings it back to the level of random.** The features come from a VGG16 trained on ImageNet;
the probe is trained after every round of labels. [Method and data](#method) are at the end.

Every number comes from a report: [clean](features/clean/report.html), [ambiguous](features/ambiguous/report.html),
[imbalanced](features/imbalanced/report.html), [mislabelled](features/mislabelled/report.html),
[redundant](features/redundant/report.html), [badge](features/badge/report.html).
"""

METHOD = """\
## Method

- **Data.** 50,000 × 512 features in float16, 10,000 test items, 10 classes. The network's 13 convolutions with
  torchvision's weights get the 32 × 32 image (scaled to [0, 1] and normalized with ImageNet's mean and deviation) and
  return one value in each of 512 channels.
- **Model.** `probe` with 100 iterations of L-BFGS per training, warm-started. Its penalty was chosen on 5,000 held-out
  training items with random labels: 0.003 has the best mean of three sizes, by a small margin. Accuracy in percent:

  | `c` | 1 | 0.1 | 0.03 | 0.01 | **0.003** | 0.001 | 0.0003 |
  | --- | --- | --- | --- | --- | --- | --- | --- |
  | 1,000 labels | 55.8 | 57.7 | 59.4 | 60.4 | 60.3 | 58.3 | 55.2 |
  | 3,000 labels | 55.3 | 59.6 | 62.8 | 64.1 | 64.5 | 63.0 | 60.7 |
  | 10,000 labels | 62.3 | 64.6 | 66.1 | 67.5 | 67.3 | 66.2 | 64.7 |

- **Schedule.** 1,000 random labels, then nine rounds of 1,000.
- **Pools and seeds.** A clean pool with 10 seeds and four flawed ones with 5, which is less reliable.
- **Statistics.** As in every report of `dubito`: the mean accuracy over the curve, paired by seed, with 95% intervals;
  p is Holm-corrected over the strategies compared with the same baseline on one pool, not over the five pools. *Beyond
  chance* is p under 0.05. *Labels saved* is how much earlier a strategy reaches the level of random at 10,000 labels.
  The headline of a figure names the best of the strategies that beat random beyond chance.
- **What was seen before.** A short trial on the same data and test set (one seed, `c` = 1, up to 3,000 labels:
  `random`, `coreset`, `doubt-coreset`, `margin`) came first. Because `random` did not improve there, the penalty was
  chosen again, on the held-out items alone. Strategies, pools, schedule and seeds were not changed after the study's
  own results were seen. Steps between strengths and the relation to δ were not planned comparisons.
- **Machine.** 16 cores of an Intel Xeon, 16 workers of one thread; dubito 0.1.0 before its release, NumPy 2.5.2, SciPy
  1.18.1, scikit-learn 1.9.1, torch 2.11.0, Python 3.12.3. Time: clean 105 s, ambiguous 53 s, imbalanced 41 s,
  mislabelled 48 s, redundant 105 s. The last rounds of `badge` ran on two slower cores with NumPy 2.4.6 and torch
  2.13.0. The slow strategies started there next to other work and finished on those two cores, half of it each: times
  of their selections are the mean of both.
"""

AFTER_RADII = """\
δ is the largest distance of an item to its nearest label, δ̂ the same with distances times doubt, both before each
round's picks. The table has their means at 2,000, 5,000 and 10,000 labels, the *gain* of `doubt-coreset` over `coreset`
in points there, and the correlation of the gain with `coreset`'s δ: the rank correlation over the nine rounds, and the
correlation over seeds (each seed's mean). By chance alone, one case in twenty exceeds 0.70 over nine rounds, 0.88 over
5 seeds and 0.63 over 10.

**No relation holds across pools.** The gain arises in the first rounds and shrinks slowly at the end, while `coreset`'s
δ only falls, so over the rounds they are related weakly or not at all. Over seeds the correlation exceeds chance on the
imbalanced pool alone (one of five tests, uncorrected), where every seed has other rare classes; on the ambiguous pool
it has the opposite sign.

The radii do not order the strategies either. `coreset` has by far the smallest δ, and the lowest or second lowest
accuracy. Under `doubt-coreset` δ hardly shrinks: some items stay far from every label, and the model is sure of them
(on the clean pool, δ̂ of 15 at a δ of 84 means a doubt of at most 0.18 there). δ̂ ends smallest at strengths 0.5 and 1,
as it should, but `margin`, whose δ̂ is about twice as large, does best. On these features, coverage is not what limits
a linear probe."""

SLOW = """\
Slow strategies were measured in a separate run ([report](features/slow/report.html)) with the same data, probe,
schedule and seeds, planned after the results above were known. `random` was run again there; its mean accuracy is
within {apart} points of the row above under every seed. *Against coreset* pairs the two runs by seed; p is
Holm-corrected over the rows of this table. `bald` and `batchbald` use ten probes, each trained on a bootstrap resample
of the labels, and *a selection* includes their training. One core per process, with {versions}.

Ten probes carry at most ln 10 = 2.3 nats of information. `batchbald` reaches that after about 70 of its 1,000 picks:
later picks add less than a millionth of a nat, and after about 130 picks nothing, so most of its batch is in the order
of the rows.
"""

COSTS = """
## What was not run

- `badge` and the slow strategies on the flawed pools, and the beam and `acquired` there.
- Trained networks: the features are fixed here, so this does not test what the paper says about networks.
"""

RERUN = """\
## Run it again

The experiments come with the package. Create `cifar10_vgg16_frozen.npz` as described above, with arrays `features`,
`labels`, `test_features` and `test_labels`, and write the file of an experiment next to it:

```python
from pathlib import Path

from dubito.experiments.plan import shipped_experiments, shipped_text

Path("clean.toml").write_text(shipped_text("features-clean"))
names = [name for name in shipped_experiments() if name.startswith("features-")]
print(names[:2])  # ['features-ambiguous', 'features-badge']
```

`dubito run clean.toml` runs it, and `dubito report` writes its report.
"""


COLUMNS = [
    "strategy",
    "at 10,000 labels",
    "mean over the curve",
    "against random",
    "p",
    "against coreset",
    "p",
    "labels saved",
]


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """The results of one experiment, and δ and δ̂ of each strategy as (seeds, trainings)."""

    part: str
    results: dict
    radii: dict[str, dict[str, FloatArray]]

    @property
    def names(self) -> list[str]:
        return [each["strategy"] for each in self.results["strategies"]]

    def strategy(self, name: str) -> dict:
        return self.results["strategies"][self.names.index(name)]

    def area(self, name: str) -> FloatArray:
        return np.array(self.strategy(name)["area"])

    def accuracy(self, name: str) -> FloatArray:
        return np.array(self.strategy(name)["accuracy"])

    def against(self, baseline: str, name: str) -> dict:
        return next(each for each in self.results[f"against_{baseline}"] if each["strategy"] == name)

    def saved(self, name: str) -> dict:
        return next(each["saved"] for each in self.results["labels_saved"] if each["strategy"] == name)

    def verdict(self, name: str, baseline: str = "random") -> int:
        """1 if significantly above the baseline after Holm's correction, -1 if below, else 0."""
        comparison = self.against(baseline, name)
        return int(np.sign(comparison["difference"]["estimate"])) if comparison["p_holm"] < 0.05 else 0


Study = dict[str, Record]


def clean_with_seeds_of(study: Study, part: str) -> Record:
    """The strategies of the clean run with the seeds of a part, to compare by seed."""
    clean = study["clean"]
    seeds = [clean.results["seeds"].index(seed) for seed in study[part].results["seeds"]]
    strategies = [{**each, "area": np.array(each["area"])[seeds].tolist()} for each in clean.results["strategies"]]
    return Record(part, {**clean.results, "strategies": strategies}, clean.radii)


def claim(is_true: bool, sentence: str) -> str:
    """Return the sentence, or exit if the numbers do not support it."""
    if not is_true:
        raise SystemExit(f"The numbers do not say this: {sentence}")
    return sentence


def difference(ours: FloatArray, theirs: FloatArray) -> tuple[str, float]:
    """A paired difference in points with its interval, and its p."""
    interval, p = paired_test(ours - theirs)
    return format_points(interval), p


def accuracy_cells(strategy: dict) -> list[str]:
    last = f"{Rounded(100 * strategy['mean'][-1]):.1f} ± {Rounded(100 * strategy['standard_deviation'][-1]):.1f}"
    return [last, f"{Rounded(100 * np.mean(strategy['area'])):.2f}"]


def comparison_cells(record: Record, baseline: str, name: str) -> list[str]:
    if name == baseline:
        return ["–", "–"]
    comparison = record.against(baseline, name)
    return [format_points(Interval(**comparison["difference"])), bold_p(comparison["p_holm"])]


def format_saved(saved: dict) -> str:
    ends = ["never" if saved[key] is None else f"{Rounded(saved[key]):,.0f}" for key in ("estimate", "low", "high")]
    return ends[0] if ends == ["never"] * 3 else f"{ends[0]} [{ends[1]}, {ends[2]}]"


def slow_table(study: Study) -> Iterator[str]:
    """The slow strategies; `coreset` is from the clean run, paired by seed."""
    slow, coreset = study["slow"], clean_with_seeds_of(study, "slow").area("coreset")
    names = [name for name in slow.names if name != "random"]
    differences = [difference(slow.area(name), coreset) for name in names]
    corrected = holm([p for _, p in differences])
    yield from table_head([*COLUMNS, "a selection"])
    for name, (text, _), p in zip(names, differences, corrected, strict=True):
        strategy, seconds = slow.strategy(name), Rounded(slow.strategy(name)["select_seconds"])
        cells = [*accuracy_cells(strategy), *comparison_cells(slow, "random", name), text, bold_p(float(p))]
        yield f"| `{name}` | {' | '.join(cells)} | {format_saved(slow.saved(name))} | {seconds:.1f} s |"


def about_slow(study: Study) -> str:
    """The slow strategies above and below random, and the difference of the best to margin."""
    slow, margin = study["slow"], clean_with_seeds_of(study, "slow").area("margin")
    verdicts = {1: "above random beyond chance", 0: "not distinguishable from random", -1: "below random beyond chance"}
    named = {
        sign: [
            f"`{name}` ({Rounded(100 * slow.against('random', name)['difference']['estimate']):+.2f})"
            for name in slow.names
            if name != "random" and slow.verdict(name) == sign
        ]
        for sign in verdicts
    }
    text = "; ".join(f"{verdicts[sign]}: {', '.join(names) or 'none'}" for sign, names in named.items())
    best = max((name for name in slow.names if name != "random"), key=lambda name: slow.area(name).mean())
    gain, p = difference(slow.area(best), margin)
    return (
        f"- **Slow strategies**, on the clean pool: {text}. The best of them, `{best}`, is {gain} points from "
        f"`margin` (p = {format_p(p)})."
    )


def slow_section(study: Study) -> Iterator[str]:
    """The table of the slow strategies, and how it was made."""
    repeated = study["slow"].area("random") - clean_with_seeds_of(study, "slow").area("random")
    versions = study["slow"].results["about"]["facts"]["versions"]
    yield SLOW.format(apart=f"{Rounded(100 * np.abs(repeated).max()):.2f}", versions=versions)
    yield from slow_table(study)
    yield ""


PARTS = (*POOLS, "badge", "slow")
DOUBT = "doubt-coreset"
STRENGTHS = tuple(f"{DOUBT}:strength={each}" if each != "1" else DOUBT for each in ("0.25", "0.5", "1", "2"))


def pools_where(study: Study, name: str, verdict: int) -> tuple[str, ...]:
    return tuple(pool for pool in POOLS if study[pool].verdict(name) == verdict)


# Tables


def pool_table(record: Record) -> Iterator[str]:
    yield from table_head(COLUMNS)
    for name in record.names:
        cells = [*accuracy_cells(record.strategy(name)), *comparison_cells(record, "random", name)]
        cells += comparison_cells(record, "coreset", name)
        cells.append("–" if name == "random" else format_saved(record.saved(name)))
        yield f"| `{name}` | {' | '.join(cells)} |"


def steps_table(study: Study) -> Iterator[str]:
    """Each strength against the next smaller, with Holm's correction over the steps of a pool."""
    yield from table_head(["pool", "0.5 over 0.25", "p", "1 over 0.5", "p", "2 over 1", "p"])
    for pool in POOLS:
        areas = [study[pool].area(name) for name in STRENGTHS]
        steps = [difference(more, less) for less, more in pairwise(areas)]
        corrected = holm([p for _, p in steps])
        cells = [f"{text} | {format_p(float(p))}" for (text, _), p in zip(steps, corrected, strict=True)]
        yield f"| {pool} | {' | '.join(cells)} |"


def radii_table(study: Study) -> Iterator[str]:
    radii = [f"{radius} of `{name}`" for radius in ("δ", "δ̂") for name in ("coreset", DOUBT)]
    yield from table_head(["pool", *radii, "gain", "over rounds", "over seeds"])
    for pool in POOLS:
        record = study[pool]
        cells = [
            format_radii(record.radii[name][kind])
            for kind in ("radius", "scaled_radius")
            for name in ("coreset", DOUBT)
        ]
        gain = " → ".join(f"{Rounded(each):+.1f}" for each in gains(record).mean(axis=0)[[1, 4, 9]])
        over_rounds, over_seeds = correlations(record)
        yield f"| {pool} | {' | '.join(cells)} | {gain} | {Rounded(over_rounds):+.2f} | {Rounded(over_seeds):+.2f} |"


def format_radii(radii: FloatArray) -> str:
    """The mean at 2,000, 5,000 and 10,000 labels."""
    return " → ".join(f"{Rounded(each):.0f}" for each in radii.mean(axis=0)[[1, 4, 9]])


def gains(record: Record) -> FloatArray:
    """(seeds, trainings) points of accuracy by which doubt-coreset is above coreset."""
    return 100 * (record.accuracy(DOUBT) - record.accuracy("coreset"))


def correlations(record: Record) -> tuple[float, float]:
    """The correlation of the gain with the δ of coreset: rank correlation over rounds, and correlation over seeds."""
    gain, radius = gains(record)[:, 1:], record.radii["coreset"]["radius"][:, 1:]
    ranks = [np.argsort(np.argsort(each.mean(axis=0))) for each in (gain, radius)]
    return float(np.corrcoef(*ranks)[0, 1]), float(np.corrcoef(gain.mean(axis=1), radius.mean(axis=1))[0, 1])


# Sentences


def results_text(study: Study) -> Iterator[str]:
    pools = [study[pool] for pool in POOLS]
    yield from about_margin(study, pools)
    yield from about_coreset(study, pools)
    yield from about_least_confidence(study)


def about_margin(study: Study, pools: Sequence[Record]) -> Iterator[str]:
    leads = [Rounded(100 * record.against("random", "margin")["difference"]["estimate"]) for record in pools]
    saved = [Rounded(record.saved("margin")["estimate"]) for record in pools]
    best = all(max(record.names, key=lambda name: record.area(name).mean()) == "margin" for record in pools)
    yield claim(
        best,
        f"- **Of these strategies `margin` is first on every pool, but its gain is small**: {min(leads):+.1f} to "
        f"{max(leads):+.1f} points over random. Because the curves are flat, that saves "
        f"{min(saved):,.0f} to {max(saved):,.0f} of 10,000 labels.",
    )
    p_ambiguous = study["ambiguous"].against("random", "margin")["p_holm"]
    yield claim(
        pools_where(study, "margin", 1) == ("clean", "imbalanced", "mislabelled", "redundant"),
        f"  The gain is beyond chance on four pools, not on the ambiguous one (p = {format_p(p_ambiguous)}).",
    )
    last, margin = (study["redundant"].accuracy(name)[:, -1] for name in (STRENGTHS[3], "margin"))
    text, p = difference(last, margin)
    yield claim(
        last.mean() > margin.mean(),
        f"  Where items repeat, its lead is gone by 10,000 labels: `{STRENGTHS[3]}` ends {text} points above it "
        f"(p = {format_p(p)}).",
    )


def about_coreset(study: Study, pools: Sequence[Record]) -> Iterator[str]:
    below = [Rounded(-100 * record.against("random", "coreset")["difference"]["estimate"]) for record in pools]
    p_imbalanced = study["imbalanced"].against("random", "coreset")["p_holm"]
    yield claim(
        pools_where(study, "coreset", -1) == ("clean", "ambiguous", "mislabelled", "redundant") and min(below) > 0,
        f"- **The plain core-set is below random on every pool**, by {min(below):.1f} to {max(below):.1f} "
        f"points; on the imbalanced pool not beyond chance (p = {format_p(p_imbalanced)}).",
    )
    verdicts = [record.verdict(name, "coreset") for record in pools for name in STRENGTHS]
    yield claim(
        all(each == 1 for each in verdicts) and all(record.verdict(DOUBT) == 0 for record in pools),
        "- **Scaling by doubt brings it to the level of random**: it is above the plain core-set beyond chance at "
        "every strength and on every pool, but at strength 1 not distinguishable from random on any.",
    )
    above = Rounded(100 * study["ambiguous"].against("random", STRENGTHS[3])["difference"]["estimate"])
    weaker = [pools_where(study, name, -1) for name in STRENGTHS[:2]]
    yield claim(
        pools_where(study, STRENGTHS[3], 1) == ("ambiguous",)
        and set(weaker) == {("clean", "mislabelled", "redundant")},
        f"  Strength 2 beats random only on the ambiguous pool ({above:+.2f} points); 0.25 and 0.5 stay below "
        "random on the clean, the mislabelled and the redundant pool.",
    )
    rising = [
        record.area(less).mean() < record.area(more).mean() for record in pools for less, more in pairwise(STRENGTHS)
    ]
    yield claim(
        all(rising),
        "- **More strength is better here**: 2 before 1 before 0.5 before 0.25 on every pool, though not every step is "
        "beyond chance (below). The probe has a strong penalty; this may not carry over to a network that fits its "
        "labels perfectly.",
    )


def about_least_confidence(study: Study) -> Iterator[str]:
    summary = {pool: study[pool].against("random", "least-confidence")["difference"] for pool in POOLS}
    low = {pool: Rounded(100 * each["estimate"]) for pool, each in summary.items()}
    yield claim(
        pools_where(study, "least-confidence", -1) == ("ambiguous", "redundant")
        and pools_where(study, "least-confidence", 1) == ("imbalanced",),
        f"- **`least-confidence` falls below random where items repeat** ({low['redundant']:+.2f} points) and where "
        f"they are ambiguous ({low['ambiguous']:+.2f}). On the imbalanced pool it is above random "
        f"({low['imbalanced']:+.2f}); on the other two it is not distinguishable from it.",
    )
    clean = study["clean"]
    beam, p_beam = difference(clean.area(f"{DOUBT}:beam_width=10"), clean.area(DOUBT))
    other, p_other = difference(clean.area(f"{DOUBT}:scaling=acquired"), clean.area(DOUBT))
    yield claim(
        min(p_beam, p_other) > 0.05,
        f"- **A beam of 10 changes nothing measurable**: {beam} points over `{DOUBT}` (p = {format_p(p_beam)}); nor "
        f"does `scaling=acquired`, the literal reading of the paper's line 11: {other} (p = {format_p(p_other)}).",
    )
    yield about_badge(study)
    if "slow" in study:
        yield about_slow(study)


def about_badge(study: Study) -> str:
    badge, clean = study["badge"], clean_with_seeds_of(study, "badge")
    summary = badge.against("random", "badge")
    gain = format_points(Interval(**summary["difference"]))
    behind, p = difference(badge.area("badge"), clean.area("margin"))
    slow, quick = badge.strategy("badge")["select_seconds"], clean.strategy(DOUBT)["select_seconds"]
    return claim(
        badge.verdict("badge") == 1 and p > 0.05,
        f"- **`badge`**, on the clean pool with {summary['seeds']} seeds: {gain} points over "
        f"random (p = {format_p(summary['p'])}), not distinguishable from `margin` ({behind} points, "
        f"p = {format_p(p)}), for "
        f"{Rounded(slow):.0f} s per selection (mean over two machines; it is faster now), while `{DOUBT}` takes "
        f"{Rounded(quick):.1f} s.",
    )


def rank_from_worst(record: Record, name: str) -> int:
    return sorted(record.names, key=lambda each: record.area(each).mean()).index(name)


def radii_text(study: Study) -> list[str]:
    """The text above the table of radii, and the text below it."""
    ends = [{name: each["radius"][:, -1].mean() for name, each in study[pool].radii.items()} for pool in POOLS]
    ranks = [rank_from_worst(study[pool], "coreset") for pool in POOLS]
    over_rounds, over_seeds = zip(*(correlations(study[pool]) for pool in POOLS), strict=True)
    chance = [0.63 if len(study[pool].results["seeds"]) == 10 else 0.88 for pool in POOLS]
    beyond = [pool for pool, each, limit in zip(POOLS, over_seeds, chance, strict=True) if abs(each) > limit]
    smallest = all(min(each, key=each.__getitem__) == "coreset" for each in ends) and max(ranks) <= 1
    unrelated = max(map(abs, over_rounds)) < 0.7 and beyond == ["imbalanced"] and over_seeds[1] < 0 < over_seeds[2]
    return claim(smallest and unrelated, AFTER_RADII).split("\n\n", 1)


def page(study: Study) -> str:
    lines = [INTRODUCTION, "## Results", "", *results_text(study), ""]
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
    above, below = radii_text(study)
    lines += [above, "", *radii_table(study), "", below, COSTS, METHOD]
    lines += [] if "slow" in study else [RERUN]
    return "\n".join(lines)
