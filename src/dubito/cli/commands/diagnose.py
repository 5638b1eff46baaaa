"""``dubito diagnose``: what the theory says about a pool, with advice."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dubito.cli import options

if TYPE_CHECKING:
    from dubito import Diagnosis
    from dubito.cli.inputs.pool import Inputs
    from dubito.matrix import BoolArray, IntArray


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
    import json

    from dubito.cli.inputs import pool as files
    from dubito.cli.inputs.features import describe_scale, is_wanted, read_when
    from dubito.cli.inputs.pool import handle_missing, read_missing, reading_files
    from dubito.cli.inputs.rows import read_outcomes
    from dubito.cli.output import put, say
    from dubito.errors import InvalidArgument

    check_plot(plot, force)
    when, how = read_when(standardize), read_missing(missing)
    sources: files.DoubtSpecs = {"probabilities": probabilities, "logits": logits, "doubt": doubt}
    columns = files.read_columns(
        id_column, label_column, feature_columns, ignore_columns, probability_columns, no_label
    )
    with reading_files(input_limit, quiet=quiet):
        found = files.read_inputs(pool, labeled, sources, columns, how)
        if not len(found.labeled.rows) and not found.labeled.foreign:
            raise InvalidArgument("nothing is labeled", hint="pass --labeled FILE.")
        outcomes = None if checked is None else read_outcomes(checked, found.pool, columns)
        found, kept = handle_missing(found, how)
        outcomes = None if outcomes is None else kept.outcomes(*outcomes)
        diagnosis = measure(found, head, outcomes, metric, is_wanted(when, found.pool.feature_names))
    if note := describe_scale(when, found.pool.feature_names, found.pool.features):
        say(note, quiet=quiet)
    if as_json:
        print(json.dumps({"schema": 1, **diagnosis.to_dict()}, indent=2, allow_nan=False))
    else:
        put(report(diagnosis))
    if plot is not None:
        draw(diagnosis, plot, force, quiet)


def measure(
    found: "Inputs", head: str | None, outcomes: "tuple[IntArray, BoolArray] | None", metric: str, standardize: bool
) -> "Diagnosis":
    """`dubito.diagnose` with what the files hold."""
    from typing import get_args

    from dubito import diagnose as library_diagnose
    from dubito.cli.inputs.pool import read_head
    from dubito.cli.output import name_files_in_errors
    from dubito.core.problem import Metric
    from dubito.request.arrays import check_choice

    rows, wrong = (None, None) if outcomes is None else outcomes
    with name_files_in_errors({**found.files, "head": head or found.files["pool"]}, found.describe_row):
        known: Metric = check_choice("metric", metric, get_args(Metric))
        return library_diagnose(
            found.pool.features,
            labeled=found.labeled.argument(found.pool.features),
            probabilities=found.doubt.get("probabilities"),
            logits=found.doubt.get("logits"),
            doubt=found.doubt.get("doubt"),
            head=read_head(head, found, known),
            checked=rows,
            wrong=wrong,
            metric=known,
            standardize=standardize,
        )


def report(diagnosis: "Diagnosis") -> Iterator[str]:
    """The lines a person reads: advice, numbers, then what to know before leaning on them."""
    yield diagnosis.advice
    yield ""
    for name, text in numbers(diagnosis):
        yield f"  {name:<22}{text}"
    yield from ([""] if diagnosis.notes else [])
    yield from (f"- {note}" for note in diagnosis.notes)


def numbers(diagnosis: "Diagnosis") -> Iterator[tuple[str, str]]:
    """Each figure that is known, with its name."""
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
    """Refuse a picture that could not be written, before anything is computed."""
    import os

    from dubito.errors import InvalidArgument, MissingFile, OutputExists

    if plot is None:
        return
    if not plot.endswith((".png", ".svg")):
        hint = "give it one of these suffixes."
        raise InvalidArgument("is neither a .png nor a .svg", argument="plot", value=plot, hint=hint)
    if not os.path.isdir(os.path.dirname(plot) or "."):
        raise MissingFile(f"{plot} cannot be written: its folder does not exist", hint="make it first.")
    if os.path.exists(plot) and not force:
        raise OutputExists(f"{plot} exists", hint="pass --force to replace it, or another path.")


def draw(diagnosis: "Diagnosis", plot: str, force: bool, quiet: bool) -> None:
    """Write the picture and say where."""
    from dubito.cli.output import say
    from dubito.experiments.plots import diagnosis_figure, save_figure

    save_figure(diagnosis_figure(diagnosis), plot, formats=(plot.rpartition(".")[2],), force=force)
    say(f"picture written to {plot}.", quiet=quiet)
