"""``dubito demo``: real handwritten digits, offline, in well under a minute."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dubito.cli import options

if TYPE_CHECKING:
    from dubito.experiments.data_sources import DataSource
    from dubito.experiments.plan import Experiment
    from dubito.experiments.plots.picks import AskedPictures
    from dubito.experiments.records import Round
    from dubito.matrix import BoolArray

STRATEGIES = ("random", "least-confidence", "margin", "coreset", "doubt-coreset", "auto")
DIGITS, PICKED = "digits.npz", "picked.png"
INITIAL = BUDGET = 20
TEST_SHARE = 1 / 3


More = Annotated[
    list[str] | None,
    typer.Option(
        "--strategy",
        "-s",
        metavar="NAME",
        autocompletion=options.strategy_names,
        help="Another beside random, least-confidence, margin, coreset, doubt-coreset and auto, such as "
        "doubt-coreset:strength=0.5. May be repeated.",
    ),
]
Seeds = Annotated[str, typer.Option("--seeds", metavar="N", help="Repetitions from different labels.")]
Rounds = Annotated[str, typer.Option("--rounds", metavar="N", help="Rounds of 20 labels each.")]
Folder = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="FOLDER", rich_help_panel=options.OUTPUT, help="Where report, pictures and data go."
    ),
]

RoundTrip = Annotated[
    bool,
    typer.Option(
        "--round-trip", help="Instead: from a folder of pictures to labels and back, by embed, select and status."
    ),
]


def demo(
    strategy: More = None,
    seeds: Seeds = "10",
    rounds: Rounds = "6",
    output: Folder = "dubito-demo",
    round_trip: RoundTrip = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito demo[/bold]

    Label, train and select in rounds, on scikit-learn's 1,797 handwritten
    digits, and see which strategy learns most from its labels: what dubito
    simulate does with your own data. No network.
    """
    from dubito.cli.jobs import report
    from dubito.cli.jobs import simulate as job
    from dubito.request.arrays import check_integer, read_number

    folder = Path(output)
    if round_trip:
        from dubito.cli.jobs.demo import play

        play(folder)
        return
    experiment = plan(
        [*STRATEGIES, *(strategy or [])],
        seeds=check_integer("seeds", read_number(seeds), least=1),
        rounds=check_integer("rounds", read_number(rounds), least=1),
        folder=folder,
    )
    prepare_folder(experiment, folder)
    source = job.read_data(experiment, str(folder / DIGITS))
    job.run(experiment, folder, source, "dubito demo", workers="1", quiet=quiet)
    written = report.make_report(folder, folder, (), force=True)
    draw_picks(experiment, folder, source)
    also = (folder / DIGITS, folder / PICKED)
    report.tell(written, as_json, also=also, advice=list(next_steps(output)))


def plan(names: list[str], *, seeds: int, rounds: int, folder: Path) -> "Experiment":
    """The demo as an experiment; refused where the digits are too few for it."""
    from dubito.cli.jobs.simulate import read_arms
    from dubito.experiments.plan import Data, Experiment, Schedule

    schedule = Schedule(INITIAL, BUDGET, rounds)
    schedule.check_size(1797 - round(1797 * TEST_SHARE))
    data = Data(path=os.path.abspath(folder / DIGITS), test_share=TEST_SHARE)
    return Experiment("digits", read_arms(names), data, schedule, seeds=tuple(range(seeds)))


def prepare_folder(experiment: "Experiment", folder: Path) -> None:
    """Make the folder and the digits in it; a demo with other settings makes room for this one."""
    from dubito.cli.jobs.simulate import clear_run
    from dubito.errors import InvalidArgument, OutputExists
    from dubito.experiments.runner import check_folder
    from dubito.io import write_atomically

    if folder.is_file():
        raise OutputExists(f"{folder} is a file", hint="pass -o with another folder.")
    try:
        check_folder(experiment, folder)
    except InvalidArgument:
        clear_run(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(str(folder / DIGITS), digits_bytes())


def digits_bytes() -> bytes:
    """An ``.npz`` as a user would make one: features, labels, a model's probabilities, ids, what is labeled so far."""
    import io

    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    features, classes = load_digits(return_X_y=True)
    features = features / 16.0
    shuffled = np.random.default_rng(0).permutation(len(features))
    labeled = np.sort(shuffled[round(len(features) * TEST_SHARE) :][:INITIAL])
    model = LogisticRegression(max_iter=2000).fit(features[labeled], classes[labeled])
    # The first labels may lack a digit: the model never names it, and its row of weights is zero.
    probabilities, head = np.zeros((len(features), 10), np.float32), np.zeros((10, features.shape[1]))
    probabilities[:, model.classes_], head[model.classes_] = model.predict_proba(features), model.coef_
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        features=features.astype(np.float32),
        labels=classes,
        probabilities=probabilities,
        ids=np.array([f"digit-{row:04d}" for row in range(len(features))]),
        labeled=labeled,
        head=head,
    )
    return buffer.getvalue()


def draw_picks(experiment: "Experiment", folder: Path, source: "DataSource") -> None:
    """The first questions of the first seed, as images."""
    from dubito.experiments.plots import save_figure
    from dubito.experiments.plots.picks import picks_figure
    from dubito.experiments.rounds import lesson_on, prepare_seed
    from dubito.experiments.runner import read_rounds

    seed = experiment.seeds[0]
    seed_data = prepare_seed(experiment, source(seed), seed)
    guessed = experiment.model.fit(lesson_on(seed_data, seed_data.initial, 0, {})).predict_proba(
        seed_data.data.features
    )
    wrong = guessed.argmax(axis=1) != seed_data.data.labels
    first = [each for each in read_rounds(folder) if (each.seed, each.turn) == (seed, 0)]
    asked = [what_was_asked(each, wrong) for each in first]
    picture = picks_figure(
        seed_data.data.features.reshape(-1, 8, 8),
        seed_data.data.labels,
        asked,
        headline=describe_of_picks(asked),
        detail="the first batch of the first seed, in the order picked; underlined: the model had it wrong",
    )
    save_figure(picture, folder / PICKED, formats=("png",), force=True)


def what_was_asked(first: "Round", wrong: "BoolArray") -> "AskedPictures":
    """One strategy's first questions, and which of them the model had wrong."""
    import numpy as np

    from dubito.experiments.plots.picks import AskedPictures

    rows = np.array(first.picked, dtype=np.int64)
    return AskedPictures(first.strategy, rows, wrong[rows])


def describe_of_picks(asked: "list[AskedPictures]") -> str:
    """The picture's headline: how many of the first questions were misread, the method's against random's."""
    misread = {each.name: int(each.misread.sum()) for each in asked}
    ours, random = misread["auto"], misread["random"]
    return f"of its first {BUDGET} digits auto picks {ours} that were misread, random {random}"


def next_steps(folder: str) -> Iterator[str]:
    """What to run next: commands to copy, which work as they are printed."""
    from dubito.cli.output import program_name

    program, pool, picks = (
        program_name(),
        *(shlex.quote(os.path.join(folder, name)) for name in (DIGITS, "picks.csv")),
    )
    picture, again = (shlex.quote(os.path.join(folder, name)) for name in ("diagnosis.png", "redundant"))
    yield ""
    yield "Next, on the same digits with 20 labels:"
    yield f"  {program} select {pool} --budget 20 -o {picks}"
    yield "  (fill in a column label first)"
    yield f"  {program} select {pool} --budget 20 --labeled {picks}"
    yield f"  {program} diagnose {pool} --plot {picture}"
    yield ""
    yield "And if every digit were there six times?"
    yield f"  {program} simulate {pool} --pool redundant:5 --seeds 5 -o {again}"
    yield ""
    yield "With your own: numpy.savez('data.npz', features=..., labels=...), and name data.npz instead."
