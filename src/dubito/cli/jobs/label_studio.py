"""What ``dubito label-studio`` does once its options are read."""

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
from dubito.integrations.label_studio.client import Patience, Server, read_token
from dubito.integrations.label_studio.picking import PoolPicker, Suggestion
from dubito.integrations.label_studio.projects import StudioProject, find_project, pull
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
class Showing:
    """What people look at, and where the server finds it."""

    column: str | None
    prefix: str
    local_files: str | None
    document_root: str | None

    def address(self) -> str:
        """What stands before the path of a picture."""
        if self.local_files is None:
            return self.prefix
        folder = os.path.normpath(self.local_files)
        root = os.path.normpath(self.document_root or os.path.dirname(folder))
        if self.prefix or not os.path.isabs(folder) or os.path.commonpath([folder, root]) != root or folder == root:
            hint = f"pass a folder below {root}, from the root of the server's disk, and no --prefix."
            raise InvalidArgument("cannot be shown", argument="local_files", value=self.local_files, hint=hint)
        return f"{LOCAL_FILES}{os.path.relpath(folder, root)}/"

    def permit(self, project: StudioProject) -> None:
        """Have the server show those files in the project."""
        if self.local_files is not None:
            check_storage(project, os.path.normpath(self.local_files))


class Keeper:
    """The tables of labels and of what was skipped, written whenever there are new ones."""

    def __init__(self, output: str, skipped: str | None, *, force: bool, classes: Sequence[str]) -> None:
        self.output, self.skipped, self.classes, self.force = output, skipped, classes, force
        output_format(output)
        for path in (output, skipped):
            if path is not None and not force and os.path.exists(path):
                _refuse_other(path)

    def keep(self, found: Gathered) -> None:
        """Write what there is now; a class that nobody asked for is refused by its name."""
        refuse_unknown("Label Studio", (Answer(found.key, found.key, label) for label in found.labels), self.classes)
        if not self.force and os.path.exists(self.output) and os.path.getsize(self.output):
            _refuse_strange(self.output, found)
        _write(self.output, found.columns())
        if self.skipped is not None:
            apart = [(name, "skipped") for name in found.skipped] + [(name, "tied") for name in found.tied]
            _write(self.skipped, {found.key: [name for name, _ in apart], "why": [why for _, why in apart]})

    def tell(self, found: Gathered, *, quiet: bool) -> None:
        """The counts."""
        split = sum(share < 1.0 for share in found.agreements)
        say(
            f"{len(found.names)} labels of {len(set(found.labels))} classes in {self.output}; {len(found.skipped)} "
            f"skipped, {len(found.tied)} tied, {split} by a majority that was not all.",
            quiet=quiet,
        )


def _write(path: str, columns: dict[str, Sequence[object]]) -> None:
    write_atomically(path, render_columns(columns, output_format(path), safe_csv=True))


def _refuse_other(path: str) -> None:
    """Refuse to replace a table that is none of ours: ours hold nothing that the server has not."""
    names = set(open_source(path).names) if os.path.getsize(path) else set[str]()
    if names and not {"annotators", "agreement"} <= names and "why" not in names:
        raise OutputExists(f"{path} exists, and is no table of labels from here", hint="pass --force to replace it.")


def _refuse_strange(path: str, found: Gathered) -> None:
    """Refuse to replace labels none of whose items is there: they are of another project."""
    entry = open_source(path).entries.get(found.key)
    before = set() if entry is None else set(label_keys(entry.values()))
    now = {*found.names, *found.skipped, *found.tied}
    if before and now and not before & now:
        problem = f"{path} has labels of other items, such as {min(before)!r}: of another project, it seems"
        raise OutputExists(problem, hint="pass another file with -o, or --force to replace it.")


def names_in(text: str | None) -> list[str]:
    """Names with commas between."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def connect(url: str, token_file: str | None, timeout: str, *, quiet: bool) -> Server:
    """The server and its token; nothing is asked yet."""
    server = Server(url, read_token(token_file), Patience(_seconds("timeout", timeout)))
    if server.is_overheard:
        say(f"the token goes to {server.url} in the clear, where others may read it; https:// keeps it.", quiet=quiet)
    return server


def _seconds(name: str, text: str) -> float:
    value = read_number(text)
    if not isinstance(value, int | float) or not 0.0 < value <= 3600.0:
        raise InvalidArgument("is no time", argument=name, value=text, hint="pass seconds, above 0 and up to 3600.")
    return float(value)


def read_plan(budget: str, rounds: str | None, ahead: str, every: str, *, jump_ahead: bool) -> WatchPlan:
    """How a project is watched."""
    n_rounds = None if rounds is None else check_integer("rounds", read_number(rounds), least=1)
    batch = check_integer("budget", read_number(budget), least=1)
    left = check_integer("ahead", read_number(ahead), least=0)
    return WatchPlan(batch, n_rounds, left, jump_ahead, _seconds("every", every))


def read_suggestions(
    picks: str, shown: Showing, pool: str | None, labeled: Sequence[str], columns: Columns, model: str
) -> list[Suggestion]:
    """The picks, with guesses where a pool and labels are named."""
    items = read_items(picks, shown.column, shown.address(), to_look_at=True)
    if not items:
        raise InvalidData(f"{picks} holds no picks", hint="let dubito select write some.")
    if pool is None:
        if labeled:
            raise InvalidArgument("--labeled alone says nothing here", hint="pass --pool, too, for a model to guess.")
        return [Suggestion(item) for item in items]
    found, labels, table = _read_pool(pool, labeled, columns)
    rows = [Item(name, items[0].key, items[0].kind, "", {}) for name in label_keys(next(iter(table.values())))]
    known = {rows[row].name: label for row, label in labels.items()}
    return PoolPicker(found.pool.features, rows, known, model=model).guessed({}, items)


def _read_pool(
    pool: str, labeled: Sequence[str], columns: Columns
) -> tuple[Inputs, dict[int, str], dict[str, AnyArray]]:
    """The pool, the labels of its rows, and what its rows are called."""
    found = read_inputs(pool, labeled, {}, columns)
    labels = read_labels(found.pool, labeled, columns)
    note_similar_classes(labels.values())
    ids = found.pool.ids
    return found, labels, {ROW: np.arange(len_of(found.pool.features))} if ids is None else {"id": ids}


def read_picker(
    pool: str,
    shown: Showing,
    labeled: Sequence[str],
    columns: Columns,
    options: Mapping[str, Any],
    standardize: str,
    *,
    guesses: bool,
) -> PoolPicker:
    """The pool as `watch` picks from it."""
    found, labels, table = _read_pool(pool, labeled, columns)
    table |= read_carried(pool, None, found.pool, columns)
    items = items_of(pool, table, shown.column, shown.address(), to_look_at=True)
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
    shown: Showing,
    *,
    jump_ahead: bool,
    quiet: bool,
) -> None:
    """Find or make the project, and send what it has not."""
    project = find_project(server, title, classes=classes, kind=picks[0].item.kind)
    _note_sampling(project, jump_ahead, quiet)
    shown.permit(project)
    pushed = push(project, picks, jump_ahead=jump_ahead)
    copies = f", {pushed.removed} copies taken away" if pushed.removed else ""
    say(
        f"{pushed.added} items sent to {project.title!r} ({server.url}/projects/{project.id}), {pushed.there} were "
        f"there{copies}.",
        quiet=quiet,
    )


def pull_labels(server: Server, title: str, keeper: Keeper, *, quiet: bool) -> None:
    """Write the labels of a project."""
    found = pull(find_project(server, title))
    keeper.keep(found)
    keeper.tell(found, quiet=quiet)


def watch_project(
    server: Server, title: str, picker: PoolPicker, plan: WatchPlan, keeper: Keeper, shown: Showing, *, quiet: bool
) -> None:
    """Go round until Ctrl-C, or until there is nothing left to do."""

    def tell(text: str) -> None:
        say(text, quiet=quiet)

    def begin() -> StudioProject:
        found = find_project(server, title, classes=keeper.classes, kind=picker.items[0].kind)
        _note_sampling(found, plan.jump_ahead, quiet)
        shown.permit(found)
        return found

    def keep(found: Gathered) -> None:
        keeper.keep(found)
        keeper.tell(found, quiet=quiet)

    with file_lock(keeper.output), suppress(KeyboardInterrupt):
        project = wait_for_server(begin, plan, tell)
        say(f"watching {project.title!r} ({server.url}/projects/{project.id}); Ctrl-C stops.", quiet=quiet)
        watch(project, picker, plan, keep=keep, tell=tell)
        say("done.", quiet=quiet)
        return
    say("stopped; the same command goes on.", quiet=quiet)


def _note_sampling(project: StudioProject, jump_ahead: bool, quiet: bool) -> None:
    note = check_sampling(project, jump_ahead=jump_ahead)
    if note is not None:
        say(note, quiet=quiet)
