"""How ``picks.npz``, ``digits.json`` and ``pool.npz`` were written, by dubito 0.1: ``python write_picks.py FOLDER``.

They are read by the tests for good, and not written again: what dubito 0.1 picked, later versions pick.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import dubito
from dubito.core import reference
from dubito.core.problem import Problem
from dubito.matrix import len_of
from dubito.testing import make_problem

N_PROBLEMS = 48
MOST_BYTES = 6_000
"""Of a problem's pool and references: the files are to stay small."""
ARRAYS = ("pool", "references", "candidates", "doubt", "weights", "scores")
FACTS = ("budget", "scaling", "beam_width", "metric", "largest")

DIGITS: tuple[dict[str, Any], ...] = (
    {"strategy": "coreset"},
    {"strategy": "coreset", "metric": "cosine"},
    {"strategy": "doubt-coreset"},
    {"strategy": "doubt-coreset", "strength": 0.0, "beam_width": 5},
    {"strategy": "doubt-coreset", "scaling": "acquired"},
    {"strategy": "doubt-coreset", "beam_width": 10},
    {"strategy": "doubt-coreset", "labeled": None},
    {"strategy": "coreset", "labeled": None},
    {"strategy": "least-confidence"},
)
"""Calls on scikit-learn's digits; fractions of 64 as doubts, whose squares have no rounding."""


def problems() -> list[Problem]:
    """The first small ones of the contract's, and one with features enough for sketches."""
    found = list[Problem]()
    number = 0
    while len(found) < N_PROBLEMS:
        problem = make_problem(number)
        if (len_of(problem.pool) + len_of(problem.references)) * problem.pool.shape[1] * 8 <= MOST_BYTES:
            found.append(problem)
        number += 1
    rng = np.random.default_rng(0)
    pool = rng.integers(-2, 3, (400, 4)) @ rng.integers(-2, 3, (4, 200))
    return [*found, Problem(pool.astype(np.int8), pool[:70].astype(np.int8), np.arange(70, 400), 90, largest=20.0)]


def expected(problem: Problem) -> dict[str, npt.NDArray[Any]]:
    """What the reference picks: rows, priorities and radii of every configuration."""
    found = reference.solve(problem)
    return {
        "indices": np.stack([each.indices for each in found]),
        "priorities": np.stack([each.priorities for each in found]),
        "radii": np.array([each.radius for each in found]),
    }


def write_problems(path: Path) -> None:
    """Every problem with its answer."""
    arrays: dict[str, Any] = {}
    for number, problem in enumerate(problems()):
        given = {name: getattr(problem, name) for name in ARRAYS}
        given |= {"pool": np.asarray(problem.pool[:]), "references": np.asarray(problem.references[:])}
        facts = {name: getattr(problem, name) for name in FACTS}
        kept = {name: array for name, array in given.items() if array is not None} | expected(problem)
        arrays |= {f"{number}.{name}": array for name, array in kept.items()}
        arrays[f"{number}.facts"] = np.array(json.dumps(facts))
    np.savez_compressed(path, **arrays)


def digits_call(options: dict[str, Any]) -> dubito.Selection:
    """One of `DIGITS`."""
    from sklearn.datasets import load_digits

    features, _ = load_digits(return_X_y=True)
    doubt = (np.arange(len(features)) * 37 % 64 + 1) / 64
    usual = {"strategy": "doubt-coreset", "labeled": np.arange(0, len(features), 90)}
    return dubito.select(features, 60, doubt=doubt, **{**usual, **options})


def write_digits(path: Path) -> None:
    """Rows, and priorities by their bits."""
    found = [(options, digits_call(options)) for options in DIGITS]
    records = [
        {"options": options, "indices": picked.indices.tolist(), "priorities": [x.hex() for x in picked.priorities]}
        for options, picked in found
    ]
    path.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


def pool_features() -> npt.NDArray[np.float64]:
    """(300, 5) whole numbers from a formula."""
    rows, columns = np.arange(300)[:, None], np.arange(5)
    return np.asarray((rows * (columns + 7) * 13 + rows**2 * (columns + 1)) % 101, dtype=np.float64)


def pool_doubt(turn: int) -> npt.NDArray[np.float64]:
    """(300,) fractions of 32."""
    return np.asarray((np.arange(300) * (5 + 2 * turn) % 32 + 1) / 32, dtype=np.float64)


def write_pool(path: Path) -> None:
    """A pool after two rounds."""
    pool = dubito.Pool(pool_features())
    pool.label([3, 77, 200])
    for turn in range(2):
        pool.label(pool.select(20, doubt=pool_doubt(turn), strategy="doubt-coreset"))
    pool.prepare()
    pool.save(str(path))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    write_problems(folder / "picks.npz")
    write_digits(folder / "digits.json")
    write_pool(folder / "pool.npz")
