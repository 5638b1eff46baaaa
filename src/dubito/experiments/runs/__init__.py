"""Playing what is left of an experiment, here or in several processes."""
