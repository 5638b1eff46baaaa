"""From file names to the arguments of `dubito.select` and `dubito.diagnose`."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dubito.cli.labelled import NOTHING, Labelled, as_labelled, read_labelled
from dubito.cli.messages import say
from dubito.errors import InvalidArgument
from dubito.files import Columns, DoubtRole, PoolFile, find_array, find_doubt, read_array, read_pool, split_spec
from dubito.matrix import AnyArray, len_of

DoubtSpecs = Mapping[DoubtRole, str | None]


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """What the files hold."""

    pool: PoolFile
    labelled: Labelled
    doubt: Mapping[DoubtRole, AnyArray]
    """At most one source of doubt, by its argument's name."""
    files: Mapping[str, str]
    """Where each argument came from, for messages."""


def read_columns(ids: str | None, labels: str | None, features: str | None) -> Columns:
    """The names of columns given on the command line."""
    names = [] if features is None else [name.strip() for name in features.split(",") if name.strip()]
    return Columns(id=ids, label=labels, features=names)


def read_number(text: str) -> int | float | str:
    """The number a text spells, or the text itself: the library's checks say what is wrong with it.

    Examples
    --------
    >>> read_number("20"), read_number("2.5"), read_number("many")
    (20, 2.5, 'many')
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read_inputs(
    pool: str, labelled: Sequence[str] | None, doubt: DoubtSpecs, columns: Columns, *, quiet: bool
) -> Inputs:
    """Read the pool, what is labelled and the model's doubt.

    What the command line does not name is looked for in the pool's own file; labelled rows there join those named.
    """
    given = {role: spec for role, spec in doubt.items() if spec is not None}
    if len(given) > 1:
        names = " and ".join(f"--{role}" for role in given)
        raise InvalidArgument(f"{names} are two sources of doubt; pass only one of them.")
    pool_file = read_pool(pool, columns=columns)
    source = read_doubt_source(pool_file, given)
    files: dict[str, str] = {role: given.get(role, pool) for role in source}
    files |= {"pool": pool, "labelled": ", ".join(labelled or [pool])}
    return Inputs(pool_file, read_all_labelled(pool_file, labelled or [], columns, quiet), source, files)


def read_all_labelled(pool: PoolFile, specs: Sequence[str], columns: Columns, quiet: bool) -> Labelled:
    """What the pool's own file says is labelled, and every file named."""
    own = find_array(pool.source, "labelled")
    found = NOTHING if own is None else as_labelled(own, len_of(pool.features))
    for spec in specs:
        found = found.joined(read_labelled(spec, pool, columns, note=lambda text: say(text, quiet=quiet)))
    return found


def read_doubt_source(pool: PoolFile, given: Mapping[DoubtRole, str]) -> dict[DoubtRole, AnyArray]:
    """The source of doubt named, or the one in the pool's own file."""
    for role, spec in given.items():
        return {role: read_array(spec, role)}
    found = find_doubt(pool.source)
    return {} if found is None else {found[0]: found[1]}


def read_head(spec: str | None, found: Inputs, metric: str) -> AnyArray | None:
    """The weights named, or those beside the doubt in the pool's own file, where they can be used.

    Doubt from another file may be of another model; a table has no room for a row a class, and the shards of a folder
    would each hold them all.
    """
    if spec is not None:
        return read_array(spec, "head")
    own = found.pool.source
    of_one_model = all(split_spec(found.files[role])[0] == own.path for role in found.doubt)
    if metric != "euclidean" or not of_one_model or own.is_table or os.path.isdir(own.path):
        return None
    return find_array(own, "head")
