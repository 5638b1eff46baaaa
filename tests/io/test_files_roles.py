"""Which array plays which role: by key, by the usual names, or because it alone fits."""

from pathlib import Path

import numpy as np
import pytest

from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.io import Columns, find_array, find_doubt, open_source, read_array, read_pool
from dubito.matrix import AnyArray

FEATURES = np.arange(12, dtype=np.float32).reshape(4, 3)


def save(path: Path, **named: AnyArray) -> str:
    np.savez(path, allow_pickle=True, **named)
    return str(path)


def test_one_npz_holds_everything_under_the_usual_names(tmp_path: Path) -> None:
    path = save(
        tmp_path / "all.npz",
        pool=FEATURES,
        labeled=np.array([0, 2]),
        logits=np.zeros((4, 2)),
        doubt=np.full(4, 0.5),
        ids=np.array([b"a", b"b", b"c", "é".encode()]),
        classes=np.array([1.0, 0.0, 1.0, 2.0]),
    )
    pool = read_pool(path)
    assert pool.source.names == ("pool", "labeled", "logits", "doubt", "ids", "classes")
    assert pool.ids is not None
    assert pool.ids.tolist() == ["a", "b", "c", "é"]
    np.testing.assert_array_equal(np.asarray(find_array(pool.source, "labeled")), [0, 2])
    found = find_doubt(pool.source)
    assert found is not None
    assert found[0] == "logits"
    labels = read_array(path, "labels")
    assert labels.dtype == np.int64
    assert labels.tolist() == [1, 0, 1, 2]
    assert find_array(pool.source, "probabilities") is None


@pytest.mark.parametrize("name", ["head", "head.weight"])
def test_a_head_is_found_by_its_name_and_taken_for_no_features(tmp_path: Path, name: str) -> None:
    path = save(tmp_path / "all.npz", x=FEATURES, **{name: np.eye(2, 3)})
    np.testing.assert_array_equal(read_array(path, "head"), np.eye(2, 3))
    np.testing.assert_array_equal(np.asarray(read_pool(path).features), FEATURES)
    without = save(tmp_path / "without.npz", features=FEATURES, ids=np.arange(4))
    assert find_array(open_source(without), "head") is None
    with pytest.raises(MissingFile, match=r"no array called head or head.weight, and none that could be the head"):
        read_array(without, "head")


def test_an_opened_source_can_be_read_from(tmp_path: Path) -> None:
    source = open_source(save(tmp_path / "all.npz", features=FEATURES))
    np.testing.assert_array_equal(np.asarray(read_array(source, "features")), FEATURES)


def test_a_file_without_doubt_gives_none(tmp_path: Path) -> None:
    assert find_doubt(open_source(save(tmp_path / "pool.npz", features=FEATURES))) is None


def test_a_key_names_an_array(tmp_path: Path) -> None:
    path = save(tmp_path / "all.npz", features=FEATURES, other=FEATURES + 1)
    np.testing.assert_array_equal(np.asarray(read_pool(f"{path}::other").features), FEATURES + 1)


def test_a_path_with_two_colons_that_exists_is_a_path(tmp_path: Path) -> None:
    np.save(tmp_path / "odd::name.npy", FEATURES)
    assert read_pool(str(tmp_path / "odd::name.npy")).features.shape == (4, 3)


@pytest.mark.parametrize("spec", ["pool.npz::", "::key"])
def test_half_a_key_is_refused(spec: str) -> None:
    with pytest.raises(InvalidArgument, match=r"is not of the form path::key"):
        read_pool(spec)


def test_a_wrong_key_is_answered_with_the_nearest(tmp_path: Path) -> None:
    path = save(tmp_path / "all.npz", features=FEATURES, ids=np.arange(4))
    with pytest.raises(
        MissingFile, match=r"has no array 'featurs'; did you mean 'features'\? it holds features \(4, 3\)"
    ):
        read_pool(f"{path}::featurs")
    with pytest.raises(MissingFile, match=r"has no array 'zzz'; it holds"):
        read_pool(f"{path}::zzz")


def test_an_npy_has_no_keys(tmp_path: Path) -> None:
    np.save(tmp_path / "pool.npy", FEATURES)
    with pytest.raises(MissingFile, match=r"pool.npy holds one array without a name; leave out 'x'"):
        read_pool(f"{tmp_path}/pool.npy::x")


def test_the_only_array_that_fits_is_taken(tmp_path: Path) -> None:
    path = save(tmp_path / "all.npz", x=FEATURES, probabilities=np.full((4, 2), 0.5), mystery=np.zeros(4))
    np.testing.assert_array_equal(np.asarray(read_array(path, "features")), FEATURES)
    assert read_array(path, "doubt").tolist() == [0.0] * 4
    alone = save(tmp_path / "alone.npz", arr_0=FEATURES)
    np.testing.assert_array_equal(read_array(alone, "probabilities"), FEATURES)


def test_two_arrays_that_fit_are_listed(tmp_path: Path) -> None:
    path = save(tmp_path / "all.npz", x=FEATURES, y=FEATURES)
    with pytest.raises(
        MissingFile,
        match=r"no array called features or embeddings or embedding or pool, and 2 that could .* x \(4, 3\) float32, y",
    ):
        read_array(path, "features")
    with pytest.raises(MissingFile, match=r"and none that could be the doubt .*Name one with .*all.npz::NAME"):
        read_array(path, "doubt")


def test_a_long_listing_is_cut(tmp_path: Path) -> None:
    path = save(tmp_path / "all.npz", **{f"x{i}": FEATURES for i in range(20)})
    with pytest.raises(MissingFile, match=r"x11 \(4, 3\) float32 and 8 more"):
        read_array(path, "features")


def test_labeled_takes_the_features_of_another_file(tmp_path: Path) -> None:
    path = save(tmp_path / "seen.npz", embeddings=FEATURES, labels=np.arange(4))
    np.testing.assert_array_equal(np.asarray(read_array(path, "labeled")), FEATURES)
    assert find_array(open_source(path), "labeled") is None


def test_labeled_masks_and_rows_keep_their_type(tmp_path: Path) -> None:
    for values in (np.array([True, False]), np.array([3, 1], dtype=np.uint8)):
        np.save(tmp_path / "seen.npy", values)
        labeled = read_array(str(tmp_path / "seen.npy"), "labeled")
        assert labeled.dtype == values.dtype
        assert labeled.shape == (2,)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros(3), r"pool.npy is \(3,\) float64, but features must be 2-D"),
        (np.zeros((2, 2, 2)), r"pool.npy is \(2, 2, 2\) float64, but features"),
        (np.array([["a"]]), r"pool.npy is \(1, 1\) <U1, but features must be 2-D \(n, d\) numbers"),
        (np.zeros((2, 2), complex), r"pool.npy is \(2, 2\) complex128, but features"),
    ],
)
def test_what_is_no_matrix_of_numbers_is_refused(tmp_path: Path, values: AnyArray, message: str) -> None:
    np.save(tmp_path / "pool.npy", values)
    with pytest.raises(InvalidData, match=message):
        read_pool(str(tmp_path / "pool.npy"))


def test_feature_columns_are_for_tables(tmp_path: Path) -> None:
    path = save(tmp_path / "all.npz", x=FEATURES)
    with pytest.raises(InvalidArgument, match=r"feature columns are for CSV and Parquet, not for .*all.npz"):
        read_pool(path, columns=Columns(features=["x"]))


def test_ids_must_be_unique_and_one_for_each_row(tmp_path: Path) -> None:
    twice = save(tmp_path / "twice.npz", features=FEATURES, ids=np.array(["a", "b", "c", "b"]))
    with pytest.raises(InvalidData, match=r"twice.npz repeats the id 'b' \(rows 1 and 3\)"):
        read_pool(twice)
    short = save(tmp_path / "short.npz", features=FEATURES, ids=np.arange(3))
    with pytest.raises(InvalidData, match=r"short.npz has 3 ids for 4 rows"):
        read_pool(short)
    broken = save(tmp_path / "broken.npz", features=FEATURES, ids=np.array([1.5, 2, np.inf, 4]))
    with pytest.raises(InvalidData, match=r"'ids' of .*broken.npz holds fractions or NaN"):
        read_pool(broken)
