"""`Fit`: what a model of dubito's own makes of a pool, and how far that can be trusted."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dubito.errors import InvalidArgument
from dubito.fitting.folds import Share
from dubito.matrix import AnyArray, FloatArray, IntArray

NO_MODEL = "none"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Fit:
    """A model of some labels, and what it says of every row of the pool.

    Examples
    --------
    >>> import numpy as np, dubito
    >>> pool = np.array([[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]])
    >>> fitted = dubito.fit(pool, ["a", "a", None, "b", "b", None])
    >>> fitted
    Fit(linear model, 4 labels of 2 classes, right on 100.0% (51.0% to 100.0%) of those held out)
    >>> fitted.classes.tolist(), fitted.predicted.tolist()
    (['a', 'b'], ['a', 'a', 'a', 'b', 'b', 'b'])
    """

    probabilities: FloatArray | None
    """(n, c), calibrated; None for a cold start: fewer than two classes have a label."""
    classes: AnyArray
    """(c,) the classes that have labels, in order: whole numbers by size, else by text; text where it was given."""
    counts: IntArray
    """(c,) labels of each."""
    rows: IntArray | None
    """(m,) rows of the pool whose labels were learned, ascending; None where features of their own were labelled."""
    model: str
    """What was fitted: ``linear``, ``forest``, an import path; ``none`` for a cold start."""
    tested: Share | None
    """Labels whose class a model that had not seen them named, of all that were held out; None where none could be."""
    held_out: FloatArray | None
    """(m, c) calibrated probabilities of labels, each by a model that had not seen it; NaN for the only one of its
    class."""
    log_loss: float | None
    """Mean negative log-likelihood of labels that were held out; None where none could be."""
    settings: Mapping[str, float]
    """What was found by cross-validation: ``temperature``, and of the linear model ``penalty``."""
    notes: tuple[str, ...] = ()
    """What to know before leaning on it."""

    @property
    def n_labels(self) -> int:
        """How many labels it learned from."""
        return int(self.counts.sum())

    @property
    def accuracy(self) -> float | None:
        """The share of labels named right by models that had not seen them; it is of labels, not of the pool."""
        return None if self.tested is None else self.tested.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95% interval of `accuracy`."""
        return None if self.tested is None else self.tested.interval

    @property
    def predicted(self) -> AnyArray:
        """(n,) the likeliest class of every row of the pool, ties to the first."""
        if self.probabilities is None:
            problem = "nothing is predicted: fewer than two classes have a label"
            raise InvalidArgument(problem, mend="label some of another class.")
        return np.asarray(self.classes[self.probabilities.argmax(axis=1)])

    @property
    def doubt(self) -> FloatArray | None:
        """(n,) one less the largest probability; None for a cold start."""
        return None if self.probabilities is None else 1.0 - self.probabilities.max(axis=1)

    def told(self) -> str:
        """What was fitted, on how many labels of how many classes, and how right it is."""
        n, c = self.n_labels, len(self.classes)
        labels = f"{n:,} label{'s' * (n != 1)} of {c:,} class{'es' * (c != 1)}"
        if self.probabilities is None:
            return f"no model: {labels}" if n else "no model: no labels"
        right = "none could be held out" if self.tested is None else f"right on {self.tested} of those held out"
        return f"{self.model} model, {labels}, {right}"

    def __repr__(self) -> str:
        return f"Fit({self.told()})"
