"""The embedders: what each makes of its batch, and what changes its version."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dubito.embedding.embedder import Framing, LearningEmbedder, Options, Takes
from dubito.embedding.onnx import pooled
from dubito.embedding.registry import BUILT_IN, EMBEDDERS, advice, make_embedder
from dubito.embedding.words import WordsLearner
from dubito.errors import DubitoError, InvalidArgument, InvalidData
from dubito.matrix import AnyArray

from .conftest import MakeDigits, embed


def test_every_embedder_has_a_name_and_none_is_made_for_that() -> None:
    assert tuple(BUILT_IN) == EMBEDDERS.names()[: len(BUILT_IN)]
    made = make_embedder("auto", "texts", {}), make_embedder("auto", "pictures", {})
    assert [each.name for each in made] == ["words", "pixels"]
    assert all(isinstance(each, LearningEmbedder) for each in made)
    assert "try the embedder " in advice("texts")
    assert "sentence:all-MiniLM-L6-v2" in advice("texts")


def sized(folder: Path, sizes: list[tuple[int, int]], mode: str = "RGB") -> Path:
    folder.mkdir()
    for number, size in enumerate(sizes):
        Image.new(mode, size, 255).save(folder / f"{number}.png")
    return folder


@pytest.mark.parametrize(
    ("sizes", "mode", "width"),
    [
        ([(8, 6)] * 3, "L", 48),
        ([(8, 6)] * 3, "RGB", 144),
        ([(8, 6), (6, 8)], "L", 32 * 32),
        ([(100, 80)] * 2, "RGB", 32 * 32 * 3),
        ([(100, 8)] * 2, "L", 32 * 32),
    ],
)
def test_small_pictures_of_one_size_are_taken_as_they_are(
    tmp_path: Path, sizes: list[tuple[int, int]], mode: str, width: int
) -> None:
    pool = embed(sized(tmp_path / "p", sizes, mode))
    assert pool.width == width
    np.testing.assert_allclose(pool.embedding, 1.0 if mode == "L" else pool.embedding[:1].repeat(len(sizes), 0))


def test_the_size_can_be_said(make_digits: MakeDigits) -> None:
    pool = embed(make_digits(4), "pixels", options={"size": "4x2"})
    assert pool.width == 8
    assert "4 x 2 x 1" in pool.version


def test_words_know_what_they_were_taught(texts: list[str]) -> None:
    learner = WordsLearner()
    first, again = (learner.ready(learner.learn(lambda: iter(texts))) for _ in range(2))
    other = learner.ready(learner.learn(lambda: iter(texts[:30])))
    assert first.version == again.version != other.version
    np.testing.assert_array_equal(first(texts[:9]), again(texts[:9]))
    np.testing.assert_allclose(first(texts[4:5]), first(texts)[4:5], atol=1e-6)
    assert first.width <= 256
    assert not first(["zzzz qqqq"]).any()


@pytest.mark.parametrize("contents", [["a"], ["?!", "..."], ["one word"] * 5, [None, "", "a b c"]])
def test_very_few_words_are_enough(contents: list[str | None]) -> None:
    learner = WordsLearner()
    ready = learner.ready(learner.learn(lambda: iter(contents)))
    rows = ready([text for text in contents if text])
    assert rows.shape == (sum(bool(text) for text in contents), ready.width)
    assert np.isfinite(rows).all()


def test_fewer_directions_can_be_asked_for(tmp_path: Path, texts: list[str]) -> None:
    (tmp_path / "t.csv").write_text("text\n" + "\n".join(texts) + "\n")
    assert embed(tmp_path / "t.csv", options={"width": 7}).width == 7


NETWORKS = """
import torch

def tiny():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3, padding=1), torch.nn.ReLU())

def other():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3, padding=1), torch.nn.ReLU())

def lengths():
    return lambda texts: torch.tensor([[float(len(text)), 1.0] for text in texts])

def flat():
    return lambda pictures: pictures.sum()

def nothing():
    return 3
"""


@pytest.fixture
def networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_embedders.py").write_text(NETWORKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_embedders", raising=False)


@pytest.mark.usefixtures("networks")
def test_a_network_of_ones_own_embeds_pictures(make_digits: MakeDigits) -> None:
    folder = make_digits(10)
    asked = {"size": 8, "mean": "half", "std": "half", "fit": "squash", "device": "cpu"}
    pool = embed(folder, "torch:own_embedders.tiny", options=asked)
    import torch

    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3, padding=1), torch.nn.ReLU())
    pixels = np.stack([np.asarray(Image.open(folder / name).convert("RGB")) for name in pool.ids.tolist()])
    with torch.inference_mode():
        wanted = network(torch.tensor(pixels / 127.5 - 1, dtype=torch.float32).permute(0, 3, 1, 2)).mean(dim=(2, 3))
    np.testing.assert_allclose(pool.embedding, wanted.numpy(), atol=1e-5)
    other = embed(folder, "torch:own_embedders.other", options=asked)
    assert other.version != pool.version


@pytest.mark.usefixtures("networks")
def test_a_network_of_ones_own_embeds_texts_in_their_order(tmp_path: Path, texts: list[str]) -> None:
    (tmp_path / "t.csv").write_text("text\n" + "\n".join(texts) + "\n")
    asked = {"takes": "texts", "batch": 7}
    pool = embed(tmp_path / "t.csv", "torch:own_embedders.lengths", options=asked)
    assert pool.embedding[:, 0].tolist() == [len(text) for text in texts]


@pytest.mark.usefixtures("networks")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("torch:own_embedders.gone", "own_embedders has no gone"),
        ("torch:no_such_module.x", "cannot be imported"),
        ("torch:own_embedders.nothing", "returns int, which cannot be called"),
        ("torch:own_embedders.flat", r"return a tensor \(k, d\)"),
    ],
)
def test_what_is_no_network_is_refused(make_digits: MakeDigits, name: str, message: str) -> None:
    with pytest.raises(DubitoError, match=message):
        embed(make_digits(2), name, options={"size": 8})


def test_token_outputs_are_averaged_over_what_is_no_padding() -> None:
    tokens = np.arange(12, dtype=np.float64).reshape(2, 3, 2)
    mask = np.array([[1, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(pooled(tokens, mask, "mean"), [[1, 2], [6, 7]])
    np.testing.assert_array_equal(pooled(tokens, mask, "first"), [[0, 1], [6, 7]])
    np.testing.assert_array_equal(pooled(tokens[:, 0], None, "mean"), tokens[:, 0])
    np.testing.assert_array_equal(pooled(tokens, mask[:, :2], "mean"), tokens.mean(axis=1))
    with pytest.raises(InvalidData, match="another output"):
        pooled(np.zeros(3), None, "mean")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("mean", "1,2", "one number or three"),
        ("std", "0", "one number"),
        ("size", "3x4x5", "224x320"),
        ("yes", "x", "yes"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(name: str, value: str, message: str) -> None:
    options = Options("onnx", {name: value})
    readers: dict[str, Callable[[], object]] = {
        "size": lambda: options.side("size", 224),
        "yes": lambda: options.truth("yes", True),
    }
    read: Callable[[], object] = readers.get(name, lambda: options.triple(name, (1.0,)))
    with pytest.raises(InvalidArgument, match=message):
        read()


@dataclass(frozen=True)
class TooWide:
    """Says that it is two wide, and is three."""

    name: str = "wide"
    version: str = "1"
    takes: Takes = "texts"
    width: int = 2
    batch: int = 4
    framing: Framing | None = None

    def __call__(self, batch: AnyArray | Sequence[str], /) -> AnyArray:
        return np.zeros((len(batch), 3))


def test_an_embedder_of_another_width_than_it_says_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: list[str]
) -> None:
    (tmp_path / "t.csv").write_text("text\n" + "\n".join(texts) + "\n")

    monkeypatch.setitem(BUILT_IN, "wide", lambda rest, options: TooWide())
    with pytest.raises(DubitoError, match=r"returns an array of shape \(4, 3\) for 4 items, and its width is 2"):
        embed(tmp_path / "t.csv", "wide")
