"""The short form of what ``make faults-labeling`` does to a server whose labels are in PostgreSQL."""

from pathlib import Path

import pytest

from endurance.fuzzing import label_some, send_malformed
from endurance.outages import Service, cut_connections, endure, fill_disk, kill, restart_database
from endurance.page import wrong_in
from endurance.servers import serving
from faults.disks import small_disk
from labeling.projects import make_project
from postgres.cluster import Cluster, programs


def test_no_acknowledged_label_is_lost_when_the_server_or_the_database_ends(
    tmp_path: Path, store: str, server: Cluster
) -> None:
    project, _ = make_project(tmp_path, n_rows=400, store=store)
    service = Service(Path(project.folder), server)
    found = endure(service, [restart_database, cut_connections, kill], n_people=3)
    assert wrong_in(found) == []
    assert found["refused"]["503"] > 0


def test_no_acknowledged_label_is_lost_when_the_disk_of_the_database_is_full(tmp_path: Path) -> None:
    place = programs()
    assert place is not None
    with small_disk(128 << 20) as disk:
        if disk is None:
            pytest.skip("a small disk needs the right to mount one")
        disk.chmod(0o777)
        server = Cluster(place, is_durable=False, within=disk)
        try:
            project, _ = make_project(tmp_path, n_rows=400, store=server.url)
            found = endure(Service(Path(project.folder), server, disk), [fill_disk], n_people=3)
        finally:
            server.remove()
    assert wrong_in(found) == []
    assert found["refused"].keys() & {"503", "507"}


@pytest.mark.slow
def test_malformed_requests_break_nothing_in_postgresql(tmp_path: Path, store: str) -> None:
    project, _ = make_project(tmp_path, store=store)
    with serving(Path(project.folder)) as server:
        label_some(server, 30)
        found = send_malformed(server, Path(project.folder), 300)
        assert wrong_in(found) == []
        assert found["events"] > 5
