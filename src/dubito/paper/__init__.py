"""The paper's figures, tables and claims, and what only they need: toys, image sets, VGG16, experiments.

Nothing imports this package. It registers itself by the entry points in ``pyproject.toml``, as any plug-in does.
`exhibits.exhibits` lists the figures, and `exhibits.Exhibit.build` returns the study that measures one.
"""

from dubito.registry import Command

__all__ = ["REPRODUCE"]

REPRODUCE = Command(
    "dubito.paper.reproduce:reproduce",
    "Measure the paper's figures again, and check their claims.",
    "Measure and compare",
)
