"""Data classes: requests, problems, solutions and selections.

A `Request` is the user's call after validation. A core-set strategy turns it into a `Problem`, an engine returns a
`Solution`, and `select` returns a `Selection` to the user.

Shape letters: ``n`` pool rows, ``m`` labeled points, ``d`` features, ``c`` classes, ``b`` budget, ``w`` beam width.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, Matrix
from dubito.registry import require

if TYPE_CHECKING:
    import pandas as pd

Scaling = Literal["respective", "acquired"]
Metric = Literal["euclidean", "cosine"]

MOST_SHOWN, LONGEST_NAME = 5, 24
"""Number of picks in the repr of a Selection, and characters per id."""


class Progress(Protocol):
    """The callable of ``progress=``, called a few times per second at most."""

    def __call__(self, done: int, total: int, radius: float | None, seconds: float, /) -> None:
        """Picks made, picks requested, the current radius (None without distances), seconds since the start."""


@runtime_checkable
class PhasedProgress(Protocol):
    """A ``progress=`` that is also called before the first pick."""

    def phase(self, name: str, share: float, seconds: float, /) -> None:
        """The name of the phase, the share of it that is done, seconds since the start."""


@dataclass(slots=True)
class Known:
    """Unscaled distances cached between runs on the same points (`dubito.Pool`)."""

    squared: FloatArray
    """(n,) upper bounds on squared distances to the nearest reference; infinite where nothing is known. A bound is
    exact unless the nearest reference comes after the first ``seen``."""
    seen: AnyArray
    """(n,) number of references, in their order, that the bound of each row accounts for."""
    added: IntArray
    """Rows that the last run added to the references, in order."""
    kept: object = None
    """Engine-specific cache of the references; other engines ignore it."""

    def forget_later(self, n_references: int) -> None:
        """Forget bounds that account for more references than there are: for picks that were not labeled."""
        is_later = self.seen > n_references
        if len(self.added) or is_later.any():
            self.squared[is_later], self.seen[is_later] = np.inf, 0
            self.added, self.kept = self.added[:0], None


class Quotas(NamedTuple):
    """The maximum number of picks per class."""

    classes: IntArray
    """(n,) class number of each pool row, from 0."""
    limits: IntArray
    """(c,) maximum number of picks of each class."""

    def remaining(self, picks: IntArray) -> IntArray:
        """(c,) number of further picks that each class allows."""
        return self.limits - np.bincount(self.classes[picks], minlength=len(self.limits))

    def allowed(self, rows: IntArray, remaining: IntArray) -> BoolArray:
        """Mask of the rows that the quotas allow if the rows are picked in this order."""
        classes = self.classes[rows]
        order = np.argsort(classes, kind="stable")
        _, first, counts = np.unique(classes[order], return_index=True, return_counts=True)
        ranks = np.empty(len(rows), dtype=np.int64)
        ranks[order] = np.arange(len(rows)) - np.repeat(first, counts)
        return np.asarray(ranks < remaining[classes])


class Groups(NamedTuple):
    """Which rows are picked together, such as the boxes of an image."""

    numbers: IntArray
    """(n,) group number of each pool row, from 0 in the order of the groups' first rows."""
    names: AnyArray
    """(g,) name of each group."""


class PickedGroups(NamedTuple):
    """The groups of a selection, in the order they were picked."""

    names: AnyArray
    """(b,) names of the groups."""
    priorities: FloatArray
    """(b,) the strategy's score of each group."""
    sizes: IntArray
    """(b,) number of rows of each group, which follow each other in ``indices`` of the selection."""
    n_groups: int
    """Number of groups in the pool."""

    def ranks(self) -> IntArray:
        """(r,) position, from 0, of the group of each picked row."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)


@dataclass(frozen=True, slots=True)
class Request:
    """A validated call of `select`; the input of a strategy."""

    pool: Matrix
    budget: int
    references: Matrix
    """(m, d) features of the labeled points; (0, d) for a cold start."""
    candidates: IntArray
    """Rows of the pool that may be picked, ascending."""
    probabilities: Matrix | None
    """(n, c) or (n, k, c); None if only doubt, or nothing, was given."""
    doubt: FloatArray | None
    metric: Metric
    largest: float
    """Upper bound on the magnitude of all features of the pool and the references."""
    engine: str
    memory_limit: int | None
    seed: int
    progress: Progress | None
    known: Known | None = None
    labeled: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Rows of the pool that are labeled; empty if the references are not pool rows."""
    standardized: bool = False
    """Whether pool and references have been standardized with the pool's statistics."""
    costs: FloatArray | None = None
    """(n,) cost of labeling each row, above 0."""
    spend: float | None = None
    """Upper limit on the total cost of the picks; there may then be fewer picks than the budget."""
    quotas: Quotas | None = None
    groups: Groups | None = None
    """If given, groups are picked, ``budget`` counts groups, ``costs`` holds the cost of each row's group, and
    ``quotas`` the class of each row's group."""
    temperature: float | None = None
    """Divisor of the logits, if one was requested."""
    notes: tuple[str, ...] = ()
    """Remarks for the user on how the arguments were interpreted."""


@dataclass(frozen=True, slots=True)
class EngineProblem:
    """The fields that all problems for engines share. Each kind of problem is a subclass."""

    pool: Matrix
    references: Matrix
    candidates: IntArray
    budget: int
    metric: Metric = field(default="euclidean", kw_only=True)
    largest: float = field(default=1.0, kw_only=True)
    """Upper bound on the magnitude of all features of the pool and the references."""
    memory_limit: int | None = field(default=None, kw_only=True)
    progress: Progress | None = field(default=None, kw_only=True)
    known: Known | None = field(default=None, kw_only=True)
    """Engines may read and update it."""
    costs: FloatArray | None = field(default=None, kw_only=True)
    """(n,) above 0; None if all are 1. Only some engines support costs, quotas and groups."""
    quotas: Quotas | None = field(default=None, kw_only=True)
    """Limits are above 0 for every candidate's class. Not with a beam."""
    groups: IntArray | None = field(default=None, kw_only=True)
    """(n,) group number of each row, if groups are picked; see `Request.groups` and `dubito.core.groups`. Core-sets of
    groups have no beam, and the scaling "respective"."""


@dataclass(frozen=True, slots=True)
class Problem(EngineProblem):
    """A core-set problem: Algorithm 2 or its beam search.

    Costs are already included in the weights, but not in the order of a cold start.
    """

    kind: ClassVar[str] = "core-set"
    """The name of this kind of problem in messages."""
    doubt: FloatArray | None = None
    """(n,) in [0, 1]; None if the strategy uses none."""
    weights: FloatArray | None = None
    """(n,) squared scaling factors: ``doubt ** (2 * strength)`` divided by squared costs; None if all are 1."""
    scores: IntArray | None = None
    """(n,) fixed-point ``-log(1 - doubt)``, by which a beam ranks configurations; None if ``beam_width`` is 1."""
    scaling: Scaling = "respective"
    beam_width: int = 1


@dataclass(frozen=True, slots=True)
class Configuration:
    """An ordered list of picks with its scores."""

    indices: IntArray
    priorities: FloatArray
    """Priority of each pick when it was picked (infinite for the first pick of a cold start)."""
    radius: float | None
    """The priority that the next pick would have; 0 if no candidate is left; None without distances."""
    uncertainty: float | None = None
    """U(s), the mean of -log(1 - doubt) over the picks; None without doubt."""
    covered: FloatArray | None = None
    """Fraction of all doubt that is covered after each pick; None for strategies without coverage."""
    reach: float | None = None
    """Kernel radius of the coverage; None for strategies without coverage."""
    groups: IntArray | None = None
    """(b,) numbers of the picked groups, if groups are picked: priorities and covered fractions are then those of
    groups, and ``indices`` holds their rows, group by group."""
    earned: FloatArray | None = None
    """(r,) the part of each row in its group's priority, which orders the rows of a group; None without groups."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The result of an engine: configurations, best first; `complete` is False after an interruption."""

    configurations: tuple[Configuration, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Selection:
    """The picks of `select`, in the order they were picked.

    Examples
    --------
    >>> import dubito
    >>> picked = dubito.select([[0.0], [4.0], [9.0]], budget=2, labeled=[[1.0]], strategy="coreset")
    >>> picked
    Selection(2 of 3 rows by coreset: 2, 1; radius=1)
    >>> picked.indices.tolist(), picked.priorities.tolist(), picked.radius
    ([2, 1], [8.0, 3.0], 1.0)
    """

    indices: IntArray
    """(b,) row numbers in the pool; with groups all rows of the picked groups, group by group."""
    priorities: FloatArray
    """(b,) the strategy's score of each pick; for a greedy core-set the decreasing scaled radius. With groups the part
    of each row in the priority of its group: the rows of a group that earned it come first."""
    radius: float | None
    """The priority that the next pick would have; 0 if no candidate is left; None for strategies without distances."""
    uncertainty: float | None
    """U(s), the mean of -log(1 - doubt) over the picks; None without doubt."""
    configurations: tuple[Configuration, ...]
    """All configurations that the beam search kept, best first; the first is this selection."""
    strategy: str
    engine: str | None
    """None for a strategy that uses no engine."""
    seed: int
    seconds: float
    n_pool: int
    ids: AnyArray | None = None
    """(b,) ids of the picks, if the input had ids."""
    complete: bool = True
    """False if the run was interrupted."""
    covered: FloatArray | None = None
    """(b,) fraction of all doubt that is covered after each pick; None for strategies without coverage."""
    reach: float | None = None
    """Kernel radius of the coverage; None for strategies without coverage."""
    groups: PickedGroups | None = None
    """The picked groups, if groups were picked; ``covered`` then has a number for each group."""
    sampled: int | None = None
    """Size of the sample that represented the pool, if the strategy covered a sample; None if it used every row."""
    spent: float | None = None
    """Total cost of the picks; None without costs."""
    standardized: bool = False
    """Whether features were scaled to mean 0 and standard deviation 1 over the pool; radii are then in scaled units."""
    temperature: float | None = None
    """Divisor of the logits, if one was requested."""
    notes: tuple[str, ...] = ()
    """How the arguments were interpreted, such as rows that were matched by their order."""
    carried: Mapping[str, Sequence[object]] = field(default_factory=dict)
    """Columns of the pool's table that help people label, with a value for each pick. Set by the command line."""
    cover: Callable[[], float | None] | None = None
    """Computes the covering radius for `covering_radius`; None after unpickling."""

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        """Number of picks, strategy and the first few rows, or their ids if there are any."""
        groups = self.groups
        names = self.indices.tolist() if self.ids is None else self.ids.tolist()
        names = names if groups is None else groups.names.tolist()
        shown = ", ".join(
            [*(str(name)[:LONGEST_NAME] for name in names[:MOST_SHOWN]), *["..."] * (len(names) > MOST_SHOWN)]
        )
        facts = [] if self.radius is None else [f"radius={self.radius:.4g}"]
        facts += [] if self.covered is None or not len(self) else [f"covered={self.covered[-1]:.1%}"]
        facts += [] if self.spent is None else [f"spent={self.spent:.4g}"]
        facts += [] if self.sampled is None else [f"by a sample of {self.sampled:,} rows"]
        facts += [] if len(self.configurations) < 2 else [f"configurations={len(self.configurations)}"]
        facts += ["standardized"] if self.standardized else []
        facts += [] if self.complete else ["interrupted"]
        counted = f"{len(self)} of {self.n_pool:,} rows"
        if groups is not None:
            counted = f"{len(groups.names)} of {groups.n_groups:,} groups ({len(self):,} rows)"
        counted += f" by {self.strategy}" + (f": {shown}" if shown else "")
        return f"Selection({'; '.join([counted, *facts])})"

    def __str__(self) -> str:
        """The repr, and a line for each note."""
        return "\n".join([repr(self), *(f"- {note}" for note in self.notes)])

    @property
    def mask(self) -> BoolArray:
        """(n,) True where a pool row was picked."""
        mask = np.zeros(self.n_pool, dtype=np.bool_)
        mask[self.indices] = True
        return mask

    def covering_radius(self) -> float | None:
        """Largest unscaled distance from a pool point to its nearest labeled or picked point (δ).

        Computed on each call, at about the cost of one more pick of an unscaled core-set. A selection does not keep the
        pool alive: returns None once the pool, or separate labeled features, have been garbage-collected, and for an
        unpickled selection. `dubito.theory.covering_radius` computes it from points and centers.
        """
        return None if self.cover is None else self.cover()

    def columns(self) -> dict[str, Sequence[object]]:
        """The table of picks: ``rank`` (from 1), ``index``, ``id`` if there are ids, ``priority``, and `carried`.

        With groups the table has one line per row of a picked group: ``rank``, ``group`` and ``group_priority`` are
        those of its group, ``priority`` is the part of the row.
        """
        groups = self.groups
        table: dict[str, Sequence[object]] = {
            "rank": range(1, len(self) + 1) if groups is None else (groups.ranks() + 1).tolist(),
            "index": self.indices.tolist(),
        }
        if self.ids is not None:
            table["id"] = self.ids.tolist()
        if groups is not None:
            table["group"] = groups.names[groups.ranks()].tolist()
            table["group_priority"] = groups.priorities[groups.ranks()].tolist()
        table["priority"] = self.priorities.tolist()
        table |= {name: values for name, values in self.carried.items() if name not in table}
        return table

    def to_frame(self) -> "pd.DataFrame":
        """The table of picks as a pandas frame (extra ``frames``)."""
        frame: pd.DataFrame = require("pandas", extra="frames").DataFrame(self.columns())
        return frame

    def save(self, path: str, *, force: bool = False, safe_csv: bool = False) -> None:
        """Write the picks to a file: ``.csv``, ``.json``, ``.jsonl``, ``.parquet`` or ``.npy`` by its suffix.

        The file is written atomically; an existing file is replaced only with ``force=True``. With ``safe_csv=True``,
        ids are escaped so that a spreadsheet does not evaluate them as formulas.
        """
        from dubito.io import save_selection

        save_selection(self, path, force=force, safe_csv=safe_csv)


class Interrupted(KeyboardInterrupt):
    """Raised on Ctrl-C, with the partial result in `selection`.

    The picks of a greedy run are a prefix of the full result; those of a beam search are its best configuration so far.
    """

    def __init__(self, selection: Selection) -> None:
        super().__init__(f"interrupted after {len(selection)} pick{'' if len(selection) == 1 else 's'}")
        self.selection = selection
