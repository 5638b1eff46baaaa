"""Killed at any moment, the same call goes on and gives the same bytes; other settings or sources are refused."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from dubito.cli import main
from dubito.errors import DubitoError, InvalidArgument, InvalidData, OutputExists
from dubito.io import read_pool

from .conftest import MakeDigits, embed

Wait = Callable[[Callable[[], bool]], None]


def begin(folder: Path, out: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "dubito", "embed", str(folder), "-o", str(out), "--shard", "8"]
    return subprocess.Popen([*command, "--processes", "1"], stderr=subprocess.DEVNULL)


def n_shards(out: Path) -> int:
    parts = Path(f"{out}.parts")
    return len(list(parts.glob("part-*.parquet"))) if parts.exists() else 0


def kill_after(running: "subprocess.Popen[bytes]", out: Path, wanted: int, wait_until: Wait) -> None:
    wait_until(lambda: n_shards(out) >= wanted or running.poll() is not None)
    running.send_signal(signal.SIGKILL)
    running.wait()


@pytest.mark.parametrize(
    ("name", "n_kills"),
    [
        ("pool.parquet", 1),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in [("pool", 1), ("pool.parquet", 4)]),
    ],
)
def test_a_run_killed_again_and_again_gives_the_same_pool(
    make_digits: MakeDigits, tmp_path: Path, wait_until: Wait, name: str, n_kills: int
) -> None:
    folder, rng = make_digits(120), random.Random(name)
    (folder / "17.png").write_bytes(b"broken")
    whole = embed(folder, out=tmp_path / f"whole-{name}", shard=8)
    out = tmp_path / name
    for _ in range(n_kills):
        kill_after(begin(folder, out), out, min(14, n_shards(out) + rng.randint(1, 4)), wait_until)
    assert main(["embed", str(folder), "-o", str(out), "--shard", "8", "--processes", "1"]) == 4
    again = embed(folder, out=out, shard=8)
    assert again.left_out == whole.left_out == (("17.png", "is not a picture of a known format"),)
    assert len(again) == 119
    assert whole.path is not None
    assert bytes_of(out) == bytes_of(Path(whole.path))
    assert not Path(f"{out}.parts").exists()


def bytes_of(pool: Path) -> list[bytes]:
    files = sorted(pool.glob("part-*.parquet")) if pool.is_dir() else [pool]
    return [each.read_bytes() for each in files]


@pytest.fixture
def table(tmp_path: Path, texts: list[str]) -> Path:
    """Sixty texts, which no process decodes."""
    path = tmp_path / "texts.csv"
    path.write_text("text\n" + "\n".join(texts) + "\n")
    return path


def stopped(folder: Path, out: Path, after: int) -> None:
    """A run that stops after some shards, as Ctrl-C would stop it."""

    def progress(done: int, total: int, radius: None, seconds: float) -> None:
        if done >= after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed(folder, out=out, shard=8, progress=progress)


def test_what_is_done_is_not_done_again(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "pool.parquet"
    stopped(table, out, after=24)
    described: list[int] = []
    pool = embed(table, out=out, shard=8, progress=lambda done, total, radius, seconds: described.append(done))
    assert described == [24, 32, 40, 48, 56, 60]
    assert pool.n_before == 24
    assert len(pool) == 60
    again = embed(table, out=out, shard=8)
    assert again.n_before == 60


def test_texts_learn_once(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "pool.parquet"
    stopped(table, out, after=24)
    kept = (Path(f"{out}.parts") / "_embedder.npz").stat()
    stopped(table, out, after=32)
    assert (Path(f"{out}.parts") / "_embedder.npz").stat().st_mtime_ns == kept.st_mtime_ns
    embed(table, out=out, shard=8)
    embed(table, out=tmp_path / "whole.parquet", shard=8)
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_other_settings_are_refused_by_name(make_digits: MakeDigits, tmp_path: Path) -> None:
    folder, out = make_digits(40), tmp_path / "pool.parquet"
    stopped(folder, out, after=8)
    with pytest.raises(InvalidArgument, match="parts was made with numbers float32, and now it is float16; pass"):
        embed(folder, out=out, shard=8, half=True)
    with pytest.raises(InvalidArgument, match="made with options none, and now it is size=4"):
        embed(folder, out=out, shard=8, options={"size": 4})
    Image.new("L", (8, 8)).save(folder / "new.png")
    with pytest.raises(
        InvalidArgument, match=r"made with shard 8, and now it is 9; pass .*force=True to start .* over"
    ):
        embed(folder, out=out, shard=9)
    assert len(embed(folder, out=out, shard=8, force=True)) == 41
    with pytest.raises(OutputExists, match="made with shard 8, and now it is 9"):
        embed(folder, out=out, shard=9)


def test_shards_that_were_damaged_or_lost_are_made_again(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "pool.parquet"
    stopped(table, out, after=24)
    lost, damaged = (Path(f"{out}.parts") / f"part-0000{number}.parquet" for number in (0, 1))
    lost.unlink()
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    embed(table, out=out, shard=8)
    embed(table, out=tmp_path / "whole.parquet", shard=8)
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_a_damaged_journal_is_refused_by_its_line(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "pool.parquet"
    stopped(table, out, after=24)
    journal = Path(f"{out}.parts") / "_journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join([lines[0], lines[1].replace('"rows": 8', '"rows": 9'), *lines[2:]]))
    with pytest.raises(InvalidData, match=r"line 2 of .*_journal\.jsonl does not fit its checksum"):
        embed(table, out=out, shard=8)


def test_what_a_kill_leaves_behind_a_whole_pool_goes(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "pool.parquet"
    stopped(table, out, after=16)
    kept = tmp_path / "kept"
    shutil.copytree(f"{out}.parts", kept)
    embed(table, out=out, shard=8)
    kept.rename(f"{out}.parts")
    assert len(embed(table, out=out, shard=8)) == 60
    assert not Path(f"{out}.parts").exists()


def test_what_is_no_pool_of_ours_is_never_replaced_unasked(make_digits: MakeDigits, tmp_path: Path) -> None:
    folder, out = make_digits(5), tmp_path / "pool.parquet"
    out.write_bytes(b"precious")
    with pytest.raises(OutputExists, match="force=True"):
        embed(folder, out=out)
    assert out.read_bytes() == b"precious"
    assert len(embed(folder, out=out, force=True)) == 5
    with pytest.raises(OutputExists, match="is a folder that dubito did not embed"):
        embed(folder, out=folder, force=True)
    assert len(list(folder.iterdir())) == 5
    other = tmp_path / "other.parquet.parts"
    other.mkdir()
    (other / "mine.txt").write_text("precious")
    with pytest.raises(OutputExists, match="dubito did not create it"):
        embed(folder, out=tmp_path / "other.parquet", force=True)
    (tmp_path / "sub.parquet").mkdir()
    with pytest.raises(OutputExists, match="is a folder"):
        embed(folder, out=tmp_path / "sub.parquet")


def test_half_and_shards_are_read_as_any_pool(make_digits: MakeDigits, tmp_path: Path) -> None:
    folder = make_digits(20)
    pool = embed(folder, out=tmp_path / "pool", shard=8, half=True)
    found = read_pool(str(tmp_path / "pool"))
    assert str(found.features.dtype) == "float16"
    assert found.features.shape == (20, 64)
    assert pool.ids.tolist() == [f"{row}.png" for row in range(20)]
    assert pool.columns["path"].tolist() == pool.ids.tolist()
    record = json.loads((tmp_path / "pool" / "_journal.jsonl").read_text().splitlines()[0])
    assert record["settings"]["numbers"] == "float16"


@pytest.mark.slow
def test_two_at_once_take_turns(make_digits: MakeDigits, tmp_path: Path) -> None:
    folder, out = make_digits(30), tmp_path / "pool.parquet"
    both = [begin(folder, out) for _ in range(2)]
    assert [each.wait() for each in both] == [0, 0]
    assert len(embed(folder, out=out, shard=8)) == 30


def test_a_full_disk_leaves_what_was_done(make_digits: MakeDigits, tmp_path: Path) -> None:
    folder, out = make_digits(30), tmp_path / "pool.parquet"
    program = (
        "import resource, signal, dubito\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "def progress(done, total, radius, seconds):\n"
        "    if done >= 16: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        f"dubito.embed({str(folder)!r}, out={str(out)!r}, shard=8, processes=1, progress=progress)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=os.environ)
    assert "Everything written before is kept: free some space" in ran.stderr
    assert n_shards(out) >= 2
    assert len(embed(folder, out=out, shard=8)) == 30


def test_errors_of_writing_name_the_output(make_digits: MakeDigits, tmp_path: Path) -> None:
    with pytest.raises(DubitoError, match=r"gone/pool\.parquet"):
        embed(make_digits(3), out=tmp_path / "gone" / "pool.parquet")
