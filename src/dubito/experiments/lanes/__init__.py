"""Networks trained side by side on a GPU, and the cells that share a training."""
