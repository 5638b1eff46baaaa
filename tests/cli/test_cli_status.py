"""``dubito status``: labels, model, last batch and advice, in words and as JSON."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import dubito

from .conftest import Program

DIGITS, ANSWERS = load_digits(n_class=4, return_X_y=True)
DIGITS = DIGITS[:, ::4]
N = 200
ROWS = np.random.default_rng(2).permutation(N)[:80]


def write(path: str, rows: np.ndarray, labels: list[str] | None = None) -> None:
    said = [str(ANSWERS[row]) for row in rows] if labels is None else labels
    lines = [f"{row},{label}" for row, label in zip(rows.tolist(), said, strict=True)]
    Path(path).write_text("\n".join(["index,label", *lines]) + "\n")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("pool.npy", DIGITS[:N])
    write("one.csv", ROWS[:50])
    write("two.csv", ROWS[50:])


def test_the_last_batch_is_named_before_it_is_seen(run: Program) -> None:
    ran = run("status", "pool.npy", "--labeled", "one.csv", "--labeled", "two.csv", "--json")
    assert ran.code == 0
    described = json.loads(ran.out)
    before = dubito.fit(DIGITS[:N], ANSWERS[ROWS[:50]], labeled=ROWS[:50])
    right = int((before.predicted[ROWS[50:]] == ANSWERS[ROWS[50:]]).sum())
    assert (described["last_batch"]["right"], described["last_batch"]["of"]) == (right, 30)
    everything = dubito.fit(DIGITS[:N], ANSWERS[ROWS], labeled=ROWS)
    assert everything.tested is not None
    assert described["held_out"]["right"] == everything.tested.right
    assert described["classes"] == {str(digit): int((ANSWERS[ROWS] == digit).sum()) for digit in range(4)}
    rest = np.setdiff1d(np.arange(N), ROWS)
    assert everything.doubt is not None
    assert described["expected"] == pytest.approx(1.0 - everything.doubt[rest].mean())
    assert described["advice"].startswith("go on")


def test_more_labels_cover_more(run: Program) -> None:
    def covered(*files: str) -> float:
        given = [word for name in files for word in ("--labeled", name)]
        return float(json.loads(run("status", "pool.npy", *given, "--json").out)["covered"])

    write("all.csv", np.arange(N))
    assert 0.0 == covered() < covered("one.csv") < covered("one.csv", "two.csv") < covered("all.csv") == 1.0
    assert f"covered     {covered('one.csv'):.1%} of the pool" in run("status", "pool.npy", "--labeled", "one.csv").out


def test_the_accuracy_is_estimated_from_rows_drawn_at_random(run: Program) -> None:
    lines = [f"{row},{ANSWERS[row]},{int(place < 20)}" for place, row in enumerate(ROWS.tolist())]
    Path("marked.csv").write_text("\n".join(["index,label,drawn", *lines]) + "\n")
    described = json.loads(run("status", "pool.npy", "--labeled", "marked.csv", "--json").out)["estimate"]
    assert (described["n_drawn"], described["n_unlabeled"]) == (20, N - len(ROWS))
    assert described["low"] < described["value"] <= described["high"]
    words = run("status", "pool.npy", "--labeled", "marked.csv", "-q").out
    share = f"{described['value']:.1%} ({described['low']:.1%} to {described['high']:.1%})"
    assert f"accuracy    {share} of the 120 unlabeled rows, estimated from 20 labels drawn at random" in words
    Path("marked.csv").write_text(Path("marked.csv").read_text().replace(",1\n", ",often\n", 1))
    refused = run("status", "pool.npy", "--labeled", "marked.csv", "-q")
    assert refused.code == 3
    assert "marked.csv has 'often' in drawn" in refused.err


def test_without_random_rows_the_accuracy_on_the_others_is_unknown(run: Program) -> None:
    words = run("status", "pool.npy", "--labeled", "one.csv", "--labeled", "two.csv", "-q").out
    assert "accuracy    unknown: the labels were chosen" in words
    described = json.loads(run("status", "pool.npy", "--labeled", "one.csv", "--labeled", "two.csv", "--json").out)
    assert described["estimate"] is None
    assert described["change"]["labels"] == 30
    assert f"the last 30 labels changed {described['change']['changed']} predictions" in words


def test_words_say_the_same(run: Program) -> None:
    ran = run("status", "pool.npy", "--labeled", "one.csv", "--labeled", "two.csv", "-q")
    assert "labeled     80 of 200 rows: " in ran.out
    assert "model       linear model, 80 labels of 4 classes, right on " in ran.out
    assert "predicted correctly before the model was trained on them" in ran.out
    assert "the rest    by its own probabilities, the model is right on " in ran.out
    assert "advice      go on" in ran.out
    alone = run("status", "pool.npy", "--labeled", "one.csv", "-q")
    assert "last batch" not in alone.out


@pytest.mark.parametrize(
    ("rows", "labels", "words"),
    [
        (ROWS[:5], ["a"] * 5, "label until at least two classes have labels"),
        (ROWS[:6], ["a", "b"] * 3, "6 labels are too few to tell"),
        (ROWS[:40], ["a", "b"] * 19 + ["a", "c"], "1 of 3 classes have one label only"),
    ],
)
def test_advice_is_careful_where_little_is_known(rows: np.ndarray, labels: list[str], words: str, run: Program) -> None:
    write("few.csv", rows, labels)
    described = json.loads(run("status", "pool.npy", "--labeled", "few.csv", "--json", "-q").out)
    assert words in described["advice"]
    assert described["last_batch"] is None


def test_a_pool_whose_rows_are_all_labeled_is_reported_so(run: Program) -> None:
    n_rows = len(np.load("pool.npy"))
    write("all.csv", np.arange(n_rows), ["a", "b"] * (n_rows // 2))
    assert json.loads(run("status", "pool.npy", "--labeled", "all.csv", "--json", "-q").out)["advice"] == (
        "every row is labeled."
    )


def test_a_pool_without_labels_is_reported_so(run: Program) -> None:
    described = json.loads(run("status", "pool.npy", "--json", "-q").out)
    assert described["labels"] == 0
    assert described["held_out"] is None
    assert described["notes"] == ["nothing is labeled yet, so this is a cold start."]


def test_easy_classes_may_be_done_but_a_random_sample_is_advised(run: Program) -> None:
    rng = np.random.default_rng(0)
    codes = np.arange(300) % 2
    np.save("easy.npy", rng.normal(size=(300, 5)) + 20.0 * codes[:, None])
    write("easy.csv", np.arange(200), ["x" if code else "y" for code in codes[:200]])
    described = json.loads(run("status", "easy.npy", "--labeled", "easy.csv", "--json", "-q").out)
    assert "further labels may teach little" in described["advice"]
    assert "--strategy random" in described["advice"]


def test_labeled_rows_without_classes_are_an_error(run: Program) -> None:
    Path("pool.csv").write_text("id,x\n" + "".join(f"{number},{number / 7}\n" for number in range(20)))
    Path("first.csv").write_text("id,quality\n1,good\n2,bad\n3,good\n")
    refused = run("status", "pool.csv", "--labeled", "first.csv")
    assert refused.code == 2
    assert "first.csv mark rows as labeled, but do not say their classes; add a column label, or" in refused.complaint
    assert run("status", "pool.csv", "--labeled", "first.csv", "--label-column", "quality").code == 0
