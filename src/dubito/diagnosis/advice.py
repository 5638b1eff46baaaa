"""A diagnosis in plain words: the advice, and what to know before leaning on the numbers."""

from collections.abc import Iterator
from statistics import median

from dubito.diagnosis.record import Diagnosis, Relation

COMPARE = "compare both on rows you hold labels of (dubito simulate) before you rely on it."
NOTABLE_DOUBT = 0.05
"""A labelled point that the model doubts more than this is not what the theory assumes."""
MOSTLY = 2 / 3
"""Of the points put first, a share that makes scaling much the same as something simpler."""
NOTABLE_TREND = 0.2
"""A rank correlation at least this far from 0 is told as a trend."""
NOTABLE_TAIL = 5.0
"""The farthest point is an outlier if it is this many times as far as the median one."""
NOTABLE_SURE = 0.5
NOTABLE_RATIO = 1.5
"""Errors this many times the doubt, or this many times more of them near than far, are worth a word."""


def advise(found: Diagnosis) -> str:
    """What doubt-scaling would do here, and what the theory promises for it, which comes first where it is anything."""
    if found.delta == 0.0:
        return "Every pool point repeats a labelled one, so a core-set has nothing left to cover."
    if found.delta_hat == 0.0:
        return "The model doubts no point that lies away from its labels, so there is nothing to scale by."
    promise = _promise(found)
    if promise is not None:
        return f"{promise} {_would_do(found.relation)}"
    return f"{_would_do(found.relation)} {_no_promise(found)}"


def _promise(found: Diagnosis) -> str | None:
    """What the theory promises, if it does."""
    ratio = found.delta_over_delta_star
    if ratio is not None and ratio >= 1.0:
        return None
    if found.regime == "quadratic":
        surely = "how surely is unknown without checked outcomes" if ratio is None else f"δ/δ* = {ratio:.3g} < 1"
        return f"Doubt-scaling can be expected to help now: {_slopes(found)}, both below 1, and {surely}."
    if ratio is None:
        return None
    return (
        f"Doubt-scaling can be expected to do no worse than the plain core-set (δ/δ* = {ratio:.3g} < 1), "
        f"but a quadratic gain is not promised ({_slopes(found)})."
    )


def _no_promise(found: Diagnosis) -> str:
    ratio = found.delta_over_delta_star
    if ratio is not None:
        return f"The theory promises nothing for that here (δ/δ* = {ratio:.3g}; it speaks below 1): {COMPARE}"
    promise = "promises no quadratic gain" if found.regime == "linear" else "cannot tell of a quadratic gain"
    return f"The theory {promise} ({_slopes(found)}; it takes less than 1 by both): {COMPARE}"


def _would_do(relation: Relation) -> str:
    """Which of distance and doubt decides what is asked for first, in a sentence."""
    of = f"of the {relation.first} points it puts first, " if relation.first > 1 else "of the one point it puts first, "
    far, doubted = f"{relation.far} are among the farthest", f"{relation.doubted} among the most doubted"
    enough = MOSTLY * relation.first
    if relation.far >= enough and relation.doubted >= enough:
        begin = "Distance and doubt point to the same points here, with or without scaling"
    elif relation.far >= enough:
        begin = "Doubt-scaling asks for much the same as the plain core-set here"
    elif relation.doubted >= enough:
        begin = "Doubt-scaling asks for much the same as least-confidence here"
    else:
        begin = "Doubt-scaling weighs distance against doubt here"
    return f"{begin}: {of}{far} and {doubted}{_trend(relation.correlation)}."


def _trend(correlation: float | None) -> str:
    """Whether doubt rises or falls with distance."""
    if correlation is None:
        return ""
    trend = "rises" if correlation >= NOTABLE_TREND else "falls" if correlation <= -NOTABLE_TREND else "hardly changes"
    return f"; doubt {trend} with distance (rank correlation {correlation:+.2f})"


def caveats(found: Diagnosis) -> Iterator[str]:
    """What was not given, and where the data contradict the theory's assumptions."""
    if found.lambda_c_head is None:
        yield "No head was given, so λ_c has only a lower bound, and a quadratic regime cannot be claimed."
    elif found.lambda_c_data > found.lambda_c_head:
        yield "The data show a steeper doubt than the head allows: labelled points are in doubt, or it is another head."
    if found.labelled_doubt is not None and found.labelled_doubt > NOTABLE_DOUBT:
        yield f"The model doubts a labelled point by {found.labelled_doubt:.2g}; the theory assumes no doubt there."
    yield from _relation_caveats(found.relation)
    yield from _outcome_caveats(found)


def _relation_caveats(relation: Relation) -> Iterator[str]:
    if relation.tail is not None and relation.tail >= NOTABLE_TAIL:
        yield (
            f"The farthest point is {relation.tail:.3g} times as far from its labels as the median one: a plain "
            f"core-set asks for such outliers first, which the model doubts by {relation.far_doubt:.2g} (all: "
            f"{relation.doubt:.2g}). If columns have different units, standardise them."
        )
    if relation.sure >= NOTABLE_SURE:
        yield f"The model is sure of {relation.sure:.0%} of the points (doubt below 0.05); scaling passes them over."


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
