"""Processes that hold shards: they are called in parallel, and replaced when they die."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dubito.engines.cluster.messages import HOST, Hardware, Kind
from dubito.engines.cluster.shard import Shard, ShardSource
from dubito.errors import DubitoError, InvalidArgument, InvalidData, named
from dubito.registry import require
from dubito.threads import VARIABLE

Call = tuple[str, tuple[Any, ...]]
"""A method of `Shard` and its arguments."""
Restore = Callable[[int], list[Call]]
"""Returns the calls that bring a new shard of this number up to date."""


class Workers(Protocol):
    """One worker per shard. The driver sets ``restore``, which is used after a worker died."""

    restore: Restore
    n_lost: int
    """The number of workers that died and were replaced."""

    def __len__(self) -> int:
        """The number of shards."""

    def ask(self, method: str, common: Sequence[Any] = (), each: Sequence[Sequence[Any]] | None = None) -> list[Any]:
        """Call a method of every shard with the common arguments, then those of each; the results in order."""

    def ask_one(self, shard: int, method: str, *arguments: Any) -> Any:
        """Call a method of one shard."""

    def close(self) -> None:
        """Stop the workers."""


class LocalWorkers:
    """Shards in this process, called one after another: the computation of a cluster without Ray."""

    def __init__(self, sources: Iterable[ShardSource], hardware: Hardware = HOST) -> None:
        self.sources, self.hardware = list(sources), hardware
        self.shards = [Shard(source, hardware) for source in self.sources]
        self.n_lost = 0
        self.restore: Restore = lambda shard: [("open", ())]

    def __len__(self) -> int:
        return len(self.shards)

    def ask(self, method: str, common: Sequence[Any] = (), each: Sequence[Sequence[Any]] | None = None) -> list[Any]:
        own: Sequence[Sequence[Any]] = each if each is not None else [()] * len(self)
        return [self.ask_one(shard, method, *common, *own[shard]) for shard in range(len(self))]

    def ask_one(self, shard: int, method: str, *arguments: Any) -> Any:
        return getattr(self.shards[shard], method)(*arguments)

    def lose(self, shard: int) -> None:
        """Replace a shard, as if its process had died."""
        self.n_lost += 1
        self.shards[shard] = Shard(self.sources[shard], self.hardware)
        for method, arguments in self.restore(shard):
            self.ask_one(shard, method, *arguments)

    def close(self) -> None:
        """There is nothing to stop."""


# Workers on a Ray cluster: one actor per shard, replaced on another node when it dies.

ATTEMPTS = 8
"""How many times a worker may die in one call before the run fails."""
PAUSE = 0.5
"""Seconds before the second attempt, doubled for each further one."""
MAX_PAUSE = 8.0
TIMEOUT_VARIABLE = "DUBITO_PATIENCE"
"""Environment variable: seconds after which a call is abandoned."""
DEFAULT_TIMEOUT = 3600.0
"""Ray detects a node that dies; the timeout is for a node that neither dies nor answers."""
RESERVED_GPU = 0.95
"""The part of a GPU, in Ray's accounting, that its workers request, so that there is room for a replacement."""
REPLACEMENT_GPU = 0.01
"""The part of a GPU that a replacement requests."""


def connect(address: str | None = None) -> Any:
    """The module ``ray``, connected: to an address, or to a cluster that is started on this machine."""
    ray = require("ray", extra="ray")
    if ray.is_initialized():
        return ray
    try:
        ray.init(address=address, include_dashboard=None if address else False, log_to_driver=False)
    except (ValueError, RuntimeError, ConnectionError, ImportError) as error:
        if address is None:
            raise
        hint = "on a node of the cluster, pass the address that ray start printed, such as 10.0.0.1:6379."
        why = str(error).strip().splitlines()[0]
        raise InvalidArgument(f"cannot be reached ({why})", argument="address", value=address, hint=hint) from error
    return ray


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """The number of workers, what each requests from Ray, and what it computes on."""

    size: int
    n_processors: float = 1.0
    n_gpus: float = 0.0
    hardware: Hardware = HOST


def plan_workers(ray: Any, kind: Kind = "auto", per_gpu: int = 1) -> WorkerPlan:
    """``per_gpu`` workers on each GPU of the cluster; one per processor if it has no GPU or ``kind`` is "cpu"."""
    n_processors, n_gpus = _n_processors(ray), int(ray.cluster_resources().get("GPU", 0))
    if kind == "cuda" and n_gpus == 0:
        hint = f"start Ray with its GPUs (ray start --num-gpus), or pass {named('workers', 'cpu')}."
        raise InvalidArgument("finds no GPU in the cluster", argument="workers", value=kind, hint=hint)
    if kind == "cpu" or n_gpus == 0:
        return WorkerPlan(n_processors)
    size, fraction = n_gpus * per_gpu, 1.0 / per_gpu
    hardware = Hardware("cuda", fraction, is_required=kind == "cuda")
    return WorkerPlan(size, min(1.0, n_processors / size), RESERVED_GPU * fraction, hardware)


def _n_processors(ray: Any) -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


class Actor(Shard):
    """A shard in a process of its own, which uses one thread."""

    def __init__(self, source: ShardSource, hardware: Hardware = HOST) -> None:
        os.environ.setdefault(VARIABLE, "1")
        super().__init__(source, hardware)


class RayWorkers:
    def __init__(self, sources: Iterable[ShardSource], ray: Any, plan: WorkerPlan | None = None) -> None:
        self.ray, self.plan = ray, plan or WorkerPlan(_n_processors(ray))
        self.restore: Restore = lambda shard: [("open", ())]
        self.n_lost = 0
        # One at a time: sources that this process creates need not all be in memory together.
        self.sources = [ray.put(source) for source in sources]
        self.actors = [self._start(source, self.plan) for source in self.sources]

    def __len__(self) -> int:
        return len(self.sources)

    def _start(self, source: Any, plan: WorkerPlan) -> Any:
        options = {"num_cpus": plan.n_processors, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        if plan.n_gpus:
            options["num_gpus"] = plan.n_gpus
        return self.ray.remote(Actor).options(**options).remote(source, plan.hardware)

    def ask(self, method: str, common: Sequence[Any] = (), each: Sequence[Sequence[Any]] | None = None) -> list[Any]:
        own: Sequence[Sequence[Any]] = each if each is not None else [()] * len(self)
        # An object that was put into Ray's store is sent to each node only once.
        shared = [self.ray.put(argument) for argument in common]
        calls = [self._send(shard, method, *shared, *own[shard]) for shard in range(len(self))]
        return [self._result(shard, calls[shard], method, (*shared, *own[shard])) for shard in range(len(self))]

    def ask_one(self, shard: int, method: str, *arguments: Any) -> Any:
        return self._result(shard, self._send(shard, method, *arguments), method, arguments)

    def _send(self, shard: int, method: str, *arguments: Any) -> Any:
        return getattr(self.actors[shard], method).remote(*arguments)

    def _result(self, shard: int, call: Any, method: str, arguments: Sequence[Any]) -> Any:
        """The result of a call; if the worker died, of the same call to its replacement."""
        lost = self.ray.exceptions
        for attempt in range(ATTEMPTS):
            try:
                if attempt:
                    self._replace(shard)
                    call = self._send(shard, method, *arguments)
                return self._wait(shard, call)
            except (lost.RayActorError, lost.ObjectLostError, lost.WorkerCrashedError, lost.NodeDiedError) as error:
                self.n_lost += 1
                reason = str(error).splitlines()[0]
                time.sleep(min(PAUSE * 2**attempt, MAX_PAUSE))
            except lost.RayTaskError as error:
                raise (error.cause if isinstance(error.cause, DubitoError) else error) from None
        raise InvalidData(
            f"the worker of shard {shard} died {ATTEMPTS} times ({reason})",
            hint="give the workers more memory, or divide the pool into more shards.",
        )

    def _replace(self, shard: int) -> None:
        """Start another process for a shard and bring it up to date."""
        self.ray.kill(self.actors[shard])
        self.actors[shard] = self._start(self.sources[shard], self._replacement_plan())
        for method, arguments in self.restore(shard):
            self._wait(shard, self._send(shard, method, *arguments))

    def _wait(self, shard: int, call: Any) -> Any:
        seconds = float(os.environ.get(TIMEOUT_VARIABLE, DEFAULT_TIMEOUT))
        try:
            return self.ray.get(call, timeout=seconds)
        except self.ray.exceptions.GetTimeoutError:
            hint = f"check its node; if the computation takes longer, set {TIMEOUT_VARIABLE} to more seconds."
            raise InvalidData(f"the worker of shard {shard} gave no answer in {seconds:g} seconds", hint=hint) from None

    def _replacement_plan(self) -> WorkerPlan:
        """What a replacement requests: no free processor, and a small part of a GPU, or the CPU if no GPU is left."""
        plan = self.plan
        if plan.n_gpus and self.ray.cluster_resources().get("GPU", 0) >= 1:
            return WorkerPlan(1, 0.0, REPLACEMENT_GPU, plan.hardware)
        return WorkerPlan(1, 0.0)

    def close(self) -> None:
        for actor in self.actors:
            self.ray.kill(actor)
        self.actors, self.sources = [], []
