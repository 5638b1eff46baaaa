"""Reading files as a command does: within a bound, and with a word on stderr for every file that was guessed at."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from dubito.checks import check_memory_limit
from dubito.cli.printing.messages import say
from dubito.files import gathering_notes, input_limit
from dubito.files.gaps import keeping_gaps
from dubito.files.limits import VARIABLE


@contextmanager
def reading_files(limit: str | None = None, memory_limit: str | None = None, *, quiet: bool) -> Iterator[None]:
    """What files read in the block take together is bounded, and remarks on them are told once none was refused.

    Where no bound for inputs is given, that for the work is one for them, too: who has so little memory to spare wants
    no archive to take it all.
    """
    given = check_memory_limit(limit, "input_limit")
    with (
        input_limit(check_memory_limit(memory_limit) if given is None else given),
        gathering_notes() as notes,
        keeping_gaps(),
    ):
        yield
    for note in notes:
        say(note, quiet=quiet)


@contextmanager
def bounded_inputs(limit: str | None) -> Iterator[None]:
    """The same bound for whatever this process, and those it starts, read while the block runs."""
    given = check_memory_limit(limit, "input_limit")
    if given is None:
        yield
        return
    with variable(VARIABLE, str(given)):
        yield


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """An environment variable for this process, and those it starts, while the block runs."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
