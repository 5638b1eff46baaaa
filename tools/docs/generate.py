"""Write the reference pages from the docstrings and the output of ``--help``, and a list of all pages for programs.

``make docs`` runs it. The pages are written to ``docs/reference``, or to the folder given on the command line, and
``llms.txt`` (see llmstxt.org) next to that folder.
"""

import ast
import importlib
import inspect
import os
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import is_dataclass
from io import StringIO
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]

WIDTH = 100
"""Columns of a signature and of the help texts."""

# Typer reads these when it is imported: help without color, at a fixed width.
os.environ.update({"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": str(WIDTH), "TERMINAL_WIDTH": str(WIDTH)})
os.environ.pop("FORCE_COLOR", None)
os.environ.pop("PY_COLORS", None)
os.environ.pop("GITHUB_ACTIONS", None)

import typer
from typer.core import TyperGroup

import dubito
from dubito.cli import app
from dubito.cli import main as run_command

MODULES = ("dubito.experiments", "dubito.strategies", "dubito.doubt", "dubito.theory", "dubito.testing")
"""Modules whose public functions and classes are documented after the names of ``dubito`` itself."""

LIST_SECTIONS = ("Parameters", "Returns", "Yields", "Raises", "Attributes")
"""Numpydoc sections that list entries; all others are text."""

GENERATED = "<!-- Built by tools/docs/generate.py: edit the docstrings instead. -->"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "api.md").write_text(api_page(), encoding="utf-8")
    (folder / "cli.md").write_text(cli_page(), encoding="utf-8")
    (folder.parent / "llms.txt").write_text(page_list(), encoding="utf-8")


def page_list() -> str:
    """The pages of the documentation by section, each with its first sentence."""
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    lines = [f"# {site['site_name']}", "", f"> {site['site_description']}", "", "## Start", ""]
    for entry in site["nav"]:
        [(title, page)] = entry.items()
        if isinstance(page, str):
            lines.append(page_list_line(title, page))
        else:
            lines += ["", f"## {title}", "", *(page_list_line(*each) for part in page for each in part.items())]
    return "\n".join(lines) + "\n"


def page_list_line(title: str, page: str) -> str:
    source, address = ROOT / "docs" / page, f"{page.removesuffix('index.md').removesuffix('.md')}/".lstrip("/")
    if page.startswith("reference/"):
        return f"- [{title}]({address})"
    blocks = [block for block in source.read_text(encoding="utf-8").split("\n\n") if block[:1] not in ("#", "!", "<")]
    sentence = re.match(r".*?[.?:](?=\s|$)", " ".join(blocks[0].replace("**", "").split()))
    without_links = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", sentence.group() if sentence else "")
    return f"- [{title}]({address or '.'}): {without_links}"


# The library


def api_page() -> str:
    """The public names of the package, then those of `MODULES`."""
    parts = [GENERATED, "# Python reference", paragraphs(inspect.getdoc(dubito) or "")]
    parts += [name_section(f"dubito.{name}", getattr(dubito, name)) for name in sorted(dubito.__all__, key=rank)]
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        parts += [f"## {module_name} {{ #{module_name} }}", paragraphs(inspect.getdoc(module) or "")]
        parts += [name_section(f"{module_name}.{name}", getattr(module, name), "###") for name in public_names(module)]
    return page(parts)


def rank(name: str) -> int:
    """The order of names on the page: functions, classes, errors, then all others."""
    value = getattr(dubito, name)
    if inspect.isclass(value):
        return 2 if issubclass(value, BaseException) else 1
    return 0 if inspect.isfunction(value) else 3


def public_names(module: ModuleType) -> list[str]:
    """``__all__`` of a module, or the public functions and classes that it defines, in their order."""
    return getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    ]


def name_section(path: str, value: object, level: str = "##") -> str:
    """A public name: heading, signature, docstring and, for a class, its members."""
    heading = f"{level} {path} {{ #{path} }}"
    name = path.rpartition(".")[2]
    if inspect.isclass(value):
        return page([heading, class_head(name, value), docstring(value), *members(value, level)])
    if inspect.isfunction(value):
        return page([heading, fence(signature(name, value)), docstring(value)])
    if inspect.ismodule(value):
        return page([heading, paragraphs(inspect.getdoc(value) or "")])
    return page([heading, fence(f"{name} = {value!r}")])


def class_head(name: str, kind: type) -> str:
    """``class Name(Base, ...)``."""
    bases = [base.__name__ for base in kind.__bases__ if base is not object]
    return fence(f"class {name}({', '.join(bases)})" if bases else f"class {name}")


def members(kind: type, level: str) -> Iterator[str]:
    """The fields of a class with their docstrings, then its properties and methods that have docstrings."""
    fields = list(documented_fields(kind))
    if fields:
        yield "**Attributes**\n\n" + "\n".join(fields)
    for name, member in vars(kind).items():
        if name.startswith("_") or not inspect.getdoc(member):
            continue
        if isinstance(member, property):
            yield page([f"{level}# {name}", docstring(member)])
        elif isinstance(member, staticmethod | classmethod):
            yield page([f"{level}# {name}()", fence(signature(name, member.__func__)), docstring(member.__func__)])
        elif inspect.isfunction(member):
            yield page([f"{level}# {name}()", fence(signature(name, member)), docstring(member)])


def documented_fields(kind: type) -> Iterator[str]:
    """Annotated fields with the string literals that follow them; own fields first, then inherited ones."""
    for owner in kind.__mro__:
        if owner is kind or is_dataclass(owner):
            yield from own_fields(owner)


def own_fields(kind: type) -> Iterator[str]:
    """Annotated fields of the class, without inherited ones."""
    body = definition(kind).body
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if not isinstance(statement, ast.AnnAssign):
            continue
        text = ""
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            text = ": " + inline(" ".join(str(following.value.value).split()))
        default = f" = {ast.unparse(statement.value)}" if isinstance(statement.value, ast.Constant) else ""
        yield f"- `{ast.unparse(statement.target)}: {annotation(statement.annotation)}{default}`{text}"


def signature(name: str, function: Callable[..., object]) -> str:
    """The signature as written in the source, on one line if it fits."""
    node = definition(function)
    if not isinstance(node, ast.FunctionDef):
        return f"{name}{inspect.signature(function)}"
    arguments = list(argument_texts(node.args))
    returns = f" -> {annotation(node.returns)}" if node.returns else ""
    line = f"{name}({', '.join(arguments)}){returns}"
    if len(line) <= WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {argument},\n" for argument in arguments) + f"){returns}"


def argument_texts(arguments: ast.arguments) -> Iterator[str]:
    """The arguments with annotations and defaults, including the separators ``/`` and ``*``."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for position, (argument, default) in enumerate(zip(positional, defaults, strict=True), start=1):
        if argument.arg not in ("self", "cls"):
            yield argument_text(argument, default)
        if position == len(arguments.posonlyargs):
            yield "/"
    if arguments.vararg:
        yield "*" + argument_text(arguments.vararg, None)
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield argument_text(argument, default)
    if arguments.kwarg:
        yield "**" + argument_text(arguments.kwarg, None)


def argument_text(argument: ast.arg, default: ast.expr | None) -> str:
    """``name: annotation = default``."""
    text = f"{argument.arg}: {annotation(argument.annotation)}" if argument.annotation else argument.arg
    if default is None:
        return text
    return f"{text} = {ast.unparse(default)}" if argument.annotation else f"{text}={ast.unparse(default)}"


def annotation(node: ast.expr) -> str:
    """An annotation without the quotes of a forward reference."""
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)


def definition(value: type | Callable[..., object]) -> ast.FunctionDef | ast.ClassDef:
    """The parsed source of a function or class."""
    node = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
    if not isinstance(node, ast.FunctionDef | ast.ClassDef):
        raise TypeError(f"{value!r} is neither a function nor a class; document it by hand.")
    return node


# Docstrings


def docstring(value: object) -> str:
    """A numpydoc docstring as Markdown. Raises if a public name has none."""
    text = inspect.getdoc(value)
    if not text:
        raise ValueError(f"{value!r} has no docstring; write one where it is defined.")
    summary, *sections = re.split(r"^(\w[\w ]*)\n-{3,}\n", text, flags=re.MULTILINE)
    parts = [paragraphs(summary)]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        content = entries(body) if title in LIST_SECTIONS else paragraphs(body)
        parts.append(f"**{title}**\n\n{content}")
    return page(parts)


def entries(body: str) -> str:
    """``name : type`` lines with their indented descriptions, as a list."""
    items: list[str] = []
    for line in textwrap.dedent(body).strip().splitlines():
        if line and not line[0].isspace():
            name, colon, kind = line.partition(" : ")
            items.append(f"- `{name}` ({inline(kind)}):" if colon else f"- {inline(line)}:")
        elif line.strip():
            items[-1] += " " + inline(line.strip())
    return "\n".join(item.removesuffix(":") for item in items)


def paragraphs(body: str) -> str:
    """Text, with doctests in fenced code blocks."""
    blocks: list[str] = []
    for block in re.split(r"\n\s*\n", body.strip("\n")):
        if block.lstrip().startswith(">>>"):
            blocks.append(fence(textwrap.dedent(block).rstrip(), "pycon"))
        else:
            blocks.append(inline(textwrap.dedent(block).strip()))
    return "\n\n".join(blocks)


def inline(text: str) -> str:
    """Replace the double backticks of reStructuredText by the single ones of Markdown."""
    return text.replace("``", "`")


# The command line


def cli_page() -> str:
    """The help of the program and of each command."""
    parts = [GENERATED, "# Command line", "`python -m dubito` is the same program.", *help_sections(())]
    for names in command_paths(typer.main.get_command(app)):
        parts += help_sections(names)
    return page(parts)


def command_paths(command: object, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The names that lead to each command, groups before their commands."""
    if not isinstance(command, TyperGroup):
        return
    for name, child in command.commands.items():
        if not child.hidden:
            yield (*above, name)
            yield from command_paths(child, (*above, name))


def help_sections(names: tuple[str, ...]) -> list[str]:
    """A heading and the fenced help of one command."""
    title = " ".join(("dubito", *names))
    return [f"## {title} {{ #{title.replace(' ', '-')} }}", fence(help_text(names), "text")]


def help_text(names: tuple[str, ...]) -> str:
    """What ``dubito NAMES --help`` prints."""
    with redirect_stdout(StringIO()) as printed:
        run_command([*names, "--help"])
    return "\n".join(line.rstrip() for line in printed.getvalue().splitlines()).strip("\n")


# Markdown


def fence(text: str, language: str = "python") -> str:
    """A code block."""
    return f"```{language}\n{text}\n```"


def page(parts: list[str]) -> str:
    """Parts divided by blank lines, ending in one newline."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


if __name__ == "__main__":
    main()
