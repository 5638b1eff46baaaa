"""What ``dubito select --dry-run`` does: everything but picking."""

import json
from dataclasses import asdict, dataclass

from dubito.asking import Wanted, build_request, check_points, check_terms, with_model
from dubito.cli.inputs.files import Inputs
from dubito.cli.inputs.labels import labels_argument
from dubito.cli.jobs.select import Method, candidates_of
from dubito.cli.printing.failures import naming_files
from dubito.cli.printing.messages import say
from dubito.cli.printing.plain import put
from dubito.doubt.reading import Sources
from dubito.estimating import forecast
from dubito.files.choosing import DOUBT_ROLES
from dubito.matrix import IntArray, len_of
from dubito.names.labels import EMPTY
from dubito.problem import Request
from dubito.strategies import Strategy
from dubito.strategies.arguments import configure_strategy


@dataclass(frozen=True, slots=True)
class DryRunFacts:
    """What a dry run tells."""

    n: int
    d: int
    dtype: str
    labelled: int
    candidates: int
    budget: int
    strategy: str
    engine: str | None
    """Which would run; None for a strategy without an engine."""
    megabytes: float | None
    """Memory beyond the inputs, at most; None where that is not known."""
    seconds: float | None
    notes: tuple[str, ...] = ()
    """What a person should know of it: on stderr, and in JSON."""


def show_dry_run(found: Inputs, allowed: IntArray | None, method: Method, as_json: bool, quiet: bool) -> None:
    """Print what would be done."""
    with naming_files(found.files, found.place):
        strategy = configure_strategy(method.strategy, method.engine)
        facts = asdict(foretell(strategy, read_request(found, allowed, method)))
    for told in facts["notes"]:
        say(told, quiet=quiet)
    if as_json:
        print(json.dumps({"schema": 1, **facts}, indent=2))
    else:
        del facts["notes"]
        for name, value in facts.items():
            put([f"{name:<12}{'none' if value is None else value}"])


def read_request(found: Inputs, allowed: IntArray | None, method: Method) -> Request:
    """The request of the run that would follow, after all the checks of `dubito.select`."""
    features = found.pool.features
    terms = check_terms(method.engine, method.memory_limit, method.seed, progress=None)
    named = found.labelled.argument(features)
    points = check_points(features, named, method.metric)
    probabilities, logits, doubt = map(found.doubt.get, DOUBT_ROLES)
    doubts = Sources(probabilities, logits, doubt, method.temperature, labels_argument(found), named)
    wanted = Wanted(method.model, EMPTY)
    points, doubts, limits = with_model(points, doubts, method.limits(found), method.strategy, wanted, terms.seed)
    return build_request(points, terms, method.budget, candidates_of(found, allowed), doubts, limits=limits)


def foretell(strategy: Strategy, request: Request) -> DryRunFacts:
    """Sizes, engine and cost."""
    engine, cost, taken, note = forecast(strategy, request)
    (n, d), dtype = request.pool.shape, str(request.pool.dtype)
    megabytes, seconds = (None, None) if cost is None else (round(cost.bytes / 1e6, 1), round(cost.seconds, 2))
    sizes = (n, d, dtype, len_of(request.references), len(request.candidates), request.budget)
    notes = (*request.notes, *([] if note is None else [note]))
    return DryRunFacts(*sizes, taken, engine, megabytes, seconds, notes)
