"""Generated requests: none may break the server, pass without the token, or change a label that it does not name."""

import json
import random
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from endurance.outages import read_labels, read_log
from endurance.servers import Client, Server
from labeling.projects import CLASSES

SILENT = ("/api/events",)
"""What never ends by itself."""
PATIENCE = 10.0
"""Seconds after which a request that is not answered hangs."""
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 0.5, 2**31, 2**53, 2**63, 2**64, 10**400, -(10**400), 1e308, float("nan"), float("inf")),
    *(
        "",
        " ",
        "\0",
        "\ud800",
        "\udfff\ud800",
        "a" * 300,
        "a" * 30_000,
        "\u202e",
        "\ufeff",
        "\u2028",
        "💥" * 50,
        "ﷺ" * 100,
    ),
    *(
        "e\u0301",
        "\n",
        "\r\nSet-Cookie: a=b",
        "'; DROP TABLE dubito_events; --",
        "=1+1",
        "../../etc/passwd",
        "%00",
        "left",
    ),
    *([], {}, [[]], {"a": {"b": []}}, list(range(1000)), {str(number): number for number in range(300)}),
)
METHODS = (
    "GET",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "get",
    "FOO",
    "PÖST",
    "POST\0",
    "",
)
PATHS = (
    *("/", "/api/project", "/api/health", "/api/next", "/api/grid", "/api/items/{}", "/api/items/{}/picture"),
    *("/api/items/{}/guess", "/api/map", "/api/curve", "/api/review", "/api/annotators", "/api/export", "/api/labels"),
    *("/api/labels/many", "/api/undo", "/api/classes", "/api/restrict", "/api/round", "/api/release", "/sign-in"),
    *("/api/probabilities", "/page/{}", "/openapi.json", "/{}", "//{}", "/api/labels/{}", "/api/../{}", "*", ""),
)
NAMES = ("annotator", "count", "class", "format", "limit", "edge", "safe", "token", "label", "{}")
HEADERS = (
    "Cookie",
    "Origin",
    "Range",
    "If-None-Match",
    "Accept",
    "X-Forwarded-For",
    "Expect",
    "Referer",
    "Accept-Encoding",
)


@dataclass
class Kept:
    """What the server said it has kept."""

    rows: set[int] = field(default_factory=set)
    events: set[int] = field(default_factory=set)

    def note(self, path: str, status: int, body: bytes, answer: bytes) -> None:
        """An answer: of a label the rows that were sent, of an undo the row that it names."""
        if status not in (200, 201) or path not in ("/api/labels", "/api/labels/many", "/api/undo"):
            return
        described, sent = json.loads(answer), json.loads(body)
        self.events |= set(described["events"]) if path == "/api/labels/many" else {described["event"]}
        given = sent["labels"] if path == "/api/labels/many" else [described if path == "/api/undo" else sent]
        self.rows |= {label["row"] for label in given}


@contextmanager
def watching(server: Server, project: Path, found: dict[str, Any]) -> Iterator[Kept]:
    """Note which labels other than those that requests named are changed, and events that no request caused."""
    kept, before, n_before = Kept(), read_labels(server), len(read_log(project))
    yield kept
    after, log = read_labels(server), {entry[0] for entry in read_log(project)}
    changed = {row for row in before.keys() | after.keys() if before.get(row) != after.get(row)}
    found["events"] = len(kept.events)
    found["changed_unasked"] = sorted(changed - kept.rows)
    found["events_unasked"] = sorted(number for number in log - kept.events if number > n_before)
    found["events_lost"] = sorted(kept.events - log)


def label_some(server: Server, n_labels: int) -> None:
    """Labels that requests could change."""
    labels = [{"key": f"first-{row}", "row": row, "class": CLASSES[row % 2]} for row in range(n_labels)]
    with Client(server) as client:
        assert client.ask("POST", "/api/labels/many", {"annotator": "ann", "labels": labels})[0] == 201


def send_malformed(server: Server, project: Path, n_requests: int, seed: int = 0, name: str = "") -> dict[str, Any]:
    """So many requests that are wrong in some way, or nearly right; how often each status came, and what broke."""
    chance, statuses, broken = random.Random(seed), Counter[int](), list[str]()
    found: dict[str, Any] = {}
    with watching(server, project, found) as kept:
        for number in range(1, n_requests + 1):
            path, body, is_framed, request = _request(server, chance, number)
            # What says that more is to come is waited for, and hung up on.
            patience = PATIENCE if is_framed else 0.2
            status, answer = _exchange(server, request, patience, is_endless=path.startswith(SILENT))
            statuses[max(status, 0)] += 1
            if status >= 500 or (status < 0 and is_framed):
                broken.append(f"{status or 'no answer'} to {request[:500]!r}")
            kept.note(path, status, body, answer)
            if name and number % 1000 == 0:
                print(f"{name}: {number:,} of {n_requests:,} requests, {len(broken)} broke something", flush=True)
    return {
        "requests": statuses.total(),
        "statuses": {str(status): n for status, n in sorted(statuses.items())},
        "broken": broken[:20],
        **found,
    }


def _request(server: Server, chance: random.Random, number: int) -> tuple[str, bytes, bool, bytes]:
    """Half of the requests are a right one with one thing changed; the others are of odd parts."""

    def odd() -> Any:
        return chance.choice(ODD)

    headers = {"Host": f"{server.host}:{server.port}", "Authorization": f"Bearer {server.token}"}
    headers["Connection"], headers["Content-Type"] = "close", "application/json"
    if chance.random() < 0.5:
        method, (path, body) = "POST", chance.choice(_bodies(chance, number))
        if chance.random() < 0.8:
            _mutate(body, chance)
    else:
        method = chance.choice(METHODS[:7] if chance.random() < 0.8 else METHODS)
        path = chance.choice(PATHS).replace("{}", _quoted(odd(), chance))
        body = {chance.choice(["key", "row", "labels", "name", "mode", "rows", "class"]): odd() for _ in range(3)}
        if chance.random() < 0.5:
            names = (chance.choice(NAMES).replace("{}", _quoted(odd(), chance)) for _ in range(chance.randrange(4)))
            path += "?" + "&".join(f"{name}={_quoted(odd(), chance)}" for name in names)
        body = odd() if chance.random() < 0.3 else body
    data = json.dumps(body).encode()
    if chance.random() < 0.2:
        data = _damaged(data, chance)
    if chance.random() < 0.2:
        headers[chance.choice([*HEADERS, "Host", "Authorization", "Content-Type"])] = str(odd())[:5000].replace(
            "\r\n", " "
        )
    length = (
        len(data) if chance.random() < 0.95 else chance.choice([0, 1, len(data) // 2, len(data) + 5, -1, 10**30, "x"])
    )
    headers["Content-Length"] = str(length)
    if chance.random() < 0.02:
        headers["Transfer-Encoding"] = "chunked"
    is_framed = length == len(data) and "Transfer-Encoding" not in headers
    lines = [f"{method} {path} HTTP/1.1", *(f"{header}: {value}" for header, value in headers.items())]
    head = "\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n"
    return path, data, is_framed, head + data


def _bodies(chance: random.Random, number: int) -> list[tuple[str, dict[str, Any]]]:
    """Requests that are right."""
    who, row = chance.choice(["ann", "bob"]), chance.randrange(60)
    label = {"key": f"made-up-{number}", "row": row, "class": chance.choice([*CLASSES, None])}
    return [
        ("/api/labels", {**label, "annotator": who, "guess_seen": False, "seconds": 1.5}),
        ("/api/labels/many", {"annotator": who, "labels": [dict(label), {**label, "key": f"second-{number}"}]}),
        ("/api/undo", {"key": f"undo-{number}", "annotator": who}),
        ("/api/classes", {"name": f"class {number}"}),
        ("/api/restrict", {"mode": chance.choice(["only", "exclude", "clear"]), "rows": [row]}),
        ("/api/release", {"annotator": who}),
    ]


def _mutate(body: dict[str, Any], chance: random.Random) -> None:
    """One thing else, more or less than is right."""
    place = chance.choice(body["labels"]) if "labels" in body and chance.random() < 0.7 else body
    name, draw = chance.choice(list(place)), chance.random()
    if draw < 0.7:
        place[name] = chance.choice(ODD)
    elif draw < 0.85:
        del place[name]
    else:
        place[str(chance.choice(ODD))[:50]] = chance.choice(ODD)


def _quoted(value: object, chance: random.Random) -> str:
    plain = str(value)[:2000]
    is_raw = chance.random() < 0.1
    return plain if is_raw else quote(plain.encode("utf-8", "surrogatepass"), safe="")


def _damaged(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data) + 1)
    kinds: list[Callable[[], bytes]] = [
        lambda: data[:place],
        lambda: data[:place] + chance.randbytes(8) + data[place:],
        lambda: chance.randbytes(200),
        lambda: b"[" * 50_000,
        lambda: b'{"a":' * 20_000,
        lambda: data.replace(b'"', b"'"),
        lambda: b"\xff\xfe" + data.decode().encode("utf-16-le"),
        lambda: b"",
    ]
    return chance.choice(kinds)()


def _exchange(server: Server, request: bytes, patience: float, *, is_endless: bool) -> tuple[int, bytes]:
    """The status and the body; 0 where the server hung up without one, -1 where nothing came in time."""
    answer = b""
    try:
        with socket.create_connection((server.host, server.port), timeout=patience) as connection:
            connection.sendall(request)
            while part := connection.recv(1 << 16):
                answer += part
                if is_endless:
                    break
    except TimeoutError:
        return -1, b""
    except OSError:
        pass  # It need not read what it refuses.
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head.startswith(b"HTTP/1.1 ") else 0, body


def fuzz(server: Server, project: Path, n_requests: int, number: int = 0) -> dict[str, Any]:
    """So many requests out of the OpenAPI description, right ones and wrong ones by turns, by schemathesis."""
    import schemathesis
    from schemathesis import GenerationMode
    from schemathesis.core.result import Ok

    with Client(server) as client:
        status, description = client.ask("GET", "/openapi.json")
    assert status == 200
    schema = schemathesis.openapi.from_dict(description)
    made = [each.ok() for each in schema.get_all_operations() if isinstance(each, Ok)]
    operations = [each for each in made if each.path not in SILENT]
    share = -(-n_requests // (2 * len(operations)))
    statuses, broken = Counter[int](), list[str]()
    found: dict[str, Any] = {}
    with watching(server, project, found) as kept:
        for operation in operations:
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                _try(server, operation.as_strategy(generation_mode=mode), share, number, statuses, broken, kept)
    return {
        "requests": statuses.total(),
        "operations": len(operations),
        "statuses": {str(status): n for status, n in sorted(statuses.items())},
        "broken": broken[:20],
        **found,
    }


def _try(
    server: Server, cases: Any, share: int, number: int, statuses: Counter[int], broken: list[str], kept: Kept
) -> None:
    from hypothesis import HealthCheck, Phase, given, seed, settings

    base = f"http://{server.host}:{server.port}"

    @seed(number)
    @settings(
        max_examples=share,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def call(case: Any) -> None:
        answer = case.call(base_url=base, headers={"Authorization": f"Bearer {server.token}"})
        statuses[answer.status_code] += 1
        kept.note(case.path, answer.status_code, json.dumps(case.body, default=str).encode(), answer.content)
        if answer.status_code >= 500:
            broken.append(f"{answer.status_code} {case.as_curl_command()}")
        without = case.call(base_url=base, headers={"Authorization": "Bearer no"})
        if without.status_code != 401:
            broken.append(f"{without.status_code} without the token: {case.as_curl_command()}")

    try:
        call()
    except Exception as error:
        if type(error).__name__ not in ("Unsatisfiable", "SkipTest", "InvalidArgument"):
            raise
