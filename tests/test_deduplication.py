"""Near-copies are dropped, and every one of them is near a row that is kept."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

import dubito
from dubito.cli import main
from dubito.core.problem import Metric
from dubito.deduplication import deduplicate, distances_to_nearest
from dubito.io import read_pool
from dubito.matrix import FloatArray

POINTS = arrays.arrays(np.float64, st.tuples(st.integers(1, 30), st.integers(1, 3)), elements=st.integers(-4, 4))


@given(POINTS, st.sampled_from([0.0, 1.0, 1.5, 3.0, 100.0]))
def test_every_row_is_near_a_kept_one_and_the_kept_ones_are_far_apart(points: FloatArray, within: float) -> None:
    found = deduplicate(points, within)
    distances = np.sqrt(((points[:, None] - points[found.kept]) ** 2).sum(axis=2))
    assert (distances.min(axis=1) <= within).all()
    between = distances[found.kept] + np.where(np.eye(len(found.kept)), np.inf, 0.0)
    assert (between > within).all()
    assert sorted([*found.kept.tolist(), *found.dropped.tolist()]) == list(range(len(points)))
    paired = np.sqrt(((points[found.dropped] - points[found.nearest]) ** 2).sum(axis=1))
    np.testing.assert_array_equal(found.distances, paired)
    kept: list[int] = []
    for row, point in enumerate(points):
        if not kept or (np.sqrt(((points[kept] - point) ** 2).sum(axis=1)) > within).all():
            kept.append(row)
    assert found.kept.tolist() == kept


@pytest.mark.parametrize(("d", "metric"), [(3, "euclidean"), (40, "euclidean"), (40, "cosine")])
def test_near_copies_are_found_beyond_the_axes_far_from_the_origin_and_by_direction(d: int, metric: Metric) -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(600, d)) + (1e4 if metric == "euclidean" else 0.0)
    copies = points[:200] + rng.normal(size=(200, d)) * 1e-3
    within = 2e-3 * np.sqrt(d)
    found = deduplicate(np.concatenate([points, copies]), within, metric=metric)
    assert found.kept.tolist() == list(range(600))
    assert found.nearest.tolist() == list(range(200))
    assert found.distances.max() <= within


@given(POINTS)
def test_distances_to_the_nearest_other_row_are_those_of_all_pairs(points: FloatArray) -> None:
    distances = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2)) + np.where(np.eye(len(points)), np.inf, 0.0)
    np.testing.assert_allclose(distances_to_nearest(points), np.sort(distances.min(axis=1)))


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """Ten pictures, an exact copy of the first and a near-copy of the second."""
    folder = tmp_path / "photos"
    folder.mkdir()
    pictures = np.random.default_rng(0).integers(0, 200, (10, 6, 6), dtype=np.uint8)
    for number, pixels in enumerate([*pictures, pictures[0], pictures[1] + 1]):
        Image.fromarray(pixels).save(folder / f"{number:02d}.png")
    path = tmp_path / "pool.parquet"
    dubito.embed(folder, out=path, processes=1)
    return path


def test_the_share_next_to_a_printed_distance_is_the_most_that_it_drops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "pool.npy", [[0.0, 0.0], [1.0, 1.0], [9.0, 9.0], [10.0, 10.0]])
    assert main(["dedupe", str(tmp_path / "pool.npy")]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[1:] == ["       0    0.0%", "   1.415  100.0%"]
    assert main(["dedupe", str(tmp_path / "pool.npy"), "--within", "1.415", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dropped"] == 2


def test_the_command_writes_the_kept_rows_as_a_pool_and_lists_the_dropped_ones(
    pool: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, dropped = tmp_path / "kept.parquet", tmp_path / "dropped.csv"
    words = ["dedupe", str(pool), "--within", "0.1", "-o", str(kept), "--dropped", str(dropped)]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "kept        10 of 12 rows" in printed
    assert "(in float64)" in printed
    with open(dropped, newline="") as file:
        pairs = {frozenset([each["id"], each["kept"]]) for each in csv.DictReader(file)}
    assert pairs == {frozenset(["00.png", "10.png"]), frozenset(["01.png", "11.png"])}
    found = read_pool(str(kept))
    assert found.ids is not None
    assert len(found.ids) == 10
    assert found.source.embedder == read_pool(str(pool)).source.embedder
    assert main(words) == 2
    assert main(["dedupe", str(pool), "--within", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dropped"] == 1
    assert main(["dedupe", str(pool)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["0", "16.7%"]
    assert lines[-1].split()[1] == "100.0%"
