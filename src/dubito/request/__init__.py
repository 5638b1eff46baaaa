"""What a caller passes: arrays, ids and labels, checked."""
