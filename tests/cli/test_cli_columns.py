"""Columns that look like something else: refused with a fix, or mentioned in a note."""

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


@pytest.mark.parametrize(("scale", "what", "hint"), [(1, "probabilities", ""), (100, "percent", ", divided by 100")])
def test_logits_that_are_probabilities_are_refused(run: Program, scale: int, what: str, hint: str) -> None:
    n, maybe, yes = (scale * SHARES).T
    write("p.csv", n=n, maybe=maybe, yes=yes)
    ran = run(*SELECT, "--logits", "p.csv", "-q")
    assert ran.code == 3
    assert f"logits (p.csv) are {what}: all numbers are >= 0, and every row sums to {scale} (" in ran.complaint
    assert ran.complaint.endswith(f"pass them as --probabilities{hint}.")


@pytest.mark.parametrize("stray", [SHARES.sum(axis=1), np.full(N, 2024), -RNG.random(N)])
def test_a_column_of_probabilities_that_is_no_class_is_named(run: Program, stray: object) -> None:
    n, maybe, yes = SHARES.T
    write("p.csv", n=n, maybe=maybe, extra=stray, yes=yes)
    ran = run(*SELECT, "--probabilities", "p.csv")
    assert ran.code == 3
    problem = "probabilities (p.csv) sum to 1 in every row without column 'extra', and not with it"
    assert f"{problem}; pass --ignore-columns extra, or remove that column from the file." in ran.complaint
    ran = run(*SELECT, "--probabilities", "p.csv", "--ignore-columns", "extra")
    assert "probabilities of 3 classes: n, maybe, yes" in ran.err
    assert ran.code == 0


def test_a_stray_column_of_the_pools_own_probabilities_is_named(run: Program) -> None:
    n, maybe, yes = SHARES.T
    write("pool.csv", a=POINTS[:, 0], p_n=n, p_maybe=maybe, p_yes=yes, p_sum=SHARES.sum(axis=1))
    ran = run(*SELECT, "--probability-columns", "p_*")
    assert "without column 'p_sum', and not with it; pass --ignore-columns p_sum" in ran.complaint


def test_scores_that_no_column_hint_are_still_told_to_be_logits(run: Program) -> None:
    write("p.csv", n=RNG.random(N), maybe=RNG.random(N), yes=RNG.random(N))
    ran = run(*SELECT, "--probabilities", "p.csv", "-q")
    assert "pass raw scores as --logits" in ran.complaint


@pytest.mark.parametrize("value", ["k.A.", "84.56%", '"462.709,55"', "1 234", "-", "?"])
@pytest.mark.parametrize("options", [(), ("--feature-columns", "a,sales")])
def test_text_among_numbers_is_reported_with_how_to_write_them(
    run: Program, value: str, options: tuple[str, ...]
) -> None:
    write("pool.csv", a=POINTS[:, 0], sales=[value, *POINTS[1:, 1]])
    ran = run(*SELECT, *options)
    assert ran.code == 3
    plain = "; write plain numbers, or leave the cell empty and pass --missing median or --missing drop;"
    assert f"column 'sales' of pool.csv holds text such as {value.strip(chr(34))!r}" in ran.complaint
    assert plain in ran.complaint
    write("pool.csv", a=POINTS[:, 0], sales=["", *POINTS[1:, 1]])
    assert run(*SELECT, *options, "--missing", "median").code == 0


def test_text_that_is_far_down_is_reported_alike(run: Program) -> None:
    write("pool.csv", a=np.arange(30_000), sales=[*np.arange(29_999.0), "k.A."])
    ran = run(*SELECT)
    assert "column 'sales' of pool.csv holds 'k.A.', which is not a number, in line 30001; write plain" in ran.complaint


def test_a_column_of_names_is_not_told_to_be_numbers(run: Program) -> None:
    write("pool.csv", a=POINTS[:, 0], name=[f"n{row}" if row % 2 else row for row in range(N)])
    assert "plain numbers" not in run(*SELECT).complaint
