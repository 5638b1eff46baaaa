"""The labelling page in a real browser: `make page`."""
