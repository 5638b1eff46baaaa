"""Classes that are renamed, merged, removed and restored while labels keep coming, and the keys of classes."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from dubito.errors import DubitoError, InvalidArgument
from dubito.labeling import worker
from dubito.labeling.creation import open_project
from dubito.labeling.database import open_engine
from dubito.labeling.events import Event, LabelTable
from dubito.labeling.export import export_labels, label_columns
from dubito.labeling.project import KEYS, Project, assign_keys, read_project
from dubito.labeling.service import AnswerIn, ClassChangeIn, Conflict, LabelingService
from dubito.labeling.state import RoundModel, read_state
from dubito.labeling.user_probabilities import save_probabilities
from dubito.labeling.views import annotator_facts, class_facts, project_facts
from labeling.projects import make_project, write_rows


@pytest.fixture
def service(tmp_path: Path, store: str | None) -> Iterator[LabelingService]:
    opened = LabelingService(*make_project(tmp_path, store=store))
    yield opened
    opened.close()


def answer(
    service: LabelingService, row: int, label: str | None, who: str = "ann", class_event: int | None = None
) -> None:
    service.answer([AnswerIn(f"{who}-{row}-{label}", who, row, label, class_event=class_event)]).result()


def change(service: LabelingService, kind: str, *names: str, key: str | None = None) -> bool:
    number = service.state.label_table.last
    given = ClassChangeIn(key or f"{kind}-{number}", "ann", kind, *names)  # type: ignore[arg-type]
    return service.change_class(given).result()


def labels(service: LabelingService) -> dict[int, str]:
    return service.state.label_table.labels


def classes(service: LabelingService) -> tuple[str, ...]:
    return service.state.project.classes


def test_labels_follow_a_class_that_is_renamed_and_its_key_stays(service: LabelingService) -> None:
    answer(service, 0, "left")
    change(service, "rename", "left", "port")
    answer(service, 1, "port")
    assert (labels(service), classes(service)) == ({0: "port", 1: "port"}, ("port", "right"))
    assert service.state.project.keys == {"port": "1", "right": "2"}
    assert label_columns(service.state)["label"] == ["port", "port"]
    assert b"left" not in export_labels(service.state, "csv", safe=True).data
    change(service, "undo")
    assert (labels(service), classes(service)) == ({0: "left", 1: "left"}, ("left", "right"))


def test_a_merge_and_its_undo_move_only_the_labels_given_before(service: LabelingService) -> None:
    answer(service, 0, "left")
    answer(service, 1, "right")
    change(service, "merge", "left", "right")
    answer(service, 2, "right")
    assert (labels(service), classes(service)) == ({0: "right", 1: "right", 2: "right"}, ("right",))
    change(service, "undo")
    assert (labels(service), classes(service)) == ({0: "left", 1: "right", 2: "right"}, ("left", "right"))
    assert class_facts(service)["last_change"] is None


def test_items_of_a_removed_class_are_asked_about_again_until_it_is_restored(service: LabelingService) -> None:
    answer(service, 0, "left")
    answer(service, 1, None)
    change(service, "remove", "left")
    assert labels(service) == {}
    assert not service.state.label_table.has_answered(0, "ann")
    assert (annotator_facts(service)["annotators"][0]["labels"], service.state.label_table.skipped) == (0, {1})
    change(service, "undo")
    assert (labels(service), classes(service)) == ({0: "left"}, ("left", "right"))


def test_a_class_that_was_added_by_mistake_gives_its_key_back(service: LabelingService) -> None:
    service.add_class("9").result()
    service.add_class("nein").result()
    assert service.state.project.keys == {"left": "1", "right": "2", "9": "9", "nein": "3"}
    change(service, "remove", "nein")
    service.add_class("up").result()
    assert service.state.project.keys == {"left": "1", "right": "2", "9": "9", "up": "3"}


def test_a_class_that_is_restored_has_its_key_again_unless_another_has_it(service: LabelingService) -> None:
    service.add_class("up").result()
    service.change(None, {}, None, {"up": "u"}).result()
    change(service, "merge", "up", "left")
    change(service, "undo")
    assert service.state.project.keys == {"left": "1", "right": "2", "up": "u"}
    assert read_project(service.state.project.folder).keys["up"] == "u"
    change(service, "remove", "up")
    service.change(None, {}, None, {"left": "u"}).result()
    change(service, "undo")
    assert service.state.project.keys == {"left": "u", "right": "2", "up": "1"}


def test_a_class_named_like_a_digit_gets_its_key_from_the_class_that_has_it(tmp_path: Path) -> None:
    classes = ["yes", *(f"class {number}" for number in range(2, 9)), "nein"]
    service = LabelingService(*open_project(str(write_rows(tmp_path)), classes=classes))
    service.add_class("9").result()
    keys = service.state.project.keys
    assert (keys["nein"], keys["9"]) == ("9", "a")
    service.change(None, {}, None, {"9": "9"}).result()
    keys = service.state.project.keys
    assert (keys["nein"], keys["9"]) == ("a", "9")
    service.close()


def test_classes_are_put_in_another_order_and_get_chosen_keys(service: LabelingService) -> None:
    service.add_class("nein").result()
    service.change(None, {}, ["nein", "right", "left"], {"nein": "1"}).result()
    facts = project_facts(service)
    assert facts["classes"] == ["nein", "right", "left"]
    assert facts["keys"] == {"nein": "1", "right": "2", "left": "3"}
    assert read_project(service.state.project.folder).keys == facts["keys"]
    for order, keys, problem in (
        (["left"], None, "the order does not have the current classes"),
        (None, {"left": "g"}, "'g' cannot be the key"),
        (None, {"left": "5", "right": "5"}, "the same key"),
        (None, {"down": "5"}, "no class 'down'"),
    ):
        with pytest.raises(InvalidArgument, match=problem):
            service.change(None, {}, order, keys).result()


def test_a_label_that_was_on_its_way_while_its_class_changed_is_understood(service: LabelingService) -> None:
    before = project_facts(service)["class_event"]
    change(service, "rename", "left", "port")
    answer(service, 0, "left")
    # The names are exchanged: what the page meant depends on what it knew.
    change(service, "rename", "right", "left")
    now = project_facts(service)["class_event"]
    answer(service, 1, "left", class_event=before)
    answer(service, 2, "left", class_event=now)
    assert labels(service) == {0: "port", 1: "port", 2: "left"}
    change(service, "remove", "left")
    with pytest.raises(InvalidArgument, match="was removed"):
        answer(service, 3, "left", class_event=now)


def test_a_label_that_is_sent_again_after_a_rename_is_stored_once(service: LabelingService) -> None:
    given = AnswerIn("k", "ann", 0, "left", class_event=0)
    service.answer([given]).result()
    change(service, "rename", "left", "port")
    assert not service.answer([given]).result()[0].is_new
    assert len(service.state.label_table.events) == 2


def test_a_change_that_another_person_has_overtaken_is_refused(service: LabelingService) -> None:
    assert change(service, "rename", "left", "port", key="k")
    assert not change(service, "rename", "left", "port", key="k")
    for kind, names, problem in (
        ("rename", ("left", "starboard"), "no class 'left'; it is called 'port' now"),
        ("rename", ("port", "right"), "a class 'right' already"),
        ("merge", ("port", "down"), "'down' is not another class"),
        ("remove", ("down",), "no class 'down'"),
    ):
        with pytest.raises(Conflict, match=problem):
            change(service, kind, *names)
    with pytest.raises(Conflict, match="no such change"):
        service.change_class(ClassChangeIn("u", "bob", "undo", number=17)).result()
    answer(service, 0, "port")
    with pytest.raises(Conflict, match="was sent with a label"):
        change(service, "remove", "port", key="ann-0-port")
    change(service, "undo")
    with pytest.raises(Conflict, match="no such change"):
        change(service, "undo")


def test_changes_survive_a_restart_also_if_only_the_log_has_them(service: LabelingService, tmp_path: Path) -> None:
    answer(service, 0, "left")
    older = Path(service.state.project.path("project.toml")).read_bytes()
    change(service, "rename", "left", "port")
    change(service, "merge", "right", "port")
    assert read_state(service.state.project.folder).label_table.labels == {0: "port"}
    service.close()
    Path(service.state.project.path("project.toml")).write_bytes(older)
    again = LabelingService(*open_project(service.state.project.folder))
    assert (labels(again), classes(again)) == ({0: "port"}, ("port",))
    change(again, "undo")
    assert classes(again) == ("port", "right")
    again.close()


def test_the_view_of_answers_has_the_current_names(service: LabelingService) -> None:
    service.add_class("up").result()
    for row, label in enumerate(["left", "right", "up", None, "left"]):
        answer(service, row, label)
    change(service, "rename", "left", "port")
    change(service, "merge", "right", "port")
    change(service, "remove", "up")
    answer(service, 5, "port")
    change(service, "undo")
    change(service, "undo")
    change(service, "remove", "port")
    with open_engine(service.state.project.folder, service.state.project.store, read_only=True).connect() as connection:
        seen = {(row[0], row[1]): row[2] for row in connection.execute(text("SELECT * FROM dubito_answers"))}
    table = service.state.label_table
    assert seen == {(1, "ann"): "right", (2, "ann"): "up", (3, "ann"): None}
    assert seen == {
        (item, who): event.label for item in table.current for who, event in table.current_answers(item).items()
    }


def test_predictions_follow_the_classes(tmp_path: Path) -> None:
    none = np.empty(0)
    model = RoundModel(1, np.array([[0.4, 0.35, 0.25]]), ("a", "b", "c"), none, none, (), none)
    assert model.with_names({"x": "y"}) is model
    assert model.with_names({"b": "d", "c": "d"}).guess(0) == ("d", 0.6)
    assert model.with_names({"a": None}).guess(0) == ("b", 0.35)
    assert model.with_names({"a": None, "b": None, "c": None}).guess(0) is None
    project, contents = make_project(tmp_path)
    np.savez(tmp_path / "mine.npz", probabilities=np.full((60, 2), 0.5), classes=np.array(["left", "right"]))
    save_probabilities(project, contents, str(tmp_path / "mine.npz"))
    service = LabelingService(project, contents)
    change(service, "rename", "left", "port")
    job = {**service.loop._job(), "last_batch": None}
    service.close()
    assert worker._parse_job(project, worker.ProjectPool(project), job).classes == ("port", "right")


CHANGE = st.tuples(
    st.sampled_from(["label", "rename", "merge", "remove", "undo"]), st.integers(0, 9), st.integers(0, 9)
)


@given(st.lists(CHANGE, max_size=40))
def test_every_label_stays_with_its_class_whatever_happens_to_it(steps: list[tuple[str, int, int]]) -> None:
    """Against a book that keeps an object for each class instead of names."""
    project, table, owner = Project("p", "i", "s", "p", ("a", "b", "c")), LabelTable(), dict[int, object]()
    here: dict[str, object] = {name: object() for name in project.classes}
    into: dict[object, object] = {}
    undone: list[tuple[str, object]] = []
    for number, (kind, first, second) in enumerate(steps, start=1):
        names = list(project.classes)
        label = names[first % len(names)] if names else None
        last = table.undoable_change()
        if kind == "undo" and last is not None:
            done, before = undone.pop()
            if done == "rename":
                new, old = last.new_label, last.label
                if old in names or new not in names:
                    return
                event = Event(number, str(number), "rename", "x", 0, new, 0, last.number, 0.0, new_label=old)
                here[str(old)] = here.pop(str(new))
            else:
                event = Event(number, str(number), "undo", "x", 0, None, 0, last.number, 0.0)
                into.pop(before)
                here[str(last.label)] = before
        elif kind == "label" and label is not None:
            event = Event(number, str(number), "label", "x", number, label, 0, None, 0.0)
            owner[number] = here[label]
        elif kind in ("rename", "merge", "remove") and label is not None:
            new = f"n{number}" if kind == "rename" else names[second % len(names)] if kind == "merge" else None
            if new == label:
                continue
            event = Event(number, str(number), kind, "x", 0, label, 0, None, 0.0, new_label=new)  # type: ignore[arg-type]
            moved = here.pop(label)
            undone.append((kind, moved))
            if kind == "rename":
                here[str(new)] = moved
            else:
                into[moved] = None if new is None else here[new]
        else:
            continue
        table.add(event)
        if kind != "label":
            project = project.with_change(event, None if event.target is None else table.events[event.target])
        assert set(project.classes) == set(here)
    name_of = {id(each): name for name, each in here.items()}
    expected = {}
    for item, each in owner.items():
        while each in into:
            each = into[each]
        if each is not None:
            expected[item] = name_of[id(each)]
    assert table.labels == LabelTable(table.events.values()).labels == expected


def test_a_class_has_the_key_of_its_name_or_a_free_one_and_keeps_it() -> None:
    names = [f"class {number}" for number in range(40)]
    keys = assign_keys(names, {})
    assert [keys[name] for name in names[:9]] == list("123456789")
    assert len(keys) == len(set(keys.values())) == 27
    assert not set("lgimcrht") & {*KEYS, "0"}
    assert list(assign_keys(list("0123456789"), {}).values()) == list("0123456789")
    assert list(assign_keys(["neun", "9", "eins", "1", "10"], {}).values()) == ["2", "9", "3", "1", "a"]
    assert list(assign_keys(["A", "a", "g"], {}).values()) == ["a", "1", "2"]
    assert list(assign_keys(["0", "1", "10", "11", "2", "3"], {}).values()) == ["0", "1", "a", "b", "2", "3"]
    project = Project("p", "i", "s", "p")
    for name in ("cat", "dog", "2", "d", "D", "10", "x", "9", "A", "a"):
        before = project.keys
        project = project.with_class(name)
        assert {**project.keys, **before} == project.keys


def test_a_project_without_keys_gets_those_that_it_had(tmp_path: Path) -> None:
    project, _ = make_project(tmp_path)
    path = Path(project.path("project.toml"))
    path.write_text(path.read_text().partition("[keys]")[0])
    assert read_project(project.folder).chosen_keys == {}
    assert read_project(project.folder).keys == {"left": "1", "right": "2"}


def test_a_class_event_in_a_wrong_type_is_an_error(tmp_path: Path) -> None:
    project, _ = make_project(tmp_path)
    path = Path(project.path("project.toml"))
    path.write_text(f'class_event = "x"\n{path.read_text()}')
    with pytest.raises(DubitoError, match="class_event"):
        read_project(project.folder)
