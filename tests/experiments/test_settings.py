"""Settings of experiments on images: where they are, how many take part, and a control that hears permuted doubt."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from dubito.errors import InvalidArgument, InvalidData, MemoryLimit, MissingFile
from dubito.experiments.data import make_dataset
from dubito.experiments.data_sources import DataSource
from dubito.experiments.journal import Run
from dubito.experiments.plan import (
    Arm,
    Data,
    Experiment,
    Schedule,
    arm_from_table,
    parse_strategy,
    permute_among,
    read_experiment,
)
from dubito.experiments.runner import run_experiment
from dubito.paper.vgg16 import Vgg16

PLAN = 'schema = 1\nname = "plan"\nstrategies = ["random"]\n[data]\n{}\n'


def written(folder: Path, data: str, rest: str = "") -> str:
    path = folder / "plan.toml"
    path.write_text(PLAN.format(data) + rest)
    return str(path)


def paint(folder: Path, size: tuple[int, int] = (6, 4)) -> Path:
    for name, color in (("pear", "green"), ("plum", "purple")):
        (folder / name).mkdir(parents=True)
        for number in range(3):
            Image.new("RGB", size, color).save(folder / name / f"{number}.png")
    return folder


def test_a_folder_of_pictures_is_found_from_where_the_file_lies(tmp_path: Path) -> None:
    paint(tmp_path / "fruit")
    plan = read_experiment(written(tmp_path, 'images = "fruit"'))
    assert plan.data.images == str(tmp_path / "fruit")
    data = DataSource(plan)(0)
    assert data.features.shape == (6, 4, 6, 3)
    assert data.features.dtype == np.uint8
    small = DataSource(read_experiment(written(tmp_path, 'images = "fruit"\nsize = [2, 3]')))(0)
    assert small.features.shape == (6, 2, 3, 3)


def test_pictures_that_are_not_there_are_named_by_the_key_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match=r"^images='.*brds' is neither a path nor a published collection"):
        DataSource(read_experiment(written(tmp_path, 'images = "brds"'))).shared()
    (tmp_path / "x.zip").touch()
    with pytest.raises(InvalidArgument, match=r"^images='.*x\.zip' is neither a folder nor"):
        DataSource(read_experiment(written(tmp_path, 'images = "x.zip"'))).shared()


def test_names_of_published_images_and_weights_are_no_paths(tmp_path: Path) -> None:
    model = '[model]\nkind = "vgg16"\nweights = "{}"\n'
    plan = read_experiment(written(tmp_path, 'images = "cifar10"', model.format("imagenet")))
    assert plan.data.images == "cifar10"
    assert isinstance(plan.model, Vgg16)
    assert plan.model.weights == "imagenet"
    own = read_experiment(written(tmp_path, 'images = "cifar10"', model.format("mine.safetensors")))
    assert isinstance(own.model, Vgg16)
    assert own.model.weights == str(tmp_path / "mine.safetensors")


def test_published_images_are_looked_for_in_the_folder_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUBITO_DATA", str(tmp_path))
    plan = read_experiment(written(tmp_path, 'images = "svhn"'))
    with pytest.raises(MissingFile, match=rf"svhn is missing: {tmp_path} holds no train_32x32.mat .*DUBITO_DATA"):
        DataSource(plan).shared()


def test_settings_that_are_left_out_do_not_change_what_an_experiment_is_called() -> None:
    assert Experiment("plan", (Arm("random"),), Data(builtin="digits"), Schedule()).hash8 == "55982c7c"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ('images = "cifar10"\npath = "a.npz"', "path and images are two sources of data"),
        ('images = "cifar10"\nrows = 1', "rows = 1 is too small"),
        ('images = "cifar10"\nrows = "all"', "rows"),
        ('images = "cifar10"\nstandardize = true', "models scale images themselves; leave it out"),
        ('images = "cifar10"\nsize = [8, 8]', r"size = \(8, 8\) is for pictures in a folder"),
        ('path = "a.npz"\nsize = [8, 8]', r"size = \(8, 8\) is for pictures in a folder"),
        ('images = "fruit"\ntest = "others"', "test = .* needs a path"),
        ("images = 3", "images = 3 is not allowed"),
        ('images = "cifar10"\ndownload = true', "has the key 'download', which is not known"),
    ],
)
def test_data_that_cannot_be_meant_is_refused(tmp_path: Path, data: str, words: str) -> None:
    with pytest.raises(InvalidData, match=words):
        read_experiment(written(tmp_path, data))


def test_a_size_of_one_number_is_refused_where_pictures_are_read(tmp_path: Path) -> None:
    paint(tmp_path / "fruit")
    with pytest.raises(InvalidArgument, match=r"size=\(8,\) is not a height and width"):
        DataSource(read_experiment(written(tmp_path, 'images = "fruit"\nsize = [8]'))).shared()


def test_pictures_that_would_not_fit_in_memory_are_refused_before_any_is_read(tmp_path: Path) -> None:
    for picture in paint(tmp_path / "fruit").glob("*/*.png"):
        picture.write_bytes(b"nothing that could be read")
    plan = written(tmp_path, 'images = "fruit"\nsize = [200_000_000, 200_000]')
    words = r"size=\(200000000, 200000\) makes 720,000 GB of 6 pictures, and this machine has [\d,]+ GB of memory; pass"
    with pytest.raises(MemoryLimit, match=words):
        DataSource(read_experiment(plan)).shared()
    with pytest.raises(MemoryLimit, match=r"6 pictures"):
        run_experiment(read_experiment(plan), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_rows_of_a_table_are_counted_as_pictures(tmp_path: Path) -> None:
    table = pa.table({"image": [b"no picture"] * 3, "label": ["pear", "plum", "pear"]})
    pq.write_table(table, tmp_path / "fruit.parquet")
    plan = written(tmp_path, 'images = "fruit.parquet"\nsize = [200_000_000, 200_000]')
    with pytest.raises(MemoryLimit, match=r"makes 360,000 GB of 3 pictures"):
        DataSource(read_experiment(plan)).shared()


# The control.


def test_a_control_goes_by_its_name() -> None:
    arm = Arm("doubt-coreset", {"strength": 0.5}, permuted=True)
    assert arm.name == "doubt-coreset:strength=0.5,permuted=true"
    assert parse_strategy(arm.name) == arm
    assert arm_from_table(arm.as_dict()) == arm
    assert Arm("doubt-coreset", permuted=True).name == "doubt-coreset:permuted=true"
    assert Arm("doubt-coreset").as_dict() == {"strategy": "doubt-coreset"}
    with pytest.raises(InvalidArgument, match=r"permuted=3 of strategy random is neither true nor false"):
        parse_strategy("random:permuted=3")


def test_probabilities_are_permuted_among_the_candidates_alone() -> None:
    probabilities, rows = np.random.default_rng(0).dirichlet(np.ones(3), 200), np.arange(20, 200)
    before = probabilities.copy()
    permuted = permute_among(rows, probabilities, seed=1)
    np.testing.assert_array_equal(probabilities, before)
    np.testing.assert_array_equal(permuted[:20], probabilities[:20])
    np.testing.assert_array_equal(np.sort(permuted[20:, 0]), np.sort(probabilities[20:, 0]))
    assert (permuted[20:] == probabilities[20:]).all(axis=1).mean() < 0.1
    np.testing.assert_array_equal(permuted, permute_among(rows, probabilities, seed=1))
    assert not np.array_equal(permuted, permute_among(rows, probabilities, seed=2))


def test_a_control_of_a_strategy_that_hears_nothing_is_that_strategy(tmp_path: Path) -> None:
    """Permuting changes what is heard and nothing else: not the labels, the weights or the picks of a deaf strategy."""
    labels = np.arange(120) % 3
    data = make_dataset("three", np.random.default_rng(0).normal(size=(120, 2)) + labels[:, None], labels)
    arms = tuple(Arm(name, permuted=permuted) for name in ("random", "least-confidence") for permuted in (False, True))
    plan = Experiment("plan", arms, Data(), Schedule(initial=9, budget=5, rounds=2), seeds=(0,))
    rounds = run_experiment(plan, tmp_path, dataset=data)
    picked = {arm.name: [each.picked for each in rounds if each.strategy == arm.name] for arm in arms}
    assert picked["random"] == picked["random:permuted=true"]
    assert picked["least-confidence"][0] != picked["least-confidence:permuted=true"][0]
    assert len({Run(arm, 0).file_name for arm in arms}) == 4
