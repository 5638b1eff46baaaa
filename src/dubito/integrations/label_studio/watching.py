"""Repeat rounds: read labels, fit a model, and send the next batch.

The state is on the server: every task has the number of its round and the number of tasks in that round. A round that
was sent in part is picked again from the labels of the rounds before it, which gives the same picks, and completed.
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
from dubito.integrations.label_studio.pushing import SendOptions, remove_copies, send, show_round_first
from dubito.request.arrays import check_integer

T = TypeVar("T")
COUNTS = ("task_number", "total_annotations_number", "skipped_annotations_number", "finished_task_number")
"""Fields of a project; if none of them has changed, there are no new answers."""


MAX_PAUSE = 300.0
"""Maximum time between two tries to reach a server that does not respond, in seconds."""


def do_nothing(*messages: object) -> None:
    """A callback that ignores its arguments."""


@dataclass(frozen=True, slots=True)
class WatchPlan:
    batch: int
    rounds: int | None = None
    """Number of rounds after which to stop; None to continue until the pool is exhausted."""
    ahead: int = 0
    """Send the next batch when at most this number of items is left to answer."""
    jump_ahead: bool = False
    """Show each batch before the items left from earlier ones; see `push`."""
    every: float = 10.0
    """Seconds between two checks for answers."""

    def __post_init__(self) -> None:
        for name, least in (("batch", 1), ("ahead", 0), ("rounds", 1)):
            value = getattr(self, name)
            if value is not None:
                check_integer(name, value, least=least)


class DueRound(NamedTuple):
    """The next round to send, or the rest of a round that was sent in part."""

    round: int
    batch: int
    missing: int
    """Number of items to send."""


def watch(
    project: LabelStudioProject,
    picker: Picker,
    plan: WatchPlan,
    *,
    keep: Callable[[Gathered], None] = do_nothing,
    tell: Callable[[str], None] = do_nothing,
) -> None:
    """Repeat rounds until the pool is exhausted, or the number of rounds is reached.

    Parameters
    ----------
    project : LabelStudioProject
        The project.
    picker : Picker
        Returns the items of the next round, such as a `PoolPicker`.
    plan : WatchPlan
        Batch size, number of rounds, and when to send the next batch.
    keep : callable
        Called with all labels when they have changed.
    tell : callable
        Called with messages for the user.
    """
    before: Gathered | None = None
    while True:
        counts, found = wait_for_server(lambda: (_counts(project), _state_without_copies(project)), plan, tell)
        labels = gather_answers(found.all_answers)
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
        wait_for_server(partial(show_round_first, project, last), plan, tell)
        while wait_for_server(lambda: _counts(project), plan, tell) == counts:
            time.sleep(plan.every)


def next_due(found: ProjectState, plan: WatchPlan) -> DueRound | None:
    """The round that was sent in part, or the next one if few items are left to answer; None if no round is due."""
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
    """Pick and send a round, or the missing part of it; False if nothing is left to pick."""
    earlier = [task for task in found.tasks if task.round < due.round]
    labels = gather_answers(answer for task in earlier for answer in found.answers.get(task.id, ()))
    picks = picker(dict(zip(labels.names, labels.labels, strict=True)), {task.name for task in earlier}, due.batch)
    wanted = _new_picks(picks, {task.name for task in found.tasks}, due.missing)
    if wanted is None:
        tell("the project has every item of the pool: nothing is left to pick.")
        return False
    options = SendOptions(due.round, plan.jump_ahead, len(wanted) if due.missing == due.batch else due.batch)
    pushed = wait_for_server(lambda: send(project, wanted, options), plan, tell)
    tell(f"round {due.round}: {pushed.added} items sent, picked from {len(labels.names)} labels.")
    return True


def _new_picks(picks: Sequence[Suggestion], existing: set[str], most: int) -> list[Suggestion] | None:
    """The picks that the server has, and up to ``most`` new ones; None if there are no new ones.

    If answers have changed since a round was sent in part, the picks may have changed too.
    """
    new = [pick.item.name for pick in picks if pick.item.name not in existing][:most]
    kept = existing.union(new)
    return [pick for pick in picks if pick.item.name in kept] if new else None


def _last_round(tasks: Sequence[LabelStudioTask]) -> int:
    return max((task.round for task in tasks), default=0)


def _state_without_copies(project: LabelStudioProject) -> ProjectState:
    found = project.read_state()
    if len({task.name for task in found.tasks}) < len(found.tasks) and remove_copies(project, found.tasks):
        return project.read_state()
    return found


def _counts(project: LabelStudioProject) -> tuple[object, ...]:
    state = project.state()
    return tuple(state.get(name) for name in COUNTS)


def wait_for_server(ask: Callable[[], T], plan: WatchPlan, tell: Callable[[str], None]) -> T:
    """Call ``ask``, and repeat while the server does not respond, after pauses that double up to `MAX_PAUSE`.

    Errors from the server, such as for a wrong token or a missing project, are raised at once.
    """
    pause, is_reported = plan.every, False
    while True:
        try:
            return ask()
        except Unreachable as error:
            if not is_reported:
                tell(f"{error.problem}; trying again until it answers, up to {MAX_PAUSE / 60.0:.0f} minutes apart.")
            is_reported = True
            time.sleep(pause)
            pause = max(plan.every, min(2.0 * pause, MAX_PAUSE))
