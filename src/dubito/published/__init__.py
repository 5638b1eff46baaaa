"""Published query strategies, for comparisons, and an oracle that knows all labels.

Nothing imports this package. It registers its strategies by the entry points in ``pyproject.toml``, as any plug-in
does. Each follows its paper and its authors' code, also where dubito would decide differently; the module docstrings
say where it cannot.
"""
