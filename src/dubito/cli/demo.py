"""``dubito demo``: real handwritten digits, offline, in well under a minute."""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from dubito.cli import options
from dubito.cli.messages import Bar, say, show

if TYPE_CHECKING:
    from dubito.matrix import AnyArray
    from dubito.rehearsal import Plan, Rehearsal

STRATEGIES = ("random", "least-confidence", "margin", "coreset", "doubt-coreset")
WRITTEN = ("digits.npz", "curves.png", "curves.svg", "picked.png")


def demo(
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            "--strategy",
            "-s",
            metavar="NAME",
            autocompletion=options.strategy_names,
            help="Another beside random, least-confidence, margin, coreset and doubt-coreset. May be repeated.",
        ),
    ] = None,
    seeds: Annotated[str, typer.Option("--seeds", metavar="N", help="Repetitions from different labels.")] = "10",
    rounds: Annotated[str, typer.Option("--rounds", metavar="N", help="Rounds of 20 labels each.")] = "6",
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            rich_help_panel=options.OUTPUT,
            help="Where pictures and data go.",
        ),
    ] = "dubito-demo",
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito demo[/bold]

    Label, train and select in rounds, on scikit-learn's 1,797 handwritten
    digits, and see which strategy learns most from its labels. No network.
    """
    import json

    from dubito.checks import check_integer
    from dubito.cli.inputs import read_number
    from dubito.rehearsal import Plan

    plan = Plan(
        seeds=check_integer("seeds", read_number(seeds), least=1),
        rounds=check_integer("rounds", read_number(rounds), least=1),
    )
    check_folder(output)
    played = play(plan, [*STRATEGIES, *(strategy or [])], quiet)
    write_files(played, output)
    if as_json:
        print(json.dumps(as_record(played, output), indent=2))
        return
    show_table(played)
    print("\n".join(report(played, output)))


def check_folder(folder: str) -> None:
    """Refuse what is no folder; in one that exists, files of the demo's names are replaced."""
    from dubito.errors import OutputExists

    if os.path.isfile(folder):
        raise OutputExists(f"{folder} is a file; pass -o with another folder.")


def play(plan: "Plan", names: list[str], quiet: bool) -> "Rehearsal":
    """The rehearsal itself, with a bar."""
    from dubito.rehearsal import rehearse
    from dubito.strategies import build_strategy

    arms = {name: build_strategy(name, {}) for name in names}
    features, classes, _ = digits()
    started = time.perf_counter()
    with Bar("rehearsing", quiet=quiet) as bar:
        played = rehearse(
            features,
            classes,
            arms,
            plan,
            progress=lambda done, total: bar(done, total, None, time.perf_counter() - started),
        )
    trainings = plan.seeds * len(arms) * (plan.rounds + 1)
    say(f"trained {trainings} models in {time.perf_counter() - started:.0f} s", quiet=quiet)
    return played


def digits() -> "tuple[AnyArray, AnyArray, AnyArray]":
    """Features (n, 64) in [0, 1], classes (n,) and images (n, 8, 8), from scikit-learn's own copy."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return data.data / 16.0, data.target, data.images


def write_files(played: "Rehearsal", folder: str) -> None:
    """The two pictures, and the digits as a pool to try commands on."""
    from dubito.files import write_atomically
    from dubito.plots import save_figure
    from dubito.plots.curves import curves_figure
    from dubito.plots.picks import picks_figure

    os.makedirs(folder, exist_ok=True)
    features, classes, images = digits()
    n, seeds = len(features), played.plan.seeds
    curves = curves_figure(
        played,
        detail=f"{n:,} handwritten digits, logistic regression; mean and one standard deviation of {seeds} seeds",
    )
    picked = picks_figure(
        images,
        classes,
        played.asked,
        headline=what_was_asked(played),
        detail="the first batch of the first seed, in the order picked; underlined: the model had it wrong",
    )
    save_figure(curves, os.path.join(folder, "curves"), force=True)
    save_figure(picked, os.path.join(folder, "picked"), formats=("png",), force=True)
    write_atomically(os.path.join(folder, "digits.npz"), pool_bytes(features, classes, played.plan))


def what_was_asked(played: "Rehearsal") -> str:
    """The picture's headline: how many of the first questions were misread, the method's against random's."""
    misread = {each.name: int(each.misread.sum()) for each in played.asked}
    ours, random = misread["doubt-coreset"], misread["random"]
    return f"of its first {played.plan.batch} digits doubt-coreset picks {ours} that were misread, random {random}"


def pool_bytes(features: "AnyArray", classes: "AnyArray", plan: "Plan") -> bytes:
    """An ``.npz`` as a user would make one: features, a model's probabilities, ids, and the rows labelled so far."""
    import io

    import numpy as np

    from dubito.rehearsal import first_state

    labelled, model = first_state(features, classes, plan)
    # The first labels may lack a digit: the model never names it, and its row of weights is zero.
    probabilities, head = np.zeros((len(features), 10), np.float32), np.zeros((10, features.shape[1]))
    probabilities[:, model.classes_], head[model.classes_] = model.predict_proba(features), model.coef_
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        features=features.astype(np.float32),
        probabilities=probabilities,
        ids=np.array([f"digit-{row:04d}" for row in range(len(features))]),
        labelled=labelled,
        head=head,
    )
    return buffer.getvalue()


def show_table(played: "Rehearsal") -> None:
    """Accuracy in percent, mean and (of several seeds) ± one standard deviation, a row for each number of labels."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title="accuracy on held-out digits, %", title_style="bold", title_justify="left")
    table.add_column("labels", justify="right")
    for curve in played.curves:
        table.add_column(curve.name, justify="right", no_wrap=True)
    for at, labels in enumerate(played.plan.labels):
        best = max(curve.mean[at] for curve in played.curves)
        table.add_row(
            str(labels),
            *(
                Text(
                    f"{100 * curve.mean[at]:.1f}"
                    + (f" ± {100 * curve.spread[at]:.1f}" if played.plan.seeds > 1 else ""),
                    style="bold" if curve.mean[at] == best else "",
                )
                for curve in played.curves
            ),
        )
    show(table)


def report(played: "Rehearsal", folder: str) -> Iterator[str]:
    """What was found, where the pictures are, and what to run next."""
    from dubito.rehearsal import finding

    plan = played.plan
    yield f"In short: {finding(played, 'random')}."
    yield from comparisons(played)
    yield from level_with_the_best(played)
    yield f"Seed by seed all start from the same {plan.initial} random labels and ask for {plan.batch} a round."
    yield "doubt-coreset runs as it does by default: strength 1, no beam."
    yield ""
    for name in WRITTEN:
        yield f"  {os.path.join(folder, name)}"
    yield ""
    yield "Next, on the same digits with their first 20 labels:"
    yield from next_steps(folder)
    yield ""
    yield "With your own: numpy.savez('pool.npz', features=..., probabilities=..., ids=...), and name pool.npz instead."


def comparisons(played: "Rehearsal") -> Iterator[str]:
    """A line for each strategy: seed by seed against random, and labels saved."""
    from dubito.rehearsal import labels_saved

    random = played.curve("random")
    for curve in played.curves:
        if curve.name == "random":
            continue
        gain = curve.accuracy[:, -1] - random.accuracy[:, -1]
        saved = labels_saved(curve, random)
        told = "no labels saved" if saved is None or saved < 1 else f"labels saved: {round(saved)}"
        yield (
            f"  {curve.name:<18}{100 * gain.mean():+.1f} points at {random.labels[-1]} labels, ahead of random in "
            f"{int((gain > 0).sum())} of {len(gain)} seeds; {told}"
        )


def level_with_the_best(played: "Rehearsal") -> Iterator[str]:
    """A line on those whose last mean is within one standard deviation of the best, which is no sure lead."""
    best = max(played.curves, key=lambda curve: float(curve.mean[-1]))
    level = [
        curve.name
        for curve in played.curves
        if curve is not best and best.mean[-1] - curve.mean[-1] <= max(best.spread[-1], curve.spread[-1])
    ]
    if level:
        verb = "is" if len(level) == 1 else "are"
        yield (
            f"At {best.labels[-1]} labels {' and '.join(level)} {verb} within one standard deviation of {best.name}: "
            "no sure difference."
        )


def next_steps(folder: str) -> Iterator[str]:
    """Commands to copy, which work as they are printed."""
    program, pool, picks = (
        program_name(),
        *(shlex.quote(os.path.join(folder, name)) for name in ("digits.npz", "picks.csv")),
    )
    picture = shlex.quote(os.path.join(folder, "diagnosis.png"))
    yield f"  {program} select {pool} --budget 20 -o {picks}"
    yield "  (fill in a column label first)"
    yield f"  {program} select {pool} --budget 20 --labelled {picks}"
    yield f"  {program} diagnose {pool} --plot {picture}"


def program_name() -> str:
    """``dubito`` where the shell would find this one, else this Python and ``-m dubito``."""
    found = shutil.which("dubito")
    if found and os.path.dirname(os.path.realpath(found)) == os.path.dirname(os.path.abspath(sys.executable)):
        return "dubito"
    near = os.path.relpath(sys.executable)
    return f"{shlex.quote(min(near, sys.executable, key=len))} -m dubito"


def as_record(played: "Rehearsal", folder: str) -> dict[str, object]:
    """The result as JSON holds it."""
    from dubito.rehearsal import labels_saved

    random = played.curve("random")
    curves = [
        {
            "strategy": curve.name,
            "accuracy": curve.accuracy.tolist(),
            "mean": curve.mean.tolist(),
            "standard_deviation": curve.spread.tolist(),
            "labels_saved": labels_saved(curve, random),
        }
        for curve in played.curves
    ]
    files = [os.path.join(folder, name) for name in WRITTEN]
    return {"schema": 1, "labels": played.plan.labels.tolist(), "curves": curves, "files": files}
