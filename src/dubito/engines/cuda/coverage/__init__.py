"""The engine `cuda` for coverage: tensor cores find the pairs that can matter; their exact kernels decide, in rounds.

A pick adds cover only to rows that are nearer to it than to the labeled points, as on the CPU
(`dubito.engines.cpu.coverage`). Here all pairs are computed exactly at the start, so that all gains are exact. If the
pairs do not fit into memory, only those of a front of candidates are, in the order of upper bounds.
"""
