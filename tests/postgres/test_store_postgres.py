"""The tests of the store, in PostgreSQL."""

from labelling import test_store

globals().update({name: test for name, test in vars(test_store).items() if name.startswith("test_")})
