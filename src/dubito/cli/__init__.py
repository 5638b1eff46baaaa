"""The command line: each command has a file in `commands`, which parses options, calls the library and prints.

A command is imported only when it runs or shows its help, which keeps ``dubito --help`` fast.
Other packages add commands with the entry-point group ``dubito.commands``, as `dubito.paper` does.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from dubito import __version__
from dubito.cli.options import fill_in_values, option
from dubito.cli.output import HELP_NAMES, command_wording, exit_code_of, set_quiet
from dubito.errors import DubitoError, InvalidArgument
from dubito.registry import Command, Registry

__all__ = ["app", "main"]

PACKAGE = "dubito.cli.commands"
PICK, MEASURE, HELP = "Pick and label", "Measure and compare", "Help"
"""Headings of the list of commands."""
BUILT_IN: dict[str, Command] = {
    "embed": Command(f"{PACKAGE}.embed:embed", "Turn a folder of pictures or a table of texts into a pool.", PICK),
    "select": Command(f"{PACKAGE}.select:select", "Pick the rows of a pool that are worth labeling next.", PICK),
    "dedupe": Command(
        f"{PACKAGE}.dedupe:dedupe", "Remove near-copies from a pool: every dropped row is near a kept one.", PICK
    ),
    "export": Command(
        f"{PACKAGE}.export:export", "Write picks for Label Studio, Prodigy, doccano, folders or a table.", PICK
    ),
    "import": Command(f"{PACKAGE}.import_:import_", "Read labels from a labeling tool.", PICK),
    "label": Command(f"{PACKAGE}.label:label", "Open the labeling page: people label what dubito picks.", PICK),
    "label-studio": Command(
        f"{PACKAGE}.label_studio:label_studio",
        "Send picks to a Label Studio server and get labels back, in rounds.",
        PICK,
    ),
    "update": Command(
        f"{PACKAGE}.update:update", "Add new items to a project, change its classes, or use your own model.", PICK
    ),
    "status": Command(
        f"{PACKAGE}.status:status", "Show what is labeled, how accurate a model is, and whether to label more.", PICK
    ),
    "simulate": Command(
        f"{PACKAGE}.simulate:simulate", "Replay active learning on labeled data: would it save labels?", MEASURE
    ),
    "diagnose": Command(
        f"{PACKAGE}.diagnose:diagnose", "Show what the theory says about a pool, with advice.", MEASURE
    ),
    "run": Command(f"{PACKAGE}.run:run", "Run an experiment that a TOML file describes.", MEASURE),
    "resume": Command(f"{PACKAGE}.run:resume", "Continue an interrupted run.", MEASURE),
    "report": Command(f"{PACKAGE}.report:report", "Write the report of a run.", MEASURE),
    "demo": Command(f"{PACKAGE}.demo:demo", "See it work on real handwritten digits, offline.", HELP),
    "mcp": Command(f"{PACKAGE}.mcp:mcp", "Offer the commands to a coding agent (Model Context Protocol).", HELP),
    "doctor": Command(f"{PACKAGE}.doctor:doctor", "Show versions, engines, extras and this machine.", HELP),
}
COMMANDS = Registry("dubito.commands", BUILT_IN)


class Commands(Mapping[str, Any]):
    """The commands by name, each imported when it is looked up."""

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS.names())

    def __len__(self) -> int:
        return len(COMMANDS.names())

    def __contains__(self, name: object) -> bool:
        return name in BUILT_IN or name in COMMANDS.plug_ins()

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return load_command(name)


class Program(TyperGroup):
    """Lists the commands without importing them, and imports the one that runs."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A placeholder with the name and summary of a command, for the list of commands."""
        if cmd_name not in self.commands:
            return None
        try:
            found = COMMANDS.find("command", cmd_name)
        except DubitoError as error:
            return TyperCommand(cmd_name, short_help=str(error))
        return TyperCommand(cmd_name, short_help=found.summary, rich_help_panel=found.group)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else load_command(name), rest


@cache
def load_command(name: str) -> Any:
    """Import a command."""
    declared = COMMANDS.find("command", name)
    module, _, attribute = declared.path.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except Exception as error:
        # Broad on purpose: importing another package may fail in any way.
        problem = f"cannot be loaded from {declared.path} ({type(error).__name__}: {error})"
        hint = "fix or remove the package that offers it."
        raise InvalidArgument(problem, argument="command", value=name, hint=hint) from error
    group = typer.Typer(add_completion=False, rich_markup_mode="rich")
    if isinstance(found, typer.Typer):
        group.add_typer(found, name=name, help=declared.summary)
    else:
        group.command(name, short_help=declared.summary)(found)
    command = typer.main.get_group(group).commands[name]
    clean_up_help(command)
    return command


def clean_up_help(command: Any) -> None:
    """Show flags without ``<bool>`` and arguments by name only, also in the help of subcommands.

    Newer versions of typer show ``{POOL}`` and ``POOL <str>`` for an argument with a metavar. Older versions do not,
    and ignore the replaced methods.
    """
    for parameter in parameters_of(command):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.param_type_name == "argument" and parameter.metavar:
            name = parameter.metavar
            vars(parameter).update(display_type_rich=lambda ctx: None, get_usage_pieces=lambda ctx, name=name: [name])


def parameters_of(command: Any) -> Iterator[Any]:
    """The parameters of a command and its subcommands; of the program only its own, since others need imports."""
    yield from command.get_params(typer.Context(command, help_option_names=HELP_NAMES))
    if isinstance(command, TyperGroup) and not isinstance(command, Program):
        for child in command.commands.values():
            yield from parameters_of(child)


app = typer.Typer(
    name="dubito", cls=Program, rich_markup_mode="rich", context_settings={"help_option_names": HELP_NAMES}
)


@app.callback(invoke_without_command=True)
def program(
    context: typer.Context, version: Annotated[bool, option("--version", "Show the version and exit.")] = False
) -> None:
    """
    [bold]dubito select pool.npz --budget 100 -o picks.csv[/bold]

    Which of my unlabeled data should I label next? Features and your model's
    probabilities go in, the rows worth labeling come out.

    New here? [bold]dubito demo[/bold] needs no data and no network.
    """
    if version:
        print(f"dubito {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


@cache
def build_program() -> Any:
    """Build the program once; a process may call it many times."""
    command = typer.main.get_command(app)
    clean_up_help(command)
    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code; an error is printed as one line on stderr.

    Examples
    --------
    >>> main(["--version"])
    dubito 0.2.0
    0
    """
    given = fill_in_values(sys.argv[1:] if arguments is None else arguments)
    run = partial(build_program(), args=given, prog_name="dubito", standalone_mode=False)
    try:
        return exit_code_of(run, lambda span: command_wording(options_of_command(given))(span))
    finally:
        set_quiet(False)


def options_of_command(arguments: Sequence[str]) -> set[str]:
    """The options of the command that these arguments run; none if there is no such command."""
    name = next((each for each in arguments if not each.startswith("-")), "")
    try:
        return {option for parameter in parameters_of(load_command(name)) for option in parameter.opts}
    except DubitoError:
        return set()
