"""``timm:NAME``, ``clip:NAME`` and ``sentence:NAME``: pretrained networks of timm, open_clip and sentence_transformers.

Thin wrappers: each package prepares pictures and texts itself. Weights come from its hub or from a local folder.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from dubito.embedding.embedder import Framing, Options, Takes
from dubito.errors import PASS, DubitoError, InvalidArgument, InvalidData, MissingExtra, named
from dubito.matrix import AnyArray
from dubito.registry import import_object, require
from dubito.request.arrays import check_choice

# Shared by all torch networks: the device, the conversion of pictures to input, and of output to rows.

DEVICES = ("auto", "cpu", "cuda")


def find_device(device: str) -> str:
    """``cpu`` or ``cuda``; ``auto`` is a GPU where torch finds one."""
    torch = require("torch", extra="torch")
    wanted = check_choice("device", device, DEVICES)
    there = bool(torch.cuda.is_available())
    if wanted == "cuda" and not there:
        hint = f"{PASS} {named('device', 'cpu')}."
        raise InvalidArgument("is not available: torch finds no GPU", argument="device", value="cuda", hint=hint)
    return "cuda" if there and wanted != "cpu" else "cpu"


def normalized(pictures: AnyArray, mean: tuple[float, ...], std: tuple[float, ...], device: str) -> Any:
    """Bytes (k, h, w, 3) as a float tensor (k, 3, h, w) in a network's units, on its device."""
    torch = require("torch", extra="torch")
    batch = torch.from_numpy(np.ascontiguousarray(pictures)).to(device).permute(0, 3, 1, 2).float().div_(255)
    return batch.sub_(torch.tensor(mean, device=device)[:, None, None]).div_(
        torch.tensor(std, device=device)[:, None, None]
    )


def as_rows(found: Any, name: str) -> AnyArray:
    """The output of a network as rows (k, d): maps (k, d, h, w) and tokens (k, t, d) are averaged."""
    found = found[0] if isinstance(found, tuple | list) else found
    if not hasattr(found, "detach") or found.ndim not in (2, 3, 4):
        shape = tuple(getattr(found, "shape", ()))
        raise InvalidData(f"{name} gives {type(found).__name__} {shape}", hint="a tensor (k, d) is wanted.")
    found = found.detach().float()
    found = found.mean(dim=(2, 3)) if found.ndim == 4 else found.mean(dim=1) if found.ndim == 3 else found
    rows: AnyArray = found.cpu().numpy()
    return rows


def weights_digest(network: Any) -> str:
    """A digest of all weights of a torch network; empty if it has none."""
    if not hasattr(network, "state_dict"):
        return ""
    digest = hashlib.blake2b(digest_size=6)
    for name, tensor in network.state_dict().items():
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        plain = tensor.detach().cpu().contiguous().flatten()
        digest.update(plain.view(require("torch", extra="torch").uint8).numpy().tobytes())
    return digest.hexdigest()


# ``torch:module.function``: a network of the user's own. The function is called once, without arguments, and returns
# the network. The network is then called with batches, and returns a row of numbers per item.
#
# The batch is a float tensor (k, 3, h, w) on the network's device, or a list of texts where the option ``takes`` says
# so.

Triple = tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class TorchEmbedder:
    name: str
    version: str
    takes: Takes
    width: int
    batch: int
    framing: Framing | None
    network: Any
    device: str
    mean: Triple
    std: Triple

    def __call__(self, batch: AnyArray | Sequence[str], /) -> AnyArray:
        with require("torch", extra="torch").inference_mode():
            if isinstance(batch, np.ndarray):
                return as_rows(self.network(normalized(batch, self.mean, self.std, self.device)), self.name)
            return as_rows(self.network(list(batch)), self.name)


def make_torch(rest: str, options: Options) -> TorchEmbedder:
    """The network that a function returns, in evaluation mode; its width is measured on one batch."""
    require("torch", extra="torch")
    function = import_object("embedder", rest)
    if not callable(function):
        raise InvalidArgument(
            "leads to nothing that can be called", argument="embedder", value=rest, hint="name a function."
        )
    network, name = function(), f"torch:{rest}"
    if not callable(network):
        problem = f"returns {type(network).__name__}, which cannot be called with a batch"
        raise InvalidArgument(problem, argument="embedder", value=name, hint="return a network.")
    takes: Takes = "texts" if options.choice("takes", "pictures", ("pictures", "texts")) == "texts" else "pictures"
    device, version = find_device(options.choice("device", "auto", DEVICES)), weights_digest(network)
    if hasattr(network, "eval") and hasattr(network, "to"):
        network = network.eval().to(device)
    mean, std = options.triple("mean", (0.485, 0.456, 0.406)), options.triple("std", (0.229, 0.224, 0.225))
    size, fit = options.side("size", 224), options.choice("fit", "crop", ("crop", "squash"))
    framing = None if takes == "texts" else Framing(*size, "squash" if fit == "squash" else "crop")
    batch = options.whole("batch", 32)
    made = TorchEmbedder(name, version or "unknown", takes, 0, batch, framing, network, device, mean, std)
    return _measured(made, ["a text"] if takes == "texts" else np.zeros((1, *size, 3), dtype=np.uint8))


UNIT_STD = (1.0, 1.0, 1.0)
ZERO_MEAN = (0.0, 0.0, 0.0)


def need(package: str, install: str) -> ModuleType:
    """Import a third-party package; the error says how to install it."""
    try:
        return import_module(package)
    except ImportError as error:
        hint = f"install it with: pip install {install}"
        raise MissingExtra(f"{package} is needed here and cannot be imported ({error})", hint=hint) from error


def loaded(name: str, load: Callable[[], Any]) -> Any:
    """Load from a model hub; errors name the requested model."""
    try:
        return load()
    except DubitoError:
        raise
    except Exception as error:
        # Broad on purpose: unknown names, no network and damaged weights raise dozens of kinds.
        detail = " ".join(str(error).split())[:300] or type(error).__name__
        hint = "check the name, and that its weights can be had."
        raise InvalidArgument(f"cannot be loaded ({detail})", argument="embedder", value=name, hint=hint) from error


def make_timm(rest: str, options: Options) -> TorchEmbedder:
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


def make_clip(rest: str, options: Options) -> TorchEmbedder:
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


def make_sentence(rest: str, options: Options) -> TorchEmbedder:
    package, name = need("sentence_transformers", "sentence-transformers"), f"sentence:{rest}"
    device = find_device(options.choice("device", "auto", DEVICES))
    model = loaded(name, lambda: package.SentenceTransformer(rest, device=device))
    version, batch = weights_digest(model), options.whole("batch", 32)

    def run(texts: Sequence[str]) -> Any:
        found = model.encode(list(texts), batch_size=batch, show_progress_bar=False, convert_to_numpy=True)
        return require("torch", extra="torch").from_numpy(np.asarray(found, dtype=np.float32))

    return _measured(
        TorchEmbedder(name, version, "texts", 0, batch, None, run, device, ZERO_MEAN, UNIT_STD), ["a text"]
    )


def _measured(made: TorchEmbedder, trial: AnyArray | Sequence[str]) -> TorchEmbedder:
    """The same with its width, which was 0 so far, measured on one batch."""
    return replace(made, width=made(trial).shape[1])
