"""What one process does for an experiment: claim a free cell, play it, and again until none is left."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path

from dubito.experiments.cells.claims import Cell, Checkpoints, cells_of, claim, clear, clear_all
from dubito.experiments.cells.ledger import Ledger
from dubito.experiments.cells.loop import play
from dubito.experiments.cells.sources import DataSource
from dubito.experiments.cells.stage import Stage, set_stage
from dubito.experiments.lanes.players import Step, play_together, trains_together
from dubito.experiments.plans.experiment import Experiment
from dubito.experiments.toml import naming

PATIENCE = 0.2
"""Seconds between looks at what other processes do."""


def work(experiment: Experiment, folder: Path, source: DataSource, ledger: Ledger, step: Step) -> None:
    """Play cells until every one is done, by this process or by others; ``step`` is called after each round.

    A cell that another process holds is waited for: should that process die, it is taken over.
    """
    play_free = play_all if trains_together(experiment.model) else play_in_turn
    with one_thread():
        while left := unfinished(ledger, experiment):
            if not play_free(left, experiment, folder, source, ledger, step):
                step()
                time.sleep(PATIENCE)
    ledger.journal.close()
    clear_all(folder)
    step()


def play_in_turn(
    left: Sequence[Cell], experiment: Experiment, folder: Path, source: DataSource, ledger: Ledger, step: Step
) -> bool:
    """Claim and play one cell after another; False where others hold all of them."""
    stage, played = None, False
    for cell in left:
        with claim(cell, folder) as ours:
            if not ours or is_finished(ledger, experiment, cell):
                continue
            if stage is None or stage.seed != cell.seed:
                stage = set_stage(experiment, source(cell.seed), cell.seed)
            play_cell(cell, experiment, folder, ledger, stage, step)
            played = True
    return played


def play_all(
    left: Sequence[Cell], experiment: Experiment, folder: Path, source: DataSource, ledger: Ledger, step: Step
) -> bool:
    """Claim every cell that is free and play them side by side; False where others hold all of them."""
    with ExitStack() as claims:
        held = [cell for cell in left if claims.enter_context(claim(cell, folder))]
        ours = [cell for cell in held if not is_finished(ledger, experiment, cell)]
        if ours:
            play_together(ours, experiment, folder, source, ledger, step)
        return bool(ours)


def unfinished(ledger: Ledger, experiment: Experiment) -> list[Cell]:
    """Cells that lack rounds, by the journal as it is now."""
    ledger.refresh()
    return [cell for cell in cells_of(experiment) if len(ledger.played(cell)) <= experiment.schedule.rounds]


def is_finished(ledger: Ledger, experiment: Experiment, cell: Cell) -> bool:
    """Whether someone finished a cell before we came to hold it."""
    ledger.refresh()
    return len(ledger.played(cell)) > experiment.schedule.rounds


def play_cell(cell: Cell, experiment: Experiment, folder: Path, ledger: Ledger, stage: Stage, step: Step) -> None:
    """Play what is left of a cell that is ours, and write down every round."""
    checkpoints = Checkpoints(cell, folder)
    with naming(f"strategy {cell.arm.name!r}, seed {cell.seed}"):
        for done in play(cell, experiment, stage, ledger.played(cell), checkpoints):
            ledger.write_round(done)
            step()
    clear(cell, folder)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread of linear algebra: results do not depend on the number of cores, and workers share them."""
    with import_module("threadpoolctl").threadpool_limits(1):
        yield
