"""Options that say what is read: the pool, what belongs to it, and which of their columns."""

from typing import Annotated

import typer

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
Labelled = Annotated[
    list[str] | None,
    typer.Option(
        "--labelled",
        "--labeled",
        metavar="FILE",
        rich_help_panel=FILES,
        help="What is labelled already: a table with an id or index column (rows whose label is empty do not count), "
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
