"""Tasks of a project, read and sent: what a server may answer that no recording holds."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dubito.cli.commands import label_studio as job
from dubito.errors import DubitoError, InvalidArgument, InvalidData
from dubito.integrations.exchange.items import Answer
from dubito.integrations.label_studio import LabelStudioProject, Server, Suggestion, find_project
from dubito.integrations.label_studio import pushing as pushing_module
from dubito.integrations.label_studio.client import Unreachable
from dubito.integrations.label_studio.picking import PoolPicker
from dubito.integrations.label_studio.projects import (
    DESCRIPTION,
    Control,
    LabelStudioTask,
    ProjectState,
    find_control,
    pull,
)
from dubito.integrations.label_studio.pushing import (
    SendOptions,
    check_sampling,
    check_storage,
    remove_copies,
    send,
    show_round_first,
)
from dubito.integrations.label_studio.watching import DueRound, WatchPlan, next_due, wait_for_server
from label_studio.scenarios import items, points
from label_studio.test_server import Answers, answering

CONTROL = Control("label", "item", "text", "text", ("cat", "dog"))


@contextmanager
def project(*given: tuple[int, Any]) -> Iterator[tuple[LabelStudioProject, Answers]]:
    with answering(*given) as (server, answers):
        yield LabelStudioProject(server, 7, "seven", CONTROL), answers


def task(number: int, name: str | None = None, **meta: object) -> dict[str, Any]:
    data = {"text": "a"} if name is None else {"text": "a", "dubito_id": name}
    return {"id": number, "data": data, "meta": meta, "overlap": 1}


def listed(*tasks: dict[str, Any], total: int | None = None) -> tuple[int, Any]:
    return 200, {"tasks": list(tasks), "total": len(tasks) if total is None else total}


def named(*names: str, round: int = 1, batch: int | None = None) -> tuple[LabelStudioTask, ...]:
    return tuple(
        LabelStudioTask(number, name, "dubito_id", round, batch, 1) for number, name in enumerate(names, start=1)
    )


def test_tasks_of_others_are_left_alone_and_ours_may_be_named_in_their_meta() -> None:
    with project(listed(task(3), task(2, "b"), task(1, None, dubito_index=4))) as (found, _):
        assert [(each.id, each.name, each.key) for each in found.tasks()] == [
            (1, "4", "dubito_index"),
            (2, "b", "dubito_id"),
        ]


def test_tasks_that_change_while_they_are_read_are_read_again() -> None:
    gone = (404, {"detail": "Invalid page."})
    with project(listed(task(1, "a"), total=2), gone, listed(task(1, "a"))) as (found, _):
        assert [each.name for each in found.tasks()] == ["a"]
    with (
        project(*[listed(task(1, "a"), total=2), gone] * 3) as (found, _),
        pytest.raises(DubitoError, match="they change while they are read"),
    ):
        found.tasks()


def test_a_copy_that_somebody_has_answered_stays() -> None:
    copies = listed(task(1, "a"), task(2, "a"), task(3, "a"), task(4, "a"))
    given = [
        copies,
        (200, {"annotations": [{"id": 1}]}),
        (200, {"annotations": []}),
        (204, None),
        (404, {"detail": "no"}),
    ]
    with project(*given) as (found, answers):
        assert remove_copies(found) == 2
    assert [each[:2] for each in answers.asked[1:]] == [
        ("GET", "/api/tasks/2/"),
        ("GET", "/api/tasks/3/"),
        ("DELETE", "/api/tasks/3/"),
        ("GET", "/api/tasks/4/"),
    ]


def test_large_batches_go_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushing_module, "MAX_TASKS", 2)
    with project(*[(201, {})] * 3) as (found, answers):
        assert send(found, [Suggestion(item) for item in items(5)], SendOptions(1), ()).added == 5
    assert [each[1] for each in answers.asked] == ["/api/projects/7/import"] * 3


def test_answers_that_are_lost_again_and_again_are_an_error_in_the_end() -> None:
    given = [(0, None), listed(), listed(), (0, None), listed(), listed(), listed(), (0, None)]
    with project(*given) as (found, _), pytest.raises(DubitoError, match="does not answer"):
        send(found, [Suggestion(item) for item in items(1)], SendOptions(1), ())


def test_what_cannot_be_sent_is_refused_before_anything_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with project() as (found, answers):
        with pytest.raises(InvalidData, match="the item 'i00' is among the picks twice"):
            send(found, [Suggestion(item) for item in [*items(2), *items(1)]], SendOptions(1), ())
        with pytest.raises(InvalidArgument, match="the class 'cow' is not a choice"):
            send(found, [Suggestion(items(1)[0], "cow", 0.5)], SendOptions(1), ())
        with pytest.raises(InvalidArgument, match=r"the project shows texts \(\$text\), and these items are images"):
            send(found, [Suggestion(item) for item in items(1, "image")], SendOptions(1), ())
        monkeypatch.setattr(pushing_module, "MAX_TASK_BYTES", 20)
        with pytest.raises(InvalidData, match="the item 'i00' takes"):
            send(found, [Suggestion(item) for item in items(1)], SendOptions(1), ())
        assert send(found, [], SendOptions(1), ()).added == 0
    assert answers.asked == []


def test_the_round_is_set_once() -> None:
    as_it_should_be = {"sampling": "Uncertainty sampling", "model_version": "dubito round 2"}
    with project((200, as_it_should_be)) as (found, answers):
        show_round_first(found, SendOptions(2, jump_ahead=True))
        show_round_first(found, SendOptions(2))
    assert len(answers.asked) == 1


def test_another_order_than_that_of_the_picks_is_noted() -> None:
    with project(*[(200, {"sampling": "Random sampling"})] * 2) as (found, _):
        assert check_sampling(found, jump_ahead=True) is None
        assert "project 7 has random sampling" in (check_sampling(found, jump_ahead=False) or "")


def test_a_storage_that_is_there_is_not_made_again() -> None:
    with project((200, [{"path": "/data/photos"}])) as (found, answers):
        check_storage(found, "/data/photos")
    assert len(answers.asked) == 1


def test_of_projects_that_dubito_made_twice_the_first_is_taken() -> None:
    parsed = {
        "label": {"type": "Choices", "to_name": ["t"], "labels": ["a"], "inputs": [{"type": "Text", "value": "text"}]}
    }
    made = [
        {"id": number, "title": "x", "description": DESCRIPTION, "parsed_label_config": parsed} for number in (5, 4)
    ]
    with answering((200, {"results": made})) as (server, _):
        assert find_project(server, "x").id == 4
    with answering() as (server, _), pytest.raises(InvalidArgument, match="is not the title of a project"):
        find_project(server, "x" * 51)
    with answering((200, [])) as (server, _), pytest.raises(DubitoError, match="as Label Studio does"):
        find_project(server, "x")
    with answering((403, {"detail": "no"})) as (server, _), pytest.raises(DubitoError, match="403: no"):
        find_project(server, "12")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"inputs": [{"type": "Audio", "value": "audio"}]}, "do not refer to exactly one <Text> or <Image>"),
        ({"inputs": [{"type": "Text", "value": "a b"}]}, "shows 'a b', which is not a single field"),
    ],
)
def test_a_config_that_would_not_show_the_items_is_refused(changed: dict[str, Any], said: str) -> None:
    control = {"type": "Choices", "to_name": ["t"], "labels": ["a"], "inputs": [], **changed}
    with pytest.raises(InvalidArgument, match=said):
        find_control({"id": 1, "parsed_label_config": {"label": control}})


def test_the_next_round_is_due_when_few_enough_are_open() -> None:
    answers = {1: [Answer("a", "dubito_id", "cat")], 2: [Answer("b", "dubito_id", None)]}
    done = ProjectState(named("a", "b", batch=2), answers)
    assert next_due(ProjectState((), {}), WatchPlan(3)) == DueRound(1, 3, 3)
    assert next_due(done, WatchPlan(3)) == DueRound(2, 3, 3)
    assert next_due(done, WatchPlan(3, rounds=1)) is None
    some = ProjectState(named("a", "b", "c", "d", batch=4), answers)
    assert next_due(some, WatchPlan(3)) is None
    assert next_due(some, WatchPlan(3, ahead=2)) == DueRound(2, 3, 3)
    assert next_due(ProjectState(named("a", "b", batch=5), answers), WatchPlan(3)) == DueRound(1, 5, 3)


def test_without_a_model_there_are_no_guesses() -> None:
    labels = {"i00": "cat", "i01": "dog"}
    for picker in (PoolPicker(points(6), items(6), model="none"), PoolPicker(points(6), items(6), guess=False)):
        assert [pick.guess for pick in picker(labels, set(labels), 2)] == [None, None]
    only_cats = PoolPicker(points(6), items(6))({"i00": "cat"}, {"i00"}, 1)
    assert only_cats[0].guess is None


def test_whoever_watches_waits_while_the_server_is_away_and_says_so_once() -> None:
    described: list[str] = []
    with project(*[(0, None)] * 6, (200, {"id": 7})) as (found, _):
        state = wait_for_server(found.state, WatchPlan(1, every=0.001), described.append)
    assert state == {"id": 7}
    assert len(described) == 1
    assert described[0].endswith("trying again until it answers, up to 5 minutes apart.")


def test_a_push_takes_away_copies_that_were_there_before() -> None:
    copies: tuple[int, Any] = (200, {"annotations": []})
    with project(listed(task(1, "i00"), task(2, "i00")), copies, (204, None)) as (found, answers):
        assert send(found, [Suggestion(items(1)[0])], SendOptions(1), named("i00", "i00")).removed == 1
    assert [each[:2] for each in answers.asked[1:]] == [("GET", "/api/tasks/2/"), ("DELETE", "/api/tasks/2/")]


@pytest.mark.parametrize("rest", [[listed(total=5)], [listed(task(1, "a"), total=5)]])
def test_a_server_that_counts_more_tasks_than_it_lists_is_an_error(rest: list[tuple[int, Any]]) -> None:
    given = [listed(task(1, "a"), total=5), *rest] * 3
    with project(*given) as (found, answers), pytest.raises(DubitoError) as error:
        pull(found)
    assert f"{found.server.url}/api/tasks?project=7 has total 5, but lists 1 tasks" in str(error.value)
    assert len(answers.asked) == len(given)


PAGE = {"tasks": [task(1, "a")], "total": 1}
EXPORT = [{"id": 1, "data": {"dubito_id": "a"}, "annotations": []}]


@pytest.mark.parametrize(
    ("page", "export", "said"),
    [
        (None, None, "/api/tasks as Label Studio does (expected an object with"),
        ([], None, "/api/tasks as"),
        ({"tasks": 5, "total": 1}, None, "/api/tasks as"),
        ({"tasks": [5], "total": 1}, None, "/api/tasks as"),
        ({"tasks": [{"id": "x"}], "total": 1}, None, "/api/tasks as"),
        ({"tasks": [], "total": "1"}, None, "/api/tasks as"),
        ({"tasks": [], "total": None}, None, "/api/tasks as"),
        ({"tasks": [{**task(1, "a"), "meta": 5}], "total": 1}, None, "/api/tasks as"),
        ({"tasks": [{**task(1, "a"), "overlap": "many"}], "total": 1}, None, "/api/tasks as"),
        ({"tasks": [task(1, "a", dubito_round=[1])], "total": 1}, None, "/api/tasks as"),
        ({"tasks": [task(1, "a", dubito_batch="x")], "total": 1}, None, "/api/tasks as"),
        (PAGE, None, "/export as Label Studio does (expected a list of tasks"),
        (PAGE, {"detail": "no"}, "/export as"),
        (PAGE, [5], "/export as"),
        (PAGE, [{**EXPORT[0], "id": None}], "/export as"),
        (PAGE, [{**EXPORT[0], "annotations": [5]}], "/export as"),
        (PAGE, [{**EXPORT[0], "annotations": {"a": 1}}], "/export as"),
        (PAGE, [{**EXPORT[0], "annotations": [{"result": [{"value": 5}]}]}], "/export as"),
        (PAGE, [{"id": 1}], "/export as"),
    ],
)
def test_an_answer_of_another_form_is_named_with_what_was_expected(page: object, export: object, said: str) -> None:
    with project((200, page), (200, export)) as (found, _), pytest.raises(DubitoError) as error:
        pull(found)
    assert str(error.value).startswith(f"{found.server.url} does not answer /api/")
    assert said in str(error.value)


@pytest.mark.parametrize("wanted", ["7", "seven"])
@pytest.mark.parametrize(
    "answer", [None, [], 5, {"id": 7}, {"results": 5}, {"results": [5]}, {"results": [{"title": "seven"}]}]
)
def test_a_project_of_another_form_is_named_with_what_was_expected(wanted: str, answer: object) -> None:
    with answering((200, answer)) as (server, _), pytest.raises(DubitoError, match=r"/api/projects/ as .*\(expected"):
        find_project(server, wanted)


def watching(server: Server, folder: Path) -> None:
    keeper = job.LabelFiles(str(folder / "labels.csv"), None, force=False, classes=[])
    plan, shown = WatchPlan(1, every=0.001), job.DisplayOptions(None, "", None, None)
    job.watch_project(server, "7", PoolPicker(points(2), items(2)), plan, keeper, shown)


def test_a_watch_waits_for_the_server_from_its_first_request_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "watch_rounds", lambda *given, **named: None)
    away: list[tuple[int, Any]] = [(0, None), (503, None), (504, None)]
    inputs = [{"type": "Text", "value": "text"}]
    parsed = {"label": {"type": "Choices", "to_name": ["t"], "labels": ["a"], "inputs": inputs}}
    there = {"id": 7, "title": "seven", "parsed_label_config": parsed, "sampling": "Sequential sampling"}
    found = (200, there)
    with answering(*away, found, *away, found, found) as (server, answers):
        watching(server, tmp_path)
    assert len(answers.asked) == 9
    said = capsys.readouterr().err
    assert said.count("; trying again until it answers") == 1
    assert "watching 'seven'" in said


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_watch_ends_at_once_where_no_waiting_helps(tmp_path: Path, status: int) -> None:
    with answering((status, {"detail": "no"})) as (server, answers), pytest.raises(DubitoError):
        watching(server, tmp_path)
    assert len(answers.asked) == 1


def test_pauses_of_a_watch_double_up_to_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("dubito.integrations.label_studio.watching.time.sleep", pauses.append)
    left = [Unreachable("away")] * 8

    def ask() -> str:
        if left:
            raise left.pop()
        return "there"

    assert wait_for_server(ask, WatchPlan(1, every=10.0), lambda text: None) == "there"
    assert pauses == [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0]
