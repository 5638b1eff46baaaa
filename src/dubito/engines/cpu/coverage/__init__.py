"""The engine `cpu` for coverage: exact, by the few pairs that can matter.

A candidate y adds something at a row x only if it is nearer to x than everything labeled or picked, and within reach.
With n rows and m labeled rows that is true of about n/m candidates for each x: a sparse matrix, which is all that the
engine stores.

1. `pairs.Nearest`: the exact distance of each row to what is labeled; it limits how near a candidate must be.
2. `pairs.PairSearch`: the pairs within a row's limit. Cells of near rows are compared as a whole, then rows by products
   of their first coordinates (`space`), then the pairs that are left by further coordinates and float32 differences.
3. `gains`: upper bounds on what candidates add, and greedy picks in the order of the bounds. All threads bring the
   first candidates up to date; then one thread makes the gain of the very first exact, with kernels in float64.

`kept` is what a `dubito.Pool` keeps of the second step for the next round.

The bounds only rule out; what is picked is exact. All this is in C. Without the compiled module a plain lazy algorithm
(`gains.PlainGains`) gives the same picks.
"""
