"""The engine `cpu`: the lazy algorithm with kernels on NumPy and BLAS."""
