"""What an experiment showed, in numbers and in the words a person reads first."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dubito.errors import InvalidArgument
from dubito.experiments.records import Round
from dubito.experiments.summary import comparable, default_targets, finding, notes, summarize

MEANS = {"random": (0.5, 0.6, 0.7), "coreset": (0.5, 0.7, 0.8), "margin": (0.5, 0.65, 0.75), "entropy": (0.5, 0.5, 0.6)}


def rounds(*names: str, seeds: int = 5, spread: float = 0.004, turns: int = 3) -> list[Round]:
    """A made-up experiment: accuracies as in MEANS, with a little noise."""
    rng = np.random.default_rng(2)
    return [
        Round(
            strategy=name,
            seed=seed,
            turn=turn,
            labels=20 + 20 * turn,
            test_accuracy=MEANS[name][turn] + spread * rng.normal(),
            train_accuracy=1.0,
            recall=(0.25 * (1 + turn), None, 0.5),
            core_set_loss=0.3,
            radius=1.0,
            scaled_radius=0.5,
            uncertainty=0.1,
            picked=(1, 2) if turn < turns - 1 else (),
            train_seconds=2.0,
            select_seconds=0.25 if turn < turns - 1 else 0.0,
        )
        for name in names
        for seed in range(seeds)
        for turn in range(turns)
    ]


def test_everything_is_reported_for_every_strategy_in_the_order_they_ran() -> None:
    described = summarize(rounds("random", "coreset", "margin"))
    assert described.names == ("random", "coreset", "margin")
    assert described.seeds == (0, 1, 2, 3, 4)
    assert [each.name for each in described.against_random] == ["coreset", "margin"]
    assert [each.name for each in described.against_coreset] == ["random", "margin"]
    assert [each.name for each in described.savings] == ["coreset", "margin"]
    assert described.penalties.shape == (3, 3)
    assert described.select_seconds == (0.25, 0.25, 0.25)
    assert described.train_seconds == (2.0, 2.0, 2.0)
    assert described.train_accuracy == 1.0
    assert described.recall[0][[0, 2]].tolist() == [0.75, 0.5]
    assert np.isnan(described.recall[0][1])


def test_the_numbers_are_json_without_nan_or_infinity() -> None:
    described = summarize(rounds("random", "entropy", seeds=1))
    record = json.loads(json.dumps(described.as_dict(), allow_nan=False))
    assert record["schema"] == 1
    assert record["against_coreset"] == []
    assert record["labels_saved"][0]["labels"] is None
    assert record["strategies"][1]["labels_for_targets"][-1] is None
    assert record["strategies"][0]["recall"] == [0.75, None, 0.5]


def test_a_strategy_that_beat_random_is_named_with_its_gain_and_its_labels() -> None:
    text = finding(summarize(rounds("random", "entropy", "coreset")))
    assert text.startswith("coreset beat random: +7.5 points of accuracy on average over the curve (95% interval +7.")
    assert "labels for what random learns from 60: 20 saved (95% interval " in text
    assert text.endswith(").")


def test_others_that_beat_random_are_named_or_counted() -> None:
    two = finding(summarize(rounds("random", "coreset", "margin")))
    assert two.endswith(" margin beat random, too.")
    many = rounds("random", "coreset")
    for name in "abcd":
        many += [replace(each, strategy=name) for each in many if each.strategy == "coreset"]
    assert "4 other strategies beat random, too." in finding(summarize(many))


def test_where_nothing_beat_random_that_is_said_first_with_the_power() -> None:
    text = finding(summarize([*rounds("random"), *(replace(r, strategy="twin") for r in noisier(rounds("random")))]))
    assert text.startswith("Nothing beat random beyond chance: the largest gain is that of twin, +")
    assert "with 80% power." in text
    worse = finding(summarize(rounds("random", "entropy")))
    assert worse.startswith("Nothing beat random here: no strategy has a larger mean accuracy over the whole curve. e")
    assert worse.endswith("entropy did worse than random.")


def noisier(played: list[Round]) -> list[Round]:
    rng = np.random.default_rng(8)
    return [replace(each, test_accuracy=each.test_accuracy + 0.006 + 0.02 * rng.normal()) for each in played]


def test_a_gain_on_average_that_ends_below_random_is_not_called_labels_saved() -> None:
    played = rounds("random", "coreset")
    bent = [replace(r, test_accuracy=0.65) if r.strategy == "coreset" and r.turn == 2 else r for r in played]
    assert "yet it does not reach what random learns from 60 labels" in finding(summarize(bent))


def test_labels_needed_beyond_random_s_are_reported_as_more() -> None:
    bent = {"random": (0.1, 0.7, 0.7), "coreset": (0.65, 0.675, 0.71)}
    played = [
        replace(
            each, test_accuracy=bent[each.strategy][each.turn] + 1e-4 * (each.seed % 2) * (each.strategy == "coreset")
        )
        for each in rounds("random", "coreset")
    ]
    assert "it needs 54 labels for what random learns from 40: 14 more (95% interval -14 to -14)" in finding(
        summarize(played)
    )


def played(accuracy: dict[str, tuple[float, ...]], jitter: float = 0.002, seeds: int = 3) -> list[Round]:
    """Rounds with these mean accuracies; random's are the same under every seed."""
    return [
        replace(
            each,
            strategy=name,
            test_accuracy=means[each.turn] + jitter * (each.seed - (seeds - 1) / 2) * (name != "random"),
        )
        for name, means in accuracy.items()
        for each in rounds("random", seeds=seeds)
    ]


def test_a_strategy_that_only_ends_above_random_is_reported_beside_the_whole_curve() -> None:
    late = played({"random": (0.5, 0.7, 0.7), "margin": (0.5, 0.5, 0.72), "coreset": (0.5, 0.5, 0.71)})
    text = finding(summarize(late))
    assert "no strategy has a larger mean accuracy over the whole curve. At the last 60 labels alone margin" in text
    assert "margin is 2.0 points above random, as is one more, which is not what is tested." in text
    more = finding(summarize([*late, *(replace(r, strategy="third") for r in late if r.strategy == "coreset")]))
    assert "as are 2 more" in more


def test_labels_saved_below_average_are_explained_and_have_no_interval_with_three_seeds() -> None:
    described = summarize(played({"random": (0.5, 0.65, 0.7), "margin": (0.5, 0.5, 0.8)}))
    said = " ".join(notes(described))
    assert "margin: labels saved though below random on average" in said
    assert "no interval below 5 seeds" in said
    enough = summarize(played({"random": (0.5, 0.65, 0.7), "margin": (0.5, 0.7, 0.8)}, seeds=5))
    assert [word for word in ("though below", "no interval below") if word in " ".join(notes(enough))] == []


def test_a_random_that_falls_in_the_end_is_reported_where_labels_saved_are_counted_to() -> None:
    said = " ".join(notes(summarize(played({"random": (0.5, 0.9, 0.88), "margin": (0.5, 0.85, 0.91)}))))
    assert "random gains nothing more after 40 labels on its curve made non-decreasing (89.0%)" in said
    assert "gains nothing more" not in " ".join(notes(summarize(rounds("random", "coreset"))))


def test_a_difference_that_is_the_same_under_every_seed_is_no_finding_and_says_why() -> None:
    above = summarize(played({"random": (0.5, 0.6, 0.7), "margin": (0.5, 0.7, 0.8)}, jitter=0.0))
    assert finding(above).startswith(
        "Nothing beat random beyond chance: the largest gain is that of margin, +7.5 points"
    )
    assert "It is the same under all 3 seeds, which leaves no spread" in finding(above)
    assert "nan" not in " ".join([finding(above), *notes(above)])
    assert "margin: the difference to random is the same for every seed" in " ".join(notes(above))
    below = summarize(played({"random": (0.5, 0.6, 0.7), "margin": (0.5, 0.5, 0.6)}, jitter=0.0))
    assert "did worse" not in finding(below)


def test_strategies_that_are_planned_and_not_begun_are_named() -> None:
    described = summarize(rounds("random", "coreset"), planned=("random", "coreset", "margin", "entropy"))
    assert "Not begun yet, and not in any result: margin and entropy." in notes(described)
    assert described.as_dict()["strategies_not_begun"] == ["margin", "entropy"]


def test_one_seed_claims_nothing() -> None:
    ahead = finding(summarize(rounds("random", "coreset", seeds=1)))
    assert ahead.startswith("One seed cannot tell a gain from chance: coreset is ahead of random by +")
    behind = finding(summarize(rounds("random", "entropy", seeds=1)))
    assert behind == "One seed cannot tell a gain from chance, and nothing is ahead of random here."
    assert finding(summarize(rounds("random"))) == "Only random was run, so there is nothing to compare."


def test_random_must_be_among_them() -> None:
    with pytest.raises(InvalidArgument, match="random is not among coreset, margin; run it"):
        summarize(rounds("coreset", "margin"))


def test_of_an_unfinished_run_the_whole_seeds_count() -> None:
    played = rounds("random", "coreset", seeds=3)
    cut = [each for each in played if not (each.strategy == "coreset" and each.seed == 2 and each.turn == 2)]
    described = summarize(cut)
    assert described.seeds == (0, 1)
    assert described.left_out == 5
    assert "not finished: 5 records" in " ".join(notes(described))


def test_where_no_seed_is_whole_the_turns_that_all_have_count() -> None:
    played = rounds("random", "coreset", seeds=2)
    begun = [each for each in played if each.strategy == "random" or (each.seed == 0 and each.turn < 2)]
    kept = comparable(begun)
    assert {(each.seed, each.turn) for each in kept} == {(0, 0), (0, 1)}
    assert summarize(begun).curves[0].labels.tolist() == [20, 40]
    with pytest.raises(InvalidArgument, match="there is no seed yet that every strategy has run"):
        comparable([each for each in played if (each.strategy == "random") == (each.seed == 0)])
    with pytest.raises(InvalidArgument, match="there is no seed yet"):
        comparable([])


def test_targets_are_what_random_reaches_or_what_was_asked_for() -> None:
    described = summarize(rounds("random", "coreset", spread=0.0))
    assert described.targets == pytest.approx((0.6, 0.65, 0.68, 0.7))
    assert described.needed[0] == pytest.approx((40, 50, 56, 60))
    assert described.needed[1] == pytest.approx((30, 35, 38, 40))
    asked = summarize(rounds("random", "coreset"), targets=(0.99,))
    assert asked.needed == ((np.inf,), (np.inf,))
    flat = replace_accuracy(rounds("random"), 0.5)
    assert default_targets(summarize(flat).curves[0]) == (0.5,)


def replace_accuracy(played: list[Round], accuracy: float) -> list[Round]:
    return [replace(each, test_accuracy=accuracy) for each in played]


def test_notes_tell_the_seeds_and_the_power() -> None:
    said = notes(summarize(rounds("random", "coreset")))
    assert "cannot go under p = 0.0625" in said[0]
    assert said[-1].startswith("Power: given the spread seen")
    assert len(notes(summarize(rounds("random", "coreset", seeds=1)))) == 1


def test_models_that_have_hardly_learnt_are_reported_of_first() -> None:
    played = rounds("random", "coreset", turns=3)
    idle = [replace(each, train_accuracy=0.38 if each.turn == 2 else 1.0) for each in played]
    described = summarize(idle)
    assert described.as_dict()["train_accuracy"] == pytest.approx(0.38)
    assert notes(described)[0] == (
        "The models have hardly learned: 38% of their own labels are right after the last training, where guessing "
        "gives 33%. Check learning_rate and epochs first."
    )
    learned = [replace(each, train_accuracy=0.39 if each.turn == 2 else 0.0) for each in played]
    assert not any("hardly" in note for note in notes(summarize(learned)))
    diverged = [replace(each, train_accuracy=0.0) for each in played]
    assert "hardly learned: 0%" in notes(summarize(diverged))[0]
