"""The contract an engine or a strategy must meet, as checks that plug-in authors can run in their own tests.

`check_engine` solves generated problems, full of what goes wrong, and compares every pick with
`dubito.core.reference`; `check_strategy` runs a strategy through `dubito.select`. Both raise an AssertionError that
says how to make the failing case again. Everything depends on nothing but the seed.
"""

from dubito.testing.contract import check_engine, check_strategy
from dubito.testing.coverage import check_coverage_engine, make_coverage_problem
from dubito.testing.problems import make_problem

__all__ = ["check_coverage_engine", "check_engine", "check_strategy", "make_coverage_problem", "make_problem"]
