"""``--data-dir`` and ``--download``: published images found, brought and missed, on small files of the same formats."""

import hashlib
import io
import os
import pty
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from dubito.cli.commands.report import known_classes
from dubito.cli.commands.run import download_bar, experiment_names
from dubito.experiments import images as loading
from dubito.experiments.plan import Data
from dubito.paper.downloads import PublishedFile
from dubito.paper.images import CIFAR10, read_cifar

from .conftest import Program, read_terminal

PLAN = """
schema = 1
name = "tiny"
seeds = 1
strategies = ["random", "doubt-coreset"]

[data]
images = "cifar10"
rows = 40

[model]
kind = "torch"
factory = "tiny_network.make"
head = "head"
epochs = 2
later_epochs = 1
device = "cpu"

[schedule]
initial = 10
budget = 5
rounds = 2
"""
NETWORK = """
import torch

def make(n_classes):
    network = torch.nn.Sequential()
    network.add_module("pool", torch.nn.AvgPool2d(8))
    network.add_module("flat", torch.nn.Flatten())
    network.add_module("head", torch.nn.Linear(48, n_classes))
    return network
"""
LIGHT = """
import numpy as np


class Shares:
    def fit(self, features, labels):
        self.classes_, counts = np.unique(labels, return_counts=True)
        self.shares = counts / counts.sum()
        return self

    def predict_proba(self, features):
        return np.tile(self.shares, (len(features), 1))
"""
"""A model that costs a worker nothing to import."""
LIGHT_PLAN = (
    PLAN.partition("[model]")[0]
    + '[model]\nkind = "sklearn"\nestimator = "light_model.Shares"\n\n'
    + PLAN[PLAN.index("[schedule]") :]
)


def batch(seed: int) -> bytes:
    """Twelve records of CIFAR-10, each class lighter than the one before."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(12) % 10
    pixels = rng.integers(0, 30, (12, 3072)) + 20 * labels[:, None]
    return np.concatenate([labels[:, None], pixels], axis=1).astype(np.uint8).tobytes()


def archive(path: Path) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for seed, name in enumerate((*CIFAR10.train, CIFAR10.test)):
            member = tarfile.TarInfo(f"{CIFAR10.folder}/{name}")
            member.size = len(batch(seed))
            tar.addfile(member, io.BytesIO(batch(seed)))
    return path


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An experiment and its network, in the working directory and in Python's path, of workers too."""
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "tiny_network.py").write_text(NETWORK)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("DUBITO_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    sys.modules.pop("tiny_network", None)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_images_of_a_folder_are_run_on_by_every_worker(run: Program, tmp_path: Path, workers: str) -> None:
    (tmp_path / "copies").mkdir()
    archive(tmp_path / "copies" / CIFAR10.archive.name)
    if workers == "2":
        (tmp_path / "light_model.py").write_text(LIGHT)
        (tmp_path / "plan.toml").write_text(LIGHT_PLAN)
    ran = run("run", "plan.toml", "--data-dir", "copies", "--workers", workers)
    assert ran.code == 0, ran.err
    assert "trained 6 models" in ran.err
    assert os.environ["DUBITO_DATA"] == str(tmp_path / "nothing")
    assert run("run", "plan.toml", "--workers", "1").code == 0, "what is done needs no data"


def test_a_run_that_was_stopped_goes_on_from_another_copy(run: Program, tmp_path: Path) -> None:
    (tmp_path / "copies").mkdir()
    archive(tmp_path / "copies" / CIFAR10.archive.name)
    whole = run("run", "plan.toml", "--data-dir", "copies", "--workers", "1", "--json")
    journal = next((tmp_path / "dubito-runs").glob("*/journal.jsonl"))
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:4]))
    assert "cifar10 is missing" in run("resume", "--workers", "1", "-q").complaint
    (tmp_path / "copies").rename(tmp_path / "moved")
    assert run("resume", "--data-dir", "moved", "--workers", "1", "--json").out == whole.out


def test_missing_images_are_reported_with_where_was_looked_and_both_hint(run: Program, tmp_path: Path) -> None:
    described = run("run", "plan.toml", "-q").complaint
    assert described.startswith(
        f"plan.toml: cifar10 is missing: {tmp_path / 'nothing'} holds neither cifar-10-binary.tar.gz"
    )
    assert described.endswith("170 MB); pass --data-dir with a folder that does, or --download.")
    gone = run("run", "plan.toml", "--data-dir", "gone", "-q").complaint
    assert gone == "--data-dir gone does not exist; check the path."
    assert not (tmp_path / "dubito-runs").exists()


def test_missing_images_and_weights_are_reported_together_before_anything_is_made(run: Program, tmp_path: Path) -> None:
    described = run("run", "cifar10-main", "-q").complaint
    assert described.startswith("cifar10-main: cifar10 is missing: ")
    assert "Also, the weights of VGG16 are missing: " in described
    assert "553 MB" in described
    assert not (tmp_path / "dubito-runs").exists()


def test_a_name_that_is_neither_a_file_nor_shipped_is_offered_the_nearest(run: Program) -> None:
    assert "did you mean 'cifar10-main'?" in run("run", "cifar10-mian", "-q").complaint


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Keep the tests' output clean."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """CIFAR-10's archive, a small one, at an address on this machine."""
    (tmp_path / "site").mkdir()
    content = archive(tmp_path / "site" / CIFAR10.archive.name).read_bytes()
    digits = hashlib.md5(content, usedforsecurity=False).hexdigest()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "site")) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}/{CIFAR10.archive.name}"
        small = PublishedFile(CIFAR10.archive.name, address, f"md5:{digits}", len(content))
        monkeypatch.setitem(loading.BUILT_IN, "cifar10", partial(read_cifar, replace(CIFAR10, archive=small)))
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield
        server.shutdown()


@pytest.mark.usefixtures("site")
def test_missing_images_are_brought_where_that_is_allowed(run: Program, tmp_path: Path) -> None:
    ran = run("run", "plan.toml", "--data-dir", "new", "--download", "--workers", "1")
    assert ran.code == 0, ran.err
    assert ran.err.count("dubito: downloading cifar-10-binary.tar.gz") == 1
    assert [path.name for path in (tmp_path / "new").iterdir()] == [CIFAR10.archive.name]


SHOW = """
from dubito.cli.commands.run import download_bar
with download_bar() as progress:
    for done in (1, 5, 10):
        progress("weights.pth", done * 10**6, 10**7)
"""


def test_a_terminal_shows_a_bar_with_the_bytes() -> None:
    main, side = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    subprocess.run([sys.executable, "-c", SHOW], stderr=side, stdout=side, env=environment, check=True)
    os.close(side)
    shown = read_terminal(main)
    os.close(main)
    assert "weights.pth" in shown
    assert "10.0/10.0 MB" in shown


def test_without_the_variable_there_is_none_afterwards(
    run: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DUBITO_DATA")
    (tmp_path / "copies").mkdir()
    assert "cifar10 is missing" in run("run", "plan.toml", "--data-dir", "copies", "-q").complaint
    assert "DUBITO_DATA" not in os.environ


def test_a_report_names_the_classes_where_the_images_are_at_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert known_classes(Data(images="cifar10")) == ()
    monkeypatch.setenv("DUBITO_DATA", str(archive(tmp_path / CIFAR10.archive.name).parent))
    assert known_classes(Data(images="cifar10")) == CIFAR10.classes


def test_names_of_experiments_are_completed() -> None:
    assert experiment_names("cifar10-m") == ["cifar10-main"]


@pytest.mark.usefixtures("quiet")
def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with download_bar() as progress:
        progress("weights.pth", 1, 2)
    assert capsys.readouterr().err == ""
