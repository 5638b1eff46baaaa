"""Ids in the library: rows of frames are joined by them, rows are named by them, and nothing is taken for another."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dubito
from dubito.errors import DubitoError, InvalidArgument, InvalidData
from dubito.matrix import FloatArray

RNG = np.random.default_rng(5)
FEATURES = RNG.normal(size=(12, 2))
PROBABILITIES = RNG.dirichlet(np.ones(3), 12)
DOUBT = 1 - PROBABILITIES.max(axis=1)
NAMES = [f"n{row}" for row in range(12)]
POOL = pd.DataFrame(FEATURES, index=NAMES, columns=["f0", "f1"])
select = partial(dubito.select, strategy="doubt-coreset")
WANTED = select(FEATURES, 5, labeled=[3], probabilities=PROBABILITIES).indices.tolist()
ORDER = RNG.permutation(12)


def test_a_frame_beside_the_pool_is_joined_by_its_index() -> None:
    probabilities = pd.DataFrame(PROBABILITIES, index=NAMES).iloc[ORDER]
    for chosen in (
        select(POOL, 5, labeled=[3], probabilities=probabilities),
        select(POOL, 5, labeled=[3], logits=pd.DataFrame(np.log(PROBABILITIES), index=NAMES).iloc[ORDER]),
        select(POOL, 5, labeled=[3], doubt=pd.Series(DOUBT, index=NAMES).iloc[ORDER]),
    ):
        assert chosen.indices.tolist() == WANTED
        assert chosen.ids is not None
        assert chosen.ids.tolist() == [NAMES[row] for row in WANTED]


@given(st.permutations(range(12)), st.permutations(range(12)))
def test_frames_agree_with_what_pandas_would_align(ours: list[int], theirs: list[int]) -> None:
    pool, doubt = POOL.iloc[ours], pd.Series(DOUBT, index=NAMES).iloc[theirs]
    mine = select(pool, 4, doubt=doubt, labeled=[0])
    wanted = select(pool, 4, doubt=doubt.loc[pool.index], labeled=[0])
    plain = select(FEATURES[ours], 4, doubt=DOUBT[ours], labeled=[0])
    assert mine.indices.tolist() == wanted.indices.tolist() == plain.indices.tolist()


FRAMES: dict[str, Callable[[FloatArray, list[str]], object]] = {
    "pandas": lambda values, names: pd.DataFrame({"id": names, **columns(values)}),
    "a capital": lambda values, names: pd.DataFrame({**columns(values), "ID": names}),
    "reset_index": lambda values, names: pd.DataFrame(columns(values), index=names).reset_index(),
    "read_csv": lambda values, names: pd.DataFrame({"Unnamed: 0": names, **columns(values)}),
    "categories": lambda values, names: pd.DataFrame({"id": pd.Categorical(names), **columns(values)}),
    "Polars": lambda values, names: pl.DataFrame({**columns(values), "id": names}),
    "Arrow": lambda values, names: pa.table({"id": names, **columns(values)}),
    "Arrow with pandas' index": lambda values, names: pa.Table.from_pandas(pd.DataFrame(columns(values), index=names)),
    "a record batch": lambda values, names: pa.record_batch({"ids": names, **columns(values)}),
}


def columns(values: FloatArray) -> dict[str, FloatArray]:
    return {f"f{place}": column for place, column in enumerate(values.T)}


@pytest.mark.parametrize("pool", FRAMES)
@pytest.mark.parametrize("beside", FRAMES)
def test_a_column_of_ids_names_the_rows_of_any_frame_and_is_no_feature(pool: str, beside: str) -> None:
    frame = FRAMES[pool](FEATURES, NAMES)
    probabilities = FRAMES[beside](PROBABILITIES[ORDER], [NAMES[row] for row in ORDER])
    chosen = select(frame, 5, labeled=["n3"], probabilities=probabilities)
    assert chosen.indices.tolist() == WANTED
    assert chosen.ids is not None
    assert chosen.ids.tolist() == [NAMES[row] for row in WANTED]


def test_ids_may_come_by_themselves() -> None:
    doubt = pd.Series(DOUBT, index=NAMES).iloc[ORDER]
    chosen = select(FEATURES, 5, labeled=["n3"], doubt=doubt, ids=NAMES)
    assert chosen.indices.tolist() == WANTED
    with pytest.raises(InvalidData, match=r"ids holds 'a' more than once \(rows 0 and 1\)"):
        dubito.select(FEATURES[:2], 1, ids=["a", "a "], strategy="coreset")
    with pytest.raises(InvalidArgument, match=r"ids has shape \(3,\); pass one per row, shape \(12,\)"):
        select(FEATURES, 1, ids=["a", "b", "c"])


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (
            [f"m{row}" for row in range(12)],
            r"probabilities holds 12 ids that are not among the pool's 12 \('m0', 'm1', 'm2'",
        ),
        ([*NAMES[:11], "n0"], r"probabilities repeats the id 'n0' \(rows 0 and 11\)"),
        (
            [*NAMES[:11], "x"],
            r"holds an id that is not among the pool's 12 \('x'\) and lacks 1 of the pool's 12 ids \('n11'\)",
        ),
        (list(range(12, 24)), r"holds 12 ids that are not"),
        ([float("nan"), *NAMES[1:]], r"probabilities has no id in row 0"),
    ],
)
def test_an_index_that_does_not_fit_is_named(index: list[object], message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        select(POOL, 5, probabilities=pd.DataFrame(PROBABILITIES, index=index))


def test_numbers_text_and_floats_are_one_id() -> None:
    numbers = np.arange(100, 112)
    pool = pd.DataFrame(FEATURES, index=numbers)
    for index in (numbers.astype(float), numbers.astype(str), [f"{number}.0" for number in numbers]):
        doubt = pd.Series(DOUBT, index=index).iloc[ORDER]
        assert select(pool, 5, labeled=["103"], doubt=doubt).indices.tolist() == WANTED


def test_without_ids_on_both_sides_rows_go_by_their_order() -> None:
    for beside in (PROBABILITIES, pd.DataFrame(PROBABILITIES), PROBABILITIES.tolist()):
        chosen = select(POOL, 5, labeled=[3], probabilities=beside)
        assert chosen.indices.tolist() == WANTED
        assert chosen.notes == ("pool has ids and probabilities none: rows are matched by their order.",)
    named = pd.DataFrame(PROBABILITIES, index=NAMES)
    chosen = select(FEATURES, 5, labeled=[3], probabilities=named)
    assert chosen.indices.tolist() == WANTED
    assert chosen.notes == ("probabilities has ids and the pool none: rows are matched by their order.",)


def test_masks_without_ids_are_reported_and_what_is_joined_or_named_is_not() -> None:
    mask = np.arange(12) == 3
    chosen = dubito.Pool(POOL).select(2, candidates=~mask, strategy="coreset")
    assert chosen.notes == ("pool has ids and candidates none: rows are matched by their order.",)
    chosen = select(POOL, 2, labeled=mask, candidates=mask.astype(int) == 0, doubt=DOUBT)
    assert [note.split()[4] for note in chosen.notes] == ["labeled", "candidates", "doubt"]
    joined = pd.Series(DOUBT, index=NAMES)
    chosen = select(POOL, 2, labeled=[3], candidates=pd.Series(~mask, index=NAMES), doubt=DOUBT)
    assert [note.split()[4] for note in chosen.notes] == ["doubt"]
    for labeled in ([3], ["n3"], pd.Series(mask, index=NAMES), FEATURES[[3]], [], None):
        assert select(POOL, 2, labeled=labeled, doubt=joined).notes == ()
    assert select(FEATURES, 2, labeled=mask, candidates=~mask, doubt=DOUBT).notes == ()


def test_a_sorted_series_beside_a_plain_pool_is_joined_or_asked_about_and_never_taken_by_its_order() -> None:
    doubt = pd.Series(DOUBT).sort_values()
    assert select(pd.DataFrame(FEATURES), 5, labeled=[3], doubt=doubt).indices.tolist() == WANTED
    with pytest.raises(
        InvalidData, match=r"doubt has the row numbers 0 to 11 in another order as ids, and the pool has none"
    ):
        select(FEATURES, 5, labeled=[3], doubt=doubt)


def test_an_index_beside_the_row_numbers_of_a_frame_is_asked_about() -> None:
    with pytest.raises(InvalidData, match=r"doubt has an index of ids, .* pass doubt.to_numpy\(\)"):
        select(pd.DataFrame(FEATURES), 5, doubt=pd.Series(DOUBT, index=NAMES))
    shuffled = pd.DataFrame(FEATURES, index=ORDER)
    with pytest.raises(InvalidData, match=r"row numbers 0 to 11 in another order"):
        select(shuffled, 5, doubt=pd.Series(DOUBT))


def test_an_index_that_repeats_names_no_rows_but_goes_with_its_like() -> None:
    pool = pd.DataFrame(FEATURES, index=[*NAMES[:6], *NAMES[:6]])
    same = pd.Series(DOUBT, index=pool.index)
    assert select(pool, 5, labeled=[3], doubt=same).indices.tolist() == WANTED
    with pytest.raises(InvalidData, match=r"doubt repeats the id 'n[0-9]'"):
        select(pool, 5, doubt=same.iloc[ORDER])


# Rows by id


@pytest.mark.parametrize(
    "labeled",
    [
        ["n3", "n5"],
        ("n5", "n3"),
        np.array(["n3", "n5"]),
        pd.Series(["n3", "n5"]),
        pd.Series(["n3", "n5"], dtype="category"),
        pd.Index(["n3", "n5"]),
        pl.Series(["n3", "n5"]),
        pa.array(["n3", "n5"]),
        pa.chunked_array([["n3"], ["n5"]]),
        POOL.iloc[[3, 5]],
        pd.Series([True, False, True], index=["n3", "n4", "n5"]),
        pd.Series([1 if name in ("n3", "n5") else 0 for name in NAMES], index=NAMES).iloc[ORDER],
    ],
)
def test_rows_may_be_named_by_id(labeled: object) -> None:
    wanted = dubito.select(FEATURES, 5, labeled=[3, 5], strategy="coreset").indices.tolist()
    assert dubito.select(POOL, 5, labeled=labeled, strategy="coreset").indices.tolist() == wanted
    if not isinstance(labeled, pd.DataFrame):
        chosen = dubito.select(POOL, 2, candidates=labeled, strategy="coreset")
        assert sorted(chosen.indices.tolist()) == [3, 5]


@pytest.mark.parametrize(
    ("labeled", "message"),
    [
        (["n3", "x"], r"labeled holds an id that is not among the pool's 12 \('x'\)"),
        (["n3", "n3"], r"labeled repeats the id 'n3' \(rows 0 and 1\)"),
        (POOL.iloc[[3, 5]] + 1, r"labeled has ids of the pool and other features"),
        (pd.concat([POOL.iloc[:1], POOL.iloc[:1].set_axis(["x"])]), r"holds an id that is not among the pool's"),
    ],
)
def test_ids_that_name_no_row_or_one_twice_are_refused(labeled: object, message: str) -> None:
    with pytest.raises(DubitoError, match=message):
        dubito.select(POOL, 2, labeled=labeled, strategy="coreset")


def test_labeled_features_of_other_ids_are_points_outside_the_pool() -> None:
    outside = pd.DataFrame(FEATURES[:2] + 9, index=["x", "y"], columns=["f0", "f1"])
    wanted = dubito.select(FEATURES, 3, labeled=FEATURES[:2] + 9, strategy="coreset").indices.tolist()
    assert dubito.select(POOL, 3, labeled=outside, strategy="coreset").indices.tolist() == wanted


def test_integers_that_are_rows_and_ids_of_others_are_asked_about() -> None:
    pool = pd.DataFrame(FEATURES, index=np.arange(1, 13))
    with pytest.raises(
        InvalidArgument, match=r"labeled holds integers that may be row numbers or ids \(3 is the id of"
    ):
        dubito.select(pool, 2, labeled=[3], strategy="coreset")
    with pytest.raises(InvalidArgument, match=r"\(0 is not an id, and 3 is\); pass a boolean mask, or ids as text"):
        dubito.select(pool, 2, labeled=[0, 3], strategy="coreset")
    by_text = dubito.select(pool, 2, candidates=["3", "4"], strategy="coreset")
    by_index = dubito.select(pool, 2, candidates=pool.index[2:4], strategy="coreset")
    assert sorted(by_text.indices.tolist()) == sorted(by_index.indices.tolist()) == [2, 3]
    far = pd.DataFrame(FEATURES, index=np.arange(100, 112))
    assert sorted(dubito.select(far, 2, candidates=[2, 3], strategy="coreset").indices.tolist()) == [2, 3]
    plain = pd.DataFrame(FEATURES)
    assert sorted(dubito.select(plain, 2, candidates=plain.index[2:4], strategy="coreset").indices.tolist()) == [2, 3]


def test_an_empty_list_and_an_empty_index_name_nothing() -> None:
    wanted = dubito.select(FEATURES, 3, strategy="coreset").indices.tolist()
    nothings: list[object] = [[], POOL.index[:0], POOL.iloc[:0]]
    for nothing in nothings:
        assert dubito.select(POOL, 3, labeled=nothing, strategy="coreset").indices.tolist() == wanted


# Masks


@pytest.mark.parametrize("kind", [np.bool_, np.int64, np.uint8, np.int8])
def test_zeros_and_ones_for_every_row_are_a_mask(kind: type[np.generic]) -> None:
    mask = np.isin(np.arange(12), [3, 5]).astype(kind)
    wanted = dubito.select(FEATURES, 5, labeled=[3, 5], strategy="coreset").indices.tolist()
    for labeled in (mask, mask.tolist(), pd.Series(mask)):
        assert dubito.select(FEATURES, 5, labeled=labeled, strategy="coreset").indices.tolist() == wanted
    chosen = dubito.select(FEATURES, 2, candidates=mask, strategy="coreset")
    assert sorted(chosen.indices.tolist()) == [3, 5]
    pool = dubito.Pool(FEATURES)
    pool.label(mask)
    assert pool.labeled.tolist() == [3, 5]


def test_zeros_and_ones_that_might_be_rows_or_a_mask_are_asked_about() -> None:
    for pool, labeled in ((FEATURES[:2], [0, 1]), (FEATURES[:2], [1, 0]), (FEATURES[:1], [0])):
        with pytest.raises(
            InvalidArgument, match=r"only 0 and 1, which may be a mask or row numbers; pass a boolean mask, such as"
        ):
            dubito.select(pool, 1, labeled=labeled, strategy="coreset")
    assert dubito.select(FEATURES[:2], 1, labeled=[0, 0], strategy="coreset").indices.size == 1
    assert dubito.select(FEATURES[:3], 1, labeled=[0, 1], strategy="coreset").indices.tolist() == [2]


def test_classes_are_not_taken_for_row_numbers() -> None:
    with pytest.raises(
        InvalidArgument, match=r"labeled holds an integer for each of the 12 rows .* some of them twice"
    ):
        dubito.select(FEATURES, 2, labeled=np.arange(12) % 3, strategy="coreset")


# Columns of frames that are no features


@pytest.mark.parametrize("name", ["label", "Class", "target", "split", "labeled", "is_labeled", "unlabeled", "doubt"])
def test_a_column_that_is_no_feature_by_its_name_is_asked_about(name: str) -> None:
    for frame in (POOL.assign(**{name: 1}), pl.DataFrame(columns(FEATURES)).with_columns(pl.lit(1).alias(name))):
        with pytest.raises(
            InvalidArgument, match=rf"pool has the column '{name}', whose name says it is not a feature"
        ):
            dubito.select(frame, 2, strategy="coreset")


def test_a_y_is_a_feature_beside_an_x_alone() -> None:
    pair = pd.DataFrame(FEATURES, columns=["x", "y"])
    assert dubito.select(pair, 3, strategy="coreset").indices.size == 3
    with pytest.raises(InvalidArgument, match="pool has the column 'y'"):
        dubito.select(pair.rename(columns={"x": "a"}), 3, strategy="coreset")


def test_a_refractive_index_is_a_feature_and_one_of_row_numbers_is_none() -> None:
    glass = pd.DataFrame({"f0": FEATURES[:, 0], "index": 1.5 + FEATURES[:, 1]})
    wanted = dubito.select(glass.to_numpy(), 3, strategy="coreset").indices.tolist()
    assert dubito.select(glass, 3, strategy="coreset").indices.tolist() == wanted
    counted = pd.DataFrame({**columns(FEATURES), "index": np.arange(12)})
    chosen = dubito.select(counted, 3, strategy="coreset")
    assert chosen.ids is None
    assert chosen.indices.tolist() == dubito.select(FEATURES, 3, strategy="coreset").indices.tolist()


# Other doors


def test_a_pool_joins_frames_and_labels_by_id() -> None:
    pool = dubito.Pool(POOL)
    pool.label(["n3"])
    doubt = pd.Series(DOUBT, index=NAMES).iloc[ORDER]
    assert pool.select(5, doubt=doubt, strategy="doubt-coreset").indices.tolist() == WANTED
    assert pool.select(1, doubt=doubt, candidates=["n7"]).indices.tolist() == [7]
    numbered = dubito.Pool(FEATURES, ids=[str(row) for row in range(10, 22)])
    numbered.label(ids=[13, 14.0])
    assert numbered.labeled.tolist() == [3, 4]


def test_a_diagnosis_joins_frames_and_names_rows_by_id() -> None:
    rng = np.random.default_rng(1)
    features, doubt, wrong = rng.normal(size=(80, 3)), rng.random(80), rng.random(60) < 0.3
    names = [f"n{row}" for row in range(80)]
    plain = dubito.diagnose(features, labeled=[0, 1], doubt=doubt, checked=np.arange(10, 70), wrong=wrong)
    order = rng.permutation(60)
    described = dubito.diagnose(
        pd.DataFrame(features, index=names),
        labeled=["n1", "n0"],
        doubt=pd.Series(doubt, index=names).iloc[::-1],
        checked=[names[10 + row] for row in order],
        wrong=wrong[order],
    )
    assert described.to_dict() == plain.to_dict()
    mask = np.isin(np.arange(80), np.arange(10, 70)).astype(int)
    again = dubito.diagnose(features, labeled=["n0", "n1"], doubt=doubt, checked=mask, wrong=wrong, ids=names)
    assert again.to_dict() == plain.to_dict()


@pytest.mark.parametrize(
    ("index", "shown"),
    [
        (pd.date_range("2026-01-01", periods=12), "2026-01-01"),
        (pd.MultiIndex.from_product([["a", "b", "c"], range(4)]), ("a", 0)),
        (pd.CategoricalIndex(NAMES), "n0"),
        (pd.Index(NAMES, dtype="string"), "n0"),
        (pd.RangeIndex(100, 112), 100),
    ],
)
def test_any_index_joins_and_comes_back_with_the_picks(index: pd.Index, shown: object) -> None:
    pool, doubt = pd.DataFrame(FEATURES, index=index), pd.Series(DOUBT, index=index).iloc[ORDER]
    chosen = select(pool, 12, doubt=doubt)
    assert chosen.indices.tolist() == select(FEATURES, 12, doubt=DOUBT).indices.tolist()
    assert chosen.ids is not None
    assert chosen.ids.tolist()[chosen.indices.tolist().index(0)] == shown


def test_two_columns_of_one_name_are_refused() -> None:
    frame = pd.concat(
        [POOL, pd.DataFrame({"id": NAMES}, index=NAMES), pd.DataFrame({"id": NAMES}, index=NAMES)], axis=1
    )
    with pytest.raises(InvalidArgument, match="pool has two columns called 'id'; rename one"):
        dubito.select(frame, 2, strategy="coreset")


def test_a_frame_of_one_column_is_doubt() -> None:
    assert select(POOL, 5, labeled=[3], doubt=pd.DataFrame({"0": DOUBT})).indices.tolist() == WANTED
