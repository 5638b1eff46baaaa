"""Rows put in order by ids: joined as pandas would, or refused by name."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dubito
from dubito.errors import InvalidArgument, InvalidData
from dubito.io import read_pool, read_rows
from dubito.matrix import AnyArray
from dubito.request.ids import Ids, RowIds, matching_ids, order_of, rows_of


def ids(*values: object, owner: str = "p.csv") -> Ids:
    return Ids(owner, np.array(values))


POOL = Ids("the pool", np.array(["a", "b", "c", "d", "e"]))


@given(st.permutations(range(8)), st.permutations(range(8)))
def test_rows_are_found_whatever_their_order_and_type(ours: list[int], theirs: list[int]) -> None:
    pool, other = Ids("pool", np.array(ours)), Ids("p", np.array([str(number) for number in theirs]))
    order = order_of(other, pool)
    assert [theirs[row] for row in order] == ours
    some = Ids("seen", np.array(theirs[:3], np.float64))
    assert [ours[row] for row in rows_of(some, pool)] == theirs[:3]


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        (
            ids(*"abcdz"),
            r"p.csv holds an id that is not among the pool's 5 \('z'\) and lacks 1 of the pool's 5 ids \('e'\)",
        ),
        (ids(*"abcdef"), r"holds an id that is not among the pool's 5 \('f'\); drop or correct those rows"),
        (ids(*"ab"), r"p.csv lacks 3 of the pool's 5 ids \('c', 'd', 'e'\); pass a row for each"),
        (ids("a"), r"lacks 4 of the pool's 5 ids \('b', 'c', 'd', ...\)"),
        (ids(*"abcdd"), r"p.csv repeats the id 'd' \(rows 3 and 4\); each must occur once"),
        (ids("a", "b", "c", "d", "e", "e "), r"repeats the id 'e' and 'e ', which are the same id, \(rows 4 and 5\)"),
        (ids(*"ABCDE"), r"they differ only in upper and lower case: use the same case in both"),
    ],
)
def test_ids_that_do_not_fit_are_named(theirs: Ids, message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        order_of(theirs, POOL)


def test_leading_zeros_that_a_spreadsheet_drops_are_reported() -> None:
    pool = Ids("pool", np.array(["007", "011"]))
    with pytest.raises(InvalidData, match=r"differ only in leading zeros: keep ids as text \(dtype=str\)"):
        order_of(ids(7, 11), pool)


def test_rows_named_by_id_may_be_few_but_neither_foreign_nor_doubled() -> None:
    assert rows_of(ids("d", "a"), POOL).tolist() == [3, 0]
    with pytest.raises(InvalidData, match=r"holds an id that is not among the pool's 5 \('z'\)"):
        rows_of(ids("a", "z"), POOL)
    with pytest.raises(InvalidData, match=r"repeats the id 'a' \(rows 0 and 1\)"):
        rows_of(ids("a", "a"), POOL)
    with pytest.raises(InvalidData, match=r"the pool repeats the id 'b'"):
        rows_of(ids("a"), Ids("the pool", np.array(["a", "b", "b"])))


def names(column: AnyArray | None = None, index: AnyArray | None = None) -> RowIds:
    made = [None if values is None else Ids("the ids", values) for values in (column, index)]
    return RowIds(*made)


ROWS, SHUFFLED, TEXT, OTHER = np.arange(4), np.array([2, 0, 3, 1]), np.array(list("wxyz")), np.array(list("abcd"))


def test_like_is_matched_with_like() -> None:
    both = names(TEXT, OTHER)
    for theirs, pool, wanted in (
        (both, both, (TEXT, TEXT)),
        (names(index=OTHER), both, (OTHER, OTHER)),
        (both, names(index=OTHER), (OTHER, OTHER)),
        (names(TEXT), names(index=TEXT), (TEXT, TEXT)),
        (names(index=SHUFFLED), names(index=ROWS), (SHUFFLED, ROWS)),
        (names(SHUFFLED), names(index=ROWS), (SHUFFLED, ROWS)),
        (names(SHUFFLED + 2), names(index=ROWS), (SHUFFLED + 2, ROWS)),
        (names(index=SHUFFLED), names(TEXT, SHUFFLED), (SHUFFLED, SHUFFLED)),
    ):
        pair = matching_ids(theirs, pool)
        assert pair is not None
        assert (pair.theirs.given.tolist(), pair.pool.given.tolist()) == tuple(each.tolist() for each in wanted)


@pytest.mark.parametrize(
    ("theirs", "pool"),
    [
        (names(), names(TEXT)),
        (names(TEXT), names()),
        (names(index=ROWS), names(TEXT)),
        (names(TEXT), names(index=ROWS)),
        (names(index=ROWS), names(index=ROWS)),
        (names(), names(SHUFFLED)),
        (names(index=ROWS), names(SHUFFLED)),
        (names(ROWS), names()),
    ],
)
def test_where_one_side_has_no_ids_rows_go_by_their_order(theirs: RowIds, pool: RowIds) -> None:
    assert matching_ids(theirs, pool) is None


@pytest.mark.parametrize(
    ("theirs", "pool"),
    [
        (names(SHUFFLED), names()),
        (names(SHUFFLED.astype(str)), names()),
        (names(SHUFFLED.astype(float)), names()),
        (names(index=ROWS), names(index=SHUFFLED)),
    ],
)
def test_shuffled_row_numbers_on_one_side_are_asked_about(theirs: RowIds, pool: RowIds) -> None:
    with pytest.raises(
        InvalidData, match=r"row numbers 0 to 3 in another order as ids, .* give ids to both or to neither"
    ):
        matching_ids(theirs, pool)


def test_select_joins_what_the_readers_of_files_return(tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text("id,x,y\na,0,0\nb,5,5\nc,9,9\n")
    (tmp_path / "doubt.csv").write_text("id,doubt\nc,0.0\nb,0.5\na,0.25\n")
    pool, doubt = read_pool(str(tmp_path / "pool.csv")), read_rows(str(tmp_path / "doubt.csv"), "doubt")
    picked = dubito.select(pool, 3, doubt=doubt, strategy="least-confidence", standardize=False)
    assert picked.ids is not None
    assert picked.ids.tolist() == ["b", "a", "c"]
    (tmp_path / "doubt.csv").write_text("id,doubt\nc,0.0\nb,0.5\nz,0.25\n")
    with pytest.raises(InvalidData, match=r"doubt.csv holds an id that is not among the pool's 3 \('z'\)"):
        dubito.select(pool, 3, doubt=read_rows(str(tmp_path / "doubt.csv"), "doubt"), strategy="least-confidence")


def test_quotas_name_the_columns_of_a_file_of_probabilities(tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text("x,y\n0,0\n5,5\n9,9\n")
    (tmp_path / "p.csv").write_text("cat,dog\n0.9,0.1\n0.8,0.2\n0.3,0.7\n")
    pool, given = read_pool(str(tmp_path / "pool.csv")), read_rows(str(tmp_path / "p.csv"), "probabilities")
    picked = dubito.select(pool, 2, probabilities=given, quotas={"cat": 1}, strategy="coreset", standardize=False)
    assert len({0, 1} & {*picked.indices.tolist()}) == 1
    with pytest.raises(InvalidArgument, match="quotas='emu' is not a class of any row; classes are cat, dog"):
        dubito.select(pool, 2, probabilities=given, quotas={"emu": 1}, standardize=False)
