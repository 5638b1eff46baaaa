"""A round in this process: what the worker does with a job."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dubito.labeling import rounds as quick
from dubito.labeling import worker
from dubito.labeling.layout import compute_layout
from dubito.labeling.project import LAYOUT, model_file
from dubito.labeling.rounds import Job, RoundRunner
from dubito.labeling.user_probabilities import save_probabilities
from dubito.matrix import IntArray
from dubito.models.held_out import Share
from labeling.projects import CLASSES, make_project, truth, write_rows

NONE = np.empty(0, dtype=np.int64)


def features(folder: Path, n_rows: int = 60) -> Any:
    return np.load(write_rows(folder, n_rows))["features"]


def job(items: IntArray, **given: Any) -> Job:
    usual = {"round": 1, "closed": NONE, "allowed": None, "budget": 10, "audit": 0.0, "strategy": "auto"}
    usual |= {"audited": NONE, "last_batch": None, "order": np.arange(len(items))}
    return Job(items=items, labels=[truth(row) for row in items.tolist()], **{**usual, **given})


def test_a_first_round_covers_and_a_later_one_has_a_model(tmp_path: Path) -> None:
    runner = RoundRunner(features(tmp_path), None)
    arrays, facts = runner.run(job(NONE))
    assert len(set(arrays["picks"].tolist())) == 10
    assert set(arrays["why"].tolist()) == {"first"}
    assert (facts["labels"], facts["n_tested"], facts["stop"]) == (0, None, False)
    assert arrays["covered"][0] == facts["covered"] == 0.0
    arrays, facts = runner.run(job(np.arange(12), round=2, last_batch=Share(3, 4), audited=np.arange(4)))
    assert not set(arrays["picks"].tolist()) & set(range(12))
    assert arrays["probabilities"].shape == (60, 2)
    assert (facts["n_right"], facts["n_tested"], facts["audited"]) == (12, 12, 4)
    assert facts["estimated"] is None, "too few were drawn at random"
    assert (np.diff(arrays["covered"]) >= 0.0).all()
    assert len(arrays["covered"]) == 11


def test_a_round_estimates_the_accuracy_from_its_audit_and_says_what_the_last_labels_changed(tmp_path: Path) -> None:
    runner = RoundRunner(features(tmp_path), None)
    runner.run(job(np.arange(12), round=2))
    _, facts = runner.run(job(np.arange(30), round=3, audited=np.arange(15, 30)))
    low, value, high = facts["estimated_low"], facts["estimated"], facts["estimated_high"]
    assert 0.0 < low < value <= high <= 1.0
    assert f"{value:.0%} ({low:.0%} to {high:.0%}) of the unlabeled are estimated right" in facts["advice"]
    assert "the last 18 labels changed 0 predictions" in facts["advice"]
    assert "0 of 30 are uncertain" in facts["advice"]


@pytest.mark.parametrize("n_rows", [1, 2])
def test_a_pool_of_one_or_two_may_be_labeled_wholly(tmp_path: Path, n_rows: int) -> None:
    runner = RoundRunner(features(tmp_path, n_rows), None)
    arrays, facts = runner.run(job(np.arange(n_rows), round=2))
    assert len(arrays["picks"]) == 0
    assert facts["labels"] == n_rows


def test_a_label_that_was_taken_back_may_be_asked_for_again(tmp_path: Path) -> None:
    runner = RoundRunner(features(tmp_path, 20), None)
    runner.run(job(np.arange(12)))
    arrays, _ = runner.run(job(np.arange(4), budget=16))
    assert set(arrays["picks"].tolist()) == set(range(4, 20))


def test_what_is_closed_or_not_among_the_only_ones_is_not_asked_for(tmp_path: Path) -> None:
    runner = RoundRunner(features(tmp_path), True)
    arrays, _ = runner.run(job(np.arange(4), closed=np.arange(4, 10), allowed=np.arange(20), budget=30, audit=0.4))
    assert sorted(arrays["picks"].tolist()) == list(range(10, 20))
    # By chance, and yet no audit of the whole pool.
    assert "random" in arrays["why"].tolist()
    assert "audit" not in arrays["why"].tolist()
    arrays, _ = runner.run(job(np.arange(4), closed=np.arange(4, 10), budget=30, audit=0.4))
    assert "audit" in arrays["why"].tolist()


def test_of_a_large_pool_a_sample_stands_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick, "LARGE_POOL", 100)
    monkeypatch.setattr("dubito.labeling.rounds.LARGE_POOL", 100)
    monkeypatch.setattr(quick, "COVER_SAMPLE", 50)
    runner = RoundRunner(features(tmp_path, 400), None)
    arrays, _ = runner.run(job(NONE))
    assert len(set(arrays["picks"].tolist())) == 10
    arrays, _ = runner.run(job(np.array([2, 4, 6]), round=2))
    assert not {2, 4, 6} & set(arrays["picks"].tolist())
    arrays, _ = runner.run(job(np.arange(30), round=3))
    assert not set(range(30)) & set(arrays["picks"].tolist())


def test_the_worker_answers_jobs_by_files_of_the_project(tmp_path: Path) -> None:
    project, contents = make_project(tmp_path)
    np.savez(tmp_path / "mine.npz", probabilities=np.full((60, 2), 0.5), classes=np.array(CLASSES))
    save_probabilities(project, contents, str(tmp_path / "mine.npz"))
    runner = worker.ProjectPool(project)
    asked = {"task": "round", "round": 3, "items": [5, 2, 9, 4], "labels": [truth(row) for row in (5, 2, 9, 4)]}
    asked |= {"closed": [], "only": None, "budget": 5, "audit": 0.0, "strategy": "auto", "audited": [], "own": True}
    asked["class_changes"] = []
    facts = worker._run_job(project, runner, {**asked, "last_batch": [1, 2]})
    assert json.loads(json.dumps(facts))["own"] is True
    assert (Path(project.folder) / model_file(3)).exists()
    assert worker._run_job(project, runner, {"task": "layout"}) == {"task": "layout"}
    assert (Path(project.folder) / LAYOUT).exists()


def test_a_map_shows_the_two_sides_apart(tmp_path: Path) -> None:
    places = compute_layout(features(tmp_path), neighbors=False)
    assert places.shape == (60, 2)
    left, right = places[::2, 0], places[1::2, 0]
    assert left.max() < right.min() or right.max() < left.min()
    assert compute_layout(np.zeros((3, 1))).tolist() == [[0.0, 0.0]] * 3


def test_one_odd_item_does_not_take_an_axis_of_the_map() -> None:
    points = np.random.default_rng(0).normal(size=(300, 6)) * [5.0, 3.0, 0.1, 0.1, 0.1, 0.1]
    points[7] = [0.0, 0.0, 0.0, 0.0, 0.0, 1e6]
    places = np.delete(compute_layout(points, neighbors=False), 7, axis=0)
    spread = np.sort(np.abs(places), axis=0)[int(0.95 * len(places))]
    assert spread[0] / spread[1] < 3.0
    assert places.std(axis=0) == pytest.approx(np.delete(points, 7, axis=0)[:, :2].std(axis=0), rel=0.05)


def test_a_table_is_standardized_for_the_map_and_embeddings_are_not() -> None:
    points = np.random.default_rng(0).normal(size=(300, 3)) * [1000.0, 1.0, 1.0]
    assert compute_layout(points, neighbors=False).std(axis=0)[0] == pytest.approx(1000.0, rel=0.1)
    assert compute_layout(points, standardize=True, neighbors=False).std(axis=0).max() < 2.0


def test_a_map_by_neighbors_keeps_groups_together_and_places_items_beyond_its_sample() -> None:
    pytest.importorskip("openTSNE", reason="pip install openTSNE")
    rng = np.random.default_rng(0)
    group = np.arange(2_300) % 6
    points = 8.0 * np.eye(6)[group] + rng.normal(size=(2_300, 6))
    places = compute_layout(points)
    centers = np.array([np.median(places[group == each], axis=0) for each in range(6)])
    nearest = np.square(places[:, None] - centers).sum(axis=2).argmin(axis=1)
    assert (nearest == group).mean() > 0.97
    assert np.array_equal(places, compute_layout(points))
