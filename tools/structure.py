"""Print the size of the source and the depth of its calls, to compare before and after a refactoring.

python tools/structure.py
"""

import ast
import json
import statistics
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"

COUNT_CALLS = """
import inspect
import sys
import numpy as np
rows = np.random.default_rng(0).normal(size=(200, 4))
functions = set()

def count(frame, event, argument):
    code = frame.f_code
    # The bodies of classes and modules, which run at import, are not functions: they have no fast locals.
    is_function = bool(code.co_flags & inspect.CO_OPTIMIZED) and not code.co_name.startswith("<")
    is_ours = "/dubito/" in code.co_filename and event == "call" and is_function
    if is_ours and "/dubito/engines/" in code.co_filename and code.co_name == "solve":
        print(len(functions), file=sys.stderr)
        sys.setprofile(None)
    elif is_ours:
        functions.add((code.co_filename, code.co_firstlineno))

"""
SELECT_ARRAY = """
import dubito
dubito.select(rows, budget=5)
sys.setprofile(count)
dubito.select(rows, budget=5)
"""
SELECT_FILE = """
from dubito.cli import main
np.savetxt("pool.csv", rows, delimiter=",", header="a,b,c,d", comments="")
sys.argv = ["dubito", "select", "pool.csv", "--budget", "5", "--quiet", "-o", "picks.csv"]
sys.setprofile(count)
main()
"""


def calls_before_engine(script: str) -> int:
    """Number of different functions of dubito that are called before an engine solves the problem."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", COUNT_CALLS + textwrap.dedent(script)]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return int(ran.stderr.split()[0])


def import_milliseconds() -> float:
    """The shortest time of five imports of dubito, without starting Python."""
    code = "import time; t = time.perf_counter(); import dubito; print(1000 * (time.perf_counter() - t))"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    return min(float(ran.stdout) for ran in runs)


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def importers(trees: dict[str, ast.Module]) -> Counter[str]:
    """The number of modules that import each module."""
    counts: Counter[str] = Counter()
    for name, tree in trees.items():
        imported = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    imported.add(full if full in trees else node.module)
        counts.update(imported & trees.keys() - {name})
    return counts


def main() -> None:
    paths = sorted(SOURCE.rglob("*.py"))
    trees = {module_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    documented = [node for node in nodes if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
    facts = {
        "Python files": len(paths),
        "lines of Python": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths),
        "lines of docstrings": sum(
            len((ast.get_docstring(node, clean=False) or "").splitlines()) for node in documented
        ),
        "lines of C": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCE.rglob("*.[ch]")),
        "functions": len(functions),
        "median lines of a function": statistics.median(
            node.end_lineno - node.lineno + 1 for node in functions if node.end_lineno
        ),
        "modules with one importer": sum(count == 1 for count in importers(trees).values()),
        "functions called before the engine, select(array)": calls_before_engine(SELECT_ARRAY),
        "functions called before the engine, dubito select file.csv": calls_before_engine(SELECT_FILE),
        "import time (ms)": round(import_milliseconds()),
    }
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
