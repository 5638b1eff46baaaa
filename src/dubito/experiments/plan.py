"""The definition of an experiment in one TOML file: data, pool, model, schedule, strategies and seeds."""

import hashlib
import os
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import ModuleType
from typing import Any, cast, get_args

import numpy as np

from dubito.core.problem import Metric
from dubito.errors import PASS, TRUE_OR_FALSE, InvalidArgument, MissingFile, named
from dubito.experiments.images import COLLECTIONS, is_table
from dubito.experiments.models.base import Model, NeedsFiles
from dubito.experiments.models.kinds import model_as_table, model_from_table
from dubito.experiments.models.linear import Linear
from dubito.experiments.pools import parse_pool
from dubito.experiments.toml import check_keys, prefix_errors, read_toml, write_toml
from dubito.io import Columns
from dubito.io.missing_values import Missing
from dubito.io.source import did_you_mean
from dubito.matrix import FloatArray, IntArray
from dubito.registry import Registry
from dubito.request.arrays import check_choice, check_integer, check_real
from dubito.strategies import STRATEGIES, Strategy, build_strategy
from dubito.strategies import option_names as strategy_options
from dubito.strategies.base import Option, parse_name

# The tables ``[data]`` and ``[schedule]``.

DEFAULT_TEST_SHARE = 0.2
MAX_ROUNDS = 10_000_000


@dataclass(frozen=True, slots=True)
class Data:
    """The source of features and labels: a file, a built-in data set, or (with neither) arrays passed in Python."""

    path: str | None = None
    labeled: tuple[str, ...] = ()
    """Files with labels of rows of the path, as for ``dubito select --labeled``, if it has none of its own."""
    builtin: str | None = None
    """``digits``, or the name of a data set that another package registers."""
    images: str | None = None
    """A published collection such as ``cifar10``, a folder with a folder for each class, or a Parquet file."""
    size: tuple[int, ...] = ()
    """Height and width to which the pictures of a folder or a Parquet file are resized."""
    test: str | None = None
    """A file with the test set; an archive may hold its own as ``test_features`` and ``test_labels``."""
    test_share: float | None = None
    """The share of each class that is held out for testing; 0.2 by default if the data has no test set. If the data has
    a test set, setting this ignores it: use that to make choices, and the test set only for the final result."""
    rows: int | None = None
    """Number of rows of the training part to use, drawn with the seed. Default: all."""
    id_column: str | None = None
    label_column: str | None = None
    feature_columns: tuple[str, ...] = ()
    ignore_columns: tuple[str, ...] = ()
    no_label: tuple[str, ...] = ()
    """Values that mean unlabeled, such as -1; or ``empty``, if only empty cells mean unlabeled."""
    missing: str | None = None
    """What to do about missing features: ``median`` fills in the median of the column over the labeled rows, ``drop``
    omits the row. Default: raise an error that says how many there are."""
    standardize: bool = False
    """Give every feature mean 0 and standard deviation 1 over the training part."""

    @property
    def columns(self) -> Columns:
        """The names of columns for reading files."""
        return Columns(
            self.id_column, self.label_column, self.feature_columns, self.ignore_columns, no_label=self.no_label
        )

    def __post_init__(self) -> None:
        for name in ("path", "builtin", "images", "test", "id_column", "label_column"):
            check_text(name, getattr(self, name))
        sources = [name for name in ("path", "builtin", "images") if getattr(self, name) is not None]
        if len(sources) > 1:
            names = " and ".join(map(named, sources))
            raise InvalidArgument(f"{names} are two sources of data", hint=f"{PASS} only one of them.")
        if self.labeled and self.path is None:
            raise InvalidArgument("needs a path", argument="labeled", value=self.labeled, hint="set the path as well.")
        if self.test is not None and self.path is None and not is_table(self.images or ""):
            hint = f"set the path as well, or leave {named('test')} out."
            raise InvalidArgument("needs a path", argument="test", value=self.test, hint=hint)
        if self.size and (self.images is None or self.images in COLLECTIONS.names()):
            problem = "is for pictures in a folder or a Parquet file"
            raise InvalidArgument(problem, argument="size", value=self.size, hint="leave it out.")
        if self.images is not None and self.standardize:
            problem = "is for features, and models scale images themselves"
            raise InvalidArgument(problem, argument="standardize", hint="leave it out.")
        if self.missing is not None:
            check_choice("missing", self.missing, get_args(Missing))
        if self.rows is not None:
            check_integer("rows", self.rows, least=2)
        if self.test is not None and self.test_share is not None:
            names = f"{named('test')} and {named('test_share')}"
            raise InvalidArgument(f"{names} both define a test set", hint=f"{PASS} only one of them.")
        if self.test_share is not None and not 0 < check_real("test_share", self.test_share, least=0.0) < 1:
            hint = f"{PASS} 0 < {named('test_share')} < 1."
            raise InvalidArgument("is not allowed", argument="test_share", value=self.test_share, hint=hint)
        if not isinstance(self.standardize, bool):
            raise InvalidArgument("is not allowed", argument="standardize", value=self.standardize, hint=TRUE_OR_FALSE)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The number of labels and rounds."""

    initial: int = 20
    """Labels drawn at random before the first training."""
    budget: int = 20
    """Labels to query in each round."""
    rounds: int = 6
    from_scratch: bool = False
    """Train from new weights in each turn; else continue from the weights of the last turn, with a new optimizer."""

    def __post_init__(self) -> None:
        for name in ("initial", "budget", "rounds"):
            check_integer(name, getattr(self, name), least=1)
        if not isinstance(self.from_scratch, bool):
            raise InvalidArgument(
                "is not allowed", argument="from_scratch", value=self.from_scratch, hint=TRUE_OR_FALSE
            )

    @property
    def labels(self) -> IntArray:
        """(rounds + 1,) number of labels at each training."""
        if self.rounds > MAX_ROUNDS:
            raise InvalidArgument("is too many", argument="rounds", value=self.rounds, hint=f"{PASS} fewer.")
        return self.initial + self.budget * np.arange(self.rounds + 1)

    def check_size(self, n_train: int) -> None:
        """Raise if the schedule needs more labels than there are rows to query."""
        if self.initial > n_train:
            problem = f"exceeds the {n_train} rows of the training part"
            hint = f"{PASS} {named('initial')} <= {n_train}."
            raise InvalidArgument(problem, argument="initial", value=self.initial, hint=hint)
        n_labels, max_rounds = self.initial + self.budget * self.rounds, (n_train - self.initial) // self.budget
        if n_labels > n_train and not max_rounds:
            problem = f"after {named('initial', self.initial)} exceeds the {n_train} rows of the training part"
            hint = f"{PASS} {named('budget')} <= {n_train - self.initial}."
            raise InvalidArgument(problem, argument="budget", value=self.budget, hint=hint)
        if n_labels > n_train:
            problem = (
                f"of {named('budget', self.budget)} after {named('initial', self.initial)} need {n_labels} labels, and "
                f"the training part has {n_train} rows"
            )
            hint = f"{PASS} {named('rounds')} <= {max_rounds}."
            raise InvalidArgument(problem, argument="rounds", value=self.rounds, hint=hint)


def check_text(name: str, value: object) -> None:
    """Raise unless a value is None or nonempty text."""
    if value is not None and not (isinstance(value, str) and value):
        hint = "pass text in quotes, or leave it out."
        raise InvalidArgument("is not allowed", argument=name, value=value, hint=hint)


# The strategies that an experiment compares, with their options and the names that records and plots show.

BASELINES = ("random", "coreset")
"""Names that reports look for; no other strategy may have them as its label."""
ARM_KEYS = ("strategy", "label", "metric", "permuted")
"""Keys of a ``[[strategies]]`` table that are not options of the strategy."""


@dataclass(frozen=True, slots=True)
class Arm:
    """A strategy with its options.

    Examples
    --------
    >>> Arm("doubt-coreset", {"strength": 0.5}).name
    'doubt-coreset:strength=0.5'
    """

    strategy: str
    options: Mapping[str, Option] = field(default_factory=dict)
    label: str | None = None
    """The name to show instead of the strategy and its options."""
    metric: Metric = "euclidean"
    permuted: bool = False
    """Whether this is a control: the predicted probabilities are permuted among the unlabeled rows."""

    def __post_init__(self) -> None:
        known = strategy_options(STRATEGIES.find("strategy", self.strategy))
        check_choice("metric", self.metric, get_args(Metric))
        for option in self.options:
            if option not in known:
                check_choice(f"{self.strategy}: option", option, known | set(ARM_KEYS) - {"strategy"})
        if not isinstance(self.permuted, bool):
            raise InvalidArgument(
                f"of strategy {self.strategy} is neither true nor false",
                argument="permuted",
                value=self.permuted,
                hint=TRUE_OR_FALSE,
            )
        if self.label is not None and not self.label.strip():
            problem = f"of strategy {self.strategy} is empty"
            raise InvalidArgument(problem, argument="label", value=self.label, hint="leave it out.")
        if self.label in BASELINES and self.strategy != self.label:
            problem = f"of strategy {self.strategy} is the name of a baseline"
            raise InvalidArgument(problem, argument="label", value=self.label, hint="choose another.")
        self.build()

    @property
    def name(self) -> str:
        """The label, or the strategy and its options as `parse_strategy` reads them."""
        if self.label is not None:
            return self.label
        shown = {key: value for key, value in self.as_dict().items() if key not in ("strategy", "label")}
        texts = (f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in shown.items())
        return self.strategy + (":" if shown else "") + ",".join(texts)

    @property
    def needs_samples(self) -> bool:
        """Whether it needs probabilities of posterior samples."""
        return bool(getattr(self.build(), "needs_samples", False))

    def build(self) -> Strategy:
        """The strategy itself."""
        return build_strategy(self.strategy, self.options)

    def as_dict(self) -> dict[str, object]:
        """The ``[[strategies]]`` table."""
        metric = None if self.metric == "euclidean" else self.metric
        settings = {"label": self.label, "metric": metric, "permuted": self.permuted}
        return {"strategy": self.strategy, **self.options, **{key: value for key, value in settings.items() if value}}


def permute_among(candidates: IntArray, probabilities: FloatArray, seed: int) -> FloatArray:
    """Permute the probabilities (n, c) or (n, k, c) of the candidates (u,) among them; others are unchanged.

    Examples
    --------
    >>> permute_among(np.array([1, 2, 3]), np.array([[0.9], [0.8], [0.7], [0.6]]), seed=0).ravel().tolist()
    [0.9, 0.6, 0.8, 0.7]
    """
    permuted = probabilities.copy()
    permuted[candidates] = probabilities[np.random.default_rng(seed).permutation(candidates)]
    return permuted


def arm_from_table(table: Mapping[str, object]) -> Arm:
    """The arm for a ``[[strategies]]`` table: ``strategy`` and its options, ``label``, ``metric``, ``permuted``."""
    name, label = table.get("strategy"), table.get("label")
    if not isinstance(name, str):
        hint = 'write it like strategy = "random".'
        raise InvalidArgument("is missing from a [[strategies]] table", argument="strategy", hint=hint)
    if label is not None and not isinstance(label, str):
        problem = f"of strategy {name} is not text"
        raise InvalidArgument(problem, argument="label", value=label, hint="write it in quotes.")
    metric: Metric = check_choice("metric", table.get("metric", "euclidean"), get_args(Metric))
    options: dict[str, Option] = {}
    for key, value in table.items():
        if key in ARM_KEYS:
            continue
        if not isinstance(value, str | int | float | bool):
            problem = f"of strategy {name} is not a number, text or Boolean"
            raise InvalidArgument(problem, argument=key, value=value, hint="write one of these.")
        options[key] = value
    return Arm(name, options, label, metric, cast("bool", table.get("permuted", False)))


def parse_strategy(text: str) -> Arm:
    """The arm for text such as ``doubt-coreset:strength=0.5,beam_width=4``.

    Examples
    --------
    >>> parse_strategy("doubt-coreset:strength=0.5").options
    {'strength': 0.5}
    >>> parse_strategy("coreset:metric=cosine").metric
    'cosine'
    """
    name, options = parse_name(text)
    return arm_from_table({"strategy": name, **options})


# The whole experiment.

SCHEMA = 1
MAX_SEEDS = 1_000_000
NEWER_SETTINGS = ("labeled", "ignore_columns", "no_label", "missing")
"""Settings that earlier versions did not have: only written if they differ from the default."""
KEYS = ("schema", "name", "seeds", "pool", "data", "model", "schedule", "strategies")
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
    """A modification of the training part, such as ``redundant:5``; see `dubito.experiments.pools.parse_pool`."""
    seeds: tuple[int, ...] = tuple(range(10))

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            hint = "use letters, digits, '.', '-' and '_'."
            raise InvalidArgument("cannot be the name of a folder", argument="name", value=self.name, hint=hint)
        if not self.strategies:
            hint = "name at least one, such as 'random'."
            raise InvalidArgument("is empty", argument="strategies", hint=hint)
        check_text("pool", self.pool)
        parse_pool(self.pool)
        if not self.seeds:
            raise InvalidArgument("is empty", argument="seeds", hint=f"{PASS} at least one, or the number of seeds.")
        for seed in self.seeds:
            check_integer("seeds", seed, least=0)
        _check_distinct("seeds", self.seeds, f"{PASS} each once.")
        _check_distinct("strategies", [arm.name for arm in self.strategies], "give one of them another label.")
        need_samples = [arm.name for arm in self.strategies if arm.needs_samples]
        if need_samples and not self.model.samples:
            problem = f"strategy {need_samples[0]!r} needs a committee, which the model lacks"
            raise InvalidArgument(problem, hint="set samples = 10 in [model].")

    @property
    def hash8(self) -> str:
        """Eight hexadecimal digits of a hash of all settings that affect the results."""
        return hashlib.sha256(write_toml(self.as_table(explicit=False)).encode()).hexdigest()[:8]

    @property
    def folder_name(self) -> str:
        """``<name>-<hash8>``."""
        return f"{self.name}-{self.hash8}"

    def as_table(self, *, explicit: bool = True) -> dict[str, object]:
        """The tables of the TOML file, with or without settings that have their default values."""
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
        """The TOML file of the experiment, with all settings."""
        return write_toml(self.as_table())


def read_experiment(path: str) -> Experiment:
    """Read an experiment from a TOML file; paths of data are relative to its folder.

    An unknown key is an error that names the file, the key and the most similar known key.
    """
    table = read_toml(path)
    with prefix_errors(path):
        return experiment_from_table(table, folder=os.path.dirname(os.path.abspath(path)))


def parse_experiment(text: str) -> Experiment:
    return experiment_from_table(tomllib.loads(text))


def experiment_from_table(table: Mapping[str, object], *, folder: str | None = None) -> Experiment:
    """The experiment for a TOML table; paths of data are relative to ``folder``."""
    check_keys("the file", table, KEYS)
    if "schema" not in table:
        hint = f"write schema = {SCHEMA} on the first line."
        raise InvalidArgument("is missing", argument="schema", hint=hint)
    if table["schema"] != SCHEMA:
        problem = "is not known to this version"
        raise InvalidArgument(problem, argument="schema", value=table["schema"], hint=f"write schema = {SCHEMA}.")
    with prefix_errors("[data]"):
        data = Data(**_resolve_paths(_section(_with_american_spelling(table), "data", Data), folder))
    with prefix_errors("[schedule]"):
        schedule = Schedule(**_section(table, "schedule", Schedule))
    with prefix_errors("[model]"):
        model = model_from_table(_section(table, "model"))
        if folder is not None and isinstance(model, NeedsFiles):
            model = model.locate(folder)
    with prefix_errors("[[strategies]]"):
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
    """Seeds from their number, or from a list.

    Examples
    --------
    >>> read_seeds(3), read_seeds([4, 7])
    ((0, 1, 2), (4, 7))
    """
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(check_integer("seeds", each, least=0) for each in value)
    count = check_integer("seeds", value, least=1)
    if count > MAX_SEEDS:
        raise InvalidArgument("is too many", argument="seeds", value=count, hint=f"{PASS} {MAX_SEEDS:,} or fewer.")
    return tuple(range(count))


def _section(table: Mapping[str, object], key: str, kind: type[Data | Schedule] | None = None) -> dict[str, Any]:
    """A table of the file, after a check of its keys against the fields of the class."""
    section = table.get(key, {})
    if not isinstance(section, Mapping):
        raise InvalidArgument("is not a table", argument=key, value=section, hint=f"write [{key}], and its keys below.")
    if kind is not None:
        check_keys("it", section, [each.name for each in fields(kind)])
    return dict(section)


def _with_american_spelling(table: Mapping[str, object]) -> Mapping[str, object]:
    """The table with ``standardise`` in its data replaced by ``standardize``; both spellings are allowed."""
    section = table.get("data")
    if not isinstance(section, Mapping) or "standardise" not in section or "standardize" in section:
        return table
    return {"data": {{"standardise": "standardize"}.get(key, key): value for key, value in section.items()}}


def _resolve_paths(section: dict[str, Any], folder: str | None) -> dict[str, Any]:
    """The data settings, with absolute paths if there is a folder, and with tuples instead of lists."""
    for key in ("path", "test", "images"):
        name = section.get(key)
        is_published = key == "images" and name in COLLECTIONS.names()
        if folder is not None and isinstance(name, str) and not is_published:
            section[key] = os.path.normpath(os.path.join(folder, name))
    for key in ("feature_columns", "ignore_columns", "no_label", "labeled"):
        names = section.get(key, ())
        names = (names,) if isinstance(names, str) else names
        if not isinstance(names, Sequence) or not all(isinstance(each, str) for each in names):
            raise InvalidArgument("is not a list of names", argument=key, value=names, hint="write them in quotes.")
        section[key] = tuple(names)
    if folder is not None:
        section["labeled"] = tuple(os.path.normpath(os.path.join(folder, name)) for name in section["labeled"])
    if isinstance(section.get("size"), list):
        section["size"] = tuple(section["size"])
    return section


def _arms(tables: object) -> tuple[Arm, ...]:
    if not isinstance(tables, Sequence) or isinstance(tables, str) or not tables:
        hint = 'write [[strategies]], and below it for example strategy = "random".'
        raise InvalidArgument("there are no strategies", hint=hint)
    for each in tables:
        if not isinstance(each, str | Mapping):
            hint = "name a strategy in quotes, or write [[strategies]]."
            raise InvalidArgument(f"holds {each!r}", argument="strategies", hint=hint)
    return tuple(parse_strategy(each) if isinstance(each, str) else arm_from_table(each) for each in tables)


def _settings(settings: Data | Schedule, explicit: bool) -> dict[str, object]:
    table = asdict(settings)
    return {
        {"standardize": "standardise"}.get(each.name, each.name): table[each.name]  # The spelling is part of the hash.
        for each in fields(settings)
        if (explicit and each.name not in NEWER_SETTINGS) or table[each.name] != each.default
    }


def _check_distinct(name: str, values: Sequence[str | int], hint: str) -> None:
    for value, count in Counter(values).items():
        if count > 1:
            raise InvalidArgument(f"holds {value!r} twice", argument=name, hint=hint)


# Experiments of installed packages by name, for ``dubito run NAME``.

SUFFIX = ".toml"
EXPERIMENTS: Registry[ModuleType] = Registry("dubito.experiments", {})
"""Packages with TOML files of experiments: `dubito.paper.experiments`, and those of plug-ins."""


def shipped_experiments() -> tuple[str, ...]:
    """Names of the experiments in installed packages.

    Examples
    --------
    >>> shipped_experiments()[:3]
    ('cifar10-ablation', 'cifar10-low-noise', 'cifar10-main')
    """
    return tuple(_experiment_files())


@cache
def _experiment_files() -> dict[str, Traversable]:
    paths = {
        each.name.removesuffix(SUFFIX): each
        for name in EXPERIMENTS.names()
        for each in files(EXPERIMENTS.find("experiments", name)).iterdir()
        if each.name.endswith(SUFFIX)
    }
    return dict(sorted(paths.items()))


def shipped_text(name: str) -> str:
    """The TOML file of an experiment as text, for example to save and change it.

    Examples
    --------
    >>> shipped_text("strength").splitlines()[0]
    '# How much should doubt weigh against distance? Doubt to the power 0, 0.25, 0.5, 1 and 2.'
    """
    known = check_choice("experiment", name, shipped_experiments())
    return _experiment_files()[known].read_text(encoding="utf-8")


def read_shipped(name: str) -> Experiment:
    """An experiment of an installed package; its data files are looked for in the working directory.

    Examples
    --------
    >>> [arm.name for arm in read_shipped("strength").strategies][:3]
    ['random', 'coreset', 'doubt-coreset:strength=0.25']
    """
    return experiment_from_table(tomllib.loads(shipped_text(name)), folder=os.getcwd())


def find_experiment(file: str) -> Experiment:
    """The experiment in a TOML file, or the one with this name in an installed package; a file has priority."""
    if os.path.exists(file) or file.endswith(SUFFIX) or os.path.basename(file) != file:
        return read_experiment(file)
    if file in shipped_experiments():
        return read_shipped(file)
    hint = did_you_mean(file, shipped_experiments()).strip() or f"these are {', '.join(shipped_experiments())}."
    raise MissingFile(f"{file} is neither a file nor an experiment that comes with dubito", hint=hint)
