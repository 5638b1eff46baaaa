"""``timm:NAME``, ``clip:NAME`` and ``sentence:NAME``: the networks people use, by their own packages.

Thin on purpose: the package knows how its pictures and texts go in. Weights come from its hub or a folder of yours.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from dubito.embedding.base import Framing, OptionsLike, Takes
from dubito.embedding.models.devices import DEVICES, find_device, weights_digest
from dubito.embedding.models.torch_functions import TorchEmbedder
from dubito.errors import DubitoError, InvalidArgument, MissingExtra
from dubito.matrix import AnyArray
from dubito.optional import require

ONE = (1.0, 1.0, 1.0)
NONE = (0.0, 0.0, 0.0)


def need(package: str, install: str) -> ModuleType:
    """Import somebody's package, or say how to install it."""
    try:
        return import_module(package)
    except ImportError as error:
        mend = f"install it with: pip install {install}"
        raise MissingExtra(f"{package} is needed here and cannot be imported ({error})", mend=mend) from error


def loaded(name: str, load: Callable[[], Any]) -> Any:
    """What a hub gives; whatever goes wrong there is told with the name that was asked for."""
    try:
        return load()
    except DubitoError:
        raise
    except Exception as error:
        # Broad on purpose: unknown names, no network and damaged weights raise dozens of kinds.
        detail = " ".join(str(error).split())[:300] or type(error).__name__
        mend = "check the name, and that its weights can be had."
        raise InvalidArgument(f"cannot be loaded ({detail})", argument="embedder", value=name, mend=mend) from error


def make_timm(rest: str, options: OptionsLike) -> TorchEmbedder:
    """A network of timm's without its last layer, with the size, mean and deviation it was trained with."""
    timm, name = need("timm", "timm"), f"timm:{rest}"
    device = find_device(options.choice("device", "auto", DEVICES))
    pretrained = options.truth("pretrained", True)
    network = loaded(name, lambda: timm.create_model(rest, pretrained=pretrained, num_classes=0)).eval()
    facts = timm.data.resolve_model_data_config(network)
    size = options.side("size", int(facts["input_size"][-1]))
    fit = options.choice("fit", "crop", ("crop", "squash"))
    mean, std = options.triple("mean", facts["mean"]), options.triple("std", facts["std"])
    version = weights_digest(network)
    framing = Framing(*size, "squash" if fit == "squash" else "crop")
    made = TorchEmbedder(
        name, version, "pictures", 0, options.whole("batch", 32), framing, network.to(device), device, mean, std
    )
    return _measured(made, np.zeros((1, *size, 3), dtype=np.uint8))


def make_clip(rest: str, options: OptionsLike) -> TorchEmbedder:
    """A network of open_clip's: ``ViT-B-32/laion2b_s34b_b79k``, architecture and weights, for pictures or texts."""
    clip, name = need("open_clip", "open_clip_torch"), f"clip:{rest}"
    device = find_device(options.choice("device", "auto", DEVICES))
    architecture, _, weights = rest.partition("/")
    takes: Takes = "texts" if options.choice("takes", "pictures", ("pictures", "texts")) == "texts" else "pictures"
    model = loaded(name, lambda: clip.create_model(architecture, pretrained=weights or None)).eval()
    version, model = weights_digest(model), model.to(device)
    tokenizer = loaded(name, lambda: clip.get_tokenizer(architecture))
    side = getattr(model.visual, "image_size", 224)
    size = options.side("size", int(side[0] if isinstance(side, tuple | list) else side))
    mean = options.triple("mean", (0.48145466, 0.4578275, 0.40821073))
    std = options.triple("std", (0.26862954, 0.26130258, 0.27577711))

    def run(given: Any) -> Any:
        found = model.encode_text(tokenizer(given).to(device)) if takes == "texts" else model.encode_image(given)
        return found / found.norm(dim=-1, keepdim=True)

    framing = Framing(*size, "crop") if takes == "pictures" else None
    made = TorchEmbedder(name, version, takes, 0, options.whole("batch", 32), framing, run, device, mean, std)
    return _measured(made, ["a text"] if takes == "texts" else np.zeros((1, *size, 3), dtype=np.uint8))


def make_sentence(rest: str, options: OptionsLike) -> TorchEmbedder:
    """A network of sentence-transformers'."""
    package, name = need("sentence_transformers", "sentence-transformers"), f"sentence:{rest}"
    device = find_device(options.choice("device", "auto", DEVICES))
    model = loaded(name, lambda: package.SentenceTransformer(rest, device=device))
    version, batch = weights_digest(model), options.whole("batch", 32)

    def run(texts: Sequence[str]) -> Any:
        found = model.encode(list(texts), batch_size=batch, show_progress_bar=False, convert_to_numpy=True)
        return require("torch", extra="torch").from_numpy(np.asarray(found, dtype=np.float32))

    return _measured(TorchEmbedder(name, version, "texts", 0, batch, None, run, device, NONE, ONE), ["a text"])


def _measured(made: TorchEmbedder, trial: AnyArray | Sequence[str]) -> TorchEmbedder:
    """The same with its width, by one trial."""
    from dataclasses import replace

    width = made(trial).shape[1]
    return replace(made, width=width)
