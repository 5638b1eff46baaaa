"""Implementation of ``dubito label-studio``."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from dubito.cli.inputs.features import is_wanted, read_when
from dubito.cli.inputs.pool import Inputs, read_inputs
from dubito.cli.inputs.row_columns import note_similar_classes, read_labels
from dubito.cli.inputs.rows import read_carried
from dubito.cli.output import say
from dubito.errors import InvalidArgument, InvalidData, OutputExists
from dubito.integrations.exchange.items import LOCAL_FILES, Answer, Gathered, Item, items_of, read_items, refuse_unknown
from dubito.integrations.label_studio.client import RetryPolicy, Server, read_token
from dubito.integrations.label_studio.picking import PoolPicker, Suggestion
from dubito.integrations.label_studio.projects import LabelStudioProject, find_project, pull
from dubito.integrations.label_studio.pushing import check_sampling, check_storage, push
from dubito.integrations.label_studio.watching import WatchPlan, wait_for_server, watch
from dubito.io import Columns, open_source, output_format, write_atomically
from dubito.io.durable import file_lock
from dubito.io.picks import render_columns
from dubito.matrix import AnyArray, len_of
from dubito.request.arrays import check_integer, read_number
from dubito.request.columns import ROW
from dubito.request.labels import label_keys


@dataclass(frozen=True, slots=True)
class DisplayOptions:
    """Which column is shown to annotators, and where the server finds its files."""

    column: str | None
    prefix: str
    local_files: str | None
    document_root: str | None

    def address(self) -> str:
        """The prefix that turns the path of a picture into a URL."""
        if self.local_files is None:
            return self.prefix
        folder = os.path.normpath(self.local_files)
        root = os.path.normpath(self.document_root or os.path.dirname(folder))
        if self.prefix or not os.path.isabs(folder) or os.path.commonpath([folder, root]) != root or folder == root:
            hint = f"pass the absolute path of a folder below {root}, and no --prefix."
            raise InvalidArgument("cannot be served", argument="local_files", value=self.local_files, hint=hint)
        return f"{LOCAL_FILES}{os.path.relpath(folder, root)}/"

    def allow_in(self, project: LabelStudioProject) -> None:
        """Let the server show the local files in the project."""
        if self.local_files is not None:
            check_storage(project, os.path.normpath(self.local_files))


class LabelFiles:
    """Writes the tables of labels and of skipped items."""

    def __init__(self, output: str, skipped: str | None, *, force: bool, classes: Sequence[str]) -> None:
        self.output, self.skipped, self.classes, self.force = output, skipped, classes, force
        output_format(output)
        for path in (output, skipped):
            if path is not None and not force and os.path.exists(path):
                _check_is_label_table(path)

    def write(self, found: Gathered) -> None:
        """Replace the tables by the current answers. Raises if a label is not one of the classes."""
        refuse_unknown("Label Studio", (Answer(found.key, found.key, label) for label in found.labels), self.classes)
        if not self.force and os.path.exists(self.output) and os.path.getsize(self.output):
            _check_same_project(self.output, found)
        _write(self.output, found.columns())
        if self.skipped is not None:
            unlabeled = [(name, "skipped") for name in found.skipped] + [(name, "tied") for name in found.tied]
            _write(self.skipped, {found.key: [name for name, _ in unlabeled], "why": [why for _, why in unlabeled]})

    def print_counts(self, found: Gathered, *, quiet: bool) -> None:
        split = sum(share < 1.0 for share in found.agreements)
        say(
            f"{len(found.names)} labels of {len(set(found.labels))} classes in {self.output}; {len(found.skipped)} "
            f"skipped, {len(found.tied)} tied, {split} by a majority without full agreement.",
            quiet=quiet,
        )


def _write(path: str, columns: dict[str, Sequence[object]]) -> None:
    write_atomically(path, render_columns(columns, output_format(path), safe_csv=True))


def _check_is_label_table(path: str) -> None:
    """Raise if this command did not write the table. Its own tables can be replaced: the server has their content."""
    names = set(open_source(path).names) if os.path.getsize(path) else set[str]()
    if names and not {"annotators", "agreement"} <= names and "why" not in names:
        raise OutputExists(f"{path} exists, and this command did not write it", hint="pass --force to replace it.")


def _check_same_project(path: str, found: Gathered) -> None:
    """Raise if the table has labels, but none of an item of this project."""
    entry = open_source(path).entries.get(found.key)
    before = set() if entry is None else set(label_keys(entry.values()))
    now = {*found.names, *found.skipped, *found.tied}
    if before and now and not before & now:
        problem = f"{path} has labels of other items, such as {min(before)!r}, probably of another project"
        raise OutputExists(problem, hint="pass another file with -o, or --force to replace it.")


def split_names(text: str | None) -> list[str]:
    """The names in a comma-separated list."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def connect(url: str, token_file: str | None, timeout: str, *, quiet: bool) -> Server:
    """The server with its token. Sends no request yet."""
    server = Server(url, read_token(token_file), RetryPolicy(_seconds("timeout", timeout)))
    if server.is_unencrypted:
        say(f"the token is sent to {server.url} without encryption; use https:// to protect it.", quiet=quiet)
    return server


def _seconds(name: str, text: str) -> float:
    value = read_number(text)
    if not isinstance(value, int | float) or not 0.0 < value <= 3600.0:
        raise InvalidArgument("is not allowed", argument=name, value=text, hint="pass seconds, above 0 and up to 3600.")
    return float(value)


def read_plan(budget: str, rounds: str | None, ahead: str, every: str, *, jump_ahead: bool) -> WatchPlan:
    """Check the options of ``watch``."""
    n_rounds = None if rounds is None else check_integer("rounds", read_number(rounds), least=1)
    batch = check_integer("budget", read_number(budget), least=1)
    n_open = check_integer("ahead", read_number(ahead), least=0)
    return WatchPlan(batch, n_rounds, n_open, jump_ahead, _seconds("every", every))


def read_suggestions(
    picks: str, display: DisplayOptions, pool: str | None, labeled: Sequence[str], columns: Columns, model: str
) -> list[Suggestion]:
    """The picks, with the predictions of a model if a pool and labels are given."""
    items = read_items(picks, display.column, display.address(), to_look_at=True)
    if not items:
        raise InvalidData(f"{picks} holds no picks", hint="pass a file that dubito select wrote.")
    if pool is None:
        if labeled:
            raise InvalidArgument("--labeled needs --pool here", hint="pass --pool as well, to fit a model on both.")
        return [Suggestion(item) for item in items]
    found, labels, table = _read_pool(pool, labeled, columns)
    rows = [Item(name, items[0].key, items[0].kind, "", {}) for name in label_keys(next(iter(table.values())))]
    known = {rows[row].name: label for row, label in labels.items()}
    return PoolPicker(found.pool.features, rows, known, model=model).guessed({}, items)


def _read_pool(
    pool: str, labeled: Sequence[str], columns: Columns
) -> tuple[Inputs, dict[int, str], dict[str, AnyArray]]:
    """The pool, the labels of its rows, and a column with their ids or row numbers."""
    found = read_inputs(pool, labeled, {}, columns)
    labels = read_labels(found.pool, labeled, columns)
    note_similar_classes(labels.values())
    ids = found.pool.ids
    return found, labels, {ROW: np.arange(len_of(found.pool.features))} if ids is None else {"id": ids}


def read_picker(
    pool: str,
    display: DisplayOptions,
    labeled: Sequence[str],
    columns: Columns,
    options: Mapping[str, Any],
    standardize: str,
    *,
    guesses: bool,
) -> PoolPicker:
    """The picker of ``watch``."""
    found, labels, table = _read_pool(pool, labeled, columns)
    table |= read_carried(pool, None, found.pool, columns)
    items = items_of(pool, table, display.column, display.address(), to_look_at=True)
    return PoolPicker(
        found.pool.features,
        items,
        {items[row].name: label for row, label in labels.items()},
        found.labeled.rows.tolist(),
        guess=guesses,
        standardize=is_wanted(read_when(standardize), found.pool.feature_names),
        **options,
    )


def push_picks(
    server: Server,
    title: str,
    picks: Sequence[Suggestion],
    classes: Sequence[str],
    display: DisplayOptions,
    *,
    jump_ahead: bool,
    quiet: bool,
) -> None:
    """Find or create the project, and send the picks that it does not have yet."""
    project = find_project(server, title, classes=classes, kind=picks[0].item.kind)
    _note_sampling(project, jump_ahead, quiet)
    display.allow_in(project)
    pushed = push(project, picks, jump_ahead=jump_ahead)
    copies = f", {pushed.removed} duplicates removed" if pushed.removed else ""
    say(
        f"{pushed.added} items sent to {project.title!r} ({server.url}/projects/{project.id}), {pushed.there} already "
        f"there{copies}.",
        quiet=quiet,
    )


def pull_labels(server: Server, title: str, files: LabelFiles, *, quiet: bool) -> None:
    """Write the labels of a project."""
    found = pull(find_project(server, title))
    files.write(found)
    files.print_counts(found, quiet=quiet)


def watch_project(
    server: Server,
    title: str,
    picker: PoolPicker,
    plan: WatchPlan,
    files: LabelFiles,
    display: DisplayOptions,
    *,
    quiet: bool,
) -> None:
    """Repeat rounds until Ctrl-C, or until there is nothing left to do."""

    def tell(text: str) -> None:
        say(text, quiet=quiet)

    def begin() -> LabelStudioProject:
        found = find_project(server, title, classes=files.classes, kind=picker.items[0].kind)
        _note_sampling(found, plan.jump_ahead, quiet)
        display.allow_in(found)
        return found

    def keep(found: Gathered) -> None:
        files.write(found)
        files.print_counts(found, quiet=quiet)

    with file_lock(files.output), suppress(KeyboardInterrupt):
        project = wait_for_server(begin, plan, tell)
        say(f"watching {project.title!r} ({server.url}/projects/{project.id}); Ctrl-C stops.", quiet=quiet)
        watch(project, picker, plan, keep=keep, tell=tell)
        say("done.", quiet=quiet)
        return
    say("stopped; run the same command again to continue.", quiet=quiet)


def _note_sampling(project: LabelStudioProject, jump_ahead: bool, quiet: bool) -> None:
    note = check_sampling(project, jump_ahead=jump_ahead)
    if note is not None:
        say(note, quiet=quiet)
