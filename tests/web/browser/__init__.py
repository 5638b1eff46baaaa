"""The labeling page in a real browser: `make page`."""
