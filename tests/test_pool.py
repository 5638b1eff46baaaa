import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dubito
from dubito.errors import InvalidArgument, InvalidData, MissingFile
from levels import examples


def assert_same(ours: dubito.Selection, scratch: dubito.Selection) -> None:
    assert ours.indices.tolist() == scratch.indices.tolist()
    assert ours.priorities.tobytes() == scratch.priorities.tobytes()
    assert ours.radius == scratch.radius


@given(
    seed=st.integers(0, 10_000),
    width=st.sampled_from([1, 1, 3]),
    scaling=st.sampled_from(["respective", "acquired"]),
    whole=st.sampled_from(["all", "some", "others"]),
)
def test_every_round_selects_what_a_fresh_call_would_and_so_does_the_pool_saved(
    tmp_path_factory: pytest.TempPathFactory, seed: int, width: int, scaling: str, whole: str
) -> None:
    path = str(tmp_path_factory.getbasetemp() / "rounds.npz")
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(20, 60)), int(rng.choice([2, 200]))
    features = rng.integers(-4, 5, (n, d)) if seed % 2 else rng.standard_normal((n, d))
    pool = dubito.Pool(features)
    for round_number in range(4):
        if round_number % 2:
            pool.prepare()
        doubt = rng.choice([0.0, 0.25, 0.5, 1.0], n)
        options: dict[str, Any] = {"doubt": doubt, "beam_width": width, "scaling": scaling}
        picked = pool.select(3, **options, strategy="doubt-coreset")
        assert_same(picked, dubito.select(features, 3, labeled=pool.labeled, **options, strategy="doubt-coreset"))
        pool.save(path)
        assert_same(dubito.Pool.load(path, features).select(3, **options, strategy="doubt-coreset"), picked)
        labels = {"all": picked.indices, "some": picked.indices[:2], "others": rng.integers(0, n, 2)}[whole]
        pool.label(labels)
        assert set(np.asarray(labels).tolist()) <= set(pool.labeled.tolist())


@pytest.mark.parametrize("seed", range(5))
def test_labels_may_come_one_at_a_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((120, 6))
    pool = dubito.Pool(features)
    pool.label(np.arange(30))
    for _ in range(3):
        for row in pool.select(8, doubt=rng.random(120), strategy="doubt-coreset").indices:
            pool.label([row])
        doubt = rng.random(120)
        assert_same(
            pool.select(8, doubt=doubt, strategy="doubt-coreset"),
            dubito.select(features, 8, labeled=pool.labeled, doubt=doubt, strategy="doubt-coreset"),
        )


def test_what_a_round_learned_is_there_for_the_next_and_prepare_finds_out_the_rest() -> None:
    rng = np.random.default_rng(0)
    features, doubt = rng.standard_normal((4000, 16)), rng.random(4000) ** 4
    pool = dubito.Pool(features)
    pool.label(np.arange(50))
    pool.label(pool.select(100, doubt=doubt, strategy="doubt-coreset"))
    is_known = pool._before.seen > 0
    assert 100 <= np.count_nonzero(is_known) < 2000
    assert doubt[is_known].mean() > 2 * doubt[~is_known].mean()
    pool.prepare()
    left = np.setdiff1d(np.arange(4000), pool.labeled)
    assert (pool._before.seen[left] == 150).all()
    assert_same(
        pool.select(100, doubt=doubt, strategy="doubt-coreset"),
        dubito.select(features, 100, labeled=pool.labeled, doubt=doubt, strategy="doubt-coreset"),
    )


def test_labeling_by_id_by_number_and_by_mask() -> None:
    features = np.arange(4.0)[:, None]
    named = dubito.Pool(features, ids=["a", "b", "c", "d"])
    named.label(["c", "a", "c"])
    assert named.labeled.tolist() == [0, 2]
    ids = named.select(1, strategy="coreset").ids
    assert ids is not None
    assert ids.tolist() == ["b"]
    numbered = dubito.Pool(features)
    numbered.label(np.array([False, True, False, False]))
    numbered.label([])
    assert numbered.labeled.tolist() == [1]
    assert len(numbered) == 4


def test_rows_and_ids_are_never_taken_for_each_other() -> None:
    features = np.arange(4.0)[:, None]
    numbered = dubito.Pool(features, ids=[3, 2, 1, 0])
    with pytest.raises(InvalidArgument, match=r"ids are numbers, like row numbers; pass label\(ids=...\)"):
        numbered.label([3])
    numbered.label(ids=[3])
    numbered.label(rows=[1])
    assert numbered.labeled.tolist() == [0, 1]
    picked = numbered.select(1, strategy="coreset")
    numbered.label(picked)
    assert numbered.labeled.tolist() == [0, 1, 3]
    assert repr(numbered) == "Pool(4 x 1, 3 labeled, metric='euclidean')"
    named = dubito.Pool(features, ids=["a", "b", "c", "d"])
    named.label([1, 2])
    assert named.labeled.tolist() == [1, 2]
    with pytest.raises(InvalidArgument, match="pass exactly one"):
        named.label([1], ids=["a"])
    with pytest.raises(InvalidArgument, match="this pool has no ids"):
        dubito.Pool(features).label(ids=["a"])


def test_a_saved_pool_goes_on_where_it_was(tmp_path: Path) -> None:
    features = np.random.default_rng(0).standard_normal((50, 6))
    pool = dubito.Pool(features)
    pool.label(pool.select(5, strategy="coreset").indices)
    pool.save(str(tmp_path / "pool.npz"))
    again = dubito.Pool.load(str(tmp_path / "pool.npz"), features)
    assert again.labeled.tolist() == pool.labeled.tolist()
    assert_same(again.select(5, strategy="coreset"), pool.select(5, strategy="coreset"))


SAVED = np.random.default_rng(0).standard_normal((50, 6))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A pool after one round."""
    pool = dubito.Pool(SAVED)
    pool.label(pool.select(5, strategy="coreset").indices)
    pool.prepare()
    pool.save(str(tmp_path / "pool.npz"))
    return tmp_path / "pool.npz"


def rewritten(path: Path, **changes: Any) -> None:
    """The file as 0.1 wrote it, without a checksum, and with some arrays changed."""
    with np.load(path) as archive:
        arrays: dict[str, Any] = {name: archive[name] for name in archive if name != "checksum"}
    np.savez(path, **{**arrays, **changes})


def test_a_pool_saved_without_a_checksum_is_still_read(saved: Path) -> None:
    before = dubito.Pool.load(str(saved), SAVED)
    rewritten(saved)
    after = dubito.Pool.load(str(saved), SAVED)
    assert_same(after.select(5, strategy="coreset"), before.select(5, strategy="coreset"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("order", np.array([3, 50])),
        ("order", np.array([-1, 3])),
        ("order", np.array([3, 3])),
        ("order", np.array([0.0, 1.0])),
        ("order", np.array([[3, 4]])),
        ("order", np.array(["a"])),
        ("squared", np.full(50, np.nan)),
        ("squared", np.full(50, -1.0)),
        ("squared", np.full(50, np.inf)),
        ("squared", np.zeros(49)),
        ("squared", np.zeros(50, dtype=np.float32)),
        ("squared", np.array("text")),
        ("seen", np.full(50, 6, dtype=np.int32)),
        ("seen", np.full(50, -1, dtype=np.int32)),
        ("seen", np.zeros(50)),
        ("seen", np.zeros((50, 1), dtype=np.int32)),
    ],
)
def test_a_saved_pool_that_no_pool_could_have_saved_is_refused_by_name(saved: Path, name: str, value: Any) -> None:
    rewritten(saved, **{name: value})
    with pytest.raises(
        InvalidData, match=rf"pool\.npz is damaged: its '{name}' cannot have come from a pool of 50 rows"
    ):
        dubito.Pool.load(str(saved), SAVED)


@pytest.mark.parametrize("schema", [np.array(2), np.array([1]), np.array("one"), np.array(np.nan)])
def test_a_pool_of_another_schema_is_refused(saved: Path, schema: Any) -> None:
    rewritten(saved, schema=schema)
    with pytest.raises(InvalidData, match="holds no pool saved by this version"):
        dubito.Pool.load(str(saved), SAVED)


def test_a_value_that_changed_in_a_saved_pool_does_not_fit_its_checksum(saved: Path) -> None:
    with np.load(saved) as archive:
        arrays: dict[str, Any] = dict(archive)
    arrays["squared"][7] += 1e-9
    np.savez(saved, **arrays)
    with pytest.raises(InvalidData, match=r"pool\.npz is damaged: its content does not match its checksum"):
        dubito.Pool.load(str(saved), SAVED)


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255), kind=st.sampled_from(["set", "cut", "drop"]))
def test_a_saved_pool_that_was_damaged_anywhere_is_the_same_or_refused(
    saved: Path, place: float, value: int, kind: str
) -> None:
    whole = saved.read_bytes()
    at = int(place * len(whole))
    changed = {
        "set": whole[:at] + bytes([value]) + whole[at + 1 :],
        "cut": whole[:at],
        "drop": whole[:at] + whole[at + 1 :],
    }
    path = saved.with_name("damaged.npz")
    path.write_bytes(changed[kind])
    expected = dubito.Pool.load(str(saved), SAVED).select(5, strategy="coreset")
    try:
        pool = dubito.Pool.load(str(path), SAVED)
    except InvalidData:
        return
    assert_same(pool.select(5, strategy="coreset"), expected)


def test_a_saved_pool_that_unpacks_to_more_than_it_can_need_is_not_read(saved: Path) -> None:
    with zipfile.ZipFile(saved, "a", zipfile.ZIP_DEFLATED) as archive, archive.open("bomb.npy", "w") as bomb:
        for _ in range(20):
            bomb.write(bytes(1 << 20))
    with pytest.raises(
        InvalidData, match=r"unpacks to 20,9\d\d,\d\d\d bytes, and a pool of 50 rows saves at most 16,842,216"
    ):
        dubito.Pool.load(str(saved), SAVED)


def test_an_interrupted_round_leaves_the_pool_as_it_was() -> None:
    features = np.random.default_rng(0).standard_normal((80, 3))
    pool = dubito.Pool(features)
    pool.label([0])

    def stop(done: int, total: int, radius: float | None, seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(dubito.Interrupted):
        pool.select(79, strategy="coreset", progress=stop)
    assert_same(pool.select(9, strategy="coreset"), dubito.select(features, 9, labeled=[0], strategy="coreset"))


def test_mistakes_are_named(tmp_path: Path) -> None:
    features = np.arange(4.0)[:, None]
    with pytest.raises(InvalidArgument, match=r"ids has shape \(2,\); pass one per row, shape \(4,\)"):
        dubito.Pool(features, ids=["a", "b"])
    with pytest.raises(InvalidData, match=r"ids holds .*'a'.* more than once"):
        dubito.Pool(features, ids=["a", "b", "a", "c"])
    with pytest.raises(InvalidArgument, match="ids holds 'z', which is not an id of this pool"):
        dubito.Pool(features, ids=["a", "b", "c", "d"]).label(["z"])
    with pytest.raises(InvalidArgument, match="rows holds 9 at position 0, which is not a row of the pool"):
        dubito.Pool(features).label([9])
    with pytest.raises(MissingFile, match=r"nowhere.npz does not exist"):
        dubito.Pool.load(str(tmp_path / "nowhere.npz"), features)
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 no more")
    with pytest.raises(InvalidData, match=r"broken.npz cannot be read as .npz: it is truncated"):
        dubito.Pool.load(str(tmp_path / "broken.npz"), features)
    np.savez(tmp_path / "foreign.npz", a=1)
    with pytest.raises(InvalidData, match="holds no pool saved by this version"):
        dubito.Pool.load(str(tmp_path / "foreign.npz"), features)
    dubito.Pool(features).save(str(tmp_path / "pool.npz"))
    with pytest.raises(InvalidData, match=r"was saved with other features"):
        dubito.Pool.load(str(tmp_path / "pool.npz"), features + 1.0)


@pytest.mark.parametrize("exponent", [150, 158, 160, 161])
@pytest.mark.parametrize("seed", range(5))
def test_a_round_of_vanishing_doubts_teaches_nothing_false(seed: int, exponent: int) -> None:
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((30, 2))
    pool = dubito.Pool(features)
    pool.label([0])
    pool.label(pool.select(10, doubt=rng.random(30) * 10.0**-exponent, strategy="doubt-coreset"))
    doubt = np.full(30, 0.5)
    assert_same(
        pool.select(3, doubt=doubt, strategy="doubt-coreset"),
        dubito.select(features, 3, labeled=pool.labeled, doubt=doubt, strategy="doubt-coreset"),
    )


def test_a_cold_round_that_is_not_labeled_leaves_nothing_behind() -> None:
    features, doubt = np.array([[0.0], [1.0], [5.0], [9.0], [20.0]]), [0.5] * 5
    pool = dubito.Pool(features)
    pool.select(2, doubt=doubt, strength=0, scaling="acquired", strategy="doubt-coreset")
    pool.label([0])
    assert_same(
        pool.select(2, doubt=doubt, strategy="doubt-coreset"),
        dubito.select(features, 2, labeled=[0], doubt=doubt, strategy="doubt-coreset"),
    )


def test_all_of_a_pool_of_two_rows_can_be_labeled() -> None:
    pool = dubito.Pool(np.array([[0.0], [5.0]]))
    pool.label(pool.select(2, strategy="coreset"))
    assert sorted(pool.labeled.tolist()) == [0, 1]
