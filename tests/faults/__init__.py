"""The campaign of faults: kills, full disks, damaged files, crowds and bombs, against the real program.

``make faults-files`` plays all of it and writes ``docs/results/faults.md``; ``tests/faults/test_faults.py`` plays a
little of everything. The oracle is always the same: the answer of the undamaged, or what an independent reader finds in
the damaged file, or a refusal in one line with exit code 1, 2 or 3. Anything else is a fault.
"""
