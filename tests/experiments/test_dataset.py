"""Data whose classes are known: reading, dividing, and refusing what nothing can be learned from."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.experiments.data import builtin_dataset, make_dataset, read_dataset
from dubito.io import Columns, gathering_notes

POINTS = np.arange(24.0).reshape(12, 2)
NAMES = np.array(["cat", "dog", "owl"] * 4)


def test_labels_become_codes_in_the_order_of_their_classes() -> None:
    data = make_dataset("animals", POINTS, NAMES)
    assert data.classes == ("cat", "dog", "owl")
    assert data.labels.tolist() == [0, 1, 2] * 4
    assert not data.has_test
    assert make_dataset("numbers", POINTS, [10, 2, 3] * 4).classes == ("2", "3", "10")


def test_a_split_divides_every_class_and_repeats_with_its_seed() -> None:
    data = make_dataset("animals", POINTS, NAMES)
    split = data.split(0.25, seed=3)
    assert split.has_test
    assert np.bincount(split.labels).tolist() == [3, 3, 3]
    assert np.bincount(split.test_labels).tolist() == [1, 1, 1]
    rows = np.concatenate([split.features, split.test_features])
    assert sorted(map(tuple, rows)) == sorted(map(tuple, POINTS))
    assert np.array_equal(split.features, data.split(0.25, seed=3).features)
    assert any(not np.array_equal(split.features, data.split(0.25, seed=other).features) for other in range(5))


def test_both_parts_get_a_row_of_every_class_whatever_the_share() -> None:
    data = make_dataset("two", POINTS[:4], [0, 0, 1, 1])
    for share in (0.01, 0.99):
        split = data.split(share, seed=0)
        assert set(split.labels) == set(split.test_labels) == {0, 1}


def test_a_class_with_one_row_is_refused_by_name() -> None:
    data = make_dataset("animals", POINTS[:5], ["cat", "cat", "dog", "owl", "dog"])
    with pytest.raises(InvalidData, match=r"class 'owl' of animals has one row.*pass a test file"):
        data.split(0.2, seed=0)


def test_a_share_that_leaves_nothing_is_refused() -> None:
    for share in (0.0, 1.0):
        with pytest.raises(InvalidArgument, match="leaves no rows"):
            make_dataset("animals", POINTS, NAMES).split(share, seed=0)


def test_standardized_features_have_mean_0_and_deviation_1_and_constant_ones_are_0() -> None:
    features = np.column_stack([POINTS, np.full(12, 7.0)]).astype(np.float32)
    made = make_dataset("animals", features, NAMES, features[:3], NAMES[:3]).standardized()
    assert made.features.dtype == np.float32
    assert np.allclose(made.features.mean(axis=0), 0, atol=1e-6)
    assert np.allclose(made.features.std(axis=0), [1, 1, 0], atol=1e-6)
    assert np.array_equal(made.test_features, made.features[:3])


@pytest.mark.parametrize(
    ("features", "labels", "words"),
    [
        (np.ones((4, 2)), [0, 1, 0, 1], "the same in every row"),
        (POINTS[:4], [1, 1, 1, 1], "only one class"),
        (POINTS[:4], [0, 1], "pass one per row"),
        ([[0.0, np.nan], [1.0, 2.0]], [0, 1], "holds nan at row 0, column 1"),
        ([1.0, 2.0], [0, 1], "one row of numbers per item"),
    ],
)
def test_what_nothing_can_be_learned_from_is_refused(features: object, labels: object, words: str) -> None:
    with pytest.raises(InvalidData, match=words):
        make_dataset("mine", features, labels)


@pytest.mark.parametrize(
    ("features", "labels", "words"),
    [
        (POINTS[:2, :1], ["cat", "dog"], "pass features of one kind"),
        (POINTS[:2], ["cat"], "pass one for each of the 2 rows"),
        (POINTS[:2], ["cat", "yak"], "has the class 'yak', which the training part lacks"),
    ],
)
def test_a_test_set_of_another_kind_is_refused(features: object, labels: object, words: str) -> None:
    with pytest.raises(InvalidData, match=words):
        make_dataset("animals", POINTS, NAMES, features, labels)


def test_an_archive_may_hold_its_own_test_set(tmp_path: Path) -> None:
    path = str(tmp_path / "data.npz")
    np.savez(path, features=POINTS, labels=NAMES, test_features=POINTS[:2], test_labels=NAMES[:2])
    assert read_dataset(path).test_labels.tolist() == [0, 1]
    np.savez(path, features=POINTS.astype(np.float16), labels=NAMES)
    found = read_dataset(path)
    assert not found.has_test
    assert found.features.dtype == np.float16


def test_half_a_test_set_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "half.npz", features=POINTS, labels=NAMES, test_features=POINTS)
    with pytest.raises(InvalidData, match=r"half\.npz holds test_features alone; add test_labels\."):
        read_dataset(str(tmp_path / "half.npz"))


def test_a_table_is_read_by_its_columns_and_a_test_file_beside_it(tmp_path: Path) -> None:
    rows = "".join(f"{row},{x},{y},{name}\n" for row, ((x, y), name) in enumerate(zip(POINTS, NAMES, strict=True)))
    (tmp_path / "train.csv").write_text("key,x,y,species\n" + rows)
    (tmp_path / "test.csv").write_text("key,x,y,species\n" + rows[: rows.index("3,")])
    columns = Columns(id="key", label="species")
    found = read_dataset(str(tmp_path / "train.csv"), test=str(tmp_path / "test.csv"), columns=columns)
    assert np.array_equal(found.features, POINTS)
    assert found.test_labels.tolist() == [0, 1, 2]


def test_columns_of_a_test_table_are_matched_by_name_whatever_their_order(tmp_path: Path) -> None:
    train, test, lacking = (str(tmp_path / f"{name}.csv") for name in ("train", "test", "lacking"))
    Path(train).write_text("x,y,label\n0,1,a\n2,3,b\n")
    Path(test).write_text("row,label,y,x\nfirst,a,10,20\n")
    Path(lacking).write_text("x,z,label\n0,1,a\n")
    assert read_dataset(train, test=test).test_features.tolist() == [[20.0, 10.0]]
    with pytest.raises(InvalidData, match=r"lacking\.csv lacks the column 'y', a feature of .*train\.csv; add it"):
        read_dataset(train, test=lacking)
    np.savez(tmp_path / "test.npz", features=[[5.0, 6.0]], labels=np.array(["b"]))
    assert read_dataset(train, test=str(tmp_path / "test.npz")).test_features.tolist() == [[5.0, 6.0]]


@pytest.mark.parametrize("none", ["", " ", "NaN", "nan", "null", "NA", "None"])
def test_rows_without_a_label_take_no_part_and_are_reported(tmp_path: Path, none: str) -> None:
    (tmp_path / "data.csv").write_text(f"a,label\n1,a\n2,{none}\n3,b\n")
    np.savez(tmp_path / "data.npz", features=[[1.0], [2.0], [3.0]], labels=np.array(["a", none, "b"]))
    pq.write_table(
        pa.table({"x": [1.0, 2.0, 3.0], "label": ["a", none.strip() or None, "b"]}), tmp_path / "data.parquet"
    )
    for name in ("data.csv", "data.npz", "data.parquet"):
        with gathering_notes() as notes:
            found = read_dataset(str(tmp_path / name))
        assert (found.classes, found.features.tolist()) == (("a", "b"), [[1.0], [3.0]])
        assert any("2 of 3 rows have a label" in note for note in notes)


def test_labels_that_are_numbers_may_have_gaps_but_no_fractions(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", features=POINTS, labels=np.array([0.0, np.nan, 1.0] * 4))
    assert read_dataset(str(tmp_path / "data.npz")).labels.tolist() == [0, 1] * 4
    np.savez(tmp_path / "data.npz", features=POINTS, labels=np.array([0.0, 0.5] * 6))
    with pytest.raises(InvalidData, match="holds fractions; a class is text or an integer"):
        read_dataset(str(tmp_path / "data.npz"))
    np.savez(tmp_path / "data.npz", features=POINTS, labels=np.full(12, np.nan))
    with pytest.raises(InvalidData, match="has no label in any row"):
        read_dataset(str(tmp_path / "data.npz"))


def test_a_minus_one_is_a_class_or_none_as_one_says(tmp_path: Path) -> None:
    for name, labels in (("data.npz", np.array([-1, 0, 1] * 4)), ("text.npz", np.array(["-1", "0", "1"] * 4))):
        np.savez(tmp_path / name, features=POINTS, labels=labels)
        with pytest.raises(
            InvalidData, match=r"has the label -1 in 4 rows, which may be a class or mean no label; pass"
        ):
            read_dataset(str(tmp_path / name))
        none = read_dataset(str(tmp_path / name), columns=Columns(no_label=["-1"]))
        assert (none.classes, len(none.labels)) == (("0", "1"), 8)
        some = read_dataset(str(tmp_path / name), columns=Columns(no_label=["empty"]))
        assert (some.classes, len(some.labels)) == (("-1", "0", "1"), 12)


def test_a_file_without_labels_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", features=POINTS)
    with pytest.raises((MissingFile, InvalidData), match="labels"):
        read_dataset(str(tmp_path / "data.npz"))


def test_digits_and_toys_are_built_in() -> None:
    digits = builtin_dataset("digits", seed=0)
    assert digits.features.shape == (1797, 64)
    assert digits.features.max() == 1.0
    toy = builtin_dataset("quadrants", seed=1)
    assert toy.has_test
    assert not np.array_equal(toy.features, builtin_dataset("quadrants", seed=2).features)
    with pytest.raises(InvalidArgument, match=r"builtin='digit' is not known; did you mean 'digits'\?"):
        builtin_dataset("digit", seed=0)
