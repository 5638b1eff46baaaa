"""Engines compute: each solves a problem to the reference's picks, in order, bit for bit.

| engine | where | when ``"auto"`` takes it |
| --- | --- | --- |
| `cuda` | one NVIDIA GPU, through PyTorch and Triton | features lie on the GPU, or there is work enough to bring them |
| `cpu` | every core that BLAS uses | otherwise |
| `reference` | `dubito.core.reference` as it stands | nothing else solves the kind of problem: slow, plainly right |
| others | packages that offer one by entry point | where they say that they pay, before dubito's own |

`base` says what an engine is: which kinds of problem it solves, why it would refuse one, whether it pays, what it
would cost, and how it solves. `dispatch` asks these questions and nothing past them. A new engine is a file here and a
line in `dispatch.BUILT_IN`.

**Why the picks agree.** `cpu` and `cuda` run the exact lazy algorithm of `lazy`. Products in float32 only ever rule
out what cannot come first, by bounds that hold for any order of additions (`lazy.rounding` has every constant). What
is left is decided by `dubito.core.distances.settle`, the one float64 distance of the reference, with ties to the
lowest index. So block sizes, threads and devices change how much is settled, never what is picked. The documentation
has the argument (How the engine is exact), and `dubito.testing.check_engine` holds any engine to it.
"""
