"""``dubito select``: files in, picks out."""

import json
import os
import shlex
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dubito.api import answer, forecast
from dubito.api import select as library_select
from dubito.arguments import build_request, check_points, check_settings
from dubito.cli import options
from dubito.cli.inputs import read_columns, read_missing, read_standardize, reading_files, resolve_project
from dubito.cli.output import ProgressBar, Stopped, print_lines, print_note, set_quiet, write_data
from dubito.core.problem import Interrupted, Request, Selection
from dubito.covering_radius import CallerArrays
from dubito.errors import InvalidArgument, InvalidData, OutputExists, name_files_in_errors, named, option_of
from dubito.io import (
    FORMATS,
    Columns,
    Format,
    add_round,
    open_source,
    output_format,
    read_array,
    read_picks,
    render_selection,
    save_selection,
    split_spec,
    write_atomically,
)
from dubito.io.cells import needs_escape
from dubito.io.column_notes import describe_scale, should_standardize
from dubito.io.durable import check_writable, file_lock
from dubito.io.inputs import LIST_SUFFIXES, Inputs, handle_missing, read_inputs, read_prices, with_labels
from dubito.io.labeled import LabeledInputs
from dubito.io.lookup import DOUBT_ROLES
from dubito.io.name_tables import BOX_COLUMNS, as_text, read_candidates, read_carried, read_earlier
from dubito.io.source import note, suffix_of
from dubito.matrix import AnyArray, IntArray, len_of
from dubito.request.arrays import read_number
from dubito.request.columns import label_name, refuse_two_sources
from dubito.request.labels import label_keys
from dubito.strategies import Strategy, configure_strategy


def select(
    pool: options.Pool,
    budget: options.Budget,
    labeled: options.Labeled = None,
    probabilities: options.Probabilities = None,
    logits: options.Logits = None,
    doubt: options.Doubt = None,
    candidates: options.Candidates = None,
    costs: options.Costs = None,
    classes: options.Classes = None,
    group_column: options.GroupColumn = None,
    id_column: options.IdColumn = None,
    label_column: options.LabelColumn = None,
    feature_columns: options.FeatureColumns = None,
    ignore_columns: options.IgnoreColumns = None,
    probability_columns: options.ProbabilityColumns = None,
    no_label: options.NoLabel = None,
    missing: options.Missing = None,
    input_limit: options.InputLimitBesideMemoryLimit = None,
    strategy: options.Strategy = "auto",
    features: options.Features = None,
    strength: options.Strength = None,
    beam_width: options.BeamWidth = None,
    scaling: options.Scaling = None,
    temperature: options.Temperature = None,
    model: options.Model = "linear",
    spend: options.Spend = None,
    quota: options.Quota = None,
    metric: options.Metric = "euclidean",
    standardize: options.Standardize = "auto",
    engine: options.Engine = "auto",
    address: options.Address = None,
    journal: options.Journal = None,
    workers: options.Workers = None,
    workers_per_gpu: options.WorkersPerGpu = None,
    memory_limit: options.MemoryLimit = None,
    seed: options.Seed = "0",
    output: options.Output = None,
    format: options.Format = None,
    as_json: options.AsJson = False,
    keep: options.Keep = None,
    sheet: options.Sheet = None,
    pictures: options.Pictures = None,
    append: options.Append = False,
    safe_csv: options.SafeCsv = None,
    force: options.Force = False,
    dry_run: options.DryRun = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito select pool.npz --budget 100 -o picks.csv[/bold]

    Pick the rows of a pool that are worth labeling next.

    pool.npz contains features, probabilities and, optionally, ids and labeled;
    each can also be a separate file. The picks are a table of rank, index, id,
    priority and the pool's columns of text. Add a column label, fill it in, train
    your model if you have one (else dubito fits its own), and:

    [bold]dubito select pool.npz --budget 100 --labeled picks.csv -o next.csv[/bold]
    """
    set_quiet(quiet)
    # Errors that need no file come first.
    pool, labeled, ignore_columns, no_label = resolve_project(pool, labeled, ignore_columns, no_label)
    destination = check_destination(output, format, as_json, append, force, safe_csv)
    numbers = {"budget": budget, "spend": spend, "temperature": temperature, "memory_limit": memory_limit, "seed": seed}
    settings = check_settings({**read_numbers(numbers), "metric": metric, "model": model})
    strategy_options = read_numbers({"strength": strength, "beam_width": beam_width})
    chosen = configure_strategy(strategy, engine, **strategy_options, scaling=scaling, features=features)
    settings["quotas"] = read_quotas(quota) if quota else None
    specs = {"probabilities": probabilities, "logits": logits, "doubt": doubt}
    contact_sheet = None if sheet is None else check_contact_sheet(sheet, pool, pictures, force)
    input_files = [pool, *specs.values(), *(labeled or []), candidates, costs, classes, group_column]
    check_overwrites(destination, sheet, input_files)
    standardize_mode, missing_mode = read_standardize(standardize), read_missing(missing)
    columns = read_columns(id_column, label_column, feature_columns, ignore_columns, probability_columns, no_label)
    cluster = {"address": address, "journal": journal, "workers": workers, "workers_per_gpu": workers_per_gpu}
    on_one_machine: dict[str, object] = {"candidates": candidates, "costs": costs, "classes": classes, "spend": spend}
    on_one_machine |= {"groups": group_column, "quota": quota, "temperature": temperature, "missing": missing}
    on_one_machine |= {"keep": keep, "sheet": sheet, "append": append}
    on_one_machine |= {"standardize": None if standardize == "auto" else standardize}
    check_cluster_options(engine, cluster, on_one_machine)
    if engine == "cluster" and not dry_run:
        options_of_select = {**settings, "strategy": chosen}
        picked = pick_on_cluster(pool, labeled or [], specs, columns, options_of_select, cluster)
        write_picks(picked, destination, labeled or [])
        return
    del settings["metric"]  # An argument of `check_points`.
    lock: AbstractContextManager[None] = nullcontext()
    if append and destination.path is not None and not dry_run:
        # From before the earlier picks are read until the new ones are added.
        notice = f"waiting for another process that adds to {destination.path}"
        lock = file_lock(destination.path, waiting=lambda: print_note(notice))
    with lock, ProgressBar("picking") as bar:
        # Read the files, and build the request from them.
        with reading_files(input_limit, memory_limit):
            # None if costs are per row.
            group_prices = None if costs is None or group_column is None else read_prices(costs, group_column)
            row_costs = costs if group_prices is None else None
            per_row = {**specs, "costs": row_costs, "classes": classes, "groups": group_column}
            group_files = [each for each in labeled or [] if group_column is not None and lists_groups(each)]
            row_files = [each for each in labeled or [] if each not in group_files]
            inputs = read_inputs(pool, row_files, per_row, columns)
            for path in group_files:
                inputs = with_labeled_groups(inputs, path)
            if append and destination.path is not None and os.path.exists(destination.path):
                earlier = read_earlier(destination.path, read_picks(destination.path), inputs.pool, inputs.columns)
                inputs = replace(inputs, labeled=inputs.labeled.joined(LabeledInputs(earlier)))
            if temperature == "fit" or (model != "none" and inputs.per_row.keys().isdisjoint(DOUBT_ROLES)):
                inputs = with_labels(inputs, row_files)
            with name_files_in_errors({"candidates": candidates or pool}):
                allowed = read_candidates(candidates, inputs.pool, inputs.columns)
            inputs, n_file_rows = replace(inputs, candidates=allowed), len_of(inputs.pool.features)
            texts = read_carried(pool, keep, inputs.pool, inputs.columns)
            inputs = handle_missing(inputs, missing_mode)
            is_standardized = should_standardize(standardize_mode, inputs.pool.feature_names)
            if advice := describe_scale(standardize_mode, inputs.pool.feature_names, inputs.pool.features):
                note(advice)
            named_files = inputs.files if group_prices is None else {**inputs.files, "costs": str(costs)}
            with name_files_in_errors(named_files, inputs.describe_row):
                arguments = inputs.arguments() | ({} if group_prices is None else {"costs": group_prices})
                started = time.perf_counter()
                groups = arguments.pop("groups", None)
                points = check_points(inputs.pool, arguments["labeled"], metric, None, is_standardized, groups)
                request = build_request(points, chosen, **{**settings, **arguments}, engine=engine, progress=bar)
        # Pick, and write the picks with the row numbers of the file.
        with name_files_in_errors(inputs.files, inputs.describe_row):
            if dry_run:
                print_dry_run(chosen, request, as_json)
                return
            try:
                picked = answer(
                    request, chosen, points.row_ids, started, CallerArrays(inputs.pool, arguments["labeled"])
                )
            except Interrupted as stopped:
                picked = stopped.selection
        picked = with_file_rows(picked, inputs.kept, n_file_rows)
        carried = {name: list(map(as_text, values[picked.indices].tolist())) for name, values in texts.items()}
        picked = replace(picked, carried=carried)
        if contact_sheet is not None and len(picked):
            contact_sheet.write(picked)
        write_picks(picked, destination, labeled or [])


def lists_groups(spec: str) -> bool:
    """Whether a file lists groups and has no column of labels, so that all rows of these groups count as labeled."""
    if suffix_of(split_spec(spec)[0]) in LIST_SUFFIXES:
        return False
    source = open_source(split_spec(spec)[0])
    return "group" in source.names and label_name(list(source.names)) is None


def with_labeled_groups(inputs: Inputs, spec: str) -> Inputs:
    """The inputs with all rows of the groups in a file labeled, including rows that were added since it was written."""
    names = set(label_keys(open_source(split_spec(spec)[0]).entry("group").values())) - {""}
    keys = label_keys(inputs.per_row["groups"].values)
    rows = np.array([row for row, key in enumerate(keys) if key in names], dtype=np.int64)
    n_known = len(names & set(keys))
    if names and not n_known:
        problem = f"names the group {min(names)!r}; neither it nor any other group in the file is in the pool"
        raise InvalidData(problem, argument="labeled", value=spec, hint=f"groups of the pool are like {keys[0]!r}.")
    note(f"{spec}: {len(names)} groups, {n_known} of them in the pool, count as labeled with all rows.")
    return replace(inputs, labeled=inputs.labeled.joined(LabeledInputs(rows)))


# The output of ``dubito select``: checked before anything is computed, written at the end.

BINARY = ("parquet", "npy")


@dataclass(frozen=True, slots=True)
class Destination:
    path: str | None
    """None for stdout."""
    format: Format
    append: bool
    force: bool
    safe_csv: bool = False
    """Whether to put an apostrophe before text that a spreadsheet would read as a formula."""


def check_destination(
    output: str | None, format: str | None, as_json: bool, append: bool, force: bool, safe_csv: bool | None = None
) -> Destination:
    """Raise if the output could not be written, before anything is computed.

    Without ``safe_csv``, formulas are escaped in CSV files, which people open in spreadsheets.
    """
    if as_json and format not in (None, "json"):
        raise InvalidArgument(f"--json and --format {format} disagree", hint="pass one of them.")
    path = None if output == "-" else output
    wanted = "json" if as_json else format
    if path is None:
        if append:
            raise InvalidArgument("--append has no file to add to", hint="pass -o FILE.")
        chosen = output_format("stdout", wanted or "csv")
        if chosen in BINARY and sys.stdout.isatty():
            raise InvalidArgument("is binary", argument="format", value=chosen, hint="pass -o FILE.")
        return Destination(None, chosen, append, force, bool(safe_csv))
    chosen, suffix = output_format(path, wanted), suffix_of(path)[1:]
    if suffix in FORMATS and suffix != chosen:
        option = "--json" if as_json else f"--format {chosen}"
        hint = f"leave {option} out, or give the file another suffix."
        raise InvalidArgument(f"{option} and -o {path} disagree", hint=hint)
    if append and force:
        raise InvalidArgument("--append adds to the file and --force replaces it", hint="pass one of them.")
    if append and chosen == "json":
        hint = "use csv, jsonl, parquet or npy."
        raise InvalidArgument(f"{path}: json describes one run and cannot be appended to", hint=hint)
    if os.path.isfile(path) and not (append or force):
        raise OutputExists(f"{path} exists", hint="pass --force to replace it, --append to add to it, or another path.")
    check_writable(path, force=True)
    return Destination(path, chosen, append, force, chosen == "csv" if safe_csv is None else safe_csv)


def check_overwrites(destination: Destination, sheet: str | None, inputs: Iterable[str | None]) -> None:
    """Raise if an output would overwrite an input file, or a shard of an input folder."""
    read = [os.path.realpath(split_spec(spec)[0]) for spec in inputs if spec is not None]
    for output in (None if destination.append else destination.path, sheet):
        path = None if output is None or not os.path.isfile(output) else os.path.realpath(output)
        if path is not None and (path in read or (os.path.dirname(path) in read and _is_shard(path))):
            raise InvalidArgument(f"{output} is read, and would be lost", hint="write to another file.")


def _is_shard(path: str) -> bool:
    """Whether the file's folder holds other files with the same suffix."""
    return sum(suffix_of(name) == suffix_of(path) for name in os.listdir(os.path.dirname(path))) > 1


def write_picks(selection: Selection, destination: Destination, labeled: Sequence[str] = ()) -> None:
    """Write the picks and print a summary; raise `Stopped` if the run was interrupted."""
    where = "to stdout" if destination.path is None else f"to {destination.path}"
    path, format, safe_csv = destination.path, destination.format, destination.safe_csv
    if not len(selection):
        pass
    elif path is None:
        write_data(render_selection(selection, format, safe_csv=safe_csv))
    elif destination.append:
        add_round(selection, path, format=format, safe_csv=safe_csv)
    else:
        save_selection(selection, path, format=format, force=destination.force, safe_csv=safe_csv)
    if not selection.complete:
        kept = f"they went {where}" if len(selection) else "nothing was written"
        raise Stopped(f"interrupted after {len(selection)} pick{'' if len(selection) == 1 else 's'}; {kept}.")
    engine = "" if selection.engine is None else f" on the {selection.engine} engine"
    radius = "" if selection.radius is None else f", radius {selection.radius:.4g}"
    covered = "" if selection.covered is None else "".join(f", covering {x:.1%}" for x in selection.covered[-1:])
    spent = "" if selection.spent is None else f", costing {selection.spent:.6g}"
    counted = f"{len(selection)} of {selection.n_pool} rows"
    if selection.groups is not None:
        counted = f"{len(selection.groups.names)} of {selection.groups.n_groups} groups ({len(selection)} rows)"
    print_note(
        f"{counted} picked by {selection.strategy}{engine} "
        f"in {selection.seconds:.2f} s{radius}{covered}{spent}; written {where}."
    )
    for text in selection.notes:
        print_note(text)
    if destination.safe_csv and destination.format == "csv":
        note_escaped_text(selection, where.removeprefix("to "))
    if destination.path is not None:
        files = dict.fromkeys([*labeled, destination.path])
        options = " ".join(f"--labeled {shlex.quote(path)}" for path in files)
        print_note(f"next round: label them, train your model again if you have one, and pass {options}")


def note_escaped_text(selection: Selection, where: str) -> None:
    """Print which columns contain escaped text, because joins on them would fail."""
    n_escaped = {name: sum(map(needs_escape, values)) for name, values in selection.columns().items()}
    text = ", ".join(f"{count} in {name}" for name, count in n_escaped.items() if count)
    if text:
        print_note(
            f"text that begins like a formula has an apostrophe before it in {where} ({text}), for spreadsheets; "
            "dubito takes it off again. --no-safe-csv writes it as it is."
        )


def read_numbers(options: Mapping[str, str | None]) -> dict[str, object]:
    """The options that were given, as numbers. The library raises for text that is not a number."""
    return {name: read_number(text) for name, text in options.items() if text is not None}


def read_quotas(texts: Sequence[str]) -> object:
    """Parse ``N`` (every class) and ``CLASS=N`` (one class) into the ``quotas`` argument of `dubito.select`.

    Examples
    --------
    >>> read_quotas(["20"]), read_quotas(["20", "cat=3"])
    (20, {None: 20, 'cat': 3})
    """
    quotas: dict[str | None, object] = {}
    for text in texts:
        name, equals, limit = (part.strip() for part in text.rpartition("="))
        if not limit or (equals and not name):
            raise InvalidArgument(f"{option_of('quota')} {text} is neither N nor CLASS=N", hint="write 20, or cat=5.")
        key = name if equals else None
        if key in quotas:
            problem = "names a class twice" if equals else "is given twice for every class"
            raise InvalidArgument(f"{option_of('quota')} {text} {problem}", hint="leave one out.")
        quotas[key] = read_number(limit)
    return quotas[None] if quotas.keys() == {None} else quotas


def with_file_rows(selection: Selection, kept: IntArray | None, n_rows: int) -> Selection:
    """The picks with row numbers of the file; ``kept`` are the rows of the file that are in the pool, None for all."""
    if kept is None:
        return selection
    ranked = tuple(replace(each, indices=kept[each.indices]) for each in selection.configurations)
    return replace(selection, indices=kept[selection.indices], configurations=ranked, n_pool=n_rows)


# ``dubito select --dry-run``: everything except picking.


def print_dry_run(strategy: Strategy, request: Request, as_json: bool) -> None:
    """Print the sizes, which strategy and engine would run, and their cost if it is known."""
    engine, cost, resolved, remark = forecast(strategy, request)
    (n, d), dtype = request.pool.shape, str(request.pool.dtype)
    facts = {
        "n": n,
        "d": d,
        "dtype": dtype,
        "labeled": len_of(request.references),
        "candidates": len(request.candidates),
        "budget": request.budget,
        "strategy": resolved,
        "engine": engine,
        "megabytes": None if cost is None else round(cost.bytes / 1e6, 1),
        "seconds": None if cost is None else round(cost.seconds, 2),
    }
    notes = [*request.notes, *([] if remark is None else [remark])]
    for text in notes:
        print_note(text)
    if as_json:
        print(json.dumps({"schema": 1, **facts, "notes": notes}, indent=2))
    else:
        print_lines(f"{name:<12}{'none' if value is None else value}" for name, value in facts.items())


# ``dubito select --sheet``: a contact sheet of the picks.


@dataclass(frozen=True, slots=True)
class ContactSheet:
    """Where to write the contact sheet, and the folders to search for its pictures."""

    path: str
    folders: tuple[Path, ...]
    force: bool

    def write(self, selection: Selection) -> None:
        from dubito.experiments.contact_sheet import Sheet, picture_column, picture_paths, render_sheet

        if _has_boxes(selection):
            self._write_boxes(selection)
            return
        names = [str(name) for name in (selection.indices if selection.ids is None else selection.ids).tolist()]
        texts = {name: [str(value) for value in values] for name, values in selection.carried.items()}
        shown = picture_column({**texts, "": names})
        pictures = None if shown is None else picture_paths({**texts, "": names}[shown], self.folders)
        lost = pictures is not None and None in pictures
        shown_texts = {name: values for name, values in texts.items() if name != shown or lost}
        title = f"{len(selection)} picks by {selection.strategy}"
        page = render_sheet(Sheet(title, names, selection.priorities.tolist(), shown_texts, pictures))
        write_atomically(self.path, page.encode("utf-8", "replace"), new=not self.force)
        kind = "texts" if pictures is None else f"{sum(path is not None for path in pictures)} pictures"
        print_note(f"a page of {len(selection)} picks ({kind}) is written to {self.path}.")

    def _write_boxes(self, selection: Selection) -> None:
        """Write an item for each picked picture, with its boxes; those that contributed most to the pick come first."""
        from dubito.experiments.contact_sheet import Sheet, picture_paths, render_sheet

        groups, columns = selection.groups, {name: list(map(str, each)) for name, each in selection.carried.items()}
        assert groups is not None
        predicted = columns.get("predicted", columns["confidence"])
        ids = [str(each) for each in (selection.indices if selection.ids is None else selection.ids).tolist()]
        numbers = np.array([list(map(float, columns[name])) for name in BOX_COLUMNS[:6]])
        shares = (numbers[:4] / numbers[[4, 5, 4, 5]]).T.tolist()
        parts = np.split(np.arange(len(selection)), np.cumsum(groups.sizes)[:-1])
        boxes = [[tuple(shares[row]) for row in part] for part in parts]
        found = [
            ", ".join(
                "no box" if columns["path"][row] == ids[row] else predicted[row] or "a box" for row in part[:MOST_BOXES]
            )
            + (f" and {len(part) - MOST_BOXES} more" if len(part) > MOST_BOXES else "")
            for part in parts
        ]
        names, title = groups.names.tolist(), f"{len(groups.names)} pictures by {selection.strategy}"
        paths = picture_paths([columns["path"][part[0]] for part in parts], self.folders)
        page = render_sheet(Sheet(title, names, groups.priorities.tolist(), {"boxes": found}, paths, boxes))
        write_atomically(self.path, page.encode("utf-8", "replace"), new=not self.force)
        print_note(f"a page of {len(names)} pictures with their boxes is written to {self.path}.")


def _has_boxes(selection: Selection) -> bool:
    """Whether the groups are pictures, and the rows their boxes."""
    carried, groups = selection.carried, selection.groups
    if groups is None or any(name not in carried for name in ("path", *BOX_COLUMNS)):
        return False
    return len(set(zip(carried["path"], groups.ranks().tolist(), strict=True))) == len(groups.names)


MOST_BOXES = 8
"""Maximum number of boxes of a picture whose classes the page lists."""


def picture_folders(spec: str, given: str | None) -> list[Path]:
    """Folders to search for pictures: the one given, else the pool's root, its folder and the working directory."""
    if given is not None:
        if not Path(given).is_dir():
            raise InvalidArgument(f"--pictures {given} is not a folder", hint="name the folder that pictures are in.")
        return [Path(given)]
    path = split_spec(spec)[0]
    is_pool = os.path.isdir(path) or (path.lower().endswith(".parquet") and os.path.exists(path))
    root = open_source(path).root if is_pool else ""
    return [*([Path(root)] if root else []), Path(path).resolve().parent, Path()]


def check_contact_sheet(path: str, pool: str, pictures: str | None, force: bool) -> ContactSheet:
    """Raise if the page could not be written, before anything is computed."""
    if not path.lower().endswith((".html", ".htm")):
        raise InvalidArgument(f"--sheet {path} is not an HTML file", hint="give it the suffix .html.")
    check_writable(path, force=force)
    return ContactSheet(path, tuple(picture_folders(pool, pictures)), force)


# ``dubito select --engine cluster``: shards that a Ray cluster reads, and this process does not.


def check_cluster_options(engine: str, cluster: Mapping[str, object], on_one_machine: Mapping[str, object]) -> None:
    """Refuse options of a cluster without ``--engine cluster``, and those of a single machine with it."""
    for name, value in cluster.items():
        if value is not None and engine != "cluster":
            raise InvalidArgument("is for --engine cluster", argument=name, value=value, hint="pass that, too.")
    given = next((name for name, value in on_one_machine.items() if value and engine == "cluster"), None)
    if given is not None:
        hint = f"leave out {named(given)}, or leave out --engine cluster."
        raise InvalidArgument(f"{named(given)} does not go with --engine cluster", hint=hint)


def pick_on_cluster(
    pool: str,
    labeled: Sequence[str],
    sources: Mapping[str, str | None],
    columns: Columns,
    options: Mapping[str, Any],
    cluster: Mapping[str, str | None],
) -> Selection:
    """Select from a file or a folder of shards. Files of probabilities, logits or doubt must have as many shards."""
    from dubito.engines.cluster.workers import connect
    from dubito.sharding.shards import Shards, list_shards

    given: dict[str, Any] = {role: list_shards(spec) for role, spec in sources.items() if spec is not None}
    refuse_two_sources(given)
    given |= {name: cluster[name] for name in ("journal", "workers") if cluster[name] is not None}
    if cluster["workers_per_gpu"] is not None:
        given["workers_per_gpu"] = read_number(cluster["workers_per_gpu"])
    shards = Shards(pool, columns=columns, **given)
    rows = _read_labeled_rows(labeled, columns)
    address = cluster["address"]
    print_note("connecting to Ray" + ("" if address is None else f" at {address}"))
    connect(address)
    with ProgressBar("picking") as bar:
        try:
            return library_select(
                shards,
                options["budget"],
                labeled=rows,
                strategy=options["strategy"],
                metric=options["metric"],
                engine="cluster",
                seed=options["seed"],
                progress=bar,
            )
        except Interrupted as stopped:
            return stopped.selection


def _read_labeled_rows(specs: Sequence[str], columns: Columns) -> AnyArray | None:
    """Row numbers of the whole pool if the files are picks, else features; raises if there are both."""
    if not specs:
        return None
    parts = [
        read_picks(spec)
        if "index" in open_source(split_spec(spec)[0]).names
        else np.asarray(read_array(spec, "labeled", columns=columns)[:])
        for spec in specs
    ]
    if len({part.ndim for part in parts}) > 1:
        raise InvalidArgument("names both rows and features", argument="labeled", hint="pass files of one kind.")
    return np.concatenate(parts)
