"""Draw the pictures of the documentation with dubito. Run it after a change that may alter them.

The pictures are written to ``docs/images``, or to the folder given on the command line. Two of them are those of
``dubito demo``.
"""

import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from formatting import reduce_colors
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import dubito
from dubito import theory
from dubito.cli import main as run_command
from dubito.core.distances import core_set_radii
from dubito.experiments.plots import save_figure, strategy_color
from dubito.experiments.plots.style import FAINT, INK, OKABE_ITO, QUIET, new_figure, title
from dubito.matrix import FloatArray, IntArray
from dubito.strategies import DoubtCoreset

STEEPNESS = 7.0
"""How fast the model of the quadrants becomes certain away from the axes."""
COLORS = "YlGnBu"
FULL_COLOR = ("readings",)
"""Pictures with many shades, for which a palette has too few colors."""
N_LABELED = 60
"""Number of digits that the model of `doubted_digits` is trained on."""


@dataclass(frozen=True, slots=True)
class Quadrants:
    """Toy data of the paper: points of a square labeled by quadrant, and a model that is unsure near the axes."""

    pool: FloatArray
    labeled: IntArray

    @property
    def probabilities(self) -> FloatArray:
        """(n, 4) the product of a logistic function of each coordinate."""
        right, upper = (1.0 / (1.0 + np.exp(-STEEPNESS * self.pool))).T
        return np.column_stack([right * upper, right * (1 - upper), (1 - right) * upper, (1 - right) * (1 - upper)])

    @property
    def doubt(self) -> FloatArray:
        return np.asarray(1.0 - self.probabilities.max(axis=1))


def make_quadrants(n: int = 2500, m: int = 12) -> Quadrants:
    """A uniform random pool whose first rows are labeled."""
    pool = np.random.default_rng(3).uniform(-1.0, 1.0, (n, 2))
    return Quadrants(pool, np.arange(m))


def draw_square(axes: Axes, headline: str, detail: str, color: str = INK) -> None:
    """Draw a square frame with a title."""
    axes.set(xlim=(-1.06, 1.06), ylim=(-1.06, 1.06), xticks=[], yticks=[], aspect="equal")
    axes.spines[:].set_color(FAINT)
    axes.set_title(headline, loc="left", color=color, fontsize=11, fontweight="bold", pad=20)
    axes.text(0.0, 1.02, detail, transform=axes.transAxes, color=QUIET, fontsize=8.5, va="bottom")


def draw_pool(axes: Axes, toy: Quadrants) -> None:
    """Draw the pool, shaded by doubt, with crosses for labeled points."""
    axes.scatter(toy.pool[:, 0], toy.pool[:, 1], c=toy.doubt, cmap=COLORS, s=7, vmin=-0.12, vmax=0.85, linewidths=0)
    labeled = toy.pool[toy.labeled]
    axes.scatter(labeled[:, 0], labeled[:, 1], marker="x", s=34, color=INK, linewidths=1.6, zorder=3)


def draw_picks(axes: Axes, toy: Quadrants, picks: IntArray, color: str) -> None:
    """Draw the pool, with squares for picks."""
    draw_pool(axes, toy)
    chosen = toy.pool[picks]
    axes.scatter(
        chosen[:, 0], chosen[:, 1], marker="s", s=27, color=color, edgecolors="white", linewidths=0.8, zorder=4
    )


def squares(n_columns: int, n_rows: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure of square panels."""
    figure = Figure(figsize=(2.9 * n_columns, 3.4 * n_rows), facecolor="white")
    axes = [figure.add_subplot(n_rows, n_columns, i + 1) for i in range(n_rows * n_columns)]
    figure.subplots_adjust(left=0.008, right=0.992, bottom=0.02, top=0.86, wspace=0.05)
    return figure, axes


def quadrants_figure() -> Figure:
    """The picks of three strategies."""
    toy, (figure, axes) = make_quadrants(), squares(4)
    draw_pool(axes[0], toy)
    draw_square(axes[0], "the pool", "darker: more doubt; crosses: labeled")
    for panel, name, detail in zip(
        axes[1:],
        ("least-confidence", "coreset", "doubt-coreset"),
        ("most doubt first: clustered", "farthest first: even coverage", "farthest in the scaled space"),
        strict=True,
    ):
        picked = dubito.select(
            toy.pool, 40, labeled=toy.labeled, probabilities=toy.probabilities, strategy=name
        ).indices
        draw_picks(panel, toy, picked, strategy_color(name))
        draw_square(panel, name, detail, strategy_color(name))
    return figure


def strength_figure() -> Figure:
    """With a larger exponent, picks move from even coverage to the class boundary."""
    toy, (figure, axes) = make_quadrants(), squares(4)
    for panel, strength in zip(axes, (0.0, 0.25, 1.0, 2.0), strict=True):
        method = DoubtCoreset(strength=strength)
        picked = dubito.select(toy.pool, 40, labeled=toy.labeled, doubt=toy.doubt, strategy=method).indices
        color = strategy_color("doubt-coreset" if strength else "coreset")
        draw_picks(panel, toy, picked, color)
        names = {0.0: "the plain core-set", 1.0: "the paper, and its default"}
        draw_square(panel, f"strength {strength:g}", names.get(strength, ""), color)
    return figure


def readings_figure() -> Figure:
    """The two readings of line 11: scaled distances from two picks."""
    figure, axes = squares(4)
    line = np.linspace(-1.0, 1.0, 201)
    grid = Quadrants(np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2), np.empty(0, dtype=np.int64))
    for i, (position, name_of_position) in enumerate((((0.0, 0.0), "the origin"), ((-0.96, 0.96), "a corner"))):
        distance = np.linalg.norm(grid.pool - position, axis=1)
        pick_doubt = float(Quadrants(np.array([position]), grid.labeled).doubt[0])
        scaled = {"respective": distance * grid.doubt, "acquired": distance * pick_doubt}
        for panel, (name, values) in zip(axes[2 * i : 2 * i + 2], scaled.items(), strict=True):
            panel.imshow(
                values.reshape(len(line), -1),
                cmap=COLORS,
                origin="lower",
                extent=(-1, 1, -1, 1),
                interpolation="bilinear",
            )
            panel.scatter(
                [position[0]], [position[1]], marker="s", s=60, color=OKABE_ITO["vermilion"], edgecolors="white"
            )
            draw_square(panel, name, f"priorities after a pick at {name_of_position}")
    return figure


def lazy_figure(front_size: int = 60, n_picks: int = 150) -> Figure:
    """One front of the lazy algorithm on digits: old bounds, exact values, and the certain picks."""
    pool, doubt, labeled = doubted_digits()
    earlier = dubito.select(pool, n_picks, labeled=labeled, doubt=doubt, strategy="doubt-coreset")
    references = np.concatenate([labeled, earlier.indices])
    rest = np.setdiff1d(np.arange(len(pool)), references)
    halfway = references[: len(references) - n_picks // 5]
    stale = core_set_radii(pool[rest], pool[halfway]) * doubt[rest]
    order = rest[np.argsort(-stale, kind="stable")]
    stale = -np.sort(-stale)
    front, threshold = order[:front_size], stale[front_size]
    fresh = core_set_radii(pool[front], pool[references]) * doubt[front]
    inside = dubito.select(
        pool, front_size, labeled=references, doubt=doubt, candidates=front, strategy="doubt-coreset"
    )
    picked = inside.indices[inside.priorities > threshold]
    return draw_front(stale, fresh, float(threshold), np.flatnonzero(np.isin(front, picked)))


def doubted_digits() -> tuple[FloatArray, FloatArray, IntArray]:
    """The digits of scikit-learn, the doubt of a model, and the rows that it was trained on."""
    features, classes = load_digits(return_X_y=True)
    features, labeled = features / 16.0, np.arange(N_LABELED)
    model = LogisticRegression(max_iter=2000).fit(features[labeled], classes[labeled])
    return features, np.asarray(1.0 - model.predict_proba(features).max(axis=1)), labeled


def draw_front(stale: FloatArray, fresh: FloatArray, threshold: float, picked: IntArray) -> Figure:
    """Draw the bounds as a decreasing line, the exact values below it, and the threshold of the front."""
    figure, axes = new_figure(8.6, 4.2)
    shown = np.arange(3 * len(fresh))
    blue, vermilion = OKABE_ITO["blue"], OKABE_ITO["vermilion"]
    axes.axvspan(-1, len(fresh) - 0.5, color=FAINT, alpha=0.45, linewidth=0)
    axes.vlines(np.arange(len(fresh)), fresh, stale[: len(fresh)], color=QUIET, linewidth=0.7, alpha=0.6)
    axes.plot(shown, stale[: len(shown)], color=blue, linewidth=2.2)
    axes.axhline(threshold, color=QUIET, linewidth=1.1, linestyle=(0, (4, 3)))
    axes.scatter(np.arange(len(fresh)), fresh, s=19, color="white", edgecolors=INK, linewidths=0.9, zorder=3)
    axes.scatter(picked, fresh[picked], s=34, marker="s", color=vermilion, edgecolors="white", zorder=4)
    low, high, right = float(fresh.min()) - 0.12, float(stale[0]) + 0.06, float(shown[-1])
    notes = (
        (right, float(stale[len(shown) - 1]) - 0.015, "bounds from earlier picks: never too low", blue, "right", "top"),
        (right, threshold + 0.008, "the threshold: the first bound outside the front", QUIET, "right", "bottom"),
        (0.0, low + 0.015, "the front, with exact values", INK, "left", "bottom"),
    )
    for x, y, text, color, side, edge in notes:
        axes.text(x, y, text, color=color, fontsize=9.5, ha=side, va=edge)
    axes.set(xlim=(-1, right), ylim=(low, high))
    axes.set_xlabel("candidates, by their bound", color=INK)
    axes.set_ylabel("priority", color=INK)
    title(
        axes,
        f"{len(picked)} picks are certain without computing the rest of the pool",
        "1,797 digits; squares: picks of this front, which no point outside it can precede",
    )
    return figure


def beta_figure() -> Figure:
    """The lower bound on β against δ, at four doubts."""
    figure, axes = new_figure(7.4, 4.2)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    deltas = np.linspace(1e-3, 3.0, 600)
    colors = (OKABE_ITO["blue"], OKABE_ITO["green"], OKABE_ITO["orange"], OKABE_ITO["vermilion"])
    for z, color in zip((0.01, 0.2, 0.5, 0.9), colors, strict=True):
        beta = theory.scaled_beta_lower_bound(deltas, z, 1.0, 1.0)
        axes.plot(deltas, np.where(beta > 0.0, beta, np.nan), color=color, linewidth=2.2)
        peak = int(np.argmax(beta))
        axes.annotate(
            f"doubt {z:g}",
            (deltas[peak], float(beta[peak])),
            xytext=(0, 5),
            textcoords="offset points",
            color=color,
            fontsize=10,
            fontweight="bold",
            ha="center",
        )
        axes.plot(theory.delta_star(z, 1.0, 1.0), 0.0, marker="o", color=color, markersize=6, clip_on=False)
    axes.set(xlim=(0, 3), ylim=(0, 1))
    axes.set_xlabel("δ, distance to the nearest label (λ_c = λ_ε = 1)", color=INK)
    axes.set_ylabel("β is at least", color=INK)
    title(
        axes,
        "the bound is highest for confident points at medium distances",
        "dots: δ*, beyond which there is no bound",
    )
    return figure


def copy_demo(folder: Path) -> None:
    """Copy the two pictures of the demo, and draw the diagnosis that it suggests as the next step."""
    with tempfile.TemporaryDirectory() as scratch:
        if run_command(["demo", "--quiet", "--json", "-o", scratch]) != 0:
            raise SystemExit("dubito demo failed; its message above says why.")
        picture = str(folder / "diagnosis.png")
        run_command(["diagnose", f"{scratch}/digits.npz", "--plot", picture, "--force", "--quiet"])
        for name in ("curves", "picked"):
            shutil.copyfile(Path(scratch) / f"{name}.png", folder / f"demo-{name}.png")


FIGURES = {
    "quadrants": quadrants_figure,
    "strength": strength_figure,
    "readings": readings_figure,
    "lazy-front": lazy_figure,
    "beta": beta_figure,
}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        save_figure(draw(), folder / name, formats=("png",), force=True)
    copy_demo(folder)
    for path in folder.glob("*.png"):
        if path.stem not in FULL_COLOR:
            reduce_colors(path, path, colors=128)


if __name__ == "__main__":
    main()
