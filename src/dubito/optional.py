"""Optional packages: imported when needed, and missed with the command that installs them."""

from importlib import import_module
from types import ModuleType

from dubito.errors import MissingExtra


def require(package: str, *, extra: str) -> ModuleType:
    """Import an optional package, or say how to install it.

    Parameters
    ----------
    package : str
        Module to import, such as ``"pyarrow.parquet"``.
    extra : str
        dubito's extra that brings it.

    Examples
    --------
    >>> require("json", extra="files").dumps([1])
    '[1]'
    """
    try:
        return import_module(package)
    except ImportError as error:
        root = package.partition(".")[0]
        mend = f"install it with: pip install 'dubito[{extra}]'"
        raise MissingExtra(f"{root} is needed here and cannot be imported ({error})", mend=mend) from error
