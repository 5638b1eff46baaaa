"""The store: nothing acknowledged is lost or doubled, and what it holds is what the log says."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import insert, select, text, update

from dubito.errors import DubitoError, InvalidArgument, InvalidData
from dubito.labeling import database as schema
from dubito.labeling.creation import open_project
from dubito.labeling.database import StoreFailed, open_engine
from dubito.labeling.events import Event, LabelTable
from dubito.labeling.service import AnswerIn, Conflict, LabelingService
from dubito.labeling.store import read_events
from labeling.projects import make_project, truth
from levels import examples


def service_of(folder: Path, store: str | None, **given: int) -> LabelingService:
    return LabelingService(*make_project(folder, store=store, **given))


def answer(
    service: LabelingService, row: int, who: str = "ann", key: str | None = None, label: str | None = "left"
) -> None:
    service.answer([AnswerIn(key or f"{who}-{row}", who, row, label)]).result()


def test_what_was_answered_is_there_after_opening_the_project_again(tmp_path: Path, store: str | None) -> None:
    service = service_of(tmp_path, store)
    for row in range(5):
        answer(service, row, label=truth(row))
    answer(service, 9, label=None)
    service.undo("u", "ann").result()
    labels, leases = dict(service.state.label_table.labels), dict(service.state.queue.held_by("ann"))
    service.close()
    again = LabelingService(*open_project(service.state.project.folder))
    assert again.state.label_table.labels == labels == {row: truth(row) for row in range(5)}
    assert again.state.queue.held_by("ann") == pytest.approx(leases, abs=60)
    assert again.undo("u2", "ann").result().event.item == 4
    again.close()


def test_a_key_that_is_sent_many_times_at_once_is_one_event(tmp_path: Path, store: str | None) -> None:
    service = service_of(tmp_path, store)
    with ThreadPoolExecutor(8) as people:
        done = list(people.map(lambda _: service.answer([AnswerIn("k", "ann", 3, "left")]).result()[0], range(40)))
    assert {each.event.number for each in done} == {1}
    assert sum(each.is_new for each in done) == 1
    with pytest.raises(Conflict, match="sent with another label"):
        service.answer([AnswerIn("k", "bob", 3, "left")]).result()
    service.close()


@pytest.mark.parametrize("gone", ["labels.sqlite", "labels.sqlite-wal"])
def test_nothing_is_acknowledged_once_the_file_is_gone(tmp_path: Path, gone: str) -> None:
    service = service_of(tmp_path, None)
    answer(service, 0)
    (Path(service.state.project.folder) / gone).unlink()
    for _ in range(2):
        with pytest.raises(StoreFailed, match="removed or replaced while this server has it open"):
            answer(service, 1)
        assert "removed or replaced" in service.failures()["store"]
        assert service.state.label_table.labels == {0: "left"}
    service.close()


def test_a_backup_that_is_copied_over_the_file_in_use_is_noticed(tmp_path: Path) -> None:
    service = service_of(tmp_path, None)
    answer(service, 0)
    service.close()
    path = Path(service.state.project.folder) / "labels.sqlite"
    backup = path.read_bytes()
    service = LabelingService(*open_project(service.state.project.folder))
    answer(service, 1)
    path.write_bytes(backup)  # The same file, with older contents.
    for _ in range(2):
        with pytest.raises(StoreFailed, match=r"another program has written .* while this server has it open"):
            answer(service, 2)
    assert "another program has written" in service.failures()["store"]
    assert service.state.label_table.labels == {0: "left", 1: "left"}
    service.close()


def test_one_wrong_label_among_many_keeps_none_of_them(tmp_path: Path, store: str | None) -> None:
    service = service_of(tmp_path, store)
    answer(service, 0, key="taken")
    both = [AnswerIn("fresh", "ann", 1, "left"), AnswerIn("taken", "ann", 2, "left")]
    with pytest.raises(Conflict):
        service.answer(both).result()
    assert service.state.label_table.labels == {0: "left"}
    service.close()


def test_an_operation_that_fails_takes_nothing_with_it(tmp_path: Path, store: str | None) -> None:
    service = service_of(tmp_path, store)
    gate = threading.Event()
    held = service._writer.submit(lambda connection: gate.wait(60))
    # The three wait, so that they are committed together; the one in the middle breaks the transaction.
    first = service.answer([AnswerIn("a", "ann", 1, "left")])
    broken = service._writer.submit(lambda connection: connection.execute(text("SELECT * FROM no_such_table")))
    last = service.answer([AnswerIn("b", "ann", 2, "right")])
    gate.set()
    held.result()
    assert first.result()[0].event.number == 1
    with pytest.raises(DubitoError, match="could not be saved"):
        broken.result()
    assert last.result()[0].event.number == 2
    assert service.state.label_table.labels == {1: "left", 2: "right"}
    service.close()
    again = LabelingService(*open_project(service.state.project.folder))
    assert again.state.label_table.labels == {1: "left", 2: "right"}
    again.close()


def test_the_view_of_answers_is_what_the_book_says(tmp_path: Path, store: str | None) -> None:
    service = service_of(tmp_path, store)
    for number, (who, row, label) in enumerate(
        [("ann", 1, "left"), ("bob", 1, "right"), ("ann", 1, "right"), ("ann", 2, None), ("bob", 2, "left")]
    ):
        answer(service, row, who, f"k{number}", label)
    service.undo("u1", "bob").result()
    service.undo("u2", "ann").result()
    service.undo("u3", "ann").result()
    engine = open_engine(service.state.project.folder, store, read_only=True)
    with engine.connect() as connection:
        seen = {(row[0], row[1]): row[2] for row in connection.execute(text("SELECT * FROM dubito_answers"))}
        events = read_events(connection)
    table = service.state.label_table
    assert seen == {
        (item, who): event.label for item in table.answers for who, event in table.current_answers(item).items()
    }
    assert seen == {(1, "ann"): "left", (1, "bob"): "right"}
    assert LabelTable(events).labels == table.labels
    service.close()


def test_a_second_server_on_one_project_is_refused_in_a_line(tmp_path: Path, store: str | None) -> None:
    service = service_of(tmp_path, store)
    service.lock.write_address("http://127.0.0.1:8901/")
    with pytest.raises(InvalidArgument, match=r"another labeling server has .*, at http://127.0.0.1:8901/; use its"):
        LabelingService(*open_project(service.state.project.folder))
    service.close()
    LabelingService(*open_project(service.state.project.folder)).close()


def test_an_older_store_is_brought_up_to_date_with_its_labels(tmp_path: Path, store: str | None) -> None:
    service = service_of(tmp_path, store)
    answer(service, 3)
    service.close()
    project = service.state.project
    engine = open_engine(project.folder, store)
    with engine.begin() as connection:
        connection.execute(text("DROP VIEW dubito_answers"))
        for column in ("seconds", "new_label"):
            connection.execute(text(f"ALTER TABLE dubito_events DROP COLUMN {column}"))
        for column in ("estimated", "estimated_low", "estimated_high"):
            connection.execute(text(f"ALTER TABLE dubito_rounds DROP COLUMN {column}"))
        connection.execute(update(schema.facts).where(schema.facts.c.name == "schema").values(value="1"))
    again = LabelingService(*open_project(project.folder))
    assert again.state.label_table.labels == {3: "left"}
    again.answer([AnswerIn("new", "ann", 4, "left", seconds=1.5)]).result()
    again.close()
    with engine.connect() as connection:
        assert [event.seconds for event in read_events(connection)] == [None, 1.5]
        version = select(schema.facts.c.value).where(schema.facts.c.name == "schema")
        assert connection.execute(version).scalar() == str(schema.VERSION)


def test_a_store_of_a_newer_dubito_or_of_another_project_is_refused(tmp_path: Path, store: str | None) -> None:
    service = service_of(tmp_path, store)
    service.close()
    project = service.state.project
    engine = open_engine(project.folder, store)
    for name, value, described in (("schema", "99", "schema 99"), ("project", "another", "to another project")):
        with engine.begin() as connection:
            before = connection.execute(select(schema.facts.c.value).where(schema.facts.c.name == name)).scalar()
            connection.execute(update(schema.facts).where(schema.facts.c.name == name).values(value=value))
        with pytest.raises(InvalidData, match=described):
            LabelingService(*open_project(project.folder))
        with engine.begin() as connection:
            connection.execute(update(schema.facts).where(schema.facts.c.name == name).values(value=before))


def test_no_key_is_twice_in_the_log_whoever_writes_it(tmp_path: Path, store: str | None) -> None:
    service = service_of(tmp_path, store)
    answer(service, 3, key="k")
    service.close()
    engine = open_engine(service.state.project.folder, store)
    event = {"number": 2, "key": "k", "kind": "label", "annotator": "b", "item": 1, "round": 0, "at": 0.0}
    with pytest.raises(Exception, match=r"UNIQUE|unique"), engine.begin() as connection:
        connection.execute(insert(schema.events), {**event, "guess_seen": False, "why": ""})


Move = tuple[str, int, str | None]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.sampled_from(["x", "y", None, "undo"]))))
@settings(max_examples=examples(200))
def test_a_label_table_is_the_same_updated_or_rebuilt(moves: list[Move]) -> None:
    table, events = LabelTable(overlap=2), []
    for number, (who, item, label) in enumerate(moves, start=1):
        event = Event(number, f"k{number}", "label" if label else "skip", who, item, label, 0, None, float(number))
        if label == "undo":
            last = table.last_of(who)
            if last is None:
                continue
            event = Event(number, f"k{number}", "undo", who, last.item, None, 0, last.number, float(number))
        table.add(event)
        events.append(event)
    again = LabelTable(events, overlap=2)
    assert (table.labels, table.skipped, set(table.partial)) == (again.labels, again.skipped, set(again.partial))
    check_by_hand(table, events)


def check_by_hand(table: LabelTable, events: list[Event]) -> None:
    """The same out of the log in the most obvious way."""
    undone = {event.target for event in events}
    said: dict[int, dict[str, Event]] = {}
    for event in events:
        if event.kind != "undo" and event.number not in undone:
            said.setdefault(event.item, {})[event.annotator] = event

    def count(item: int, label: str) -> int:
        return sum(event.label == label for event in said[item].values())

    for item in range(4):
        labels = [event.label for event in said.get(item, {}).values() if event.label]
        assert (item in table.labels) == bool(labels)
        assert (item in table.skipped) == (item in said and not labels)
        if labels:
            assert count(item, table.labels[item]) == max(count(item, label) for label in labels)
