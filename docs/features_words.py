"""What the page of the study on frozen features says besides its numbers."""

POOLS = {
    "clean": "The 50,000 items as they are.",
    "ambiguous": "25,000 blends of two items of different classes beside the 50,000, with the label of either.",
    "imbalanced": "Class sizes fall from 5,000 to 500, in another order for each seed: 20,434 items, of "
    "which half are labeled in the end. The test set stays balanced.",
    "mislabelled": "A tenth of the labels is wrong, and comes wrong when asked for. The test set is right.",
    "redundant": "Each item and two near-copies: 150,000 items.",
}

INTRODUCTION = """\
# Frozen features and a linear probe

Five experiments on real features: CIFAR-10 through a VGG16 trained on ImageNet and left as it is, and on top of it a
linear model that is trained after every round of labels. This is the cheapest way to learn from few labels, and a
common one. In short: **`margin` is what to take here, by a small lead; the plain core-set is worse than random; scaling
by doubt brings it back to random's level, seldom above.**

## What was run

- **Data.** 50,000 × 512 features in float16, 10,000 test items, 10 classes. The network's 13 convolutions with
  torchvision's weights see the 32 × 32 image (scaled to 0 to 1, then by ImageNet's mean and deviation), and leave
  one value in each of 512 channels.
- **Model.** `probe`, 100 iterations of L-BFGS a training, going on from the last weights. Its penalty was chosen on
  5,000 training items set apart, with random labels alone: 0.003 has the best mean of three sizes, by a hair. Accuracy
  in percent there:

  | `c` | 1 | 0.1 | 0.03 | 0.01 | **0.003** | 0.001 | 0.0003 |
  | --- | --- | --- | --- | --- | --- | --- | --- |
  | 1,000 labels | 55.8 | 57.7 | 59.4 | 60.4 | 60.3 | 58.3 | 55.2 |
  | 3,000 labels | 55.3 | 59.6 | 62.8 | 64.1 | 64.5 | 63.0 | 60.7 |
  | 10,000 labels | 62.3 | 64.6 | 66.1 | 67.5 | 67.3 | 66.2 | 64.7 |

- **Schedule.** 1,000 labels at random, then nine rounds of 1,000.
- **Pools and seeds.** A clean pool with 10 seeds, four flawed ones with 5. Five seeds tell less.
- **Statistics.** As in every report of `dubito`: the mean accuracy over the curve, paired by seed, with 95% intervals;
  p is Holm's, over the strategies held against the same baseline on one pool. *Beyond chance* is p under 0.05. Nothing
  is corrected over the five pools. *Labels saved* is how much sooner a strategy reaches what random learns from 10,000.
  A picture's headline names the best of the strategies that beat random beyond chance.
- **What was seen before.** A short trial on the same data and test set (one seed, `c` = 1, up to 3,000 labels:
  `random`, `coreset`, `doubt-coreset`, `margin`) was looked at first, and that `random` did not rise there is why
  the penalty was chosen anew, on the items set apart alone. Strategies, pools, schedule and seeds were not changed
  after the study's own results were seen. Steps between strengths, and the relation to δ, were not among the
  planned comparisons.
- **Machine.** 16 cores of an Intel Xeon, 16 workers of one thread; dubito 0.1.0 before its release, NumPy 2.5.2, SciPy
  1.18.1, scikit-learn 1.9.1, torch 2.11.0, Python 3.12.3. Time: clean 105 s, ambiguous 53 s, imbalanced 41 s,
  mislabelled 48 s, redundant 105 s. `badge` was begun there and its last rounds were played on two slower cores with
  NumPy 2.4.6 and torch 2.13.0. What takes long was begun there beside other work and ended on
  those two cores, half of it each: times of its selections are the mean of both.

Every number below comes from a report:
[clean](features/clean/report.html), [ambiguous](features/ambiguous/report.html),
[imbalanced](features/imbalanced/report.html), [mislabelled](features/mislabelled/report.html),
[redundant](features/redundant/report.html), [badge](features/badge/report.html).
"""

AFTER_RADII = """\
δ is the largest distance of an item to its nearest label, δ̂ the same with distances times doubt; both are recorded
before each round's picks. Below: their means at 2,000, 5,000 and 10,000 labels, the *gain* of `doubt-coreset` over
`coreset` in points there, and how the gain goes with `coreset`'s δ: the rank correlation over the nine rounds, and the
correlation over seeds (each seed's mean). Chance alone reaches 0.70 over nine rounds, 0.88 over 5 seeds and 0.63 over
10, in one of twenty cases.

**No relation that holds across pools.** The gain is made in the first rounds and shrinks slowly at the end, while
`coreset`'s δ only falls, so over the rounds they go together weakly or not at all. Over seeds
the correlation exceeds chance on the imbalanced pool alone (one of five looks, uncorrected), where every seed has other
rare classes; on the ambiguous pool its sign is the opposite.

Nor do the radii order the strategies. `coreset` has by far the smallest δ of all, and the lowest or second lowest
accuracy. Under `doubt-coreset` δ hardly shrinks: some items stay far from every label, and the model is sure of
them (on the clean pool, δ̂ of 15 at a δ of 84 means a doubt of at most 0.18 there). δ̂ ends smallest at strengths 0.5
and 1, as it should, and `margin`, whose δ̂ is about twice as large, does best. On these features coverage is not what
a linear probe lacks."""

SLOW = """\
What takes long was measured in a run of its own ([report](features/slow/report.html)), with the same data, probe,
schedule and seeds, planned once the results above were known. `random` was played again there, and its mean accuracy is
within {apart} points of the row above under every seed. *Against coreset* pairs the two runs seed by seed; p is Holm's
over the rows of this table. `bald` and `batchbald` ask ten probes, each trained on a bootstrap resample of the labels;
*a selection* has their training in it. On one core a process, with {versions}.

Ten probes have ln 10 = 2.3 nats to tell. `batchbald` has them after some 70 of its 1,000 picks: what follows tells less
than a millionth of a nat, and after some 130 picks nothing, so that most of its batch goes by index.
"""

COSTS = """
## What was not run

- `badge` and what takes long on the flawed pools, and the beam and `acquired` there.
- Networks that are trained through: the features do not change here. What the paper says of them is not tested by this.
"""

RERUN = """\
## Run it again

The experiments come with the package. Make `cifar10_vgg16_frozen.npz` as told above, with arrays `features`, `labels`,
`test_features` and `test_labels`, and write the file of an experiment beside it:

```python
from pathlib import Path

from dubito.experiments.plan import shipped_experiments, shipped_text

Path("clean.toml").write_text(shipped_text("features-clean"))
names = [name for name in shipped_experiments() if name.startswith("features-")]
print(names[:2])  # ['features-ambiguous', 'features-badge']
```

`dubito run clean.toml` then plays it, and `dubito report` makes its report.
"""
