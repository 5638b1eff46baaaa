"""Rows are found by their ids on the command line, whatever the files, and never by accident by their order."""

import json
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

import dubito

from .conftest import Program, Ran

RNG = np.random.default_rng(11)
N = 20
FEATURES = RNG.normal(size=(N, 3))
PROBABILITIES = RNG.dirichlet(np.ones(3), N)
DOUBT = 1 - PROBABILITIES.max(axis=1)
NAMES = np.array([f"n{row}" for row in range(N)])
NUMBERS = RNG.permutation(1000)[:N] + 50
ORDER = RNG.permutation(N)
WANTED = dubito.select(FEATURES, 5, probabilities=PROBABILITIES).indices.tolist()
BY_DOUBT = dubito.select(FEATURES, 5, doubt=DOUBT).indices.tolist()
CORESET = dubito.select(FEATURES, 5, labeled=[3, 5], strategy="coreset").indices.tolist()


@pytest.fixture
def run(run: Program) -> Program:
    """The program, which leaves the columns of tables as they are."""

    def program(*arguments: str) -> Ran:
        return run(*arguments, *(("--standardize", "no") if arguments[0] == "select" else ()))

    return program


Writer = Callable[[Path, pd.DataFrame, str], None]


def write_npz(path: Path, frame: pd.DataFrame, role: str) -> None:
    values = frame.to_numpy()[:, 0] if role == "doubt" else frame.to_numpy()
    ids = np.asarray(frame.index)
    named = {role: values, "ids": ids.astype(str) if ids.dtype == object else ids}
    np.savez(path, allow_pickle=True, **named)


def write_tensors(path: Path, frame: pd.DataFrame, role: str) -> None:
    values = frame.to_numpy()[:, 0] if role == "doubt" else frame.to_numpy()
    save_file({role: np.ascontiguousarray(values), "ids": np.asarray(frame.index)}, path)


WRITERS: dict[str, tuple[str, Writer]] = {
    "a CSV with a column of ids": (".csv", lambda path, frame, _: frame.rename_axis("id").to_csv(path)),
    "a CSV with ids in the middle": (
        ".csv",
        lambda path, frame, _: (
            frame.assign(ID=frame.index).iloc[:, [0, -1, *range(1, frame.shape[1])]].to_csv(path, index=False)
        ),
    ),
    "a CSV with pandas' index": (".csv", lambda path, frame, _: frame.to_csv(path)),
    "a CSV that pandas read with its index": (
        ".csv",
        lambda path, frame, _: frame.rename_axis("Unnamed: 0").reset_index().to_csv(path, index=False),
    ),
    "a TSV": (".tsv", lambda path, frame, _: frame.rename_axis("ids").to_csv(path, sep="\t")),
    "Parquet with pandas' index": (".parquet", lambda path, frame, _: frame.to_parquet(path)),
    "Parquet with a named index": (".parquet", lambda path, frame, _: frame.rename_axis("file").to_parquet(path)),
    "Parquet with a column of ids": (
        ".parquet",
        lambda path, frame, _: frame.rename_axis("id").reset_index().to_parquet(path),
    ),
    "an archive": (".npz", write_npz),
}


def features(ids: Any) -> pd.DataFrame:
    return pd.DataFrame(FEATURES, columns=["f0", "f1", "f2"], index=ids)


def probabilities(ids: Any) -> pd.DataFrame:
    return pd.DataFrame(PROBABILITIES, columns=["cat", "dog", "owl"], index=ids)


def picks(text: str) -> list[int]:
    return [pick["index"] for pick in json.loads(text)["picks"]]


# Probabilities, logits and doubt


def spread(*values: Iterable[Any]) -> list[Any]:
    """All combinations; those that `make test` leaves out are slow, and it has each value of each several times."""
    places = [list(enumerate(each)) for each in values]
    return [
        pytest.param(*(value for _, value in each), marks=pytest.mark.slow if sum(p for p, _ in each) % 4 else ())
        for each in product(*places)
    ]


@pytest.mark.parametrize(("pool", "beside", "kind"), spread(WRITERS, WRITERS, ["text", "numbers"]))
def test_ids_beside_probabilities_join_them_with_the_pool(run: Program, pool: str, beside: str, kind: str) -> None:
    ids = NAMES if kind == "text" else NUMBERS
    (one, write_pool), (other, write_beside) = WRITERS[pool], WRITERS[beside]
    write_pool(Path(f"pool{one}"), features(ids), "features")
    write_beside(Path(f"p{other}"), probabilities(ids).iloc[ORDER], "probabilities")
    ran = run("select", f"pool{one}", "-b", "5", "--probabilities", f"p{other}", "--json")
    assert ran.code == 0, ran.err
    assert picks(ran.out) == WANTED
    assert [str(pick["id"]) for pick in json.loads(ran.out)["picks"]] == [str(np.asarray(ids)[row]) for row in WANTED]
    assert "order" not in ran.err


@pytest.mark.parametrize("role", ["logits", "doubt"])
def test_logits_and_doubt_are_joined_as_well(run: Program, role: str) -> None:
    values = {"logits": np.log(PROBABILITIES), "doubt": DOUBT}[role]
    features(NAMES).rename_axis("id").to_csv("pool.csv")
    pd.DataFrame(values, index=NAMES).iloc[ORDER].rename_axis("id").to_csv("values.csv")
    ran = run("select", "pool.csv", "-b", "5", f"--{role}", "values.csv", "--json")
    assert picks(ran.out) == {"logits": WANTED, "doubt": BY_DOUBT}[role]


def test_safetensors_join_by_ids_that_are_numbers(run: Program) -> None:
    write_tensors(Path("pool.safetensors"), features(NUMBERS), "features")
    write_tensors(Path("p.safetensors"), probabilities(NUMBERS.astype(np.int32)).iloc[ORDER], "probabilities")
    assert (
        picks(run("select", "pool.safetensors", "-b", "5", "--probabilities", "p.safetensors", "--json").out) == WANTED
    )


@pytest.mark.parametrize(
    "theirs",
    [
        NUMBERS.astype(float),
        NUMBERS.astype(str),
        np.array([f"{number}.0" for number in NUMBERS]),
        np.array([f" {number} " for number in NUMBERS]),
        pd.Categorical(NUMBERS.astype(str)),
        NUMBERS.astype(np.uint16),
    ],
    ids=["floats", "text", "text of floats", "blanks", "categories", "uint16"],
)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_7_and_7_as_text_and_7_point_0_are_one_id(run: Program, theirs: object, suffix: str) -> None:
    for name, frame in (("pool", features(NUMBERS)), ("p", probabilities(theirs).iloc[ORDER])):
        table = frame.rename_axis("id").reset_index()
        table.to_csv(f"{name}.csv", index=False) if suffix == ".csv" else table.to_parquet(f"{name}.parquet")
    ran = run("select", f"pool{suffix}", "-b", "5", "--probabilities", f"p{suffix}", "--json")
    assert ran.code == 0, ran.err
    assert picks(ran.out) == WANTED


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (
            [f"m{row}" for row in range(N)],
            "p.csv holds 20 ids that are not among the pool's 20 ('m0', 'm1', 'm2', ...)",
        ),
        ([*NAMES[:-1], "n0"], "p.csv repeats the id 'n0' (rows 0 and 19)"),
        (
            [*NAMES[:-1], "x"],
            "holds an id that is not among the pool's 20 ('x') and lacks 1 of the pool's 20 ids ('n19')",
        ),
        ([f"N{row}" for row in range(N)], "they differ only in upper and lower case"),
        ([*NAMES[:-1], " "], "column 'id' of p.csv is empty|p.csv has no id in row 19"),
        (list(range(N)), "holds 20 ids that are not"),
    ],
)
def test_ids_that_do_not_fit_are_refused_by_name(run: Program, ids: list[object], said: str) -> None:
    features(NAMES).rename_axis("id").to_csv("pool.csv")
    probabilities(ids).rename_axis("id").to_csv("p.csv")
    ran = run("select", "pool.csv", "-b", "5", "--probabilities", "p.csv")
    assert ran.code == 3
    assert any(each in ran.complaint for each in said.split("|")), ran.err


def test_probabilities_of_fewer_or_more_rows_are_refused_by_the_ids_they_lack_or_add(run: Program) -> None:
    features([*NAMES[:-1].tolist(), "z"]).iloc[:-2].rename_axis("id").to_csv("pool.csv")
    probabilities(NAMES).rename_axis("id").to_csv("p.csv")
    assert (
        "p.csv holds 2 ids that are not among the pool's 18 ('n18', 'n19')"
        in run("select", "pool.csv", "-b", "5", "--probabilities", "p.csv").complaint
    )
    probabilities(NAMES).iloc[:10].rename_axis("id").to_csv("p.csv")
    assert (
        "p.csv lacks 8 of the pool's 18 ids ('n10', 'n11', 'n12', ...)"
        in run("select", "pool.csv", "-b", "5", "--probabilities", "p.csv").complaint
    )


def test_a_fault_in_a_joined_file_is_reported_by_its_id(run: Program) -> None:
    features(NAMES).rename_axis("id").to_csv("pool.csv")
    faulty = probabilities(NAMES)
    faulty.iloc[7, 0] = np.nan
    faulty.iloc[::-1].rename_axis("id").to_csv("p.csv")
    given = ("pool.csv", "-b", "5", "-q", "--probabilities", "p.csv")
    assert "p.csv) holds nan at id 'n7' (row 7 of the pool), column 0" in run("select", *given).complaint
    faulty.iloc[7] = 0.4
    faulty.iloc[::-1].rename_axis("id").to_csv("p.csv")
    for more in ((), ("--dry-run",)):
        assert f"sum to {0.4 * faulty.shape[1]:g} at id 'n7' (row 7" in run("select", *given, *more).complaint


def test_ids_of_another_name_than_the_pool_s_are_told_to_be_renamed(run: Program) -> None:
    features(NAMES).rename_axis("Kunde").to_csv("pool.csv")
    given = ("select", "pool.csv", "-b", "5", "--id-column", "Kunde", "--probabilities", "p.csv", "--json", "-q")
    probabilities(NAMES).iloc[ORDER].rename_axis("Nr").to_csv("p.csv")
    described = run(*given).complaint
    assert "if it identifies the rows rename it to 'Kunde', as in the pool, or to 'id'," in described
    assert "--id-column Nr" not in described
    for name in ("Kunde", "id"):
        probabilities(NAMES).iloc[ORDER].rename_axis(name).to_csv("p.csv")
        assert picks(run(*given).out) == WANTED


def test_columns_to_ignore_are_reported_as_an_option(run: Program) -> None:
    features([*NAMES[:-1], "n0"]).rename_axis("id").to_csv("pool.csv")
    described = run("select", "pool.csv", "-b", "5", "-q").complaint
    assert described.endswith("if 'id' is not an id pass --ignore-columns id.")
    features(NAMES).assign(label="a").rename_axis("id").to_csv("pool.csv")
    described = run("select", "pool.csv", "-b", "5", "-q").complaint
    assert described.endswith("pass --ignore-columns label to pick among them anyway.")


def test_leading_zeros_make_another_id_and_the_hint_is_reported(run: Program) -> None:
    names = [f"{row:03d}" for row in range(N)]
    features(names).rename_axis("id").to_csv("pool.csv")
    probabilities(names).iloc[ORDER].rename_axis("id").to_csv("p.csv")
    assert picks(run("select", "pool.csv", "-b", "5", "--probabilities", "p.csv", "--json").out) == WANTED
    pd.read_csv("p.csv").to_csv("q.csv", index=False)
    ran = run("select", "pool.csv", "-b", "5", "--probabilities", "q.csv")
    assert (ran.code, "they differ only in leading zeros: keep ids as text" in ran.complaint) == (3, True)


def test_floats_that_cannot_tell_large_ids_apart_are_refused(run: Program) -> None:
    large = 2**53 + 2 * np.arange(N)
    np.savez("pool.npz", features=FEATURES, ids=large)
    np.savez("p.npz", probabilities=PROBABILITIES, ids=large.astype(float))
    ran = run("select", "pool.npz", "-b", "5", "--probabilities", "p.npz")
    assert (ran.code, "as float64, which cannot distinguish such numbers" in ran.complaint) == (3, True)


@pytest.mark.parametrize("has", ["pool", "p"])
def test_where_one_side_has_ids_the_note_says_that_rows_go_by_their_order(run: Program, has: str) -> None:
    for name, frame in (("pool", features(NAMES)), ("p", probabilities(NAMES))):
        frame.rename_axis("id").to_csv(f"{name}.csv", index=name == has)
    ran = run("select", "pool.csv", "-b", "5", "--probabilities", "p.csv", "--json")
    lacks = {"pool": "p", "p": "pool"}[has]
    assert f"dubito: {has}.csv has ids and {lacks}.csv none: rows are matched by their order.\n" in ran.err
    assert picks(ran.out) == WANTED


@pytest.mark.parametrize("has", [True, False])
def test_a_mask_without_ids_is_noted_beside_a_pool_with_ids_alone(run: Program, has: bool) -> None:
    features(NAMES).rename_axis("id").to_csv("pool.csv", index=has)
    np.save("mask.npy", np.arange(N) == 3)
    ran = run("select", "pool.csv", "-b", "2", "--labeled", "mask.npy", "--json")
    assert ("pool.csv has ids and mask.npy none: rows are matched by their order.\n" in ran.err) == has


def test_row_numbers_in_another_order_beside_a_pool_without_ids_are_asked_about(run: Program) -> None:
    np.save("pool.npy", FEATURES)
    probabilities(ORDER).rename_axis("id").to_csv("p.csv")
    ran = run("select", "pool.npy", "-b", "5", "--probabilities", "p.csv")
    assert (ran.code, "has the row numbers 0 to 19 in another order as ids" in ran.complaint) == (3, True)


def test_one_file_may_hold_it_all(run: Program) -> None:
    np.savez("pool.npz", features=FEATURES, probabilities=PROBABILITIES, ids=NAMES)
    ran = run("select", "pool.npz", "-b", "5", "--probabilities", "pool.npz", "--json")
    assert (picks(ran.out), "order" in ran.err) == (WANTED, False)


def test_an_id_column_by_another_name_joins_both_files(run: Program) -> None:
    features(NAMES).rename_axis("file").to_csv("pool.csv")
    probabilities(NAMES).iloc[ORDER].rename_axis("file").to_csv("p.csv")
    ran = run("select", "pool.csv", "-b", "5", "--probabilities", "p.csv", "--id-column", "file", "--json")
    assert picks(ran.out) == WANTED
    probabilities(NAMES).iloc[ORDER].rename_axis("id").to_csv("p.csv")
    ran = run("select", "pool.csv", "-b", "5", "--probabilities", "p.csv", "--id-column", "file", "--json")
    assert picks(ran.out) == WANTED


def test_shards_have_their_ids_in_each(run: Program) -> None:
    Path("pool").mkdir()
    Path("p").mkdir()
    for part, rows in enumerate(np.array_split(np.arange(N), 3)):
        features(NAMES).iloc[rows].to_parquet(f"pool/{part}.parquet")
        probabilities(NAMES).iloc[ORDER[rows]].rename_axis("id").to_csv(f"p/{part}.csv")
    assert picks(run("select", "pool", "-b", "5", "--probabilities", "p", "--json").out) == WANTED
    features(NAMES).iloc[:3].to_parquet("pool/3.parquet")
    assert "pool repeats the id 'n0' (rows 0 and 20)" in run("select", "pool", "-b", "5", "-s", "coreset").complaint


def test_row_numbers_that_begin_again_in_every_shard_are_no_ids(run: Program) -> None:
    Path("pool").mkdir()
    for part, rows in enumerate(np.array_split(np.arange(N), 3)):
        features(range(N)).iloc[rows].reset_index(drop=True).to_csv(f"pool/{part}.csv")
    np.save("p.npy", PROBABILITIES)
    ran = run("select", "pool", "-b", "5", "--probabilities", "p.npy", "--json")
    assert (picks(ran.out), "id" in json.loads(ran.out)["picks"][0], "order" in ran.err) == (WANTED, False, False)


# The index of a pandas frame


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_index_that_is_more_than_row_numbers_becomes_the_id(run: Program, suffix: str) -> None:
    chosen = features(np.arange(N)).iloc[ORDER]
    chosen.to_csv("pool.csv") if suffix == ".csv" else chosen.to_parquet("pool.parquet")
    described = json.loads(run("select", f"pool{suffix}", "-b", "5", "-s", "coreset", "--json").out)["picks"]
    assert [pick["id"] for pick in described] == [int(ORDER[pick["index"]]) for pick in described]
    plain = features(np.arange(N))
    plain.to_csv("plain.csv") if suffix == ".csv" else plain.to_parquet("plain.parquet")
    ran = run("select", f"plain{suffix}", "-b", "5", "-s", "coreset", "--json")
    assert "id" not in json.loads(ran.out)["picks"][0]
    assert "3 features" in ran.err


def test_a_range_that_begins_elsewhere_and_dates_are_ids(run: Program) -> None:
    features(pd.RangeIndex(100, 100 + N)).to_parquet("pool.parquet")
    described = json.loads(run("select", "pool.parquet", "-b", "5", "-s", "coreset", "--json").out)["picks"]
    assert [pick["id"] for pick in described] == [100 + pick["index"] for pick in described]
    days = pd.date_range("2026-01-01", periods=N)
    features(days).to_parquet("pool.parquet")
    probabilities(days).iloc[ORDER].rename_axis("id").to_csv("p.csv")
    ran = run("select", "pool.parquet", "-b", "5", "--probabilities", "p.csv", "--json")
    assert picks(ran.out) == WANTED
    assert json.loads(ran.out)["picks"][0]["id"] == str(days[WANTED[0]].date())


def test_an_index_of_several_levels_asks_for_the_one_that_counts(run: Program) -> None:
    levels = pd.MultiIndex.from_arrays([np.arange(N) % 2, NAMES], names=["side", "name"])
    features(levels).to_parquet("pool.parquet")
    ran = run("select", "pool.parquet", "-b", "5", "-s", "coreset")
    assert (ran.code, "index of 2 columns ('side', 'name'); name the one" in ran.complaint) == (3, True)
    ran = run("select", "pool.parquet", "-b", "5", "-s", "coreset", "--id-column", "name", "--json")
    assert json.loads(ran.out)["picks"][0]["id"] in NAMES
    assert "3 features: f0, f1, f2" in ran.err


def test_an_index_that_repeats_is_refused_with_the_way_to_leave_it_out(run: Program) -> None:
    features([*NAMES[:-1], "n0"]).to_parquet("pool.parquet")
    ran = run("select", "pool.parquet", "-b", "5", "-s", "coreset")
    assert (
        "repeats the id 'n0' (rows 0 and 19); each must occur once; if '__index_level_0__' is not an id"
        in ran.complaint
    )
    ran = run("select", "pool.parquet", "-b", "5", "-s", "coreset", "--ignore-columns", "__index_level_0__", "--json")
    assert (ran.code, "id" in json.loads(ran.out)["picks"][0]) == (0, False)


def test_frames_that_count_their_rows_are_joined_by_that(run: Program) -> None:
    features(np.arange(N)).to_csv("pool.csv")
    probabilities(np.arange(N)).iloc[ORDER].to_csv("p.csv")
    assert picks(run("select", "pool.csv", "-b", "5", "--probabilities", "p.csv", "--json").out) == WANTED
    seen = features(np.arange(N)).assign(label="x")[["label"]].iloc[[5, 3]]
    seen.to_csv("seen.csv")
    ran = run("select", "pool.csv", "-b", "5", "-s", "coreset", "--labeled", "seen.csv", "--json")
    assert picks(ran.out) == CORESET


# What is labeled, and candidates


def seen_files() -> dict[str, Callable[[], str]]:
    frame = pd.DataFrame({"label": ["x", "y", ""]}, index=["n3", "n5", "n9"])

    def archive(name: str, **arrays: object) -> Callable[[], str]:
        def write() -> str:
            np.savez(f"{name}.npz", allow_pickle=True, **{key: np.asarray(value) for key, value in arrays.items()})
            return f"{name}.npz"

        return write

    def saved(name: str, write: Callable[[str], object]) -> Callable[[], str]:
        def make() -> str:
            write(name)
            return name

        return make

    mask = np.isin(np.arange(N), [3, 5])
    return {
        "pandas' index in a CSV": saved("seen.csv", frame.to_csv),
        "a column in capitals": saved("seen.csv", frame.rename_axis("ID").to_csv),
        "pandas' index in Parquet": saved("seen.parquet", frame.to_parquet),
        "ids and labels in an archive": archive("a", ids=["n3", "n5", "n9"], labels=["x", "y", ""]),
        "ids alone in an archive": archive("b", ids=["n5", "n3"]),
        "ids and a mask in an archive": archive("c", ids=NAMES[ORDER], labeled=mask[ORDER]),
        "ids and a mask of integers": archive("d", ids=NAMES[ORDER], labeled=mask[ORDER].astype(int)),
        "ids and features in an archive": archive("e", ids=["n5", "n3"], features=FEATURES[[5, 3]]),
        "text in an array": saved("seen.npy", lambda name: np.save(name, np.array(["n3", "n5"]))),
        "a mask in a table": saved("seen.csv", pd.DataFrame({"id": NAMES[ORDER], "is_labeled": mask[ORDER]}).to_csv),
        "what is not labeled in a table": saved(
            "seen.tsv", lambda name: pd.DataFrame({"id": NAMES, "unlabeled": ~mask}).to_csv(name, sep="\t", index=False)
        ),
        "a mask by order": saved("mask.npy", lambda name: np.save(name, mask.astype(np.int8))),
        "lines": saved("seen.txt", lambda name: Path(name).write_text("n5\n n3 \n")),
        "records": saved("seen.jsonl", lambda name: Path(name).write_text('{"id": "n5"}\n{"id": "n3"}\n')),
    }


@pytest.mark.parametrize("kind", seen_files())
def test_what_is_labeled_is_found_by_id_in_every_file(run: Program, kind: str) -> None:
    np.savez("pool.npz", features=FEATURES, ids=NAMES)
    path = seen_files()[kind]()
    ran = run("select", "pool.npz", "-b", "5", "-s", "coreset", "--labeled", path, "--json")
    assert ran.code == 0, ran.err
    assert picks(ran.out) == CORESET


def test_a_labeled_id_that_is_foreign_or_doubled_is_named(run: Program) -> None:
    np.savez("pool.npz", features=FEATURES, ids=NAMES)
    for text, said in (
        ("id,label\nn3,a\nzz,b\n", "seen.csv holds an id that is not among the pool's 20 ('zz')"),
        ("id,label\nn3,a\nn5,b\nn3,b\n", "seen.csv repeats the id 'n3' (rows 0 and 2)"),
    ):
        Path("seen.csv").write_text(text)
        ran = run("select", "pool.npz", "-b", "5", "-s", "coreset", "--labeled", "seen.csv")
        assert (ran.code, said in ran.complaint) == (3, True), ran.err


def test_integers_in_an_array_that_are_rows_and_ids_are_asked_about(run: Program) -> None:
    np.savez("pool.npz", features=FEATURES, ids=np.arange(1, N + 1))
    np.save("seen.npy", np.array([3, 5]))
    for option in ("--labeled", "--candidates"):
        ran = run("select", "pool.npz", "-b", "1", "-s", "coreset", option, "seen.npy")
        assert (ran.code, "holds integers that may be row numbers or ids (3 is the id of row 2)" in ran.complaint) == (
            2,
            True,
        )
    Path("seen.csv").write_text("index,label\n3,a\n")
    ran = run("select", "pool.npz", "-b", "1", "-s", "coreset", "--labeled", "seen.csv")
    assert "seen.csv holds integers that may be row numbers or ids" in ran.complaint


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_row_numbers_that_the_pool_writes_down_are_ids_to_who_names_some(run: Program, form: str) -> None:
    pool = pd.DataFrame(FEATURES, columns=["a", "b", "c"], index=list(range(N)))
    pool.to_csv("pool.csv") if form == "csv" else pool.to_parquet("pool.parquet")
    Path("few.csv").write_text("id,note\n5,x\n3.0,y\n")
    for option, wanted in (("--labeled", CORESET[:2]), ("--candidates", [3, 5])):
        ran = run("select", f"pool.{form}", "-b", "2", "-s", "coreset", option, "few.csv", "--json")
        found = [pick["index"] for pick in json.loads(ran.out)["picks"]]
        assert found == wanted if option == "--labeled" else sorted(found) == wanted
    Path("few.csv").write_text("id,note\n5,x\n77,y\n")
    assert (
        "few.csv holds an id that is not among the pool's 20 ('77')"
        in run("select", f"pool.{form}", "-b", "2", "-s", "coreset", "--candidates", "few.csv", "--json").complaint
    )
    Path("few.csv").write_text("id,index,label\n77,5,x\n5,3,y\n")
    ran = run("select", f"pool.{form}", "-b", "2", "-s", "coreset", "--labeled", "few.csv", "--json")
    assert [pick["index"] for pick in json.loads(ran.out)["picks"]] == CORESET[:2]


def test_candidates_by_ids_that_no_pool_has_are_reported_so(run: Program) -> None:
    np.save("pool.npy", FEATURES)
    Path("few.csv").write_text("id\n5\n3\n")
    ran = run("select", "pool.npy", "-b", "2", "-s", "coreset", "--candidates", "few.csv")
    assert ran.complaint.startswith("few.csv names rows by id, and the pool has no ids; name them with --id-column")


def test_an_archive_of_ids_for_candidates_is_no_list_of_rows(run: Program) -> None:
    np.savez("pool.npz", features=FEATURES, ids=np.arange(100, 100 + N))
    np.savez("few.npz", ids=np.array([103, 105]))
    ran = run("select", "pool.npz", "-b", "2", "-s", "coreset", "--candidates", "few.npz", "--json")
    assert sorted(picks(ran.out)) == [3, 5]
    np.savez("few.npz", ids=np.arange(100, 100 + N)[::-1], candidates=np.isin(np.arange(N), [3, 5])[::-1].astype(int))
    ran = run("select", "pool.npz", "-b", "2", "-s", "coreset", "--candidates", "few.npz", "--json")
    assert sorted(picks(ran.out)) == [3, 5]
    np.savez("few.npz", ids=np.arange(7), candidates=np.array([3, 5]))
    ran = run("select", "pool.npz", "-b", "2", "-s", "coreset", "--candidates", "few.npz", "--json")
    assert sorted(picks(ran.out)) == [3, 5]


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.bool_])
def test_a_mask_of_zeros_and_ones_is_one_in_every_file(run: Program, kind: type[np.generic]) -> None:
    mask = np.isin(np.arange(N), [3, 5]).astype(kind)
    np.save("mask.npy", mask)
    np.savez("mask.npz", labeled=mask)
    np.save("pool.npy", FEATURES)
    for path in ("mask.npy", "mask.npz"):
        ran = run("select", "pool.npy", "-b", "5", "-s", "coreset", "--labeled", path, "--json")
        assert picks(ran.out) == CORESET
    ran = run("select", "pool.npy", "-b", "2", "-s", "coreset", "--candidates", "mask.npy", "--json")
    assert sorted(picks(ran.out)) == [3, 5]
    np.savez("pool.npz", features=FEATURES, labeled=mask)
    assert picks(run("select", "pool.npz", "-b", "5", "-s", "coreset", "--json").out) == CORESET


def test_adding_picks_to_a_file_of_a_pool_that_was_sorted_since_is_refused(run: Program) -> None:
    features(NAMES).rename_axis("id").to_csv("pool.csv")
    assert run("select", "pool.csv", "-b", "3", "-s", "coreset", "-o", "picks.csv").code == 0
    features(NAMES).iloc[::-1].rename_axis("id").to_csv("pool.csv")
    ran = run("select", "pool.csv", "-b", "3", "-s", "coreset", "-o", "picks.csv", "--append")
    assert (ran.code, "which is now a different row; write to another file" in ran.complaint) == (3, True)
    assert run("select", "pool.csv", "-b", "3", "-s", "coreset", "-o", "b.csv", "--labeled", "picks.csv").code == 0


# Spellings inside files


@pytest.mark.parametrize("name", ["labelled", "labeled", "is_labelled", "is_labeled", "Labelled"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_what_is_labeled_may_be_spelt_in_every_usual_way(run: Program, name: str, suffix: str) -> None:
    mask = np.isin(np.arange(N), [3, 5]).astype(int)
    write_with(suffix, name, mask)
    ran = run("select", f"pool{suffix}", "-b", "5", "-s", "coreset", "--json")
    assert picks(ran.out) == CORESET


@pytest.mark.parametrize("name", ["unlabelled", "unlabeled", "is_unlabeled"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_what_is_not_labeled_leaves_the_rest(run: Program, name: str, suffix: str) -> None:
    write_with(suffix, name, ~np.isin(np.arange(N), [3, 5]))
    ran = run("select", f"pool{suffix}", "-b", "5", "-s", "coreset", "--json")
    assert picks(ran.out) == CORESET


def write_with(suffix: str, name: str, values: Any) -> None:
    """The pool with one column, or array, more."""
    frame = pd.DataFrame(FEATURES, columns=["f0", "f1", "f2"])
    if suffix == ".npz":
        np.savez("pool.npz", allow_pickle=True, **{"features": FEATURES, name: np.asarray(values)})
    elif suffix == ".csv":
        frame.assign(**{name: values}).to_csv("pool.csv", index=False)
    else:
        frame.assign(**{name: values}).to_parquet("pool.parquet")


def test_labeled_and_unlabeled_features_may_share_an_archive(run: Program) -> None:
    np.savez("both.npz", labeled=FEATURES[:2] + 9, unlabeled=FEATURES)
    wanted = dubito.select(FEATURES, 4, labeled=FEATURES[:2] + 9, strategy="coreset").indices.tolist()
    assert picks(run("select", "both.npz", "-b", "4", "-s", "coreset", "--json").out) == wanted


@pytest.mark.parametrize(
    ("name", "suffix", "none"),
    spread(
        ["label", "labels", "class", "y", "target", "Target"],
        [".csv", ".parquet", ".npz"],
        ["", "NaN", "nan", "NA", "null", "None", None],
    ),
)
def test_rows_with_a_label_are_labeled_and_others_are_not(
    run: Program, name: str, suffix: str, none: str | None
) -> None:
    if none is None and suffix == ".npz":
        none = "None"
    labels = np.array([none] * N, dtype=object)
    labels[[3, 5]] = ["cat", "0"]
    write_with(suffix, name, labels.astype(str) if suffix == ".npz" else labels)
    ran = run("select", f"pool{suffix}", "-b", "5", "-s", "coreset", "--json")
    assert ran.code == 0, ran.err
    assert picks(ran.out) == CORESET
    assert f"2 of 20 rows have a {name} and count as labeled" in ran.err


def test_a_label_of_minus_one_is_asked_about_and_the_answer_counts(run: Program) -> None:
    labels = np.full(N, -1)
    labels[[3, 5]] = [0, 1]
    for suffix in (".csv", ".parquet", ".npz"):
        write_with(suffix, "label", labels)
        command = ("select", f"pool{suffix}", "-b", "5", "-s", "coreset")
        ran = run(*command)
        assert ran.code == 3
        assert "has the label -1 in 18 rows, which may be a class or mean no label; pass --no-label -1" in ran.complaint
        assert picks(run(*command, "--no-label", "-1", "--json").out) == CORESET
        ran = run(*command, "--no-label", "empty")
        assert "every row of pool" in ran.complaint


def test_where_every_row_has_a_label_the_rows_named_as_labeled_decide(run: Program) -> None:
    np.savez("pool.npz", features=FEATURES, labels=np.arange(N) % 3, labeled=np.array([3, 5]))
    ran = run("select", "pool.npz", "-b", "5", "-s", "coreset", "--json")
    assert picks(ran.out) == CORESET
    assert "every row has a label (labels); only the rows named as labeled count" in ran.err


def test_labels_in_every_row_leave_nothing_to_pick_and_may_be_ignored(run: Program) -> None:
    for suffix in (".csv", ".parquet", ".npz"):
        write_with(suffix, "y", np.arange(N) % 3)
        ran = run("select", f"pool{suffix}", "-b", "5", "-s", "coreset")
        assert ran.code == 2
        assert (
            f"every row of pool{suffix} is labeled (y), so nothing is left to pick; pass --ignore-columns y"
            in ran.complaint
        )
        ran = run("select", f"pool{suffix}", "-b", "5", "-s", "coreset", "--ignore-columns", "y", "--json")
        assert picks(ran.out) == dubito.select(FEATURES, 5, strategy="coreset").indices.tolist()


def test_a_split_is_left_out_and_reported(run: Program) -> None:
    write_with(".csv", "split", np.arange(N) % 3)
    ran = run("select", "pool.csv", "-b", "5", "-s", "coreset", "--json")
    assert picks(ran.out) == dubito.select(FEATURES, 5, strategy="coreset").indices.tolist()
    assert "left out because of their names: split" in ran.err


def test_x_and_y_are_coordinates(run: Program) -> None:
    pd.DataFrame(FEATURES[:, :2], columns=["x", "y"]).to_csv("pool.csv", index=False)
    ran = run("select", "pool.csv", "-b", "5", "-s", "coreset", "--json")
    assert picks(ran.out) == dubito.select(FEATURES[:, :2], 5, strategy="coreset").indices.tolist()
    assert "2 features: x, y" in ran.err


# Columns left out, and columns of probabilities


def test_columns_to_ignore_are_not_there_in_any_file(run: Program) -> None:
    features(NAMES).assign(secret=1.0, note="text").rename_axis("id").to_csv("pool.csv")
    probabilities(NAMES).assign(when="now").rename_axis("id").to_csv("p.csv")
    command = ("select", "pool.csv", "-b", "5", "--probabilities", "p.csv", "--json")
    assert "holds text such as 'text', but features are numbers" in run(*command).complaint
    ran = run(*command, "--ignore-columns", "secret,not*,when")
    assert picks(ran.out) == WANTED
    assert "3 features: f0, f1, f2" in ran.err
    ran = run(*command, "--ignore-columns", "secrt")
    assert (ran.code, "no file has such a column; did you mean 'secret'?" in ran.complaint) == (2, True)


def test_a_column_to_ignore_without_an_asterisk_is_a_plain_name(run: Program) -> None:
    features(NAMES).assign(**{"x[0]": "text"}).rename_axis("id").to_csv("pool.csv")
    ran = run("select", "pool.csv", "-b", "5", "--ignore-columns", "x[0]")
    assert (ran.code, "3 features: f0, f1, f2" in ran.err) == (0, True), ran.err
    ran = run("select", "pool.csv", "-b", "5", "--ignore-columns", "x[0],f?")
    assert (ran.code, "f?: no file has such a column" in ran.complaint) == (2, True), ran.err


def test_probabilities_may_be_columns_of_the_pool_in_the_order_of_their_names(run: Program) -> None:
    shuffled = {f"p_{number}": PROBABILITIES[:, place] for place, number in ((2, 10), (0, 1), (1, 2))}
    frame = features(NAMES).assign(**shuffled).rename_axis("id")
    for suffix in (".csv", ".parquet"):
        frame.to_csv("pool.csv") if suffix == ".csv" else frame.to_parquet("pool.parquet")
        ran = run("select", f"pool{suffix}", "-b", "5", "--probability-columns", "p_*", "--json")
        assert picks(ran.out) == WANTED
        assert "3 features: f0, f1, f2" in ran.err
    probabilities(NAMES).assign(other=3).iloc[ORDER].rename_axis("id").to_csv("p.csv")
    options = ("--probabilities", "p.csv", "--probability-columns", "cat,dog,owl", "--ignore-columns", "p_*")
    assert picks(run("select", "pool.csv", "-b", "5", *options, "--json").out) == WANTED
    ran = run("select", "pool.csv", "-b", "5", "--probability-columns", "q_1")
    assert (ran.code, "has no column 'q_1'; did you mean 'p_1'?" in ran.complaint) == (2, True)
    np.savez("pool.npz", features=FEATURES)
    ran = run("select", "pool.npz", "-b", "5", "--probability-columns", "p_*")
    assert "probability columns are for tables, not for pool.npz" in ran.complaint


def test_a_series_with_or_without_its_index_is_doubt(run: Program) -> None:
    features(NAMES).to_csv("pool.csv")
    pd.Series(DOUBT, index=NAMES).iloc[ORDER].to_csv("doubt.csv")
    assert picks(run("select", "pool.csv", "-b", "5", "--doubt", "doubt.csv", "--json").out) == BY_DOUBT
    pd.Series(DOUBT).to_csv("doubt.csv", index=False)
    assert picks(run("select", "pool.csv", "-b", "5", "--doubt", "doubt.csv", "--json").out) == BY_DOUBT
    pd.DataFrame(PROBABILITIES).to_csv("p.csv")
    assert picks(run("select", "pool.csv", "-b", "5", "--probabilities", "p.csv", "--json").out) == WANTED
