"""``dubito mcp`` as a coding agent uses it: another process, spoken to over its stdin and stdout."""

import json
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from dubito.cli.commands.mcp import export
from dubito.integrations.exchange.formats import WRITERS, ProjectFormat

mcp = pytest.importorskip("mcp", reason="needs dubito[mcp]")
anyio = pytest.importorskip("anyio")


def ask(folder: Path, *calls: tuple[str, dict[str, Any]]) -> tuple[list[str], list[Any]]:
    """The names of the tools, and what each call returned."""

    async def talk() -> tuple[list[str], list[Any]]:
        server = mcp.StdioServerParameters(command=sys.executable, args=["-m", "dubito", "mcp"], cwd=str(folder))
        async with mcp.Client(server) as client:
            tools = await client.list_tools()
            return [tool.name for tool in tools.tools], [await client.call_tool(*call) for call in calls]

    names, answers = anyio.run(talk)
    return names, answers


@pytest.mark.slow
def test_an_agent_selects_labels_and_asks_for_the_status(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 2))
    lines = [f"item-{number},{x},{y}" for number, (x, y) in enumerate(rows)]
    (tmp_path / "pool.csv").write_text("\n".join(["id,x,y", *lines]) + "\n")
    labels = [f"item-{number},{'high' if rows[number, 0] > 0 else 'low'}" for number in range(30)]
    (tmp_path / "labels.csv").write_text("\n".join(["id,label", *labels]) + "\n")
    arguments = {"pool": "pool.csv", "budget": 4, "labeled": ["labels.csv"], "output": "batch.csv"}
    names, (picked, again, status) = ask(
        tmp_path,
        ("select", arguments),
        ("select", arguments),
        ("status", {"pool": "pool.csv", "labeled": ["labels.csv"], "options": ["--json"]}),
    )
    assert names == ["select", "status", "simulate", "export"]
    assert not picked.is_error
    assert "batch.csv" in picked.content[0].text
    assert len((tmp_path / "batch.csv").read_text().splitlines()) == 5
    assert again.is_error
    assert "--force" in again.content[0].text
    assert json.JSONDecoder().raw_decode(status.content[0].text)[0]["labels"] == 30


def test_an_agent_is_shown_every_format_of_an_export() -> None:
    words = set((export.__doc__ or "").replace(",", " ").replace(";", " ").replace(".", " ").split())
    assert {*WRITERS, *get_args(ProjectFormat)} <= words
