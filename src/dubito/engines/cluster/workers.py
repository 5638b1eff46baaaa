"""Processes that hold shards: asked all at once, and made again when they die."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from dubito.engines.cluster.hardware import HOST, Hardware
from dubito.engines.cluster.shard import Part, Shard

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
