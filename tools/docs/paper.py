"""Write the page of the paper's figures from the output of ``dubito reproduce all -o FOLDER``.

``python tools/docs/paper.py FOLDER`` writes the record that the package ships, the figures and the page; without a
folder, only the page.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from formatting import reduce_colors

from dubito.paper.exhibits import Exhibit, Measured, exhibits, read_measured, shipped

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "src" / "dubito" / "paper" / "measured.json"
PAGE = ROOT / "docs" / "results" / "paper.md"
PICTURES = PAGE.parent / "images"

INTRODUCTION = """\
# The paper's figures, measured again

`dubito reproduce` repeats the measurements of the paper (Li and Rudzicz, *Improving greedy core-set configurations for
active learning with uncertainty-scaled distances*), checks each claim with a criterion fixed in the code, and draws the
figures. This page lists every figure with its claim and result.

The paper does not specify its toy data completely (number of clusters, network, definition of the appendix's score);
choices are stated below. *Holds* means that the claim held in this measurement, with these choices.
"""

NOTES = {
    "figure-1": """\
The pool has 9 × 9 Gaussian clusters of standard deviation 1, three apart, in three classes shuffled over the grid:
3,000 points in the pool, 4,000 test points. The model is a network with two hidden layers of 64, trained from scratch
each round. The criterion is the mean accuracy over the rounds *and* the final accuracy. *Noise* is where the best
possible guess is wrong for more than a quarter of the points. The number of clusters was chosen to be large after
looking at other grids: with 25 clusters, least confidence is level with random or above it, and the claim does not
hold. On four
more pools of this size (`--seed` 3, 6, 9 and 12) it holds each time.""",
    "figure-2": """\
Pools of 120 points in four uneven clusters, nothing labeled. An integer program proves the optimum. Greedy leaves a
larger radius than closest K-means on most of these pools, which does not contradict its bound of twice the optimum: it
starts in the middle and then picks corners.""",
    "figure-3": """\
2,000 points of the square, 12 labeled, and a fixed model, the product of two logistic functions. Line 11 of Algorithm 2
uses the doubt of the *remaining* point. With the doubt of the acquired point, as printed, the farthest point from the
origin would be a corner. See [the algorithms](../explanation/algorithms.md).""",
    "figure-4": """\
One acquisition of 20 on the same square. Hollow squares are in all four configurations, which differ in few points.""",
    "figure-7": """\
Orange is the quadratic regime, δ < 1/λ_c; blue is at least as good as the core-set; pale is past δ*, where the theory
says nothing. The limits were derived by hand and compared with the library at z = 1e-9 and 1 - 1e-9.""",
    "figure-8": """\
1,000 numbers, 60% around -2 and 40% around 1.5. The paper does not specify the distribution.""",
    "figure-9": """\
The score prefers points of different components. These need not be spread over the whole line: the single best batch
may lie within one peak, as it does here. In the best 1% of batches, the points are hardly farther apart than in any
batch,
and not in denser places; what grows is the smallest gap.""",
    "figure-10": """\
The score is interpreted with a binary label for each point and the components as equally probable hypotheses. Then the
scores of the paper's sizes are skewed the other way. A right tail appears with few components and small batches. The
paper leaves the details of its score open, so this says more about the interpretation than about the idea.""",
    "figure-5": """\
VGG16 with ImageNet weights and learning rate 1e-4, because the printed 0.01 diverges here. *Helps* means: above the
plain core-set by the mean accuracy over the curve, paired over seeds, beyond chance after Holm's correction.
[Networks](networks.md) has every number.""",
    "figure-6": """\
The same network and criterion. The claim holds on CIFAR-10 and SVHN, but not on CIFAR-100, where nothing beats random
beyond chance. [Networks](networks.md) has every number, results for least confidence, margin and BADGE, which the paper
leaves out, and runs with less training noise.""",
    "table-1": """\
The criterion is the mean over strategies and seeds after each training. The rounds are those of figure 6.""",
    "figure-11": """\
25 clusters of standard deviation 0.5 on a grid of spacing 3, in five classes, 2,000 points; 50 labels, then five rounds
of 50; the network of figure 1. The probabilistic core-set chooses among 1,000 random batches.""",
    "figure-12": """\
The same with standard deviation 1. The claim holds by a very small margin: the lead over entropy is within the noise,
and with the first five seeds alone the exploitive form was level with entropy (inexpensive runs here use ten seeds).
Entropy and least confidence do *not* perform poorly here, unlike in the paper: both are above random.""",
    "figure-13": """\
Five rounds of the first seed at standard deviation 1, from figure 12. Both uncertainty methods concentrate where
clusters overlap.""",
    "negative-result": """\
*Barely* was defined as: not significant (paired over seeds, Holm's correction), or under two points. Cost is the time
of
a selection, including the model's predictions. The rounds are those of figures 11 and 12.""",
    "timing": """\
A generated pool shaped like the features of a network, in float32. Three sizes, the two of the statement and one
between, take turns; all runs are shown and the fastest counts. The criterion: no slower than the paper at each size (25
to 50 s), growing no faster than the labeled set, and scaling no more expensive. An earlier criterion, by medians and
with 25 s for every size, failed on a busy machine, where growth looked steeper than linear; the fastest of several runs
is
least affected by load. `make bench` has more numbers.""",
    "timing-gpu": """\
The pool and criterion of `timing`, including the copy of the features to the GPU. Measured three times on one NVIDIA
H200: scaling cost at most 1.15, 1.03 and 1.02 times the plain core-set. By the first, taken right after other work, the
claim would not hold, since the criterion allows 1.1; the middle one is shown.""",
    "discussion": """\
δ is the value recorded by the experiment before each turn's picks. λ_c is only bounded: from above by the weights of
the linear probe, from below by the largest doubt per distance in the pool. With the first few labels the bounds cross,
because the model is not sure of its own labels, which the theory assumes. The first half of the claim holds: no gain
with few labels, most in between, none when all is covered. The second half, that this is where δ·λ_c < 1, does not: the
regime is reached late, if at all.""",
}

TRAINED = {
    "cifar10-ablation": "4.7 minutes on one NVIDIA H200 shared with another experiment",
    "cifar10-main": "7.6 minutes on one NVIDIA H200, shared only in the first minute",
    "cifar100-main": "10 minutes on it, interrupted in its last round and continued",
    "svhn-main": "10.6 minutes on it, with other work on the processor",
}
"""Runs of networks that figures are drawn from, with their times."""


def duration(each: Exhibit, record: Measured) -> str:
    """How long a figure took; those of networks are drawn from finished runs."""
    names = [str(name) for name in each.parameters.get("experiments", ()) if name in TRAINED]
    if names:
        runs = "; ".join(f"`{name}`, which took {TRAINED[name]}" for name in names)
        return f"Drawn from a finished run of {runs}. `dubito reproduce {each.id}` trains what is missing."
    seconds = f"{record.seconds:,.0f} s" if record.seconds >= 1 else "under a second"
    return f"`dubito reproduce {each.id}` took {seconds}."


def summary(measured: dict[str, Measured]) -> Iterator[str]:
    yield "| figure | title | result |"
    yield "| --- | --- | --- |"
    for each in exhibits().values():
        link = f"[{each.place}](#{each.id})" if each.id in measured else each.place
        result = measured[each.id].outcome if each.id in measured else "not measured"
        yield f"| {link} | {each.title} | {result} |"


def section(each: Exhibit, record: Measured) -> Iterator[str]:
    yield f"## {each.id}"
    yield ""
    yield f"**{each.place}: {each.title}.** Claim: {each.claim}"
    yield ""
    yield f"![{each.title}, as measured here](images/{each.id}.png)"
    yield ""
    yield f"**{record.outcome[0].upper()}{record.outcome[1:]}:** {record.sentence}."
    yield ""
    yield NOTES[each.id]
    yield ""
    yield duration(each, record)
    yield ""


def unmeasured(measured: dict[str, Measured]) -> Iterator[str]:
    yield "## Not measured"
    yield ""
    for each in exhibits().values():
        if each.id not in measured:
            yield f"- **{each.place}, {each.title}** (`{each.id}`): {each.claim} It takes {each.cost}."


def page(measured: dict[str, Measured]) -> str:
    machines = sorted({each.machine for each in measured.values() if exhibits()[each.id].is_light})
    holding = [each for each in measured.values() if each.holds]
    partly = sorted(exhibits()[each.id].place for each in holding if each.scope)
    part = f", {len(partly)} of them in part ({', '.join(partly).lower()})" if partly else ""
    versions = ", ".join(f"{name} {number}" for name, number in next(iter(measured.values())).versions.items())
    n_missing = len(exhibits()) - len(measured)
    missing = (
        f"; {n_missing} more {'is' if n_missing == 1 else 'are'} [not measured](#not-measured)" if n_missing else ""
    )
    lines = [
        INTRODUCTION,
        f"**{len(holding)} of {len(measured)} claims hold**{part}{missing}.",
        "",
        *summary(measured),
        "",
        f"Measured on {', '.join(machines)}; {versions}; seed 0.",
        "Figures that need a GPU were measured on one NVIDIA H200.",
        "`dubito reproduce all` repeats all measurements, `dubito reproduce all --quick` a smaller version in a few",
        "minutes, and `dubito reproduce` lists the last results.",
        "",
    ]
    for each in exhibits().values():
        if each.id in measured:
            lines += section(each, measured[each.id])
    return "\n".join([*lines, *(unmeasured(measured) if n_missing else ())]) + "\n"


def main() -> None:
    """Write the records and figures of a folder, if one is given, and the page."""
    measured = record_folder(Path(sys.argv[1])) if len(sys.argv) > 1 else shipped()
    PAGE.write_text(page(measured), encoding="utf-8")


def record_folder(folder: Path) -> dict[str, Measured]:
    """Save the records and figures of a folder; the records of other figures are kept."""
    new = read_measured(folder)
    if any(each.quick for each in new.values()):
        raise SystemExit(f"{folder} holds a quick figure; run: dubito reproduce all -o {folder}")
    merged = {**shipped(), **new}
    merged = {name: merged[name] for name in exhibits() if name in merged}
    records = [each.as_dict() for each in merged.values()]
    SHIPPED.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name in new:
        reduce_colors(folder / f"{name}.png", PICTURES / f"{name}.png", max_side=1700)
    return merged


if __name__ == "__main__":
    main()
