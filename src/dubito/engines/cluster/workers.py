"""Processes that hold shards: asked all at once, and made again when they die."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dubito.engines.cluster.hardware import HOST, Hardware, Kind
from dubito.engines.cluster.shard import Part, Shard
from dubito.errors import DubitoError, InvalidArgument, InvalidData, named
from dubito.registry import require
from dubito.threads import VARIABLE

Restore = Callable[[int], list[tuple[str, tuple[Any, ...]]]]
"""The calls that bring a shard made anew up to date."""


class Workers(Protocol):
    """One worker a shard. ``restore`` is set by whoever knows what a shard made anew must hear."""

    restore: Restore
    n_lost: int
    """How many died and were made anew."""

    def __len__(self) -> int:
        """How many shards there are."""
        ...

    def ask(self, method: str, common: Sequence[Any] = (), each: Sequence[Sequence[Any]] | None = None) -> list[Any]:
        """Call a method of every shard, with what they all hear and what each hears; the answers in order."""
        ...

    def ask_one(self, shard: int, method: str, *arguments: Any) -> Any:
        """Call a method of one shard."""
        ...

    def close(self) -> None:
        """Let them go."""
        ...


class Here:
    """Shards in this process, one after another: what is computed on a cluster, without one."""

    def __init__(self, parts: Iterable[Part], hardware: Hardware = HOST) -> None:
        self.parts, self.hardware = list(parts), hardware
        self.shards = [Shard(part, hardware) for part in self.parts]
        self.n_lost = 0
        self.restore: Restore = lambda shard: [("open", ())]

    def __len__(self) -> int:
        return len(self.shards)

    def ask(self, method: str, common: Sequence[Any] = (), each: Sequence[Sequence[Any]] | None = None) -> list[Any]:
        """One after another."""
        own: Sequence[Sequence[Any]] = each if each is not None else [()] * len(self)
        return [self.ask_one(shard, method, *common, *own[shard]) for shard in range(len(self))]

    def ask_one(self, shard: int, method: str, *arguments: Any) -> Any:
        """A call."""
        return getattr(self.shards[shard], method)(*arguments)

    def lose(self, shard: int) -> None:
        """Forget all that a shard knows, as if its process had died, and make it anew."""
        self.n_lost += 1
        self.shards[shard] = Shard(self.parts[shard], self.hardware)
        for method, arguments in self.restore(shard):
            self.ask_one(shard, method, *arguments)

    def close(self) -> None:
        """Nothing to let go."""


# Workers on a Ray cluster: an actor a shard, made anew on another node when it dies.

ATTEMPTS = 8
"""Times that a shard's process may die in one call before the run gives up."""
PAUSE = 0.5
"""Seconds before another try, doubled each time up to a limit."""
LONGEST_PAUSE = 8.0
PATIENCE = "DUBITO_PATIENCE"
"""An environment variable: seconds after which a worker that does not answer is given up."""
LONGEST_WAIT = 3600.0
"""Where that is not set. A node that dies is noticed by Ray; this is for one that neither dies nor answers."""
USED = 0.95
"""Of a GPU, as Ray counts it, what its workers ask for: one that is made anew there finds a little left."""
LITTLE = 0.01


def connect(address: str | None = None) -> Any:
    """Ray, connected: as it is already, to an address, or started on this machine."""
    ray = require("ray", extra="ray")
    if ray.is_initialized():
        return ray
    try:
        ray.init(address=address, include_dashboard=None if address else False, log_to_driver=False)
    except (ValueError, RuntimeError, ConnectionError, ImportError) as error:
        if address is None:
            raise
        hint = "on a node of the cluster pass what ray start told, such as 10.0.0.1:6379."
        why = str(error).strip().splitlines()[0]
        raise InvalidArgument(f"cannot be reached ({why})", argument="address", value=address, hint=hint) from error
    return ray


def n_processors(ray: Any) -> int:
    """How many workers of one processor each the cluster has room for."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


@dataclass(frozen=True, slots=True)
class ThreadPool:
    """How many workers there are to be, what each asks of Ray, and what it computes on."""

    size: int
    n_processors: float = 1.0
    n_gpus: float = 0.0
    hardware: Hardware = HOST


def thread_pool_of(ray: Any, kind: Kind = "auto", per_gpu: int = 1) -> ThreadPool:
    """Workers on the GPUs of a cluster, so many to each; on its processors where it has none, or they are asked for."""
    n_processors_all, n_gpus = n_processors(ray), int(ray.cluster_resources().get("GPU", 0))
    if kind == "cuda" and n_gpus == 0:
        hint = f"start Ray with them (ray start --num-gpus), or pass {named('workers', 'cpu')}."
        raise InvalidArgument("finds no GPU in the cluster", argument="workers", value=kind, hint=hint)
    if kind == "cpu" or n_gpus == 0:
        return ThreadPool(n_processors_all)
    size, share = n_gpus * per_gpu, 1.0 / per_gpu
    hardware = Hardware("cuda", share, is_asked=kind == "cuda")
    return ThreadPool(size, min(1.0, n_processors_all / size), USED * share, hardware)


class Actor(Shard):
    """A shard in a process of its own, with one processor."""

    def __init__(self, part: Part, hardware: Hardware = HOST) -> None:
        os.environ.setdefault(VARIABLE, "1")
        super().__init__(part, hardware)


class RayWorkers:
    """See `dubito.engines.cluster.workers.Workers`."""

    def __init__(self, parts: Iterable[Part], ray: Any, thread_pool: ThreadPool | None = None) -> None:
        self.ray, self.thread_pool = ray, thread_pool or ThreadPool(n_processors(ray))
        self.restore: Restore = lambda shard: [("open", ())]
        self.n_lost = 0
        """Workers that died and were made anew."""
        # Put one after another, so that parts which are made here need not be here all at once.
        self.parts = [ray.put(part) for part in parts]
        self.actors = [self._start(part, self.thread_pool) for part in self.parts]

    def __len__(self) -> int:
        return len(self.parts)

    def _start(self, part: Any, thread_pool: ThreadPool) -> Any:
        options = {"num_cpus": thread_pool.n_processors, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        if thread_pool.n_gpus:
            options["num_gpus"] = thread_pool.n_gpus
        return self.ray.remote(Actor).options(**options).remote(part, thread_pool.hardware)

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
                return self._wait(shard, call)
            except (lost.RayActorError, lost.ObjectLostError, lost.WorkerCrashedError, lost.NodeDiedError) as error:
                self.n_lost += 1
                reason = str(error).splitlines()[0]
                time.sleep(min(PAUSE * 2**attempt, LONGEST_PAUSE))
            except lost.RayTaskError as error:
                raise (error.cause if isinstance(error.cause, DubitoError) else error) from None
        raise InvalidData(
            f"the worker of shard {shard} died {ATTEMPTS} times ({reason})",
            hint="give workers more memory, or cut the pool into more shards.",
        )

    def _renew(self, shard: int) -> None:
        """Another process for a shard, brought up to date; it need not wait for a free processor."""
        self.ray.kill(self.actors[shard])
        self.actors[shard] = self._start(self.parts[shard], self._spare())
        for method, arguments in self.restore(shard):
            self._wait(shard, self._send(shard, method, *arguments))

    def _wait(self, shard: int, call: Any) -> Any:
        """What a call comes to; an error where it never does."""
        seconds = float(os.environ.get(PATIENCE, LONGEST_WAIT))
        try:
            return self.ray.get(call, timeout=seconds)
        except self.ray.exceptions.GetTimeoutError:
            hint = f"see whether its node is well; for work that takes longer set {PATIENCE} to more seconds."
            raise InvalidData(f"the worker of shard {shard} gave no answer in {seconds:g} seconds", hint=hint) from None

    def _spare(self) -> ThreadPool:
        """What a worker made anew asks for: a GPU that others have, too, or the CPU where no GPU is left."""
        thread_pool = self.thread_pool
        if thread_pool.n_gpus and self.ray.cluster_resources().get("GPU", 0) >= 1:
            return ThreadPool(1, 0.0, LITTLE, thread_pool.hardware)
        return ThreadPool(1, 0.0)

    def close(self) -> None:
        """Let the processes and what they were given go."""
        for actor in self.actors:
            self.ray.kill(actor)
        self.actors, self.parts = [], []
