"""``dubito label-studio`` before it asks any server: what it reads, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest

from cli.conftest import Program
from dubito.cli.commands.label_studio import DisplayOptions, LabelFiles, read_picker, read_plan, read_suggestions
from dubito.cli.inputs import read_columns
from dubito.errors import DubitoError
from dubito.integrations.exchange.items import Gathered
from dubito.strategies import build_strategy

URL = ("--url", "http://127.0.0.1:9", "--project", "x")
COLUMNS = read_columns(None, None, None, "text")
TEXTS = DisplayOptions(None, "", None, None)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", "secret-token")
    rng = np.random.default_rng(0)
    lines = ["id,text,a,b"]
    lines += [f"r{row},text {row},{row % 2 * 5 + rng.normal():.4f},{rng.normal():.4f}" for row in range(20)]
    Path("pool.csv").write_text("\n".join(lines) + "\n")
    Path("labels.csv").write_text("id,label\nr0,even\nr1,odd\nr2,even\nr3,odd\n")
    Path("picks.csv").write_text("rank,index,id,priority,text\n1,6,r6,1.0,text 6\n2,7,r7,0.5,text 7\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pull", "-o", "labels.csv"), "labels.csv exists, and this command did not write it; pass --force"),
        (("pull", "-o", "new.txt"), "new.txt"),
        (("push", "nothing.csv"), "nothing.csv"),
        (("push", "picks.csv", "--labeled", "labels.csv"), "--labeled needs --pool here; pass --pool as well"),
        (
            ("push", "picks.csv", "--local-files", "photos"),
            "--local-files photos cannot be served; pass the absolute path of a folder below",
        ),
        (("push", "picks.csv", "--timeout", "0"), "--timeout 0 is not allowed; pass seconds, above 0 and up to 3600."),
        (("push", "picks.csv", "--token-file", "gone"), "gone, the file of the token, cannot be read"),
        (("watch", "pool.csv", "-o", "new.csv", "-b", "0"), "--budget 0"),
        (("watch", "pool.csv", "-o", "new.csv", "-b", "5", "--rounds", "0"), "--rounds 0"),
        (("watch", "pool.csv", "-o", "new.csv", "-b", "5", "--every", "x"), "--every x is not allowed"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_any_server_is_asked(
    run: Program, words: tuple[str, ...], said: str
) -> None:
    done = run("label-studio", words[0], *words[1:], *URL)
    assert done.code == 2
    assert said in done.complaint
    assert "secret" not in done.err


def test_a_server_that_is_not_there_is_one_line(run: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    done = run("label-studio", "push", "picks.csv", *URL)
    assert done.code == 1
    assert "http://127.0.0.1:9 does not answer" in done.complaint
    assert "check that it is running, then run the same command again; nothing is added twice." in done.complaint


def test_without_a_command_the_group_shows_them(run: Program) -> None:
    shown = run("label-studio", "--help").out
    assert all(name in shown for name in ("push", "pull", "watch"))


def test_picks_go_with_guesses_where_a_pool_and_labels_are_named() -> None:
    plain = read_suggestions("picks.csv", TEXTS, None, [], COLUMNS, "linear")
    assert [(each.item.name, each.item.shown, each.guess) for each in plain] == [
        ("r6", "text 6", None),
        ("r7", "text 7", None),
    ]
    guessed = read_suggestions("picks.csv", TEXTS, "pool.csv", ["labels.csv"], COLUMNS, "linear")
    assert [each.guess for each in guessed] == ["even", "odd"]
    assert all(0.5 <= (each.confidence or 0.0) <= 1.0 for each in guessed)


def test_watching_picks_as_select_does(run: Program) -> None:
    options = {"strategy": build_strategy("auto", {}), "seed": 0}
    picker = read_picker("pool.csv", TEXTS, [], COLUMNS, options, "auto", guesses=True)
    first = [pick.item.name for pick in picker({}, set(), 4)]
    assert run("select", "pool.csv", "--ignore-columns", "text", "-b", "4", "-o", "first.csv", "-q").code == 0
    assert first == [line.split(",")[2] for line in Path("first.csv").read_text().splitlines()[1:]]
    labels = {name: "odd" if int(name[1:]) % 2 else "even" for name in first}
    Path("said.csv").write_text("id,label\n" + "".join(f"{name},{label}\n" for name, label in labels.items()))
    second = picker(labels, set(first), 4)
    assert (
        run(
            "select",
            "pool.csv",
            "--ignore-columns",
            "text",
            "-b",
            "4",
            "--labeled",
            "said.csv",
            "-o",
            "second.csv",
            "-q",
        ).code
        == 0
    )
    assert [pick.item.name for pick in second] == [
        line.split(",")[2] for line in Path("second.csv").read_text().splitlines()[1:]
    ]
    assert [pick.guess for pick in second] == ["odd" if int(pick.item.name[1:]) % 2 else "even" for pick in second]


def test_items_of_another_pool_are_refused_by_name() -> None:
    options = {"strategy": build_strategy("auto", {}), "seed": 0}
    picker = read_picker("pool.csv", TEXTS, ["labels.csv"], COLUMNS, options, "auto", guesses=False)
    assert {pick.item.name for pick in picker({}, set(), 16)}.isdisjoint({"r0", "r1", "r2", "r3"})
    assert picker({}, {f"r{row}" for row in range(20)}, 3) == []
    with pytest.raises(DubitoError, match="the project has an item 'z' that is not in the pool"):
        picker({}, {"z"}, 1)


def test_pictures_on_the_server_s_disk_have_an_address_below_its_root() -> None:
    assert DisplayOptions(None, "", "/data/photos/", None).url_prefix() == "/data/local-files/?d=photos/"
    assert DisplayOptions(None, "", "/data/a/b", "/data").url_prefix() == "/data/local-files/?d=a/b/"
    Path("batch.csv").write_text("rank,index,id,priority\n1,0,a b.png,1\n")
    suggested = read_suggestions(
        "batch.csv", DisplayOptions(None, "", "/data/photos", None), None, [], COLUMNS, "linear"
    )
    assert suggested[0].item.shown == "/data/local-files/?d=photos/a%20b.png"


def test_tables_are_replaced_where_they_are_ours_and_classes_that_nobody_asked_for_are_refused() -> None:
    found = Gathered("id", ("a",), ("cat",), (2,), (1.0,), ("b",), ("c",))
    for _ in range(2):
        LabelFiles("out.csv", "apart.csv", force=False, classes=[]).write(found)
    assert Path("out.csv").read_text() == "id,label,annotators,agreement\na,cat,2,1.0\n"
    assert Path("apart.csv").read_text() == "id,why\nb,skipped\nc,tied\n"
    with pytest.raises(DubitoError, match="Label Studio has the class 'cat', which is not in --classes"):
        LabelFiles("out.csv", None, force=False, classes=["dog"]).write(found)


def test_labels_of_another_project_are_not_replaced_unless_that_is_wanted() -> None:
    ours = Gathered("id", ("a",), ("cat",), (2,), (1.0,), (), ())
    theirs = Gathered("id", ("x",), ("dog",), (1,), (1.0,), (), ())
    LabelFiles("out.csv", None, force=False, classes=[]).write(ours)
    with pytest.raises(DubitoError, match=r"out\.csv has labels of other items, such as 'a'"):
        LabelFiles("out.csv", None, force=False, classes=[]).write(theirs)
    LabelFiles("out.csv", None, force=True, classes=[]).write(theirs)
    assert "x,dog" in Path("out.csv").read_text()


def test_a_plan_is_read_from_words() -> None:
    plan = read_plan("5", "3", "2", "1.5", jump_ahead=True)
    assert (plan.batch, plan.rounds, plan.ahead, plan.every, plan.jump_ahead) == (5, 3, 2, 1.5, True)
