"""``dubito reproduce``: the list, one figure, and what a person can get wrong."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dubito.cli.output import Stopped
from dubito.experiments.models.networks.network import Mlp
from dubito.experiments.plan import Data, Experiment, Schedule, read_shipped
from dubito.paper import network_studies
from dubito.paper.exhibits import exhibits
from dubito.paper.network_studies import NetworkStudy
from dubito.paper.reproduce import count_claims, exhibit_names, spinner, training

from .conftest import Program


def test_alone_it_lists_every_figure_with_claim_cost_and_what_was_measured(run: Program) -> None:
    ran = run("reproduce")
    assert ran.code == 0
    for said in (
        "figure-1 ",
        "table-1",
        "timing",
        "hours of a core; images",
        "not yet",
        "quick",
        "does not hold",
        "shipped",
    ):
        assert said in ran.out
    assert not Path("dubito-runs").exists()


def test_the_list_as_json_has_every_number(run: Program) -> None:
    described = {row["id"]: row for row in json.loads(run("reproduce", "--json").out)["figures"]}
    assert described["figure-7"]["measured"]["holds"] is True
    assert described["figure-7"]["measured_by"] == "shipped"
    assert described["figure-6"]["needs"] == "images"
    assert described["figure-6"]["core_hours"] > 100
    assert described["figure-7"]["core_hours"] is None


def test_a_figure_is_measured_drawn_and_written_down(run: Program) -> None:
    ran = run("reproduce", "figure-7", "figure-8", "--quick", "--seed", "4", "-o", "mine")
    assert ran.code == 0
    assert "figure-7 (Figure 7): holds, in a quick run" in ran.out
    assert "2 of 2 claims hold here; pictures in mine" in ran.out
    assert "dubito: measuring figure-8" in ran.err
    written = {path.name for path in Path("mine").iterdir()}
    assert written == {f"{name}.{kind}" for name in ("figure-7", "figure-8") for kind in ("svg", "png", "json")}
    assert json.loads(Path("mine/figure-8.json").read_text(encoding="utf-8"))["seed"] == 4
    listed = run("reproduce", "-o", "mine").out
    assert "quick, here" in listed


def test_a_measurement_as_json_names_its_files(run: Program) -> None:
    ran = run("reproduce", "figure-7", "--json", "--quick", "-q")
    (described,) = json.loads(ran.out)["measured"]
    assert ran.err == ""
    assert described["claim"].startswith("The bound is higher")
    assert all(Path(path).stat().st_size > 100 for path in described["files"])
    assert described["files"][0] == "dubito-runs/paper/figure-7.svg"


@pytest.mark.slow
@pytest.mark.usefixtures("blank_figures")
def test_a_figure_measured_again_replaces_its_files(run: Program) -> None:
    for seed in (4, 5):
        assert run("reproduce", "figure-7", "-q", "--quick", "--seed", str(seed)).code == 0
        assert json.loads(Path("dubito-runs/paper/figure-7.json").read_text(encoding="utf-8"))["seed"] == seed


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("figure-33",), 2, "did you mean 'figure-3'"),
        (("figure-7", "--seed", "many"), 2, "--seed many is not a whole number"),
        (("figure-7", "-o", "taken"), 2, "taken is a file; pass -o with another folder."),
        (("-o", "torn"), 3, "is not the record of a measurement"),
    ],
)
def test_what_cannot_be_done_is_one_line(run: Program, arguments: tuple[str, ...], code: int, complaint: str) -> None:
    Path("taken").write_text("")
    Path("torn").mkdir()
    Path("torn/figure-1.json").write_text('{"id": "figu')
    ran = run("reproduce", *arguments)
    assert ran.code == code
    assert complaint in ran.complaint


def test_figures_of_networks_say_where_images_are_looked_for(
    run: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUBITO_DATA", str(tmp_path))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    described = run("reproduce", "figure-6", "-q").complaint
    assert f"cifar10 is missing: {tmp_path} holds neither cifar-10-binary.tar.gz" in described
    assert f"the weights of VGG16 are missing: {tmp_path} holds neither vgg16_features.safetensors" in described
    assert described.endswith("pass --data-dir with a folder that does, or --download.")
    assert run("reproduce", "figure-6", "-q", "--data-dir", "gone").complaint.startswith(
        "--data-dir gone does not exist"
    )


def small_experiment(name: str) -> Experiment:
    model = Mlp(hidden=(8,), epochs=2, later_epochs=1, features="hidden")
    schedule, data = Schedule(initial=30, budget=10, rounds=2), Data(builtin="digits", images=None, rows=200)
    return replace(read_shipped(name), model=model, data=data, schedule=schedule)


@pytest.mark.slow
@pytest.mark.usefixtures("blank_figures")
def test_networks_are_trained_in_the_folder_of_runs_and_a_second_call_only_reads(
    run: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_studies, "read_shipped", small_experiment)
    monkeypatch.setattr(network_studies, "COLLECTIONS", {"None": "digits"})
    monkeypatch.setitem(exhibits(), "figure-5", replace(exhibits()["figure-5"], quick={"seeds": 2, "rounds": 1}))
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    ran = run("reproduce", "figure-5", "--quick", "--runs-dir", "kept", "-o", "mine")
    assert ran.code == 0, ran.err
    assert (
        "dubito: measuring figure-5, Ablation on CIFAR-10: about 40 s on a fast GPU, else 6 hours of a core" in ran.err
    )
    assert "2 seeds say nothing of variance" in ran.out
    (folder,) = Path("kept").iterdir()
    before = (folder / "journal.jsonl").read_bytes()
    assert run("reproduce", "figure-5", "--quick", "--runs-dir", "kept", "-o", "mine").code == 0
    assert (folder / "journal.jsonl").read_bytes() == before


def test_ctrl_c_in_a_training_says_that_the_same_command_goes_on() -> None:
    with (
        pytest.raises(Stopped, match="Run the same command again to continue"),
        training("measuring", NetworkStudy()),
    ):
        raise KeyboardInterrupt


def test_what_holds_in_part_is_counted_as_such() -> None:
    outcomes = [(True, "CIFAR-10 alone"), (True, None), (False, "CIFAR-10 alone")]
    described: list[dict[str, object]] = [{"holds": holds, "scope": scope} for holds, scope in outcomes]
    assert count_claims(described) == "2 of 3 claims hold here, 1 of them in part"
    assert count_claims(described[1:]) == "1 of 2 claims hold here"


def test_names_are_completed() -> None:
    assert exhibit_names("figure-1") == ["figure-1", "figure-10", "figure-11", "figure-12", "figure-13"]
    assert exhibit_names("al") == ["all"]


def test_on_a_terminal_the_note_moves_and_goes_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with spinner("measuring"):
        pass
    assert "dubito: measuring" not in capsys.readouterr().err
