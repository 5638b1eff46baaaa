"""What learns: every model gives the same bits for the same lesson, and goes on from its state."""

from dataclasses import replace

import numpy as np
import pytest

from dubito.errors import InvalidArgument, InvalidData
from dubito.experiments.data import Dataset, make_dataset
from dubito.experiments.models.base import Model, NeedsFiles, TrainingSet, committee_proba
from dubito.experiments.models.kinds import BUILT_IN, model_as_table, model_from_table
from dubito.experiments.models.linear import Forest, Linear, Sklearn
from dubito.experiments.models.networks.network import Mlp, Torch
from dubito.experiments.models.probe import Probe
from dubito.matrix import IntArray


def make_network(n_classes: int, width: int = 6) -> object:
    """A network of one's own, with batch normalization, on items of 2 numbers."""
    import torch

    network = torch.nn.Sequential()
    network.add_module("first", torch.nn.Linear(2, width))
    network.add_module("norm", torch.nn.BatchNorm1d(width))
    network.add_module("last", torch.nn.Linear(width, n_classes))
    return network


FOREST = "sklearn.ensemble.RandomForestClassifier"
OWN = f"{__name__}.make_network"
QUICK: dict[str, object] = {"epochs": 20, "later_epochs": 3, "learning_rate": 0.03}
SETTINGS: dict[str, dict[str, object]] = {
    "sklearn": {"estimator": FOREST, "options": {"n_estimators": 5}},
    "forest": {"trees": 5},
    "mlp": {"hidden": (8,), **QUICK},
    "torch": {"factory": OWN, "head": "last", "device": "cpu", **QUICK},
    "vgg16": {"weights": "none", "decay": True},
}
"""What a kind cannot do without, or what makes it quick; any other is tried as it is by default."""
HIDDEN = Mlp(hidden=(8, 4), epochs=40, later_epochs=3, learning_rate=0.03, features="hidden", decay=True)
KINDS: list[Model] = [model_from_table({"kind": kind, **SETTINGS.get(kind, {})}) for kind in BUILT_IN]
MODELS = [*(model for model in KINDS if not isinstance(model, NeedsFiles)), HIDDEN]
"""Those that learn from two numbers a row: what starts from published weights takes images."""
CONTINUES = [model for model in MODELS if model.continues]
PLAIN = [model for model in MODELS if not hasattr(model, "training")]
"""All but networks, whose last layer gives every class something."""


@pytest.fixture
def data() -> Dataset:
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    centers = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    return make_dataset("three", (centers[labels] + rng.normal(size=(90, 2))).astype(np.float32), labels)


def train_set_of(data: Dataset, rows: IntArray | None = None) -> TrainingSet:
    chosen = np.arange(len(data.labels)) if rows is None else rows
    return TrainingSet(data.features[chosen], data.labels[chosen], len(data.classes), seed=3, turn=0, state={})


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.kind)
def test_a_lesson_is_learned_and_gives_the_same_bits_again(model: Model, data: Dataset) -> None:
    fitted, again = model.fit(train_set_of(data)), model.fit(train_set_of(data))
    probabilities = fitted.predict_proba(data.features)
    assert probabilities.shape == (90, 3)
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert (probabilities.argmax(axis=1) == data.labels).mean() > 0.85
    assert np.array_equal(probabilities, again.predict_proba(data.features))
    assert fitted.embed(data.features).shape[0] == 90


@pytest.mark.parametrize("model", CONTINUES, ids=lambda model: model.kind)
def test_the_next_turn_goes_on_from_the_state_alone(model: Model, data: Dataset) -> None:
    first = model.fit(train_set_of(data, np.arange(45)))
    copy_network = {name: np.array(array) for name, array in first.state.items()}
    second = model.fit(replace(train_set_of(data), turn=1, state=first.state))
    again = model.fit(replace(train_set_of(data), turn=1, state=copy_network))
    assert np.array_equal(second.predict_proba(data.features), again.predict_proba(data.features))
    for name, array in copy_network.items():
        assert np.array_equal(array, first.state[name]), "a lesson changed the state it was given"


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.kind)
def test_what_a_model_says_of_itself_is_so(model: Model, data: Dataset) -> None:
    half, whole = model.fit(train_set_of(data, np.arange(45))), model.fit(train_set_of(data))
    assert bool(whole.state) == model.continues
    assert np.array_equal(half.embed(data.features), whole.embed(data.features)) != model.learns_features
    assert BUILT_IN[model.kind] is type(model)


@pytest.mark.parametrize("model", PLAIN, ids=lambda model: model.kind)
def test_a_class_that_is_not_there_to_learn_has_no_probability(model: Model, data: Dataset) -> None:
    rows = np.flatnonzero(data.labels != 1)
    probabilities = model.fit(train_set_of(data, rows)).predict_proba(data.features)
    assert (probabilities[:, 1] == 0).all()
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert (probabilities.argmax(axis=1)[rows] == data.labels[rows]).mean() > 0.85


@pytest.mark.parametrize("model", PLAIN, ids=lambda model: model.kind)
def test_a_model_that_saw_one_class_is_sure_of_it(model: Model, data: Dataset) -> None:
    fitted = model.fit(train_set_of(data, np.flatnonzero(data.labels == 2)[:4]))
    assert fitted.predict_proba(data.features).tolist() == [[0.0, 0.0, 1.0]] * 90
    assert len(fitted.embed(data.features)) == 90
    on = model.fit(replace(train_set_of(data), turn=1, state=fitted.state))
    assert (on.predict_proba(data.features).argmax(axis=1) == data.labels).mean() > 0.85


def test_a_forest_is_scikit_learn_s_of_so_many_trees(data: Dataset) -> None:
    ours = Forest(trees=7).fit(train_set_of(data)).predict_proba(data.features)
    theirs = Sklearn(FOREST, {"n_estimators": 7}).fit(train_set_of(data)).predict_proba(data.features)
    assert np.array_equal(ours, theirs)
    with pytest.raises(InvalidArgument, match="trees=0 is too small"):
        Forest(trees=0)


def test_many_classes_of_few_labels_are_not_taken_for_numbers() -> None:
    """scikit-learn would warn, which is an error in tests."""
    data = make_dataset("many", np.eye(30, 2, dtype=np.float32), np.arange(30))
    assert Forest(trees=2).fit(train_set_of(data)).predict_proba(data.features).shape == (30, 30)


def test_the_probe_finds_what_scikit_learn_finds(data: Dataset) -> None:
    theirs = Linear(c=0.5).fit(train_set_of(data)).predict_proba(data.features)
    ours = Probe(c=0.5).fit(train_set_of(data)).predict_proba(data.features)
    assert np.abs(theirs - ours).max() < 2e-3


def test_a_fit_that_runs_out_of_iterations_is_still_a_model(data: Dataset) -> None:
    assert Linear(iterations=1).fit(train_set_of(data)).predict_proba(data.features).shape == (90, 3)


def test_initial_weights_depend_on_the_seed_alone(data: Dataset) -> None:
    model = Mlp(hidden=(4,), epochs=1, learning_rate=1e-12)
    one, other = model.fit(train_set_of(data)), model.fit(replace(train_set_of(data, np.arange(9)), turn=5))
    assert np.allclose(one.state["head.weight"], other.state["head.weight"], atol=1e-6)
    elsewhere = model.fit(replace(train_set_of(data), seed=4))
    assert not np.allclose(one.state["head.weight"], elsewhere.state["head.weight"], atol=1e-3)


def test_the_hidden_layer_is_what_goes_into_the_head(data: Dataset) -> None:
    fitted = Mlp(hidden=(8,), epochs=5, features="hidden").fit(train_set_of(data))
    hidden, state = fitted.embed(data.features), fitted.state
    logits = hidden @ state["head.weight"].T + state["head.bias"]
    assert hidden.shape == (90, 8)
    assert (hidden >= 0).all()
    assert np.array_equal(logits.argmax(axis=1), fitted.predict_proba(data.features).argmax(axis=1))


def test_training_leaves_torch_as_it_was(data: Dataset) -> None:
    import torch

    torch.manual_seed(11)
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    Mlp(hidden=(4,), epochs=1).fit(train_set_of(data)).predict_proba(data.features)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_training_that_diverges_is_said(data: Dataset) -> None:
    with pytest.raises(InvalidData, match="training diverged in turn 0; lower learning_rate"):
        Mlp(hidden=(4,), epochs=30, learning_rate=1e20).fit(train_set_of(data))


def test_a_committee_disagrees_and_repeats_itself(data: Dataset) -> None:
    for model in (Linear(samples=3), Mlp(hidden=(4,), epochs=5, samples=2)):
        train_set = train_set_of(data, np.arange(20))
        fitted = model.fit(train_set)
        answers = committee_proba(model, train_set, fitted.state, data.features)
        assert answers.shape == (90, model.samples, 3)
        assert np.allclose(answers.sum(axis=2), 1)
        assert not np.allclose(answers[:, 0], answers[:, 1])
        assert np.array_equal(answers, committee_proba(model, train_set, fitted.state, data.features))


def test_every_kind_reads_back_from_its_table() -> None:
    for model in (*KINDS, HIDDEN):
        assert model_from_table(model_as_table(model)) == model
        assert model_from_table(model_as_table(model, explicit=False)) == model
    assert model_as_table(Linear(), explicit=False) == {"kind": "linear"}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"kind": "linear", "samples": 1}, "samples=1 is not a committee"),
        ({"kind": "sklearn", "estimator": "forest"}, "is not an import path"),
        ({"kind": "sklearn", "estimator": "sklearn.forests.Forest"}, "cannot be imported"),
        ({"kind": "sklearn", "estimator": "sklearn.ensemble.Forest"}, "has no Forest"),
        ({"kind": "sklearn", "estimator": "sklearn.cluster.KMeans"}, "has no predict_proba"),
        ({"kind": "sklearn", "estimator": FOREST, "options": 3}, "is not a table"),
        ({"kind": "sklearn", "estimator": FOREST, "options": {"trees": 3}}, "unexpected keyword argument 'trees'"),
        ({"kind": "mlp", "hidden": []}, "hidden=0 is too small"),
        ({"kind": "mlp", "features": "output"}, "features='output' is not known"),
        ({"kind": "mlp", "decay": 1}, "decay=1 is not allowed"),
        ({"kind": "mlp", "learning_rate": 0}, "learning_rate=0 is not allowed"),
        ({"kind": "probe", "device": "gpu"}, "device='gpu' is not known"),
        ({"kind": "probe", "device": 3}, "device=3 is not known"),
        ({"kind": "probe", "device": "cuda"}, "torch finds no GPU"),
        ({"kind": "torch", "factory": OWN, "head": "last", "options": {"depth": 3}}, "depth"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(
    table: dict[str, object], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InvalidArgument, match=words):
        model_from_table(table)


def test_one_width_may_stand_without_a_list(data: Dataset) -> None:
    fitted = model_from_table({"kind": "mlp", "hidden": 8, "epochs": 1}).fit(train_set_of(data))
    assert fitted.state["head.weight"].shape == (3, 8)


def test_a_head_that_is_not_there_is_refused_with_those_that_are(data: Dataset) -> None:
    with pytest.raises(InvalidArgument, match="it has first, norm, last"):
        Torch(factory=OWN, head="head").fit(train_set_of(data))


def test_an_estimator_that_cannot_be_trained_says_so(data: Dataset) -> None:
    model = Sklearn("sklearn.linear_model.LogisticRegression", {"C": -1.0})
    with pytest.raises(InvalidData, match="cannot be trained on these labels"):
        model.fit(train_set_of(data))


def test_an_estimator_without_probabilities_says_so(data: Dataset) -> None:
    with pytest.raises(InvalidArgument, match="does not predict probabilities with these options"):
        Sklearn("sklearn.svm.SVC").fit(train_set_of(data))
    short = Sklearn("sklearn.neighbors.KNeighborsClassifier", {"n_neighbors": 500}).fit(train_set_of(data))
    with pytest.raises(InvalidData, match="cannot predict probabilities: Expected n_neighbors"):
        short.predict_proba(data.features)
