"""The same picks from many processes: each holds a shard of the pool, and one driver picks.

A shard knows the bounds of its own candidates and does all work on their features: it is the lazy algorithm's state cut
into pieces. A round goes once around: the driver sends what was picked in the last one, every shard brings its first
candidates up to date and answers with them and with what comes next, and the driver picks inside the merged front for
as long as nothing that was left out may come first. What a front decides does not depend on how the pool was cut, so
the picks are those of one machine; rounds, not picks, cost a trip over the network.

The driver holds a front and the picks, never the pool. What a worker that dies has known can be had again: its shard is
read anew, and the picks so far are references like any other.
"""
