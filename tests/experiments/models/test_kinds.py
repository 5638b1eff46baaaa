"""A new kind of model and a new data set are one file each, and one line each."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from dubito.cli import main
from dubito.experiments import data as builtin
from dubito.experiments.data import Dataset, make_dataset
from dubito.experiments.models import kinds
from dubito.experiments.models.base import Fitted, Model, ModelDefaults, TrainingSet
from dubito.experiments.models.linear import Linear
from dubito.experiments.runner import read_folder, read_headers, read_rounds


@dataclass(frozen=True, slots=True)
class Stubborn(ModelDefaults):
    """A regression that hears only some of the labels."""

    n_used: int = 10
    kind: ClassVar[str] = "stubborn"

    def fit(self, train_set: TrainingSet) -> Fitted:
        """O(n_used)."""
        first = np.arange(min(self.n_used, len(train_set.labels)))
        part = TrainingSet(
            train_set.features[first], train_set.labels[first], train_set.n_classes, train_set.seed, train_set.turn, {}
        )
        return Linear().fit(part)


def two_towns(seed: int) -> Dataset:
    """Two clouds, drawn anew for each seed."""
    labels = np.arange(80) % 2
    return make_dataset("towns", np.random.default_rng(seed).normal(size=(80, 2)) + 4 * labels[:, None], labels)


EXPERIMENT = """
schema = 1
name = "towns"
seeds = 2
strategies = ["random", "doubt-coreset"]
[data]
builtin = "two-towns"
[model]
kind = "stubborn"
n_used = 8
[schedule]
initial = 10
budget = 4
rounds = 2
"""


def test_a_kind_and_a_data_set_of_one_line_each_are_run_reported_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(kinds.BUILT_IN, "stubborn", Stubborn)
    monkeypatch.setitem(builtin.BUILT_IN, "two-towns", two_towns)
    monkeypatch.chdir(tmp_path)
    Path("towns.toml").write_text(EXPERIMENT)
    assert main(["run", "towns.toml", "--workers", "1", "--quiet"]) == 0
    (folder,) = Path("dubito-runs").iterdir()
    assert read_folder(folder).model == Stubborn(n_used=8)
    rounds = read_rounds(folder)
    assert [each.labels for each in rounds] == [10, 14, 18] * 4
    assert np.mean([each.test_accuracy for each in rounds]) > 0.8
    journal = folder / "journal.jsonl"
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:4]))
    assert main(["resume", str(folder), "--workers", "1", "--quiet"]) == 0
    assert [each.picked for each in read_rounds(folder)] == [each.picked for each in rounds]
    assert [header["device"] for header in read_headers(folder)] == ["cpu", "cpu"]
    assert main(["report", str(folder)]) == 0
    assert "stubborn" in (folder / "report.html").read_text()
    assert "error" not in capsys.readouterr().err


def test_what_a_plain_model_inherits_meets_the_protocol() -> None:
    plain = Stubborn()
    assert isinstance(plain, Model)
    assert (plain.is_convex, plain.continues, plain.learns_features, plain.samples) == (False, False, False, 0)
    assert (plain.takes_images, plain.on_gpu, plain.runner, plain.packages) == (False, False, "one-by-one", ())
    assert plain.facts() == {"device": "cpu"}
    assert plain.refusal({"device": "cuda"}, plain.facts(), np.array([10])) is None
