"""Strategies that asked for the same rows: with two classes ``margin``, ``least-confidence`` and ``entropy`` do."""

from collections.abc import Sequence

from dubito.experiments.records import Round

SAME_ORDER = ("margin", "least-confidence", "entropy")
"""With two classes all three fall as the likelier one's probability rises, so they order the pool alike."""


def alike(rounds: Sequence[Round]) -> tuple[tuple[str, ...], ...]:
    """Groups of strategies with the same picks and the same accuracy under every seed, round for round.

    They are one experiment told several times. The order of picks within a round does not matter: no model sees it.
    """
    by_name: dict[str, set[tuple[int, int, tuple[int, ...], float]]] = {}
    for each in rounds:
        outcome = (each.seed, each.turn, tuple(sorted(each.picked)), each.test_accuracy)
        by_name.setdefault(each.strategy, set()).add(outcome)
    groups: dict[frozenset[tuple[int, int, tuple[int, ...], float]], list[str]] = {}
    for name, played in by_name.items():
        groups.setdefault(frozenset(played), []).append(name)
    return tuple(tuple(names) for names in groups.values() if len(names) > 1)


def told_alike(names: Sequence[str], n_classes: int) -> str:
    """What a report says of such a group.

    Examples
    --------
    >>> told_alike(["margin", "entropy"], 2)
    'asked for the same rows throughout, as they must with two classes, and count once in the correction.'
    """
    must = n_classes == 2 and set(names) <= set(SAME_ORDER)
    because = ", as they must with two classes," if must else ""
    return f"asked for the same rows throughout{because} and count once in the correction."
