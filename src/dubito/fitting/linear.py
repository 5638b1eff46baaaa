"""Multinomial logistic regression with an L2 penalty, in the few directions that the labelled rows span.

Weights outside the span of the labelled rows are 0 at the optimum, and a rotation changes neither loss nor penalty: so
the rows are replaced once by their coordinates along their principal directions, at most as many as there are rows or
features. There the Hessian is nearly a diagonal, by which coordinates are scaled: L-BFGS then needs few steps, for
every penalty and for every part of the rows alike. Models that leave out one fold each are found together, since one
wide product is quicker than many narrow ones.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray

DIRECTIONS = 1e-12
"""Directions whose share of the squared length is less than this are rounding."""
CURVATURE = 0.03
"""What a label adds to the Hessian along a direction, about: p(1 - p) of classes that are told apart."""
STEPS = 1000
ROUGH, FINE = 1e-5, 1e-12
"""By how much a step must lower the loss, as a share of it: where penalties are compared, and in the end."""


class Spanned(NamedTuple):
    """Rows in the directions they span."""

    coordinates: FloatArray
    """(m, r)"""
    squared: FloatArray
    """(r,) squared length of all rows together along each direction."""
    directions: FloatArray
    """(d, r) orthonormal columns."""


class Weights(NamedTuple):
    """Linear models of the coordinates, one for each set of rows they were learned from."""

    slopes: FloatArray
    """(k, r, c)"""
    intercepts: FloatArray
    """(k, c)"""

    def logits(self, model: int, coordinates: FloatArray) -> FloatArray:
        """(m, c) of one of the models."""
        return np.asarray(coordinates @ self.slopes[model] + self.intercepts[model])


def span_of(rows: AnyArray) -> Spanned:
    """Rows (m, d) in their principal directions; O(m·d·min(m, d)), by the smaller of the two Gram matrices.

    Examples
    --------
    >>> span_of(np.array([[3.0, 4.0], [6.0, 8.0], [0.0, 0.0]])).coordinates.round(9).tolist()
    [[5.0], [10.0], [0.0]]
    """
    wide = np.ascontiguousarray(rows, dtype=np.float64)
    if len(wide) < wide.shape[1]:
        squared, vectors = _largest(wide @ wide.T)
        directions = (wide.T @ vectors) / np.sqrt(squared)
    else:
        squared, directions = _largest(wide.T @ wide)
    # LAPACK's signs differ from machine to machine.
    directions *= np.where(directions.sum(axis=0) < 0.0, -1.0, 1.0)
    return Spanned(wide @ directions, squared, directions)


def _largest(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    values, vectors = np.linalg.eigh(gram)
    kept = values > DIRECTIONS * max(float(values[-1]), float(np.finfo(np.float64).tiny))
    return values[kept], vectors[:, kept]


def solve(
    span: Spanned,
    codes: IntArray,
    penalty: float,
    kept: BoolArray,
    start: Weights | None = None,
    tolerance: float = FINE,
    dtype: npt.DTypeLike = np.float64,
) -> Weights:
    """Weights of least loss: the negative log-likelihood of the labels and ``penalty / 2`` times the squared slopes.

    Intercepts are not penalised.

    Parameters
    ----------
    span : Spanned
        Of all labelled rows.
    codes : array (m,)
        Their classes, from 0 to c - 1.
    penalty : float
        Above 0.
    kept : array (k, m) of bool
        The rows that each model learns from; every class must be among them.
    start : Weights, optional
        Where to start from: those of another penalty save steps.
    tolerance : float
        Stop where a step lowers the loss by less, as a share of it.
    dtype : dtype
        Of the products. float32 is enough for `ROUGH`.
    """
    from scipy.optimize import minimize

    n_models, m = kept.shape
    scales = 1.0 / np.sqrt(np.append(CURVATURE * span.squared + penalty, CURVATURE * m))
    design = (np.column_stack([span.coordinates, np.ones(m)]) * scales).astype(dtype)
    pulls = np.append(np.full(len(span.squared), penalty), 0.0) * scales**2
    problem = Objective(design, pulls, codes, np.ascontiguousarray(kept.T, dtype=np.float64), int(codes.max()) + 1)
    first = np.zeros((len(scales), n_models, problem.n_classes))
    if start is not None:
        known = np.concatenate([start.slopes, start.intercepts[:, None]], axis=1)
        first = known.transpose(1, 0, 2) / scales[:, None, None]
    found = minimize(
        problem.loss,
        first.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": tolerance, "gtol": 1e-10},
    )
    best = (found.x.reshape(first.shape) * scales[:, None, None]).transpose(1, 0, 2)
    return Weights(np.ascontiguousarray(best[:, :-1]), best[:, -1])


class Objective(NamedTuple):
    """The losses of all models together, in scaled coordinates."""

    design: npt.NDArray[Any]
    """(m, r + 1), the last column that of the intercept."""
    pulls: FloatArray
    """(r + 1,) the penalty in these coordinates."""
    codes: IntArray
    kept: FloatArray
    """(m, k)"""
    n_classes: int

    def loss(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """The sum, and its slope."""
        m, n_models = self.kept.shape
        wide = flat.reshape(len(self.pulls), -1)
        logits = (self.design @ wide.astype(self.design.dtype, copy=False)).reshape(m, n_models, self.n_classes)
        logits -= logits.max(axis=2, keepdims=True)
        own = logits[np.arange(m), :, self.codes].astype(np.float64)
        np.exp(logits, out=logits)
        sums = logits.sum(axis=2)
        logits *= (self.kept / sums)[:, :, None]
        logits[np.arange(m), :, self.codes] -= self.kept
        pulled = self.pulls[:, None] * wide
        total = float(((np.log(sums) - own) * self.kept).sum() + 0.5 * (pulled * wide).sum())
        return total, (self.design.T @ logits.reshape(m, -1) + pulled).ravel().astype(np.float64, copy=False)
