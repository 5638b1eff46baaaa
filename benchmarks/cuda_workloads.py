"""Pools on a GPU: a real one from a file, and generated ones made there, seeded.

Generated pools are of the character of `workloads`, or clusters.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from workloads import CLASSES, RANK, WIDTH, Array, Floats, Mixture

from dubito.doubt import doubt_from_logits

Tensor = Any
BLOCK = 200_000
GENERATED, CLUSTERS = "generated", "clusters"
N_CLUSTERS, SPREAD = 1_000, 0.5
"""Gaussian clusters around centers of standard deviation 1 in every feature."""


@dataclass(frozen=True, slots=True)
class GpuWorkload:
    """Features on the GPU and doubts on the host, before a budget is named."""

    title: str
    pool: Tensor
    labeled: Tensor
    doubt: Floats
    logits: Tensor = None
    """On the GPU, where the doubts are of them."""

    def head(self, n_pool: int) -> "GpuWorkload":
        """The first rows of the pool."""
        return GpuWorkload(self.title, self.pool[:n_pool], self.labeled, self.doubt[:n_pool])

    def on_host(self) -> tuple[Array, Array]:
        """Pool and labeled in float32, for those that run on the CPU."""
        return self.pool.float().cpu().numpy(), self.labeled.float().cpu().numpy()


def read_gpu_workload(path: Path) -> GpuWorkload:
    """A real pool: an .npz with features (N, d), logits (N, c) and labeled, the rows that are."""
    with np.load(path) as file:
        features, logits, rows = file["features"], file["logits"], file["labelled"]
    is_labeled = np.zeros(len(features), dtype=np.bool_)
    is_labeled[rows] = True
    pool, labeled = (torch.tensor(features[which], device="cuda") for which in (~is_labeled, is_labeled))
    own = logits[~is_labeled]
    return GpuWorkload(path.name, pool, labeled, doubt_from_logits(own), torch.tensor(own, device="cuda"))


def generate_gpu_workload(n_pool: int, n_labeled: int, dtype: Any) -> GpuWorkload:
    """A generated pool in GPU memory."""
    pool, doubt = _draw(n_pool, 0, dtype)
    return GpuWorkload(GENERATED, pool, _draw(n_labeled, 1, dtype)[0], doubt)


def generate_clusters(n_pool: int, n_labeled: int) -> GpuWorkload:
    """Clusters of float16, and doubts that are drawn evenly from 0 to 1, whatever the features."""
    generator = torch.Generator(device="cuda").manual_seed(0)
    centers = torch.randn((N_CLUSTERS, WIDTH), device="cuda", generator=generator)
    pool, labeled = (_draw_clusters(n, centers, generator) for n in (n_pool, n_labeled))
    return GpuWorkload(CLUSTERS, pool, labeled, np.random.default_rng(0).random(n_pool))


def _draw_clusters(n: int, centers: Tensor, generator: Any) -> Tensor:
    features = torch.empty((n, WIDTH), dtype=torch.float16, device="cuda")
    for start in range(0, n, BLOCK):
        block = features[start : start + BLOCK]
        own = torch.randint(N_CLUSTERS, (len(block),), device="cuda", generator=generator)
        block.copy_(centers[own] + SPREAD * torch.randn(block.shape, device="cuda", generator=generator))
    return features


def _draw(n: int, seed: int, dtype: Any) -> tuple[Tensor, Floats]:
    mixture, generator = Mixture(), torch.Generator(device="cuda").manual_seed(seed)
    features = torch.empty((n, WIDTH), dtype=dtype, device="cuda")
    doubt = torch.empty(n, dtype=torch.float64, device="cuda")
    for start in range(0, n, BLOCK):
        span = slice(start, min(start + BLOCK, n))
        features[span], doubt[span] = _draw_block(span.stop - start, mixture, generator)
    return features, doubt.cpu().numpy()


def _draw_block(n: int, mixture: Mixture, generator: Any) -> tuple[Tensor, Tensor]:
    """As `Mixture.draw` has it."""
    there: dict[str, Any] = {"device": "cuda", "generator": generator}
    margin = (9.0 * torch.randn(n, dtype=torch.float64, **there) + 11.5).abs()
    share = (0.5 / (1.0 + margin / 6.0)).float()
    first = torch.randint(CLASSES, (n,), **there)
    second = (first + torch.randint(1, CLASSES, (n,), **there)) % CLASSES
    blend = torch.zeros((n, CLASSES), device="cuda")
    blend.scatter_(1, first[:, None], 1.0 - share[:, None]).scatter_(1, second[:, None], share[:, None])
    along = torch.randn((n, RANK), **there) * (0.6 + 1.6 * share)[:, None]
    centers, directions, bias = (
        torch.tensor(each, device="cuda") for each in (mixture.centers, mixture.directions, mixture.bias)
    )
    features = blend @ centers + along @ directions + bias + 1.5 * torch.randn((n, WIDTH), **there)
    features *= torch.exp(0.22 * torch.randn(n, **there))[:, None]
    return features.clamp(min=0.0), 1.0 / (1.0 + torch.exp(margin))
