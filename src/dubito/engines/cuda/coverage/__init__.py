"""The engine `cuda` for coverage: all pairs that can matter, found by tensor cores, settled, and picked in rounds.

As on the CPU (`dubito.engines.cpu.coverage`) a pick adds something only within a row's limit, its distance to what is
labeled. Here every candidate's pairs are settled at once, and so every gain is exact from the start; where there are
too many for the memory, those of a front of candidates, in the order of upper bounds.
"""
