"""What the log comes to: the labels as they stand, kept up event by event."""

import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from dubito.errors import InvalidArgument

# What people do, as the log has it: labels, skips, and what takes them back. Nothing is ever changed or removed.

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
        raise InvalidArgument("is empty", argument=argument, hint="write at least one letter.")
    if any(unicodedata.category(each) in ("Cc", "Zl", "Zp") for each in name):
        raise InvalidArgument("has a line break or a control character", argument=argument, hint="leave it out.")
    return name


def check_text(argument: str, value: str, longest: int = LONGEST_TEXT) -> str:
    """Text that a store can hold: no longer than that, no half of a character, nothing that is no text."""
    # In the form that is stored, which may be longer than what was sent.
    text = unicodedata.normalize("NFC", value) if len(value) <= longest else value
    if len(text) > longest:
        raise InvalidArgument(f"has {len(text):,} characters", argument=argument, hint=f"write {longest:,} at most.")
    if any(unicodedata.category(each) == "Cs" or each == "\0" for each in text):
        raise InvalidArgument("holds what is no text in UTF-8", argument=argument, hint="leave it out.")
    return text


class Book:
    """The state of all items, out of the log and nothing else: the same events give the same book.

    A person's last answer on an item counts, until it is taken back; then the one before it counts again. An item's
    label is what most people said of it; of a tie, what was said last. Who reviews a label knows it and what the model
    makes of it: the last review settles it.

    Examples
    --------
    >>> book = Book()
    >>> book.add(Event(1, "a", "label", "ann", 7, "cat", 1, None, 0.0))
    >>> book.add(Event(2, "b", "label", "ann", 7, "dog", 1, None, 0.0))
    >>> book.labels
    {7: 'dog'}
    >>> book.add(Event(3, "c", "undo", "ann", 7, None, 1, 2, 0.0))
    >>> book.labels
    {7: 'cat'}
    """

    def __init__(self, events: Iterable[Event] = (), overlap: int = 1) -> None:
        self.overlap = overlap
        self.partial: dict[int, None] = {}
        """Items that somebody has answered, and fewer people than the overlap."""
        self.events: dict[int, Event] = {}
        self.keys: dict[str, int] = {}
        self.labels: dict[int, str] = {}
        """The label of every item that has one."""
        self.skipped: set[int] = set()
        """Items that somebody skipped and nobody labelled."""
        self.answers: dict[int, dict[str, list[int]]] = {}
        """By item and annotator, the events that count, the last one last."""
        self.standing: dict[str, list[int]] = {}
        """By annotator, the events that are not taken back."""
        self.changed: list[int] = []
        """Numbers of the events that changed the label of their item: labels, corrections and what was taken back."""
        self.last = 0
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """One event more."""
        self.events[event.number] = event
        self.keys[event.key] = event.number
        self.last = max(self.last, event.number)
        own = self.standing.setdefault(event.annotator, [])
        if event.kind == "undo":
            assert event.target is not None
            own.remove(event.target)
            self._of(event).remove(event.target)
        else:
            own.append(event.number)
            self._of(event).append(event.number)
        before = self.labels.get(event.item)
        self._settle(event.item)
        if self.labels.get(event.item) != before:
            self.changed.append(event.number)

    def _of(self, event: Event) -> list[int]:
        return self.answers.setdefault(event.item, {}).setdefault(event.annotator, [])

    def _settle(self, item: int) -> None:
        """What the item's answers come to now."""
        by_person = self.answers[item]
        for who in [who for who, numbers in by_person.items() if not numbers]:
            del by_person[who]
        self._count(item)
        said = [self.events[numbers[-1]] for numbers in by_person.values()]
        given = sorted((event for event in said if event.label is not None), key=lambda event: event.number)
        votes = Counter(event.label for event in given)
        if not given:
            self.labels.pop(item, None)
            (self.skipped.add if said else self.skipped.discard)(item)
            return
        most = max(votes.values())
        self.skipped.discard(item)
        # From the last one back: a tie goes to what was said last.
        said_most = next(event.label for event in reversed(given) if event.label and votes[event.label] == most)
        reviewed = [event.label for event in given if event.why == "review" and event.label is not None]
        self.labels[item] = reviewed[-1] if reviewed else said_most

    def _count(self, item: int) -> None:
        if 0 < len(self.answers[item]) < self.overlap:
            self.partial[item] = None
        else:
            self.partial.pop(item, None)

    def set_overlap(self, overlap: int) -> None:
        """So many people are to answer each item from now on."""
        self.overlap = overlap
        for item in self.answers:
            self._count(item)

    def said(self, item: int) -> dict[str, Event]:
        """By annotator, the answer on an item that counts."""
        return {who: self.events[numbers[-1]] for who, numbers in self.answers.get(item, {}).items()}

    def votes(self, item: int) -> dict[str, Event]:
        """By annotator, the labels that were given without another in sight; those of a review where there are none."""
        given = {who: event for who, event in self.said(item).items() if event.label is not None}
        return {who: event for who, event in given.items() if event.why != "review"} or given

    def n_answers(self, item: int) -> int:
        """How many people have answered."""
        return len(self.answers.get(item, ()))

    def has_answered(self, item: int, annotator: str) -> bool:
        """Whether this person has."""
        return annotator in self.answers.get(item, ())

    def changes_after(self, number: int) -> int:
        """How many events after this one changed a label."""
        return len(self.changed) - bisect_right(self.changed, number)

    def is_audited(self, item: int) -> bool:
        """Whether an answer that stands was given under an audit."""
        return any(self.events[each].why == "audit" for own in self.answers[item].values() for each in own)

    def last_of(self, annotator: str) -> Event | None:
        """The person's last answer that is not taken back."""
        own = self.standing.get(annotator)
        return self.events[own[-1]] if own else None

    def giver(self, item: int) -> str | None:
        """Who gave the label that counts, the last of them."""
        said = [event for event in self.said(item).values() if event.label == self.labels.get(item)]
        return max(said, key=lambda event: event.number).annotator if said and item in self.labels else None
