"""Measure what the tests notice: change one expression of the source at a time, and run the tests that execute it.

A mutant is *killed* if a test fails. Run by ``make mutants``; the same seed gives the same mutants. The first step runs
the suite once under coverage to learn which tests execute which lines; it is kept in the output folder and used again.

    python tools/mutants.py --level quick --count 320
    python tools/mutants.py --level full --only build/mutants/quick.json    # survivors of an earlier run alone
"""

import argparse
import ast
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Queue

import pytest

ROOT = Path(__file__).parents[1]
TARGETS = {
    "core/reference": 30,
    "core/coverage_reference": 35,
    "core/distances": 20,
    "engines": 85,
    "request": 65,
    "io": 45,
    "labeling": 45,
}
"""Modules and packages that are mutated, and their shares of the mutants."""
EXCLUDED = ("engines/cuda/programs",)
"""Source that Triton compiles for a GPU."""
LEVELS = {"quick": [], "full": ["--hypothesis-profile=full", "-m", ""]}
APART = [f"--ignore=tests/{name}" for name in ("cluster", "web/browser", "postgres")]
"""Tests that need Ray, Chromium or PostgreSQL."""
SECONDS_BEFORE_ALL = 20.0
"""A mutant first meets its quickest tests, of this many seconds together, and only then all that execute its line."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True)
class Mutant:
    """One change: bytes ``start`` to ``end`` of a file become ``after``."""

    path: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]


# Making mutants


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every mutant of the functions of a file; module-level constants, annotations and messages are left alone."""
    source = path.read_bytes()
    line_starts = [0]
    for line in source.splitlines(keepends=True):
        line_starts.append(line_starts[-1] + len(line))
    for node in expressions_of(ast.parse(source)):
        for changed in changes_of(node):
            assert isinstance(node, ast.expr | ast.stmt)
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            start = line_starts[node.lineno - 1] + node.col_offset
            end = line_starts[node.end_lineno - 1] + node.end_col_offset
            text = ast.unparse(changed)
            after = text if isinstance(node, ast.stmt) else f"({text})"
            before = source[start:end].decode()
            mutant = Mutant(path.relative_to(ROOT).as_posix(), node.lineno, start, end, before, after)
            if is_valid(mutant.apply(source)):
                yield mutant


def is_valid(source: bytes) -> bool:
    try:
        compile(source, "mutant", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def expressions_of(tree: ast.Module) -> Iterator[ast.AST]:
    """Nodes inside of functions, without texts, annotations, decorators, defaults and what is raised."""
    pending: list[tuple[ast.AST, bool]] = [(tree, False)]
    while pending:
        node, inside = pending.pop()
        if isinstance(node, ast.JoinedStr | ast.Raise | ast.arguments | ast.Assert):
            continue
        if inside:
            yield node
        for name, value in ast.iter_fields(node):
            if name in {"annotation", "returns", "decorator_list", "slice_annotation"}:
                continue
            here = inside or (isinstance(node, ast.FunctionDef) and name == "body")
            children = value if isinstance(value, list) else [value]
            pending.extend((child, here) for child in children if isinstance(child, ast.AST))


def changes_of(node: ast.AST) -> Iterator[ast.AST]:
    """What a node may become."""
    changed = copy.deepcopy(node)
    match changed:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            changed.ops = [COMPARISONS[type(op)]()]
            yield changed
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in OPERATORS:
            changed.op = OPERATORS[type(op)]()
            yield changed
        case ast.BoolOp():
            changed.op = ast.Or() if isinstance(changed.op, ast.And) else ast.And()
            yield changed
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield changed.operand
        case ast.Constant(value=bool()):
            yield ast.Constant(not changed.value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.IfExp():
            changed.test = ast.UnaryOp(ast.Not(), changed.test)
            yield changed
        case ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.Return(value=ast.expr()) if not isinstance(changed.value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def sample(count: int, seed: int) -> list[Mutant]:
    """Mutants of every target, as many of each as its share says."""
    chosen: list[Mutant] = []
    for target, share in TARGETS.items():
        place = ROOT / "src" / "dubito" / target
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
        kept = [path for path in files if not any(part in path.as_posix() for part in EXCLUDED)]
        everything = [mutant for path in kept for mutant in mutants_of(path)]
        n = min(len(everything), round(count * share / sum(TARGETS.values())))
        chosen += random.Random(f"{seed}/{target}").sample(everything, n)
    return chosen


# Which tests execute which lines


class Contexts:
    """A pytest plug-in that tells coverage which test is running."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        counting = sys.modules["coverage"].Coverage.current()
        if counting is not None:
            counting.switch_context(item.nodeid)
        return (yield)

    def pytest_sessionfinish(self) -> None:
        """Save now: a worker of xdist may be killed before it would do so at its exit."""
        counting = sys.modules["coverage"].Coverage.current()
        if counting is not None:
            counting.stop()
            counting.save()


def pytest_configure(config: pytest.Config) -> None:
    """For pytest's ``-p mutants``."""
    if "coverage" in sys.modules:
        config.pluginmanager.register(Contexts())
    if "PYTEST_XDIST_WORKER" in os.environ:
        # Only the processes that run tests are measured, not the programs that tests start.
        for name in [name for name in os.environ if name.startswith("COVERAGE")]:
            del os.environ[name]


def with_path(folder: Path) -> dict[str, str]:
    """The environment with a folder ahead of others that Python imports from."""
    others = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{others}" if others else str(folder)}


def trace(folder: Path, level: str, jobs: int) -> None:
    """Run the suite under coverage with the name of the test as context, and note how long each test took."""
    settings = folder / "coverage.ini"
    data = folder / f"{level}.coverage"
    settings.write_text(f"[run]\nsource = dubito\ndata_file = {data}\nparallel = true\npatch = subprocess\n")
    environment = with_path(Path(__file__).parent)
    tests = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest", "-p", "mutants"]
    options = ["-n", str(jobs), "--dist=worksteal", f"--junitxml={folder / level}.xml", *APART, *LEVELS[level]]
    subprocess.run([*tests, *options], cwd=ROOT, env=environment, check=False)
    combine = [sys.executable, "-m", "coverage", "combine", "--quiet", f"--rcfile={settings}"]
    subprocess.run(combine, cwd=ROOT, check=True)


def tests_by_line(folder: Path, level: str) -> dict[tuple[str, int], set[str]]:
    """The tests that execute a line of a file."""
    from coverage import CoverageData

    data = CoverageData(str(folder / f"{level}.coverage"))
    data.read()
    found: dict[tuple[str, int], set[str]] = {}
    for name in data.measured_files():
        path = Path(name)
        if ROOT / "src" in path.parents:
            for line, contexts in data.contexts_by_lineno(name).items():
                found[path.relative_to(ROOT).as_posix(), line] = {each for each in contexts if "::" in each}
    return found


def passed_tests(folder: Path, level: str) -> dict[str, float]:
    """Seconds of each test that passed on the source as it is, from pytest's JUnit file."""
    from xml.etree import ElementTree

    seconds: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(folder / f"{level}.xml").iter("testcase"):
        if all(child.tag not in {"failure", "error", "skipped"} for child in case):
            file = str(case.get("classname")).replace(".", "/") + ".py"
            seconds[f"{file}::{case.get('name')}"] += float(case.get("time", 0.0))
    return seconds


# Running tests on mutants


@dataclass
class Outcome:
    """What became of a mutant."""

    mutant: Mutant
    status: str
    """killed, survived, or "not executed" where no test reaches the line."""
    n_tests: int
    seconds: float


class Bench:
    """Copies of the source to mutate, one for each job."""

    def __init__(self, folder: Path, level: str, jobs: int) -> None:
        self.level = level
        self.tests = tests_by_line(folder, level)
        self.seconds = passed_tests(folder, level)
        self.copies: Queue[Path] = Queue()
        for number in range(jobs):
            copied = folder / f"copy{number}"
            shutil.rmtree(copied, ignore_errors=True)
            ignored = shutil.ignore_patterns("__pycache__")
            for part in ("src", "tests", "docs", "benchmarks", "tools"):
                shutil.copytree(ROOT / part, copied / part, ignore=ignored)
            for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
                shutil.copy(ROOT / name, copied)
            self.copies.put(copied)

    def judge(self, mutant: Mutant) -> Outcome:
        began = time.monotonic()
        executing = self.tests.get((mutant.path, mutant.line), set())
        tests = sorted(executing & self.seconds.keys(), key=lambda test: self.seconds[test])
        if not tests:
            return Outcome(mutant, "not executed", 0, 0.0)
        copied = self.copies.get()
        changed = copied / mutant.path
        source = (ROOT / mutant.path).read_bytes()
        changed.write_bytes(mutant.apply(source))
        try:
            killed = any(self.fails(copied, part) for part in self.in_two_parts(tests))
        finally:
            changed.write_bytes(source)
            self.copies.put(copied)
        return Outcome(mutant, "killed" if killed else "survived", len(tests), round(time.monotonic() - began, 1))

    def in_two_parts(self, tests: list[str]) -> Iterator[list[str]]:
        total, cut = 0.0, 0
        while cut < len(tests) and total < SECONDS_BEFORE_ALL:
            total += self.seconds[tests[cut]] + 0.01
            cut += 1
        yield tests[:cut]
        if cut < len(tests):
            yield tests[cut:]

    def fails(self, copied: Path, tests: list[str]) -> bool:
        """Whether one of these tests fails, or does not end."""
        listed = copied / "tests.txt"
        listed.write_text("\n".join(tests), encoding="utf-8")
        environment = with_path(copied / "src")
        environment |= {
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "DUBITO_THREADS": "2",
        }
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *LEVELS[self.level]]
        command.append("@tests.txt")
        expected = sum(self.seconds[test] for test in tests)
        try:
            ran = subprocess.run(
                command, cwd=copied, env=environment, capture_output=True, timeout=60 + 8 * expected, check=False
            )
        except subprocess.TimeoutExpired:
            return True
        if ran.returncode == pytest.ExitCode.NO_TESTS_COLLECTED:
            raise RuntimeError(f"pytest found none of its tests:\n{ran.stdout.decode()[-2000:]}")
        return ran.returncode != pytest.ExitCode.OK


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=320, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--level", choices=sorted(LEVELS), default="quick", help="which tests are run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=Path, help="a result file: only the mutants that survived there")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants", help="where results are kept")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / f"{options.level}.coverage").exists():
        trace(folder, options.level, options.jobs)
    mutants = sample(options.count, options.seed)
    if options.only:
        earlier = json.loads(options.only.read_text(encoding="utf-8"))
        mutants = [Mutant(**each["mutant"]) for each in earlier if each["status"] != "killed"]
    bench = Bench(folder, options.level, options.jobs)
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(options.jobs) as threads:
        for done in as_completed([threads.submit(bench.judge, mutant) for mutant in mutants]):
            outcomes.append(outcome := done.result())
            place = f"{outcome.mutant.path}:{outcome.mutant.line}"
            change = f"{outcome.mutant.before[:60]!r} -> {outcome.mutant.after[:60]!r}"
            print(
                f"{len(outcomes):4}/{len(mutants)} {outcome.status} {outcome.seconds} s  {place}  {change}", flush=True
            )
            saved = [asdict(each) for each in sorted(outcomes, key=lambda each: (each.mutant.path, each.mutant.start))]
            (folder / f"{options.level}.json").write_text(json.dumps(saved, indent=1), encoding="utf-8")
    killed = sum(each.status == "killed" for each in outcomes)
    print(f"{killed} of {len(outcomes)} mutants killed")


if __name__ == "__main__":
    main()
