"""What the text in a cell is: a number, a list of numbers, or a name."""

import json
import re
from collections.abc import Iterable, Sequence

import numpy as np

from dubito.io.limits import hold
from dubito.io.missing_values import PLAIN_NUMBER
from dubito.io.source import Entry
from dubito.matrix import AnyArray, FloatArray
from dubito.request.labels import NO_TEXTS

MOST_JUDGED = 1000
"""Cells of a column by which a message says what it is."""
TRUTH = {"true": 1.0, "false": 0.0}
PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
"""Text that an int64 gives back unchanged; ``007`` is a name, not a number."""

DECIMAL_COMMA = re.compile(r"\s*[+-]?(\d+,\d*|,\d+)([eE][+-]?\d+)?\s*")
GROUPED = re.compile(r"\s*[+-]?[1-9]\d{0,2}(,\d{3})+\s*")
"""A number that may have a decimal comma or be thousands: 1,234."""

POINTED = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+")
"""A number that may have a decimal point or be thousands: 1.234."""
CODE = re.compile(r"0\d+")
"""Digits that nobody writes before a number: 01234."""

ODD_NUMBERS = (
    (re.compile(r"[+-]?[\d.,]+\s*%"), "a percent sign"),
    (re.compile(r"[+-]?\d{1,3}([,.'  ]\d{3})+([.,]\d+)?"), "marks between the thousands"),
    (re.compile(r"[+-]?\d+,\d+"), "a decimal comma"),
    (re.compile(r"0[xX][0-9a-fA-F]+"), "hexadecimal digits"),
    (re.compile(r"[$€£¥]\s*[\d.,]+|[\d.,]+\s*[$€£¥]"), "a sign of money"),
)
"""Text that a person would call a number, and what keeps it from being one."""


def is_number(text: str, decimal_comma: bool = False) -> bool:
    """Whether text is a number or a truth value.

    Examples
    --------
    >>> [is_number(text) for text in ("1e-3", "nan", "True", "007a", "1_000", "")]
    [True, True, True, False, False, False]
    >>> [is_number(text, decimal_comma=True) for text in ("1,5", "12", "1.234,5", "1.5")]
    [True, True, False, False]
    """
    return as_number(text, decimal_comma) is not None


def is_truth(text: str) -> bool:
    """Whether text is a truth value."""
    return text.lower() in TRUTH


def is_gap(text: str) -> bool:
    """Whether text stands for nothing: blank, or what stands for no label.

    Examples
    --------
    >>> [is_gap(text) for text in (" ", "NA", "N/A", "null", "na", "0")]
    [True, True, True, True, False, False]
    """
    text = text.strip()
    return not text or text in NO_TEXTS


def as_number(text: str, decimal_comma: bool = False) -> float | None:
    """The number that text is, or None."""
    lower = text.lower()
    if lower in TRUTH:
        return TRUTH[lower]
    if decimal_comma:
        if "." in text:
            return None
        text = text.replace(",", ".")
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def as_numbers(rows: Sequence[Sequence[str]], decimal_comma: bool) -> FloatArray | None:
    """Rows of plain numbers as an array, or None where a cell is anything else."""
    if decimal_comma:
        if any("." in cell for row in rows for cell in row):
            return None
        rows = [[cell.replace(",", ".") for cell in row] for row in rows]
    try:
        return np.array(rows, dtype=np.float64)
    except ValueError:
        return None


def what_is_odd(text: str) -> str | None:
    """What keeps text that looks like a number from being one.

    Examples
    --------
    >>> what_is_odd("12 %"), what_is_odd("1,234.5"), what_is_odd("cat")
    ('a percent sign', 'marks between the thousands', None)
    """
    return next((odd for pattern, odd in ODD_NUMBERS if pattern.fullmatch(text.strip())), None)


def are_mostly_numbers(values: Iterable[object]) -> bool:
    """Whether a person would call most of what is there a number, however it is written.

    Examples
    --------
    >>> are_mostly_numbers(["1.5", "84.56%", "k.A.", ""]), are_mostly_numbers(["1.5", "cat"])
    (True, False)
    """
    filled = [text for text in map(str, values) if not is_gap(text)]
    return 2 * sum(is_number(text) or what_is_odd(text) is not None for text in filled) > len(filled)


def plain_numbers(entry: Entry) -> str:
    """The fix of a column of text most of which is numbers, before other fixes; nothing for any other."""
    is_text = entry.ndim == 1 and entry.content == "text"
    return f"{PLAIN_NUMBER}; " if is_text and are_mostly_numbers(entry.values()[:MOST_JUDGED].tolist()) else ""


def may_be_thousands(values: Sequence[str]) -> str | None:
    """A number with a point that may stand between thousands: all such have three digits behind it, others no point.

    Examples
    --------
    >>> may_be_thousands(["1.500", "900"]), may_be_thousands(["1.500", "0.900"]), may_be_thousands(["1.500", "2.500"])
    ('1.500', None, None)
    """
    pointed = [value for value in values if "." in value]
    is_mixed = 0 < len(pointed) < len(values)
    return pointed[0] if is_mixed and all(POINTED.fullmatch(value.strip()) for value in pointed) else None


def as_list(text: str) -> FloatArray | None:
    """The numbers of a list in brackets, as JSON has it or as NumPy prints it; None for any other text.

    Examples
    --------
    >>> as_list("[0.5, 1]").tolist(), as_list("[0.5 1. ]").tolist(), as_list("[a]")
    ([0.5, 1.0], [0.5, 1.0], None)
    """
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        numbers = json.loads(text) if "," in text else text[1:-1].split()
        # JSON's truth values and texts would turn into numbers; NumPy's printing has only plain ones.
        if "," in text and not all(type(each) in (int, float) for each in numbers):
            return None
        values = np.array(numbers, dtype=np.float64)
    except (ValueError, OverflowError, RecursionError):
        return None
    return values if values.ndim == 1 else None


def as_names(values: Sequence[str], path: str, name: str) -> AnyArray:
    """A column of a file as integers where every value is written as a plain one, else as text."""
    if all(map(PLAIN_INTEGER.fullmatch, values)):
        return np.array(values, dtype=np.int64)
    return as_text(values, path, name)


def as_text(values: Sequence[str], path: str, name: str) -> AnyArray:
    """A column of a file as text; every value takes the room of the longest, and that is counted first."""
    hold(path, name, 4 * len(values) * max(map(len, values), default=0))
    return np.array(values, dtype=np.str_)


# Text that a spreadsheet would take for a formula, written so that it stays text, and read back as it was.

RISKY = re.compile(r"'*[=+\-@\t\r\n]")
"""What a formula begins with; apostrophes before it are counted in, so that one more can be taken off again."""
MARK = "'"


def is_formula(value: object) -> bool:
    """Whether a spreadsheet would work the value out."""
    return isinstance(value, str) and RISKY.match(value) is not None and not is_number(value)


def safe_cell(value: object) -> object:
    """The value, with an apostrophe before text that a spreadsheet would work out.

    Examples
    --------
    >>> safe_cell("=1+1"), safe_cell("@name"), safe_cell("-5"), safe_cell("a=b"), safe_cell(-5)
    ("'=1+1", "'@name", '-5', 'a=b', -5)
    """
    return f"{MARK}{value}" if is_formula(value) else value


def plain_cell(text: str) -> str:
    """The text without the apostrophe that keeps it from being a formula.

    Examples
    --------
    >>> plain_cell("'=1+1"), plain_cell("'quoted'")
    ('=1+1', "'quoted'")
    """
    return text[1:] if text.startswith(MARK) and RISKY.match(text) else text
