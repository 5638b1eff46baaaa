"""A worker's part of the pool: a few shards one below another, read and made a problem where they are wanted."""

from dataclasses import dataclass, replace

import numpy as np

from dubito.checks import refuse_zero_rows
from dubito.checks.rows import check_finite
from dubito.coverage import CoverageProblem
from dubito.doubt.reading import read_doubt
from dubito.engines.cluster.shard import Opened
from dubito.errors import InvalidArgument
from dubito.files.choosing import DOUBT_ROLES
from dubito.files.entries import one_below_another
from dubito.matrix import AnyArray, FloatArray, IntArray, Matrix, len_of
from dubito.problem import Metric, Problem, Request
from dubito.sharding.items import Item, Read
from dubito.strategies.auto import FEWEST, Auto
from dubito.strategies.base import Strategy
from dubito.strategies.coreset import Coreset, DoubtCoreset
from dubito.strategies.coverage import Coverage, DoubtCoverage
from dubito.wording import named

NO_ROWS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Group:
    """Shards that one worker holds."""

    items: tuple[Item, ...]
    strategy: Strategy
    metric: Metric

    def open(self) -> Opened:
        """Read every one of them, check it, and let the strategy make a problem of them."""
        read = [item.read() for item in self.items]
        features = _joined([each.features for each in read], [name_of(item) for item in self.items])
        largest = check_finite("pool", features)
        if self.metric == "cosine":
            refuse_zero_rows("pool", features)
        marked = np.concatenate([_mask(each) for each in read])
        candidates, labelled = np.flatnonzero(~marked), np.flatnonzero(marked)
        probabilities, doubt = _doubt(read)
        planned = alternatives(self.strategy, doubt is not None)
        if all(getattr(each, "doubt", "confidence") == "confidence" for each in planned):
            probabilities = None  # All that is asked of them is known by now.
        request = _request(features, candidates, labelled, self.metric, 1.0 if self.metric == "cosine" else largest)
        request = replace(request, probabilities=probabilities, doubt=doubt)
        problems = [plan(each, request) for each in planned]
        ids = [each.ids for each in read if each.ids is not None]
        named_rows = np.concatenate(ids) if len(ids) == len(read) else None
        return Opened(problems[0], labelled, named_rows, problems[1] if len(problems) > 1 else None)


def alternatives(strategy: Strategy, is_doubted: bool) -> list[Strategy]:
    """What is taken where enough is labelled, and where little is, if that is another one."""
    if not isinstance(strategy, Auto):
        return [strategy]
    return list(dict.fromkeys(strategy.take_unasked(is_doubted, n_labelled)[0] for n_labelled in (FEWEST, 0)))


def asked(strategy: Strategy, n_features: int, is_doubted: bool, metric: Metric) -> Problem | CoverageProblem:
    """What a strategy asks of an engine, whatever the rows."""
    request = _request(np.zeros((1, n_features)), np.zeros(1, np.int64), NO_ROWS, metric, 1.0)
    return plan(strategy, replace(request, doubt=np.ones(1) if is_doubted else None))


def _request(features: Matrix, candidates: IntArray, labelled: IntArray, metric: Metric, largest: float) -> Request:
    return Request(
        pool=features,
        budget=1,
        references=np.empty((0, features.shape[1])),
        candidates=candidates,
        probabilities=None,
        doubt=None,
        metric=metric,
        largest=largest,
        engine="cluster",
        memory_limit=None,
        seed=0,
        progress=None,
        labelled=labelled,
    )


def plan(strategy: Strategy, request: Request) -> Problem | CoverageProblem:
    """What a strategy asks of an engine, of these rows alone: a sample is taken of all shards together."""
    if isinstance(strategy, Coverage | DoubtCoverage):
        return replace(strategy, sample=None).plan(request)
    if isinstance(strategy, Coreset | DoubtCoreset):
        return strategy.plan(request)
    names = ", ".join(named("strategy", name) for name in ("doubt-coverage", "coverage", "doubt-coreset"))
    mend = f"pass {names} or {named('strategy', 'coreset')}."
    raise InvalidArgument("cannot choose from shards", argument="strategy", value=strategy.name, mend=mend)


def name_of(item: Item) -> str:
    """What messages call a shard."""
    return str(getattr(item, "address", None) or getattr(item, "name", None) or name_of(getattr(item, "item", item)))


def _joined(parts: list[Matrix], names: list[str]) -> Matrix:
    return parts[0] if len(parts) == 1 else one_below_another(parts, names)


def _mask(read: Read) -> AnyArray:
    return np.zeros(len_of(read.features), dtype=np.bool_) if read.labelled is None else read.labelled


def _doubt(read: list[Read]) -> tuple[AnyArray | None, FloatArray | None]:
    """Probabilities, where there are any, and doubt; each shard is checked by itself, and brought to doubt there."""
    found = [_doubt_of(each) for each in read]
    doubts = [doubt for _, doubt in found if doubt is not None]
    if len(doubts) < len(read):
        return None, None
    probabilities = [each for each, _ in found if each is not None]
    n_filled = sum(len(doubt) > 0 for doubt in doubts)
    whole = np.concatenate(probabilities) if len(probabilities) == n_filled > 0 else None
    return whole, np.concatenate(doubts)


def _doubt_of(read: Read) -> tuple[AnyArray | None, FloatArray | None]:
    if read.doubt is None:
        return None, None
    role, values = read.doubt
    if len(values) == 0:
        return None, np.empty(0)
    given = (values if role == each else None for each in DOUBT_ROLES)
    probabilities, doubt = read_doubt(len(values), *given)
    return (None if probabilities is None else np.asarray(probabilities[:])), doubt
