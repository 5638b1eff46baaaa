"""Parse the text of table cells: numbers, lists of numbers, or names."""

import json
import re
from collections.abc import Iterable, Sequence

import numpy as np

from dubito.io.limits import reserve_memory
from dubito.io.missing_values import PLAIN_NUMBER
from dubito.io.source import Entry
from dubito.matrix import AnyArray, FloatArray
from dubito.request.labels import MISSING_TEXTS, PLAIN_INTEGER

INSPECTED_CELLS = 1000
"""Number of cells that are inspected to describe a column in a message."""
BOOLEAN_TEXTS = {"true": 1.0, "false": 0.0}

DECIMAL_COMMA = re.compile(r"\s*[+-]?(\d+,\d*|,\d+)([eE][+-]?\d+)?\s*")
COMMA_GROUPED = re.compile(r"\s*[+-]?[1-9]\d{0,2}(,\d{3})+\s*")
"""A number such as 1,234, whose comma may be a decimal or a thousands separator."""
POINT_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+")
"""A number such as 1.234, whose point may be a decimal or a thousands separator."""
CODE = re.compile(r"0\d+")
"""Digits with leading zeros, such as 01234, which are a code rather than a number."""

UNPARSABLE_NUMBERS = (
    (re.compile(r"[+-]?[\d.,]+\s*%"), "a percent sign"),
    (re.compile(r"[+-]?\d{1,3}([,.'  ]\d{3})+([.,]\d+)?"), "thousands separators"),
    (re.compile(r"[+-]?\d+,\d+"), "a decimal comma"),
    (re.compile(r"0[xX][0-9a-fA-F]+"), "hexadecimal digits"),
    (re.compile(r"[$€£¥]\s*[\d.,]+|[\d.,]+\s*[$€£¥]"), "a currency symbol"),
)
"""Patterns of text that looks like a number but cannot be parsed, and what prevents that."""


def is_number(text: str, decimal_comma: bool = False) -> bool:
    """Whether text is a number, or true or false.

    Examples
    --------
    >>> [is_number(text) for text in ("1e-3", "nan", "True", "007a", "1_000", "")]
    [True, True, True, False, False, False]
    >>> [is_number(text, decimal_comma=True) for text in ("1,5", "12", "1.234,5", "1.5")]
    [True, True, False, False]
    """
    return as_number(text, decimal_comma) is not None


def is_boolean(text: str) -> bool:
    return text.lower() in BOOLEAN_TEXTS


def is_missing(text: str) -> bool:
    """Whether text is a missing value: blank, or one of `MISSING_TEXTS`.

    Examples
    --------
    >>> [is_missing(text) for text in (" ", "NA", "N/A", "null", "na", "0")]
    [True, True, True, True, False, False]
    """
    text = text.strip()
    return not text or text in MISSING_TEXTS


def as_number(text: str, decimal_comma: bool = False) -> float | None:
    """The number in a text, or None."""
    lower = text.lower()
    if lower in BOOLEAN_TEXTS:
        return BOOLEAN_TEXTS[lower]
    if decimal_comma:
        if "." in text:
            return None
        text = text.replace(",", ".")
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def as_numbers(rows: Sequence[Sequence[str]], decimal_comma: bool) -> FloatArray | None:
    """Rows of numbers as an array, or None if there is a cell that NumPy cannot parse, such as true or false."""
    if decimal_comma:
        if any("." in cell for row in rows for cell in row):
            return None
        rows = [[cell.replace(",", ".") for cell in row] for row in rows]
    if any("_" in "".join(row) for row in rows):
        return None  # NumPy would parse 1_000; `as_number` does not.
    try:
        return np.array(rows, dtype=np.float64)
    except ValueError:
        return None


def number_problem(text: str) -> str | None:
    """What prevents text that looks like a number from being parsed, if it is not parsed; None for other text.

    Examples
    --------
    >>> number_problem("12 %"), number_problem("1,234.5"), number_problem("cat")
    ('a percent sign', 'thousands separators', None)
    """
    return next((problem for pattern, problem in UNPARSABLE_NUMBERS if pattern.fullmatch(text.strip())), None)


def are_mostly_numbers(values: Iterable[object]) -> bool:
    """Whether most non-missing values look like numbers, parsable or not.

    Examples
    --------
    >>> are_mostly_numbers(["1.5", "84.56%", "unknown", ""]), are_mostly_numbers(["1.5", "cat"])
    (True, False)
    """
    filled = [text for text in map(str, values) if not is_missing(text)]
    return 2 * sum(is_number(text) or number_problem(text) is not None for text in filled) > len(filled)


def plain_number_hint(entry: Entry) -> str:
    """The start of the hint for a text column that is mostly numbers; empty for others."""
    is_text = entry.ndim == 1 and entry.content == "text"
    return f"{PLAIN_NUMBER}; " if is_text and are_mostly_numbers(entry.values()[:INSPECTED_CELLS].tolist()) else ""


def first_possible_thousands(values: Sequence[str]) -> str | None:
    """The first number whose point may be a thousands separator, or None.

    A point is ambiguous if some values have none, and all values with points look like 1.234.

    Examples
    --------
    >>> first_possible_thousands(["1.500", "900"])
    '1.500'
    >>> first_possible_thousands(["1.500", "0.900"]), first_possible_thousands(["1.500", "2.500"])
    (None, None)
    """
    with_point = [value for value in values if "." in value]
    is_mixed = 0 < len(with_point) < len(values)
    return with_point[0] if is_mixed and all(POINT_GROUPED.fullmatch(value.strip()) for value in with_point) else None


def as_list(text: str) -> FloatArray | None:
    """The numbers of a list in brackets, in JSON or as printed by NumPy; None for other text.

    Examples
    --------
    >>> as_list("[0.5, 1]").tolist(), as_list("[0.5 1. ]").tolist(), as_list("[a]"), as_list("[1_000 2]")
    ([0.5, 1.0], [0.5, 1.0], None, None)
    """
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")) or "_" in text:
        return None
    try:
        numbers = json.loads(text) if "," in text else text[1:-1].split()
        # np.array would convert JSON's booleans and strings to numbers.
        if "," in text and not all(type(each) in (int, float) for each in numbers):
            return None
        values = np.array(numbers, dtype=np.float64)
    except (ValueError, OverflowError, RecursionError):
        return None
    return values if values.ndim == 1 else None


def as_names(values: Sequence[str], path: str, name: str) -> AnyArray:
    """A column of a file as integers if every value is a plain integer, else as text."""
    if all(map(PLAIN_INTEGER.fullmatch, values)):
        return np.array(values, dtype=np.int64)
    return as_text(values, path, name)


def as_text(values: Sequence[str], path: str, name: str) -> AnyArray:
    """A column of a file as text. Counts its memory first: each value takes as much as the longest."""
    reserve_memory(path, name, 4 * len(values) * max(map(len, values), default=0))
    return np.array(values, dtype=np.str_)


# Escaping of text that a spreadsheet would evaluate as a formula

FORMULA_START = re.compile(r"'*[=+\-@\t\r\n]")
"""The start of a formula, or of one that is already escaped: adding another apostrophe there makes the escape
reversible."""


def needs_escape(value: object) -> bool:
    """Whether `safe_cell` adds an apostrophe."""
    return isinstance(value, str) and FORMULA_START.match(value) is not None and not is_number(value)


def safe_cell(value: object) -> object:
    """The value, with an apostrophe before text that a spreadsheet would evaluate.

    Examples
    --------
    >>> safe_cell("=1+1"), safe_cell("@name"), safe_cell("-5"), safe_cell("a=b"), safe_cell(-5)
    ("'=1+1", "'@name", '-5', 'a=b', -5)
    """
    return f"'{value}" if needs_escape(value) else value


def plain_cell(text: str) -> str:
    """The text without the apostrophe added by `safe_cell`.

    Examples
    --------
    >>> plain_cell("'=1+1"), plain_cell("'quoted'")
    ('=1+1', "'quoted'")
    """
    return text[1:] if text.startswith("'") and FORMULA_START.match(text) else text
