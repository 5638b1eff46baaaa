"""Workers on a Ray cluster: an actor a shard, made anew on another node when it dies."""

import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

from dubito.engines.cluster.shard import Part, Shard
from dubito.engines.cluster.workers import Restore
from dubito.engines.cpu.coverage.threads import VARIABLE
from dubito.errors import DubitoError, InvalidData
from dubito.optional import require

ATTEMPTS = 8
"""Times that a shard's process may die in one call before the run gives up."""
PAUSE = 0.5
"""Seconds before another try, doubled each time up to a limit."""
LONGEST_PAUSE = 8.0


def connect(address: str | None = None) -> Any:
    """Ray, connected: as it is already, to an address, or started on this machine."""
    ray = require("ray", extra="ray")
    if not ray.is_initialized():
        ray.init(address=address, include_dashboard=None if address else False, log_to_driver=False)
    return ray


def n_processors(ray: Any) -> int:
    """How many workers of one processor each the cluster has room for."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


class Actor(Shard):
    """A shard in a process of its own, with one processor."""

    def __init__(self, part: Part) -> None:
        os.environ.setdefault(VARIABLE, "1")
        super().__init__(part)


class RayWorkers:
    """See `dubito.engines.cluster.workers.Workers`."""

    def __init__(self, parts: Iterable[Part], ray: Any, n_processors: float = 1.0) -> None:
        self.ray = ray
        self.restore: Restore = lambda shard: [("open", ())]
        self.n_lost = 0
        """Workers that died and were made anew."""
        # Put one after another, so that parts which are made here need not be here all at once.
        self.parts = [ray.put(part) for part in parts]
        self.actors = [self._start(part, n_processors) for part in self.parts]

    def __len__(self) -> int:
        return len(self.parts)

    def _start(self, part: Any, n_processors: float) -> Any:
        options = {"num_cpus": n_processors, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        return self.ray.remote(Actor).options(**options).remote(part)

    def ask(self, method: str, common: Sequence[Any] = (), each: Sequence[Sequence[Any]] | None = None) -> list[Any]:
        """All at once."""
        own: Sequence[Sequence[Any]] = each if each is not None else [()] * len(self)
        # Put once, what all hear is sent to a node once.
        shared = [self.ray.put(argument) for argument in common]
        calls = [self._send(shard, method, *shared, *own[shard]) for shard in range(len(self))]
        return [self._hear(shard, calls[shard], method, (*shared, *own[shard])) for shard in range(len(self))]

    def ask_one(self, shard: int, method: str, *arguments: Any) -> Any:
        """A call."""
        return self._hear(shard, self._send(shard, method, *arguments), method, arguments)

    def _send(self, shard: int, method: str, *arguments: Any) -> Any:
        return getattr(self.actors[shard], method).remote(*arguments)

    def _hear(self, shard: int, call: Any, method: str, arguments: Sequence[Any]) -> Any:
        """The answer, from a worker made anew where it died."""
        lost = self.ray.exceptions
        for attempt in range(ATTEMPTS):
            try:
                if attempt:
                    self._renew(shard)
                    call = self._send(shard, method, *arguments)
                return self.ray.get(call)
            except (lost.RayActorError, lost.ObjectLostError, lost.WorkerCrashedError, lost.NodeDiedError) as error:
                self.n_lost += 1
                reason = str(error).splitlines()[0]
                time.sleep(min(PAUSE * 2**attempt, LONGEST_PAUSE))
            except lost.RayTaskError as error:
                raise (error.cause if isinstance(error.cause, DubitoError) else error) from None
        raise InvalidData(
            f"the worker of shard {shard} died {ATTEMPTS} times ({reason})",
            mend="give workers more memory, or cut the pool into more shards.",
        )

    def _renew(self, shard: int) -> None:
        """Another process for a shard, brought up to date; it need not wait for a free processor."""
        self.ray.kill(self.actors[shard])
        self.actors[shard] = self._start(self.parts[shard], n_processors=0.0)
        for method, arguments in self.restore(shard):
            self.ray.get(self._send(shard, method, *arguments))

    def close(self) -> None:
        """Let the processes and what they were given go."""
        for actor in self.actors:
            self.ray.kill(actor)
        self.actors, self.parts = [], []
