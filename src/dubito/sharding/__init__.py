"""Pools in shards that no process holds whole: what they are, and selecting from them on a Ray cluster."""
