"""Picks to labeling tools and labels back: through the program, in the forms that the tools write."""

import csv
import io
import json
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from dubito.cli import main

IDS = ["a/1.png", "=b", "c c", "ü", "e"]
TEXTS = ["first", "=HYPERLINK(1)", "third\nline", "vierter", "last"]


@pytest.fixture(autouse=True)
def picks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open("batch.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["rank", "index", "id", "priority", "text"])
        for rank, (name, text) in enumerate(zip(IDS, TEXTS, strict=True), start=1):
            writer.writerow([rank, 10 * rank, name, 0.5, text])


def ok(*arguments: str) -> None:
    assert main([*arguments, "-q"]) == 0


def labels_in(path: str = "labels.csv") -> dict[str, tuple[str, str, str]]:
    rows = csv.DictReader(io.StringIO(Path(path).read_text()))
    return {row["id"].removeprefix("'"): (row["label"], row["annotators"], row["agreement"]) for row in rows}


def annotated(task: dict[str, Any], *said: tuple[int, str | None]) -> dict[str, Any]:
    """A task as Label Studio exports it."""
    annotations = [
        {
            "id": number,
            "completed_by": who,
            "was_cancelled": label is None,
            "ground_truth": False,
            "lead_time": 4.2,
            "result": []
            if label is None
            else [
                {
                    "id": "x1",
                    "from_name": "label",
                    "to_name": "item",
                    "type": "choices",
                    "origin": "manual",
                    "value": {"choices": [label]},
                }
            ],
        }
        for number, (who, label) in enumerate(said)
    ]
    return {"id": 7, "annotations": annotations, "predictions": [], "meta": {}, **task}


def test_label_studio_takes_tasks_and_gives_annotations_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "batch.csv", "--to", "label-studio", "--classes", "cat,dog", "-o", "tasks.json"]) == 0
    assert '<Choice value="dog"/>' in capsys.readouterr().err
    tasks = json.loads(Path("tasks.json").read_text())
    assert [task["data"]["dubito_id"] for task in tasks] == IDS
    assert [task["data"]["text"] for task in tasks] == TEXTS
    back = [
        annotated(tasks[4], (1, "cat"), (2, "cat"), (3, "dog")),
        annotated(tasks[1], (1, None)),
        annotated(tasks[2], (1, "dog"), (2, "cat")),
        annotated(tasks[0], (1, "dog"), (2, None)),
        annotated(tasks[3]),
    ]
    Path("export.json").write_text(json.dumps(back))
    assert main(["import", "export.json", "--from", "label-studio", "-o", "labels.csv"]) == 0
    assert labels_in() == {"e": ("cat", "3", "0.6667"), "a/1.png": ("dog", "1", "1.0")}
    assert "2 labels of 2 classes" in (said := capsys.readouterr().err)
    assert "1 skipped, 1 tied, 1 by a majority" in said


def test_label_studio_min_and_csv() -> None:
    ok("export", "batch.csv", "--to", "label-studio", "-o", "tasks.json")
    tasks = json.loads(Path("tasks.json").read_text())
    beside = {"annotator": 1, "annotation_id": 4, "created_at": "2026", "updated_at": "2026", "lead_time": 1.5}
    small = [{**task["data"], "id": 3, "label": label, **beside} for task, label in zip(tasks, "xyxyx", strict=True)]
    del small[2]["label"]
    Path("min.json").write_text(json.dumps(small))
    ok("import", "min.json", "--from", "label-studio-min", "-o", "labels.csv")
    assert {name: said[0] for name, said in labels_in().items()} == {"a/1.png": "x", "=b": "y", "ü": "y", "e": "x"}
    with open("ls.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, [*small[0]])
        writer.writeheader()
        writer.writerows(small)
    ok("import", "ls.csv", "--from", "label-studio-csv", "-o", "labels.csv", "--force")
    assert {name: said[0] for name, said in labels_in().items()} == {"a/1.png": "x", "=b": "y", "ü": "y", "e": "x"}


@pytest.mark.parametrize(
    ("cell", "label"), [("cat", "cat"), ('{"choices": ["cat"]}', "cat"), ('["cat"]', "cat"), ("{cat", "{cat")]
)
def test_label_studio_csv_has_a_control_of_any_name_and_choices_as_json(cell: str, label: str) -> None:
    with open("ls.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "dubito_id", "id", "mood", "annotator", "annotation_id", "lead_time"])
        writer.writerow(["first", "e", 3, cell, 1, 4, 1.5])
    ok("import", "ls.csv", "--from", "label-studio-csv", "-o", "labels.csv")
    assert labels_in() == {"e": (label, "1", "1.0")}


def test_prodigy_takes_options_and_gives_answers_back() -> None:
    ok("export", "batch.csv", "--to", "prodigy", "--classes", "cat,dog", "-o", "tasks.jsonl")
    tasks = [json.loads(line) for line in Path("tasks.jsonl").read_text().splitlines()]
    assert tasks[0]["options"] == [{"id": "cat", "text": "cat"}, {"id": "dog", "text": "dog"}]
    assert tasks[2]["meta"]["dubito_id"] == "c c"
    said = [
        {**tasks[0], "accept": ["dog"], "answer": "accept", "_session_id": "d-amy", "_input_hash": 1},
        {**tasks[1], "accept": [], "answer": "ignore"},
        {**tasks[2], "label": "cat", "answer": "accept"},
        {**tasks[3], "label": "cat", "answer": "reject"},
    ]
    Path("out.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said))
    ok("import", "out.jsonl", "--from", "prodigy", "-o", "labels.csv")
    assert {name: each[0] for name, each in labels_in().items()} == {"a/1.png": "dog", "c c": "cat"}


@pytest.mark.parametrize("older", [False, True])
def test_doccano_keeps_ids_as_metadata(older: bool) -> None:
    ok("export", "batch.csv", "--to", "doccano", "-o", "tasks.jsonl")
    lines = []
    for number, line in enumerate(Path("tasks.jsonl").read_text().splitlines()):
        task = json.loads(line)
        labels = ["pos"] if number % 2 else []
        meta = {"dubito_id": task["dubito_id"]}
        new = {"id": number, "text": task["text"], "label": labels, "Comments": [], **meta}
        old = {"id": number, "text": task["text"], "labels": labels, "meta": meta}
        lines.append(json.dumps(old if older else new))
    Path("all.jsonl").write_text("\n".join(lines) + "\n")
    ok("import", "all.jsonl", "--from", "doccano", "-o", "labels.csv")
    assert {name: each[0] for name, each in labels_in().items()} == {"=b": "pos", "ü": "pos"}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_plain_table_is_filled_in_and_read_back(suffix: str) -> None:
    ok("export", "batch.csv", "--to", suffix, "-o", f"table.{suffix}")
    if suffix == "parquet":
        table = pq.read_table("table.parquet")
        assert table.column("id").to_pylist() == IDS
        filled = table.set_column(table.schema.get_field_index("label"), "label", [["u", "", "v", "", "u"]])
        pq.write_table(filled, "table.parquet")
    else:
        text = Path("table.csv").read_text()
        assert "'=HYPERLINK(1)" in text
        rows = list(csv.DictReader(io.StringIO(text)))
        with open("table.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, [*rows[0]])
            writer.writeheader()
            writer.writerows({**row, "label": label} for row, label in zip(rows, ["u", "", "v", "", "u"], strict=True))
    ok("import", f"table.{suffix}", "--from", suffix, "-o", "labels.csv")
    assert {name: each[0] for name, each in labels_in().items()} == {"a/1.png": "u", "c c": "v", "e": "u"}


def test_pictures_are_sorted_into_class_folders() -> None:
    Path("photos/deep").mkdir(parents=True)
    names = ["one.png", "deep/two.png", "deep/one.png"]
    for name in names:
        Image.new("L", (4, 4)).save(f"photos/{name}")
    Path("pictures.csv").write_text(
        "rank,index,id,priority\n" + "".join(f"1,{n},{name},1\n" for n, name in enumerate(names))
    )
    ok("export", "pictures.csv", "--to", "folders", "--classes", "cat,dog", "--pictures", "photos", "-o", "sort")
    unsorted = sorted(path.name for path in Path("sort/_unsorted").iterdir())
    assert len(unsorted) == 3
    (Path("sort/_unsorted") / unsorted[1]).rename(Path("sort/dog") / unsorted[1])
    (Path("sort/_unsorted") / unsorted[2]).rename(Path("sort/cat") / unsorted[2])
    ok("import", "sort", "--from", "folders", "-o", "labels.csv")
    assert {name: each[0] for name, each in labels_in().items()} == {"deep/two.png": "dog", "deep/one.png": "cat"}
    assert main(["export", "pictures.csv", "--to", "folders", "--pictures", "photos", "-o", "sort", "-q"]) == 2


def test_class_folders_that_cannot_be_made_or_read_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("photos").mkdir()
    Image.new("L", (4, 4)).save("photos/one.png")
    Path("pictures.csv").write_text("rank,index,id,priority\n1,0,one.png,1\n")
    command = ["export", "pictures.csv", "--to", "folders", "-o", "sort", "--classes"]
    for more, words in [
        (["cat,a/b", "--pictures", "photos"], "the class 'a/b' cannot be the name of a folder"),
        (["cat,_x", "--pictures", "photos"], "the class '_x' cannot be the name of a folder"),
        (["cat"], "one.png is not there; pass the folder of the pictures with --pictures FOLDER."),
    ]:
        assert main([*command, *more]) != 0
        assert words in capsys.readouterr().err
        assert not Path("sort").exists()
    ok(*command, "cat", "--pictures", "photos")
    Path("sort/cat/.DS_Store").write_bytes(b"x")
    Path("sort/cat/inner").mkdir()
    (Path("sort/_unsorted") / "00001-one.png").rename("sort/cat/00001-one.png")
    ok("import", "sort", "--from", "folders", "-o", "labels.csv")
    assert labels_in() == {"one.png": ("cat", "1", "1.0")}
    Path("sort/cat/00001-one.png").rename("sort/cat/renamed.png")
    assert main(["import", "sort", "--from", "folders", "-o", "again.csv"]) == 3
    assert "cat/renamed.png is not a file that was exported; do not rename files" in capsys.readouterr().err


def test_what_comes_back_is_what_select_takes_as_labeled(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    np.savez("pool.npz", features=rng.normal(size=(40, 4)))
    assert main(["select", "pool.npz", "-b", "12", "-s", "coverage", "-o", "first.csv", "-q"]) == 0
    ok("export", "first.csv", "--to", "prodigy", "--classes", "0,1", "-o", "tasks.jsonl", "--show", "index")
    lines = [json.loads(line) for line in Path("tasks.jsonl").read_text().splitlines()]
    assert all("dubito_index" in line["meta"] for line in lines)
    done = [{**line, "accept": [str(place % 2)], "answer": "accept"} for place, line in enumerate(lines)]
    Path("out.jsonl").write_text("".join(json.dumps(line) + "\n" for line in done))
    ok("import", "out.jsonl", "--from", "prodigy", "-o", "labels.csv")
    capsys.readouterr()
    assert main(["select", "pool.npz", "-b", "3", "--labeled", "labels.csv"]) == 0
    assert "fitted: linear model, 12 labels of 2 classes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "tool", "words"),
    [
        ('{"meta": {"dubito_id": "e"}, "accept": ["cta"], "answer": "accept"}', "prodigy", "has the class 'cta'"),
        ('{"meta": {}, "accept": ["cat"], "answer": "accept"}', "prodigy", "an item without dubito_id"),
        ('{"meta": {"dubito_id": "e"}, "accept": ["cat", "dog"], "answer": "accept"}', "prodigy", "has 2 labels for"),
        ('{"dubito_id": "e", "label": [[0, 5, "PER"]]}', "doccano", "which is not a class"),
        ('{"dubito_id": "e", "label": ', "doccano", "line 1, is not valid JSON"),
        ("[1, 2]", "doccano", "line 1, is not an object"),
        ('{"data": {}}', "label-studio", "is not a list of Label Studio's tasks"),
        ("[" * 100_000, "label-studio", "is not valid JSON"),
        ('[{"dubito_id": "e", "text": "x"}]', "label-studio-min", "no labels under a known name"),
        ("{}", "label-studio-min", "is not a list of objects; export as JSON-MIN."),
        ('[{"dubito_id": "e", "label": {"choices": ["cat", "dog"]}}]', "label-studio-min", "has 2 labels for"),
        ('[{"dubito_id": "e", "label": [{"start": 1}]}]', "label-studio-min", "which is not a class"),
        ("{}", "folders", "back.json is not a folder; pass the folder of class folders."),
    ],
)
def test_what_cannot_be_read_is_reported_in_one_line(
    text: str, tool: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("back.json").write_text(text)
    code = main(["import", "back.json", "--from", tool, "--classes", "cat,dog", "-o", "labels.csv"])
    said = capsys.readouterr().err
    assert code in (2, 3)
    assert len(said.splitlines()) == 1
    assert words in said
    assert not Path("labels.csv").exists()


def test_picks_that_cannot_be_exported_are_reported_with_the_hint(capsys: pytest.CaptureFixture[str]) -> None:
    Path("nameless.csv").write_text("text,priority\nfirst,1\n")
    for table, more, words in [
        ("nameless.csv", [], "nameless.csv has neither an id nor an index; pass a table that dubito select wrote"),
        ("batch.csv", ["--show", "txt"], "batch.csv has no column 'txt'; did you mean 'text'?"),
    ]:
        assert main(["export", table, "--to", "doccano", "-o", "x.jsonl", *more]) == 2
        assert words in capsys.readouterr().err
        assert not Path("x.jsonl").exists()


def test_nothing_is_overwritten_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    ok("export", "batch.csv", "--to", "doccano", "-o", "tasks.jsonl")
    assert main(["export", "batch.csv", "--to", "doccano", "-o", "tasks.jsonl"]) != 0
    assert "tasks.jsonl exists" in capsys.readouterr().err
    ok("export", "batch.csv", "--to", "doccano", "-o", "tasks.jsonl", "--force")
    assert main(["export", "batch.csv", "--to", "label-studio-min", "-o", "x.json"]) == 2


def test_a_path_is_written_as_the_picks_have_it() -> None:
    name = unicodedata.normalize("NFD", "für/ü 1#.png")
    Path(name).parent.mkdir()
    Image.new("L", (4, 4)).save(name)
    Path("pictures.csv").write_text(f"rank,index,id,priority,path\n1,4,{name},1,{name}\n", encoding="utf-8")
    ok("export", "pictures.csv", "--to", "folders", "--pictures", ".", "-o", "sort")
    assert [path.name for path in Path("sort/_unsorted").iterdir()] == [f"00001-{Path(name).name}"]
    ok("export", "pictures.csv", "--to", "label-studio", "-o", "tasks.json")
    assert json.loads(Path("tasks.json").read_text())[0]["data"]["image"] == name
    web = ("--prefix", "https://example.org/p/", "-o", "web.json")
    ok("export", "pictures.csv", "--to", "label-studio", *web)
    shown = json.loads(Path("web.json").read_text())[0]["data"]["image"]
    assert shown == "https://example.org/p/fu%CC%88r/u%CC%88%201%23.png"


@pytest.mark.parametrize("tool", ["label-studio", "prodigy", "doccano"])
@pytest.mark.parametrize(
    ("more", "hint"), [("", "keep one with dubito select --keep COLUMN."), (",note", "with --show COLUMN (note).")]
)
def test_picks_with_nothing_to_look_at_are_refused(
    tool: str, more: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for named in ("index,id", "index"):
        cells = {"index,id": "4,n4", "index": "4"}[named]
        Path("bare.csv").write_text(f"rank,{named},priority{more}\n1,{cells},1{more.replace('note', 'x')}\n")
        assert main(["export", "bare.csv", "--to", tool, "-o", "tasks.json"]) != 0
        error = capsys.readouterr().err
        assert "bare.csv has neither a text nor a path to show" in error
        assert hint in error
    assert not Path("tasks.json").exists()
