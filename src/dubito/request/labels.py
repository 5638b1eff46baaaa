"""When a label is none: one rule for every file and every command.

Nothing at all, blank text, NaN and null are no label, and so are the texts that pandas reads as such (`NO_TEXTS`).
-1 is asked about: for some tools it is no label, for others a class. A person may name what else means none.
"""

import re
from collections.abc import Collection

import numpy as np

from dubito.errors import InvalidData, by_interface
from dubito.matrix import AnyArray, BoolArray
from dubito.request.ids import MISSING, text_key

NO_TEXTS = frozenset(
    {
        "nan",
        "NaN",
        "NAN",
        "Nan",
        "-nan",
        "-NaN",
        "null",
        "NULL",
        "None",
        "NA",
        "N/A",
        "n/a",
        "<NA>",
        "NaT",
        "#N/A",
        "#NA",
    }
    | {"#N/A N/A", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"}
)
"""Text that stands for no label."""
EMPTY = "empty"
"""Among what a person names: nothing but what is empty is no label; texts such as NA are classes, and so is -1."""
DOUBTFUL = "-1"
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


def are_labels(owner: str, values: AnyArray, none: Collection[str] = ()) -> BoolArray:
    """Which values are labels; ``none`` names further ones that are none, or is ``{"empty"}``.

    Examples
    --------
    >>> are_labels("pool.csv", np.array(["cat", "", "NaN", "-1"]), ["-1"]).tolist()
    [True, False, False, False]
    >>> are_labels("pool.npz", np.array([0.0, np.nan])).tolist()
    [True, False]
    """
    keys = label_keys(values)
    nothing = {"", *none} if EMPTY in none else {"", *NO_TEXTS, *none}
    if not none and DOUBTFUL in keys:
        n = keys.count(DOUBTFUL)
        options = by_interface("no_label", command="--no-label", toml="no_label =")
        raise InvalidData(
            f"{owner} has the label -1 in {n} row{'s' * (n > 1)}, which may be a class or stand for none",
            hint=f"say which: {options} -1 for none, {options} {EMPTY} for a class.",
        )
    return np.array([key not in nothing for key in keys], dtype=np.bool_)


def as_labels(values: AnyArray) -> AnyArray:
    """Labels as integers where every one is a whole number, else as text; 7, 7.0 and "7" are one.

    Examples
    --------
    >>> as_labels(np.array(["10", "9.0"])).tolist(), as_labels(np.array(["1", "a"])).tolist()
    ([10, 9], ['1', 'a'])
    """
    keys = label_keys(values)
    if all(WHOLE.fullmatch(key) for key in keys):
        return np.array([int(key) for key in keys], dtype=np.int64)
    return np.array(keys, dtype=np.str_)


def label_keys(values: AnyArray) -> list[str]:
    """Labels as text, as ids are compared, and nothing for what is missing.

    Examples
    --------
    >>> label_keys(np.array([1.0, np.nan])), label_keys(np.array(["1.0", " a"]))
    (['1', ''], ['1', 'a'])
    """
    return [_key(value) for value in values.tolist()]


def _key(value: object) -> str:
    if isinstance(value, str | bytes):
        return text_key(value if isinstance(value, str) else value.decode("utf-8", errors="replace"))
    if isinstance(value, float):
        return "" if value != value else str(int(value)) if value.is_integer() else repr(value)
    return "" if type(value).__name__ in MISSING else str(value)
