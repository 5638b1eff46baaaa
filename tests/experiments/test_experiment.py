"""An experiment as one TOML file says it: in and out again, and what is wrong with it said plainly."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubito.core.problem import Request
from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.experiments.models.linear import Linear, Sklearn
from dubito.experiments.plan import (
    Arm,
    Data,
    Experiment,
    Schedule,
    arm_from_table,
    parse_experiment,
    parse_strategy,
    read_experiment,
)
from dubito.experiments.toml import read_toml, write_toml
from dubito.strategies import BUILT_IN, Choice

PLAIN = """
schema = 1
name = "plain"
seeds = 3
pool = "redundant:2"

[data]
path = "features.npz"
label_column = "species"

[model]
kind = "linear"
c = 10.0

[schedule]
initial = 10
budget = 5
rounds = 4

[[strategies]]
strategy = "random"

[[strategies]]
strategy = "doubt-coreset"
strength = 0.5
label = "tempered"
"""


def written(folder: Path, text: str) -> str:
    path = folder / "experiment.toml"
    path.write_text(text)
    return str(path)


def refusal(folder: Path, old: str, new: str) -> str:
    """What is said of the plain file with one thing changed."""
    assert old in PLAIN
    with pytest.raises(InvalidData) as caught:
        read_experiment(written(folder, PLAIN.replace(old, new)))
    return str(caught.value)


def test_a_file_says_everything_an_experiment_is(tmp_path: Path) -> None:
    found = read_experiment(written(tmp_path, PLAIN))
    assert found == Experiment(
        name="plain",
        strategies=(Arm("random"), Arm("doubt-coreset", {"strength": 0.5}, label="tempered")),
        data=Data(path=str(tmp_path / "features.npz"), label_column="species"),
        schedule=Schedule(10, 5, 4),
        model=Linear(c=10.0),
        pool="redundant:2",
        seeds=(0, 1, 2),
    )


def test_what_is_written_out_reads_back_the_same(tmp_path: Path) -> None:
    plan = Experiment(
        name="round-trip",
        strategies=(Arm("coreset", metric="cosine"), Arm("doubt-coreset", {"strength": 0.5}, label='a "b"\\\tc\x7f')),
        data=Data(path="/somewhere/ü.csv", feature_columns=("a", "b*"), test_share=0.25, standardize=True),
        schedule=Schedule(from_scratch=True),
        model=Sklearn("sklearn.ensemble.RandomForestClassifier", {"n_estimators": 5, "max_features": "sqrt"}),
        pool="redundant:5+mislabelled:0.1",
        seeds=(4, 7),
    )
    assert parse_experiment(plan.to_toml()) == plan
    assert read_experiment(written(tmp_path, plan.to_toml())).hash8 == plan.hash8


def test_the_hash_changes_with_whatever_decides_the_results() -> None:
    plan = Experiment("plan", (Arm("random"),), Data(builtin="digits"))
    others = [
        Experiment("plan", (Arm("coreset"),), Data(builtin="digits")),
        Experiment("plan", (Arm("random"),), Data(builtin="digits"), seeds=(1,)),
        Experiment("plan", (Arm("random"),), Data(builtin="digits"), Schedule(rounds=5)),
        Experiment("plan", (Arm("random"),), Data(builtin="digits"), model=Linear(c=2.0)),
        Experiment("plan", (Arm("random"),), Data(builtin="digits"), pool="mislabelled:0.1"),
        Experiment("plan", (Arm("random"),), Data(builtin="digits", test_share=0.3)),
    ]
    assert len({plan.hash8, *(other.hash8 for other in others)}) == 1 + len(others)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("budget = 5", "buget = 5", "[schedule]: it has the key 'buget', which is not known; did you mean 'budget'?"),
        ("path =", "pth =", "[data]: it has the key 'pth', which is not known; did you mean 'path'?"),
        ("c = 10.0", "cc = 10.0", "[model]: kind = 'linear' has the key 'cc'"),
        ("seeds = 3", "sseeds = 3", "has the key 'sseeds', which is not known; did you mean 'seeds'?"),
        ("strength = 0.5", "strenght = 0.5", "did you mean 'strength'?"),
        ('strategy = "random"', 'strategy = "randon"', "strategy = 'randon' is not known; did you mean 'random'?"),
        ('kind = "linear"', 'kind = "lineer"', "kind = 'lineer' is not known; did you mean 'linear'?"),
        ('kind = "linear"\nc = 10.0', 'kind = "sklearn"', "kind = 'sklearn' needs the key 'estimator'; add it."),
        ("schema = 1", "", "schema is missing; write schema = 1 on the first line."),
        ("schema = 1", "schema = 2", "schema = 2 is not known to this version; write schema = 1."),
        ("seeds = 3", "seeds = 0", "seeds = 0 is too small; set seeds >= 1."),
        ("seeds = 3", "seeds = [1, 1]", "seeds holds 1 twice"),
        ("seeds = 3", "seeds = []", "seeds is empty"),
        ('name = "plain"', 'name = "a/b"', "name = 'a/b' cannot be the name of a folder"),
        ('name = "plain"', "", "name = None cannot be the name of a folder"),
        ('pool = "redundant:2"', 'pool = "redundnat:2"', "did you mean 'redundant'?"),
        ('pool = "redundant:2"', "pool = 3", "pool = 3 is not allowed"),
        ("initial = 10", "initial = 0", "[schedule]: initial = 0 is too small; set initial >= 1."),
        ("rounds = 4", "from_scratch = 1", "from_scratch = 1 is not allowed"),
        ("c = 10.0", "c = 0", "c = 0 is not allowed; set a number above 0."),
        ('label = "tempered"', 'label = "random"', "doubt-coreset is the name of a baseline; choose another."),
        ('label = "tempered"', "label = 3", "label = 3 of strategy doubt-coreset is not text"),
        ('label = "tempered"', 'label = " "', "is empty; leave it out"),
        ('label = "tempered"', "beam_width = [1]", "beam_width = [1] of strategy doubt-coreset is not a number"),
        ("strength = 0.5", "strength = -1", "strength = -1 is not allowed"),
        ('label_column = "species"', 'builtin = "digits"', "path and builtin are two sources of data"),
        ('label_column = "species"', 'test = "t.npz"\ntest_share = 0.5', "test and test_share both define a test set"),
        ('label_column = "species"', "test_share = 1.5", "test_share = 1.5 is not allowed"),
        ('label_column = "species"', "standardize = 3", "standardize = 3 is not allowed"),
        ('label_column = "species"', "label_column = 3", "label_column = 3 is not allowed"),
        ('path = "features.npz"', 'test = "features.npz"', "needs a path"),
        ('strategy = "random"', 'label = "random"', "strategy is missing from a [[strategies]] table"),
    ],
)
def test_what_is_wrong_is_said_with_file_key_and_hint(tmp_path: Path, old: str, new: str, words: str) -> None:
    message = refusal(tmp_path, old, new)
    assert message.startswith(f"{tmp_path / 'experiment.toml'}: ")
    assert words in message


def test_a_file_that_is_no_toml_is_refused_with_the_line(tmp_path: Path) -> None:
    assert "is not valid TOML" in refusal(tmp_path, "initial = 10", "initial = = 10")
    assert "line 16" in refusal(tmp_path, "initial = 10", "initial = = 10")


@pytest.mark.parametrize(
    ("value", "said"),
    [("[" * 20_000, "nested too deeply"), ("9" * 5_000, "4300 digits"), ("2020-99-99", "is not valid TOML")],
)
def test_values_that_no_parser_can_hold_are_refused_as_the_fault_of_the_file(
    value: str, said: str, tmp_path: Path
) -> None:
    assert said in refusal(tmp_path, "initial = 10", f"initial = {value}")


def test_a_section_that_is_a_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"data = 3 is not a table; write \[data\]"):
        read_experiment(written(tmp_path, 'schema = 1\nname = "a"\ndata = 3\n'))
    with pytest.raises(InvalidData, match=r"\[\[strategies\]\]: there are no strategies"):
        read_experiment(written(tmp_path, 'schema = 1\nname = "a"\n'))


def test_strategies_may_be_a_list_of_texts() -> None:
    text = 'schema = 1\nname = "a"\nstrategies = ["random", "doubt-coreset:strength=0.5"]\n'
    assert [arm.name for arm in parse_experiment(text).strategies] == ["random", "doubt-coreset:strength=0.5"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('strategies = ["random", 3]', "holds 3; name a strategy in quotes"),
        ('strategies = ["random"]\n[data]\nfeature_columns = 3', "feature_columns = 3 is not a list of names"),
        ('strategies = ["random"]\n[data]\nfeature_columns = [1]', r"feature_columns = \[1\] is not a list of names"),
    ],
)
def test_a_value_of_another_kind_is_refused(line: str, words: str) -> None:
    with pytest.raises(InvalidData, match=words):
        parse_experiment(f'schema = 1\nname = "a"\n{line}\n')


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match="does not exist"):
        read_toml(str(tmp_path / "none.toml"))
    with pytest.raises(MissingFile, match="cannot be read: is a directory"):
        read_toml(str(tmp_path))


def test_a_strategy_that_asks_a_committee_needs_a_model_that_has_one() -> None:
    with pytest.raises(InvalidArgument, match="set samples = 10"):
        Experiment("plan", (Arm("bald"),), Data(builtin="digits"))
    assert Experiment("plan", (Arm("bald"),), Data(builtin="digits"), model=Linear(samples=10))


def test_a_strategy_says_itself_that_it_asks_a_committee(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, slots=True)
    class Quarrel:
        """Asks one, from another package."""

        name: ClassVar[str] = "quarrel"
        uses_engine: ClassVar[bool] = False
        needs_samples: ClassVar[bool] = True

        def choose(self, request: Request) -> Choice:
            """Never asked here."""
            raise NotImplementedError

    monkeypatch.setitem(BUILT_IN, "quarrel", Quarrel)
    assert Arm("quarrel").needs_samples
    assert [name for name in BUILT_IN if name != "quarrel" and Arm(name).needs_samples] == ["bald", "batchbald"]
    with pytest.raises(InvalidArgument, match="strategy 'quarrel' needs a committee, which the model lacks"):
        Experiment("plan", (Arm("quarrel"),), Data(builtin="digits"))


def test_an_experiment_without_strategies_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="strategies is empty"):
        Experiment("plan", ())


def test_a_name_reads_back_as_the_strategy_it_names() -> None:
    for arm in (Arm("random"), Arm("doubt-coreset", {"strength": 0.5, "beam_width": 4}, metric="cosine")):
        assert parse_strategy(arm.name) == arm
    assert parse_strategy("doubt-coreset:beam-width=4").options == {"beam_width": 4}
    assert parse_strategy("doubt-coreset:scaling=acquired").options == {"scaling": "acquired"}
    assert arm_from_table({"strategy": "doubt-coreset", "doubt": "margin"}) == parse_strategy(
        "doubt-coreset:doubt=margin"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("coreset:strength=1", "option='strength' is not known"),
        ("coreset:beam_width", "write name:option=value"),
        ("coreset:beam_width=2,beam_width=3", "has the option 'beam_width' twice"),
        ("coreset:strategy=random", "has the option 'strategy' twice"),
        ("coreset:beam_width=true", "not a whole number"),
        ("coreset:metric=manhattan", "metric='manhattan' is not known"),
        ("margin:label=random", "label='random' of strategy margin is the name of a baseline"),
    ],
)
def test_a_strategy_that_cannot_be_meant_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        parse_strategy(text)


def test_a_table_without_options_is_the_strategy_alone() -> None:
    assert arm_from_table({"strategy": "random"}) == Arm("random")


def test_more_labels_than_rows_are_refused_with_what_would_fit() -> None:
    schedule = Schedule(initial=10, budget=20, rounds=5)
    schedule.check_size(110)
    with pytest.raises(InvalidArgument, match="pass rounds <= 4"):
        schedule.check_size(109)
    with pytest.raises(InvalidArgument, match="pass budget <= 15"):
        schedule.check_size(25)
    with pytest.raises(InvalidArgument, match="initial=10 exceeds the 9 rows"):
        schedule.check_size(9)


Values = st.recursive(
    st.text() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), Values, max_size=4))
def test_any_table_reads_back_as_it_was_written(table: dict[str, object]) -> None:
    import tomllib

    assert tomllib.loads(write_toml(table)) == table


def test_what_has_no_place_in_toml_is_refused() -> None:
    assert write_toml({"a": float("nan"), "b": None}) == "a = nan\n"
    with pytest.raises(TypeError, match="cannot be written as TOML"):
        write_toml({"a": {1, 2}})


def test_the_british_standardise_is_taken_too(tmp_path: Path) -> None:
    text = 'schema = 1\nname = "a"\nstrategies = ["random"]\n[data]\nbuiltin = "digits"\nstandardise = true\n'
    assert read_experiment(written(tmp_path, text)).data.standardize
    both = text + "standardize = true\n"
    with pytest.raises(InvalidData, match="the key 'standardise'"):
        read_experiment(written(tmp_path, both))


def test_what_cannot_be_imported_is_said_with_the_folder_that_was_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = rf"'nowhere_at_all\.Forest' cannot be imported .* current folder, {tmp_path}, and installed packages"
    with pytest.raises(InvalidArgument, match=words):
        Sklearn("nowhere_at_all.Forest")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schema = 1\nx = " + "[" * 20_000 + "]" * 20_000, r"plan.toml is not valid TOML: its brackets are nested too"),
        ("schema = " + "9" * 5_000, r"plan.toml is not valid TOML: Exceeds the limit"),
        (
            'schema = 1\nname = "a"\nseeds = 1000000000000\nstrategies = ["random"]',
            r"seeds = 1000000000000 is too many",
        ),
    ],
)
def test_a_file_beyond_all_reason_is_the_file_s_fault(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(InvalidData, match=message):
        read_experiment(str(tmp_path / "plan.toml"))


@pytest.mark.parametrize("rounds", [10**12, 10**30])
def test_too_many_rounds_are_blamed_on_the_rounds(rounds: int) -> None:
    schedule = Schedule(initial=20, budget=20, rounds=rounds)
    with pytest.raises(InvalidArgument, match=rf"rounds={rounds} of budget=20 .* has 160 rows; pass rounds <= 7"):
        schedule.check_size(160)
    with pytest.raises(InvalidArgument, match=rf"rounds={rounds} is too many"):
        assert len(schedule.labels)


class Counted(int):
    """A seed that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return int.__eq__(self, other)

    __hash__ = int.__hash__


def test_seeds_are_compared_in_proportion_to_their_number() -> None:
    Counted.compared = 0
    Experiment("many", (Arm("random"),), Data(builtin="digits"), seeds=tuple(map(Counted, range(2_000))))
    assert Counted.compared <= 2_000
    with pytest.raises(InvalidArgument, match="seeds holds 7 twice"):
        Experiment("many", (Arm("random"),), Data(builtin="digits"), seeds=(7, 8, 7))
