"""Time networks of VGG16 that train side by side on an NVIDIA GPU, and selections between. See README.md here."""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import machine
import numpy as np

from dubito.api import select
from dubito.experiments.data import Dataset
from dubito.experiments.models.networks.learner import Learner, Split, state_of
from dubito.experiments.models.networks.training import Steps, Training
from dubito.matrix import FloatArray, IntArray
from dubito.paper.side_by_side import DeviceData, StreamLearner, cudnn_benchmark, train_in_lockstep
from dubito.paper.vgg16 import vgg16

HERE = Path(__file__).parent
LANES = (1, 10, 20, 35)
IMAGES, LABELED, BATCH = 50_000, 5_000, 64
REPEATS = 5
STRATEGIES: dict[str, dict[str, Any]] = {
    "random": {},
    "coreset": {},
    "doubt-coreset": {},
    "doubt-coreset, beam 10": {"beam_width": 10},
    "least-confidence": {},
    "margin": {},
    "badge": {},
}
"""Those of the paper's main experiment, and what it leaves out."""
TURNS, BUDGET = 4, 5_000


def main() -> int:
    """Exit status 0 where there is no GPU: the recorded figures stay."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", type=Path, help="time selections, too, in this pool: features, logits and labeled")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the results")
    parser.add_argument(
        "--page", action="store_true", help="measure nothing; write the page from the figures there are"
    )
    options = parser.parse_known_args()[0]  # Those of the other benchmarks are let pass.
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "training.json"
    if not options.page:
        if not torch.cuda.is_available():
            print(
                "bench_training: torch sees no NVIDIA GPU; the recorded figures are in benchmarks/results/training.md"
            )
            return 0
        document = measure() | ({"selections": measure_selections(options.pool)} if options.pool else {})
        path.write_text(json.dumps(document, indent=1) + "\n")
    (options.out / "training.md").write_text(page(json.loads(path.read_text())))
    return 0


def measure() -> dict[str, Any]:
    """Images a second for each number of lanes, the step compiled and not."""
    import torch

    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (IMAGES, 32, 32, 3), dtype=np.uint8)
    labels = rng.integers(0, 10, IMAGES)
    data = Dataset("noise", pixels, labels, tuple("0123456789"), pixels[:1], labels[:1])
    training = Training(epochs=1, later_epochs=1, learning_rate=1e-4, decay=False, batch=BATCH, device="cuda")
    network, bank, rows = vgg16(10, "none"), DeviceData({0: data}, "cuda"), []
    with cudnn_benchmark():
        for is_compiled in (False, True):
            split = Split(network, "head", training, is_training=True)
            answer = torch.compile(split.__call__) if is_compiled else split
            lanes: list[StreamLearner] = []
            for count in LANES:
                started = time.perf_counter()
                while len(lanes) < count:
                    lanes.append(StreamLearner(Learner(network, answer, bank.rows, bank.labels, training, 200)))
                ready = time.perf_counter() - started
                rates = [images_a_second(lanes, state_of(network.to("cuda")), training) for _ in range(REPEATS)]
                rows.append({"compiled": is_compiled, "lanes": count, "set_up": ready, "images_a_second": rates})
                print(f"compiled {is_compiled}, {count} lanes: {statistics.median(rates):,.0f} images/s", flush=True)
    return {
        "machine": machine.describe(),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "repeats": REPEATS,
        "rows": rows,
    }


def images_a_second(lanes: list[StreamLearner], weights: dict[str, Any], training: Training) -> float:
    """One epoch of every lane, waited for."""
    import torch

    steps = Steps(np.arange(LABELED), training, is_first=True, seed=0)
    for lane in lanes:
        lane.begin(weights, steps)
    torch.cuda.synchronize()
    started = time.perf_counter()
    train_in_lockstep(lanes, steps.count)
    return len(lanes) * steps.count * training.batch / (time.perf_counter() - started)


def measure_selections(path: Path) -> dict[str, list[float]]:
    """Median seconds of a selection in each round of the main experiment, by strategy, once kernels are compiled."""
    import torch

    from dubito.doubt import softmax

    with np.load(path) as file:
        features, likely, labeled = file["features"], softmax(file["logits"]), file["labelled"].astype(np.int64)
    pool = torch.from_numpy(features.astype(np.float32)).cuda()
    taken = {name: np.empty((TURNS, REPEATS)) for name in STRATEGIES}
    for repeat in range(-1, REPEATS):
        for name in STRATEGIES:
            seconds = selections(pool, likely, np.sort(labeled), name, repeat + 1)
            if repeat >= 0:
                taken[name][:, repeat] = seconds
    return {name: np.median(seconds, axis=1).tolist() for name, seconds in taken.items()}


def selections(pool: Any, likely: FloatArray, labeled: IntArray, name: str, seed: int) -> list[float]:
    """Seconds of each round's selection, what it picked being labeled before the next."""
    import torch

    seconds = []
    for _ in range(TURNS):
        torch.cuda.synchronize()
        started = time.perf_counter()
        picked = select(
            pool, BUDGET, labeled=labeled, probabilities=likely, strategy=name.partition(",")[0], seed=seed,
            **STRATEGIES[name],
        )  # fmt: skip
        seconds.append(time.perf_counter() - started)
        labeled = np.sort(np.concatenate([labeled, picked.indices]))
    return seconds


def page(document: dict[str, Any]) -> str:
    """The tables."""
    head = [
        "# VGG16 trained side by side",
        "",
        f"{document['gpu']}, torch {document['torch']}: VGG16 at 32x32, batch {BATCH}, bfloat16 with float32 weights, "
        f"Adam, data on the GPU; {LABELED:,} images an epoch and lane, {document['repeats']} times. A lane is a "
        f"network of its own with its own minibatches. Measured by {measured_by(document['machine'])}.",
        "",
        "| lanes | step | images/s, median | least | most |",
        "| ---: | --- | ---: | ---: | ---: |",
    ]
    table = [
        f"| {row['lanes']} | {'compiled' if row['compiled'] else 'as it is'} | "
        f"{statistics.median(row['images_a_second']):,.0f} | {min(row['images_a_second']):,.0f} | "
        f"{max(row['images_a_second']):,.0f} |"
        for row in document["rows"]
    ]
    return "\n".join([*head, *table, "", *selections_described(document.get("selections", {}))])


def measured_by(run: dict[str, Any]) -> str:
    """The command, and the day where the record has it."""
    return f"`{run['command']}`" + (f", {run['date']}" if "date" in run else "")


def selections_described(measured: dict[str, list[float]]) -> Iterator[str]:
    """What selecting takes between trainings."""
    if not measured:
        return
    whole = sum(sum(seconds) for seconds in measured.values())
    yield "## Selections between"
    yield ""
    yield (
        f"Milliseconds of whole calls, medians once kernels are compiled: {BUDGET:,} picks of a trained network's "
        f"50,000 × 512 features, float32 on the GPU, probabilities on the host. In every round {BUDGET:,} more are "
        f"labeled. All that a seed of `cifar10-main` selects takes {whole:.2f} s."
    )
    yield ""
    yield "| strategy | " + " | ".join(f"{(turn + 1) * BUDGET:,} labeled" for turn in range(TURNS)) + " |"
    yield "| --- |" + " ---: |" * TURNS
    yield from (f"| `{name}` | {' | '.join(f'{1e3 * each:.0f}' for each in row)} |" for name, row in measured.items())
    yield ""


if __name__ == "__main__":
    sys.exit(main())
