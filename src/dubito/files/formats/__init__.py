"""One file a format: each opens a path as a `dubito.files.entries.Source`; `dubito.files.opening` has the list."""
