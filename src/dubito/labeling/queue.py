"""The queue of picks, and the leases that assign them to annotators."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from dubito.labeling.events import LabelTable
from dubito.labeling.store import Pick

LEASE = 600.0
"""Seconds for which an item stays assigned to an annotator. `ask` proposes items; `hold` leases or renews them."""


class PickQueue:
    """The picks of the current round in order, and the leases on them. Times are of the monotonic clock.

    Parameters
    ----------
    label_table : LabelTable
        The current answers.
    overlap : int
        Number of annotators that each item needs.
    """

    def __init__(self, label_table: LabelTable, overlap: int) -> None:
        self.table, self.overlap = label_table, overlap
        self.picks: list[Pick] = []
        self.random_order: list[int] = []
        """All items in random order, used when the picks run out."""
        self.is_open: Callable[[int], bool] = lambda item: True
        """Whether an item may be queried, given the user's restriction."""
        self._by_item: dict[int, Pick] = {}
        self._in_round: set[int] = set()
        self._holders: dict[int, dict[str, float]] = {}
        self._held: dict[str, dict[int, float]] = {}
        self._next_pick = self._next_random = 0
        """Where scans begin: all picks before it have enough answers, and all random items before it at least one."""

    def rescan(self) -> None:
        """Scan from the start again, after an answer was undone."""
        self._next_pick = self._next_random = 0

    def replace(self, picks: Sequence[Pick]) -> None:
        """Replace the picks by those of a new round; existing leases stay."""
        kept = {item: self._by_item[item] for item in self._holders if item in self._by_item}
        self.picks, self._in_round = list(picks), {pick.item for pick in picks}
        self._by_item = {**kept, **{pick.item: pick for pick in picks}}
        self._next_pick = 0

    def pick_of(self, item: int) -> Pick | None:
        return self._by_item.get(item)

    def restore(self, leases: Iterable[tuple[int, str, float]], wall: float, now: float, longest: float) -> None:
        """Load stored leases, converting wall-clock expiry times to the monotonic clock.

        No lease lasts longer than `longest` seconds, even if the wall clock was or is wrong.
        """
        self._holders, self._held = {}, {}
        for item, annotator, until in leases:
            self.hold(annotator, [item], now + min(until - wall, longest))

    def hold(self, annotator: str, items: Iterable[int], until: float) -> None:
        for item in items:
            self._holders.setdefault(item, {})[annotator] = until
            self._held.setdefault(annotator, {})[item] = until

    def release(self, annotator: str, items: Iterable[int] | None = None) -> list[int]:
        """End the annotator's leases on these items, or on all; return the items that were leased."""
        held = self._held.get(annotator, {})
        released = [item for item in (list(held) if items is None else items) if item in held]
        for item in released:
            del held[item]
            self._holders[item].pop(annotator, None)
            if not self._holders[item]:
                del self._holders[item]
        return released

    def held_by(self, annotator: str) -> dict[int, float]:
        """By item, when the annotator's lease expires, in the order in which the items were assigned."""
        return self._held.get(annotator, {})

    def held(self, now: float) -> set[int]:
        """Items with an unexpired lease."""
        return {item for item, holders in self._holders.items() if max(holders.values()) > now}

    def ask(self, annotator: str, count: int, now: float) -> list[Pick]:
        """Items to show next: those leased already, those that need more answers, the picks in order, random items."""
        found = [self._pick_for(item) for item in self.held_by(annotator) if self._is_pending(item, annotator, now)]
        taken = {pick.item for pick in found}
        for pick in self._available(annotator, now):
            if len(found) >= count:
                break
            if pick.item not in taken:
                found.append(pick)
                taken.add(pick.item)
        return found[:count]

    def _pick_for(self, item: int) -> Pick:
        return self._by_item.get(item) or Pick(0, 0, item, "covers")

    def _is_pending(self, item: int, annotator: str, now: float) -> bool:
        """Whether an annotator may still answer an item that they have leased, even if the lease has expired."""
        if self.table.has_answered(item, annotator) or not self.is_open(item):
            return False
        until = self._held[annotator][item]
        return until > now or self.has_capacity(item, annotator, now)

    def has_capacity(self, item: int, annotator: str, now: float) -> bool:
        """Whether fewer than `overlap` other annotators have answered the item or hold a lease on it."""
        holders = self._holders.get(item)
        if holders is None:
            return self.table.n_answers(item) < self.overlap
        n_others = sum(
            who != annotator and until > now and not self.table.has_answered(item, who)
            for who, until in holders.items()
        )
        return self.table.n_answers(item) + n_others < self.overlap

    def _available(self, annotator: str, now: float) -> Iterator[Pick]:
        if self.overlap > 1:
            for item in list(self.table.partial):
                if self._can_assign(item, annotator, now):
                    yield replace(self._pick_for(item), why="overlap")
        for position in range(self._next_pick, len(self.picks)):
            pick = self.picks[position]
            if self._can_assign(pick.item, annotator, now):
                yield pick
            elif position == self._next_pick and self.table.n_answers(pick.item) >= self.overlap:
                self._next_pick += 1
        yield from self._random_picks(annotator, now)

    def _random_picks(self, annotator: str, now: float) -> Iterator[Pick]:
        """Random items to show while the next round is computed. The estimate of accuracy does not use them."""
        while self._next_random < len(self.random_order) and self.table.n_answers(self.random_order[self._next_random]):
            self._next_random += 1
        number = self.picks[-1].round if self.picks else 0
        for position in range(self._next_random, len(self.random_order)):
            item = self.random_order[position]
            if item not in self._in_round and self._can_assign(item, annotator, now):
                pick = Pick(number, len(self.picks), item, "random")
                self._by_item[item] = pick
                yield pick

    def _can_assign(self, item: int, annotator: str, now: float) -> bool:
        is_new = self.is_open(item) and not self.table.has_answered(item, annotator)
        return is_new and self.has_capacity(item, annotator, now)

    def has_unanswered(self) -> bool:
        """Whether any pick is unanswered; checks the last picks first, which are answered last."""
        return any(not self.table.n_answers(pick.item) and self.is_open(pick.item) for pick in reversed(self.picks))

    def n_unanswered(self) -> int:
        return sum(not self.table.n_answers(pick.item) and self.is_open(pick.item) for pick in self.picks)
