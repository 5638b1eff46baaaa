"""A source that has changed is embedded again only where it is new, with what the embedder learned before."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dubito.cli import main
from dubito.embedding import reuse
from dubito.embedding.pixels import Pixels
from dubito.embedding.source import Embedded
from dubito.embedding.words import Words
from dubito.errors import InvalidData
from dubito.io import read_pool

from .conftest import MakeDigits, embed


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all batches that were embedded."""
    sizes: list[int] = []
    for kind in (Pixels, Words):

        def call(self: object, batch: Sequence[str], real: Callable[..., object] = kind.__call__) -> object:
            sizes.append(len(batch))
            return real(self, batch)

        monkeypatch.setattr(kind, "__call__", call)
    return sizes


def rows_of(pool: Embedded) -> dict[str, list[float]]:
    return {str(name): row.tolist() for name, row in zip(pool.ids, pool.embedding, strict=True)}


def draw(path: Path, seed: int) -> None:
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (8, 8), dtype=np.uint8)).save(path)


@pytest.mark.parametrize("name", ["pool.parquet", "pool"])
def test_only_what_is_new_or_changed_is_embedded(
    make_digits: MakeDigits, tmp_path: Path, embedded: list[int], name: str
) -> None:
    folder, out = make_digits(40), tmp_path / name
    before = rows_of(embed(folder, out=out, shard=8))
    embedded.clear()
    for row in range(40, 45):
        draw(folder / f"{row}.png", row)
    draw(folder / "3.png", 99)
    (folder / "7.png").unlink()
    (folder / "8.png").rename(folder / "0-renamed.png")
    os.utime(folder / "9.png")
    pool = embed(folder, out=out, shard=8)
    assert sum(embedded) == 6
    assert pool.changes is not None
    assert set(pool.changes.added) == {*(f"{row}.png" for row in range(40, 45)), "0-renamed.png"}
    assert pool.changes.changed == ("3.png",)
    assert pool.changes.removed == ("7.png", "8.png")
    after = rows_of(pool)
    assert len(after) == 44
    assert after["0-renamed.png"] == before["8.png"]
    same = before.keys() - {"3.png", "7.png", "8.png"}
    assert {each: after[each] for each in same} == {each: before[each] for each in same}
    assert after == rows_of(embed(folder, out=tmp_path / "again.parquet"))
    assert not Path(f"{out}.parts").exists()
    assert list(pool.columns) == ["path"]
    assert embed(folder, out=out, shard=8).changes is None


def test_words_keep_their_vocabulary(tmp_path: Path, texts: list[str], embedded: list[int]) -> None:
    path, out = tmp_path / "texts.csv", tmp_path / "pool.parquet"
    path.write_text("id,text\n" + "".join(f"t{row},{text}\n" for row, text in enumerate(texts)))
    first = embed(path, out=out)
    before = rows_of(first)
    more = [*texts, "quite another subject: tulips", texts[4], ""]
    path.write_text("id,text\n" + "".join(f"t{row},{text}\n" for row, text in enumerate(more)))
    embedded.clear()
    pool = embed(path, out=out)
    assert sum(embedded) == 1
    assert pool.version == first.version
    after = rows_of(pool)
    assert {name: after[name] for name in before} == before
    assert after["t61"] == before["t4"]
    assert pool.changes == (("t60", "t61"), (), ())
    assert pool.left_out == (("t62", "has no text"),)


def test_a_vocabulary_that_older_versions_did_not_keep_is_learned_from_the_same_texts(
    tmp_path: Path, texts: list[str]
) -> None:
    path, out = tmp_path / "texts.csv", tmp_path / "pool.parquet"
    path.write_text("text\n" + "\n".join(texts) + "\n")
    before = rows_of(embed(path, out=out))
    kept = Path(f"{out}.embedder.npz")
    kept.unlink()
    path.write_text("text\n" + "\n".join([*texts, "tulips"]) + "\n")
    after = rows_of(embed(path, out=out))
    assert {name: after[name] for name in before} == before
    kept.unlink()
    path.write_text("text\n" + "\n".join([*texts, "tulips", "more tulips"]) + "\n")
    with pytest.raises(InvalidData, match=r"embedder.npz, which words needs .* is missing.*force=True"):
        embed(path, out=out)
    assert len(embed(path, out=out, force=True)) == 62


def test_rows_without_ids_are_compared_by_their_contents(tmp_path: Path, texts: list[str]) -> None:
    path, out = tmp_path / "texts.csv", tmp_path / "pool.parquet"
    path.write_text("text\n" + "\n".join(texts) + "\n")
    before = rows_of(embed(path, out=out))
    path.write_text("text\n" + "\n".join(["new at the top", *texts[:-1]]) + "\n")
    pool = embed(path, out=out)
    assert pool.changes == (("0",), (), ("59",))
    after = rows_of(pool)
    assert [after[str(row + 1)] for row in range(59)] == [before[str(row)] for row in range(59)]


def test_a_pool_without_hashes_keeps_the_files_that_are_older_than_it(
    make_digits: MakeDigits, tmp_path: Path, embedded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = make_digits(10), tmp_path / "pool.parquet"
    with monkeypatch.context() as context:
        context.setattr(reuse, "with_hashes", lambda items, takes: (items, [None] * len(items.contents)))
        embed(folder, out=out)
    assert "content_hash" not in read_pool(str(out)).source.names
    os.utime(out)
    draw(folder / "3.png", 99)
    os.utime(out, (os.stat(folder / "3.png").st_ctime - 1e-3,) * 2)
    embedded.clear()
    pool = embed(folder, out=out)
    assert sum(embedded) == 1
    assert rows_of(pool) == rows_of(embed(folder, out=tmp_path / "again.parquet"))


@pytest.mark.slow
def test_an_interrupted_update_goes_on_even_if_the_source_grew_again(
    make_digits: MakeDigits, tmp_path: Path, wait_until: Callable[[Callable[[], bool]], None], embedded: list[int]
) -> None:
    folder, out, parts = make_digits(16), tmp_path / "pool.parquet", tmp_path / "pool.parquet.parts"
    embed(folder, out=out, shard=8)
    for row in range(16, 160):
        draw(folder / f"{row}.png", row)
    command = [sys.executable, "-m", "dubito", "embed", str(folder), "-o", str(out), "--shard", "8"]
    running = subprocess.Popen([*command, "--processes", "1"], stderr=subprocess.DEVNULL)
    wait_until(lambda: len(list(parts.glob("part-*"))) >= 5 or running.poll() is not None)
    running.send_signal(signal.SIGKILL)
    running.wait()
    n_shards = len(list(parts.glob("part-*.parquet")))
    if n_shards == 0:
        pytest.skip("it was finished before it was killed")
    draw(folder / "00-first.png", 1000)
    embedded.clear()
    pool = embed(folder, out=out, shard=8)
    assert sum(embedded) <= 145 - 8 * (n_shards - 2)
    assert rows_of(pool) == rows_of(embed(folder, out=tmp_path / "again.parquet"))
    assert not parts.exists()


def test_the_command_reports_what_changed(
    make_digits: MakeDigits, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = make_digits(10), tmp_path / "pool.parquet"
    embed(folder, out=out)
    draw(folder / "new.png", 1)
    draw(folder / "3.png", 2)
    (folder / "4.png").unlink()
    assert main(["embed", str(folder), "-o", str(out)]) == 0
    printed = capsys.readouterr().err
    assert "1 new (new.png), 1 changed (3.png), 1 removed (4.png)" in printed
    shutil.rmtree(folder)
