"""A strategy and its options in one text, as the command line, TOML files and records write them."""

from dubito.checks import read_number
from dubito.errors import InvalidArgument

Option = str | int | float | bool


def spelled(text: str) -> tuple[str, dict[str, Option]]:
    """The name and the options of text such as ``doubt-coreset:strength=0.5,beam_width=4``.

    Examples
    --------
    >>> spelled("doubt-coreset:doubt=margin, beam-width=4")
    ('doubt-coreset', {'doubt': 'margin', 'beam_width': 4})
    """
    name, _, rest = text.partition(":")
    options: dict[str, Option] = {}
    for part in rest.split(",") if rest.strip() else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not key or not equals or not value:
            raise InvalidArgument(
                f"{text!r} has the option {part.strip()!r}",
                argument="strategy",
                mend="write name:option=value,option=value.",
            )
        option = key.replace("-", "_")
        if option in options or option == "strategy":
            raise InvalidArgument(
                f"{text!r} has the option {option!r} twice", argument="strategy", mend="leave one out."
            )
        options[option] = _value(value)
    return name.strip(), options


def _value(text: str) -> Option:
    """A number or truth value where the text spells one."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return read_number(text)
