"""``dubito report``: make the report of a run again, and print its summary."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from dubito.cli import options
from dubito.cli.commands.run import latest, warn_of_old_lines
from dubito.cli.options import argument, option
from dubito.cli.output import escaped_cells, print_lines, print_note, print_table, set_quiet
from dubito.errors import DubitoError, InvalidArgument, InvalidData, MissingFile
from dubito.experiments.data import Dataset, read_dataset
from dubito.experiments.images import COLLECTIONS, load_images
from dubito.experiments.journal import DamagedLine, Record, decode_line, encode_line
from dubito.experiments.models.kinds import model_as_table
from dubito.experiments.plan import Data, Experiment
from dubito.experiments.report import About, ReportFiles, fact_texts, write_report
from dubito.experiments.runner import read_folder, read_headers, read_rounds
from dubito.experiments.statistics import format_p
from dubito.experiments.summary import NOT_REACHED, Summary, finding, format_saved, notes
from dubito.io import write_atomically
from dubito.request.arrays import check_real, read_number


def report(
    folder: Annotated[
        str | None,
        argument("FOLDER", "The folder of a run, finished or not. Default: the most recent one in ./dubito-runs."),
    ] = None,
    target: options.Targets = None,
    output: Annotated[
        str | None,
        option("--output -o FOLDER", "The folder for the report. Default: the folder of the run.", options.OUTPUT),
    ] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito report dubito-runs/digits-1a2b3c4d[/bold]

    Write the report of a run again: a page to open in a browser, plots, and the
    numbers as JSON. For an unfinished run, the report is limited to the rounds
    that all strategies have, and says so.
    """
    set_quiet(quiet)
    run = latest(Path("dubito-runs")) if folder is None else Path(folder)
    if not run.is_dir():
        raise MissingFile(f"{folder} is not a folder", hint="pass that of a run.")
    if folder is None:
        print_note(f"the most recent run is {run}")
    warn_of_old_lines(run)
    where = run if output is None else Path(output)
    targets = read_targets(target)
    print_report(make_report(run, where, targets, force or output is None), as_json, targets)


def read_targets(given: Sequence[str] | None) -> tuple[float, ...]:
    """Accuracies as fractions, from text such as 0.9 or 90%."""
    targets: list[float] = []
    for text in given or ():
        value = read_number(text.removesuffix("%"))
        share = check_real("target", value, least=0.0) / (100.0 if text.endswith("%") else 1.0)
        if not 0.0 < share <= 1.0:
            hint = "pass a share such as 0.9, or 90%."
            raise InvalidArgument("is not an accuracy", argument="target", value=text, hint=hint)
        targets.append(share)
    return tuple(targets)


def about_run(experiment: Experiment, folder: Path) -> About:
    saved = read_about(folder)
    headers = read_headers(folder)
    last = headers[-1] if headers else {}
    classes = list(saved.classes) or last.get("classes")
    facts = {
        "data": _describe_data(experiment.data, saved.shape),
        "pool": experiment.pool,
        "model": ", ".join(f"{key} = {value}" for key, value in model_as_table(experiment.model).items()),
        "weights": last.get("weights"),
        "schedule": describe_schedule(experiment),
        "strategies": ", ".join(arm.name for arm in experiment.strategies),
        "seeds": f"{len(experiment.seeds)}: {', '.join(str(seed) for seed in experiment.seeds)}",
        "versions": _describe_versions(last),
        "machine": last.get("machine"),
        "begun": headers[0].get("started") if headers else None,
        "command": saved.command,
    }
    return About(
        title=f"dubito: {experiment.name}, active learning replayed",
        facts=fact_texts(facts),
        classes=tuple(str(each) for each in classes) if isinstance(classes, list) else known_classes(experiment.data),
        settings=experiment.to_toml(),
        expected=len(experiment.strategies) * len(experiment.seeds) * (experiment.schedule.rounds + 1),
    )


def _describe_versions(header: Mapping[str, object]) -> str | None:
    versions = header.get("versions")
    if not isinstance(versions, dict):
        return None
    packages = [f"{name} {found}" for name, found in versions.items() if found]
    return ", ".join([*packages, f"Python {header.get('python')}"])


def _describe_data(data: Data, shape: object) -> str:
    source = data.path or data.images or data.builtin or "arrays passed in Python"
    test = data.test or ("" if data.test_share is None else f"{data.test_share:.0%} of every class, drawn by the seed")
    rows = "" if data.rows is None else f"{data.rows:,} rows of the training part, drawn by the seed"
    return "; ".join(filter(None, [source, str(shape or ""), rows, f"tested on {test}" if test else ""]))


def describe_schedule(experiment: Experiment) -> str:
    schedule, continues = experiment.schedule, experiment.model.continues and not experiment.schedule.from_scratch
    training = "training goes on from round to round" if continues else "trained from scratch each round"
    rounds = "1 round" if schedule.rounds == 1 else f"{schedule.rounds} rounds"
    return (
        f"{schedule.initial:,} labels at random, then {rounds} of {schedule.budget:,}, "
        f"to {schedule.labels[-1]:,}; {training}"
    )


def known_classes(data: Data) -> tuple[str, ...]:
    """The names of the classes, or none if the data can no longer be read."""
    with suppress(DubitoError, OSError):
        if data.path is not None:
            return read_dataset(data.path, labeled=data.labeled, columns=data.columns).classes
        if data.images in COLLECTIONS.names():
            return load_images(data.images).classes
    return ()


def make_report(folder: Path, output: Path, targets: Sequence[float], force: bool) -> ReportFiles:
    """Write the report of a run, finished or not."""
    experiment = read_folder(folder)
    rounds = read_rounds(folder)
    if not rounds:
        raise InvalidArgument(f"{folder} has no records yet", hint="run or resume it first.")
    pool = "" if experiment.pool == "clean" else f", {experiment.pool} pool"
    return write_report(
        rounds,
        about_run(experiment, folder),
        output,
        records=folder,
        targets=targets,
        planned=[arm.name for arm in experiment.strategies],
        detail=f"{experiment.name}, {experiment.model.kind} model{pool}",
        force=force,
    )


def print_report(
    written: ReportFiles,
    as_json: bool,
    targets: Sequence[float] = (),
    *,
    more_files: Sequence[Path] = (),
    advice: Sequence[str] = (),
) -> None:
    """Print a table, the result, notes, the labels needed for each target, advice and paths; or all of it as JSON."""
    if as_json:
        content = json.loads(written.results.read_text(encoding="utf-8"))
        files = (*more_files, written.results, *written.pictures, written.page)
        print(json.dumps({**content, "files": [str(path) for path in files]}, indent=1))
        return
    show_table(written.summary)
    result = [finding(written.summary), *(f"- {note}" for note in notes(written.summary))]
    paths = (*more_files, written.results, written.page, written.pictures[-1])
    print_lines(
        [*result, *target_lines(written.summary, targets), *advice, "", "Written:", *(f"  {path}" for path in paths)]
    )


def target_lines(summary: Summary, targets: Sequence[float]) -> Iterator[str]:
    """The number of labels that each strategy needs for every given accuracy."""
    for target in targets:
        position = summary.targets.index(target)
        needed = {name: labels[position] for name, labels in zip(summary.names, summary.needed, strict=True)}
        shown = [
            f"{name} {NOT_REACHED if np.isinf(labels) else format(round(labels), ',')}"
            for name, labels in needed.items()
        ]
        yield f"- Labels for {target:.1%} accuracy: {', '.join(shown)}."


def show_table(summary: Summary) -> None:
    """Print a row for each strategy: final accuracy, gain over random, labels saved."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("strategy", no_wrap=True)
    heads = (
        f"at {summary.curves[0].labels[-1]:,} labels",
        "points above random, on average",
        "p (Holm)",
        "labels saved",
    )
    for head in heads:
        table.add_column(head, justify="right")
    for name, cells in table_rows(summary):
        table.add_row(*escaped_cells(name, *cells))
    print_table(table)


def table_rows(summary: Summary) -> Iterator[tuple[str, list[str]]]:
    """The cells of the table, as text; intervals in brackets."""
    against = {each.name: each for each in summary.against_random}
    saved = {each.name: format_saved(each) for each in summary.savings}
    for curve in summary.curves:
        spread = f" ± {100 * curve.spread[-1]:.1f}" if len(summary.seeds) > 1 else ""
        cells = [f"{100 * curve.mean[-1]:.1f}%{spread}"]
        if curve.name in against:
            gain = against[curve.name].difference
            ends = "" if np.isnan(gain.low) else f" [{100 * gain.low:+.1f} to {100 * gain.high:+.1f}]"
            cells += [f"{100 * gain.estimate:+.1f}{ends}", format_p(against[curve.name].p_holm), saved[curve.name]]
        yield curve.name, cells


# ``about.json`` in a run's folder: the command and a description of the data, which later reports need.

ABOUT = "about.json"


@dataclass(frozen=True, slots=True)
class SavedFacts:
    """Facts for the report that are not in the records; None if they were not saved."""

    command: str | None = None
    shape: str | None = None
    classes: tuple[str, ...] = ()


def save_about(folder: Path, data: Dataset, command: str) -> None:
    shape = f"{len(data.labels):,} rows of {data.features[0].size:,} features in {len(data.classes)} classes"
    test = f", and {len(data.test_labels):,} rows to test on" if data.has_test else ""
    record = {"schema": 1, "checks": True, "command": command, "shape": shape + test, "classes": list(data.classes)}
    write_atomically(str(folder / ABOUT), encode_line(record))


def read_about(folder: Path) -> SavedFacts:
    """Read the saved facts; raises InvalidData if the file is damaged."""
    path = folder / ABOUT
    if not path.exists():
        return SavedFacts()
    try:
        record, _ = decode_line(path.read_bytes())
    except DamagedLine as error:
        raise _damaged(path, f"it {error}") from None
    classes = record.get("classes", [])
    if not isinstance(classes, list) or not all(isinstance(each, str) for each in classes):
        raise _damaged(path, "its 'classes' are not names")
    return SavedFacts(_text(path, record, "command"), _text(path, record, "shape"), tuple(classes))


def _text(path: Path, record: Record, name: str) -> str | None:
    value = record.get(name)
    if value is not None and not isinstance(value, str):
        raise _damaged(path, f"its {name!r} is not text")
    return value


def _damaged(path: Path, what: str) -> InvalidData:
    return InvalidData(
        f"{path} was changed or damaged: {what}", hint="delete it; the report then lacks the command of the run."
    )
