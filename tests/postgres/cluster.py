"""A real PostgreSQL for tests: a cluster of its own in a temporary folder, reached by a socket there."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import quote

PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
"""Where Debian has its programs."""


def programs() -> Path | None:
    """The folder of ``initdb`` and ``pg_ctl``; None where there is no PostgreSQL."""
    found = shutil.which("initdb")
    return Path(found).parent if found else next((each for each in PLACES if (each / "initdb").exists()), None)


@contextmanager
def cluster(*, is_kept: bool = True) -> Iterator[str]:
    """The address of an empty database, for as long as the block runs; where it need not be kept, it is faster."""
    place = programs()
    assert place is not None
    folder = Path(mkdtemp(prefix="dubito-pg-"))
    # PostgreSQL refuses to be root.
    other = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []
    if other:
        shutil.chown(folder, "nobody", "nogroup")
    data = folder / "data"

    def call(*command: str) -> None:
        subprocess.run([*other, *command], check=True, capture_output=True, cwd=folder)

    options = ["-U", "dubito", "-A", "trust", "-E", "UTF8", "--no-locale", *([] if is_kept else ["--no-sync"])]
    call(str(place / "initdb"), "-D", str(data), *options)
    settings = f"-c listen_addresses='' -c unix_socket_directories='{folder}'{'' if is_kept else ' -c fsync=off'}"
    call(str(place / "pg_ctl"), "-D", str(data), "-l", str(folder / "log"), "-w", "-o", settings, "start")
    try:
        yield f"postgresql+psycopg://dubito@/postgres?host={quote(str(folder), safe='')}"
    finally:
        call(str(place / "pg_ctl"), "-D", str(data), "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)
