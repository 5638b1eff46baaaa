"""Figure 7: slices of the lower bound on β over δ at several doubts z, and its limits."""

from dataclasses import dataclass

import numpy as np

from dubito import theory
from dubito.matrix import FloatArray
from dubito.paper.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class BetaStudy:
    """The bound at each doubt of ``z`` for δ from 0 to ``furthest``, with both Lipschitz constants fixed."""

    z: tuple[float, ...] = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9)
    furthest: float = 3.0
    points: int = 601
    lambda_c: float = 1.0
    lambda_epsilon: float = 1.0

    def measure(self, seed: int) -> "Beta":
        """Nothing is drawn at random; the seed is not used."""
        deltas = np.linspace(0.0, self.furthest, self.points)
        z = np.array(self.z, dtype=np.float64)
        slices = theory.scaled_beta_lower_bound(deltas, z[:, None], self.lambda_c, self.lambda_epsilon)
        stars = theory.delta_star(z, self.lambda_c, self.lambda_epsilon)
        return Beta(deltas, z, slices, stars, self.lambda_c, self.lambda_epsilon)


@dataclass(frozen=True, slots=True, eq=False)
class Beta:
    """The slices, where each ends, and the constants they were taken with."""

    deltas: FloatArray
    z: FloatArray
    slices: FloatArray
    """(len(z), len(deltas)) the lower bound."""
    stars: FloatArray
    """(len(z),) δ*, past which nothing can be said."""
    lambda_c: float
    lambda_epsilon: float

    def verdict(self) -> Verdict:
        """Surer points have the higher bound, δ* shrinks with doubt, the bound dies at 0 and δ*, and at both limits."""
        far, near = self._limits()
        peaks = self.slices.max(axis=1)
        shape = [
            bool((np.diff(self.slices, axis=0) <= 1e-12).all()),
            bool((np.diff(self.stars) < 0.0).all()),
            bool((self.slices[:, 0] == 0.0).all()),
            bool((self.slices[self.deltas[None] >= self.stars[:, None]] < 1e-9).all()),
        ]
        numbers = {
            "largest β at the least doubt": float(peaks[0]),
            "largest β at the most doubt": float(peaks[-1]),
            "δ* at the least doubt": float(self.stars[0]),
            "δ* at the most doubt": float(self.stars[-1]),
            "error of the limit z → 0": far,
            "error of the limit z → 1": near,
        }
        sentence = (
            f"β's bound peaks at {peaks[0]:.2f} for doubt {self.z[0]:g} and at {peaks[-1]:.3f} for doubt "
            f"{self.z[-1]:g}, δ* falls from {self.stars[0]:.2f} to {self.stars[-1]:.2f}, and the bound is 0 at δ = 0 "
            f"and past δ*; the limits z → 0 and z → 1 are met to {far:.0e} and {near:.0e}"
        )
        return Verdict(all(shape) and far < 1e-6 and near < 1e-6, numbers, sentence)

    def _limits(self) -> tuple[float, float]:
        """How far β and δ* at z = 1e-9 and 1 - 1e-9 are from their limits, computed by hand."""
        inside = self.deltas[self.deltas > 0.0]
        root = np.sqrt(self.lambda_c * self.lambda_epsilon)
        by_hand = np.clip(1.0 - (inside * root / np.e) ** (2.0 * inside), 0.0, 1.0)
        found = [
            theory.scaled_beta_lower_bound(inside, z, self.lambda_c, self.lambda_epsilon) for z in (1e-9, 1 - 1e-9)
        ]
        stars = theory.delta_star([1e-9, 1.0 - 1e-9], self.lambda_c, self.lambda_epsilon)
        far = max(float(np.abs(found[0] - by_hand).max()), abs(float(stars[0]) - np.e / root))
        near = max(float(np.abs(found[1]).max()), abs(float(stars[1]) - 1.0 / root))
        return far, near
