"""A person's hour, played: labels on pictures of digits, and what as many at random would have given."""

import secrets
import time
from pathlib import Path
from typing import Any

import numpy as np

from dubito.labeling.creation import open_project
from dubito.labeling.project import Settings
from dubito.matrix import IntArray
from dubito.models.fit import fit
from endurance.servers import Client, Server, serving

TEST = 400
"""Pictures that nobody labels, by which models are judged."""


def write_pictures(folder: Path, n_pictures: int, seed: int) -> tuple[list[str], IntArray]:
    """Pictures of real digits by their names, and what each shows; beyond those there are, some moved by a pixel."""
    from PIL import Image
    from sklearn.datasets import load_digits

    digits, classes = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(digits))
    more = rng.choice(len(digits), max(0, n_pictures - len(digits)), replace=False)
    chosen = np.concatenate([order, more])[:n_pictures]
    folder.mkdir(parents=True)
    names = []
    for number, row in enumerate(chosen.tolist()):
        picture = digits[row].reshape(8, 8)
        picture = picture if number < len(digits) else np.roll(picture, rng.choice([-1, 1]), axis=rng.integers(2))
        names.append(f"{number:05d}.png")
        Image.fromarray((255 - picture * 15.9).astype(np.uint8)).save(folder / names[-1])
    return names, classes[chosen].astype(np.int64)


def play(folder: Path, n_pictures: int, n_labels: int, seconds: float, seed: int = 0) -> dict[str, Any]:
    """So many labels, one every so many seconds, through the API as the page does it."""
    names, truth = write_pictures(folder / "digits", n_pictures, seed)
    settings = Settings(batch=20, audit=0.05)
    project, contents = open_project(str(folder / "digits"), classes=[str(d) for d in range(10)], settings=settings)
    shown = {name: int(digit) for name, digit in zip(names, truth.tolist(), strict=True)}
    test = np.random.default_rng(seed + 1).choice(n_pictures, TEST, replace=False)
    with serving(Path(project.folder)) as server:
        asked, waits, first = _label(server, shown, set(test.tolist()), n_labels, seconds)
        with Client(server) as client:
            rounds = client.ask("GET", "/api/project")[1]["round"]
            curve = client.ask("GET", "/api/curve")[1]
    rest = np.setdiff1d(np.arange(n_pictures), test)
    by_row = np.array([shown[name] for name in contents.ids])
    embedding = _features(project.pool_path)
    chance = [
        _accuracy(embedding, by_row, np.random.default_rng([seed, draw]).choice(rest, n_labels, replace=False), test)
        for draw in range(10)
    ]
    return {
        "pictures": n_pictures,
        "labels": len(asked),
        "seconds_a_label": seconds,
        "rounds": rounds,
        "accuracy": round(_accuracy(embedding, by_row, np.array(asked), test), 4),
        "random": {"mean": round(float(np.mean(chance)), 4), "draws": [round(each, 4) for each in chance]},
        "tested_on": TEST,
        "first_item_s": round(first, 2),
        "wait_s": {"all": round(sum(waits), 3), "after_a_minute": round(sum(waits[int(60 / max(seconds, 0.1)) :]), 3)},
        "longest_wait_ms": round(1000 * max(waits), 1),
        "said": {"audited": curve["audited"], "last_point": curve["points"][-1], "advice": curve["advice"]},
    }


def _label(
    server: Server, shown: dict[str, int], kept_out: set[int], n_labels: int, seconds: float
) -> tuple[list[int], list[float], float]:
    """The rows that were labeled, how long the next item took each time, and the first.

    As the page does: eight items are fetched ahead, so that a wait is the commit of a label, and an empty hand.
    """
    asked: list[int] = []
    waits: list[float] = []
    with Client(server) as client:
        client.ask("POST", "/api/restrict", {"mode": "exclude", "rows": sorted(kept_out)})
        begun = time.perf_counter()
        hand = _fetch(client)
        first = time.perf_counter() - begun
        while len(asked) < n_labels:
            time.sleep(seconds)
            item = hand.pop(0)
            begun = time.perf_counter()
            label = {"key": secrets.token_hex(8), "annotator": "ann", "row": item["row"], "guess_seen": False}
            status, answer = client.ask("POST", "/api/labels", {**label, "class": str(shown[item["id"]])})
            assert status == 201, answer
            if not hand:
                hand = _fetch(client)
            waits.append(time.perf_counter() - begun)
            asked.append(item["row"])
    return asked, waits, first


def _fetch(client: Client) -> list[dict[str, Any]]:
    while True:
        _, found = client.ask("GET", "/api/next", annotator="ann", count=8)
        if found["items"]:
            return list(found["items"])
        time.sleep(0.01)


def _features(path: str) -> Any:
    from dubito.io import read_pool
    from dubito.io.source import as_one_array

    return as_one_array(read_pool(path).features)


def _accuracy(features: Any, truth: IntArray, rows: IntArray, test: IntArray) -> float:
    """Of dubito's own model of these labels, on rows that nobody labels."""
    found = fit(features, truth[rows].astype(str), labeled=rows)
    return float((found.predicted[test] == truth[test].astype(found.predicted.dtype)).mean())
