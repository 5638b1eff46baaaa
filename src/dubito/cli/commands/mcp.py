"""``dubito mcp``: the commands that a coding agent needs, as tools of the Model Context Protocol."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Annotated

from dubito import __version__
from dubito.registry import require

INSTRUCTIONS = """dubito picks the unlabeled items of a pool that are worth labeling next.
The usual loop: select a batch, let a person label it (add a column `label` to the table of picks), run status on the
labels so far, and select again with all tables of labels. simulate answers whether this would save labels, on data
that is labeled already. Paths are relative to the folder that the server runs in. Existing files are not replaced
unless `options` contains "--force"; `options` takes any option that `dubito COMMAND --help` shows."""

Options = Annotated[Sequence[str], "More options of the command, such as ['--id-column', 'name']."]


def run(command: str, *arguments: object, options: Sequence[str] = ()) -> str:
    """Run a dubito command in a process of its own, and return its output and notes."""
    line = [sys.executable, "-m", "dubito", command, *map(str, arguments), *options]
    completed = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if completed.returncode:
        raise require("mcp.server.mcpserver.exceptions", extra="mcp").ToolError(completed.stderr.strip())
    return f"{completed.stdout}{completed.stderr}".strip()


def flags(name: str, values: Sequence[str]) -> list[str]:
    return [part for value in values for part in (name, value)]


def select(
    pool: str, budget: int, output: str, labeled: Sequence[str] = (), strategy: str = "auto", options: Options = ()
) -> str:
    """Pick the `budget` rows of a pool that are worth labeling next, and write them as a table, best first.

    `pool`: features as .npy, .npz, CSV or Parquet. `labeled`: tables with an id or index column and a column label.
    `output`: the table to write, such as batch.csv.
    """
    given = ["--strategy", strategy, *flags("--labeled", labeled), "--output", output]
    return run("select", pool, "--budget", budget, *given, options=options)


def status(pool: str, labeled: Sequence[str] = (), options: Options = ()) -> str:
    """Count the labels of a pool or labeling project, estimate how accurate a model is, and advise whether to go on."""
    return run("status", pool, *flags("--labeled", labeled), options=options)


def simulate(data: str, strategies: Sequence[str] = (), options: Options = ()) -> str:
    """Replay active learning on labeled data: how many labels would each strategy save compared with random
    selection?

    It may take minutes. The report is written to a folder; the returned text says which.
    """
    return run("simulate", data, *flags("--strategy", strategies), options=options)


def export(picks: str, to: str, output: str, classes: Sequence[str] = (), options: Options = ()) -> str:
    """Write picks for a labeling tool, or the labels of a project as a table.

    `picks`: a table that select wrote, or the folder of a labeling project, to export its labels. `to`: label-studio,
    prodigy, doccano, folders, csv or parquet; for a project also jsonl or json-min; for picked pictures with boxes
    images, coco, yolo, cvat or label-studio-boxes.
    """
    given = ["--classes", ",".join(classes)] if classes else []
    return run("export", picks, "--to", to, "--output", output, *given, options=options)


def mcp() -> None:
    """
    [bold]dubito mcp[/bold]

    Offer select, status, simulate and export to a coding agent, over stdin and
    stdout (Model Context Protocol). An agent starts this command itself, in the
    folder with your data; see the page "Work with a coding agent".
    """
    server = require("mcp.server", extra="mcp").MCPServer(
        "dubito", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    for tool in (select, status, simulate, export):
        server.tool()(tool)
    server.run("stdio")
