"""Projects whose data changes while people label: new items come in, and no label, id or event is lost."""

import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dubito.cli import main
from dubito.errors import InvalidData
from dubito.labeling import watching
from dubito.labeling.creation import open_project
from dubito.labeling.database import open_engine
from dubito.labeling.listing import ItemList, ListQuery
from dubito.labeling.project import read_project
from dubito.labeling.service import AnswerIn, LabelingService
from dubito.labeling.state import read_state
from dubito.labeling.store import read_events
from endurance.servers import Client, Server
from labeling.projects import wait_until


def draw(path: Path, seed: int) -> None:
    """A dark picture for an even seed, a bright one for an odd one."""
    pixels = np.random.default_rng(seed).integers(0, 100, (6, 6)) + 150 * (seed % 2)
    Image.fromarray(pixels.astype(np.uint8)).save(path)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(12):
        draw(folder / f"{number}.png", number)
    return folder


def labeled(source: Path, *items: int) -> LabelingService:
    """A service whose first items have the labels dark and bright."""
    service = LabelingService(*open_project(str(source), classes=["dark", "bright"]))
    for item in items:
        service.answer([AnswerIn(f"key-{item}", "ann", item, ("dark", "bright")[item % 2])]).result()
    return service


def labels_of(folder: str) -> dict[str, str]:
    """By id, the label that another process would read."""
    state = read_state(folder)
    return {state.contents.ids[item]: label for item, label in state.label_table.labels.items()}


def test_update_adds_new_items_and_keeps_labels_ids_and_numbers(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = labeled(photos, 0, 1, 2, 3)
    service.close()
    folder = service.state.project.folder
    before = list(service.state.contents.ids)
    draw(photos / "00-first.png", 20)
    draw(photos / "2.png", 22)
    (photos / "3.png").unlink()
    (photos / "1.png").rename(photos / "renamed.png")
    capsys.readouterr()
    assert main(["update", folder]) == 0
    printed = capsys.readouterr().err
    assert "since the project was last updated: 1 new (00-first.png), 1 changed (2.png), 1 removed (3.png)" in printed
    assert "1 items have new ids" in printed
    state = read_state(folder)
    assert list(state.contents.ids) == [before[0], "renamed.png", *before[2:], "00-first.png"]
    assert labels_of(folder) == {"0.png": "dark", "renamed.png": "bright", "2.png": "dark", "3.png": "bright"}
    assert state.contents.gone == {3}
    assert main(["update", folder]) == 0
    assert "nothing is new" in capsys.readouterr().err
    draw(photos / "3.png", 3)
    assert main(["update", folder]) == 0
    assert "1 new (3.png)" in capsys.readouterr().err
    assert read_state(folder).contents.gone == frozenset()
    assert labels_of(folder)["3.png"] == "bright"
    (photos / "00-first.png").unlink()
    assert main(["update", folder]) == 0
    assert "1 removed (00-first.png)" in capsys.readouterr().err
    draw(photos / "00-first.png", 20)
    assert main(["update", folder]) == 0
    assert "1 new (00-first.png)" in capsys.readouterr().err
    (photos / "00-first.png").unlink()
    assert main(["update", folder]) == 0
    assert "1 removed (00-first.png)" in capsys.readouterr().err


@pytest.mark.slow
def test_items_that_are_gone_are_neither_shown_nor_trained_on_nor_picked(photos: Path, tmp_path: Path) -> None:
    labeled(photos, 0, 1, 2, 3).close()
    for name in ("3.png", "8.png"):
        (photos / name).unlink()
    service = LabelingService(*open_project(str(photos)))
    service.start()
    service.loop.request_round()
    wait_until(lambda: service.state.round >= 1)
    shown = {pick.item for pick in service.ask("bob", 20).result()}
    assert shown == set(range(12)) - {0, 1, 2, 3, 8}
    assert service.state.rounds[-1].labels == 3
    assert (service.state.n_items, service.state.n_labeled) == (10, 3)
    assert service.state.contents.gone.isdisjoint(ItemList(service.state).find(ListQuery()).tolist())
    folder = service.state.project.folder
    service.close()
    out = tmp_path / "batch.csv"
    assert main(["select", folder, "--budget", "5", "-o", str(out), "--force"]) == 0
    assert "3.png" not in out.read_text()


def test_a_running_server_takes_in_what_update_embeds(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "POOL_SECONDS", 0.05)
    service = labeled(photos, 0, 1)
    service.start()
    wait_until(lambda: service.state.model is not None and service.state.model.probabilities is not None)
    heard: list[dict[str, object]] = []
    service.listen(lambda kind, facts: heard.append(facts) if kind == "items" else None)
    for number in range(12, 15):
        draw(photos / f"{number}.png", number)
    (photos / "5.png").unlink()
    assert main(["update", service.state.project.folder]) == 0
    wait_until(lambda: bool(heard))
    notes = heard[0].pop("notes")
    assert heard == [{"items": 14, "added": 3, "changed": 0, "removed": 1}]
    assert isinstance(notes, list)
    assert "5.png" in notes[0]
    service.answer([AnswerIn("new", "ann", 14, "dark")]).result()
    before = service.state.round
    service.loop.request_round()
    wait_until(lambda: service.state.round > before and service.state.layout is not None)
    assert service.state.model is not None
    assert service.state.model.guess(13) is not None
    assert service.state.layout is not None
    assert len(service.state.layout) == 15
    assert 5 not in {pick.item for pick in service.ask("bob", 20).result()}
    service.close()
    assert service.failures() == {}
    assert labels_of(service.state.project.folder)["14.png"] == "dark"


@pytest.mark.slow
def test_a_watched_folder_fills_the_project(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "POOL_SECONDS", 0.05)
    monkeypatch.setattr(watching, "SOURCE_SECONDS", 0.1)
    notes: list[str] = []
    opened = open_project(str(photos), classes=["dark", "bright"])
    service = LabelingService(*opened, watch=True, report=notes.append)
    service.start()
    for number in range(12, 20):
        draw(photos / f"{number}.png", number)
    wait_until(lambda: len(service.state.contents) == 20)
    (photos / "0.png").unlink()
    wait_until(lambda: service.state.contents.gone == {0})
    assert len(service.state.contents) == 20
    assert service.state.n_items == 19
    assert any("0.png" in note for note in notes)
    (photos / "odd.heic").write_bytes(b"no picture")
    draw(photos / "21.png", 21)
    wait_until(lambda: any("odd.heic" in note for note in notes))
    wait_until(lambda: service.state.n_items == 20)
    assert sum("odd.heic" in note for note in notes) == 1
    service.close()


def test_a_pool_of_another_source_is_refused(photos: Path) -> None:
    service = labeled(photos, 0, 1)
    service.close()
    for number in range(12):
        (photos / f"{number}.png").unlink()
    draw(photos / "other.png", 99)
    with pytest.raises(InvalidData, match="was replaced: 12 of the 12 items"):
        open_project(str(photos))
    shutil.rmtree(photos)
    photos.mkdir()
    for number in range(12):
        draw(photos / f"{number}.png", number)
    open_project(str(photos))
    assert labels_of(service.state.project.folder) == {"0.png": "dark", "1.png": "bright"}


class Story:
    """Two people label a growing folder; the classes are renamed, and the server is killed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.photos, self.rng = folder / "photos", random.Random(seed)
        self.photos.mkdir()
        self.seeds: dict[str, int] = {}
        self.classes = ["dark", "bright"]
        self.n_renamed = self.n_requests = 0
        self.acknowledged: dict[int, str] = {}
        """By item, the label as it was sent with the class at that time."""
        self.names: dict[str, str] = {"dark": "dark", "bright": "bright"}
        """By every name that a class had, its name now."""

    def add(self, n_items: int) -> None:
        for _ in range(n_items):
            number = len(self.seeds)
            self.seeds[f"{number:05d}.png"] = number
            draw(self.photos / f"{number:05d}.png", number)

    def disturb(self, n_items: int) -> None:
        """Change some files, and remove some."""
        there = sorted(each.name for each in self.photos.iterdir())
        for name in self.rng.sample(there, n_items):
            self.seeds[name] += 1_000_000
            draw(self.photos / name, self.seeds[name])
        for name in self.rng.sample(there, n_items):
            (self.photos / name).unlink()

    def label(self, server: Server, who: str, n_labels: int) -> None:
        """Label what is asked for, until the server dies."""
        with Client(server) as client:
            for number in range(n_labels):
                status, found = client.ask("GET", "/api/next", annotator=who, count=1)
                if status != 200 or not found["items"]:
                    return
                row, name = found["items"][0]["row"], found["items"][0]["id"]
                label = self.classes[self.seeds[name] % 2]
                body = {"key": f"{who}-{len(self.seeds)}-{number}-{row}", "annotator": who, "row": row, "class": label}
                status, _ = client.ask("POST", "/api/labels", body)
                if status in (200, 201):
                    self.acknowledged[row] = label
                elif status == 0:
                    return

    def rename(self, server: Server) -> None:
        self.n_renamed += 1
        position = self.n_renamed % 2
        old, new = self.classes[position], f"class-{self.n_renamed}"
        body = {"key": new, "annotator": "ann", "kind": "rename", "class": old, "new_name": new}
        with Client(server) as client:
            status, found = client.ask("POST", "/api/classes/change", body)
        assert status == 201, found
        self.classes[position] = new
        self.names = {name: new if now == old else now for name, now in self.names.items()} | {new: new}

    def check(self, folder: str) -> None:
        """The state is what the events say, every answer that was confirmed is there, and so is every item."""
        state, project = read_state(folder), read_project(folder)
        with open_engine(folder, None, read_only=True).connect() as connection:
            events = read_events(connection)
        assert [event.number for event in events] == list(range(1, len(events) + 1))
        recounted: dict[int, str] = {}
        for event in events:
            if event.kind == "label" and event.label is not None:
                recounted[event.item] = event.label
            elif event.kind == "rename" and event.new_label is not None:
                recounted = {i: event.new_label if each == event.label else each for i, each in recounted.items()}
        assert state.label_table.labels == recounted
        assert {item: self.names[label] for item, label in self.acknowledged.items()}.items() <= recounted.items()
        assert set(project.classes) == set(self.classes)
        ids = list(state.contents.ids)
        assert len(set(ids)) == len(ids)
        there = {each.name for each in self.photos.iterdir()}
        assert {name for item, name in enumerate(ids) if item not in state.contents.gone} == there


def any_done(people: list["Future[None]"], updating: "subprocess.Popen[bytes]") -> bool:
    return updating.poll() is not None or any(each.done() for each in people)


def steps(n_first: int, n_last: int, n_steps: int) -> Iterator[int]:
    """The numbers of items to add."""
    sizes = np.linspace(n_first, n_last, n_steps + 1).astype(int)
    yield from np.diff(sizes).tolist()


@pytest.mark.slow
def test_a_project_that_grows_while_two_people_label_loses_nothing(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    n_first, n_last, n_steps, n_kills = 200, 800, 3, 3
    story = Story(tmp_path, n_last)
    story.add(n_first)
    folder = open_project(str(story.photos), classes=story.classes)[0].folder
    server = Server(story.photos)
    request.addfinalizer(lambda: server.process.poll() is None and server.kill())
    kills_left = n_kills
    for step, n_more in enumerate(steps(n_first, n_last, n_steps)):
        n_here = -(-kills_left // (n_steps - step))
        for is_killed in [False, *[True] * n_here]:
            with ThreadPoolExecutor(2) as pool:
                people = [pool.submit(story.label, server, who, 15) for who in ("ann", "bob")]
                if not is_killed:
                    story.rename(server)
                    story.disturb(3)
                    story.add(n_more)
                    assert main(["update", folder, "--quiet"]) == 0
                else:
                    updating = subprocess.Popen([sys.executable, "-m", "dubito", "update", folder, "--quiet"])
                    wait_until(partial(any_done, people, updating))
                    server.kill()
                    updating.kill()
                    updating.wait()
                for each in people:
                    each.result()
            if is_killed:
                kills_left -= 1
                server = Server(story.photos)
        with Client(server) as client:
            wait_until(lambda: client.ask("GET", "/api/project")[1]["items"] == len(list(story.photos.iterdir())))
        story.check(folder)
    assert server.stop().count("Traceback") == 0
    story.check(folder)
    assert kills_left == 0
    assert len(read_state(folder).contents) == n_last
