"""BADGE: points whose last-layer gradients are large and diverse (Ash et al., 2020)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from dubito.core.distances import read_rows
from dubito.core.problem import Metric, Request
from dubito.doubt import mean_probabilities
from dubito.matrix import FloatArray, IntArray, Matrix, OnDevice, blocks, len_of, rows_per_read
from dubito.strategies.base import Choice, pick_one_by_one, require_probabilities
from dubito.threads import parallel_map, single_blas_thread

if TYPE_CHECKING:
    import torch

# K-means++ with many picks per pass over the points, exact by rejection sampling.
#
# A point's weight is its squared distance to the nearest pick, and weights only decrease. So older weights are upper
# bounds: a block of proposals is drawn from them, and each is accepted with probability (current / older weight). An
# accepted one is distributed exactly like a draw from the current weights, which the distances between the proposals
# determine. The weights of all other points are updated at the end of the block.

FIRST_BLOCK = 16
LARGEST_BLOCK = 256
"""Number of proposals per block: more save passes over the points, fewer are rejected less often."""


class PointSet(Protocol):
    """The n points to sample from, identified by their positions."""

    @property
    def squared_lengths(self) -> FloatArray:
        """(n,)"""

    def pairwise(self, positions: IntArray) -> FloatArray:
        """(k, k) squared distances, 0 if two points differ only by rounding."""

    def to_nearest(self, positions: IntArray) -> FloatArray:
        """(n,) squared distance of every point to the nearest of these, with the same rule."""


def sample(
    points: PointSet, rng: np.random.Generator, first: int = FIRST_BLOCK, largest: int = LARGEST_BLOCK
) -> Iterator[tuple[int, float]]:
    """All positions in the order of the picks, with the distance to the nearest earlier pick.

    The first pick is the longest point, with its length; each later one is drawn with probability proportional to its
    squared distance to the nearest pick. Once all of these are 0, the rest follows in random order. Blocks grow from
    ``first`` to ``largest`` proposals while a quarter of them is accepted. Taking fewer picks gives a prefix.

    Examples
    --------
    >>> class Line:
    ...     squared_lengths = np.array([0.0, 1.0, 1.0, 9.0])
    ...     def pairwise(self, positions):
    ...         return self.squares(positions)[positions]
    ...     def to_nearest(self, positions):
    ...         return self.squares(positions).min(axis=1)
    ...     def squares(self, positions):
    ...         points = np.sqrt(self.squared_lengths)
    ...         return (points[:, None] - points[positions]) ** 2
    >>> picks = list(sample(Line(), np.random.default_rng(0)))
    >>> [position for position, _ in picks], [distance for _, distance in picks]
    ([3, 1, 0, 2], [3.0, 2.0, 1.0, 0.0])
    """
    position = int(points.squared_lengths.argmax())
    yield position, float(np.sqrt(points.squared_lengths[position]))
    is_left = np.ones(len(points.squared_lengths), dtype=np.bool_)
    weights, picked, size = np.full(len(is_left), np.inf), np.array([position]), first
    while True:
        np.minimum(weights, points.to_nearest(picked), out=weights)
        weights[picked] = 0.0
        is_left[picked] = False
        if not weights.any():
            break
        picked, squared = draw_block(points, weights, rng.random((2, size)))
        yield from zip(picked.tolist(), np.sqrt(squared).tolist(), strict=True)
        size = next_size(size, len(picked), first, largest)
    yield from ((position, 0.0) for position in rng.permutation(np.flatnonzero(is_left)).tolist())


def draw_block(points: PointSet, weights: FloatArray, uniforms: FloatArray) -> tuple[IntArray, FloatArray]:
    """The accepted picks of a block, at least one, and the weight of each when it was picked.

    Parameters
    ----------
    points : PointSet
        The points to sample from.
    weights : array (n,)
        Squared distances to the nearest pick, not all zero.
    uniforms : array (2, k)
        Random numbers in [0, 1): to draw k proposals, and to accept or reject them.
    """
    steps = np.cumsum(weights)
    # The first sum above the draw. Rounding may raise a draw to the total; a point of weight 0 is never proposed.
    proposals = np.minimum(
        np.searchsorted(steps, uniforms[0] * steps[-1], side="right"), np.searchsorted(steps, steps[-1])
    )
    squared = points.pairwise(proposals)
    squared[proposals[:, None] == proposals] = 0.0
    before, now = weights[proposals], weights[proposals]
    kept = np.zeros(len(proposals), dtype=np.bool_)
    found = np.empty(len(proposals))
    for i, chance in enumerate(uniforms[1].tolist()):
        if chance < now[i] / before[i]:
            kept[i], found[i] = True, now[i]
            np.minimum(now, squared[i], out=now)
    return proposals[kept], found[kept]


def next_size(size: int, n_kept: int, first: int, largest: int) -> int:
    """The number of proposals in the next block, given how many were accepted in this one.

    A rejected proposal costs little compared with a pass over the points, so blocks stay large if few are accepted.

    Examples
    --------
    >>> [next_size(64, n_kept, 16, 256) for n_kept in (64, 16, 15, 4, 3)]
    [128, 128, 64, 64, 32]
    """
    if 4 * n_kept >= size:
        return min(2 * size, largest)
    return max(size // 2, first) if 16 * n_kept < size else size


@dataclass(frozen=True, slots=True)
class Badge:
    """K-means++ sampling of last-layer gradients, assuming the most probable label.

    The gradient of a point is the outer product of its error (probabilities minus the most probable label, one-hot) and
    its features. It is never computed: products of the factors give squared distances. The first pick has the largest
    gradient; each later one is drawn with probability proportional to its squared distance to the nearest picked
    gradient. Once all of these are 0 (the rest repeats the picks, or the model is certain), the rest of the budget is
    drawn uniformly. The seed determines the picks. Labeled points have no influence, as in the original.

    O(b·n·(c + d)) time in matrix products, with up to 256 picks per pass over the candidates' features, which are read
    in blocks. Needs memory for n·(c + 5) numbers. Features on a GPU stay there.
    """

    name: ClassVar[str] = "badge"
    uses_engine: ClassVar[bool] = False

    def plan(self, request: Request) -> None:
        require_probabilities(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are distances to the nearest gradient picked before; for the first pick, the gradient's length."""
        with single_blas_thread():
            errors = errors_of(require_probabilities(request, self.name), request.candidates)
            picks = sample(_gradients(request, errors), np.random.default_rng(request.seed))
            return pick_one_by_one(request, lambda: next(picks))


def _gradients(request: Request, errors: FloatArray) -> PointSet:
    pool, rows = request.pool, request.candidates
    if isinstance(pool, OnDevice):
        return DeviceGradients(pool, rows, errors, request.metric)
    return HostGradients(pool, rows, errors, request.metric)


def errors_of(probabilities: Matrix, rows: IntArray) -> FloatArray:
    """`label_errors` of some rows, read in blocks."""
    spans = blocks(len(rows), rows_per_read(probabilities))
    return np.concatenate([label_errors(probabilities[rows[span]]) for span in spans])


def label_errors(probabilities: Matrix) -> FloatArray:
    """Probabilities minus the one-hot most probable label; ties go to the first class.

    The negative entry is the sum of the others: ``max - 1`` would lose every digit of a confident float32 row.

    Examples
    --------
    >>> label_errors(np.array([[0.25, 0.5, 0.25]])).tolist()
    [[0.25, -0.5, 0.25]]
    """
    errors = mean_probabilities(probabilities)
    errors = np.asarray(errors / errors.sum(axis=1, keepdims=True))
    every, likeliest = np.arange(len(errors)), errors.argmax(axis=1)
    errors[every, likeliest] = 0.0
    errors[every, likeliest] = -errors.sum(axis=1)
    return errors


# The gradients as points in the memory of the machine, read in blocks.

HOST_BLOCK_BYTES = 1 << 20
"""Size of a block of float64 features, so that it and its products stay in a core's cache."""


def rounding(c: int, d: int) -> float:
    """A squared distance up to this fraction of the sum of the squared lengths may be rounding error.

    Examples
    --------
    >>> rounding(10, 512) < 1e-12
    True
    """
    return (c + d + 8) * 4e-16


@dataclass(frozen=True, slots=True)
class Factors:
    """Some gradients: errors (k, c), features (k, d), and squared lengths (k,), all of NumPy or all of torch."""

    errors: Any
    features: Any
    squared_lengths: Any

    def squared_distances(self, others: "Factors") -> Any:
        """(k, l) squared distances to other gradients, 0 if two differ only by rounding."""
        sums = self.squared_lengths[:, None] + others.squared_lengths
        squared = self.features @ others.features.T
        squared *= self.errors @ others.errors.T
        squared *= -2.0
        squared += sums
        sums *= rounding(self.errors.shape[1], self.features.shape[1])
        squared[squared <= sums] = 0.0
        return squared


class HostGradients:
    """Last-layer gradients of some rows of a pool, stored as their two factors.

    Examples
    --------
    >>> features, errors = np.array([[2.0], [0.0], [2.0]]), np.array([[-0.25, 0.25], [-0.5, 0.5], [0.25, -0.25]])
    >>> gradients = HostGradients(features, np.arange(3), errors)
    >>> gradients.squared_lengths.tolist(), gradients.to_nearest(np.array([0, 1])).tolist()
    ([0.5, 0.0, 0.5], [0.0, 0.0, 0.5])
    >>> gradients.pairwise(np.array([0, 2])).tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """

    def __init__(self, pool: Matrix, rows: IntArray, errors: FloatArray, metric: Metric = "euclidean") -> None:
        self.pool, self.rows, self.errors, self.metric = pool, rows, errors, metric
        self.is_whole = len(rows) == len_of(pool)
        lengths = [np.einsum("ij,ij->i", block, block) for block in map(self._block, self._spans())]
        self.squared_lengths: FloatArray = (errors * errors).sum(axis=1) * np.concatenate(lengths)
        """(n,)"""

    def pairwise(self, positions: IntArray) -> FloatArray:
        some = self._at(positions)
        return np.asarray(some.squared_distances(some))

    def to_nearest(self, positions: IntArray) -> FloatArray:
        picked, nearest = self._at(positions), np.empty(len(self.rows))

        def fill(span: slice) -> None:
            some = Factors(self.errors[span], self._block(span), self.squared_lengths[span])
            nearest[span] = some.squared_distances(picked).min(axis=1)

        parallel_map(fill, [(span,) for span in self._spans(len(positions))])
        return nearest

    def _at(self, positions: IntArray) -> Factors:
        features = read_rows(self.pool, self.rows[positions], self.metric)
        return Factors(self.errors[positions], features, self.squared_lengths[positions])

    def _spans(self, n_others: int = 1) -> Iterator[slice]:
        """Blocks of rows; ``n_others`` is the number of gradients that each is multiplied with."""
        return blocks(len(self.rows), max(1, HOST_BLOCK_BYTES // (8 * max(self.pool.shape[1], n_others))))

    def _block(self, span: slice) -> FloatArray:
        # A slice of a memory map is converted without a copy, unlike a list of rows.
        return read_rows(self.pool, span if self.is_whole else self.rows[span], self.metric)


# The gradients on a GPU, if the features are there. The device adds in its own order, so distances equal those of the
# host up to rounding.

DEVICE_BLOCK_BYTES = 64 << 20
"""Size of a block of float64 features."""


class DeviceGradients:
    """Last-layer gradients of some rows of a pool on a device, stored as their two factors.

    Needs memory for n·(c + 2) numbers on the device, and for blocks of features.

    Parameters
    ----------
    pool : OnDevice
        All features.
    rows : array (n,)
        The candidates.
    errors : array (n, c)
        Probabilities minus the one-hot most probable label.
    metric : str
        ``cosine`` makes the features unit vectors.
    """

    def __init__(self, pool: OnDevice, rows: IntArray, errors: FloatArray, metric: Metric) -> None:
        import torch

        self.tensor, self.metric = pool.tensor, metric
        self.rows = torch.tensor(rows, device=self.tensor.device)
        self.errors = torch.tensor(errors, device=self.tensor.device)
        lengths = [(block * block).sum(dim=1) for _, block in self._read()]
        self.lengths = (self.errors * self.errors).sum(dim=1) * torch.cat(lengths)
        self.squared_lengths: FloatArray = self.lengths.cpu().numpy()
        """(n,) on the host."""

    def pairwise(self, positions: IntArray) -> FloatArray:
        some = self._at(positions)
        return np.asarray(some.squared_distances(some).cpu().numpy())

    def to_nearest(self, positions: IntArray) -> FloatArray:
        import torch

        picked, parts = self._at(positions), list[torch.Tensor]()
        for span, features in self._read(len(positions)):
            some = Factors(self.errors[span], features, self.lengths[span])
            parts.append(some.squared_distances(picked).amin(dim=1))
        return np.asarray(torch.cat(parts).cpu().numpy())

    def _at(self, positions: IntArray) -> Factors:
        import torch

        at = torch.tensor(positions, device=self.rows.device)
        return Factors(self.errors[at], self._widened(self.rows[at]), self.lengths[at])

    def _read(self, n_others: int = 1) -> Iterator[tuple[slice, "torch.Tensor"]]:
        """Blocks of features in float64."""
        for span in blocks(len(self.rows), max(1, DEVICE_BLOCK_BYTES // (8 * max(self.tensor.shape[1], n_others)))):
            yield span, self._widened(self.rows[span])

    def _widened(self, rows: "torch.Tensor") -> "torch.Tensor":
        block = self.tensor.index_select(0, rows).double()
        if self.metric == "cosine":
            block /= block.abs().amax(dim=1, keepdim=True)  # So that squares do not overflow or underflow.
            block /= block.norm(dim=1, keepdim=True)
        return block
