"""What the page of the experiments on images says besides its numbers."""

from typing import NamedTuple


class Words(NamedTuple):
    """How an experiment is called."""

    title: str
    short: str
    """Below its picture's headline."""
    about: str


SEEDED = "Mean and one standard deviation over seeds."
POOLS = {
    "clean": "The 10,000 images as they are.",
    "redundant": "Five near-copies of each image, a little brighter or darker and with a little noise: 60,000.",
    "ambiguous": "Beside the 10,000 as many blends of two images of different classes, with the label of either.",
    "imbalanced": "Class sizes fall by a factor of ten, in another order for each seed: some 10,300 of 25,000 images.",
    "mislabelled": "A tenth of the labels is wrong, and comes wrong when asked for.",
}
SWEEP = (400, 1000, 2500, 5000)

EXPERIMENTS = {
    "cifar10-main": Words(
        "CIFAR-10, the paper's protocol",
        "CIFAR-10, constant learning rate",
        "5,000 labels at random, then four rounds of 5,000; the learning rate is constant. Figure 6 of the paper.",
    ),
    "cifar10-low-noise": Words(
        "CIFAR-10 with less training noise",
        "CIFAR-10, learning rate falls to 0 in each round",
        "The same, except that within each round the learning rate falls to 0 along a cosine. Not the paper's "
        "protocol: it stands beside it, to tell what training noise hides.",
    ),
    "cifar10-ablation": Words(
        "CIFAR-10, ablation",
        "CIFAR-10, constant learning rate",
        "1,000 labels at random, then eight rounds of 400. Figure 5 of the paper, and the update as it is printed. At "
        "a constant learning rate equal labels end up to a few points apart, so five seeds leave intervals of about a "
        "point to either side: smaller effects do not show here.",
    ),
    **{
        f"images-strength-{pool}": Words(
            f"Strength on a pool that is {pool}",
            f"CIFAR-10, {pool} pool, accuracy on a hold-out",
            f"{about} 1,000 labels at random, then four rounds of 1,000, the learning rate falling in each.",
        )
        for pool, about in POOLS.items()
    },
    **{
        f"cifar10-sweep-{budget}": Words(
            f"CIFAR-10, {budget:,} labels at a time",
            f"CIFAR-10, {budget:,} labels a round, learning rate falls to 0 in each",
            f"From 1,000 to 11,000 labels, {budget:,} at a time; the learning rate falls in each round.",
        )
        for budget in SWEEP
    },
    "cifar100-main": Words(
        "CIFAR-100, the paper's protocol",
        "CIFAR-100, constant learning rate",
        "5,000 labels at random, then four rounds of 5,000. Figure 6 of the paper.",
    ),
    "svhn-main": Words(
        "SVHN, the paper's protocol",
        "SVHN, constant learning rate",
        "5,000 labels at random, then four rounds of 5,000. Figure 6 of the paper.",
    ),
}

INTRODUCTION = """\
# Networks trained on images

The paper's own experiments: VGG16 on CIFAR-10, CIFAR-100 and SVHN, trained through, and trained on after every round
of labels. Every number on this page is computed from the records of the rounds, which lie beside it in
`docs/results/networks`, and so is every verdict: claims that do not hold are said not to hold, and what was not run
reads *not measured*.
"""

PROTOCOL = """\
## How it was run

- **Network.** The 13 convolutions of VGG16 with torchvision's ImageNet weights, on 32 × 32 images, and one linear layer
  on the 512 features after the last pooling. Distances are measured between these features.
- **Training.** Cross-entropy, Adam with PyTorch's defaults, batches of 64, no augmentation. The weights go on from
  round to round and the optimizer starts anew. Epochs in the first round and after: CIFAR-10 30 and 12, CIFAR-100 80
  and 20, SVHN 50 and 20, as in table 1 of the paper. On a GPU in bfloat16, many networks side by side.
- **Departures from the paper.** The learning rate is 1e-4, where the paper prints 0.01 (0.005 for SVHN): with these
  weights and no batch norm 0.01 diverges on CIFAR-10. The paper does not say whether its VGG16 has batch norm; ours has
  none. Which doubt scales an update is read from the paper's text and figures, not from the printed line
  ([why](../explanation/algorithms.md)); `scaling=acquired` is the printed line.
- **Pairs.** Strategies of a seed share first labels, weights of the head, and, as long as their labels are equal, the
  order of batches. On a GPU numbers differ in the last digits from run to run.
- **Statistics.** As in every report of `dubito`: the mean accuracy over the curve, which is the area under it divided
  by its width in labels, paired by seed, with 95% intervals. In an experiment's table p is Holm's over all strategies
  held against the same baseline. In the table of claims p is Holm's over the comparisons of that claim alone: two for
  scaling with a beam, four for figure 5, and one, so without a correction, for the plain core-set and for the sweep.
  Hence two p for one pair. *Beyond chance* is p under 0.05. *Labels saved* is how much sooner a strategy reaches what
  random learns in the end. Nothing is corrected over experiments.
- **Tested on** the test set. The study of strengths is for choosing, so it leaves that alone and is tested on a fifth
  of the training set.
- **What was seen before.** Prototypes of the main experiment, of the one with less noise and of the study of strengths,
  with three seeds, had been looked at on the test set before this code was written; they are why the last two are here.
  The learning rate was set by which one trains at all. Strategies, schedules and seeds were fixed before these runs;
  those of the sweep over labels a round after the others, when a constant rate had shown how much noise it leaves.
- **Times.** `cifar10-main` had the GPU to itself but for its first minute, and shared the processor with twelve
  processes of other work, so that its selections are slower than on an idle machine. The others shared the GPU, two at
  a time: their times say little. The first training includes compiling, and so do first selections of a kind: the
  time of a selection is therefore the median over rounds and seeds. Time spent selecting in all includes compiling.
  In the records a first training that several strategies share stands in the round of each: to add up `train_seconds`
  is to count it again, which the sums here do not. *Random and core-sets alone* counts training by their share of the
  strategies.
  The study of strengths but for its redundant pool, and the sweep, were run with a quicker `badge` than the others. By
  themselves, on an idle machine and with that, all selections of a seed of `cifar10-main` take 1.1 s, so those of five
  seeds 1.5% of training and selecting (`benchmarks/results/training.md` of the repository).
"""

RERUN = """\
## Run it again

```bash
dubito run cifar10-main --download        # brings CIFAR-10 (170 MB) and the weights (553 MB); --data-dir for a copy
dubito reproduce figure-5 figure-6        # the paper's figures with their claims
```

`dubito run` takes the name of every experiment above. Stopped, it goes on where it was. [Images](../how-to/images.md)
has the same for images and networks of your own.
"""
