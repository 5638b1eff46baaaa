"""Where remarks on how files were read go: every `Source` carries its own, and a program may gather them all."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_gathered: ContextVar[dict[str, None] | None] = ContextVar("gathered", default=None)


@contextmanager
def gathering_notes() -> Iterator[dict[str, None]]:
    r"""The remarks on every file opened in the block, each once and in order, as the keys of a dictionary.

    Examples
    --------
    >>> import os, tempfile
    >>> from dubito.files import gathering_notes, read_pool
    >>> with tempfile.TemporaryDirectory() as folder, gathering_notes() as notes:
    ...     path = os.path.join(folder, "pool.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("x;y\n1;2\n")
    ...     _ = read_pool(path)
    >>> [note.removeprefix(folder) for note in notes]
    ['/pool.csv was read with semicolons between its fields.']
    """
    notes: dict[str, None] = {}
    token = _gathered.set(notes)
    try:
        yield notes
    finally:
        _gathered.reset(token)


def gather(notes: Sequence[str]) -> None:
    """Hand remarks to whoever gathers them."""
    gathered = _gathered.get()
    if gathered is not None:
        gathered.update(dict.fromkeys(notes))
