"""``dubito label`` and ``dubito update``, and projects in the place of pools."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dubito.cli import main
from dubito.cli.commands.label import open_source
from dubito.errors import DubitoError
from dubito.labeling.contents import features_of
from dubito.labeling.creation import open_project
from dubito.labeling.export import FORMATS
from dubito.labeling.project import USER_PROBABILITIES, lost_labels, read_project
from dubito.labeling.service import AnswerIn, LabelingService
from labeling.projects import CLASSES, make_project, truth

TESTS = Path(__file__).parents[1]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with thirty labels."""
    service = LabelingService(*make_project(tmp_path))
    service.answer([AnswerIn(f"k{row}", "ann", row, truth(row)) for row in range(30)]).result()
    service.answer([AnswerIn("k30", "ann", 30, None)]).result()
    service.close()
    return Path(service.state.project.folder)


def test_select_picks_from_a_project_and_never_what_is_labeled(project: Path, tmp_path: Path) -> None:
    assert main(["select", str(project), "--budget", "5", "-o", str(tmp_path / "picks.csv"), "--quiet"]) == 0
    with (tmp_path / "picks.csv").open() as file:
        rows = [int(each["index"]) for each in csv.DictReader(file)]
    assert len(rows) == 5
    assert min(rows) >= 30


def test_status_tells_the_labels_of_a_project(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(project), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["labels"], found["classes"]) == (60, 30, {"left": 15, "right": 15})


@pytest.mark.usefixtures("blank_figures")
def test_simulate_replays_the_labels_of_a_project(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--seeds", "1", "--initial", "4", "--budget", "4", "--rounds", "1", "--test-share", "0.3"]
    chosen = ["-s", "margin", "-o", str(tmp_path / "run"), "--quiet", "--json"]
    assert main(["simulate", str(project), *options, *chosen]) == 0
    described = json.loads(capsys.readouterr().out)
    assert described["labels"] == [4, 8]
    assert described["about"]["facts"]["data"].count("30 rows of 4 features in 2 classes") == 1


@pytest.mark.parametrize("tool", FORMATS)
def test_export_writes_the_labels_of_a_project_and_import_reads_them_back(
    project: Path, tmp_path: Path, tool: str
) -> None:
    out = tmp_path / f"out.{'parquet' if tool == 'parquet' else 'csv' if tool == 'csv' else 'json'}"
    assert main(["export", str(project), "--to", tool, "-o", str(out), "--quiet"]) == 0
    source = {"json-min": "label-studio-min", "jsonl": ""}.get(tool, tool)
    if not source:
        return
    assert main(["import", str(out), "--from", source, "-o", str(tmp_path / "back.csv"), "--quiet"]) == 0
    with (tmp_path / "back.csv").open() as file:
        back = {each["id"]: each["label"] for each in csv.DictReader(file)}
    assert back == {f"row-{row}": truth(row) for row in range(30)}


def test_update_keeps_probabilities_by_id_and_none_forgets_them(project: Path, tmp_path: Path) -> None:
    rows = np.arange(60)[::-1]
    sure = np.where((rows % 2 == 0)[:, None], [[0.9, 0.1]], [[0.2, 0.8]])
    np.savez(tmp_path / "mine.npz", probabilities=sure, ids=[f"row-{row}" for row in rows], classes=CLASSES)
    assert main(["update", str(project), "--probabilities", str(tmp_path / "mine.npz"), "--quiet"]) == 0
    with np.load(project / USER_PROBABILITIES) as kept:
        assert kept["probabilities"][:2].tolist() == [[0.9, 0.1], [0.2, 0.8]]
    assert main(["update", str(project), "--none", "--quiet"]) == 0
    assert not (project / USER_PROBABILITIES).exists()


@pytest.mark.parametrize(
    ("arrays", "described"),
    [
        ({"probabilities": np.full((60, 2), 0.7)}, "adds up to 1.4"),
        ({"probabilities": np.full((59, 2), 0.5)}, "59 rows of probabilities for 60 items"),
        ({"probabilities": np.full((60, 3), 1 / 3)}, "3 columns, but 2 classes"),
        ({"probabilities": np.full((60, 2), 0.5), "classes": ["left", "up"]}, "'up' is not a class"),
    ],
)
def test_update_refuses_what_cannot_be_meant(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arrays: dict[str, object], described: str
) -> None:
    given: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items()}
    np.savez(tmp_path / "mine.npz", **given)
    assert main(["update", str(project), "--probabilities", str(tmp_path / "mine.npz")]) in (2, 3)
    assert described in capsys.readouterr().err


def test_a_project_keeps_the_classes_that_are_not_given_again_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("id,text\n1,a b c\n2,d e f\n")
    source, said = str(tmp_path / "texts.csv"), list[str]()
    open_project(source, classes=["r", "g", "b"])
    assert open_project(source, classes=["r"], report=said.append)[0].classes == ("r", "g", "b")
    assert said == [
        "the project keeps its classes g, b, which --classes does not name; dubito update renames or removes classes."
    ]


def test_a_project_without_classes_says_where_to_add_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "texts.csv").write_text("id,text\n1,a b c\n2,d e f\n")
    for classes, count in ((None, 1), ("cat,dog", 0)):
        open_source(str(tmp_path / "texts.csv"), False, classes, "auto", {}, None, {})
        assert capsys.readouterr().err.count("no classes yet: add them on the page, or pass --classes.") == count


@pytest.mark.parametrize(
    ("words", "described"),
    [
        ([], "SOURCE is missing"),
        (["nowhere"], "does not exist"),
        (["nowhere", "--host", "0.0.0.0"], "no token was chosen"),
        (["nowhere", "--host", "0.0.0.0", "--token", "short"], "too short"),
        (["nowhere", "--host", "0.0.0.0", "--token", "aaaaaaaaaaaaaaaa"], "fewer than 8 different letters"),
        (["nowhere", "--port", "99999"], "is not a port"),
        (["nowhere", "--audit", "lots"], "is not a share"),
        (["nowhere", "--batch", "0"], "--batch 0"),
        (["nowhere", "--store", "mysql://x/y"], "does not exist"),
    ],
)
def test_what_cannot_be_meant_is_one_line(words: list[str], described: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["label", *words]) == 2
    said = capsys.readouterr().err
    assert described in said
    assert said.count("\n") == 1


def test_without_the_extra_it_says_how_to_install_it(tmp_path: Path) -> None:
    code = "import sys; sys.modules['fastapi'] = None; from dubito.cli import main; sys.exit(main(['label', '--demo']))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.strip().endswith("install it with: pip install 'dubito[label]'")


def test_a_project_is_made_beside_its_source_and_opened_again(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("id,text,label\n1,a b c,x\n2,d e f,\n3,g h i,y\n4,j k l,\n")
    described: list[str] = []
    made, contents = open_project(str(tmp_path / "texts.csv"), report=described.append)
    assert made.folder == str(tmp_path / "texts.dubito")
    assert made.classes == ("x", "y")
    assert any("2 of 4 items have labels in the source" in line for line in described)
    service = LabelingService(*open_project(str(tmp_path / "texts.csv")))
    assert service.state.label_table.labels == {0: "x", 2: "y"}
    assert contents.columns == {}
    service.close()
    assert read_project(made.folder) == made


def test_a_project_of_class_folders_takes_the_classes_and_no_label_where_all_have_one(tmp_path: Path) -> None:
    from PIL import Image

    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in range(3):
            Image.new("L", (8, 8), 40 * number).save(tmp_path / "pets" / name / f"{number}.png")
    described: list[str] = []
    made, _ = open_project(str(tmp_path / "pets"), columns={"labels": "yes"}, report=described.append)
    assert made.classes == ("cat", "dog")
    assert any("its labels are not" in line for line in described)
    service = LabelingService(*open_project(str(tmp_path / "pets")))
    assert service.state.label_table.labels == {}
    service.answer([AnswerIn("k", "ann", 0, "cat"), AnswerIn("l", "ann", 3, "dog")]).result()
    service.close()
    assert main(["select", made.folder, "--budget", "2", "-o", str(tmp_path / "picks.csv"), "--quiet"]) == 0


def test_two_sources_do_not_share_a_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "texts.csv").write_text("id,text\n1,a b c\n2,d e f\n")
    (tmp_path / "texts.tsv").write_text("id\ttext\n1\ta b c\n2\td e f\n")
    open_project(str(tmp_path / "texts.csv"))
    assert main(["label", str(tmp_path / "texts.tsv")]) == 2
    assert "is the project of" in capsys.readouterr().err


def test_status_writes_nothing_into_a_project(project: Path) -> None:
    def written() -> dict[str, int]:
        """All but what SQLite itself puts beside a file that it reads."""
        return {each.name: each.stat().st_mtime_ns for each in project.iterdir() if "sqlite-" not in each.name}

    before = written()
    assert main(["status", str(project)]) == 0
    assert written() == before


def test_class_folders_of_a_project_without_labels_are_only_the_table(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("id,text\n1,a b c\n2,d e f\n")
    made, _ = open_project(str(tmp_path / "texts.csv"))
    out = tmp_path / "new"
    assert main(["export", made.folder, "--to", "folders", "-o", str(out)]) == 0
    assert [each.name for each in out.iterdir()] == ["labels.csv"]


def test_a_test_share_of_a_project_lies_between_0_and_1(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(project), "--to", "csv", "-o", "never.csv", "--test-share", "2"]) == 2
    assert "--test-share 2.0 must be between 0 and 1, such as 0.2." in capsys.readouterr().err


def test_class_folders_are_refused_for_rows_of_numbers_with_what_to_do(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(project), "--to", "folders", "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "is for texts and for pictures in files; export to csv or parquet" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("command", [["label"], ["status"], ["export", "--to", "csv", "-o", "never.csv"]])
def test_labels_of_junk_are_named_and_left_as_they_are(
    project: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    junk = b"not a database at all" * 100
    (project / "labels.sqlite").write_bytes(junk)
    assert main([command[0], str(project), *command[1:]]) == 3
    said = capsys.readouterr().err
    assert str(project / "labels.sqlite") in said
    assert "restore it from a copy" in said
    assert (project / "labels.sqlite").read_bytes() == junk


@pytest.mark.parametrize("left", ["labels-1.csv", "round-3.npz"])
def test_labels_that_are_gone_are_reported(project: Path, left: str) -> None:
    assert lost_labels(read_project(str(project))) is None
    (project / "labels.sqlite").unlink()
    for each in project.glob("round-*"):
        each.unlink()
    assert lost_labels(read_project(str(project))) is None
    (project / left).touch()
    described = lost_labels(read_project(str(project)))
    assert described is not None
    assert str(project / "labels.sqlite") in described
    assert left in described


def test_a_warning_of_lost_labels_is_printed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "labels.sqlite").unlink()
    (project / "labels-1.csv").touch()
    words = ["--host", "nonsense.invalid", "--token", "a-token-that-is-long", "--quiet"]
    assert main(["label", str(project), *words]) == 2
    warned, refused = capsys.readouterr().err.splitlines()
    assert "warning:" in warned
    assert str(project / "labels.sqlite") in warned
    assert "--host nonsense.invalid is not an address of this machine" in refused


def test_update_changes_classes_and_a_repeated_command_does_not_add_the_former_ones(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["update", str(project), "--rename", "left=port", "--merge", "right=port"]) == 0
    assert "the classes are now port (30 labels)." in capsys.readouterr().err
    assert main(["update", str(project), "--undo"]) == 0
    assert "port (15 labels), right (15 labels)" in capsys.readouterr().err
    reported: list[str] = []
    opened, _ = open_project(str(project), classes=["left", "right", "up"], report=reported.append)
    assert opened.classes == ("port", "right", "up")
    assert reported == ["the class 'left' is 'port' now", "added to the classes: up."]
    assert main(["update", str(project), "--remove", "up", "--none"]) == 2
    assert main(["update", str(project), "--rename", "left"]) == 2
    assert main(["update", str(project), "--rename", "left=up"]) == 2
    assert "it is called 'port' now" in capsys.readouterr().err


def test_classes_cannot_be_changed_by_update_while_a_server_has_the_project_open(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = LabelingService(*open_project(str(project)))
    assert main(["update", str(project), "--remove", "left"]) == 2
    assert "use its page" in capsys.readouterr().err
    service.close()


@pytest.fixture
def months(tmp_path: Path) -> Path:
    """Pictures in folders that are no classes."""
    from PIL import Image

    for number, name in enumerate(("2024-01", "2024-02")):
        (tmp_path / "trip" / name).mkdir(parents=True)
        Image.new("L", (8, 8), 40 * number).save(tmp_path / "trip" / name / "1.png")
    return tmp_path / "trip"


def test_folders_are_no_classes_unless_the_user_says_so(months: Path) -> None:
    reported: list[str] = []
    made, contents = open_project(str(months), classes=["china", "flower"], report=reported.append)
    assert (made.classes, set(contents.labels)) == (("china", "flower"), set())
    assert any("(2024-01, 2024-02) are not used as classes; pass --labels" in line for line in reported)
    assert any("embedded by their pixels" in line for line in reported)


@pytest.mark.parametrize(("says", "classes"), [(True, ("2024-01", "2024-02")), (False, ())])
def test_folders_are_classes_if_the_user_confirms_it(months: Path, says: bool, classes: tuple[str, ...]) -> None:
    made, _ = open_project(str(months), confirm=lambda source, names: says and names == ["2024-01", "2024-02"])
    assert made.classes == classes


def test_folders_that_classes_name_are_their_labels(months: Path) -> None:
    reported: list[str] = []
    open_project(str(months), classes=["2024-01", "other"], report=reported.append)
    service = LabelingService(*open_project(str(months)))
    assert service.state.project.classes == ("2024-01", "other")
    assert list(service.state.label_table.labels.values()) == ["2024-01"]
    service.close()
    assert "labels of the source that are not in --classes are left out: 2024-02 (1)." in reported


def test_the_columns_of_a_table_are_chosen_as_for_embed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "letters.csv"
    table.write_text("nr,subject,body,kind\n7,a b,c d e,x\n8,f g,h i j,\n9,k l,m n o,y\n")
    columns = {"text": "body", "id_column": "nr", "label_column": "kind", "labels": "yes"}
    made, contents = open_project(str(table), columns=columns)
    assert (made.classes, list(contents.ids), contents.text(0)) == (("x", "y"), ["7", "8", "9"], "c d e")
    assert contents.cells(0) == {"subject": "a b"}
    assert read_project(made.folder).columns == columns
    assert open_project(str(table), columns=columns)[0] == made
    assert main(["status", made.folder]) == 0
    capsys.readouterr()
    assert main(["label", str(table), "--text", "subject"]) == 2
    assert "--text subject differs from that of" in capsys.readouterr().err
    assert main(["label", str(table), "--no-labels", "--label-column", "kind"]) == 2
    assert "are both given" in capsys.readouterr().err


def test_labels_of_the_source_are_left_out_on_demand(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("id,text,label\n1,a b c,x\n2,d e f,\n3,g h i,y\n")
    made, contents = open_project(str(tmp_path / "texts.csv"), columns={"labels": "no"})
    assert (made.classes, contents.labels, contents.columns) == ((), (), {})


def test_a_label_column_of_numbers_is_no_feature_of_a_pool(tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text("id,x,y,kind\na,0,1,3\nb,2,3,4\nc,5,6,3\n")
    made, _ = open_project(str(tmp_path / "pool.csv"), columns={"label_column": "kind"})
    assert features_of(made, None)[0].shape == (3, 2)
    assert made.classes == ("3", "4")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [("text", "x", "is for sources that are embedded"), ("label_column", "none", "has no column 'none'")],
)
def test_columns_that_a_pool_cannot_have_are_refused(tmp_path: Path, name: str, value: str, problem: str) -> None:
    np.savez(tmp_path / "pool.npz", features=np.zeros((4, 2)), ids=list("abcd"))
    with pytest.raises(DubitoError, match=problem):
        open_project(str(tmp_path / "pool.npz"), columns={name: value})
