"""The engine `cuda` for coverage: tensor cores find the pairs that matter, and picks are made in rounds.

A pick adds cover only to rows that are nearer to it than to the labeled points, as on the CPU
(`dubito.engines.cpu.coverage`). Here the kernels of all pairs are computed exactly at the start, so that all gains are
exact. If the pairs do not fit into memory, this is done for one front of candidates at a time, in the order of upper
bounds on the gains.
"""
