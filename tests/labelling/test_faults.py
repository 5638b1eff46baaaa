"""The labeling service when its parts fail: it says so, goes on, and recovers without a restart."""

import json
import sqlite3
import threading
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

import dubito
from dubito.errors import InvalidArgument, InvalidData
from dubito.files.sealed import save_sealed
from dubito.labelling import store as store_module
from dubito.labelling.database import StoreFailed, StoreUnavailable, open_engine
from dubito.labelling.desk import Desk
from dubito.labelling.events import check_name
from dubito.labelling.exporting import export_labels, label_columns
from dubito.labelling.handing import read_state
from dubito.labelling.making import open_project, with_settings
from dubito.labelling.project import FAILURE, LAYOUT, Project, read_project
from dubito.labelling.spoken import Conflict, Spoken
from dubito.labelling.store import add_event, read_events
from labelling.projects import make_project, truth, wait_until


def answer(desk: Desk, row: int) -> None:
    desk.answer([Spoken(f"key-{row}", "ann", row, truth(row))]).result(timeout=60)


def lose_connection(connection: Connection) -> None:
    """What SQLAlchemy raises when PostgreSQL ends a connection."""
    connection.invalidate()
    raise OperationalError("SELECT", {}, Exception("terminating connection"), connection_invalidated=True)


def test_a_lost_connection_is_made_again_and_nothing_acknowledged_is_lost(tmp_path: Path, store: str | None) -> None:
    desk = Desk(*make_project(tmp_path, store=store))
    answer(desk, 0)
    with pytest.raises(StoreUnavailable):
        desk._writer.run(lose_connection)
    wait_until(lambda: not desk.failures())
    answer(desk, 1)
    answer(desk, 0)
    assert desk.state.book.labels == {0: truth(0), 1: truth(1)}
    desk.close()


def test_while_the_database_is_down_requests_fail_and_afterwards_they_succeed(
    tmp_path: Path, store: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(*make_project(tmp_path, store=store))
    answer(desk, 0)
    is_down, connect = threading.Event(), desk._writer._connect

    def refusing() -> Connection:
        if is_down.is_set():
            raise OperationalError("connect", {}, Exception("connection refused"))
        return connect()

    monkeypatch.setattr(desk._writer, "_connect", refusing)
    is_down.set()
    with pytest.raises(StoreUnavailable):
        desk._writer.run(lose_connection)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            answer(desk, 1)
    is_down.clear()
    wait_until(lambda: not desk.failures())
    answer(desk, 1)
    assert desk.state.book.labels == {0: truth(0), 1: truth(1)}
    desk.close()


def test_an_error_of_any_kind_fails_one_request_and_not_the_service(tmp_path: Path, store: str | None) -> None:
    desk = Desk(*make_project(tmp_path, store=store))

    def fail(connection: Connection) -> None:
        raise ZeroDivisionError("a mistake")

    for _ in range(3):
        with pytest.raises(StoreFailed, match="a mistake"):
            desk._writer.run(fail)
    answer(desk, 1)
    assert desk.state.book.labels == {1: truth(1)}
    desk.close()


def test_while_the_database_is_down_no_label_is_shown_that_it_does_not_have(
    tmp_path: Path, store: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(*make_project(tmp_path, store=store))
    answer(desk, 0)
    connect, gate = desk._writer._connect, threading.Event()

    def refusing() -> Connection:
        raise OperationalError("connect", {}, Exception("connection refused"))

    monkeypatch.setattr(desk._writer, "_connect", refusing)
    held = desk._writer.submit(lambda connection: gate.wait(60))
    lost: list[Future[Any]] = [desk.answer([Spoken("key-1", "ann", 1, truth(1))]), desk.restrict("only", [0, 1, 2])]
    broken = desk._writer.submit(lose_connection)
    gate.set()
    futures: list[Future[Any]] = [*lost, broken]
    for future in futures:
        with pytest.raises(StoreUnavailable):
            future.result(timeout=60)
    assert held.exception(timeout=60) is None or isinstance(held.exception(), StoreUnavailable)
    assert desk.state.book.labels == {0: truth(0)}
    assert desk.state.is_open is None
    monkeypatch.setattr(desk._writer, "_connect", connect)
    wait_until(lambda: not desk.failures())
    answer(desk, 1)
    assert desk.state.book.labels == {0: truth(0), 1: truth(1)}
    desk.close()


def test_memory_stays_whole_where_the_store_cannot_be_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(*make_project(tmp_path))
    answer(desk, 0)
    before = desk.state.book, desk.state.waiting, desk.state.rounds

    def fail(connection: Connection) -> None:
        raise OperationalError("SELECT", {}, Exception("connection lost"))

    monkeypatch.setattr("dubito.labelling.state.read_leases", fail)
    with pytest.raises(StoreFailed):
        desk._writer.run(desk.state.reload)
    assert before == (desk.state.book, desk.state.waiting, desk.state.rounds)
    desk.close()


def limit_pages(desk: Desk, n_more: int) -> None:
    """Let the database grow by so many pages and no further: more is what SQLite calls a full disk."""

    def limit(connection: Connection) -> None:
        n_pages = int(connection.execute(text("PRAGMA page_count")).scalar() or 0)
        connection.execute(text(f"PRAGMA max_page_count = {n_pages + n_more}"))

    desk._writer.run(limit)


def test_every_failed_write_is_shown_and_the_next_success_ends_that_without_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "LONGEST_WAIT", 0.2)
    desk = Desk(*make_project(tmp_path, n_rows=400))
    limit_pages(desk, 0)
    with pytest.raises(StoreFailed, match="disk is full"):
        desk.answer([Spoken(f"key-{row}", "a" * 200, row, truth(row)) for row in range(300)]).result(timeout=60)
    assert "disk is full" in desk.failures()["store"]
    assert desk.state.book.labels == {}
    assert desk._writer._connection is not None
    desk._writer._connection.connection.dbapi_connection.execute("PRAGMA max_page_count = 1000000")  # type: ignore[union-attr]
    wait_until(lambda: not desk.failures())
    desk.close()


def test_a_store_that_has_lost_what_was_acknowledged_is_refused_until_it_is_back(
    tmp_path: Path, store: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "LONGEST_WAIT", 0.2)
    desk = Desk(*make_project(tmp_path, store=store))
    for row in range(3):
        answer(desk, row)
    other = open_engine(desk.state.project.folder, store)
    newest = desk.state.book.events[3]
    with other.begin() as connection:  # As an older copy would have it.
        connection.execute(text("DELETE FROM dubito_events WHERE number > 2"))
    for _ in range(2):
        with pytest.raises(StoreFailed, match=r"lacks event 3, which this server has saved in it; .* older copy"):
            answer(desk, 4)
    assert "older copy" in desk.failures()["store"]
    with other.begin() as connection:
        assert [event.number for event in read_events(connection)] == [1, 2]
        add_event(connection, newest)
    wait_until(lambda: not desk.failures())
    answer(desk, 4)
    assert desk.state.book.labels == {row: truth(row) for row in (0, 1, 2, 4)}
    desk.close()


def test_a_class_is_added_while_the_store_fails_and_a_file_that_cannot_be_written_is_told(
    tmp_path: Path, store: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(*make_project(tmp_path, store=store))
    with monkeypatch.context() as patch:
        patch.setattr(desk._writer, "_connect", lose_connection)
        with pytest.raises(StoreFailed):
            desk._writer.run(lose_connection)
        assert desk.add_class("up", "k1").result(timeout=60)
    with monkeypatch.context() as patch:
        patch.setattr(Project, "save", lambda project: (_ for _ in ()).throw(OSError("no space")))
        with pytest.raises(StoreFailed, match="it could not be saved: no space"):
            desk.add_class("down", "k2").result(timeout=60)
        assert "no space" in desk.failures()["project"]
        assert "down" not in desk.state.project.classes
    assert desk.add_class("down", "k2").result(timeout=60)
    assert "project" not in desk.failures()
    desk.close()
    with pytest.raises(StoreFailed, match="is closed"):
        desk.add_class("late")


def test_a_class_that_is_sent_again_with_its_key_is_answered_also_after_a_restart(tmp_path: Path) -> None:
    desk = Desk(*make_project(tmp_path))
    assert [desk.add_class("up", "k").result(), desk.add_class(" up ", "k").result()] == [True, False]
    with pytest.raises(Conflict, match="was sent with the class 'up'"):
        desk.add_class("down", "k").result()
    with pytest.raises(InvalidArgument, match="there is a class 'up' already"):
        desk.add_class("up", "another").result()
    desk.close()
    desk = Desk(*open_project(desk.state.project.folder))
    assert not desk.add_class("up", "k").result()
    assert desk.state.project.classes == ("left", "right", "up")
    desk.close()
    path = Path(desk.state.project.path("project.toml"))
    path.write_text(path.read_text().replace('"up"]', '"upper"]'))
    assert read_project(desk.state.project.folder).class_keys == {}


def test_an_operation_that_was_cancelled_is_not_run_and_the_next_one_is(tmp_path: Path, store: str | None) -> None:
    desk = Desk(*make_project(tmp_path, store=store))
    gate, ran = threading.Event(), list[str]()
    held = desk._writer.submit(lambda connection: gate.wait(60))
    wait_until(held.running)
    cancelled = desk._writer.submit(lambda connection: ran.append("cancelled"))
    kept = desk._writer.submit(lambda connection: ran.append("kept"))
    assert cancelled.cancel()
    assert not held.cancel()
    gate.set()
    assert held.result(timeout=60)
    kept.result(timeout=60)
    with pytest.raises(CancelledError):
        cancelled.result(timeout=60)
    assert ran == ["kept"]
    answer(desk, 1)
    desk.close()


def test_a_database_that_another_program_locks_is_named_and_used_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "LONGEST_WAIT", 0.2)
    desk = Desk(*make_project(tmp_path))
    assert desk._writer._connection is not None
    desk._writer.run(lambda connection: connection.execute(text("PRAGMA busy_timeout = 50")).fetchall())
    other = sqlite3.connect(Path(desk.state.project.folder) / "labels.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="another program has locked the database"):
        answer(desk, 0)
    other.execute("ROLLBACK")
    other.close()
    wait_until(lambda: not desk.failures())
    answer(desk, 0)
    assert desk.state.book.labels == {0: truth(0)}
    desk.close()


def test_learning_goes_on_after_a_round_that_could_not_be_saved(
    tmp_path: Path, store: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dubito.labelling.loop.PATIENCE", 0.2)
    desk = Desk(*make_project(tmp_path, store=store))
    failing, real = threading.Event(), desk._writer.run
    failing.set()

    def run(operation: Any) -> Any:
        if failing.is_set():
            raise StoreUnavailable("the database is gone")
        return real(operation)

    monkeypatch.setattr(desk._writer, "run", run)
    desk.start()
    wait_until(lambda: "learning" in desk.failures())
    kept = Path(desk.state.project.folder) / FAILURE
    wait_until(kept.exists)
    assert kept.read_text() == "the database is gone\n"
    failing.clear()
    wait_until(lambda: desk.state.round == 1 and desk.state.places is not None and not desk.failures())
    assert not kept.exists()
    desk.close()


def test_a_map_that_does_not_fit_the_pool_is_made_again(tmp_path: Path) -> None:
    project, contents = make_project(tmp_path)
    save_sealed(project.path(LAYOUT), {"places": np.zeros((len(contents) - 2, 2), dtype=np.float32)})
    desk = Desk(project, contents)
    announced: list[str] = []
    desk.listen(lambda kind, facts: announced.append(kind))
    desk.start()
    wait_until(lambda: desk.state.places is not None)
    assert desk.state.places is not None
    assert desk.state.places.shape == (len(contents), 2)
    assert desk.failures() == {}
    assert announced.count("map") == 1
    desk.close()


def test_settings_and_classes_of_a_project_that_is_open_stay_as_they_are(tmp_path: Path) -> None:
    project, contents = make_project(tmp_path)
    desk = Desk(project, contents)
    with pytest.raises(InvalidArgument, match="another dubito label has"):
        open_project(project.folder, classes=["third"])
    with pytest.raises(InvalidArgument, match="another dubito label has"):
        with_settings(project, {"batch": 77})
    assert read_project(project.folder) == project
    desk.close()
    assert open_project(project.folder, classes=["third"])[0].classes == (*project.classes, "third")


def test_a_class_name_is_as_long_as_what_is_stored(tmp_path: Path) -> None:
    expands = "\ufb2c"
    assert len(check_name("class", expands * 66)) == 198
    with pytest.raises(InvalidArgument, match="has 300 characters"):
        check_name("class", expands * 100)
    project = make_project(tmp_path)[0].with_class(expands * 66)
    project.save()
    assert read_project(project.folder).classes == project.classes


def write_texts(path: Path, texts: list[str]) -> None:
    path.write_text("text\n" + "".join(f"{text}\n" for text in texts))


def texts_of(folder: str) -> dict[str, str]:
    """The exported labels by text."""
    state = read_state(folder)
    found = export_labels(state, "label-studio", safe=True)
    tasks = json.loads(found.data)
    choices = [task["annotations"][0]["result"][0]["value"]["choices"][0] for task in tasks]
    return {task["data"]["text"]: choice for task, choice in zip(tasks, choices, strict=True)}


@pytest.fixture
def labelled_texts(tmp_path: Path) -> tuple[Path, list[str], dict[str, str]]:
    """A pool of texts, a project on it, and the labels that were given there."""
    texts = [f"{'good' if row % 2 else 'bad'} thing number {row // 2 * 2} {'x' * (row % 7)}" for row in range(40)]
    write_texts(tmp_path / "texts.csv", texts)
    dubito.embed(tmp_path / "texts.csv", out=tmp_path / "pool.parquet")
    desk = Desk(*open_project(str(tmp_path / "pool.parquet"), classes=["good", "bad"]))
    given = {row: texts[row].split()[0] for row in range(0, 30, 2)}
    for row, label in given.items():
        desk.answer([Spoken(f"k{row}", "ann", row, label)]).result()
    desk.close()
    return tmp_path, texts, {texts[row]: label for row, label in given.items()}


def embed_again(folder: Path, texts: list[str]) -> None:
    write_texts(folder / "texts.csv", texts)
    dubito.embed(folder / "texts.csv", out=folder / "pool.parquet", force=True)


def test_labels_stay_with_their_texts_when_the_pool_is_written_again_with_rows_in_other_places(
    labelled_texts: tuple[Path, list[str], dict[str, str]],
) -> None:
    folder, texts, labels = labelled_texts
    embed_again(folder, ["a new text at the top", *texts[::-1]])
    notes: list[str] = []
    project, contents = open_project(str(folder / "pool.parquet"), tell=notes.append)
    assert any(note.startswith("1 rows of") for note in notes)
    assert [contents.text(item) for item in range(len(contents))] == texts
    desk = Desk(project, contents)
    desk.start()
    wait_until(lambda: desk.state.round == 1)
    assert desk.state.model is not None
    desk.close()
    assert texts_of(project.folder) == labels


@pytest.mark.parametrize("change", ["missing", "changed"])
def test_a_pool_without_an_item_of_the_project_is_refused_before_anything_is_shown(
    labelled_texts: tuple[Path, list[str], dict[str, str]], change: str
) -> None:
    folder, texts, labels = labelled_texts
    embed_again(folder, texts[:-1] if change == "missing" else [*texts[:-1], "something else"])
    with pytest.raises(InvalidData, match=r"was replaced: 1 of the 40 items .* put the file back"):
        open_project(str(folder / "pool.parquet"))
    with pytest.raises(InvalidData, match="was replaced"):
        texts_of(str(folder / "pool.dubito"))
    embed_again(folder, texts)
    assert texts_of(str(folder / "pool.dubito")) == labels


def test_rows_without_ids_are_known_by_their_features(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(30, 3))
    np.save(tmp_path / "rows.npy", features)
    desk = Desk(*open_project(str(tmp_path / "rows.npy"), classes=["left", "right"]))
    answer(desk, 4)
    answer(desk, 7)
    desk.close()
    np.save(tmp_path / "rows.npy", np.concatenate([np.zeros((2, 3)), features]))
    state = read_state(desk.state.project.folder)
    assert label_columns(state)["index"] == [6, 9]
    assert label_columns(state)["label"] == [truth(4), truth(7)]
    np.save(tmp_path / "rows.npy", features[5:])
    with pytest.raises(InvalidData, match="5 of the 30 items"):
        read_state(desk.state.project.folder)


def test_a_project_whose_making_was_interrupted_is_made_by_the_same_call(
    tmp_path: Path, store: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "texts.csv"
    source.write_text("text,label\n" + "".join(f"text {row},{'a' if row < 5 else ''}\n" for row in range(20)))
    with monkeypatch.context() as patch:
        patch.setattr(Project, "save", lambda project: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            open_project(str(source), store=store)
    desk = Desk(*open_project(str(source), store=store))
    assert desk.state.book.labels == dict.fromkeys(range(5), "a")
    assert len(desk.state.book.events) == 5
    desk.close()


def test_after_closing_nothing_is_taken_and_nobody_waits(tmp_path: Path, store: str | None) -> None:
    desk = Desk(*make_project(tmp_path, store=store))
    desk.close()
    with pytest.raises(StoreFailed, match="is closed"):
        answer(desk, 1)


def test_a_column_of_texts_that_is_added_to_the_pool_changes_no_label(tmp_path: Path) -> None:
    rows = [f"id-{row},{row},{row * row % 7}" for row in range(20)]
    (tmp_path / "pool.csv").write_text("\n".join(["id,x,y", *rows]) + "\n")
    desk = Desk(*open_project(str(tmp_path / "pool.csv"), classes=["left", "right"]))
    answer(desk, 3)
    desk.close()
    shuffled = [f"{row},a text" for row in rows[::-1]]
    (tmp_path / "pool.csv").write_text("\n".join(["id,x,y,text", *shuffled]) + "\n")
    state = read_state(desk.state.project.folder)
    assert label_columns(state)["id"] == ["id-3"]
    assert label_columns(state)["index"] == [16]
