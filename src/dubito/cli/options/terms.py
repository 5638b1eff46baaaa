"""Options for what picks may cost, how many of a class they may be, and how sure a model is taken to be."""

from typing import Annotated

import typer

from dubito.cli.options.files import FILES
from dubito.cli.options.method import METHOD

Costs = Annotated[
    str | None,
    typer.Option(
        "--costs",
        metavar="FILE",
        rich_help_panel=FILES,
        help="What labelling each item costs, above 0: a file, or a column of POOL. It divides an item's priority.",
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
        help="Divide logits by this: above 1 the model counts as less sure. fit finds it on the labelled rows, which "
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
