"""The bridge to Label Studio, against answers that a real server gave: `record` wrote them down."""

import re
from pathlib import Path

import pytest

from dubito.cli.commands import label_studio as job
from dubito.integrations.label_studio import AccessToken, LabelStudioProject, PoolPicker, Server
from dubito.integrations.label_studio.projects import Control
from dubito.integrations.label_studio.watching import WatchPlan
from label_studio.exchanges import ANSWERS, OWNER, SECOND, replaying
from label_studio.scenarios import SCENARIOS, Facts, items, points, truth

IN_ORDER = ["i05", "i30", "i21", "i11", "i20", "i32", "i36", "i19", "i24", "i08", "i29", "i00"]


def play(name: str, folder: Path) -> Facts:
    """Nothing but the requests that were recorded may be made, in their order."""
    with replaying(name) as url:
        return SCENARIOS[name][0](url, folder)


def test_picks_go_out_once_and_labels_come_back_with_agreement_and_skips_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = play("commands", tmp_path)
    assert found["codes"] == [0, 0, 0, 0]
    assert found["names"] == [f"i{row:02d}" for row in range(8)]
    assert found["labels"] == "id,label,annotators,agreement\ni00,cat,2,1.0\ni01,dog,1,1.0\ni04,cat,1,1.0\n"
    assert found["apart"] == "id,why\ni02,skipped\ni03,tied\n"
    assert found["next"] == {"dubito_id": "i05", "text": "item 5"}
    said = capsys.readouterr().err
    assert "8 items sent to 'commands'" in said
    assert "0 items sent to 'commands'" in said
    assert "8 already there." in said
    assert "1 skipped, 1 tied" in said


def test_a_personal_token_is_traded_for_access_and_traded_again_when_access_is_refused(tmp_path: Path) -> None:
    assert play("personal", tmp_path) == {"added": 3, "again": 0, "names": ["i00", "i01", "i02"]}
    recorded = (ANSWERS / "personal.json").read_text()
    assert recorded.count("/api/token/refresh/") == 2
    assert recorded.count('"status": 401') == 1


def test_watching_goes_round_and_the_server_hands_items_out_as_they_were_picked(tmp_path: Path) -> None:
    found = play("rounds", tmp_path)
    assert found["handed"] == found["sent"] == IN_ORDER
    assert found["rounds"] == [1] * 6 + [2] * 6
    assert found["labels"] == {name: truth(name) for name in IN_ORDER}
    assert found["versions"] == ["dubito"]
    assert found["guesses"][:6] == [[]] * 6  # A cold start has no model.
    guessed = [result[0][0]["value"]["choices"][0] for result in found["guesses"][6:]]
    assert guessed == [truth(name) for name in IN_ORDER[6:]]


def test_with_jump_ahead_every_round_is_a_version_of_the_model_and_comes_in_the_same_order(tmp_path: Path) -> None:
    found = play("jumping", tmp_path)
    assert found["handed"] == IN_ORDER
    assert found["versions"] == ["dubito round 1", "dubito round 2"]


def test_later_picks_jump_ahead_of_what_is_left(tmp_path: Path) -> None:
    assert play("ahead", tmp_path) == {"first": "i04", "names": [f"i{row:02d}" for row in range(7)]}


def test_a_lost_answer_is_looked_up_before_anything_is_sent_again(tmp_path: Path) -> None:
    found = play("lost", tmp_path)
    assert found["names"] == [f"i{row:02d}" for row in range(5)]
    assert found["pushed"].added == 5
    recorded = (ANSWERS / "lost.json").read_text()
    assert recorded.count('"status": 0') == 4


def test_copies_that_nobody_has_answered_are_taken_away(tmp_path: Path) -> None:
    found = play("doubled", tmp_path)
    assert found["names"] == ["i00", "i01", "i02"]
    assert found["pushed"].removed == 3


def test_a_round_that_was_sent_in_part_is_finished_with_the_same_picks(tmp_path: Path) -> None:
    found = play("half", tmp_path)
    assert found["names"] == found["picks"]
    assert found["said"] == ["round 1: 4 items sent, picked from 0 labels."]


def test_the_command_ends_where_the_rounds_or_the_pool_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = play("finished", tmp_path)
    assert found["codes"] == [0, 0]
    rows = [f"i{row:02d},{truth(f'i{row:02d}')},1,1.0" for row in range(6)]
    assert found["labels"].splitlines() == ["id,label,annotators,agreement", *rows]
    said = capsys.readouterr().err
    assert said.count("6 labels of 2 classes in") == 2
    assert said.count("the project has every item of the pool: nothing is left to pick.") == 1
    assert said.count("dubito: done.") == 2


def test_ctrl_c_stops_it_and_says_that_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "watch_rounds", interrupted)
    project = LabelStudioProject(Server("http://a", AccessToken("t")), 1, "x", Control("a", "b", "text", "text", ()))
    monkeypatch.setattr(job, "find_project", lambda *given, **named: project)
    monkeypatch.setattr(job, "check_sampling", lambda *given, **named: "a note")
    keeper = job.LabelFiles(str(tmp_path / "labels.csv"), None, force=False, classes=[])
    picker = PoolPicker(points(2), items(2))
    plan, shown = WatchPlan(1), job.DisplayOptions(None, "", None, None)
    job.watch_project(project.server, "x", picker, plan, keeper, shown)
    assert "dubito: stopped; run the same command again to continue." in (said := capsys.readouterr().err)
    assert "dubito: a note" in said


def test_a_project_with_names_of_its_own_is_spoken_to_by_them(tmp_path: Path) -> None:
    found = play("fields", tmp_path)
    assert found["data"] == {"source": "made up", "dubito_id": "i00", "sentence": "item 0"}
    assert found["guess"][0]["from_name"] == "mood"
    assert found["control"].choices == ("cat", "hound")


def test_whatever_is_wrong_is_one_line_with_the_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = play("refusals", tmp_path)
    lines = [re.sub(r"http://127\.0\.0\.1:\d+", "URL", line) for line in capsys.readouterr().err.splitlines()]
    said = [line.removeprefix("dubito: error: ") for line in lines]
    said = [
        re.sub(r"config of project \d+ ", "config of project N ", re.sub(r"numbers: \d+, \d+", "numbers: N, M", line))
        for line in said
    ]
    number = "pass the number in the address of its page, or its title."
    assert said == [
        f"--project 4711 is not a project that this token may see at URL; {number}",
        "--project nowhere is not a project at URL; pass the title or number of an existing one.",
        "--project nowhere is not a project at URL; pass the title or number of an existing one, or --classes to "
        "create it.",
        "--project twice is the title of 2 projects; pass one of their numbers: N, M.",
        "URL/projects does not answer /api/projects/ as Label Studio does; pass the address at which Label Studio's "
        "pages begin.",
        "the labeling config of project N has no <Choices>; write exactly one, or let dubito create a project: "
        "--classes a,b.",
        "the labeling config of project N has 2 <Choices> (a, b); write exactly one, or let dubito create a project: "
        "--classes a,b.",
        'the labeling config of project N allows several classes per item; set choice="single".',
        "the project shows images ($image), and these items are texts; pass another project, or --show COLUMN.",
        "the class 'hund' is not a choice of the project's labeling config; there are cat, hound; did you mean "
        "'hound'? add a Choice to the config, or fix the label.",
        'URL refused (400: {"non_field_errors": ["Absolute local path \\"/nowhere/photos\\" does not exist"]}); '
        "start Label Studio with LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and the folder's parent as "
        "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT.",
        "URL refused (401: Invalid token); create a token under Account & Settings there, and set LABEL_STUDIO_API_KEY "
        "to it.",
    ]
    assert found["codes"] == [2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 1, 1]


@pytest.mark.parametrize("path", sorted(ANSWERS.glob("*.json")), ids=lambda path: path.stem)
def test_what_is_recorded_holds_no_token_and_no_address_of_a_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"127\.0\.0\.1|localhost|/tmp/|/home/|eyJhbGci", text) == []
    assert OWNER not in text
    assert SECOND not in text
    assert sorted(each.stem for each in ANSWERS.glob("*.json")) == sorted(SCENARIOS)
