"""``torch``: any network of one's own, by the import path of what makes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, cast

from dubito.errors import DubitoError, InvalidArgument
from dubito.experiments.chance import draw
from dubito.experiments.models.base import Fitted, Lesson
from dubito.experiments.models.networks.devices import steady
from dubito.experiments.models.networks.network import Network, fit_network
from dubito.imports import check_options, import_object

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Torch(Network):
    """Any module, by the import path of what makes it."""

    factory: str
    """Called with ``n_classes`` and the options; returns a ``torch.nn.Module`` that gives logits (n, c)."""
    head: str
    """Name of its last module, as ``named_modules`` has it: its input is the feature, its output the logits."""
    options: Mapping[str, object] = field(default_factory=dict)
    kind: ClassVar[str] = "torch"

    def __post_init__(self) -> None:
        Network.__post_init__(self)
        factory = import_object("factory", self.factory)
        check_options("factory", self.factory, factory, self.options)

    def network(self, n_classes: int, seed: int) -> "torch.nn.Module":
        """The module before any training, with weights drawn by the seed."""
        with steady(draw(seed, "weights"), self.training.device):
            made = self._make(n_classes)
        names = [name for name, _ in made.named_modules(remove_duplicate=False) if name]
        if self.head not in names:
            raise InvalidArgument(
                f"is no module of {self.factory}", argument="head", value=self.head, mend=f"it has {', '.join(names)}."
            )
        return cast("torch.nn.Module", made)

    def _make(self, n_classes: int) -> Any:
        import torch

        try:
            made = import_object("factory", self.factory)(n_classes=n_classes, **self.options)
        except DubitoError:
            raise
        except Exception as error:
            raise InvalidArgument(
                f"failed when called with n_classes={n_classes}{' and the options' if self.options else ''}: "
                f"{type(error).__name__}: {error}. Mend it there.",
                argument="factory",
                value=self.factory,
            ) from error
        if not isinstance(made, torch.nn.Module):
            raise InvalidArgument(
                f"returned {type(made).__name__}",
                argument="factory",
                value=self.factory,
                mend="return a torch.nn.Module.",
            )
        return made

    def fit(self, lesson: Lesson) -> Fitted:
        """As long as the module takes."""
        return fit_network(self, lesson)
