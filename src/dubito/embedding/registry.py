"""Embedders by name: built-in ones, and those of other packages, by the entry-point group ``dubito.embedders``."""

from collections.abc import Mapping
from importlib.util import find_spec

from dubito.embedding.embedder import Embedder, LearningEmbedder, Maker, Options, Takes
from dubito.embedding.networks import make_clip, make_sentence, make_timm, make_torch
from dubito.embedding.onnx import make_onnx
from dubito.embedding.pixels import make_pixels
from dubito.embedding.words import make_words
from dubito.errors import PASS, InvalidArgument, named
from dubito.registry import Registry

BUILT_IN: dict[str, Maker] = {
    "pixels": make_pixels,
    "words": make_words,
    "onnx": make_onnx,
    "timm": make_timm,
    "clip": make_clip,
    "sentence": make_sentence,
    "torch": make_torch,
}
EMBEDDERS = Registry("dubito.embedders", BUILT_IN)
NEEDS_NAME = ("onnx", "timm", "clip", "sentence", "torch")
"""Built-in embedders whose spec names a file, a model or a function after a colon, such as ``onnx:FILE``."""
AUTO: dict[Takes, str] = {"pictures": "pixels", "texts": "words"}
BETTER: dict[Takes, tuple[tuple[str, str, str], ...]] = {
    "pictures": (
        ("timm", "timm:mobilenetv3_small_100", "timm"),
        ("open_clip", "clip:ViT-B-32/laion2b_s34b_b79k", "open_clip_torch"),
    ),
    "texts": (("sentence_transformers", "sentence:all-MiniLM-L6-v2", "sentence-transformers"),),
}
"""Networks better than `AUTO`: the package to import, the embedder, and the name to pip install."""


def make_embedder(spec: str, takes: Takes, options: Mapping[str, object]) -> Embedder | LearningEmbedder:
    """The embedder of that name; raises if it embeds a different kind of item."""
    if not isinstance(spec, str):
        raise InvalidArgument("is not a name", argument="embedder", value=spec, hint=f"{PASS} text such as 'pixels'.")
    name, _, rest = (AUTO[takes] if spec == "auto" else spec).partition(":")
    maker = EMBEDDERS.find("embedder", name)
    if name in NEEDS_NAME and not rest:
        kind, part = {"onnx": ("file", "FILE"), "torch": ("function", "module.function")}.get(name, ("model", "NAME"))
        raise InvalidArgument(f"names no {kind}", argument="embedder", value=spec, hint=f"write {name}:{part}.")
    if name in BUILT_IN and name not in NEEDS_NAME and rest:
        problem = f"has text after the colon, which {name} does not use"
        raise InvalidArgument(problem, argument="embedder", value=spec, hint=f"write just {name}.")
    parsed = Options(name, options)
    made = maker(rest, parsed)
    parsed.reject_unused()
    if made.takes != takes:
        problem = f"takes {made.takes}, and the source holds {takes}"
        hint = f"{PASS} {named('embedder')} {AUTO[takes]}, or another for {takes}."
        raise InvalidArgument(problem, argument="embedder", value=spec, hint=hint)
    return made


def advice(takes: Takes) -> str:
    """A note that names better embedders than the default one, and how to install those that are missing."""
    installed = [spec for package, spec, _ in BETTER[takes] if find_spec(package) is not None]
    to_install = [f"{spec} (pip install {name})" for package, spec, name in BETTER[takes] if find_spec(package) is None]
    onnx = ["onnx:FILE" if find_spec("onnxruntime") else "onnx:FILE (pip install 'dubito[onnx]')"]
    default = "their pixels, which suit only simple pictures" if takes == "pictures" else "their words"
    better = " or ".join(installed + onnx + to_install)
    return f"{takes} are embedded by {default}; a network gives better embeddings: try the embedder {better}"
