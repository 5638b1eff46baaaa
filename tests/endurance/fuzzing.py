"""Requests made up from the OpenAPI description: none may break the server, and none may pass without the token."""

from collections import Counter
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from endurance.servers import Client, Server

SILENT = ("/api/events",)
"""What never ends by itself."""


def fuzz(server: Server, n_requests: int, number: int = 0) -> dict[str, Any]:
    """So many requests, right ones and wrong ones by turns; how often each status came, and whatever broke."""
    with Client(server) as client:
        status, description = client.ask("GET", "/openapi.json")
    assert status == 200
    schema = schemathesis.openapi.from_dict(description)
    found = [each.ok() for each in schema.get_all_operations() if isinstance(each, Ok)]
    operations = [each for each in found if each.path not in SILENT]
    share = -(-n_requests // (2 * len(operations)))
    statuses: Counter[int] = Counter()
    broken: list[str] = []
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            _try(server, operation.as_strategy(generation_mode=mode), share, number, statuses, broken)
    return {
        "requests": statuses.total(),
        "operations": len(operations),
        "statuses": {str(status): n for status, n in sorted(statuses.items())},
        "broken": broken,
    }


def _try(server: Server, cases: Any, share: int, number: int, statuses: Counter[int], broken: list[str]) -> None:
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
