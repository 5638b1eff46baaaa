"""scikit-activeml's own template of tests for query strategies, passed by every strategy of ours.

Its wheel has no tests: `make integrations` fetches them beside it, and nothing of them is kept here.
"""

import unittest
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dubito
from dubito.strategies import BUILT_IN, build_strategy

ROOT = Path(__file__).parents[2]
CHECKOUT = ROOT / ".cache" / "scikit-activeml" / "skactiveml"

skactiveml = pytest.importorskip("skactiveml", reason="scikit-activeml is not installed: make integrations")
if not (CHECKOUT / "tests").exists():
    pytest.skip("scikit-activeml's tests are not here: make integrations fetches them", allow_module_level=True)
skactiveml.__path__.append(str(CHECKOUT))
template = import_module("skactiveml.tests.template_query_strategy")
classifiers = import_module("skactiveml.classifier")
adapter = import_module("dubito.integrations.skactiveml")

# Classifiers of scikit-activeml's tell what they do without labels, of which the template tries many.
pytestmark = pytest.mark.filterwarnings("ignore")

OPTIONS: dict[str, dict[str, object]] = {"probabilistic-coreset": {"components": 2, "batches": 10}}
WRONG = {"metric": "taxi", "standardize": "perhaps", "engine": "steam"}


def forest() -> Any:
    """A committee as scikit-activeml's own tests have it."""
    trees = import_module("sklearn.ensemble").RandomForestClassifier(5, random_state=42)
    return classifiers.SklearnClassifier(trees, classes=[0, 1], random_state=42)


def asked(name: str) -> dict[str, Any]:
    """What every test of a strategy asks with."""
    missing = np.nan
    query: dict[str, Any] = {
        "X": np.array([[1, 2], [5, 8], [8, 4], [5, 4], [2, 2], [9, 1]]),
        "y": np.array([0, 1, missing, missing, missing, missing]),
        "clf": classifiers.ParzenWindowClassifier(classes=[0, 1], random_state=0),
    }
    return query | ({"ensemble": forest()} if name in {"bald", "batchbald"} else {})


def set_up(name: str) -> Any:
    """A test case's ``setUp``."""

    def method(self: Any) -> None:
        template.TemplateSingleAnnotatorPoolQueryStrategy.setUp(
            self,
            qs_class=getattr(adapter, BUILT_IN[name].__name__),
            init_default_params=dict(OPTIONS.get(name, {})),
            query_default_params_clf=asked(name),
        )

    return method


def init_test(option: str, usual: object) -> Any:
    """A test that a parameter is taken as it is by default, and refused where it makes no sense."""

    def method(self: Any) -> None:
        wrong = WRONG.get(option, template.Dummy())
        self._test_param("init", option, [(usual, None), (wrong, (ValueError, TypeError))])

    return method


def ensemble_test(self: Any) -> None:
    several = [forest(), forest()]
    cases = [(None, None), (several, None), (forest(), None), (np.nan, TypeError), ([1], TypeError)]
    needs = self.query_default_params_clf.get("ensemble") is not None
    self._test_param("query", "ensemble", cases[needs:])


def fit_ensemble_test(self: Any) -> None:
    self._test_param("query", "fit_ensemble", [(True, None), (np.nan, TypeError), ("state", TypeError)])


def clf_test(self: Any) -> None:
    template.TemplateSingleAnnotatorPoolQueryStrategy.test_query_param_clf(self, test_cases=[])


def query_test(name: str) -> Any:
    """A test that the picks are those of `dubito.select`."""

    def method(self: Any) -> None:
        query = asked(name)
        model = query["clf"].fit(query["X"], query["y"])
        said = model.predict_proba(query["X"])
        if "ensemble" in query:
            trees = query["ensemble"].fit(query["X"], query["y"]).estimators_
            said = np.stack([tree.predict_proba(query["X"]) for tree in trees], axis=1)
        strategy = build_strategy(name, OPTIONS.get(name, {}))
        expected = dubito.select(query["X"], 3, labeled=[0, 1], probabilities=said, strategy=strategy, seed=42)
        picks = self.qs_class(**self.init_default_params).query(**query, batch_size=3)
        assert picks.tolist() == expected.indices.tolist()

    return method


def case_of(name: str) -> type[unittest.TestCase]:
    """The template with what a strategy of ours has beyond it."""
    own = signature(getattr(adapter, BUILT_IN[name].__name__)).parameters
    tests = {f"test_init_param_{option}": init_test(option, each.default) for option, each in own.items()}
    del tests["test_init_param_missing_label"], tests["test_init_param_random_state"]
    tests |= {"test_query_param_ensemble": ensemble_test, "test_query_param_fit_ensemble": fit_ensemble_test}
    tests |= {"test_query_param_clf": clf_test, "test_query": query_test(name), "setUp": set_up(name)}
    bases = (template.TemplateSingleAnnotatorPoolQueryStrategy, unittest.TestCase)
    return type(f"Test{BUILT_IN[name].__name__}", bases, tests)


for _name in BUILT_IN:
    globals()[f"Test{BUILT_IN[_name].__name__}"] = case_of(_name)
