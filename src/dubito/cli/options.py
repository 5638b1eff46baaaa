"""Command line options shared by several commands. Numbers are passed on as text; the library checks them."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Annotated, Any

import typer

from dubito.cli.output import one_of
from dubito.io.picks import FORMATS


def argument(name: str, help: str, **more: Any) -> Any:
    return typer.Argument(metavar=name, show_default=False, help=help, **more)


def option(spec: str, help: str, panel: str | None = None, **more: Any) -> Any:
    """A typer option; ``spec`` lists its flags and the placeholder of its value, as in ``--budget -b N``."""
    flags = spec.split()
    placeholder = "" if flags[-1].startswith("-") else flags.pop()
    return typer.Option(*flags, metavar=placeholder, rich_help_panel=panel, help=help, **more)


# Input files and their columns.

FILES = "Files"

Pool = Annotated[
    str,
    argument(
        "POOL",
        "Features, one row per item: .npy, .npz, .safetensors, .pt, .h5, Parquet, Feather, CSV, .xlsx, "
        "JSON or a folder of shards. "
        "file.npz::key names an array.",
    ),
]
Labeled = Annotated[
    list[str] | None,
    option(
        "--labeled --labelled FILE",
        "The labeled items: a table with an id or index column (rows without a label are ignored), "
        "row numbers, a mask, or features. May be repeated.",
        FILES,
    ),
]
Probabilities = Annotated[str | None, option("--probabilities FILE", "Class probabilities, one row per item.", FILES)]
Logits = Annotated[str | None, option("--logits FILE", "Logits, instead of probabilities.", FILES)]
Doubt = Annotated[str | None, option("--doubt FILE", "1 - largest probability, instead of probabilities.", FILES)]
Candidates = Annotated[str | None, option("--candidates FILE", "Rows, ids or a mask: pick only from these.", FILES)]
Head = Annotated[
    str | None,
    option(
        "--head FILE", "Weights (c, d) of a linear last layer. Default: the array head in POOL, if there is one.", FILES
    ),
]
Checked = Annotated[
    str | None,
    option(
        "--checked FILE",
        "Table with an id or index column and a column wrong: whether the model was wrong, for items "
        "that it was not trained on.",
        FILES,
    ),
]
IdColumn = Annotated[str | None, option("--id-column NAME", "Column of ids, if not id or ids.", FILES)]
LabelColumn = Annotated[str | None, option("--label-column NAME", "Column of labels, if not label.", FILES)]
FeatureColumns = Annotated[
    str | None,
    option(
        "--feature-columns NAMES",
        "Columns of features, separated by commas; f* means all that begin with f, except ids and labels.",
        FILES,
    ),
]
InputLimit = Annotated[
    str | None,
    option(
        "--input-limit SIZE",
        "Memory that the unpacked files may take, such as 20GB. Default: half of the memory. Memory-mapped files "
        "(.npy, .safetensors) do not count.",
        FILES,
    ),
]
InputLimitBesideMemoryLimit = Annotated[
    str | None,
    option(
        "--input-limit SIZE",
        "Memory that the unpacked files may take, such as 20GB. Default: --memory-limit if given, else half of "
        "the memory. Memory-mapped files (.npy, .safetensors) do not count.",
        FILES,
    ),
]
IgnoreColumns = Annotated[
    str | None,
    option(
        "--ignore-columns NAMES",
        "Columns or arrays to ignore, separated by commas; p_* means all that begin with p_.",
        FILES,
    ),
]
ProbabilityColumns = Annotated[
    str | None,
    option(
        "--probability-columns NAMES",
        "Columns of a table with one probability per class, such as p_*, in the order of their names.",
        FILES,
    ),
]
NoLabel = Annotated[
    str | None,
    option(
        "--no-label VALUES",
        "Values that mean unlabeled, such as -1, in addition to empty cells, NaN, null and NA; or "
        "empty, if only empty cells mean unlabeled.",
        FILES,
    ),
]
Missing = Annotated[
    str | None,
    option(
        "--missing HOW",
        "What to do about missing features: median fills in the median of the column, drop omits the row (other "
        "rows keep their numbers). Default: raise an error that says how many there are.",
        FILES,
    ),
]

# How to pick.

METHOD, CLUSTER = "Method", "Cluster (--engine cluster)"


def strategy_names(incomplete: str) -> list[str]:
    from dubito.strategies import STRATEGIES

    return [name for name in STRATEGIES.names() if name.startswith(incomplete)]


def engine_names(incomplete: str) -> list[str]:
    from dubito.engines.dispatch import installed_engines

    return [name for name in ("auto", *installed_engines()) if name.startswith(incomplete)]


Budget = Annotated[str, option("--budget -b N", "Number of items to pick.", show_default=False)]
Strategy = Annotated[
    str,
    option(
        "--strategy -s NAME",
        "auto uses doubt-coverage, coverage without doubt, or doubt-coreset for trained features, and says which "
        "and why. Or doubt-coreset, coreset, doubt-coverage, coverage, random, least-confidence, margin, entropy, "
        "largest-cluster, filter-then-cover, power, typiclust, closest-kmeans, optimal-coreset, badge, bald, batchbald "
        "or probabilistic-coreset. Options may follow it: doubt-coreset:doubt=margin, doubt-coverage:radius=2.",
        METHOD,
        autocompletion=strategy_names,
    ),
]
Features = Annotated[
    str | None,
    option(
        "--features --features-are HOW",
        "For auto: frozen, or trained with the labels. Default: decided from the labeled rows.",
        METHOD,
    ),
]
Strength = Annotated[
    str | None,
    option(
        "--strength X",
        "Power of doubt that scales distances: 1 as in the paper, 0 for the plain core-set. Any of --strength, "
        "--beam-width or --scaling, given without --strategy, chooses doubt-coreset.",
        METHOD,
    ),
]
BeamWidth = Annotated[str | None, option("--beam-width N", "Configurations that the beam keeps. Default: 1.", METHOD)]
Scaling = Annotated[
    str | None, option("--scaling NAME", "Whose doubt scales a distance: respective (the default) or acquired.", METHOD)
]
Metric = Annotated[str, option("--metric NAME", "euclidean or cosine (chord distance).", METHOD)]
Standardize = Annotated[
    str,
    option(
        "--standardize --standardise WHEN",
        "Give every feature mean 0 and standard deviation 1 over the pool: yes, no, or auto, which does so for "
        "columns of a table and never for a single array or a column of lists. Without a value: yes.",
        METHOD,
    ),
]
Engine = Annotated[
    str, option("--engine NAME", "auto, or an engine that dubito doctor lists.", METHOD, autocompletion=engine_names)
]
Address = Annotated[
    str | None,
    option(
        "--address ADDRESS",
        "The Ray cluster for --engine cluster, such as 10.0.0.1:6379. Default: one on this machine.",
        CLUSTER,
    ),
]
Journal = Annotated[
    str | None,
    option(
        "--journal FILE", "Record picks in this file as they are made. An interrupted run continues from it.", CLUSTER
    ),
]
Workers = Annotated[
    str | None, option("--workers KIND", "cpu, cuda, or auto, which uses GPUs if there are any.", CLUSTER)
]
WorkersPerGpu = Annotated[
    str | None, option("--workers-per-gpu N", "How many workers share a GPU. Default: 1.", CLUSTER)
]
MemoryLimit = Annotated[
    str | None, option("--memory-limit SIZE", "Memory in addition to the inputs, such as 2GB.", METHOD)
]
Seed = Annotated[str, option("--seed N", "Random seed.", METHOD)]

# Output.

OUTPUT = "Output"

Output = Annotated[str | None, option("--output -o FILE", "Where the result goes; - is stdout.", OUTPUT)]
Format = Annotated[
    str | None, option("--format NAME", f"{one_of(FORMATS)}. Default: by the file's suffix; csv for stdout.", OUTPUT)
]
AsJson = Annotated[bool, option("--json", "The result as JSON.", OUTPUT)]
Append = Annotated[bool, option("--append", "Append to FILE; the picks already in it count as labeled.", OUTPUT)]
SafeCsv = Annotated[
    bool | None,
    option(
        "--safe-csv/--no-safe-csv",
        "Write an apostrophe before text that begins like a formula (removed when dubito reads it). Default: in "
        "CSV files only.",
        OUTPUT,
    ),
]
Force = Annotated[bool, option("--force", "Replace existing files.", OUTPUT)]
Keep = Annotated[
    str | None,
    option(
        "--keep NAMES",
        "Columns of POOL to add to the picks, separated by commas, or none. Default: every column of text.",
        OUTPUT,
    ),
]
Sheet = Annotated[
    str | None,
    option(
        "--sheet FILE",
        "Also write a page of the picks to label from, an .html file: their pictures or texts, in order.",
        OUTPUT,
    ),
]
Pictures = Annotated[
    str | None,
    option(
        "--pictures FOLDER",
        "Folder of the pictures of --sheet. Default: the folder of POOL. A column, or the ids, must name the files.",
        OUTPUT,
    ),
]
DryRun = Annotated[bool, option("--dry-run", "Check everything, print the sizes, pick nothing.", OUTPUT)]
Quiet = Annotated[bool, option("--quiet -q", "No notes and no progress on stderr.", OUTPUT)]
Plot = Annotated[str | None, option("--plot FILE", "Also plot the result, as a .png or .svg.", OUTPUT)]
Targets = Annotated[
    list[str] | None,
    option("--target X", "Report the number of labels needed for this accuracy, such as 0.9. May be repeated.", OUTPUT),
]

# Costs, quotas, temperature and model.

Costs = Annotated[
    str | None,
    option(
        "--costs FILE",
        "The cost of labeling each item, above 0: a file, or a column of POOL. Priorities are divided by it. With "
        "--group-column also a file with the price of each group.",
        FILES,
    ),
]
Classes = Annotated[
    str | None,
    option(
        "--classes FILE",
        "The classes for --quota: a file, or a column of POOL. Default: the most probable class.",
        FILES,
    ),
]
GroupColumn = Annotated[
    str | None,
    option(
        "--group-column --groups NAME",
        "Pick whole groups of rows, such as the boxes of an image, for what they add together: a column of POOL, or a "
        "file. --budget counts groups.",
        FILES,
    ),
]
Spend = Annotated[str | None, option("--spend X", "Stop before the total cost of the picks exceeds this.", METHOD)]
Quota = Annotated[
    list[str] | None,
    option(
        "--quota --quotas [CLASS=]N",
        "Maximum number of picks of each predicted class, or of one class: 20, 3=5, cat=5. Classes are numbered "
        "from 0, or named by --classes. May be repeated.",
        METHOD,
    ),
]
Temperature = Annotated[
    str | None,
    option(
        "--temperature X",
        "Divide logits by this: above 1, the model is taken as less certain. fit estimates it on the labeled "
        "rows, which should not be rows that the model was trained on.",
        METHOD,
    ),
]
Model = Annotated[
    str,
    option(
        "--model NAME",
        "The model to fit if there are labels but no probabilities, logits or doubt: linear, forest, the import "
        "path of a scikit-learn estimator, or none.",
        METHOD,
    ),
]

# Options that may be given without a value.

OPTIONAL_VALUES = {"--standardise": "yes", "--standardize": "yes"}
"""Options whose value may be omitted, and the value that is then filled in."""


def fill_in_values(arguments: Sequence[str]) -> list[str]:
    """Add the default value to every option that was given without one.

    Examples
    --------
    >>> fill_in_values(["select", "--standardise", "-b", "5"]), fill_in_values(["--standardise", "no"])
    (['select', '--standardise', 'yes', '-b', '5'], ['--standardise', 'no'])
    """
    filled: list[str] = []
    for argument, following in zip_longest(arguments, arguments[1:], fillvalue="-"):
        filled.append(argument)
        if argument in OPTIONAL_VALUES and following.startswith("-"):
            filled.append(OPTIONAL_VALUES[argument])
    return filled
