"""Downloads of published files: interrupted ones are resumed, and checksums are verified.

pooch also verifies checksums, but restarts an interrupted download from the beginning; files have up to 553 MB.
"""

import hashlib
import http.client
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from dubito.errors import DubitoError, InvalidArgument, InvalidData, by_interface, in_python
from dubito.experiments.images import DownloadProgress
from dubito.io.durable import explain_disk_full

RETRY_PAUSES = (1.0, 3.0, 10.0)
"""Seconds to wait after each consecutive failure; after the last one, the download fails."""

TIMEOUT_SECONDS = 30.0
CHUNK_BYTES = 1 << 16
RETRIED_STATUSES = (408, 429)
"""HTTP status codes below 500 after which the download is retried."""


DOWNLOAD_HINT = (
    f"pass {by_interface('data_dir=', command='--data-dir', toml='--data-dir')} with a folder that does"
    f"{in_python(' (or set DUBITO_DATA in the environment)')}, or "
    f"{by_interface('download=True', command='--download', toml='--download')}."
)
"""A hint for errors about missing published files."""


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file on the web with a known checksum."""

    name: str
    address: str
    checksum: str
    """The algorithm and the hexadecimal digits, such as ``md5:c32a...``."""
    n_bytes: int

    @property
    def source(self) -> str:
        """Address and size, for messages."""
        return f"{self.address}, {self.n_bytes / 1e6:,.0f} MB"


def download_file(
    file: PublishedFile,
    folder: Path,
    *,
    progress: DownloadProgress | None = None,
    pauses: Sequence[float] = RETRY_PAUSES,
) -> Path:
    """Download a file into a folder, unless it exists there.

    It is written to ``NAME.part``, which a later call continues, and renamed to ``NAME`` once its checksum has been
    verified, or to ``NAME.bad`` if the checksum is wrong.

    Parameters
    ----------
    file : PublishedFile
        The file to download.
    folder : Path
        Created if missing.
    progress : callable, optional
        Called with the name, the bytes downloaded so far, and the total.
    pauses : sequence of float
        Seconds to wait after each consecutive failure.
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
            return _verify(file, part, target)
        except DubitoError:
            raise
        except (OSError, http.client.HTTPException) as error:
            if _size(part) > before:
                waits = iter(pauses)
                continue
            seconds = next(waits, None)
            if seconds is None:
                kept = f" The part downloaded is kept in {part}: another try continues from there."
                cause = error.reason if type(error) is URLError else error
                text = " ".join(str(cause).split()) or type(cause).__name__
                hint = f"check the connection, or put {file.name} into {folder} yourself.{kept if _size(part) else ''}"
                raise DubitoError(f"{file.address} cannot be downloaded ({text})", hint=hint) from error
            time.sleep(seconds)


def _fetch(file: PublishedFile, part: Path, progress: DownloadProgress | None) -> None:
    """Download the missing bytes with one connection. Raises if it breaks; the bytes received are kept."""
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
            while chunk := response.read1(CHUNK_BYTES):
                with _writing(part):
                    out.write(chunk)
                    out.flush()
                done += len(chunk)
                if progress is not None:
                    progress(file.name, done, total)
    if length and done < total:
        raise ConnectionError(f"broke off after {done:,} of {total:,} bytes")


def _connect(file: PublishedFile, part: Path) -> http.client.HTTPResponse | None:
    """The response with the missing bytes; None if the server has no more bytes."""
    done = _size(part)
    headers = {"User-Agent": "dubito"} | ({"Range": f"bytes={done}-"} if done else {})
    try:
        response: http.client.HTTPResponse = urlopen(Request(file.address, headers=headers), timeout=TIMEOUT_SECONDS)
        return response
    except HTTPError as error:
        error.close()
        if error.code == 416 and done:
            return None  # The checksum shows whether the file is complete.
        if error.code >= 500 or error.code in RETRIED_STATUSES:
            raise
        hint = f"get {file.name} elsewhere and put it into {part.parent}."
        raise DubitoError(f"{file.address} answers {error.code} {error.reason}", hint=hint) from error


def _first_byte(response: http.client.HTTPResponse, done: int) -> int:
    """The offset of the first byte in the response: some servers always send the whole file."""
    if response.status != 206:
        return 0
    match = re.match(r"bytes (\d+)-", response.headers["Content-Range"] or "")
    return min(int(match[1]), done) if match else done


def _verify(file: PublishedFile, part: Path, target: Path) -> Path:
    """Rename a complete download, or set it aside if its checksum is wrong."""
    algorithm, _, expected = file.checksum.partition(":")
    actual = digest(part, algorithm)
    if actual != expected:
        bad = target.with_name(f"{file.name}.bad")
        os.replace(part, bad)
        problem = f"{file.name} from {file.address} has the {algorithm} {actual}, and {expected} is published"
        raise InvalidData(problem, hint=f"it is kept as {bad} and not used. Try again, or get the file elsewhere.")
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
    """Raise `DubitoError` for disk errors, so that only network errors are retried."""
    try:
        with explain_disk_full(path):
            yield
    except DubitoError:
        raise
    except OSError as error:
        hint = "choose another folder."
        raise InvalidArgument(f"{path} cannot be written: {str(error.strerror).lower()}", hint=hint) from error
