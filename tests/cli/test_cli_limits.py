"""Costs, spending and quotas on the command line, from files and from columns of the pool."""

import csv
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dubito
from dubito.cli import main

N = 40
RNG = np.random.default_rng(0)
FEATURES = RNG.standard_normal((N, 3)).round(3)
PROBABILITIES = RNG.dirichlet(np.ones(3), N)
COSTS = RNG.choice([1.0, 2.0, 5.0], N)
KINDS = np.array(["cat", "dog", "elk"])[PROBABILITIES.argmax(axis=1)]
IDS = [f"item{row}" for row in range(N)]


def write(path: str, header: str, rows: list[str]) -> None:
    Path(path).write_text("\n".join([header, *rows]) + "\n")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    order = RNG.permutation(N)
    features = [",".join(map(str, row)) for row in FEATURES.tolist()]
    write("pool.csv", "id,a,b,c", [f"{IDS[row]},{features[row]}" for row in range(N)])
    write(
        "wide.csv", "id,a,b,c,cost,kind", [f"{IDS[row]},{features[row]},{COSTS[row]},{KINDS[row]}" for row in range(N)]
    )
    write("costs.csv", "id,cost", [f"{IDS[row]},{COSTS[row]}" for row in order])
    write("kinds.csv", "id,kind", [f"{IDS[row]},{KINDS[row]}" for row in order])
    write("short.csv", "id,cost", [f"{IDS[row]},{COSTS[row]}" for row in order[1:]])
    write("two.csv", "id,a,b", [f"{IDS[row]},1,2" for row in order])
    write("zero.csv", "id,cost", [f"{IDS[row]},{0 if row == 7 else 1}" for row in range(N)])
    write("empty.csv", "id,cost", [f"{IDS[row]},{'' if row == 7 else 1}" for row in range(N)])
    np.save("p.npy", PROBABILITIES)
    np.savez("pool.npz", features=FEATURES, probabilities=PROBABILITIES, price=COSTS, flat=np.ones((N, 2)))


def picks(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[int]:
    assert main(["select", *arguments, "--budget", "8", "--quiet", "--standardize", "no"]) == 0
    return [int(pick["index"]) for pick in csv.DictReader(StringIO(capsys.readouterr().out))]


def expected(**arguments: Any) -> list[int]:
    found = dubito.select(FEATURES, 8, probabilities=PROBABILITIES, strategy="doubt-coverage", **arguments)
    return [int(row) for row in found.indices]


COVER = ("--strategy", "doubt-coverage", "--probabilities", "p.npy")


def test_costs_come_from_a_file_by_id_or_from_a_column(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = expected(costs=COSTS)
    assert wanted != expected()
    assert picks(capsys, "pool.csv", *COVER, "--costs", "costs.csv") == wanted
    assert picks(capsys, "pool.csv", *COVER, "--costs", "costs.csv::cost") == wanted
    ignored = ("--ignore-columns", "kind")
    assert picks(capsys, "wide.csv", *COVER, "--costs", "cost", *ignored) == wanted
    assert picks(capsys, "pool.npz", "--strategy", "doubt-coverage", "--costs", "price") == wanted
    assert picks(capsys, "pool.npz", "--strategy", "doubt-coverage", "--costs", "pool.npz::price") == wanted


def test_quotas_go_by_the_likeliest_class_or_by_those_named(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = expected(quotas={None: 4, 0: 1})
    assert wanted != expected()
    assert picks(capsys, "pool.csv", *COVER, "--quota", "4", "--quota", "0=1") == wanted
    assert picks(capsys, "pool.csv", *COVER, "--quota", "4", "--quota", "cat=1", "--classes", "kinds.csv") == wanted
    columns = ("--classes", "kind", "--costs", "cost")
    both = expected(quotas={None: 4, 0: 1}, costs=COSTS)
    assert picks(capsys, "wide.csv", *COVER, "--quota", "4", "--quotas", "cat=1", *columns) == both
    assert picks(capsys, "pool.csv", *COVER, "--quota", "3") == expected(quotas=3)


def test_quotas_may_name_columns_of_probabilities(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Path("pool.csv").read_text().splitlines()
    shares = [",".join(map(repr, row)) for row in PROBABILITIES.tolist()]
    rows = [f"{line},{share}" for line, share in zip(lines[1:], shares, strict=True)]
    write("said.csv", lines[0] + ",p_cat,p_cow,p_elk", rows)
    write("apart.csv", "id,p_cat,p_cow,p_elk", [f"{IDS[row]},{shares[row]}" for row in range(N)])
    wanted, columns = expected(quotas={0: 1, 2: 2}), ("--probability-columns", "p_*", "-s", "doubt-coverage")
    assert picks(capsys, "said.csv", *columns, "--quota", "cat=1", "--quota", "p_elk=2") == wanted
    apart = ("pool.csv", "--probabilities", "apart.csv")
    assert picks(capsys, *apart, *columns, "--quota", "0=1", "--quota", "elk=2") == wanted
    assert main(["select", "said.csv", *columns, "-b", "8", "-q", "--quota", "cat=1", "--quota", "p_cat=2"]) == 2
    assert "--quota cat, p_cat names a class twice" in capsys.readouterr().err
    assert main(["select", "said.csv", *columns, "-b", "8", "-q", "--quota", "emu=1"]) == 2
    assert "--quota emu is not a class of any row" in capsys.readouterr().err


def test_quotas_may_name_the_columns_of_a_file_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{IDS[row]},{','.join(map(repr, PROBABILITIES[row].tolist()))}" for row in reversed(range(N))]
    logits = [f"{IDS[row]},{','.join(map(repr, np.log(PROBABILITIES[row]).tolist()))}" for row in range(N)]
    write("apart.csv", "id,gut,mäßig,schlecht", rows)
    write("logits.csv", "id,gut,mäßig,schlecht", logits)
    write("counted.csv", "id,1,2,3", rows)
    wanted, cover = expected(quotas={0: 1, 1: 2}), ("pool.csv", "-s", "doubt-coverage", "--probabilities")
    assert wanted != expected(quotas={1: 1, 2: 2})
    assert picks(capsys, *cover, "apart.csv", "--quota", "gut=1", "--quota", "mäßig=2") == wanted
    assert picks(capsys, *cover, "apart.csv", "--quota", "0=1", "--quota", "1=2") == wanted
    assert picks(capsys, *cover, "counted.csv", "--quota", "1=1", "--quota", "2=2") == wanted
    assert picks(capsys, *cover[:-1], "--logits", "logits.csv", "--quota", "gut=1", "--quota", "1=2") == wanted
    for file, name, known in (("apart.csv", "gute", "gut, mäßig, schlecht"), ("counted.csv", "0", "1, 2, 3")):
        assert main(["select", *cover, file, "-b", "8", "-q", "--quota", f"{name}=1"]) == 2
        described = f"--quota {name} is not a class of any row; classes are {known}."
        assert described in capsys.readouterr().err


def test_spending_ends_the_picks(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = expected(costs=COSTS, spend=6.0)
    assert 1 <= len(wanted) < 8
    assert picks(capsys, "pool.csv", *COVER, "--costs", "costs.csv", "--spend", "6") == wanted
    assert main(["select", "pool.csv", *COVER, "--budget", "8", "--costs", "costs.csv", "--spend", "6"]) == 0
    assert ", costing " in capsys.readouterr().err


def test_rows_that_are_left_out_take_their_costs_along(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Path("wide.csv").read_text().splitlines()
    fields = lines[3].split(",")
    lines[3] = ",".join([fields[0], "", *fields[2:]])
    Path("gap.csv").write_text("\n".join(lines) + "\n")
    rest = np.delete(np.arange(N), 2)
    found = dubito.select(
        FEATURES[rest],
        8,
        probabilities=PROBABILITIES[rest],
        strategy="doubt-coverage",
        costs=COSTS[rest],
        quotas={"cat": 1},
        classes=KINDS[rest],
    )
    options = ("--costs", "cost", "--classes", "kind", "--quota", "cat=1", "--missing", "drop")
    assert picks(capsys, "gap.csv", *COVER, *options) == rest[found.indices].tolist()


def test_a_dry_run_minds_limits(capsys: pytest.CaptureFixture[str]) -> None:
    start = ["select", "pool.csv", *COVER, "--budget", "8", "--quiet", "--dry-run"]
    assert main([*start, "--quota", "3"]) == 0
    assert main([*start, "--quota", "1"]) == 2
    assert "--budget 8 exceeds the 3 of 40 candidates that --quota leaves" in capsys.readouterr().err
    assert main([*start, "--costs", "costs.csv", "-s", "margin"]) == 2
    assert "is not supported by --strategy margin" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "described"),
    [
        (
            ("--costs", "zero.csv"),
            3,
            "costs (zero.csv) holds 0 at id 'item7' (row 7 of the pool); pass what a label costs, above 0.",
        ),
        (("--costs", "empty.csv"), 3, "row 7"),
        (("--costs", "short.csv"), 3, "short.csv lacks 1 of the pool's 40 ids"),
        (("--costs", "two.csv"), 2, "two.csv has no column called cost or costs or price or prices; name one with"),
        (("--costs", "cots"), 2, "pool.csv has no column 'cots'"),
        (("--costs", "missing.csv"), 2, "missing.csv does not exist"),
        (("--costs", "kinds.csv"), 3, "column 'kind' of kinds.csv"),
        (("--costs", "pool.npz::flat"), 3, "array 'flat' of pool.npz is (40, 2)"),
        (("--spend", "6"), 2, "--spend 6.0 requires costs; pass --costs, too."),
        (("--spend", "many", "--costs", "costs.csv"), 2, "--spend many is not allowed"),
        (("--quota", "bird=1", "--classes", "kinds.csv"), 2, "--quota bird is not a class of any row"),
        (("--quota", "x"), 2, "--quota x is not a whole number"),
        (("--quota", "=3"), 2, "--quota =3 is neither N nor CLASS=N; write 20, or cat=5."),
        (("--quota", "0="), 2, "--quota 0= is neither N nor CLASS=N"),
        (("--quota", "0=1", "--quota", "0=2"), 2, "--quota 0=2 names a class twice"),
        (("--quota", "5", "--quota", "6"), 2, "--quota 6 is given twice for every class"),
        (("--classes", "kinds.csv"), 2, "requires --quota; pass --quota, too."),
        (
            ("--quota", "4", "-s", "doubt-coreset", "--beam-width", "3"),
            2,
            "--beam-width 3 cannot be combined with costs, quotas or groups",
        ),
    ],
)
def test_limits_that_cannot_be_are_reported_in_one_line(
    arguments: tuple[str, ...], code: int, described: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["select", "pool.csv", *COVER, "--budget", "8", "--quiet", *arguments]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert described in said.err


def test_quotas_without_classes_say_what_they_need(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["select", "pool.csv", "-s", "coverage", "--budget", "8", "--quiet", "--quota", "3"]) == 2
    assert "pass --probabilities, --logits, or the classes themselves as --classes." in capsys.readouterr().err
