"""One file a format: each opens a path as a `dubito.io.source.Source`; `dubito.io.opening` has the list."""
