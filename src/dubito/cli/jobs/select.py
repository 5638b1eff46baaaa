"""What ``dubito select`` does once its options are read."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np

from dubito.checks import check_candidates, check_choice, check_integer, check_memory_limit, read_number
from dubito.cli.inputs.files import Inputs, note
from dubito.cli.inputs.labelled import LabelledInputs
from dubito.cli.inputs.labels import labels_argument
from dubito.cli.inputs.rows import own_candidates, read_candidate_rows, read_earlier
from dubito.cli.inputs.scaling import When, is_wanted, told_scale
from dubito.cli.jobs.target import Target
from dubito.cli.printing.failures import naming_files
from dubito.cli.printing.messages import Bar, say
from dubito.files import Columns, read_picks
from dubito.files.disk import held
from dubito.fitting.estimators import find_model
from dubito.fitting.record import NO_MODEL
from dubito.limits import Limits
from dubito.matrix import BoolArray, IntArray, len_of
from dubito.names.labels import EMPTY
from dubito.problem import Interrupted, Metric, Progress, Selection
from dubito.selecting import select
from dubito.strategies import Strategy, build_strategy


@dataclass(frozen=True, slots=True)
class Method:
    """How to pick."""

    budget: int
    strategy: Strategy
    metric: Metric
    engine: str
    memory_limit: int | None
    seed: int
    standardise: bool = False
    spend: float | None = None
    quotas: object = None
    temperature: float | None = None
    model: str = NO_MODEL

    def limited(self, spend: float | None, quotas: object) -> "Method":
        """The same within limits."""
        return replace(self, spend=spend, quotas=quotas)

    def heated(self, temperature: float | None) -> "Method":
        """The same with logits divided by this."""
        return replace(self, temperature=temperature)

    def fitting(self, model: str) -> "Method":
        """The same with a model of this kind, fitted on labels."""
        if model != NO_MODEL:
            find_model(model)
        return replace(self, model=model)

    def limits(self, found: Inputs) -> Limits:
        """What is said of costs and classes, with what the files hold."""
        return Limits(found.beside.get("costs"), self.spend, self.quotas, found.beside.get("classes"))


def read_own(
    features: str | None, strength: str | None, beam_width: str | None, scaling: str | None
) -> dict[str, object]:
    """Those options of strategies that were given."""
    numbers = {"strength": strength, "beam_width": beam_width}
    read = {name: None if text is None else read_number(text) for name, text in numbers.items()}
    given: dict[str, object] = {**read, "scaling": scaling, "features": features}
    return {name: value for name, value in given.items() if value is not None}


def read_method(
    budget: str,
    strategy: str,
    own: Mapping[str, object],
    metric: str,
    engine: str,
    memory_limit: str | None,
    seed: str,
) -> Method:
    """The options as the library takes them."""
    return Method(
        check_integer("budget", read_number(budget), least=1),
        build_strategy(strategy, own),
        check_choice("metric", metric, get_args(Metric)),
        engine,
        check_memory_limit(memory_limit),
        check_integer("seed", read_number(seed), least=0),
    )


def with_scale(method: Method, found: Inputs, when: When) -> Method:
    """The method with features standardised or not, and a note where that was not asked for."""
    names = found.pool.feature_names
    advice = told_scale(when, names, found.pool.features)
    if advice is not None:
        note(advice)
    return replace(method, standardise=is_wanted(when, names))


@contextmanager
def holding(target: Target, dry_run: bool, quiet: bool) -> Iterator[None]:
    """With ``--append`` the file is ours from reading its picks to adding new ones: two at once take turns."""
    if dry_run or not target.append or target.path is None:
        yield
        return
    with held(target.path, waiting=lambda: say(f"waiting for another who adds to {target.path}", quiet=quiet)):
        yield


def without_earlier_picks(found: Inputs, target: Target, columns: Columns) -> Inputs:
    """With ``--append`` the picks in the file are labelled by now, or soon will be."""
    if not target.append or target.path is None or not os.path.exists(target.path):
        return found
    earlier = read_earlier(target.path, read_picks(target.path), found.pool, columns)
    return replace(found, labelled=found.labelled.joined(LabelledInputs(earlier)))


def read_candidates(spec: str | None, found: Inputs, columns: Columns) -> IntArray | None:
    """Rows that may be picked, or None for all that are not labelled."""
    n_pool = len_of(found.pool.features)
    with naming_files({"candidates": spec or found.files["pool"]}):
        if spec is None:
            wanted = own_candidates(found.pool, columns, note)
        else:
            wanted = read_candidate_rows(spec, found.pool, columns, note)
    if found.labelled.foreign and len(found.labelled.rows):
        # select() keeps rows back that it knows to be labelled, but not where they come as features.
        return check_candidates(wanted, n_pool, found.labelled.rows)
    return wanted


def pick(found: Inputs, allowed: IntArray | None, method: Method, quiet: bool) -> Selection:
    """Select with a progress bar; after Ctrl-C, the picks so far."""
    with Bar("picking", quiet=quiet) as bar:
        try:
            selection = call_select(found, allowed, method, bar)
        except Interrupted as stopped:
            selection = stopped.selection
    ids = found.pool.ids
    return selection if ids is None else replace(selection, ids=ids[selection.indices])


def call_select(found: Inputs, allowed: IntArray | None, method: Method, progress: Progress | None = None) -> Selection:
    """`dubito.select` with what the files hold; an error says which file it is about."""
    limits = method.limits(found)
    with naming_files(found.files, found.place):
        return select(
            found.pool.features,
            method.budget,
            labelled=found.labelled.argument(found.pool.features),
            probabilities=found.doubt.get("probabilities"),
            logits=found.doubt.get("logits"),
            doubt=found.doubt.get("doubt"),
            temperature=method.temperature,
            labels=labels_argument(found),
            model=method.model,
            no_label=EMPTY,
            strategy=method.strategy,
            candidates=candidates_of(found, allowed),
            costs=limits.costs,
            spend=method.spend,
            quotas=limits.quotas,
            classes=limits.classes,
            metric=method.metric,
            standardise=method.standardise,
            engine=method.engine,
            memory_limit=method.memory_limit,
            seed=method.seed,
            progress=progress,
        )


def candidates_of(found: Inputs, allowed: IntArray | None) -> BoolArray | None:
    """Rows that may be picked as a mask, which nobody can take for ids."""
    return None if allowed is None else np.isin(np.arange(len_of(found.pool.features)), allowed)
