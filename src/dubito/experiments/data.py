"""Data with known classes, from files or built in, split by a seed into a training and a test part."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import get_args

import numpy as np

from dubito.errors import PASS, InvalidArgument, InvalidData, named
from dubito.io import Columns, PoolFile, Source, open_source, read_pool, split_spec
from dubito.io.labeled import read_labels
from dubito.io.lookup import ANY_COLUMNS, AS_FEATURES, check_role, choose_entries
from dubito.io.missing_values import Missing, fill_or_drop_missing, missing_as_nan
from dubito.io.source import as_one_array, note
from dubito.matrix import AnyArray, IntArray, Rows, len_of
from dubito.registry import Registry
from dubito.request.arrays import as_array, check_choice, check_finite, check_real
from dubito.request.labels import are_labels, as_labels

TEST_NAMES = ("test_features", "test_labels")
"""Arrays of an archive that hold its test set."""


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Features and their classes, with or without a test set.

    Examples
    --------
    >>> data = make_dataset("two", [[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"])
    >>> data.classes, data.labels.tolist(), data.has_test
    (('a', 'b'), [0, 1, 0, 1], False)
    """

    name: str
    features: AnyArray
    """(n, d), or (n, ...) for custom models; the training part if there is a test set."""
    labels: IntArray
    """(n,) class codes: indices into `classes`."""
    classes: tuple[str, ...]
    test_features: AnyArray
    """(t, d); no rows before a split."""
    test_labels: IntArray
    """(t,)"""

    @property
    def has_test(self) -> bool:
        """Whether there is a test set."""
        return len(self.test_labels) > 0

    def split(self, test_share: float, seed: int) -> "Dataset":
        """Hold out a share of every class as the test set; the same seed gives the same split.

        Every class has at least one row in each part. Rows keep their order.
        """
        if not 0 < check_real("test_share", test_share, least=0.0) < 1:
            problem = "leaves no rows for training or for testing"
            hint = f"{PASS} 0 < {named('test_share')} < 1."
            raise InvalidArgument(problem, argument="test_share", value=test_share, hint=hint)
        is_test = np.zeros(len(self.labels), dtype=np.bool_)
        generator = np.random.default_rng(seed)
        for code, name in enumerate(self.classes):
            rows = generator.permutation(np.flatnonzero(self.labels == code))
            if len(rows) < 2:
                problem = f"class {name!r} of {self.name} has one row, which cannot be in both training and test part"
                raise InvalidData(problem, hint="drop it, merge it with another class, or pass a test file.")
            is_test[rows[: min(max(1, round(len(rows) * test_share)), len(rows) - 1)]] = True
        return replace(
            self,
            features=self.features[~is_test],
            labels=self.labels[~is_test],
            test_features=self.features[is_test],
            test_labels=self.labels[is_test],
        )

    def standardized(self) -> "Dataset":
        """Features with mean 0 and standard deviation 1 over the training part; constant ones become 0."""
        training = np.asarray(self.features, dtype=np.float64)
        mean, deviation = training.mean(axis=0), training.std(axis=0)
        deviation = np.where(deviation > 0, deviation, 1.0)
        dtype = np.float32 if self.features.dtype.itemsize <= 4 else np.float64
        return replace(
            self,
            features=((training - mean) / deviation).astype(dtype),
            test_features=((self.test_features - mean) / deviation).astype(dtype),
        )


def make_dataset(
    name: str, features: object, labels: object, test_features: object = None, test_labels: object = None
) -> Dataset:
    """A dataset of arrays. Features must be finite, and not the same in every row.

    Parameters
    ----------
    name : str
        The name in messages and reports.
    features : array (n, d)
        float16, float32 and float64 are kept; other numbers become float64.
    labels : array (n,)
        Integers or text.
    test_features, test_labels : array, optional
        A test set; its classes must be among those of ``labels``.
    """
    matrix = _as_features(name, features)
    names = np.asarray(labels)
    if names.shape != (len(matrix),):
        hint = "pass one per row."
        raise InvalidData(f"labels of {name} have shape {names.shape} and there are {len(matrix)} rows", hint=hint)
    values, codes = np.unique(names, return_inverse=True)
    if len(values) < 2:
        raise InvalidData(f"labels of {name} have only one class ({values[0]})", hint="pass two or more classes.")
    if (matrix == matrix[0]).all():
        raise InvalidData(f"features of {name} are the same in every row", hint="pass features that differ.")
    classes, no_labels = tuple(str(value) for value in values.tolist()), np.empty(0, dtype=np.int64)
    data = Dataset(name, matrix, codes.astype(np.int64), classes, matrix[:0], no_labels)
    return data if test_features is None else _with_test(data, test_features, np.asarray(test_labels))


def read_dataset(
    spec: str,
    *,
    labeled: Sequence[str] = (),
    test: str | None = None,
    columns: Columns = ANY_COLUMNS,
    missing: str | None = None,
) -> Dataset:
    """Read features and labels from a file, and its test set if there is one.

    Parameters
    ----------
    spec : str
        A path, as for `dubito.io.read_pool`. An ``.npz`` may contain ``test_features`` and ``test_labels``.
    labeled : sequence of str
        Files with labels of rows of ``spec``, as `dubito select` writes them, if it has none of its own.
    test : str, optional
        A second file with the test set; columns of a table are matched by name.
    columns : Columns
        Names of columns given by the user.
    missing : {"median", "drop"}, optional
        What to do about rows with missing features; by default they are an error. Medians are those of all labeled
        rows of ``spec``, including rows that are held out later, but not of ``test``.
    """
    return read_data_file(spec, labeled=labeled, test=test, columns=columns, missing=missing).dataset


@dataclass(frozen=True, slots=True, eq=False)
class DataFile:
    """A file, read as a pool (which has the names of columns) and as a dataset."""

    pool: PoolFile
    dataset: Dataset


def read_data_file(
    spec: str,
    *,
    labeled: Sequence[str] = (),
    test: str | None = None,
    columns: Columns = ANY_COLUMNS,
    missing: str | None = None,
) -> DataFile:
    """`read_dataset`, together with the pool file."""
    how: Missing | None = None if missing is None else check_choice("missing", missing, get_args(Missing))
    with missing_as_nan():
        pool = read_pool(spec, columns=columns)
        rows = _rows_labeled_in(labeled, pool, columns) if labeled else _labeled_rows(pool, columns)
        training = _without_missing(pool, how, *rows, has_test=test is not None)
        if test is not None:
            test_pool = _read_test_file(test, pool, columns)
            test_rows = _labeled_rows(test_pool, columns)
            test_part = _without_missing(test_pool, how, *test_rows, has_test=True, like=training[0])
            return DataFile(pool, make_dataset(spec, *training, *test_part))
    return DataFile(pool, make_dataset(spec, *training, *_test_arrays(pool.source.without(columns.ignore))))


def _rows_labeled_in(labeled: Sequence[str], pool: PoolFile, columns: Columns) -> tuple[AnyArray, AnyArray]:
    """Features and labels of the rows of the pool that other files label."""
    labels = read_labels(pool, labeled, columns)
    if not labels:
        hint = "add a column label, or pass --label-column NAME."
        raise InvalidData(f"{' and '.join(labeled)} hold no label of a row of {pool.source.path}", hint=hint)
    rows = np.array(sorted(labels))
    return as_one_array(Rows(pool.features, rows)), as_labels(np.array([labels[row] for row in rows.tolist()]))


def _labeled_rows(pool: PoolFile, columns: Columns) -> tuple[AnyArray, AnyArray]:
    """Features and labels of the labeled rows; a note says how many rows have no label."""
    source, n = pool.source, len_of(pool.features)
    (name,) = choose_entries(source, "labels", None, columns)
    check_role(source, name, source.entry(name), "labels")
    values = source.entry(name).values()
    kept = are_labels(f"{source.path} ({name})", values, columns.no_label)
    if any(isinstance(value, float) and not value.is_integer() for value in values[kept].tolist()):
        hint = "a class is text or an integer: name another column as the labels, or put the numbers into classes."
        raise InvalidData(f"{source.noun} {name!r} of {source.path} holds fractions", hint=hint)
    if len(values) != n or kept.all():
        return np.asarray(pool.features[:]), as_labels(values)
    if not kept.any():
        hint = "name the column of labels with --label-column."
        raise InvalidData(f"{source.path} has no label in any row ({name})", hint=hint)
    note(f"{source.path}: {kept.sum():,} of {n:,} rows have a {name}; the others are ignored.")
    return np.asarray(pool.features[:])[kept], as_labels(values[kept])


def _without_missing(
    pool: PoolFile,
    missing: Missing | None,
    features: AnyArray,
    labels: AnyArray,
    *,
    has_test: bool,
    like: AnyArray | None = None,
) -> tuple[AnyArray, AnyArray]:
    """Features without missing values, and their labels; a note says what was done.

    ``like`` are the rows whose medians are used; their own gaps may be filled with these medians already.
    """
    cleaned = fill_or_drop_missing(pool.source.path, features, pool.feature_names, missing, like)
    rows_used = "the training rows" if has_test else "all labeled rows, including those of the test set"
    if cleaned.note is not None:
        note(cleaned.note + (f", those of {rows_used}" if missing == "median" else ""))
    return np.asarray(cleaned.features[:]), labels if cleaned.rows is None else labels[cleaned.rows]


def _read_test_file(test: str, data: PoolFile, columns: Columns) -> PoolFile:
    """The test file, with the same columns as the data if both are tables."""
    source = open_source(split_spec(test)[0])
    if not data.feature_names or not source.is_table:
        return read_pool(test, columns=columns)
    missing = [name for name in data.feature_names if name not in source.names]
    if missing:
        hint = f"add it, or choose columns that both have with {AS_FEATURES}."
        raise InvalidData(f"{test} lacks the column {missing[0]!r}, a feature of {data.source.path}", hint=hint)
    return read_pool(test, columns=replace(columns, features=data.feature_names))


def _test_arrays(source: Source) -> tuple[AnyArray | None, AnyArray | None]:
    """Features and labels of the test set in an archive, if it has one."""
    names = () if source.is_table else [name for name in TEST_NAMES if name in source.names]
    if not names:
        return None, None
    if len(names) < len(TEST_NAMES):
        hint = f"add {' and '.join(set(TEST_NAMES) - set(names))}."
        raise InvalidData(f"{source.path} holds {names[0]} alone", hint=hint)
    features, labels = (np.asarray(source.entry(name).read()[:]) for name in TEST_NAMES)
    return features, labels


def _as_features(name: str, features: object) -> AnyArray:
    matrix = as_array("features", features)
    if matrix.ndim < 2 or 0 in matrix.shape:
        raise InvalidData(f"features of {name} have shape {matrix.shape}", hint="pass one row of numbers per item.")
    check_finite(f"features of {name}", matrix)
    return matrix if matrix.dtype.kind == "f" else matrix.astype(np.float64)


def _with_test(data: Dataset, features: object, labels: AnyArray) -> Dataset:
    matrix = _as_features(f"the test set of {data.name}", features)
    if matrix.shape[1:] != data.features.shape[1:]:
        raise InvalidData(
            f"the test set of {data.name} has rows of shape {matrix.shape[1:]} and the data {data.features.shape[1:]}",
            hint="pass features of one kind.",
        )
    if labels.shape != (len(matrix),):
        hint = f"pass one for each of the {len(matrix)} rows."
        raise InvalidData(f"test labels of {data.name} have shape {labels.shape}", hint=hint)
    code_of = {name: code for code, name in enumerate(data.classes)}
    unknown = sorted({str(value) for value in labels.tolist()} - set(code_of))
    if unknown:
        raise InvalidData(f"the test set of {data.name} has the class {unknown[0]!r}, which the training part lacks.")
    codes = np.array([code_of[str(value)] for value in labels.tolist()], dtype=np.int64)
    return replace(data, test_features=matrix, test_labels=codes)


# Data sets without files: the values of ``builtin`` in ``[data]``.


@lru_cache(maxsize=1)
def _read_digits() -> Dataset:
    from sklearn.datasets import load_digits

    data = load_digits()
    return make_dataset("digits", data.data / 16.0, data.target)


def digits(seed: int) -> Dataset:
    """Scikit-learn's 1,797 handwritten digits: 8 × 8 pixels between 0 and 1, the same for every seed."""
    return _read_digits()


DatasetMaker = Callable[[int], Dataset]
"""A function of a seed, which may return the same data for all seeds."""

BUILT_IN: dict[str, DatasetMaker] = {"digits": digits}
DATASETS = Registry("dubito.datasets", BUILT_IN)


def builtin_dataset(name: str, seed: int) -> Dataset:
    """The data set with this name for a seed.

    Examples
    --------
    >>> builtin_dataset("digits", 0).features.shape
    (1797, 64)
    """
    return DATASETS.find("builtin", name)(seed)
