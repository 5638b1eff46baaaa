"""Active learning replayed on data whose classes are known: label, train, select, and again.

Every strategy starts from the same labels, seed by seed, so that what is compared is only what they asked for next.
The model is scikit-learn's `LogisticRegression` on the features as they are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from dubito.checks import check_integer, check_real
from dubito.errors import InvalidArgument
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray
from dubito.selecting import select
from dubito.strategies import Strategy

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

Arms = Mapping[str, Strategy]
"""What is compared, by the name shown."""
Step = Callable[[int, int], None]
"""Called with trainings done and trainings in all."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a rehearsal runs."""

    initial: int = 20
    """Labels drawn at random before the first training."""
    batch: int = 20
    """Labels asked for in each round."""
    rounds: int = 6
    seeds: int = 10
    """Repetitions, each with its own test set and initial labels."""
    test_share: float = 1 / 3

    def __post_init__(self) -> None:
        for name in ("initial", "batch", "rounds", "seeds"):
            check_integer(name, getattr(self, name), least=1)
        if not check_real("test_share", self.test_share, least=0.0) < 1:
            raise InvalidArgument(f"test_share={self.test_share} leaves no pool; pass a share between 0 and 1.")

    @property
    def labels(self) -> IntArray:
        """(rounds + 1,) labels owned at each training."""
        return self.initial + self.batch * np.arange(self.rounds + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Accuracy against labels, over seeds."""

    name: str
    labels: IntArray
    """(r + 1,)"""
    accuracy: FloatArray
    """(seeds, r + 1) share of the test set that is right."""

    @property
    def mean(self) -> FloatArray:
        """(r + 1,) over seeds."""
        return np.asarray(self.accuracy.mean(axis=0))

    @property
    def spread(self) -> FloatArray:
        """(r + 1,) one standard deviation over seeds; 0 for a single seed."""
        return np.asarray(self.accuracy.std(axis=0, ddof=1 if len(self.accuracy) > 1 else 0))


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """What one strategy asked for in the first round of the first seed."""

    name: str
    rows: IntArray
    """(b,) rows of the data, in the order picked."""
    misread: BoolArray
    """(b,) True where the model, before these labels, had the class wrong."""


@dataclass(frozen=True, slots=True, eq=False)
class Rehearsal:
    """What happened: a curve for each strategy, and its first questions."""

    plan: Plan
    curves: tuple[Curve, ...]
    asked: tuple[Asked, ...]

    def curve(self, name: str) -> Curve:
        """The curve of that name."""
        return next(curve for curve in self.curves if curve.name == name)


@dataclass(frozen=True, slots=True)
class _Split:
    """One seed's division of the data, and what it draws with."""

    features: AnyArray
    classes: AnyArray
    pool: IntArray
    test: IntArray
    seed: int


def rehearse(
    features: AnyArray,
    classes: AnyArray,
    arms: Arms,
    plan: Plan | None = None,
    *,
    progress: Step | None = None,
) -> Rehearsal:
    """Replay rounds of label, train and select, and measure each strategy on held-out data.

    Parameters
    ----------
    features : array (n, d)
        What the model and the distances see.
    classes : array (n,)
        The true classes, revealed only when asked for.
    arms : mapping
        Name shown to strategy, such as ``{"random": Random()}``.
    plan : Plan, optional
        Sizes, rounds and seeds.
    progress : callable, optional
        Called after every training.

    Returns
    -------
    Rehearsal
        Curves in the order of ``arms``. Seed s gives every strategy the same test set and initial labels.

    Examples
    --------
    >>> from dubito.strategies import Random
    >>> rng = np.random.default_rng(0)
    >>> classes = np.arange(60) % 2
    >>> features = rng.normal(size=(60, 2)) + 3 * classes[:, None]
    >>> plan = Plan(initial=6, batch=3, rounds=2, seeds=2)
    >>> played = rehearse(features, classes, {"random": Random()}, plan)
    >>> played.curves[0].labels.tolist(), played.curves[0].accuracy.shape
    ([6, 9, 12], (2, 3))
    """
    plan = Plan() if plan is None else plan
    _check_sizes(len(features), plan)
    done, total = 0, plan.seeds * len(arms) * (plan.rounds + 1)

    def trained() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    accuracy = {name: np.empty((plan.seeds, plan.rounds + 1)) for name in arms}
    asked: list[Asked] = []
    # On matrices this small, threads of the linear algebra library only wait for each other.
    with import_module("threadpoolctl").threadpool_limits(1):
        for seed in range(plan.seeds):
            split = _split(features, classes, plan, seed)
            for name, strategy in arms.items():
                accuracy[name][seed], first = _play(split, name, strategy, plan, trained)
                if seed == 0:
                    asked.append(first)
    curves = tuple(Curve(name, plan.labels, accuracy[name]) for name in arms)
    return Rehearsal(plan, curves, tuple(asked))


def _check_sizes(n: int, plan: Plan) -> None:
    n_pool, wanted = n - round(n * plan.test_share), int(plan.labels[-1])
    if wanted > n_pool:
        raise InvalidArgument(
            f"rounds={plan.rounds} of batch={plan.batch} after initial={plan.initial} want {wanted} labels and the "
            f"pool has {n_pool}; pass rounds <= {max(0, n_pool - plan.initial) // plan.batch}."
        )


def _split(features: AnyArray, classes: AnyArray, plan: Plan, seed: int) -> _Split:
    shuffled = np.random.default_rng(seed).permutation(len(features))
    n_test = round(len(features) * plan.test_share)
    return _Split(features, classes, shuffled[n_test:], shuffled[:n_test], seed)


def _play(
    split: _Split, name: str, strategy: Strategy, plan: Plan, trained: Callable[[], None]
) -> tuple[FloatArray, Asked]:
    """One strategy through all rounds of one seed; the pool is in random order, so its head is a random draw."""
    pool, truth = split.features[split.pool], split.classes[split.pool]
    labelled = np.arange(plan.initial)
    accuracy = np.empty(plan.rounds + 1)
    questions: list[Asked] = []
    for turn in range(plan.rounds + 1):
        model = train(pool[labelled], truth[labelled])
        accuracy[turn] = model.score(split.features[split.test], split.classes[split.test])
        trained()
        if turn < plan.rounds:
            doubtful, seed = model.predict_proba(pool), _draw(split.seed, turn)
            picked = select(
                pool, plan.batch, labelled=labelled, probabilities=doubtful, strategy=strategy, seed=seed
            ).indices
            questions.append(Asked(name, split.pool[picked], model.predict(pool[picked]) != truth[picked]))
            labelled = np.concatenate([labelled, picked])
    return accuracy, questions[0]


def train(features: AnyArray, classes: AnyArray) -> "LogisticRegression":
    """A linear model of these labels, in scikit-learn's default settings."""
    from sklearn.linear_model import LogisticRegression

    if len(np.unique(classes)) < 2:
        raise InvalidArgument(f"initial={len(classes)} labels hold one class only; pass a larger initial.")
    return LogisticRegression(max_iter=2000).fit(features, classes)


def _draw(seed: int, turn: int) -> int:
    """A seed of its own for each seed and round, so that random draws anew every time."""
    return int(np.random.SeedSequence((seed, turn)).generate_state(1)[0])


def first_state(features: AnyArray, classes: AnyArray, plan: Plan) -> tuple[IntArray, "LogisticRegression"]:
    """What the first seed knows before its first question: the labelled rows, and the model trained on them."""
    split = _split(features, classes, plan, seed=0)
    labelled = np.sort(split.pool[: plan.initial])
    return labelled, train(features[labelled], classes[labelled])


def labels_saved(curve: Curve, baseline: Curve) -> float | None:
    """Labels spared at equal accuracy: how much sooner a mean curve reaches the baseline's best mean accuracy.

    Straight lines join the trainings. None where the curve never gets there, or gets there later.

    Examples
    --------
    >>> labels = np.array([10, 20, 30])
    >>> slow = Curve("random", labels, np.array([[0.5, 0.6, 0.7]]))
    >>> fast = Curve("coreset", labels, np.array([[0.5, 0.8, 0.9]]))
    >>> round(labels_saved(fast, slow), 6), labels_saved(slow, fast)
    (13.333333, None)
    """
    target = float(baseline.mean.max())
    saved = _labels_to_reach(baseline, target) - _labels_to_reach(curve, target)
    return float(saved) if saved > 0 else None


def _labels_to_reach(curve: Curve, target: float) -> float:
    """Labels at which the mean curve first reaches the target; infinite where it never does."""
    reached = np.flatnonzero(curve.mean >= target)
    if len(reached) == 0:
        return float("inf")
    at = int(reached[0])
    if at == 0:
        return float(curve.labels[0])
    low, high = curve.mean[at - 1], curve.mean[at]
    share = (target - low) / (high - low)
    return float(curve.labels[at - 1] + share * (curve.labels[at] - curve.labels[at - 1]))


def finding(played: Rehearsal, baseline: str) -> str:
    """One sentence: who reaches the baseline's best accuracy soonest, and with how many labels."""
    best = best_saver(played, baseline)
    if best is None:
        return f"nothing beat {baseline} here"
    curve, saved = best
    total = int(played.curve(baseline).labels[-1])
    return f"{curve.name} needs {round(total - saved)} labels for what {baseline} learns from {total}"


def best_saver(played: Rehearsal, baseline: str) -> tuple[Curve, float] | None:
    """The curve that spares most labels, and how many; None where none does."""
    reference = played.curve(baseline)
    savings = [(curve, labels_saved(curve, reference)) for curve in played.curves if curve.name != baseline]
    found = [(curve, saved) for curve, saved in savings if saved is not None]
    return max(found, key=lambda each: each[1]) if found else None
