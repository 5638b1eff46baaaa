"""BADGE's gradients as points: distances among some, and of all to the nearest."""
