"""``python -m dubito``: the same program as ``dubito``. Ctrl-C ends it with one line from its imports on."""

import sys


def main() -> int:
    """Run the program; see `dubito.cli.main`."""
    try:
        from dubito.cli import main as run

        return run()
    except KeyboardInterrupt:
        print("dubito: error: interrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
