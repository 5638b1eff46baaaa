"""Print the figures of docs/explanation/scale.md, or write them to the page.

python benchmarks/scale_page.py [--write]
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from scale_model import TERMS, Model, Shape, fit, memory, received, sent, shape_of, whole_of

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "scale.md"
NETWORK = 1.25e9
"""Bytes a second between machines: ten gigabits."""
DISK = 1e9
"""Bytes a second that a machine reads."""
TRIP = 0.002, 0.0012
"""Seconds that a question takes on Ray, and for each worker: three medians of twelve, one to eight workers."""
BILLION = tuple(Shape(1e9, 512.0, workers, 100_000.0, 10_000.0) for workers in (64.0, 1024.0))


def read(name: str) -> dict[str, Any]:
    """A record."""
    found: dict[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return found


def table(head: list[str], rows: list[list[str]]) -> str:
    """In Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def coefficients(model: Model) -> str:
    """The cost of each phase, term by term."""
    rows = [
        [name, f"{each * 1e9:,.3g}", what]
        for name, (terms, _) in TERMS.items()
        for each, what in zip(model.coefficients[name], terms, strict=True)
        if each > 0.0
    ]
    return table(["phase", "nanoseconds", "for"], rows)


def run_row(run: dict[str, Any], model: Model) -> list[str]:
    """A run as measured and as predicted."""
    at, measured = shape_of(run), whole_of(run)
    predicted = model.total(at)
    pool = f"{int(at.rows):,} × {int(at.width)}, {int(at.shards)} shards"
    shape = f"{pool}, {int(at.labeled):,} labeled, {int(at.budget):,}"
    return [
        shape,
        f"{run['rounds']}",
        f"{model.n_rounds(at):.1f}",
        f"{measured:.2f}",
        f"{predicted:.2f}",
        f"{predicted / measured - 1.0:+.0%}",
    ]


def fitted(record: dict[str, Any], model: Model) -> str:
    """Errors of the model on the runs of the fit and on others."""
    off = sorted(abs(model.total(shape_of(run)) / whole_of(run) - 1.0) for run in record["runs"])
    head = ["rows, shards, labeled, picks", "rounds", "predicted", "seconds", "predicted", "error"]
    middle = off[len(off) // 2]
    inside = f"On the {len(off)} runs of the fit, the error is {middle:.0%} (median) and at most {off[-1]:.0%}."
    return f"{inside} On three other runs:\n\n{table(head, [run_row(run, model) for run in record['held_out']])}"


def on_ray(record: dict[str, Any], model: Model) -> str:
    """Ray clusters on the same machine, which are not part of the fit."""
    rows = []
    for run in record["ray"]:
        at = Shape(run["rows"], 256.0, run["workers"], run["labelled"], run["budget"])
        phases = run["phases"]
        described = model.seconds(at)
        measured = run["seconds"] - phases["hire"]
        whole = sum(described.values()) + trips(at, model)
        rows.append(
            [f"{run['workers']}", f"{phases['hire']:.1f}", f"{phases['start']:.1f} ({described['start']:.1f})",
             f"{phases['advance']:.1f} ({described['advance']:.1f})",
             f"{run['driver_seconds']:.1f} ({described['driver']:.1f})",
             f"{measured:.1f}", f"{whole:.1f}", f"{whole / measured - 1.0:+.0%}"]
        )  # fmt: skip
    head = [
        "workers",
        "start of workers",
        "first bounds (predicted)",
        "rounds (predicted)",
        "driver (predicted)",
        "all but the start",
        "predicted",
        "error",
    ]
    return table(head, rows)


def trips(at: Shape, model: Model) -> float:
    """Seconds that Ray needs for questions and answers."""
    return (model.n_rounds(at) + 6.0) * (TRIP[0] + TRIP[1] * at.shards)


def predicted(model: Model, gpu: dict[str, Any]) -> str:
    """A billion rows."""
    rows = []
    for at in BILLION:
        moved = sent(at) * at.shards / NETWORK + received(at, model.n_rounds(at)) / NETWORK
        parts = model.seconds(at)
        reading = at.own * at.width * 2.0 / DISK
        for kind, own in (
            ("CPU", {name: parts[name] for name in ("open", "start", "advance")}),
            ("GPU", on_gpu(at, gpu, model)),
        ):
            whole = reading + sum(own.values()) + parts["driver"] + trips(at, model) + moved
            rows.append(
                [f"{int(at.shards):,} {kind}s", f"{memory(at) / 1e9:.1f}", f"{reading:.0f}", f"{own['open']:.1f}",
                 f"{own['start']:.1f}", f"{own['advance']:.1f}",
                 f"{parts['driver']:.1f}", f"{trips(at, model):.1f}", f"{moved:.1f}", f"{whole:.0f}"]
            )  # fmt: skip
    head = [
        "workers",
        "GB each",
        "reading, s",
        "checking, s",
        "first bounds, s",
        "rounds, s",
        "driver, s",
        "Ray, s",
        "network, s",
        "total, s",
    ]
    return table(head, rows)


def on_gpu(at: Shape, gpu: dict[str, Any], model: Model) -> dict[str, float]:
    """A straight line through two runs of one worker on an H200."""
    small, large = (next(run for run in gpu["runs"] if is_alone(run, pool)) for pool in ("1M x 256", "4M x 512"))
    found = {}
    for name in ("start", "advance"):
        values = [run["rows"] * run["width"] for run in (small, large)]
        slope = (large["phases"][name] - small["phases"][name]) / (values[1] - values[0])
        found[name] = small["phases"][name] + slope * (at.own * at.width - values[0])
    found["open"] = small["phases"]["open"] + model.coefficients["open"][0] * at.own * at.width
    return found


def is_alone(run: dict[str, Any], pool: str) -> bool:
    """One worker on the GPU, a core-set."""
    return bool(run["pool"] == pool and run["kind"] == "cuda" and run["workers"] == 1 and run["strategy"] == "coreset")


def gpu_runs(gpu: dict[str, Any]) -> str:
    """What was measured on an H200."""
    rows = [
        [run["pool"], run["strategy"].split(":")[0], f"{run['workers']} {run['kind']}",
         f"{run['phases']['hire'] + run['phases']['open']:.1f}",
         f"{run['phases']['start'] + run['phases'].get('nearest', 0.0):.2f}",
         f"{sum(run['advances']):.2f}", f"{len(run['advances'])}",
         f"{(run['sent'] + run['received']) / 1e6:.1f}"]
        for run in sorted(gpu["runs"], key=lambda run: (run["pool"], run["strategy"], run["kind"], run["workers"]))
    ]  # fmt: skip
    return table(
        [
            "pool",
            "strategy",
            "workers",
            "start and reading, s",
            "first bounds, s",
            "rounds, s",
            "rounds",
            "MB moved",
        ],
        rows,
    )


def cover_runs(record: dict[str, Any]) -> str:
    """Coverage on one and two workers."""
    rows = [
        [f"{run['workers']}", f"{run['seconds']:.1f}", f"{run['phases']['start']:.1f}", f"{sum(run['advances']):.1f}",
         f"{run['rounds']}", f"{run['sent'] / 1e6:.1f}", f"{run['received'] / 1e6:.1f}",
         f"{(run['sent'] + run['received']) / run['budget'] / 1e3:.1f}"]
        for run in record["coverage"]
    ]  # fmt: skip
    return table(
        ["workers", "seconds", "pairs, s", "rounds, s", "rounds", "MB to each", "MB from all", "KB per pick"],
        rows,
    )


def blocks() -> dict[str, str]:
    """All blocks of figures, by their name in the page."""
    record, gpu = read("scale.json"), read("scale-gpu.json")
    model = fit(record["runs"])
    first, more = model.rounds
    return {
        "coefficients": coefficients(model),
        "rounds": f"Rounds: {first:.1f} + {more:.2f} · picks / 2,048.",
        "fitted": fitted(record, model),
        "ray": on_ray(record, model),
        "gpu": gpu_runs(gpu),
        "coverage": cover_runs(record),
        "billion": predicted(model, gpu),
    }


def filled(page: str) -> str:
    """The page with its blocks replaced by those of the records."""
    for name, text in blocks().items():
        mark = re.compile(rf"(<!-- {name} -->\n)(?:.*?\n)??(<!-- end -->)", re.DOTALL)
        assert mark.search(page), f"the page has no block {name}"
        page = mark.sub(lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page)
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return
    for name, text in blocks().items():
        print(f"== {name}\n{text}\n")


if __name__ == "__main__":
    main()
