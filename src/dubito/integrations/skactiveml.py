"""scikit-activeml: dubito's strategies as query strategies, with the names of their classes.

``DoubtCoverage(strength=2.0).query(X, y, clf, batch_size=10)`` returns the picks of `dubito.select` for the same rows,
labels and probabilities. Options are parameters, so that clones and grid search work; an integer ``random_state`` is
the seed. ``ensemble`` provides posterior samples, as for scikit-activeml's own BatchBALD.
"""

from dataclasses import make_dataclass
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_consistent_length

from dubito.integrations.picking import committee_probabilities, pick, seed_of, sequential_utilities
from dubito.registry import require
from dubito.strategies import BUILT_IN, build_strategy
from dubito.strategies.base import uses_doubt

base: Any = require("skactiveml.base", extra="skactiveml")
utils: Any = require("skactiveml.utils", extra="skactiveml")
Strategies: Any = base.SingleAnnotatorPoolQueryStrategy
CLASSES = {factory.__name__: name for name, factory in BUILT_IN.items()}
DEFAULTS = {"metric": "euclidean", "standardize": None, "engine": "auto", "missing_label": np.nan, "random_state": None}
HINT = "pass clf=, a classifier of scikit-activeml, or ensemble=, several, if posterior samples are needed."


class Query(Strategies):
    # fmt: off
    def query(self, X: Any, y: Any, clf: Any = None, fit_clf: bool = True, ensemble: Any = None,
              fit_ensemble: bool = True, sample_weight: Any = None, candidates: Any = None, batch_size: int = 1,
              return_utilities: bool = False) -> Any:
        # fmt: on
        """Rows of ``X``, or of ``candidates`` if these are features, in the order of the picks.

        With ``return_utilities``, also their (batch_size, n) utilities before each pick; see `sequential_utilities`.
        """
        X, y, candidates, size, wanted = self._validate_data(X, y, candidates, batch_size, return_utilities)
        rows = self._transform_candidates(candidates, X, y, allow_only_unlabeled=True)[1]
        check_consistent_length(X, sample_weight)
        own = {name: value for name, value in self.get_params(deep=False).items() if name not in DEFAULTS}
        strategy, first = build_strategy(self._strategy, own), 0
        data = (X, y) if sample_weight is None else (X, y, sample_weight)
        models = self._fitted("clf", clf, fit_clf, data, uses_doubt(strategy))
        members = self._fitted("ensemble", ensemble, fit_ensemble, data, uses_doubt(strategy))
        labeled = utils.is_labeled(y, self.missing_label_)
        if rows is None:  # Candidates are features: the pool consists of the labeled rows, followed by these.
            X, first = np.concatenate([X[labeled], candidates]), int(labeled.sum())
            rows, labeled = np.arange(first, len(X)), np.arange(len(X)) < first
        given = {"labeled": labeled, "candidates": np.isin(np.arange(len(X)), rows)}
        given |= {name: getattr(self, name) for name in ("metric", "standardize", "engine")}
        given["seed"] = seed_of(self.random_state, self.random_state_)
        if members or models:
            given["probabilities"] = committee_probabilities(members, X) if members else models[0].predict_proba(X)
        picks = pick(X, size, strategy, HINT, **given).indices
        if not wanted:
            return picks - first
        whole = pick(X, len(rows), strategy, HINT, **given)
        return picks - first, sequential_utilities(picks, whole, len(X))[:, first:]

    def _fitted(self, name: str, model: Any, fit: bool, data: tuple[Any, ...], is_wanted: bool) -> list[Any]:
        """The fitted models of ``clf`` or ``ensemble``; empty if there is none, or the strategy uses none."""
        utils.check_type(fit, f"fit_{name}", bool)
        found = list(model) if name == "ensemble" and isinstance(model, list | tuple) else [model]
        for each in [] if model is None else found:
            utils.check_type(each, name, base.SkactivemlClassifier)
            utils.check_equal_missing_label(each.missing_label, self.missing_label_)
        return [clone(each).fit(*data) if fit else each for each in found] if is_wanted and model is not None else []


def __getattr__(name: str) -> Any:
    if name not in CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(CLASSES)}")
    factory = BUILT_IN[CLASSES[name]]
    options = {option: each.default for option, each in signature(factory).parameters.items()} | DEFAULTS
    namespace = {"_strategy": CLASSES[name], "__doc__": factory.__doc__, "__module__": __name__}
    parameters = [(option, Any, default) for option, default in options.items()]
    # A dataclass, because scikit-learn requires named parameters that are stored unchanged.
    return globals().setdefault(
        name, make_dataclass(name, parameters, bases=(Query,), namespace=namespace, eq=False, repr=False)
    )
