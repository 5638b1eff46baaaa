"""Coverage over shards: the candidates are cut, what is to be covered is not.

1. `ground`: the rows that are to be covered (all that count, or a sample of them) are gathered from the shards, each
   with its distance to what is labeled, and so is the reach.
2. `holder`: every shard hears the whole ground and finds the pairs of its own candidates with it, as one machine does
   of all (`dubito.engines.cpu.coverage`); `bounds` brings its first candidates up to date.
3. `driver`: a round goes once around. Shards hear where cover has grown, and answer with their first candidates, each
   with its exact pairs (`messages`), and with what comes next; `front` picks among them for as long as nothing that was
   left out may come first.

The ground stands in the order of the pool, so that sums over it have the bits of sums over the pool: rows that do not
count add nothing. What a candidate adds never grows, and so the picks do not depend on how the pool was cut.
"""
