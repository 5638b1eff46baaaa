"""Coverage over shards: the candidates are divided among the shards, the rows to cover are not.

1. `driver` collects the targets, which are all rows with a weight, or a sample of them, with the squared distance of
   each to the nearest labeled point, and determines the reach.
2. `worker`: every shard receives all targets and computes upper bounds on what its own candidates add, like
   `dubito.engines.cpu.coverage` on one machine.
3. In a round, the driver sends the increases of the cover; each shard returns its first candidates with their exact
   kernels, and a threshold for the rest. The driver picks until a candidate outside the front may come first.

The targets are in pool order, so their sums equal sums over the pool bit for bit: rows without weight add nothing.
What a candidate adds never increases, so the picks do not depend on how the pool is divided.
"""
