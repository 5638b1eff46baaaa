"""What a diagnosis holds."""

from dataclasses import asdict, dataclass, field, fields
from typing import Literal

from dubito.matrix import FloatArray

Regime = Literal["quadratic", "linear", "undecided"]

QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """How the model did on the checked points."""

    n: int
    error_rate: float
    mean_doubt: float
    """What the error rate would be, were the model calibrated."""
    epsilon: tuple[float | None, ...]
    """The error rate given doubt, P(wrong)/I, of groups from near to far; None where a group has no doubt."""


@dataclass(frozen=True, slots=True)
class Relation:
    """How doubt and distance go together over the unlabelled points."""

    first: int
    """How many points are compared: a tenth of them, at most 100."""
    far: int
    """Of so many that scaling puts first, those that are among as many farthest from their labels."""
    doubted: int
    """And those that are among as many most doubted."""
    correlation: float | None
    """Spearman's, of doubt and distance; None where either is the same everywhere."""
    tail: float | None
    """The largest distance over the median one; None where that is 0."""
    sure: float
    """Share of points that the model doubts by less than 0.05."""
    far_doubt: float
    """Median doubt of the farthest points."""
    doubt: float
    """Median doubt of all."""


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosis:
    """Where a pool stands in the theory. None means that it cannot be told from what was given.

    Read ``advice`` first, then ``delta_over_delta_star``, which does not depend on the features' units.
    """

    advice: str
    """What doubt-scaling would do on this pool, and whether the theory promises anything for it."""
    delta_over_delta_star: float | None
    """δ/δ*: from 1 on, the theory says nothing about doubt-scaling."""
    regime: Regime
    """Of the whole pool: quadratic where both bounds on λ_c put δ·λ_c below 1, linear where none does."""
    n: int
    """Unlabelled pool points."""
    m: int
    d: int
    delta: float
    """δ, the largest distance from a pool point to its nearest labelled point."""
    delta_hat: float
    """δ̂, the largest of those distances scaled by doubt."""
    z: float
    """δ̂/δ, the doubt that δ* and β are taken at."""
    radius_quantiles: tuple[float, ...]
    """Of the distances to the nearest labelled point, at `QUANTILES`."""
    doubt_quantiles: tuple[float, ...]
    labelled_doubt: float | None
    """Largest doubt of a labelled point; the theory assumes 0. Known only where ``labelled`` names rows."""
    lambda_c_head: float | None
    """Upper bound on λ_c, from the head."""
    lambda_c_data: float
    """Lower bound on λ_c: the largest doubt per distance seen."""
    share_quadratic_head: float | None
    """Share of the pool with r·λ_c < 1 by the head's λ_c."""
    share_quadratic_data: float
    outcomes: Outcomes | None
    lambda_epsilon: float | None
    """Largest error rate given doubt per distance, over groups of the checked points."""
    delta_star: float | None
    share_below_delta_star: float | None
    """Share of the pool nearer to its labels than the δ* of its own doubt."""
    beta: float | None
    """Lower bound on β at δ and z. It depends on the features' units: compare it only with itself."""
    relation: Relation
    notes: tuple[str, ...]
    """What to know before leaning on these numbers."""
    radii: FloatArray = field(repr=False)
    """(n,) distance of each unlabelled pool point to its nearest labelled one; not in `to_dict`."""
    doubt: FloatArray = field(repr=False)
    """(n,) doubt of each; not in `to_dict`."""

    @property
    def lambda_c(self) -> float:
        """The larger bound on λ_c, which δ* and β use. Without a head it is the data's, and they flatter."""
        return max(self.lambda_c_data, self.lambda_c_head or 0.0)

    def to_dict(self) -> dict[str, object]:
        """Everything but the per-point arrays, as strict JSON holds it."""
        hidden = ("radii", "doubt")
        record = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in hidden}
        for name in ("radius_quantiles", "doubt_quantiles"):
            record[name] = {f"{q:g}": value for q, value in zip(QUANTILES, record[name], strict=True)}
        outcomes = None if self.outcomes is None else asdict(self.outcomes) | {"epsilon": [*self.outcomes.epsilon]}
        return record | {"outcomes": outcomes, "relation": asdict(self.relation), "notes": [*self.notes]}
