"""The page of coverage's figures, out of its JSON file."""

from pathlib import Path
from typing import Any

Record = dict[str, Any]


def write_coverage_page(document: Record, path: Path) -> str:
    """Write the page, and return it."""
    parts = ["# Coverage, measured\n", "Made by `benchmarks/bench_coverage.py`; every repeat is in `coverage.json`.\n"]
    for engine, record in document.items():
        parts += [f"## Engine `{engine}`\n", about(record["machine"]), table(record["rows"])]
        if "contract" in record:
            parts.append(f"Held to {record['contract']['examples']:,} small problems first, bit for bit.\n")
        if "peers" in record:
            parts += ["### Beside others\n", peers_table(record["peers"])]
    text = "\n".join(parts)
    path.write_text(text)
    return text


def about(where: Record) -> str:
    """The machine in a line."""
    gpu = f", {where['gpu']} (torch {where['torch']})" if "gpu" in where else ""
    return (
        f"{where['processor'] or where['system']}, {where['cores']} cores{gpu}{where.get('how', '')}; "
        f"NumPy {where['versions']['numpy']}, float32 products at "
        f"{where['sgemm_gflops']} GFlop/s when the run began, load {where['load_at_start']}; {where['date']}.\n"
    )


def table(rows: list[Record]) -> str:
    """A line a row."""
    lines = [
        "| pool | rows × features | labeled | picks | strength | least, s | median, s | covered | picks proved |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        cells = (
            row["data"], f"{row['n']:,} × {row['d']}", f"{row['m']:,}", f"{row['budget']:,}", f"{row['strength']:g}",
            f"{row['least']:.3g}", f"{row['median']:.3g}", f"{row['covered']:.0%}", row.get("proof", "–"),
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def peers_table(peers: Record) -> str:
    """Everybody's time, and how many times dubito's."""
    own = peers["contestants"]["dubito"]["least"]
    head = (
        f"{peers['n']:,} rows of {peers['data']}, {peers['m']:,} labeled, {peers['budget']:,} picks, all rows alike.\n"
    )
    lines = [head, "| | least, s | |", "| --- | --- | --- |"]
    for name, each in peers["contestants"].items():
        if "absent" in each:
            lines.append(f"| {name} | – | {each['absent']} |")
        else:
            times = "" if name == "dubito" else f"{each['least'] / own:.0f}×"
            lines.append(f"| {name} | {each['least']:.3g} | {times} |")
    return "\n".join(lines) + "\n"
