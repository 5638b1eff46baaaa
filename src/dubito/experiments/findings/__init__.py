"""What rounds show: curves, paired tests, labels saved, and the finding in a sentence. Needs records alone."""
