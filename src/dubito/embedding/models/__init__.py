"""The embedders: one file a kind, and the dictionary of their names."""
