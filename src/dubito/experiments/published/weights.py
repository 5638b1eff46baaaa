"""Where the pretrained weights of VGG16 are: a file of one's own, torchvision's, or a download of that one."""

import os
from pathlib import Path

from dubito.errors import InvalidArgument, MissingFile
from dubito.experiments.published.downloads import BOTH_MENDS, DownloadProgress, PublishedFile, digest
from dubito.experiments.published.downloads import download as bring
from dubito.experiments.published.folders import data_folder

VGG16 = PublishedFile(
    "vgg16-397923af.pth",
    "https://download.pytorch.org/models/vgg16-397923af.pth",
    "sha256:397923af8e79cdbb6a7127f12361acd7a2f83e06b05044ddf496e83de57a5bf0",
    553_433_881,
)
"""What torchvision calls ``VGG16_Weights.IMAGENET1K_V1``."""

CONVOLUTIONS = "vgg16_features.safetensors"
"""The same without the classifier, a tenth as large: what to call a file of one's own in the data folder."""

IMAGENET, NONE = "imagenet", "none"
SUFFIXES = (".safetensors", ".pth")


def find_weights(
    weights: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = False,
    progress: DownloadProgress | None = None,
) -> Path | None:
    """The file that some weights are in; None for ``"none"``, which are drawn at random.

    Parameters
    ----------
    weights : str
        ``"imagenet"``, looked for in the data folder and in torch's own cache; the path of a ``.safetensors`` or
        ``.pth`` file; or ``"none"``.
    data_dir : str or path, optional
        The data folder; without it, `dubito.experiments.published.folders.default_folder`.
    download : bool
        Bring torchvision's file into the data folder where none is found.
    progress : callable, optional
        Told of the download: the file's name, bytes that are here, bytes in all.

    Examples
    --------
    >>> find_weights("none") is None
    True
    """
    if weights == NONE:
        return None
    if weights != IMAGENET:
        return _own_file(weights)
    folder = data_folder(data_dir, download)
    for path in (folder / CONVOLUTIONS, folder / VGG16.name, hub_folder() / VGG16.name):
        if path.is_file():
            return path
    if download:
        return bring(VGG16, folder, progress=progress)
    raise MissingFile(
        f"the weights of VGG16 are missing: {folder} holds neither {CONVOLUTIONS} nor {VGG16.name}, and {hub_folder()} "
        f"no {VGG16.name} ({VGG16.source})",
        mend=BOTH_MENDS,
    )


def hub_folder() -> Path:
    """Where torch keeps what it downloads itself."""
    home = os.environ.get("TORCH_HOME")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path(home).expanduser() if home else cache / "torch") / "hub" / "checkpoints"


def describe_weights(weights: str) -> str:
    """Which weights these are: the file's name and the first eight digits of its SHA-256.

    Examples
    --------
    >>> describe_weights("none")
    'none'
    """
    path = find_weights(weights)
    return NONE if path is None else f"{path.name}, sha256 {digest(path, 'sha256')[:8]}"


def _own_file(weights: str) -> Path:
    path = Path(weights).expanduser()
    if path.suffix not in SUFFIXES:
        raise InvalidArgument(
            f"is neither {IMAGENET!r}, {NONE!r} nor the path of a .safetensors or .pth file",
            argument="weights",
            value=weights,
            mend="pass one of these.",
        )
    if not path.is_file():
        raise MissingFile("is not there", argument="weights", value=weights, mend="check the path.")
    return path
