"""``vgg16``: VGG16 as the paper uses it, the convolutions of configuration D followed by one linear layer.

Layers have torchvision's names, so that its weights fit. There is no batch normalization, and no hidden layer after
the convolutions. Files of weights are read without unpickling.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.experiments.images import DownloadProgress, data_folder
from dubito.experiments.models.base import Facts, Fitted, TrainingSet
from dubito.experiments.models.networks.network import Network, fit_network
from dubito.experiments.models.networks.training import deterministic
from dubito.experiments.seeds import derive_seed
from dubito.io import open_source
from dubito.matrix import AnyArray, IntArray
from dubito.paper.downloads import DOWNLOAD_HINT, PublishedFile, digest, download_file
from dubito.request.arrays import check_integer

if TYPE_CHECKING:
    import torch

BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Channels of the convolutions before each pooling layer."""
WIDTH = BLOCKS[-1][-1]
SIDE = 32
"""Images of this height and width have a single position after the last pooling layer; larger ones have several."""

VGG16 = PublishedFile(
    "vgg16-397923af.pth",
    "https://download.pytorch.org/models/vgg16-397923af.pth",
    "sha256:397923af8e79cdbb6a7127f12361acd7a2f83e06b05044ddf496e83de57a5bf0",
    553_433_881,
)
"""Torchvision's ``VGG16_Weights.IMAGENET1K_V1``."""

CONVOLUTIONS = "vgg16_features.safetensors"
"""Name in the data folder for a file with the convolutions alone, which is a tenth as large."""

IMAGENET, RANDOM = "imagenet", "none"
SUFFIXES = (".safetensors", ".pth")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vgg16(Network):
    """VGG16's convolutions and one linear layer on their 512 features, as in the paper."""

    weights: str = IMAGENET
    """Initial weights of the convolutions: ``imagenet``, a ``.safetensors`` or ``.pth`` file, or ``none``."""
    kind: ClassVar[str] = "vgg16"
    rows_per_second: ClassVar[float] = 36.0
    """Rows per second that one core trains on, at 32x32."""
    head: ClassVar[str] = "head"

    def locate(self, folder: str) -> "Vgg16":
        """The path of a file is relative to the folder; ``imagenet`` and ``none`` are no paths."""
        is_name = self.weights in (IMAGENET, RANDOM) or not isinstance(self.weights, str)
        return self if is_name else replace(self, weights=os.path.normpath(os.path.join(folder, self.weights)))

    def fetch(self, *, download: bool, progress: DownloadProgress | None) -> None:
        find_weights(self.weights, download=download, progress=progress)

    def network(self, n_classes: int, seed: int) -> "torch.nn.Module":
        with deterministic(derive_seed(seed, "weights"), self.training.device):
            return vgg16(n_classes, self.weights)

    def facts(self) -> dict[str, str]:
        return {**Network.facts(self), "weights": describe_weights(self.weights)}

    def refusal(self, begun: Facts, now: Facts, labels: IntArray) -> str | None:
        """Also refuse other weights."""
        if begun.get("weights", now["weights"]) != now["weights"]:
            return (
                f"the weights have changed since: {begun['weights']} then, {now['weights']} now. Restore the old "
                "file, or run the experiment in another folder."
            )
        return Network.refusal(self, begun, now, labels)

    def fit(self, train_set: TrainingSet) -> Fitted:
        """Take O(m) time: days on a CPU for the experiments of the paper, minutes on a GPU."""
        return fit_network(self, train_set)


def vgg16(n_classes: int, weights: str = IMAGENET) -> "torch.nn.Module":
    """VGG16's 13 convolutions, ``features``, and a linear layer, ``head``, on the 512 numbers after the last pooling.

    Parameters
    ----------
    n_classes : int
        Number of logits. The head is drawn from torch's global generator, which the caller seeds.
    weights : str
        ``"imagenet"`` for those of torchvision (see `find_weights`), the path of a ``.safetensors`` or ``.pth`` file
        with torchvision's names, or ``"none"``: drawn at random, as torchvision does.

    Returns
    -------
    torch.nn.Module
        Takes (n, 3, h, w) float images, h and w at least 32. If several positions are left after the last pooling
        layer (from 64x64 on), the features are their mean.

    Examples
    --------
    >>> import torch
    >>> network = vgg16(10, weights="none")
    >>> network(torch.zeros(2, 3, 32, 32)).shape, network.features[28].weight.shape
    (torch.Size([2, 10]), torch.Size([512, 512, 3, 3]))
    """
    import torch

    check_integer("n_classes", n_classes, least=2)
    path = find_weights(weights)
    features = convolutions()
    if path is None:
        for layer in features:
            if isinstance(layer, torch.nn.Conv2d):
                torch.nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
                torch.nn.init.zeros_(layer.bias)
    else:
        arrays = read_convolutions(path)
        features.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    network = torch.nn.Sequential()
    network.add_module("features", features)
    network.add_module("pool", torch.nn.AdaptiveAvgPool2d(1))
    network.add_module("flat", torch.nn.Flatten())
    network.add_module("head", torch.nn.Linear(WIDTH, n_classes))
    return network


def convolutions() -> "torch.nn.Sequential":
    """Convolutions, ReLUs and pooling layers in torchvision's order, without initialized weights."""
    import torch

    layers: list[torch.nn.Module] = []
    n_channels = 3
    for block in BLOCKS:
        for width in block:
            # Not initialized: drawing 15 million numbers that a file replaces would take most of the time.
            layer = torch.nn.utils.skip_init(torch.nn.Conv2d, n_channels, width, kernel_size=3, padding=1)
            layers += [layer, torch.nn.ReLU(inplace=True)]
            n_channels = width
        layers.append(torch.nn.MaxPool2d(2))
    return torch.nn.Sequential(*layers)


def shapes() -> dict[str, tuple[int, ...]]:
    """The shape of each weight of the convolutions, by its name, such as ``0.weight``."""
    import torch

    with torch.device("meta"):
        return {name: tuple(tensor.shape) for name, tensor in convolutions().state_dict().items()}


def read_convolutions(path: Path) -> Mapping[str, AnyArray]:
    """The float32 weights of the convolutions in a file, by name without ``features.``; other weights are ignored."""
    status = os.stat(path)
    return _read_cached(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1)
def _read_cached(path: Path, size: int, modified: int) -> dict[str, AnyArray]:
    """Cached, because an experiment creates a network for every strategy and seed."""
    source = open_source(str(path))
    arrays = {}
    for name, shape in shapes().items():
        key = f"features.{name}"
        if key not in source.names:
            hint = "it must hold VGG16's convolutions under torchvision's names."
            raise InvalidData(f"{path} holds no {key}", hint=hint)
        array = np.asarray(source.entry(key).read())
        if array.shape != shape or array.dtype.kind != "f":
            raise InvalidData(
                f"{key} of {path} has shape {array.shape} and type {array.dtype}, and VGG16's has "
                f"{shape} in floating point",
                hint="it is of another network.",
            )
        arrays[name] = np.array(array, dtype=np.float32)
    return arrays


# The file of the weights: the user's own, torchvision's, or a download.


def find_weights(
    weights: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = False,
    progress: DownloadProgress | None = None,
) -> Path | None:
    """The file of the weights; None for ``"none"``, which are drawn at random.

    Parameters
    ----------
    weights : str
        ``"imagenet"``, which is searched for in the data folder and in torch's cache; the path of a ``.safetensors``
        or ``.pth`` file; or ``"none"``.
    data_dir : str or path, optional
        The data folder. Default: `dubito.experiments.images.default_folder`.
    download : bool
        Download torchvision's file into the data folder if none is found.
    progress : callable, optional
        Called with the name, the bytes downloaded so far, and the total.

    Examples
    --------
    >>> find_weights("none") is None
    True
    """
    if weights == RANDOM:
        return None
    if weights != IMAGENET:
        return _own_file(weights)
    folder = data_folder(data_dir, download)
    for path in (folder / CONVOLUTIONS, folder / VGG16.name, hub_folder() / VGG16.name):
        if path.is_file():
            return path
    if download:
        return download_file(VGG16, folder, progress=progress)
    raise MissingFile(
        f"the weights of VGG16 are missing: {folder} holds neither {CONVOLUTIONS} nor {VGG16.name}, and {hub_folder()} "
        f"no {VGG16.name} ({VGG16.source})",
        hint=DOWNLOAD_HINT,
    )


def hub_folder() -> Path:
    """The folder of torch's own downloads."""
    home = os.environ.get("TORCH_HOME")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path(home).expanduser() if home else cache / "torch") / "hub" / "checkpoints"


def describe_weights(weights: str) -> str:
    """The file name of the weights, and the first eight digits of its SHA-256.

    Examples
    --------
    >>> describe_weights("none")
    'none'
    """
    path = find_weights(weights)
    return RANDOM if path is None else f"{path.name}, sha256 {digest(path, 'sha256')[:8]}"


def _own_file(weights: str) -> Path:
    path = Path(weights).expanduser()
    if path.suffix not in SUFFIXES:
        problem = f"is neither {IMAGENET!r}, {RANDOM!r} nor the path of a .safetensors or .pth file"
        raise InvalidArgument(problem, argument="weights", value=weights, hint="pass one of these.")
    if not path.is_file():
        raise MissingFile("does not exist", argument="weights", value=weights, hint="check the path.")
    return path
