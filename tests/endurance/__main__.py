"""``python -m endurance``: play the campaign."""

import sys

from endurance.command import command

if __name__ == "__main__":
    sys.exit(command(sys.argv[1:]))
