"""What is trained on the labels, every kind by its name."""
