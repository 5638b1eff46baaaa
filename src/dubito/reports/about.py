"""What a report says of the experiment besides its numbers."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class About:
    """Where the numbers come from."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    """What was run, a name and a text each: data, pool, model, schedule, versions, command."""
    classes: tuple[str, ...] = ()
    """Names of the classes; by number where there are none."""
    settings: str = ""
    """The experiment as TOML."""
    expected: int | None = None
    """Records of a whole run, where that is known."""

    def as_dict(self) -> dict[str, object]:
        """As JSON holds it."""
        fields = asdict(self)
        return {**fields, "facts": dict(self.facts), "classes": list(self.classes)}


def shown_facts(facts: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Names and texts of what is known; what is None is left out.

    Examples
    --------
    >>> shown_facts({"rows": 1797, "test": None})
    (('rows', '1797'),)
    """
    return tuple((name, str(value)) for name, value in facts.items() if value is not None)
