"""Every bad input: one line on stderr that names it, exit 2 or 3, no traceback and no output left behind."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer

from dubito.cli.output import TRACEBACK, Stopped, exit_code_of
from dubito.errors import MissingExtra

from .conftest import Pool, Program

SELECT = ("select", "pool.npz", "--budget", "3")
FEATURES = ("select", "features.npy", "--budget", "3")


def spoil(name: str, change: Callable[[Pool], object]) -> Callable[[Pool], None]:
    def write(pool: Pool) -> None:
        np.save(name, np.asarray(change(pool)))

    return write


def write(name: str, content: bytes) -> Callable[[Pool], None]:
    def make(pool: Pool) -> None:
        Path(name).write_bytes(content)

    return make


def nothing(pool: Pool) -> None:
    pass


def with_value(array: np.ndarray[tuple[int, int], np.dtype[np.float64]], value: float) -> object:
    changed = array.copy()
    changed[3, 1] = value
    return changed


def truncate(pool: Pool) -> None:
    Path("cut.npy").write_bytes(Path("features.npy").read_bytes()[:200])


BAD = ("select", "bad.npy", "--budget", "3", "--strategy", "coreset")
PROBABILITIES = (*FEATURES, "--probabilities", "bad.npy")
DOUBT = (*FEATURES, "--doubt", "bad.npy")

USAGE: dict[str, tuple[tuple[str, ...], str]] = {
    "budget zero": (("select", "pool.npz", "--budget", "0"), "--budget 0 is too small"),
    "budget negative": (("select", "pool.npz", "--budget", "-4"), "--budget -4 is too small"),
    "budget fractional": (("select", "pool.npz", "--budget", "2.5"), "--budget 2.5 is not a whole number"),
    "budget in words": (("select", "pool.npz", "--budget", "ten"), "--budget ten is not a whole number"),
    "budget above the pool": (("select", "pool.npz", "--budget", "31"), "--budget 31 exceeds the 28 candidates"),
    "budget forgotten": (("select", "pool.npz"), "see dubito select --help"),
    "option without a value": ((*SELECT, "--format"), "'--format' requires an argument"),
    "unknown option": ((*SELECT, "--strenght", "1"), "--strength"),
    "unknown command": (("selct",), "Did you mean 'select'? See dubito --help."),
    "unknown strategy": ((*SELECT, "--strategy", "corset"), "did you mean 'coreset'?"),
    "unknown metric": ((*SELECT, "--metric", "cosin"), "did you mean 'cosine'?"),
    "unknown scaling": ((*SELECT, "--scaling", "respectiv"), "did you mean 'respective'?"),
    "unknown engine": ((*SELECT, "--engine", "cpus"), "did you mean 'cpu'?"),
    "unknown format": ((*SELECT, "--format", "cvs"), "did you mean 'csv'?"),
    "negative strength": ((*SELECT, "--strength", "-0.5"), "--strength -0.5 is not allowed"),
    "strength in words": ((*SELECT, "--strength", "strong"), "--strength strong is not allowed"),
    "beam of nothing": ((*SELECT, "--beam-width", "0"), "--beam-width 0 is too small"),
    "negative seed": ((*SELECT, "--seed", "-1"), "--seed -1 is too small"),
    "memory limit in words": ((*SELECT, "--memory-limit", "lots"), "--memory-limit lots is not a size"),
    "option of another strategy": (
        (*SELECT, "-s", "random", "--strength", "2"),
        "is not supported by --strategy random; leave it",
    ),
    "option of no command": (
        (*SELECT, "-s", "optimal-coreset", "--strength", "2"),
        "--strategy optimal-coreset; leave it",
    ),
    "features of none": ((*SELECT, "-s", "random", "--features", "frozen"), "--features frozen is not supported"),
    "features melted": ((*SELECT, "--features-are", "melted"), "--features melted is not known; choose from frozen"),
    "engine of none": ((*SELECT, "-s", "random", "--engine", "cpu"), "--engine cpu is not supported"),
    "no doubt where it is needed": (
        (*FEATURES, "--strength", "2"),
        "pass --probabilities, --logits or --doubt, or --strategy coreset",
    ),
    "two sources of doubt": ((*FEATURES, "--doubt", "a.npy", "--logits", "b.npy"), "--logits and --doubt are two"),
    "missing pool": (("select", "nowhere.npy", "--budget", "3"), "nowhere.npy does not exist"),
    "missing array": (("select", "pool.npz::featurs", "--budget", "3"), "did you mean 'features'?"),
    "missing labeled": ((*SELECT, "--labeled", "seen.csv"), "seen.csv does not exist"),
    "missing column": ((*SELECT, "--id-column", "name"), "pool.npz has no array 'name'"),
    "unreadable kind of file": (("select", "pool.pkl", "--budget", "3"), "never unpickles"),
    "missing folder": ((*SELECT, "-o", "away/picks.csv"), "away/picks.csv cannot be written"),
    "no suffix": ((*SELECT, "-o", "picks"), "pass --format"),
    "append to stdout": ((*SELECT, "--append"), "pass -o FILE"),
    "append to json": ((*SELECT, "-o", "picks.json", "--append"), "json describes one run"),
    "append and force": ((*SELECT, "-o", "picks.csv", "--append", "--force"), "pass one of them"),
    "json and csv": ((*SELECT, "--json", "--format", "csv"), "--json and --format csv disagree"),
}

DATA: dict[str, tuple[Callable[[Pool], None], tuple[str, ...], int, str]] = {
    "nan": (spoil("bad.npy", lambda pool: with_value(pool.features, np.nan)), BAD, 3, "nan at row 3, column 1"),
    "infinity": (spoil("bad.npy", lambda pool: with_value(pool.features, np.inf)), BAD, 3, "inf at row 3, column 1"),
    "too large": (spoil("bad.npy", lambda pool: with_value(pool.features, 1e200)), BAD, 3, "rescale"),
    "empty pool": (spoil("bad.npy", lambda pool: pool.features[:0]), BAD, 3, "bad.npy holds no rows"),
    "no features": (spoil("bad.npy", lambda pool: pool.features[:, :0]), BAD, 2, "no features"),
    "flat pool": (spoil("bad.npy", lambda pool: pool.features[:, 0]), BAD, 3, "2-D"),
    "text": (spoil("bad.npy", lambda pool: [["a", "b"]]), BAD, 3, "bad.npy"),
    "truncated file": (truncate, ("select", "cut.npy", "--budget", "3"), 3, "cut.npy cannot be read"),
    "foreign file": (write("bad.npy", b"PNG not an array"), BAD, 3, "bad.npy cannot be read"),
    "empty file": (write("bad.npy", b""), BAD, 3, "bad.npy is empty"),
    "text in a table": (
        write("bad.csv", b"x,y\n1,2\n3,oops\n"),
        ("select", "bad.csv", "--budget", "1", "-s", "coreset"),
        3,
        "'y'",
    ),
    "column of names": (
        write("bad.csv", b"name,x\ncat,2\ndog,4\n"),
        ("select", "bad.csv", "--budget", "1", "-s", "coreset"),
        3,
        "if it identifies the rows pass --id-column name, if it is their class --label-column name, else "
        "--ignore-columns name.",
    ),
    "missing feature column": (
        write("bad.csv", b"x,y\n1,2\n3,4\n"),
        ("select", "bad.csv", "--budget", "1", "-s", "coreset", "--feature-columns", "x,z"),
        2,
        "bad.csv has no column 'z'",
    ),
    "negative probability": (
        spoil("bad.npy", lambda pool: with_value(pool.probabilities, -0.1)),
        PROBABILITIES,
        3,
        "probabilities (bad.npy) holds -0.1 at row 3",
    ),
    "probabilities that miss one": (
        spoil("bad.npy", lambda pool: pool.probabilities * 0.5),
        PROBABILITIES,
        3,
        "sum to 0.5 at row 0",
    ),
    "too few probabilities": (
        spoil("bad.npy", lambda pool: pool.probabilities[:5]),
        PROBABILITIES,
        2,
        "probabilities (bad.npy) has shape (5, 3)",
    ),
    "doubt above one": (spoil("bad.npy", lambda pool: np.full(30, 1.5)), DOUBT, 3, "doubt (bad.npy) holds 1.5"),
    "doubt of nothing": (spoil("bad.npy", lambda pool: np.full(30, np.nan)), DOUBT, 3, "doubt (bad.npy) holds nan"),
    "labeled of another width": (
        spoil("bad.npy", lambda pool: pool.features[:, :2]),
        (*FEATURES, "-s", "coreset", "--labeled", "bad.npy"),
        2,
        "labeled (bad.npy) has 2 features and pool has 3",
    ),
    "labeled rows beyond the pool": (
        spoil("bad.npy", lambda pool: [1, 30]),
        (*FEATURES, "-s", "coreset", "--labeled", "bad.npy"),
        2,
        "labeled (bad.npy) holds 30 at position 1, which is not a row of the pool",
    ),
    "labeled fractions": (
        spoil("bad.npy", lambda pool: [0.5, 1.5]),
        (*FEATURES, "-s", "coreset", "--labeled", "bad.npy"),
        2,
        "1-D with dtype float64",
    ),
    "candidates beyond the pool": (
        spoil("bad.npy", lambda pool: [99]),
        (*SELECT, "--candidates", "bad.npy"),
        2,
        "candidates (bad.npy) holds 99 at position 0, which is not a row of the pool",
    ),
    "picks of another pool": (
        write("picks.csv", b"rank,index,priority\n1,99,1.0\n"),
        (*SELECT, "-o", "picks.csv", "--append"),
        3,
        "picks.csv holds row 99 among its picks, and the pool has 30 rows",
    ),
    "picks that are none": (
        write("picks.csv", b"a,b\n1,99\n"),
        (*SELECT, "-o", "picks.csv", "--append"),
        2,
        "picks.csv has no column 'index'",
    ),
}


def output_for(arguments: tuple[str, ...]) -> list[str]:
    return [] if {"-o", "--append", "--json", "--format"} & set(arguments) else ["-o", "out.csv"]


@pytest.mark.parametrize("what", USAGE)
def test_a_wrong_command_line_is_one_line_and_exit_2(pool: Pool, run: Program, what: str) -> None:
    arguments, said = USAGE[what]
    Path("pool.pkl").write_bytes(b"")
    before = set(os.listdir())
    ran = run(*arguments, *(output_for(arguments) if arguments[0] == "select" else []))
    assert ran.code == 2
    assert said in ran.complaint
    assert set(os.listdir()) == before


@pytest.mark.parametrize("what", DATA)
def test_bad_data_is_one_line_that_says_where(pool: Pool, run: Program, what: str) -> None:
    spoil_files, arguments, code, said = DATA[what]
    spoil_files(pool)
    before = {name: Path(name).read_bytes() for name in os.listdir()}
    ran = run(*arguments, *output_for(arguments))
    assert (ran.code, said in ran.complaint) == (code, True), ran.err
    assert {name: Path(name).read_bytes() for name in os.listdir()} == before


def test_a_pool_too_large_for_the_optimum_is_refused_in_words_of_the_command_line(run: Program) -> None:
    np.save("large.npy", np.zeros((1001, 1)))
    ran = run("select", "large.npy", "--budget", "2", "--strategy", "optimal-coreset")
    assert ran.code == 2
    assert ran.complaint.endswith(
        "pass a sample of at most 1000 points, or --strategy coreset, whose radius is at most twice the optimal one."
    )


def test_a_process_that_fails_shows_no_traceback(run_process: Program) -> None:
    ran = run_process("select", "nowhere.npy", "--budget", "3")
    assert ran.code == 2
    assert ran.complaint == "nowhere.npy does not exist; check the path."


def test_the_installed_program_is_the_same(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("dubito")
    done = subprocess.run([program, "selct"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("dubito: error: No such command 'selct'")


# The handler itself


def failing(error: BaseException) -> Callable[[], object]:
    def program() -> object:
        raise error

    return program


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (MissingExtra("pyarrow is needed here"), 1, "pyarrow is needed here"),
        (OSError(28, "No space left on device", "picks.csv"), 1, "picks.csv: No space left on device."),
        (OSError("gone"), 1, "input or output: gone."),
        (MemoryError(), 1, "not enough memory"),
        (KeyboardInterrupt(), 130, "interrupted."),
        (typer.Abort(), 130, "interrupted."),
        (Stopped("interrupted after 3 picks."), 130, "interrupted after 3 picks."),
        (ZeroDivisionError("by\nzero"), 1, "unexpected ZeroDivisionError: by zero."),
        (typer.BadParameter("no good"), 2, "Invalid value: no good; see dubito --help."),
    ],
)
def test_whatever_goes_wrong_is_one_line(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of(failing(error)) == code
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert said in err


def test_a_typer_that_swallows_ctrl_c_still_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(lambda: 130) == 130
    assert capsys.readouterr().err == "dubito: error: interrupted.\n"


@pytest.mark.parametrize(
    "start", [["-m", "dubito"], ["-c", "from dubito.__main__ import main; raise SystemExit(main())"]]
)
def test_ctrl_c_while_numpy_is_imported_is_one_line(start: list[str], tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(60)")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, *start, "--version"], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 130
    assert ran.stderr == "dubito: error: interrupted.\n"


def test_ctrl_c_while_python_ends_changes_nothing() -> None:
    program = (
        "import atexit, os, signal; from dubito.__main__ import main; "
        "atexit.register(os.kill, os.getpid(), signal.SIGINT); raise SystemExit(main())"
    )
    ran = subprocess.run([sys.executable, "-c", program, "--version"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_developer_can_have_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRACEBACK, "1")
    with pytest.raises(ZeroDivisionError):
        exit_code_of(failing(ZeroDivisionError()))


def test_a_terminal_without_the_letters_gets_question_marks(pool: Pool, run_process: Program) -> None:
    ran = run_process("diagnose", "pool.npz", PYTHONIOENCODING="ascii")
    assert ran.code == 0
    assert "?" in ran.out
