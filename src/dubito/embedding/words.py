"""``words``: TF-IDF of the words and letters of a text, reduced to 256 dimensions by a truncated SVD.

Words, pairs of words and runs of three to five letters are counted with the hashing trick, which needs no dictionary.
A first pass over the texts counts in how many texts each feature occurs, and keeps the most frequent features. The SVD
is computed on a sample. Both passes read about a thousand texts at a time.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import Any

import numpy as np

from dubito.embedding.embedder import Framing, Options, Takes
from dubito.matrix import AnyArray

WIDTH = 256
HASHED = 1 << 18
"""Number of hash values for words, and as many for letters."""
KEPT = 30_000
"""Maximum number of features that are kept: those that occur in the most texts."""
SAMPLE = 10_000
"""Maximum number of texts that the SVD is computed on, evenly spaced."""
BATCH = 1024
MOST_LETTERS = 20_000
"""Number of letters of a text that are counted; the rest is ignored."""


@dataclass(frozen=True, eq=False)
class Words:
    """Embeds texts with features, weights and directions that were learned before."""

    columns: AnyArray
    """(k,) the hash values of the kept features, ascending."""
    weights: AnyArray
    """(k,) the inverse document frequencies."""
    directions: AnyArray
    """(k, width) the leading right singular vectors."""
    name: str = "words"
    takes: Takes = "texts"
    batch: int = BATCH
    framing: Framing | None = None

    @property
    def version(self) -> str:
        """A digest of the learned arrays."""
        digest = hashlib.blake2b(digest_size=6)
        for array in (self.columns, self.weights, self.directions):
            digest.update(np.ascontiguousarray(array).tobytes())
        return f"1, learnt {digest.hexdigest()}"

    @property
    def width(self) -> int:
        return int(self.directions.shape[1])

    def __call__(self, batch: AnyArray | Sequence[str], /) -> AnyArray:
        """Rows (k, width) of length 1; zeros for a text without kept features."""
        found = weighted(counts([str(text) for text in batch]), self.columns, self.weights)
        return unit(np.asarray(found @ self.directions, dtype=np.float32))

    def knows(self, text: str) -> bool:
        """Whether a word of the text is among the features; runs of letters do not count."""
        found = counts([text]).indices
        return bool(np.isin(found[found < HASHED], self.columns).any())


@dataclass(frozen=True, slots=True)
class WordsLearner:
    """Learns from the texts that will be embedded."""

    wanted: int = WIDTH
    name: str = "words"
    takes: Takes = "texts"

    @property
    def version(self) -> str:
        """Contains the version of scikit-learn, which affects what is learned."""
        from importlib.metadata import version

        return f"1, scikit-learn {version('scikit-learn')}"

    def learn(self, contents: Callable[[], Iterator[object]], /) -> dict[str, AnyArray]:
        """Make two passes over all texts, and compute the SVD of a sample with seed 0.

        BLAS uses one thread, so that results do not depend on the number of cores.
        """
        with import_module("threadpoolctl").threadpool_limits(1):
            return self._learn(contents)

    def _learn(self, contents: Callable[[], Iterator[object]]) -> dict[str, AnyArray]:
        from sklearn.utils.extmath import randomized_svd

        n_texts_with, n_texts = np.zeros(2 * HASHED, dtype=np.int64), 0
        for texts in batches(contents()):
            counted = counts(texts)
            n_texts_with += np.bincount(counted.indices, minlength=2 * HASHED)
            n_texts += len(texts)
        least = 2 if n_texts > 50 else 1
        kept = np.flatnonzero(n_texts_with >= least)
        columns = np.sort(kept[np.argsort(-n_texts_with[kept], kind="stable")[:KEPT]])
        weights = (np.log((1 + n_texts) / (1 + n_texts_with[columns])) + 1).astype(np.float32)
        sample = self._sample(contents(), n_texts, columns, weights)
        width = min(self.wanted, max(1, min(sample.shape) - 1))
        if not sample.nnz:
            return {
                "columns": np.zeros(1, np.int64),
                "weights": np.ones(1, np.float32),
                "directions": np.ones((1, 1), np.float32),
            }
        _, _, directions = randomized_svd(sample, width, n_iter=2, random_state=0)
        return {"columns": columns, "weights": weights, "directions": directions.T.astype(np.float32)}

    def _sample(self, contents: Iterator[object], n_texts: int, columns: AnyArray, weights: AnyArray) -> Any:
        from scipy.sparse import csr_matrix, vstack

        step = max(1, -(-n_texts // SAMPLE))
        texts = (each for each in contents if isinstance(each, str) and each.strip())
        parts = [weighted(counts(part), columns, weights) for part in batches(islice(texts, 0, None, step))]
        parts = parts or [csr_matrix(np.zeros((1, max(1, len(columns))), dtype=np.float32))]
        return vstack(parts, format="csr")

    def ready(self, learned: Mapping[str, AnyArray], /) -> Words:
        return Words(learned["columns"], learned["weights"], learned["directions"])


def make_words(rest: str, options: Options) -> WordsLearner:
    """``words``; the option ``width`` is the number of dimensions."""
    return WordsLearner(options.whole("width", WIDTH))


def batches(contents: Iterator[object]) -> Iterator[list[str]]:
    """Yield the texts that are not empty, a few at a time."""
    texts = (each for each in contents if isinstance(each, str) and each.strip())
    while part := list(islice(texts, BATCH)):
        yield part


def counts(texts: Sequence[str]) -> Any:
    """How often each feature occurs in each text: a sparse matrix (k, 2·HASHED) of 1 + log(count)."""
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import HashingVectorizer

    plain: dict[str, Any] = {"n_features": HASHED, "alternate_sign": False, "norm": None, "dtype": np.float32}
    words = HashingVectorizer(ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b", **plain)
    letters = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 5), **plain)
    short = [text[:MOST_LETTERS] for text in texts]
    found = hstack([words.transform(short), letters.transform(short)], format="csr")
    found.data = 1 + np.log(found.data)
    return found


def weighted(found: Any, columns: AnyArray, weights: AnyArray) -> Any:
    """The counts of the kept features, multiplied by their weights and scaled to rows of length 1."""
    from sklearn.preprocessing import normalize

    return normalize(found[:, columns].multiply(weights).tocsr(), copy=False)


def unit(rows: AnyArray) -> AnyArray:
    """Rows of length 1; zeros stay zeros."""
    lengths = np.sqrt((rows.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
    return (rows / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
