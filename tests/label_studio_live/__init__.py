"""A real Label Studio, people who label in it, and everything that may go wrong between it and dubito.

``make label-studio-test`` installs the server into an environment of its own and plays this.
"""
