"""What labels must live through: faults of every part, crowds, wrong requests, a person's hour, and large pools.

Short forms are among the tests; ``make faults-labeling`` runs the long ones and records what they found.
"""
