"""``dubito reproduce``: the paper's figures, tables and claims, measured again on this machine."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dubito.cli import options
from dubito.cli.commands.run import DataDir, Download, RunsDir, data_folder, fetch_files, read_workers
from dubito.cli.options import argument, option
from dubito.cli.output import RunProgress, Stopped, escape, is_quiet, print_lines, print_note, print_table, set_quiet
from dubito.errors import OutputExists
from dubito.experiments.data_sources import DataSource
from dubito.experiments.plan import Experiment
from dubito.paper.exhibits import (
    Exhibit,
    Measured,
    choose_exhibits,
    exhibits,
    measure,
    read_measured,
    shipped,
    write_measured,
)
from dubito.paper.network_studies import NetworkStudy
from dubito.paper.study import Study
from dubito.request.arrays import check_integer, read_number

if TYPE_CHECKING:
    from rich.text import Text

CLAIM_WIDTH = 62
"""Maximum width of the column of claims, in characters."""


def exhibit_names(incomplete: str) -> list[str]:
    return [name for name in (*exhibits(), "all") if name.startswith(incomplete)]


Figures = Annotated[
    list[str] | None,
    argument(
        "[FIGURE]...",
        "Such as figure-3 or timing, or all. Without names, all are listed.",
        autocompletion=exhibit_names,
    ),
]
Quick = Annotated[bool, option("--quick", "Fewer seeds, smaller sizes.", options.METHOD)]
Folder = Annotated[
    str,
    option("--output -o FOLDER", "Folder for pictures and records; the list shows its records.", options.OUTPUT),
]


def reproduce(
    figure: Figures = None,
    quick: Quick = False,
    seed: options.Seed = "0",
    data_dir: DataDir = None,
    download: Download = False,
    runs_dir: RunsDir = "dubito-runs",
    output: Folder = "dubito-runs/paper",
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito reproduce figure-3[/bold]

    Measure a figure of the paper again, check its claim and draw it. A claim
    that does not hold here is reported as not holding. Without a figure, list
    all of them with claim, cost and last result; [bold]all --quick[/bold]
    measures everything that a CPU can, in a few minutes. Figures 5 and 6 and
    table 1 train networks on images: they need a GPU, and resume after an
    interruption.
    """
    set_quiet(quiet)
    if os.path.isfile(output):
        raise OutputExists(f"{output} is a file", hint="pass -o with another folder.")
    if not figure:
        print(json.dumps(listing(Path(output)), indent=2, ensure_ascii=False)) if as_json else show_list(Path(output))
        return
    checked_seed = check_integer("seed", read_number(seed), least=0)
    with data_folder(data_dir, download):
        records = [
            measure_one(
                each,
                build_study(each, quick, runs_dir, download),
                Path(output),
                quick,
                checked_seed,
                as_json,
            )
            for each in choose_exhibits(figure)
        ]
    if as_json:
        print(json.dumps({"schema": 1, "measured": records}, indent=2, ensure_ascii=False))
    elif len(records) > 1:
        print_lines([f"{count_claims(records)}; pictures in {output}"])


def count_claims(records: Sequence[Mapping[str, object]]) -> str:
    """How many claims hold, and how many of these only in part."""
    scopes = [each["scope"] for each in records if each["holds"]]
    n_partly = sum(scope is not None for scope in scopes)
    return f"{len(scopes)} of {len(records)} claims hold here{f', {n_partly} of them in part' if n_partly else ''}"


@contextmanager
def spinner(note: str) -> Iterator[None]:
    """Print a note on stderr; on a terminal, show it with a spinner while the block runs."""
    if is_quiet() or not sys.stderr.isatty():
        print_note(note)
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(note):
        yield


def build_study(exhibit: Exhibit, quick: bool, runs_dir: str, download: bool) -> Study:
    """The study of an exhibit. Networks are trained in ``runs_dir``; missing files are downloaded if allowed."""
    study = exhibit.build(quick=quick)
    if not isinstance(study, NetworkStudy):
        return study
    first = next(iter(study.plans(0).values()))

    def gather(experiment: Experiment, folder: Path) -> DataSource:
        source = DataSource(experiment, folder)
        fetch_files(experiment, folder, source, download)
        return source

    return replace(study, runs_dir=runs_dir, workers=read_workers(None, first), gather=gather)


def measure_one(
    exhibit: Exhibit, study: Study, folder: Path, quick: bool, seed: int, as_json: bool
) -> dict[str, object]:
    """Measure an exhibit, write its plot and record, and return the record with the paths of the files."""
    from dubito.experiments.plots import save_figure
    from dubito.paper.plots import paper_figure

    cost = exhibit.quick_cost if quick else exhibit.cost
    note = f"measuring {exhibit.id}, {exhibit.title}: about {cost}{' on two cores' if exhibit.is_light else ''}."
    with training(note, study) if exhibit.core_hours else spinner(note) as observed:
        finding, measured = measure(exhibit, quick=quick, seed=seed, study=observed or study)
    folder.mkdir(parents=True, exist_ok=True)
    pictures = save_figure(paper_figure(finding), folder / exhibit.id, force=True)
    record = write_measured(measured, folder)
    if not as_json:
        print_lines(report(exhibit, measured, [str(path) for path in (*pictures, record)]))
    return {**measured.as_dict(), "claim": exhibit.claim, "files": [str(path) for path in (*pictures, record)]}


def report(exhibit: Exhibit, measured: Measured, files: Sequence[str]) -> Iterator[str]:
    """The lines to print after a measurement."""
    yield f"{exhibit.id} ({exhibit.place}): {measured.outcome}{', in a quick run' if measured.quick else ''}"
    yield f"  claim     {exhibit.claim}"
    yield f"  measured  {measured.sentence}."
    yield f"  in        {measured.seconds:.1f} s"
    yield from (f"  {'files' if not number else '':<10}{path}" for number, path in enumerate(files))
    yield ""


@contextmanager
def training(note: str, study: Study) -> Iterator[Study]:
    """The study with a live display of its trainings; after Ctrl-C, say how to continue."""
    print_note(note)
    with RunProgress() as board:
        try:
            yield replace(study, progress=board) if isinstance(study, NetworkStudy) else study
        except KeyboardInterrupt:
            problem = "interrupted; completed trainings are kept. Run the same command again to continue."
            raise Stopped(problem) from None


def latest(folder: Path) -> dict[str, tuple[Measured, str]]:
    """The last measurement of each exhibit, and whether it is ``shipped`` or was made ``here``."""
    ours = {name: (measured, "shipped") for name, measured in shipped().items()}
    return ours | {name: (measured, "here") for name, measured in read_measured(folder).items()}


def listing(folder: Path) -> dict[str, object]:
    """The output of ``--json`` without a figure."""
    known = latest(folder)
    rows = [
        {
            "id": each.id,
            "place": each.place,
            "title": each.title,
            "claim": each.claim,
            "seconds": each.seconds,
            "quick_seconds": each.quick_seconds,
            "core_hours": each.core_hours or None,
            "needs": each.needs,
            "measured": known[each.id][0].as_dict() if each.id in known else None,
            "measured_by": known[each.id][1] if each.id in known else None,
        }
        for each in exhibits().values()
    ]
    return {"schema": 1, "figures": rows}


def show_list(folder: Path) -> None:
    """Print a row for each exhibit, and how to run one."""
    from rich import box
    from rich.table import Table

    known = latest(folder)
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("figure", no_wrap=True)
    table.add_column("what it shows, and the claim", max_width=CLAIM_WIDTH)
    table.add_column("cost")
    table.add_column("last measured")
    for each in exhibits().values():
        shown = f"[bold]{each.title}[/bold]\n{each.claim}"
        cost = f"{each.cost}\nquick {each.quick_cost}"
        table.add_row(each.id, shown, cost, outcome_text(known.get(each.id)), end_section=True)
    print_table(table)
    print_lines(["Run one with  dubito reproduce figure-3 ; all that a CPU can:  dubito reproduce all --quick"])


def outcome_text(known: tuple[Measured, str] | None) -> "Text":
    from rich.text import Text

    if known is None:
        return Text("not yet", "dim")
    measured, origin = known
    when = f"{measured.when[:10]}, {'quick, ' if measured.quick else ''}{origin}"
    return Text.assemble(
        (escape(measured.outcome), "green" if measured.holds else "yellow"), "\n", (escape(when), "dim")
    )
