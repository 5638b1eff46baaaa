"""Networks in ONNX files: the numbers of plain onnxruntime on the same batches, and every complaint in one line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from dubito.cli import main
from dubito.embedding.onnx import OnnxPictures
from dubito.embedding.registry import make_embedder
from dubito.embedding.words import unit
from dubito.errors import DubitoError, InvalidArgument, InvalidData, MissingFile

from .conftest import MakeDigits, embed
from .onnx_files import Port, Shape, node, write_onnx

onnxruntime = pytest.importorskip("onnxruntime")
tokenizers = pytest.importorskip("tokenizers")

PICTURES: Shape = ("k", 3, "h", "w")
SPOKEN = "my card has not arrived in days how do i top up euros the exchange rate of looks wrong"
WORDS = ["[PAD]", "[UNK]", *SPOKEN.split()]
RNG = np.random.default_rng(0)
KERNEL = RNG.normal(size=(5, 3, 3, 3)).astype(np.float32)
MEANINGS = RNG.normal(size=(len(WORDS), 6)).astype(np.float32)


def write_conv(path: Path, shape: Shape = PICTURES) -> Path:
    """Pictures to maps (k, 5, h, w), and to the largest values there: rows (k, 5), and tokens (k, 5, w)."""
    nodes = [
        node("Conv", ["pixels", "kernel"], "maps", pads=(1, 1, 1, 1)),
        node("ReduceMax", ["maps"], "rows", axes=(2, 3), keepdims=0),
        node("ReduceMax", ["maps"], "tokens", axes=(2,), keepdims=0),
    ]
    outputs: list[Port] = [
        ("maps", "float32", (shape[0], 5, *shape[2:])),
        ("rows", "float32", (shape[0], 5)),
        ("tokens", "float32", (shape[0], 5, shape[3])),
    ]
    return write_onnx(path, nodes, [("pixels", "float32", shape)], outputs, {"kernel": KERNEL})


def write_same(path: Path, shape: Shape, kind: str = "float32") -> Path:
    """Out comes what went in."""
    return write_onnx(path, [node("Identity", ["x"], "y")], [("x", kind, shape)], [("y", kind, shape)])


def write_words(path: Path, names: tuple[str, ...] = ("input_ids", "attention_mask"), kind: str = "int64") -> Path:
    """Tokens (k, t) to their meanings (k, t, 6), to the mean of all, padding too, and to a number for each text."""
    nodes = [
        node("Gather", ["meanings", names[0]], "tokens"),
        node("ReduceMean", ["tokens"], "rows", axes=(1,), keepdims=0),
        node("ReduceMean", ["tokens"], "numbers", axes=(1, 2), keepdims=0),
    ]
    outputs = [("tokens", "float32", ("k", "t", 6)), ("rows", "float32", ("k", 6)), ("numbers", "float32", ("k",))]
    inputs = [(name, kind, ("k", "t")) for name in names]
    return write_onnx(path, nodes, inputs, outputs, {"meanings": MEANINGS})


def write_tokenizer(path: Path, pad: str = "") -> Path:
    """Words by their places in `WORDS`; numbers are unknown."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    if pad:
        tokenizer.enable_padding(pad_id=WORDS.index(pad), pad_token=pad, length=40)
    tokenizer.save(str(path))
    return path


def write_texts(path: Path, texts: list[str]) -> Path:
    path.write_text("text\n" + "\n".join(texts) + "\n")
    return path


def codes_of(text: str) -> list[int]:
    return [WORDS.index(word) if word in WORDS else 1 for word in text.lower().split()]


def pixels_of(folder: Path, names: list[str]) -> np.ndarray[Any, Any]:
    return np.stack([np.asarray(Image.open(folder / name).convert("RGB")) for name in names])


def run_plainly(path: Path, output: str, **given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.asarray(session.run([output], given)[0])


# Pictures


@pytest.mark.parametrize(
    ("shape", "batch"), [(PICTURES, 4), (("k", 3, 8, 8), 32), ((4, 3, 8, 8), 4), ((4, 3, 8, 8), 7), ((4, 3, 8, 8), 1)]
)
def test_maps_are_averaged_as_plain_onnxruntime_would_have_them(
    tmp_path: Path, make_digits: MakeDigits, shape: Shape, batch: int
) -> None:
    folder, model = make_digits(10), write_conv(tmp_path / "m.onnx", shape)
    sized = {} if shape[2] == 8 else {"size": 8}
    pool = embed(folder, f"onnx:{model}", options={"batch": batch, "threads": 1, **sized})
    mean, std = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)
    given = (pixels_of(folder, pool.ids.tolist()).astype(np.float32) / np.float32(255) - mean) / std
    free = write_conv(tmp_path / "free.onnx")
    maps = run_plainly(free, "maps", pixels=np.ascontiguousarray(given.transpose(0, 3, 1, 2)))
    np.testing.assert_allclose(pool.embedding, maps.mean(axis=(2, 3)), atol=1e-5)
    assert (pool.embedder, pool.width) == (f"onnx:{model}", 5)


def test_another_output_is_taken_by_its_name_and_made_as_long_as_one(tmp_path: Path, make_digits: MakeDigits) -> None:
    folder, model = make_digits(6), write_conv(tmp_path / "m.onnx")
    asked: dict[str, object] = {"size": 8, "output": "rows", "mean": "half", "std": "half"}
    pool = embed(folder, f"onnx:{model}", options=asked)
    given = pixels_of(folder, pool.ids.tolist()).astype(np.float32).transpose(0, 3, 1, 2) / np.float32(127.5) - 1
    rows = run_plainly(model, "rows", pixels=np.ascontiguousarray(given))
    np.testing.assert_allclose(pool.embedding, rows, atol=1e-5)
    ones = embed(folder, f"onnx:{model}", options={**asked, "normalize": "yes"})
    np.testing.assert_allclose(ones.embedding, unit(rows), atol=1e-5)
    assert ones.version == f"{pool.version}, unit"
    tokens = embed(folder, f"onnx:{model}", options={**asked, "output": "tokens"})
    given = run_plainly(model, "tokens", pixels=np.ascontiguousarray(given))
    np.testing.assert_allclose(tokens.embedding, given.mean(axis=1), atol=1e-5)


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("shape", [PICTURES, ("k", "h", "w", 3)])
def test_colors_come_first_or_last_and_in_half_precision_as_the_network_has_them(
    tmp_path: Path, make_digits: MakeDigits, shape: Shape, kind: str
) -> None:
    folder, model = make_digits(5), write_same(tmp_path / "m.onnx", shape, kind)
    pool = embed(folder, f"onnx:{model}", options={"size": 8, "mean": 0, "std": "0.5,1,2"})
    wanted = pixels_of(folder, pool.ids.tolist()).mean(axis=(1, 2)) / 255 / [0.5, 1, 2]
    np.testing.assert_allclose(pool.embedding, wanted, atol=1e-5 if kind == "float32" else 2e-3)


@pytest.mark.parametrize(
    ("shape", "size", "described"),
    [
        (("k", 3, 6, 4), None, "6 x 4"),
        (("k", 4, 6, 3), None, "4 x 6"),
        (("k", 3, "h", 7), None, "7 x 7"),
        (("k", 3, "h", "w"), "5x9", "5 x 9"),
        (("k", 3, "h", "w"), None, "224 x 224"),
    ],
)
def test_pictures_come_in_the_size_that_the_network_takes(
    tmp_path: Path, shape: Shape, size: str | None, described: str
) -> None:
    asked = {"fit": "squash"} if size is None else {"fit": "squash", "size": size}
    made = make_embedder(f"onnx:{write_same(tmp_path / 'm.onnx', shape)}", "pictures", asked)
    assert isinstance(made, OnnxPictures)
    assert f"{described} squash" in made.version
    assert f"{made.framing.height} x {made.framing.width} {made.framing.fit}" == f"{described} squash"


def test_another_file_or_another_frame_is_another_version(tmp_path: Path) -> None:
    one, other = write_conv(tmp_path / "a.onnx", ("k", 3, 8, 8)), write_conv(tmp_path / "b.onnx")
    asked: list[tuple[Path, dict[str, object]]] = [
        (one, {}),
        (other, {"size": 8}),
        (one, {"fit": "squash"}),
        (one, {"std": 1}),
    ]
    versions = [make_embedder(f"onnx:{path}", "pictures", options).version for path, options in asked]
    assert len(set(versions)) == 4


# Texts


@pytest.mark.parametrize("kind", ["int64", "int32"])
@pytest.mark.parametrize(
    "names",
    [
        ("input_ids", "attention_mask"),
        ("input_ids",),
        ("input_ids", "attention_mask", "token_type_ids", "position_ids"),
    ],
)
def test_tokens_are_averaged_over_what_is_no_padding_whatever_the_network_asks_for(
    tmp_path: Path, texts: list[str], names: tuple[str, ...], kind: str
) -> None:
    texts[7] += " the rate looks wrong in euros"
    model = write_words(tmp_path / "m" / "model.onnx", names, kind)
    write_tokenizer(tmp_path / "m" / "tokenizer.json")
    table = write_texts(tmp_path / "t.csv", texts)
    pool = embed(table, f"onnx:{model}", options={"batch": 7})
    means = np.stack([MEANINGS[codes_of(text)].mean(axis=0) for text in texts])
    np.testing.assert_allclose(pool.embedding, unit(means), atol=1e-6)
    plain = embed(table, f"onnx:{model}", options={"normalize": "no", "device": "cpu"})
    np.testing.assert_allclose(plain.embedding, means, atol=1e-6)
    assert pool.version == f"{plain.version}, unit"


def test_the_same_batch_gives_what_plain_onnxruntime_gives(tmp_path: Path, texts: list[str]) -> None:
    model = write_words(tmp_path / "model.onnx")
    write_tokenizer(tmp_path / "tokenizer.json")
    asked = {"output": "rows", "normalize": False}
    pool = embed(write_texts(tmp_path / "t.csv", texts), f"onnx:{model}", options=asked, batch=60)
    codes = [codes_of(text) for text in texts]
    ids = np.array([each + [0] * (max(map(len, codes)) - len(each)) for each in codes], dtype=np.int64)
    rows = run_plainly(model, "rows", input_ids=ids, attention_mask=(ids > 0).astype(np.int64))
    np.testing.assert_array_equal(pool.embedding, rows)


def test_padding_is_the_tokenizer_s_own_and_no_longer_than_the_longest_text(tmp_path: Path) -> None:
    model = write_words(tmp_path / "model.onnx")
    write_tokenizer(tmp_path / "tokenizer.json", pad="wrong")
    asked = {"output": "rows", "normalize": False}
    pool = embed(write_texts(tmp_path / "t.csv", ["my card", "my card looks"]), f"onnx:{model}", options=asked)
    padded = [codes_of("my card wrong"), codes_of("my card looks")]
    np.testing.assert_allclose(pool.embedding, MEANINGS[padded].mean(axis=1), atol=1e-6)


def test_the_first_token_a_limit_and_a_tokenizer_elsewhere_can_be_asked_for(tmp_path: Path, texts: list[str]) -> None:
    model = write_words(tmp_path / "model.onnx")
    place = write_tokenizer(tmp_path / "elsewhere" / "own.json")
    table = write_texts(tmp_path / "t.csv", texts)
    asked: dict[str, object] = {"tokenizer": str(place), "normalize": False}
    first = embed(table, f"onnx:{model}", options={**asked, "pooling": "first"})
    np.testing.assert_allclose(first.embedding, MEANINGS[[codes_of(text)[0] for text in texts]], atol=1e-6)
    short = embed(table, f"onnx:{model}", options={**asked, "tokens": 2})
    wanted = [MEANINGS[codes_of(text)[:2]].mean(axis=0) for text in texts]
    np.testing.assert_allclose(short.embedding, wanted, atol=1e-6)
    assert len({first.version, short.version, embed(table, f"onnx:{model}", options=asked).version}) == 3


# What a person can get wrong


def test_what_is_no_network_for_pictures_or_texts_is_refused(tmp_path: Path, make_digits: MakeDigits) -> None:
    folder = make_digits(2)
    two = [("a", "float32", PICTURES), ("b", "float32", PICTURES)]
    write_onnx(tmp_path / "two.onnx", [node("Add", ["a", "b"], "y")], two, [("y", "float32", PICTURES)])
    write_same(tmp_path / "flat.onnx", ("k", 64))
    write_onnx(
        tmp_path / "number.onnx",
        [node("ReduceMax", ["x"], "y", keepdims=0)],
        [("x", "float32", ("k", 3, 8, 8))],
        [("y", "float32", ())],
    )
    for name, message in [
        ("two", r"takes inputs of shape \['k', 3, 'h', 'w'\]; pass a model of pictures \(k, 3, h, w\) or texts"),
        ("flat", r"takes inputs of shape \['k', 64\]"),
        ("number", r"the model returns an array of shape \(\); name another output"),
    ]:
        with pytest.raises(InvalidData, match=message):
            embed(folder, f"onnx:{tmp_path / name}.onnx")


@pytest.mark.parametrize(("shape", "asked"), [(("k", 3, 8, 8), {"size": 16}), (("k", 1, 8, 8), {})])
def test_pictures_that_the_network_cannot_take_are_one_error(
    tmp_path: Path, make_digits: MakeDigits, shape: Shape, asked: dict[str, object]
) -> None:
    model = write_same(tmp_path / "m.onnx", shape)
    with pytest.raises(InvalidData, match=r"m.onnx cannot take x \(1, 3, \d+, \d+\) \(.*pass options that fit"):
        embed(make_digits(2), f"onnx:{model}", options=asked)


def test_a_tokenizer_that_knows_more_words_than_the_network_is_one_error(tmp_path: Path) -> None:
    nodes = [node("Gather", ["meanings", "input_ids"], "tokens")]
    outputs = [("tokens", "float32", ("k", "t", 6))]
    write_onnx(
        tmp_path / "m.onnx", nodes, [("input_ids", "int64", ("k", "t"))], outputs, {"meanings": MEANINGS[:3].copy()}
    )
    write_tokenizer(tmp_path / "tokenizer.json")
    with pytest.raises(InvalidData, match=r"cannot take input_ids \(2, 3\).*out of data bounds"):
        embed(write_texts(tmp_path / "t.csv", ["my card", "rate looks wrong"]), f"onnx:{tmp_path / 'm.onnx'}")


def test_what_no_tokenizer_gives_is_named(tmp_path: Path) -> None:
    model = write_words(tmp_path / "model.onnx", ("input_ids", "bbox"))
    write_tokenizer(tmp_path / "tokenizer.json")
    with pytest.raises(InvalidData, match="the model needs the input 'bbox', which no tokenizer returns"):
        embed(write_texts(tmp_path / "t.csv", ["a"]), f"onnx:{model}")


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"tokenizer": "gone.json"}, MissingFile, "takes texts, and gone.json does not exist; pass the option"),
        ({"tokenizer": "t.csv"}, InvalidData, "t.csv cannot be read as .csv"),
        ({"output": "numbers"}, InvalidData, r"an array of shape \(1,\); name another output"),
        (
            {"output": "token"},
            InvalidArgument,
            "output='token' is not an output of the model; choose from tokens, rows",
        ),
        ({"pooling": "last"}, InvalidArgument, "pooling='last'"),
        ({"tokens": 1}, InvalidArgument, "tokens=1 is too small"),
        ({"device": "tpu"}, InvalidArgument, "device='tpu'"),
        ({"size": 8}, InvalidArgument, "onnx has no option 'size'"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, object],
    kind: type[DubitoError],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_words(Path("model.onnx"))
    write_tokenizer(Path("tokenizer.json"))
    write_texts(Path("t.csv"), ["my card"])
    with pytest.raises(kind, match=message):
        embed("t.csv", "onnx:model.onnx", options=options)


@pytest.mark.skipif(
    "CUDAExecutionProvider" in onnxruntime.get_available_providers(), reason="there is a GPU, and it would be taken"
)
def test_a_gpu_that_is_not_there_is_no_device(tmp_path: Path, make_digits: MakeDigits) -> None:
    model = write_conv(tmp_path / "m.onnx")
    with pytest.raises(InvalidArgument, match=r"device='cuda' is not available: onnxruntime finds no GPU; install"):
        embed(make_digits(2), f"onnx:{model}", options={"device": "cuda"})


# The command line


def test_the_command_embeds_pictures_and_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_digits: MakeDigits, texts: list[str]
) -> None:
    make_digits(9)
    monkeypatch.chdir(tmp_path)
    write_conv(Path("conv.onnx"))
    write_words(Path("words.onnx"))
    write_tokenizer(Path("tok.json"))
    write_texts(Path("t.csv"), texts)
    sized = ["--option", "size=8", "--option", "mean=half", "--option", "std=half", "--batch", "4"]
    assert main(["embed", "digits", "--embedder", "onnx:conv.onnx", "-o", "p.parquet", *sized]) == 0
    assert main(["embed", "t.csv", "--embedder", "onnx:words.onnx", "--option", "tokenizer=tok.json"]) == 0
    pictures, written = pq.read_table("p.parquet"), pq.read_table("pool.parquet")
    asked: dict[str, object] = {"size": 8, "mean": "half", "std": "half"}
    again = embed("digits", "onnx:conv.onnx", options=asked, batch=4)
    np.testing.assert_array_equal(np.stack(pictures.column("embedding").to_numpy()), again.embedding)
    wanted = unit(np.stack([MEANINGS[codes_of(text)].mean(axis=0) for text in texts]))
    np.testing.assert_allclose(np.stack(written.column("embedding").to_numpy()), wanted, atol=1e-6)
    assert json.loads(written.schema.metadata[b"dubito"])["embedder"] == "onnx:words.onnx"


@pytest.mark.parametrize(
    ("source", "model", "option", "code", "complaint"),
    [
        ("digits", "gone.onnx", "size=8", 2, "onnx:gone.onnx names no file; write onnx: and the path of a model."),
        ("digits", "t.csv", "size=8", 3, "t.csv cannot be read as .csv: it is truncated, damaged or of another format"),
        ("digits", "cut.onnx", "size=8", 3, "cut.onnx cannot be read as .onnx"),
        ("digits", "words.onnx", "tokenizer=tok.json", 2, "takes texts, and the source holds pictures"),
        ("t.csv", "conv.onnx", "size=8", 2, "takes pictures, and the source holds texts"),
        ("t.csv", "words.onnx", "tokens=9", 2, "words.onnx takes texts, and tokenizer.json does not exist"),
        ("digits", "fixed.onnx", "size=9", 3, "onnx:fixed.onnx cannot take pixels (1, 3, 9, 9)"),
        ("digits", "conv.onnx", "sise=8", 2, "onnx has no option 'sise'; did you mean 'size'?"),
        ("digits", "conv.onnx", "std=0", 2, "write one number or three"),
    ],
)
def test_each_complaint_is_one_line_and_nothing_is_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    make_digits: MakeDigits,
    source: str,
    model: str,
    option: str,
    code: int,
    complaint: str,
) -> None:
    make_digits(2)
    monkeypatch.chdir(tmp_path)
    write_words(Path("words.onnx"))
    write_tokenizer(Path("tok.json"))
    write_texts(Path("t.csv"), ["my card"])
    write_conv(Path("fixed.onnx"), ("k", 3, 8, 8))
    whole = write_conv(Path("conv.onnx")).read_bytes()
    Path("cut.onnx").write_bytes(whole[: len(whole) // 2])
    assert main(["embed", source, "--embedder", f"onnx:{model}", "--option", option]) == code
    (said,) = capsys.readouterr().err.splitlines()
    assert complaint in said
    assert not list(Path().glob("pool.parquet*"))
