"""Where an experiment's randomness comes from: one number of its own for each seed, purpose and turn.

Nothing here depends on the strategy, so that strategies of one seed differ in nothing but what they ask for.
"""

from typing import Literal, get_args

import numpy as np

Purpose = Literal["test", "pool", "initial", "weights", "batches", "picks", "committee", "rows", "permuted"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)


def draw(seed: int, purpose: Purpose, *place: int) -> int:
    """A 32-bit seed for one purpose; ``place`` is the turn, or whatever else must draw anew.

    Examples
    --------
    >>> draw(0, "picks", 1) == draw(0, "picks", 1), draw(0, "picks", 1) == draw(0, "picks", 2)
    (True, False)
    """
    return int(np.random.SeedSequence((seed, PURPOSES.index(purpose), *place)).generate_state(1)[0])
