"""What `select` refuses, with argument, value and fix; and that it changes nothing handed in."""

from collections.abc import Callable

import numpy as np
import pytest

import dubito
from dubito.matrix import AnyArray
from dubito.strategies import Coreset

LINE = np.array([[0.0], [1.0], [4.0], [9.0]])
LINE_DOUBT = [0.5, 0.25, 1.0, 0.125]
POOL = np.random.default_rng(3).standard_normal((20, 3))

GOOD: dict[str, object] = {"pool": LINE, "budget": 2, "doubt": LINE_DOUBT}


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"pool": [[np.nan], [1.0]]}, dubito.InvalidData, r"pool holds nan at row 0, column 0"),
        ({"pool": np.empty((0, 2))}, dubito.InvalidArgument, r"pool is empty"),
        ({"pool": [["a"]]}, dubito.InvalidData, r"pool holds text instead of numbers"),
        ({"budget": 0}, dubito.InvalidArgument, r"budget=0 is too small; pass budget >= 1"),
        ({"budget": -1}, dubito.InvalidArgument, r"budget=-1 is too small"),
        ({"budget": 1.5}, dubito.InvalidArgument, r"budget=1.5 is not a whole number"),
        ({"budget": 5}, dubito.InvalidArgument, r"budget=5 exceeds the 4 points in the pool; pass budget <= 4"),
        ({"candidates": [1]}, dubito.InvalidArgument, r"budget=2 exceeds the 1 candidates among the 4 pool points"),
        ({"labeled": [0, 1, 2]}, dubito.InvalidArgument, r"budget=2 exceeds the 1 candidates among the 4"),
        ({"doubt": [0, 0, 0, 2]}, dubito.InvalidData, r"doubt holds 2 at row 3; pass numbers from 0 to 1"),
        (
            {"doubt": None, "strategy": "doubt-coreset"},
            dubito.InvalidArgument,
            r"strategy='doubt-coreset' needs the model's doubt; pass probabilit",
        ),
        ({"doubt": None, "strength": 2}, dubito.InvalidArgument, r"strategy='doubt-coreset' needs the model's doubt"),
        (
            {"features": "melted"},
            dubito.InvalidArgument,
            r"features='melted' is not known; choose from frozen, trained",
        ),
        (
            {"features": "frozen", "strategy": "margin"},
            dubito.InvalidArgument,
            r"features='frozen' is not supported by st",
        ),
        (
            {"features": "frozen", "strength": 2},
            dubito.InvalidArgument,
            r"features='frozen' cannot be combined with strength, an option of doubt-coreset; leave one out",
        ),
        ({"logits": np.zeros((4, 2))}, dubito.InvalidArgument, r"logits and doubt are two sources of doubt; pass only"),
        ({"strength": -0.5}, dubito.InvalidArgument, r"strength=-0.5 is not allowed; pass a finite number >= 0"),
        ({"strength": np.ones(2)}, dubito.InvalidArgument, r"strength=array\(\[1., 1.\]\) is not allowed"),
        ({"beam_width": [2]}, dubito.InvalidArgument, r"beam_width=\[2\] is not a whole number"),
        ({"beam_width": 0}, dubito.InvalidArgument, r"beam_width=0 is too small; pass beam_width >= 1"),
        ({"scaling": "respectiv"}, dubito.InvalidArgument, r"scaling='respectiv' is not known; did you mean 'respe"),
        ({"engine": "gpu"}, dubito.InvalidArgument, r"engine='gpu' is not known; pass engine='cuda'"),
        ({"strategy": Coreset}, dubito.InvalidArgument, r"Coreset'> is a class; pass Coreset\(\), or its name"),
        (
            {"strategy": "doubt-coverage:doubt=margn"},
            dubito.InvalidArgument,
            r"strategy='doubt-coverage:doubt=margn': doubt='margn' is not known; did you mean 'margin'",
        ),
        ({"metric": "euclid"}, dubito.InvalidArgument, r"metric='euclid' is not known; did you mean 'euclidean'"),
        ({"metric": "cosine"}, dubito.InvalidData, r"pool is all zeros at row 0, which has no direction"),
        ({"strategy": "coresett"}, dubito.InvalidArgument, r"strategy='coresett' is not known; did you mean 'coreset'"),
        ({"strategy": 7}, dubito.InvalidArgument, r"strategy=7 is neither a name nor a Strategy object"),
        ({"engine": "cpuu"}, dubito.InvalidArgument, r"engine='cpuu' is not known; did you mean 'cpu'"),
        (
            {"strategy": "random", "engine": "cpu"},
            dubito.InvalidArgument,
            r"engine='cpu' is not supported by strategy",
        ),
        (
            {"strategy": "coreset", "strength": 0.5},
            dubito.InvalidArgument,
            r"strength=0.5 is not supported by strategy=",
        ),
        (
            {"strategy": "random", "beam_width": 2},
            dubito.InvalidArgument,
            r"beam_width=2 is not supported by .*'random'",
        ),
        (
            {"strategy": Coreset(), "strength": 2.0},
            dubito.InvalidArgument,
            r"strength=2.0 is not supported by the 'cores",
        ),
        (
            {"strategy": "coreset", "beam_width": 2, "doubt": None},
            dubito.InvalidArgument,
            r"beam_width=2 needs the model's doubt; pass .* or leave .*beam_width.* out",
        ),
        ({"memory_limit": "lots"}, dubito.InvalidArgument, r"memory_limit='lots' is not a size"),
        ({"seed": -1}, dubito.InvalidArgument, r"seed=-1 is too small; pass seed >= 0"),
        ({"seed": 0.5}, dubito.InvalidArgument, r"seed=0.5 is not a whole number"),
        ({"progress": 3}, dubito.InvalidArgument, r"progress=3 cannot be called; pass a function of \(done"),
        ({"strategy": "margin"}, dubito.InvalidArgument, r"strategy='margin' needs class probabilities; pass prob"),
    ],
)
def test_a_bad_call_is_refused_with_argument_value_and_hint(
    change: dict[str, object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        call(**{**GOOD, **change})


def call(**arguments: object) -> dubito.Selection:
    chooser: Callable[..., dubito.Selection] = dubito.select
    return chooser(**arguments)


@pytest.mark.parametrize("strategy", ["doubt-coreset", "coreset", "optimal-coreset", "closest-kmeans", "margin"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_nothing_handed_in_is_changed_and_read_only_is_enough(strategy: str, metric: str) -> None:
    pool, labeled = POOL.copy(), POOL[:2] + 1.0
    probabilities, candidates = np.tile([0.75, 0.25], (20, 1)), np.arange(1, 20)
    given_: list[AnyArray] = [pool, labeled, probabilities, candidates]
    before = [array.copy() for array in given_]
    for writeable in (True, False):
        for array in given_:
            array.flags.writeable = writeable
        call(
            pool=pool,
            budget=5,
            labeled=labeled,
            probabilities=probabilities,
            candidates=candidates,
            metric=metric,
            strategy=strategy,
        )
        assert all(np.array_equal(one, other) for one, other in zip(given_, before, strict=True))
