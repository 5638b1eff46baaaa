"""An experiment, as one TOML file says it: data, pool, model, schedule, strategies and seeds."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, cast

from dubito.checks import check_integer
from dubito.errors import InvalidArgument
from dubito.experiments.datasets.images.loading import COLLECTIONS
from dubito.experiments.datasets.pools import parse_pool
from dubito.experiments.models.base import Model
from dubito.experiments.models.kinds import model_as_table, model_from_table
from dubito.experiments.models.linear import Linear
from dubito.experiments.plans.arms import Arm, arm_from_table, parse_strategy
from dubito.experiments.plans.settings import DEFAULT_TEST_SHARE, Data, Schedule, check_text
from dubito.experiments.toml import check_keys, naming, read_toml, write_toml
from dubito.wording import PASS

__all__ = [
    "DEFAULT_TEST_SHARE",
    "SCHEMA",
    "Data",
    "Experiment",
    "Schedule",
    "experiment_from_table",
    "parse_experiment",
    "read_experiment",
    "read_seeds",
]

SCHEMA = 1
MOST_SEEDS = 1_000_000
LATER = ("ignore_columns", "no_label", "missing")
"""Settings that files of earlier versions do not have: written only where they are not as by default."""
KEYS = ("schema", "name", "seeds", "pool", "data", "model", "schedule", "strategies")
PUBLISHED = (*COLLECTIONS, "imagenet", "none")
"""What stands where a path could, and is none."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Experiment:
    """Everything that decides an experiment's results.

    Examples
    --------
    >>> plan = Experiment("digits", (Arm("random"), Arm("coreset")), Data(builtin="digits"), seeds=(0, 1))
    >>> parse_experiment(plan.to_toml()) == plan, plan.folder_name == f"digits-{plan.hash8}"
    (True, True)
    """

    name: str
    strategies: tuple[Arm, ...]
    data: Data = field(default_factory=Data)
    schedule: Schedule = field(default_factory=Schedule)
    model: Model = field(default_factory=Linear)
    pool: str = "clean"
    """What is done to the training part, as `datasets.pools.parse_pool` reads it: ``redundant:5``, say."""
    seeds: tuple[int, ...] = tuple(range(10))

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise InvalidArgument(
                "cannot be a folder's", argument="name", value=self.name, mend="use letters, digits, '.', '-' and '_'."
            )
        if not self.strategies:
            mend = "name at least one, such as 'random'."
            raise InvalidArgument("is empty", argument="strategies", mend=mend)
        check_text("pool", self.pool)
        parse_pool(self.pool)
        if not self.seeds:
            raise InvalidArgument("is empty", argument="seeds", mend=f"{PASS} at least one, or how many.")
        for seed in self.seeds:
            check_integer("seeds", seed, least=0)
        _refuse_twice("seeds", self.seeds, f"{PASS} each once.")
        _refuse_twice("strategies", [arm.name for arm in self.strategies], "give one of them another label.")
        asking = [arm.name for arm in self.strategies if arm.needs_samples]
        if asking and not self.model.samples:
            raise InvalidArgument(
                f"strategy {asking[0]!r} asks a committee, and the model has none", mend="set samples = 10 in [model]."
            )

    @property
    def hash8(self) -> str:
        """Eight hexadecimal digits that change with anything that decides the results."""
        return hashlib.sha256(write_toml(self.as_table(explicit=False)).encode()).hexdigest()[:8]

    @property
    def folder_name(self) -> str:
        """``<name>-<hash8>``."""
        return f"{self.name}-{self.hash8}"

    def as_table(self, *, explicit: bool = True) -> dict[str, object]:
        """As TOML holds it, with or without what is as by default."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "seeds": list(self.seeds),
            "pool": self.pool,
            "data": _settings(self.data, explicit),
            "model": model_as_table(self.model, explicit=explicit),
            "schedule": _settings(self.schedule, explicit),
            "strategies": [arm.as_dict() for arm in self.strategies],
        }

    def to_toml(self) -> str:
        """The experiment as a file; every setting is written out."""
        return write_toml(self.as_table())


def read_experiment(path: str) -> Experiment:
    """An experiment out of a TOML file; data files are found from where it lies.

    An unknown key is an error that names the file, the key and the nearest one that is known.
    """
    table = read_toml(path)
    with naming(path):
        return experiment_from_table(table, beside=os.path.dirname(os.path.abspath(path)))


def parse_experiment(text: str) -> Experiment:
    """An experiment out of TOML text."""
    import tomllib

    return experiment_from_table(tomllib.loads(text))


def experiment_from_table(table: Mapping[str, object], *, beside: str | None = None) -> Experiment:
    """An experiment out of a TOML table; relative paths of data are taken from the folder ``beside``."""
    check_keys("the file", table, KEYS)
    if "schema" not in table:
        mend = f"write schema = {SCHEMA} on the first line."
        raise InvalidArgument("is missing", argument="schema", mend=mend)
    if table["schema"] != SCHEMA:
        raise InvalidArgument(
            "is not known to this version", argument="schema", value=table["schema"], mend=f"write schema = {SCHEMA}."
        )
    with naming("[data]"):
        data = Data(**_resolved(_section(_spelled(table), "data", Data), beside))
    with naming("[schedule]"):
        schedule = Schedule(**_section(table, "schedule", Schedule))
    with naming("[model]"):
        model = model_from_table(_placed(_section(table, "model"), ("weights",), beside))
    with naming("[[strategies]]"):
        arms = _arms(table.get("strategies"))
    return Experiment(
        name=cast("str", table.get("name")),
        strategies=arms,
        data=data,
        schedule=schedule,
        model=model,
        pool=cast("str", table.get("pool", "clean")),
        seeds=read_seeds(table.get("seeds", 10)),
    )


def read_seeds(value: object) -> tuple[int, ...]:
    """Seeds out of how many, or out of a list.

    Examples
    --------
    >>> read_seeds(3), read_seeds([4, 7])
    ((0, 1, 2), (4, 7))
    """
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(check_integer("seeds", each, least=0) for each in value)
    count = check_integer("seeds", value, least=1)
    if count > MOST_SEEDS:
        raise InvalidArgument("is too many", argument="seeds", value=count, mend=f"{PASS} {MOST_SEEDS:,} or fewer.")
    return tuple(range(count))


def _section(table: Mapping[str, object], key: str, kind: type[Data | Schedule] | None = None) -> dict[str, Any]:
    """A table of the file; its keys are checked against the settings of the class."""
    section = table.get(key, {})
    if not isinstance(section, Mapping):
        raise InvalidArgument("is no table", argument=key, value=section, mend=f"write [{key}], and its keys below.")
    if kind is not None:
        check_keys("it", section, [each.name for each in fields(kind)])
    return dict(section)


def _spelled(table: Mapping[str, object]) -> Mapping[str, object]:
    """The table with ``standardize`` of its data as we spell it, as the command line takes both."""
    section = table.get("data")
    if not isinstance(section, Mapping) or "standardize" not in section or "standardise" in section:
        return table
    return {"data": {{"standardize": "standardise"}.get(key, key): value for key, value in section.items()}}


def _resolved(section: dict[str, Any], beside: str | None) -> dict[str, Any]:
    """Data settings with paths that mean the same from anywhere, and tuples for lists."""
    section = _placed(section, ("path", "test", "images"), beside)
    for key in ("feature_columns", "ignore_columns", "no_label"):
        names = section.get(key, ())
        names = (names,) if isinstance(names, str) else names
        if not isinstance(names, Sequence) or not all(isinstance(each, str) for each in names):
            raise InvalidArgument("is no list of names", argument=key, value=names, mend="write them in quotes.")
        section[key] = tuple(names)
    if isinstance(section.get("size"), list):
        section["size"] = tuple(section["size"])
    return section


def _placed(section: dict[str, Any], keys: Sequence[str], beside: str | None) -> dict[str, Any]:
    """Settings with relative paths taken from a folder; names of published data and weights stay as they are."""
    for key in keys:
        if beside is not None and isinstance(section.get(key), str) and section[key] not in PUBLISHED:
            section[key] = os.path.normpath(os.path.join(beside, section[key]))
    return section


def _arms(tables: object) -> tuple[Arm, ...]:
    if not isinstance(tables, Sequence) or isinstance(tables, str) or not tables:
        raise InvalidArgument("there is none", mend='write [[strategies]], and below it strategy = "random", say.')
    for each in tables:
        if not isinstance(each, str | Mapping):
            raise InvalidArgument(
                f"holds {each!r}",
                argument="strategies",
                mend="name a strategy in quotes, or write [[strategies]].",
            )
    return tuple(parse_strategy(each) if isinstance(each, str) else arm_from_table(each) for each in tables)


def _settings(settings: Data | Schedule, explicit: bool) -> dict[str, object]:
    table = asdict(settings)
    return {
        each.name: table[each.name]
        for each in fields(settings)
        if (explicit and each.name not in LATER) or table[each.name] != each.default
    }


def _refuse_twice(name: str, values: Sequence[str | int], mend: str) -> None:
    for value, count in Counter(values).items():
        if count > 1:
            raise InvalidArgument(f"holds {value!r} twice", argument=name, mend=mend)
