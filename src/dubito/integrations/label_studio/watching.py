"""Round after round: labels come back, a model learns from them, the next batch goes out.

The server knows how far it is: every task says which round it is of, and how many tasks that round has. A round that
was sent in part is picked anew from the labels of the rounds before it, which gives the same picks, and what is missing
is sent.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

from dubito.integrations.exchange.items import Gathered, gather_answers
from dubito.integrations.label_studio.client import Unreachable
from dubito.integrations.label_studio.picking import Picker, Suggestion
from dubito.integrations.label_studio.projects import LabelStudioProject, LabelStudioTask, ProjectState
from dubito.integrations.label_studio.pushing import SendOptions, direct, remove_copies, send
from dubito.request.arrays import check_integer

T = TypeVar("T")
COUNTS = ("task_number", "total_annotations_number", "skipped_annotations_number", "finished_task_number")
"""Of a project: where none of them has changed, nobody has answered anything."""


LONGEST = 300.0
"""Seconds between two tries to reach a server that does not answer."""


def do_nothing(*said: object) -> None:
    """For who does not want to hear of it."""


@dataclass(frozen=True, slots=True)
class WatchPlan:
    batch: int
    rounds: int | None = None
    """Stop once so many are answered; None for no end but that of the pool."""
    ahead: int = 0
    """Send the next batch once so many items, or fewer, are left to answer."""
    jump_ahead: bool = False
    every: float = 10.0
    """Seconds between two looks."""

    def __post_init__(self) -> None:
        for name, least in (("batch", 1), ("ahead", 0), ("rounds", 1)):
            value = getattr(self, name)
            if value is not None:
                check_integer(name, value, least=least)


class DueRound(NamedTuple):
    """A round that is to be sent, or of which something is missing."""

    round: int
    batch: int
    missing: int


def watch(
    project: LabelStudioProject,
    picker: Picker,
    plan: WatchPlan,
    *,
    keep: Callable[[Gathered], None] = do_nothing,
    tell: Callable[[str], None] = do_nothing,
) -> None:
    """Go round until the pool, or the number of rounds, is at its end.

    Parameters
    ----------
    project : LabelStudioProject
        Where people label.
    picker : Picker
        Says what to ask next, such as a `PoolPicker`.
    plan : WatchPlan
        How many at a time, how far ahead, how many rounds.
    keep : callable
        Called with the labels whenever there is news of them.
    tell : callable
        Called with what happens, in words.
    """
    before: Gathered | None = None
    while True:
        counts, found = wait_for_server(lambda: (_counts(project), _surveyed(project)), plan, tell)
        labels = gather_answers(found.said)
        if labels != before:
            keep(labels)
            before = labels
        due, is_at_end = next_due(found, plan), _is_last(found, plan)
        if due is not None:
            if _send_round(project, picker, plan, found, due, tell):
                continue
            is_at_end = True
        if is_at_end and not any(map(found.is_open, found.tasks)):
            return
        last = SendOptions(_last_round(found.tasks), plan.jump_ahead)
        wait_for_server(partial(direct, project, last), plan, tell)
        while wait_for_server(lambda: _counts(project), plan, tell) == counts:
            time.sleep(plan.every)


def next_due(found: ProjectState, plan: WatchPlan) -> DueRound | None:
    """The round that was sent in part, or the next one where people are about to run out of items."""
    last = _last_round(found.tasks)
    names = {task.name: task for task in found.tasks if task.round == last}
    batch = next((task.batch for task in names.values() if task.batch), None)
    if last and batch is not None and len(names) < batch:
        return DueRound(last, batch, batch - len(names))
    n_open = sum(map(found.is_open, found.tasks))
    return None if _is_last(found, plan) or n_open > plan.ahead else DueRound(last + 1, plan.batch, plan.batch)


def _is_last(found: ProjectState, plan: WatchPlan) -> bool:
    return plan.rounds is not None and _last_round(found.tasks) >= plan.rounds


def _send_round(
    project: LabelStudioProject,
    picker: Picker,
    plan: WatchPlan,
    found: ProjectState,
    due: DueRound,
    tell: Callable[[str], None],
) -> bool:
    """Pick and send a round, or what is missing of it; False where nothing is left to pick."""
    earlier = [task for task in found.tasks if task.round < due.round]
    labels = gather_answers(said for task in earlier for said in found.answers.get(task.id, ()))
    picks = picker(dict(zip(labels.names, labels.labels, strict=True)), {task.name for task in earlier}, due.batch)
    wanted = _within(picks, {task.name for task in found.tasks}, due.missing)
    if wanted is None:
        tell("every item of the pool is there: nothing is left to pick.")
        return False
    how = SendOptions(due.round, plan.jump_ahead, len(wanted) if due.missing == due.batch else due.batch)
    pushed = wait_for_server(lambda: send(project, wanted, how), plan, tell)
    tell(f"round {due.round}: {pushed.added} items sent, picked from {len(labels.names)} labels.")
    return True


def _within(picks: Sequence[Suggestion], there: set[str], most: int) -> list[Suggestion] | None:
    """The picks, of which no more are new to the server than the round has room for; None where none is new.

    Answers may have changed since a round was sent in part, and the picks with them.
    """
    new = [pick.item.name for pick in picks if pick.item.name not in there][:most]
    allowed = there.union(new)
    return [pick for pick in picks if pick.item.name in allowed] if new else None


def _last_round(tasks: Sequence[LabelStudioTask]) -> int:
    return max((task.round for task in tasks), default=0)


def _surveyed(project: LabelStudioProject) -> ProjectState:
    found = project.read_state()
    if len({task.name for task in found.tasks}) < len(found.tasks) and remove_copies(project, found.tasks):
        return project.read_state()
    return found


def _counts(project: LabelStudioProject) -> tuple[object, ...]:
    state = project.state()
    return tuple(state.get(name) for name in COUNTS)


def wait_for_server(ask: Callable[[], T], plan: WatchPlan, tell: Callable[[str], None]) -> T:
    """What it gives; while the server does not answer, it is asked again, after pauses that double up to `LONGEST`.

    What the server refuses, such as a token or a project that is not there, is an error at once.
    """
    pause, is_reported = plan.every, False
    while True:
        try:
            return ask()
        except Unreachable as error:
            if not is_reported:
                tell(f"{error.problem}; trying again until it answers, up to {LONGEST / 60.0:.0f} minutes apart.")
            is_reported = True
            time.sleep(pause)
            pause = max(plan.every, min(2.0 * pause, LONGEST))
