"""Which items are similar to an item or to a text: exact distances in the features of the pool."""

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dubito.core.distances import exact_sq_distances, read_rows, unit_rows
from dubito.core.problem import Metric
from dubito.embedding.embedder import Embedder, LearningEmbedder
from dubito.embedding.registry import make_embedder
from dubito.embedding.store import learned_path
from dubito.embedding.words import Words
from dubito.errors import DubitoError, InvalidData, MissingFile
from dubito.io.durable import load_with_checksum
from dubito.io.opening import open_source
from dubito.labeling.contents import Contents, ItemKind, features_of
from dubito.labeling.state import State
from dubito.matrix import AnyArray, FloatArray, IntArray, Matrix, blocks, len_of, rows_per_read
from dubito.request.scaling import measure_scale, standardized

MAX_CACHED = 4
"""Number of searches whose distances are cached, so that the next page of a list need not compute them again."""

EMBEDDER_TITLE = re.compile(r"(?P<spec>.+) \(version (?P<version>.*), [0-9]+ wide\)")
"""The form in which a pool file names its embedder."""
TEXT_OPTIONS: Mapping[ItemKind, Mapping[str, Mapping[str, object]]] = {
    "pictures": {"clip": {"takes": "texts"}},
    "texts": {"clip": {"takes": "texts"}, "torch": {"takes": "texts"}, "sentence": {}, "words": {}},
    "rows": {},
}
"""By kind of items, the embedders that can embed a text in the same space as the items, with their options."""


class TextEncoder:
    """Embeds texts as the items of a pool were embedded. The network is loaded when the first text is embedded.

    Parameters
    ----------
    title : str
        The embedder as the pool file names it; may be empty.
    kind : str
        The kind of the items.
    pool_path : str
        The pool file; what the embedder ``words`` learned is stored next to it.
    """

    def __init__(self, title: str, kind: ItemKind, pool_path: str) -> None:
        self._pool_path = pool_path
        found = EMBEDDER_TITLE.fullmatch(title)
        self._spec, self._version = (found["spec"], found["version"]) if found else ("", "")
        self._options = TEXT_OPTIONS[kind].get(self._spec.partition(":")[0])
        self._embedder: Embedder | None = None

    @property
    def is_usable(self) -> bool:
        """Whether the embedder understands texts."""
        return self._options is not None

    def embed(self, text: str) -> FloatArray:
        """(d,) the embedding; raises `InvalidData` if the embedder has changed since the items were embedded."""
        if self._options is None:
            origin = f"the embedder {self._spec} does" if self._spec else "features of unknown origin do"
            hint = "embed the items with clip:NAME (pictures) or sentence:NAME (texts)."
            raise InvalidData(f"{origin} not understand texts", hint=hint)
        if self._embedder is None:
            embedder = make_embedder(self._spec, "texts", self._options)
            if isinstance(embedder, LearningEmbedder):
                embedder = embedder.ready(load_with_checksum(learned_path(self._pool_path), needed=True))
            if embedder.version != self._version:
                problem = f"the weights of {self._spec} have changed since the items were embedded"
                raise InvalidData(problem, hint="restore the former weights, or embed the items again.")
            self._embedder = embedder
        row: AnyArray = self._embedder([text])[0]
        if not row.any():
            hint = "use words that occur in the texts."
            raise InvalidData(f"{self._spec} knows none of the words of {text[:100]!r}", hint=hint)
        return row.astype(np.float64)

    def note(self, text: str) -> str | None:
        """A message about the search for a text that was embedded, if there is something to explain."""
        if isinstance(self._embedder, Words) and not self._embedder.knows(text):
            return "None of these words is in the texts: texts with similar words come first."
        return None


class Similarity:
    """Distances of all items to an item or a text, in one pass over the features; searches run one after the other.

    The first search reads the features. Columns of a table are standardized, as in a selection.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._features: _Features | None = None
        self._encoder_lock = threading.Lock()
        """A separate lock, so that a page that asks about the encoder need not wait for a search."""
        self._encoder: tuple[Contents, TextEncoder] | None = None
        self._distances: dict[object, FloatArray] = {}

    def to_item(self, item: int) -> FloatArray:
        """(n,) squared Euclidean distances of all items to one: -1 for itself, infinite for items that are gone."""
        with self._lock:
            read = self._read()
            if item in read.contents.gone:
                raise MissingFile(f"item {item} is not in the source any more", hint="restore it, or choose another.")
            if item not in self._distances:
                row = item if read.items is None else int(np.searchsorted(read.items, item))
                distances = read.by_item(sq_distances(read.matrix, read_rows(read.matrix, np.array([row]))[0]))
                distances[item] = -1.0
                self._cache(item, distances)
            return self._distances[item]

    @property
    def understands_texts(self) -> bool:
        """Whether `to_text` works, given that the package of the embedder is installed."""
        return self._text_encoder().is_usable

    def to_text(self, text: str) -> FloatArray:
        """(n,) squared cosine distances, 2 - 2 cos, of all items to a text."""
        with self._lock:
            read = self._read()
            if text not in self._distances:
                point = unit_rows(self._text_encoder().embed(text)[None, :])[0]
                self._cache(text, read.by_item(sq_distances(read.matrix, point, "cosine")))
            return self._distances[text]

    def note(self, text: str) -> str | None:
        """A message about the distances to a text; see `TextEncoder.note`."""
        with self._lock:
            return self._text_encoder().note(text)

    def _text_encoder(self) -> TextEncoder:
        with self._encoder_lock:
            contents, path = self._state.contents, self._state.project.pool_path
            if self._encoder is None or self._encoder[0] is not contents:
                try:
                    title = open_source(path).embedder
                except (DubitoError, OSError):
                    # If the pool file cannot be read, only the text search fails. The next search tries again.
                    return TextEncoder("", contents.kind, path)
                self._encoder = contents, TextEncoder(title, contents.kind, path)
            return self._encoder[1]

    def _read(self) -> "_Features":
        """The features on the scale of a selection; they are read again after the pool has changed."""
        contents = self._state.contents
        if self._features is None or self._features.contents is not contents:
            rows = contents.rows
            items = None if rows is None or not contents.gone else np.flatnonzero(rows >= 0)
            matrix, is_table = features_of(self._state.project, rows if rows is None or items is None else rows[items])
            if is_table and len_of(matrix):
                matrix = standardized(matrix, measure_scale(matrix))
            self._features = _Features(contents, matrix, items)
            self._distances.clear()
        return self._features

    def _cache(self, key: object, distances: FloatArray) -> None:
        if len(self._distances) >= MAX_CACHED:
            del self._distances[next(iter(self._distances))]
        self._distances[key] = distances


@dataclass(frozen=True, slots=True, eq=False)
class _Features:
    """The features of the items that are not gone."""

    contents: Contents
    matrix: Matrix
    """(r, d)."""
    items: IntArray | None
    """(r,) the item of each row, ascending; None if row i is item i."""

    def by_item(self, distances: FloatArray) -> FloatArray:
        """(n,) distances (r,) of rows as distances of items: infinite for items that are gone."""
        if self.items is None:
            return distances
        found = np.full(len(self.contents), np.inf)
        found[self.items] = distances
        return found


def sq_distances(features: Matrix, point: FloatArray, metric: Metric = "euclidean") -> FloatArray:
    """(n,) squared distances of all rows to a point (d,); infinite for a zero row and the cosine metric."""
    distances = np.empty(len_of(features))
    with np.errstate(invalid="ignore"):
        for span in blocks(len_of(features), rows_per_read(features)):
            distances[span] = exact_sq_distances(read_rows(features, span, metric), point)
    distances[np.isnan(distances)] = np.inf
    return distances
