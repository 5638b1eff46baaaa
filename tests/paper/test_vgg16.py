"""VGG16's convolutions under torchvision's names: weights found, read, and refused where they do not fit."""

import os
import pickle
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.paper import vgg16 as models_vgg16
from dubito.paper.downloads import PublishedFile, digest
from dubito.paper.vgg16 import (
    CONVOLUTIONS,
    VGG16,
    describe_weights,
    find_weights,
    hub_folder,
    read_convolutions,
    vgg16,
)

NUMBERS = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)
"""Of torchvision's convolutions."""


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUBITO_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    (tmp_path / "data").mkdir()


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A VGG16 of 8 channels, whose files are small."""
    monkeypatch.setattr(models_vgg16, "BLOCKS", ((8, 8), (8, 8), (8, 8, 8), (8, 8, 8), (8, 8, 8)))
    monkeypatch.setattr(models_vgg16, "WIDTH", 8)


def tensors(kind: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    """As torchvision saves a network, its classifier included."""
    torch.manual_seed(3)
    held = {f"features.{name}": torch.randn(shape).to(kind) for name, shape in models_vgg16.shapes().items()}
    return {**held, "classifier.0.weight": torch.randn(4, 4), "classifier.0.bias": torch.randn(4)}


def test_the_layers_go_by_torchvisions_names_and_shapes() -> None:
    shapes = models_vgg16.shapes()
    assert list(shapes) == [f"{number}.{part}" for number in NUMBERS for part in ("weight", "bias")]
    assert shapes["0.weight"] == (64, 3, 3, 3)
    assert shapes["10.weight"] == (256, 128, 3, 3)
    assert sum(int(np.prod(shape)) for shape in shapes.values()) == 14_714_688


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_weights_are_read_from_either_kind_of_file_and_widened(tmp_path: Path, suffix: str, kind: torch.dtype) -> None:
    path, held = tmp_path / f"mine{suffix}", tensors(kind)
    torch.save(held, path) if suffix == ".pth" else save_file(held, path)
    network = vgg16(5, str(path))
    state = network.state_dict()
    for name in (f"features.{number}.{part}" for number in NUMBERS for part in ("weight", "bias")):
        assert state[name].dtype == torch.float32
        assert torch.equal(state[name], held[name].float())
    assert set(state) - set(held) == {"head.weight", "head.bias"}
    assert state["head.weight"].shape == (5, 8)


@pytest.mark.usefixtures("narrow")
def test_the_same_file_is_read_once_and_never_changed_by_training(tmp_path: Path) -> None:
    save_file(tensors(), tmp_path / "mine.safetensors")
    first = vgg16(2, str(tmp_path / "mine.safetensors"))
    assert read_convolutions(tmp_path / "mine.safetensors") is read_convolutions(tmp_path / "mine.safetensors")
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.zero_()
    again = vgg16(2, str(tmp_path / "mine.safetensors"))
    assert torch.equal(again.state_dict()["features.0.weight"], tensors()["features.0.weight"])


@pytest.mark.usefixtures("narrow")
def test_the_head_is_drawn_from_torchs_own_generator(tmp_path: Path) -> None:
    save_file(tensors(), tmp_path / "data" / CONVOLUTIONS)
    heads = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        heads.append(vgg16(3).state_dict()["head.weight"])
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])


def test_the_head_sees_the_mean_of_the_places_left_after_the_last_pooling() -> None:
    torch.manual_seed(0)
    network = vgg16(2, weights="none").eval()
    assert sum(each.numel() for each in network.parameters()) == 14_714_688 + 512 * 2 + 2
    with torch.no_grad():
        for side, places in ((32, 1), (64, 4)):
            images = torch.randn(2, 3, side, side)
            maps = network.get_submodule("features")(images)
            assert maps[0, 0].numel() == places
            expected = network.get_submodule("head")(maps.mean(dim=(2, 3)))
            assert torch.allclose(network(images), expected, atol=1e-6)
            assert network(images).std() > 1e-6


@pytest.mark.usefixtures("narrow")
def test_imagenet_is_looked_for_in_the_data_folder_and_then_in_torchs_cache(tmp_path: Path) -> None:
    hub = tmp_path / "torch" / "hub" / "checkpoints"
    hub.mkdir(parents=True)
    with pytest.raises(MissingFile, match=r"neither vgg16_features.safetensors nor vgg16-397923af.pth.*download=True"):
        find_weights("imagenet")
    for path in (hub / VGG16.name, tmp_path / "data" / VGG16.name, tmp_path / "data" / CONVOLUTIONS):
        path.write_bytes(b"")
        assert find_weights("imagenet") == path
    assert find_weights("imagenet", data_dir=hub) == hub / VGG16.name


def test_torchs_cache_is_where_torch_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hub_folder() == Path(torch.hub.get_dir()) / "checkpoints"
    monkeypatch.delenv("TORCH_HOME")
    assert hub_folder() == Path(torch.hub.get_dir()) / "checkpoints"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Keep the tests' output clean."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "site").mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "site")) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.usefixtures("narrow")
def test_a_download_is_checked_used_and_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: str) -> None:
    torch.save(tensors(), tmp_path / "site" / "small.pth")
    digits = digest(tmp_path / "site" / "small.pth", "sha256")
    small = PublishedFile("small.pth", f"{site}/small.pth", f"sha256:{digits}", os.path.getsize(tmp_path / "site"))
    monkeypatch.setattr(models_vgg16, "VGG16", small)
    described: list[str] = []
    path = find_weights("imagenet", download=True, progress=lambda name, done, total: described.append(name))
    assert path == tmp_path / "data" / "small.pth"
    assert described[-1] == "small.pth"
    assert vgg16(2).state_dict()["head.bias"].shape == (2,)
    assert describe_weights("imagenet") == f"small.pth, sha256 {digits[:8]}"
    monkeypatch.setattr(models_vgg16, "VGG16", PublishedFile("other.pth", small.address, "sha256:" + 64 * "0", 1))
    with pytest.raises(InvalidData, match=r"other.pth"):
        find_weights("imagenet", download=True)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_a_layer_that_is_missing_or_of_another_shape_is_named(tmp_path: Path, suffix: str) -> None:
    save = torch.save if suffix == ".pth" else save_file
    held = tensors()
    del held["features.5.bias"]
    save(held, tmp_path / f"less{suffix}")
    with pytest.raises(InvalidData, match=r"less\.\w+ holds no features.5.bias; it must hold VGG16's convolutions"):
        vgg16(2, str(tmp_path / f"less{suffix}"))
    save({**tensors(), "features.2.weight": torch.zeros(8, 8, 1, 1)}, tmp_path / f"odd{suffix}")
    with pytest.raises(InvalidData, match=r"features.2.weight of .*odd\.\w+ has shape \(8, 8, 1, 1\).*another network"):
        vgg16(2, str(tmp_path / f"odd{suffix}"))


class Trap:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("sprung",)


def test_a_pickle_that_is_no_weights_is_refused_and_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trap.pth").write_bytes(pickle.dumps({"features.0.weight": Trap()}))
    torch.save({"features.0.weight": Trap()}, tmp_path / "newer.pth")
    (tmp_path / "torn.pth").write_bytes(b"PK\x03\x04 no archive")
    torch.save([torch.zeros(2)], tmp_path / "list.pth")
    for name in ("trap", "newer", "torn"):
        with pytest.raises(InvalidData, match=rf"{name}.pth (cannot be read as .pth|holds more than tensors)"):
            vgg16(2, str(tmp_path / f"{name}.pth"))
    with pytest.raises(InvalidData, match=r"list.pth holds no features.0.weight"):
        vgg16(2, str(tmp_path / "list.pth"))
    assert not (tmp_path / "sprung").exists()


def test_weights_that_are_nothing_of_this_kind_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"weights='imagnet' is neither 'imagenet', 'none' nor the path"):
        vgg16(2, "imagnet")
    with pytest.raises(MissingFile, match=r"gone.pth' does not exist"):
        vgg16(2, str(tmp_path / "gone.pth"))
    with pytest.raises(InvalidArgument, match=r"n_classes=1 .*n_classes >= 2"):
        vgg16(1, "none")
