"""The appendix on the signed line: the mixture (figure 8), what M-bBALD prefers (9), and its scores (10)."""

from dataclasses import dataclass

import numpy as np

from dubito.matrix import FloatArray, IntArray
from dubito.paper.study import Verdict
from dubito.paper.toys import line_density, signed_line
from dubito.request.arrays import check_integer
from dubito.strategies.mixture import Mixture, batch_scores, draw_batches, fit_mixture, mixture_probabilities

LINE = np.linspace(-5.5, 4.0, 800)
SAMPLES = 1024
"""Number of sampled labelings per score; batches of up to ten points are scored exactly."""


def line_mixture(seed: int, n: int, components: int) -> tuple[FloatArray, Mixture]:
    """Points (n, 1) of the signed line, and a mixture fitted to them."""
    points = signed_line(seed, n=n).features
    return points, fit_mixture(points, components, covariance="full", seed=seed)


@dataclass(frozen=True, slots=True)
class MixtureStudy:
    """A mixture with many more components than the density of the signed line has peaks."""

    n: int = 1000
    components: int = 32

    def __post_init__(self) -> None:
        for name in ("n", "components"):
            check_integer(name, getattr(self, name), least=2)

    def measure(self, seed: int) -> "MixtureFit":
        """Fit the mixture, and measure overfitting on a second sample."""
        points, mixture = line_mixture(seed, self.n, self.components)
        held_out = signed_line(seed, n=self.n).test_features
        return MixtureFit(
            points=points[:, 0],
            labels=signed_line(seed, n=self.n).labels,
            fitted=np.exp(mixture.log_density(LINE[:, None])),
            components=mixture.components,
            log_density=float(mixture.log_density(points).mean()),
            held_out_log_density=float(mixture.log_density(held_out).mean()),
        )


@dataclass(frozen=True, slots=True, eq=False)
class MixtureFit:
    """The points, and the fitted density along `LINE`."""

    points: FloatArray
    labels: IntArray
    fitted: FloatArray
    components: int
    log_density: float
    """Mean log density of the points that it was fitted to, in nats."""
    held_out_log_density: float
    """Mean log density of other points, in nats."""

    @property
    def true(self) -> FloatArray:
        """The density that the points were drawn from, along `LINE`."""
        return line_density(LINE)

    def verdict(self) -> Verdict:
        """The fit is close to the true density, and overfitted, as intended."""
        mismatch = float(0.5 * np.abs(self.fitted - self.true).sum() * (LINE[1] - LINE[0]))
        numbers = {
            "total variation distance": mismatch,
            "nats a point, fitted": self.log_density,
            "nats a point, held out": self.held_out_log_density,
        }
        gap = self.log_density - self.held_out_log_density
        sentence = (
            f"{self.components} components put {mismatch:.0%} of the mass in other places than the truth, and give "
            f"their own points {gap:+.2f} nats more than others: close, and overfitted"
        )
        return Verdict(mismatch < 0.15 and gap > 0.0, numbers, sentence)


@dataclass(frozen=True, slots=True)
class HeatmapStudy:
    """Scores of random batches of ``batch`` points: the lowest, the median and the highest."""

    n: int = 1000
    components: int = 32
    batch: int = 8
    batches: int = 3000

    def __post_init__(self) -> None:
        for name in ("n", "components", "batch", "batches"):
            check_integer(name, getattr(self, name), least=2)

    def measure(self, seed: int) -> "Heatmap":
        """Score random batches with the mixture of figure 8."""
        points, mixture = line_mixture(seed, self.n, self.components)
        probabilities = mixture_probabilities(mixture, points)
        batches = draw_batches(len(points), self.batch, self.batches, np.random.default_rng(seed))
        scores = batch_scores(probabilities, batches, samples=SAMPLES, seed=seed)
        order = np.argsort(scores, kind="stable")
        shown = batches[order[[0, len(order) // 2, -1]]]
        from_left = np.argsort(np.asarray(mixture.model.means_)[:, 0], kind="stable")
        return Heatmap(points[:, 0], probabilities[:, from_left], batches, scores, shown)


@dataclass(frozen=True, slots=True, eq=False)
class Heatmap:
    """Batches and their scores, and three batches to plot."""

    points: FloatArray
    probabilities: FloatArray
    """(n, K) responsibilities, components from left to right."""
    batches: IntArray
    scores: FloatArray
    shown: IntArray
    """(3, b) rows of the batches with the lowest, the median and the highest score."""

    def verdict(self) -> Verdict:
        """Points of the best 1% of the batches are farther from each other, and where the density is higher."""
        from scipy.stats import spearmanr

        positions = self.points[self.batches]
        gaps = np.diff(np.sort(positions, axis=1), axis=1).min(axis=1)
        distances = np.abs(positions[:, :, None] - positions[:, None, :]).mean(axis=(1, 2))
        densities = line_density(positions).mean(axis=1)
        best = self.scores >= np.quantile(self.scores, 0.99)
        ratios = [float(values[best].mean() / values.mean()) for values in (gaps, distances, densities)]
        correlations = [float(spearmanr(self.scores, values)[0]) for values in (gaps, distances)]
        numbers = {
            "least gap, top 1% over all": ratios[0],
            "distance between points, top 1% over all": ratios[1],
            "density, top 1% over all": ratios[2],
            "rank correlation, score and least gap": correlations[0],
            "rank correlation, score and distance between points": correlations[1],
        }
        sentence = (
            f"of {len(self.scores):,} batches the best 1% have {ratios[0]:.1f} times the least gap of all, lie "
            f"{ratios[1]:.2f} times as far apart and at {ratios[2]:.2f} times the density; the score's rank "
            f"correlation is {correlations[0]:+.2f} with the least gap and {correlations[1]:+.2f} "
            "with the distance between points"
        )
        return Verdict(ratios[0] > 1.5 and ratios[1] > 1.0 and ratios[2] >= 1.0, numbers, sentence)


@dataclass(frozen=True, slots=True)
class TailStudy:
    """The distribution of scores for the mixture and batch size of the paper, and for others."""

    n: int = 1000
    components: int = 32
    batch: int = 8
    batches: int = 5000
    other_components: tuple[int, ...] = (4, 8, 16, 32)
    other_batches: tuple[int, ...] = (2, 4, 8)

    def __post_init__(self) -> None:
        for name in ("n", "components", "batch", "batches"):
            check_integer(name, getattr(self, name), least=2)

    def measure(self, seed: int) -> "Tail":
        """Score random batches, separately for each pair of sizes."""
        skews = [[skewness(self._scores(seed, k, b)) for b in self.other_batches] for k in self.other_components]
        return Tail(
            self._scores(seed, self.components, self.batch),
            self.components,
            self.batch,
            self.other_components,
            self.other_batches,
            np.array(skews),
        )

    def _scores(self, seed: int, components: int, batch: int) -> FloatArray:
        points, mixture = line_mixture(seed, self.n, components)
        batches = draw_batches(len(points), batch, self.batches, np.random.default_rng(seed))
        return batch_scores(mixture_probabilities(mixture, points), batches, samples=SAMPLES, seed=seed)


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """Scores of random batches, and the skewness for other sizes."""

    scores: FloatArray
    components: int
    batch: int
    other_components: tuple[int, ...]
    other_batches: tuple[int, ...]
    skews: FloatArray
    """(components, batches)."""

    def verdict(self) -> Verdict:
        """The skewness is positive: the right tail is longer."""
        skew = skewness(self.scores)
        low, middle, high = np.quantile(self.scores, [0.001, 0.5, 0.999])
        right = int((self.skews > 0).sum())
        numbers = {
            "skewness": skew,
            "median": float(middle),
            "0.1% quantile": float(low),
            "99.9% quantile": float(high),
            "largest possible": float(np.log(self.components)),
            "pairs of sizes skewed to the right": float(right),
        }
        side = "right" if skew > 0 else "left"
        sentence = (
            f"with {self.components} components and batches of {self.batch} the skewness is {skew:+.2f}: the longer "
            f"tail is on the {side}; of {self.skews.size} pairs of sizes tried {right} are skewed to the right"
        )
        return Verdict(skew > 0.1, numbers, sentence)


def skewness(values: FloatArray) -> float:
    """Third standardized moment; 0 if all values are equal.

    Examples
    --------
    >>> skewness(np.array([1.0, 2.0, 3.0])), round(skewness(np.array([0.0, 0.0, 0.0, 4.0])), 3)
    (0.0, 1.155)
    """
    deviations = values - values.mean()
    return float((deviations**3).mean() / max(float((deviations**2).mean()) ** 1.5, 1e-300))
