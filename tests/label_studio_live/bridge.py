"""dubito in a process, with small requests: python -m label_studio_live.bridge TASKS WORDS..."""

import sys

from dubito.cli import main
from dubito.integrations.label_studio import pushing

if __name__ == "__main__":
    pushing.MAX_TASKS = int(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
