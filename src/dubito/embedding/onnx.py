"""``onnx:FILE``: any ONNX model on disk, for pictures or texts (extra ``onnx``: onnxruntime and tokenizers).

Texts are tokenized by a ``tokenizer.json`` in the model's folder or named by an option; outputs are averaged over the
tokens without padding. Pictures are passed as floats, normalized by the options.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dubito.embedding.embedder import Framing, Options, Takes
from dubito.embedding.networks import DEVICES
from dubito.embedding.words import unit
from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.io.source import reading
from dubito.matrix import AnyArray
from dubito.registry import require

TOKENIZER = "tokenizer.json"
LETTERS_A_TOKEN = 32
"""Letters of a text that are passed to the tokenizer, per token that the model accepts; it would drop the rest."""
GPU, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"


def make_onnx(rest: str, options: Options) -> "OnnxPictures | OnnxTexts":
    """The embedder for a model file; its inputs tell whether it takes pictures or texts."""
    if not os.path.isfile(rest):
        raise MissingFile(f"onnx:{rest} names no file", hint="write onnx: and the path of a model.")
    runtime = require("onnxruntime", extra="onnx")
    session = open_session(runtime, rest, options.choice("device", "auto", DEVICES), options.whole("threads", 0, 0))
    inputs = {each.name: each for each in session.get_inputs()}
    output = _output(session, options.text("output"))
    if "input_ids" in inputs or all("int" in each.type for each in inputs.values()):
        return _texts(rest, session, output, options)
    return _pictures(rest, session, output, options)


def open_session(runtime: Any, path: str, device: str, threads: int) -> Any:
    settings = runtime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 3
    there = runtime.get_available_providers()
    if device == "cuda" and GPU not in there:
        hint = "install onnxruntime-gpu, or leave the device out."
        raise InvalidArgument("is not available: onnxruntime finds no GPU", argument="device", value=device, hint=hint)
    providers = [GPU, CPU] if GPU in there and device != "cpu" else [CPU]
    with reading(path):
        return runtime.InferenceSession(path, settings, providers=providers)


def _output(session: Any, wanted: str) -> str:
    names = [each.name for each in session.get_outputs()]
    if wanted and wanted not in names:
        raise InvalidArgument(
            "is none of the model's", argument="output", value=wanted, hint=f"it has {', '.join(names)}."
        )
    return wanted or str(names[0])


def digest_of(path: str) -> str:
    digest = hashlib.blake2b(digest_size=6)
    with reading(path), open(path, "rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class OnnxTexts:
    name: str
    version: str
    width: int
    batch: int
    session: Any
    output: str
    tokenizer: Any
    pooling: str
    normalize: bool
    letters: int
    """Number of letters of a text that are passed to the tokenizer."""
    takes: Takes = "texts"
    framing: Framing | None = None

    def __call__(self, batch: AnyArray | Sequence[str], /) -> AnyArray:
        tokens = tokens_of(self.tokenizer, [str(text)[: self.letters] for text in batch])
        found = run_model(self.name, self.session, self.output, model_inputs(self.session, tokens))
        rows = pooled(found, tokens["attention_mask"], self.pooling)
        return unit(rows) if self.normalize else rows


def tokens_of(tokenizer: Any, texts: Sequence[str]) -> dict[str, AnyArray]:
    """All inputs that a model may need for some texts, padded to the longest."""
    encoded = tokenizer.encode_batch(list(texts))
    tokens: dict[str, AnyArray] = {
        "input_ids": np.array([each.ids for each in encoded], dtype=np.int64),
        "attention_mask": np.array([each.attention_mask for each in encoded], dtype=np.int64),
        "token_type_ids": np.array([each.type_ids for each in encoded], dtype=np.int64),
    }
    tokens["position_ids"] = np.broadcast_to(np.arange(tokens["input_ids"].shape[1]), tokens["input_ids"].shape)
    return tokens


def model_inputs(session: Any, tokens: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    given: dict[str, AnyArray] = {}
    for each in session.get_inputs():
        if each.name not in tokens:
            raise InvalidData(f"the model wants {each.name!r}, which no tokenizer gives", hint="export it without.")
        given[each.name] = tokens[each.name].astype(np.int32 if "int32" in each.type else np.int64)
    return given


def run_model(name: str, session: Any, output: str, given: Mapping[str, AnyArray]) -> AnyArray:
    """One output of the model as numbers; raises a one-line error if the model rejects the input."""
    try:
        (found,) = session.run([output], dict(given))
        return np.asarray(found, dtype=np.float32)
    except Exception as error:
        # Broad on purpose: the classes that onnxruntime raises have no common base but Exception.
        shapes = ", ".join(f"{each} {values.shape}" for each, values in given.items())
        detail = " ".join(str(error).split())
        hint = "pass options that fit the model, such as size, or export it with free sizes."
        raise InvalidData(f"{name} cannot take {shapes} ({detail[:200]})", hint=hint) from error


def pooled(found: AnyArray, mask: AnyArray | None, pooling: str) -> AnyArray:
    """Rows (k, d) from tokens (k, t, d): the mean over tokens without padding, or the first token; rows are unchanged.

    Examples
    --------
    >>> tokens = np.array([[[1.0], [3.0], [9.0]]])
    >>> pooled(tokens, np.array([[1, 1, 0]]), "mean").tolist(), pooled(tokens, None, "first").tolist()
    ([[2.0]], [[1.0]])
    """
    found = np.asarray(found, dtype=np.float32)
    if found.ndim == 2:
        return found
    if found.ndim != 3:
        raise InvalidData(f"the model gives an array of shape {found.shape}", hint="name another output.")
    if pooling == "first":
        return found[:, 0]
    if mask is None or mask.shape != found.shape[:2]:
        return np.asarray(found.mean(axis=1))
    weights = np.asarray(mask, dtype=np.float32)[:, :, None]
    return np.asarray((found * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1e-9))


def _texts(path: str, session: Any, output: str, options: Options) -> OnnxTexts:
    given = options.text("tokenizer")
    file = given or os.path.join(os.path.dirname(path), TOKENIZER)
    if not os.path.isfile(file):
        raise MissingFile(f"{path} takes texts, and {file} is not there", hint="pass the option tokenizer=FILE.")
    most = options.whole("tokens", 256, 2)
    with reading(file):
        tokenizer = require("tokenizers", extra="onnx").Tokenizer.from_file(file)
        tokenizer.enable_truncation(max_length=most)
        own = tokenizer.padding or {}
        tokenizer.enable_padding(**{name: own[name] for name in ("pad_id", "pad_type_id", "pad_token") if name in own})
    pooling = options.choice("pooling", "mean", ("mean", "first"))
    normalize = options.truth("normalize", True)
    version = f"{digest_of(path)}, tokenizer {digest_of(file)}, {most} tokens, {pooling}{', unit' * normalize}"
    facts = options.whole("batch", 32), session, output, tokenizer, pooling, normalize, LETTERS_A_TOKEN * most
    made = OnnxTexts(f"onnx:{path}", version, 0, *facts)
    return replace(made, width=made(["a text"]).shape[1])


@dataclass(frozen=True, eq=False)
class OnnxPictures:
    name: str
    version: str
    width: int
    batch: int
    framing: Framing
    session: Any
    output: str
    mean: AnyArray
    std: AnyArray
    channels_first: bool
    fixed: int | None
    """The batch size if the model accepts only one; else None."""
    normalize: bool
    takes: Takes = "pictures"

    def __call__(self, batch: AnyArray | Sequence[str], /) -> AnyArray:
        pictures = np.asarray(batch)
        step = self.fixed or len(pictures)
        rows = np.concatenate([self._run(pictures[at : at + step]) for at in range(0, len(pictures), step)])
        return unit(rows) if self.normalize else rows

    def _run(self, pictures: AnyArray) -> AnyArray:
        given = (pictures.astype(np.float32) / np.float32(255) - self.mean) / self.std
        if self.fixed is not None and len(given) < self.fixed:
            given = np.concatenate([given, np.zeros((self.fixed - len(given), *given.shape[1:]), np.float32)])
        given = np.ascontiguousarray(given.transpose(0, 3, 1, 2)) if self.channels_first else given
        entry = self.session.get_inputs()[0]
        given = given.astype(np.float16) if "float16" in entry.type else given
        found = run_model(self.name, self.session, self.output, {entry.name: given})
        if found.ndim == 4:
            found = found.mean(axis=(2, 3) if self.channels_first else (1, 2))
        return pooled(found, None, "mean")[: len(pictures)]


def _pictures(path: str, session: Any, output: str, options: Options) -> OnnxPictures:
    shape = session.get_inputs()[0].shape
    if len(shape) != 4 or len(session.get_inputs()) != 1:
        raise InvalidData(f"{path} takes inputs of shape {shape}", hint="pictures (k, 3, h, w) or texts are wanted.")
    first = shape[1] == 3 or shape[3] != 3
    high, wide = shape[2:] if first else shape[1:3]
    side = next((each for each in (high, wide) if isinstance(each, int)), 224)
    own = (high if isinstance(high, int) else side, wide if isinstance(wide, int) else side)
    size = options.side("size", own)
    fit = options.choice("fit", "crop", ("crop", "squash"))
    mean, std = options.triple("mean", (0.485, 0.456, 0.406)), options.triple("std", (0.229, 0.224, 0.225))
    normalize = options.truth("normalize", False)
    version = f"{digest_of(path)}, {size[0]} x {size[1]} {fit}, mean {mean}, std {std}{', unit' * normalize}"
    fixed = shape[0] if isinstance(shape[0], int) else None
    framing = Framing(*size, "squash" if fit == "squash" else "crop")
    facts = framing, session, output, np.array(mean, np.float32), np.array(std, np.float32), first, fixed, normalize
    made = OnnxPictures(f"onnx:{path}", version, 0, options.whole("batch", 32), *facts)
    return replace(made, width=made(np.zeros((1, *size, 3), dtype=np.uint8)).shape[1])
