"""What people do, as the log has it: labels, skips, and what takes them back. Nothing is ever changed or removed."""

import unicodedata
from dataclasses import dataclass
from typing import Literal

from dubito.errors import InvalidArgument

Kind = Literal["label", "skip", "undo"]
Why = Literal["in doubt", "covers", "audit", "random", "overlap", "first", "review", "source", ""]
"""Why an item was asked for. ``audit``: drawn uniformly from all items without a label, handed out in the order of the
round and answered without the model's guess; ``random``: drawn by chance under other conditions."""

LONGEST_NAME = 200
LONGEST_TEXT = 20_000


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the log."""

    number: int
    """From 1, in the order in which events were committed."""
    key: str
    """Chosen by whoever sent it: the same key twice is one event."""
    kind: Kind
    annotator: str
    item: int
    """The row of the pool."""
    label: str | None
    """The class; None for a skip."""
    round: int
    target: int | None
    """Of an undo, the number of the event that it takes back."""
    at: float
    """Seconds since 1970, by the server's clock."""
    guess: str | None = None
    """What the model of that moment, which had not seen this label, took the item for."""
    sure: float | None = None
    """How likely it thought that."""
    guess_seen: bool = False
    """Whether the person had asked for the guess first."""
    why: str = ""
    """Why the item was asked for."""
    seconds: float | None = None
    """How long the person took, as the page tells it."""


def check_name(argument: str, value: str, longest: int = LONGEST_NAME) -> str:
    """A name in one line, in the usual form of Unicode.

    Examples
    --------
    >>> check_name("class", "  cat ")
    'cat'
    """
    name = check_text(argument, value, longest).strip()
    if not name:
        raise InvalidArgument("is empty", argument=argument, mend="write at least one letter.")
    if any(unicodedata.category(each) in ("Cc", "Zl", "Zp") for each in name):
        raise InvalidArgument("has a line break or a control character", argument=argument, mend="leave it out.")
    return name


def check_text(argument: str, value: str, longest: int = LONGEST_TEXT) -> str:
    """Text that a store can hold: no longer than that, no half of a character, nothing that is no text."""
    # In the form that is stored, which may be longer than what was sent.
    text = unicodedata.normalize("NFC", value) if len(value) <= longest else value
    if len(text) > longest:
        raise InvalidArgument(f"has {len(text):,} characters", argument=argument, mend=f"write {longest:,} at most.")
    if any(unicodedata.category(each) == "Cs" or each == "\0" for each in text):
        raise InvalidArgument("holds what is no text in UTF-8", argument=argument, mend="leave it out.")
    return text
