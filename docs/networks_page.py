"""The page of the experiments on images: its tables and verdicts, each computed from the records."""

from collections.abc import Iterator

from networks_record import Record, Study, bold_p, heads, shown
from networks_section import section
from networks_words import EXPERIMENTS, INTRODUCTION, POOLS, PROTOCOL, RERUN, SWEEP

from dubito.experiments.statistics import Steady, holm, paired_test, shown_p
from dubito.experiments.summary import finding
from dubito.matrix import FloatArray
from dubito.paper.network_studies import ablation_of, epochs_of, gains, main_of
from dubito.paper.study import Verdict

MAINS = {"CIFAR-10": "cifar10-main", "CIFAR-100": "cifar100-main", "SVHN": "svhn-main"}
PLAIN, SCALED, PERMUTED = "coreset", "doubt-coreset", "doubt-coreset:permuted=true"
BEAMED = f"{SCALED}:beam_width=10"

# What was run, and what the paper's claims come to


def overview(study: Study) -> Iterator[str]:
    yield from heads(["experiment", "what", "labels", "seeds", "in a sentence"])
    for name, words in EXPERIMENTS.items():
        if name not in study:
            yield f"| `{name}` | {words.title} | | | not measured |"
            continue
        found = study[name].summary
        labels = found.curves[0].labels
        where = f"[{words.title}](#{name})"
        yield f"| `{name}` | {where} | {labels[0]:,} to {labels[-1]:,} | {len(found.seeds)} | {finding(found)} |"


def claims(study: Study) -> Iterator[str]:
    yield from heads(["claim", "here", "measured"])
    for claim, verdict in verdicts(study):
        outcome = "not measured" if verdict is None else f"**{verdict.outcome}**"
        yield f"| {claim} | {outcome} | {'' if verdict is None else verdict.sentence} |"


def verdicts(study: Study) -> Iterator[tuple[str, Verdict | None]]:
    """Each claim of the paper and what came out; None where nothing was run for it."""
    for collection, name in MAINS.items():
        claim = f"{collection}: scaled with a beam of 10 is above the plain core-set and random (figure 6)"
        yield claim, main_of({collection: study[name].rounds}).verdict() if name in study else None
        pair = f"{collection}: the plain core-set is above random (figure 6)"
        yield pair, above(study[name], PLAIN, "random") if name in study else None
    low, ablation = "cifar10-low-noise", "cifar10-ablation"
    yield (
        "CIFAR-10 with less training noise, not the paper's protocol: the same as the first",
        main_of({"CIFAR-10": study[low].rounds}).verdict() if low in study else None,
    )
    yield (
        "a beam helps only where distances are scaled; both together end highest (figure 5)",
        ablation_of(study[ablation].rounds).verdict() if ablation in study else None,
    )
    trained = {title: study[name].rounds for title, name in MAINS.items() if name in study}
    missing = [title for title in MAINS if title not in trained]
    epochs = epochs_of(trained, missing).verdict() if trained else None
    yield "the epochs of table 1 pass 99% training accuracy", epochs
    yield "scaled with a beam gains more where more is asked for at once (abstract)", sweep_verdict(study)


def above(record: Record, name: str, over: str) -> Verdict:
    (found,) = gains(record.summary.curves, [(name, over)])
    return Verdict(found.is_sure, {}, f"{found} by the mean over the curve")


def sweep_verdict(study: Study) -> Verdict | None:
    """Whether the method's gain over the plain core-set at equal labels is larger at 5,000 a round than at 400."""
    few, many = (f"cifar10-sweep-{budget}" for budget in (SWEEP[0], SWEEP[-1]))
    if few not in study or many not in study:
        return None
    found, p = paired_test(last_gain(study[many]) - last_gain(study[few]))
    sentence = (
        f"at {last_labels(study[many]):,} labels the gain over the plain core-set is "
        f"{Steady(100 * last_gain(study[many]).mean()):+.2f} points with "
        f"5,000 a round and {Steady(100 * last_gain(study[few]).mean()):+.2f} with 400, a difference of {shown(found)} "
        f"(p = {shown_p(p)})"
    )
    return Verdict(found.estimate > 0 and p < 0.05, {}, sentence)


def last_labels(record: Record) -> int:
    return int(record.summary.curves[0].labels[-1])


def last_gain(record: Record, name: str = BEAMED, over: str = PLAIN) -> FloatArray:
    """(seeds,) at the last labels."""
    return (record.accuracy(name) - record.accuracy(over))[:, -1]


BESIDES = [(BEAMED, SCALED), *((SCALED, name) for name in ("least-confidence", "margin", "badge"))]


def besides(study: Study) -> Iterator[str]:
    """What the paper does not ask: a beam against none, and scaling against uncertainty alone."""
    found = {name: study[name] for name in (*MAINS.values(), "cifar10-low-noise") if name in study}
    if not found:
        yield "Not measured.\n"
        return
    yield "Points of the mean over the curve, paired by seed; p is Holm's over the four of an experiment.\n"
    yield from heads(["", *(f"`{name}`" for name in found)])
    differences = [gains(record.summary.curves, BESIDES) for record in found.values()]
    for place, (one, other) in enumerate(BESIDES):
        cells = [f"**{each[place]}**" if each[place].p < 0.05 else str(each[place]) for each in differences]
        yield f"| `{one}` over `{other}` | {' | '.join(cells)} |"
    yield ""


# The study of strengths, and the sweep


def strengths(study: Study) -> Iterator[str]:
    found = {pool: study[f"images-strength-{pool}"] for pool in POOLS if f"images-strength-{pool}" in study}
    if not found:
        yield "Not measured.\n"
        return
    names = next(iter(found.values())).summary.names
    yield "Accuracy on the hold-out at the last labels, in percent; the best of each pool is bold.\n"
    yield from heads(["strategy", *found])
    best = {
        pool: max(names, key=lambda name: round(each.accuracy(name)[:, -1].mean(), 9)) for pool, each in found.items()
    }
    for name in names:
        means = {pool: Steady(100 * each.accuracy(name)[:, -1].mean()) for pool, each in found.items()}
        cells = [f"**{mean:.1f}**" if best[pool] == name else f"{mean:.1f}" for pool, mean in means.items()]
        yield f"| `{name}` | {' | '.join(cells)} |"
    yield "\nMean over the curve, in percent.\n"
    yield from heads(["strategy", *found])
    top = {pool: max(names, key=lambda name: round(each.area(name).mean(), 9)) for pool, each in found.items()}
    for name in names:
        means = {pool: Steady(100 * each.area(name).mean()) for pool, each in found.items()}
        cells = [f"**{mean:.2f}**" if top[pool] == name else f"{mean:.2f}" for pool, mean in means.items()]
        yield f"| `{name}` | {' | '.join(cells)} |"
    yield ""
    yield from strength_steps(found)
    yield from control(found)


def strength_steps(found: Study) -> Iterator[str]:
    """Each strength against the paper's, with Holm's correction over those of a pool."""
    others = [f"{SCALED}:strength={strength}" for strength in ("0.25", "0.5", "2")]
    yield "Other strengths against the paper's, 1, in points of the mean over the curve; p is corrected over a pool.\n"
    yield from heads(["pool", *(part for name in others for part in (f"`{name.split(':')[1]}`", "p"))])
    for pool, record in found.items():
        tests = [paired_test(record.area(name) - record.area(SCALED)) for name in others]
        corrected = holm([p for _, p in tests])
        cells = [f"{shown(found)} | {bold_p(float(p))}" for (found, _), p in zip(tests, corrected, strict=True)]
        yield f"| {pool} | {' | '.join(cells)} |"
    yield ""


def control(found: Study) -> Iterator[str]:
    """Doubt against doubt dealt out anew, with Holm's correction over the pools."""
    yield (
        "The control: what doubt is worth where it belongs to its image, over doubt permuted in the pool; and permuted "
        "doubt over none. p is corrected over the pools.\n"
    )
    yield from heads(["pool", "doubt over permuted", "p", "permuted over coreset", "p"])
    pairs = [(SCALED, PERMUTED), (PERMUTED, PLAIN)]
    tests = [[paired_test(each.area(one) - each.area(other)) for each in found.values()] for one, other in pairs]
    corrected = [holm([p for _, p in column]) for column in tests]
    for place, pool in enumerate(found):
        cells = [
            f"{shown(column[place][0])} | {bold_p(float(ps[place]))}"
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
    yield f"Test accuracy at {labels:,} labels, in percent, and gains in points; p is Holm's over a column.\n"
    gained = [(f"`{BEAMED}` over `{over}`", over) for over in (PLAIN, "random")]
    yield from heads(
        ["labels a round", *(f"`{name}`" for name in names), *(x for head, _ in gained for x in (head, "p"))]
    )
    tests = [[paired_test(last_gain(record, over=over)) for record in found.values()] for _, over in gained]
    corrected = [holm([p for _, p in column]) for column in tests]
    for place, (budget, record) in enumerate(found.items()):
        cells = [f"{Steady(100 * record.accuracy(name)[:, -1].mean()):.1f}" for name in names]
        for column, ps in zip(tests, corrected, strict=True):
            cells += [shown(column[place][0]), bold_p(float(ps[place]))]
        yield f"| {budget:,} | {' | '.join(cells)} |"
    yield ""


def machines(study: Study) -> Iterator[str]:
    by_machine: dict[tuple[str, str], list[str]] = {}
    for name, record in study.items():
        versions = ", ".join(f"{package} {number}" for package, number in record.held["versions"].items() if number)
        weights = f"; weights {record.held['weights']}" if record.held["weights"] else ""
        by_machine.setdefault((record.held["machine"], versions + weights), []).append(f"`{name}`")
    for (machine, versions), names in by_machine.items():
        yield f"- **{machine}**; {versions}: {', '.join(names)}."


def page(study: Study) -> str:
    """The whole page."""
    lines = [INTRODUCTION, "## The paper's claims", "", *claims(study), "", "## What was run", "", *overview(study), ""]
    lines += [PROTOCOL]
    if study:
        lines += ["Measured on:", "", *machines(study), ""]
    lines += ["## Beside the paper's claims", "", *besides(study)]
    lines += ["## How much strength, on which pool", "", *strengths(study)]
    lines += ["## How many labels at a time", "", *sweep(study), "## Each experiment", ""]
    for record in study.values():
        lines += section(record)
    return "\n".join([*lines, RERUN])
