"""``python -m dubito``: the same program as ``dubito``."""

import sys

from dubito.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
