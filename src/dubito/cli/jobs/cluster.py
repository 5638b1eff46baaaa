"""``dubito select --engine cluster``: shards that a Ray cluster reads, and this process does not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from dubito.api import select
from dubito.cli.inputs.pool import DoubtSpecs
from dubito.cli.jobs.select import Target
from dubito.cli.output import Bar, say
from dubito.core.problem import Interrupted, Selection
from dubito.doubt.reading import two_sources
from dubito.errors import InvalidArgument, named
from dubito.io import Columns, open_source, read_array, read_picks, split_spec
from dubito.matrix import AnyArray
from dubito.request.arrays import read_number

if TYPE_CHECKING:
    from dubito.sharding.shards import Shards


@dataclass(frozen=True, slots=True)
class Where:
    """The options of a cluster, as they were given."""

    address: str | None
    journal: str | None
    workers: str | None
    workers_per_gpu: str | None

    def is_asked(self, engine: str) -> bool:
        """Whether a cluster is to select; options of a cluster without one are refused."""
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and engine != "cluster":
                raise InvalidArgument(
                    "is for --engine cluster", argument=each.name, value=value, hint="pass that, too."
                )
        return engine == "cluster"

    def shards(self, pool: str, columns: Columns, given: Mapping[str, Any]) -> "Shards":
        """The pool as this cluster is to read it."""
        from dubito.sharding.shards import Shards

        named_workers: dict[str, Any] = {} if self.workers is None else {"workers": self.workers}
        if self.workers_per_gpu is not None:
            named_workers["workers_per_gpu"] = read_number(self.workers_per_gpu)
        return Shards(pool, columns=columns, journal=self.journal, **given, **named_workers)


def refuse(target: Target, others: Mapping[str, object]) -> None:
    """Refuse what one machine alone can do."""
    given = next((name for name, value in others.items() if value), "append" if target.append else None)
    if given is not None:
        hint = "leave it out, or --engine cluster."
        raise InvalidArgument(f"{named(given)} does not go with --engine cluster", hint=hint)


def pick(
    pool: str,
    labeled: Sequence[str],
    sources: DoubtSpecs,
    columns: Columns,
    options: Mapping[str, Any],
    where: Where,
    *,
    quiet: bool,
) -> Selection:
    """Select from a file or a folder of shards; doubt beside it lies in as many."""
    from dubito.engines.cluster.workers import connect
    from dubito.sharding.shards import list_shards

    given: dict[str, Any] = {role: list_shards(spec) for role, spec in sources.items() if spec is not None}
    if len(given) > 1:
        raise two_sources(given)
    shards = where.shards(pool, columns, given)
    rows = _read_labeled(labeled, columns)
    say("connecting to Ray" + ("" if where.address is None else f" at {where.address}"), quiet=quiet)
    connect(where.address)
    with Bar("picking", quiet=quiet) as bar:
        try:
            return select(
                shards,
                options["budget"],
                labeled=rows,
                strategy=options["strategy"],
                metric=options["metric"],
                engine="cluster",
                seed=options["seed"],
                progress=bar,
            )
        except Interrupted as stopped:
            return stopped.selection


def _read_labeled(specs: Sequence[str], columns: Columns) -> AnyArray | None:
    """Rows of the whole pool, from files of picks, or features; not both."""
    if not specs:
        return None
    parts = [
        read_picks(spec)
        if "index" in open_source(split_spec(spec)[0]).names
        else np.asarray(read_array(spec, "labeled", columns=columns)[:])
        for spec in specs
    ]
    if len({part.ndim for part in parts}) > 1:
        raise InvalidArgument("names both rows and features", argument="labeled", hint="pass files of one kind.")
    return np.concatenate(parts)
