"""Networks in training side by side, each in a `Lane` of its own.

What a step does is decided in `models.networks.learner`, its minibatch and learning rate in `models.networks.steps`, as
for every network. On a GPU a step is captured once as a CUDA graph, and lanes replay theirs in lock-step, each on its
own stream: one small network leaves most of a GPU idle, twenty do not.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from dubito.experiments.datasets.dataset import Dataset
from dubito.experiments.models.networks.learner import Learner
from dubito.experiments.models.networks.split import Weights
from dubito.experiments.models.networks.steps import Steps
from dubito.matrix import AnyArray, IntArray

if TYPE_CHECKING:
    import torch

WARM_UP = 2
"""Steps before a capture: libraries choose their algorithms, and the optimizer makes its state."""


class Bank:
    """The data of every seed on the device, each array once."""

    def __init__(self, data: Mapping[int, Dataset], device: str) -> None:
        import torch

        self.start: dict[int, int] = {}
        """Where the rows of a seed begin."""
        rows, labels, places = list[AnyArray](), list[IntArray](), dict[tuple[int, int], int]()
        for seed, each in data.items():
            key = id(each.features), id(each.labels)
            if key not in places:
                places[key] = sum(len(part) for part in labels)
                rows.append(each.features)
                labels.append(each.labels)
            self.start[seed] = places[key]
        self.rows = torch.cat([torch.from_numpy(np.array(each)) for each in rows]).to(device)
        self.labels = torch.cat([torch.from_numpy(np.array(each)) for each in labels]).to(device)

    def of(self, seed: int, n: int) -> "torch.Tensor":
        """The ``n`` training rows of a seed."""
        return self.rows[self.start[seed] : self.start[seed] + n]


class Lane:
    """A learner on a stream of its own, whose step is a CUDA graph; on a CPU a learner and nothing else.

    Parameters
    ----------
    learner : Learner
        With room for at least three steps: two are tried out before the capture of a third.
    """

    def __init__(self, learner: Learner) -> None:
        import torch

        self.learner, self.is_on_gpu = learner, learner.is_on_gpu
        self.stream = torch.cuda.Stream(learner.device) if self.is_on_gpu else None
        self.replay: Callable[[], None] = self._capture() if self.is_on_gpu else learner.step

    def begin(self, weights: Weights, steps: Steps) -> None:
        """Make ready for a turn: these weights, a new optimizer, the turn's steps."""
        with self._in_order():
            self.learner.begin(weights, steps)

    def step(self) -> None:
        """One minibatch; on a GPU only asked for, not waited for."""
        with self._on_stream():
            self.replay()

    def finish(self) -> dict[str, "torch.Tensor"]:
        """The weights as they are now, copied."""
        with self._in_order():
            return self.learner.finish()

    def _capture(self) -> Callable[[], None]:
        """The step as a graph; what trying it out did to the weights, `begin` undoes."""
        import torch

        with self._in_order():
            for _ in range(WARM_UP):
                self.learner.step()
        torch.cuda.synchronize(self.learner.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self.learner.step()
        replay: Callable[[], None] = graph.replay
        return replay

    def _on_stream(self) -> Any:
        import torch

        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    @contextmanager
    def _in_order(self) -> Iterator[None]:
        """On the lane's stream, after what was asked of the caller's stream before and before what comes after it.

        Streams do not wait for one another by themselves: weights would be copied before they are there.
        """
        import torch

        if self.stream is None:
            yield
            return
        callers = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(callers)
        with torch.cuda.stream(self.stream):
            yield
        callers.wait_stream(self.stream)


def train_side_by_side(lanes: Sequence[Lane], steps: int) -> None:
    """All lanes through a turn in lock-step; waits for the end."""
    import torch

    for _ in range(steps):
        for lane in lanes:
            lane.step()
    if lanes[0].is_on_gpu:
        torch.cuda.synchronize(lanes[0].learner.device)
