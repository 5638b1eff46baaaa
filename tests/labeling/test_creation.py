"""From a source to a project and back to it: what is refused leaves nothing behind, what has changed is reported."""

import os
import sqlite3
import stat
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dubito.cli import main
from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.labeling.creation import demo_source, is_pool, open_project, write_digits
from dubito.labeling.project import read_project
from dubito.labeling.service import AnswerIn, LabelingService
from dubito.matrix import AnyArray
from labeling.projects import make_project, write_rows

NOBODY = "postgresql+psycopg://ann:secret@127.0.0.1:1/photos"


def write_texts(folder: Path) -> Path:
    path = folder / "texts.csv"
    path.write_text("id,text\n1,a b c\n2,d e f\n3,g h i\n")
    return path


def write_pictures(folder: Path, *names: str) -> Path:
    from PIL import Image

    folder.mkdir(exist_ok=True)
    for number, name in enumerate(names):
        Image.new("L", (8, 8), 30 * number).save(folder / name)
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["--store", "nonsense"],
        ["--store", "postgresql://ann@host:port/photos"],
        ["--store", NOBODY],
        ["--embedder", "nonsense"],
        ["--batch", "99999"],
        ["--classes", "a\tb"],
        ["--classes", "spam"],
        ["--classes", "spam,spam"],
    ],
)
def test_a_refused_start_leaves_no_project_behind(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("psycopg")
    source = write_texts(tmp_path)
    assert main(["label", str(source), *words, "--no-browser"]) in (1, 2)
    said = capsys.readouterr().err
    first, *errors = said.splitlines()
    assert (first.startswith("dubito: opening "), len(errors)) in ((True, 1), (False, 0))
    assert "secret" not in said
    assert sorted(each.name for each in tmp_path.iterdir()) == ["texts.csv"]


def test_an_empty_source_leaves_no_project_behind(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "texts.csv").touch()
    for name in ("photos", "texts.csv"):
        assert main(["label", str(tmp_path / name), "--no-browser"]) in (2, 3)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["photos", "texts.csv"]


def test_a_folder_that_was_there_before_is_left_as_it_was(tmp_path: Path) -> None:
    source, kept = write_texts(tmp_path), tmp_path / "texts.dubito" / "mine.txt"
    kept.parent.mkdir()
    kept.write_text("mine")
    assert main(["label", str(source), "--embedder", "nonsense"]) == 2
    assert kept.read_text() == "mine"


def test_a_project_with_the_address_of_a_store_is_its_owners_alone(tmp_path: Path) -> None:
    from dataclasses import replace

    project, _ = make_project(tmp_path)
    path = Path(project.folder) / "project.toml"
    path.chmod(0o644)
    project.save()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    replace(project, store=NOBODY).save()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("old", "new", "described"),
    [
        ("batch = 10", 'batch = "x"', "batch = 'x'"),
        ("batch = 10", "batch = 0", "batch=0"),
        ("batch = 10", "bunch = 10", "'bunch'"),
        ('classes = ["left", "right"]', "classes = 7", "classes = 7"),
        ('classes = ["left", "right"]', "classes = [7]", "classes = [7]"),
        ('pool = "../rows.npz"', "", "has no pool"),
        ("schema = 1", "schema = 9", "schema 9"),
        (None, "", "has no schema"),
    ],
)
def test_what_a_project_says_wrongly_is_named(tmp_path: Path, old: str | None, new: str, described: str) -> None:
    project, _ = make_project(tmp_path)
    path = Path(project.folder) / "project.toml"
    text = path.read_text()
    assert old is None or old in text
    path.write_text(new if old is None else text.replace(old, new))
    with pytest.raises(InvalidData) as caught:
        read_project(project.folder)
    assert str(path) in str(caught.value)
    assert described in str(caught.value)


def test_pictures_that_came_or_went_are_reported(tmp_path: Path) -> None:
    source = write_pictures(tmp_path / "photos", "a.png", "b.png", "c.png")
    (source / "broken.png").write_bytes(b"no picture")
    described: list[str] = []
    open_project(str(source))
    open_project(str(source), report=described.append)
    assert described == []
    for number, name in enumerate(("d.png", "e.png")):
        Image.new("L", (8, 8), 200 + number).save(source / name)
    (source / "a.png").unlink()
    open_project(str(source), report=described.append)
    assert described[0] == "left out: broken.png is not a picture of a known format"
    assert described[1].startswith("since the project was last updated: 2 new (d.png, e.png), 1 removed (a.png).")


def test_a_pipe_among_the_pictures_is_left_out_and_reported(tmp_path: Path) -> None:
    source = write_pictures(tmp_path / "photos", "a.png", "b.png", "c.png")
    os.mkfifo(source / "pipe.png")
    described: list[str] = []
    assert list(open_project(str(source), report=described.append)[1].ids) == ["a.png", "b.png", "c.png"]
    assert described[1:] == ["left out: pipe.png is a named pipe, not a regular file"]


def test_a_source_that_was_moved_away_is_reported(tmp_path: Path) -> None:
    source = write_texts(tmp_path)
    made, _ = open_project(str(source))
    source.rename(tmp_path / "elsewhere.csv")
    described: list[str] = []
    open_project(made.folder, report=described.append)
    assert len(described) == 1
    assert f"{source} does not exist any more" in described[0]


def test_another_embedder_is_refused_and_the_same_is_not(tmp_path: Path) -> None:
    source = write_texts(tmp_path)
    made, _ = open_project(str(source))
    open_project(str(source), embedder="words")
    with pytest.raises(InvalidArgument, match=r"sentence:small.*differs from that of .* \(words\)"):
        open_project(made.folder, embedder="sentence:small")
    rows, _ = open_project(str(write_rows(tmp_path)))
    with pytest.raises(InvalidArgument, match="features of your own"):
        open_project(rows.folder, embedder="words")


def test_a_misspelt_column_of_a_project_is_named_with_the_right_one(tmp_path: Path) -> None:
    source = str(write_texts(tmp_path))
    open_project(source, classes=["a", "b"])
    with pytest.raises(MissingFile, match=r"texts.csv has no column 'txt'; did you mean 'text'\?"):
        open_project(source, columns={"text": "txt"})


def test_settings_and_classes_that_change_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project, _ = make_project(tmp_path)
    # An address that is no address of this machine: everything but listening is done.
    where = ["--host", "192.0.2.1", "--token", "a-token-that-is-long", "--no-browser"]
    words = ["--batch", "30", "--overlap", "1", "--classes", "left,right,up"]
    assert main(["label", project.folder, *words, *where]) == 2
    said = capsys.readouterr().err
    assert "added to the classes: up." in said
    assert "changed in the project: batch 10 to 30." in said
    assert "--host 192.0.2.1" in said
    assert read_project(project.folder).settings.batch == 30
    assert main(["label", project.folder, *words, *where]) == 2
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == ["opening", "error:"]


def test_ids_that_repeat_are_named_and_texts_are_not_called_wrong_numbers(tmp_path: Path) -> None:
    path = tmp_path / "texts.csv"
    path.write_text("id,text\na,good day\nb,good night\na,good bye\n")
    with pytest.raises(InvalidData, match="repeats the id 'a'"):
        open_project(str(path))


def test_a_table_of_texts_is_embedded_and_a_table_of_numbers_is_a_pool(tmp_path: Path) -> None:
    assert not is_pool(str(write_texts(tmp_path)))
    assert is_pool(str(write_rows(tmp_path)))
    (tmp_path / "numbers.csv").write_text("a,b\n1,2\n3,4\n")
    assert is_pool(str(tmp_path / "numbers.csv"))


@pytest.mark.parametrize("address", ["mysql://somewhere/labels", "sqlite:///labels.db", "nonsense"])
def test_a_store_that_is_no_postgresql_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(InvalidArgument, match=r"write postgresql\+psycopg://"):
        open_project(str(write_rows(tmp_path)), store=address)
    assert not (tmp_path / "rows.dubito").exists()


def test_the_digits_of_the_demo_are_dark_on_white_in_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = write_digits(tmp_path, 3)
    assert list(answers.values()) == ["0", "1", "2"]
    with Image.open(tmp_path / "digit-0000.png") as picture:
        pixels = np.asarray(picture)
    assert pixels.shape == (64, 64)
    assert pixels[0, 0] == 255
    assert pixels.min() < 20
    monkeypatch.setattr("dubito.labeling.creation.write_digits", lambda folder: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert demo_source() == str(tmp_path / "dubito" / "label-demo" / "digits")
    assert demo_source(str(tmp_path / "mine")) == str(tmp_path / "mine" / "digits")


def modes_in(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_a_project_is_its_owners_alone(tmp_path: Path) -> None:
    source = tmp_path / "texts.csv"
    source.write_text("text\n" + "".join(f"text number {number}\n" for number in range(12)))
    before = os.umask(0o022)
    try:
        service = LabelingService(*open_project(str(source), classes=["a", "b"]))
        service.answer([AnswerIn(f"k{row}", "ann", row, "ab"[row % 2]) for row in range(6)]).result()
        folder = Path(service.state.project.folder)
        assert main(["select", str(folder), "--budget", "1", "-o", str(tmp_path / "picks.csv")]) == 0
        found = modes_in(folder)
        service.close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {"labels.sqlite", "labels.sqlite-wal", "labels.sqlite-shm", "pool.parquet", "labels-1.csv"} <= set(found)
    assert {name for name, mode in found.items() if mode != 0o600} == set()


def test_labels_that_others_could_read_become_their_owners_alone_and_the_folder_stays(tmp_path: Path) -> None:
    folder = tmp_path / "rows.dubito"
    folder.mkdir()
    folder.chmod(0o755)
    project, contents = make_project(tmp_path)
    (folder / "labels.sqlite").touch()
    (folder / "labels.sqlite").chmod(0o644)
    service = LabelingService(project, contents)
    found = modes_in(folder)
    service.close()
    assert {found[name] for name in found if name.startswith("labels.sqlite")} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_labels_stay_with_their_items_if_project_toml_is_gone_and_the_pool_was_reordered(tmp_path: Path) -> None:
    path, rows = tmp_path / "rows.npz", np.arange(10)

    def write(order: AnyArray) -> None:
        labels = np.where(order < 4, "low", "")
        np.savez(path, features=order[:, None] / 2, ids=np.char.add("id-", order.astype(str)), labels=labels)

    write(rows)
    made, _ = open_project(str(path))
    (Path(made.folder) / "project.toml").unlink()  # As a kill just before the end leaves it.
    write(rows[::-1])
    service = LabelingService(*open_project(str(path)))
    found = {service.state.contents.ids[item]: label for item, label in service.state.label_table.labels.items()}
    service.close()
    assert found == dict.fromkeys(["id-0", "id-1", "id-2", "id-3"], "low")


def test_labels_are_kept_if_project_toml_is_gone_and_a_transaction_has_to_be_rolled_back(tmp_path: Path) -> None:
    project, contents = make_project(tmp_path)
    service = LabelingService(project, contents)
    service.answer([AnswerIn("k", "ann", 3, "right")]).result()
    service.close()
    store = Path(project.path("labels.sqlite"))
    # What a power cut leaves of a transaction: a changed database, and a journal with the pages as they were.
    connection = sqlite3.connect(store, isolation_level=None)
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("PRAGMA cache_spill=1")
    connection.execute("PRAGMA cache_size=1")
    connection.execute("BEGIN")
    connection.execute("CREATE TABLE filler AS SELECT randomblob(100000) AS bytes")
    connection.execute("DELETE FROM dubito_events")
    left = {path: path.read_bytes() for path in (store, Path(f"{store}-journal"))}
    connection.close()
    for path, content in left.items():
        path.write_bytes(content)
    Path(project.path("project.toml")).unlink()

    reopened = LabelingService(*open_project(str(tmp_path / "rows.npz"), classes=["left", "right"]))
    assert reopened.state.label_table.labels == {3: "right"}
    reopened.close()


def test_classes_are_not_said_to_be_added_while_a_server_has_the_project_open(tmp_path: Path) -> None:
    service, said = LabelingService(*make_project(tmp_path)), list[str]()
    with pytest.raises(InvalidArgument, match="another labeling server has"):
        open_project(service.state.project.folder, classes=["up"], report=said.append)
    service.close()
    assert said == []


@pytest.mark.parametrize("option", ["text", "id_column"])
def test_a_column_that_a_table_does_not_have_is_named(tmp_path: Path, option: str) -> None:
    source = write_texts(tmp_path)
    with pytest.raises(MissingFile, match="has no column 'foo'"):
        open_project(str(source), classes=("a", "b"), columns={option: "foo"})
    assert os.listdir(tmp_path) == ["texts.csv"]
