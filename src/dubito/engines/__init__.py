"""Engines compute: each solves a `dubito.problem.Problem` to the reference's picks."""
