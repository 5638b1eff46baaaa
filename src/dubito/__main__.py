"""``python -m dubito``: the same program as ``dubito``. Ctrl-C ends it with one line from its imports on."""

import sys


def main() -> int:
    """Run the program; see `dubito.cli.main`."""
    try:
        from dubito.cli import main as run

        code = run()
    except KeyboardInterrupt:
        print("dubito: error: interrupted.", file=sys.stderr)
        code = 130
    from signal import SIG_IGN, SIGINT, signal

    # What was to be done is done: Ctrl-C while Python ends must not change the exit code.
    signal(SIGINT, SIG_IGN)
    return code


if __name__ == "__main__":
    sys.exit(main())
