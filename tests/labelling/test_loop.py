"""When a round is due, what it is told, and what becomes of a worker that fails."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dubito.labelling import loop as loop_module
from dubito.labelling.desk import Desk
from dubito.labelling.events import Event
from dubito.labelling.loop import WorkerFailed, _foreseen, _forget
from dubito.labelling.making import open_project
from dubito.labelling.project import LAYOUT
from dubito.labelling.spoken import Spoken
from dubito.labelling.store import Pick
from dubito.labelling.views import _pick_order, curve_facts
from labelling.projects import copy_played, make_project, truth, wait_until


def say(desk: Desk, row: int, label: str | None, who: str = "ann") -> None:
    key = f"{who}-{desk.state.book.last + 1}"
    desk.answer([Spoken(key, who, row, label)]).result()


def set_picks(desk: Desk, items: list[int]) -> None:
    """As if the last round had picked these."""
    desk.state.waiting.replace([Pick(1, rank, item, "first") for rank, item in enumerate(items)])


def test_corrections_and_what_is_taken_back_start_a_round_as_labels_do_also_after_a_restart(tmp_path: Path) -> None:
    desk = Desk(*copy_played(tmp_path))
    for row in range(5):
        say(desk, row, "left")
    for row in range(4):
        say(desk, row, "right")
    assert not desk.loop._is_due()
    say(desk, 0, "right")  # It is that already.
    say(desk, 9, None)
    assert not desk.loop._is_due()
    desk.undo("u1", "ann").result()
    desk.undo("u2", "ann").result()
    assert not desk.loop._is_due()
    desk.undo("u3", "ann").result()
    assert desk.loop._is_due()
    desk.close()
    again = Desk(*open_project(desk.state.project.folder))
    assert again.loop._is_due()
    again.start()
    wait_until(lambda: again.state.round == 2)
    assert not again.loop._is_due()
    again.close()
    again = Desk(*open_project(desk.state.project.folder))
    assert (again.state.learned, again.state.changes_since_round()) == (14, 0)
    again.close()


def test_without_a_record_of_what_the_last_round_learned_labels_are_counted(tmp_path: Path) -> None:
    desk = Desk(*copy_played(tmp_path))
    desk.state.learned = None
    for row in range(9):
        say(desk, row, "left")
        say(desk, row, "right")
    assert not desk.loop._is_due()
    say(desk, 9, "left")
    assert desk.loop._is_due()
    desk.close()


@pytest.mark.parametrize("label", ["left", None])
def test_picks_that_are_all_answered_are_spent_labeled_or_skipped(tmp_path: Path, label: str | None) -> None:
    desk = Desk(*copy_played(tmp_path))
    set_picks(desk, [])
    assert not desk.loop._is_due()  # Nothing was answered: another round would pick no more.
    set_picks(desk, [3, 4])
    say(desk, 3, label)
    assert not desk.loop._is_due()
    say(desk, 4, label)
    assert desk.loop._is_due()
    desk.close()


def test_picks_are_spent_as_long_as_what_may_be_asked_for_is_unanswered(tmp_path: Path) -> None:
    desk = Desk(*copy_played(tmp_path))
    for row in range(6):
        say(desk, row, truth(row))
    set_picks(desk, [20])
    desk.restrict("only", [20, 21, 22]).result()
    say(desk, 20, None)
    assert desk.loop._is_due()  # More items have answers than may be asked for; two of these have none.
    set_picks(desk, [21, 22])
    say(desk, 21, None)
    say(desk, 22, "left")
    assert not desk.loop._is_due()
    desk.close()


def test_an_item_whose_answer_was_taken_back_and_one_whose_lease_ran_out_may_be_picked_again(tmp_path: Path) -> None:
    desk = Desk(*copy_played(tmp_path), lease=0.0)
    say(desk, 7, "right")
    desk.undo("u", "ann").result()
    assert len(desk.ask("bob", 3).result()) == 3
    say(desk, 8, None)
    assert desk.loop._job()["closed"] == [8]
    desk.close()


def test_what_was_foreseen_is_what_the_page_counts(tmp_path: Path) -> None:
    desk = Desk(*copy_played(tmp_path))
    book = desk.state.book

    def add(row: int, label: str, guess: str, **given: Any) -> None:
        number = book.last + 1
        facts = {"guess": guess, "sure": 0.9, **given}
        book.add(Event(number, f"k{number}", "label", "ann", row, label, 1, None, 0.0, **facts))

    assert _foreseen(desk.state) is None
    add(0, "left", "left")
    add(1, "right", "left")
    add(2, "left", "left", guess_seen=True)
    add(3, "left", "left")
    book.add(Event(book.last + 1, "u", "undo", "ann", 3, None, 1, book.last, 0.0))
    assert _foreseen(desk.state) == [1, 2]
    assert curve_facts(desk)["guessed"] == [{"labels": 0, "right": 1, "of": 2}]
    desk.close()


def test_the_order_of_picks_is_that_of_rounds_without_what_was_never_answered(tmp_path: Path) -> None:
    desk = Desk(*copy_played(tmp_path))
    state = desk.state
    state.picks = [Pick(0, rank, item, "first") for rank, item in enumerate([5, 6, 7])]
    state.picks += [Pick(state.round, rank, item, "covers") for rank, item in enumerate([9, 6, 8])]
    say(desk, 7, None)
    say(desk, 9, "left")
    say(desk, 30, "left")
    order = _pick_order(state)
    assert {item: int(place) for item, place in enumerate(order) if place >= 0} == {7: 0, 9: 1, 6: 2, 8: 3}
    desk.close()


def test_a_clock_that_was_wrong_holds_no_item_for_longer_than_a_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(*copy_played(tmp_path))
    wall, days = time.time, 400 * 86_400.0
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: wall() + days)
        anns = desk.ask("ann", 3).result()
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: wall() - days)
        assert desk.ask("ann", 3).result() == anns
        assert not {pick.item for pick in anns} & {pick.item for pick in desk.ask("bob", 3).result()}
    desk.close()
    again = Desk(*open_project(desk.state.project.folder))
    held = again.state.waiting.held_by("ann")
    assert list(held) == [pick.item for pick in anns]
    assert all(until <= time.monotonic() + again.state.lease for until in held.values())
    again.close()


def test_what_a_library_prints_is_not_taken_for_an_answer_of_the_worker(tmp_path: Path) -> None:
    project, _ = make_project(tmp_path)
    program = """
import os, sys
from dubito.labelling import worker
answer = worker._answer
def noisy(*given):
    print("a line", flush=True)
    os.write(1, b"another\\n")
    assert not sys.stdin.read()
    return answer(*given)
worker._answer = noisy
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
    desk = Desk(*make_project(tmp_path))
    waits: list[int] = []

    def noted(n_failed: int) -> float:
        waits.append(n_failed)
        return 0.01

    monkeypatch.setattr(loop_module, "_patience", noted)
    fails = tmp_path / "fails"
    fails.write_text("#!/bin/sh\nkill -9 $$\n")
    fails.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fails))
    desk.start()
    wait_until(lambda: len(waits) >= 4)
    assert waits[:4] == [1, 2, 3, 4]
    assert "was killed, which happens when memory runs out" in desk.failures()["learning"]
    monkeypatch.undo()
    desk.loop.ask()
    wait_until(lambda: desk.state.round == 1 and not desk.failures())
    assert desk.loop._n_failed == 0
    desk.close()


def test_a_map_that_could_not_be_made_is_tried_again_at_the_next_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "PATIENCE", 0.01)
    project, contents = copy_played(tmp_path)
    Path(project.path(LAYOUT)).unlink()
    desk = Desk(project, contents)
    speak, is_broken = desk.loop._speak, [True]

    def failing(job: dict[str, Any]) -> dict[str, Any]:
        if job["task"] == "layout" and is_broken[0]:
            raise WorkerFailed("no room for a map")
        return speak(job)

    monkeypatch.setattr(desk.loop, "_speak", failing)
    desk.start()
    wait_until(lambda: desk.failures().get("learning") == "no room for a map")
    is_broken[0] = False
    desk.loop.ask()
    wait_until(lambda: desk.state.places is not None and not desk.failures())
    assert desk.state.round == 2
    desk.close()


def test_old_files_that_cannot_be_removed_are_no_failure_of_a_round(tmp_path: Path) -> None:
    desk = Desk(*make_project(tmp_path))
    desk.close()
    Path(desk.state.project.folder).rename(tmp_path / "elsewhere")
    _forget(desk.state, 1)
