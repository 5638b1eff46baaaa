"""Reading and writing TOML, with errors that name the file, the key and the fix."""

import json
import math
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

from dubito.errors import DubitoError, InvalidArgument, InvalidData, MissingFile, in_toml

# The only TOML writer of dubito: `Experiment.hash8` hashes its bytes, so they must never change. tomlkit (236 KB) would
# have to be a second one, for the project files of `dubito label`, which hold a dozen values and no comments to keep.


def read_toml(path: str) -> dict[str, object]:
    try:
        with open(path, "rb") as stream:
            return tomllib.load(stream)
    except FileNotFoundError:
        raise MissingFile(f"{path} does not exist", hint="pass the path of an experiment's TOML file.") from None
    except RecursionError:
        raise InvalidData(f"{path} is not valid TOML: its brackets are nested too deeply.") from None
    except ValueError as error:  # Not TOML, not UTF-8, or a number with thousands of digits.
        raise InvalidData(f"{path} is not valid TOML: {str(error).rstrip('.')}.") from None
    except OSError as error:
        raise MissingFile(f"{path} cannot be read: {str(error.strerror).lower()}.") from None


def write_toml(table: Mapping[str, object]) -> str:
    r"""A table as TOML text: plain values first, then tables, then lists of tables. None is left out.

    Examples
    --------
    >>> write_toml({"name": "a", "data": {"path": "x.csv"}, "rates": [0.5, 1.0]})
    'name = "a"\nrates = [0.5, 1.0]\n\n[data]\npath = "x.csv"\n'
    """
    return "\n".join(_lines(table)).lstrip("\n") + "\n"


def _lines(table: Mapping[str, object]) -> Iterator[str]:
    """Tables inside tables are written inline, so that every line is one key."""
    yield from _keys({key: value for key, value in table.items() if not _is_section(value)})
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from ("", f"[{_key(key)}]", *_keys(value))
    for key, value in table.items():
        if _is_section(value) and isinstance(value, Sequence):
            for each in value:
                yield from ("", f"[[{_key(key)}]]", *_keys(each))


def _keys(table: Mapping[str, object]) -> Iterator[str]:
    return (f"{_key(key)} = {_value(value)}" for key, value in table.items() if value is not None)


def _is_section(value: object) -> bool:
    if isinstance(value, Mapping) or not isinstance(value, Sequence) or isinstance(value, str):
        return isinstance(value, Mapping)
    return len(value) > 0 and all(isinstance(each, Mapping) for each in value)


def _key(name: str) -> str:
    is_bare = name != "" and all(letter.isascii() and (letter.isalnum() or letter in "-_") for letter in name)
    return name if is_bare else _value(name)


def _value(value: object) -> str:
    if isinstance(value, str):
        # A TOML string is a JSON string in which DEL is escaped as well.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(_value, value)) + "]"
    raise TypeError(f"{value!r} cannot be written as TOML.")


def check_keys(where: str, table: Mapping[str, object], known: Collection[str]) -> None:
    """Raise if a key is not known, with the most similar known key as the hint.

    Examples
    --------
    >>> check_keys("[schedule]", {"buget": 5}, ("budget", "rounds"))
    Traceback (most recent call last):
    dubito.errors.InvalidData: [schedule] has the key 'buget', which is not known; did you mean 'budget'?
    """
    for key in table:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known)}."
            raise InvalidData(f"{where} has the key {key!r}, which is not known", hint=hint)


@contextmanager
def prefix_errors(where: str) -> Iterator[None]:
    """Prefix errors with the file or table, and phrase them for TOML; `InvalidArgument` becomes `InvalidData`.

    Examples
    --------
    >>> from dubito.errors import PASS, named
    >>> with prefix_errors("plan.toml"):
    ...     raise InvalidArgument("is too many", argument="rounds", value=9, hint=f"{PASS} {named('rounds')} <= 3.")
    Traceback (most recent call last):
    dubito.errors.InvalidData: plan.toml: rounds = 9 is too many; set rounds <= 3.
    """
    try:
        yield
    except DubitoError as error:
        kind = InvalidData if isinstance(error, InvalidArgument) else type(error)
        raise error.reworded(in_toml, f"{where}: ", kind) from error
