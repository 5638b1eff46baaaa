"""Write the board of regret: points of accuracy below the best strategy, for every strategy and recorded pool.

``python tools/docs/regret.py RUN...`` stores the curves of runs, as written by ``dubito run``, in
``docs/results/regret`` (one file per pool, to which later runs add strategies; in a folder for each of `MODELS`). It
then writes the page from these files and the records of the studies on features and networks; without a run it writes
only the page.
"""

import hashlib
import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from dubito.experiments.runner import read_folder, read_rounds
from dubito.matrix import FloatArray
from dubito.strategies.auto import FROZEN, TRAINED

Areas = Mapping[str, FloatArray]
Board = Mapping[str, Areas]

TITLES = {
    "digits": "digits (scikit-learn), logistic regression", "letter": "table: letters, logistic regression",
    "pendigits": "table: pen digits, logistic regression", "segment": "table: image segments, logistic regression",
    "satimage": "table: satellite, logistic regression", "pageblocks": "table: page blocks, logistic regression",
    "trec": "texts: questions of six kinds", "banking": "texts: 77 intents of a bank's customers",
    "mr": "texts: film reviews, for or against", "clinc": "texts: 150 intents",
    "features": "frozen VGG16 features of CIFAR-10, probe", "images": "VGG16 trained through on CIFAR-10",
    "images-cifar100": "VGG16 trained through on CIFAR-100", "images-svhn": "VGG16 trained through on SVHN",
    "magic": "table: gamma or hadron, two overlapping classes", "phoneme": "table: nasal or oral, two classes",
    "twonorm": "table: two overlapping Gaussians in 20 dimensions", "spambase": "table: spam or not",
    "texture": "table: 11 textures", "optdigits": "table: digits", "vowel": "table: 11 vowels",
    "ring": "table: one Gaussian around another", "banana": "table: two bananas", "marketing": "table: nine incomes",
    "lite0": "EfficientNet-Lite0 features of CIFAR-10", "words": "texts: 150 intents, 100 components of word counts",
    "kinds": "texts: questions of 50 kinds", "forty": "table: 40 generated classes",
    "fine": "EfficientNet-Lite0 features of CIFAR-100",
}  # fmt: skip
FIXED = ("digits", "letter", "pendigits", "segment", "trec", "mr", *(
    f"images-{flaw}" for flaw in ("clean", "redundant", "ambiguous", "imbalanced", "mislabelled")
))  # fmt: skip
"""Pools that were used to choose the rule."""
NEW = ("words", "kinds", "forty", "fine")
"""Pools that were built to check sharpening; most strategies were not run on them."""
NEAR = 0.3
INTRODUCTION = """# Regret on 22 pools

This page shows which strategy loses least in the worst case. **Regret** is how many points a strategy's mean accuracy
over the curve is below that of the best strategy on the same pool; a strategy is judged by its largest regret.

Every number is computed by `python tools/docs/regret.py` from records (`docs/results/regret`, [frozen
features](features.md), [networks](networks.md)); what was not run is left empty. Strategies of a pool share seeds and
first labels, and regret is taken over the seeds that all of them have. The best of many is also the luckiest, so
regrets of a few tenths mean little: see the column *seeds* and the intervals.

![Points of accuracy that each strategy loses against the best one, a dot for each pool](../images/regret.png)
"""
RULE = """## `auto`

`strategy="auto"` uses `{trained}` if the features were trained on the labels, and `{frozen}` if not. Features
count as trained if the model doubts labeled rows less than a hundredth as much as the others, and 99% of them have a
labeled neighbor of their own class. That is the case for CIFAR-10 features of a trained network (5,000 labels).
Logistic regression on letters, questions, intents and pen digits, with 200 and 1,000 labels and penalties from usual
to almost none, was classified as frozen in all 24 cases tried. `"auto:features=trained"` overrides the detection.

The row `auto` consists of the runs of the strategy that it uses on each pool, which has no row of its own with
`sharpen=0.9`.
[Sharpening](#sharpening) was added later and changes nothing where the median doubt is 0.9 or less; where
`sharpen=0.9` was not run, the row is that of the same strategy without it. Its strength was chosen among 2, 3 and 4
on {fixed}. On `banking`, `satimage`, `pageblocks` and the five pools of frozen CIFAR-10 features it was run after that
choice, but similar strategies had been seen there. `clinc` and the networks on SVHN had not been looked at in any way.
On CIFAR-100, networks had been trained before with another rate and schedule ([networks](networks.md)), but nothing
about `auto` was decided by them. Where regrets of a few tenths mattered there are 10 to 30 seeds.
"""


BATCHES = """## Batches of 10, 50 and 400, published strategies and the oracle

On these pools every strategy picks 10, 50 or 400 labels a round (the number behind the pool's name), with the same
first labels. Pools are samples of up to 1,200 rows, or 3,000 for batches of 400. On some, the [published
strategies](../how-to/choosing.md#published-strategies-to-compare-with) were run as well, and an oracle that sees
all labels: compare those with others by the column *mean, oracle*, which is the mean over these pools alone.
*Share* is the gain over random divided by that of the oracle, both summed over the same pools; *seconds* is the
mean time to pick a batch on one core of a busy machine. The oracle is not counted as the best strategy. Regret is
in points of the mean accuracy over the curve, over the seeds that all strategies of a pool have.

The best of many is also the luckiest: where a strategy is a few tenths behind on one pool, see its interval. The
oracle and `refine` try fewer batches than their authors do (their options are in their names). `bait` uses its
binary approximation where its matrix would be wider than 1,000, as on texts. The classes of `ring` and `banana`
have no linear boundary, and the model is linear.
"""


def batches_section(board: Board, seconds: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Strategies over pools with a number of labels a round: a summary, and a row for each pool."""
    board = {pool: with_auto(pool, areas) for pool, areas in board.items()}
    regrets = {pool: regrets_of(areas) for pool, areas in board.items()}
    seconds = {pool: with_auto(pool, times) for pool, times in seconds.items()}
    names = sorted(names_of(regrets), key=lambda name: _mean_order(regrets, name))
    sizes = sorted({batch_of(pool) for pool in board}, key=int)
    yield BATCHES
    columns = [*(f"mean, {size}" for size in sizes), "mean, oracle", "share", "seconds", "pools"]
    yield f"| strategy | worst | mean | {' | '.join(columns)} |"
    yield f"| --- |{' --- |' * (len(sizes) + 6)}"
    for name in names:
        means = {pool: float(each[name].mean()) for pool, each in regrets.items() if name in each}
        where = max(means, key=lambda pool: means[pool])
        line = [f"`{name}`", f"{means[where]:.2f} ± {half_width(regrets[where][name]):.2f} ({where})"]
        line.append(f"{np.mean(list(means.values())):.2f}")
        for size in sizes:
            found = [mean for pool, mean in means.items() if batch_of(pool) == size]
            line.append(f"{np.mean(found):.2f}" if found else "")
        judged = [pool for pool in means if oracle_of(board[pool])]
        times = [seconds[pool][name] for pool in means if name in seconds.get(pool, {})]
        line.append(f"{np.mean([means[pool] for pool in judged]):.2f}" if judged else "")
        line += [
            share(board, judged, name) if judged else "",
            f"{np.mean(times):.2g}" if len(times) == len(means) else "",
            str(len(means)),
        ]
        yield f"| {' | '.join(line)} |"
    yield ""
    yield "Regret on each pool; bold is at most 0.3."
    yield ""
    yield f"| pool | data | seeds | best over random | {' | '.join(f'`{name}`' for name in names)} |"
    yield f"| --- | --- | --- | --- |{' --- |' * len(names)}"
    for pool, each in regrets.items():
        random = board[pool]["random"]
        best = next(name for name in each if name != "auto" and not each[name].any())
        cells = [
            ""
            if name not in each
            else f"{each[name].mean():.2f}"
            if name == oracle_of(each)
            else _cell(each[name].mean())
            for name in names
        ]
        line = [pool, _title(pool), str(len(random)), _gain(board[pool][best] - random), *cells]
        yield f"| {' | '.join(line)} |"
    yield ""


def sharpening_section(board: Board) -> Iterator[str]:
    """Paired differences on the pools where sharpening changes something."""
    others = (PLAIN, f"{PLAIN},sharpen=0.5", "margin", "largest-cluster:strength=1", "random")
    run = {pool: areas for pool, areas in board.items() if {SHARPENED, PLAIN} <= areas.keys()}
    equal = [pool for pool, areas in run.items() if np.array_equal(areas[SHARPENED], areas[PLAIN])]
    ahead = {
        pool: {other: areas[SHARPENED] - areas[other] for other in others if other in areas}
        for pool, areas in run.items()
    }
    shown = sorted(run.keys() - set(equal), key=lambda pool: (is_new(pool), pool))
    new = [pool for pool in run if is_new(pool)]
    yield SHARPENING.format(new=", ".join(f"`{pool}`" for pool in new), run=len(run), equal=len(equal))
    yield f"| pool | data | seeds | {' | '.join(f'`{other}`' for other in others)} |"
    yield f"| --- | --- | --- |{' --- |' * len(others)}"
    for pool in shown:
        cells = [_gain(ahead[pool][other]) if other in ahead[pool] else "" for other in others]
        yield f"| {pool} | {_title(pool)} | {len(run[pool][PLAIN])} | {' | '.join(cells)} |"
    for what, pools in (("", shown), ("new ", new)):
        means = [np.array([ahead[pool][other].mean() for pool in pools if other in ahead[pool]]) for other in others]
        yield f"| **mean** | of the {len(pools)} {what}pools | | {' | '.join(map(_gain, means))} |"
        yield f"| **worst** | | | {' | '.join(f'{each.min():+.2f}' for each in means)} |"
    yield ""


def directions_section(board: Board, everything: Board) -> Iterator[str]:
    """What `auto` would gain from cosine distances: chosen on half of the names, tried on the others."""
    regrets = {pool: regrets_of(with_auto(pool, areas)) for pool, areas in board.items() if DIRECTIONS in areas}
    names = sorted({pool.split("-")[0] for pool in regrets})
    found = list[str]()
    for half in (names[::2], names[1::2]):
        pools = {pool: each for pool, each in regrets.items() if pool.split("-")[0] in half}
        found.append(", ".join(f"`{name}`" for name in half))
        for name in ("auto", DIRECTIONS):
            found += [f"{np.mean([each[name].mean() for each in pools.values()]):.2f}", f"{worst(pools, name)[0]:.2f}"]
    gains = {pool: areas[DIRECTIONS] - areas[SHARPENED] for pool, areas in everything.items() if DIRECTIONS in areas}
    least = min(regrets, key=lambda pool: float(gains[pool].mean()))
    others = ", ".join(f"{pool} {_gain(gains[pool])}" for pool in gains if pool not in regrets)
    yield DIRECTIONS_FOUND.format(*found, _gain(gains[least]), least, DIRECTIONS, others)


def tries_section(board: Board, tried: Board) -> Iterator[str]:
    """Changes of `auto`: on the half of the names where one was chosen, on the other half, and on unseen pools."""
    gains = {pool: {name: each - areas[SHARPENED] for name, each in areas.items()} for pool, areas in tried.items()}
    first, known = first_half(), names_with_batches()
    halves = [pool for pool in tried if _name(pool) in first], [pool for pool in tried if _name(pool) in known - first]
    groups = dict(zip(("first half", "other half"), halves, strict=True))
    groups["unseen"] = [pool for pool in tried if _name(pool) not in known]
    names = [{_name(pool) for pool in pools} for pools in groups.values()]
    named = [", ".join(f"`{name}`" for name in sorted(each)) for each in (*names, known.difference(*names))]
    yield TRIES.format(first=named[0], second=named[1], unseen=named[2], left=named[3])
    few = {"first half, 10": [pool for pool in groups["first half"] if batch_of(pool) == "10"]}
    for shown in (few, groups):
        columns = [f"{group}: {column}" for group in shown for column in COLUMNS[: 2 if group == "unseen" else 4]]
        yield f"| change | {' | '.join(columns)} |"
        yield f"| --- |{' --- |' * len(columns)}"
        wanted = [pool for pools in shown.values() for pool in pools if not pool.startswith("words")]
        for name in dict.fromkeys(name for pool in wanted for name in tried[pool]):
            if all(name in tried[pool] for pool in wanted):
                cells = [
                    cell
                    for group, pools in shown.items()
                    for cell in _tried(board, tried, gains, pools, name)[: 2 if group == "unseen" else 4]
                ]
                what = "auto" if name == SHARPENED else name.removeprefix("tried:").removeprefix(f"{SHARPENED},")
                yield f"| `{what}` | {' | '.join(cells)} |"
        yield ""
    chosen = [_gain(_means(gains, pools, CHOSEN)) for pools in groups.values()]
    lost = min((pool for pool in gains if DIRECTIONS in gains[pool]), key=lambda pool: gains[pool][DIRECTIONS].mean())
    least = _gain(gains[lost][DIRECTIONS])
    yield TRIES_END.format(*chosen, lost, least, chosen=CHOSEN.removeprefix("tried:"))


def _tried(
    board: Board, tried: Board, gains: Mapping[str, Areas], pools: Sequence[str], name: str
) -> tuple[str, str, str, str]:
    """The mean gain of a change, its least one, and its mean and worst regret where the best strategy is known."""
    run = [pool for pool in pools if name in tried[pool]]
    least = min(run, key=lambda pool: float(gains[pool][name].mean()))
    losses = {pool: loss for pool in run if (loss := _loss(board.get(pool, {}), tried[pool], name)) is not None}
    where = max(losses, key=lambda pool: losses[pool], default="")
    return (
        "" if name == SHARPENED else _gain(_means(gains, run, name)),
        "" if name == SHARPENED else f"{_gain(gains[least][name])} ({least})",
        f"{np.mean(list(losses.values())):.2f}" if losses else "",
        f"{losses[where]:.2f} ({where})" if losses else "",
    )


def _loss(recorded: Areas, tried: Areas, name: str) -> float | None:
    """The regret of a change; None if the record is not of the same features."""
    n_seeds = len(recorded.get(SHARPENED, ()))
    if not n_seeds or not np.allclose(recorded[SHARPENED], tried[SHARPENED][:n_seeds], atol=0.01):
        return None
    own = float(tried[name][:n_seeds].mean())
    return max(own, *(float(each.mean()) for other, each in recorded.items() if other != oracle_of(recorded))) - own


def _means(gains: Mapping[str, Areas], pools: Sequence[str], name: str) -> FloatArray:
    return np.array([gains[pool][name].mean() for pool in pools])


def _name(pool: str) -> str:
    return pool.rpartition("-")[0]


def names_with_batches() -> set[str]:
    """The names of all pools with a number of labels a round."""
    return {_name(path.stem) for path in KEPT.glob("*.json") if batch_of(path.stem)}


def first_half() -> set[str]:
    """Every other name, in the order of their SHA-256."""
    return set(sorted(names_with_batches(), key=lambda name: hashlib.sha256(name.encode()).hexdigest())[::2])


def is_new(pool: str) -> bool:
    """Whether a pool was built to check sharpening."""
    return pool.split("-")[0] in NEW


def _title(pool: str) -> str:
    return TITLES.get(pool) or TITLES[pool.split("-")[0]]


def batch_of(pool: str) -> str:
    """The number of labels a round behind the name of a pool, or an empty string."""
    found = re.search(r"-(\d+)$", pool)
    return found[1] if found else ""


def _by_batch(pool: str) -> tuple[int, str]:
    return int(batch_of(pool)), pool


def _mean_order(regrets: Mapping[str, Mapping[str, FloatArray]], name: str) -> tuple[bool, int, float]:
    found = [float(each[name].mean()) for each in regrets.values() if name in each]
    return name != "auto", -len(found), float(np.mean(found))


def share(board: Board, pools: Sequence[str], name: str) -> str:
    """The gain of a strategy over random as a share of that of the oracle, over some pools."""
    gains = [float((board[pool][name] - board[pool]["random"]).mean()) for pool in pools]
    most = [float((board[pool][oracle_of(board[pool])] - board[pool]["random"]).mean()) for pool in pools]
    return f"{sum(gains) / sum(most):.0%}"


def oracle_of(areas: Mapping[str, object]) -> str:
    """The name of the oracle with its options, or an empty one."""
    return next((name for name in areas if name.startswith("oracle")), "")


def page(found: Sequence["Pool"], models: Mapping[str, Sequence["Pool"]]) -> str:
    """The whole page, from everything recorded, and from what is of each of `MODELS`."""
    board = everything = {each.name: areas_in_common(each) for each in found}
    small = sorted((pool for pool in board if batch_of(pool) and not is_new(pool)), key=_by_batch)
    batched = {pool: board[pool] for pool in small}
    board = {pool: areas for pool, areas in board.items() if not batch_of(pool)}
    regrets = {pool: regrets_of(with_auto(pool, areas)) for pool, areas in board.items()}
    names = {"frozen": SHARPENED, "trained": FOR_TRAINED}
    rule = RULE.format(fixed=", ".join(pool for pool in FIXED if pool in board), **names)
    lines = [INTRODUCTION, *verdict(regrets), *labels_section({each.name: labels_needed(each) for each in found}), rule]
    lines += [*table(regrets), "", *pools_section(board, {each.name: firsts(each) for each in found}), ""]
    lines += [*batches_section(batched, {each.name: each.seconds for each in found})]
    lines += [*directions_section(batched, everything), *tries_section(batched, tries())]
    lines += models_section(groups_of(models, found))
    lines += [*sharpening_section(everything), *experiments(found)]
    return "\n".join(lines) + "\n"


PLAIN, SHARPENED = (
    f"{FROZEN.name}:strength={FROZEN.strength:g}{more}" for more in ("", f",sharpen={FROZEN.sharpen:g}")
)
"""What `auto` uses for frozen features, without and with sharpening."""
DIRECTIONS = f"{SHARPENED},metric=cosine"
FOR_TRAINED = f"{TRAINED.name}:strength={TRAINED.strength:g}"
Row = TypeVar("Row")


SHARPENING = f"""## Sharpening

`auto` [sharpens](../explanation/coverage.md#an-underconfident-model) nearly flat probabilities. The table shows
by how many points of mean accuracy `{SHARPENED}` is ahead of other strategies, with the same
seeds and first labels, and 95% intervals (of a mean: over pools). It was run on {{run}} pools, and changed no curve on
{{equal}} of them; the table has the others. Some pools were built to check it, and are on no other table of this page:
{{new}}. `banking` was looked at when 0.9 was chosen, and `words` may have been.
"""


DIRECTIONS_FOUND = """## Directions of rows

`{12}` is `auto` on these features with `metric=cosine`. Of the changes of `auto`
that need no new option, tried on every other name ({0}), it is the best: it loses {3}
points on average and {4} at worst, `auto` {1} and {2}. On the other half ({5})
it loses {8} and {9}, `auto` {6} and {7}; it is most behind on {11} ({10}). On pools of other tables of this page its
gain over `auto` is: {13}. The default is unchanged: every model here is linear, on larger tables there is no gain, and
none is certain with [other models](#forests-and-small-networks).
"""


TRIES = """## Best trade-off found

`auto` loses most where labels are few and classes many. Changes for that case were chosen on one half of the names of
pools (every other one, ordered by SHA-256) and then run on the other half, and on pools that are on no board:

- first half: {first}
- other half: {second}
- unseen: {unseen} (five tables, two generated ones, and frozen VGG16 features of CIFAR-10)
- not run: {left}

The runs in `docs/results/regret-tries.json` were made by an earlier form of `tools/docs/regret_tries.py`, and their
record was converted. On the seven pools that both ran with one seed, all numbers are equal. Gains are over `auto`, with
the same seeds and first labels; their 95% intervals are over pools, and that of *most behind*, the pool with the least
gain, is over seeds. Regret is against the best strategy or the change itself, on pools
[above](#batches-of-10-50-and-400-published-strategies-and-the-oracle) whose features are the same to the last digit;
those of `trec` are not.

Rows near the mean of the pool are close to all others, so they cover much, although they say little about classes.
`spread=q` therefore moves rows that are nearer to the mean than the quantile q of all distances out to that distance.
With `few=k` it does so only while there are fewer than k labels for each class. With 10 labels a round on the first
half, this is what helped. The radius (`factor`), `strength`, and `own`, the power of the doubt about a pick by which
its gain is multiplied, did not. The other changes that were tried there have no record and did not help more: weights
divided by the mass of the predicted class, lower near the mean, or with a constant added; higher costs near the mean; a
radius that counts the picks; cosine distances with `few=10` or from the mean; and distances between rows of partly
equalized length, or of ranks, clipped or whitened columns, or with probabilities as further columns.
"""
CHOSEN = "tried:spread=0.9,few=5"
COLUMNS = ("gain", "most behind", "mean regret", "worst regret")
TRIES_END = """`{chosen}` was chosen. It gains {0} points on the first half,
{1} on the other half, and {2} on unseen pools. `auto` stays as it is: the gain is not
confirmed on the other half, and its worst pool is not repaired. Without `few`, as with cosine distances, more is gained
on some pools and lost on others: `metric=cosine` changes {3} by {4}.
"""
MODELS = {"forest": "random forest", "mlp": "small network"}
"""Models that have tables of their own, by their kind."""
COSINE = "auto:metric=cosine"
FORESTS = """## Forests and small networks

The models above are linear, or networks whose own features are compared. Here, random forests (100 trees) and networks
with one hidden layer of 128 units (`mlp`) learn standardized tables with 10 and 50 labels a round, and forests also
tables as published. Strategies compare rows of the table. No setting of `auto` was chosen with these models, but
letter, pendigits and segment are among the tables on which its strength was chosen.

Gains are in points of mean accuracy over the curve. 95% intervals of means are over tables, those of a single pool over
seeds. *Above* and *below* are the pools on which the interval of `auto` over random excludes 0; by chance alone, one in
40 would on each side. *Labels needed* is the share of its labels with which `auto` reaches the accuracy that random
sampling ends with (median over pools). The last two columns are the pools where `metric=cosine` gains least and most.
"""


def groups_of(models: Mapping[str, Sequence["Pool"]], linear: Sequence["Pool"]) -> dict[str, list["Pool"]]:
    """Pools by what learns them; those of logistic regression with the row `auto`, as far as others have them."""
    raw = [pool for pool in models["forest"] if "-raw-" in pool.name]
    learned = {what: [pool for pool in models[kind] if pool not in raw] for kind, what in MODELS.items()}
    names = {pool.name for pools in learned.values() for pool in pools}
    same = [
        Pool(pool.name, pool.labels, {**with_auto(pool.name, pool.curves), COSINE: pool.curves[DIRECTIONS]})
        for pool in linear
        if pool.name in names
    ]
    return {"logistic regression": same, **learned, "random forest, table as published": raw}


def models_section(groups: Mapping[str, Sequence["Pool"]]) -> Iterator[str]:
    """A row for each model about `auto`, and one for each strategy with the models that are not linear."""
    boards = {what: {pool.name: areas_in_common(pool) for pool in pools} for what, pools in groups.items()}
    yield FORESTS
    yield (
        "| model | pools | seeds | `auto` over random | above | below | labels needed "
        f"| `{COSINE}` over `auto` | least | most |"
    )
    yield f"| --- |{' --- |' * 9}"
    for what, board in boards.items():
        gains = {pool: areas["auto"] - areas["random"] for pool, areas in board.items()}
        cosine = {pool: areas[COSINE] - areas["auto"] for pool, areas in board.items()}
        ranked = sorted(cosine, key=lambda pool: float(cosine[pool].mean()))
        seeds, above, below = {len(each) for each in gains.values()}, beyond(gains, 1), beyond(gains, -1)
        line = [
            what, str(len(board)), " to ".join(map(str, sorted({min(seeds), max(seeds)}))),
            _gain(over_tables(gains)), str(len(above)),
            ", ".join(f"{pool} {_gain(gains[pool])}" for pool in below) or "none",
            f"{np.median([labels_needed(pool) for pool in groups[what]]):.0%}", _gain(over_tables(cosine)),
            *(f"{pool} {_gain(cosine[pool])}" for pool in (ranked[0], ranked[-1])),
        ]  # fmt: skip
        yield f"| {' | '.join(line)} |"
    yield ""
    regrets = {what: {pool: regrets_of(areas) for pool, areas in boards[what].items()} for what in list(groups)[1:]}
    columns = [f"{what}: {column}" for what in regrets for column in ("over random", "mean regret", "worst")]
    yield f"| strategy | {' | '.join(columns)} |"
    yield f"| --- |{' --- |' * len(columns)}"
    first = next(iter(regrets.values()))
    for name in sorted(names_of(first), key=lambda name: _mean_order(first, name)):
        line = [f"`{name}`"]
        for each in regrets.values():
            losses = {pool: rows[name] for pool, rows in each.items() if name in rows}
            if len(losses) < len(each):
                line += [""] * 3
                continue
            gains = over_tables({pool: each[pool]["random"] - loss for pool, loss in losses.items()})
            _, where, _ = worst(each, name)
            line += [_gain(gains), _plain(over_tables(losses)), f"{_plain(losses[where])} ({where})"]
        yield f"| {' | '.join(line)} |"
    yield ""


def over_tables(values: Areas) -> FloatArray:
    """(tables,) means over seeds and numbers of labels a round."""
    tables: dict[str, list[float]] = {}
    for pool, each in values.items():
        tables.setdefault(pool.rpartition("-")[0], []).append(float(each.mean()))
    return np.array([np.mean(each) for each in tables.values()])


def beyond(gains: Areas, sign: int) -> list[str]:
    """The pools where the interval is on one side of 0."""
    return [pool for pool, each in gains.items() if sign * float(each.mean()) > half_width(each)]


def with_auto(pool: str, rows: Mapping[str, Row]) -> dict[str, Row]:
    """Add the row `auto`, if the strategy that it uses was run."""
    taken = next(
        (name for name in ((FOR_TRAINED,) if pool.startswith("images") else (SHARPENED, PLAIN)) if name in rows), ""
    )
    return {**rows, **({"auto": rows[taken]} if taken else {})}


def regrets_of(areas: Areas) -> dict[str, FloatArray]:
    """(seeds,) for each strategy, relative to the one with the best mean."""
    oracle = oracle_of(areas)
    best = max((name for name in areas if name != oracle), key=lambda name: float(areas[name].mean()))
    return {name: areas[best] - each for name, each in areas.items()}


def names_of(regrets: Mapping[str, Mapping[str, FloatArray]]) -> set[str]:
    """The strategies with a row; `SHARPENED` has none, since its rows are those of `auto`."""
    return {name for each in regrets.values() for name in each} - {SHARPENED}


def half_width(each: FloatArray) -> float:
    """Of the 95% interval of a mean."""
    from scipy.stats import t

    return float(t.ppf(0.975, len(each) - 1) * each.std(ddof=1) / np.sqrt(len(each))) if len(each) > 1 else np.nan


def worst(regrets: Mapping[str, Mapping[str, FloatArray]], name: str) -> tuple[float, str, int]:
    """The largest regret of a strategy, its pool, and the number of pools."""
    found = {pool: float(each[name].mean()) for pool, each in regrets.items() if name in each}
    where = max(found, key=lambda pool: found[pool])
    return found[where], where, len(found)


def verdict(regrets: Mapping[str, Mapping[str, FloatArray]]) -> Iterator[str]:
    """The regret of `auto` in a sentence."""
    at_most, where, n_pools = worst(regrets, "auto")
    others = names_of(regrets) - {"auto"}
    complete = {name: worst(regrets, name) for name in others if worst(regrets, name)[2] == len(regrets)}
    least = min(complete, key=lambda name: complete[name][0])
    interval = half_width(regrets[where]["auto"])
    yield (
        f"**`auto` loses at most {at_most:.2f} points** (± {interval:.2f}, on {where}), over {n_pools} of "
        f"{len(regrets)} pools. Of the other strategies that were run on all pools, `{least}` has the smallest "
        f"maximum: {complete[least][0]:.2f} points, on {complete[least][1]}. The aim of {NEAR} points is "
        f"{'met' if at_most <= NEAR else 'not met'}; {beyond_chance(regrets)}."
    )
    yield ""


def labels_needed(pool: "Pool") -> float:
    """The labels with which `auto` reaches the accuracy that random sampling ends with, as a share of random's.

    Curves are means over the seeds that both have, and linear between rounds; infinite if it is not reached.
    """
    curves = with_auto(pool.name, pool.curves)
    seeds = curves["auto"].keys() & curves["random"].keys()
    auto, random = (np.mean([curves[name][seed] for seed in seeds], axis=0) for name in ("auto", "random"))
    highest = np.maximum.accumulate(auto)
    if highest[-1] < random[-1]:
        return np.inf
    return float(np.interp(random[-1], highest, pool.labels)) / pool.labels[-1]


def labels_section(needed: Mapping[str, float]) -> Iterator[str]:
    """How many labels `auto` saves, in a sentence."""
    shares = np.array(list(needed.values()))
    low, median, high = np.quantile(shares, [0.25, 0.5, 0.75])
    never = [pool for pool, share in needed.items() if np.isinf(share)]
    missed = f"; not reached on {', '.join(never)}" if never else ""
    yield (
        f"**To reach the accuracy that random sampling ends with, `auto` needs {median:.0%} of its labels** (median of "
        f"all {len(shares)} comparisons on this page but those with [other models](#forests-and-small-networks), first "
        f"labels included; {low:.0%} to {high:.0%} in the middle half of them, at most "
        f"{shares[np.isfinite(shares)].max():.0%}{missed})."
    )
    yield ""


def beyond_chance(regrets: Mapping[str, Mapping[str, FloatArray]]) -> str:
    """The pools where the whole interval of `auto` exceeds the aim."""
    known = {pool: each["auto"] for pool, each in regrets.items() if "auto" in each}
    over = [pool for pool, each in known.items() if float(each.mean()) - half_width(each) > NEAR]
    return f"it is missed beyond chance on {', '.join(over)}" if over else "it is not missed beyond chance on any pool"


def table(regrets: Mapping[str, Mapping[str, FloatArray]]) -> Iterator[str]:
    """Strategies by pools, with regrets of at most `NEAR` in bold."""
    names = sorted(names_of(regrets), key=lambda name: _order(regrets, name))
    yield "## Regret"
    yield ""
    yield f"Points below the best strategy, ordered by the largest regret; bold is at most {NEAR}."
    yield ""
    yield f"| strategy | worst | mean | pools | {' | '.join(regrets)} |"
    yield f"| --- |{' --- |' * (len(regrets) + 3)}"
    for name in names:
        means = [float(each[name].mean()) for each in regrets.values() if name in each]
        cells = [_cell(float(each[name].mean())) if name in each else "" for each in regrets.values()]
        yield f"| `{name}` | {max(means):.2f} | {np.mean(means):.2f} | {len(means)} | {' | '.join(cells)} |"


def chart(regrets: Mapping[str, Mapping[str, FloatArray]], path: Path) -> None:
    """The regrets of the strategies that were run on nearly all pools, a dot for each pool and a bar for the mean."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    names = sorted(names_of(regrets), key=lambda name: -worst(regrets, name)[0])
    shown = [name for name in names if worst(regrets, name)[2] >= len(regrets) - 2]
    with plt.rc_context({"font.size": 10}):
        figure, axes = plt.subplots(figsize=(7.5, 0.45 * len(shown) + 0.9), layout="constrained")
        for row, name in enumerate(shown):
            losses = [max(float(each[name].mean()), 0.0) for each in regrets.values() if name in each]
            color = "#c2410c" if name == "auto" else "#475569"
            axes.barh(row, np.mean(losses), height=0.7, color=color, alpha=0.25)
            axes.plot(losses, [row] * len(losses), "o", color=color, markersize=4, alpha=0.7)
            axes.annotate(f"{max(losses):.2f}", (max(losses), row), (7, 0), textcoords="offset points", va="center")
        axes.set_yticks(range(len(shown)), shown)
        axes.set_xlabel("points of accuracy below the best strategy\n(dot: a data set, bar: mean, number: worst)")
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.set_xlim(left=0.0)
        figure.savefig(path, dpi=160, metadata={"Software": None})
        plt.close(figure)


def _order(regrets: Mapping[str, Mapping[str, FloatArray]], name: str) -> tuple[bool, int, float]:
    at_most, _, n_pools = worst(regrets, name)
    return name != "auto", -n_pools, at_most


def _cell(regret: float) -> str:
    return f"**{max(regret, 0.0):.2f}**" if regret <= NEAR else f"{regret:.2f}"


def pools_section(board: Board, starts: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Each pool, its best strategy and the gain over random."""
    yield "## Pools"
    yield ""
    yield (
        "Networks of two runs differ even with the same labels, because a GPU adds in any order. *Head start* is how "
        "many points the strategy used by `auto` was ahead of random before the first pick; where it is large, a gain "
        "over random means little. It is 0 if both come from one run, or from runs that are reproducible to the bit."
    )
    yield ""
    yield "| pool | data | seeds | best | over random | `auto` over random | head start |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for pool, areas in board.items():
        best = max(areas, key=lambda name: float(areas[name].mean()))
        taken = with_auto(pool, areas).get("auto")
        gains = [_gain(areas[best] - areas["random"]), "" if taken is None else _gain(taken - areas["random"])]
        gains.append(_head_start(pool, starts.get(pool, {})))
        study, _, flaw = pool.partition("-")
        what = TITLES.get(pool) or TITLES[study] + (f", {flaw}" if flaw else "")
        yield f"| {pool} | {what} | {len(areas['random'])} | `{best}` | {' | '.join(gains)} |"


def _head_start(pool: str, firsts: Mapping[str, float]) -> str:
    firsts = with_auto(pool, firsts)
    return f"{firsts['auto'] - firsts['random']:+.2f}" if {"auto", "random"} <= firsts.keys() else ""


def _gain(each: FloatArray) -> str:
    return f"{each.mean():+.2f} ± {half_width(each):.2f}"


def _plain(each: FloatArray) -> str:
    return f"{each.mean():.2f} ± {half_width(each):.2f}"


def experiments(found: Sequence["Pool"]) -> Iterator[str]:
    """The settings of all runs but those of the studies on features and networks."""
    shown = [pool for pool in found if not pool.name.startswith(("features-", "images-"))]
    example = shown[0]
    strategy = '\n[[strategies]]\nstrategy = "doubt-coverage"\nstrength = 3\nsharpen = 0.9'
    seeds = sorted(map(int, example.curves["random"]))
    text = next(iter(example.settings.values())).replace("\npool =", f"\nseeds = {seeds}\npool =") + strategy
    yield SETTINGS.format(name=example.name, text=textwrap.indent(text, "    "))
    columns = ("c", "iterations", "initial", "budget", "rounds")
    yield f"| pool | data | rows, with the test set | {' | '.join(f'`{name}`' for name in columns)} |"
    yield f"| --- | --- | --- |{' --- |' * len(columns)}"
    for pool in shown:
        (known,) = {json.dumps(tomllib.loads(text) | {"name": ""}) for text in pool.settings.values()}
        read = json.loads(known)
        data, values = read["data"], read["model"] | read["schedule"]
        line = [pool.name, data.get("builtin") or data["path"], data.get("rows", "all")]
        yield f"| {' | '.join(map(str, [*line, *(values[name] for name in columns)]))} |"


SETTINGS = """## Settings

Texts are unit vectors of the sentence encoder all-MiniLM-L6-v2 (int8); tables are standardized.
`tools/docs/regret_pools.py` creates both from the published files (it has their addresses and licenses, and
`sources.sha256` their checksums); a quarter of the rows is the test set (of `digits` 0.3). The features of `lite0` were
computed on a GPU, and differ in the last digits from those of a CPU. The studies of features and images are run by
name: `dubito run features-coverage-clean`, `dubito run images-coverage-clean`. The other runs differ in the values of
the table, in seeds (0 and up) and in strategies, whose names in the tables above include their options. Forests and
small networks were run with `python tools/docs/regret_models.py RAW RUNS --models forest mlp`, and with `--as-is` on
tables as published, with as many seeds as there was time for; their settings differ in `[model]`.

??? note "{name}"

    ```toml
{text}
    ```
"""


RESULTS = Path(__file__).parents[2] / "docs" / "results"
IMAGES = RESULTS.parent / "images"
KEPT = RESULTS / "regret"
TRIED = RESULTS / "regret-tries.json"
FLAWS = ("clean", "redundant", "ambiguous", "imbalanced", "mislabelled")
PLACES = 5


@dataclass(frozen=True, slots=True)
class Pool:
    """Curves of every strategy on one pool: a row of accuracies for each seed."""

    name: str
    labels: list[int]
    curves: dict[str, dict[str, list[float]]]
    settings: dict[str, str] = field(default_factory=dict)
    """What was run, as TOML, by the name of the experiment."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Mean time of each strategy to pick a batch."""

    def areas(self) -> dict[str, dict[str, float]]:
        """Of each strategy and seed the mean accuracy over the curve, in points."""
        width = self.labels[-1] - self.labels[0]
        return {
            name: {seed: 100.0 * float(np.trapezoid(each, self.labels)) / width for seed, each in rows.items()}
            for name, rows in self.curves.items()
        }

    def with_curves(
        self,
        curves: dict[str, dict[str, list[float]]],
        settings: dict[str, str],
        seconds: dict[str, float] | None = None,
    ) -> "Pool":
        """With more strategies, or with more seeds of one."""
        joined = {name: self.curves.get(name, {}) | rows for name, rows in curves.items()}
        return Pool(
            self.name, self.labels, self.curves | joined, self.settings | settings, self.seconds | (seconds or {})
        )


def pool_of(run: Path) -> Pool:
    """What a run's journal says; seeds that are not finished are left out."""
    experiment = read_folder(run)
    labels = experiment.schedule.labels.tolist()
    curves: dict[str, dict[str, list[float]]] = {}
    times: dict[str, list[float]] = {}
    for each in sorted(read_rounds(run), key=lambda each: each.turn):
        curves.setdefault(each.strategy, {}).setdefault(str(each.seed), []).append(round(each.test_accuracy, PLACES))
        if each.picked:
            times.setdefault(each.strategy, []).append(each.select_seconds)
    seconds = {name: round(float(np.mean(each)), 4) for name, each in times.items()}
    whole = {
        name: {seed: curve for seed, curve in rows.items() if len(curve) == len(labels)}
        for name, rows in curves.items()
    }
    name = re.sub(r"^(.*)-main$", r"images-\1", experiment.name.replace("coverage-", ""))
    settings = {experiment.name: settings_of(experiment.to_toml())}
    return Pool(name, labels, {name: rows for name, rows in whole.items() if rows}, settings, seconds)


def settings_of(experiment: str) -> str:
    """Data, model and schedule; strategies and seeds are those of the curves."""
    text = re.sub(r"^seeds = .*\n", "", experiment.partition("\n[[strategies]]")[0], flags=re.MULTILINE)
    # Where the file lay on the machine that ran it is nobody's business.
    return re.sub(r'^path = ".*?([^/"]+)"$', r'path = "\1"', text, flags=re.MULTILINE)


def keep(run: Path) -> None:
    """Add a run's strategies to what is kept of its pool."""
    found = pool_of(run)
    kinds = {tomllib.loads(text)["model"]["kind"] for text in found.settings.values()}
    path = KEPT.joinpath(*kinds & MODELS.keys(), f"{found.name}.json")
    write(read(path).with_curves(found.curves, found.settings, found.seconds) if path.exists() else found, path)


def write(found: Pool, path: Path) -> None:
    lines = [f"  {json.dumps(name)}: {json.dumps(rows)}" for name, rows in found.curves.items()]
    facts = {"name": found.name, "labels": found.labels, "settings": found.settings}
    head = json.dumps(facts | ({"seconds": found.seconds} if found.seconds else {}), indent=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head[:-2] + ',\n "curves": {\n' + ",\n".join(lines) + "\n }\n}\n", encoding="utf-8")


def read(path: Path) -> Pool:
    held = json.loads(path.read_text(encoding="utf-8"))
    return Pool(held["name"], held["labels"], held["curves"], held["settings"], held.get("seconds", {}))


def features(flaw: str) -> dict[str, dict[str, list[float]]]:
    """Curves of the study on frozen features."""
    held = json.loads((RESULTS / "features" / flaw / "results.json").read_text(encoding="utf-8"))
    seeds = [str(seed) for seed in held["seeds"]]
    return {each["strategy"]: dict(zip(seeds, each["accuracy"], strict=True)) for each in held["strategies"]}


def networks(flaw: str) -> dict[str, dict[str, list[float]]]:
    """Curves of the study on networks; none of CIFAR-100, where one run has them all."""
    if flaw == "cifar100":
        return {}
    record = f"images-strength-{flaw}" if flaw in FLAWS else f"{flaw}-main"
    held = json.loads((RESULTS / "networks" / f"{record}.json").read_text(encoding="utf-8"))
    at = {name: held["columns"].index(name) for name in ("strategy", "seed", "turn", "test_accuracy")}
    curves: dict[str, dict[str, list[float]]] = {}
    for row in sorted(held["rounds"], key=lambda row: row[at["turn"]]):
        name = held["strategies"][row[at["strategy"]]]
        curves.setdefault(name, {}).setdefault(str(row[at["seed"]]), []).append(row[at["test_accuracy"]])
    return curves


def tries() -> dict[str, dict[str, FloatArray]]:
    """What is recorded of changes of `auto`: (seeds,) of each pool and change."""
    held = json.loads(TRIED.read_text(encoding="utf-8"))["areas"]
    return {pool: {name: np.array(each) for name, each in areas.items()} for pool, areas in held.items()}


def models() -> dict[str, list[Pool]]:
    """What is recorded of each of `MODELS`."""
    return {kind: [read(path) for path in sorted((KEPT / kind).glob("*.json"))] for kind in MODELS}


def pools() -> Iterator[Pool]:
    """Everything else."""
    for path in sorted(KEPT.glob("*.json")):
        found = read(path)
        study, _, flaw = found.name.partition("-")
        if study == "features":
            found = found.with_curves(features(flaw), {})
        if study == "images":
            found = found.with_curves(networks(flaw), {})
        yield found


def areas_in_common(pool: Pool) -> dict[str, FloatArray]:
    """(seeds,) of each strategy, over the seeds that all have."""
    areas = pool.areas()
    seeds = set.intersection(*(set(rows) for rows in areas.values()))
    return {name: np.array([rows[seed] for seed in sorted(seeds, key=int)]) for name, rows in areas.items()}


def firsts(pool: Pool) -> dict[str, float]:
    """The mean accuracy of each strategy before its first pick, in points, over the seeds that all have."""
    seeds = set.intersection(*(set(rows) for rows in pool.curves.values()))
    return {name: 100.0 * float(np.mean([rows[seed][0] for seed in seeds])) for name, rows in pool.curves.items()}


def main(arguments: Sequence[str]) -> None:
    """Keep the runs, and write the page."""
    for each in arguments:
        keep(Path(each))
    (RESULTS / "regret.md").write_text(page(list(pools()), models()), encoding="utf-8")
    shown = {each.name: areas_in_common(each) for each in pools() if not batch_of(each.name)}
    chart({pool: regrets_of(with_auto(pool, areas)) for pool, areas in shown.items()}, IMAGES / "regret.png")


if __name__ == "__main__":
    main(sys.argv[1:])
