"""``python -m faults``: play the campaign."""

import sys

from .command import command

if __name__ == "__main__":
    sys.exit(command(sys.argv[1:]))
