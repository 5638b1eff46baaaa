"""``dubito diagnose``: what the theory says about a pool, with advice."""

import json
import os
from collections.abc import Iterator
from typing import get_args

import numpy as np

from dubito import Diagnosis
from dubito import diagnose as library_diagnose
from dubito.cli import options
from dubito.cli.inputs import read_columns, read_missing, read_standardize, reading_files
from dubito.cli.output import print_lines, print_note, set_quiet
from dubito.core.problem import Metric
from dubito.errors import InvalidArgument, name_files_in_errors
from dubito.io import find_array, read_array, split_spec
from dubito.io.column_notes import describe_scale, should_standardize
from dubito.io.durable import check_writable
from dubito.io.inputs import Inputs, handle_missing, read_inputs
from dubito.io.name_tables import read_outcomes
from dubito.io.source import note
from dubito.matrix import AnyArray, BoolArray, IntArray, len_of
from dubito.request.arrays import check_choice
from dubito.request.ids import ArrayWithIds
from dubito.request.rows import describe_order


def diagnose(
    pool: options.Pool,
    labeled: options.Labeled = None,
    probabilities: options.Probabilities = None,
    logits: options.Logits = None,
    doubt: options.Doubt = None,
    head: options.Head = None,
    checked: options.Checked = None,
    id_column: options.IdColumn = None,
    label_column: options.LabelColumn = None,
    feature_columns: options.FeatureColumns = None,
    ignore_columns: options.IgnoreColumns = None,
    probability_columns: options.ProbabilityColumns = None,
    no_label: options.NoLabel = None,
    missing: options.Missing = None,
    input_limit: options.InputLimit = None,
    metric: options.Metric = "euclidean",
    standardize: options.Standardize = "auto",
    plot: options.Plot = None,
    as_json: options.AsJson = False,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito diagnose pool.npz --labeled picks.csv --plot diagnosis.png[/bold]

    Print advice, how far the pool is from its labels, what scaling by the model's
    doubt would change, the guarantees of the theory, and what cannot be computed.
    """
    set_quiet(quiet)
    check_plot(plot, force)
    standardize_mode, missing_mode = read_standardize(standardize), read_missing(missing)
    specs = {"probabilities": probabilities, "logits": logits, "doubt": doubt}
    columns = read_columns(id_column, label_column, feature_columns, ignore_columns, probability_columns, no_label)
    with reading_files(input_limit):
        inputs = read_inputs(pool, labeled, specs, columns)
        if not len(inputs.labeled.rows) and not inputs.labeled.outside:
            raise InvalidArgument("nothing is labeled", hint="pass --labeled FILE.")
        outcomes = None if checked is None else read_outcomes(checked, inputs.pool, columns)
        inputs = handle_missing(inputs, missing_mode)
        note(*describe_order(inputs.pool.row_ids, len_of(inputs.pool.features), **inputs.per_row))
        is_standardized = should_standardize(standardize_mode, inputs.pool.feature_names)
        diagnosis = measure(inputs, head, outcomes, metric, is_standardized)
    if advice := describe_scale(standardize_mode, inputs.pool.feature_names, inputs.pool.features):
        print_note(advice)
    if as_json:
        print(json.dumps({"schema": 1, **diagnosis.to_dict()}, indent=2, allow_nan=False))
    else:
        print_lines(report(diagnosis))
    if plot is not None:
        draw(diagnosis, plot, force)


def measure(
    inputs: Inputs, head: str | None, outcomes: tuple[IntArray, BoolArray] | None, metric: str, standardize: bool
) -> Diagnosis:
    """Call `dubito.diagnose`; ``outcomes`` are rows of the pool file, and whether each prediction was wrong."""
    checked = wrong = None
    if outcomes is not None:
        rows, is_wrong = outcomes
        order = np.argsort(rows)
        is_kept = np.ones(len(rows), dtype=np.bool_) if inputs.kept is None else np.isin(rows[order], inputs.kept)
        # A mask, because row numbers could be mistaken for ids.
        mask = np.isin(np.arange(len_of(inputs.pool.features)), inputs.positions_of(rows))
        checked, wrong = ArrayWithIds(mask, inputs.pool.row_ids), is_wrong[order][is_kept]
    with name_files_in_errors({**inputs.files, "head": head or inputs.files["pool"]}, inputs.describe_row):
        known_metric: Metric = check_choice("metric", metric, get_args(Metric))
        return library_diagnose(
            inputs.pool,
            labeled=inputs.labeled.argument(inputs.pool),
            **inputs.per_row,
            head=read_head(head, inputs, known_metric),
            checked=checked,
            wrong=wrong,
            metric=known_metric,
            standardize=standardize,
        )


def read_head(spec: str | None, inputs: Inputs, metric: str) -> AnyArray | None:
    """The weights of the last layer from a file, or from the pool file if that also holds the doubt.

    Doubt in another file may be of another model. Tables cannot hold a (c, d) array, and each shard of a folder would
    repeat it.
    """
    if spec is not None:
        return read_array(spec, "head")
    own = inputs.pool.source
    of_one_model = all(split_spec(inputs.files[role])[0] == own.path for role in inputs.per_row)
    if metric != "euclidean" or not of_one_model or own.is_table or os.path.isdir(own.path):
        return None
    return find_array(own, "head")


def report(diagnosis: Diagnosis) -> Iterator[str]:
    yield diagnosis.advice
    yield ""
    for name, text in numbers(diagnosis):
        yield f"  {name:<22}{text}"
    if diagnosis.notes:
        yield ""
    yield from (f"- {note}" for note in diagnosis.notes)


def numbers(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """The name and the text of each number that is known."""
    yield "unlabeled points", f"{diagnosis.n:,} of {diagnosis.d} features, with {diagnosis.m:,} labeled"
    if diagnosis.delta_over_delta_star is not None:
        yield "δ/δ*", f"{diagnosis.delta_over_delta_star:.3g} (from 1 on the theory is silent)"
    yield "regime", diagnosis.regime
    yield "δ, largest distance", f"{diagnosis.delta:.4g} to the nearest labeled point"
    yield "δ̂, scaled by doubt", f" {diagnosis.delta_hat:.4g}"
    head = "" if diagnosis.lambda_c_head is None else f", at most {diagnosis.lambda_c_head:.3g} by the head"
    yield "λ_c, slope of doubt", f"at least {diagnosis.lambda_c_data:.3g} by the data{head}"
    by_head = "" if diagnosis.share_quadratic_head is None else f", {diagnosis.share_quadratic_head:.0%} by the head"
    yield "share with r·λ_c < 1", f"{diagnosis.share_quadratic_data:.0%} by the data{by_head}"
    if diagnosis.outcomes is not None:
        n, rate, doubted = diagnosis.outcomes.n, diagnosis.outcomes.error_rate, diagnosis.outcomes.mean_doubt
        yield "checked points", f"{n}, {rate:.1%} wrong where {doubted:.1%} was doubted"
    if diagnosis.delta_star is not None:
        yield "δ*", f"{diagnosis.delta_star:.4g}"
    if diagnosis.beta is not None:
        yield "β", f"at least {diagnosis.beta:.3g} (depends on the features' units)"


def check_plot(plot: str | None, force: bool) -> None:
    """Raise if the plot could not be written, before anything is computed."""
    if plot is None:
        return
    if not plot.endswith((".png", ".svg")):
        hint = "give it one of these suffixes."
        raise InvalidArgument("is neither a .png nor a .svg", argument="plot", value=plot, hint=hint)
    check_writable(plot, force=force)


def draw(diagnosis: Diagnosis, plot: str, force: bool) -> None:
    from dubito.experiments.plots import diagnosis_figure, save_figure

    save_figure(diagnosis_figure(diagnosis), plot, formats=(plot.rpartition(".")[2],), force=force)
    print_note(f"picture written to {plot}.")
