"""From a folder of pictures or a table of texts to a pool file: `embed`, its embedders, and what they embed.

`embed` opens a source (`opening`), takes an embedder by its name (`embedders`), and writes shard by shard (`storing`),
so that a run that was killed goes on where it was and gives the same file.

It imports nothing itself, since the processes that decode pictures start with it.
"""
