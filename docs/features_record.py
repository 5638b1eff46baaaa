"""What is kept of the study on frozen features, and how its numbers are shown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dubito.experiments.statistics import Steady, paired_test, shown_p
from dubito.matrix import FloatArray

HEADS = [
    "strategy",
    "at 10,000 labels",
    "mean over the curve",
    "against random",
    "p",
    "against coreset",
    "p",
    "labels saved",
]


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """What is kept of one experiment: its results, and δ and δ̂ of each strategy as (seeds, trainings)."""

    part: str
    results: dict
    radii: dict[str, dict[str, FloatArray]]

    @property
    def names(self) -> list[str]:
        return [each["strategy"] for each in self.results["strategies"]]

    def strategy(self, name: str) -> dict:
        return self.results["strategies"][self.names.index(name)]

    def area(self, name: str) -> FloatArray:
        return np.array(self.strategy(name)["area"])

    def accuracy(self, name: str) -> FloatArray:
        return np.array(self.strategy(name)["accuracy"])

    def against(self, baseline: str, name: str) -> dict:
        return next(each for each in self.results[f"against_{baseline}"] if each["strategy"] == name)

    def saved(self, name: str) -> dict:
        return next(each["saved"] for each in self.results["labels_saved"] if each["strategy"] == name)

    def verdict(self, name: str, baseline: str = "random") -> int:
        """1 above the baseline beyond chance, -1 below, 0 neither: Holm's correction, 5%."""
        described = self.against(baseline, name)
        return int(np.sign(described["difference"]["estimate"])) if described["p_holm"] < 0.05 else 0


Study = dict[str, Record]


def beside(study: Study, part: str) -> Record:
    """The clean run's strategies under the seeds of a part."""
    clean = study["clean"]
    seeds = [clean.results["seeds"].index(seed) for seed in study[part].results["seeds"]]
    strategies = [{**each, "area": np.array(each["area"])[seeds].tolist()} for each in clean.results["strategies"]]
    return Record(part, {**clean.results, "strategies": strategies}, clean.radii)


def claim(is_true: bool, sentence: str) -> str:
    """The sentence; the page is not written where the numbers do not bear it out."""
    if not is_true:
        raise SystemExit(f"The numbers do not say this: {sentence}")
    return sentence


def shown(described: dict) -> str:
    low, estimate, high = (Steady(100 * described[key]) for key in ("low", "estimate", "high"))
    return f"{estimate:+.2f} [{low:+.2f}, {high:+.2f}]"


def difference(ours: FloatArray, theirs: FloatArray) -> tuple[str, float]:
    """A paired difference in points with its interval, and its p."""
    described, p = paired_test(ours - theirs)
    return shown(described.as_dict()), p


def heads(names: Sequence[str]) -> Iterator[str]:
    yield f"| {' | '.join(names)} |"
    yield f"|{' --- |' * len(names)}"


def reached(described: dict) -> list[str]:
    at_last = f"{Steady(100 * described['mean'][-1]):.1f} ± {Steady(100 * described['standard_deviation'][-1]):.1f}"
    return [at_last, f"{Steady(100 * np.mean(described['area'])):.2f}"]


def emphasised(p: float) -> str:
    return f"**{shown_p(p)}**" if p < 0.05 else shown_p(p)


def held_against(record: Record, baseline: str, name: str) -> list[str]:
    if name == baseline:
        return ["–", "–"]
    described = record.against(baseline, name)
    return [shown(described["difference"]), emphasised(described["p_holm"])]


def shown_saved(described: dict) -> str:
    ends = [
        "never" if described[key] is None else f"{Steady(described[key]):,.0f}" for key in ("estimate", "low", "high")
    ]
    return ends[0] if ends == ["never"] * 3 else f"{ends[0]} [{ends[1]}, {ends[2]}]"
