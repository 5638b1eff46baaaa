"""Picks for the next round, with predictions of a model that is trained on the current labels."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from dubito.api import select
from dubito.core.problem import Metric
from dubito.errors import InvalidData
from dubito.integrations.exchange.items import Item
from dubito.matrix import Matrix, len_of
from dubito.models.fit import NO_MODEL, fit
from dubito.request.labels import EMPTY
from dubito.strategies import Strategy


class Suggestion(NamedTuple):
    """An item to label, and the class that a model predicts."""

    item: Item
    guess: str | None = None
    confidence: float | None = None
    """The probability of the predicted class."""


class Picker(Protocol):
    """Returns the items of the next round."""

    def __call__(self, labels: Mapping[str, str], sent: Set[str], budget: int) -> Sequence[Suggestion]:
        """The next items in order, given the labels and the names of the items that were sent."""


@dataclass(frozen=True, slots=True)
class PoolPicker:
    """Picks from a pool by `dubito.select`; items that are in the project count as labeled.

    Parameters
    ----------
    features : array (n, d)
        The pool.
    items : sequence of Item
        What annotators see of each row.
    known : mapping, optional
        Labels from other sources, by item name.
    labeled : sequence of int
        Rows that are labeled in other sources, whether or not ``known`` has their labels.
    model : str
        As in `dubito.fit`; ``"none"`` for no predictions.
    guess : bool
        Whether suggestions have predicted classes.
    strategy, metric, standardize, engine, memory_limit, seed
        As in `dubito.select`.

    Examples
    --------
    >>> items = [Item(f"{row}", "dubito_id", "text", f"text {row}", {}) for row in range(6)]
    >>> picker = PoolPicker(np.array([[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]]), items)
    >>> [pick.item.name for pick in picker({}, set(), 2)]
    ['1', '4']
    >>> [(pick.item.name, pick.guess) for pick in picker({"1": "a", "4": "b"}, {"1", "4"}, 1)]
    [('2', 'a')]
    """

    features: Matrix
    items: Sequence[Item]
    known: Mapping[str, str] = field(default_factory=dict)
    labeled: Sequence[int] = ()
    model: str = "linear"
    guess: bool = True
    strategy: str | Strategy = "auto"
    metric: Metric = "euclidean"
    standardize: bool | None = None
    engine: str = "auto"
    memory_limit: int | str | None = None
    seed: int = 0

    def __call__(self, labels: Mapping[str, str], sent: Set[str], budget: int) -> list[Suggestion]:
        rows = self._rows()
        unknown = next((name for name in sent if name not in rows), None)
        if unknown is not None:
            problem = f"the project has an item {unknown!r} that is not in the pool"
            raise InvalidData(problem, hint="pass the pool of its items, or another project.")
        known = {rows[name]: label for name, label in {**self.known, **labels}.items() if name in rows}
        is_labeled = np.zeros(len_of(self.features), dtype=np.bool_)
        is_labeled[[*known, *self.labeled, *(rows[name] for name in sent)]] = True
        values = np.full(len(is_labeled), None, dtype=object)
        values[list(known)] = list(known.values())
        n_picks = min(budget, int((~is_labeled).sum()))
        if not n_picks:
            return []
        selection = select(
            self.features,
            n_picks,
            labeled=is_labeled,
            labels=values if known else None,
            model=self.model,
            no_label=EMPTY,
            strategy=self.strategy,
            metric=self.metric,
            standardize=self.standardize,
            engine=self.engine,
            memory_limit=self.memory_limit,
            seed=self.seed,
        )
        guesses = self._guesses(known)
        return [Suggestion(self.items[row], *guesses.get(row, (None, None))) for row in selection.indices.tolist()]

    def guessed(self, labels: Mapping[str, str], items: Sequence[Item]) -> list[Suggestion]:
        """Suggestions for items that were picked already."""
        rows = self._rows()
        guesses = self._guesses({rows[name]: label for name, label in {**self.known, **labels}.items()})
        return [Suggestion(item, *guesses.get(rows.get(item.name, -1), (None, None))) for item in items]

    def _rows(self) -> dict[str, int]:
        """The row of each item, by name."""
        return {item.name: row for row, item in enumerate(self.items)}

    def _guesses(self, known: Mapping[int, str]) -> dict[int, tuple[str, float]]:
        """The most probable class of every row with its probability; empty without a model."""
        if not self.guess or not known or self.model == NO_MODEL:
            return {}
        rows = sorted(known)
        labels = [known[row] for row in rows]
        found = fit(self.features, labels, labeled=np.array(rows), model=self.model, no_label=EMPTY, seed=self.seed)
        if found.probabilities is None:
            return {}
        best = found.probabilities.argmax(axis=1)
        names = [str(each) for each in found.classes[best].tolist()]
        shares = found.probabilities.max(axis=1).tolist()
        return dict(enumerate(zip(names, shares, strict=True)))
