"""Events of answers and of changes of classes, and the table of current labels computed from them."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from dubito.errors import InvalidArgument

Kind = Literal["label", "skip", "undo", "rename", "merge", "remove"]
CHANGES = ("rename", "merge", "remove")
"""Kinds of events that change a class."""
Why = Literal["in doubt", "covers", "audit", "random", "overlap", "first", "review", "source", ""]
"""Why an item was queried. ``audit``: drawn uniformly from all unlabeled items, assigned in the order of the round and
answered without the model's guess in sight; ``random``: drawn at random under other conditions."""

MAX_NAME_LENGTH = 200
MAX_TEXT_LENGTH = 20_000


@dataclass(frozen=True, slots=True)
class Event:
    """A row of the append-only event log; rows are never changed or removed."""

    number: int
    """Sequence number in commit order, starting at 1."""
    key: str
    """Idempotency key chosen by the client: sending a key twice stores one event."""
    kind: Kind
    annotator: str
    item: int
    """Row index in the pool; for a change of a class, its position among the classes."""
    label: str | None
    """The class, or None for a skip."""
    round: int
    target: int | None
    """For an undo, the number of the event that it undoes. The undo of a rename is a rename back, with a target."""
    at: float
    """Unix time of the server, in seconds."""
    guess: str | None = None
    """Class predicted by the current model, which had not been trained on this label."""
    sure: float | None = None
    """Probability of the predicted class."""
    guess_seen: bool = False
    """Whether the annotator had seen the prediction."""
    why: str = ""
    """Why the item was queried; see `Why`."""
    seconds: float | None = None
    """Time that the annotator took, as measured by the page."""
    new_label: str | None = None
    """For a rename or merge, the class that `label` becomes."""


class ClassChange(NamedTuple):
    """The part of an event that says how a class changed."""

    number: int
    kind: str
    label: str | None
    new_label: str | None
    target: int | None


def names_since(changes: Sequence[ClassChange], number: int) -> dict[str, str | None]:
    """By class as it was named after event `number`, its current name, or None if it was removed.

    Classes that are not listed have kept their name.

    Examples
    --------
    >>> changes = [ClassChange(3, "rename", "cat", "tabby", None), ClassChange(5, "remove", "tabby", None, None)]
    >>> names_since(changes, 0), names_since([*changes, ClassChange(8, "undo", None, None, 5)], 0)
    ({'tabby': None, 'cat': None}, {'tabby': 'tabby', 'cat': 'tabby'})
    """
    names: dict[str, str | None] = {}
    restored: dict[int, str | None] = {}
    for change in reversed(changes):
        if change.number <= number:
            break
        _step_back(names, restored, change, changes)
    return names


def _step_back(
    names: dict[str, str | None], restored: dict[int, str | None], change: ClassChange, changes: Sequence[ClassChange]
) -> None:
    """Replace the names by class after a change with those before it, in place; see `names_since`."""
    if change.kind == "undo":
        # The class exists again after this event; its name is restored when the loop reaches the undone change.
        assert change.target is not None
        undone = next(each for each in changes if each.number == change.target)
        assert undone.label is not None
        restored[change.target] = names.get(undone.label, undone.label)
        return
    assert change.label is not None
    if change.number in restored:
        names[change.label] = restored.pop(change.number)
    elif change.new_label is None:
        names[change.label] = None
    else:
        names[change.label] = names.get(change.new_label, change.new_label)


def check_name(argument: str, value: str, max_length: int = MAX_NAME_LENGTH) -> str:
    """Return a single-line name, stripped and normalized to NFC.

    Examples
    --------
    >>> check_name("class", "  cat ")
    'cat'
    """
    name = check_text(argument, value, max_length).strip()
    if not name:
        raise InvalidArgument("is empty", argument=argument, hint="write at least one letter.")
    if any(unicodedata.category(each) in ("Cc", "Zl", "Zp") for each in name):
        raise InvalidArgument("has a line break or a control character", argument=argument, hint="leave it out.")
    return name


def check_text(argument: str, value: str, max_length: int = MAX_TEXT_LENGTH) -> str:
    """Return NFC-normalized text; raise `InvalidArgument` if it is too long or cannot be stored as UTF-8."""
    # NFC can be longer than the input, so the length is checked again afterwards.
    text = unicodedata.normalize("NFC", value) if len(value) <= max_length else value
    if len(text) > max_length:
        raise InvalidArgument(f"has {len(text):,} characters", argument=argument, hint=f"write {max_length:,} at most.")
    if any(unicodedata.category(each) == "Cs" or each == "\0" for each in text):
        raise InvalidArgument("holds characters that UTF-8 cannot represent", argument=argument, hint="leave it out.")
    return text


class LabelChange(NamedTuple):
    """An event that changed the label of its item, and the label before it."""

    number: int
    item: int
    before: str | None


class LabelTable:
    """The current label of every item, a pure function of the event log.

    An annotator's last answer on an item counts until it is undone; then the previous one counts again. An item's
    label is the majority vote of its annotators; ties go to the latest of the tied answers. The last review, if there
    is one, overrides the vote, because the reviewer has seen both the label and the model's prediction.

    Labels follow their classes when these are renamed or merged. An answer does not count if its class was removed.

    Exact copies without an answer have the label of the copy that was answered last.

    Parameters
    ----------
    events : iterable of Event
        The log.
    overlap : int
        Number of annotators that each item needs.
    copies : mapping of int to tuple of int, optional
        By item, all items that share a label with it, itself included.

    Examples
    --------
    >>> table = LabelTable()
    >>> table.add(Event(1, "a", "label", "ann", 7, "cat", 1, None, 0.0))
    >>> table.add(Event(2, "b", "label", "ann", 7, "dog", 1, None, 0.0))
    >>> table.labels
    {7: 'dog'}
    >>> table.add(Event(3, "c", "undo", "ann", 7, None, 1, 2, 0.0))
    >>> table.labels
    {7: 'cat'}
    """

    def __init__(
        self, events: Iterable[Event] = (), overlap: int = 1, copies: Mapping[int, tuple[int, ...]] | None = None
    ) -> None:
        self.overlap, self.copies = overlap, copies or {}
        self.shared: dict[int, int] = {}
        """By item without an answer of its own, the copy that its label or skip comes from."""
        self.partial: dict[int, None] = {}
        """Items answered by at least one annotator, but by fewer than `overlap`; a dict keeps their order."""
        self.events: dict[int, Event] = {}
        """The log as stored, by number."""
        self.named: dict[int, Event] = {}
        """The answers, with the current names of their classes; the label is None if the class was removed."""
        self.class_changes: list[ClassChange] = []
        self.keys: dict[str, int] = {}
        self.labels: dict[int, str] = {}
        self.skipped: set[int] = set()
        """Items that were skipped and not labeled."""
        self.answers: dict[int, dict[str, list[int]]] = {}
        """By item and annotator, the numbers of the events that are not undone, oldest first."""
        self.current: dict[int, dict[str, Event]] = {}
        """By item and annotator, the answer that counts."""
        self.active: dict[str, list[int]] = {}
        """By annotator, the numbers of the events that are not undone."""
        self.changed: list[LabelChange] = []
        """The events that changed the label of their item, in order."""
        self.last = 0
        for event in events:
            self._record(event)
        self._replay()

    def _record(self, event: Event) -> bool:
        """Append an event to the log; returns True if it changes a class."""
        self.events[event.number] = event
        self.keys[event.key] = event.number
        self.last = max(self.last, event.number)
        is_undo = event.kind == "undo" and event.target is not None and self.events[event.target].kind in CHANGES
        if is_undo or event.kind in CHANGES:
            change = ClassChange(event.number, event.kind, event.label, event.new_label, event.target)
            self.class_changes.append(change)
            return True
        return False

    def add(self, event: Event) -> None:
        if self._record(event):
            self._replay()
        else:
            self._apply(event, {})

    def _replay(self) -> None:
        """Recompute everything from the log, with the current names of classes."""
        for found in (self.partial, self.named, self.labels, self.answers, self.current, self.active, self.shared):
            found.clear()
        self.skipped.clear()
        self.changed.clear()
        changes = {change.number: change for change in self.class_changes}
        names_at: dict[int, dict[str, str | None]] = {}
        names: dict[str, str | None] = {}
        restored: dict[int, str | None] = {}
        for change in reversed(self.class_changes):
            names_at[change.number] = dict(names)
            _step_back(names, restored, change, self.class_changes)
        for number, event in self.events.items():
            if number in changes:
                names = names_at[number]
            else:
                self._apply(event, names)

    def _apply(self, event: Event, names: Mapping[str, str | None]) -> None:
        """Apply an answer, or the undo of one. ``names`` maps former class names to the current ones."""
        if event.label in names or event.guess in names:
            label = None if event.label is None else names.get(event.label, event.label)
            guess = None if event.guess is None else names.get(event.guess, event.guess)
            self.named[event.number] = replace(event, label=label, guess=guess)
        else:
            self.named[event.number] = event
        active = self.active.setdefault(event.annotator, [])
        if event.kind == "undo":
            assert event.target is not None
            active.remove(event.target)
            self._answers_of(event).remove(event.target)
        else:
            active.append(event.number)
            self._answers_of(event).append(event.number)
        before = self.labels.get(event.item)
        self._update_label(event.item)
        self._share(event.item)
        if self.labels.get(event.item) != before:
            self.changed.append(LabelChange(event.number, event.item, before))

    def _answers_of(self, event: Event) -> list[int]:
        return self.answers.setdefault(event.item, {}).setdefault(event.annotator, [])

    def set_copies(self, copies: Mapping[int, tuple[int, ...]]) -> None:
        """Change which items share a label."""
        for item in self.shared:
            self.labels.pop(item, None)
            self.skipped.discard(item)
        self.shared.clear()
        self.copies = copies
        for item in {copies[item][0] for item in copies.keys() & self.current.keys()}:
            self._share(item)

    def _share(self, item: int) -> None:
        """Give the copies of an item that have no answer the label of the copy that was answered last."""
        if item not in self.copies:
            return
        group = self.copies[item]
        last = {
            each: max(event.number for event in found.values()) for each in group if (found := self.current.get(each))
        }
        labeled = [each for each in last if each in self.labels]
        source = max(labeled or last, key=last.__getitem__, default=None)
        for each in group:
            if each in last:
                self.shared.pop(each, None)
                continue
            self.labels.pop(each, None)
            self.skipped.discard(each)
            if source is None:
                self.shared.pop(each, None)
                continue
            self.shared[each] = source
            if labeled:
                self.labels[each] = self.labels[source]
            else:
                self.skipped.add(each)

    def _update_label(self, item: int) -> None:
        by_person = self.answers[item]
        for who in [who for who, numbers in by_person.items() if not numbers]:
            del by_person[who]
        latest = {who: self.named[numbers[-1]] for who, numbers in by_person.items()}
        current = {who: event for who, event in latest.items() if event.label is not None or event.kind == "skip"}
        self.current[item] = current
        self._update_partial(item)
        answers = list(current.values())
        given = sorted((event for event in answers if event.label is not None), key=lambda event: event.number)
        if not given:
            self.labels.pop(item, None)
            (self.skipped.add if answers else self.skipped.discard)(item)
            return
        self.skipped.discard(item)
        votes = Counter(event.label for event in given)
        most = max(votes.values())
        # Iterate from the latest answer, so that it wins a tie.
        majority = next(event.label for event in reversed(given) if event.label and votes[event.label] == most)
        reviewed = [event.label for event in given if event.why == "review" and event.label is not None]
        self.labels[item] = reviewed[-1] if reviewed else majority

    def _update_partial(self, item: int) -> None:
        if 0 < len(self.current[item]) < self.overlap:
            self.partial[item] = None
        else:
            self.partial.pop(item, None)

    def set_overlap(self, overlap: int) -> None:
        """Change the number of annotators that each item needs."""
        self.overlap = overlap
        for item in self.current:
            self._update_partial(item)

    def current_answers(self, item: int) -> dict[str, Event]:
        """By annotator, the latest answer on an item that is not undone."""
        return self.current.get(item, {})

    def deciding_answers(self, item: int) -> dict[str, Event]:
        """The current answers that decide an item's label: its own, or those of a copy."""
        return self.current_answers(self.shared.get(item, item))

    def votes(self, item: int) -> dict[str, Event]:
        """By annotator, the independent labels (not from a review); if there are none, the reviews."""
        given = {who: event for who, event in self.deciding_answers(item).items() if event.label is not None}
        return {who: event for who, event in given.items() if event.why != "review"} or given

    def n_answers(self, item: int) -> int:
        """Number of annotators who have answered."""
        return len(self.current.get(item, ()))

    def has_answered(self, item: int, annotator: str) -> bool:
        return annotator in self.current.get(item, ())

    def is_audited(self, item: int) -> bool:
        """Whether any answer that is not undone was part of the audit."""
        answers = self.answers.get(item, {}).values()
        return any(self.events[each].why == "audit" for numbers in answers for each in numbers)

    def last_of(self, annotator: str) -> Event | None:
        """The annotator's last answer that is not undone."""
        active = self.active.get(annotator)
        return self.events[active[-1]] if active else None

    def last_labeler(self, item: int) -> str | None:
        """The last annotator whose answer equals the current label."""
        matching = [event for event in self.deciding_answers(item).values() if event.label == self.labels.get(item)]
        return max(matching, key=lambda event: event.number).annotator if matching and item in self.labels else None

    def names_since(self, number: int) -> dict[str, str | None]:
        """By class as it was named after event `number`, its current name, or None if it was removed."""
        return names_since(self.class_changes, number)

    def current_name(self, name: str) -> str | None:
        """The current name of a former class, or None if it was removed; any other name is returned unchanged."""
        last = max((change.number for change in self.class_changes if change.label == name), default=None)
        return name if last is None else self.names_since(last - 1).get(name, name)

    def undoable_change(self) -> Event | None:
        """The last change of a class that can be undone."""
        stack: list[int] = []
        for change in self.class_changes:
            if change.target is None:
                stack.append(change.number)
            else:
                stack.remove(change.target)
        return self.events[stack[-1]] if stack else None

    @property
    def last_merge(self) -> int:
        """Number of the last event that merged, removed or restored a class; 0 if there is none."""
        return max((change.number for change in self.class_changes if change.kind != "rename"), default=0)
