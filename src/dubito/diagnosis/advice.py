"""A diagnosis in plain words: one sentence of advice, and what to know before leaning on the numbers."""

from collections.abc import Iterator
from statistics import median

from dubito.diagnosis.record import Diagnosis

COMPARE = "compare it with the plain core-set on points you hold labels of before you rely on it."
NOTABLE_DOUBT = 0.05
"""A labelled point that the model doubts more than this is not what the theory assumes."""
NOTABLE_RATIO = 1.5
"""Errors this many times the doubt, or this many times more of them near than far, are worth a word."""


def advise(found: Diagnosis) -> str:
    """One sentence on whether doubt-scaling can be expected to help now; a promise only where the theory makes one."""
    if found.delta == 0.0:
        return "Every pool point repeats a labelled one, so a core-set has nothing left to cover."
    if found.delta_hat == 0.0:
        return "The model doubts no point that lies away from its labels, so there is nothing to scale by."
    ratio = found.delta_over_delta_star
    if ratio is not None and ratio >= 1.0:
        return f"The theory promises nothing for doubt-scaling here (δ/δ* = {ratio:.3g}; it speaks below 1): {COMPARE}"
    if found.regime == "quadratic":
        surely = "how surely is unknown without checked outcomes" if ratio is None else f"δ/δ* = {ratio:.3g} < 1"
        return f"Doubt-scaling can be expected to help now: {_slopes(found)}, both below 1, and {surely}."
    if ratio is not None:
        return (
            f"Doubt-scaling can be expected to do no worse than the plain core-set (δ/δ* = {ratio:.3g} < 1), "
            f"but a quadratic gain is not promised ({_slopes(found)})."
        )
    told = "is not promised a quadratic gain" if found.regime == "linear" else "may or may not gain quadratically"
    return f"Doubt-scaling {told} here ({_slopes(found)}; it takes less than 1 by both): {COMPARE}"


def caveats(found: Diagnosis) -> Iterator[str]:
    """What was not given, and where the data contradict the theory's assumptions."""
    if found.lambda_c_head is None:
        yield "No head was given, so λ_c has only a lower bound, and a quadratic regime cannot be claimed."
    elif found.lambda_c_data > found.lambda_c_head:
        yield "The data show a steeper doubt than the head allows: labelled points are in doubt, or it is another head."
    if found.labelled_doubt is not None and found.labelled_doubt > NOTABLE_DOUBT:
        yield f"The model doubts a labelled point by {found.labelled_doubt:.2g}; the theory assumes no doubt there."
    yield from _outcome_caveats(found)


def _outcome_caveats(found: Diagnosis) -> Iterator[str]:
    if found.outcomes is None:
        yield "No outcomes were given, so λ_ε, δ* and β cannot be told."
        return
    error_rate, mean_doubt = found.outcomes.error_rate, found.outcomes.mean_doubt
    if error_rate == 0.0:
        yield f"The model was right on all {found.outcomes.n} checked points, which sets no λ_ε."
    elif found.lambda_epsilon is None:
        yield "The model errs at places without doubt or distance, which no λ_ε explains."
    if error_rate > NOTABLE_RATIO * mean_doubt:
        yield (
            f"The model is over-confident: wrong on {error_rate:.1%} of the checked points, in doubt by "
            f"{mean_doubt:.1%}; a strength below 1 trusts its doubt less."
        )
    near, far = _halves(found.outcomes.epsilon)
    if near > NOTABLE_RATIO * far:
        yield (
            f"Errors per doubt fall with distance, from about {near:.3g} near the labels to {far:.3g} far from them; "
            "the theory assumes that they start at 0 and rise."
        )
    if found.beta is not None:
        yield "β depends on the units of the features; δ/δ* does not."


def _slopes(found: Diagnosis) -> str:
    """How δ·λ_c reads under each bound known."""
    by_data = f"δ·λ_c is {found.delta * found.lambda_c_data:.3g} by the data"
    if found.lambda_c_head is None:
        return f"{by_data}, unknown by the head"
    return f"{by_data} and {found.delta * found.lambda_c_head:.3g} by the head"


def _halves(epsilon: tuple[float | None, ...]) -> tuple[float, float]:
    """Median ε of the nearer and of the further half of the groups; equal where there is nothing to compare."""
    known = [value for value in epsilon if value is not None]
    middle = len(known) // 2
    return (median(known[:middle]), median(known[-middle:])) if middle else (0.0, 0.0)
