"""``dubito status``: what is labeled, how well a model does on it, and whether to go on."""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from tempfile import TemporaryDirectory

from dubito.cli import options
from dubito.cli.inputs import read_columns, read_missing, reading_files, resolve_project
from dubito.cli.output import print_lines, set_quiet
from dubito.errors import InvalidArgument, name_files_in_errors
from dubito.io import Columns
from dubito.io.inputs import Inputs, handle_missing, leave_out, read_inputs, with_labels
from dubito.io.labeled import read_drawn, read_labels
from dubito.labeling.project import is_project
from dubito.matrix import len_of
from dubito.models.accuracy import MIN_DRAWN
from dubito.models.held_out import Share
from dubito.models.progress import LabelsSoFar, measure_progress
from dubito.registry import require


def status(
    pool: options.Pool,
    labeled: options.Labeled = None,
    id_column: options.IdColumn = None,
    label_column: options.LabelColumn = None,
    feature_columns: options.FeatureColumns = None,
    ignore_columns: options.IgnoreColumns = None,
    no_label: options.NoLabel = None,
    missing: options.Missing = None,
    model: options.Model = "linear",
    input_limit: options.InputLimit = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito status pool.parquet --labeled round-1.csv --labeled round-2.csv[/bold]

    Print how many labels each class has, the held-out accuracy of a model fitted
    on them, how many labels of the last file it predicted correctly before it was
    trained on them, and whether it is worth labeling more. A column [cyan]drawn[/cyan] in
    the files (1, or a probability) names the rows that were drawn at random, from
    which the accuracy on all unlabeled rows is estimated. Exact copies that share
    a label in a project are counted, but the model learns from one of them.
    """
    set_quiet(quiet)
    copies = read_labels_of_copies(pool) if is_project(pool) else {}
    with TemporaryDirectory(prefix="dubito-") as label_folder:  # A project may be read-only.
        pool, labeled, ignore_columns, no_label = resolve_project(pool, labeled, ignore_columns, no_label, label_folder)
        columns = read_columns(id_column, label_column, feature_columns, ignore_columns, no_label=no_label)
        with reading_files(input_limit):
            found, before, drawn = read_labeled_pool(pool, labeled or [], columns, missing, copies)
    show(measure(found, before, model, drawn), list(copies.values()), as_json)


MOST_SHOWN = 30
"""Maximum number of classes to list, the most frequent first."""


def read_labels_of_copies(project: str) -> dict[int, str]:
    """The rows of a project's pool that share the label of an exact copy, with that label."""
    require("sqlalchemy", extra="label")
    from dubito.labeling.export import labels_of_copies
    from dubito.labeling.state import read_state

    return labels_of_copies(read_state(project))


def read_labeled_pool(
    pool: str, specs: Sequence[str], columns: Columns, missing: str | None, left_out: Collection[int] = ()
) -> tuple[Inputs, dict[int, str], dict[int, float]]:
    """The pool with its labels, the labels without those of the last file, and the rows drawn at random.

    The rows ``left_out`` are removed from the pool. Random rows have the probability with which they were drawn.
    """
    found = with_labels(replace(read_inputs(pool, specs, {}, columns, allow_all_labeled=True), per_row={}), specs)
    if specs and len(found.labeled.rows) and not found.labels:
        problem = f"{' and '.join(specs)} mark rows as labeled, but do not say their classes"
        raise InvalidArgument(problem, hint="add a column label, or pass --label-column NAME.")
    earlier = read_labels(found.pool, specs[:-1], columns)
    drawn = read_drawn(found.pool, specs, columns)
    complete = handle_missing(leave_out(found, left_out), read_missing(missing))
    numbers = range(len_of(found.pool.features)) if complete.kept is None else complete.kept.tolist()
    before = {row: label for row, label in complete.labels.items() if numbers[row] in earlier}
    return complete, before, {row: drawn[numbers[row]] for row in complete.labels if numbers[row] in drawn}


def measure(found: Inputs, before: dict[int, str], model: str, drawn: dict[int, float]) -> LabelsSoFar:
    """Call `measure_progress`; errors name the file they are about."""
    with name_files_in_errors(found.files, found.describe_row):
        return measure_progress(found.pool.features, found.labels, before, model, drawn)


def facts_of(found: LabelsSoFar, copies: Sequence[str]) -> dict[str, object]:
    def share(each: Share | None) -> dict[str, object] | None:
        if each is None:
            return None
        low, high = each.interval
        return {"right": each.right, "of": each.of, "share": each.value, "low": low, "high": high}

    return {
        "schema": 1,
        "rows": found.n_pool + len(copies),
        "labels": found.fitted.n_labels + len(copies),
        "copies": len(copies),
        "classes": dict(Counter(found.counts) + Counter(copies)),
        "model": found.fitted.model,
        "held_out": share(found.fitted.tested),
        "estimate": None if found.estimate is None else found.estimate._asdict(),
        "log_loss": found.fitted.log_loss,
        "last_batch": share(found.last_batch),
        "change": None if found.change is None else found.change._asdict(),
        "expected": found.expected,
        "in_doubt": found.in_doubt,
        "covered": found.covered,
        "notes": list(found.fitted.notes),
        "advice": found.advice().text,
    }


def show(found: LabelsSoFar, copies: Sequence[str], as_json: bool) -> None:
    """Print the labels, accuracies and advice; ``copies`` are the labels that exact copies share."""
    if as_json:
        print(json.dumps(facts_of(found, copies), indent=2, ensure_ascii=False))
        return
    n_labels, n_rows = found.fitted.n_labels + len(copies), found.n_pool + len(copies)
    ranked = (Counter(found.counts) + Counter(copies)).most_common()
    shown = ", ".join(f"{name} {n}" for name, n in ranked[:MOST_SHOWN]) + (", ..." if len(ranked) > MOST_SHOWN else "")
    lines = [f"labeled     {n_labels} of {n_rows} rows" + (f": {shown}" if shown else "")]
    if copies:
        shared = f"{len(copies)} of these labels {'is that' if len(copies) == 1 else 'are those'} of an exact copy"
        lines.append(f"copies      {shared}; the model learns from one of several copies")
    lines.append(f"model       {found.fitted.described()}")
    lines += accuracy_lines(found)
    if found.last_batch is not None:
        lines.append(f"last batch  {found.last_batch} predicted correctly before the model was trained on them")
    lines.append(f"covered     {found.covered:.1%} of the pool has a label nearby")
    if found.expected is not None:
        lines.append(
            f"the rest    by its own probabilities, the model is right on {found.expected:.1%} of the unlabeled rows; "
            f"{found.in_doubt} rows in doubt"
        )
    print_lines([*lines, *(f"note        {note}" for note in found.fitted.notes), f"advice      {found.advice().text}"])


def accuracy_lines(found: LabelsSoFar) -> list[str]:
    """A line about the accuracy on the unlabeled rows; none without labels to test on."""
    estimate = found.estimate
    if estimate is not None:
        basis = f"estimated from {estimate.n_drawn} labels drawn at random"
        return [f"accuracy    {estimate} of the {estimate.n_unlabeled} unlabeled rows, {basis}"]
    if found.fitted.tested is None:
        return []
    return [
        "accuracy    unknown: the labels were chosen, so that the held-out accuracy may be far from that on the other "
        f"rows; label {MIN_DRAWN} or more that are drawn at random, marked by 1 in a column drawn"
    ]
