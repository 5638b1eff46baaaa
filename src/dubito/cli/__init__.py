"""The command line: one file a command, each of which parses, calls the library and prints.

Only typer is imported before a command runs, so that ``--help`` and ``--version`` are quick.
"""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from dubito.cli.commands.demo import demo
from dubito.cli.commands.diagnose import diagnose
from dubito.cli.commands.doctor import doctor
from dubito.cli.commands.embed import embed
from dubito.cli.commands.export import export
from dubito.cli.commands.import_ import import_
from dubito.cli.commands.label import label
from dubito.cli.commands.label_studio import label_studio
from dubito.cli.commands.report import report
from dubito.cli.commands.reproduce import reproduce
from dubito.cli.commands.run import resume, run
from dubito.cli.commands.select import select
from dubito.cli.commands.simulate import simulate
from dubito.cli.commands.status import status
from dubito.cli.commands.update import update
from dubito.cli.options import fill_in_values
from dubito.cli.output import HELP_NAMES, build_program, command_wording, exit_code_of

__all__ = ["app", "main"]

app = typer.Typer(name="dubito", rich_markup_mode="rich", context_settings={"help_option_names": HELP_NAMES})
app.command(short_help="Turn a folder of pictures or a table of texts into a pool.")(embed)
app.command(short_help="Pick the rows of a pool that are worth labeling next.")(select)
app.command(short_help="Write picks for Label Studio, Prodigy, doccano, folders or a table.")(export)
app.command(name="import", short_help="Bring labels back from such a tool.")(import_)
app.command(short_help="Open the labeling page: people label what dubito picks.")(label)
app.add_typer(
    label_studio, name="label-studio", help="Picks to a Label Studio server and labels back, round after round."
)
app.command(short_help="Let a project go by your own model's probabilities.")(update)
app.command(short_help="Say what is labeled, how well a model does, and whether to go on.")(status)
app.command(short_help="Replay active learning on labeled data: would it save labels?")(simulate)
app.command(short_help="Say where a pool stands in the theory, and what follows.")(diagnose)
app.command(short_help="Play an experiment that a TOML file describes.")(run)
app.command(short_help="Go on with a run that was stopped.")(resume)
app.command(short_help="Make the report of a run again.")(report)
app.command(short_help="Measure the paper's figures again, and check their claims.")(reproduce)
app.command(short_help="See it work on real handwritten digits, offline.")(demo)
app.command(short_help="Show versions, engines, extras and this machine.")(doctor)


def print_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        from dubito import __version__

        print(f"dubito {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def program(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", metavar="", callback=print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """
    [bold]dubito select pool.npz --budget 100 -o picks.csv[/bold]

    Which of my unlabeled data should I label next? Features and your model's
    probabilities go in, the rows worth labeling come out.

    New here? [bold]dubito demo[/bold] needs no data and no network.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; what goes wrong becomes one line on stderr and an exit code.

    Examples
    --------
    >>> main(["--version"])
    dubito 0.1.0
    0
    """
    given, command = fill_in_values(sys.argv[1:] if arguments is None else arguments), build_program(app)
    interface = command_wording(command.options_of(given))
    return exit_code_of(lambda: command.call(args=given, prog_name="dubito", standalone_mode=False), interface)
