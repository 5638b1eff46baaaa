"""The labeling page as a person meets it: an hour of labeling played by a script, and a pool of 100,000 items.

``python benchmarks/label_page.py hour`` labels 600 of 2,000 pictures of digits by keys, in a real Chromium before a
real `dubito label`, and adds up what the page made the person wait. ``large`` opens a pool of 100,000 texts. Both write
what they measured into ``--record``. It needs the extras ``label`` and ``page``, and Chromium.
"""

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from sklearn.datasets import load_digits

import dubito

TOKEN = "a-token-for-benchmarks-0123"
UNNOTICED = 0.1
"""Seconds within which an answer feels immediate; a wait is what comes on top."""
N_PICTURES, N_TEST, N_LABELS = 2000, 400, 600
WATCH = """() => {
  window.waits = [];
  let pressed = null;
  addEventListener('keydown', () => { pressed = performance.now(); }, true);
  const seen = () => {
    if (pressed === null || !document.querySelector('.caption .id')) return;
    const from = pressed;
    pressed = null;
    requestAnimationFrame(() => setTimeout(() => window.waits.push(performance.now() - from)));
  };
  new MutationObserver(seen).observe(document.querySelector('.caption'), { childList: true });
}"""


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """The address of a `dubito label`."""
    command = [sys.executable, "-m", "dubito", "label", *arguments]
    command += ["--port", "0", "--token", TOKEN, "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


@contextmanager
def opened(address: str) -> Iterator[Page]:
    """A page in Chromium, signed in and not yet at the project."""
    with sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        flags = ["--no-sandbox", "--enable-unsafe-swiftshader"]
        browser = playwright.chromium.launch(executable_path=found, args=flags)
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        context.set_default_timeout(600_000)
        context.add_init_script("localStorage.setItem('dubito.annotator', 'person')")
        page = context.new_page()
        context.request.get(f"{address}?token={TOKEN}")
        yield page
        browser.close()


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pool and test: 400 digits are held out; some of the others come twice, once moved by a pixel."""
    features, classes = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(features))
    test, rest = order[:N_TEST], order[N_TEST:]
    again = rest[: N_PICTURES - len(rest)]
    moved = np.roll(features[again].reshape(-1, 8, 8), 1, axis=2).reshape(-1, 64)
    pool = np.vstack([features[rest], moved])
    return pool, np.concatenate([classes[rest], classes[again]]), features[test], classes[test]


def write_pictures(folder: Path, pool: np.ndarray) -> None:
    folder.mkdir()
    for number, digit in enumerate(pool):
        pixels = (255 - digit.reshape(8, 8) * 15.9).astype(np.uint8)
        Image.fromarray(pixels).resize((64, 64), Image.Resampling.BICUBIC).save(folder / f"{number:04d}.png")


def accuracy(pool: np.ndarray, test: np.ndarray, truth: np.ndarray, labels: dict[int, str]) -> float:
    """Of dubito's own model on digits that nobody was asked about."""
    fitted = dubito.fit(np.vstack([pool, test]), labels)
    return float(np.mean(fitted.predicted[len(pool) :].astype(str) == truth.astype(str)))


def shown(page: Page) -> int:
    text = page.wait_for_selector(".work:not(.is-coming) .caption .id").text_content() or ""
    found = re.search(r"(\d{4})\.png", text)
    assert found, text
    return int(found[1])


def label_one(page: Page, classes: np.ndarray, thinking: float) -> None:
    before = shown(page)
    time.sleep(thinking)
    page.keyboard.press(str(classes[before]))
    changed = (
        "name => { const id = document.querySelector('.caption .id'); return id && !id.textContent.includes(name) }"
    )
    page.wait_for_function(changed, arg=f"{before:04d}.png", polling="raf")


def play_hour(thinking: float, n_labels: int) -> dict[str, Any]:
    """Label by label; a person who thinks for less time than people do leaves the page less time to get ready."""
    pool, classes, test, truth = digits()
    with tempfile.TemporaryDirectory() as folder:
        write_pictures(Path(folder) / "pictures", pool)
        names = ",".join("0123456789")
        with served(str(Path(folder) / "pictures"), "--classes", names) as address, opened(address) as page:
            page.goto(address)
            shown(page)
            page.evaluate(WATCH)
            begun, after_minute = time.perf_counter(), None
            for number in range(n_labels):
                label_one(page, classes, thinking)
                if after_minute is None and time.perf_counter() - begun > 60:
                    after_minute = number + 1
            seconds = time.perf_counter() - begun
            page.wait_for_timeout(500)
            waits = [each / 1000 for each in page.evaluate("() => window.waits")]
            project = page.evaluate("async () => await (await fetch('/api/project')).json()")
            rows = page.evaluate("async () => await (await fetch('/api/export?format=jsonl')).text()")
    labels = labels_of(rows)
    rng = np.random.default_rng(1)
    random = [
        accuracy(pool, test, truth, {int(row): str(classes[row]) for row in rng.permutation(len(pool))[: len(labels)]})
        for _ in range(5)
    ]
    late = waits[after_minute or 0 :]
    return {
        "labels": len(labels),
        "labels_wrong": sum(str(classes[row]) != label for row, label in labels.items()),
        "pictures": len(pool),
        "rounds": project["round"],
        "seconds_thinking_a_label": thinking,
        "seconds_in_all": round(seconds, 1),
        "key_to_next_item_ms": {
            "median": round(1000 * statistics.median(waits), 1),
            "p99": round(1000 * float(np.quantile(waits, 0.99)), 1),
            "longest": round(1000 * max(waits), 1),
        },
        "after_the_first_minute": {
            "labels": len(late),
            "seconds_from_key_to_next_item_in_all": round(sum(late), 2),
            "seconds_waited_beyond_100_ms_in_all": round(sum(max(0.0, each - UNNOTICED) for each in late), 3),
            "longest_ms": round(1000 * max(late, default=0.0), 1),
        },
        "accuracy_on_400_held_out": accuracy(pool, test, truth, labels),
        "accuracy_of_as_many_random_labels": {
            "mean": round(statistics.mean(random), 4),
            "sd": round(statistics.stdev(random), 4),
            "each": random,
        },
    }


def labels_of(lines: str) -> dict[int, str]:
    found = {}
    for line in lines.splitlines():
        row = json.loads(line)
        if row.get("label") is not None:
            found[int(Path(row["id"]).stem)] = str(row["label"])
    return found


def write_texts(path: Path, n: int) -> None:
    words = np.array(
        ["parcel", "late", "refund", "card", "wrong", "lost", "cash", "bank", "where", "why", "open", "box"]
    )
    rng = np.random.default_rng(0)
    picked = words[rng.integers(len(words), size=(n, 12))]
    lines = [f"t{number:06d},{' '.join(row)} {number}" for number, row in enumerate(picked)]
    path.write_text("id,text\n" + "\n".join(lines) + "\n", encoding="utf-8")


def open_large(n: int) -> dict[str, Any]:
    """Seconds of a page that opens, of items that follow each other, and of the map."""
    with tempfile.TemporaryDirectory() as folder:
        write_texts(Path(folder) / "texts.csv", n)
        begun = time.perf_counter()
        with served(str(Path(folder) / "texts.csv"), "--classes", "yes,no,maybe") as address:
            started = time.perf_counter() - begun
            with opened(address) as page:
                page.goto(address)
                page.wait_for_selector(".caption .id")
                usable = [time_to_item(page, address) for _ in range(5)]
                maps = [time_to_map(page, address) for _ in range(3)]
                kind = page.evaluate("() => document.querySelector('.surface').dataset.drawn")
                time_to_item(page, f"{address}#label")
                following = follow(page, 60)
    return {
        "items": n,
        "seconds_from_command_to_address": round(started, 1),
        "seconds_to_usable": {"median": round(statistics.median(usable), 3), "longest": round(max(usable), 3)},
        "key_to_next_item_ms": {
            "median": round(1000 * statistics.median(following), 1),
            "longest": round(1000 * max(following), 1),
        },
        "seconds_to_map": {
            "median": round(statistics.median(maps), 3),
            "longest": round(max(maps), 3),
            "drawn_by": kind,
        },
    }


def time_to_item(page: Page, address: str) -> float:
    begun = time.perf_counter()
    page.goto(address)
    page.wait_for_selector(".caption .id")
    return time.perf_counter() - begun


def follow(page: Page, many: int) -> list[float]:
    page.evaluate(WATCH)
    for number in range(many):
        before = page.wait_for_selector(".work:not(.is-coming) .caption .id").text_content()
        page.keyboard.press("123"[number % 3])
        page.wait_for_function("before => document.querySelector('.caption .id')?.textContent !== before", arg=before)
        page.wait_for_timeout(100)
    return [each / 1000 for each in page.evaluate("() => window.waits")]


def time_to_map(page: Page, address: str) -> float:
    """From the key to the points on the screen, the answer and its decoding included."""
    page.goto(f"{address}#label")
    page.reload()
    page.wait_for_selector(".caption .id")
    while page.evaluate("async () => (await (await fetch('/api/map')).json()).n ?? 0") == 0:
        page.wait_for_timeout(1000)
    begun = time.perf_counter()
    page.keyboard.press("m")
    page.wait_for_selector(".surface[data-drawn=webgl2], .surface[data-drawn='2d']")
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["hour", "large"])
    parser.add_argument("--thinking", type=float, default=1.0, help="seconds that the person looks at a picture")
    parser.add_argument("--labels", type=int, default=N_LABELS)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--record", type=Path, help="a JSON file; other measurements in it are kept")
    given = parser.parse_args()
    found = play_hour(given.thinking, given.labels) if given.what == "hour" else open_large(given.items)
    found["machine"] = {"cores": os.cpu_count(), "system": platform.platform(), "load": os.getloadavg()[0]}
    print(json.dumps(found, indent=2))
    if given.record:
        kept = json.loads(given.record.read_text(encoding="utf-8")) if given.record.exists() else {}
        given.record.write_text(json.dumps({**kept, given.what: found}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
