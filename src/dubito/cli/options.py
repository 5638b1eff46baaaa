"""Command line options shared by several commands. Numbers are passed on as text; the library checks them."""

from collections.abc import Sequence
from typing import Annotated

import typer

from dubito.cli.output import one_of
from dubito.io.picks import FORMATS

# Input files and their columns.

FILES = "Files"

Pool = Annotated[
    str,
    typer.Argument(
        metavar="POOL",
        show_default=False,
        help="Features, one row per item: .npy, .npz, .safetensors, .pt, .h5, Parquet, Feather, CSV, .xlsx, "
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
        help="The labeled items: a table with an id or index column (rows without a label are ignored), "
        "row numbers, a mask, or features. May be repeated.",
    ),
]
Probabilities = Annotated[
    str | None,
    typer.Option(
        "--probabilities", metavar="FILE", rich_help_panel=FILES, help="Class probabilities, one row per item."
    ),
]
Logits = Annotated[
    str | None,
    typer.Option("--logits", metavar="FILE", rich_help_panel=FILES, help="Logits, instead of probabilities."),
]
Doubt = Annotated[
    str | None,
    typer.Option(
        "--doubt", metavar="FILE", rich_help_panel=FILES, help="1 - largest probability, instead of probabilities."
    ),
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
        help="Weights (c, d) of a linear last layer. Default: the array head in POOL, if there is one.",
    ),
]
Checked = Annotated[
    str | None,
    typer.Option(
        "--checked",
        metavar="FILE",
        rich_help_panel=FILES,
        help="Table with an id or index column and a column wrong: whether the model was wrong, for items "
        "that it was not trained on.",
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
        help="Columns of features, separated by commas; f* means all that begin with f, except ids and labels.",
    ),
]
InputLimit = Annotated[
    str | None,
    typer.Option(
        "--input-limit",
        metavar="SIZE",
        rich_help_panel=FILES,
        help="Memory that the unpacked files may take, such as 20GB. Default: --memory-limit if given, else half of "
        "the memory. Memory-mapped files (.npy, .safetensors) do not count.",
    ),
]
IgnoreColumns = Annotated[
    str | None,
    typer.Option(
        "--ignore-columns",
        metavar="NAMES",
        rich_help_panel=FILES,
        help="Columns or arrays to ignore, separated by commas; p_* means all that begin with p_.",
    ),
]
ProbabilityColumns = Annotated[
    str | None,
    typer.Option(
        "--probability-columns",
        metavar="NAMES",
        rich_help_panel=FILES,
        help="Columns of a table with one probability per class, such as p_*, in the order of their names.",
    ),
]
NoLabel = Annotated[
    str | None,
    typer.Option(
        "--no-label",
        metavar="VALUES",
        rich_help_panel=FILES,
        help="Values that mean unlabeled, such as -1, in addition to empty cells, NaN, null and NA; or "
        "empty, if only empty cells mean unlabeled.",
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        "--missing",
        metavar="HOW",
        rich_help_panel=FILES,
        help="What to do about missing features: median fills in the median of the column, drop omits the row (other "
        "rows keep their numbers). Default: raise an error that says how many there are.",
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


Budget = Annotated[
    str, typer.Option("--budget", "-b", metavar="N", show_default=False, help="Number of items to pick.")
]
Strategy = Annotated[
    str,
    typer.Option(
        "--strategy",
        "-s",
        metavar="NAME",
        rich_help_panel=METHOD,
        autocompletion=strategy_names,
        help="auto uses doubt-coverage, coverage without doubt, or doubt-coreset for trained features, and says which "
        "and why. Or doubt-coreset, coreset, doubt-coverage, coverage, random, least-confidence, margin, entropy, "
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
        help="For auto: frozen, or trained with the labels. Default: decided from the labeled rows.",
    ),
]
Strength = Annotated[
    str | None,
    typer.Option(
        "--strength",
        metavar="X",
        rich_help_panel=METHOD,
        help="Power of doubt that scales distances: 1 as in the paper, 0 for the plain core-set. Without --strategy, "
        "this option, --beam-width and --scaling select doubt-coreset.",
    ),
]
BeamWidth = Annotated[
    str | None,
    typer.Option(
        "--beam-width", metavar="N", rich_help_panel=METHOD, help="Configurations that the beam keeps. Default: 1."
    ),
]
Scaling = Annotated[
    str | None,
    typer.Option(
        "--scaling",
        metavar="NAME",
        rich_help_panel=METHOD,
        help="Whose doubt scales a distance: respective (the default) or acquired.",
    ),
]
Metric = Annotated[
    str, typer.Option("--metric", metavar="NAME", rich_help_panel=METHOD, help="euclidean or cosine (chord distance).")
]
Standardize = Annotated[
    str,
    typer.Option(
        "--standardize",
        "--standardise",
        metavar="WHEN",
        rich_help_panel=METHOD,
        help="Give every feature mean 0 and standard deviation 1 over the pool: yes, no, or auto, which does so for "
        "columns of a table and never for a single array or a column of lists. Without a value: yes.",
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        rich_help_panel=METHOD,
        autocompletion=engine_names,
        help="auto, or an engine that dubito doctor lists.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="ADDRESS",
        rich_help_panel=METHOD,
        help="The Ray cluster for --engine cluster, such as 10.0.0.1:6379. Default: one on this machine.",
    ),
]
Journal = Annotated[
    str | None,
    typer.Option(
        "--journal",
        metavar="FILE",
        rich_help_panel=METHOD,
        help="For --engine cluster: record picks in this file as they are made. An interrupted run continues from it.",
    ),
]
Workers = Annotated[
    str | None,
    typer.Option(
        "--workers",
        metavar="KIND",
        rich_help_panel=METHOD,
        help="For --engine cluster: cpu, cuda, or auto, which uses GPUs if there are any.",
    ),
]
WorkersPerGpu = Annotated[
    str | None,
    typer.Option(
        "--workers-per-gpu",
        metavar="N",
        rich_help_panel=METHOD,
        help="For --engine cluster: how many workers share a GPU. Default: 1.",
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory-limit", metavar="SIZE", rich_help_panel=METHOD, help="Memory in addition to the inputs, such as 2GB."
    ),
]
Seed = Annotated[str, typer.Option("--seed", metavar="N", rich_help_panel=METHOD, help="Random seed.")]

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
        help=f"{one_of(FORMATS)}. Default: by the file's suffix; csv for stdout.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", metavar="", rich_help_panel=OUTPUT, help="The result as JSON.")]
Append = Annotated[
    bool,
    typer.Option(
        "--append",
        metavar="",
        rich_help_panel=OUTPUT,
        help="Append to FILE; the picks already in it count as labeled.",
    ),
]
SafeCsv = Annotated[
    bool | None,
    typer.Option(
        "--safe-csv/--no-safe-csv",
        metavar="",
        rich_help_panel=OUTPUT,
        help="Write an apostrophe before text that begins like a formula (removed when dubito reads it). Default: in "
        "CSV files only.",
    ),
]
Force = Annotated[bool, typer.Option("--force", metavar="", rich_help_panel=OUTPUT, help="Replace existing files.")]
Keep = Annotated[
    str | None,
    typer.Option(
        "--keep",
        metavar="NAMES",
        rich_help_panel=OUTPUT,
        help="Columns of POOL to add to the picks, separated by commas, or none. Default: every column of text.",
    ),
]
Sheet = Annotated[
    str | None,
    typer.Option(
        "--sheet",
        metavar="FILE",
        rich_help_panel=OUTPUT,
        help="Also write a page of the picks to label from, an .html file: their pictures or texts, in order.",
    ),
]
Pictures = Annotated[
    str | None,
    typer.Option(
        "--pictures",
        metavar="FOLDER",
        rich_help_panel=OUTPUT,
        help="Folder of the pictures of --sheet. Default: the folder of POOL. A column, or the ids, must name the "
        "files.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", metavar="", rich_help_panel=OUTPUT, help="Check everything, print the sizes, pick nothing."
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", metavar="", rich_help_panel=OUTPUT, help="No notes and no progress on stderr.")
]
Plot = Annotated[
    str | None,
    typer.Option("--plot", metavar="FILE", rich_help_panel=OUTPUT, help="Also plot the result, as a .png or .svg."),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        metavar="X",
        rich_help_panel=OUTPUT,
        help="Report the number of labels needed for this accuracy, such as 0.9. May be repeated.",
    ),
]

# Costs, quotas, temperature and model.

Costs = Annotated[
    str | None,
    typer.Option(
        "--costs",
        metavar="FILE",
        rich_help_panel=FILES,
        help="The cost of labeling each item, above 0: a file, or a column of POOL. Priorities are divided by it.",
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        "--classes",
        metavar="FILE",
        rich_help_panel=FILES,
        help="The classes for --quota: a file, or a column of POOL. Default: the most probable class.",
    ),
]
Spend = Annotated[
    str | None,
    typer.Option(
        "--spend", metavar="X", rich_help_panel=METHOD, help="Stop before the total cost of the picks exceeds this."
    ),
]
Quota = Annotated[
    list[str] | None,
    typer.Option(
        "--quota",
        "--quotas",
        metavar="[CLASS=]N",
        rich_help_panel=METHOD,
        help="Maximum number of picks of each predicted class, or of one class: 20, 3=5, cat=5. Classes are numbered "
        "from 0, or named by --classes. May be repeated.",
    ),
]
Temperature = Annotated[
    str | None,
    typer.Option(
        "--temperature",
        metavar="X",
        rich_help_panel=METHOD,
        help="Divide logits by this: above 1, the model is taken as less certain. fit estimates it on the labeled "
        "rows, which should not be rows that the model was trained on.",
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="NAME",
        rich_help_panel=METHOD,
        help="The model to fit if there are labels but no probabilities, logits or doubt: linear, forest, the import "
        "path of a scikit-learn estimator, or none.",
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
