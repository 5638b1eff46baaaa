"""The paper's figures, tables and claims, with the toy data, image sets, VGG16 and experiments that only they need.

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
