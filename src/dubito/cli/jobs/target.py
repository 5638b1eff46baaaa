"""Where the picks of ``dubito select`` go: checked before anything is computed, written and told in the end."""

import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dubito.cli.printing.failures import Stopped
from dubito.cli.printing.messages import say
from dubito.cli.printing.plain import put_data
from dubito.errors import InvalidArgument, MissingFile, OutputExists
from dubito.files import FORMATS, Format, add_round, output_format, render_selection, save_selection, split_spec
from dubito.files.entries import suffix_of
from dubito.files.formulas import is_formula
from dubito.problem import Selection

BINARY = ("parquet", "npy")


@dataclass(frozen=True, slots=True)
class Target:
    """Where the picks go."""

    path: str | None
    """None for stdout."""
    format: Format
    append: bool
    force: bool
    safe_csv: bool = False
    """Whether text that looks like a formula is kept from being one."""

    def for_spreadsheets(self, wanted: bool | None) -> "Target":
        """Files of CSV are opened by spreadsheets, so that text stays text there unless something else is said."""
        is_file = self.path is not None and self.format == "csv"
        return replace(self, safe_csv=is_file if wanted is None else wanted)


def check_target(output: str | None, format: str | None, as_json: bool, append: bool, force: bool) -> Target:
    """Refuse an output that could not be written, before anything is computed."""
    if as_json and format not in (None, "json"):
        raise InvalidArgument(f"--json and --format {format} disagree", mend="pass one of them.")
    path = None if output == "-" else output
    wanted = "json" if as_json else format
    if path is None:
        if append:
            raise InvalidArgument("--append has no file to add to", mend="pass -o FILE.")
        chosen = output_format("stdout", wanted or "csv")
        if chosen in BINARY and sys.stdout.isatty():
            raise InvalidArgument("is not for a terminal", argument="format", value=chosen, mend="pass -o FILE.")
        return Target(None, chosen, append, force)
    chosen, suffix = output_format(path, wanted), suffix_of(path)[1:]
    if suffix in FORMATS and suffix != chosen:
        asked = "--json" if as_json else f"--format {chosen}"
        raise InvalidArgument(
            f"{asked} and -o {path} disagree", mend=f"leave {asked} out, or give the file another suffix."
        )
    if append and force:
        raise InvalidArgument("--append adds to the file and --force replaces it", mend="pass one of them.")
    if append and chosen == "json":
        raise InvalidArgument(
            f"{path}: json describes one run and cannot be added to", mend="use csv, jsonl, parquet or npy."
        )
    if os.path.isfile(path) and not (append or force):
        raise OutputExists(f"{path} exists", mend="pass --force to replace it, --append to add to it, or another path.")
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise MissingFile(f"{path} cannot be written: its folder does not exist", mend="make it first.")
    return Target(path, chosen, append, force)


def refuse_inputs(target: Target, sheet: str | None, inputs: Iterable[str | None]) -> None:
    """Refuse an output that is one of the files that are read, alone or in a folder of shards: inputs never change."""
    read = [os.path.realpath(split_spec(spec)[0]) for spec in inputs if spec is not None]
    for output in (None if target.append else target.path, sheet):
        place = None if output is None or not os.path.isfile(output) else os.path.realpath(output)
        if place is not None and (place in read or (os.path.dirname(place) in read and _is_shard(place))):
            raise InvalidArgument(f"{output} is read, and would be lost", mend="write to another file.")


def _is_shard(path: str) -> bool:
    """Whether other files of its kind stand beside it."""
    return sum(suffix_of(name) == suffix_of(path) for name in os.listdir(os.path.dirname(path))) > 1


def finish(selection: Selection, target: Target, quiet: bool, labelled: Sequence[str] = ()) -> None:
    """Write the picks and say what they are; an interrupted run says so in its exit code, too."""
    where = "to stdout" if target.path is None else f"to {target.path}"
    if len(selection):
        write(selection, target)
    if not selection.complete:
        kept = f"they went {where}" if len(selection) else "nothing was written"
        raise Stopped(f"interrupted after {len(selection)} pick{'' if len(selection) == 1 else 's'}; {kept}.")
    engine = "" if selection.engine is None else f" on the {selection.engine} engine"
    radius = "" if selection.radius is None else f", radius {selection.radius:.4g}"
    covered = "" if selection.covered is None else "".join(f", covering {x:.1%}" for x in selection.covered[-1:])
    spent = "" if selection.spent is None else f", costing {selection.spent:.6g}"
    say(
        f"{len(selection)} of {selection.n_pool} rows picked by {selection.strategy}{engine} "
        f"in {selection.seconds:.2f} s{radius}{covered}{spent}; written {where}.",
        quiet=quiet,
    )
    for told in selection.notes:
        say(told, quiet=quiet)
    if target.safe_csv and target.format == "csv":
        tell_marks(selection, where.removeprefix("to "), quiet)
    if target.path is not None:
        files = dict.fromkeys([*labelled, target.path])
        options = " ".join(f"--labelled {shlex.quote(path)}" for path in files)
        say(f"next round: label them, train your model again if you have one, and pass {options}", quiet=quiet)


def tell_marks(selection: Selection, where: str, quiet: bool) -> None:
    """Say where text is not as it was, so that nobody joins by it unawares."""
    columns = selection.columns()
    n_marked = {name: sum(map(is_formula, values)) for name, values in columns.items()}
    told = ", ".join(f"{count} in {name}" for name, count in n_marked.items() if count)
    if told:
        say(
            f"text that begins like a formula has an apostrophe before it in {where} ({told}), for spreadsheets; "
            "dubito takes it off again. --no-safe-csv writes it as it is.",
            quiet=quiet,
        )


def write(selection: Selection, target: Target) -> None:
    """To stdout, to a file that is replaced whole, or below what a file holds, which is ours by now."""
    if target.path is None:
        put_data(render_selection(selection, target.format, safe_csv=target.safe_csv))
    elif target.append:
        add_round(selection, target.path, format=target.format, safe_csv=target.safe_csv)
    else:
        more = {"force": target.force, "safe_csv": target.safe_csv}
        save_selection(selection, target.path, format=target.format, **more)
