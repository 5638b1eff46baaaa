"""Notes on the features of a pool: which columns they are, how they are scaled, and which may not be features."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from dubito.io.lookup import USUAL_NAMES, Columns, choose_entries, unused_number_columns, usual_name
from dubito.io.opening import open_source, split_spec
from dubito.io.roles import PoolFile
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, Matrix, len_of
from dubito.request.columns import non_features
from dubito.request.labels import are_labels, label_keys
from dubito.request.scaling import describe_dominant, measure_scale

# Whether features are standardized: the columns of a table have different units, those of an embedding do not.

StandardizeMode = Literal["auto", "yes", "no"]


def should_standardize(mode: StandardizeMode, feature_names: tuple[str, ...]) -> bool:
    """Whether to standardize. ``"auto"`` does if the features are columns of a table, but not for embeddings.

    A single array and a column of lists count as embeddings, whose numbers are all on the scale of one model.
    """
    return mode == "yes" or (mode == "auto" and len(feature_names) > 1)


def read_feature_columns(spec: str, columns: Columns) -> tuple[str, ...]:
    """The columns of a table that are features; none for a single array. Only headers are read."""
    path, key = split_spec(spec)
    source = open_source(path).without(columns.ignore)
    chosen = choose_entries(source, "features", key, columns)
    return tuple(chosen) if source.is_table and source.entry(chosen[0]).ndim == 1 else ()


def describe_scale(mode: StandardizeMode, feature_names: tuple[str, ...], features: Matrix) -> str | None:
    """A note that columns are standardized by default, and which of them would dominate the distances otherwise."""
    if mode != "auto" or not should_standardize(mode, feature_names) or not len_of(features):
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        scale = measure_scale(features)
    if not (np.isfinite(scale.mean).all() and np.isfinite(scale.share).all()):
        return None  # `check_points` raises for missing, infinite and very large values.
    dominant = describe_dominant(scale, feature_names)
    reason = f"unscaled, {dominant}" if dominant else "mean 0 and standard deviation 1 each"
    return f"columns are standardized ({reason}); --standardize no leaves them unscaled"


# Columns that are used as features but may be something else: ids, probabilities, columns derived from the label.

MOST_NAMED = 5
"""Maximum number of columns in a note that is not a warning."""
MOST_ROWS, MOST_CELLS, FEWEST_ROWS = 10_000, 4_000_000, 20
"""Limits of the sample that is inspected, and the rows needed to recognize ids by their distinct whole numbers."""
SUM_TOLERANCE = 1e-3
ID_NAME = re.compile(r"(?i:(^|[_\-. ])(id|ids|uid|uuid|guid)$)|[a-z](Id|ID)$")
NUMBER_NAME = re.compile(r"(?i:(^|[_\-. ])(key|nr|no|num|number|code)$|nummer$)|[a-z](Nr|No|Key)$")
"""Names of ids. Columns whose name matches the second pattern are ids only if their numbers are all different."""
STATUS_NAME = re.compile(
    r"(is|has|already|was)?[_\-. ]?(un)?(label|labell?ed|annotated|tagged|done|reviewed|gelabelt|annotiert)",
    re.IGNORECASE,
)
PLACEHOLDERS = (-999.0, -9999.0, -99999.0, 999.0, 9999.0, 99999.0)
"""Numbers that often stand for missing values."""
FEWEST_PLACEHOLDERS, PLACEHOLDER_SHARE = 3, 0.01
"""Minimum number and share of the rows with a placeholder."""
PREFIX = re.compile(r"(.*[_\-. ]|.*?)(\d+|[^_\-. ]*)$")
"""The shared beginning of the names of related columns: p_ of p_cat, prob of prob12."""


def describe_features(pool: PoolFile, columns: Columns) -> Iterator[str]:
    """Notes on which columns of a table are features, and a warning about each that looks like something else."""
    names = pool.feature_names
    shown = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
    yield f"{len(names)} feature{'s' * (len(names) > 1)}: {shown}"
    if columns.features:
        return
    has_role = {usual_name(pool.source, role) for role in USUAL_NAMES}
    strays = [name for name in non_features(pool.source.names) if name not in has_role]
    if strays:
        yield f"left out because of their names: {', '.join(strays)}; --feature-columns includes them"
    yield from _describe_suspicious_columns(pool, columns)


def describe_list_column(pool: PoolFile, spec: str, columns: Columns) -> Iterator[str]:
    """A note on which column of lists holds the features, if there are other columns of numbers."""
    chosen = choose_entries(pool.source, "features", split_spec(spec)[1], columns)
    unused = unused_number_columns(pool.source, chosen, columns)
    if unused:
        shown = ", ".join(unused[:MOST_NAMED]) + (", ..." if len(unused) > MOST_NAMED else "")
        yield f"features are the lists in {chosen[0]}; left out: {shown}"


def _describe_suspicious_columns(pool: PoolFile, columns: Columns) -> Iterator[str]:
    n_rows = min(MOST_ROWS, max(FEWEST_ROWS, MOST_CELLS // len(pool.feature_names)))
    sample = np.asarray(pool.features[:n_rows], dtype=np.float64)
    names = np.array(pool.feature_names)
    constant: BoolArray = (sample == sample[:1]).all(axis=0) & (len(sample) > 1)
    ids = looks_like_ids(names.tolist(), sample, len_of(pool.features)) & ~constant
    if ids.any():
        hint = f"pass --id-column {names[ids][0]}" if pool.ids is None else _ignore(names[ids])
        described = _listed(names[ids], "looks like an id", "look like ids")
        yield f"{described}: {hint} if so; otherwise {'it is a feature' if ids.sum() == 1 else 'they are features'}"
    for name in names[looks_like_status(names.tolist(), sample)].tolist():
        yield f"{name} is 0 or 1 and may mark labeled rows: rename it to labeled if so, or pass --ignore-columns {name}"
    first = "the first " if len(sample) < len_of(pool.features) else ""
    for name, values in zip(names.tolist(), sample.T, strict=True):
        for number in placeholders(values):
            yield (
                f"{name} is {number:g} in {int((values == number).sum())} of {first}{len(values)} rows, far from all "
                "other values, and may mean missing: if so, leave those cells empty and pass --missing median or "
                "--missing drop; otherwise it is used as a number"
            )
    codes = np.array([pool.source.entry(name).is_code for name in names.tolist()], dtype=np.bool_) & ~ids
    if codes.any():
        described = _listed(names[codes], "has", "have")
        yield f"{described} leading zeros, like a code: {_ignore(names[codes])} if it is not a number"
    for group in probability_groups(names.tolist(), sample):
        prefixes = {match.group(1) for name in group if (match := PREFIX.fullmatch(name))}
        pattern = f"'{prefixes.pop()}*'" if len(prefixes) == 1 and prefixes != {""} else ",".join(group)
        options = f"--probability-columns {pattern} if they are, or --ignore-columns {pattern}"
        yield f"{', '.join(group)} look like probabilities: pass {options}"
    labels = _labels(pool, columns, n_rows)
    if labels is not None:
        predictors = names[predict_perfectly(sample[labels[0]], labels[1]) & ~constant]
        if len(predictors):
            hint = f"if derived from the label, {_ignore(predictors)}"
            yield f"{_listed(predictors, 'predicts', 'predict')} the label perfectly: {hint}"
    if constant.any():
        yield f"{_listed(names[constant], 'is', 'are')} the same in every row: {_ignore(names[constant])}"


def _listed(names: AnyArray, one: str, several: str) -> str:
    return f"{', '.join(names.tolist())} {one if len(names) == 1 else several}"


def _ignore(names: AnyArray) -> str:
    return f"pass --ignore-columns {','.join(names.tolist())}"


def looks_like_ids(names: Sequence[str], sample: FloatArray, n_rows: int) -> BoolArray:
    """Columns with the name of an id, or with different whole numbers that lie within a range of ``n_rows``.

    Examples
    --------
    >>> rows = np.arange(30.0)
    >>> columns = [rows % 2, rows[::-1] + 7, rows * rows % 31, rows / 3]
    >>> looks_like_ids(["user_id", "n", "clicks", "x"], np.stack(columns, axis=1), 30).tolist()
    [True, True, False, False]
    """
    has_id_name = np.array([ID_NAME.search(name) is not None for name in names], dtype=np.bool_)
    if len(sample) < FEWEST_ROWS:
        return has_id_name
    whole = (np.isfinite(sample) & (sample == np.round(sample))).all(axis=0)
    whole[whole] = (np.diff(np.sort(sample[:, whole], axis=0), axis=0) > 0).all(axis=0)
    has_number_name = np.array([NUMBER_NAME.search(name) is not None for name in names], dtype=np.bool_)
    is_dense = np.zeros(len(names), dtype=np.bool_)
    is_dense[whole] = np.ptp(sample[:, whole], axis=0) < n_rows
    return np.asarray(has_id_name | (whole & (is_dense | has_number_name)))


def looks_like_status(names: Sequence[str], sample: FloatArray) -> BoolArray:
    """Columns with a name such as ``annotated`` that hold 0 and 1, and nothing else.

    Examples
    --------
    >>> both = np.array([0.0, 1.0, 1.0])
    >>> looks_like_status(["done", "is_annotated", "male"], np.stack([both] * 3, axis=1)).tolist()
    [True, True, False]
    """
    has_status_name = np.array([STATUS_NAME.fullmatch(name) is not None for name in names], dtype=np.bool_)
    is_0, is_1 = sample == 0, sample == 1
    return np.asarray(has_status_name & (is_0 | is_1).all(axis=0) & is_0.any(axis=0) & is_1.any(axis=0))


def placeholders(values: FloatArray) -> list[float]:
    """Numbers such as -999 that are frequent, and farther from the other values than the range of these.

    Examples
    --------
    >>> placeholders(np.array([0.5, 3.5, -999.0, -999.0, -999.0])), placeholders(np.arange(2000.0) % 1000)
    ([-999.0], [])
    """
    known = values[np.isfinite(values)]
    rest = known[~np.isin(known, PLACEHOLDERS)]
    if not len(rest):
        return []
    low, high = float(rest.min()), float(rest.max())
    far = [number for number in PLACEHOLDERS if max(low - number, number - high) > high - low]
    least = max(FEWEST_PLACEHOLDERS, PLACEHOLDER_SHARE * len(values))
    return [number for number in far if low < high and (known == number).sum() >= least]


def probability_groups(names: Sequence[str], sample: FloatArray) -> list[list[str]]:
    """Columns that sum to 1 in every row: those with the same beginning, or else all with values from 0 to 1.

    Examples
    --------
    >>> probability_groups(["x", "p_a", "p_b"], np.array([[5.0, 0.25, 0.75], [3.0, 0.5, 0.5]]))
    [['p_a', 'p_b']]
    """
    within = np.flatnonzero(((sample >= 0) & (sample <= 1)).all(axis=0) & (sample != np.round(sample)).any(axis=0))
    groups: dict[str, list[int]] = {}
    for position in within.tolist():
        match = PREFIX.fullmatch(names[position])
        groups.setdefault(match.group(1) if match else "", []).append(position)
    found = [group for group in groups.values() if _sum_to_one(sample, group)]
    if not found and _sum_to_one(sample, within.tolist()):
        found = [within.tolist()]
    return [[names[position] for position in group] for group in found]


def _sum_to_one(sample: FloatArray, positions: list[int]) -> bool:
    return len(positions) > 1 and bool((np.abs(sample[:, positions].sum(axis=1) - 1) <= SUM_TOLERANCE).all())


def predict_perfectly(sample: FloatArray, labels: IntArray) -> BoolArray:
    """Columns that determine the label: by one class for each of a few values, or by thresholds between classes.

    Examples
    --------
    >>> labels = np.repeat([0, 1, 2], 10)
    >>> code, noise = (2 - labels).astype(float), np.arange(30) % 7.0
    >>> predict_perfectly(np.stack([code, noise], axis=1), labels).tolist()
    [True, False]
    """
    n_classes = len(np.unique(labels))
    if len(labels) < FEWEST_ROWS or n_classes < 2:
        return np.zeros(sample.shape[1], dtype=np.bool_)
    order = np.argsort(sample, axis=0, kind="stable")
    values, sorted_labels = np.take_along_axis(sample, order, axis=0), labels[order]
    same_value, same_label = values[1:] == values[:-1], sorted_labels[1:] == sorted_labels[:-1]
    determines = ~(same_value & ~same_label).any(axis=0)
    by_threshold = (~same_label).sum(axis=0) == n_classes - 1
    few_values = (~same_value).sum(axis=0) + 1 <= len(labels) // 5
    return np.asarray(determines & (by_threshold | few_values))


def _labels(pool: PoolFile, columns: Columns, n_rows: int) -> tuple[IntArray, IntArray] | None:
    """The labeled rows among the first ``n_rows``, and the class number of each; None if the pool has no labels."""
    found = pool.labels(columns)
    if found is None:
        return None
    values = found[1]
    rows = np.flatnonzero(are_labels(pool.source.path, values[:n_rows], columns.no_label))
    return rows, np.unique(label_keys(values[rows]), return_inverse=True)[1].astype(np.int64)
