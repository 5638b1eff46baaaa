"""What people said of items, gathered: a majority where there are several, and how far they agree."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dubito.integrations.exchange.items import INDEX, Said
from dubito.request.columns import ROW


class Gathered(NamedTuple):
    """A label for each item that has one."""

    key: str
    """``id`` or ``index``."""
    names: tuple[str, ...]
    labels: tuple[str, ...]
    votes: tuple[int, ...]
    """People who gave an item a label."""
    agreements: tuple[float, ...]
    """The share of them who gave this one."""
    skipped: tuple[str, ...]
    """Items that nobody gave a label."""
    tied: tuple[str, ...]
    """Items on which as many said one thing as another; they have no label."""

    def columns(self) -> dict[str, Sequence[object]]:
        """The table that ``--labeled`` takes."""
        names: list[object] = [int(name) if self.key == ROW else name for name in self.names]
        return {self.key: names, "label": self.labels, "annotators": self.votes, "agreement": self.agreements}


def gather_answers(answers: Iterable[Said]) -> Gathered:
    """The label that most people gave each item, in the order that items come in.

    One person's later answer takes the place of an earlier one. A tie is no label.

    Examples
    --------
    >>> said = [Said("a", "dubito_id", "cat", "1"), Said("a", "dubito_id", "cat", "2")]
    >>> found = gather_answers([*said, Said("a", "dubito_id", "dog", "3"), Said("b", "dubito_id", None, "1")])
    >>> found.labels, found.votes, found.skipped
    (('cat',), (3,), ('b',))
    """
    said: dict[str, dict[str, str | None]] = {}
    key = "id"
    for number, each in enumerate(answers):
        key = ROW if each.key == INDEX else key
        said.setdefault(each.name, {})[each.who or f"#{number}"] = each.label
    rows, skipped, tied = [], [], []
    for name, by_person in said.items():
        votes = Counter(label for label in by_person.values() if label is not None)
        if not votes:
            skipped.append(name)
            continue
        (label, most), *others = votes.most_common()
        if others and others[0][1] == most:
            tied.append(name)
        else:
            rows.append((name, label, votes.total(), round(most / votes.total(), 4)))
    names, labels, counts, shares = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Gathered(key, names, labels, counts, shares, tuple(skipped), tuple(tied))
