"""The door: what comes in, in which forms, and what is sent back with its fix."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st

from dubito import native as compiled
from dubito.errors import DubitoError, InvalidArgument, InvalidData
from dubito.matrix import AnyArray, OnDevice, Rows, Stack
from dubito.request.arrays import (
    as_array,
    as_matrix,
    check_budget,
    check_choice,
    check_features,
    check_finite,
    check_integer,
    check_memory_limit,
    check_real,
    refuse_zero_rows,
)
from dubito.request.rows import check_candidates, check_labeled, check_rows

VALUES = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

FORMS: dict[str, Callable[[], object]] = {
    "an array": lambda: VALUES,
    "a Fortran array": lambda: np.asfortranarray(VALUES),
    "a list": lambda: VALUES.tolist(),
    "a tuple of arrays": lambda: tuple(VALUES),
    "integers": lambda: VALUES.astype(np.int16),
    "float16": lambda: VALUES.astype(np.float16),
    "big-endian float16": lambda: VALUES.astype(">f2"),
    "long doubles": lambda: VALUES.astype(np.longdouble),
    "a tensor": lambda: torch.tensor(VALUES),
    "a float32 tensor": lambda: torch.tensor(VALUES, dtype=torch.float32),
    "a bfloat16 tensor": lambda: torch.tensor(VALUES, dtype=torch.bfloat16),
    "a tensor that wants gradients": lambda: torch.tensor(VALUES, requires_grad=True),
    "a transposed tensor": lambda: torch.tensor(VALUES.T.copy()).T,
    "a parameter": lambda: torch.nn.Parameter(torch.tensor(VALUES)),
    "a pandas frame": lambda: pd.DataFrame(VALUES, columns=["a", "b"]),
    "a Polars frame": lambda: pl.DataFrame({"a": VALUES[:, 0], "b": VALUES[:, 1]}),
    "a Polars array column": lambda: pl.Series(VALUES.tolist(), dtype=pl.Array(pl.Float64, 2)),
    "an Arrow table": lambda: pa.table({"a": VALUES[:, 0], "b": VALUES[:, 1]}),
    "an Arrow record batch": lambda: pa.record_batch({"a": VALUES[:, 0], "b": VALUES[:, 1]}),
    "an Arrow list column": lambda: pa.array(VALUES.tolist()),
    "an Arrow large-list column": lambda: pa.array(VALUES.tolist(), pa.large_list(pa.float64())),
    "an Arrow fixed-size-list column": lambda: pa.array(VALUES.tolist(), pa.list_(pa.float32(), 2)),
    "a chunked list column": lambda: pa.chunked_array([VALUES[:1].tolist(), VALUES[1:].tolist()]),
    "a chunked fixed-size-list column": lambda: pa.chunked_array(
        [pa.array(part.tolist(), pa.list_(pa.float64(), 2)) for part in (VALUES[:2], VALUES[2:])]
    ),
    "a sliced list column": lambda: pa.array([[9.0, 9.0], *VALUES.tolist(), [8.0, 8.0]])[1:4],
    "a sliced fixed-size-list column": lambda: pa.array(
        [[9.0, 9.0], *VALUES.tolist(), [8.0, 8.0]], pa.list_(pa.float64(), 2)
    )[1:4],
    "a sliced chunked column": lambda: pa.chunked_array(
        [pa.array([[9.0, 9.0], *part.tolist()], pa.list_(pa.float64(), 2)) for part in (VALUES,)]
    )[1:],
    "rows of a matrix": lambda: Rows(VALUES[::-1], np.array([2, 1, 0])),
    "a tensor on its device": lambda: OnDevice(torch.tensor(VALUES, dtype=torch.bfloat16)),
    "a stack": lambda: Stack([VALUES[:1].astype(np.float32), VALUES[1:]]),
    "a masked array with nothing masked": lambda: np.ma.masked_array(VALUES),
}


@pytest.mark.parametrize("form", FORMS)
def test_features_come_in_many_forms(form: str) -> None:
    matrix, largest = check_features("pool", FORMS[form]())
    assert np.asarray(matrix[:]).astype(np.float64).tolist() == VALUES.tolist()
    assert matrix.dtype.itemsize <= 8
    assert largest == 6.0


def test_bools_are_zeros_and_ones() -> None:
    matrix, largest = check_features("pool", VALUES > 2)
    assert (np.asarray(matrix[:]).tolist(), largest) == ((VALUES > 2).tolist(), 1.0)


@pytest.mark.parametrize("form", ["an array", "float16", "a tensor", "a float32 tensor", "rows of a matrix"])
def test_features_are_not_copied_where_they_need_not_be(form: str) -> None:
    value = FORMS[form]()
    matrix, _ = check_features("pool", value)
    if isinstance(value, np.ndarray | Rows):
        assert matrix is value
    else:
        assert np.shares_memory(np.asarray(matrix), np.asarray(value))


def test_a_memory_map_stays_one(tmp_path: Path) -> None:
    np.save(tmp_path / "pool.npy", VALUES)
    mapped = np.load(tmp_path / "pool.npy", mmap_mode="r")
    assert check_features("pool", mapped).matrix is mapped


RAGGED = pa.array([[1.0, 2.0], [3.0]])


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (np.zeros(3), InvalidArgument, r"pool has shape \(3,\); pass a 2-D array .*pool.reshape\(-1, 1\)"),
        (np.zeros((2, 2, 2)), InvalidArgument, r"pool has shape \(2, 2, 2\); pass a 2-D array \(rows, features\)\.$"),
        (7.0, InvalidArgument, r"pool has shape \(\)"),
        (np.zeros((0, 3)), InvalidArgument, r"pool is empty \(shape \(0, 3\)\); pass at least one row"),
        (np.zeros((3, 0)), InvalidArgument, r"pool has no features \(shape \(3, 0\)\); pass at least one column"),
        ([[1.0, np.nan]], InvalidData, r"pool holds nan at row 0, column 1; remove or fill such rows first"),
        ([[1.0], [-np.inf]], InvalidData, r"pool holds -inf at row 1, column 0; remove or fill"),
        ([[1.0], [2e140]], InvalidData, r"pool holds 2e\+140 at row 1, column 0; distances would overflow: rescale"),
        ([["a", "b"]], InvalidData, r"pool holds text instead of numbers \(dtype <U1\); pass numbers"),
        ([[b"a"]], InvalidData, r"pool holds bytes instead of numbers"),
        ([[1j]], InvalidData, r"pool holds complex numbers instead of numbers"),
        (np.array([["2026-01-01"]], dtype="M8[D]"), InvalidData, r"pool holds dates instead of numbers"),
        ([[None, 1.0]], InvalidData, r"pool holds objects instead of numbers"),
        ([[1.0, 2.0], [3.0]], InvalidArgument, r"pool cannot be read as an array .*pass equal rows of numbers"),
        (RAGGED, InvalidData, r"pool has 1 values in row 1 and 2 in row 0; pass equal rows"),
        (pa.array([[1.0], None]), InvalidData, r"pool holds 1 missing values; fill or drop them first"),
        (pa.array([[1.0], [None]]), InvalidData, r"pool holds 1 missing values"),
        (pa.table({"a": [1.0, None]}), InvalidData, r"pool holds 1 missing values"),
        (pa.table({"a": ["x"]}), InvalidData, r"pool holds objects instead of numbers"),
        (pd.DataFrame({"a": ["x"]}), InvalidData, r"pool holds objects instead of numbers"),
        (pd.DataFrame({"a": [True], "b": [2.0]}), InvalidData, r"pool holds objects .*such as pool.astype\(float\)"),
        (pd.Series([[1.0], [2.0]]), InvalidData, r"pool holds objects .*np.stack\(column\) for a column of lists"),
        (
            pl.Series([[1.0], [2.0]]),
            InvalidData,
            r"pool holds objects .*np.array\(column.to_list\(\)\) for a column of",
        ),
        (np.ma.masked_array([[1.0, 2.0]], mask=[[True, False]]), InvalidData, r"masked values; .*pool.filled\("),
        (scipy.sparse.csr_array(np.eye(2)), InvalidArgument, r"pool is a sparse matrix; pass pool.toarray\(\)"),
        (scipy.sparse.coo_matrix(np.eye(2)), InvalidArgument, r"pool is a sparse matrix"),
        (torch.eye(2).to_sparse(), InvalidArgument, r"pool is a sparse tensor; pass pool.to_dense\(\)"),
        (torch.tensor([[1.0, float("nan")]]), InvalidData, r"pool holds nan at row 0, column 1"),
        (
            OnDevice(torch.tensor([[1.0, float("nan")]])),
            InvalidData,
            r"pool holds nan at row 0, column 1; remove or fill",
        ),
        (OnDevice(torch.tensor([[1.0], [-float("inf")]])), InvalidData, r"pool holds -inf at row 1, column 0"),
        (OnDevice(torch.tensor([[2e140]], dtype=torch.float64)), InvalidData, r"pool holds 2e\+140 .*would overflow"),
        (OnDevice(torch.empty(0, 2)), InvalidArgument, r"pool is empty \(shape \(0, 2\)\)"),
        (np.array([[1.0], [np.nan]], dtype=np.float16), InvalidData, r"pool holds nan at row 1, column 0"),
        (np.array([[1.0], [np.inf]], dtype=np.float16), InvalidData, r"pool holds inf at row 1, column 0"),
        ({"a": 1}, InvalidData, r"pool holds objects instead of numbers"),
        (None, InvalidData, r"pool holds objects instead of numbers"),
        (Stack([np.zeros((0, 2))]), InvalidArgument, r"pool is empty"),
    ],
)
def test_features_that_cannot_be_used_are_named_with_their_hint(
    value: object, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        check_features("pool", value)


def test_what_a_frame_of_objects_is_told_to_become_is_taken() -> None:
    repaired = [
        pd.DataFrame({"a": [True, False], "b": [2.0, 3.0]}).astype(float),
        np.stack(pd.Series([[1.0, 2.0], [0.0, 3.0]]).tolist()),
        np.array(pl.Series([[1.0, 2.0], [0.0, 3.0]]).to_list()),
    ]
    for value in repaired:
        assert np.asarray(check_features("pool", value).matrix[:]).tolist() == [[1.0, 2.0], [0.0, 3.0]]


@given(st.sampled_from(["float16", "float32", "float64", "int8", "uint8", ">f4"]), st.integers(0, 2**31))
def test_the_largest_magnitude_is_found_in_every_type(dtype: str, seed: int) -> None:
    pool = np.random.default_rng(seed).integers(-100, 100, (5, 3))
    if dtype == "uint8":
        pool = np.abs(pool)
    pool = pool.astype(dtype)
    assert check_finite("pool", pool) == np.abs(pool.astype(np.float64)).max()


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 4999, 300_000])
def test_what_is_no_number_is_found_wherever_it_is(
    is_compiled: bool, dtype: str, bad: float, row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_compiled:
        monkeypatch.setattr(compiled, "steps", None)
    pool = np.linspace(-9.0, 5.0, 900_003, dtype=dtype).reshape(-1, 3)
    assert check_finite("pool", pool) == 9.0
    pool[row, 1] = bad
    with pytest.raises(InvalidData, match=rf"holds -?(nan|inf) at row {row}, column 1"):
        check_features("pool", pool)


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize("order", ["C", "F"])
def test_no_pool_is_copied_to_be_checked(
    is_compiled: bool, order: Literal["C", "F"], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_compiled:
        monkeypatch.setattr(compiled, "steps", None)
    pool = np.ones((100_000, 100), dtype=np.float16, order=order)
    tracemalloc.start()
    try:
        check_finite("pool", pool)
        assert tracemalloc.get_traced_memory()[1] < pool.nbytes / 5
    finally:
        tracemalloc.stop()


def test_nothing_has_no_magnitude() -> None:
    assert check_finite("head", np.empty((2, 0))) == 0.0


def test_a_row_of_zeros_has_no_direction() -> None:
    values = np.array([[0.0, 1.0], [0.0, 0.0]])
    for matrix in (values, OnDevice(torch.tensor(values))):
        with pytest.raises(InvalidData, match=r"pool is all zeros at row 1, .*drop such rows or pass metric='euclid"):
            refuse_zero_rows("pool", matrix)
        refuse_zero_rows("pool", matrix[:1])


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.bool])
def test_a_tensor_that_is_not_on_a_gpu_is_an_array(kind: torch.dtype) -> None:
    assert isinstance(as_matrix("pool", torch.ones((2, 2)).to(kind)), np.ndarray)


# Numbers and names


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check_budget(0, 5, 5), r"budget=0 is too small; pass budget >= 1"),
        (lambda: check_budget(-3, 5, 5), r"budget=-3 is too small; pass budget >= 1"),
        (lambda: check_budget(2.5, 5, 5), r"budget=2.5 is not a whole number; pass an integer >= 1"),
        (lambda: check_budget(2.0, 5, 5), r"budget=2.0 is not a whole number"),
        (lambda: check_budget("2", 5, 5), r"budget='2' is not a whole number"),
        (lambda: check_budget(True, 5, 5), r"budget=True is not a whole number"),
        (lambda: check_budget(None, 5, 5), r"budget=None is not a whole number"),
        (lambda: check_budget(np.array([2]), 5, 5), r"budget=array\(\[2\]\) is not a whole number"),
        (lambda: check_budget(6, 5, 5), r"budget=6 exceeds the 5 points in the pool; pass budget <= 5"),
        (lambda: check_budget(6, 5, 9), r"budget=6 exceeds the 5 candidates among the 9 pool points"),
        (lambda: check_budget(1, 0, 9), r"exceeds the 0 candidates .*there is nothing left to pick"),
        (
            lambda: check_real("strength", -1, least=0.0),
            r"strength=-1 is not allowed; pass a finite number >= 0",
        ),
        (lambda: check_real("strength", float("nan"), least=0.0), r"strength=nan is not allowed"),
        (lambda: check_real("strength", float("inf"), least=0.0), r"strength=inf is not allowed"),
        (lambda: check_real("strength", "1", least=0.0), r"strength='1' is not allowed"),
        (lambda: check_real("strength", 10**400, least=0.0), r"strength=10+\.\.\. is not allowed"),
        (lambda: check_memory_limit("9" * 200), r"memory_limit='9+' is not a size"),
        (lambda: check_choice("metric", np.array(["a", "b"]), ("cosine",)), r"metric=array\(.* is not known"),
        (lambda: check_real("strength", True, least=0.0), r"strength=True is not allowed"),
        (lambda: check_choice("metric", "cosin", ("cosine",)), r"metric='cosin' is not known; did you mean 'co"),
        (lambda: check_choice("metric", 7, ("cosine",)), r"metric=7 is not known; choose from cosine"),
        (lambda: check_memory_limit("much"), r"memory_limit='much' is not a size; pass bytes, or text such as"),
        (lambda: check_memory_limit(0), r"memory_limit=0 is too small"),
        (lambda: check_memory_limit(1.5), r"memory_limit=1.5 is not a whole number"),
        (lambda: check_integer("seed", "x" * 400, least=0), r"seed='x+\.\.\. is not a whole number"),
    ],
)
def test_a_bad_number_or_name_is_named_with_its_hint(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        call()


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_whole_numbers_come_as_python_or_numpy_has_them(value: object) -> None:
    assert check_budget(value, 5, 5) == 3


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), np.float16(0.5), np.longdouble(0.5)])
def test_numbers_come_as_python_or_numpy_has_them(value: object) -> None:
    assert check_real("strength", value, least=0.0) == 0.5


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("1kB", 1000), ("1.5 MB", 1_500_000), ("2gib", 2 << 30), ("1T", 10**12), (7, 7), ("3MiB", 3 << 20)],
)
def test_a_size_is_bytes_or_text(text: object, size: int) -> None:
    assert check_memory_limit(text) == size


# Rows


def test_labeled_rows_are_references_and_labeled_features_too() -> None:
    by_number = check_labeled([2, 0, 2, 2], VALUES)
    assert (by_number.rows.tolist(), by_number.references[:].tolist()) == ([0, 2], VALUES[[0, 2]].tolist())
    by_mask = check_labeled([True, False, True], VALUES)
    assert by_mask.rows.tolist() == [0, 2]
    by_features = check_labeled([[7.0, -9.0]], VALUES)
    assert (by_features.rows.tolist(), by_features.references[:].tolist()) == ([], [[7.0, -9.0]])
    assert by_features.largest == 9.0
    stacked = check_labeled(Stack([VALUES, VALUES]), VALUES)
    assert stacked.references.shape == (6, 2)


@pytest.mark.parametrize("nothing", [None, [], np.empty((0, 2)), np.empty((0, 5)), torch.empty(0, 2)])
def test_nothing_may_be_labeled(nothing: object) -> None:
    found = check_labeled(nothing, VALUES)
    assert found.references.shape == (0, 2)
    assert len(found.rows) == 0


@pytest.mark.parametrize(
    ("labeled", "kind", "message"),
    [
        ([[1.0]], InvalidArgument, r"labeled has 1 features and pool has 2; pass the same features for both"),
        (
            [0.5, 1.0],
            InvalidArgument,
            r"labeled is 1-D with dtype float64; pass row numbers as integers, a boolean mas",
        ),
        (
            [0, 3],
            InvalidArgument,
            "labeled holds 3 at position 1, which is not a row of the pool; pass row numbers from 0 to 2",
        ),
        ([-1], InvalidArgument, "labeled holds -1 at position 0, which is not a row of the pool"),
        ([True, False], InvalidArgument, r"labeled is a mask of 2 and the pool has 3 rows; pass one per row"),
        ([[1.0, np.nan]], InvalidData, r"labeled holds nan at row 0, column 1"),
        (["a"], InvalidArgument, r"labeled holds ids \('a'\), and the pool has none; pass ids="),
        ([["a"]], InvalidData, r"labeled holds text instead of numbers"),
        ([2, 0, 2], InvalidArgument, r"labeled holds an integer for each of the 3 rows .* some of them twice"),
    ],
)
def test_what_cannot_be_labeled_is_named_with_its_hint(labeled: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        check_labeled(labeled, VALUES)


def test_candidates_are_ascending_and_never_labeled() -> None:
    assert check_candidates([3, 1, 3], 4, np.array([1])).tolist() == [3]
    assert check_candidates([False, True, True, False], 4, np.array([1])).tolist() == [2]
    assert check_candidates(None, 3, np.array([1])).tolist() == [0, 2]


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([], r"candidates is empty; pass at least one row, or pass None for the whole pool"),
        ([[0, 1]], r"candidates has shape \(1, 2\); pass a 1-D mask or 1-D row numbers"),
        ([4], "candidates holds 4 at position 0, which is not a row of the pool; pass row numbers from 0 to 3"),
        ([0.0], r"candidates is 1-D with dtype float64"),
        ([True], r"candidates is a mask of 1 and the pool has 4 rows"),
        (["a"], r"candidates holds ids \('a'\), and the pool has none"),
    ],
)
def test_bad_candidates_are_named_with_their_hint(candidates: object, message: str) -> None:
    with pytest.raises(DubitoError, match=message):
        check_candidates(candidates, 4, np.empty(0, dtype=np.int64))


def test_a_mask_may_have_no_row_at_all() -> None:
    nothing: AnyArray = np.zeros(4, dtype=np.bool_)
    assert check_candidates(nothing, 4, np.empty(0, dtype=np.int64)).tolist() == []


@pytest.mark.parametrize("unsigned", [np.array([2, 0], dtype=np.uint64), np.array([2, 0], dtype=np.int8)])
def test_row_numbers_may_be_of_any_integer_type(unsigned: AnyArray) -> None:
    rows = check_rows("candidates", unsigned, 3)
    assert rows.tolist() == [0, 2]
    assert rows.dtype == np.int64


def test_a_text_column_of_a_frame_is_named() -> None:
    columns = {"x": [1.0, 2.0], "city": ["a", "b"]}
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns)):
        with pytest.raises(InvalidData, match=r"pool holds objects instead of numbers \(column 'city', dtype object\)"):
            as_array("pool", frame)
