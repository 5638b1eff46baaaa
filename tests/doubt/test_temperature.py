"""A temperature fitted on labeled rows: the best there is, or refused with the reason."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import dubito
from dubito.doubt import fit_temperature
from dubito.errors import DubitoError, InvalidArgument, InvalidData
from dubito.matrix import FloatArray, IntArray


def made(seed: int, n: int = 200, c: int = 4, heat: float = 1.0) -> tuple[FloatArray, IntArray]:
    """Logits that are ``heat`` times too large, and labels drawn from what they should be."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((n, c)) * 2.0
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.array([rng.choice(c, p=row) for row in chances])
    return logits * heat, labels


def loss(logits: FloatArray, labels: IntArray, temperature: float) -> float:
    scaled = logits / temperature
    top = scaled.max(axis=1)
    logs = top + np.log(np.exp(scaled - top[:, None]).sum(axis=1))
    return float((logs - scaled[np.arange(len(labels)), labels]).mean())


@given(st.integers(0, 2**31), st.floats(0.3, 6.0))
def test_no_other_temperature_makes_the_labels_likelier(seed: int, heat: float) -> None:
    logits, labels = made(seed, heat=heat)
    fitted = fit_temperature(logits, labels).value
    best = minimize_scalar(lambda t: loss(logits, labels, t), bounds=(0.05, 20.0), method="bounded")
    assert loss(logits, labels, fitted) <= best.fun + 1e-9
    assert fitted == pytest.approx(best.x, rel=1e-2)


def test_too_sure_a_model_gets_a_temperature_as_high_as_it_is_too_sure() -> None:
    logits, labels = made(1, n=4000, heat=3.0)
    assert fit_temperature(logits, labels).value == pytest.approx(3.0, rel=0.1)
    assert fit_temperature(logits, labels).note is None


def test_a_constant_beside_each_row_and_the_order_of_rows_change_nothing() -> None:
    logits, labels = made(2, heat=2.0)
    order = np.random.default_rng(0).permutation(len(labels))
    moved = logits + np.linspace(-500.0, 500.0, len(labels))[:, None]
    assert fit_temperature(moved, labels).value == pytest.approx(fit_temperature(logits, labels).value, rel=1e-9)
    assert fit_temperature(logits[order], labels[order]).value == pytest.approx(
        fit_temperature(logits, labels).value, rel=1e-9
    )
    assert fit_temperature(logits.astype(np.float32), labels.astype(np.uint8)).value == pytest.approx(
        fit_temperature(logits, labels).value, rel=1e-5
    )


def test_rows_that_are_all_predicted_right_teach_nothing() -> None:
    logits = np.array([[9.0, 0.0], [0.0, 30.0], [2.0, 2.0]])
    value, note = fit_temperature(logits, [0, 1, 0])
    assert value == 1.0
    assert note is not None
    assert note.startswith(
        "all 3 labeled rows are predicted correctly, so that the temperature cannot be fitted and stays"
    )


def test_a_temperature_below_one_is_reported() -> None:
    logits, labels = made(3, heat=0.2)
    value, note = fit_temperature(logits, labels)
    assert value < 1.0
    assert note is not None
    assert "is below 1: the model is right on the 200 labeled rows more often than it expects" in note


def test_a_model_that_is_always_wrong_gets_the_largest() -> None:
    logits = np.array([[300.0, 0.0], [0.0, 300.0], [300.0, 0.0]])
    value, note = fit_temperature(logits, [1, 0, 1])
    assert value == pytest.approx(20.0)
    assert note is not None
    assert "predicted no better than by chance" in note


@pytest.mark.parametrize(
    ("logits", "labels", "words"),
    [
        (np.zeros((3, 2)), [0, 0, 0], "labels hold only one class in 3 rows; label rows of another class"),
        (np.zeros((3, 2)), [0, 1], r"labels has shape \(2,\); pass one per row, shape \(3,\)"),
        (np.zeros((3, 2)), [0, 1, 2], "labels holds 2 at row 2; pass class numbers from 0 to 1, the columns"),
        (np.zeros((3, 2)), [0, -1, 1], "labels holds -1 at row 1"),
        (np.zeros((3, 2)), ["cat", "dog", "cat"], "labels holds 'cat'; pass class numbers from 0 to 1"),
        (np.zeros((3, 2)), [0.0, 0.5, 1.0], "labels holds '0.5'"),
        (np.zeros((3, 2)), [0, np.nan, 1], "labels holds ''"),
        (np.zeros((3, 2)), [[0], [0, 1], 1], "labels cannot be read as an array"),
        (np.zeros(3), [0, 1, 0], r"logits has shape \(3,\)"),
        (np.zeros((3, 1)), [0, 1, 0], r"logits has shape \(3, 1\)"),
        (np.zeros((0, 2)), [], r"logits has shape \(0, 2\)"),
        (np.array([[0.0, np.inf], [0.0, 1.0]]), [0, 1], "logits holds inf at row 0, column 1"),
        (np.array([[0.0, np.nan], [0.0, 1.0]]), [0, 1], "logits holds nan at row 0, column 1"),
    ],
)
def test_what_cannot_be_fitted_is_refused(logits: FloatArray, labels: object, words: str) -> None:
    with pytest.raises((InvalidArgument, InvalidData), match=words):
        fit_temperature(logits, labels)


POOL = np.random.default_rng(0).standard_normal((120, 3))
LOGITS, LABELS = made(5, n=120, heat=4.0)


def test_a_selection_with_a_temperature_is_that_of_divided_logits() -> None:
    for temperature in (0.5, 3, 2.5):
        found = dubito.select(POOL, 9, labeled=[1, 2], logits=LOGITS, temperature=temperature)
        plain = dubito.select(POOL, 9, labeled=[1, 2], logits=LOGITS / temperature)
        assert found.indices.tolist() == plain.indices.tolist()
        assert found.priorities.tolist() == plain.priorities.tolist()
        assert (found.temperature, plain.temperature) == (temperature, None)
    assert dubito.select(POOL, 9, logits=LOGITS, temperature=1).indices.tolist() == (
        dubito.select(POOL, 9, logits=LOGITS).indices.tolist()
    )


def test_fit_takes_labels_of_the_labeled_rows_or_of_the_whole_pool() -> None:
    rows = np.random.default_rng(7).permutation(120)[:40]
    expected = fit_temperature(LOGITS[rows], LABELS[rows]).value
    scattered = np.full(120, -1)
    scattered[rows] = LABELS[rows]
    mask = np.isin(np.arange(120), rows)
    frame = pd.DataFrame(POOL, index=[f"r{row}" for row in range(120)], columns=list("xyz"))
    shuffled = pd.DataFrame(LOGITS, index=frame.index).iloc[::-1]
    given: list[dict[str, Any]] = [
        {"pool": POOL, "labeled": rows, "labels": LABELS[rows]},
        {"pool": POOL, "labeled": rows.tolist(), "labels": scattered},
        {"pool": POOL, "labeled": mask, "labels": LABELS[np.sort(rows)]},
        {"pool": frame, "labeled": [f"r{row}" for row in rows], "labels": LABELS[rows], "logits": shuffled},
    ]
    for each in given:
        found = dubito.select(budget=5, temperature="fit", **{"logits": LOGITS, **each})
        assert found.temperature == pytest.approx(expected, rel=1e-12)
    pool = dubito.Pool(POOL)
    pool.label(rows=rows)
    again = pool.select(5, logits=LOGITS, temperature="fit", labels=LABELS[pool.labeled])
    assert again.temperature == pytest.approx(expected, rel=1e-12)


def test_what_is_worth_knowing_of_a_fit_is_among_the_notes() -> None:
    logits = np.where(np.eye(4)[LABELS] > 0, 9.0, 0.0)
    found = dubito.select(POOL, 5, labeled=np.arange(30), logits=logits, temperature="fit", labels=LABELS)
    assert found.temperature == 1.0
    assert "all 30 labeled rows are predicted correctly" in found.notes[0]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"temperature": 0.0}, "temperature=0.0 is not allowed; pass a number from 1e-06 to 1e[+]06, or 'fit'."),
        ({"temperature": -1}, "temperature=-1 is not allowed"),
        ({"temperature": np.inf}, "temperature=inf is not allowed"),
        ({"temperature": "fitted"}, "temperature='fitted' is not allowed"),
        ({"temperature": "fit"}, "temperature='fit' needs the classes of labeled rows of the pool; pass labels= and"),
        ({"temperature": "fit", "labels": LABELS, "labeled": POOL[:5]}, "needs the classes of labeled rows of the"),
        ({"temperature": "fit", "labels": LABELS[:7]}, r"labels has shape \(7,\); pass one for each of the 2 labeled"),
        (
            {"temperature": 2.0, "logits": None, "probabilities": np.full((120, 2), 0.5)},
            "needs logits; pass logits= in",
        ),
    ],
)
def test_temperatures_that_cannot_be_meant_are_refused(given: Mapping[str, Any], words: str) -> None:
    if given.get("temperature") == "fit" and "labels" not in given:
        given = {**given, "labeled": [0, 1]}
    with pytest.raises(DubitoError, match=words):
        dubito.select(POOL, 3, **{"logits": LOGITS, "labeled": [0, 1], **given})
