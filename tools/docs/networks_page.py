"""The page of the experiments on images: text, tables and verdicts, computed from the records."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from formatting import bold_p, format_points, table_head

from dubito.experiments.plan import Experiment, parse_experiment
from dubito.experiments.records import Round, curves
from dubito.experiments.statistics import Comparison, Interval, Rounded, area, format_p, holm, paired_test
from dubito.experiments.summary import Summary, finding
from dubito.matrix import FloatArray
from dubito.paper.network_studies import Ablation, epochs_of, gains, main_of
from dubito.paper.study import Verdict


class Words(NamedTuple):
    """Title and description of an experiment."""

    title: str
    short: str
    """Subtitle of its figure."""
    about: str


SEEDED = "Mean and one standard deviation over seeds."
POOLS = {
    "clean": "The 10,000 images as they are.",
    "redundant": "Five near-duplicates of each image, slightly brighter or darker and with noise: 60,000 images.",
    "ambiguous": "The 10,000 images and as many blends of two images of different classes, with the label of either.",
    "imbalanced": "Class sizes fall by a factor of ten, in another order for each seed: about 10,300 of 25,000 images.",
    "mislabelled": "A tenth of the labels is wrong.",
}
SWEEP = (400, 1000, 2500, 5000)

EXPERIMENTS = {
    "cifar10-main": Words(
        "CIFAR-10, the paper's protocol",
        "CIFAR-10, constant learning rate",
        "5,000 random labels, then four rounds of 5,000, with a constant learning rate. Figure 6 of the paper.",
    ),
    "cifar10-low-noise": Words(
        "CIFAR-10 with less training noise",
        "CIFAR-10, learning rate falls to 0 in each round",
        "The same with a cosine decay of the learning rate to 0 within each round. This is not the paper's protocol; "
        "it shows what training noise hides.",
    ),
    "cifar10-ablation": Words(
        "CIFAR-10, ablation",
        "CIFAR-10, constant learning rate",
        "1,000 random labels, then eight rounds of 400. Figure 5 of the paper, and the update as printed. With a "
        "constant learning rate, equal labels end up to a few points apart, so five seeds give intervals of about "
        "± 1 point; smaller effects are not visible here.",
    ),
    **{
        f"images-strength-{pool}": Words(
            f"Strength on the {pool} pool",
            f"CIFAR-10, {pool} pool, accuracy on a hold-out",
            f"{about} 1,000 random labels, then four rounds of 1,000, the learning rate decaying in each.",
        )
        for pool, about in POOLS.items()
    },
    **{
        f"cifar10-sweep-{budget}": Words(
            f"CIFAR-10, {budget:,} labels per round",
            f"CIFAR-10, {budget:,} labels a round, learning rate falls to 0 in each",
            f"From 1,000 to 11,000 labels, {budget:,} per round; the learning rate decays in each round.",
        )
        for budget in SWEEP
    },
    "cifar100-main": Words(
        "CIFAR-100, the paper's protocol",
        "CIFAR-100, constant learning rate",
        "5,000 random labels, then four rounds of 5,000. Figure 6 of the paper.",
    ),
    "svhn-main": Words(
        "SVHN, the paper's protocol",
        "SVHN, constant learning rate",
        "5,000 random labels, then four rounds of 5,000. Figure 6 of the paper.",
    ),
}

INTRODUCTION = """\
# Networks trained on images

This page repeats the paper's experiments: VGG16 on CIFAR-10, CIFAR-100 and SVHN, with all layers trained after every
round of labels. All numbers and verdicts are computed from the records in `docs/results/networks`; what was not run
is *not measured*.
"""

PROTOCOL = """\
## Method

- **Network.** The 13 convolutions of VGG16 with torchvision's ImageNet weights, on 32 × 32 images, and one linear layer
  on the 512 features after the last pooling, between which distances are measured.
- **Training.** Cross-entropy, Adam with PyTorch's defaults, batches of 64, no augmentation. Weights are kept from round
  to round and the optimizer is reset. Epochs in the first and in later rounds: CIFAR-10 30 and 12, CIFAR-100 80 and 20,
  SVHN 50 and 20, as in table 1 of the paper. On a GPU in bfloat16, many networks side by side.
- **Differences to the paper.** The learning rate is 1e-4, while the paper prints 0.01 (0.005 for SVHN): with these
  weights and without batch norm, 0.01 diverges on CIFAR-10. The paper does not say whether its VGG16 has batch norm;
  this one has none. Which doubt scales an update follows the paper's text and figures, not the printed line
  ([why](../explanation/algorithms.md)); `scaling=acquired` is the printed line.
- **Pairs.** Strategies of a seed share the first labels, the initial weights of the head and, as long as their labels
  are equal, the order of batches. On a GPU numbers differ in the last digits from run to run.
- **Statistics.** As in every report of `dubito`: the mean accuracy over the curve (the area under it divided by its
  width in labels), paired by seed, with 95% intervals. In an experiment's table, p is Holm-corrected over all
  strategies compared with the same baseline. In the table of claims, p is Holm-corrected over the comparisons of that
  claim alone: two for scaling with a beam, four for figure 5, and one, so uncorrected, for the plain core-set and for
  the sweep. A pair may therefore have two values of p. *Beyond chance* is p under 0.05. *Labels saved* is how much
  earlier a strategy reaches the final level of random. Nothing is corrected over experiments.
- **Tested on** the test set. The study of strengths is for choosing, so it uses a fifth of the training set instead.
- **What was seen before.** Prototypes of the main experiment, of the one with less noise and of the study of strengths,
  with three seeds, had been evaluated on the test set before this code was written; they are the reason for the last
  two. The learning rate is one that trains at all. Strategies, schedules and seeds were fixed before these runs; those
  of the sweep after the others, when a constant rate had shown how much noise it leaves.
- **Times.** `cifar10-main` had the GPU to itself except for its first minute, and shared the processor with twelve
  processes of other work, so its selections are slower than on an idle machine. The others shared the GPU, two at a
  time: their times mean little. The first training and the first selection of a kind include compiling; the time of a
  selection is therefore the median over rounds and seeds, while the total selection time includes compiling. In the
  records, a first training shared by several strategies is in the round of each; the sums here count it once. *Random
  and core-sets alone* counts training by their share of the strategies. The study of strengths except for its redundant
  pool, and the sweep, used a faster `badge` than the others. On an idle machine with that version, all selections of a
  seed of `cifar10-main` take 1.1 s, so those of five seeds 1.5% of training and selecting
  (`benchmarks/results/training.md` of the repository).
"""

RERUN = """\
## Run it again

```bash
dubito run cifar10-main --download        # brings CIFAR-10 (170 MB) and the weights (553 MB); --data-dir for a copy
dubito reproduce figure-5 figure-6        # the paper's figures with their claims
```

`dubito run` takes the name of every experiment above, and continues after an interruption. [Train networks on
images](../how-to/images.md) shows how to use your own images and networks.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """The record of one experiment."""

    name: str
    head: dict
    """Everything in the file except the rounds."""
    rounds: list[Round]
    summary: Summary

    @property
    def experiment(self) -> Experiment:
        return parse_experiment(self.head["settings"])

    def accuracy(self, name: str) -> FloatArray:
        """(seeds, trainings)"""
        return self.summary.curves[self.summary.names.index(name)].accuracy

    def area(self, name: str) -> FloatArray:
        """(seeds,)"""
        return area(self.summary.curves[self.summary.names.index(name)])


Study = dict[str, Record]


MAX_COLUMNS = 9
"""Maximum number of columns in a table of accuracies."""
PAPER_STRATEGIES = ("random", "coreset", "doubt-coreset")


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
    if len(labels) > MAX_COLUMNS:
        yield f"{MAX_COLUMNS} of the {len(labels)} numbers of labels; the figure has all.\n"
    columns = sorted({round(each) for each in np.linspace(0, len(labels) - 1, min(MAX_COLUMNS, len(labels)))})
    yield from table_head(["accuracy, %", *(f"{labels[column]:,} labels" for column in columns)])
    for curve in record.summary.curves:
        cells = [
            f"{Rounded(100 * curve.mean[column]):.1f} ± {Rounded(100 * curve.spread[column]):.1f}" for column in columns
        ]
        yield f"| `{curve.name}` | {' | '.join(cells)} |"


def statistics_table(record: Record) -> Iterator[str]:
    summary = record.summary
    yield from table_head(
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
    saved = {each.name: each.saved for each in summary.savings}
    for curve in summary.curves:
        cells = [f"{Rounded(100 * area(curve).mean()):.2f}"]
        for comparisons in (summary.against_random, summary.against_coreset):
            cells += comparison_cells(curve.name, comparisons)
        cells.append(format_saved(saved[curve.name]) if curve.name in saved else "–")
        yield f"| `{curve.name}` | {' | '.join(cells)} | {Rounded(selection_seconds(record, curve.name)):.2f} s |"


def comparison_cells(name: str, comparisons: Sequence[Comparison]) -> list[str]:
    found = next((each for each in comparisons if each.name == name), None)
    return ["–", "–"] if found is None else [format_points(found.difference), bold_p(found.p_holm)]


def format_saved(saved: Interval) -> str:
    numbers = (saved.estimate, saved.low, saved.high)
    estimate, low, high = ("never" if not np.isfinite(each) else f"{Rounded(each):,.0f}" for each in numbers)
    return estimate if np.isnan(saved.low) or {estimate, low, high} == {"never"} else f"{estimate} [{low}, {high}]"


def times(record: Record) -> str:
    """Times of training and selecting; a first training that several strategies share counts once."""
    trained = {(each.strategy if each.turn else "", each.seed, each.turn): each for each in record.rounds}
    model = record.experiment.model
    n_images = sum(each.labels * (model.later_epochs if each.turn else model.epochs) for each in trained.values())
    training = sum(each.train_seconds for each in trained.values())
    selecting = sum(each.select_seconds for each in record.rounds)
    return (
        f"{len(trained)} trainings, {Rounded(n_images / 1e6):,.1f} million images in {Rounded(training):,.0f} s: "
        f"{Rounded(n_images / training):,.0f} images per second. Selecting took {Rounded(selecting):,.1f} s in total, "
        f"{Rounded(selecting / (training + selecting)):.1%} of both; {paper_share(record, training)}"
    )


def selections(record: Record, name: str) -> list[float]:
    """Seconds of each selection."""
    return [each.select_seconds for each in record.rounds if each.strategy == name and each.picked]


def selection_seconds(record: Record, name: str) -> float:
    """The median, because a first call compiles kernels."""
    return float(np.median(selections(record, name)))


def paper_share(record: Record, training: float) -> str:
    """The share of selecting for the paper's strategies alone, each at its median time."""
    names = [name for name in record.summary.names if name.startswith(PAPER_STRATEGIES)]
    selecting = sum(len(selections(record, name)) * selection_seconds(record, name) for name in names)
    trained = training * len(names) / len(record.summary.names)
    return (
        f"for random and core-sets alone, selections at their median, {Rounded(selecting / (trained + selecting)):.1%}."
    )


MAINS = {"CIFAR-10": "cifar10-main", "CIFAR-100": "cifar100-main", "SVHN": "svhn-main"}
PLAIN, SCALED, PERMUTED = "coreset", "doubt-coreset", "doubt-coreset:permuted=true"
BEAMED = f"{SCALED}:beam_width=10"

# Overview and claims


def overview(study: Study) -> Iterator[str]:
    yield from table_head(["experiment", "title", "labels", "seeds", "finding"])
    for name, words in EXPERIMENTS.items():
        if name not in study:
            yield f"| `{name}` | {words.title} | | | not measured |"
            continue
        found = study[name].summary
        labels = found.curves[0].labels
        link = f"[{words.title}](#{name})"
        yield f"| `{name}` | {link} | {labels[0]:,} to {labels[-1]:,} | {len(found.seeds)} | {finding(found)} |"


def claims(study: Study) -> Iterator[str]:
    yield from table_head(["claim", "result", "measured"])
    for claim, verdict in verdicts(study):
        outcome = "not measured" if verdict is None else f"**{verdict.outcome}**"
        yield f"| {claim} | {outcome} | {'' if verdict is None else verdict.sentence} |"


def verdicts(study: Study) -> Iterator[tuple[str, Verdict | None]]:
    """Each claim of the paper and its verdict; None if nothing was run for it."""
    for collection, name in MAINS.items():
        claim = f"{collection}: scaled with a beam of 10 is above the plain core-set and random (figure 6)"
        yield claim, main_of({collection: study[name].rounds}).verdict() if name in study else None
        plain_claim = f"{collection}: the plain core-set is above random (figure 6)"
        yield plain_claim, above_verdict(study[name], PLAIN, "random") if name in study else None
    low, ablation = "cifar10-low-noise", "cifar10-ablation"
    yield (
        "CIFAR-10 with less training noise, not the paper's protocol: the same as the first",
        main_of({"CIFAR-10": study[low].rounds}).verdict() if low in study else None,
    )
    yield (
        "a beam helps only with scaled distances; both together end highest (figure 5)",
        Ablation(curves(study[ablation].rounds)).verdict() if ablation in study else None,
    )
    trained = {title: study[name].rounds for title, name in MAINS.items() if name in study}
    missing = [title for title in MAINS if title not in trained]
    epochs = epochs_of(trained, missing).verdict() if trained else None
    yield "the epochs of table 1 pass 99% training accuracy", epochs
    yield "scaled with a beam gains more with larger batches (abstract)", sweep_verdict(study)


def above_verdict(record: Record, name: str, over: str) -> Verdict:
    (found,) = gains(record.summary.curves, [(name, over)])
    return Verdict(found.is_significant, {}, f"{found} by the mean over the curve")


def sweep_verdict(study: Study) -> Verdict | None:
    """Whether the gain over the plain core-set at equal labels is larger with 5,000 labels per round than with 400."""
    few, many = (f"cifar10-sweep-{budget}" for budget in (SWEEP[0], SWEEP[-1]))
    if few not in study or many not in study:
        return None
    found, p = paired_test(last_gain(study[many]) - last_gain(study[few]))
    sentence = (
        f"at {last_labels(study[many]):,} labels the gain over the plain core-set is "
        f"{Rounded(100 * last_gain(study[many]).mean()):+.2f} points with "
        f"5,000 per round and {Rounded(100 * last_gain(study[few]).mean()):+.2f} with 400, "
        f"a difference of {format_points(found)} (p = {format_p(p)})"
    )
    return Verdict(found.estimate > 0 and p < 0.05, {}, sentence)


def last_labels(record: Record) -> int:
    return int(record.summary.curves[0].labels[-1])


def last_gain(record: Record, name: str = BEAMED, over: str = PLAIN) -> FloatArray:
    """(seeds,) difference in accuracy at the last number of labels."""
    return (record.accuracy(name) - record.accuracy(over))[:, -1]


OTHER_COMPARISONS = [(BEAMED, SCALED), *((SCALED, name) for name in ("least-confidence", "margin", "badge"))]


def other_comparisons(study: Study) -> Iterator[str]:
    """Comparisons that are not in the paper: with and without a beam, and scaling with uncertainty alone."""
    found = {name: study[name] for name in (*MAINS.values(), "cifar10-low-noise") if name in study}
    if not found:
        yield "Not measured.\n"
        return
    yield "Points of the mean over the curve, paired by seed; p is Holm-corrected over the four of an experiment.\n"
    yield from table_head(["", *(f"`{name}`" for name in found)])
    differences = [gains(record.summary.curves, OTHER_COMPARISONS) for record in found.values()]
    for i, (one, other) in enumerate(OTHER_COMPARISONS):
        cells = [f"**{each[i]}**" if each[i].p < 0.05 else str(each[i]) for each in differences]
        yield f"| `{one}` over `{other}` | {' | '.join(cells)} |"
    yield ""


# The study of strengths, and the sweep


def strengths(study: Study) -> Iterator[str]:
    found = {pool: study[f"images-strength-{pool}"] for pool in POOLS if f"images-strength-{pool}" in study}
    if not found:
        yield "Not measured.\n"
        return
    yield "Accuracy on the hold-out at the last labels, in percent; the best of each pool is bold.\n"
    yield from best_table(found, lambda record, name: record.accuracy(name)[:, -1].mean(), digits=1)
    yield "\nMean over the curve, in percent.\n"
    yield from best_table(found, lambda record, name: record.area(name).mean(), digits=2)
    yield ""
    yield from strength_steps(found)
    yield from control(found)


def best_table(found: Study, value: Callable[[Record, str], float], digits: int) -> Iterator[str]:
    """A value in percent for each strategy (row) and pool (column); the best of each pool is bold."""
    names = next(iter(found.values())).summary.names
    yield from table_head(["strategy", *found])
    best = {pool: max(names, key=lambda name: round(value(each, name), 9)) for pool, each in found.items()}
    for name in names:
        means = {pool: f"{Rounded(100 * value(each, name)):.{digits}f}" for pool, each in found.items()}
        cells = [f"**{mean}**" if best[pool] == name else mean for pool, mean in means.items()]
        yield f"| `{name}` | {' | '.join(cells)} |"


def strength_steps(found: Study) -> Iterator[str]:
    """Other strengths against that of the paper, with Holm's correction over those of a pool."""
    others = [f"{SCALED}:strength={strength}" for strength in ("0.25", "0.5", "2")]
    yield "Other strengths compared with 1, in points of the mean over the curve; p is corrected over a pool.\n"
    yield from table_head(["pool", *(part for name in others for part in (f"`{name.split(':')[1]}`", "p"))])
    for pool, record in found.items():
        tests = [paired_test(record.area(name) - record.area(SCALED)) for name in others]
        corrected = holm([p for _, p in tests])
        cells = [
            f"{format_points(difference)} | {bold_p(float(p))}"
            for (difference, _), p in zip(tests, corrected, strict=True)
        ]
        yield f"| {pool} | {' | '.join(cells)} |"
    yield ""


def control(found: Study) -> Iterator[str]:
    """Doubt compared with permuted doubt, with Holm's correction over the pools."""
    yield (
        "As a control, doubt compared with doubt permuted over the pool, and permuted doubt with none. p is corrected "
        "over the pools.\n"
    )
    yield from table_head(["pool", "doubt over permuted", "p", "permuted over coreset", "p"])
    pairs = [(SCALED, PERMUTED), (PERMUTED, PLAIN)]
    tests = [[paired_test(each.area(one) - each.area(other)) for each in found.values()] for one, other in pairs]
    corrected = [holm([p for _, p in column]) for column in tests]
    for i, pool in enumerate(found):
        cells = [
            f"{format_points(column[i][0])} | {bold_p(float(ps[i]))}"
            for column, ps in zip(tests, corrected, strict=True)
        ]
        yield f"| {pool} | {' | '.join(cells)} |"
    yield ""


def sweep(study: Study) -> Iterator[str]:
    found = {budget: study[f"cifar10-sweep-{budget}"] for budget in SWEEP if f"cifar10-sweep-{budget}" in study}
    if not found:
        yield "Not measured.\n"
        return
    names = next(iter(found.values())).summary.names
    labels = last_labels(next(iter(found.values())))
    yield f"Test accuracy at {labels:,} labels, in percent, and gains in points; p is Holm-corrected over a column.\n"
    gains_over = [(f"`{BEAMED}` over `{over}`", over) for over in (PLAIN, "random")]
    yield from table_head(
        [
            "labels per round",
            *(f"`{name}`" for name in names),
            *(cell for head, _ in gains_over for cell in (head, "p")),
        ]
    )
    tests = [[paired_test(last_gain(record, over=over)) for record in found.values()] for _, over in gains_over]
    corrected = [holm([p for _, p in column]) for column in tests]
    for i, (budget, record) in enumerate(found.items()):
        cells = [f"{Rounded(100 * record.accuracy(name)[:, -1].mean()):.1f}" for name in names]
        for column, ps in zip(tests, corrected, strict=True):
            cells += [format_points(column[i][0]), bold_p(float(ps[i]))]
        yield f"| {budget:,} | {' | '.join(cells)} |"
    yield ""


def machines(study: Study) -> Iterator[str]:
    by_machine: dict[tuple[str, str], list[str]] = {}
    for name, record in study.items():
        versions = ", ".join(f"{package} {number}" for package, number in record.head["versions"].items() if number)
        weights = f"; weights {record.head['weights']}" if record.head["weights"] else ""
        by_machine.setdefault((record.head["machine"], versions + weights), []).append(f"`{name}`")
    for (machine, versions), names in by_machine.items():
        yield f"- **{machine}**; {versions}: {', '.join(names)}."


def page(study: Study) -> str:
    lines = [INTRODUCTION, "## The paper's claims", "", *claims(study), "", "## Experiments", "", *overview(study), ""]
    lines += ["## Other comparisons", "", *other_comparisons(study)]
    lines += ["## Strength by pool", "", *strengths(study)]
    lines += ["## Labels per round", "", *sweep(study), "## Each experiment", ""]
    for record in study.values():
        lines += section(record)
    lines += [PROTOCOL]
    if study:
        lines += ["Measured on:", "", *machines(study), ""]
    return "\n".join([*lines, RERUN])
