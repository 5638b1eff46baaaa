"""The linear probe in PyTorch, on a CPU or a GPU: full-batch L-BFGS that continues from the previous turn."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dubito.experiments.models.base import Fitted, ModelDefaults, State, TrainingSet, check_samples, flat
from dubito.experiments.models.networks.training import check_device, deterministic, device_facts
from dubito.matrix import AnyArray, BoolArray, FloatArray
from dubito.registry import require
from dubito.request.arrays import check_integer, check_positive


@dataclass(frozen=True, slots=True)
class Probe(ModelDefaults):
    """Multinomial logistic regression like `Linear`, in float32 on a device; extra ``torch``.

    With the same ``c``, the optimum equals that of scikit-learn up to the precision of float32.
    """

    c: float = 1.0
    """Inverse of the L2 penalty's strength."""
    iterations: int = 200
    device: str = "cpu"
    samples: int = 0
    kind: ClassVar[str] = "probe"
    is_convex: ClassVar[bool] = True
    continues: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = ("torch",)

    def __post_init__(self) -> None:
        require("torch", extra="torch")
        check_positive("c", self.c)
        check_integer("iterations", self.iterations, least=1)
        check_device(self.device)
        check_samples(self.samples)

    def fit(self, train_set: TrainingSet) -> Fitted:
        """Take O(m·d·c) time per iteration."""
        import torch

        features = flat(train_set.features)
        present = np.zeros(train_set.n_classes, dtype=np.bool_)
        present[train_set.labels] = True
        start = train_set.state.get("weights", np.zeros((train_set.n_classes, features.shape[1] + 1), dtype=np.float32))
        with deterministic(0, self.device):
            x = torch.from_numpy(np.array(features, dtype=np.float32)).to(self.device)
            y = torch.from_numpy(train_set.labels).to(self.device)
            absent = torch.from_numpy(~present).to(self.device)
            weights = minimize(x, y, absent, torch.from_numpy(start.copy()).to(self.device), self.c, self.iterations)
        return ProbeFit(weights.cpu().numpy(), present, self.device)

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"

    def facts(self) -> dict[str, str]:
        """The device, which is part of the settings: a run on another device is another experiment."""
        return device_facts(self.device)


@dataclass(frozen=True, slots=True, eq=False)
class ProbeFit:
    weights: AnyArray
    """(c, d + 1), the last column the intercepts."""
    present: BoolArray
    """(c,) which classes have labels."""
    device: str

    @property
    def state(self) -> State:
        return {"weights": self.weights}

    def predict_proba(self, features: AnyArray) -> FloatArray:
        import torch

        with deterministic(0, self.device), torch.no_grad():
            x = torch.from_numpy(np.require(flat(features), np.float32, "W")).to(self.device)
            weights = torch.from_numpy(self.weights).to(self.device)
            logits = (x @ weights[:, :-1].T + weights[:, -1]).double()
            logits[:, torch.from_numpy(~self.present).to(self.device)] = -torch.inf
            return np.asarray(torch.softmax(logits, dim=1).cpu().numpy())

    def embed(self, features: AnyArray) -> AnyArray:
        return flat(features)


def minimize(x: Any, y: Any, absent: Any, weights: Any, c: float, iterations: int) -> Any:
    """Weights (c, d + 1) that minimize the mean cross-entropy plus an L2 penalty; absent classes are ignored."""
    import torch

    weights.requires_grad_(True)
    optimizer = torch.optim.LBFGS(
        [weights], max_iter=iterations, history_size=10, tolerance_grad=1e-5, line_search_fn="strong_wolfe"
    )

    def objective() -> Any:
        optimizer.zero_grad()
        logits = (x @ weights[:, :-1].T + weights[:, -1]).masked_fill(absent, -1e30)
        penalty = weights[:, :-1].square().sum() / (2 * c * len(y))
        loss = torch.nn.functional.cross_entropy(logits, y) + penalty
        loss.backward()
        return loss

    optimizer.step(objective)
    return weights.detach()
