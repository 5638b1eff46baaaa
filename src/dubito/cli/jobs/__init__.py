"""What a command does once its options are read: `select` and its `dry_run`, `run` (and resume), `simulate` (and demo).

Beside them what they make: the `report` of a run, what it keeps `about` its data, and the contact `sheet` of picks.
"""
