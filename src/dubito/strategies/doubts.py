"""Whose doubt a strategy goes by: of the gap between two classes, or of the likeliest one."""

from typing import Literal

from dubito.doubt import margin_doubt
from dubito.matrix import FloatArray
from dubito.problem import Request
from dubito.strategies.base import need_doubt

Kind = Literal["margin", "confidence"]


def doubt_of(request: Request, strategy: str, kind: Kind) -> FloatArray:
    """(n,) doubt of that kind; doubt that was handed in as such is of any."""
    if kind == "margin" and request.probabilities is not None:
        return margin_doubt(request.probabilities)
    return need_doubt(request, strategy)
