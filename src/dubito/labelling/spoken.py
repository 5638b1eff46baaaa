"""What a person says of an item, what became of it, and what does not fit."""

from dataclasses import dataclass

from dubito.errors import DubitoError
from dubito.labelling.events import Event


class Conflict(DubitoError):
    """What was asked does not fit what there is."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """What a person says of an item."""

    key: str
    annotator: str
    item: int
    label: str | None
    guess_seen: bool = False
    seconds: float | None = None
    is_review: bool = False
    """Whether it settles a doubt of the model's."""


@dataclass(frozen=True, slots=True)
class Committed:
    """An event that is in the store."""

    event: Event
    is_new: bool
    labelled: int
