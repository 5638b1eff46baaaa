"""How far people agree on what several of them answered."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class Agreement(NamedTuple):
    """Over items that two people or more labelled."""

    items: int
    agree: float | None
    """The share of pairs of answers that are the same."""
    kappa: float | None
    """Beyond chance: Cohen's of two people who answered all of it, else Fleiss', of any number an item."""


def agreement(answers: Sequence[Sequence[tuple[str, str]]]) -> Agreement:
    """Of (person, label) for each item that has two or more.

    Examples
    --------
    >>> both = [[("ann", "a"), ("bob", "a")], [("ann", "a"), ("bob", "b")], [("ann", "b"), ("bob", "b")]]
    >>> found = agreement([*both, [("ann", "b"), ("bob", "b")]])
    >>> found.items, found.agree, round(found.kappa, 3)
    (4, 0.75, 0.5)
    """
    shared = [item for item in answers if len(item) > 1]
    if not shared:
        return Agreement(0, None, None)
    pairs, same = 0, 0
    for item in shared:
        counts = Counter(label for _, label in item)
        pairs += len(item) * (len(item) - 1)
        same += sum(n * (n - 1) for n in counts.values())
    people = {frozenset(who for who, _ in item) for item in shared}
    is_pair = len(people) == 1 and len(next(iter(people))) == 2
    return Agreement(len(shared), same / pairs, cohen(shared) if is_pair else fleiss(shared))


def cohen(items: Sequence[Sequence[tuple[str, str]]]) -> float | None:
    """Cohen's kappa of two people; None where each used one class alone."""
    first, second = sorted({who for item in items for who, _ in item})
    said = [dict(item) for item in items]
    observed = sum(each[first] == each[second] for each in said) / len(said)
    ours, theirs = (Counter(each[who] for each in said) for who in (first, second))
    expected = sum(ours[label] * theirs[label] for label in ours) / len(said) ** 2
    return _beyond(observed, expected)


def fleiss(items: Sequence[Sequence[tuple[str, str]]]) -> float | None:
    """Fleiss' kappa, for items that need not have the same number of answers."""
    totals: Counter[str] = Counter()
    agree = 0.0
    for item in items:
        counts = Counter(label for _, label in item)
        totals += counts
        agree += sum(n * (n - 1) for n in counts.values()) / (len(item) * (len(item) - 1))
    expected = sum((n / totals.total()) ** 2 for n in totals.values())
    return _beyond(agree / len(items), expected)


def _beyond(observed: float, expected: float) -> float | None:
    return None if expected >= 1.0 else (observed - expected) / (1.0 - expected)
