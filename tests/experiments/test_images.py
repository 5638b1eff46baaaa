"""Images as they are published and as users keep them: read byte for byte, or refused with the fix."""

import gzip
import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from scipy.io import savemat

from dubito.errors import DubitoError, InvalidArgument, InvalidData, MemoryLimit, MissingFile
from dubito.experiments.images import ImageArray, ImageSet, default_folder, load_images, read_folder
from dubito.io import input_limit
from dubito.matrix import AnyArray
from dubito.paper.images import CIFAR10, CIFAR100, CifarFiles

FINE = [f"fine {number}" for number in range(100)]


def pixels(n: int, seed: int, height: int = 32, width: int = 32) -> ImageArray:
    return np.random.default_rng(seed).integers(0, 256, (n, height, width, 3), dtype=np.uint8)


def records(images: ImageArray, *labels: list[int]) -> bytes:
    """Label bytes, then the red, green and blue plane: written out by hand."""
    return b"".join(
        bytes(marks) + b"".join(image[:, :, channel].tobytes() for channel in range(3))
        for image, marks in zip(images, zip(*labels, strict=True), strict=True)
    )


def cifar10_files() -> dict[str, bytes]:
    names = [*CIFAR10.train, CIFAR10.test]
    files = {name: records(pixels(2, seed), [seed, 9 - seed]) for seed, name in enumerate(names)}
    return files | {"batches.meta.txt": ("\n".join(CIFAR10.classes) + "\n\n").encode(), "readme.html": b"<html>"}


def cifar100_files() -> dict[str, bytes]:
    return {
        "train.bin": records(pixels(3, 0), [19, 3, 7], [99, 0, 50]),
        "test.bin": records(pixels(2, 1), [5, 6], [1, 98]),
        "fine_label_names.txt": "\n".join(FINE).encode(),
        "coarse_label_names.txt": b"fish\n",
    }


def write_folder(folder: Path, files: Mapping[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def write_archive(path: Path, files: Mapping[str, bytes], prefix: str) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{prefix}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def check_cifar10(images: ImageSet) -> None:
    assert images.name == "cifar10"
    assert images.classes == CIFAR10.classes
    assert np.array_equal(images.images, np.concatenate([pixels(2, seed) for seed in range(5)]))
    assert images.labels.tolist() == [0, 9, 1, 8, 2, 7, 3, 6, 4, 5]
    assert np.array_equal(images.test_images, pixels(2, 5))
    assert images.test_labels.tolist() == [5, 4]
    assert images.images.flags.c_contiguous
    assert images.labels.dtype == np.int64


# CIFAR


def test_cifar_10_reads_alike_from_its_archive_and_from_what_that_unpacks_to(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    write_archive(tmp_path / "archive" / CIFAR10.archive.name, cifar10_files(), CIFAR10.folder)
    folder = write_folder(tmp_path / "unpacked" / CIFAR10.folder, cifar10_files())
    for data_dir in (tmp_path / "archive", tmp_path / "unpacked", folder):
        check_cifar10(load_images("cifar10", data_dir=data_dir))
    assert [path.name for path in (tmp_path / "archive").iterdir()] == [CIFAR10.archive.name]


def test_cifar_10_has_its_names_without_the_file_that_tells_them(tmp_path: Path) -> None:
    files = {name: content for name, content in cifar10_files().items() if name.endswith(".bin")}
    check_cifar10(load_images("cifar10", data_dir=write_folder(tmp_path, files)))


def test_an_archive_serves_where_the_unpacked_folder_is_not_whole(tmp_path: Path) -> None:
    files = cifar10_files()
    write_archive(tmp_path / CIFAR10.archive.name, files, CIFAR10.folder)
    write_folder(tmp_path / CIFAR10.folder, {"data_batch_1.bin": files["data_batch_1.bin"]})
    check_cifar10(load_images("cifar10", data_dir=tmp_path))


def test_cifar_100_is_read_with_its_fine_labels(tmp_path: Path) -> None:
    write_archive(tmp_path / CIFAR100.archive.name, cifar100_files(), CIFAR100.folder)
    images = load_images("cifar100", data_dir=str(tmp_path))
    assert images.classes == tuple(FINE)
    assert images.labels.tolist() == [99, 0, 50]
    assert images.test_labels.tolist() == [1, 98]
    assert np.array_equal(images.images, pixels(3, 0))
    assert np.array_equal(images.test_images, pixels(2, 1))


def test_paths_and_links_in_an_archive_lead_nowhere(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "home"
    home.mkdir(parents=True)
    path = home / CIFAR10.archive.name
    secret = write_folder(tmp_path, {"secret": b"s" * 3073}) / "secret"
    with tarfile.open(path, "w:gz") as archive:
        link = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        archive.addfile(link)
        for name, content in cifar10_files().items():
            member = tarfile.TarInfo(f"../../{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    check_cifar10(load_images("cifar10", data_dir=home))
    assert sorted(found.name for found in tmp_path.rglob("*")) == sorted(["deep", "home", "secret", path.name])


@pytest.mark.parametrize(
    ("layout", "place"),
    [(CIFAR10, "cifar-10-python.tar.gz"), (CIFAR10, "cifar-10-batches-py"), (CIFAR100, "cifar-100-python")],
)
def test_the_version_made_of_pickles_is_refused_and_the_binary_one_named(
    tmp_path: Path, layout: CifarFiles, place: str
) -> None:
    write_folder(tmp_path / place, {}) if "." not in place else write_folder(tmp_path, {place: b"\x80\x04."})
    message = rf"{place} is the Python version of {layout.name}, .*never unpickles; get .*{layout.archive.name}"
    with pytest.raises(InvalidArgument, match=message):
        load_images(layout.name, data_dir=tmp_path)
    with pytest.raises((InvalidArgument, InvalidData), match=rf"{place}'? (is neither a folder nor|holds no folders)"):
        load_images(tmp_path / place)
    if (tmp_path / place).is_dir():
        with pytest.raises(InvalidArgument, match=message):
            load_images(layout.name, data_dir=tmp_path / place)


def test_a_missing_collection_is_reported_with_its_address_and_size(tmp_path: Path) -> None:
    with pytest.raises(
        MissingFile, match=r"neither cifar-10-binary.tar.gz nor cifar-10-batches-bin/ .*170 MB.*data_dir="
    ):
        load_images("cifar10", data_dir=tmp_path)
    with pytest.raises(MissingFile, match=r"holds no train_32x32.mat \(http://ufldl.*182 MB\).*or download=True"):
        load_images("svhn", data_dir=tmp_path)
    write_folder(tmp_path / CIFAR100.folder, {"train.bin": b"", "test.bin": b""})
    with pytest.raises(MissingFile, match=r"cifar-100-binary holds no fine_label_names.txt; unpack all of"):
        load_images("cifar100", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data_batch_3.bin", b"\1" * 3000, r"data_batch_3.bin of .* has 3,000 bytes, .*not a multiple of the 3,073"),
        ("test_batch.bin", b"", r"test_batch.bin of .* has 0 bytes"),
        ("data_batch_1.bin", bytes([10]) + b"\0" * 3072, r"the label 10 in record 0, and there are 10 classes"),
        ("batches.meta.txt", b"cat\n", r"the label 9 in record 1, and there are 1 classes"),
    ],
)
def test_damaged_cifar_files_are_refused_by_name(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    write_folder(tmp_path / CIFAR10.folder, cifar10_files() | {name: content})
    with pytest.raises(InvalidData, match=message):
        load_images("cifar10", data_dir=tmp_path)


def test_cifar_100_cut_short_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path, cifar100_files() | {"train.bin": b"\0" * 3073})
    with pytest.raises(InvalidData, match=r"train.bin of .* has 3,073 bytes, .*not a multiple of the 3,074"):
        load_images("cifar100", data_dir=tmp_path)


def test_archives_that_are_cut_short_or_of_another_kind_are_refused(tmp_path: Path) -> None:
    path = write_archive(tmp_path / CIFAR10.archive.name, cifar10_files(), CIFAR10.folder)
    whole = path.read_bytes()
    damaged = (whole[: len(whole) // 2], gzip.compress(b"no archive"), b"<html>404</html>", b"")
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(
            InvalidData, match=r"cifar-10-binary.tar.gz cannot be read as .tar.gz: it is truncated, damaged"
        ):
            load_images("cifar10", data_dir=tmp_path)
    write_archive(path, {"data_batch_1": b"pickle"}, "cifar-10-batches-py")
    with pytest.raises(InvalidData, match=r"holds no data_batch_1.bin; it is not the published archive"):
        load_images("cifar10", data_dir=tmp_path)


# SVHN


def write_svhn(folder: Path, images: AnyArray, labels: AnyArray, **more: AnyArray) -> Path:
    for name in ("train_32x32.mat", "test_32x32.mat"):
        savemat(folder / name, {"X": images, "y": labels, **more}, do_compression=True)
    return folder


def test_svhn_is_read_and_its_label_10_is_the_digit_0(tmp_path: Path) -> None:
    images = pixels(4, 0)
    write_svhn(tmp_path, images.transpose(1, 2, 3, 0), np.array([[1], [10], [9], [2]], dtype=np.uint8))
    savemat(tmp_path / "test_32x32.mat", {"X": images[0], "y": np.array([[10]], dtype=np.uint8)})
    found = load_images("svhn", data_dir=tmp_path)
    assert np.array_equal(found.images, images)
    assert found.labels.tolist() == [1, 0, 9, 2]
    assert found.classes == tuple("0123456789")
    assert np.array_equal(found.test_images, images[:1])
    assert found.test_labels.tolist() == [0]
    assert found.images.flags.c_contiguous


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (pixels(4, 0), [1, 2, 3, 4], r"X of .*train_32x32.mat has shape \(4, 32, 32, 3\) and type uint8; cropped"),
        (np.zeros((32, 32, 3, 2)), [1, 2], r"X of .* type float64; cropped digits are 32x32x3xN uint8"),
        (np.zeros((32, 32), np.uint8), [1], r"X of .* has shape \(32, 32\)"),
        (np.zeros((32, 32, 3, 2), np.uint8), [1, 2, 3], r"y of .* has 3 labels for 2 images"),
        (np.zeros((32, 32, 3, 2), np.uint8), [1, 0], r"y of .* holds 0 at position 1; labels go from 1 to 10"),
        (np.zeros((32, 32, 3, 2), np.uint8), [1, 1.5], r"y of .* holds 1.5 at position 1"),
    ],
)
def test_mat_files_of_another_kind_are_refused(
    tmp_path: Path, images: AnyArray, labels: list[float], message: str
) -> None:
    with pytest.raises(InvalidData, match=message):
        load_images("svhn", data_dir=write_svhn(tmp_path, images, np.array(labels)))


def test_mat_files_that_are_damaged_or_hold_other_arrays_are_refused(tmp_path: Path) -> None:
    write_svhn(tmp_path, pixels(4, 0).transpose(1, 2, 3, 0), np.array([1, 2, 3, 4]))
    path = tmp_path / "train_32x32.mat"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(InvalidData, match=r"train_32x32.mat cannot be read as .mat: it is truncated"):
        load_images("svhn", data_dir=tmp_path)
    savemat(path, {"X": np.zeros((32, 32, 3, 2), np.uint8)})
    with pytest.raises(InvalidData, match=r"holds no array y; it is not one of SVHN's"):
        load_images("svhn", data_dir=tmp_path)


# Folders


def save_png(path: Path, image: ImageArray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path)


def save_classes(folder: Path, seed: int, names: tuple[str, ...] = ("10", "9", "cat")) -> ImageArray:
    images = pixels(2 * len(names), seed, 4, 6)
    for place, name in enumerate(names):
        save_png(folder / name / "a2.png", images[2 * place])
        save_png(folder / name / "inner" / "b.PNG", images[2 * place + 1])
    return images


def test_a_folder_for_each_class_is_read_in_natural_order(tmp_path: Path) -> None:
    images = save_classes(tmp_path / "pets", 0)
    write_folder(tmp_path / "pets" / ".git", {"x.png": b""})
    write_folder(tmp_path / "pets" / "cat", {"notes.txt": b"", "._a2.png": b""})
    found = load_images(tmp_path / "pets")
    assert found.name == "pets"
    assert found.classes == ("9", "10", "cat")
    assert found.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert np.array_equal(found.images, images[[2, 3, 0, 1, 4, 5]])
    assert not found.has_test
    assert found.test_images.shape == (0, 4, 6, 3)


def test_train_and_test_folders_are_told_apart(tmp_path: Path) -> None:
    images = save_classes(tmp_path / "train", 0, ("ant", "bee", "cat"))
    others = save_classes(tmp_path / "test", 1, ("ant", "cat"))
    found = load_images(str(tmp_path))
    assert np.array_equal(found.images, images)
    assert np.array_equal(found.test_images, others)
    assert found.test_labels.tolist() == [0, 0, 2, 2]


def test_a_folder_without_a_test_set_can_be_split_without_copying_first(tmp_path: Path) -> None:
    save_classes(tmp_path, 0)
    found = load_images(tmp_path)
    data = found.as_dataset()
    assert data.features is found.images
    split = data.split(0.5, seed=0)
    assert split.features.shape == split.test_features.shape == (3, 4, 6, 3)
    assert split.features.dtype == np.uint8


def test_pictures_of_every_mode_become_rgb(tmp_path: Path) -> None:
    save_classes(tmp_path, 0, ("one", "two"))
    color = Image.new("RGBA", (6, 4), (200, 100, 50, 10))
    color.save(tmp_path / "one" / "c.png")
    color.convert("P").save(tmp_path / "one" / "d.png", transparency=bytes([0, 128]))
    Image.new("L", (6, 4), 7).save(tmp_path / "one" / "e.png", transparency=3)
    Image.new("1", (6, 4), 1).save(tmp_path / "one" / "f.bmp")
    found = load_images(tmp_path)
    corner = found.images[[1, 3, 4], 0, 0].tolist()
    assert corner == [[200, 100, 50], [7, 7, 7], [255, 255, 255]]


def test_a_picture_taken_on_its_side_is_set_upright(tmp_path: Path) -> None:
    save_classes(tmp_path, 0, ("one", "two"))
    image = Image.fromarray(pixels(1, 5, 6, 4)[0])
    note = Image.Exif()
    note[0x0112] = 6  # The camera was turned: the stored rows are columns.
    image.save(tmp_path / "two" / "z.png", exif=note)
    found = load_images(tmp_path)
    assert np.array_equal(found.images[-1], np.rot90(np.asarray(image), -1))


def test_pictures_of_several_sizes_are_refused_unless_a_size_is_given(tmp_path: Path) -> None:
    save_classes(tmp_path, 0, ("one", "two"))
    save_png(tmp_path / "two" / "z.png", np.full((9, 5, 3), 77, np.uint8))
    with pytest.raises(InvalidData, match=r"z.png is 9 pixels high and 5 wide, and .*a2.png 4 and 6; .*pass size="):
        load_images(tmp_path)
    found = load_images(tmp_path, size=(3, 2))
    assert found.size == (3, 2)
    assert (found.images[-1] == 77).all()


@pytest.mark.parametrize("size", [(0, 4), (4,), 32, (4.0, 4), "32"])
def test_a_size_that_is_none_is_refused(tmp_path: Path, size: Any) -> None:
    save_classes(tmp_path, 0)
    with pytest.raises(InvalidArgument, match=r"size=.* is not a height and width in pixels; pass two integers"):
        load_images(tmp_path, size=size)


def test_a_picture_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    save_classes(tmp_path, 0)
    path = tmp_path / "cat" / "broken.png"
    path.write_bytes(b"no picture")
    with pytest.raises(InvalidData, match=r"cat/broken.png is not a picture of a known format; fix or remove it"):
        load_images(tmp_path)
    path.write_bytes((tmp_path / "cat" / "a2.png").read_bytes()[:60])
    with pytest.raises(InvalidData, match=r"cat/broken.png cannot be read as a picture \(.*\); fix or remove it"):
        load_images(tmp_path)
    Image.fromarray(np.full((4, 6), 40_000, np.uint16)).save(path)
    with pytest.raises(InvalidData, match=r"cat/broken.png has more than 8 bits per channel; save it with 8"):
        load_images(tmp_path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InvalidData, match=r"cat/broken.png is a named pipe, not a regular file; remove it, or put a"):
        load_images(tmp_path)


def test_folders_that_are_not_made_so_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidData, match="holds no folders; it must have one folder of pictures for each of at least two classes"
    ):
        load_images(tmp_path)
    save_classes(tmp_path / "train", 0)
    with pytest.raises(MissingFile, match=r"has a folder train and none called test; add it, or pass .*train"):
        load_images(tmp_path)
    save_classes(tmp_path / "test", 0, ("cat", "dog"))
    with pytest.raises(
        InvalidData, match=r"test/dog is a class that .*train does not have; the classes are 9, 10, cat"
    ):
        load_images(tmp_path)
    (tmp_path / "train" / "empty").mkdir()
    (tmp_path / "test" / "dog").rename(tmp_path / "test" / "empty")
    with pytest.raises(InvalidData, match=r"train/empty has no pictures \(.bmp, .*\); add some, or remove"):
        load_images(tmp_path)
    with pytest.raises(InvalidData, match="holds 1 folder;"):
        load_images(tmp_path / "train" / "cat")


# Parquet


def png(image: ImageArray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "png")
    return buffer.getvalue()


def write_parquet(path: Path, **columns: object) -> str:
    pq.write_table(pa.table(columns), path)
    return str(path)


def test_a_parquet_file_holds_pictures_as_bytes_or_in_records(tmp_path: Path) -> None:
    images = pixels(3, 0, 4, 6)
    contents = [png(image) for image in images]
    plain = write_parquet(tmp_path / "pets.parquet", label=["dog", "cat", "dog"], image=contents)
    as_records = [{"bytes": content, "path": None} for content in contents]
    other = write_parquet(tmp_path / "test.parquet", img=as_records, label=["cat", "cat", "dog"])
    large = write_parquet(tmp_path / "large.parquet", photo=pa.array(contents, pa.large_binary()), label=[10, 9, 10])
    found = load_images(plain, test=other)
    assert found.name == "pets"
    assert found.classes == ("cat", "dog")
    assert found.labels.tolist() == [1, 0, 1]
    assert found.test_labels.tolist() == [0, 0, 1]
    assert np.array_equal(found.images, images)
    assert np.array_equal(found.test_images, images)
    assert load_images(large).classes == ("9", "10")
    assert load_images(large, size=(2, 2)).test_images.shape == (0, 2, 2, 3)


def test_the_column_of_labels_can_be_named(tmp_path: Path) -> None:
    contents = [png(image) for image in pixels(2, 0, 4, 6)]
    path = write_parquet(tmp_path / "a.parquet", img=contents, fine_label=[7, 3], coarse_label=[1, 0])
    assert load_images(f"{path}::fine_label", test=path).test_labels.tolist() == [1, 0]
    with pytest.raises(
        MissingFile, match=r"no column of labels, or several .*fine_label .*name one with .*a.parquet::NAME"
    ):
        load_images(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"image": [b"x", b"y"], "label": [0, 1]}, r"the picture in row 0 of .*x.parquet is not a picture of a known"),
        (
            {"image": ["x", "y"], "label": [0, 1]},
            r"column 'image' of .* is of type string; use bytes, or records with",
        ),
        ({"image": pa.array([b"x", None]), "label": [0, 1]}, r"column 'image' of .* has no value in row 1"),
        ({"image": [{"bytes": b"x"}, {"bytes": None}], "label": [0, 1]}, r"column 'image' of .* has no value in row 1"),
        ({"image": [{"path": "a"}], "label": [0]}, r"column 'image' of .* is of type struct<path: string>; use bytes"),
        ({"image": pa.array([], pa.binary()), "label": pa.array([], pa.int64())}, "x.parquet holds no rows"),
        ({"a": [b""], "b": [b""], "label": [0]}, "no column called image or img, and 2 that could hold pictures; it h"),
        ({"x": [1.0], "label": [0]}, "no column called image or img, and none that could hold pictures; it holds x"),
    ],
)
def test_parquet_files_without_pictures_are_refused(tmp_path: Path, columns: dict[str, object], message: str) -> None:
    with pytest.raises(DubitoError, match=message):
        load_images(write_parquet(tmp_path / "x.parquet", **columns))


def test_a_class_of_the_test_file_alone_is_refused(tmp_path: Path) -> None:
    contents = [png(image) for image in pixels(2, 0, 4, 6)]
    path = write_parquet(tmp_path / "a.parquet", image=contents, label=["cat", "dog"])
    other = write_parquet(tmp_path / "b.parquet", image=contents, label=["cat", "owl"])
    with pytest.raises(InvalidData, match=r"b.parquet has the class 'owl', which the training file does not have"):
        load_images(path, test=other)
    (tmp_path / "c.csv").write_text("label\ncat\n")
    with pytest.raises(InvalidArgument, match=r"c.csv is not a Parquet file"):
        load_images(path, test=str(tmp_path / "c.csv"))
    with pytest.raises(InvalidData, match="has only one class"):
        load_images(write_parquet(tmp_path / "d.parquet", image=contents, label=["cat", "cat"]))


# The door


def test_what_is_neither_a_name_nor_a_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match=r"source='cifar-10' is neither a path nor .*svhn\); did you mean 'cifar10'"):
        load_images("cifar-10")
    with pytest.raises(MissingFile, match="check the path"):
        load_images(tmp_path / "nowhere")
    (tmp_path / "x.zip").write_bytes(b"")
    with pytest.raises(InvalidArgument, match=r"is neither a folder nor a \.parquet file"):
        load_images(tmp_path / "x.zip")
    with pytest.raises(MissingFile, match=r"x.parquet does not exist; check the path"):
        load_images(tmp_path / "x.parquet")
    with pytest.raises(InvalidArgument, match=r"data_dir='.*x.zip' is a file; pass the folder that holds it"):
        load_images("cifar10", data_dir=tmp_path / "x.zip")
    with pytest.raises(MissingFile, match=r"data_dir='.*none' does not exist; check the path"):
        load_images("cifar10", data_dir=tmp_path / "none")


def test_arguments_that_mean_nothing_for_a_source_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="data_dir is for published collections, not for source="):
        load_images(tmp_path, data_dir=tmp_path)
    with pytest.raises(InvalidArgument, match="download is for published collections"):
        load_images(tmp_path, download=True)
    with pytest.raises(InvalidArgument, match="size is for pictures in a folder or a Parquet file"):
        load_images("svhn", size=(8, 8))
    with pytest.raises(InvalidArgument, match="test is for Parquet files, not for source='cifar10'; leave it out"):
        load_images("cifar10", test="x.parquet")


def test_collections_are_kept_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUBITO_DATA", str(tmp_path / "named"))
    assert default_folder() == tmp_path / "named"
    monkeypatch.delenv("DUBITO_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "dubito"
    write_folder(tmp_path / "dubito" / CIFAR10.folder, cifar10_files())
    check_cifar10(load_images("cifar10"))
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_folder() == Path.home() / ".cache" / "dubito"


@pytest.mark.parametrize(
    ("images", "labels", "test_images", "message"),
    [
        (pixels(0, 0), [], pixels(0, 0), "made has no images"),
        (pixels(2, 0), [0], pixels(0, 0), r"the images of made are 2, and their labels have shape \(1,\)"),
        (pixels(2, 0), [0, 2], pixels(0, 0), "the label 2 at number 1, and there are 2 classes; labels go from 0 to 1"),
        (pixels(2, 0)[..., :1], [0, 1], pixels(0, 0), r"the images of made have shape \(2, 32, 32, 1\)"),
        (pixels(2, 0).astype(np.float32), [0, 1], pixels(0, 0), "and type float32; pass"),
        (pixels(2, 0), [0, 1], pixels(0, 0, 8, 8), r"the test images of made have shape \(0, 8, 8, 3\)"),
    ],
)
def test_an_image_set_holds_together(
    images: AnyArray, labels: list[int], test_images: ImageArray, message: str
) -> None:
    nothing = np.empty(0, dtype=np.int64)
    with pytest.raises(InvalidData, match=message):
        ImageSet("made", images, np.array(labels, dtype=np.int64), ("a", "b"), test_images, nothing)


def test_pictures_are_held_within_the_bound_of_inputs(tmp_path: Path) -> None:
    for name in ("pear", "plum"):
        (tmp_path / name).mkdir()
        for number in range(3):
            Image.new("RGB", (100, 100)).save(tmp_path / name / f"{number}.png")
    with input_limit(100_000), pytest.raises(MemoryLimit, match=r"the array of 6 pictures takes 180 kB of memory"):
        read_folder(tmp_path)
    with input_limit(10_000), pytest.raises(MemoryLimit, match=r"0.png unpacks to more than the 10 kB that inputs"):
        read_folder(tmp_path, size=(2, 2))
