"""Which items are similar to an item or to a text: exact distances in the features of the pool."""

import re
import threading
from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from dubito.core.distances import exact_sq_distances, read_rows, unit_rows
from dubito.core.problem import Metric
from dubito.embedding.embedder import Embedder, LearningEmbedder
from dubito.embedding.embedders import make_embedder
from dubito.embedding.storing import learned_path
from dubito.embedding.words import Words
from dubito.errors import DubitoError, InvalidData, MissingFile
from dubito.io.durable import load_with_checksum
from dubito.io.opening import open_source
from dubito.labeling.contents import Contents, What, features_of
from dubito.labeling.state import State
from dubito.matrix import AnyArray, FloatArray, Matrix, blocks, len_of, rows_per_read
from dubito.request.scaling import measure_scale, standardized

KEPT = 4
"""Number of results that are kept, so that the next page of a list is not computed again."""


TITLE = re.compile(r"(?P<spec>.+) \(version (?P<version>.*), [0-9]+ wide\)")
"""The description of an embedder in a pool file."""
TEXT_OPTIONS: Mapping[What, Mapping[str, Mapping[str, object]]] = {
    "pictures": {"clip": {"takes": "texts"}},
    "texts": {"clip": {"takes": "texts"}, "torch": {"takes": "texts"}, "sentence": {}, "words": {}},
    "rows": {},
}
"""By kind of items: the embedders that embed a text in the same space as the items, and the options for that."""


class TextEncoder:
    """Embeds texts as the items of a pool were embedded. The network is loaded by the first text.

    Parameters
    ----------
    title : str
        The description of the embedder in the pool file; may be empty.
    what : str
        What the items are.
    pool_path : str
        The pool file; what the embedder ``words`` learned is stored next to it.
    """

    def __init__(self, title: str, what: What, pool_path: str) -> None:
        self._pool_path = pool_path
        found = TITLE.fullmatch(title)
        self._spec, self._version = (found["spec"], found["version"]) if found else ("", "")
        self._options = TEXT_OPTIONS[what].get(self._spec.partition(":")[0])
        self._embedder: Embedder | None = None

    @property
    def is_usable(self) -> bool:
        """Whether the embedder understands texts."""
        return self._options is not None

    def embed(self, text: str) -> FloatArray:
        """(d,) the embedding; raises `InvalidData` if the embedder is not the one that made the pool."""
        if self._options is None:
            made = f"the embedder {self._spec} does" if self._spec else "features of unknown origin do"
            hint = "embed the items with clip:NAME (pictures) or sentence:NAME (texts)."
            raise InvalidData(f"{made} not understand texts", hint=hint)
        if self._embedder is None:
            made_embedder = make_embedder(self._spec, "texts", self._options)
            if isinstance(made_embedder, LearningEmbedder):
                made_embedder = made_embedder.ready(load_with_checksum(learned_path(self._pool_path), needed=True))
            if made_embedder.version != self._version:
                problem = f"{self._spec} has other weights now than when the items were embedded"
                raise InvalidData(problem, hint="use the weights of then, or embed the items again.")
            self._embedder = made_embedder
        row: AnyArray = self._embedder([text])[0]
        if not row.any():
            hint = "use words that are in the texts."
            raise InvalidData(f"{self._spec} knows none of the words of {text[:100]!r}", hint=hint)
        return row.astype(np.float64)

    def note(self, text: str) -> str | None:
        """What to know about the similarity of items to a text that was embedded."""
        if isinstance(self._embedder, Words) and not self._embedder.knows(text):
            return "None of these words is in the texts: those that share runs of letters come first."
        return None


class Similarity:
    """Distances of all items to one, by one pass over the features; one search runs at a time.

    The features are read when the first search needs them. Columns of a table are standardized, as in a selection.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._features: tuple[Contents, Matrix] | None = None
        self._encoder: tuple[Contents, TextEncoder] | None = None
        self._found: dict[object, FloatArray] = {}

    def to_item(self, item: int) -> FloatArray:
        """(n,) squared Euclidean distances of all items to one: -1 for itself, infinite for items that are gone."""
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

    @property
    def understands_texts(self) -> bool:
        """Whether `to_text` works, given that the package of the embedder is installed."""
        return self._text_encoder().is_usable

    def to_text(self, text: str) -> FloatArray:
        """(n,) squared distances to a text, between directions: 2 - 2 cos; the same embedder embeds both."""
        with self._lock:
            features = self._read()
            if text not in self._found:
                point = unit_rows(self._text_encoder().embed(text)[None, :])[0]
                distances = sq_distances(features, point, "cosine")
                distances[list(self._state.contents.gone)] = np.inf
                self._keep(text, distances)
            return self._found[text]

    def note(self, text: str) -> str | None:
        """What to know about the distances to a text."""
        with self._lock:
            return self._text_encoder().note(text)

    def _text_encoder(self) -> TextEncoder:
        contents = self._state.contents
        if self._encoder is None or self._encoder[0] is not contents:
            title = ""
            with suppress(DubitoError, OSError):  # The pool file is gone; everything else goes on.
                title = open_source(self._state.project.pool_path).embedder
            self._encoder = contents, TextEncoder(title, contents.what, self._state.project.pool_path)
        return self._encoder[1]

    def _read(self) -> Matrix:
        """The features, on the scale of a selection; read again after the pool has changed."""
        contents = self._state.contents
        if self._features is None or self._features[0] is not contents:
            rows = None if contents.rows is None else np.maximum(contents.rows, 0)  # Items that are gone get row 0.
            features, is_table = features_of(self._state.project, rows)
            scaled = standardized(features, measure_scale(features)) if is_table else features
            self._features = contents, scaled
            self._found.clear()
        return self._features[1]

    def _keep(self, key: object, distances: FloatArray) -> None:
        if len(self._found) >= KEPT:
            del self._found[next(iter(self._found))]
        self._found[key] = distances


def sq_distances(features: Matrix, point: FloatArray, metric: Metric = "euclidean") -> FloatArray:
    """(n,) squared distances of all rows to a point (d,); infinite where a row has no direction."""
    distances = np.empty(len_of(features))
    with np.errstate(invalid="ignore"):
        for span in blocks(len_of(features), rows_per_read(features)):
            distances[span] = exact_sq_distances(read_rows(features, span, metric), point)
    distances[np.isnan(distances)] = np.inf
    return distances
