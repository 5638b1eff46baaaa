"""Coverage by groups against plain coverage of the same rows: CPU seconds and elapsed seconds, in turn.

``python benchmarks/bench_groups.py [--rows 100000] [--groups 10000] [--features 512] [--picks 500] [--repeats 3]
[--engine cpu] [--strategy doubt-coverage] [--output FILE]``. Crops of an image lie near each other and near those of
other images with the same objects. Another engine must pick the groups of ``cpu``; with ``cuda`` the features are on
the GPU, and the elapsed seconds count.
"""

import argparse
import json
import os
import time
from collections.abc import Callable

import numpy as np

import dubito

CLASSES, RANK = 200, 32


def crops(n: int, n_groups: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, groups and doubt: objects of some classes, in images that change how all of them look."""
    rng = np.random.default_rng(0)
    groups = np.sort(np.concatenate([np.arange(n_groups), rng.integers(n_groups, size=n - n_groups)]))
    centers, directions = rng.standard_normal((CLASSES, d)), rng.standard_normal((RANK, d))
    features = centers[rng.integers(CLASSES, size=n)] + 0.3 * rng.standard_normal((n_groups, d))[groups]
    features += 0.5 * rng.standard_normal((n, RANK)) @ directions / np.sqrt(RANK) * np.sqrt(d) / 8
    features += 0.3 * rng.standard_normal((n, d))
    return features.astype(np.float32), groups, rng.random(n)


def timed(run: Callable[[], dubito.Selection]) -> tuple[dubito.Selection, float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    found = run()
    return found, time.process_time() - cpu, time.perf_counter() - wall


def check(ours: dubito.Selection, theirs: dubito.Selection) -> None:
    assert ours.indices.tolist() == theirs.indices.tolist()
    assert ours.priorities.tolist() == theirs.priorities.tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, number in (("rows", 100_000), ("groups", 10_000), ("features", 512), ("picks", 500), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--engine", default="cpu")
    parser.add_argument("--strategy", default="doubt-coverage")
    parser.add_argument("--output")
    asked = parser.parse_args()
    features, groups, doubt = crops(asked.rows, asked.groups, asked.features)
    small, settings = slice(0, 400), {"strategy": asked.strategy, "engine": asked.engine}
    few = {"groups": groups[small], "doubt": doubt[small]}
    check(
        *(
            dubito.select(features[small], 20, **few, **settings | {"engine": each})
            for each in (asked.engine, "reference")
        )
    )
    pool = features
    if asked.engine == "cuda":
        import torch

        pool = torch.from_numpy(features).cuda()
    if asked.engine != "cpu":
        ours = dubito.select(pool, asked.picks, doubt=doubt, groups=groups, **settings)
        check(ours, dubito.select(features, asked.picks, doubt=doubt, groups=groups, **settings | {"engine": "cpu"}))
        dubito.select(pool, asked.picks, doubt=doubt, **settings)
    seconds: dict[str, list[float]] = {"rows": [], "groups": [], "rows elapsed": [], "groups elapsed": []}
    for _ in range(asked.repeats):
        for name, given in (("rows", None), ("groups", groups)):
            found, cpu, wall = timed(
                lambda given=given: dubito.select(pool, asked.picks, doubt=doubt, groups=given, **settings)
            )
            seconds[name].append(round(cpu, 4))
            seconds[f"{name} elapsed"].append(round(wall, 4))
            print(f"{name}: {cpu:.3g} s CPU, {wall:.3g} s elapsed, {len(found)} rows picked")
    ratios = {
        f"ratio of {kind} seconds": round(
            float(np.median(np.divide(seconds[f"groups{end}"], seconds[f"rows{end}"]))), 3
        )
        for kind, end in (("CPU", ""), ("elapsed", " elapsed"))
    }
    record = {**vars(asked), "cores": os.cpu_count(), "seconds": seconds, **ratios}
    record.pop("output")
    print(json.dumps(record))
    if asked.output:
        with open(asked.output, "w") as file:
            file.write(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
