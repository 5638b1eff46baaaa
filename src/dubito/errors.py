"""The errors a person can meet.

Each is a `DubitoError` and also the built-in kind that fits, and each message names the argument, the value
and the mend. The command line turns `exit_code` into its own: 1 failed, 2 the mend is another command line,
3 the mend is another file.
"""


class DubitoError(Exception):
    """Any error dubito raises on purpose."""

    exit_code = 1


class InvalidArgument(DubitoError, ValueError):
    """An argument that cannot be meant: the mend is another call."""

    exit_code = 2


class MissingFile(DubitoError, FileNotFoundError):
    """A path that is not there, or a name that is not inside the file."""

    exit_code = 2


class OutputExists(DubitoError, FileExistsError):
    """An output that would be overwritten."""

    exit_code = 2


class InvalidData(DubitoError, ValueError):
    """Data that cannot be used as it is: the mend is another array or file."""

    exit_code = 3


class MemoryLimit(DubitoError, MemoryError):
    """The memory allowed cannot hold even the minimum."""

    exit_code = 2


class MissingExtra(DubitoError, ImportError):
    """An optional package is needed and not installed."""


class SolverFailed(DubitoError, RuntimeError):
    """An outside solver gave up."""
