"""Single values: names, numbers and sizes."""

import operator
import re
from collections.abc import Collection
from contextlib import suppress
from difflib import get_close_matches
from typing import SupportsIndex, TypeVar, cast

import numpy as np

from dubito.errors import InvalidArgument
from dubito.wording import PASS, named

Name = TypeVar("Name", bound=str)


def check_choice(name: str, value: object, known: Collection[Name]) -> Name:
    """One of the known names, or an error that offers the nearest.

    Examples
    --------
    >>> check_choice("metric", "cosine", ("euclidean", "cosine"))
    'cosine'
    """
    for choice in known:
        if isinstance(value, str) and value == choice:
            return choice
    near = get_close_matches(str(value), known, n=1, cutoff=0.65)
    choose = f"did you mean {near[0]!r}? Choose" if near else "choose"
    mend = f"{choose} from {', '.join(sorted(known))}."
    raise InvalidArgument("is not known", argument=name, value=value, mend=mend)


def check_integer(name: str, value: object, *, least: int) -> int:
    """A whole number of at least ``least``; a bool or a float is not one."""
    # Most are plain numbers, and asking for a protocol takes longer than all else here.
    is_plain = type(value) is int
    if not is_plain and (isinstance(value, bool | np.bool_ | np.ndarray) or not isinstance(value, SupportsIndex)):
        mend = f"{PASS} an integer >= {least}."
        raise InvalidArgument("is not a whole number", argument=name, value=value, mend=mend)
    number = operator.index(cast(SupportsIndex, value))
    if number < least:
        mend = f"{PASS} {named(name)} >= {least}."
        raise InvalidArgument("is too small", argument=name, value=number, mend=mend)
    return number


def check_real(name: str, value: object, *, least: float) -> float:
    """A finite number of at least ``least``."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        with suppress(OverflowError):  # A whole number may be too large for a float.
            number = float(value)
            if np.isfinite(number) and number >= least:
                return number
    mend = f"{PASS} a finite number >= {least:g}."
    raise InvalidArgument("is not allowed", argument=name, value=value, mend=mend)


def check_budget(budget: object, n_candidates: int, n_pool: int) -> int:
    """A whole number from 1 to the number of points that may be picked."""
    number = check_integer("budget", budget, least=1)
    if number > n_candidates:
        whose = "points in the pool" if n_candidates == n_pool else f"candidates among the {n_pool} pool points"
        mend = f"{PASS} {named('budget')} <= {n_candidates}." if n_candidates else "there is nothing left to pick."
        raise InvalidArgument(f"exceeds the {n_candidates} {whose}", argument="budget", value=number, mend=mend)
    return number


def check_memory_limit(value: object, name: str = "memory_limit") -> int | None:
    """Bytes, from a number or from text such as "2GB" or "2GiB".

    Examples
    --------
    >>> check_memory_limit("2GB"), check_memory_limit("512 MiB"), check_memory_limit(None)
    (2000000000, 536870912, None)
    """
    if value is None:
        return None
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d+)?)\s*([kMGT]?)(i?)B?\s*", value, re.IGNORECASE)
        if match is None:
            mend = "pass bytes, or text such as '2GB'."
            raise InvalidArgument("is not a size", argument=name, value=value, mend=mend)
        number, prefix, binary = match.groups()
        value = int(float(number) * (1024 if binary else 1000) ** " kmgt".index(prefix.lower() or " "))
    return check_integer(name, value, least=1)


def read_number(text: str) -> int | float | str:
    """The number a text spells, or the text itself: the library's checks say what is wrong with it.

    Examples
    --------
    >>> read_number("20"), read_number("2.5"), read_number("many")
    (20, 2.5, 'many')
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
