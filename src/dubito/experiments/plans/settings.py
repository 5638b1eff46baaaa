"""What an experiment's tables ``[data]`` and ``[schedule]`` hold."""

from dataclasses import dataclass
from typing import get_args

import numpy as np

from dubito.checks import check_choice, check_integer, check_real
from dubito.errors import InvalidArgument
from dubito.experiments.datasets.images.loading import COLLECTIONS, is_table
from dubito.files import Columns
from dubito.files.gaps import Missing
from dubito.matrix import IntArray
from dubito.wording import PASS, TRUE_OR_FALSE, named

DEFAULT_TEST_SHARE = 0.2
MOST_ROUNDS = 10_000_000


@dataclass(frozen=True, slots=True)
class Data:
    """Where features and labels come from: a file, something built in, or (with neither) what Python hands in."""

    path: str | None = None
    builtin: str | None = None
    """``digits``, or the name of a toy."""
    images: str | None = None
    """``cifar10``, ``cifar100`` or ``svhn``; a folder with a folder of pictures for each class; a Parquet file."""
    size: tuple[int, ...] = ()
    """Height and width to which the pictures of a folder or a Parquet file are resized."""
    test: str | None = None
    """A file with the test set; an archive may hold its own as ``test_features`` and ``test_labels``."""
    test_share: float | None = None
    """The share of every class set apart and tested on, by default 0.2 where there is no test set. Given for data that
    has one, that test set is left out altogether: whatever is chosen by results is to be chosen so."""
    rows: int | None = None
    """How many rows of the training part take part, drawn by the seed; all where it is left out."""
    id_column: str | None = None
    label_column: str | None = None
    feature_columns: tuple[str, ...] = ()
    ignore_columns: tuple[str, ...] = ()
    no_label: tuple[str, ...] = ()
    """Labels that mean none, such as -1; or ``empty``, for what is empty alone."""
    missing: str | None = None
    """Where features are missing: ``median`` fills in the column's, over the rows with a label; ``drop`` leaves such
    rows out. Without it they are counted and refused."""
    standardise: bool = False
    """Give every feature mean 0 and standard deviation 1 over the training part."""

    @property
    def columns(self) -> Columns:
        """The names given for columns, as files are read by them."""
        return Columns(
            self.id_column, self.label_column, self.feature_columns, self.ignore_columns, no_label=self.no_label
        )

    def __post_init__(self) -> None:
        for name in ("path", "builtin", "images", "test", "id_column", "label_column"):
            check_text(name, getattr(self, name))
        sources = [name for name in ("path", "builtin", "images") if getattr(self, name) is not None]
        if len(sources) > 1:
            names = " and ".join(map(named, sources))
            raise InvalidArgument(f"{names} are two sources of data", mend=f"{PASS} only one of them.")
        if self.test is not None and self.path is None and not is_table(self.images or ""):
            raise InvalidArgument(
                "belongs to a path",
                argument="test",
                value=self.test,
                mend=f"name the path, or leave {named('test')} out.",
            )
        if self.size and self.images in (None, *COLLECTIONS):
            raise InvalidArgument(
                "is for pictures in a folder or a Parquet file", argument="size", value=self.size, mend="leave it out."
            )
        if self.images is not None and self.standardise:
            problem = "is for features, and models scale images themselves"
            raise InvalidArgument(problem, argument="standardise", mend="leave it out.")
        if self.missing is not None:
            check_choice("missing", self.missing, get_args(Missing))
        if self.rows is not None:
            check_integer("rows", self.rows, least=2)
        if self.test is not None and self.test_share is not None:
            names = f"{named('test')} and {named('test_share')}"
            raise InvalidArgument(f"{names} are two ways to a test set", mend=f"{PASS} only one of them.")
        if self.test_share is not None and not 0 < check_real("test_share", self.test_share, least=0.0) < 1:
            raise InvalidArgument(
                "is not allowed",
                argument="test_share",
                value=self.test_share,
                mend=f"{PASS} 0 < {named('test_share')} < 1.",
            )
        if not isinstance(self.standardise, bool):
            raise InvalidArgument("is not allowed", argument="standardise", value=self.standardise, mend=TRUE_OR_FALSE)


@dataclass(frozen=True, slots=True)
class Schedule:
    """How labels are asked for."""

    initial: int = 20
    """Labels drawn at random before the first training."""
    budget: int = 20
    """Labels asked for in each round."""
    rounds: int = 6
    from_scratch: bool = False
    """Train anew each turn; else the weights go on and the optimizer starts anew."""

    def __post_init__(self) -> None:
        for name in ("initial", "budget", "rounds"):
            check_integer(name, getattr(self, name), least=1)
        if not isinstance(self.from_scratch, bool):
            raise InvalidArgument(
                "is not allowed", argument="from_scratch", value=self.from_scratch, mend=TRUE_OR_FALSE
            )

    @property
    def labels(self) -> IntArray:
        """(rounds + 1,) labels owned at each training."""
        if self.rounds > MOST_ROUNDS:
            raise InvalidArgument("is beyond all reason", argument="rounds", value=self.rounds, mend=f"{PASS} fewer.")
        return self.initial + self.budget * np.arange(self.rounds + 1)

    def check_size(self, n_train: int) -> None:
        """Refuse to want more labels than there are rows to ask for."""
        if self.initial > n_train:
            raise InvalidArgument(
                f"exceeds the {n_train} rows of the training part",
                argument="initial",
                value=self.initial,
                mend=f"{PASS} {named('initial')} <= {n_train}.",
            )
        wanted, most = self.initial + self.budget * self.rounds, (n_train - self.initial) // self.budget
        if wanted > n_train and not most:
            raise InvalidArgument(
                f"after {named('initial', self.initial)} exceeds the {n_train} rows of the training part",
                argument="budget",
                value=self.budget,
                mend=f"{PASS} {named('budget')} <= {n_train - self.initial}.",
            )
        if wanted > n_train:
            raise InvalidArgument(
                f"of {named('budget', self.budget)} after {named('initial', self.initial)} want {wanted} labels and "
                f"the training part has {n_train} rows",
                argument="rounds",
                value=self.rounds,
                mend=f"{PASS} {named('rounds')} <= {most}.",
            )


def check_text(name: str, value: object) -> None:
    """Refuse what is neither text nor left out."""
    if value is not None and not (isinstance(value, str) and value):
        raise InvalidArgument(
            "is not allowed", argument=name, value=value, mend="pass text in quotes, or leave it out."
        )
