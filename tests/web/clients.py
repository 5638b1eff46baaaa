"""The real application over a small real project."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from dubito.labeling.service import LabelingService
from dubito.labeling.web.app import make_app
from labeling.projects import copy_played, truth, wait_until

TOKEN = "a-token-for-tests-that-is-long-enough"
HERE = "http://127.0.0.1:8901"


@contextmanager
def client_of(service: LabelingService, token: str | None = TOKEN) -> Iterator[TestClient]:
    """A client that has the token in its hands."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    with TestClient(make_app(service, TOKEN), base_url=HERE, headers=headers, raise_server_exceptions=False) as client:
        yield client


def rows_service(folder: Path) -> LabelingService:
    """A service over two clusters of rows, in the first round."""
    return LabelingService(*copy_played(folder))


def say(client: TestClient, row: int, label: str | None, who: str = "ann", key: str | None = None, **more: Any) -> Any:
    """Post a label."""
    body = {"key": key or secrets.token_hex(8), "annotator": who, "row": row, "class": label, **more}
    return client.post("/api/labels", json=body)


def label_some(client: TestClient, n_labels: int, who: str = "ann") -> list[int]:
    """Label what is asked for, rightly."""
    done: list[int] = []
    while len(done) < n_labels:
        wait_until(lambda: bool(client.get("/api/next", params={"annotator": who, "count": 1}).json()["items"]))
        row = client.get("/api/next", params={"annotator": who, "count": 1}).json()["items"][0]["row"]
        assert say(client, row, truth(row), who).status_code == 201
        done.append(row)
    return done
