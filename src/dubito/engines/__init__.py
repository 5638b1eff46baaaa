"""Engines solve problems: each returns the picks of the reference, in the same order, bit for bit.

| engine | hardware | when ``"auto"`` uses it |
| --- | --- | --- |
| `cuda` | an NVIDIA GPU | the features are on the GPU, or there is enough work to copy them there |
| `cpu` | all cores | otherwise |
| `cluster` | the processes of a Ray cluster | never |
| `reference` | `dubito.core.reference` | no other engine solves this kind of problem |
| plug-ins | | before the built-in engines, if their `pays` returns True |

`base` defines the interface of an engine, and `dispatch` chooses one. A new engine is a module here and a line in
`dispatch.BUILT_IN`.

**Why the picks agree.** `cpu` and `cuda` run the exact lazy algorithm of `lazy`. Products in float32 only rule out
candidates that cannot come first, with error bounds that hold for any order of additions (the constants are in
`lazy.bounds`). All other decisions use `dubito.core.distances.exact_sq_distances`, the float64 distance of the
reference, with ties to the lowest index. So block sizes, threads and devices change how many exact distances are
computed, never the picks.
The proofs are in ``docs/explanation/engine.md``, and `dubito.testing.check_engine` tests any engine.
"""
