"""When a round is due, what it is reported, and what becomes of a worker that fails."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dubito.labeling import learner as loop_module
from dubito.labeling.creation import open_project
from dubito.labeling.events import Event
from dubito.labeling.learner import WorkerFailed, _blind_hits, _remove_old_models
from dubito.labeling.project import LAYOUT
from dubito.labeling.service import AnswerIn, LabelingService
from dubito.labeling.store import Pick
from dubito.labeling.views import _pick_order, curve_facts
from labeling.projects import copy_played, make_project, truth, wait_until


def say(service: LabelingService, row: int, label: str | None, who: str = "ann") -> None:
    key = f"{who}-{service.state.label_table.last + 1}"
    service.answer([AnswerIn(key, who, row, label)]).result()


def set_picks(service: LabelingService, items: list[int]) -> None:
    """As if the last round had picked these."""
    service.state.queue.replace([Pick(1, rank, item, "first") for rank, item in enumerate(items)])


def test_corrections_start_a_round_as_labels_do_and_labels_that_are_taken_back_do_not_count(tmp_path: Path) -> None:
    service = LabelingService(*copy_played(tmp_path))
    for row in range(9):
        say(service, row, "left")
    for row in range(4):
        say(service, row, "right")  # The same items, which the model has not learned yet.
    say(service, 10, "left")
    assert service.loop._is_due()
    service.undo("u1", "ann").result()
    assert not service.loop._is_due()
    say(service, 10, None)
    assert not service.loop._is_due()
    say(service, 11, "left")
    assert service.loop._is_due()
    service.close()
    again = LabelingService(*open_project(service.state.project.folder))
    assert again.loop._is_due()
    again.start()
    wait_until(lambda: again.state.round == 2)
    assert not again.loop._is_due()
    again.close()
    again = LabelingService(*open_project(service.state.project.folder))
    assert (again.state.trained_event, again.state.changes_since_round()) == (17, 0)
    say(again, 4, "right")
    last = again.state.label_table.last_of("ann")
    assert last is not None
    again.undo_answers("u2", "ann", [last.number, 5]).result()
    assert again.state.changes_since_round() == 1
    again.close()


def test_without_a_record_of_what_the_last_round_learned_labels_are_counted(tmp_path: Path) -> None:
    service = LabelingService(*copy_played(tmp_path))
    service.state.trained_event = None
    for row in range(9):
        say(service, row, "left")
        say(service, row, "right")
    assert not service.loop._is_due()
    say(service, 9, "left")
    assert service.loop._is_due()
    service.close()


@pytest.mark.parametrize("label", ["left", None])
def test_picks_that_are_all_answered_are_spent_labeled_or_skipped(tmp_path: Path, label: str | None) -> None:
    service = LabelingService(*copy_played(tmp_path))
    set_picks(service, [])
    assert not service.loop._is_due()  # Nothing was answered: another round would pick no more.
    set_picks(service, [3, 4])
    say(service, 3, label)
    assert not service.loop._is_due()
    say(service, 4, label)
    assert service.loop._is_due()
    service.close()


def test_picks_are_spent_as_long_as_what_may_be_asked_for_is_unanswered(tmp_path: Path) -> None:
    service = LabelingService(*copy_played(tmp_path))
    for row in range(6):
        say(service, row, truth(row))
    set_picks(service, [20])
    service.restrict("only", [20, 21, 22]).result()
    say(service, 20, None)
    assert service.loop._is_due()  # More items have answers than may be asked for; two of these have none.
    set_picks(service, [21, 22])
    say(service, 21, None)
    say(service, 22, "left")
    assert not service.loop._is_due()
    service.close()


def test_an_item_whose_answer_was_taken_back_and_one_whose_lease_ran_out_may_be_picked_again(tmp_path: Path) -> None:
    service = LabelingService(*copy_played(tmp_path), lease=0.0)
    say(service, 7, "right")
    service.undo("u", "ann").result()
    assert len(service.ask("bob", 3).result()) == 3
    say(service, 8, None)
    assert service.loop._job()["closed"] == [8]
    service.close()


def test_what_was_foreseen_is_what_the_page_counts(tmp_path: Path) -> None:
    service = LabelingService(*copy_played(tmp_path))
    table = service.state.label_table

    def add(row: int, label: str, guess: str, **given: Any) -> None:
        number = table.last + 1
        facts = {"guess": guess, "sure": 0.9, **given}
        table.add(Event(number, f"k{number}", "label", "ann", row, label, 1, None, 0.0, **facts))

    assert _blind_hits(service.state) is None
    add(0, "left", "left")
    add(1, "right", "left")
    add(2, "left", "left", guess_seen=True)
    add(3, "left", "left")
    table.add(Event(table.last + 1, "u", "undo", "ann", 3, None, 1, table.last, 0.0))
    assert _blind_hits(service.state) == [1, 2]
    assert curve_facts(service)["guessed"] == [{"labels": 0, "right": 1, "of": 2}]
    service.close()


def test_the_order_of_picks_is_that_of_rounds_without_what_was_never_answered(tmp_path: Path) -> None:
    service = LabelingService(*copy_played(tmp_path))
    state = service.state
    state.picks = [Pick(0, rank, item, "first") for rank, item in enumerate([5, 6, 7])]
    state.picks += [Pick(state.round, rank, item, "covers") for rank, item in enumerate([9, 6, 8])]
    say(service, 7, None)
    say(service, 9, "left")
    say(service, 30, "left")
    order = _pick_order(state)
    assert {item: int(place) for item, place in enumerate(order) if place >= 0} == {7: 0, 9: 1, 6: 2, 8: 3}
    service.close()


def test_a_clock_that_was_wrong_holds_no_item_for_longer_than_a_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = LabelingService(*copy_played(tmp_path))
    wall, days = time.time, 400 * 86_400.0
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: wall() + days)
        anns = service.ask("ann", 3).result()
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: wall() - days)
        assert service.ask("ann", 3).result() == anns
        assert not {pick.item for pick in anns} & {pick.item for pick in service.ask("bob", 3).result()}
    service.close()
    again = LabelingService(*open_project(service.state.project.folder))
    held = again.state.queue.held_by("ann")
    assert list(held) == [pick.item for pick in anns]
    assert all(until <= time.monotonic() + again.state.lease for until in held.values())
    again.close()


def test_what_a_library_prints_is_not_taken_for_an_answer_of_the_worker(tmp_path: Path) -> None:
    project, _ = make_project(tmp_path)
    program = """
import os, sys
from dubito.labeling import worker
answer = worker._run_job
def noisy(*given):
    print("a line", flush=True)
    os.write(1, b"another\\n")
    assert not sys.stdin.read()
    return answer(*given)
worker._run_job = noisy
worker.main(sys.argv[1])
"""
    command = [sys.executable, "-c", program, project.folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as ran:
        assert ran.stdin is not None
        assert ran.stdout is not None
        for _ in range(2):
            ran.stdin.write('{"task": "layout"}\n')
            ran.stdin.flush()
            assert json.loads(ran.stdout.readline()) == {"task": "layout"}
        ran.stdin.close()
        assert ran.stdout.read() == ""


def test_a_worker_that_is_killed_each_time_is_named_and_does_not_keep_the_machine_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = LabelingService(*make_project(tmp_path))
    waits: list[int] = []

    def noted(n_failed: int) -> float:
        waits.append(n_failed)
        return 0.01

    monkeypatch.setattr(loop_module, "_retry_delay", noted)
    fails = tmp_path / "fails"
    fails.write_text("#!/bin/sh\nkill -9 $$\n")
    fails.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fails))
    service.start()
    wait_until(lambda: len(waits) >= 4)
    assert waits[:4] == [1, 2, 3, 4]
    assert "was killed, which happens when memory runs out" in service.failures()["learning"]
    monkeypatch.undo()
    service.loop.request_round()
    wait_until(lambda: service.state.round == 1 and not service.failures())
    assert service.loop._n_failed == 0
    service.close()


def test_a_map_that_could_not_be_made_is_tried_again_at_the_next_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "FIRST_RETRY", 0.01)
    project, contents = copy_played(tmp_path)
    Path(project.path(LAYOUT)).unlink()
    service = LabelingService(project, contents)
    send, is_broken = service.loop._send, [True]

    def failing(job: dict[str, Any]) -> dict[str, Any]:
        if job["task"] == "layout" and is_broken[0]:
            raise WorkerFailed("no room for a map")
        return send(job)

    monkeypatch.setattr(service.loop, "_send", failing)
    service.start()
    wait_until(lambda: service.failures().get("learning") == "no room for a map")
    is_broken[0] = False
    service.loop.request_round()
    wait_until(lambda: service.state.layout is not None and not service.failures())
    assert service.state.round == 2
    service.close()


def test_old_files_that_cannot_be_removed_are_no_failure_of_a_round(tmp_path: Path) -> None:
    service = LabelingService(*make_project(tmp_path))
    service.close()
    folder = Path(service.state.project.folder).rename(tmp_path / "elsewhere")
    before = sorted(folder.iterdir())
    _remove_old_models(service.state, 1)
    assert sorted(folder.iterdir()) == before
    assert not Path(service.state.project.folder).exists()
