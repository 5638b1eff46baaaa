"""Which values are labels, and which mean "no label".

Missing values and blank text mean no label, and so do the texts that pandas reads as missing (`MISSING_TEXTS`).
-1 is ambiguous and rejected unless the user says what it means. Users may name further values that mean no label.
"""

import re
from collections.abc import Collection

import numpy as np

from dubito.errors import PASS, InvalidData, named
from dubito.matrix import AnyArray, BoolArray
from dubito.request.ids import MISSING, text_key

MISSING_TEXTS = frozenset(
    {
        *("nan", "NaN", "NAN", "Nan", "-nan", "-NaN", "null", "NULL", "None", "NaT"),
        *("NA", "N/A", "n/a", "<NA>", "#N/A", "#NA", "#N/A N/A", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
    }
)
"""Texts that mean no label."""
EMPTY = "empty"
"""Given as ``no_label``: only empty values mean no label, while texts such as NA, and -1, are classes."""
AMBIGUOUS = "-1"
PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
"""Text that survives a round trip through int64; ``007`` does not, and is a name."""


def are_labels(owner: str, values: AnyArray, none: Collection[str] = ()) -> BoolArray:
    """Mask of the values that are labels; ``none`` lists further values that mean no label, or is ``{"empty"}``.

    Examples
    --------
    >>> are_labels("pool.csv", np.array(["cat", "", "NaN", "-1"]), ["-1"]).tolist()
    [True, False, False, False]
    >>> are_labels("pool.npz", np.array([0.0, np.nan])).tolist()
    [True, False]
    """
    keys = label_keys(values)
    no_label = {"", *none} if EMPTY in none else {"", *MISSING_TEXTS, *none}
    if not none and AMBIGUOUS in keys:
        n = keys.count(AMBIGUOUS)
        raise InvalidData(
            f"{owner} has the label -1 in {n} row{'s' * (n > 1)}, which may be a class or mean no label",
            hint=f"{PASS} {named('no_label', -1)} if it means no label, {named('no_label', EMPTY)} if it is a class.",
        )
    return np.array([key not in no_label for key in keys], dtype=np.bool_)


def as_labels(values: AnyArray) -> AnyArray:
    """Labels as integers if all are whole numbers, else as text; 7, 7.0 and "7" are the same label.

    Examples
    --------
    >>> as_labels(np.array(["10", "9.0"])).tolist(), as_labels(np.array(["1", "a"])).tolist()
    ([10, 9], ['1', 'a'])
    """
    keys = label_keys(values)
    if all(PLAIN_INTEGER.fullmatch(key) for key in keys):
        return np.array([int(key) for key in keys], dtype=np.int64)
    return np.array(keys, dtype=np.str_)


def label_keys(values: AnyArray) -> list[str]:
    """The comparison keys of labels, formed like those of ids; empty text for missing values.

    Examples
    --------
    >>> label_keys(np.array([1.0, np.nan])), label_keys(np.array(["1.0", " a"]))
    (['1', ''], ['1', 'a'])
    """
    is_whole = values.dtype.kind in "iu"
    return list(map(str if is_whole else _key, values.tolist()))


def _key(value: object) -> str:
    if isinstance(value, str | bytes):
        return text_key(value if isinstance(value, str) else value.decode("utf-8", errors="replace"))
    if isinstance(value, float):
        return "" if value != value else str(int(value)) if value.is_integer() else repr(value)
    return "" if type(value).__name__ in MISSING else str(value)
