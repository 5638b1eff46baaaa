"""Which items are similar to an item or to a text: exact distances in the features of the pool."""

import threading

import numpy as np

from dubito.core.distances import exact_sq_distances, read_rows
from dubito.errors import MissingFile
from dubito.labeling.contents import Contents, features_of
from dubito.labeling.state import State
from dubito.matrix import FloatArray, Matrix, blocks, len_of, rows_per_read
from dubito.request.scaling import measure_scale, on_scale

KEPT = 4
"""Number of results that are kept, so that the next page of a list is not computed again."""


class Similarity:
    """Distances of all items to one, by one pass over the features; one search runs at a time.

    The features are read when the first search needs them. Columns of a table are standardized, as in a selection.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._features: tuple[Contents, Matrix] | None = None
        self._found: dict[object, FloatArray] = {}

    def to_item(self, item: int) -> FloatArray:
        """(n,) squared Euclidean distances to an item; the item itself comes first, at -1."""
        with self._lock:
            features, contents = self._read(), self._state.contents
            if item in contents.gone:
                raise MissingFile(f"item {item} is not in the source any more", hint="put it back, or choose another.")
            if item not in self._found:
                distances = sq_distances(features, read_rows(features, np.array([item]))[0])
                distances[list(contents.gone)] = np.inf
                distances[item] = -1.0
                self._keep(item, distances)
            return self._found[item]

    def _read(self) -> Matrix:
        """The features, on the scale of a selection; read again after the pool has changed."""
        contents = self._state.contents
        if self._features is None or self._features[0] is not contents:
            rows = None if contents.rows is None else np.maximum(contents.rows, 0)  # Items that are gone have no row.
            features, is_table = features_of(self._state.project, rows)
            scaled = on_scale(features, measure_scale(features)) if is_table else features
            self._features = contents, scaled
            self._found.clear()
        return self._features[1]

    def _keep(self, key: object, distances: FloatArray) -> None:
        if len(self._found) >= KEPT:
            del self._found[next(iter(self._found))]
        self._found[key] = distances


def sq_distances(features: Matrix, point: FloatArray) -> FloatArray:
    """(n,) squared distances of all rows to a point (d,)."""
    distances = np.empty(len_of(features))
    for span in blocks(len_of(features), rows_per_read(features)):
        distances[span] = exact_sq_distances(read_rows(features, span), point)
    return distances
