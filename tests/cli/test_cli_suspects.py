"""Columns that perhaps should be no features are named in full, and nothing else is."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dubito.io.column_notes import predict_perfectly, probability_groups

from .conftest import Program

RNG = np.random.default_rng(2)
N = 60
PROBABILITIES = RNG.dirichlet(np.ones(3), N)
DRY = ("--budget", "2", "--strategy", "coreset", "--dry-run", "--standardize", "no")


def table(**more: object) -> pd.DataFrame:
    frame = pd.DataFrame({f"f{place}": RNG.normal(size=N) for place in range(8)})
    return pd.concat([frame, pd.DataFrame(more)], axis=1)


def notes(run: Program, frame: pd.DataFrame, *options: str) -> list[str]:
    frame.to_csv("pool.csv", index=False)
    ran = run("select", "pool.csv", *DRY, *options)
    assert ran.code == 0, ran.err
    return [line.removeprefix("dubito: ") for line in ran.err.splitlines()]


def test_plain_features_are_reported_by_five_names_alone(run: Program) -> None:
    assert notes(run, table()) == ["8 features: f0, f1, f2, f3, f4, ..."]


def test_columns_of_probabilities_are_named_in_full_with_both_hint(run: Program) -> None:
    for names, wanted in ((["p_cat", "p_dog", "p_owl"], "'p_*'"), (["cat", "dog", "owl"], "cat,dog,owl")):
        frame = table(**dict(zip(names, PROBABILITIES.T, strict=True)))
        described = f"pass --probability-columns {wanted} if they are, or --ignore-columns {wanted}"
        assert f"{', '.join(names)} look like probabilities: {described}" in notes(run, frame)
        assert "8 features: f0, f1, f2, f3, f4, ..." in notes(run, frame, "--ignore-columns", wanted.strip("'"))


def test_what_is_no_feature_by_its_name_is_told_to_be_left_out(run: Program) -> None:
    frame = table(split=["train", "test"] * 30, fold=np.arange(N) % 5, target=[""] * 30 + ["a", "b"] * 15)
    described = notes(run, frame.assign(y=1))
    assert "left out because of their names: split, fold, y; --feature-columns includes them" in described
    assert "pool.csv: 30 of 60 rows have a target and count as labeled." in described


def test_a_column_that_predicts_the_label_perfectly_is_named(run: Program) -> None:
    kinds = RNG.permutation(np.repeat([0, 1, 2], 20))
    labels = np.array(["a", "b", "c"], dtype=object)[kinds]
    labels[:20] = ""
    frame = table(
        label=labels, code=kinds * 7, fine=kinds * 3 + RNG.integers(0, 3, N), ranked=kinds + RNG.random(N) / 2
    )
    described = notes(run, frame)
    hint = "if derived from the label, pass --ignore-columns code,fine,ranked"
    assert f"code, fine, ranked predict the label perfectly: {hint}" in described


@pytest.mark.usefixtures("blank_figures")
def test_a_simulation_names_it_as_well(run: Program) -> None:
    kinds = RNG.permutation(np.repeat([0, 1, 2], 20))
    table(label=kinds, code=kinds * 7).to_csv("data.csv", index=False)
    small = ("--seeds", "1", "--initial", "6", "--budget", "3", "--rounds", "1", "-s", "margin", "-o", "out")
    ran = run("simulate", "data.csv", *small)
    assert (
        "dubito: code predicts the label perfectly: if derived from the label, pass --ignore-columns code\n" in ran.err
    )
    ran = run("simulate", "data.csv", *small, "--force", "--ignore-columns", "code")
    assert ran.code == 0, ran.err
    assert "perfectly" not in ran.err
    assert 'ignore_columns = ["code"]' in Path("out/experiment.toml").read_text()
    assert run("resume", "out").code == 0


def test_several_ids_are_all_named_and_ignored_where_the_pool_has_ids(run: Program) -> None:
    frame = table(number=np.arange(N) + 5, owner_id=np.arange(N) % 7)
    assert "number, owner_id look like ids: pass --id-column number if so; otherwise they are features" in notes(
        run, frame
    )
    named = notes(run, frame.assign(id=[f"n{row}" for row in range(N)]))
    assert (
        "number, owner_id look like ids: pass --ignore-columns number,owner_id if so; otherwise they are features"
        in named
    )


def test_chosen_columns_are_not_doubted(run: Program) -> None:
    frame = table(number=np.arange(N), p_a=PROBABILITIES[:, 0], p_b=1 - PROBABILITIES[:, 0], same=1)
    assert notes(run, frame, "--feature-columns", "f*,number,same") == ["10 features: f0, f1, f2, f3, f4, ..."]


@pytest.mark.parametrize("labels", [np.zeros(40, np.int64), np.arange(10) % 2])
def test_one_class_or_few_rows_predict_nothing(labels: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    assert not predict_perfectly(labels[:, None].astype(float), labels).any()


def test_ordinary_shares_are_no_probabilities() -> None:
    assert probability_groups(["a", "b"], RNG.random((30, 2)) / 2) == []
    assert probability_groups(["a", "b"], np.tile([1.0, 0.0], (30, 1))) == []


def test_codes_with_zeros_before_them_are_named(run: Program) -> None:
    Path("pool.csv").write_text("id,zip,x\na,01234,1\nb,99999,2\nc,50000,7\n")
    ran = run("select", "pool.csv", "-b", "1", "-s", "coreset")
    assert "zip has leading zeros, like a code: pass --ignore-columns zip if it is not a number" in ran.err
    ran = run("select", "pool.csv", "-b", "1", "-s", "coreset", "--ignore-columns", "zip")
    assert "leading zeros" not in ran.err


@pytest.mark.parametrize("role", ["probabilities", "logits"])
def test_columns_that_count_as_classes_are_named(run: Program, role: str) -> None:
    Path("pool.csv").write_text("id,x,y\na,1,3\nb,2,1\nc,7,0\n")
    Path("p.csv").write_text(
        "dog,id,cat\n0.5,a,0.5\n0.25,c,0.75\n1,b,0\n".replace("1,b", f"{1 + 4 * (role == 'logits')},b")
    )
    ran = run("select", "pool.csv", "-b", "1", f"--{role}", "p.csv")
    assert ran.code == 0
    assert f"dubito: {role} of 2 classes: dog, cat\n" in ran.err
    Path("own.csv").write_text("id,x,p_b,p_a\na,1,0.5,0.5\nb,2,0.25,0.75\n")
    ran = run("select", "own.csv", "-b", "1", "--probability-columns", "p_*")
    assert "dubito: probabilities of 2 classes: p_a, p_b\n" in ran.err


@pytest.mark.parametrize("value", ["inf", "1e200"])
def test_values_that_no_scale_can_hold_are_refused_in_one_line_of_their_own(
    run_process: Program, tmp_path: Path, value: str
) -> None:
    (tmp_path / "pool.csv").write_text(f"id,x,y\na,{value},3\nb,2,1\nc,7,0\n")
    ran = run_process("select", "pool.csv", "-b", "1", "-s", "coreset")
    assert ran.code == 3
    assert "Warning" not in ran.err
    assert "pool (pool.csv) holds" in ran.err


def test_whole_numbers_that_differ_are_no_ids_unless_their_name_or_order_says_so(run: Program) -> None:
    clicks = RNG.permutation(10_000)[:N]
    assert notes(run, table(klicks=clicks)) == ["9 features: f0, f1, f2, f3, f4, ..."]
    for name in ("kundennummer", "orderNr", "Order_ID", "item-no"):
        hint = f"pass --id-column {name} if so; otherwise it is a feature"
        assert f"{name} looks like an id: {hint}" in notes(run, table(**{name: clicks}))
    shuffled = RNG.permutation(N) + 1000
    assert "x looks like an id: pass --id-column x if so; otherwise it is a feature" in notes(run, table(x=shuffled))


@pytest.mark.parametrize("name", ["annotated", "is_done", "hasLabel", "Reviewed"])
def test_a_column_of_0_and_1_that_may_say_what_is_labeled_is_reported(run: Program, name: str) -> None:
    described = (
        f"{name} is 0 or 1 and may mark labeled rows: rename it to labeled if so, or pass --ignore-columns {name}"
    )
    assert described in notes(run, table(**{name: np.arange(N) < 20}).astype(float))
    assert described not in notes(run, table(**{name: np.arange(N) % 3}))


@pytest.mark.parametrize("code", [-999, -9999, 999, 9999])
def test_a_number_that_stands_for_missing_is_reported(run: Program, code: int) -> None:
    values = RNG.normal(size=N)
    values[5:9] = code
    described = f"g is {code} in 4 of 60 rows, far from all other values, and may mean missing: if so, leave"
    assert [note for note in notes(run, table(g=values)) if note.startswith(described)]
    values[5:9] = np.nan
    assert "missing values" in notes(run, table(g=values), "--missing", "median")[-1]


@pytest.mark.parametrize("values", [np.arange(N) * 40.0, np.where(np.arange(N) < 2, 999, np.arange(N) / 9)])
def test_a_number_among_others_or_a_rare_one_stands_for_itself(run: Program, values: object) -> None:
    frame = table(g=values)
    frame.loc[0, "g"] = 999
    assert not any("missing" in note for note in notes(run, frame))
