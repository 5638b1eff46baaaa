"""The engine `cpu` for coverage: exact, by the few pairs that can matter.

A pick y adds something at a row x only where it lies nearer to x than everything labeled or picked, and within reach.
With n rows and m labeled that is about n/m of them for each x, out of n: a sparse matrix. The engine finds it and
never holds another.

1. `nearest`: the exact distance of each row to what is labeled. It is how near a pick must come: the row's limit.
2. `pairs`: pairs that may lie within a row's limit, by upper bounds on products from a few numbers a point (`probes`).
3. `lists`: the pairs of a candidate, each with an upper bound on its kernel: from probes, from float32 differences once
   the candidate comes up, and settled in float64 when it would be picked.
4. `greedy`: candidates in the order of their bounds; what stands first is brought up to date until it is exact.

Bounds only rule out. What is picked was settled, and stands before every bound.
"""
