"""``dubito demo``: real handwritten digits, offline, in well under a minute."""

import csv
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np

from dubito.cli import options
from dubito.cli.commands import report, simulate
from dubito.cli.options import option
from dubito.cli.output import print_lines, print_note, program_name, set_quiet
from dubito.errors import DubitoError, OutputExists
from dubito.experiments.data_sources import DataSource
from dubito.experiments.plan import Data, Experiment, Schedule
from dubito.experiments.rounds import prepare_seed, training_set
from dubito.experiments.runner import EXPERIMENT, read_folder, read_rounds
from dubito.io import write_atomically
from dubito.registry import require
from dubito.request.arrays import check_integer, read_number

STRATEGIES = ("random", "least-confidence", "margin", "coreset", "doubt-coreset", "auto")
DIGITS, PICKED = "digits.npz", "picked.png"
INITIAL = BUDGET = 20
TEST_SHARE = 1 / 3
OTHER_FOLDER = "pass -o with another folder."


MoreStrategies = Annotated[
    list[str] | None,
    option(
        "--strategy -s NAME",
        "A strategy in addition to random, least-confidence, margin, coreset, doubt-coreset and auto, such as "
        "doubt-coreset:strength=0.5. May be repeated.",
        autocompletion=options.strategy_names,
    ),
]
Seeds = Annotated[str, option("--seeds N", "Number of repetitions, each with other initial labels.")]
Rounds = Annotated[str, option("--rounds N", "Rounds of 20 labels each.")]
Folder = Annotated[str, option("--output -o FOLDER", "The folder for report, plots and data.", options.OUTPUT)]

RoundTrip = Annotated[bool, option("--round-trip", "Instead, show embed, select and status on a folder of pictures.")]


def demo(
    strategy: MoreStrategies = None,
    seeds: Seeds = "10",
    rounds: Rounds = "6",
    output: Folder = "dubito-demo",
    round_trip: RoundTrip = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito demo[/bold]

    Compare strategies on scikit-learn's 1,797 handwritten digits: label, train
    and select in rounds, as dubito simulate does with your own data. Works offline.
    """
    set_quiet(quiet)
    folder = Path(output)
    if round_trip:
        run_round_trip(folder)
        return
    experiment = plan(
        [*STRATEGIES, *(strategy or [])],
        seeds=check_integer("seeds", read_number(seeds), least=1),
        rounds=check_integer("rounds", read_number(rounds), least=1),
        folder=folder,
    )
    print_note("preparing 1,797 handwritten digits...")  # Imports and a first model take some seconds.
    prepare_folder(experiment, folder)
    source = simulate.read_data(experiment, str(folder / DIGITS))
    simulate.run(experiment, folder, source, "dubito demo", workers="1")
    written = report.make_report(folder, folder, (), force=True)
    draw_picks(experiment, folder, source)
    files = (folder / DIGITS, folder / PICKED)
    report.print_report(written, as_json, more_files=files, advice=list(next_steps(output)))


def plan(names: list[str], *, seeds: int, rounds: int, folder: Path) -> Experiment:
    """The demo as an experiment; raises if there are too few digits for it."""
    schedule = Schedule(INITIAL, BUDGET, rounds)
    schedule.check_size(1797 - round(1797 * TEST_SHARE))
    data = Data(path=os.path.abspath(folder / DIGITS), test_share=TEST_SHARE)
    return Experiment("digits", simulate.read_arms(names), data, schedule, seeds=tuple(range(seeds)))


def prepare_folder(experiment: Experiment, folder: Path) -> None:
    """Create the folder and write the digits into it.

    An earlier demo there that had other settings is removed first. Raises for a folder with any other run.
    """
    if folder.is_file():
        raise OutputExists(f"{folder} is a file", hint=OTHER_FOLDER)
    if (folder / EXPERIMENT).exists():
        existing = read_folder(folder)
        if not is_demo(existing):
            problem = f"{folder} holds the run {existing.folder_name}, which is not a demo"
            raise OutputExists(problem, hint=OTHER_FOLDER)
        if existing.hash8 != experiment.hash8:
            simulate.clear_run(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(str(folder / DIGITS), digits_bytes())


def is_demo(experiment: Experiment) -> bool:
    """Whether an experiment is a demo with any strategies, seeds and number of rounds, in any folder."""
    path = experiment.data.path
    if path is None or Path(path).name != DIGITS:
        return False
    any_demo = plan(list(STRATEGIES), seeds=1, rounds=1, folder=Path(path).parent)
    schedule = replace(experiment.schedule, rounds=1)
    return replace(experiment, strategies=any_demo.strategies, seeds=any_demo.seeds, schedule=schedule) == any_demo


def digits_bytes() -> bytes:
    """An ``.npz`` of features, labels, ids, labeled rows, and the probabilities and head of a model fitted on them."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    features, classes = load_digits(return_X_y=True)
    features = features / 16.0
    shuffled = np.random.default_rng(0).permutation(len(features))
    labeled = np.sort(shuffled[round(len(features) * TEST_SHARE) :][:INITIAL])
    model = LogisticRegression(max_iter=2000).fit(features[labeled], classes[labeled])
    # The first labels may lack a digit. Its probability and its row of weights are then zero.
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


def draw_picks(experiment: Experiment, folder: Path, source: DataSource) -> None:
    from dubito.experiments.plots import save_figure
    from dubito.experiments.plots.picks import PickedPictures, picks_figure

    seed = experiment.seeds[0]
    seed_data = prepare_seed(experiment, source(seed), seed)
    predicted = experiment.model.fit(training_set(seed_data, seed_data.initial, 0, {})).predict_proba(
        seed_data.data.features
    )
    wrong = predicted.argmax(axis=1) != seed_data.data.labels
    first = [each for each in read_rounds(folder) if (each.seed, each.turn) == (seed, 0)]
    rows = [np.array(each.picked, dtype=np.int64) for each in first]
    pictures = [PickedPictures(each.strategy, picked, wrong[picked]) for each, picked in zip(first, rows, strict=True)]
    misread = {each.name: int(each.misread.sum()) for each in pictures}
    ours, random = misread["auto"], misread["random"]
    picture = picks_figure(
        seed_data.data.features.reshape(-1, 8, 8),
        seed_data.data.labels,
        pictures,
        headline=f"misread by the model: {ours} of the first {BUDGET} digits that auto picks, {random} of those that "
        "random picks",
        detail="the first batch of the first seed, in the order picked; underlined: the model had it wrong",
    )
    save_figure(picture, folder / PICKED, formats=("png",), force=True)


def next_steps(folder: str) -> Iterator[str]:
    """Commands to run next, which the user can copy."""
    program, pool, picks = (
        program_name(),
        *(shlex.quote(os.path.join(folder, name)) for name in (DIGITS, "picks.csv")),
    )
    plot, redundant = (shlex.quote(os.path.join(folder, name)) for name in ("diagnosis.png", "redundant"))
    yield ""
    yield "Next, on the same digits with 20 labels:"
    yield f"  {program} select {pool} --budget 20 -o {picks}"
    yield "  (first add a column named 'label' to that file, and fill it in)"
    yield f"  {program} select {pool} --budget 20 --labeled {picks}"
    yield f"  {program} diagnose {pool} --plot {plot}"
    yield ""
    yield "What if the pool also had five near-copies of every digit?"
    yield f"  {program} simulate {pool} --pool redundant:5 --seeds 5 -o {redundant}"
    yield ""
    yield "For your own data: numpy.savez('data.npz', features=..., labels=...), and pass data.npz instead."


# ``dubito demo --round-trip``: embed a folder of pictures, select, fill in labels, select again, show the status.

TRIP_BUDGET = 50
N_PICTURES = 1000
SIDE = 64
"""Width of a picture in pixels; the digits have 8."""


def run_round_trip(folder: Path) -> None:
    require("pyarrow", extra="files")
    pool, first, second = (folder / name for name in ("pool.parquet", "batch-1.csv", "batch-2.csv"))
    existing = [each for each in (pool, first, second) if each.exists()]
    if existing and not (folder / "pictures").exists():
        raise OutputExists(f"{existing[0]} exists, and is not from an earlier round trip", hint=OTHER_FOLDER)
    answers = write_pictures(folder / "pictures")
    for each in (pool, first, second):
        each.unlink(missing_ok=True)
    print_lines([f"{len(answers):,} pictures of digits in {folder / 'pictures'}; no embeddings, no model, no labels."])
    run_command("embed", folder / "pictures", "-o", pool)
    run_command("select", pool, "--budget", TRIP_BUDGET, "-o", first)
    fill_in(first, answers)
    run_command("select", pool, "--budget", TRIP_BUDGET, "--labeled", first, "-o", second)
    fill_in(second, answers)
    run_command("status", pool, "--labeled", first, "--labeled", second)


def write_pictures(folder: Path) -> dict[str, int]:
    """Write scikit-learn's digits as pictures, and return the class of each."""
    from PIL import Image
    from sklearn.datasets import load_digits

    digits, classes = load_digits(return_X_y=True)
    folder.mkdir(parents=True, exist_ok=True)
    answers = {f"digit-{number:04d}.png": label for number, label in enumerate(classes[:N_PICTURES].tolist())}
    # Hidden files, such as those of file managers, are not embedded.
    others = sorted(path.name for path in folder.iterdir() if path.name not in answers and path.name[0] != ".")
    if others:
        raise OutputExists(f"{folder} holds other files, such as {others[0]}", hint=OTHER_FOLDER)
    for name, digit in zip(answers, digits, strict=False):
        pixels = (255 - digit.reshape(8, 8) * 15.9).astype(np.uint8)
        Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(folder / name)
    return answers


def run_command(*words: object) -> None:
    """Print a command and run it with this installation."""
    given = [str(word) for word in words]
    print_lines(["", f"$ {program_name()} {shlex.join(given)}"])
    sys.stdout.flush()
    if subprocess.run([sys.executable, "-m", "dubito", *given], check=False).returncode:
        raise DubitoError(f"dubito {given[0]} failed", hint="see its error above.")


def fill_in(batch: Path, answers: dict[str, int]) -> None:
    """Add a column with the label of every pick, as an annotator would."""
    with batch.open(newline="", encoding="utf-8") as file:
        picks = list(csv.DictReader(file))
    with batch.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, [*picks[0], "label"])
        table.writeheader()
        table.writerows({**pick, "label": answers[pick["id"]]} for pick in picks)
    print_lines([f"({len(picks)} labels filled in for you, in a column label of {batch})"])
