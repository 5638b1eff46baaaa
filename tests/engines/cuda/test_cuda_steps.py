"""Steps of a beam in one kernel, and what leads from front to front, against a few lines of Python."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from dubito.engines.lazy.front import Threshold
from dubito.matrix import BoolArray, IntArray

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
beam = import_module("dubito.engines.cuda.beam")
board = import_module("dubito.engines.cuda.board")
tables = import_module("dubito.engines.cuda.tables")
fronts = import_module("dubito.engines.cuda.fronts")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SetConstant = Callable[[str, float], None]
Tensor = Any


def there(array: object, dtype: object = None) -> Tensor:
    return torch.tensor(np.asarray(array), dtype=dtype, device=DEVICE)


# The kernel


class Beam:
    """A beam over a board, with sets of picks compared as sets."""

    def __init__(self, rng: np.random.Generator, n: int, width: int, n_scores: int) -> None:
        self.n, self.width = n, width
        keys = rng.permutation(n * 3)
        self.start, lower = np.sort(keys)[::-1][:n][rng.permutation(n)], keys
        # Each key belongs to one candidate: what picks leave are keys that no start is.
        free = np.setdiff1d(lower, self.start)
        owner = rng.integers(0, n, len(free))
        self.lowered = np.full((n, n), board.NEVER)
        for key, candidate in zip(free, owner, strict=True):
            self.lowered[rng.random(n) < 0.2, candidate] = key
        self.gains = rng.integers(0, n_scores, n)
        self.rows: list[IntArray] = [self.start.copy()]
        self.sets, self.totals = [frozenset[int]()], [0]

    def proposals(self) -> list[list[int]]:
        order = [np.argsort(-row)[: self.width] for row in self.rows]
        return [[int(pick) for pick in first if row[pick] >= 0] for first, row in zip(order, self.rows, strict=True)]

    def last_keys(self) -> list[int]:
        return [int(np.sort(row)[::-1][min(self.width, self.n) - 1]) for row in self.rows]

    def step(self) -> None:
        children = sorted(
            (-self.totals[rank] - int(self.gains[pick]), rank, -int(self.rows[rank][pick]), pick)
            for rank, first in enumerate(self.proposals())
            for pick in first
        )
        kept: dict[frozenset[int], tuple[int, int, int]] = {}
        for total, rank, _, pick in children:
            kept.setdefault(self.sets[rank] | {pick}, (rank, pick, -total))
        chosen = list(kept.items())[: self.width]
        self.rows = [self.extend(self.rows[rank], pick) for _, (rank, pick, _) in chosen]
        self.sets, self.totals = [picks for picks, _ in chosen], [total for _, (_, _, total) in chosen]

    def extend(self, row: IntArray, pick: int) -> IntArray:
        lowered: IntArray = np.minimum(row, self.lowered[pick])
        lowered[pick] = -1
        return lowered

    def make_board(self, n_columns: int, bar: int) -> Any:
        start, gains = np.full(n_columns, -1), np.zeros(n_columns, dtype=np.int64)
        lowered = np.full((self.n, n_columns), board.NEVER)
        start[: self.n], gains[: self.n], lowered[:, : self.n] = self.start, self.gains, self.lowered
        return board.DeviceBoard(
            there(start, torch.int32), there(lowered, torch.int32), there(gains), there([bar], torch.int32)
        )

    def held(self) -> tuple[IntArray, BoolArray]:
        """Places that some configurations hold, and which do; those that all hold count as well."""
        own = np.array(sorted(frozenset().union(*self.sets)), dtype=np.int64)
        return own, np.array([[place in picks for place in own.tolist()] for picks in self.sets], dtype=np.bool_)


@pytest.mark.parametrize("seed", range(6))
def test_steps_are_those_of_a_beam_that_compares_sets(seed: int, set_constant: SetConstant) -> None:
    rng = np.random.default_rng(seed)
    width, n = int(rng.integers(2, 6)), int(rng.integers(6, 15))
    # Few scores: many children score alike.
    plain = Beam(rng, n, width, n_scores=int(rng.choice([1, 3, 1000])))
    set_constant("CHILDREN", int(rng.choice([8, 512])))
    for _ in range(int(rng.integers(0, 3))):
        plain.step()
    own, is_held = plain.held()
    made = tables.run_steps(
        plain.make_board(16, -1), there(own), there(is_held).reshape(len(plain.sets), -1), there(plain.totals), width, 3
    )
    for _ in range(3):
        plain.step()
    assert made.keys[:, :n].tolist() == [row.tolist() for row in plain.rows]
    assert made.totals.tolist() == plain.totals
    assert made.parents.shape == made.picks.shape == made.heights.shape == (3, width)


@pytest.mark.parametrize("seed", range(4))
def test_a_front_stops_before_a_proposal_that_something_outside_may_come_before(seed: int) -> None:
    rng = np.random.default_rng(seed)
    plain = Beam(rng, 14, 3, n_scores=50)
    bar = int(np.sort(plain.start)[4])
    nothing = there(np.zeros((1, 0), dtype=np.bool_))
    made = tables.run_steps(plain.make_board(16, bar), there(np.zeros(0, dtype=np.int64)), nothing, there([0]), 3, 9)
    n_steps = 0
    while min(plain.last_keys()) >= bar:
        plain.step()
        n_steps += 1
    assert 0 < n_steps < 9
    assert len(made.picks) == n_steps
    assert made.keys[:, :14].tolist() == [row.tolist() for row in plain.rows]


def test_a_row_whose_highest_keys_crowd_together_is_searched_all_the_same() -> None:
    plain = Beam(np.random.default_rng(0), 60, 2, n_scores=1000)
    # The first quarter holds everything: of four groups of sixteen one has as many as are to be listed.
    plain.start = np.arange(60)[::-1].copy()
    plain.start[16:] = -1
    plain.lowered[:] = board.NEVER
    plain.rows = [plain.start.copy()]
    nothing = there(np.zeros((1, 0), dtype=np.bool_))
    made = tables.run_steps(plain.make_board(64, -1), there(np.zeros(0, dtype=np.int64)), nothing, there([0]), 2, 2)
    plain.step()
    plain.step()
    assert made.keys[:, :60].tolist() == [row.tolist() for row in plain.rows]


# Between fronts


@pytest.mark.parametrize("seed", range(20))
def test_the_first_that_are_not_picked_are_as_many_as_asked_for(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bound = rng.integers(-1, int(rng.choice([1, 2, 5, 50])), int(rng.integers(1, 25))).astype(np.float64)
    size = int(rng.integers(1, 12))
    rows, threshold = fronts.first_unpicked(there(bound), size)
    order = np.lexsort((np.arange(len(bound)), -bound))
    order = order[bound[order] >= 0.0]
    assert rows.tolist() == sorted(order[:size].tolist())
    after = order[size] if len(order) > size else -1
    assert threshold == Threshold(bound[after] if after >= 0 else -1.0, after)


def test_keys_are_in_the_order_in_which_candidates_are_picked() -> None:
    values, candidates = np.array([2.0, 1.0, 2.0, 0.0, 1.0]), np.array([0, 1, 2, 3, 0])
    order = board.in_order(there(values), there(candidates))
    assert order.tolist() == [3, 1, 4, 2, 0]


@pytest.mark.parametrize("n_steps", [0, 1, 2, 7, 8])
def test_a_configuration_is_traced_back_to_its_first_pick(n_steps: int) -> None:
    rng = np.random.default_rng(n_steps)
    parents, picks = rng.integers(0, 3, (n_steps, 3)), rng.integers(0, 99, (n_steps, 3))
    squared = rng.random((n_steps, 3))
    half = n_steps // 2
    past = [
        beam.Past(there(parents[span]), there(picks[span]), there(squared[span]))
        for span in (slice(0, half), slice(half, n_steps))
    ]
    found, heights = beam.trace(past, 3)
    for rank in range(3):
        now, expected = rank, list[tuple[int, float]]()
        for step in reversed(range(n_steps)):
            expected.append((int(picks[step, now]), float(squared[step, now])))
            now = int(parents[step, now])
        assert list(zip(found[rank].tolist(), heights[rank].tolist(), strict=True)) == expected[::-1]
