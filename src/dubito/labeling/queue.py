"""Which items wait for whom: the picks of a round, and who holds which of them for how long."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from dubito.labeling.events import Book
from dubito.labeling.store import Pick

LEASE = 600.0
"""Seconds for which an item is held for whoever it was shown to; asking again renews that."""


class WaitingList:
    """The picks that wait, and the leases on them.

    Parameters
    ----------
    book : Book
        What is answered already.
    overlap : int
        How many people are to answer each item.
    """

    def __init__(self, book: Book, overlap: int) -> None:
        self.book, self.overlap = book, overlap
        self.picks: list[Pick] = []
        self.spare: list[int] = []
        """Items in an order of chance, for when picks run out."""
        self.is_open: Callable[[int], bool] = lambda item: True
        """Whether an item may be asked for, by what a person restricted it to."""
        self._by_item: dict[int, Pick] = {}
        self._in_round: set[int] = set()
        self._holders: dict[int, dict[str, float]] = {}
        self._held: dict[str, dict[int, float]] = {}
        self._first = self._first_spare = 0
        """Before these, all picks and all spare items are answered."""

    def look_again(self) -> None:
        """An answer was taken back: what was answered may be asked for again."""
        self._first = self._first_spare = 0

    def replace(self, picks: Sequence[Pick]) -> None:
        """A new round; what somebody holds stays with them."""
        kept = {item: self._by_item[item] for item in self._holders if item in self._by_item}
        self.picks, self._in_round = list(picks), {pick.item for pick in picks}
        self._by_item = {**kept, **{pick.item: pick for pick in picks}}
        self._first = 0

    def pick_of(self, item: int) -> Pick | None:
        """The pick by which an item was asked for."""
        return self._by_item.get(item)

    def restore(self, leases: Iterable[tuple[int, str, float]], wall: float, now: float, longest: float) -> None:
        """Leases as a store has them, by the wall clock; here they end by the monotonic clock, after `longest` at most.

        A wall clock that was wrong when a lease was made, or is wrong now, holds nothing for longer than that.
        """
        self._holders, self._held = {}, {}
        for item, annotator, until in leases:
            self.hold(annotator, [item], now + min(until - wall, longest))

    def hold(self, annotator: str, items: Iterable[int], until: float) -> None:
        """These are the annotator's until then, by the monotonic clock."""
        for item in items:
            self._holders.setdefault(item, {})[annotator] = until
            self._held.setdefault(annotator, {})[item] = until

    def let_go(self, annotator: str, items: Iterable[int] | None = None) -> list[int]:
        """These, or all, are no longer; those that were held."""
        held = self._held.get(annotator, {})
        gone = [item for item in (list(held) if items is None else items) if item in held]
        for item in gone:
            del held[item]
            self._holders[item].pop(annotator, None)
            if not self._holders[item]:
                del self._holders[item]
        return gone

    def held_by(self, annotator: str) -> dict[int, float]:
        """What the annotator holds, in the order in which it was handed out, and until when."""
        return self._held.get(annotator, {})

    def held(self, now: float) -> set[int]:
        """Whatever anybody holds at that time."""
        return {item for item, holders in self._holders.items() if max(holders.values()) > now}

    def ask(self, annotator: str, count: int, now: float) -> list[Pick]:
        """What to show next: what is held already, items that need another's answer, then the picks in their order."""
        found = [self._known(item) for item in self.held_by(annotator) if self._is_theirs(item, annotator, now)]
        taken = {pick.item for pick in found}
        for pick in self._free(annotator, now):
            if len(found) >= count:
                break
            if pick.item not in taken:
                found.append(pick)
                taken.add(pick.item)
        return found[:count]

    def _known(self, item: int) -> Pick:
        return self._by_item.get(item) or Pick(0, 0, item, "covers")

    def _is_theirs(self, item: int, annotator: str, now: float) -> bool:
        """Whether what they hold is still to be answered by them."""
        if self.book.has_answered(item, annotator) or not self.is_open(item):
            return False
        until = self._held[annotator][item]
        return until > now or self._room(item, annotator, now)

    def _room(self, item: int, annotator: str, now: float) -> bool:
        """Whether one more may answer: those who did and those who hold it are fewer than the overlap."""
        holders = self._holders.get(item)
        if holders is None:
            return self.book.n_answers(item) < self.overlap
        others = sum(
            1
            for who, until in holders.items()
            if who != annotator and until > now and not self.book.has_answered(item, who)
        )
        return self.book.n_answers(item) + others < self.overlap

    def _free(self, annotator: str, now: float) -> Iterator[Pick]:
        """What may be handed to this person, in order."""
        if self.overlap > 1:
            for item in list(self.book.partial):
                if self._may(item, annotator, now):
                    yield Pick(self._known(item).round, self._known(item).rank, item, "overlap")
        for place in range(self._first, len(self.picks)):
            pick = self.picks[place]
            if self._may(pick.item, annotator, now):
                yield pick
            elif place == self._first and self.book.n_answers(pick.item) >= self.overlap:
                self._first += 1
        yield from self._drawn(annotator, now)

    def _drawn(self, annotator: str, now: float) -> Iterator[Pick]:
        """Items by chance: better than to let a person wait. They are no audit, which a round draws as announced."""
        while self._first_spare < len(self.spare) and self.book.n_answers(self.spare[self._first_spare]):
            self._first_spare += 1
        number = self.picks[-1].round if self.picks else 0
        for place in range(self._first_spare, len(self.spare)):
            item = self.spare[place]
            if item not in self._in_round and self._may(item, annotator, now):
                pick = Pick(number, len(self.picks), item, "random")
                self._by_item[item] = pick
                yield pick

    def may_hold(self, item: int, annotator: str, now: float) -> bool:
        """Whether nobody else holds it, or there is room for one more."""
        return self._room(item, annotator, now)

    def _may(self, item: int, annotator: str, now: float) -> bool:
        return self.is_open(item) and not self.book.has_answered(item, annotator) and self._room(item, annotator, now)

    def has_left(self) -> bool:
        """Whether there is one; the last are the likeliest."""
        return any(not self.book.n_answers(pick.item) and self.is_open(pick.item) for pick in reversed(self.picks))

    def left(self) -> int:
        """Picks that nobody has answered."""
        return sum(1 for pick in self.picks if not self.book.n_answers(pick.item) and self.is_open(pick.item))
