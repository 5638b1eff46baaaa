"""A cell: one strategy under one seed, turn by turn, and the record of what is done."""
