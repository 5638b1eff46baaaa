"""Coverage beside other implementations of facility location and herding, on growing pools.

    python benchmarks/coverage_peers.py --python FOLDER/bin/python    # writes results/coverage-peers.json and .md
    python benchmarks/coverage_peers.py --gpu                         # adds dubito and PyTorch on a GPU to both

``--python`` is an interpreter with the peers: scikit-activeml, apricot-select, submodlib-py, torch; dubito is read from
this checkout. Each run is a process of its own with limits of memory and CPU time; a peer is tried on larger pools
until one is too large for it. Everybody picks from a pool without labels, all rows alike, with the kernel and radius
of dubito if it can be given one, and the value of its picks is computed in float64. scikit-activeml 1.0.1 has
MaxHerding, but no UncertaintyHerding.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import machine
import numpy as np
import numpy.typing as npt

HERE = Path(__file__).parent
SIZES, FEATURES, BUDGET, NEIGHBORS = (2_000, 5_000, 10_000, 20_000, 100_000), 64, 50, 200
GPU_SIZES, GPU_SECONDS = (20_000, 100_000, 180_000, 250_000), 60
RADIUS = 14.0
"""About 1.3 times the median distance of a pool to 100 rows of it."""
Array = npt.NDArray[Any]


def make_pool(n: int) -> Array:
    """30 Gaussian clusters."""
    rng = np.random.default_rng(0)
    centers = 3.0 * rng.standard_normal((30, FEATURES))
    return (centers[rng.integers(30, size=n)] + rng.standard_normal((n, FEATURES))).astype(np.float32)


def kernels(pool: Array, others: Array) -> Array:
    """(n, k) float32 ``max(1 - d² / R², 0)²``."""
    squared = (pool * pool).sum(axis=1)[:, None] + (others * others).sum(axis=1) - 2.0 * (pool @ others.T)
    return np.asarray(np.maximum(1.0 - np.maximum(squared, 0.0) / np.float32(RADIUS**2), 0.0) ** 2)


def by_dubito(pool: Array) -> Array:
    """The engine `cpu`."""
    dubito = import_module("dubito")
    return np.asarray(dubito.select(pool, BUDGET, strategy=f"coverage:radius={RADIUS}", engine="cpu").indices)


def by_dubito_on_gpu(pool: Array) -> Array:
    """The engine `cuda`."""
    dubito, points = import_module("dubito"), import_module("torch").tensor(pool, device="cuda")
    return np.asarray(dubito.select(points, BUDGET, strategy=f"coverage:radius={RADIUS}", engine="cuda").indices)


def by_numpy(pool: Array) -> Array:
    """Greedy, n x n in float32."""
    matrix, cover, picks = kernels(pool, pool), np.zeros(len(pool), dtype=np.float32), list[int]()
    for _ in range(BUDGET):
        gains = np.array([np.maximum(row - cover, 0.0).sum() for row in matrix])
        picks.append(int(gains.argmax()))
        np.maximum(cover, matrix[picks[-1]], out=cover)
    return np.array(picks)


def by_torch(pool: Array) -> Array:
    """Greedy, n x n in float32, on the CPU."""
    torch = import_module("torch")
    points = torch.tensor(pool)
    matrix = (1.0 - torch.cdist(points, points) ** 2 / RADIUS**2).clamp_(min=0.0) ** 2
    cover, picks = torch.zeros(len(pool)), list[int]()
    for _ in range(BUDGET):
        gains = torch.cat([(part - cover).clamp_(min=0.0).sum(dim=1) for part in matrix.split(1024)])
        picks.append(int(gains.argmax()))
        cover = torch.maximum(cover, matrix[picks[-1]])
    return np.array(picks)


def by_torch_on_gpu(pool: Array) -> Array:
    """Greedy, n x n in float32, with memory for little else than the matrix."""
    torch = import_module("torch")
    points = torch.tensor(pool, device="cuda")
    matrix, step = torch.empty((len(pool), len(pool)), device="cuda"), max(1, 2**28 // len(pool))
    for start in range(0, len(pool), step):
        part = matrix[start : start + step]
        part.copy_(torch.cdist(points[start : start + step], points)).square_().mul_(-1.0 / RADIUS**2).add_(1.0)
        part.clamp_(min=0.0).square_()
    cover, picks = torch.zeros(len(pool), device="cuda"), list[int]()
    for _ in range(BUDGET):
        gains = torch.cat([(part - cover).clamp_(min=0.0).sum(dim=1) for part in matrix.split(step)])
        picks.append(int(gains.argmax()))
        cover = torch.maximum(cover, matrix[picks[-1]])
    return np.array(picks)


def by_apricot(pool: Array) -> Array:
    """Lazy greedy over all pairs."""
    found = import_module("apricot").FacilityLocationSelection(BUDGET, metric="precomputed", optimizer="lazy")
    return np.asarray(found.fit(kernels(pool, pool).astype(np.float64)).ranking)


def near_neighbors(pool: Array) -> Any:
    """A sparse matrix of the nearest neighbors' kernels."""
    found = import_module("sklearn.neighbors").kneighbors_graph(pool, NEIGHBORS, mode="distance", include_self=True)
    found.data = np.maximum(1.0 - found.data**2 / RADIUS**2, 0.0) ** 2
    found = found.maximum(found.T).tocsr()
    # apricot is compiled for these.
    found.indices, found.indptr = found.indices.astype(np.int32), found.indptr.astype(np.int32)
    return found


def by_sparse_apricot(pool: Array) -> Array:
    """Lazy greedy over the nearest neighbors."""
    found = import_module("apricot").FacilityLocationSelection(BUDGET, metric="precomputed", optimizer="lazy")
    return np.asarray(found.fit(near_neighbors(pool)).ranking)


def by_submodlib(pool: Array) -> Array:
    """Lazy greedy over all pairs."""
    made = import_module("submodlib").FacilityLocationFunction(
        n=len(pool), mode="dense", sijs=kernels(pool, pool), separate_rep=False
    )
    found = made.maximize(budget=BUDGET, optimizer="LazyGreedy", show_progress=False)
    return np.array([row for row, _ in found])


def by_sparse_submodlib(pool: Array) -> Array:
    """Lazy greedy over the nearest neighbors."""
    made = import_module("submodlib").FacilityLocationFunction(
        n=len(pool), mode="sparse", sijs=near_neighbors(pool), num_neighbors=NEIGHBORS, separate_rep=False
    )
    found = made.maximize(budget=BUDGET, optimizer="LazyGreedy", show_progress=False)
    return np.array([row for row, _ in found])


def by_max_herding(pool: Array) -> Array:
    """scikit-activeml's, with its Gaussian kernel."""
    strategy = import_module("skactiveml.pool").MaxHerding(random_state=0, metric_dict={"gamma": 1.0 / RADIUS**2})
    return np.asarray(strategy.query(pool, np.full(len(pool), np.nan), batch_size=BUDGET))


class Peer:
    """Somebody who picks, and what is to be known of it."""

    def __init__(self, run: Callable[[Array], Array], package: str, computes: str) -> None:
        self.run, self.package, self.computes = run, package, computes


PEERS = {
    "dubito": Peer(by_dubito, "dubito", "the same, exactly, in float64"),
    "dense greedy, NumPy": Peer(by_numpy, "numpy", "the same, in float32; n × n"),
    "dense greedy, PyTorch": Peer(by_torch, "torch", "the same, in float32; n × n"),
    "apricot, dense": Peer(by_apricot, "apricot-select", "the same; n × n in float64"),
    "apricot, nearest neighbors": Peer(
        by_sparse_apricot, "apricot-select", f"kernels other than those of {NEIGHBORS} nearest neighbors count as 0"
    ),
    "submodlib, dense": Peer(by_submodlib, "submodlib-py", "the same, in float32; n × n"),
    "submodlib, nearest neighbors": Peer(
        by_sparse_submodlib, "submodlib-py", f"kernels other than those of {NEIGHBORS} nearest neighbors count as 0"
    ),
    "MaxHerding": Peer(by_max_herding, "scikit-activeml", "a Gaussian kernel; n × n in float64"),
}

GPU_PEERS = {
    "dubito": Peer(by_dubito_on_gpu, "dubito", "the same, exactly, in float64"),
    "dense greedy, PyTorch": Peer(by_torch_on_gpu, "torch", "the same, in float32; n × n"),
}


def work(name: str, n: int, gigabytes: float, cpu_seconds: int, *, on_gpu: bool) -> None:
    """One run, in this process. On a GPU its memory is the limit."""
    if not on_gpu:
        resource.setrlimit(resource.RLIMIT_AS, (int(gigabytes * 2**30),) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
    peer, pool = (GPU_PEERS if on_gpu else PEERS)[name], make_pool(n)
    try:
        peer.run(make_pool(5_000 if on_gpu else 300))  # Imports, and what is compiled on the first call.
        started, used = time.perf_counter(), time.process_time()
        picks = peer.run(pool)
        seconds, cpu = time.perf_counter() - started, time.process_time() - used
    except Exception as error:  # Peers fail in their own ways.
        print(json.dumps({"failed": f"{type(error).__name__}: {error}"[:200]}))
        return
    value = float(kernels(pool.astype(np.float64), pool[picks].astype(np.float64)).max(axis=1).sum())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    if on_gpu:
        peak = import_module("torch").cuda.max_memory_allocated() / 2**30
    try:
        used_version = version(peer.package)
    except PackageNotFoundError:
        used_version = "this checkout"
    print(json.dumps({"seconds": seconds, "cpu": cpu, "value": value, "gigabytes": peak, "version": used_version}))


def run(name: str, n: int, options: argparse.Namespace) -> dict[str, Any]:
    """One run, in a process of its own."""
    limits = [str(options.gigabytes), str(options.cpu), *(["--gpu"] if options.gpu else [])]
    command = [str(options.python), str(Path(__file__).resolve()), "--work", name, str(n), *limits]
    environment = os.environ | {"PYTHONPATH": str(HERE.parent / "src")}
    limit = GPU_SECONDS if options.gpu else None
    try:
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {limit} s"}
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    if lines:
        found: dict[str, Any] = json.loads(lines[-1])
        return found
    return {"failed": f"more than {options.cpu} s of CPU time" if ran.returncode == -24 else ran.stderr[-200:]}


def main() -> None:
    """Every peer in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, default=sys.executable, help="an interpreter that has the peers")
    parser.add_argument("--cpu", type=int, default=60, help="seconds of CPU time for a run")
    parser.add_argument("--gigabytes", type=float, default=8.0, help="of address space for a run")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="rows of the largest pool")
    parser.add_argument("--gpu", action="store_true", help="dubito and PyTorch on a GPU, up to its memory")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the results")
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        name, n, gigabytes, cpu = options.work
        work(name, int(n), float(gigabytes), int(cpu), on_gpu=options.gpu)
        return
    path = options.out / "coverage-peers.json"
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    here: dict[str, Any] = {"machine": machine.describe(), "features": FEATURES, "budget": BUDGET, "radius": RADIUS}
    if options.gpu:
        here["gpu"] = import_module("torch").cuda.get_device_name()
        record["gpu"] = here
    else:
        kept = {"gpu": record["gpu"]} if "gpu" in record else {}
        record = here = here | {"cpu": options.cpu, "gigabytes": options.gigabytes} | kept
    here["runs"] = []
    for name in GPU_PEERS if options.gpu else PEERS:
        for n in GPU_SIZES if options.gpu else SIZES:
            if not options.gpu and n > options.most:
                break
            found = {"name": name, "rows": n, **run(name, n, options)}
            here["runs"].append(found)
            print(found, flush=True)
            path.write_text(json.dumps(record, indent=1) + "\n")
            if "runs" in record:
                (options.out / "coverage-peers.md").write_text(page(record))
            if "failed" in found:
                break


def page(record: dict[str, Any]) -> str:
    """For each peer its largest pool, beside dubito on the same."""
    where = record["machine"]
    lines = [
        "# Coverage beside others",
        "",
        "Made by `benchmarks/coverage_peers.py`; every run is in `coverage-peers.json`.",
        "",
        f"{record['budget']} picks from pools of {record['features']} features in 30 Gaussian clusters, without labels "
        f"or doubt, on the CPU. Of each its largest pool within {record['gigabytes']:g} GB of address space and "
        f"{record['cpu']} s of CPU time. *Value*: what the picks cover, over what dubito's do. CPU time of all threads "
        f"({', '.join(f'{key}={value}' for key, value in where['threads'].items()) or 'as each chooses'}). "
        f"scikit-activeml 1.0.1 has no UncertaintyHerding. "
        f"{where['system']}, {where['cores']} cores, load {where['load_at_start']}; {where['date']}.",
        "",
        *table(PEERS, record["runs"], "cpu", "CPU"),
    ]
    if "gpu" in record:
        there = record["gpu"]
        lines += [
            "",
            "## On a GPU",
            "",
            f"The same pools on one {there['gpu']}: elapsed seconds, the copy of the pool to the GPU included, and "
            f"allocated memory of the GPU, {GPU_SECONDS} s for a process at most. "
            f"{there['machine']['system']}, {there['machine']['date']}.",
            "",
            *table(GPU_PEERS, there["runs"], "seconds", "elapsed"),
        ]
    return "\n".join(lines) + "\n"


def table(peers: dict[str, Peer], runs: list[dict[str, Any]], key: str, kind: str) -> list[str]:
    """A line a peer."""
    done = {(each["name"], each["rows"]): each for each in runs if "failed" not in each}
    failed = {each["name"]: each for each in runs if "failed" in each}
    lines = [
        f"| | computes | rows | {kind}, s | dubito, s | ratio | GB | value | on the next size |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, peer in peers.items():
        sizes = [n for each, n in done if each == name and ("dubito", n) in done]
        why = f"{failed[name]['rows']:,}: {failed[name]['failed']}".replace("|", "/") if name in failed else "–"
        if not sizes:
            lines.append(f"| {name} | {peer.computes} | – | – | – | – | – | – | {why} |")
            continue
        own, ours = done[name, max(sizes)], done["dubito", max(sizes)]
        cells = (
            *(f"{name} {own['version']}", peer.computes, f"{max(sizes):,}", f"{own[key]:.3g}", f"{ours[key]:.3g}"),
            *(f"{own[key] / ours[key]:.0f}×" if name != "dubito" else "", f"{own['gigabytes']:.1f}"),
            *(f"{own['value'] / ours['value']:.4f}", why),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main()
