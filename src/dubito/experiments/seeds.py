"""Random seeds of an experiment: a separate one for each seed, purpose and turn.

They do not depend on the strategy, so strategies with the same seed differ only in the rows they pick.
"""

from typing import Literal, get_args

import numpy as np

Purpose = Literal["test", "pool", "initial", "weights", "batches", "picks", "committee", "rows", "permuted", "held-out"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)


def derive_seed(seed: int, purpose: Purpose, *keys: int) -> int:
    """A 32-bit seed for one purpose; ``keys`` are the turn and other numbers that need a seed of their own.

    Examples
    --------
    >>> derive_seed(0, "picks", 1) == derive_seed(0, "picks", 1) != derive_seed(0, "picks", 2)
    True
    """
    return int(np.random.SeedSequence((seed, PURPOSES.index(purpose), *keys)).generate_state(1)[0])
