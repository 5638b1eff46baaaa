"""Doubt of tensors has the bits of doubt of arrays: on a GPU where there is one, otherwise with tensors on the CPU."""

from typing import Any

import numpy as np
import pytest

import dubito
from dubito.doubt.measures import Softmax, doubt_from_logits, doubt_from_probabilities, margin_doubt, softmax
from dubito.matrix import AnyArray, OnDevice

torch = pytest.importorskip("torch")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def scores(n_classes: int, dtype: str) -> AnyArray:
    logits: AnyArray = (5.0 * np.random.default_rng(n_classes).standard_normal((300, n_classes))).astype(dtype)
    logits[0], logits[1] = 0.0, -0.0
    logits[2, 1] = 2.0 * np.abs(logits[2]).max()
    return logits


def on_device(array: AnyArray) -> OnDevice:
    return OnDevice(torch.tensor(array, device=DEVICE))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("n_classes", [2, 3, 7, 8, 10, 33, 200])
def test_doubt_of_tensors_has_the_bits_of_the_host(n_classes: int, dtype: str) -> None:
    logits = scores(n_classes, dtype)
    probabilities = softmax(logits).astype(dtype)
    assert doubt_from_logits(on_device(logits)).tobytes() == doubt_from_logits(logits).tobytes()
    found = doubt_from_probabilities(on_device(probabilities))
    assert found.tobytes() == doubt_from_probabilities(probabilities).tobytes()
    assert margin_doubt(on_device(probabilities)).tobytes() == margin_doubt(probabilities).tobytes()
    assert margin_doubt(Softmax(on_device(logits))).tobytes() == margin_doubt(Softmax(logits)).tobytes()


def test_doubt_does_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dubito.doubt.device.BLOCK_VALUES", 64)
    logits = scores(9, "float32")
    assert doubt_from_logits(on_device(logits)).tobytes() == doubt_from_logits(logits).tobytes()
    assert margin_doubt(Softmax(on_device(logits))).tobytes() == margin_doubt(Softmax(logits)).tobytes()


needs_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="there is no NVIDIA GPU")


@needs_gpu
@pytest.mark.parametrize("strategy", ["doubt-coreset", "doubt-coverage", "margin", "entropy", "badge"])
@pytest.mark.parametrize("source", ["logits", "probabilities"])
def test_strategies_pick_the_same_for_tensors_on_the_gpu(strategy: str, source: str) -> None:
    logits = scores(10, "float32")
    predictions = logits if source == "logits" else softmax(logits)
    pool = np.random.default_rng(1).standard_normal((300, 8))
    given: dict[str, Any] = {"labeled": range(10), "strategy": strategy}
    found, expected = (
        dubito.select(pool, 20, **(given | {source: each}))
        for each in (torch.tensor(predictions, device="cuda"), predictions)
    )
    assert found.indices.tolist() == expected.indices.tolist()
    assert found.priorities.tobytes() == expected.priorities.tobytes()


@needs_gpu
def test_a_temperature_divides_logits_on_the_gpu() -> None:
    logits, pool = scores(10, "float32"), np.random.default_rng(1).standard_normal((300, 8))
    given: dict[str, Any] = {"labeled": range(100), "labels": np.arange(100) % 10, "temperature": "fit"}
    found, expected = (
        dubito.select(pool, 20, logits=each, strategy="doubt-coreset", **given)
        for each in (torch.tensor(logits, device="cuda"), logits)
    )
    assert found.temperature == expected.temperature
    assert found.priorities.tobytes() == expected.priorities.tobytes()


@needs_gpu
@pytest.mark.parametrize(
    ("source", "wrong", "problem"),
    [
        ("probabilities", [[0.5, 0.6]], r"sum to 1.1 at row 0"),
        ("probabilities", [[1.5, -0.5]], r"holds -0.5 at row 0"),
        ("probabilities", [[float("nan"), 0.5]], r"holds nan at row 0"),
        ("logits", [[0.5, 0.5], [0.25, 0.75]], r"are probabilities"),
    ],
)
def test_wrong_predictions_on_the_gpu_are_named(source: str, wrong: list[list[float]], problem: str) -> None:
    given: dict[str, Any] = {source: torch.tensor(wrong, device="cuda")}
    with pytest.raises(dubito.errors.InvalidData, match=problem):
        dubito.select(np.eye(len(wrong)), 1, **given)
