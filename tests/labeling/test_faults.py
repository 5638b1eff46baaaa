"""The labeling service when its parts fail: it says so, goes on, and recovers without a restart."""

import json
import os
import sqlite3
import threading
from concurrent.futures import CancelledError, Future
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection, insert, text
from sqlalchemy.exc import OperationalError

import dubito
from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.io.durable import save_with_checksum
from dubito.labeling import store as store_module
from dubito.labeling.creation import open_project, with_settings
from dubito.labeling.database import StoreFailed, StoreUnavailable, events, open_engine
from dubito.labeling.events import check_name
from dubito.labeling.export import export_labels, label_columns
from dubito.labeling.project import FAILURE, LAYOUT, Project, read_project
from dubito.labeling.service import AnswerIn, ClassChangeIn, Conflict, LabelingService
from dubito.labeling.state import read_state
from dubito.labeling.store import Operation, Statements, read_events
from labeling.projects import make_project, truth, wait_until


def answer(service: LabelingService, row: int) -> None:
    service.answer([AnswerIn(f"key-{row}", "ann", row, truth(row))]).result(timeout=60)


def lose_connection(service: LabelingService) -> Operation[None]:
    """An operation that does what SQLAlchemy does when PostgreSQL ends a connection."""

    def lose(statements: Statements) -> None:
        assert service._writer._connection is not None
        service._writer._connection.invalidate()
        raise OperationalError("SELECT", {}, Exception("terminating connection"), connection_invalidated=True)

    return lose


def test_a_lost_connection_is_made_again_and_nothing_acknowledged_is_lost(tmp_path: Path, store: str | None) -> None:
    service = LabelingService(*make_project(tmp_path, store=store))
    answer(service, 0)
    with pytest.raises(StoreUnavailable):
        service._writer.run(lose_connection(service))
    wait_until(lambda: not service.failures())
    answer(service, 1)
    answer(service, 0)
    assert service.state.label_table.labels == {0: truth(0), 1: truth(1)}
    service.close()


def test_while_the_database_is_down_requests_fail_and_afterwards_they_succeed(
    tmp_path: Path, store: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = LabelingService(*make_project(tmp_path, store=store))
    answer(service, 0)
    is_down, connect = threading.Event(), service._writer._connect

    def refusing() -> Connection:
        if is_down.is_set():
            raise OperationalError("connect", {}, Exception("connection refused"))
        return connect()

    monkeypatch.setattr(service._writer, "_connect", refusing)
    is_down.set()
    with pytest.raises(StoreUnavailable):
        service._writer.run(lose_connection(service))
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            answer(service, 1)
    is_down.clear()
    wait_until(lambda: not service.failures())
    answer(service, 1)
    assert service.state.label_table.labels == {0: truth(0), 1: truth(1)}
    service.close()


def test_an_error_of_any_kind_fails_one_request_and_not_the_service(tmp_path: Path, store: str | None) -> None:
    service = LabelingService(*make_project(tmp_path, store=store))

    def fail(statements: Statements) -> None:
        raise ZeroDivisionError("a mistake")

    for _ in range(3):
        with pytest.raises(StoreFailed, match="a mistake"):
            service._writer.run(fail)
    answer(service, 1)
    assert service.state.label_table.labels == {1: truth(1)}
    service.close()


def test_while_the_database_is_down_no_label_is_shown_that_it_does_not_have(
    tmp_path: Path, store: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = LabelingService(*make_project(tmp_path, store=store))
    answer(service, 0)
    connect, gate = service._writer._connect, threading.Event()

    def refusing() -> Connection:
        raise OperationalError("connect", {}, Exception("connection refused"))

    monkeypatch.setattr(service._writer, "_connect", refusing)
    held = service._writer.submit(lambda connection: gate.wait(60))
    lost: list[Future[Any]] = [
        service.answer([AnswerIn("key-1", "ann", 1, truth(1))]),
        service.restrict("only", [0, 1, 2]),
    ]
    broken = service._writer.submit(lose_connection(service))
    gate.set()
    futures: list[Future[Any]] = [*lost, broken]
    for future in futures:
        with pytest.raises(StoreUnavailable):
            future.result(timeout=60)
    assert held.exception(timeout=60) is None or isinstance(held.exception(), StoreUnavailable)
    assert service.state.label_table.labels == {0: truth(0)}
    assert service.state.is_open is None
    monkeypatch.setattr(service._writer, "_connect", connect)
    wait_until(lambda: not service.failures())
    answer(service, 1)
    assert service.state.label_table.labels == {0: truth(0), 1: truth(1)}
    service.close()


def test_memory_stays_whole_where_the_store_cannot_be_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = LabelingService(*make_project(tmp_path))
    answer(service, 0)
    before = service.state.label_table, service.state.queue, service.state.rounds

    def fail(connection: Connection) -> None:
        raise OperationalError("SELECT", {}, Exception("connection lost"))

    monkeypatch.setattr("dubito.labeling.state.read_leases", fail)
    engine = open_engine(service.state.project.folder, None)
    with engine.connect() as connection, pytest.raises(OperationalError):
        service.state.reload(connection)
    assert before == (service.state.label_table, service.state.queue, service.state.rounds)
    service.close()


def driver_of(service: LabelingService) -> sqlite3.Connection:
    """The writer's own connection, which is idle."""
    assert service._writer._connection is not None
    found: Any = service._writer._connection.connection.dbapi_connection
    assert isinstance(found, sqlite3.Connection)
    return found


def limit_pages(service: LabelingService, n_more: int) -> None:
    """Let the database grow by so many pages and no further: more is what SQLite calls a full disk."""

    connection = driver_of(service)
    (n_pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {n_pages + n_more}")


def test_every_failed_write_is_shown_and_the_next_success_ends_that_without_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MAX_RETRY", 0.2)
    service = LabelingService(*make_project(tmp_path, n_rows=400))
    limit_pages(service, 0)
    with pytest.raises(StoreFailed, match="disk is full"):
        service.answer([AnswerIn(f"key-{row}", "a" * 200, row, truth(row)) for row in range(300)]).result(timeout=60)
    assert "disk is full" in service.failures()["store"]
    assert service.state.label_table.labels == {}
    driver_of(service).execute("PRAGMA max_page_count = 1000000")
    wait_until(lambda: not service.failures())
    service.close()


def test_a_store_that_has_lost_what_was_acknowledged_is_refused_until_it_is_back(
    tmp_path: Path, store: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MAX_RETRY", 0.2)
    service = LabelingService(*make_project(tmp_path, store=store))
    for row in range(3):
        answer(service, row)
    other = open_engine(service.state.project.folder, store)
    newest = service.state.label_table.events[3]
    with other.begin() as connection:  # As an older copy would have it.
        connection.execute(text("DELETE FROM dubito_events WHERE number > 2"))
    for _ in range(2):
        with pytest.raises(StoreFailed, match=r"event 3, .*, is missing in the store; .* older copy"):
            answer(service, 4)
    assert "older copy" in service.failures()["store"]
    with other.begin() as connection:
        assert [event.number for event in read_events(connection)] == [1, 2]
        connection.execute(insert(events), asdict(newest))
    wait_until(lambda: not service.failures())
    answer(service, 4)
    assert service.state.label_table.labels == {row: truth(row) for row in (0, 1, 2, 4)}
    service.close()


def test_a_class_is_added_while_the_store_fails_and_a_file_that_cannot_be_written_is_reported(
    tmp_path: Path, store: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = LabelingService(*make_project(tmp_path, store=store))
    with monkeypatch.context() as patch:
        patch.setattr(service._writer, "_connect", lose_connection(service))
        with pytest.raises(StoreFailed):
            service._writer.run(lose_connection(service))
        assert service.add_class("up", "k1").result(timeout=60)
    settings = Path(service.state.project.path("project.toml"))
    kept = settings.rename(tmp_path / "kept.toml")
    settings.mkdir()
    with pytest.raises(StoreFailed, match=r"it could not be saved: .*project\.toml cannot be written: is a directory"):
        service.add_class("down", "k2").result(timeout=60)
    assert "cannot be written" in service.failures()["project"]
    assert "down" not in service.state.project.classes
    settings.rmdir()
    kept.rename(settings)
    assert service.add_class("down", "k2").result(timeout=60)
    assert "project" not in service.failures()
    service.close()
    with pytest.raises(StoreFailed, match="is closed"):
        service.add_class("late")


def test_a_class_that_is_sent_again_with_its_key_is_answered_also_after_a_restart(tmp_path: Path) -> None:
    service = LabelingService(*make_project(tmp_path))
    assert [service.add_class("up", "k").result(), service.add_class(" up ", "k").result()] == [True, False]
    with pytest.raises(Conflict, match="was sent with the class 'up'"):
        service.add_class("down", "k").result()
    with pytest.raises(InvalidArgument, match="there is a class 'up' already"):
        service.add_class("up", "another").result()
    service.close()
    service = LabelingService(*open_project(service.state.project.folder))
    assert not service.add_class("up", "k").result()
    assert service.state.project.classes == ("left", "right", "up")
    service.change_class(ClassChangeIn("r", "ann", "rename", "up", "upper")).result()
    assert not service.add_class("up", "k").result()
    service.close()
    assert read_project(service.state.project.folder).classes == ("left", "right", "upper")


def test_an_operation_that_was_cancelled_is_not_run_and_the_next_one_is(tmp_path: Path, store: str | None) -> None:
    service = LabelingService(*make_project(tmp_path, store=store))
    gate, ran = threading.Event(), list[str]()
    held = service._writer.submit(lambda connection: gate.wait(60))
    wait_until(held.running)
    cancelled = service._writer.submit(lambda connection: ran.append("cancelled"))
    kept = service._writer.submit(lambda connection: ran.append("kept"))
    assert cancelled.cancel()
    assert not held.cancel()
    gate.set()
    assert held.result(timeout=60)
    kept.result(timeout=60)
    with pytest.raises(CancelledError):
        cancelled.result(timeout=60)
    assert ran == ["kept"]
    answer(service, 1)
    service.close()


def test_a_database_that_another_program_locks_is_named_and_used_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MAX_RETRY", 0.2)
    service = LabelingService(*make_project(tmp_path))
    driver_of(service).execute("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(Path(service.state.project.folder) / "labels.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="another program has locked the database"):
        answer(service, 0)
    other.execute("ROLLBACK")
    other.close()
    wait_until(lambda: not service.failures())
    answer(service, 0)
    assert service.state.label_table.labels == {0: truth(0)}
    service.close()


def test_learning_goes_on_after_a_round_that_could_not_be_saved(
    tmp_path: Path, store: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dubito.labeling.learner.FIRST_RETRY", 0.2)
    service = LabelingService(*make_project(tmp_path, store=store))
    failing, real = threading.Event(), service._writer.run
    failing.set()

    def run(operation: Any) -> Any:
        if failing.is_set():
            raise StoreUnavailable("the database is gone")
        return real(operation)

    monkeypatch.setattr(service._writer, "run", run)
    service.start()
    wait_until(lambda: "learning" in service.failures())
    kept = Path(service.state.project.folder) / FAILURE
    wait_until(kept.exists)
    assert kept.read_text() == "the database is gone\n"
    failing.clear()
    wait_until(lambda: service.state.round == 1 and service.state.layout is not None and not service.failures())
    assert not kept.exists()
    service.close()


def test_a_map_that_does_not_fit_the_pool_is_made_again(tmp_path: Path) -> None:
    project, contents = make_project(tmp_path)
    save_with_checksum(project.path(LAYOUT), {"places": np.zeros((len(contents) - 2, 2), dtype=np.float32)})
    service = LabelingService(project, contents)
    announced: list[str] = []
    service.listen(lambda kind, facts: announced.append(kind))
    service.start()
    wait_until(lambda: service.state.layout is not None)
    assert service.state.layout is not None
    assert service.state.layout.shape == (len(contents), 2)
    assert service.failures() == {}
    assert announced.count("map") == 1
    service.close()


def test_settings_and_classes_of_a_project_that_is_open_stay_as_they_are(tmp_path: Path) -> None:
    project, contents = make_project(tmp_path)
    service = LabelingService(project, contents)
    with pytest.raises(InvalidArgument, match="another labeling server has"):
        open_project(project.folder, classes=["third"])
    with pytest.raises(InvalidArgument, match="another labeling server has"):
        with_settings(project, {"batch": 77})
    assert read_project(project.folder) == project
    service.close()
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
def labeled_texts(tmp_path: Path) -> tuple[Path, list[str], dict[str, str]]:
    """A pool of texts, a project on it, and the labels that were given there."""
    texts = [f"{'good' if row % 2 else 'bad'} thing number {row // 2 * 2} {'x' * (row % 7)}" for row in range(40)]
    write_texts(tmp_path / "texts.csv", texts)
    dubito.embed(tmp_path / "texts.csv", out=tmp_path / "pool.parquet")
    service = LabelingService(*open_project(str(tmp_path / "pool.parquet"), classes=["good", "bad"]))
    given = {row: texts[row].split()[0] for row in range(0, 30, 2)}
    for row, label in given.items():
        service.answer([AnswerIn(f"k{row}", "ann", row, label)]).result()
    service.close()
    return tmp_path, texts, {texts[row]: label for row, label in given.items()}


def embed_again(folder: Path, texts: list[str]) -> None:
    write_texts(folder / "texts.csv", texts)
    dubito.embed(folder / "texts.csv", out=folder / "pool.parquet", force=True)


def test_labels_stay_with_their_texts_when_the_pool_is_written_again_with_rows_in_other_places(
    labeled_texts: tuple[Path, list[str], dict[str, str]],
) -> None:
    folder, texts, labels = labeled_texts
    embed_again(folder, ["a new text at the top", *texts[::-1]])
    notes: list[str] = []
    project, contents = open_project(str(folder / "pool.parquet"), report=notes.append)
    assert any(note.startswith("since the project was last updated: 1 new") for note in notes)
    assert [contents.text(item) for item in range(len(contents))] == [*texts, "a new text at the top"]
    service = LabelingService(project, contents)
    service.start()
    wait_until(lambda: service.state.round == 1)
    assert service.state.model is not None
    service.close()
    assert texts_of(project.folder) == labels


@pytest.mark.parametrize("change", ["missing", "changed"])
def test_an_item_that_a_pool_has_lost_keeps_its_label_and_comes_back(
    labeled_texts: tuple[Path, list[str], dict[str, str]], change: str
) -> None:
    folder, texts, labels = labeled_texts
    embed_again(folder, texts[:-1] if change == "missing" else [*texts[:-1], "something else"])
    notes: list[str] = []
    _, contents = open_project(str(folder / "pool.parquet"), report=notes.append)
    assert "1 removed" in notes[0]
    assert contents.gone == {39}
    assert len(contents) == (40 if change == "missing" else 41)
    assert {text: label for text, label in texts_of(str(folder / "pool.dubito")).items() if text} == {
        text: label for text, label in labels.items() if text != texts[-1]
    }
    embed_again(folder, texts)
    notes.clear()
    open_project(str(folder / "pool.parquet"), report=notes.append)
    assert "1 new" in notes[0]
    assert texts_of(str(folder / "pool.dubito")) == labels


def test_an_item_with_a_new_id_keeps_its_label_though_a_copy_of_it_was_removed_before(tmp_path: Path) -> None:
    def reopen(*ids: str) -> tuple[list[str], LabelingService]:
        """The messages about the changes, and the service, once the pool has these ids; 8 and 9 have the same text."""
        rows = "".join(f"{name},a text that is no. {min(number, 8)}\n" for number, name in enumerate(ids) if name)
        (tmp_path / "texts.csv").write_text(f"id,text\n{rows}")
        dubito.embed(tmp_path / "texts.csv", out=tmp_path / "pool.parquet", force=True)
        notes: list[str] = []
        opened = open_project(str(tmp_path / "pool.parquet"), classes=["good", "bad"], report=notes.append)
        return notes, LabelingService(*opened)

    others = [f"id-{number}" for number in range(8)]
    _, service = reopen(*others, "first", "second")
    service.answer([AnswerIn("a", "ann", 9, "good")]).result()
    service.close()
    notes, service = reopen(*others, "", "second")
    service.close()
    assert "1 removed (first)" in notes[0]
    notes, service = reopen(*others, "", "renamed")
    service.close()
    assert any(note.startswith("1 items have new ids") for note in notes)
    assert label_columns(read_state(service.state.project.folder))["id"] == ["first", "renamed"]
    (tmp_path / "texts.csv").write_text("id,text\n" + "".join(f"new-{row},something else {row}\n" for row in range(9)))
    dubito.embed(tmp_path / "texts.csv", out=tmp_path / "pool.parquet", force=True)
    with pytest.raises(InvalidData, match="was replaced: 9 of the 9 items"):
        read_state(service.state.project.folder)


def test_labels_follow_texts_that_have_other_ids_and_a_note_says_so(tmp_path: Path) -> None:
    texts = {f"id-{row}": f"{'good' if row % 2 else 'bad'} thing {row}" for row in range(10)}

    def embed(texts: dict[str, str]) -> None:
        rows = "".join(f"{name},{text}\n" for name, text in texts.items())
        (tmp_path / "texts.csv").write_text(f"id,text\n{rows}")
        dubito.embed(tmp_path / "texts.csv", out=tmp_path / "pool.parquet", force=True)

    embed(texts)
    service = LabelingService(*open_project(str(tmp_path / "pool.parquet"), classes=["good", "bad"]))
    service.answer([AnswerIn("a", "ann", 3, "good"), AnswerIn("b", "ann", 4, "bad")]).result()
    service.close()
    embed({**texts, "id-3": texts["id-4"], "id-4": texts["id-3"]})
    notes: list[str] = []
    project, _ = open_project(str(tmp_path / "pool.parquet"), report=notes.append)
    assert any(note.startswith("2 items have new ids") for note in notes)
    assert texts_of(project.folder) == {texts["id-3"]: "good", texts["id-4"]: "bad"}
    assert label_columns(read_state(project.folder))["id"] == ["id-4", "id-3"]
    # Without texts and ids, nothing tells which row is which.
    np.save(tmp_path / "rows.npy", np.zeros((10, 3)))
    replace(project, pool="../rows.npy").save()
    with pytest.raises(InvalidData, match="was replaced: 10 of the 10 items"):
        read_state(project.folder)


def test_a_project_that_has_lost_its_settings_keeps_its_labels_and_their_classes(
    tmp_path: Path, store: str | None
) -> None:
    service = LabelingService(*make_project(tmp_path, store=store))
    answer(service, 0)
    answer(service, 1)
    service.add_class("rare").result()
    service.answer([AnswerIn("rare", "ann", 2, "rare")]).result()
    service.close()
    folder = service.state.project.folder
    os.unlink(service.state.project.path("project.toml"))
    with pytest.raises(MissingFile, match=r"was a project, but its project.toml is gone; .* labels .* are kept"):
        open_project(folder)
    notes: list[str] = []
    project, contents = open_project(str(tmp_path / "rows.npz"), store=store, report=notes.append)
    assert project.classes == ("left", "right", "rare")
    assert any("labels and their classes are kept" in note for note in notes)
    again = LabelingService(project, contents)
    assert again.state.label_table.labels == {0: truth(0), 1: truth(1), 2: "rare"}
    again.close()


def test_rows_without_ids_are_known_by_their_features(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(30, 3))
    np.save(tmp_path / "rows.npy", features)
    service = LabelingService(*open_project(str(tmp_path / "rows.npy"), classes=["left", "right"]))
    answer(service, 4)
    answer(service, 7)
    service.close()
    np.save(tmp_path / "rows.npy", np.concatenate([np.zeros((2, 3)), features]))
    state = read_state(service.state.project.folder)
    assert label_columns(state)["index"] == [6, 9]
    assert label_columns(state)["label"] == [truth(4), truth(7)]
    np.save(tmp_path / "rows.npy", features[5:])
    assert read_state(service.state.project.folder).contents.gone == set(range(5))
    np.save(tmp_path / "rows.npy", features[16:])
    with pytest.raises(InvalidData, match="16 of the 30 items"):
        read_state(service.state.project.folder)


def test_a_project_whose_making_was_interrupted_is_made_by_the_same_call(
    tmp_path: Path, store: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "texts.csv"
    source.write_text("text,label\n" + "".join(f"text {row},{'a' if row < 5 else ''}\n" for row in range(20)))
    with monkeypatch.context() as patch:
        patch.setattr(Project, "save", lambda project: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            open_project(str(source), store=store)
    service = LabelingService(*open_project(str(source), store=store))
    assert service.state.label_table.labels == dict.fromkeys(range(5), "a")
    assert len(service.state.label_table.events) == 5
    service.close()


def test_after_closing_nothing_is_taken_and_nobody_waits(tmp_path: Path, store: str | None) -> None:
    service = LabelingService(*make_project(tmp_path, store=store))
    service.close()
    with pytest.raises(StoreFailed, match="is closed"):
        answer(service, 1)


def test_a_column_of_texts_that_is_added_to_the_pool_changes_no_label(tmp_path: Path) -> None:
    rows = [f"id-{row},{row},{row * row % 7}" for row in range(20)]
    (tmp_path / "pool.csv").write_text("\n".join(["id,x,y", *rows]) + "\n")
    service = LabelingService(*open_project(str(tmp_path / "pool.csv"), classes=["left", "right"]))
    answer(service, 3)
    service.close()
    shuffled = [f"{row},a text" for row in rows[::-1]]
    (tmp_path / "pool.csv").write_text("\n".join(["id,x,y,text", *shuffled]) + "\n")
    state = read_state(service.state.project.folder)
    assert label_columns(state)["id"] == ["id-3"]
    assert label_columns(state)["index"] == [16]
