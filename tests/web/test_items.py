"""The list of all items: filters, search, order, similar items, and undoing several answers at once."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from dubito.cli import main
from dubito.embedding.api import embed
from dubito.errors import MissingFile
from dubito.labeling.creation import open_project
from dubito.labeling.project import Settings
from dubito.labeling.service import LabelingService
from dubito.labeling.similarity import Similarity
from dubito.labeling.state import read_state
from labeling.projects import CLASSES, truth, wait_until, write_rows
from web.clients import client_of, label_some, rows_service, say


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with client_of(rows_service(tmp_path)) as opened:
        yield opened


def listed(client: TestClient, **query: Any) -> list[int]:
    """The rows of the items that match."""
    answer = client.get("/api/items", params={"count": 200, **query})
    assert answer.status_code == 200, answer.text
    rows = [each["row"] for each in answer.json()["items"]]
    assert answer.json()["total"] == len(rows)
    return rows


def test_items_are_filtered_by_label_answer_and_annotator(client: TestClient) -> None:
    for row, label, who in ((3, "right", "ann"), (4, "left", "ann"), (5, None, "bob"), (4, "right", "bob")):
        say(client, row, label, who)
    assert listed(client) == list(range(60))
    assert listed(client, show="labeled") == [3, 4]
    assert listed(client, show="unlabeled") == [row for row in range(60) if row not in (3, 4)]
    assert listed(client, show="skipped") == [5]
    assert listed(client, show="disagreement") == [4]
    assert listed(client, annotator="bob") == [4, 5]
    assert listed(client, **{"class": "right"}) == [3, 4]
    assert listed(client, show="unlabeled", **{"class": "right"}) == []
    say(client, 4, "left", "carl", review=True)
    assert listed(client, show="disagreement") == []
    assert listed(client, **{"class": "left"}) == [4]


def test_items_are_filtered_and_sorted_by_the_prediction(client: TestClient) -> None:
    assert listed(client, guess="left") == []
    label_some(client, 12)
    wait_until(lambda: client.get("/api/project").json()["model"]["state"] == "ready")
    left = listed(client, guess="left")
    assert left == [row for row in range(60) if row % 2 == 0]
    items = client.get("/api/items", params={"sort": "least-sure", "count": 200}).json()["items"]
    sure = [each["probability"] for each in items]
    assert sure == sorted(sure)
    middle = float(np.median(sure))
    few, many = listed(client, high=middle), listed(client, low=middle)
    assert sorted(few + many) == list(range(60))
    assert {each["row"] for each in items if each["probability"] < middle} == set(few)
    assert listed(client, sort="most-sure", low=middle, guess="left")[0] in left


def test_items_are_found_by_name_and_sorted_by_it_with_numbers_as_numbers(client: TestClient) -> None:
    assert listed(client, text="ROW-5") == [5, *range(50, 60)]
    assert listed(client, text="row-5", sort="name", offset=0) == [5, *range(50, 60)]
    assert listed(client, text="nowhere") == []


def test_items_are_sorted_by_class_and_by_the_latest_answer(client: TestClient) -> None:
    for row in (9, 2, 7):
        say(client, row, truth(row))
    assert listed(client, sort="class")[:3] == [2, 7, 9]
    assert listed(client, sort="newest")[:3] == [7, 2, 9]


def test_a_page_of_the_list_has_labels_answers_and_the_total(client: TestClient) -> None:
    say(client, 21, "left", "ann")
    say(client, 21, "right", "bob")
    found = client.get("/api/items", params={"offset": 20, "count": 2}).json()
    assert (found["total"], found["offset"], [each["row"] for each in found["items"]]) == (60, 20, [20, 21])
    item = found["items"][1]
    assert (item["label"], item["by"], item["answers"]) == ("right", "bob", {"ann": "left", "bob": "right"})
    assert client.get("/api/items", params={"offset": 900}).json()["items"] == []
    assert client.get("/api/items", params={"nonsense": 1}).status_code == 422


def test_similar_items_are_the_exact_nearest_in_the_features(tmp_path: Path) -> None:
    features = np.load(write_rows(tmp_path))["features"]
    with client_of(rows_service(tmp_path)) as client:
        distances = ((features - features[8]) ** 2).sum(axis=1)
        distances[8] = -1.0
        nearest = np.argsort(distances, kind="stable").tolist()
        assert listed(client, like=8) == nearest
        assert listed(client, like=8, text="row-1") == [row for row in nearest if f"row-{row}".startswith("row-1")]
        say(client, 8, "left")
        assert listed(client, like=8, show="unlabeled") == nearest[1:]
        assert client.get("/api/items", params={"like": 60}).status_code == 404


def test_items_that_are_gone_do_not_count_in_the_scale_of_a_table(tmp_path: Path) -> None:
    table = np.random.default_rng(0).normal(size=(30, 3)) * [1.0, 10.0, 100.0]
    source = tmp_path / "table.csv"

    def write(items: Iterable[int]) -> None:
        rows = [",".join([f"row-{item}", *map(repr, table[item].tolist())]) for item in items]
        source.write_text("\n".join(["id,x,y,z", *rows]), encoding="utf-8")

    write(range(30))
    folder = open_project(str(source), classes=CLASSES)[0].folder
    there = [29, *range(10, 28)]
    write(there)
    assert main(["update", folder]) == 0
    scaled = table[there] / table[there].std(axis=0)
    expected = np.full(30, np.inf)
    expected[there] = ((scaled - scaled[3]) ** 2).sum(axis=1)
    expected[there[3]] = -1.0
    similarity = Similarity(read_state(folder))
    np.testing.assert_allclose(similarity.to_item(there[3]), expected)
    with pytest.raises(MissingFile, match="item 5 is not in the source any more"):
        similarity.to_item(5)


def test_text_search_comes_back_with_the_pool_file(tmp_path: Path) -> None:
    source = tmp_path / "texts.csv"
    source.write_text("text\n" + "\n".join(f"the cat chased mouse number {row}" for row in range(20)), encoding="utf-8")
    state = read_state(open_project(str(source), classes=("a", "b"))[0].folder)
    similarity, pool = Similarity(state), Path(state.project.pool_path)
    pool.rename(tmp_path / "elsewhere")
    assert not similarity.understands_texts
    (tmp_path / "elsewhere").rename(pool)
    assert similarity.understands_texts


def test_texts_are_found_by_their_words_and_cut_in_the_list(tmp_path: Path) -> None:
    rows = [f"t{row},{'Apple' if row % 3 == 0 else 'pear'} number {row} {'x' * 2000}" for row in range(12)]
    source = tmp_path / "texts.csv"
    source.write_text("\n".join(["id,text", *rows]), encoding="utf-8")
    project = open_project(str(source), classes=("a", "b"), settings=Settings())
    with client_of(LabelingService(*project)) as client:
        assert listed(client, text="apple") == [0, 3, 6, 9]
        item = client.get("/api/items", params={"text": "apple"}).json()["items"][0]
        assert item["text"].startswith("Apple number 0 x")
        assert len(item["text"]) < 1000
        assert item["is_cut"]
        assert len(client.get(f"/api/items/{item['row']}").json()["text"]) > 2000


def test_several_answers_are_undone_as_one_change(client: TestClient) -> None:
    say(client, 0, "left")
    labels = [{"key": f"k{row}", "row": row, "class": truth(row)} for row in range(1, 5)]
    events = client.post("/api/labels/many", json={"annotator": "ann", "labels": labels}).json()["events"]
    wrong = client.post("/api/undo", json={"key": "u", "annotator": "bob", "events": events})
    assert wrong.status_code == 409
    assert client.get("/api/project").json()["labeled"] == 5
    body = {"key": "u", "annotator": "ann", "events": events}
    undone, again = (client.post("/api/undo", json=body).json() for _ in range(2))
    assert [each["row"] for each in undone["items"]] == [4, 3, 2, 1]
    assert undone == again
    assert listed(client, show="labeled") == [0]
    assert client.post("/api/undo", json={**body, "key": "v"}).status_code == 409
    assert client.post("/api/undo", json={**body, "events": events[:2]}).status_code == 409


NETWORK = """
import torch


class Letters(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(26) * {weight})

    def forward(self, texts):
        rows = [[text.lower().count(chr(97 + letter)) + 0.01 for letter in range(26)] for text in texts]
        return torch.tensor(rows) @ self.weight


def letters():
    return Letters()
"""


def test_a_text_finds_the_items_closest_to_it_if_the_embedder_understands_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "letters_network.py").write_text(NETWORK.format(weight=1.0))
    texts = ["banana", "cat", "dog", "bandana", "moon", "band"]
    source = tmp_path / "texts.csv"
    source.write_text("text\n" + "\n".join(texts), encoding="utf-8")
    pool = embed(source, "torch:letters_network.letters", tmp_path / "pool.parquet", options={"takes": "texts"})
    project = open_project(str(pool.path), classes=("fruit", "other"), settings=Settings())
    with client_of(LabelingService(*project)) as client:
        assert client.get("/api/project").json()["text_search"] is True
        counts = np.array(
            [[each.count(chr(97 + letter)) + 0.01 for letter in range(26)] for each in ["ananas", *texts]]
        )
        units = counts / np.linalg.norm(counts, axis=1)[:, None]
        expected = np.argsort(-(units[1:] @ units[0]), kind="stable").tolist()
        assert listed(client, about="Ananas") == expected
        assert listed(client, about="Ananas")[0] == 0
        say(client, 0, "fruit")
        assert listed(client, about="Ananas", show="unlabeled") == expected[1:]
    monkeypatch.delitem(sys.modules, "letters_network")
    (tmp_path / "letters_network.py").write_text(NETWORK.format(weight=2.0) + "#")
    with client_of(LabelingService(*open_project(str(tmp_path / "pool.dubito")))) as client:
        refused = client.get("/api/items", params={"about": "Ananas"})
        assert refused.status_code == 422
        assert "have changed since the items were embedded" in refused.json()["error"]


def test_a_text_finds_texts_with_the_same_words_in_a_pool_of_words(tmp_path: Path) -> None:
    subjects = ["the cat chased a mouse", "the bank charged a late fee", "heavy rain and strong wind"]
    source = tmp_path / "texts.csv"
    rows = [f"{subject} number {number}" for number in range(20) for subject in subjects]
    source.write_text("text\n" + "\n".join(rows), encoding="utf-8")
    with client_of(LabelingService(*open_project(str(source), classes=("a", "b")))) as client:
        assert client.get("/api/project").json()["text_search"] is True
        for place, about in enumerate(["mouse and cat", "fee of the bank", "wind"]):
            assert {row % 3 for row in listed(client, about=about)[:20]} == {place}
        notes = [client.get("/api/items", params={"about": about}).json()["note"] for about in ("wind", "mous")]
        assert notes[0] is None
        assert "None of these words" in notes[1]
        refused = client.get("/api/items", params={"about": "zzzz"})
        assert refused.status_code == 422
        assert "knows none of the words" in refused.json()["error"]


def test_a_text_is_refused_where_the_embedder_does_not_understand_it(client: TestClient) -> None:
    assert client.get("/api/project").json()["text_search"] is False
    refused = client.get("/api/items", params={"about": "left"})
    assert refused.status_code == 422
    assert "embed the items with clip:NAME" in refused.json()["error"]
