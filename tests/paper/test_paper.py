"""The paper's exhibits: their files are sound, each is measured in the small, and checks can go either way."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dubito.core.problem import Problem, Solution
from dubito.engines.cpu.engine import CpuEngine
from dubito.engines.cuda.engine import CudaEngine
from dubito.errors import DubitoError, InvalidArgument, InvalidData
from dubito.experiments.plan import Experiment, read_shipped, shipped_experiments, shipped_text
from dubito.experiments.records import Curve
from dubito.paper.coreset_studies import BeamsStudy, QuadrantsStudy, RadiiStudy, farthest_in, scaled_distances_from
from dubito.paper.exhibits import (
    STUDIES,
    choose_exhibits,
    exhibits,
    measure,
    parse_exhibit,
    read_measured,
    shipped,
    write_measured,
)
from dubito.paper.mixture_studies import HeatmapStudy, MixtureStudy, Tail, TailStudy, skewness
from dubito.paper.statement_studies import BetaStudy, Discussion, DiscussionStudy, Timing, TimingStudy, two_rows
from dubito.paper.study import Study
from dubito.paper.toy_studies import (
    AcquisitionsStudy,
    Concentration,
    ConcentrationStudy,
    NegativeResult,
    NegativeStudy,
    ToyStudy,
)

TOY = {"n": 200, "initial": 30, "batch": 10, "rounds": 1, "seeds": 1, "batches": 3, "iterations": 3}
SMALL: dict[str, Study] = {
    "concentration": ConcentrationStudy(
        side=3, n=200, initial=20, batch=10, rounds=1, seeds=1, other_sides=(2,), iterations=3
    ),
    "radii": RadiiStudy(n=25, k=3, pools=2),
    "quadrants": QuadrantsStudy(n=300, steps=2, seeds=2),
    "beams": BeamsStudy(n=300, budget=6, width=3, pools=2),
    "beta": BetaStudy(points=61),
    "mixture": MixtureStudy(n=200, components=8),
    "heatmap": HeatmapStudy(n=200, components=8, batch=4, batches=60),
    "tail": TailStudy(n=200, components=8, batch=4, batches=60, other_components=(4,), other_batches=(2,)),
    "toy": ToyStudy(**TOY),
    "acquisitions": AcquisitionsStudy(**TOY),
    "negative": NegativeStudy(**TOY),
    "timing": TimingStudy(n=400, d=8, budget=20, sizes=(20, 40), repeats=1, budgets=(20, 60)),
    "discussion": DiscussionStudy(initial=20, batch=20, rounds=2, seeds=2),
}


# The files


def test_every_exhibit_builds_its_study_at_full_and_at_quick_size() -> None:
    for each in exhibits().values():
        assert each.build() != each.build(quick=True) or not each.quick
        assert 0 < each.quick_seconds <= each.seconds
    assert {each.study for each in exhibits().values()} == set(STUDIES) == {*SMALL, "networks"}


def test_every_figure_and_table_of_the_paper_is_listed() -> None:
    covered = " ".join(each.place for each in exhibits().values())
    numbers = {int(number) for number in re.findall(r"Figure (\d+)", covered)} | {13, 14, 15}
    assert numbers == set(range(1, 16))
    assert "Figures 13 to 15" in covered
    assert "Table 1" in covered


def test_what_takes_images_says_what_it_costs_without_a_gpu() -> None:
    heavy = [each for each in exhibits().values() if not each.is_light]
    assert [each.id for each in heavy] == ["figure-5", "figure-6", "table-1", "timing-gpu"]
    assert exhibits()["timing-gpu"].cost == "10 s on a GPU"
    for each in heavy[:3]:
        assert 0 < each.quick_core_hours < each.core_hours
        assert each.cost.endswith(f"{each.core_hours:,.0f} hours of a core; images")


def test_a_quick_run_of_all_fits_in_four_minutes_by_its_own_account() -> None:
    assert sum(each.quick_seconds for each in choose_exhibits(["all"])) < 240


def test_all_means_every_exhibit_that_can_be_measured_once() -> None:
    chosen = choose_exhibits(["figure-7", "all"])
    assert chosen[0].id == "figure-7"
    assert len({each.id for each in chosen}) == len(chosen) == len(exhibits()) - 4


def test_a_name_that_is_not_known_offers_the_nearest() -> None:
    with pytest.raises(InvalidArgument, match="did you mean 'figure-3'"):
        choose_exhibits(["figure3"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("clame = 'x'", "broken.toml: it has the key 'clame', which is not known; did you mean 'claim'?"),
        ("schema = 9", "9 is not known; write schema = 1"),
    ],
)
def test_a_broken_file_is_an_error_that_names_it(line: str, message: str) -> None:
    table = {
        "schema": "1",
        "order": "1",
        "id": "'a'",
        "place": "'b'",
        "title": "'c'",
        "claim": "'d'",
        "study": "'beta'",
    }
    key, _, value = line.partition(" = ")
    text = "\n".join(f"{name} = {said}" for name, said in (table | {key: value}).items())
    with pytest.raises(InvalidData, match=re.escape(message)):
        parse_exhibit(text, "broken.toml")


def test_a_parameter_the_study_does_not_have_is_an_error() -> None:
    exhibit = replace(exhibits()["figure-7"], parameters={"lambda_d": 1.0})
    with pytest.raises(InvalidData, match="did you mean 'lambda_c'"):
        exhibit.build()


# Measuring


@pytest.mark.parametrize("name", SMALL)
def test_every_study_gives_a_verdict_in_numbers_and_words(name: str) -> None:
    verdict = SMALL[name].measure(0).verdict()
    assert verdict.numbers
    assert all(isinstance(value, float) for value in verdict.numbers.values())
    assert verdict.sentence.strip(".") == verdict.sentence
    assert str(verdict).startswith("holds: " if verdict.holds else "does not hold: ")


@pytest.mark.parametrize("name", ["radii", "quadrants", "beams", "heatmap"])
def test_the_same_seed_measures_the_same(name: str) -> None:
    one, again, other = (dict(SMALL[name].measure(seed).verdict().numbers) for seed in (5, 5, 6))
    assert one == again
    assert one != other


@pytest.mark.slow
def test_the_quick_claims_that_are_cheap_hold_as_shipped() -> None:
    for name in ("figure-2", "figure-3", "figure-4", "figure-7", "figure-8"):
        assert measure(exhibits()[name], quick=True)[1].holds == shipped()[name].holds


def test_the_farthest_point_of_the_warped_space_lies_on_an_axis_from_both_places() -> None:
    for place in ((0.0, 0.0), (-1.0, 1.0)):
        assert np.abs(farthest_in(scaled_distances_from(place, steepness=7.0))).min() < 0.05


# Checks can fail


def curve(name: str, *accuracy: float) -> Curve:
    return Curve(name, np.array([10, 20]), np.array([[each, each] for each in accuracy]))


def concentration(random: float, least: float, core: float) -> Concentration:
    rows = {name: np.array([[0, 1]]) for name in ("random", "least-confidence", "coreset")}
    described = (curve("random", random), curve("least-confidence", least), curve("coreset", core))
    return Concentration(np.zeros((2, 2)), np.zeros(2, dtype=np.int64), np.zeros(2), rows, described, {3: described})


@pytest.mark.parametrize(
    ("accuracies", "holds"),
    [((0.6, 0.5, 0.7), True), ((0.6, 0.65, 0.7), False), ((0.6, 0.5, 0.55), False)],
)
def test_figure_1_needs_least_confidence_below_random_below_the_core_set(
    accuracies: tuple[float, float, float], holds: bool
) -> None:
    verdict = concentration(*accuracies).verdict()
    assert verdict.holds is holds
    assert "points on 9" in verdict.sentence


def test_a_tail_on_the_left_is_reported_as_not_holding() -> None:
    scores = np.array([0.0, 0.9, 1.0, 1.0, 1.0])
    left = Tail(scores, 32, 8, (4,), (2,), np.array([[-1.0]]))
    right = replace(left, scores=1 - scores)
    assert (left.verdict().holds, right.verdict().holds) == (False, True)
    assert "tail is on the left" in left.verdict().sentence
    assert skewness(scores) < 0 < skewness(1 - scores)


def test_a_selection_slower_than_the_papers_does_not_hold() -> None:
    quick = {"coreset": np.array([[1.0], [2.0]]), "doubt-coreset": np.array([[1.0], [2.0]])}
    timing = Timing(np.array([5_000, 15_000]), quick, 50_000, 512, 5_000)
    slow = replace(timing, seconds={**quick, "doubt-coreset": np.array([[30.0], [40.0]])})
    steep = replace(timing, seconds={**quick, "coreset": np.array([[1.0], [4.0]])})
    assert [each.verdict().holds for each in (timing, slow, steep)] == [True, False, False]
    more = replace(timing, budgets=np.array([5_000, 15_000]), picking=quick, engine="cuda")
    assert more.verdict().holds
    assert "on this GPU" in more.verdict().sentence
    assert more.verdict().sentence.endswith("take 1.00 to 2.00 s scaled and 1.00 to 2.00 s plain")
    soon = replace(more, picking={name: taken / 100 for name, taken in quick.items()})
    assert soon.verdict().sentence.endswith("take 10 to 20 ms scaled and 10 to 20 ms plain")
    assert not replace(more, picking=slow.seconds).verdict().holds
    assert not replace(more, picking=steep.seconds).verdict().holds


def test_every_row_is_timed_on_one_engine_which_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[int]()

    def solve(self: CudaEngine, problem: Problem) -> Solution:
        asked.append(problem.budget)
        return CpuEngine().solve(problem)

    monkeypatch.setattr(CudaEngine, "refusals", lambda self, problem: [])
    monkeypatch.setattr(CudaEngine, "pays", lambda self, problem: problem.budget >= 60)
    monkeypatch.setattr(CudaEngine, "solve", solve)
    study = TimingStudy(n=400, d=8, budget=20, sizes=(20, 40), repeats=1, budgets=(60,))
    assert study.measure(0).engine == "cpu"
    assert asked == []
    timing = replace(study, engine="auto").measure(0)
    assert (timing.engine, timing.device) == ("cuda", "GPU")
    assert asked.count(20) == 2 * 2 + 2
    assert "on this GPU" in timing.verdict().sentence


@pytest.mark.parametrize(
    ("least", "most", "gains", "holds", "said"),
    [
        (0.2, 0.5, (0.0, 0.1, 0.0), True, "so < 1"),
        (0.2, 2.0, (0.0, 0.1, 0.0), False, "not decided"),
        (1.5, 2.0, (0.0, 0.1, 0.0), False, "so >= 1"),
        (0.2, 0.5, (0.0, 0.1, 0.2), False, "at an end"),
    ],
)
def test_the_discussions_claim_needs_a_peak_in_between_and_the_regime(
    least: float, most: float, gains: tuple[float, ...], holds: bool, said: str
) -> None:
    ones = np.ones((1, 3))
    verdict = Discussion(np.array([10, 20, 30]), np.array([gains]), ones, least * ones, most * ones).verdict()
    assert verdict.holds is holds
    assert said in verdict.sentence


def test_a_clear_and_cheap_gain_would_refute_the_negative_result() -> None:
    described = (
        curve("random", 0.5, 0.51, 0.5),
        curve("probabilistic-coreset", 0.7, 0.72, 0.71),
        curve("doubt-coreset", 0.6, 0.6, 0.61),
    )
    seconds = {"probabilistic-coreset": 2.0, "doubt-coreset": 1.0}
    clear = NegativeResult((0.5, 1.0), (described, described), (seconds, seconds))
    assert not clear.verdict().holds
    level = (
        described[0],
        replace(described[1], accuracy=described[0].accuracy + np.array([[0.01], [-0.01], [0.0]])),
        described[2],
    )
    assert replace(clear, curves=(level, level)).verdict().holds
    cheap = {"probabilistic-coreset": 0.5, "doubt-coreset": 1.0}
    assert not replace(clear, curves=(level, level), seconds=(cheap, cheap)).verdict().holds


def test_a_binary_head_stands_against_a_row_of_zeros() -> None:
    assert two_rows(np.array([[3.0, 4.0]])).tolist() == [[0.0, 0.0], [3.0, 4.0]]
    assert two_rows(np.eye(3)).shape == (3, 3)


@pytest.mark.parametrize("wrong", [{"n": 0}, {"rounds": 0}, {"seeds": 0}])
def test_a_study_refuses_sizes_that_cannot_be_meant(wrong: dict[str, int]) -> None:
    with pytest.raises(DubitoError, match=f"{next(iter(wrong))}=0 is too small"):
        ToyStudy(**wrong)


@pytest.mark.parametrize("study", [ToyStudy, ConcentrationStudy])
def test_a_study_refuses_clusters_without_spread(study: type[ToyStudy | ConcentrationStudy]) -> None:
    with pytest.raises(InvalidArgument, match=r"deviation=0\.0 is not allowed; pass a number above 0"):
        study(deviation=0.0)


# Records


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    _, described = measure(exhibits()["figure-7"], quick=True, seed=3)
    path = write_measured(described, tmp_path)
    back = read_measured(tmp_path)["figure-7"]
    assert (back.seed, back.quick, back.outcome) == (3, True, "holds")
    assert back.numbers == described.numbers
    assert json.loads(path.read_text(encoding="utf-8"))["schema"] == 1
    assert read_measured(tmp_path / "nowhere") == {}


def test_a_number_that_json_has_not_becomes_null() -> None:
    exhibit = replace(exhibits()["negative-result"], parameters=TOY, quick={})
    described = measure(exhibit)[1]
    assert described.numbers["p at 0.5"] is None
    assert described.numbers["gain over random at 0.5"] is not None


def test_a_file_that_is_no_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text('{"id": "figure-1"}')
    with pytest.raises(InvalidData, match=r"notes\.json is not the record of a measurement"):
        read_measured(tmp_path)


def test_everything_that_every_machine_can_measure_was_and_is_shipped() -> None:
    described = shipped()
    assert {each.id for each in exhibits().values() if each.is_light} <= described.keys()
    for name, record in described.items():
        assert not record.quick
        assert dict(record.parameters) == json.loads(json.dumps(exhibits()[name].settings(quick=False)))


def test_the_page_of_results_tells_what_was_measured() -> None:
    page = (Path(__file__).parents[2] / "docs" / "results" / "paper.md").read_text(encoding="utf-8")
    for name, record in shipped().items():
        assert f"## {name}\n" in page
        assert f"**{record.outcome[0].upper()}{record.outcome[1:]}:** {record.sentence}." in page
        assert f"(#{name}) | {exhibits()[name].title} | {record.outcome} |" in page


# Studies of our own


def test_every_experiment_that_is_shipped_has_random_among_its_strategies() -> None:
    assert "strength" in shipped_experiments()
    for name in shipped_experiments():
        plan = read_shipped(name)
        assert isinstance(plan, Experiment)
        assert plan.strategies[0].name == "random"
        assert shipped_text(name).startswith("# ")
    strengths = [arm.options.get("strength", 0.0) for arm in read_shipped("strength").strategies[1:]]
    assert strengths == [0.0, 0.25, 0.5, 1.0, 2.0]
