"""What rows are called: when two ids are the same, rows put in order by them, and when a label is none."""

from dubito.names.ids import Ids, are_row_numbers, id_keys
from dubito.names.joining import NO_NAMES, RowNames, matching_ids, order_of, pair_of, rows_of

__all__ = [
    "NO_NAMES",
    "Ids",
    "RowNames",
    "are_row_numbers",
    "id_keys",
    "matching_ids",
    "order_of",
    "pair_of",
    "rows_of",
]
