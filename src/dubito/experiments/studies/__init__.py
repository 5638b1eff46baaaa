"""Experiments of our own, ready to run: a TOML file each, as ``dubito run`` takes it by its name."""
