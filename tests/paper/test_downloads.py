"""Downloads from a real server on this machine: broken off and resumed, checked, refused."""

import hashlib
import io
import re
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from dubito.errors import DubitoError, InvalidArgument, InvalidData
from dubito.paper.downloads import PublishedFile, download_file
from dubito.paper.images import CIFAR10, SVHN, read_cifar, read_svhn

CONTENT = np.random.default_rng(0).bytes(300_000)


class Site(ThreadingHTTPServer):
    """Serves files from memory, breaks off where requested, and records the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Forward)
        self.files = {"/data.bin": CONTENT}
        self.breaks: list[int] = []
        """Bytes after which each of the next answers ends."""
        self.refusals: list[int] = []
        """Status of each of the next answers."""
        self.knows_ranges = True
        self.tells_length = True
        self.asked: list[str | None] = []

    def published(self, path: str = "/data.bin", checksum: str | None = None) -> PublishedFile:
        content = self.files[path]
        address = f"http://127.0.0.1:{self.server_address[1]}{path}"
        found = checksum or f"md5:{hashlib.md5(content, usedforsecurity=False).hexdigest()}"
        return PublishedFile(path[1:], address, found, len(content))


class Forward(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        site, wanted = self.server, self.headers["Range"]
        site.asked.append(wanted)
        content = site.files.get(self.path)
        if site.refusals or content is None:
            return self.send_error(site.refusals.pop(0) if site.refusals else 404)
        found = re.fullmatch(r"bytes=(\d+)-", wanted or "")
        start = int(found[1]) if found and site.knows_ranges else 0
        if start >= len(content):
            return self.send_error(416)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if site.tells_length:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = start + site.breaks.pop(0) if site.breaks else len(content)
        self.wfile.write(content[start:end])
        return None

    def log_message(self, format: str, *args: object) -> None:
        """Keep the tests' output clean."""


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


def test_a_file_is_brought_once_and_progress_is_reported(site: Site, tmp_path: Path) -> None:
    described: list[tuple[str, int, int]] = []
    folder = tmp_path / "new" / "folder"
    path = download_file(site.published(), folder, progress=lambda *numbers: described.append(numbers))
    assert path.read_bytes() == CONTENT
    assert [found.name for found in folder.iterdir()] == ["data.bin"]
    assert described[-1] == ("data.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in described] == sorted({done for _, done, _ in described})
    assert download_file(site.published(), folder) == path
    assert site.asked == [None]


def test_a_download_that_breaks_off_goes_on_where_it_was(site: Site, tmp_path: Path) -> None:
    site.breaks = [100_000, 50_000]
    described: list[int] = []
    path = download_file(site.published(), tmp_path, pauses=(), progress=lambda _, done, total: described.append(done))
    assert path.read_bytes() == CONTENT
    assert site.asked == [None, "bytes=100000-", "bytes=150000-"]
    assert described == sorted(set(described))


def test_a_later_call_goes_on_with_what_an_earlier_one_left(site: Site, tmp_path: Path) -> None:
    site.breaks = [70_000, 0]
    with pytest.raises(DubitoError, match=r"broke off after 70,000 of 300,000 bytes.*is kept in .*data.bin.part: an"):
        download_file(site.published(), tmp_path, pauses=())
    assert (tmp_path / "data.bin.part").read_bytes() == CONTENT[:70_000]
    assert download_file(site.published(), tmp_path, pauses=()).read_bytes() == CONTENT
    assert site.asked[-1] == "bytes=70000-"
    assert not (tmp_path / "data.bin.part").exists()


def test_a_server_that_knows_no_ranges_sends_all_again(site: Site, tmp_path: Path) -> None:
    site.knows_ranges = False
    site.breaks = [200_000, 100_000]
    assert download_file(site.published(), tmp_path, pauses=(0.0,)).read_bytes() == CONTENT
    assert len(site.asked) == 3


def test_a_server_that_tells_no_length_is_believed_and_the_content_checked(site: Site, tmp_path: Path) -> None:
    site.tells_length = False
    described: list[int] = []
    download_file(site.published(), tmp_path, progress=lambda _, done, total: described.append(total))
    assert set(described) == {len(CONTENT)}


def test_a_part_that_is_already_whole_takes_its_name(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(CONTENT)
    assert download_file(site.published(), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_a_wrong_checksum_sets_the_file_aside(site: Site, tmp_path: Path, algorithm: str) -> None:
    right = hashlib.new(algorithm, CONTENT).hexdigest()
    message = rf"data.bin from http.* has the {algorithm} {right}, and 0000 is published; it is kept as .*data.bin.bad"
    with pytest.raises(InvalidData, match=message):
        download_file(site.published(checksum=f"{algorithm}:0000"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["data.bin.bad"]
    assert download_file(site.published(checksum=f"{algorithm}:{right}"), tmp_path).name == "data.bin"


def test_a_part_of_another_file_is_found_out_and_the_next_try_starts_anew(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(b"x" * 1000)
    with pytest.raises(InvalidData, match=r"not used\. Try again"):
        download_file(site.published(), tmp_path)
    assert download_file(site.published(), tmp_path).read_bytes() == CONTENT


def test_a_busy_server_is_asked_again_and_a_refusal_is_final(site: Site, tmp_path: Path) -> None:
    site.refusals = [503, 429]
    assert download_file(site.published(), tmp_path / "a", pauses=(0.0, 0.0)).read_bytes() == CONTENT
    site.refusals = [403]
    with pytest.raises(DubitoError, match=r"data.bin answers 403 Forbidden; get data.bin elsewhere and put it into"):
        download_file(site.published(), tmp_path / "b", pauses=(0.0, 0.0))
    assert len(site.asked) == 4


def test_a_server_that_is_not_there_is_reported_after_the_pauses(tmp_path: Path) -> None:
    with Site() as gone:
        file = gone.published()
    with pytest.raises(
        DubitoError, match=r"cannot be downloaded \(.*refused.*\); check the connection, or put data.bin"
    ):
        download_file(file, tmp_path, pauses=(0.0,))


def test_a_folder_that_cannot_be_written_is_reported_at_once(site: Site, tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(InvalidArgument, match=r"taken cannot be written: file exists; choose another folder"):
        download_file(site.published(), tmp_path / "taken")
    (tmp_path / "data.bin.part").mkdir()
    with pytest.raises(InvalidArgument, match=r"data.bin.part cannot be written: is a directory"):
        download_file(site.published(), tmp_path)


def tiny_cifar() -> bytes:
    """An archive with two records in every file: the labels 1 and 2, all pixels 0."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in (*CIFAR10.train, CIFAR10.test):
            member = tarfile.TarInfo(f"{CIFAR10.folder}/{name}")
            member.size = 2 * 3073
            archive.addfile(member, io.BytesIO(b"\1" + b"\0" * 3072 + b"\2" + b"\0" * 3072))
    return buffer.getvalue()


def test_cifar_is_downloaded_checked_and_read(site: Site, tmp_path: Path) -> None:
    site.files["/cifar-10-binary.tar.gz"] = tiny_cifar()
    layout = replace(CIFAR10, archive=site.published("/cifar-10-binary.tar.gz"))
    for allow_download in (True, False):
        images = read_cifar(layout, tmp_path / "new", allow_download=allow_download)
        assert images.labels.tolist() == [1, 2] * 5
        assert images.test_images.shape == (2, 32, 32, 3)
    assert site.asked == [None]
    wrong = replace(layout, archive=replace(layout.archive, checksum="md5:0000"))
    with pytest.raises(InvalidData, match=r"kept as .*cifar-10-binary.tar.gz.bad and not used"):
        read_cifar(wrong, tmp_path / "other", allow_download=True)


def test_svhn_is_downloaded_checked_and_read(site: Site, tmp_path: Path) -> None:
    for file, digit in zip(SVHN, (3, 10), strict=True):
        savemat(tmp_path / file.name, {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([digit, 1])})
        site.files[f"/{file.name}"] = (tmp_path / file.name).read_bytes()
    files = site.published("/train_32x32.mat"), site.published("/test_32x32.mat")
    images = read_svhn(files, tmp_path / "new", allow_download=True)
    assert (images.labels.tolist(), images.test_labels.tolist()) == ([3, 1], [0, 1])
    assert len(site.asked) == 2
