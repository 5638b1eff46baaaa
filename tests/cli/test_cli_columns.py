"""Columns that are something else than they are taken for: refused with the mend, or told."""

from pathlib import Path

import numpy as np
import pytest

from .conftest import Program

N = 60
RNG = np.random.default_rng(8)
POINTS = RNG.normal(size=(N, 2)).round(3)
SHARES = (RNG.multinomial(1000, [0.2, 0.3, 0.5], N) / 1000).round(3)
SELECT = ("select", "pool.csv", "-b", "3", "-s", "coreset")


def write(path: str, **columns: object) -> None:
    rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
    Path(path).write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows), ""]))


@pytest.fixture(autouse=True)
def points(run: Program) -> None:
    write("pool.csv", a=POINTS[:, 0], b=POINTS[:, 1])


@pytest.mark.parametrize(("scale", "what", "mend"), [(1, "probabilities", ""), (100, "percent", ", divided by 100")])
def test_logits_that_are_probabilities_are_refused(run: Program, scale: int, what: str, mend: str) -> None:
    n, maybe, yes = (scale * SHARES).T
    write("p.csv", n=n, maybe=maybe, yes=yes)
    ran = run(*SELECT, "--logits", "p.csv", "-q")
    assert ran.code == 3
    assert f"logits (p.csv) are {what}: no number is below 0, and every row sums to {scale} (" in ran.complaint
    assert ran.complaint.endswith(f"pass them as --probabilities{mend}.")
