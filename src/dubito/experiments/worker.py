"""``python -m dubito.experiments.worker FOLDER``: a worker process of `run_experiment`.

It stops when its parent process ends, and prints errors as JSON on its last line of output.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path

from dubito.errors import DubitoError
from dubito.experiments.data_sources import DataSource
from dubito.experiments.journal import ExperimentJournal
from dubito.experiments.plan import read_experiment
from dubito.experiments.runner import EXPERIMENT, work


def main(folder: Path) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent handles it.
    threading.Thread(target=stop_with_parent, daemon=True).start()
    try:
        experiment = read_experiment(str(folder / EXPERIMENT))
        work(experiment, folder, DataSource(experiment, folder), ExperimentJournal(folder, experiment), lambda: None)
    except DubitoError as error:
        print(json.dumps({"error": type(error).__name__, **error.as_record()}), flush=True)
        return 1
    return 0


def stop_with_parent() -> None:
    """Exit when standard input closes, which is when the parent process ends."""
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
