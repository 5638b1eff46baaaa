"""Contract tests for engines and strategies, which plug-in authors can run in their own tests.

`check_engine` solves generated problems with many edge cases and compares all picks with `dubito.core.reference`;
`check_coverage_engine` does so for coverage, `check_groups` for engines that pick groups of rows, and `check_strategy`
runs a strategy with `dubito.select`. They raise an AssertionError that says how to reproduce the failing case. The
problems depend only on the seed.
"""

from dubito.testing.contract import check_engine, check_strategy
from dubito.testing.coverage import check_coverage_engine, make_coverage_problem
from dubito.testing.groups import check_groups, make_group_problem
from dubito.testing.problems import make_problem

__all__ = [
    "check_coverage_engine",
    "check_engine",
    "check_groups",
    "check_strategy",
    "make_coverage_problem",
    "make_group_problem",
    "make_problem",
]
