"""A real PostgreSQL for tests: a cluster of its own in a temporary folder, reached by a socket there."""

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import quote

from sqlalchemy import create_engine, text

PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
"""Where Debian has its programs."""


def programs() -> Path | None:
    """The folder of ``initdb`` and ``pg_ctl``; None where there is no PostgreSQL."""
    found = shutil.which("initdb")
    return Path(found).parent if found else next((each for each in PLACES if (each / "initdb").exists()), None)


class Cluster:
    """A PostgreSQL server that listens on a socket in a folder of its own."""

    def __init__(self, place: Path, *, is_durable: bool = True, within: Path | None = None) -> None:
        """Without durability it is faster, and a crash of the machine, which tests do not cause, may lose something."""
        self._is_durable = is_durable
        self._place, self._folder = place, Path(mkdtemp(prefix="dubito-pg-", dir=within))
        # PostgreSQL refuses to be root.
        self._user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []
        if self._user:
            shutil.chown(self._folder, "nobody", "nogroup")
        # Small segments of its log, so that a small disk holds some.
        self._call("initdb", "-U", "dubito", "-A", "trust", "-E", "UTF8", "--no-locale", "--wal-segsize=1")
        self.start()

    @property
    def url(self) -> str:
        """The address of an empty database."""
        return f"postgresql+psycopg://dubito@/postgres?host={quote(str(self._folder), safe='')}"

    def _call(self, program: str, *arguments: str) -> None:
        command = [*self._user, str(self._place / program), "-D", str(self._folder / "data"), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self._folder)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = "" if self._is_durable else "-c fsync=off -c full_page_writes=off "
        settings += "-c max_wal_size=8MB -c min_wal_size=2MB "
        settings += f"-c listen_addresses='' -c unix_socket_directories='{self._folder}'"
        self._call("pg_ctl", "-l", str(self._folder / "log"), "-w", "-o", settings, "start")

    def stop(self) -> None:
        """Stop it as a power cut would."""
        self._call("pg_ctl", "-m", "immediate", "-w", "stop")

    def restart(self) -> None:
        """Stop it as a power cut would, and start it again."""
        self.stop()
        self.start()

    def start_again(self) -> None:
        """Start it where it has given up by itself, as on a full disk; as an operator would."""
        try:
            self._call("pg_ctl", "status")
        except subprocess.CalledProcessError:
            self.start()

    def end_connections(self) -> None:
        """End every connection, as an administrator would."""
        engine = create_engine(self.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(
                text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
            )
        engine.dispose()

    def remove(self) -> None:
        """Stop it, and remove its files."""
        with suppress(subprocess.CalledProcessError):  # It may have stopped by itself.
            self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
