"""dubito inside other people's tools: a file a tool, imported only by who uses it."""
