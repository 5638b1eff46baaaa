"""The theory read on a user's own data, and what it does not say.

λ_c, the slope of confidence, is known only between two bounds: a linear head gives an upper one, the data a lower
one. λ_ε, the slope of the error rate given doubt, can be told only from points whose labels are known and which the
model has not trained on; without them there is no δ* and no β.
"""

from dubito.diagnosis.reading import diagnose, error_rate_given_doubt
from dubito.diagnosis.record import QUANTILES, Diagnosis, Outcomes, Regime, Relation

__all__ = ["QUANTILES", "Diagnosis", "Outcomes", "Regime", "Relation", "diagnose", "error_rate_given_doubt"]
