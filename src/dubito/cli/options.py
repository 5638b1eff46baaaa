"""Command line options shared by several commands. Numbers are passed on as text; the library checks them."""

from collections.abc import Sequence
from typing import Annotated

import typer

# Input files and their columns.

FILES = "Files"

Pool = Annotated[
    str,
    typer.Argument(
        metavar="POOL",
        show_default=False,
        help="Features, a row for each item: .npy, .npz, .safetensors, .pt, .h5, Parquet, Feather, CSV, .xlsx, "
        "JSON or a folder of shards. "
        "file.npz::key names an array.",
    ),
]
Labeled = Annotated[
    list[str] | None,
    typer.Option(
        "--labeled",
        "--labelled",
        metavar="FILE",
        rich_help_panel=FILES,
        help="What is labeled already: a table with an id or index column (rows whose label is empty do not count), "
        "row numbers, a mask, or features. May be repeated.",
    ),
]
Probabilities = Annotated[
    str | None,
    typer.Option("--probabilities", metavar="FILE", rich_help_panel=FILES, help="Class probabilities, a row an item."),
]
Logits = Annotated[
    str | None,
    typer.Option("--logits", metavar="FILE", rich_help_panel=FILES, help="Logits, instead of probabilities."),
]
Doubt = Annotated[
    str | None,
    typer.Option("--doubt", metavar="FILE", rich_help_panel=FILES, help="1 - largest probability, instead of them."),
]
Candidates = Annotated[
    str | None,
    typer.Option(
        "--candidates", metavar="FILE", rich_help_panel=FILES, help="Rows, ids or a mask: pick only from these."
    ),
]
Head = Annotated[
    str | None,
    typer.Option(
        "--head",
        metavar="FILE",
        rich_help_panel=FILES,
        help="Weights (c, d) of a linear last layer, if not an array head in POOL.",
    ),
]
Checked = Annotated[
    str | None,
    typer.Option(
        "--checked",
        metavar="FILE",
        rich_help_panel=FILES,
        help="Table with an id or index column and a column wrong: how the model did on items it was not trained on.",
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option("--id-column", metavar="NAME", rich_help_panel=FILES, help="Column of ids, if not id or ids."),
]
LabelColumn = Annotated[
    str | None,
    typer.Option("--label-column", metavar="NAME", rich_help_panel=FILES, help="Column of labels, if not label."),
]
FeatureColumns = Annotated[
    str | None,
    typer.Option(
        "--feature-columns",
        metavar="NAMES",
        rich_help_panel=FILES,
        help="Columns of features, with commas between; f* stands for all that begin with f, ids and labels left out.",
    ),
]
InputLimit = Annotated[
    str | None,
    typer.Option(
        "--input-limit",
        metavar="SIZE",
        rich_help_panel=FILES,
        help="What the files may take once unpacked, such as 20GB; if not given --memory-limit, else half of the "
        "memory. Mapped files (.npy, .safetensors) are free.",
    ),
]
IgnoreColumns = Annotated[
    str | None,
    typer.Option(
        "--ignore-columns",
        metavar="NAMES",
        rich_help_panel=FILES,
        help="Columns, or arrays, to leave out altogether, with commas between; p_* stands for all that begin with p_.",
    ),
]
ProbabilityColumns = Annotated[
    str | None,
    typer.Option(
        "--probability-columns",
        metavar="NAMES",
        rich_help_panel=FILES,
        help="Columns of a table that hold the probability of a class each, such as p_*; in the order of their names.",
    ),
]
NoLabel = Annotated[
    str | None,
    typer.Option(
        "--no-label",
        metavar="VALUES",
        rich_help_panel=FILES,
        help="Labels that mean none, such as -1, beside empty, NaN, null and NA; or empty, for what is empty alone.",
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        "--missing",
        metavar="HOW",
        rich_help_panel=FILES,
        help="Where features are missing: median fills in the column's, drop leaves such rows out; others keep their "
        "numbers. Without it they are counted and refused.",
    ),
]

# How to pick.

METHOD = "Method"


def strategy_names(incomplete: str) -> list[str]:
    """Shell completions of ``--strategy``."""
    from dubito.strategies import STRATEGIES

    return [name for name in STRATEGIES.names() if name.startswith(incomplete)]


def engine_names(incomplete: str) -> list[str]:
    """Shell completions of ``--engine``."""
    from dubito.engines.dispatch import installed_engines

    return [name for name in ("auto", *installed_engines()) if name.startswith(incomplete)]


Budget = Annotated[str, typer.Option("--budget", "-b", metavar="N", show_default=False, help="How many to pick.")]
Strategy = Annotated[
    str,
    typer.Option(
        "--strategy",
        "-s",
        metavar="NAME",
        rich_help_panel=METHOD,
        autocompletion=strategy_names,
        help="auto takes doubt-coverage, coverage without doubt, doubt-coreset where features were trained, and says "
        "why. Or doubt-coreset, coreset, doubt-coverage, coverage, random, least-confidence, margin, entropy, "
        "largest-cluster, filter-then-cover, power, typiclust, closest-kmeans, optimal-coreset, badge, bald, batchbald "
        "or probabilistic-coreset. Options may follow it: doubt-coreset:doubt=margin, doubt-coverage:radius=2.",
    ),
]
Features = Annotated[
    str | None,
    typer.Option(
        "--features",
        "--features-are",
        metavar="HOW",
        rich_help_panel=METHOD,
        help="For auto: frozen, or trained with the labels. If not given, the labeled rows answer.",
    ),
]
Strength = Annotated[
    str | None,
    typer.Option(
        "--strength",
        metavar="X",
        rich_help_panel=METHOD,
        help="Doubt to this power scales distances: 1 is the paper, 0 the plain core-set. This and the next two, given "
        "without a strategy, mean doubt-coreset.",
    ),
]
BeamWidth = Annotated[
    str | None,
    typer.Option("--beam-width", metavar="N", rich_help_panel=METHOD, help="Configurations a beam keeps, 1 by itself."),
]
Scaling = Annotated[
    str | None,
    typer.Option(
        "--scaling",
        metavar="NAME",
        rich_help_panel=METHOD,
        help="Whose doubt scales: respective (as it is by itself), acquired.",
    ),
]
Metric = Annotated[
    str, typer.Option("--metric", metavar="NAME", rich_help_panel=METHOD, help="euclidean or cosine (the chord).")
]
Standardize = Annotated[
    str,
    typer.Option(
        "--standardize",
        "--standardise",
        metavar="WHEN",
        rich_help_panel=METHOD,
        help="Give every feature mean 0 and standard deviation 1 over the pool: yes, no, or auto, which does so for "
        "columns of a table and never for a single array or a column of lists. Alone it says yes.",
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        rich_help_panel=METHOD,
        autocompletion=engine_names,
        help="auto, or one that dubito doctor lists.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="ADDRESS",
        rich_help_panel=METHOD,
        help="The Ray cluster for --engine cluster, such as 10.0.0.1:6379; this machine's without it.",
    ),
]
Journal = Annotated[
    str | None,
    typer.Option(
        "--journal",
        metavar="FILE",
        rich_help_panel=METHOD,
        help="For --engine cluster: write picks there as they are made; named again, a run goes on behind them.",
    ),
]
Workers = Annotated[
    str | None,
    typer.Option(
        "--workers",
        metavar="KIND",
        rich_help_panel=METHOD,
        help="For --engine cluster: cpu, cuda, or auto, which takes GPUs where there are any.",
    ),
]
WorkersPerGpu = Annotated[
    str | None,
    typer.Option(
        "--workers-per-gpu",
        metavar="N",
        rich_help_panel=METHOD,
        help="For --engine cluster: how many workers share a GPU, 1 by itself.",
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option("--memory-limit", metavar="SIZE", rich_help_panel=METHOD, help="Beyond the inputs, such as 2GB."),
]
Seed = Annotated[str, typer.Option("--seed", metavar="N", rich_help_panel=METHOD, help="For what is drawn at random.")]

# Output.

OUTPUT = "Output"

Output = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", rich_help_panel=OUTPUT, help="Where the result goes; - is stdout."),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        rich_help_panel=OUTPUT,
        help="csv, json, jsonl, parquet or npy. Without it the file's suffix tells; stdout gets csv.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", metavar="", rich_help_panel=OUTPUT, help="The result as JSON.")]
Append = Annotated[
    bool,
    typer.Option(
        "--append",
        metavar="",
        rich_help_panel=OUTPUT,
        help="Add to FILE; the picks it holds count as labeled from now on.",
    ),
]
SafeCsv = Annotated[
    bool | None,
    typer.Option(
        "--safe-csv/--no-safe-csv",
        metavar="",
        rich_help_panel=OUTPUT,
        help="An apostrophe before text that begins like a formula, taken off when read; in CSV files unless refused.",
    ),
]
Force = Annotated[bool, typer.Option("--force", metavar="", rich_help_panel=OUTPUT, help="Replace what exists.")]
Keep = Annotated[
    str | None,
    typer.Option(
        "--keep",
        metavar="NAMES",
        rich_help_panel=OUTPUT,
        help="Columns of POOL that go along with the picks, with commas between; every column of text if not given. "
        "none for none.",
    ),
]
Sheet = Annotated[
    str | None,
    typer.Option(
        "--sheet",
        metavar="FILE",
        rich_help_panel=OUTPUT,
        help="A page of the picks to label from, too: pictures that a column names, or texts, in order. Ends in .html.",
    ),
]
Pictures = Annotated[
    str | None,
    typer.Option(
        "--pictures",
        metavar="FOLDER",
        rich_help_panel=OUTPUT,
        help="Where the pictures of --sheet are, if not beside POOL; their names are in a column, or are the ids.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", metavar="", rich_help_panel=OUTPUT, help="Check everything, tell the sizes, pick nothing."
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", metavar="", rich_help_panel=OUTPUT, help="No notes and no progress on stderr.")
]
Plot = Annotated[
    str | None,
    typer.Option("--plot", metavar="FILE", rich_help_panel=OUTPUT, help="Draw it, too: a .png or a .svg."),
]

# Costs, quotas, temperature and model.

Costs = Annotated[
    str | None,
    typer.Option(
        "--costs",
        metavar="FILE",
        rich_help_panel=FILES,
        help="What labeling each item costs, above 0: a file, or a column of POOL. It divides an item's priority.",
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        "--classes",
        metavar="FILE",
        rich_help_panel=FILES,
        help="What --quota goes by, if not the likeliest class: a file, or a column of POOL.",
    ),
]
Spend = Annotated[
    str | None,
    typer.Option(
        "--spend", metavar="X", rich_help_panel=METHOD, help="Stop before the picks cost more than this together."
    ),
]
Quota = Annotated[
    list[str] | None,
    typer.Option(
        "--quota",
        "--quotas",
        metavar="[CLASS=]N",
        rich_help_panel=METHOD,
        help="At most so many picks of each predicted class, or of that one: 20, 3=5, cat=5. Classes count from 0, or "
        "go by --classes. May be repeated.",
    ),
]
Temperature = Annotated[
    str | None,
    typer.Option(
        "--temperature",
        metavar="X",
        rich_help_panel=METHOD,
        help="Divide logits by this: above 1 the model counts as less sure. fit finds it on the labeled rows, which "
        "should be none that it was trained on.",
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="NAME",
        rich_help_panel=METHOD,
        help="What is fitted where there are labels and nobody says what a model makes of POOL: linear, forest, a "
        "scikit-learn estimator by its import path, or none.",
    ),
]

# Options that may be given without a value.

OPTIONAL_VALUES = {"--standardise": "yes", "--standardize": "yes"}
"""Options whose value may be omitted, and the value they get then."""


def fill_in_values(arguments: Sequence[str]) -> list[str]:
    """Add the default value to every option that was given without one.

    Examples
    --------
    >>> fill_in_values(["select", "--standardise", "-b", "5"]), fill_in_values(["--standardise", "no"])
    (['select', '--standardise', 'yes', '-b', '5'], ['--standardise', 'no'])
    """
    spelled: list[str] = []
    for i, each in enumerate(arguments):
        after = arguments[i + 1] if i + 1 < len(arguments) else "-"
        spelled += [each, OPTIONAL_VALUES[each]] if each in OPTIONAL_VALUES and after.startswith("-") else [each]
    return spelled


__all__ = [
    "FILES",
    "METHOD",
    "OUTPUT",
    "Address",
    "Append",
    "AsJson",
    "BeamWidth",
    "Budget",
    "Candidates",
    "Checked",
    "Classes",
    "Costs",
    "Doubt",
    "DryRun",
    "Engine",
    "FeatureColumns",
    "Features",
    "Force",
    "Format",
    "Head",
    "IdColumn",
    "IgnoreColumns",
    "InputLimit",
    "Journal",
    "Keep",
    "LabelColumn",
    "Labeled",
    "Logits",
    "MemoryLimit",
    "Metric",
    "Missing",
    "Model",
    "NoLabel",
    "Output",
    "Pictures",
    "Plot",
    "Pool",
    "Probabilities",
    "ProbabilityColumns",
    "Quiet",
    "Quota",
    "SafeCsv",
    "Scaling",
    "Seed",
    "Sheet",
    "Spend",
    "Standardize",
    "Strategy",
    "Strength",
    "Temperature",
    "Workers",
    "WorkersPerGpu",
    "engine_names",
    "fill_in_values",
    "strategy_names",
]
