"""What measures figures 5 and 6 and table 1: experiments that come with the package, run or gone on with."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from dubito.errors import DubitoError, MissingFile
from dubito.experiments.data_sources import DataSource
from dubito.experiments.downloads import find_weights
from dubito.experiments.models.networks.training import found_device
from dubito.experiments.plan import Experiment, read_shipped
from dubito.experiments.records import Round
from dubito.experiments.runner import RunProgress, run_experiment
from dubito.paper.networks import ablation_of, epochs_of, main_of
from dubito.paper.verdicts import Finding
from dubito.request.arrays import check_choice, check_integer

Check = Literal["ablation", "main", "epochs"]
COLLECTIONS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "svhn": "SVHN"}
RUNS = "dubito-runs"

Gather = Callable[[Experiment, Path], DataSource]
"""Called before an experiment is played in a folder, to bring what it needs; where its data then comes from."""


@dataclass(frozen=True, slots=True)
class NetworkStudy:
    """Experiments on images by the names they come under, and which claim is checked on their rounds."""

    check: Check = "main"
    experiments: tuple[str, ...] = ("cifar10-main",)
    seeds: int = 5
    rounds: int | None = None
    """As the experiment has it, unless it is to be shorter."""
    runs_dir: str = RUNS
    """Where runs are kept: one that is there goes on, and one that is done is only read."""
    workers: int = 1
    gather: Gather | None = field(default=None, compare=False)
    progress: RunProgress | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_choice("check", self.check, get_args(Check))
        check_integer("seeds", self.seeds, least=1)
        if self.rounds is not None:
            check_integer("rounds", self.rounds, least=1)

    def plans(self, seed: int) -> dict[str, Experiment]:
        """The experiments by their names, from that seed on."""
        found = {name: read_shipped(name) for name in self.experiments}
        seeds = tuple(range(seed, seed + self.seeds))
        return {
            name: replace(
                plan, seeds=seeds, schedule=replace(plan.schedule, rounds=self.rounds or plan.schedule.rounds)
            )
            for name, plan in found.items()
        }

    def measure(self, seed: int) -> Finding:
        """Play what is left of the experiments whose images are at hand; the first error where none is."""
        played: dict[str, list[Round]] = {}
        missed: dict[str, MissingFile] = {}
        for plan in self.plans(seed).values():
            title = COLLECTIONS[str(plan.data.images)]
            try:
                played[title] = self.play(plan)
            except MissingFile as error:
                missed[title] = error
        if not played:
            raise next(iter(missed.values()))
        if self.check == "ablation":
            return ablation_of(next(iter(played.values())))
        return (main_of if self.check == "main" else epochs_of)(played, tuple(missed))

    def play(self, plan: Experiment) -> list[Round]:
        """The rounds of one experiment."""
        folder = Path(self.runs_dir) / plan.folder_name
        source = None if self.gather is None else self.gather(plan, folder)
        return run_experiment(plan, folder, workers=self.workers, progress=self.progress, source=source)

    def is_at_hand(self) -> bool:
        """Whether there is a GPU, and the weights and the images of at least one experiment."""
        try:
            return found_device("auto") != "cpu" and any(map(has_images, self.plans(0).values()))
        except (DubitoError, ImportError):
            return False


def has_images(plan: Experiment) -> bool:
    """Whether the images of an experiment, and the weights its network starts from, are where they are looked for."""
    try:
        find_weights(str(getattr(plan.model, "weights", "none")))
        DataSource(plan).whole()
    except DubitoError:
        return False
    return True
