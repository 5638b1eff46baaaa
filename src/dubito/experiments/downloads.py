"""Files from their official addresses: resumed where they broke off, used only with the published checksum."""

import hashlib
import http.client
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from dubito.errors import DubitoError, InvalidArgument, InvalidData, MissingFile, by_interface, in_python
from dubito.io.durable import explain_disk_full

PAUSES = (1.0, 3.0, 10.0)
"""Seconds between tries that bring nothing; after the last the download fails."""

SILENCE = 30.0
"""Seconds without an answer after which a connection counts as broken."""

CHUNK = 1 << 16
PASSING = (408, 429)
"""Refusals below 500 that another try may overcome."""


BOTH_MENDS = (
    f"pass {by_interface('data_dir=', command='--data-dir', toml='--data-dir')} with a folder that does"
    f"{in_python(' (or set DUBITO_DATA in the environment)')}, or "
    f"{by_interface('download=True', command='--download', toml='--download')}."
)
"""What to do where published files are missing."""


class DownloadProgress(Protocol):
    """Called along the way of a download."""

    def __call__(self, name: str, done: int, total: int, /) -> None:
        """The file's name, bytes that are here, bytes in all."""
        ...


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file on the web whose content is known beforehand."""

    name: str
    address: str
    checksum: str
    """The algorithm and the digits, as ``md5:c32a...``."""
    n_bytes: int

    @property
    def source(self) -> str:
        """Where it is and how large, for messages."""
        return f"{self.address}, {self.n_bytes / 1e6:,.0f} MB"


def download_file(
    file: PublishedFile, folder: Path, *, progress: DownloadProgress | None = None, pauses: Sequence[float] = PAUSES
) -> Path:
    """Bring a file into a folder, unless it is there.

    The bytes gather in ``NAME.part``, from where a later call goes on. The file takes its own name once its checksum
    is right; else it is kept as ``NAME.bad``.

    Parameters
    ----------
    file : PublishedFile
        What is wanted.
    folder : Path
        Made where it is missing.
    progress : callable, optional
        Called with the name, the bytes here and the bytes in all.
    pauses : sequence of float
        Seconds to wait after each try in a row that brings nothing.
    """
    target, part = folder / file.name, folder / f"{file.name}.part"
    if target.exists():
        return target
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    waits = iter(pauses)
    while True:
        before = _size(part)
        try:
            _fetch(file, part, progress)
            return _accept(file, part, target)
        except DubitoError:
            raise
        except (OSError, http.client.HTTPException) as error:
            if _size(part) > before:
                waits = iter(pauses)
                continue
            _wait_or_give_up(next(waits, None), file, part, error)


def _wait_or_give_up(seconds: float | None, file: PublishedFile, part: Path, error: Exception) -> None:
    if seconds is not None:
        return time.sleep(seconds)
    kept = f" What came is kept in {part}: another try goes on from there." if _size(part) else ""
    cause = error.reason if type(error) is URLError else error
    raise DubitoError(
        f"{file.address} cannot be downloaded ({' '.join(str(cause).split()) or type(cause).__name__})",
        hint=f"check the connection, or put {file.name} into {part.parent} yourself.{kept}",
    ) from error


def _fetch(file: PublishedFile, part: Path, progress: DownloadProgress | None) -> None:
    """One connection: all that is missing, or an error after what could be had."""
    response = _connect(file, part)
    if response is None:
        return
    with response:
        done = _first_byte(response, _size(part))
        length = response.headers["Content-Length"]
        total = done + int(length) if length else file.n_bytes
        with _writing(part):
            out = part.open("r+b" if done else "wb")
        with out:
            out.seek(done)
            while chunk := response.read1(CHUNK):
                with _writing(part):
                    out.write(chunk)
                    out.flush()
                done += len(chunk)
                if progress is not None:
                    progress(file.name, done, total)
    if length and done < total:
        raise ConnectionError(f"broke off after {done:,} of {total:,} bytes")


def _connect(file: PublishedFile, part: Path) -> http.client.HTTPResponse | None:
    """The server's answer for what is missing; None where it has nothing beyond what is here."""
    done = _size(part)
    try:
        response: http.client.HTTPResponse = urlopen(_request(file.address, done), timeout=SILENCE)
        return response
    except HTTPError as error:
        error.close()
        if error.code == 416 and done:
            return None  # The checksum tells whether it is right.
        if error.code >= 500 or error.code in PASSING:
            raise
        raise DubitoError(
            f"{file.address} answers {error.code} {error.reason}",
            hint=f"get {file.name} elsewhere and put it into {part.parent}.",
        ) from error


def _request(address: str, done: int) -> Request:
    headers = {"User-Agent": "dubito"} | ({"Range": f"bytes={done}-"} if done else {})
    return Request(address, headers=headers)


def _first_byte(response: http.client.HTTPResponse, done: int) -> int:
    """Where the answer's first byte belongs: some servers send the whole file whatever was asked for."""
    if response.status != 206:
        return 0
    found = re.match(r"bytes (\d+)-", response.headers["Content-Range"] or "")
    return min(int(found[1]), done) if found else done


def _accept(file: PublishedFile, part: Path, target: Path) -> Path:
    """Give a complete download its name, or set it aside."""
    algorithm, _, expected = file.checksum.partition(":")
    found = digest(part, algorithm)
    if found != expected:
        bad = target.with_name(f"{file.name}.bad")
        os.replace(part, bad)
        raise InvalidData(
            f"{file.name} from {file.address} has the {algorithm} {found}, and {expected} is published",
            hint=f"it is kept as {bad} and not used. Try again, or get the file elsewhere.",
        )
    os.replace(part, target)
    return target


def digest(path: Path, algorithm: str) -> str:
    """The checksum of a file in hexadecimal digits.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "empty").write_bytes(b"")
    ...     digest(Path(folder, "empty"), "md5")
    'd41d8cd98f00b204e9800998ecf8427e'
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Tell a disk that refuses from a network that does: only the second is tried again."""
    try:
        with explain_disk_full(path):
            yield
    except DubitoError:
        raise
    except OSError as error:
        raise InvalidArgument(
            f"{path} cannot be written: {str(error.strerror).lower()}", hint="choose another folder."
        ) from error


# Where published files are kept.

DATA_VARIABLE = "DUBITO_DATA"
"""Of the environment: the folder of published files."""


def default_folder() -> Path:
    """Where published collections are kept unless a folder is named.

    What the environment variable ``DUBITO_DATA`` says, else ``dubito`` in the user's cache.
    """
    named = os.environ.get(DATA_VARIABLE)
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "dubito")


def data_folder(data_dir: str | os.PathLike[str] | None, download: bool) -> Path:
    """The folder of published files, by its name or the default; it must exist unless a download may make it."""
    if data_dir is None:
        return default_folder()
    folder = Path(data_dir).expanduser()
    if folder.exists() and not folder.is_dir():
        raise InvalidArgument(
            "is a file", argument="data_dir", value=str(folder), hint="pass the folder that holds it."
        )
    if not folder.exists() and not download:
        raise MissingFile("does not exist", argument="data_dir", value=str(folder), hint="check the path.")
    return folder


# Where the pretrained weights of VGG16 are: a file of one's own, torchvision's, or a download of that one.

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
        The data folder; without it, `dubito.experiments.downloads.default_folder`.
    download : bool
        Bring torchvision's file into the data folder where none is found.
    progress : callable, optional
        Called with the download: the file's name, bytes that are here, bytes in all.

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
        return download_file(VGG16, folder, progress=progress)
    raise MissingFile(
        f"the weights of VGG16 are missing: {folder} holds neither {CONVOLUTIONS} nor {VGG16.name}, and {hub_folder()} "
        f"no {VGG16.name} ({VGG16.source})",
        hint=BOTH_MENDS,
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
            hint="pass one of these.",
        )
    if not path.is_file():
        raise MissingFile("is not there", argument="weights", value=weights, hint="check the path.")
    return path
