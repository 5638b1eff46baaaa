"""Argument checks at the door.

Each takes the argument's name, returns the value in the form the inside trusts, and otherwise raises an error that
names the argument, the value and the mend. Nothing handed in is changed. Tensors, frames and Arrow columns are
recognised without importing their packages.
"""

from dubito.checks.arrays import as_array, as_matrix, as_names
from dubito.checks.frames import check_pool, in_pool_order
from dubito.checks.rows import Features, check_features, check_finite, refuse_zero_rows, unlike_features
from dubito.checks.scaled import Standardised, check_standardise, standardise_points, warn_of_scales
from dubito.checks.values import check_budget, check_choice, check_integer, check_memory_limit, check_real, read_number
from dubito.checks.which import (
    Labelled,
    check_candidates,
    check_labelled,
    check_rows,
    labelled_in_order,
    refuse_ids,
    rows_in_order,
    told_order,
)

__all__ = [
    "Features",
    "Labelled",
    "Standardised",
    "as_array",
    "as_matrix",
    "as_names",
    "check_budget",
    "check_candidates",
    "check_choice",
    "check_features",
    "check_finite",
    "check_integer",
    "check_labelled",
    "check_memory_limit",
    "check_pool",
    "check_real",
    "check_rows",
    "check_standardise",
    "in_pool_order",
    "labelled_in_order",
    "read_number",
    "refuse_ids",
    "refuse_zero_rows",
    "rows_in_order",
    "standardise_points",
    "told_order",
    "unlike_features",
    "warn_of_scales",
]
