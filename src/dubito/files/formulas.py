"""Text that a spreadsheet would take for a formula, written so that it stays text, and read back as it was."""

import re

from dubito.files.cells import is_number

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
