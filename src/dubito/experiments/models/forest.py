"""``forest``: a random forest."""

from dataclasses import dataclass
from typing import ClassVar

from dubito.checks import check_integer
from dubito.experiments.models.base import Fitted, Lesson, OnHost, check_samples
from dubito.experiments.models.estimator import Sklearn


@dataclass(frozen=True, slots=True)
class Forest(OnHost):
    """A random forest (scikit-learn's), grown anew every turn; it asks nothing of the features' scales."""

    trees: int = 100
    samples: int = 0
    kind: ClassVar[str] = "forest"

    def __post_init__(self) -> None:
        check_integer("trees", self.trees, least=1)
        check_samples(self.samples)

    def fit(self, lesson: Lesson) -> Fitted:
        """O(trees·m log m·√d)."""
        return Sklearn("sklearn.ensemble.RandomForestClassifier", {"n_estimators": self.trees}).fit(lesson)
