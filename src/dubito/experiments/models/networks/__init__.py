"""PyTorch networks: training, and checks of the user's modules."""
