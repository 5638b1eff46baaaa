"""What a command does once its options are read.

`picking` is select's, `playing` run's and resume's, `replaying` simulate's and the demo's, `reporting` everyone's.
"""
