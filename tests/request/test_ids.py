"""When two ids are the same, and what cannot be an id."""

import datetime
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubito.errors import InvalidData
from dubito.matrix import AnyArray
from dubito.request.ids import Ids, are_row_numbers, id_keys


def objects(*values: object) -> AnyArray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@pytest.mark.parametrize(
    "same",
    [
        (np.array([7]), np.array([7.0]), np.array(["7"]), np.array(["7.0"]), np.array([7], np.uint8), objects(7)),
        (np.array(["n7"]), np.array([" n7\t"]), np.array([b"n7"]), objects("n7"), objects(b"n7")),
        (np.array(["caf\u00e9"]), np.array(["cafe\u0301"])),
        (np.array(["2026-01-02"], "M8[ns]"), np.array(["2026-01-02"]), objects(datetime.date(2026, 1, 2))),
        (
            objects(pd.Timestamp("2026-01-02 10:00")),
            np.array(["2026-01-02 10:00:00"]),
            np.array(["2026-01-02T10"], "M8[s]"),
        ),
        (objects(10**30), np.array(["1" + "0" * 30])),
        (np.array([-1]), np.array([-1.0]), np.array(["-1"])),
        (np.array([0]), np.array([-0.0]), np.array(["0.00"])),
        (objects(("a", 1)), objects(("a", 1.0)), objects((" a", "1"))),
        (np.array([2**63], np.uint64), np.array([str(2**63)])),
        (objects(Decimal("7.0")), np.array([7])),
        (np.array([0.5]), np.array(["0.5"]), objects(0.5)),
    ],
)
def test_one_id_may_be_written_in_several_ways(same: tuple[AnyArray, ...]) -> None:
    keys = {tuple(id_keys(values)) for values in same}
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.array(["007"]), np.array([7])),
        (np.array(["+7"]), np.array([7])),
        (np.array(["7.5"]), np.array([7])),
        (np.array(["07.0"]), np.array([7])),
        (np.array(["N7"]), np.array(["n7"])),
        (np.array([2**53]), np.array([2**53 + 1])),
        (objects(("a", "b")), np.array(["ab"])),
        (objects(uuid.UUID(int=1)), objects(uuid.UUID(int=2))),
    ],
)
def test_what_differs_is_another_id(one: AnyArray, other: AnyArray) -> None:
    assert id_keys(one) != id_keys(other)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            np.array([True, False]),
            r"p.csv has booleans as ids, which cannot identify rows; pass integers or text",
        ),
        (objects(True), r"booleans"),
        (np.array(["a", " "]), r"p.csv has no id in row 1; give every row an id"),
        (objects("a", None), r"no id in row 1"),
        (objects("a", float("nan")), r"no id in row 1"),
        (objects("a", pd.NA), r"no id in row 1"),
        (objects("a", pd.NaT), r"no id in row 1"),
        (np.array(["2026-01-02", "NaT"], "M8[D]"), r"no id in row 1"),
        (np.array([1.0, np.nan]), r"has the id nan in row 1, which is not an id"),
        (
            np.array([2.0**53]),
            r"has the id 9007199254740992 as float64, which cannot distinguish such numbers; save ids",
        ),
        (np.array([2.0**24], np.float32), r"the id 16777216 as float32, which cannot distinguish"),
        (objects(2.0**53), r"cannot distinguish such numbers"),
    ],
)
def test_what_cannot_name_a_row_is_refused(values: AnyArray, message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        _ = Ids("p.csv", values).keys


@given(st.lists(st.integers(-(2**53) + 1, 2**53 - 1)))
def test_whole_numbers_are_the_same_id_in_every_type_that_holds_them(numbers: list[int]) -> None:
    keys = id_keys(np.array(numbers, np.int64))
    assert keys == id_keys(np.array(numbers, np.float64)) == id_keys(np.array(numbers, dtype=np.str_))
    assert keys == id_keys(objects(*numbers)) == id_keys(objects(*map(float, numbers)))
    assert keys == id_keys(np.array([f"{number}.0" for number in numbers], dtype=np.str_))


def test_a_repeated_id_is_found_by_its_first_two_rows() -> None:
    assert Ids("ids", np.array(["a", "7", "b", "7.0", "7"])).repeated == (1, 3)
    assert Ids("ids", np.array(["a", "b"])).repeated is None


def test_dates_are_shown_as_text_and_everything_else_as_it_is() -> None:
    assert Ids("ids", np.array(["2026-01-02"], "M8[ns]")).values.tolist() == ["2026-01-02"]
    assert Ids("ids", np.array(["007", "7.0"])).values.tolist() == ["007", "7.0"]


def test_row_numbers_are_numbers_in_order() -> None:
    assert all(map(are_row_numbers, (np.arange(3), np.arange(3.0), np.arange(0))))
    assert not any(map(are_row_numbers, (np.arange(1, 4), np.array([0, 2, 1]), np.array(["0"]), np.array([False]))))
