"""Time dubito.select against its peers: equality first, then medians in one run. See README.md beside this file."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import machine
from page import write_page
from pictures import draw
from rows import Plan, Row

Record = dict[str, Any]

HERE = Path(__file__).parent
QUICK_FOLDER = HERE.parent / ".cache" / "bench-quick"


def main() -> int:
    """Exit status 1 where a row failed."""
    options = read_options()
    folder = options.out or (QUICK_FOLDER if options.quick else HERE / "results")
    folder.mkdir(parents=True, exist_ok=True)
    document = read_results(folder / "cpu.json", options.quick)
    plan = Plan(options.pool, options.quick)
    due = [row for row in plan.rows() if is_due(row, document, options.only, options.again)]
    due = [] if options.page else due
    print(f"{len(due)} rows to measure" if due else "no row is due; --again NAME measures one anew", flush=True)
    failures = run_rows(due, document, folder / "cpu.json") if due else []
    draw(document, folder)
    write_page(document, folder / "cpu.md")
    plan.scratch.cleanup()
    print(f"wrote {folder / 'cpu.md'}")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def read_options() -> argparse.Namespace:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", type=Path, help="a real pool: .npz with features, logits and labeled (rows)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs; no figures")
    parser.add_argument("--out", type=Path, help="folder of the results (benchmarks/results; --quick: .cache)")
    parser.add_argument("--only", action="append", metavar="NAME", help="only rows of this name or below it")
    parser.add_argument("--again", action="append", metavar="NAME", default=[], help="measure rows anew; 'all' for all")
    parser.add_argument("--page", action="store_true", help="measure nothing; draw the page from the figures there are")
    return parser.parse_args()


def read_results(path: Path, is_quick: bool) -> Record:
    """Rows measured before, by name, and the runs they were made in."""
    if not path.exists():
        return {"is_quick": is_quick, "runs": {}, "rows": {}}
    document: Record = json.loads(path.read_text())
    if document["is_quick"] != is_quick:
        sys.exit(f"{path} holds figures of {'a full' if is_quick else 'a quick'} run; pass another folder as --out.")
    return document


def is_due(row: Row, document: Record, only: list[str] | None, again: list[str]) -> bool:
    """Wanted, and not measured yet or to be measured again."""
    if only is not None and not any(is_below(row.name, name) for name in only):
        return False
    is_stale = any(name == "all" or is_below(row.name, name) for name in again)
    return is_stale or row.name not in document["rows"]


def is_below(name: str, parent: str) -> bool:
    """``pool/30000/scaled`` is below ``pool``."""
    return f"{name}/".startswith(f"{parent.rstrip('/')}/")


def run_rows(due: list[Row], document: Record, path: Path) -> list[str]:
    """Measure row after row; each is written as soon as it is known, so that a run can be taken up again."""
    run, failures, started = str(len(document["runs"]) + 1), [], time.perf_counter()
    document["runs"][run] = machine.describe()
    for number, row in enumerate(due, 1):
        print(f"[{number}/{len(due)}, {time.perf_counter() - started:.0f} s] {row.name}", flush=True)
        try:
            document["rows"][row.name] = row.measure() | {"run": run}
        # One row that cannot be measured, or is wrong, must not cost the others.
        except Exception as error:
            failures.append(f"{row.name} failed: {type(error).__name__}: {error}")
            print(f"    {failures[-1]}", flush=True)
        write_whole(path, json.dumps(document, indent=1))
    return failures


def write_whole(path: Path, text: str) -> None:
    """A file is whole or not there."""
    part = path.with_suffix(".part")
    part.write_text(text + "\n")
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main())
