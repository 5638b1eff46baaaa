"""``dubito select``: the picks of the library, from files to files."""

import csv
import io
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import dubito
from dubito.cli import main
from dubito.cli.commands.select import check_destination, write_picks
from dubito.cli.output import Stopped
from dubito.core.problem import Problem
from dubito.engines.base import Estimate
from dubito.engines.cuda.engine import CudaEngine
from dubito.io import read_pool

from .conftest import PATIENCE, Pool, Program, Wait, read_terminal


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def indices_of(text: str) -> list[int]:
    return [int(row["index"]) for row in rows_of(text)]


def expected(pool: Pool, budget: int, labeled: list[int] | None = None) -> list[int]:
    seen = pool.labeled if labeled is None else labeled
    picked = dubito.select(pool.features, budget, labeled=np.array(seen), probabilities=pool.probabilities)
    return list(map(int, picked.indices))


# Data


def test_a_process_writes_the_library_s_picks_to_stdout_and_a_note_to_stderr(pool: Pool, run_process: Program) -> None:
    ran = run_process("select", "pool.npz", "--budget", "5")
    assert ran.code == 0
    assert indices_of(ran.out) == expected(pool, 5)
    assert [row["id"] for row in rows_of(ran.out)] == [pool.ids[row] for row in expected(pool, 5)]
    assert ran.err.startswith("dubito: 5 of 30 rows picked by doubt-coverage")
    assert "dubito: auto chose doubt-coverage (strength 1), which suits raw or pretrained features." in ran.err
    assert "use auto:features=trained; with only 2 labeled rows, auto cannot" in ran.err


def test_the_pool_s_own_file_gives_what_is_not_named(pool: Pool, run: Program) -> None:
    together = run("select", "pool.npz", "--budget", "4").out
    np.save("labeled.npy", np.array(pool.labeled))
    apart = run("select", "features.npy", "-b", "4", "--probabilities", "probabilities.npy", "--labeled", "labeled.npy")
    assert indices_of(apart.out) == indices_of(together)
    assert list(rows_of(apart.out)[0]) == ["rank", "index", "priority"]


@pytest.mark.parametrize("source", ["logits", "doubt"])
def test_logits_and_doubt_serve_as_well_as_probabilities(pool: Pool, run: Program, source: str) -> None:
    values = {"logits": np.log(pool.probabilities), "doubt": 1.0 - pool.probabilities.max(axis=1)}
    np.save("source.npy", values[source])
    # Of probabilities coverage takes the margin, of doubt what it is: the paper's method takes both for the same.
    ran = run("select", "features.npy", "--budget", "4", f"--{source}", "source.npy", "-s", "doubt-coreset")
    wanted = dubito.select(pool.features, 4, probabilities=pool.probabilities, strategy="doubt-coreset")
    assert indices_of(ran.out) == wanted.indices.tolist()
    ran = run("select", "features.npy", "--budget", "4", f"--{source}", "source.npy")
    given: Any = {source: values[source]}
    assert indices_of(ran.out) == dubito.select(pool.features, 4, **given).indices.tolist()


def test_options_reach_the_library(pool: Pool, run: Program) -> None:
    np.save("few.npy", np.arange(15))
    options = ["--strength", "0.5", "--beam-width", "3", "--scaling", "acquired", "--metric", "cosine"]
    more = ["--engine", "reference", "--memory-limit", "1GB", "--seed", "3", "--candidates", "few.npy"]
    ran = run("select", "pool.npz", "--budget", "4", *options, *more, "--json")
    picked = dubito.select(
        pool.features,
        4,
        labeled=np.array(pool.labeled),
        probabilities=pool.probabilities,
        strength=0.5,
        beam_width=3,
        scaling="acquired",
        metric="cosine",
        candidates=np.arange(15),
        engine="reference",
    )
    described = json.loads(ran.out)
    assert [pick["index"] for pick in described["picks"]] == picked.indices.tolist()
    assert (described["engine"], described["seed"], len(described["configurations"])) == ("reference", 3, 3)


@pytest.mark.parametrize("strategy", ["random", "margin", "coreset", "closest-kmeans"])
def test_a_strategy_goes_by_its_name(pool: Pool, run: Program, strategy: str) -> None:
    ran = run("select", "pool.npz", "--budget", "4", "-s", strategy, "--format", "json")
    assert json.loads(ran.out)["strategy"] == strategy


def test_a_table_with_a_column_of_ids_is_a_pool(run: Program) -> None:
    Path("pool.csv").write_text("name,x,y,note\na,0,0,9\nb,3,4,9\nc,0,9,9\n")
    options = ["--id-column", "name", "--feature-columns", "x, y", "--strategy", "coreset", "--labeled", "seen.txt"]
    Path("seen.txt").write_text("a\n")
    ran = run("select", "pool.csv", "--budget", "2", *options)
    assert [row["id"] for row in rows_of(ran.out)] == ["c", "b"]


# Output


@pytest.mark.parametrize("suffix", ["csv", "json", "jsonl", "parquet", "npy"])
def test_a_file_gets_the_format_of_its_suffix_and_stdout_stays_empty(pool: Pool, run: Program, suffix: str) -> None:
    ran = run("select", "pool.npz", "--budget", "3", "-o", f"picks.{suffix}")
    assert (ran.code, ran.out) == (0, "")
    path, wanted = Path(f"picks.{suffix}"), expected(pool, 3)
    read: dict[str, Callable[[], object]] = {
        "csv": lambda: indices_of(path.read_text()),
        "json": lambda: [pick["index"] for pick in json.loads(path.read_text())["picks"]],
        "jsonl": lambda: [json.loads(line)["index"] for line in path.read_text().splitlines()],
        "parquet": lambda: pq.read_table(path).column("index").to_pylist(),
        "npy": lambda: np.load(path).tolist(),
    }
    assert read[suffix]() == wanted
    assert f"--labeled picks.{suffix}" in ran.err


def test_a_dash_is_stdout_and_binary_formats_go_there_too(
    pool: Pool, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["select", str(tmp_path / "pool.npz"), "--budget", "3", "-o", "-", "--format", "npy"]) == 0
    assert np.load(io.BytesIO(capsysbinary.readouterr().out)).tolist() == expected(pool, 3)


def test_quiet_leaves_stderr_empty(pool: Pool, run: Program) -> None:
    assert run("select", "pool.npz", "--budget", "3", "--quiet", "-o", "picks.csv").err == ""


def test_an_output_that_exists_is_kept_unless_forced(pool: Pool, run: Program) -> None:
    Path("picks.csv").write_text("mine")
    assert "--force" in run("select", "pool.npz", "--budget", "3", "-o", "picks.csv").complaint
    assert Path("picks.csv").read_text() == "mine"
    assert run("select", "pool.npz", "--budget", "3", "-o", "picks.csv", "--force").code == 0
    assert indices_of(Path("picks.csv").read_text()) == expected(pool, 3)


def test_appending_gives_one_file_of_all_rounds_without_repeats(pool: Pool, run: Program) -> None:
    for _ in range(2):
        assert run("select", "pool.npz", "--budget", "4", "-o", "picks.csv", "--append").code == 0
    first = expected(pool, 4)
    assert indices_of(Path("picks.csv").read_text()) == first + expected(pool, 4, pool.labeled + first)
    assert [int(row["rank"]) for row in rows_of(Path("picks.csv").read_text())] == list(range(1, 9))


def test_a_dry_run_tells_the_sizes_and_picks_nothing(pool: Pool, run: Program) -> None:
    ran = run("select", "pool.npz", "--budget", "3", "-o", "picks.csv", "--dry-run")
    described = dict(line.split() for line in ran.out.splitlines())
    assert (described["n"], described["d"], described["labeled"], described["candidates"], described["budget"]) == (
        "30",
        "3",
        "2",
        "28",
        "3",
    )
    assert not Path("picks.csv").exists()
    as_json = json.loads(run("select", "pool.npz", "--budget", "3", "--dry-run", "--json", "-s", "random").out)
    assert (as_json["strategy"], as_json["engine"]) == ("random", None)


def test_a_dry_run_finds_what_a_run_would_find(pool: Pool, run: Program) -> None:
    wet = run("select", "features.npy", "--budget", "3", "--strength", "1").complaint
    dry = run("select", "features.npy", "--budget", "3", "--strength", "1", "--dry-run").complaint
    assert dry == wet
    assert "pass --probabilities, --logits or --doubt" in dry


def test_a_dry_run_tells_the_engine_and_the_cost_of_the_run_that_would_follow(
    pool: Pool, run: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[Problem]()

    def estimate(self: CudaEngine, problem: Problem) -> Estimate:
        seen.append(problem)
        return Estimate(bytes=7_000_000, seconds=0.25, engine="cuda")

    monkeypatch.setattr(CudaEngine, "refusals", lambda self, problem: [])
    monkeypatch.setattr(CudaEngine, "pays", lambda self, problem: len(problem.candidates) > 1)
    monkeypatch.setattr(CudaEngine, "estimate", estimate)
    command = ("select", "pool.npz", "--budget", "3", "--dry-run", "--json", "-s", "doubt-coreset")
    facts = json.loads(run(*command).out)
    assert (facts["engine"], facts["megabytes"], facts["seconds"]) == ("cuda", 7.0, 0.25)
    assert [(len(problem.candidates), problem.budget) for problem in seen] == [(28, 3)]
    facts = json.loads(run(*command, "--engine", "cpu").out)
    assert facts["engine"] == "cpu"
    assert facts["megabytes"] < 1


@pytest.mark.parametrize("strategy", ["least-confidence", "margin", "entropy", "badge", "bald", "doubt-coreset"])
def test_a_dry_run_refuses_what_a_strategy_would_refuse(strategy: str, pool: Pool, run: Program) -> None:
    command = ("select", "features.npy", "--budget", "3", "--strategy", strategy)
    assert run(*command, "--dry-run").complaint == run(*command).complaint


def test_a_dry_run_refuses_a_pool_that_is_too_large_for_its_strategy(tmp_path: Path, run: Program) -> None:
    np.save(tmp_path / "large.npy", np.zeros((1001, 1)))
    command = ("select", "large.npy", "--budget", "3", "--strategy", "optimal-coreset")
    assert "on 1001 points would need" in run(*command, "--dry-run").complaint


# People


def big_pool(folder: Path) -> list[str]:
    rng = np.random.default_rng(0)
    np.save(folder / "big.npy", rng.normal(size=(30_000, 256)).astype(np.float32))
    command = [sys.executable, "-m", "dubito", "select", "big.npy", "--budget", "30000"]
    return [*command, "--strategy", "coreset", "--engine", "cpu"]


def test_a_terminal_shows_a_bar_with_rate_and_radius_and_ctrl_c_keeps_the_picks(tmp_path: Path) -> None:
    command = [*big_pool(tmp_path), "-o", "picks.csv"]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "120", "TERM": "xterm"}
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=theirs, env=environment)
    os.close(theirs)
    seen = read_terminal(ours, until="radius")
    process.send_signal(signal.SIGINT)
    seen += read_terminal(ours)
    os.close(ours)
    assert process.wait(timeout=PATIENCE) == 130
    assert "picking" in seen
    assert "/30000" in seen
    assert "/s" in seen
    assert "radius" in seen
    kept = indices_of((tmp_path / "picks.csv").read_text())
    assert f"interrupted after {len(kept)} picks; they went to picks.csv." in seen
    whole = dubito.select(np.load(tmp_path / "big.npy"), 50, strategy="coreset", engine="cpu")
    assert kept[:50] == whole.indices.tolist()[: len(kept)]


def test_ctrl_c_before_the_first_pick_writes_nothing(pool: Pool, run: Program) -> None:
    whole = dubito.select(read_pool("pool.npz"), 3, strategy="coreset")
    none = replace(whole, indices=whole.indices[:0], priorities=whole.priorities[:0], complete=False)
    target = check_destination("picks.csv", None, False, False, False)
    with pytest.raises(Stopped, match="interrupted after 0 picks; nothing was written"):
        write_picks(none, target)
    assert not Path("picks.csv").exists()


TELLS_WHEN_IT_PICKS = """
import sys
from pathlib import Path
from dubito.cli import main
from dubito.cli.commands import select as job

show = job.ProgressBar.__call__


def show_and_tell(bar, *done):
    Path("begun").touch()
    show(bar, *done)


job.ProgressBar.__call__ = show_and_tell
sys.exit(main())
"""


@pytest.mark.slow
def test_off_a_terminal_there_is_no_bar(tmp_path: Path, wait_until: Wait) -> None:
    command = [sys.executable, "-c", TELLS_WHEN_IT_PICKS, *big_pool(tmp_path)[3:], "-o", "picks.csv"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: (tmp_path / "begun").exists() or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert out == b""
    assert len(err.splitlines()) == 1


def test_a_reader_that_goes_away_is_met_with_silence(tmp_path: Path, pool: Pool) -> None:
    np.save(tmp_path / "wide.npy", np.arange(40_000.0).reshape(-1, 1))
    command = f"{sys.executable} -m dubito select wide.npy --budget 40000 -q -s random | head -n 1"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "rank,index,priority\n"
    assert done.stderr == ""


@pytest.mark.parametrize("option", ["", pytest.param("--json", marks=pytest.mark.slow)])
def test_a_report_that_nobody_reads_is_met_with_silence(tmp_path: Path, option: str) -> None:
    command = f"{sys.executable} -m dubito doctor {option} | true"
    # Buffered, the output meets the closed pipe only when the program ends.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_binary_output_is_not_for_a_terminal(pool: Pool, run: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        ran = run("select", "pool.npz", "--budget", "2", "--format", "npy")
    os.close(ours)
    assert ran.code == 2
    assert "pass -o FILE" in ran.complaint


@pytest.mark.parametrize("named", ["pool.csv", "seen.csv", "p.csv", "few.csv", "./shards/b.csv", "link.csv"])
def test_no_file_that_is_read_is_written_over_even_by_force(run: Program, named: str) -> None:
    Path("shards").mkdir()
    rows = ["a,1,2", "b,5,3", "c,9,4", "d,2,8"]
    for name, header, lines in (
        ("pool.csv", "id,x,y", rows),
        ("shards/a.csv", "id,x,y", rows[:2]),
        ("shards/b.csv", "id,x,y", rows[2:]),
        ("seen.csv", "id,label", ["a,u"]),
        ("few.csv", "id", ["b", "c"]),
        ("p.csv", "id,u,v", ["a,1,0", "b,0.5,0.5", "c,0.25,0.75", "d,0,1"]),
    ):
        Path(name).write_text("\n".join([header, *lines]) + "\n")
    Path("link.csv").symlink_to("pool.csv")
    before = Path(named).read_text()
    given = ("--labeled", "seen.csv", "--candidates", "few.csv", "--probabilities", "p.csv")
    pool = "shards" if "shards" in named else "pool.csv"
    ran = run("select", pool, "-b", "1", *given, "-o", named, "--force")
    assert ran.complaint == f"{named} is read, and would be lost; write to another file."
    assert Path(named).read_text() == before
    assert run("select", pool, "-b", "1", *given, "-o", "new.csv", "--force").code == 0
    assert (
        run("select", pool, "-b", "1", "-s", "coreset", "--labeled", "new.csv", "-o", "new.csv", "--append").code == 0
    )


def test_picks_beside_shards_of_another_kind_may_be_replaced(run: Program) -> None:
    Path("shards").mkdir()
    np.save("shards/a.npy", np.eye(3))
    for _ in range(2):
        assert run("select", "shards", "-b", "1", "-s", "coreset", "-o", "shards/picks.json", "--force").code == 0


def test_a_table_of_candidates_without_a_mask_is_told_to_be_all(run: Program) -> None:
    Path("pool.csv").write_text("id,x\na,1\nb,5\nc,9\n")
    Path("few.csv").write_text("id,use\na,1\nb,0\n")
    ran = run("select", "pool.csv", "-b", "1", "-s", "coreset", "--candidates", "few.csv")
    assert "few.csv: 2 rows, no column candidates: all may be picked." in ran.err


def test_numbers_beside_a_column_of_lists_are_told_to_be_left_out(run: Program) -> None:
    Path("pool.jsonl").write_text(
        '{"id": 1, "v": [1, 2], "n": 5, "doubt": 0.5}\n{"id": 2, "v": [3, 4], "n": 6, "doubt": 1}\n'
    )
    assert "features are the lists in v; left out: n\n" in run("select", "pool.jsonl", "-b", "1").err
    ran = run("select", "pool.jsonl", "-b", "1", "--ignore-columns", "n")
    assert "left out" not in ran.err


@pytest.mark.parametrize(
    "more", [("--costs", "c.csv"), ("--quota", "a=1"), ("--standardize", "yes"), ("--keep", "text")]
)
def test_what_one_machine_alone_can_do_does_not_go_with_a_cluster(run: Program, more: tuple[str, str]) -> None:
    np.save("pool.npy", np.eye(9))
    ran = run("select", "pool.npy", "-b", "3", "--engine", "cluster", *more)
    assert ran.code == 2
    assert f"{more[0]} does not go with --engine cluster; leave out {more[0]}, or" in ran.complaint


def test_options_of_a_cluster_are_for_a_cluster(run: Program) -> None:
    np.save("pool.npy", np.eye(9))
    for option, value in (("--address", "ray://head:1"), ("--workers", "cuda"), ("--workers-per-gpu", "2")):
        ran = run("select", "pool.npy", "-b", "3", option, value)
        assert ran.code == 2
        assert f"{option} {value} is for --engine cluster" in ran.complaint
    ran = run("select", "pool.npy", "-b", "3", "--engine", "cluster", "--workers", "gpu")
    assert (ran.code, "--workers gpu is not known" in ran.complaint) == (2, True)
    ran = run("select", "pool.npy", "-b", "3", "--engine", "cluster", "--workers-per-gpu", "many")
    assert (ran.code, "--workers-per-gpu many is not a whole number" in ran.complaint) == (2, True)
