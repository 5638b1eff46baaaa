"""Time dubito.select on an NVIDIA GPU beside a plain PyTorch loop and the CPU engine. See README.md in this folder."""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import numpy as np

import dubito
from dubito.strategies import DoubtCoreset

Record = dict[str, Any]
HERE = Path(__file__).parent
REPEATS = 9
REAL = (
    ("real/5000/scaled", 5_000, True, 1),
    ("real/5000/unscaled", 5_000, False, 1),
    ("real/15000/scaled", 15_000, True, 1),
    ("real/5000/scaled/beam10", 5_000, True, 10),
    ("real/5000/scaled/beam20", 5_000, True, 20),
)
AGAIN = ("real/5000/scaled", "real/5000/unscaled", "real/5000/scaled/beam20")
"""Measured once more in the end, with nothing else between: the host's part of these is large, and varies."""
LOGITS = "real/5000/logits"
CLUSTERED = (("clusters/1M/5000", 1_000_000, 50_000, 5_000), ("clusters/10M/10000", 10_000_000, 100_000, 10_000))
KINDS = {
    "_tighten": "products: bounds",
    "_near_pairs": "products: near pairs",
    "_exact": "exact distances",
    "_rounds": "deciding fronts",
    "make_block_steps": "deciding fronts",
    "topk": "search for the first",
    "sort": "search for the first",
    "radix": "search for the first",
    "Memcpy": "copies",
}


def main() -> int:
    """Exit status 0 where there is no GPU: the recorded figures stay."""
    options = read_options()
    folder = options.out or HERE / "results"
    if not options.page:
        import torch

        if not torch.cuda.is_available():
            print("bench_cuda: torch sees no NVIDIA GPU; the recorded figures are in benchmarks/results/cuda.md")
            return 0
        folder.mkdir(parents=True, exist_ok=True)
        measure(options.pool, folder / "cuda.json")
        print(f"wrote {folder / 'cuda.json'}")
    if not options.raw:
        from cuda_page import write_cuda_page

        write_cuda_page(json.loads((folder / "cuda.json").read_text()), folder)
    return 0


def read_options() -> argparse.Namespace:
    """From the command line; those of bench_select.py that mean nothing here are let pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", type=Path, help="a real pool: .npz with features, logits and labeled (rows)")
    parser.add_argument("--out", type=Path, help="folder of the results (benchmarks/results)")
    parser.add_argument("--page", action="store_true", help="measure nothing; draw the page from the figures there are")
    parser.add_argument("--raw", action="store_true", help="measure, and draw no page (no matplotlib needed)")
    return parser.parse_known_args()[0]


def measure(pool_file: Path | None, path: Path) -> None:
    """Every row, each written as soon as it is known; equality is asserted before anything is timed."""
    import torch
    from cuda_workloads import generate_clusters, generate_gpu_workload, read_gpu_workload

    document: Record = {"machine": describe_gpu(), "rows": {}, "sweeps": {}, "again": []}
    rows = document["rows"]

    def note(name: str, row: Record) -> None:
        rows[name] = row
        tell(name, row)
        save(document, path)

    real = read_gpu_workload(pool_file) if pool_file else generate_gpu_workload(45_000, 5_000, torch.float16)
    for name, budget, is_scaled, beam in REAL:
        note(name, measure_row(real, budget, is_scaled, beam, has_loop=beam == 1, has_cpu=True))
    if real.logits is not None:
        note(LOGITS, measure_row(real, 5_000, True, 1, has_loop=False, has_cpu=True, from_logits=True))
    for name, n_pool, n_labeled, budget in CLUSTERED:
        note(name, measure_row(generate_clusters(n_pool, n_labeled), budget, True, 1, has_loop=False, has_cpu=False))
        torch.cuda.empty_cache()
    many = generate_gpu_workload(10_000_000, 100_000, torch.float16)
    note("10M/10000/scaled", measure_row(many, 10_000, True, 1, has_loop=False, has_cpu=False))
    del many
    torch.cuda.empty_cache()
    million = generate_gpu_workload(1_000_000, 50_000, torch.float32)
    for name, budget, is_scaled in (
        ("1M/5000/scaled", 5_000, True), ("1M/5000/unscaled", 5_000, False), ("1M/50000/scaled", 50_000, True)
    ):  # fmt: skip
        note(name, measure_row(million, budget, is_scaled, 1, has_loop=budget == 5_000, has_cpu=False))
    del million
    torch.cuda.empty_cache()
    document["sweeps"]["budget"] = sweep_budget(real)
    save(document, path)
    document["sweeps"]["pool"] = sweep_pool()
    for name, budget, is_scaled, beam in REAL:
        if name in AGAIN:
            document["again"].append(measure_row(real, budget, is_scaled, beam, has_loop=False, has_cpu=False))
            tell(f"{name}, again", document["again"][-1])
    save(document, path)


def save(document: Record, path: Path) -> None:
    """So that a run that ends early leaves what it has measured."""
    path.write_text(json.dumps(document, indent=1) + "\n")


def tell(name: str, row: Record) -> None:
    """A line while the run goes on."""
    print(f"{name}: {1e3 * row['cuda']['median']:.2f} ms; {json.dumps(row)[:400]}", flush=True)


def measure_row(
    workload: Any, budget: int, is_scaled: bool, beam: int, *, has_loop: bool, has_cpu: bool, from_logits: bool = False
) -> Record:
    """One workload and budget: who picked the same, and how long each took."""
    import torch

    method = DoubtCoreset(strength=1.0 if is_scaled else 0.0, beam_width=beam)
    options: Record = {"labeled": workload.labeled, "strategy": method}
    source: Record = {"logits": workload.logits} if from_logits else {"doubt": workload.doubt}

    def run() -> Any:
        return dubito.select(workload.pool, budget, **options, **source)

    picked = run()
    assert picked.engine == "cuda"
    (n, d), m = workload.pool.shape, len(workload.labeled)
    row: Record = {
        "n": n, "d": d, "m": m, "budget": budget, "is_scaled": is_scaled, "beam": beam, "data": workload.title,
        "source": next(iter(source)),
        "type": str(workload.pool.dtype).removeprefix("torch."),
    }  # fmt: skip
    if has_cpu:
        pool, labeled = workload.on_host()
        started = time.perf_counter()
        host = options | {"labeled": labeled, "doubt": workload.doubt}
        expected = dubito.select(pool, budget, **host, engine="cpu")
        row["cpu_seconds"] = time.perf_counter() - started
        assert np.array_equal(picked.indices, expected.indices)
        assert picked.priorities.tobytes() == expected.priorities.tobytes()
        assert picked.radius == expected.radius
        row["same_as_cpu"] = True
    if has_loop:
        loop = plain_loop(workload, budget, is_scaled)
        row["loop"] = timed(lambda: plain_loop(workload, budget, is_scaled), repeats=3)
        row["shared_with_loop"] = float(np.isin(loop, picked.indices).mean())
    row["cuda"] = timed(run, REPEATS)
    row["kinds"] = where_time_goes(run)
    if beam == 1:
        row["floor"] = floor(workload, budget)
    torch.cuda.synchronize()
    return row


def timed(run: Callable[[], object], repeats: int) -> Record:
    """Every repeat, the device synchronised around it."""
    import torch

    seconds = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        started = time.perf_counter()
        run()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return {"median": float(np.median(seconds)), "least": min(seconds), "most": max(seconds), "seconds": seconds}


def plain_loop(workload: Any, budget: int, is_scaled: bool) -> Any:
    """What one would write with care: float32, norms kept, one matrix-vector product a pick, no wait for the host."""
    import torch

    pool, labeled = workload.pool.float(), workload.labeled.float()
    sizes = pool.square().sum(dim=1)
    nearest = torch.full_like(sizes, torch.inf)
    for start in range(0, len(pool), 65_536):
        span = slice(start, start + 65_536)
        for first in range(0, len(labeled), 8_192):
            others = labeled[first : first + 8_192]
            squared = others.square().sum(dim=1) - 2.0 * (pool[span] @ others.T)
            nearest[span] = torch.minimum(nearest[span], squared.amin(dim=1) + sizes[span])
    weights = torch.tensor(workload.doubt, device="cuda").square().float() if is_scaled else torch.ones_like(sizes)
    picks = torch.empty(budget, dtype=torch.int64, device="cuda")
    for number in range(budget):
        # Indexing by a tensor of no dimensions would ask the host.
        pick = torch.argmax(nearest * weights).reshape(1)
        picks[number : number + 1] = pick
        squared = sizes + sizes.index_select(0, pick) - 2.0 * (pool @ pool.index_select(0, pick)[0])
        torch.minimum(nearest, squared, out=nearest)
        nearest.index_fill_(0, pick, -1.0)
    return picks.cpu().numpy()


def where_time_goes(run: Callable[[], object]) -> Record:
    """Milliseconds on the device by kind, launches, and the share of the wall clock that the device was busy."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        run()
        torch.cuda.synchronize()
    kinds: dict[str, float] = {}
    launches = synchronisations = 0
    for event in seen.key_averages():
        synchronisations += event.count if event.key in ("cudaStreamSynchronize", "cudaDeviceSynchronize") else 0
        if event.self_device_time_total <= 0 or event.device_type.name != "CUDA":
            continue
        kind = next((kind for part, kind in KINDS.items() if part.lower() in event.key.lower()), "other")
        kinds[kind] = kinds.get(kind, 0.0) + event.self_device_time_total / 1e3
        launches += event.count
    return {"device_ms": kinds, "launches": launches, "synchronisations": synchronisations}


def floor(workload: Any, budget: int) -> Record:
    """Bytes that must be read once over copy bandwidth, and the products against labeled points alone at peak."""
    pool, labeled = workload.pool, workload.labeled
    bandwidth, rate = copy_bandwidth(), matrix_rate(pool.dtype)
    n_bytes = (pool.numel() + labeled.numel()) * pool.element_size()
    operations = 2.0 * len(pool) * (len(labeled) + budget) * pool.shape[1]
    return {
        "read_ms": 1e3 * n_bytes / bandwidth,
        "all_products_ms": 1e3 * operations / rate,
        "bandwidth_gb": bandwidth / 1e9,
        "matrix_tflops": rate / 1e12,
    }


def copy_bandwidth() -> float:
    """Bytes read a second by a copy on the device, as much again being written."""
    import torch

    block = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(block)
    return block.numel() / timed(lambda: target.copy_(block), 5)["least"]


def matrix_rate(dtype: Any, size: int = 8_192) -> float:
    """Operations a second of a square product on random data, float32 cut to ten bits as the engine does."""
    import torch

    left, right = (torch.randn((size, size), device="cuda").to(dtype) for _ in range(2))
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        left @ right
        return 2.0 * size**3 / timed(lambda: left @ right, 5)["least"]
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def sweep_budget(real: Any) -> list[Record]:
    """The real pool, budgets from 100 to 15,000."""
    budgets = (100, 300, 1_000, 3_000, 5_000, 10_000, 15_000)
    return [
        measure_row(real, budget, True, 1, has_loop=True, has_cpu=budget <= 5_000) for budget in budgets
    ]  # fmt: skip


def sweep_pool() -> list[Record]:
    """Generated pools, 5,000 labeled, 1,000 picks."""
    import torch
    from cuda_workloads import generate_gpu_workload

    largest = generate_gpu_workload(1_000_000, 5_000, torch.float32)
    rows = []
    for n_pool in (10_000, 30_000, 100_000, 300_000, 1_000_000):
        for is_scaled in (True, False):
            has_cpu = n_pool <= 100_000
            rows.append(measure_row(largest.head(n_pool), 1_000, is_scaled, 1, has_loop=True, has_cpu=has_cpu))
    return rows


def describe_gpu() -> Record:
    """The machine, the versions and the command, and the GPU's."""
    import torch

    properties = torch.cuda.get_device_properties(0)
    return machine.describe() | {
        "gpu": properties.name,
        "gpu_memory_gb": round(properties.total_memory / 1e9, 1),
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "triton": machine.installed("triton"),
    }


if __name__ == "__main__":
    sys.exit(main())
