"""``python -m dubito.experiments.worker FOLDER``: a process that `run_experiment` starts to share the work.

It stops when the process that started it goes away, and says on its last line of output what went wrong.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path

from dubito.errors import DubitoError
from dubito.experiments.data_sources import DataSource
from dubito.experiments.journal import Ledger
from dubito.experiments.plan import read_experiment
from dubito.experiments.runner import EXPERIMENT, work

FAILED = 1


def main(folder: Path) -> int:
    """Work on the experiment of a folder until it is done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the one who started us decides.
    threading.Thread(target=stop_with_parent, daemon=True).start()
    try:
        experiment = read_experiment(str(folder / EXPERIMENT))
        work(experiment, folder, DataSource(experiment, folder), Ledger(folder, experiment), lambda: None)
    except DubitoError as error:
        print(json.dumps({"error": type(error).__name__, **error.as_record()}), flush=True)
        return FAILED
    return 0


def stop_with_parent() -> None:
    """Wait for the end of standard input, which is the end of the process that started us."""
    while os.read(0, 1):
        pass
    os._exit(FAILED)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
