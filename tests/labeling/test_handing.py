"""A project's labels in other commands: every one of them is a class, whatever it is called."""

import json
from pathlib import Path

import pytest

from dubito.cli import main
from dubito.labeling.creation import open_project
from dubito.labeling.service import AnswerIn, LabelingService
from labeling.projects import write_rows


def test_classes_called_minus_one_and_na_are_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classes = ["-1", "NA", "other"]
    service = LabelingService(*open_project(str(write_rows(tmp_path)), classes=classes))
    service.answer([AnswerIn(f"key-{row}", "ann", row, classes[row % 2]) for row in range(24)]).result()
    service.close()
    project = str(tmp_path / "rows.dubito")
    assert main(["status", project, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["classes"] == {"-1": 12, "NA": 12}
    assert main(["select", project, "--budget", "2", "-o", str(tmp_path / "picks.csv")]) == 0
    simulated = ["simulate", project, "--seeds", "1", "--rounds", "1", "--budget", "2", "--strategy", "random"]
    assert main([*simulated, "-o", str(tmp_path / "run")]) == 0, capsys.readouterr().err
