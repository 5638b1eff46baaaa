"""The list of all items of a project: filters, search by name and text, order, and one page at a time."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dubito.io.source import natural_order
from dubito.labeling.contents import Contents
from dubito.labeling.state import RoundModel, State
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray

Show = Literal["all", "labeled", "unlabeled", "skipped", "disagreement", "copies"]
Sort = Literal["order", "name", "class", "newest", "least-sure", "most-sure", "similar"]
EXCERPT = 600
"""Number of characters of a text that a list shows."""


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Which items to list, and in which order."""

    show: Show = "all"
    label: str | None = None
    """Only items with this label."""
    annotator: str | None = None
    """Only items that this annotator has answered."""
    guess: str | None = None
    """Only items of this predicted class."""
    low: float = 0.0
    high: float = 1.0
    """Bounds of the predicted class's probability; `low` is included, `high` only if it is 1."""
    within: float = 1.0
    """If below 1: only items whose distance is at most this share of the median distance."""
    text: str = ""
    """Only items whose name, text or columns contain this; case is ignored."""
    sort: Sort = "order"


class ItemList:
    """Finds items of a project; caches their order by name."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._names: tuple[Contents, IntArray] | None = None

    def find(self, query: ListQuery, distances: FloatArray | None = None) -> IntArray:
        """The items that match, in order; ties go to the lower row.

        Parameters
        ----------
        query : ListQuery
            The filters and the order.
        distances : ndarray of shape (n,), optional
            Squared distances, for the order ``similar`` (ascending) and for `within`.
        """
        state = self._state
        with state.lock:
            contents, model = state.contents, state.model
            is_match = _matching_answers(state, query)
            order = _answer_order(state, query.sort)
        _match_predictions(is_match, model, query)
        if distances is not None and query.within < 1.0:
            is_match &= distances <= query.within**2 * np.median(np.maximum(distances, 0.0))
        if query.text:
            _match_text(is_match, contents, query.text)
        if query.sort == "name":
            order = self._name_ranks(contents)
        elif query.sort in ("least-sure", "most-sure"):
            confidence = _confidence(model, len(is_match))[1]
            order = -confidence if query.sort == "most-sure" else confidence
        elif query.sort == "similar":
            order = distances
        items = np.flatnonzero(is_match)
        return items if order is None else items[np.argsort(order[items], kind="stable")]

    def _name_ranks(self, contents: Contents) -> IntArray:
        """(n,) the position of each item by name."""
        if self._names is None or self._names[0] is not contents:
            ids = contents.ids
            by_name = sorted(range(len(ids)), key=lambda item: natural_order(ids[item]))
            ranks = np.empty(len(ids), dtype=np.int64)
            ranks[by_name] = np.arange(len(ids))
            self._names = contents, ranks
        return self._names[1]


def _matching_answers(state: State, query: ListQuery) -> BoolArray:
    """(n,) mask of the filters that concern labels and annotators."""
    table = state.label_table
    is_match = np.ones(len(state.contents), dtype=np.bool_)
    is_match[list(state.contents.gone)] = False
    if query.show != "all" or query.label is not None:
        labeled = [item for item, label in table.labels.items() if query.label in (None, label)]
        if query.show == "unlabeled":
            is_match[labeled] = False
        if query.show == "labeled" or query.label is not None:
            _keep_only(is_match, labeled)
    if query.show == "skipped":
        _keep_only(is_match, table.skipped)
    if query.show == "disagreement":
        _keep_only(is_match, [item for item in table.current if is_disagreement(state, item)])
    if query.show == "copies":
        _keep_only(is_match, state.contents.copies)
    if query.annotator is not None:
        numbers = table.active.get(query.annotator, ())
        _keep_only(is_match, {table.named[number].item for number in numbers})
    return is_match


def _keep_only(is_match: BoolArray, items: Collection[int]) -> None:
    """Restrict a mask to these items, in place."""
    is_kept = np.zeros_like(is_match)
    is_kept[np.fromiter(items, dtype=np.int64, count=len(items))] = True
    is_match &= is_kept


def is_disagreement(state: State, item: int) -> bool:
    """Whether annotators gave an item different labels, and no review has decided between them."""
    answers = [event for event in state.label_table.current_answers(item).values() if event.label is not None]
    return len({event.label for event in answers}) > 1 and not any(event.why == "review" for event in answers)


def _answer_order(state: State, sort: Sort) -> AnyArray | None:
    """(n,) sort key of an order that depends on answers."""
    table = state.label_table
    if sort == "newest":
        newest = np.zeros(len(state.contents), dtype=np.int64)
        for item, answers in table.current.items():
            newest[item] = -max((event.number for event in answers.values()), default=0)
        return newest
    if sort == "class":
        numbers = {name: number for number, name in enumerate(state.project.classes)}
        order = np.full(len(state.contents), len(numbers) + 1)
        for item, label in table.labels.items():
            order[item] = numbers.get(label, len(numbers))
        return order
    return None


def _confidence(model: RoundModel | None, n_items: int) -> tuple[AnyArray, AnyArray]:
    """(n,) column of the predicted class, and (n,) its probability; -1 and 0 without a model."""
    if model is None or model.probabilities is None:
        return np.full(n_items, -1), np.zeros(n_items)
    return model.probabilities.argmax(axis=1), model.probabilities.max(axis=1)


def _match_predictions(is_match: BoolArray, model: RoundModel | None, query: ListQuery) -> None:
    if query.guess is None and (query.low, query.high) == (0.0, 1.0):
        return
    if model is None or model.probabilities is None:
        is_match[:] = False
        return
    predicted, confidence = _confidence(model, len(is_match))
    if query.guess is not None:
        is_match &= predicted == (model.classes.index(query.guess) if query.guess in model.classes else -1)
    is_match &= confidence >= query.low
    if query.high < 1.0:
        is_match &= confidence < query.high


def _match_text(is_match: BoolArray, contents: Contents, text: str) -> None:
    wanted = text.casefold()
    ids, texts = contents.ids, contents.shown if contents.kind == "texts" else None
    columns = list(contents.columns.values())
    for item in np.flatnonzero(is_match).tolist():
        is_match[item] = (
            wanted in ids[item].casefold()
            or (texts is not None and wanted in str(texts[item] or "").casefold())
            or any(wanted in values[item].casefold() for values in columns)
        )
