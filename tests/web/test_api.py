"""The API over a real project: labels, undo, rounds, and what the page reads."""

import base64
import csv
import io
import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from endurance.servers import Client, serving
from labeling.projects import copy_played, truth, wait_until
from web.clients import client_of, label_some, rows_service, say


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with client_of(rows_service(tmp_path)) as opened:
        assert opened.get("/api/project").json()["round"] == 1
        yield opened


def test_a_label_is_kept_and_counted_and_the_same_key_again_changes_nothing(client: TestClient) -> None:
    first = say(client, 3, "right", key="k1")
    again = say(client, 3, "right", key="k1")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json() == {"event": 1, "labeled": 1}
    assert say(client, 3, "left", key="k1").status_code == 409
    assert client.get("/api/items/3").json()["label"] == "right"


def test_undo_takes_back_one_answer_after_another_and_then_says_that_there_is_none(client: TestClient) -> None:
    say(client, 3, "right")
    say(client, 3, "left")
    say(client, 4, None)
    rows = [client.post("/api/undo", json={"key": f"u{n}", "annotator": "ann"}).json()["row"] for n in range(2)]
    assert rows == [4, 3]
    assert client.get("/api/items/3").json()["label"] == "right"
    assert client.post("/api/undo", json={"key": "u1", "annotator": "ann"}).json()["row"] == 3
    client.post("/api/undo", json={"key": "u2", "annotator": "ann"})
    none = client.post("/api/undo", json={"key": "u3", "annotator": "ann"})
    assert none.status_code == 409
    assert "no answer of ann to undo" in none.json()["error"]
    assert client.get("/api/project").json()["labeled"] == 0


def test_an_unknown_class_is_refused_with_the_known_ones(client: TestClient) -> None:
    refused = say(client, 3, "rigth")
    assert refused.status_code == 422
    assert "did you mean 'right'?" in refused.json()["error"]


def test_a_class_that_is_sent_twice_with_its_key_is_one_class(client: TestClient) -> None:
    first, again = (client.post("/api/classes", json={"name": "up", "key": "k1"}) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json() == {"classes": ["left", "right", "up"]}
    assert client.post("/api/classes", json={"name": "down", "key": "k1"}).status_code == 409
    assert client.post("/api/classes", json={"name": "up", "key": "k2"}).status_code == 422


def test_a_label_is_its_class_in_any_form_of_unicode(client: TestClient) -> None:
    assert client.post("/api/classes", json={"name": "cafe\u0301"}).json()["classes"][-1] == "caf\u00e9"
    assert say(client, 3, "cafe\u0301", key="k").status_code == 201
    assert say(client, 3, "caf\u00e9", key="k").status_code == 200
    assert client.get("/api/items/3").json()["label"] == "caf\u00e9"


def test_many_labels_are_kept_all_or_none(client: TestClient) -> None:
    labels = [{"key": f"k{row}", "row": row, "class": truth(row), "guess_seen": True} for row in range(5)]
    wrong = [*labels, {"key": "k9", "row": 9_999, "class": "left", "guess_seen": False}]
    assert client.post("/api/labels/many", json={"annotator": "ann", "labels": wrong}).status_code == 404
    assert client.get("/api/project").json()["labeled"] == 0
    kept = client.post("/api/labels/many", json={"annotator": "ann", "labels": labels})
    assert kept.status_code == 201
    assert kept.json()["labeled"] == 5


def test_after_a_batch_a_model_learns_and_the_next_round_is_picked(client: TestClient) -> None:
    label_some(client, 12)
    wait_until(lambda: client.get("/api/project").json()["model"]["state"] == "ready")
    project = client.get("/api/project").json()
    assert project["round"] >= 2
    assert project["model"]["accuracy"] == 1.0
    assert project["model"]["basis"] == "held out"
    guess = client.get("/api/items/0/guess").json()
    assert guess["ranked"][0]["class"] == "left"
    curve = client.get("/api/curve").json()
    assert curve["points"][-1]["labels"] >= 10
    assert curve["advice"]["stop"] is False


def test_progress_to_the_next_round_never_falls_and_the_curve_never_runs_backwards(client: TestClient) -> None:
    def progress() -> int:
        found = client.get("/api/project").json()["progress"]
        assert found["of"] == 10
        return int(found["done"])

    labels = [{"key": f"k{row}", "row": row, "class": truth(row)} for row in range(9)]
    events = client.post("/api/labels/many", json={"annotator": "ann", "labels": labels}).json()["events"]
    assert progress() == 9
    say(client, 20, "left")
    wait_until(lambda: len(client.get("/api/curve").json()["points"]) == 1)
    assert progress() == 0
    client.post("/api/undo", json={"key": "u", "annotator": "ann", "events": events[4:]})
    assert progress() == 5
    client.post("/api/round")
    wait_until(lambda: [each["labels"] for each in client.get("/api/curve").json()["points"]] == [5])
    label_some(client, 10)
    wait_until(lambda: len(client.get("/api/curve").json()["points"]) == 2)
    assert [each["labels"] for each in client.get("/api/curve").json()["points"]] == [5, 15]


def test_the_map_has_a_place_a_label_and_a_pick_order_for_every_item(client: TestClient) -> None:
    label_some(client, 3)
    wait_until(lambda: client.get("/api/map").json()["n"] > 0)
    answer = client.get("/api/map")
    found = answer.json()
    x, picked = (np.frombuffer(base64.b64decode(found[name]), kind) for name, kind in (("x", "<f4"), ("picked", "<i4")))
    label = np.frombuffer(base64.b64decode(found["label"]), "<i4")
    assert found["n"] == len(x) == 60
    assert np.isfinite(x).all()
    assert sorted(picked[picked >= 0]) == list(range((picked >= 0).sum()))
    assert (label >= 0).sum() == 3
    assert client.get("/api/map", headers={"if-none-match": answer.headers["etag"]}).status_code == 304


def test_the_queue_drops_what_is_excluded_at_once_and_the_next_round_too(client: TestClient) -> None:
    out = list(range(0, 60, 2))
    assert client.post("/api/restrict", json={"mode": "exclude", "rows": out}).json() == {"candidates": 30}
    rows = {each["row"] for each in client.get("/api/next", params={"annotator": "ann", "count": 64}).json()["items"]}
    assert rows
    assert not rows & set(out)
    assert client.post("/api/restrict", json={"mode": "clear", "rows": []}).json() == {"candidates": 60}


def test_a_confirmed_label_leaves_the_review_list(client: TestClient) -> None:
    for row in range(20):
        say(client, row, truth(row) if row != 7 else "left")
    client.post("/api/round")
    wait_until(lambda: 7 in rows_in_review(client))
    assert client.get("/api/review").json()["items"][0]["guess"] == "right"
    say(client, 7, "left", review=True)
    assert 7 not in rows_in_review(client)


def rows_in_review(client: TestClient) -> list[int]:
    return [each["row"] for each in client.get("/api/review").json()["items"]]


def test_every_export_holds_the_labels_and_no_formula(client: TestClient) -> None:
    client.post("/api/classes", json={"name": "=1+1"})
    say(client, 3, "=1+1")
    say(client, 5, "left")
    for format in ("csv", "jsonl", "parquet", "label-studio", "json-min", "prodigy", "doccano"):
        answer = client.get("/api/export", params={"format": format})
        assert answer.status_code == 200
        assert "attachment" in answer.headers["content-disposition"]
        if format not in ("parquet",):
            assert "row-5" in answer.text
    table = list(csv.DictReader(io.StringIO(client.get("/api/export").text)))
    assert [(row["id"], row["label"]) for row in table] == [("row-3", "'=1+1"), ("row-5", "left")]


def test_the_grid_shows_what_the_model_takes_for_one_class_surest_first(client: TestClient) -> None:
    label_some(client, 12)
    wait_until(lambda: bool(client.get("/api/grid", params={"annotator": "ann"}).json()["groups"]))
    found = client.get("/api/grid", params={"annotator": "ann", "class": "left", "count": 5}).json()
    assert found["class"] == "left"
    assert {each["guess"] for each in found["items"]} == {"left"}
    sure = [each["probability"] for each in found["items"]]
    assert sure == sorted(sure, reverse=True)


def test_a_persons_own_probabilities_are_taken_and_dropped(client: TestClient) -> None:
    buffer = io.BytesIO()
    sure = np.tile([[0.9, 0.1]], (60, 1))
    np.savez(buffer, probabilities=sure, classes=np.array(["left", "right"]))
    upload = {"content-type": "application/octet-stream"}
    kept = client.put("/api/probabilities", content=buffer.getvalue(), headers=upload)
    assert kept.json() == {"rows": 60}
    wait_until(lambda: client.get("/api/items/1/guess").status_code == 200)
    assert client.get("/api/items/1/guess").json()["ranked"][0] == {"class": "left", "probability": pytest.approx(0.9)}
    assert client.put("/api/probabilities", content=b"PK\x03\x04 no", headers=upload).status_code == 422
    assert client.delete("/api/probabilities").json() == {"own": False}


def test_what_a_person_holds_is_given_back_and_agreement_is_reported(client: TestClient) -> None:
    held = client.get("/api/next", params={"annotator": "ann", "count": 3}).json()["items"]
    assert client.post("/api/release", json={"annotator": "ann"}).json() == {"released": len(held)}
    for who, label in (("ann", "left"), ("bob", "left"), ("cid", "right")):
        say(client, 2, label, who)
    found = client.get("/api/annotators").json()
    assert [each["labels"] for each in found["annotators"]] == [1, 1, 1]
    assert found["overlap"]["items"] == 1
    assert found["overlap"]["agree"] == pytest.approx(1 / 3)


def test_changes_are_reported_as_they_happen(tmp_path: Path) -> None:
    project, _ = copy_played(tmp_path)
    with serving(Path(project.folder)) as server:
        stream = HTTPConnection(server.host, server.port, timeout=60)
        stream.request("GET", "/api/events", headers={"Authorization": f"Bearer {server.token}"})
        answer = stream.getresponse()
        assert answer.headers["content-type"].startswith("text/event-stream")
        with Client(server) as client:
            client.ask("POST", "/api/classes", {"name": "up"})
            client.ask("POST", "/api/labels", {"key": "k", "annotator": "ann", "row": 1, "class": "up"})
        described: dict[str, str] = {}
        while not {"project", "labels"} <= described.keys():
            kind = answer.readline().decode().strip().removeprefix("event: ")
            described[kind] = answer.readline().decode().strip().removeprefix("data: ")
            answer.readline()
        stream.close()
    assert json.loads(described["labels"]) == {"labeled": 1, "skipped": 0, "progress": {"done": 1, "of": 10}}
    assert "up" in json.loads(described["project"])["classes"]
