"""Selection from a pool in shards, each held by a process, with the same picks as on one machine.

Each shard runs the lazy algorithm of `dubito.engines.lazy` on its own candidates. In a round, the driver sends the
picks of the last round to all shards; each shard returns its first candidates with exact priorities, and a threshold
for the rest. The driver merges them into a front and picks until a candidate outside it may come first. The picks do
not depend on how the pool is divided, and the traffic grows with the number of rounds, not of picks.

The driver holds a front and the picks, never the pool. The state of a worker that dies is restored: its shard is read
again, and the picks so far are references like any other.
"""
