"""The references of the CPU kernels: labeled points and picks. Sketches are stored; points are read when needed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from dubito.core.distances import read_rows
from dubito.core.problem import Metric, Problem
from dubito.engines.cpu.products import PANEL
from dubito.engines.cpu.sketch import Sketch, without_directions
from dubito.engines.lazy.bounds import Float32Array, squared_lengths
from dubito.matrix import AnyArray, FloatArray, IntArray, Matrix, blocks, len_of

ReadRows = Callable[[Matrix, IntArray, Metric], AnyArray]

READ_ROWS = 2048
FEWEST_JUDGED = 10_000
"""Minimum number of pairs from which the benefit of the sketch is estimated."""
COMPARE_COST = 100.0
"""Cost of computing the distance of a pair, relative to the cost of bounding it by sketches."""


class ReferenceArrays(NamedTuple):
    """The arrays of all references, labeled points first, then picks."""

    sizes: FloatArray
    """(capacity,) squared lengths of shifted references."""
    targets: Float32Array
    """(capacity, k + 1)."""
    panels: Float32Array
    """(panels, k + 1, 64) the targets, packed for products in C; padded with targets that are infinitely far."""


class ReferencePacker(Protocol):
    """A class that sketches references and packs them; see `dubito.engines.cpu.rowsteps`."""

    def pack_references(self, sketch: Sketch, picks: IntArray, start: int, into: ReferenceArrays) -> None:
        """Fill the arrays from reference ``start`` on."""


@dataclass(frozen=True, slots=True)
class KeptReferences:
    """The references of an earlier run, with which the references of the next run begin."""

    sketch: Sketch
    sizes: FloatArray
    targets: Float32Array
    panels: Float32Array | None
    rows: Float32Array | None


class References:
    """Labeled points first, then picks in the order made.

    The target of a reference y is ``(2·t, slack·|y|² - |t|²)`` for its sketch t: its product with a probe ``(s, 1)`` is
    larger for a nearer reference. Targets that do not fit in memory are computed again whenever they are needed, and so
    are the shifted float32 rows.
    """

    def __init__(self, problem: Problem, sketch: Sketch, memory: int, in_c: ReferencePacker | None = None) -> None:
        """``in_c`` packs the references in C, if their targets fit in memory."""
        self.problem, self.sketch, self.memory, self._in_c = problem, sketch, memory, in_c
        self.longest = 2.0 * np.sqrt(problem.pool.shape[1]) * problem.largest * sketch.scale
        """Upper bound on the lengths of shifted points."""
        self.n_labeled = len_of(problem.references)
        self.picks = np.empty(0, dtype=np.int64)
        """Rows of the pool."""
        self.n_bounded = self.n_passed = 0
        self._allocate()
        self._fill(self._restore(problem.known.kept if problem.known else None))

    def _allocate(self) -> None:
        capacity, d = self.n_labeled + self.problem.budget, self.problem.pool.shape[1]
        width = self.sketch.width(d) + 1
        target_bytes, row_bytes = 4 * capacity * width, 4 * capacity * d
        keeps_targets = target_bytes <= self.memory
        keeps_rows = keeps_targets and self._in_c is None and target_bytes + row_bytes <= self.memory
        self.sizes = np.empty(capacity)
        """Squared lengths of shifted references."""
        self._targets = np.empty((capacity, width), dtype=np.float32) if keeps_targets else None
        has_panels = keeps_targets and self._in_c is not None
        self._panels = np.empty((-(-capacity // PANEL), width, PANEL), dtype=np.float32) if has_panels else None
        self._rows = np.empty((capacity, d), dtype=np.float32) if keeps_rows else None

    def _fill(self, start: int) -> None:
        """Compute the stored arrays from reference ``start`` on."""
        if self._in_c is not None and self._targets is not None and self._panels is not None:
            arrays = ReferenceArrays(self.sizes, self._targets, self._panels)
            self._in_c.pack_references(self.sketch, self.picks, start, arrays)
            return
        for span in blocks(len(self) - start, READ_ROWS):
            rows = np.arange(start + span.start, start + span.stop)
            self._store(start + span.start, self._read(rows))

    def count_pairs(self, n_bounded: int, n_passed: int) -> None:
        """Count the pairs that were bounded by sketches, and those that were not ruled out."""
        self.n_bounded += n_bounded
        self.n_passed += n_passed

    def drop_useless_sketch(self) -> bool:
        """Drop the sketch if it costs more than it saves; returns whether it was dropped."""
        if self.sketch.directions is None or self.n_bounded <= FEWEST_JUDGED:
            return False
        d, width = self.sketch.directions.shape
        if COMPARE_COST * self.n_passed <= (d / width - 1.0) * self.n_bounded:
            return False
        self.drop_sketch()
        return True

    def drop_sketch(self) -> None:
        """Compare whole points instead of sketches from now on."""
        self.sketch = without_directions(self.sketch, self.problem.pool.shape[1])
        self._allocate()
        self._fill(0)

    def _restore(self, kept: object) -> int:
        """Copy the references of an earlier run; returns their number."""
        if (
            not isinstance(kept, KeptReferences)
            or self._targets is None
            or (self._rows is not None and kept.rows is None)
        ):
            return 0
        if self._panels is not None and kept.panels is None:
            return 0
        n_kept = len(kept.targets)
        self.sizes[:n_kept], self._targets[:n_kept] = kept.sizes, kept.targets
        if self._panels is not None and kept.panels is not None:
            self._panels[: len(kept.panels)] = kept.panels
        if self._rows is not None and kept.rows is not None:
            self._rows[:n_kept] = kept.rows
        return n_kept

    def keep(self, n_kept: int) -> KeptReferences | None:
        """The first references, for the next run."""
        if self._targets is None:
            return None
        rows = None if self._rows is None else self._rows[:n_kept]
        panels = None if self._panels is None else self._panels[: -(-n_kept // PANEL)]
        return KeptReferences(self.sketch, self.sizes[:n_kept], self._targets[:n_kept], panels, rows)

    def __len__(self) -> int:
        return self.n_labeled + len(self.picks)

    def add(self, picks: IntArray) -> None:
        start = len(self)
        self.picks = np.concatenate([self.picks, picks])
        self._fill(start)

    def _store(self, start: int, shifted: Float32Array) -> None:
        stop = start + len(shifted)
        self.sizes[start:stop] = squared_lengths(shifted)
        if self._targets is not None:
            self._targets[start:stop] = self._target(shifted, self.sizes[start:stop])
        if self._rows is not None:
            self._rows[start:stop] = shifted

    def _target(self, shifted: Float32Array, sizes: FloatArray) -> Float32Array:
        sketches, margins = self.sketch.apply(shifted, sizes)
        targets = np.empty((len(sketches), sketches.shape[1] + 1), dtype=np.float32)
        np.multiply(sketches, 2.0, out=targets[:, :-1])
        targets[:, -1] = -margins
        return targets

    def targets(self, span: slice) -> Float32Array:
        if self._targets is not None:
            return self._targets[span]
        return self._target(self._read(np.arange(span.start, span.stop, span.step)), self.sizes[span])

    @property
    def panels(self) -> Float32Array | None:
        """(panels, k + 1, 64) all targets, packed for products in C; None if they are not stored."""
        return None if self._panels is None else self._panels[: -(-len(self) // PANEL)]

    def rows(self, references: IntArray) -> Float32Array:
        """Shifted rows (r, d)."""
        if self._rows is not None:
            return self._rows[references]
        return self._read(references)

    def points(self, references: IntArray) -> FloatArray:
        """Points (r, d) in float64, for exact distances."""
        return self._gather(references, np.float64, read_rows)

    def _read(self, references: IntArray) -> Float32Array:
        return self._gather(references, np.float32, self.sketch.read)

    def _gather(self, references: IntArray, dtype: npt.DTypeLike, read: ReadRows) -> AnyArray:
        problem, is_labeled = self.problem, references < self.n_labeled
        if is_labeled.all():
            return read(problem.references, references, problem.metric)
        points = np.empty((len(references), problem.pool.shape[1]), dtype)
        if is_labeled.any():
            points[is_labeled] = read(problem.references, references[is_labeled], problem.metric)
        picks = self.picks[references[~is_labeled] - self.n_labeled]
        points[~is_labeled] = read(problem.pool, picks, problem.metric)
        return points

    def pick_weights(self, span: slice) -> FloatArray | None:
        """The weights of the picks in a span if the doubt of the pick scales distances to it; otherwise None."""
        problem = self.problem
        if problem.weights is None or problem.scaling == "respective" or span.start < self.n_labeled:
            return None
        picks = self.picks[span.start - self.n_labeled : span.stop - self.n_labeled]
        return problem.weights[picks]
