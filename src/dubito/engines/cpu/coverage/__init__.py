"""The engine `cpu` for coverage: exact, from the few pairs of rows that matter.

A candidate y adds cover to a row x only if it is within reach of x and nearer to x than all labeled and picked rows.
With n rows and m labeled rows, about n/m candidates add cover to each row. The engine stores only this sparse matrix.

1. `pairs.Nearest`: the exact distance of each row to the nearest labeled row, which is the row's limit.
2. `pairs.PairSearch`: the pairs of a row and a candidate within the row's limit. Whole cells of near rows are compared
   first, then rows by products of their first coordinates (`space`), then the remaining pairs by all coordinates and by
   float32 differences.
3. `gains`: upper bounds on the gains of candidates, and greedy picks in the order of the bounds. All threads update the
   bounds of the first candidates; then one thread makes the gain of the first candidate exact, with float64 kernels.

`kept` contains what a `dubito.Pool` keeps of the second step for the next round.

Bounds only rule candidates out; picks are decided by exact gains. All steps are in C. Without the C extension, a simple
lazy algorithm (`gains.PlainGains`) makes the same picks.
"""
