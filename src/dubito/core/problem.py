"""What is asked, what an engine solves, and what was chosen.

A `Request` is the user's call after its checks. A core-set strategy turns it into a `Problem`, an engine answers
with a `Solution`, and `select` hands the user a `Selection`.

Letters, everywhere: ``n`` pool, ``m`` labelled, ``d`` features, ``c`` classes, ``b`` budget, ``w`` beam width.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, Matrix
from dubito.registry import require

if TYPE_CHECKING:
    import pandas as pd

Scaling = Literal["respective", "acquired"]
Metric = Literal["euclidean", "cosine"]

MOST_SHOWN, LONGEST_NAME = 5, 24
"""Picks that a Selection shows of itself, and characters of an id."""


class Progress(Protocol):
    """What ``progress=`` is called with, a few times a second at most."""

    def __call__(self, done: int, total: int, radius: float | None, seconds: float, /) -> None:
        """Picks made, picks wanted, the present radius (None without distances), seconds since the start."""
        ...


@dataclass(slots=True)
class Known:
    """Unscaled distances that outlive a run, for the next one on the same points (`dubito.Pool`)."""

    squared: FloatArray
    """(n,) upper bounds on squared distances to the nearest reference; exact for the first ``seen``, or the nearest
    is among the others. Infinite where nothing is known."""
    seen: AnyArray
    """(n,) how many references, in their order, a row's distance accounts for."""
    added: IntArray
    """Rows that the last run added to the references, in order."""
    kept: object = None
    """What an engine keeps of the references for itself; another engine passes it over."""


class Quotas(NamedTuple):
    """How many picks of each predicted class there may be, at most."""

    classes: IntArray
    """(n,) the class of each row of the pool, numbered from 0."""
    limits: IntArray
    """(c,) of each class."""

    def room(self, picks: IntArray) -> IntArray:
        """(c,) picks that each class has left."""
        return self.limits - np.bincount(self.classes[picks], minlength=len(self.limits))

    def within(self, rows: IntArray, room: IntArray) -> BoolArray:
        """Which of these rows there is room for, one after another."""
        classes = self.classes[rows]
        order = np.argsort(classes, kind="stable")
        _, first, counts = np.unique(classes[order], return_index=True, return_counts=True)
        ranks = np.empty(len(rows), dtype=np.int64)
        ranks[order] = np.arange(len(rows)) - np.repeat(first, counts)
        return np.asarray(ranks < room[classes])


@dataclass(frozen=True, slots=True)
class Request:
    """A checked call of `select`: everything a strategy may want to know."""

    pool: Matrix
    budget: int
    references: Matrix
    """(m, d) features of what is labelled; (0, d) for a cold start."""
    candidates: IntArray
    """Rows of the pool that may be picked, ascending."""
    probabilities: Matrix | None
    """(n, c) or (n, k, c), or None where only doubt, or nothing, was given."""
    doubt: FloatArray | None
    metric: Metric
    largest: float
    """No feature of the pool or the references is larger in magnitude."""
    engine: str
    memory_limit: int | None
    seed: int
    progress: Progress | None
    known: Known | None = None
    labelled: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Rows of the pool that are labelled; none where the references are features of their own."""
    standardised: bool = False
    """Whether pool and references are on the pool's scale."""
    costs: FloatArray | None = None
    """(n,) above 0: what labelling each row costs."""
    spend: float | None = None
    """The picks cost no more than this together; there may be fewer of them than the budget."""
    quotas: Quotas | None = None
    temperature: float | None = None
    """What logits were divided by, where that was asked for."""
    notes: tuple[str, ...] = ()
    """What a person should know of how the arguments were understood."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What an engine solves: Algorithm 2, or its beam, on these points."""

    kind: ClassVar[str] = "core-set"
    """What messages call such problems. A problem of another kind is another class."""
    pool: Matrix
    references: Matrix
    candidates: IntArray
    budget: int
    doubt: FloatArray | None = None
    """(n,) in [0, 1]; None where the strategy uses none."""
    weights: FloatArray | None = None
    """(n,) squared scaling factors ``doubt ** (2 * strength)``, over squared costs; None where every one is 1."""
    scores: IntArray | None = None
    """(n,) fixed-point ``-log(1 - doubt)``: what a beam ranks by; None where the beam is one wide."""
    scaling: Scaling = "respective"
    beam_width: int = 1
    metric: Metric = "euclidean"
    largest: float = 1.0
    """No feature of the pool or the references is larger in magnitude."""
    memory_limit: int | None = None
    progress: Progress | None = None
    known: Known | None = None
    """An engine may read it and add to it."""
    costs: FloatArray | None = None
    """(n,) above 0; the weights are over their squares already, what a cold start goes by is not."""
    quotas: Quotas | None = None
    """No class of a candidate has a limit of 0; for engines that keep them, and greedy picks alone."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """An ordered list of picks, as a beam ranks them."""

    indices: IntArray
    priorities: FloatArray
    """Priority of each pick when it was picked (infinite for a cold start's first)."""
    radius: float | None
    """The priority the next pick would have; 0 when nothing is left; None without distances."""
    uncertainty: float | None = None
    """U(s), the mean of -log(1 - doubt) over the picks; None without doubt."""
    covered: FloatArray | None = None
    """Share of all doubt that is covered after each pick; None for a strategy that does not cover."""
    reach: float | None = None
    """How far a pick covers; None for a strategy that does not cover."""


@dataclass(frozen=True, slots=True)
class Solution:
    """An engine's answer: configurations, best first; `complete` is False after an interruption."""

    configurations: tuple[Configuration, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Selection:
    """What was chosen, in the order it was chosen.

    Examples
    --------
    >>> import dubito
    >>> picked = dubito.select([[0.0], [4.0], [9.0]], budget=2, labelled=[[1.0]], strategy="coreset")
    >>> picked
    Selection(2 of 3 rows by coreset: 2, 1; radius=1)
    >>> picked.indices.tolist(), picked.priorities.tolist(), picked.radius
    ([2, 1], [8.0, 3.0], 1.0)
    """

    indices: IntArray
    """(b,) rows of the pool handed in."""
    priorities: FloatArray
    """(b,) the strategy's score of each pick; for a greedy core-set the shrinking scaled radius."""
    radius: float | None
    """The priority the next pick would have; 0 when nothing is left; None for a strategy without distances."""
    uncertainty: float | None
    """U(s), the mean of -log(1 - doubt) over the picks; None where there was no doubt."""
    configurations: tuple[Configuration, ...]
    """All configurations a beam kept, best first; the first is this selection."""
    strategy: str
    engine: str | None
    """None for a strategy that uses no engine."""
    seed: int
    seconds: float
    n_pool: int
    ids: AnyArray | None = None
    """(b,) the ids of the picks, where the input had ids."""
    complete: bool = True
    """False when the run was interrupted."""
    covered: FloatArray | None = None
    """(b,) share of all doubt that is covered after each pick; None for a strategy that does not cover."""
    reach: float | None = None
    """How far a pick covers; None for a strategy that does not cover."""
    sampled: int | None = None
    """Rows that stood for the whole pool, where a strategy was told to cover a sample; None where every row counted."""
    spent: float | None = None
    """What the picks cost together; None where no costs were given."""
    standardised: bool = False
    """Whether features were brought to mean 0 and standard deviation 1 over the pool: radii are then in such units."""
    temperature: float | None = None
    """What logits were divided by, where that was asked for."""
    notes: tuple[str, ...] = ()
    """What you should know of how the arguments were understood, such as rows that were matched by their order."""
    carried: Mapping[str, Sequence[object]] = field(default_factory=dict)
    """What a person labels from: columns of the pool's table, a value for each pick. The command line fills it."""
    cover: Callable[[], float | None] | None = None
    """Computes the covering radius; `covering_radius` calls it. Copies in other processes have none."""

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        """What was picked, by what, and the first few rows; ids instead of rows where there are any."""
        names = self.indices.tolist() if self.ids is None else self.ids.tolist()
        shown = ", ".join(
            [*(str(name)[:LONGEST_NAME] for name in names[:MOST_SHOWN]), *["..."] * (len(names) > MOST_SHOWN)]
        )
        facts = [] if self.radius is None else [f"radius={self.radius:.4g}"]
        facts += [] if self.covered is None or not len(self) else [f"covered={self.covered[-1]:.1%}"]
        facts += [] if self.spent is None else [f"spent={self.spent:.4g}"]
        facts += [] if self.sampled is None else [f"by a sample of {self.sampled:,} rows"]
        facts += [] if len(self.configurations) < 2 else [f"configurations={len(self.configurations)}"]
        facts += ["standardised"] if self.standardised else []
        facts += [] if self.complete else ["interrupted"]
        counted = f"{len(self)} of {self.n_pool:,} rows by {self.strategy}" + (f": {shown}" if shown else "")
        return f"Selection({'; '.join([counted, *facts])})"

    @property
    def mask(self) -> BoolArray:
        """(n,) True where a pool row was picked."""
        mask = np.zeros(self.n_pool, dtype=np.bool_)
        mask[self.indices] = True
        return mask

    def covering_radius(self) -> float | None:
        """Largest unscaled distance from a pool point to its nearest labelled or picked point (δ).

        Computed when asked for, and not kept: about the cost of one more pick of an unscaled core-set. A selection
        does not hold on to the pool: None once the pool, or the features of what is labelled, are gone, and for a
        selection that was pickled. `dubito.theory.covering_radius` takes points and centres at any time.
        """
        return None if self.cover is None else self.cover()

    def columns(self) -> dict[str, Sequence[object]]:
        """The table of picks: ``rank`` (from 1), ``index``, ``id`` where there are ids, ``priority``, and `carried`."""
        table: dict[str, Sequence[object]] = {
            "rank": range(1, len(self) + 1),
            "index": self.indices.tolist(),
        }
        if self.ids is not None:
            table["id"] = self.ids.tolist()
        table["priority"] = self.priorities.tolist()
        table |= {name: values for name, values in self.carried.items() if name not in table}
        return table

    def to_frame(self) -> "pd.DataFrame":
        """The table of picks as a pandas frame (extra ``frames``)."""
        frame: pd.DataFrame = require("pandas", extra="frames").DataFrame(self.columns())
        return frame

    def save(self, path: str, *, force: bool = False, safe_csv: bool = False) -> None:
        """Write the picks to a file: ``.csv``, ``.json``, ``.jsonl``, ``.parquet`` or ``.npy`` by its suffix.

        The file is written whole or not at all; one that exists is replaced only with ``force=True``. With
        ``safe_csv=True`` no id is a formula to a spreadsheet.
        """
        from dubito.io import save_selection

        save_selection(self, path, force=force, safe_csv=safe_csv)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what was selected so far in `selection`.

    A greedy run's picks are a valid prefix of the whole answer; a beam's are its leading configuration so far.
    """

    def __init__(self, selection: Selection) -> None:
        super().__init__(f"interrupted after {len(selection)} pick{'' if len(selection) == 1 else 's'}")
        self.selection = selection
