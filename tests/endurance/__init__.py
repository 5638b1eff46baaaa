"""What labels must live through: kills, crowds, wrong requests, an hour of a person's work, and large pools.

Short forms are among the tests; ``make labelling`` runs the long ones and records what they found.
"""
