"""Steps of a beam in one thread block, compared with a few lines of Python."""

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
fronts = import_module("dubito.engines.cuda.bounds")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SetConstant = Callable[[str, float], None]
Tensor = Any
NEVER = 2**31 - 1
"""The key of a candidate whose priority a pick does not lower."""
Runner = Callable[["Beam", int, int], Any]


def there(array: object, dtype: object = None) -> Tensor:
    return torch.tensor(np.asarray(array), dtype=dtype, device=DEVICE)


# The kernels


@pytest.fixture
def run_steps(block_program: Any) -> Runner:
    """Makes steps of a beam from its current state, given a threshold key and a limit."""

    def run(plain: "Beam", threshold_key: int, limit: int) -> Any:
        own, is_held = plain.held()
        held = there(is_held).reshape(len(plain.sets), len(own))
        state = plain.keyed_front(threshold_key), there(own), held, there(plain.totals, torch.int64), plain.width, limit
        steps, is_stuck = beam.run_in_block(block_program, *state)
        assert not is_stuck
        return steps

    return run


def assert_same(made: Any, plain: "Beam") -> None:
    """Compare the keys and scores of each configuration, and the steps that led to them."""
    assert made.keys.tolist() == [row.tolist() for row in plain.rows]
    assert made.totals.tolist() == plain.totals
    assert len(made.picks) == len(made.parents) == len(made.pick_keys) == len(plain.history)
    for parents, picks, heights, step in zip(made.parents, made.picks, made.pick_keys, plain.history, strict=True):
        described = zip(parents.tolist(), picks.tolist(), heights.tolist(), strict=True)
        assert list(described)[: len(step)] == step


class Beam:
    """A plain beam in a front with keys, which compares sets of picks as sets."""

    def __init__(self, rng: np.random.Generator, n: int, width: int, n_scores: int, share: float = 0.2) -> None:
        self.n, self.width = n, width
        keys = rng.permutation(n * 3)
        self.start, lower = np.sort(keys)[::-1][:n][rng.permutation(n)], keys
        # Each key belongs to one candidate: the keys after picks differ from all keys at the start.
        free = np.setdiff1d(lower, self.start)
        owner = rng.integers(0, n, len(free))
        self.lowered = np.full((n, n), NEVER)
        for key, candidate in zip(free, owner, strict=True):
            self.lowered[rng.random(n) < share, candidate] = key
        self.gains = rng.integers(0, n_scores, n)
        self.rows: list[IntArray] = [self.start.copy()]
        self.sets, self.totals = [frozenset[int]()], [0]
        self.history: list[list[tuple[int, int, int]]] = []

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
        self.history.append([(rank, pick, int(self.rows[rank][pick])) for _, (rank, pick, _) in chosen])
        self.rows = [self.extend(self.rows[rank], pick) for _, (rank, pick, _) in chosen]
        self.sets, self.totals = [picks for picks, _ in chosen], [total for _, (_, _, total) in chosen]

    def extend(self, row: IntArray, pick: int) -> IntArray:
        lowered: IntArray = np.minimum(row, self.lowered[pick])
        lowered[pick] = -1
        return lowered

    def keyed_front(self, threshold_key: int) -> Any:
        picks, others = np.nonzero(self.lowered < NEVER)
        order = np.random.default_rng(0).permutation(len(picks))
        picks, others = picks[order], others[order]
        left = self.lowered[picks, others]
        n_keys = 1 + int(max(self.start.max(), left.max(initial=0)))
        return beam.KeyedFront(
            there(self.start, torch.int32), there(picks), there(others), there(left, torch.int32),
            there(self.gains), there([threshold_key], torch.int32), n_keys,
        )  # fmt: skip

    def held(self) -> tuple[IntArray, BoolArray]:
        """Positions that some or all configurations picked, and which configurations picked them."""
        own = np.array(sorted(frozenset().union(*self.sets)), dtype=np.int64)
        return own, np.array([[position in picks for position in own.tolist()] for picks in self.sets], dtype=np.bool_)


@pytest.mark.parametrize("seed", range(6))
def test_steps_are_those_of_a_beam_that_compares_sets(seed: int, run_steps: Runner) -> None:
    rng = np.random.default_rng(seed)
    width, n = int(rng.integers(2, 6)), int(rng.integers(6, 15))
    # Few different scores, so that many children have equal ones.
    plain = Beam(rng, n, width, n_scores=int(rng.choice([1, 3, 1000])))
    for _ in range(int(rng.integers(0, 3))):
        plain.step()
    plain.history.clear()
    made = run_steps(plain, -1, 3)
    for _ in range(3):
        plain.step()
    assert_same(made, plain)


@pytest.mark.parametrize("seed", range(4))
def test_steps_stop_if_a_candidate_outside_may_come_before_a_proposal(seed: int, run_steps: Runner) -> None:
    rng = np.random.default_rng(seed)
    plain = Beam(rng, 14, 3, n_scores=50)
    threshold_key = int(np.sort(plain.start)[4])
    made = run_steps(plain, threshold_key, 9)
    while min(plain.last_keys()) >= threshold_key:
        plain.step()
    assert 0 < len(plain.history) < 9
    assert_same(made, plain)


def test_a_limit_of_zero_makes_no_steps(run_steps: Runner) -> None:
    plain = Beam(np.random.default_rng(3), 12, 3, n_scores=50)
    plain.step()
    plain.history.clear()
    assert_same(run_steps(plain, -1, 0), plain)


def test_all_candidates_are_picked_at_the_end_and_one_set_remains(run_steps: Runner) -> None:
    plain = Beam(np.random.default_rng(4), 6, 3, n_scores=50)
    made = run_steps(plain, -1, 6)
    for _ in range(6):
        plain.step()
    assert len(plain.sets) == 1
    assert_same(made, plain)


def test_keys_that_fall_into_one_bucket_are_searched(run_steps: Runner) -> None:
    plain = Beam(np.random.default_rng(0), 60, 2, n_scores=1000)
    # Only 16 candidates can be picked; the keys of all others are -1.
    plain.start = np.arange(60)[::-1].copy()
    plain.start[16:] = -1
    plain.lowered[:] = NEVER
    plain.rows = [plain.start.copy()]
    made = run_steps(plain, -1, 2)
    plain.step()
    plain.step()
    assert_same(made, plain)


@pytest.mark.parametrize(
    ("width", "n_scores", "share"),
    [
        (3, 1000, 0.002),
        pytest.param(20, 10**6, 0.01, marks=pytest.mark.slow),
        pytest.param(32, 5, 0.05, marks=pytest.mark.slow),
    ],
)
def test_a_list_that_is_too_short_is_built_again(width: int, n_scores: int, share: float, block_program: Any) -> None:
    plain, limit = Beam(np.random.default_rng(width), 300, width, n_scores, share), beam.SLOTS - width + 5
    for _ in range(5):
        plain.step()
    plain.history.clear()
    own, is_held = plain.held()
    state = there(own), there(is_held), there(plain.totals, torch.int64), width, limit
    made, is_stuck = beam.run_in_block(block_program, plain.keyed_front(40), *state)
    while len(plain.history) < limit and min(plain.last_keys()) >= 40:
        plain.step()
    # Each step removes at least one candidate from the list of every configuration.
    assert len(plain.history) > beam.SLOTS - width
    assert not is_stuck
    assert_same(made, plain)


def test_scores_of_very_different_sizes_are_distinguished(block_program: Any) -> None:
    rng = np.random.default_rng(7)
    plain = Beam(rng, 200, 8, 3, 0.01)
    plain.gains = rng.choice([0, 1, 2, 3, 1 << 30, (1 << 30) + 1, 1 << 33, 1 << 36], 200)
    state = there(np.zeros(0, dtype=np.int64)), there(np.zeros((1, 0), dtype=np.bool_)), there([0]), 8, 60
    made, _ = beam.run_in_block(block_program, plain.keyed_front(-1), *state)
    for _ in range(60):
        plain.step()
    assert_same(made, plain)


def test_own_picks_that_lower_most_of_the_front_are_considered(block_program: Any) -> None:
    """A list by the keys after common picks would contain only candidates that no configuration proposes."""
    rng = np.random.default_rng(8)
    plain = Beam(rng, 400, 3, 1000, 0.0)
    # Each of the first six lowers the keys of all others. A key is a multiple of 400 plus the candidate's position.
    plain.lowered[:6, 6:] = 400 * rng.integers(0, 50, (6, 394)) + np.arange(6, 400)
    plain.start = 400 * 50 + rng.permutation(400)
    plain.sets, plain.totals = [frozenset({0, 1}), frozenset({2, 3}), frozenset({4, 5})], [9, 8, 7]
    plain.rows = [plain.extend(plain.extend(plain.start, min(picks)), max(picks)) for picks in plain.sets]
    own, is_held = plain.held()
    state = there(own), there(is_held), there(plain.totals, torch.int64), 3, 20
    made, is_stuck = beam.run_in_block(block_program, plain.keyed_front(-1), *state)
    assert not is_stuck
    for _ in range(20):
        plain.step()
    assert_same(made, plain)


def test_a_list_that_own_picks_would_fill_is_reported_as_such(block_program: Any) -> None:
    """Two configurations have no pick in common, and all their picks do not fit on the list."""
    plain = Beam(np.random.default_rng(5), 300, 2, 1000, 0.0)
    plain.sets = [frozenset(range(each, each + 64)) for each in (0, 64)]
    plain.rows = [np.where(np.isin(np.arange(300), list(picks)), -1, plain.start) for picks in plain.sets]
    plain.totals = [5, 3]
    own, is_held = plain.held()
    state = there(own), there(is_held), there(plain.totals, torch.int64), 2, 5
    made, is_stuck = beam.run_in_block(block_program, plain.keyed_front(-1), *state)
    assert is_stuck
    assert_same(made, plain)


def test_there_is_no_block_program_without_a_gpu() -> None:
    assert beam.block_program(torch.device("cpu")) is None


def test_the_largest_front_fits_in_shared_memory() -> None:
    for width in (2, 20, 32):
        for most in (100_000, 166_912, 232_448):
            n = beam.largest_front(most, width)
            assert n <= beam.LARGEST_BLOCK_FRONT
            assert n == 0 or beam.shared_bytes(width, n) <= most
            assert n == beam.LARGEST_BLOCK_FRONT or beam.shared_bytes(width, n + 1) > most
    assert beam.largest_front(232_448, 33) == 0
    assert beam.largest_front(65_536, 2) == 0


# Between fronts


@pytest.mark.parametrize("seed", range(20))
def test_first_unpicked_returns_the_requested_number(seed: int) -> None:
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
    order = beam.in_order(there(values), there(candidates))
    assert order.tolist() == [3, 1, 4, 2, 0]


@pytest.mark.parametrize("n_steps", [0, 1, 2, 7, 8])
def test_a_configuration_is_traced_back_to_its_first_pick(n_steps: int) -> None:
    rng = np.random.default_rng(n_steps)
    parents, picks = rng.integers(0, 3, (n_steps, 3)), rng.integers(0, 99, (n_steps, 3))
    squared = rng.random((n_steps, 3))
    half = n_steps // 2
    history = [
        beam.StepRecord(there(parents[span]), there(picks[span]), there(squared[span]))
        for span in (slice(0, half), slice(half, n_steps))
    ]
    found, heights = beam.trace_configurations(history, 3)
    for rank in range(3):
        now, expected = rank, list[tuple[int, float]]()
        for step in reversed(range(n_steps)):
            expected.append((int(picks[step, now]), float(squared[step, now])))
            now = int(parents[step, now])
        assert list(zip(found[rank].tolist(), heights[rank].tolist(), strict=True)) == expected[::-1]
