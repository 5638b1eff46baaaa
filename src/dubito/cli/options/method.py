"""Options that say how to pick, and the names that a shell completes."""

from typing import Annotated

import typer

METHOD = "Method"


def strategy_names(incomplete: str) -> list[str]:
    """Completions of ``--strategy``."""
    from dubito.strategies import STRATEGIES

    return [name for name in STRATEGIES.names() if name.startswith(incomplete)]


def engine_names(incomplete: str) -> list[str]:
    """Completions of ``--engine``."""
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
        help="For auto: frozen, or trained with the labels. If not given, the labelled rows answer.",
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
Standardise = Annotated[
    str,
    typer.Option(
        "--standardise",
        "--standardize",
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
