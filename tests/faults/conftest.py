"""The campaign wants Linux: files in memory, and limits as its kernel has them."""

import sys

collect_ignore_glob = [] if sys.platform == "linux" else ["*.py"]
