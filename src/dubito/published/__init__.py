"""Published query strategies, for comparisons, and an oracle that knows all labels.

Nothing imports this package. It registers its strategies by the entry points in ``pyproject.toml``, as any plug-in
does. Each follows its paper and its authors' code, even where dubito's own strategies decide otherwise; the module
docstrings name the exceptions.
"""
